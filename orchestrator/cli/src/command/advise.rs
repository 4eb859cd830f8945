//! `cvc advise`

use crate::{
    args::AdviseArgs,
    command::{report::formats, sides},
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, tell},
    text::shown,
};
use cvc_analysis::{
    advice::{Advice, SCHEMA, Wishes, advice_report, advise as advise_upon},
    comparison::Side,
};
use cvc_core::units::{counted, dollars, duration, size};
use cvc_show::write_all;
use cvc_show::{Blocks, Table};
use serde::Serialize;

/// Candidates that are listed at most; JSON and reports have all.
const LISTED: usize = 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    schema: u32,
    advice: &'a [Advice],
}

pub fn advise(args: &AdviseArgs) -> Result<ExitStatus, Failure> {
    let sides: Vec<Side> = sides::open(&args.sides, &args.which, &args.place)?
        .into_iter()
        .map(|open| open.side)
        .collect();
    let wishes = Wishes {
        times: args.times,
        deadline_s: args.deadline,
        budget_usd: args.budget,
        overhead: args.overhead,
        mtbf_s: args.mtbf,
        walltime_s: args.walltime,
        notice_s: args.notice,
        prices: args.price.iter().cloned().collect(),
    };
    let mut advice = advise_upon(&sides, &wishes);
    let programs: Vec<String> = advice.iter().map(|a| a.program.clone()).collect();
    if let Some(app) = &args.app {
        advice.retain(|a| {
            a.program == *app
                || a.program
                    .rsplit_once('.')
                    .is_some_and(|(name, _)| name == app)
        });
    }
    if advice.is_empty() {
        return Err(nothing(&programs, args));
    }
    if let Some(to) = &args.to {
        let title = format!("What to take: {}", args.sides.join(", "));
        for file in write_all(&advice_report(&title, &advice)?, to, &formats(&args.format))? {
            if !args.json {
                tell(shown(&file));
            }
        }
    }
    let printed = Printed {
        schema: SCHEMA,
        advice: &advice,
    };
    output::answer(args.json, &printed, |out| {
        for (i, one) in advice.iter().enumerate() {
            if i > 0 {
                out.gap();
            }
            show(out, one);
        }
    })?;
    Ok(ExitStatus::Done)
}

fn nothing(programs: &[String], args: &AdviseArgs) -> Failure {
    match &args.app {
        Some(app) if !programs.is_empty() => Failure::Other {
            status: ExitStatus::Usage,
            message: format!("`{app}` has no runs with a wall time there"),
            hint: Some(format!("measured are: {}", programs.join(", "))),
        },
        Some(_) | None => Failure::Other {
            status: ExitStatus::Model,
            message: format!("no run of {} has a wall time", args.sides.join(", ")),
            hint: Some("advice needs runs that end by themselves; runs that end at their checkpoint (size-only, restarted) have no wall time".into()),
        },
    }
}

fn show(out: &mut Blocks, advice: &Advice) {
    out.say(&advice.sentence);
    out.gap();
    let mut rows = Table::plain(["candidate", "time", "cost", "stored", "place", "remarks"])
        .wrap(&["candidate", "remarks"]);
    for c in advice.candidates.iter().take(LISTED) {
        let cost = c
            .cost_usd
            .map_or_else(|| "-".to_owned(), |cost| dollars(cost.value));
        let stored = c.storage_bytes.map_or_else(
            || "-".to_owned(),
            |bytes| {
                if bytes.value > 0.0 {
                    size(bytes.value)
                } else {
                    "nothing".to_owned()
                }
            },
        );
        rows.row([
            &c.label,
            &duration(c.time_s.value),
            &cost,
            &stored,
            c.place(),
            &c.remarks.join("; "),
        ]);
    }
    out.table(rows);
    if advice.candidates.len() > LISTED {
        out.line(format!(
            "and {} more; --json has all",
            advice.candidates.len() - LISTED
        ));
    }
    for next in &advice.next {
        let cost = next
            .cost_usd
            .map_or_else(String::new, |usd| format!(", {}", dollars(usd)));
        let text = format!(
            "To decide between {} and {}: {} of each ({}{cost}).",
            next.between[0],
            next.between[1],
            counted(next.repeats, "more repeat"),
            duration(next.time_s)
        );
        out.say(text);
    }
}
