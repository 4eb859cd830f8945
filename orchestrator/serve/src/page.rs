//! A campaign as HTML. The pages have no script; the overview is loaded again every few seconds as long as the campaign goes on.

use crate::snapshot::Snapshot;
use cvc_core::{
    units::{counted, dollars},
    visible::visible,
};
use cvc_session::explanation::Explanation;
use handlebars::{Handlebars, RenderError};
use serde_json::json;

const OVERVIEW: &str = include_str!("../../../templates/serve/overview.html.hbs");
const RUN: &str = include_str!("../../../templates/serve/run.html.hbs");
const STYLE: &str = include_str!("../../../templates/serve/serve.css");

/// Seconds after which a browser asks again.
const REFRESH_S: u32 = 5;

/// What pages may do: nothing but have this style.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn rendered(template: &str, values: &serde_json::Value) -> Result<String, RenderError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine
        .register_template_string("page", template)
        .map_err(RenderError::from)?;
    // reasons and outputs of programs have control characters
    Ok(visible(&engine.render("page", values)?).into_owned())
}

/// The progress of a campaign.
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
    rendered(
        OVERVIEW,
        &json!({
            "style": STYLE,
            "refresh": (!snapshot.completed).then_some(REFRESH_S),
            "campaign": snapshot.campaign,
            "state": if snapshot.completed { "complete" } else { "under way, or stopped" },
            "done": format!("{:.0}", snapshot.done_pct.floor()),
            "succeeded": counted(snapshot.succeeded, "run"),
            "failed": snapshot.failed,
            "left": snapshot.left,
            "last_entry": snapshot.last_entry,
            "usd": snapshot.usd.map(dollars),
            "instances": snapshot.instances,
            "open": open,
            "points": snapshot.points,
            "failures": snapshot.failures,
            "has_report": has_report,
        }),
    )
}

/// Why a run is where it is.
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
