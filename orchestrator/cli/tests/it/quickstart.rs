//! Tests the main example of the README, `experiments/quickstart.toml`: runs it by `cvc demo`, and checks the report.

use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Returns the rows of a CSV file whose cells need no quotes.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text
        .lines()
        .map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    lines
        .map(|cells| header.iter().cloned().zip(cells).collect())
        .collect()
}

#[test]
fn the_main_job_runs_to_its_end_and_ends_with_a_report() {
    require!(Tool::Mpich, Tool::OpenMpi);
    let campaign = Campaign::new(env!("CARGO_BIN_EXE_cvc"), "quickstart", "");
    // it takes a minute or two on two idle cores, but tests run on busy ones
    let finished = campaign
        .start(&["demo", "."])
        .wait(Duration::from_secs(1800))
        .expect(0);

    // 2 libraries x 3 mappings x 2 aggregator settings x 3 repeats, and two points under DMTCP if it is installed
    let with_dmtcp = Tool::Dmtcp.find().is_some();
    campaign.assert_whole(if with_dmtcp { 42 } else { 36 });
    campaign.assert_nothing_left();

    let report = campaign.dir().join("reports/quickstart");
    let last = finished.stdout.lines().last().unwrap_or_default();
    let report_file = report.join("report.html");
    assert!(
        last.contains(report_file.to_str().expect("UTF-8")),
        "{}",
        finished.stdout
    );
    // stored sizes do not depend on the machine's load
    let forecasts = finished.stdout.lines().filter(|line| {
        line.contains("1Nx6P") && line.contains("own checkpoint, MiB") && line.ends_with("1.25")
    });
    assert_eq!(forecasts.count(), 4, "{}", finished.stdout);
    let html = fs::read_to_string(report.join("report.html")).expect("the report");
    assert!(html.matches("<svg").count() >= 6, "plots");
    assert!(
        html.contains("MPICH ") && html.contains("Open MPI "),
        "versions"
    );
    assert!(
        !html.contains("src=\"http") && !html.contains("href=\"http") && !html.contains("@import"),
        "it needs no network"
    );
    assert_eq!(
        html.contains("DMTCP is not installed"),
        !with_dmtcp,
        "what was skipped is in the report"
    );

    let points: Vec<_> = rows(&report.join("csv/points.csv"))
        .into_iter()
        .filter(|p| p["checkpointer"] == "application")
        .collect();
    assert_eq!(points.len(), 12);
    for point in points {
        for quantity in ["ckpt_latency_s", "ckpt_stored_bytes", "wall_s"] {
            let value = |what: &str| {
                point[&format!("{quantity}_{what}")]
                    .parse::<f64>()
                    .unwrap_or_else(|e| panic!("{quantity}_{what}: {e}: {point:?}"))
            };
            assert_eq!(value("n"), 3.0, "{point:?}");
            // times on a busy machine may scatter too much for an interval, sizes do not
            let ends = ["ci_low", "ci_high"].map(|end| &point[&format!("{quantity}_{end}")]);
            if quantity != "ckpt_stored_bytes" && ends.iter().all(|end| end.is_empty()) {
                continue;
            }
            assert!(
                value("ci_low") <= value("mean")
                    && value("mean") <= value("ci_high")
                    && value("ci_low") > 0.0,
                "{quantity}: {point:?}"
            );
        }
    }
    for run in campaign.run_names() {
        let point = &read_json(&campaign.run_dir(&run).join("run.json"))["point"];
        if point["checkpointer"] == "application" {
            let records = campaign.records(&run);
            let effective = records
                .iter()
                .find(|r| r["name"] == "aggregators_effective")
                .unwrap_or_else(|| panic!("{run}: {records:?}"));
            assert_eq!(
                effective["value"].as_f64(),
                point["aggregators"].as_f64(),
                "{run}: the aggregators that were asked for wrote"
            );
        }
    }
}
