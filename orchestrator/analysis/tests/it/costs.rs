//! Tests of report sections about costs.

use crate::common;
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_index::Index;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Document, write_all};
use std::{fs, path::Path};

fn report(dir: &Path) -> (Document, Index) {
    let index = rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index");
    (build(&index).expect("a report"), index)
}

#[test]
fn runs_and_instances_have_their_cost_and_unknown_prices_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_with_costs(dir.path());
    let (report, index) = report(dir.path());
    let to = Utf8Path::from_path(dir.path())
        .expect("UTF-8")
        .join("report");
    write_all(&report, &to, &Format::ALL).expect("files");
    let markdown = fs::read_to_string(to.join("report.md")).expect("markdown");
    let section = markdown
        .split("\n## ")
        .find(|s| s.starts_with("Cost\n"))
        .expect("a section");
    insta::assert_snapshot!(section);
    for file in ["cost_sites.csv", "costs.csv"] {
        let csv = fs::read_to_string(to.join("csv").join(file)).expect(file);
        assert!(csv.contains("unknown"), "{csv}");
    }
    // from the journal: 4 instances from its first line to its last
    let one = |sql: &str| -> f64 {
        index
            .connection()
            .query_row(sql, [], |r| r.get(0))
            .expect(sql)
    };
    let there = one("SELECT instance_s FROM leases WHERE site = 'c5'");
    assert!((one("SELECT usd FROM leases WHERE site = 'c5'") - there * 0.18 / 3600.0).abs() < 1e-9);
    assert_eq!(
        one("SELECT count(*) FROM leases WHERE usd IS NULL AND ended IS NULL AND site = 'spot'"),
        1.0
    );
}

#[test]
fn clusters_and_clouds_are_on_one_axis() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_with_costs(dir.path());
    let (report, _) = report(dir.path());
    let cost = report
        .sections
        .iter()
        .find(|s| s.id == "cost")
        .expect("a section");
    let plots: Vec<_> = cost
        .blocks
        .iter()
        .filter_map(|b| {
            if let Block::Plot(p) = b {
                Some(p)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(plots.len(), 1);
    for name in ["cluster", "c5", "cost of a run, USD", "wall time, s"] {
        assert!(crate::drawings::all_svg(plots[0]).contains(name), "{name}");
    }
    assert!(
        !crate::drawings::all_svg(plots[0]).contains("laptop"),
        "nobody knows what it costs"
    );
}

#[test]
fn without_any_price_there_is_no_section() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let (report, _) = report(dir.path());
    assert!(report.sections.iter().all(|s| s.id != "cost"));
}

#[test]
fn a_checkpoint_costs_what_the_nodes_of_its_run_cost_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = Utf8Path::from_path(dir.path()).expect("UTF-8");
    common::campaign_with_costs(dir.path());
    let index = rebuild_index(root).expect("an index");
    let priced = index
        .runs()
        .expect("runs")
        .into_iter()
        .filter_map(|run| run.dir)
        .map(|run| root.join(run).join("records.jsonl"))
        .find(|file| {
            fs::read_to_string(file)
                .is_ok_and(|text| text.contains("\"c5\"") || text.contains("0.18"))
        })
        .expect("a run on instances");
    let mut text = fs::read_to_string(&priced).expect("records");
    let first: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a record")).expect("JSON");
    let cost: serde_json::Value = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .find(|record: &serde_json::Value| record["name"] == "cost_usd")
        .expect("its cost");
    text.push_str(&format!(
        "{{\"run\":{},\"name\":\"ckpt_latency_s\",\"value\":90.0,\"unit\":\"s\",\"source\":\"clock\",\"labels\":{{\"ckpt\":\"1\"}}}}\n",
        first["run"]
    ));
    fs::write(&priced, text).expect("records");
    let index = rebuild_index(root).expect("an index");
    let mut found = Vec::new();
    index
        .each_run_value(|value| {
            if value.quantity == "ckpt_cost_usd" {
                found.push((value.value, value.unit));
            }
        })
        .expect("values");
    let number = |label: &str| -> f64 {
        let text = cost["labels"][label].as_str().expect("a label");
        text.parse().expect("a number")
    };
    let expected = 90.0 / 3600.0 * number("nodes") * number("usd_per_node_hour");
    let [(usd, unit)] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(
        (usd - expected).abs() < 1e-12 && unit == "USD",
        "{usd} {expected}"
    );
}
