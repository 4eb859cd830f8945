//! `cvc compare --history`: where a series of campaigns takes a step, and what changed around the programs then.

use cvc_analysis::comparison::{EnvironmentDifference, SideComparison};
use cvc_show::{Blocks, Table};
use serde::Serialize;

/// A change from one side of the history to the next.
#[derive(Serialize)]
pub(super) struct Step {
    /// The quantity.
    quantity: String,
    /// The point.
    at: String,
    /// The side before the step.
    before: String,
    /// The first side after it.
    after: String,
    /// Its last line in the journal, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// How large it is, in words.
    step: String,
    /// What else is not the same as before; empty: nothing that is recorded.
    changed: Vec<EnvironmentDifference>,
}

/// The steps of neighbouring sides, in their order. `dates` are those of the second side of each comparison.
pub(super) fn steps(comparisons: &[SideComparison], dates: &[Option<String>]) -> Vec<Step> {
    comparisons
        .iter()
        .zip(dates)
        .flat_map(|(comparison, date)| {
            comparison
                .rows
                .iter()
                .filter(|row| row.outcome.differs())
                .map(move |row| Step {
                    quantity: row.quantity.clone(),
                    at: row.at.clone(),
                    before: comparison.first.clone(),
                    after: comparison.second.clone(),
                    date: date.clone(),
                    step: row.words.clone(),
                    changed: comparison.environment.clone(),
                })
        })
        .collect()
}

pub(super) fn show(out: &mut Blocks, steps: &[Step]) {
    if steps.is_empty() {
        return out.say("No step: no side differs from the one before it.");
    }
    let mut rows =
        Table::plain(["from", "to", "date", "quantity", "at", "step"]).wrap(&["at", "step"]);
    for step in steps {
        let day = step
            .date
            .as_deref()
            .and_then(|date| date.split('T').next())
            .unwrap_or("-");
        rows.row([
            step.before.as_str(),
            &step.after,
            day,
            &step.quantity,
            &step.at,
            &step.step,
        ]);
    }
    out.table(rows);
    let mut told = Vec::new();
    for step in steps {
        let names = (&step.before, &step.after);
        if told.contains(&names) {
            continue;
        }
        told.push(names);
        let changed: Vec<String> = step
            .changed
            .iter()
            .map(|d| {
                format!(
                    "{} from {} to {}",
                    d.what,
                    d.first.join("; "),
                    d.second.join("; ")
                )
            })
            .collect();
        let text = if changed.is_empty() {
            "nothing that is recorded changed around the programs".to_owned()
        } else {
            format!("what changed around the programs: {}", changed.join(", "))
        };
        out.gap();
        out.say(format!("{} to {}: {text}", step.before, step.after));
    }
}
