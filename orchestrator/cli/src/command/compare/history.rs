//! `cvc compare --history`: finds steps in a series of campaigns, and the changes of the environment at the same time.

use cvc_analysis::comparison::{EnvironmentDifference, SideComparison};
use cvc_show::{Blocks, Table};
use serde::Serialize;

/// A step: a change of a quantity from one side of the history to the next.
#[derive(Serialize)]
pub(super) struct Step {
    /// Name of the quantity.
    quantity: String,
    /// Label of the point.
    at: String,
    /// Name of the side before the step.
    before: String,
    /// Name of the first side after the step.
    after: String,
    /// Time of the last line in the later side's journal, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// Describes the size of the step.
    step: String,
    /// Differences in the environment between the two sides.
    changed: Vec<EnvironmentDifference>,
}

/// Returns the steps between neighbouring sides, in their order. `dates` has the date of the later side of each comparison.
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
        return out.say("No step: no side differs from the previous one.");
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
    let mut listed = Vec::new();
    for step in steps {
        let names = (&step.before, &step.after);
        if listed.contains(&names) {
            continue;
        }
        listed.push(names);
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
            "no recorded change in the environment".to_owned()
        } else {
            format!("changes in the environment: {}", changed.join(", "))
        };
        out.gap();
        out.say(format!("{} to {}: {text}", step.before, step.after));
    }
}
