//! The effect of each factor over all points: one row for two levels and a quantity.

use crate::results::{
    counterpart::{Pair, compared_levels, pairs, ratio_groups, repeats},
    data::Data,
    quantity,
};
use cvc_core::{record::names, units::counted};
use cvc_model::stats::{PooledRatio, adjust_effects, pooled_ratio};
use cvc_show::{
    Cell, Column, Table,
    format::{MOST_PCT, level},
};

/// Maximum number of rows.
const MAX_ROWS: usize = 400;

/// Quantities whose effects are shown. Processor time is compared only between points whose runs reach their end.
const QUANTITIES: [&str; 5] = [
    names::WALL_S,
    names::CKPT_LATENCY_S,
    names::CKPT_STORED_BYTES,
    names::RESTART_TO_END_S,
    names::CPU_S,
];

/// Builds the table of pooled effects.
pub(super) fn table(data: &Data) -> Table {
    let mut columns = ["factor", "compared", "with", "quantity"]
        .map(|c| Column::plain(c, c))
        .to_vec();
    columns.extend([
        Column::plain("points", "points"),
        Column::plain("pairs", "pairs"),
    ]);
    columns.extend(
        [
            ("effect", "effect"),
            ("effect_low", "adjusted 95 % from"),
            ("effect_high", "to"),
        ]
        .map(|(id, heading)| Column::of(id, heading, "%")),
    );
    columns.push(Column::plain("verdict", "in words"));
    let mut effects = all(data);
    let level = level(adjust_effects(
        effects.iter_mut().map(|found| &mut found.effect),
    ));
    let caption = format!(
        "What changes if one factor changes and all others stay: geometric mean, over points, of the first level divided by the second, \
         from repeats with the same number, less 1. Every point weighs the same. The interval is Student's t of the logarithms \
         over the repeats of these points (Welch-Satterthwaite; points with a counterpart in common count as one sample), or over points where \
         repeats are single. Intervals and words take the number of rows into account: they are at {level}, so that of all effects that are called \
         larger or smaller 5 % are chance on average, and of their intervals 95 % hold (Benjamini-Hochberg, Benjamini-Yekutieli)."
    );
    let mut table = Table::new("effects", "Effect of each factor", &caption, columns);
    if effects.len() > MAX_ROWS {
        table
            .caption
            .push_str(&format!(" Only the first {MAX_ROWS} are listed."));
    }
    for Found {
        factor,
        level: of_level,
        baseline,
        quantity: q,
        effect,
    } in effects.into_iter().take(MAX_ROWS)
    {
        let (low, high) = effect.interval_pct().unzip();
        table.rows.push(vec![
            Cell::text(quantity::factor_heading(factor)),
            Cell::text(quantity::level(factor, of_level)),
            Cell::text(quantity::level(factor, baseline)),
            Cell::text(quantity::heading(q)),
            Cell::count(effect.points),
            Cell::count(effect.pairs),
            Cell::number(effect.change_pct()),
            Cell::number(low),
            Cell::number(high),
            Cell::text(verdict(&effect)),
        ]);
    }
    table
}

/// The effect of one level of a factor on a quantity, compared with another.
struct Found<'d> {
    factor: &'d str,
    level: &'d str,
    baseline: &'d str,
    quantity: &'static str,
    effect: PooledRatio,
}

/// Finds the effects of all factors.
fn all(data: &Data) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    for factor in data.varying() {
        for (level, baseline) in compared_levels(data, factor) {
            for quantity in QUANTITIES {
                let effect = effect(data, factor, level, baseline, quantity);
                found.extend(effect.map(|effect| Found {
                    factor,
                    level,
                    baseline,
                    quantity,
                    effect,
                }));
            }
        }
    }
    found
}

/// Returns the effect of a factor on a quantity over all points that have a counterpart.
fn effect(
    data: &Data,
    factor: &str,
    level: &str,
    baseline: &str,
    quantity: &str,
) -> Option<PooledRatio> {
    let mut pairs = pairs(data, factor, level, baseline);
    pairs.retain(|pair| quantity != names::CPU_S || !repeats(data, pair, names::WALL_S).is_empty());
    compared(data, &pairs, quantity)
}

/// Returns the effect on a quantity over these pairs of points.
pub(super) fn compared(data: &Data, pairs: &[Pair], quantity: &str) -> Option<PooledRatio> {
    pooled_ratio(&ratio_groups(data, pairs, quantity))
}

/// Says what an effect is.
pub(super) fn verdict(effect: &PooledRatio) -> String {
    let pairs = counted(effect.pairs as u32, "pair");
    match effect.interval {
        None => no_interval(effect),
        Some(_) if effect.is_equal() => "the same".to_owned(),
        Some(_) if !effect.differs() => format!("no effect shown ({pairs})"),
        Some(_) if effect.change_pct() > MOST_PCT => {
            format!("{} as large", change(effect.ratio))
        }
        Some(_) => format!(
            "{} by {} %",
            if effect.ratio > 1.0 {
                "larger"
            } else {
                "smaller"
            },
            percent(effect.change_pct().abs())
        ),
    }
}

/// Says why an effect has no interval.
pub(super) fn no_interval(effect: &PooledRatio) -> String {
    if effect.pairs == 1 {
        return "a single pair of runs: no interval".to_owned();
    }
    let needed = effect
        .pairs_needed()
        .map_or(String::new(), |n| format!(": it takes {n}"));
    format!(
        "{} scatter too much for an interval{needed}",
        counted(effect.pairs as u32, "pair")
    )
}

/// From this ratio on, an effect is shown as a multiple.
pub(super) const MULTIPLE_FROM: f64 = 2.0;

/// Formats a ratio as a change in percent, or as a multiple.
pub(super) fn change(ratio: f64) -> String {
    if ratio >= MULTIPLE_FROM {
        format!("× {}", multiple(ratio))
    } else {
        format!("{} %", signed((ratio - 1.0) * 100.0))
    }
}

/// Formats a ratio with two or three digits.
pub(super) fn multiple(ratio: f64) -> String {
    let decimals = match ratio {
        ..9.95 => 2,
        ..99.5 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// Formats a percentage with its sign.
pub(super) fn signed(pct: f64) -> String {
    let sign = if pct > 0.0 { "+" } else { "" };
    format!("{sign}{}", percent(pct))
}

/// Formats a percentage with two or three digits; one beyond a thousand is none.
pub(super) fn percent(value: f64) -> String {
    if value > MOST_PCT {
        return format!("over {MOST_PCT}");
    }
    let decimals = if value.abs() >= 99.5 {
        0
    } else if value.abs() >= 0.95 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    // a sign before zeros would mislead
    match text.trim_start_matches('-') {
        "0.00" => "0.00".to_owned(),
        _ => text,
    }
}
