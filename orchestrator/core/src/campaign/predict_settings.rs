//! Reads `[predict]`, and checks it against the points of the campaign.

use super::{
    build::Known,
    checker::Checker,
    expansion::Combination,
    factor::{Entry, conditions_of},
    level,
    predict::{PredictSettings, Role, When, any},
    spec::Spec,
};
use crate::{
    quantity::Quantity,
    source::{Span, suggestion},
};
use indexmap::IndexMap;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Keys of the section.
const KEYS: [&str; 4] = ["train", "held_out", "max_error", "min_coverage"];

/// Maximum of an error bound, percent; a larger bound is meaningless.
const LARGEST_ERROR_PCT: f64 = 1000.0;

/// Reads the section; `None` if there is none, or after an error.
pub fn read(check: &mut Checker<'_>, table: &DeTable<'_>) -> Option<PredictSettings> {
    let value = table.get("predict")?;
    let Some(section) = value.get_ref().as_table() else {
        let message = format!("expected a table, found {}", level::kind(value.get_ref()));
        check.fail(
            Some(value.span()),
            message,
            "write [predict] with `train`, as in train = [{ processes = [1, 4, 9] }]",
        );
        return None;
    };
    for (key, _) in section {
        let name = key.get_ref().as_ref();
        if !KEYS.contains(&name) {
            check.fail(
                Some(key.span()),
                format!("unknown key `{name}`"),
                suggestion(name, "known keys here", KEYS),
            );
        }
    }
    let train = match section.get("train") {
        Some(train) => conditions(check, "train", train),
        None => {
            let hint = "give the points that models are fitted on, as in train = [{ processes = [1, 4, 9] }]";
            check.fail(Some(value.span()), "the key `train` is missing", hint);
            Vec::new()
        }
    };
    let held_out = section
        .get("held_out")
        .map(|value| conditions(check, "held_out", value));
    let max_error_pct = section
        .get("max_error")
        .map(|value| bounds(check, value))
        .unwrap_or_default();
    let min_coverage_pct = section.get("min_coverage").and_then(|value| {
        let hint = "write a share of the held-out cells in percent, above 0 and at most 100, as in min_coverage = 90";
        percent(check, "min_coverage", value, 100.0, hint)
    });
    Some(PredictSettings {
        train,
        held_out,
        max_error_pct,
        min_coverage_pct,
    })
}

/// Reads a list of tables that have the form of `when`.
fn conditions(check: &mut Checker<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<When> {
    let hint = format!(
        "write a list of tables as in an [[exclude]]'s `when`, as in {key} = [{{ processes = [1, 4, 9] }}]"
    );
    let DeValue::Array(list) = value.get_ref() else {
        check.fail(
            Some(value.span()),
            format!(
                "expected a list of conditions, found {}",
                level::kind(value.get_ref())
            ),
            hint,
        );
        return Vec::new();
    };
    if list.is_empty() {
        check.fail(
            Some(value.span()),
            format!("the list `{key}` is empty"),
            hint,
        );
        return Vec::new();
    }
    let mut all = Vec::new();
    for item in list.iter() {
        match item.get_ref().as_table() {
            None => {
                check.fail(
                    Some(item.span()),
                    format!(
                        "expected a condition, found {}",
                        level::kind(item.get_ref())
                    ),
                    hint.clone(),
                );
            }
            Some(inner) if inner.is_empty() => {
                let message = format!("a condition of `{key}` is empty and would match everything");
                check.fail(
                    Some(item.span()),
                    message,
                    "give at least one factor, as in { processes = 4 }",
                );
            }
            Some(inner) => all.push(When {
                entries: conditions_of(check, inner),
                span: item.span(),
            }),
        }
    }
    all
}

fn bounds(check: &mut Checker<'_>, value: &Spanned<DeValue<'_>>) -> IndexMap<Quantity, f64> {
    let mut bounds = IndexMap::new();
    let Some(table) = value.get_ref().as_table() else {
        let message = format!(
            "expected a table of quantities, found {}",
            level::kind(value.get_ref())
        );
        check.fail(
            Some(value.span()),
            message,
            "write percents by quantity, as in max_error = { image = 1.0, stored = 2.0 }",
        );
        return bounds;
    };
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some(quantity) = Quantity::named_short(name) else {
            let hint = suggestion(name, "quantities", Quantity::judged().map(Quantity::short));
            check.fail(Some(key.span()), format!("unknown quantity `{name}`"), hint);
            continue;
        };
        let hint = "write the maximum mean error in percent, above 0 and at most 1000, as in 1.0";
        if let Some(bound) = percent(check, name, value, LARGEST_ERROR_PCT, hint) {
            bounds.insert(quantity, bound);
        }
    }
    bounds
}

fn percent(
    check: &mut Checker<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    most: f64,
    hint: &str,
) -> Option<f64> {
    match check.source.decode::<f64>(value) {
        Ok(percent) if percent > 0.0 && percent <= most => return Some(percent),
        Ok(percent) => check.fail(
            Some(value.span()),
            format!("`{key}` is {percent} percent"),
            hint,
        ),
        Err(e) => check.errors.push(e),
    }
    None
}

/// Checks all points: each set of conditions must match a point, no point may be both training and held-out, and there must be points of both kinds.
pub fn check_points(
    check: &mut Checker<'_>,
    spec: &Spec,
    settings: &PredictSettings,
    section: Option<Span>,
) {
    let held_out = settings.held_out.as_deref().unwrap_or_default();
    let mut used = [
        vec![false; settings.train.len()],
        vec![false; held_out.len()],
    ];
    let (mut judged, mut both) = (0usize, None);
    for combination in spec.expand() {
        let Combination::Runs { point, .. } = combination else {
            continue;
        };
        for (used, conditions) in used.iter_mut().zip([&settings.train[..], held_out]) {
            for (used, condition) in used.iter_mut().zip(conditions) {
                *used |= condition.matches(&point);
            }
        }
        let trains = any(&settings.train, &point);
        if settings.role(&point) == Some(Role::HeldOut) {
            judged += 1;
        }
        if trains && both.is_none() {
            both = held_out
                .iter()
                .find(|w| w.matches(&point))
                .map(|w| (point.clone(), w.span.clone()));
        }
    }
    let unmatched = used.iter().flatten().any(|used| !used);
    for (key, used, conditions) in [
        ("train", &used[0], &settings.train[..]),
        ("held_out", &used[1], held_out),
    ] {
        for condition in used
            .iter()
            .zip(conditions)
            .filter(|(used, _)| !**used)
            .map(|(_, c)| c)
        {
            let hint = "compare with [matrix] and [[points]]; `cvc plan` without [predict] shows the points that run";
            check.fail(
                Some(condition.span.clone()),
                format!("this condition of `{key}` matches no point that runs"),
                hint,
            );
        }
    }
    if let Some((point, span)) = both {
        let message = format!(
            "the point {} is both a training point and held out",
            point.label()
        );
        check.fail(
            Some(span),
            message,
            "models must be tested on other points: `train` and `held_out` must not overlap",
        );
    } else if judged == 0 && !unmatched {
        let hint = "leave at least one point out of `train`, or add one to [matrix] or [[points]]";
        check.fail(
            section,
            "no point is held out: every point is a training point",
            hint,
        );
    }
}

/// Returns the conditions of rules and of `[predict]`, whose names must be checked: a misspelt name would silently match fewer points.
pub fn entries_of<'a>(
    known: &'a Known<'_>,
    settings: Option<&'a PredictSettings>,
) -> impl Iterator<Item = &'a Entry> {
    known
        .rules
        .iter()
        .flat_map(|r| &r.when)
        .chain(settings.into_iter().flat_map(PredictSettings::entries))
}
