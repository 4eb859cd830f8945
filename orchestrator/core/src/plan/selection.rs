//! Selects the points that a session is limited to, by factors: `app=npb-bt processes=4,9`.

use super::Plan;
use crate::{ids::PointId, point::Point, source::suggestion};
use indexmap::{IndexMap, IndexSet};
use std::collections::HashSet;

/// The problem with a selection, and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError {
    /// The problem.
    pub message: String,
    /// How to correct it.
    pub hint: String,
}

/// The allowed values of each factor. A point must have one of them for every factor.
type Conditions = IndexMap<String, IndexSet<String>>;

/// Selects points of a plan. Each of `texts` has the form `FACTOR=VALUE[,VALUE...] ...`; a point is selected if it meets all conditions of at least
/// one text. A value is written as tables show it, with `-` instead of a blank: `moment=after-step-1`.
///
/// # Errors
/// A text does not have this form, or names a factor or value that no point has; or no point meets all conditions of a text.
pub fn select_points(plan: &Plan, texts: &[String]) -> Result<HashSet<PointId>, SelectionError> {
    let any: Vec<Conditions> = texts
        .iter()
        .map(|text| conditions(plan, text))
        .collect::<Result<_, _>>()?;
    let meets = |point: &Point, all: &Conditions| {
        all.iter()
            .all(|(factor, values)| value(point, factor).is_some_and(|v| values.contains(&v)))
    };
    let selected = plan
        .points
        .iter()
        .filter(|p| any.iter().any(|all| meets(&p.point, all)));
    let selected: HashSet<PointId> = selected.map(|p| p.id.clone()).collect();
    if selected.is_empty() {
        let message = format!("no point has {}", texts.join(", or "));
        return Err(SelectionError {
            message,
            hint: "`cvc plan` shows the points with their factors".to_owned(),
        });
    }
    Ok(selected)
}

fn conditions(plan: &Plan, text: &str) -> Result<Conditions, SelectionError> {
    let form = "write FACTOR=VALUE[,VALUE...], as in app=npb-bt processes=4,9";
    let wrong = |message: String, hint: String| Err(SelectionError { message, hint });
    let factors = factors(plan);
    let mut all = Conditions::new();
    for word in text.split_whitespace() {
        let Some((factor, values)) = word.split_once('=') else {
            return wrong(
                format!("`{word}` is not a valid condition"),
                form.to_owned(),
            );
        };
        if !factors.contains(&factor) {
            return wrong(
                format!("unknown factor `{factor}`"),
                suggestion(factor, "factors of this campaign", factors),
            );
        }
        let known: IndexSet<String> = plan
            .points
            .iter()
            .filter_map(|p| value(&p.point, factor))
            .collect();
        for wanted in values.split(',') {
            if !known.contains(wanted) {
                let hint = suggestion(
                    wanted,
                    &format!("values of {factor}"),
                    known.iter().map(String::as_str),
                );
                return wrong(format!("no point has {factor} `{wanted}`"), hint);
            }
            all.entry(factor.to_owned())
                .or_default()
                .insert(wanted.to_owned());
        }
    }
    if all.is_empty() {
        wrong("the condition is empty".to_owned(), form.to_owned())
    } else {
        Ok(all)
    }
}

/// Returns the names of the factors of a plan's points.
fn factors(plan: &Plan) -> IndexSet<&str> {
    let own = plan
        .points
        .iter()
        .flat_map(|p| p.point.user.keys().map(String::as_str));
    Point::FACTORS.iter().copied().chain(own).collect()
}

/// Returns the value of a factor as one word.
fn value(point: &Point, factor: &str) -> Option<String> {
    point.factor(factor).map(|value| value.replace(' ', "-"))
}
