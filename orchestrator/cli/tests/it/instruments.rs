//! Tests of every registered checkpointer and tracer in whole attempts. Scripts replace DMTCP, and a library replaces those of Darshan and DFTracer;
//! all of their functions are called. They take about 10 s.

use crate::{
    common::{SITE, campaign},
    dmtcp_stand_in::StandIn,
};
use cvc_core::point::{CheckpointerKind, TracerKind};
use cvc_engine::tracer::tracer;
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use serde_json::Value;
use std::{fs, path::PathBuf, process::Command};

/// A script that writes its checkpoint and waits while another one may be requested. After a restart it checks its checkpoint.
const SCRIPT: &str = r#"if [ "$1" = again ]; then [ -s own.ckpt ] && echo SUCCESS; exit; fi
echo 'Time step 1'
printf '%050d' 0 >own.ckpt
[ -z "$CVC_DMTCP" ] || exec sleep 300
echo SUCCESS
"#;

/// Replaces the library of a tracer: each process that loads it writes the requested log, with unreadable content.
const LIBRARY: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    __attribute__((destructor)) static void end(void) {\n  const char *darshan = getenv(\"DARSHAN_LOGFILE\"), *prefix = getenv(\"DFTRACER_LOG_FILE\");\n\
    char name[4096];\n  snprintf(name, sizeof name, \"%s%s\", darshan ? darshan : prefix ? prefix : \"\", darshan ? \"\" : \"-1.pfw\");\n\
    FILE *log = darshan || prefix ? fopen(name, \"w\") : 0;\n  if (log) { fputs(\"a log\", log); fclose(log); }\n}\n";

/// Environment variables with the path of the library.
const VARIABLES: [&str; 2] = ["CVC_DARSHAN_LIB", "CVC_DFTRACER_LIB"];

fn library(c: &Campaign) -> PathBuf {
    let (source, library) = (c.put("tracer.c", LIBRARY), c.dir().join("libtracer.so"));
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .expect("a compiler");
    assert!(status.success());
    library
}

fn value(records: &[Value], name: &str) -> Option<f64> {
    records
        .iter()
        .find(|record| record["name"] == name)
        .and_then(|record| record["value"].as_f64())
}

#[test]
fn every_checkpointer_and_every_tracer_goes_through_a_whole_attempt() {
    require!(Tool::Mpich, Tool::Strace);
    let mut c = campaign("instruments", "");
    let root = c.dir().join("stand-in");
    StandIn {
        restart: "echo SUCCESS".into(),
        ..StandIn::default()
    }
    .install(&root);
    let checkpointers = serde_json::to_string(CheckpointerKind::ALL).expect("words");
    let tracers = serde_json::to_string(TracerKind::ALL).expect("words");
    c.rewrite(&format!(
        "{SITE}dmtcp.prefix = \"{}\"\n[matrix]\napp = \"saver\"\nprocesses = 1\nmpi = \"mpich\"\ncheckpointer = {checkpointers}\n\
         compression = \"gzip\"\ntracer = {tracers}\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 120\n\
         [checkpoint]\nmoment = {{ after_step = 1 }}\nrestart_check = true\n",
        root.display()
    ));
    let program = c
        .put("bin/saver.sh", &format!("sleep 0.1\n{SCRIPT}"))
        .display()
        .to_string();
    c.put(
        "apps/saver.toml",
        &format!(
            "schema = 1\nname = \"saver\"\ntitle = \"a script of a test\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n\
             [command]\nargs = [\"{program}\"]\nrestart_args = [\"{program}\", \"again\"]\n\
             [workloads.any]\n[success]\npattern = '^SUCCESS'\n[progress]\nstep = '^Time step (\\d+)'\n[checkpoint]\nfiles = [\"own.ckpt\"]\nrestartable = true\n"
        ),
    );
    let library = library(&c);
    for variable in VARIABLES {
        c.env(variable, library.to_str().expect("UTF-8"));
    }
    c.run().expect(0);
    c.assert_nothing_left();
    let mut seen = Vec::new();
    for event in c.events("run-finished") {
        let run = event["run"].as_str().expect("a run").to_owned();
        let description = read_json(&c.run_dir(&run).join("run.json"));
        let point = &description["point"];
        let (records, place) = (c.records(&run), format!("{run}: {point}"));
        let kind: CheckpointerKind =
            serde_json::from_value(point["checkpointer"].clone()).expect("a kind");
        let traced: TracerKind = serde_json::from_value(point["tracer"].clone()).expect("a kind");
        seen.push((kind, traced));
        let takes = kind.takes_checkpoints();
        assert_eq!(
            value(&records, "ckpt_stored_bytes").is_some_and(|bytes| bytes > 0.0),
            takes,
            "{place}"
        );
        assert_eq!(
            value(&records, "restart_verified"),
            takes.then_some(1.0),
            "{place}"
        );
        let trace = tracer(traced)
            .trace()
            // a script is not an MPI program, and leaves no log
            .filter(|_| traced != TracerKind::MpiIo)
            .map(|trace| c.run_dir(&run).join(trace));
        assert_eq!(
            value(&records, "trace_bytes").is_some_and(|bytes| bytes > 0.0),
            trace.is_some(),
            "{place}"
        );
        assert!(
            trace.is_none_or(|trace| fs::metadata(trace).is_ok()),
            "{place}: the trace is kept"
        );
        let facts = read_json(&c.run_dir(&run).join("facts.json"));
        let readable = matches!(traced, TracerKind::None | TracerKind::Strace);
        assert_eq!(
            facts.get("trace_not_read").is_none(),
            readable,
            "{place}: a trace that cannot be read is told, and no failure"
        );
    }
    for kind in CheckpointerKind::ALL {
        assert!(
            seen.iter().any(|(of, _)| of == kind),
            "{kind:?} in {seen:?}"
        );
    }
    for kind in TracerKind::ALL {
        assert!(
            seen.iter().any(|(_, of)| of == kind),
            "{kind:?} in {seen:?}"
        );
    }
}
