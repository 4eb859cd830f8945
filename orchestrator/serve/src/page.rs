//! A campaign as HTML. The pages contain no script. The overview reloads every few seconds until the campaign is finished.

use crate::snapshot::{Snapshot, SnapshotPoint};
use cvc_core::{
    units::{counted, dollars, duration, size},
    visible::visible,
};
use cvc_session::explanation::Explanation;
use handlebars::{Handlebars, RenderError};
use serde::Serialize;
use serde_json::json;

const OVERVIEW: &str = include_str!("../../../templates/serve/overview.html.hbs");
const RUN: &str = include_str!("../../../templates/serve/run.html.hbs");
const STYLE: &str = include_str!("../../../templates/serve/serve.css");

/// Time after which a browser reloads the overview, seconds.
const REFRESH_S: u32 = 5;

/// Content-Security-Policy of the pages: it only allows inline style.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn rendered(template: &str, values: &serde_json::Value) -> Result<String, RenderError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine
        .register_template_string("page", template)
        .map_err(RenderError::from)?;
    // reasons and outputs of programs may contain control characters
    Ok(visible(&engine.render("page", values)?).into_owned())
}

/// Which columns of the table of points are shown because they are not empty.
#[derive(Clone, Copy, Serialize)]
struct Columns {
    failed: bool,
    skipped: bool,
    left: bool,
    wall: bool,
    checkpoint: bool,
    stored: bool,
}

/// Returns the rows of the table of points, for the template.
fn points(snapshot: &Snapshot, shown: Columns) -> Vec<serde_json::Value> {
    let or_dash =
        |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), show);
    let row = |point: &SnapshotPoint| {
        let counts = point.counts;
        let numbers = [
            (true, counts.succeeded.to_string()),
            (shown.failed, counts.failed.to_string()),
            (shown.skipped, counts.skipped.to_string()),
            (shown.left, counts.left.to_string()),
            (shown.wall, or_dash(point.wall_s, duration)),
            (shown.checkpoint, or_dash(point.ckpt_latency_s, duration)),
            (shown.stored, or_dash(point.ckpt_stored_bytes, size)),
        ];
        let numbers = numbers.into_iter().filter(|(is_shown, _)| *is_shown);
        json!({
            "levels": point.factors.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            "numbers": numbers.map(|(_, text)| text).collect::<Vec<_>>(),
        })
    };
    snapshot.points.iter().map(row).collect()
}

/// Returns the page with the progress of a campaign.
pub(crate) fn overview(snapshot: &Snapshot, has_report: bool) -> Result<String, RenderError> {
    let open: Vec<_> = snapshot
        .open
        .iter()
        .map(|run| {
            let nodes = if run.nodes.is_empty() {
                "this machine".to_owned()
            } else {
                run.nodes.join(" ")
            };
            json!({ "run": run.run, "point": run.point, "attempt": run.attempt, "since": run.since, "nodes": nodes })
        })
        .collect();
    let shown = Columns {
        failed: snapshot.counts.failed > 0,
        skipped: snapshot.counts.skipped > 0,
        left: snapshot.counts.left > 0,
        wall: snapshot.points.iter().any(|p| p.wall_s.is_some()),
        checkpoint: snapshot.points.iter().any(|p| p.ckpt_latency_s.is_some()),
        stored: snapshot
            .points
            .iter()
            .any(|p| p.ckpt_stored_bytes.is_some()),
    };
    rendered(
        OVERVIEW,
        &json!({
            "style": STYLE,
            "refresh": (!snapshot.completed).then_some(REFRESH_S),
            "campaign": snapshot.campaign,
            "state": snapshot.activity.to_string(),
            "done": snapshot.done_pct,
            "runs": counted(snapshot.counts.all(), "run"),
            "counts": snapshot.counts,
            "time_left": snapshot.left_s.map(duration),
            "last_entry": snapshot.last_entry,
            "usd": snapshot.usd.map(dollars),
            "instances": snapshot.instances,
            "open": open,
            "factors": snapshot.points.first().map_or_else(Vec::new, |point| point.factors.iter().map(|(name, _)| name.as_str()).collect()),
            "shown": shown,
            "points": points(snapshot, shown),
            "failures": snapshot.failures,
            "has_report": has_report,
        }),
    )
}

/// Returns the page of a run, with the reason for its state.
pub(crate) fn run(
    explanation: &Explanation,
    output: &[(&str, String)],
) -> Result<Option<String>, RenderError> {
    let Explanation::Run(run) = explanation else {
        return Ok(None);
    };
    let attempts: Vec<_> = run
        .attempts
        .iter()
        .map(|a| {
            json!({
                "number": a.number,
                "started": a.started.clone().unwrap_or_else(|| "-".to_owned()),
                "took": a.took_s.map_or_else(|| "-".to_owned(), cvc_core::units::duration),
                "nodes": if a.nodes.is_empty() { "this machine".to_owned() } else { a.nodes.join(" ") },
                "end": a.end,
            })
        })
        .collect();
    let output: Vec<_> = output
        .iter()
        .map(|(name, text)| json!({ "name": name, "text": text }))
        .collect();
    rendered(
        RUN,
        &json!({
            "style": STYLE, "run": run.run, "point": run.point, "repeat": run.repeat, "state": run.state, "why": run.why,
            "attempts": attempts, "output": output,
        }),
    )
    .map(Some)
}
