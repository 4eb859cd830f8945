//! A built-in kernel under each tracer that is here: what the trace says is what the kernel says of itself.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use serde_json::Value;
use std::collections::BTreeMap;

/// Numbers that a run recorded, by name.
type Numbers = BTreeMap<String, f64>;

/// Runs kernel-block, which writes through MPI-IO and reads back what it wrote, under a tracer and without one.
fn traced(tracer: &str, variable: Option<(&str, String)>) -> (Campaign, Numbers) {
    let mut c = campaign(
        &format!("traced-{tracer}"),
        &format!(
            "{SITE}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = 4\naggregators = 1\nmpi = \"mpich\"\n\
             tracer = [\"none\", \"{tracer}\"]\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 200\n"
        ),
    );
    if let Some((name, value)) = variable {
        c.env(name, &value);
    }
    c.run().expect(0);
    let mut found = None;
    for event in c.events("run-finished") {
        let run = event["run"].as_str().expect("a run").to_owned();
        let records = numbers(&c.records(&run));
        let point = read_json(&c.run_dir(&run).join("run.json"))["point"].clone();
        let is_traced = point["tracer"] == tracer;
        assert_eq!(
            records.contains_key("trace_write_ops"),
            is_traced,
            "{run}: {records:?}"
        );
        let facts = read_json(&c.run_dir(&run).join("facts.json"));
        for gap in ["trace_gaps", "trace_not_read"] {
            assert!(facts.get(gap).is_none(), "{run}: {}", facts[gap]);
        }
        if is_traced {
            found = Some(records);
        }
    }
    (c, found.expect("a traced run"))
}

fn numbers(records: &[Value]) -> Numbers {
    let named = records.iter().map(|record| {
        let name = record["name"].as_str().expect("a name").to_owned();
        (name, record["value"].as_f64().expect("a number"))
    });
    named.collect()
}

/// Asserts what follows from the kernel's own words (`Bytes written`, `Writers`): every byte is written once, read back once, and twice if it belongs
/// to the last record.
fn assert_like_the_kernel(found: &Numbers) {
    let of = |name: &str| found.get(name).copied();
    let bytes = of("io_bytes").expect("the kernel says it");
    assert_eq!(of("trace_written_bytes"), Some(bytes), "{found:?}");
    assert_eq!(of("trace_writers"), of("writers"), "{found:?}");
    assert_eq!(
        of("trace_writer_spread"),
        Some(1.0),
        "one aggregator: {found:?}"
    );
    // 12 records
    assert!(
        of("trace_write_ops").is_some_and(|n| n >= 12.0),
        "{found:?}"
    );
    assert!(
        of("trace_read_bytes").is_some_and(|n| n >= bytes),
        "{found:?}"
    );
    let bursts = of("trace_write_bursts").expect("a number");
    assert!(
        bursts >= 1.0 && bursts <= found["trace_write_ops"],
        "{found:?}"
    );
    for positive in [
        "trace_write_s",
        "trace_read_s",
        "trace_metadata_s",
        "trace_write_mib_s",
    ] {
        assert!(
            of(positive).is_some_and(|n| n > 0.0),
            "{positive}: {found:?}"
        );
    }
    // while one process writes, it writes all the time
    let seconds = bytes / 1_048_576.0 / found["trace_write_mib_s"];
    assert!(seconds <= of("wall_s").expect("a time"), "{found:?}");
}

fn assert_reported(c: &Campaign, tracer: &str) {
    c.cvc(&["report", "campaign.toml"]).expect(0);
    let report =
        std::fs::read_to_string(c.dir().join(format!("reports/traced-{tracer}/report.md")))
            .expect("a report");
    let section = report
        .split("\n## ")
        .find(|section| section.starts_with("Traces"))
        .expect("a section on traces");
    for part in ["What was traced", "Overhead of tracers", tracer] {
        assert!(section.contains(part), "{part}: {section}");
    }
}

#[test]
fn strace_sees_what_a_kernel_writes() {
    require!(Tool::Mpich, Tool::Strace);
    let (c, found) = traced("strace", None);
    assert_like_the_kernel(&found);
    assert_reported(&c, "strace");
}

#[test]
fn dftracer_sees_what_a_kernel_writes() {
    require!(Tool::Mpich, Tool::DfTracer);
    let library = Tool::DfTracer.find().expect("the test requires it");
    let library = library.display().to_string();
    let (_, found) = traced("dftracer", Some(("CVC_DFTRACER_LIB", library)));
    assert_like_the_kernel(&found);
}
