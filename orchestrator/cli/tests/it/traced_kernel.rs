//! Tests of a built-in kernel with each tracer that is installed: the trace must agree with the kernel's own output.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use serde_json::Value;
use std::collections::BTreeMap;

/// Numbers that a run recorded, by name.
type Numbers = BTreeMap<String, f64>;

/// Runs kernel-block with and without a tracer. The kernel writes through MPI-IO and reads its data back.
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

/// Checks what follows from the kernel's output (`Bytes written`, `Writers`): every byte is written once, and read back once, or twice if it belongs
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
    // a process that writes spends all that time in writes
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
    for part in ["Traced operations", "Overhead of tracers", tracer] {
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

#[test]
fn the_tracer_of_mpi_io_names_the_phases_of_a_kernel() {
    require!(Tool::Mpich);
    let (c, found) = traced("mpi-io", None);
    assert_eq!(found["trace_written_bytes"], found["io_bytes"], "{found:?}");
    // 4 processes write 12 records and read each record back
    assert_eq!(found["trace_write_ops"], 48.0, "{found:?}");
    assert!(!found.contains_key("trace_writers"), "{found:?}");
    assert!(
        found["trace_phases"] >= 12.0 && found["trace_phases_s"] > 0.0,
        "{found:?}"
    );
    c.cvc(&["report", "campaign.toml"]).expect(0);
    let report = std::fs::read_to_string(c.dir().join("reports/traced-mpi-io/report.md"));
    let report = report.expect("a report");
    let rows = report.split("Phases of I/O").nth(1).expect("a table");
    assert!(
        rows.contains(r"phases 1 to 12: MPI\_File\_write\_at\_all; 0.2 MiB each"),
        "{rows}"
    );
    let traced = c
        .run_names()
        .into_iter()
        .find(|run| c.run_dir(run).join("mpi-io").is_dir());
    let run = c.run_dir(&traced.expect("a traced run"));
    let shown = c.cvc(&["phases", run.to_str().expect("UTF-8")]).expect(0);
    assert!(
        shown.stdout.contains("of 4 processes: ") && shown.stdout.contains("1 to 12"),
        "{}",
        shown.stdout
    );
}

/// Checks that a traced restart reads what its checkpoint wrote, and that the report contains a verdict.
fn assert_restart_is_reported(c: &Campaign, name: &str, files: f64) -> Numbers {
    c.run().expect(0);
    let run = c.run_names().pop_first().expect("a run");
    let found = numbers(&c.records(&run));
    let of = |name: &str| {
        found
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("no {name}: {found:?}"))
    };
    assert_eq!(of("restart_verified"), 1.0);
    assert_eq!(of("ckpt_io_files"), files, "{found:?}");
    assert!(
        of("restart_trace_bytes") > 0.0 && of("ckpt_io_read_ops") >= 1.0,
        "{found:?}"
    );
    let ratio = of("ckpt_io_read_bytes") / of("ckpt_io_written_bytes");
    assert!((0.95..=1.05).contains(&ratio), "{found:?}");
    let traces = c.run_dir(&run).join("restart-trace");
    assert!(std::fs::read_dir(traces).expect("its traces").count() > 0);
    c.cvc(&["report", "campaign.toml"]).expect(0);
    let report = c.dir().join(format!("reports/{name}/report.md"));
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(
        report.contains("Restarts compared with checkpoints"),
        "{report}"
    );
    let verdicts = [
        "like the checkpoint, with reads",
        "same bytes, different operations",
    ];
    assert!(
        verdicts.iter().any(|verdict| report.contains(verdict)),
        "{report}"
    );
    found
}

#[test]
fn a_traced_restart_reads_what_the_program_wrote_as_its_last_checkpoint() {
    require!(Tool::Mpich, Tool::Strace);
    let c = campaign(
        "traced-restart",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"mpich\"\ncheckpointer = \"application\"\n\
             [run]\nrepeats = 1\nretries = 0\ntimeout_s = 200\n[checkpoint]\nrestart_check = true\n[trace]\ntracer = \"strace\"\n"
        ),
    );
    let found = assert_restart_is_reported(&c, "traced-restart", 1.0);
    // three checkpoints of one file, one of which is compared
    assert_eq!(found["ckpt_io_written_bytes"] * 3.0, found["io_bytes"]);
}

/// A program that counts slowly and uses some memory.
const COUNTER: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) {\n  char *memory = malloc(8 << 20);\n  memset(memory, 7, 8 << 20);\n\
    for (int step = 1; step <= 60; step++) { printf(\"Time step %d\\n\", step); fflush(stdout); usleep(50000); }\n\
    puts(memory[4 << 20] == 7 ? \"SUCCESS\" : \"FAILED\");\n  return 0;\n}\n";

#[test]
fn a_traced_restart_by_dmtcp_reads_what_the_image_was_written_with() {
    require!(Tool::Dmtcp, Tool::Mpich, Tool::Strace);
    let c = campaign(
        "traced-image",
        &format!(
            "{SITE}app_dirs = [\".\"]\n[matrix]\napp = \"counter\"\nprocesses = 1\nmpi = \"mpich\"\ncheckpointer = \"dmtcp\"\n\
             [run]\nrepeats = 1\nretries = 0\ntimeout_s = 200\n[checkpoint]\nrestart_check = true\nmoment = {{ after_step = 3 }}\n\
             [trace]\ntracer = \"strace\"\n"
        ),
    );
    let source = c.put("counter.c", COUNTER);
    let compiled = std::process::Command::new("cc")
        .arg("-O1")
        .arg(&source)
        .arg("-o")
        .arg(c.dir().join("counter"))
        .status();
    assert!(compiled.expect("a compiler").success());
    c.put(
        "apps/counter.toml",
        "schema = 1\nname = \"counter\"\ntitle = \"counts\"\n[program]\nnames = [\"counter\"]\n[command]\nargs = []\n[workloads.only]\n\
         [success]\npattern = '^SUCCESS'\n[progress]\nstep = '^Time step (\\d+)'\n",
    );
    let found = assert_restart_is_reported(&c, "traced-image", 3.0);
    // the program, mpiexec, and its proxy
    assert!(found["ckpt_io_written_bytes"] > 8e6, "{found:?}");
}
