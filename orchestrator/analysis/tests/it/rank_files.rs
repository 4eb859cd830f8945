//! Tests of report sections about the ranks' files.

use crate::common::campaign_measured;
use cvc_analysis::report::build;
use cvc_core::plan::Plan;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Document};
use cvc_testkit::utf8;
use std::{fs, path::Path};

const MIB: f64 = 1_048_576.0;

/// Builds the report of two points on four nodes with two repeats each. The size of a file is a function of its number and the point's number of
/// aggregators.
fn campaign(dir: &Path, mib: impl Fn(u32, Option<u32>) -> f64) -> Document {
    let point = |aggregators| Point {
        site: "local".to_owned(),
        app: "btio-full".to_owned(),
        class: "S".to_owned(),
        mapping: "4Nx4P".parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        storage: "run".to_owned(),
        checkpointer: CheckpointerKind::Dmtcp,
        aggregators,
        ..Point::default()
    };
    let repeats = || [10.0, 10.2].map(|s| Ok(vec![(names::WALL_S, s, Unit::Seconds)]));
    let points = [Some(2), Some(4)].map(point);
    campaign_measured(dir, points.map(|of| (of, repeats().to_vec())).to_vec());
    let plan = fs::read_to_string(dir.join("plan.json")).expect("a plan");
    let plan: Plan = serde_json::from_str(&plan).expect("a plan");
    for run in &plan.runs {
        let planned = plan
            .points
            .iter()
            .find(|p| p.id == run.point)
            .expect("its point");
        let path = dir.join(format!("runs/{}/records.jsonl", run.id));
        let mut text = fs::read_to_string(&path).expect("records");
        for rank in 0..16 {
            let labels = [("ckpt", "1".to_owned()), ("rank", rank.to_string())];
            let record = Record {
                run: run.id.clone(),
                name: names::FILE_BYTES.to_owned(),
                value: mib(rank, planned.point.aggregators) * MIB,
                unit: Unit::Bytes,
                source: Source::Image,
                artefact: None,
                labels: labels.map(|(k, v)| (k.to_owned(), v)).into(),
            };
            text += &(serde_json::to_string(&record).expect("json") + "\n");
        }
        fs::write(&path, text).expect("writes");
    }
    build(&rebuild_index(utf8(dir)).expect("an index")).expect("a report")
}

fn blocks(report: &Document) -> &[Block] {
    let section = report.sections.iter().find(|s| s.id == "rank-files");
    &section.expect("a section").blocks
}

#[test]
fn files_of_aggregators_are_marked_and_said_in_a_sentence() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), |rank, aggregators| {
        let nodes_apart = 16 / aggregators.expect("given");
        let larger = if rank % nodes_apart == 0 { 15.0 } else { 0.0 };
        97.0 + larger + 0.01 * f64::from(rank % 3)
    });
    let texts: Vec<&str> = blocks(&report)
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts,
        [
            "2 aggregators: 2 of 16 files are 15.00 MiB (15.5 %) larger than the others, one for each I/O aggregator: files 0, 8.",
            "4 aggregators: 4 of 16 files are 15.00 MiB (15.5 %) larger than the others, one for each I/O aggregator: files 0, 4, 8, 12."
        ]
    );
    let plot = blocks(&report).iter().find_map(|block| match block {
        Block::Plot(plot) => Some(plot),
        _ => None,
    });
    let plot = plot.expect("a plot");
    assert_eq!((plot.panels.len(), plot.keys.len()), (2, 2));
    let table = report
        .tables()
        .find(|table| table.id == "rank_files")
        .expect("a table");
    assert_eq!(table.rows.len(), 32);
    let larger = table
        .rows
        .iter()
        .filter(|row| format!("{:?}", row.last()).contains("larger"));
    assert_eq!(larger.count(), 6);
}

#[test]
fn of_equal_files_there_is_only_the_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), |rank, _| 97.0 + 0.01 * f64::from(rank));
    assert!(
        matches!(blocks(&report), [Block::Table(_)]),
        "{:?}",
        blocks(&report)
    );
}
