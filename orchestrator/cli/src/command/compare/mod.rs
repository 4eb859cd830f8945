//! `cvc compare`

mod history;

use crate::{
    args::{CompareArgs, CompareGate},
    command::{report::formats, sides},
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, tell},
    text::shown,
};
use camino::Utf8Path;
use cvc_analysis::comparison::{SideComparison, compare_sides, comparison_report};
use cvc_show::{Blocks, Table};
use cvc_show::{slug, write_all};
use serde::Serialize;

/// Version of what `--json` prints.
const SCHEMA: u32 = 1;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'c> {
    schema: u32,
    comparisons: &'c [SideComparison],
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<history::Step>>,
}

pub fn compare(args: &CompareArgs) -> Result<ExitStatus, Failure> {
    let mut sides = sides::open(&args.sides, &args.which, &args.place)?;
    if let Some(name) = &args.save {
        let file = sides::save(&sides[0], name)?;
        tell(format_args!("saved as @{name} ({})", shown(&file)));
        if sides.len() == 1 {
            return Ok(ExitStatus::Done);
        }
    }
    if let [alone] = sides.as_slice() {
        sides = sides::sites_of(alone)?;
    }
    let dates: Vec<Option<String>> = sides.iter().map(sides::OpenSide::date).collect();
    let pairs = (1..sides.len()).map(|i| (if args.history { i - 1 } else { 0 }, i));
    let comparisons = pairs
        .map(|(first, second)| {
            let all = compare_sides(&sides[first].side, &sides[second].side, args.margin);
            only(all, &args.quantity)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let steps = args
        .history
        .then(|| history::steps(&comparisons, &dates[1..]));
    if let Some(to) = &args.to {
        for file in write(&comparisons, to, args)? {
            if !args.json {
                tell(shown(&file));
            }
        }
    }
    let printed = Printed {
        schema: SCHEMA,
        comparisons: &comparisons,
        steps,
    };
    output::answer(args.json, &printed, |out| {
        if let Some(steps) = &printed.steps {
            return history::show(out, steps);
        }
        for (i, comparison) in comparisons.iter().enumerate() {
            if i > 0 {
                out.gap();
            }
            show(out, comparison, args.detail);
        }
    })?;
    Ok(verdict(&comparisons, args.gate))
}

/// The comparison of the quantities that are asked for.
fn only(comparison: SideComparison, quantities: &[String]) -> Result<SideComparison, Failure> {
    if quantities.is_empty() {
        return Ok(comparison);
    }
    let names: Vec<String> = comparison
        .quantities
        .iter()
        .map(|q| q.quantity.clone())
        .collect();
    comparison
        .only(quantities)
        .map_err(|unknown| Failure::Other {
            status: ExitStatus::Usage,
            message: format!("`{unknown}` is not measured on both sides"),
            hint: Some(if names.is_empty() {
                "the sides have no equal points with results".to_owned()
            } else {
                format!("compared are: {}", names.join(", "))
            }),
        })
}

fn write(
    comparisons: &[SideComparison],
    to: &Utf8Path,
    args: &CompareArgs,
) -> Result<Vec<camino::Utf8PathBuf>, Failure> {
    let mut files = Vec::new();
    for comparison in comparisons {
        // one comparison has the directory for itself
        let dir = match comparisons {
            [_] => to.to_owned(),
            _ => to.join(slug(&comparison.second)),
        };
        files.extend(write_all(
            &comparison_report(comparison)?,
            &dir,
            &formats(&args.format),
        )?);
    }
    Ok(files)
}

fn verdict(comparisons: &[SideComparison], gate: Option<CompareGate>) -> ExitStatus {
    let any = |found: fn(&SideComparison) -> bool| comparisons.iter().any(found);
    match gate {
        None => ExitStatus::Done,
        Some(CompareGate::Differs) if any(SideComparison::differs) => ExitStatus::Differs,
        Some(CompareGate::Worse) if any(SideComparison::is_worse) => ExitStatus::Differs,
        Some(_) if any(SideComparison::is_untold) => ExitStatus::CannotTell,
        Some(_) => ExitStatus::Done,
    }
}

fn show(out: &mut Blocks, comparison: &SideComparison, detail: bool) {
    let SideComparison { first, second, .. } = comparison;
    out.line(format!(
        "{second} against {first}: {} equal points, {} not compared",
        comparison.pairs,
        comparison.unmatched.len()
    ));
    out.gap();
    for answer in &comparison.answers {
        out.say(answer);
    }
    if !comparison.environment.is_empty() {
        let mut rows = Table::plain(["differs", first, second]).wrap(&[first, second]);
        for d in &comparison.environment {
            rows.row([&d.what, &d.first.join("; "), &d.second.join("; ")]);
        }
        out.gap();
        out.table(rows);
    }
    if !comparison.quantities.is_empty() {
        let mut rows = Table::plain(["quantity", "verdict", "change"]).wrap(&["verdict"]);
        for q in &comparison.quantities {
            let pct = |value: f64| format!("{value:+.1} %");
            let change = match (q.mean_change_pct, q.change_pct) {
                (Some(mean), Some((least, most))) if q.pairs > 1 && least != most => {
                    format!("{} ({} to {})", pct(mean), pct(least), pct(most))
                }
                (Some(mean), _) => pct(mean),
                (None, _) => "-".to_owned(),
            };
            rows.row([&q.heading, &q.words(), &change]);
        }
        out.gap();
        out.table(rows);
    }
    if detail {
        show_points(out, comparison);
    }
}

fn show_points(out: &mut Blocks, comparison: &SideComparison) {
    let mut rows = Table::plain(["quantity", "at", "verdict"]).wrap(&["at", "verdict"]);
    for row in &comparison.rows {
        rows.row([&row.quantity, &row.at, &row.words]);
    }
    out.gap();
    out.table(rows);
    if !comparison.unmatched.is_empty() {
        let mut rows = Table::plain(["side", "point", "not compared, because"]).wrap(&["point"]);
        for u in &comparison.unmatched {
            rows.row([&u.side, &u.point, &u.why]);
        }
        out.gap();
        out.table(rows);
    }
}
