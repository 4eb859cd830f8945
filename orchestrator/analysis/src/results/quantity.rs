//! Headings and order of quantities and factors.

use cvc_core::{
    app::descriptor::Better,
    measured::{Shown, family, shown},
    point::Point,
};

pub(crate) use cvc_core::measured::Tier;

/// Returns the heading of a quantity. Figures of merit keep their own names.
pub(crate) fn heading(quantity: &str) -> String {
    if let Some((_, Shown { heading, .. })) = shown(quantity) {
        return (*heading).to_owned();
    }
    match family(quantity) {
        Some((_, Some(word), labels)) => format!("{word} {}", labels.replace('_', ", ")),
        _ => quantity.to_owned(),
    }
}

/// Returns the tier of a quantity and its better direction. `declared` contains the directions in the descriptors of the applications that print the
/// quantity.
pub(crate) fn standing(quantity: &str, declared: &[Option<Better>]) -> (Tier, Option<Better>) {
    if let Some((_, of)) = shown(quantity).filter(|(_, of)| of.tier == Tier::Main) {
        return (of.tier, of.better);
    }
    match declared.iter().flatten().next() {
        None => (Tier::Secondary, None),
        // If applications declare different directions, there is none.
        first => (
            Tier::Merit,
            first
                .copied()
                .filter(|b| declared.iter().flatten().all(|d| d == b)),
        ),
    }
}

/// Returns the sort key of a quantity: main quantities as listed, then figures of merit, then the others; zones are last.
pub(crate) fn order(quantity: &str, tier: Tier) -> (Tier, usize, String) {
    let last = usize::MAX - usize::from(family(quantity).is_none());
    let place = shown(quantity).map_or(last, |(place, _)| place);
    (tier, place, quantity.to_owned())
}

/// Returns a description of the better direction.
pub(crate) fn direction(better: Option<Better>) -> Option<&'static str> {
    match better? {
        Better::Lower => Some("lower is better"),
        Better::Higher => Some("higher is better"),
        Better::Neither => None,
    }
}

/// Returns the heading of a factor.
pub(crate) fn factor_heading(factor: &str) -> String {
    let built_in = Point::FACTOR_INFO.iter().find(|info| info.name == factor);
    built_in.map_or(factor, |info| info.heading).to_owned()
}

/// Returns the name of a factor's column in data files, as in the index: the campaign's own factors have a prefix.
pub(crate) fn factor_column(factor: &str) -> String {
    if Point::FACTORS.contains(&factor) {
        factor.to_owned()
    } else {
        format!("user_{factor}")
    }
}

/// Describes a level of a factor for texts that do not show the factor's name.
pub(crate) fn level(factor: &str, level: &str) -> String {
    match factor {
        "aggregators" => format!("{level} aggregator{}", if level == "1" { "" } else { "s" }),
        "cb_buffer" => format!("{level} buffer"),
        "processes" => format!("{level} process{}", if level == "1" { "" } else { "es" }),
        "compression" if level == "none" => "uncompressed".to_owned(),
        "checkpointer" if level == "none" => "no checkpoint".to_owned(),
        "restart_check" => if level == "true" {
            "restarted"
        } else {
            "not restarted"
        }
        .to_owned(),
        "tracer" if level == "none" => "untraced".to_owned(),
        "moment" if level == "-" => "no moment".to_owned(),
        "site" | "app" | "class" | "mapping" | "mpi" | "checkpointer" | "compression"
        | "storage" | "moment" | "tracer" => level.to_owned(),
        other => format!("{other} {level}"),
    }
}
