//! `cvc compare`

mod history;

use crate::{
    args::{CompareArgs, CompareGate},
    ci::{Check, CheckList, CheckResult},
    command::{report::formats, sides},
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit},
    text::shown,
};
use camino::Utf8Path;
use cvc_analysis::comparison::{ComparedRow, SideComparison, compare_sides, comparison_report};
use cvc_show::{Blocks, Table};
use cvc_show::{slug, write_all};
use serde::Serialize;

/// Version of the output of `--json`.
const SCHEMA: u32 = 1;

/// The output of `--json`.
#[derive(Serialize)]
struct CompareOutput<'c> {
    schema: u32,
    comparisons: &'c [SideComparison],
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<history::Step>>,
}

pub fn compare(args: &CompareArgs) -> Result<ExitStatus, Failure> {
    let mut sides = sides::open(&args.sides, &args.which, &args.place)?;
    if let Some(name) = &args.save {
        let file = sides::save(&sides[0], name)?;
        emit(format_args!("saved as @{name} ({})", shown(&file)));
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
                emit(shown(&file));
            }
        }
    }
    let printed = CompareOutput {
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
    if args.ci.is_wanted() {
        checks(&comparisons, args.gate).write(&args.ci)?;
    }
    Ok(verdict(&comparisons, args.gate))
}

/// Returns each compared quantity as a check. With a gate, a check fails if the gate fails or is undecided.
fn checks(comparisons: &[SideComparison], gate: Option<CompareGate>) -> CheckList {
    let gate = gate.unwrap_or(CompareGate::Differs);
    let check = |comparison: &SideComparison, row: &ComparedRow| {
        let fails = match gate {
            CompareGate::Differs => row.outcome.differs(),
            CompareGate::Worse => row.is_worse(),
        };
        let result = if fails {
            CheckResult::Failed {
                message: row.words.clone(),
                detail: String::new(),
            }
        } else if row.outcome.is_unknown() {
            CheckResult::Skipped {
                why: row.words.clone(),
            }
        } else {
            CheckResult::Passed
        };
        Check {
            group: format!("{} against {}", comparison.second, comparison.first),
            name: format!("{} at {}", row.quantity, row.at),
            time_s: None,
            result,
        }
    };
    CheckList {
        title: "cvc compare".into(),
        checks: comparisons
            .iter()
            .flat_map(|c| c.rows.iter().map(move |row| check(c, row)))
            .collect(),
    }
}

/// Restricts the comparison to the requested quantities.
fn only(comparison: SideComparison, quantities: &[String]) -> Result<SideComparison, Failure> {
    if quantities.is_empty() {
        return Ok(comparison);
    }
    let names: Vec<String> = comparison
        .quantities
        .iter()
        .map(|q| q.quantity.clone())
        .collect();
    comparison.only(quantities).map_err(|error| Failure::Other {
        status: ExitStatus::Usage,
        message: error.to_string(),
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
        // a single comparison is written directly into the directory, several into subdirectories
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
        Some(_) if any(SideComparison::is_undecided) => ExitStatus::CannotTell,
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
        let mut rows =
            Table::plain(["quantity", "verdict", "change (range over points)"]).wrap(&["verdict"]);
        for q in &comparison.quantities {
            let pct = |value: f64| format!("{value:+.1} %");
            let change = match (q.mean_change_pct, q.change_pct) {
                (Some(mean), Some((least, most))) if q.pairs > 1 && least != most => {
                    format!("{} ({} to {})", pct(mean), pct(least), pct(most))
                }
                (Some(mean), _) => pct(mean),
                (None, _) => "-".to_owned(),
            };
            rows.row([&q.heading, &q.describe(), &change]);
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
