//! Answers about the factors of the campaign, in sentences with intervals: the overhead of checkpoints, the savings and costs of compression, the
//! growth of sizes and times with the number of processes, and the effects of other factors. The page begins with these answers, and `cvc run` ends
//! with them.

use super::{
    effects::{MULTIPLE_FROM, change, compared, multiple, no_interval, signed},
    late_images, prediction, restart_counts,
};
use crate::results::{
    counterpart::{CounterpartPair, compared_levels, pairs},
    data::Data,
    quantity,
};
use cvc_core::point::FactorId;
use cvc_core::{record::names, units::counted};
use cvc_model::stats::{LEVEL, PooledRatio, adjust_effects};

/// Relative differences below this are negligible: they round to zero in two decimals of a percentage.
const NEGLIGIBLE: f64 = 0.5e-4;

/// Maximum number of levels of a factor that are each compared with the first level.
const MAX_LEVELS: usize = 4;

/// Factors for which the overhead of checkpoints is stated separately at each level, because a mean over the levels would describe no level.
const SPLIT: [&str; 2] = ["site", "compression"];

/// Factors without an answer here: programs differ in everything, and restarts are counted instead.
const EXCLUDED: [&str; 5] = ["app", "class", "checkpointer", "restart_check", "processes"];

/// Quantities of an answer, with the names used in it.
const QUANTITIES: [(&str, &str); 3] = [
    (names::CKPT_STORED_BYTES, "stored size"),
    (names::CKPT_LATENCY_S, "checkpoint time"),
    (names::WALL_S, "wall time"),
];

/// Quantities of an answer about strategies: an asynchronous checkpoint stops the program for less time than the whole checkpoint takes.
const OF_STRATEGIES: [(&str, &str); 3] = [
    (names::CKPT_STOP_S, "stop of the program"),
    (names::CKPT_LATENCY_S, "time until a checkpoint is safe"),
    (names::WALL_S, "wall time"),
];

/// An answer, from which sentences are made.
struct Answer {
    /// The levels compared.
    what: String,
    /// The quantities that differ, with the ratio of each.
    effects: Vec<(&'static str, PooledRatio)>,
}

/// Returns the answers in the order of the factors, each with its subject.
pub(super) fn of(data: &Data) -> Vec<(String, String)> {
    let mut answers = overheads(data);
    for factor in data.varying().into_iter().filter(|f| !EXCLUDED.contains(f)) {
        answers.extend(of_factor(data, factor));
    }
    // adjust each effect for the number of all effects listed here
    adjust_effects(
        answers
            .iter_mut()
            .flat_map(|answer| answer.effects.iter_mut().map(|(_, effect)| effect)),
    );
    let mut lines: Vec<(String, String)> = answers.into_iter().flat_map(describe).collect();
    lines.extend(not_measured(data));
    let restarts = restart_counts::of_all(data);
    lines.extend(
        (restarts.tried > 0).then(|| ("restarted and verified".to_owned(), restarts.shown())),
    );
    lines.extend(late_images::found(data));
    lines.extend(prediction::found(data));
    lines
}

/// Returns the effect of checkpoints on the wall time for each checkpointer, separately for the factors in [`SPLIT`].
fn overheads(data: &Data) -> Vec<Answer> {
    let mut answers = Vec::new();
    for level in checkpointers(data) {
        let pairs = pairs(data, "checkpointer", level, "none");
        // keep the order of the plan
        let mut groups: indexmap::IndexMap<Vec<(&str, &str)>, Vec<CounterpartPair>> =
            indexmap::IndexMap::new();
        for pair in pairs {
            let key = SPLIT
                .into_iter()
                .filter(|factor| data.varying().contains(factor))
                .map(|factor| (factor, data.points[pair.point].factor(factor)))
                .filter(|(_, level)| *level != "-")
                .collect();
            groups.entry(key).or_default().push(pair);
        }
        for (key, pairs) in groups {
            let at: String = key
                .into_iter()
                .map(|(factor, level)| format!(", {}", quantity::level(factor, level)))
                .collect();
            answers.extend(answer(
                data,
                format!("checkpoints by {level}{at}"),
                &pairs,
                &[(names::WALL_S, "wall time")],
            ));
        }
    }
    answers
}

/// Returns the checkpointers that were compared with `none`.
fn checkpointers(data: &Data) -> Vec<&str> {
    let levels = data.levels("checkpointer");
    if !levels.contains("none") {
        return Vec::new();
    }
    levels
        .into_iter()
        .filter(|level| *level != "none")
        .collect()
}

/// Returns the effects of the levels of a factor, each compared with the first usable baseline. For the factor `mapping`, returns only the effect of
/// the largest mapping compared with the smallest.
fn of_factor(data: &Data, factor: &str) -> Vec<Answer> {
    let compared: Vec<(&str, &str)> = match factor {
        "mapping" => ends(data).into_iter().collect(),
        _ => compared_levels(data, factor)
            .into_iter()
            .filter(|(level, base)| *level != "-" && *base != "-")
            .collect(),
    };
    let mut answers = Vec::new();
    let mut first = None;
    for (level, base) in compared {
        if first.is_some_and(|first| first != base) || answers.len() >= MAX_LEVELS {
            break;
        }
        let what = format!(
            "{} instead of {}",
            named(data, factor, level),
            named(data, factor, base)
        );
        let quantities = match factor {
            "strategy" | "writers" | "when_late" => &OF_STRATEGIES,
            _ => &QUANTITIES,
        };
        let found = answer(data, what, &pairs(data, factor, level, base), quantities);
        if let Some(found) = found {
            first = Some(base);
            answers.push(found);
        }
    }
    answers
}

/// Returns the mappings with the most and the fewest processes. If all mappings have the same number of processes, returns those with the most and
/// the fewest nodes.
fn ends(data: &Data) -> Option<(&str, &str)> {
    let measured = || data.points.iter().filter(|p| !p.summaries.is_empty());
    let most = measured().max_by_key(|p| (p.processes, p.nodes))?;
    let fewest = measured().min_by_key(|p| (p.processes, p.nodes))?;
    ((most.processes, most.nodes) > (fewest.processes, fewest.nodes)).then(|| {
        (
            most.level(FactorId::Mapping),
            fewest.level(FactorId::Mapping),
        )
    })
}

/// Returns the name of a factor's level for a sentence; a mapping is named by its number of processes.
fn named(data: &Data, factor: &str, level: &str) -> String {
    let of_mapping = || {
        data.points
            .iter()
            .find(|p| p.level(FactorId::Mapping) == level)
    };
    match (factor, of_mapping()) {
        ("mapping", Some(p)) if p.nodes == 1 => counted(p.processes, "process"),
        ("mapping", Some(p)) => format!(
            "{} on {}",
            counted(p.processes, "process"),
            counted(p.nodes, "node")
        ),
        _ => quantity::level(factor, level),
    }
}

fn answer(
    data: &Data,
    what: String,
    pairs: &[CounterpartPair],
    quantities: &[(&'static str, &'static str)],
) -> Option<Answer> {
    let effects: Vec<_> = quantities
        .iter()
        .filter_map(|(q, name)| Some((*name, compared(data, pairs, q)?)))
        .collect();
    (!effects.is_empty()).then_some(Answer { what, effects })
}

/// Describes the effect of an answer on each quantity.
fn describe(Answer { what, effects }: Answer) -> impl Iterator<Item = (String, String)> {
    effects
        .into_iter()
        .map(move |(name, effect)| (format!("{what}, {name}"), of_quantity(&effect)))
}

/// Describes the ratio of a quantity with its interval. The difference is significant if the interval excludes 1.
fn of_quantity(effect: &PooledRatio) -> String {
    let changed = change(effect.ratio);
    let Some(interval) = effect.interval else {
        return format!("{changed}; {}", no_interval(effect));
    };
    if effect.is_equal() {
        return "the same".to_owned();
    }
    let ends = [interval.low, interval.high];
    if ends.iter().all(|end| (end - 1.0).abs() < NEGLIGIBLE) {
        return "the same to 0.01 %".to_owned();
    }
    let [low, high] = ends.map(|end| (end - 1.0) * 100.0);
    let range = if interval.high >= MULTIPLE_FROM {
        let [low, high] = ends.map(multiple);
        format!("× {low} to × {high}")
    } else {
        format!("{} to {} %", signed(low), signed(high))
    };
    let points = counted(effect.points, "point");
    if interval.high - interval.low < NEGLIGIBLE {
        return format!("{changed} (no scatter; {points})");
    }
    let adjusted = if effect.level > LEVEL {
        "adjusted "
    } else {
        ""
    };
    let range = format!("{adjusted}95 %: {range}; {points}");
    // the smallest effect that this number of repeats could show
    let least = interval.high / effect.ratio;
    if effect.differs() {
        format!("{changed} ({range})")
    } else if least >= MULTIPLE_FROM {
        format!(
            "{changed}, undecided: {} can only show a change beyond × {} ({range})",
            counted(effect.pairs, "pair"),
            multiple(least)
        )
    } else {
        format!("{changed}, no significant difference ({range})")
    }
}

/// Lists the checkpointers whose overhead is unknown because all of their runs end at the checkpoint.
fn not_measured(data: &Data) -> Vec<(String, String)> {
    let has = |point: usize, quantity: &str| {
        data.points[point]
            .values
            .get(quantity)
            .is_some_and(|values| !values.is_empty())
    };
    checkpointers(data)
        .into_iter()
        .filter(|level| {
            let pairs = pairs(data, "checkpointer", level, "none");
            pairs.iter().any(|pair| {
                has(pair.point, names::CKPT_STORED_BYTES) && has(pair.counterpart, names::WALL_S)
            }) && !pairs.iter().any(|pair| has(pair.point, names::WALL_S))
        })
        .map(|level| {
            (
                format!("checkpoints by {level}"),
                "wall time not measured: all runs with checkpoints end at their checkpoint (size-only, restarted)"
                    .to_owned(),
            )
        })
        .collect()
}
