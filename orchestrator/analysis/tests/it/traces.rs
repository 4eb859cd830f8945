//! Tests of report sections about traces, and about the overhead of tracing.

use crate::common::{MadeRepeat, campaign_measured};
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::point::{Point, TracerKind};
use cvc_core::record::Unit;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Document, write_all};
use std::{fs, path::Path};

fn point(tracer: TracerKind, aggregators: Option<u32>) -> Point {
    Point {
        site: "local".to_owned(),
        app: "kernel-block".to_owned(),
        class: "S".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        aggregators,
        storage: "run".to_owned(),
        tracer: Some(tracer),
        ..Point::default()
    }
}

/// Returns three repeats of 10 s times `longer`, with a trace of `writers` writers if given.
fn repeats(longer: f64, writers: Option<f64>) -> Vec<MadeRepeat> {
    [0.98, 1.0, 1.02]
        .map(|noise| {
            let mut values = vec![("wall_s", 10.0 * longer * noise, Unit::Seconds)];
            if let Some(writers) = writers {
                values.extend([
                    ("trace_bytes", 5000.0, Unit::Bytes),
                    ("trace_files", 5.0, Unit::Count),
                    ("trace_read_ops", 12.0, Unit::Count),
                    ("trace_read_bytes", 1_966_080.0, Unit::Bytes),
                    ("trace_read_s", 0.002, Unit::Seconds),
                    ("trace_write_ops", 48.0, Unit::Count),
                    ("trace_written_bytes", 1_966_080.0, Unit::Bytes),
                    ("trace_write_s", 0.004, Unit::Seconds),
                    ("trace_metadata_s", 0.001, Unit::Seconds),
                    ("trace_write_bursts", 12.0, Unit::Count),
                    ("trace_writers", writers, Unit::Count),
                    ("trace_writer_spread", 0.75, Unit::One),
                    ("trace_write_mib_s", 900.0, Unit::MibPerSecond),
                ]);
            }
            Ok(values)
        })
        .into()
}

fn report(dir: &Path, made: Vec<(Point, Vec<MadeRepeat>)>) -> Document {
    campaign_measured(dir, made);
    again(dir)
}

fn again(dir: &Path) -> Document {
    build(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a report")
}

fn traced() -> Vec<(Point, Vec<MadeRepeat>)> {
    [None, Some(2)]
        .into_iter()
        .flat_map(|aggregators| {
            let writers = aggregators.map_or(4.0, f64::from);
            [
                (point(TracerKind::None, aggregators), repeats(1.0, None)),
                (
                    point(TracerKind::Strace, aggregators),
                    repeats(1.5, Some(writers)),
                ),
            ]
        })
        .collect()
}

/// Returns the section in Markdown.
fn section(dir: &Path, report: &Document) -> Option<String> {
    write_all(
        report,
        Utf8Path::from_path(&dir.join("report")).expect("UTF-8"),
        &[Format::Markdown],
    )
    .expect("written");
    let text = fs::read_to_string(dir.join("report/report.md")).expect("a report");
    let found = text
        .split("\n## ")
        .find(|section| section.starts_with("Traces\n"))?;
    Some(found.to_owned())
}

#[test]
fn operations_writers_and_the_overhead_of_tracers_are_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = report(dir.path(), traced());
    insta::assert_snapshot!(section(dir.path(), &report).expect("a section"));
}

#[test]
fn without_traces_there_is_no_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let untraced = vec![(point(TracerKind::None, None), repeats(1.0, None))];
    let report = report(dir.path(), untraced);
    assert_eq!(section(dir.path(), &report), None);
}

#[test]
fn traces_with_gaps_are_reported_with_the_number_of_their_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    report(dir.path(), traced());
    let runs = fs::read_dir(dir.path().join("runs")).expect("runs");
    let mut damaged = 0;
    for run in runs.flatten() {
        let records = fs::read_to_string(run.path().join("records.jsonl")).unwrap_or_default();
        if records.contains("trace_writers") && damaged < 3 {
            damaged += 1;
            let gaps = if damaged == 3 {
                "job: it ends"
            } else {
                "module DXT_MPIIO: it is damaged\nmore"
            };
            let facts = serde_json::json!({ "trace_gaps": gaps }).to_string();
            fs::write(run.path().join("facts.json"), facts).expect("facts");
        }
    }
    assert_eq!(damaged, 3);
    let report = again(dir.path());
    let found = report
        .sections
        .iter()
        .find(|s| s.id == "traces")
        .expect("a section");
    let texts: Vec<&str> = found
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts,
        [
            "The traces of 2 runs are incomplete: module DXT_MPIIO: it is damaged.",
            "The traces of 1 run are incomplete: job: it ends.",
        ]
    );
}
