//! The effect of each factor over all points: a row for each pair of levels and quantity.

use super::strategies;
use crate::results::{
    counterpart::{CounterpartPair, compared_levels, pairs, ratio_groups, repeats},
    data::Data,
    quantity,
};
use cvc_core::{record::names, units::counted};
use cvc_model::stats::{PooledRatio, adjust_effects, pooled_ratio};
use cvc_show::{
    Cell, Column, Table,
    format::{MAX_PCT, level},
};

/// Maximum number of rows.
const MAX_ROWS: usize = 400;

/// Quantities whose effects are shown. Processor times are compared only between points whose runs end normally.
const QUANTITIES: [&str; 7] = [
    names::WALL_S,
    names::CKPT_LATENCY_S,
    names::CKPT_STOP_S,
    names::CKPT_STORED_BYTES,
    names::RESTART_LATENCY_S,
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
    columns.push(Column::plain("verdict", "verdict"));
    let mut effects = all(data);
    let level = level(adjust_effects(
        effects.iter_mut().map(|found| &mut found.effect),
    ));
    let caption = format!(
        "Effect of changing one factor with all others fixed: geometric mean, over points, of the first level divided by the second, \
         from repeats with the same number, minus 1. All points have equal weight. The interval is Student's t of the logarithms \
         over the repeats of these points (Welch-Satterthwaite; points with a counterpart in common count as one sample), or over points where \
         repeats are single. Intervals are adjusted for the number of rows (to {level}), and verdicts follow from them: of all effects reported as \
         larger or smaller, 5 % are due to chance on average, and of their intervals 95 % hold (Benjamini-Hochberg, Benjamini-Yekutieli)."
    );
    let mut table = Table::new("effects", "Effect of each factor", &caption, columns);
    if effects.len() > MAX_ROWS {
        table
            .caption
            .push_str(&format!(" Only the first {MAX_ROWS} are listed."));
    }
    for FactorEffect {
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

/// The effect of a factor on a quantity: one level compared with another level.
struct FactorEffect<'d> {
    factor: &'d str,
    level: &'d str,
    baseline: &'d str,
    quantity: &'static str,
    effect: PooledRatio,
}

/// Returns the effects of all factors.
fn all(data: &Data) -> Vec<FactorEffect<'_>> {
    let mut found = Vec::new();
    for factor in data.varying() {
        for (level, baseline) in compared_levels(data, factor) {
            // without strategies, the stop of the program equals the checkpoint time
            let has_stops = strategies::has_strategies(data);
            for quantity in QUANTITIES
                .into_iter()
                .filter(|of| has_stops || *of != names::CKPT_STOP_S)
            {
                let effect = effect(data, factor, level, baseline, quantity);
                found.extend(effect.map(|effect| FactorEffect {
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

/// Returns the effect of a factor on a quantity, over all points with an otherwise equal counterpart.
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
pub(super) fn compared(
    data: &Data,
    pairs: &[CounterpartPair],
    quantity: &str,
) -> Option<PooledRatio> {
    pooled_ratio(&ratio_groups(data, pairs, quantity))
}

/// Describes an effect as a verdict.
pub(super) fn verdict(effect: &PooledRatio) -> String {
    let pairs = counted(effect.pairs as u32, "pair");
    match effect.interval {
        None => no_interval(effect),
        Some(_) if effect.is_equal() => "the same".to_owned(),
        Some(_) if !effect.differs() => format!("no significant difference ({pairs})"),
        Some(_) if effect.change_pct() > MAX_PCT => {
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

/// Returns the reason why an effect has no interval.
pub(super) fn no_interval(effect: &PooledRatio) -> String {
    if effect.pairs == 1 {
        return "no interval: a single pair of runs".to_owned();
    }
    let needed = effect
        .pairs_needed()
        .map_or(String::new(), |n| format!(": {n} pairs needed"));
    format!(
        "{} of repeats scatter too much for an interval{needed}",
        counted(effect.pairs as u32, "pair")
    )
}

/// Minimum ratio that is shown as a multiple instead of a percentage.
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

/// Formats a percentage with two or three digits; above [`MAX_PCT`], as `over` this maximum.
pub(super) fn percent(value: f64) -> String {
    if value > MAX_PCT {
        return format!("over {MAX_PCT}");
    }
    let decimals = if value.abs() >= 99.5 {
        0
    } else if value.abs() >= 0.95 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    // omit the sign if all digits are zero
    match text.trim_start_matches('-') {
        "0.00" => "0.00".to_owned(),
        _ => text,
    }
}
