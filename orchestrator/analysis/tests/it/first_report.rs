//! Tests of the first report that a new user sees: one to thirty repeats on a quiet machine, on a busy machine, and with one run that took a thousand
//! times as long.

use crate::common::{MadeRepeat, campaign_measured};
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::{
    campaign::Format,
    point::{CheckpointerKind, Point},
    record::Unit,
};
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Cell, Document, write_all};
use std::{fs, path::Path};

/// Scatter of the results of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Machine {
    Quiet,
    Busy,
    /// A quiet machine with one very slow run.
    OneBad,
}

/// A generator of reproducible numbers that are nearly standard normal.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f64 + 0.5) / (1u64 << 24) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

fn campaign(dir: &Path, repeats: usize, machine: Machine) -> Document {
    let mut noise = Noise(repeats as u64 * 7 + machine as u64);
    let mut made = Vec::new();
    for mpi in ["mpich", "openmpi"] {
        for mapping in ["1Nx1P", "1Nx2P", "1Nx4P"] {
            for checkpointer in [CheckpointerKind::None, CheckpointerKind::Application] {
                let point = Point {
                    site: "local".to_owned(),
                    app: "kernel-stencil".to_owned(),
                    class: "S".to_owned(),
                    mapping: mapping.parse().expect("a mapping"),
                    mpi: mpi.to_owned(),
                    checkpointer,
                    storage: "run".to_owned(),
                    ..Point::default()
                };
                let first = made.is_empty();
                let values = (0..repeats)
                    .map(|repeat| -> MadeRepeat {
                        let mut scatter = || match machine {
                            Machine::Busy => (0.9 * noise.normal()).exp(),
                            Machine::Quiet | Machine::OneBad => (0.02 * noise.normal()).exp(),
                        };
                        let (wall, mut checkpoint) = (1.5 * scatter(), 0.036 * scatter());
                        let bad = machine == Machine::OneBad && first && repeat == 0;
                        let slow = if bad { 1000.0 } else { 1.0 };
                        checkpoint *= slow;
                        let mut values = vec![("wall_s", slow * wall, Unit::Seconds)];
                        if checkpointer != CheckpointerKind::None {
                            values.extend([
                                ("ckpt_stored_bytes", 4.2e6, Unit::Bytes),
                                ("ckpt_latency_s", checkpoint, Unit::Seconds),
                            ]);
                        }
                        Ok(values)
                    })
                    .collect();
                made.push((point, values));
            }
        }
    }
    campaign_measured(dir, made);
    build(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a report")
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number { value } => Some(*value),
        _ => None,
    }
}

/// Returns the numbers before percent signs.
fn percentages(text: &str) -> Vec<f64> {
    let before = text.split('%').collect::<Vec<_>>();
    before[..before.len() - 1]
        .iter()
        .filter_map(|part| {
            let part = part.trim_end_matches(['\u{a0}', ' ']);
            let digits: String = part
                .chars()
                .rev()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            digits.chars().rev().collect::<String>().parse().ok()
        })
        .collect()
}

/// Checks that each verdict agrees with the interval next to it.
fn words_agree(report: &Document, about: &str) {
    let effects = report.tables().find(|t| t.id == "effects");
    for row in effects.iter().flat_map(|t| &t.rows) {
        let [effect, low, high] = [6, 7, 8].map(|column| number(&row[column]));
        let Cell::Text { text } = &row[9] else {
            panic!("{about}: {row:?}")
        };
        match (low, high) {
            (Some(low), Some(high)) => {
                let (effect, holds) = (effect.expect("an effect"), low <= 0.0 && high >= 0.0);
                let is_shown = text.starts_with("larger")
                    || text.starts_with("smaller")
                    || text.starts_with('×');
                assert_eq!(is_shown, !holds, "{about}: {row:?}");
                assert_eq!(
                    text == "the same",
                    low == 0.0 && high == 0.0,
                    "{about}: {row:?}"
                );
                assert!(high - low <= 1000.0 + 10.0 * effect, "{about}: {row:?}");
            }
            _ => assert!(
                text.contains("scatter too much") || text.contains("single pair"),
                "{about}: {row:?}"
            ),
        }
    }
}

/// Checks that no axis extends beyond twice the largest mean of its values.
fn axes_follow_the_data(report: &Document, about: &str) {
    let largest = |quantity: &str| {
        let statistics = report
            .tables()
            .find(|t| t.id == "statistics")
            .expect("a table");
        let at = |id: &str| {
            statistics
                .columns
                .iter()
                .position(|c| c.id == id)
                .expect("a column")
        };
        let of = |row: &&Vec<Cell>| matches!(&row[at("quantity")], Cell::Text { text } if text == quantity);
        let rows = statistics.rows.iter().filter(of);
        rows.filter_map(|row| number(&row[at("mean")]))
            .fold(0.0, f64::max)
    };
    let mut seen = 0;
    for block in report.sections.iter().flat_map(|s| &s.blocks) {
        let Block::Plot(plot) = block else { continue };
        let most = match plot.id.split('-').next() {
            Some("wall") => largest("wall_s"),
            Some("ckpt") if plot.id.contains("latency") => largest("ckpt_latency_s"),
            Some("repeats" | "order") => 1000.0,
            _ => continue,
        };
        seen += 1;
        for panel in &plot.panels {
            // labels of categories are not ticks
            let ticks = panel
                .split("</text>")
                .filter(|part| most == 1000.0 || part.contains("text-anchor=\"end\""))
                .filter_map(|part| part.rsplit('>').next())
                .filter_map(|text| {
                    text.trim()
                        .replace(['+', '\u{2212}'], "")
                        .parse::<f64>()
                        .ok()
                });
            let end = ticks.fold(0.0, f64::max);
            assert!(
                end <= 2.0 * most,
                "{about}: {} to {end}, data to {most}",
                plot.id
            );
        }
    }
    assert!(seen >= 2, "{about}: {seen} plots");
}

#[test]
fn intervals_words_and_axes_are_of_use_with_any_number_of_repeats() {
    for repeats in [1, 2, 3, 30] {
        for machine in [Machine::Quiet, Machine::Busy, Machine::OneBad] {
            let dir = tempfile::tempdir().expect("a directory");
            let about = format!("{repeats} repeats, {machine:?}");
            let report = campaign(dir.path(), repeats, machine);
            words_agree(&report, &about);
            axes_follow_the_data(&report, &about);
            for cell in report.tables().flat_map(|t| t.rows.iter().flatten()) {
                match cell {
                    Cell::Measured { summary: s } => {
                        let width = s.interval.map_or(0.0, |i| i.high - i.low);
                        assert!(width <= 10.0 * s.mean, "{about}: {s:?}");
                        assert_eq!(
                            s.interval.is_none(),
                            s.why_no_interval().is_some(),
                            "{about}: {s:?}"
                        );
                    }
                    Cell::Compared { comparison: c } => {
                        let holds = c.interval.is_none_or(|i| i.low <= 1.0 && i.high >= 1.0);
                        assert_eq!(c.differs(), !holds, "{about}: {c:?}");
                    }
                    _ => {}
                }
            }
            let told: Vec<&String> = report.found.iter().flat_map(|(a, b)| [a, b]).collect();
            assert!(
                told.iter().all(|line| line.len() <= 160),
                "{about}: {told:?}"
            );
            let to = Utf8Path::from_path(dir.path())
                .expect("UTF-8")
                .join("report");
            write_all(&report, &to, &Format::ALL).expect("a report");
            for file in ["report.html", "report.md", "report.tex"] {
                let text = fs::read_to_string(to.join(file)).expect(file);
                // widths in the style sheet and in LaTeX are not percentages of the report
                let most = percentages(&text).into_iter().fold(0.0, f64::max);
                assert!(most <= 1000.0, "{about}, {file}: {most} %");
            }
            let csv = fs::read_to_string(to.join("csv/statistics.csv")).expect("a table");
            let bad = repeats > 1 && repeats < 30 && machine != Machine::Quiet;
            assert_eq!(
                csv.contains("scatter too much for an interval: it takes"),
                bad,
                "{about}"
            );
        }
    }
}

#[test]
fn equal_sizes_are_the_same_once_and_each_quantity_has_a_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), 3, Machine::Quiet);
    let of = |what: &str| {
        let found = report.found.iter().find(|(name, _)| name == what);
        found
            .map(|(_, answer)| answer.as_str())
            .unwrap_or_else(|| panic!("{what}: {:?}", report.found))
    };
    assert_eq!(of("openmpi instead of mpich, stored size"), "the same");
    for quantity in ["checkpoint time", "wall time"] {
        let answer = of(&format!("openmpi instead of mpich, {quantity}"));
        assert!(
            answer.contains("no significant difference (adjusted 95 %: "),
            "{answer}"
        );
    }
    assert_eq!(of("a checkpoint takes").matches("0.0 s").count(), 0);
}

#[test]
fn two_repeats_of_a_busy_machine_say_what_they_could_show() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), 2, Machine::Busy);
    let told = format!("{:?}", report.found);
    assert!(
        told.contains("undecided: ") && told.contains("can only show a change beyond ×")
            || told.contains("scatter too much for an interval: "),
        "{told}"
    );
}
