//! Recommended method and interval for a series of checkpoints.

use crate::report::summary;
use crate::results::data::Data;
use cvc_core::{
    record::names,
    units::{counted, duration},
};
use cvc_index::{Index, error::AnalysisError};
use cvc_model::delta::{DeltaCosts, DeltaObjective, Packing, Prices};
use cvc_prediction::delta::{
    DeltaAnswer, DeltaQuestion, Evidence, MethodAnswer, answer, series_of,
};
use cvc_show::{Block, Cell, Column, Table};

/// Mean times between failures for which the table has a recommendation, seconds.
const MTBF_S: [f64; 3] = [3600.0, 6.0 * 3600.0, 24.0 * 3600.0];
/// Mean time between failures assumed in the sentences, seconds.
const USUAL_MTBF_S: f64 = 24.0 * 3600.0;
/// Assumed computing time of the program, seconds: long compared with most intervals.
const APP_S: f64 = 24.0 * 3600.0;
/// Assumed additional restart time for each file of a chain, seconds.
const FILE_S: f64 = 0.01;
/// Maximum number of points with a sentence; the table has all points.
const MAX_SENTENCES: usize = 6;
const MIB: f64 = (1u64 << 20) as f64;

/// The recommendations for a point.
pub(super) struct Advised {
    point: usize,
    /// Rate at which the point's checkpoints were written, MiB of uncompressed blocks per second.
    write_mib_s: f64,
    /// The compression program that was applied to images, if any.
    compression: Option<String>,
    /// The recommendation for each mean time between failures.
    answers: Vec<(f64, DeltaAnswer)>,
}

/// Returns recommendations for all points that have series, and whose checkpoints have sizes and times from which a bandwidth follows.
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
        // changes are measured before compression, so the rate must also be
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
                aim: DeltaObjective::Time,
            };
            // no recommendation if no curve fits the pairs of checkpoints, or if the run never ends
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

/// Formats a share of the time in percent.
fn percent(part: f64) -> String {
    let pct = 100.0 * part;
    if pct < 0.1 {
        format!("{pct:.2} %")
    } else {
        format!("{pct:.1} %")
    }
}

/// Returns the time from the start of a checkpoint to the start of the next, seconds; `None` without checkpoints.
fn every_s(method: &MethodAnswer) -> Option<f64> {
    (method.run.checkpoints > 0).then_some(method.run.interval_s + method.run.ckpt_s)
}

fn every(method: &MethodAnswer) -> String {
    every_s(method).map_or_else(
        || "without checkpoints".to_owned(),
        |s| format!("every {}", duration(s)),
    )
}

/// Describes the recommendation for each point that has one, for at most [`MAX_SENTENCES`] points.
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
            format!(" (before compression, including the time of {program})")
        });
        let mut text = format!(
            "Recommended for {label}: {what}, {}. With a failure every {} on average, and checkpoints written at the measured {:.0} MiB/s{through}, {lost} of the \
             time is lost to checkpoints, restarts and repeated work{against}. Based on {} of checkpoints, {} to {} apart.",
            every(best),
            duration(*mtbf_s),
            of.write_mib_s,
            counted(found.volume.pairs, "pair"),
            duration(found.volume.shortest_s),
            duration(found.volume.longest_s)
        );
        for warning in &found.warnings {
            text.push_str(&format!(" Warning: {warning}."));
        }
        Some(Block::Text { text })
    };
    advised
        .iter()
        .filter_map(sentence)
        .take(MAX_SENTENCES)
        .collect()
}

/// Makes the table of recommendations, with a row for each point and mean time between failures.
pub(super) fn table(data: &Data, advised: &[Advised]) -> Option<Table> {
    let mut columns = summary::point_columns(data);
    columns.extend([
        Column::of("mtbf", "a failure every", "s"),
        Column::of("write_rate", "written at", "MiB/s"),
        Column::plain("method", "method"),
        Column::of("every", "a checkpoint every", "s"),
        Column::of("lost", "lost", "%"),
        Column::of("lost_least", "lost, minimum", "%"),
        Column::of("lost_most", "lost, maximum", "%"),
        Column::of("every_full", "full ones every", "s"),
        Column::of("lost_full", "lost with full ones", "%"),
        Column::of("shortest", "distance of pairs, from", "s"),
        Column::of("longest", "distance of pairs, to", "s"),
        Column::plain("warnings", "limitations"),
    ]);
    let caption = "Method and interval that minimise the expected time of a run of 24 hours, from the changes between the checkpoints of one run: time \
                   lost to checkpoints, restarts and repeated work, with its range due to the uncertainty of the changed volume. Intervals are from the \
                   start of a checkpoint to the start of the next. Assumptions: the program waits while blocks are written, restarts read at the \
                   measured write rate of full checkpoints, each file of a restart takes 10 ms, and no time is spent on finding changes. The rate counts bytes \
                   before compression: for compressed images it includes the time of compression, deltas are assumed to be compressed in the same way, and \
                   restarts to be no faster. \
                   For other times, rates and codecs, use `cvc predict --delta --from`.";
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
