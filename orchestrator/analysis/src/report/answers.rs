//! Answers to what the campaign varied, in words and with intervals: what checkpoints add, what compression saves and takes, how sizes and times
//! grow with processes, what other factors change. The page begins with them, and `cvc run` ends with them.

use super::{
    effects::{MULTIPLE_FROM, change, compared, multiple, no_interval, signed},
    prediction, restarts,
};
use crate::results::{
    counterpart::{Pair, compared_levels, pairs},
    data::Data,
    quantity,
};
use cvc_core::point::FactorId;
use cvc_core::{record::names, units::counted};
use cvc_model::stats::{LEVEL, PooledRatio, adjust_effects};

/// Relative differences below this are none: they are not seen in two decimals of a percentage.
const NOTHING: f64 = 0.5e-4;

/// Maximum number of levels of a factor that are each compared with the first.
const MAX_LEVELS: usize = 4;

/// Factors that split what checkpoints add to the wall time: its mean over their levels would describe none of them.
const SPLIT: [&str; 2] = ["site", "compression"];

/// Factors that are not asked about here: programs differ in everything, and what restarts came to is counted.
const NOT_ASKED: [&str; 5] = ["app", "class", "checkpointer", "restart_check", "processes"];

/// Quantities that an answer tells of, with their names in it.
const TOLD: [(&str, &str); 3] = [
    (names::CKPT_STORED_BYTES, "stored size"),
    (names::CKPT_LATENCY_S, "checkpoint time"),
    (names::WALL_S, "wall time"),
];

/// One answer before it is put into words.
struct Answer {
    /// What is compared.
    what: String,
    /// What it changes: the quantity, and by how much.
    effects: Vec<(&'static str, PooledRatio)>,
}

/// What was asked with its answer, in the order of the factors.
pub(super) fn of(data: &Data) -> Vec<(String, String)> {
    let mut answers = overheads(data);
    for factor in data
        .varying()
        .into_iter()
        .filter(|f| !NOT_ASKED.contains(f))
    {
        answers.extend(of_factor(data, factor));
    }
    // what is called an effect counts all that is told here
    adjust_effects(
        answers
            .iter_mut()
            .flat_map(|answer| answer.effects.iter_mut().map(|(_, effect)| effect)),
    );
    let mut told: Vec<(String, String)> = answers.into_iter().flat_map(words).collect();
    told.extend(not_measured(data));
    let restarts = restarts::of_all(data);
    told.extend(
        (restarts.tried > 0).then(|| ("restarted and verified".to_owned(), restarts.shown())),
    );
    told.extend(prediction::found(data));
    told
}

/// What checkpoints add to the wall time, for each checkpointer, and apart for what would be a mean of unlike things.
fn overheads(data: &Data) -> Vec<Answer> {
    let mut answers = Vec::new();
    for level in checkpointers(data) {
        let pairs = pairs(data, "checkpointer", level, "none");
        // in the order of the plan
        let mut groups: indexmap::IndexMap<Vec<(&str, &str)>, Vec<Pair>> =
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

/// The checkpointers that were compared with none.
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

/// What the levels of a factor change, each compared with the first that any can be compared with; of mappings the largest with the smallest.
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
        let found = answer(data, what, &pairs(data, factor, level, base), &TOLD);
        if let Some(found) = found {
            first = Some(base);
            answers.push(found);
        }
    }
    answers
}

/// The mappings with the most and the fewest processes; where all have equally many, those with the most and the fewest nodes.
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

/// A level of a factor for a sentence: mappings by their processes.
fn named(data: &Data, factor: &str, level: &str) -> String {
    let of_mapping = || {
        data.points
            .iter()
            .find(|p| p.level(FactorId::Mapping) == level)
    };
    match (factor, of_mapping()) {
        ("mapping", Some(p)) if p.nodes == 1 => counted_processes(p.processes),
        ("mapping", Some(p)) => format!(
            "{} on {}",
            counted_processes(p.processes),
            counted(p.nodes, "node")
        ),
        _ => quantity::level(factor, level),
    }
}

fn counted_processes(processes: u32) -> String {
    if processes == 1 {
        "1 process".to_owned()
    } else {
        format!("{processes} processes")
    }
}

fn answer(
    data: &Data,
    what: String,
    pairs: &[Pair],
    quantities: &[(&'static str, &'static str)],
) -> Option<Answer> {
    let effects: Vec<_> = quantities
        .iter()
        .filter_map(|(q, name)| Some((*name, compared(data, pairs, q)?)))
        .collect();
    (!effects.is_empty()).then_some(Answer { what, effects })
}

/// An answer for each quantity.
fn words(Answer { what, effects }: Answer) -> impl Iterator<Item = (String, String)> {
    effects
        .into_iter()
        .map(move |(name, effect)| (format!("{what}, {name}"), of_quantity(&effect)))
}

/// By how much a quantity changes, with its interval. Both are from one procedure: what is not shown is what the interval does not exclude.
fn of_quantity(effect: &PooledRatio) -> String {
    let changed = change(effect.ratio);
    let Some(interval) = effect.interval else {
        return format!("{changed}; {}", no_interval(effect));
    };
    if effect.is_equal() {
        return "the same".to_owned();
    }
    let ends = [interval.low, interval.high];
    if ends.iter().all(|end| (end - 1.0).abs() < NOTHING) {
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
    if interval.high - interval.low < NOTHING {
        return format!("{changed} (no scatter; {points})");
    }
    let adjusted = if effect.level > LEVEL {
        "adjusted "
    } else {
        ""
    };
    let range = format!("{adjusted}95 %: {range}; {points}");
    // what the repeats could show at all
    let least = interval.high / effect.ratio;
    if effect.differs() {
        format!("{changed} ({range})")
    } else if least >= MULTIPLE_FROM {
        format!(
            "{changed}, cannot tell: {} show a change only beyond × {} ({range})",
            counted(effect.pairs, "pair"),
            multiple(least)
        )
    } else {
        format!("{changed}, no effect shown ({range})")
    }
}

/// Says of which checkpointers it is not known what they add, because all of their runs end at their checkpoint.
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
                "wall time not measured: all runs that were to show it end at their checkpoint (size-only, restarted)"
                    .to_owned(),
            )
        })
        .collect()
}
