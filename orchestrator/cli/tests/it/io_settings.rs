//! Tests of settings of one MPI-IO layer in real runs: they are applied, verified, and shown.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::collections::BTreeMap;

const RUN: &str = "[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

/// Returns the figure `writers` of each run and the recorded fact about I/O, by the level of a factor.
fn writers(c: &Campaign, factor: &str) -> BTreeMap<String, (f64, String)> {
    let of_run = |run: String| {
        let dir = c.run_dir(&run);
        let value = read_json(&dir.join("run.json"))["point"][factor].clone();
        let records = c.records(&run);
        let writers = records.iter().find(|r| r["name"] == "writers");
        let writers = writers
            .and_then(|r| r["value"].as_f64())
            .expect("it counts");
        let io = read_json(&dir.join("facts.json"))["io_selected"].to_string();
        let level = value.as_str().unwrap_or("default").to_owned();
        (level, (writers, io))
    };
    c.run_names().into_iter().map(of_run).collect()
}

#[test]
fn romio_takes_what_is_set_for_it_and_without_buffering_every_rank_writes() {
    require!(Tool::Mpich);
    let c = campaign(
        "romio-settings",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = 4\nmpi = \"mpich\"\nromio_ds_write = \"disable\"\n\
             ind_wr_buffer_size = \"256KiB\"\nromio_cb_write = [\"enable\", \"disable\"]\n{RUN}"
        ),
    );
    c.run().expect(0);
    let seen = writers(&c, "romio_cb_write");
    assert_eq!(seen["disable"].0, 4.0, "{seen:?}");
    assert!(seen["enable"].0 < 4.0, "one aggregator on a node: {seen:?}");
    for setting in ["romio_ds_write = disable", "ind_wr_buffer_size = 262144"] {
        assert!(
            seen.values().all(|(_, io)| io.contains(setting)),
            "{seen:?}"
        );
    }
    let report = c.dir().join("reports/romio-settings/report.md");
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(report.contains("collective buffering"), "{report}");
}

#[test]
fn open_mpi_selects_the_component_that_is_asked_for() {
    require!(Tool::OpenMpi);
    let c = campaign(
        "fcoll",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = 4\nmpi = \"openmpi\"\nfcoll = [\"two_phase\", \"vulcan\"]\n{RUN}"
        ),
    );
    c.run().expect(0);
    for (fcoll, (_, io)) in writers(&c, "fcoll") {
        assert!(io.contains(&format!("fcoll {fcoll}")), "{fcoll}: {io}");
    }
    // Open MPI cannot select a component that does not exist
    c.rewrite(&format!(
        "{SITE}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = 4\nmpi = \"openmpi\"\nfcoll = \"no_such\"\n{RUN}"
    ));
    c.run().expect(10);
}
