//! The method and the interval that a series speaks for.

use crate::report::summary;
use crate::results::data::Data;
use cvc_core::{
    record::names,
    units::{counted, duration},
};
use cvc_index::{Index, error::AnalysisError};
use cvc_model::delta::{Aim, DeltaCosts, Packing, Prices};
use cvc_prediction::delta::{
    DeltaAnswer, DeltaQuestion, Evidence, MethodAnswer, answer, series_of,
};
use cvc_show::{Block, Cell, Column, Table};

/// Mean times between failures that are answered, seconds.
const MTBF_S: [f64; 3] = [3600.0, 6.0 * 3600.0, 24.0 * 3600.0];
/// The one that the sentence is about.
const USUAL_MTBF_S: f64 = 24.0 * 3600.0;
/// Time of the program that is assumed, seconds: long against most intervals.
const APP_S: f64 = 24.0 * 3600.0;
/// What a file of a chain is assumed to take at a restart beside its bytes, seconds.
const FILE_S: f64 = 0.01;
/// Most points with sentences of their own; the table has all.
const MOST_SENTENCES: usize = 6;
const MIB: f64 = (1u64 << 20) as f64;

/// What is advised for a point.
pub(super) struct Advised {
    point: usize,
    /// MiB of blocks, before compression, that its checkpoints were written at each second.
    write_mib_s: f64,
    /// The program that images were piped through, if they were.
    compression: Option<String>,
    /// For each mean time between failures, where there is an answer.
    answers: Vec<(f64, DeltaAnswer)>,
}

/// Answers for all points that have series and whose checkpoints tell a bandwidth.
pub(super) fn advised(data: &Data, index: &Index) -> Result<Vec<Advised>, AnalysisError> {
    let mut all = Vec::new();
    for series in series_of(index)? {
        let Some(point) = data
            .points
            .iter()
            .position(|p| p.id.as_str() == series.point)
        else {
            continue;
        };
        let mean = |name: &str| data.points[point].summaries.get(name).map(|s| s.mean);
        // what changed is known before compression, and so has to be the rate
        let rate = mean(names::SERIES_BYTES)
            .zip(mean(names::CKPT_LATENCY_S))
            .map(|(bytes, seconds)| bytes / MIB / seconds)
            .filter(|rate| rate.is_finite() && *rate > 0.0);
        let Some(write_mib_s) = rate else {
            continue;
        };
        let answers = MTBF_S.iter().filter_map(|mtbf_s| {
            let question = DeltaQuestion {
                app_s: APP_S,
                mtbf_s: *mtbf_s,
                costs: DeltaCosts {
                    start_s: 0.0,
                    write_mib_s,
                    search_mib_s: None,
                    restart_s: 0.0,
                    read_mib_s: write_mib_s,
                    file_s: FILE_S,
                    packing: Packing::NONE,
                },
                prices: Prices::default(),
                aim: Aim::Time,
            };
            // pairs that no curve fits, or a run that never ends, are nothing to advise on
            let evidence = Evidence {
                zones: &series.zones,
                ..Evidence::of(&series.pairs)
            };
            let found = answer(evidence, question).ok()?;
            Some((*mtbf_s, found))
        });
        let answers: Vec<(f64, DeltaAnswer)> = answers.collect();
        if !answers.is_empty() {
            all.push(Advised {
                point,
                write_mib_s,
                compression: data.points[point]
                    .factors
                    .get("compression")
                    .filter(|c| *c != "none")
                    .cloned(),
                answers,
            });
        }
    }
    all.sort_by_key(|a| a.point);
    Ok(all)
}

/// A part of the time in percent.
fn percent(part: f64) -> String {
    let pct = 100.0 * part;
    if pct < 0.1 {
        format!("{pct:.2} %")
    } else {
        format!("{pct:.1} %")
    }
}

/// From the start of a checkpoint to the start of the next.
fn every_s(method: &MethodAnswer) -> Option<f64> {
    (method.run.checkpoints > 0).then_some(method.run.interval_s + method.run.ckpt_s)
}

fn every(method: &MethodAnswer) -> String {
    every_s(method).map_or_else(
        || "without checkpoints".to_owned(),
        |s| format!("every {}", duration(s)),
    )
}

/// One sentence for each of the first points.
pub(super) fn sentences(data: &Data, advised: &[Advised]) -> Vec<Block> {
    let varying = data.varying();
    let sentence = |of: &Advised| -> Option<Block> {
        let (mtbf_s, found) = of
            .answers
            .iter()
            .find(|(mtbf_s, _)| *mtbf_s == USUAL_MTBF_S)?;
        let best = found.best()?;
        let label = data.label(of.point, &varying);
        let lost = percent(best.run.lost);
        let against = match found.method("full") {
            Some(full) if best.run.method.as_str() != "full" => format!(
                ", and {} with full checkpoints {}",
                percent(full.run.lost),
                every(full)
            ),
            Some(_) => found.methods.get(1).map_or_else(String::new, |next| {
                format!(
                    ", and {} with {}",
                    percent(next.run.lost),
                    next.run.method.describe()
                )
            }),
            None => String::new(),
        };
        let what = if best.run.method.as_str() == "full" {
            "full checkpoints".to_owned()
        } else {
            best.run.method.describe()
        };
        let through = of.compression.as_ref().map_or_else(String::new, |program| {
            format!(" (before compression, with the time that {program} takes)")
        });
        let mut text = format!(
            "Recommended for {label}: {what}, {}. With a failure every {} on average, and checkpoints written at {:.0} MiB/s as here{through}, {lost} of the \
             time is lost to checkpoints, restarts and repeated work{against}. It follows from {}, {} to {} apart.",
            every(best),
            duration(*mtbf_s),
            of.write_mib_s,
            counted(found.volume.pairs, "pair"),
            duration(found.volume.shortest_s),
            duration(found.volume.longest_s)
        );
        for warning in &found.warnings {
            text.push_str(&format!(" But {warning}."));
        }
        Some(Block::Text { text })
    };
    advised
        .iter()
        .filter_map(sentence)
        .take(MOST_SENTENCES)
        .collect()
}

/// Makes the table of what is advised: a row for each point and mean time between failures.
pub(super) fn table(data: &Data, advised: &[Advised]) -> Option<Table> {
    let mut columns = summary::point_columns(data);
    columns.extend([
        Column::of("mtbf", "a failure every", "s"),
        Column::of("write_rate", "written at", "MiB/s"),
        Column::plain("method", "method"),
        Column::of("every", "a checkpoint every", "s"),
        Column::of("lost", "lost", "%"),
        Column::of("lost_least", "lost, at least", "%"),
        Column::of("lost_most", "lost, at most", "%"),
        Column::of("every_full", "in full every", "s"),
        Column::of("lost_full", "lost with full ones", "%"),
        Column::of("shortest", "pairs apart, from", "s"),
        Column::of("longest", "pairs apart, to", "s"),
        Column::plain("warnings", "what limits it"),
    ]);
    let caption = "Method and interval with the least expected time of a run of 24 hours, from what changed between the checkpoints of one run: time \
                   lost to checkpoints, restarts and repeated work, and its range as far as the changed volume is uncertain. Intervals are from the \
                   start of a checkpoint to the start of the next. Assumed: the program waits while blocks are written, and restarts read, at the \
                   rate at which full checkpoints were written here, 10 ms for each file of a restart, no search for changes. The rate is that of bytes \
                   before compression: where images were compressed, it has the time for that, deltas are taken to be compressed in the same way, and \
                   restarts to be no faster. \
                   `cvc predict --delta --from` answers for other times, rates and codecs.";
    let mut table = Table::new(
        "series-recommended",
        "Recommended method and interval",
        caption,
        columns,
    );
    for of in advised {
        for (mtbf_s, found) in &of.answers {
            let Some(best) = found.best() else {
                continue;
            };
            let lost = |total_s: f64| Cell::number(100.0 * (1.0 - APP_S / total_s));
            let full = found.method("full");
            let mut row = summary::point_cells(data, of.point);
            row.extend([
                Cell::number(*mtbf_s),
                Cell::number(of.write_mib_s),
                Cell::text(best.run.method.describe()),
                Cell::number(every_s(best)),
                Cell::number(100.0 * best.run.lost),
                lost(best.total_s.low),
                lost(best.total_s.high),
                Cell::number(full.and_then(every_s)),
                Cell::number(full.map(|f| 100.0 * f.run.lost)),
                Cell::number(found.volume.shortest_s),
                Cell::number(found.volume.longest_s),
                Cell::text(found.warnings.join("; ")),
            ]);
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}
