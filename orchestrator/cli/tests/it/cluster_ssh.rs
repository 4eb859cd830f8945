//! Tests of campaigns on the nodes of an ssh site.

use crate::{
    cluster_faults::steps::{on_lab, site},
    common::cluster::{OnLab, ssh_site},
};
use cvc_testkit::{Lab, Running, Tool, require};
use std::{fs, time::Duration};

#[test]
fn mappings_over_nodes_and_both_libraries_run_and_leave_nothing() {
    require!(Tool::Lab, Tool::Mpich5, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).build();
    let text = format!(
        "{}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", \"3Nx1P+1Nx1P\"]\n\
         mpi = [\"mpich5\", \"openmpi\"]\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n",
        ssh_site(4, "")
    );
    let on = OnLab::new(lab, "mappings", &text);
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    output.expect(0);
    on.campaign.assert_whole(8);
    // the agent's log is in the directory of each run, and the controller's messages are in its own log
    for run in on.campaign.run_names() {
        let log = fs::read_to_string(on.campaign.run_dir(&run).join("agent-trace.log"))
            .expect("the log of the agent");
        assert!(
            log.contains(&format!("run{{run={run} "))
                && (log.contains("mpiexec") || log.contains("mpirun")),
            "{run}: {log}"
        );
    }
    let session = fs::read_dir(on.campaign.root().join("logs"))
        .expect("logs/")
        .flatten()
        .next()
        .expect("a log")
        .path();
    let log = fs::read_to_string(session).expect("the log of the session");
    assert!(
        log.contains("site{site=lab}") && log.contains("ssh") && log.contains("download"),
        "{log}"
    );
    on.assert_nothing_left(&["n1", "n2", "n3", "n4"]);
}

#[test]
fn traces_of_every_node_are_kept_beside_the_run() {
    require!(Tool::Lab, Tool::Mpich5, Tool::Strace);
    let lab = Lab::builder().nodes(2).build();
    let areas = "[sites.lab.storage.local]\npath = \"/scratch-local\"\nkind = \"node-local\"\n\
                 [sites.lab.storage.shared]\npath = \"/shared/area\"\nkind = \"shared\"\n";
    let text = format!(
        "{}{areas}[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\nmpi = \"mpich5\"\nstorage = [\"local\", \"shared\"]\n\
         [run]\nrepeats = 1\nretries = 0\n[trace]\ntracer = \"strace\"\n",
        site(2, "")
    );
    let on = on_lab(
        lab,
        "traced",
        &text,
        "dd if=/dev/zero of=\"out.$PMI_RANK\" bs=4096 count=5 2>/dev/null; echo SUCCESS",
    );
    on.run().expect(0);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let trace = on.campaign.run_dir(&run).join("trace");
        let files: Vec<_> = fs::read_dir(&trace)
            .expect("a trace")
            .flatten()
            .map(|e| e.path())
            .collect();
        let records = on.campaign.records(&run);
        let value = |name: &str| {
            let found = records.iter().find(|r| r["name"] == name);
            found.and_then(|r| r["value"].as_f64())
        };
        let counted = value("trace_files");
        assert_eq!(counted, Some(files.len() as f64), "{run}: {files:?}");
        // five blocks on each node
        let written = [value("trace_write_ops"), value("trace_written_bytes")];
        assert_eq!(written, [Some(10.0), Some(40960.0)], "{run}: {records:?}");
        for node in ["n1", "n2"] {
            let name = format!("strace.{node}.");
            let of_node = files.iter().filter(|f| {
                f.file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with(&name))
            });
            let texts: Vec<String> = of_node
                .map(|f| fs::read_to_string(f).expect("text"))
                .collect();
            let writes: usize = texts.iter().map(|text| text.matches("out.").count()).sum();
            assert!(
                writes > 0
                    && texts
                        .iter()
                        .all(|text| text.contains("+++ exited with 0 +++")),
                "{run} on {node}: {files:?}"
            );
        }
    }
    on.assert_nothing_left(&["n1", "n2"]);
}

#[test]
fn ranks_of_every_node_are_traced_by_a_library_that_is_preloaded() {
    require!(Tool::Lab, Tool::Mpich5, Tool::OpenMpi, Tool::DfTracer);
    let lab = Lab::builder().nodes(2).build();
    let areas = "[sites.lab.storage.shared]\npath = \"/shared/area\"\nkind = \"shared\"\n";
    let text = format!(
        "{}{areas}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nmapping = \"2Nx2P\"\nmpi = [\"mpich5\", \"openmpi\"]\n\
         storage = \"shared\"\n[run]\nrepeats = 1\nretries = 0\n[trace]\ntracer = \"dftracer\"\n",
        ssh_site(2, "")
    );
    let on = OnLab::new(lab, "preloaded", &text);
    on.run().expect(0);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let value = |name: &str| {
            let found = records.iter().find(|r| r["name"] == name);
            found.and_then(|r| r["value"].as_f64())
        };
        assert!(
            value("trace_files").is_some_and(|files| files >= 4.0),
            "each rank has one: {run}: {records:?}"
        );
        // between nodes OMPIO stores shared file pointers of 8 bytes in an additional file
        let said = value("io_bytes").expect("the kernel says it");
        let more = value("trace_written_bytes").map(|written| written - said);
        assert!(
            more.is_some_and(|more| (0.0..1024.0).contains(&more)),
            "{run}: {more:?} more than {said}: {records:?}"
        );
    }
    on.assert_nothing_left(&["n1", "n2"]);
}

#[test]
fn without_the_program_for_nodes_nothing_is_begun() {
    let text = "[sites.lab]\nkind = \"ssh\"\nhosts = [\"n1.invalid\"]\ncores = 1\n[matrix]\napp = \"script\"\nprocesses = 1\n";
    let mut campaign = OnLab::campaign("nothing", text);
    campaign.script_app("script", "echo SUCCESS", "");
    campaign.env("CVC_NODE_PROGRAM", "/nowhere/cvc-node");
    let output = campaign.run().expect(4);
    let expected = "site lab: /nowhere/cvc-node, which cvc copies to the nodes, does not exist";
    assert!(
        output.stderr.contains(expected) && output.stderr.contains("cargo xtask node --release"),
        "{}",
        output.stderr
    );
    assert!(!campaign.root().exists(), "nothing is written");
}

#[test]
fn a_program_that_a_crash_of_the_head_has_emptied_is_sent_again() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(1).build();
    let text = format!(
        "{}[matrix]\napp = \"script\"\nmapping = \"1Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 1\n",
        site(1, "")
    );
    let on = on_lab(lab, "emptied", &text, "sleep 0.1; echo SUCCESS");
    on.run().expect(0);
    on.lab
        .node("n1")
        .shell("for f in /root/.cvc/bin/cvc-node-*; do : >$f; done");
    std::fs::remove_dir_all(on.campaign.root()).expect("a campaign");
    on.run().expect(0);
    on.campaign.assert_whole(1);
}

#[test]
fn a_site_whose_head_speaks_portuguese_works_like_any_other() {
    require!(Tool::Portuguese, Tool::Mpich5);
    let lab = Lab::builder().nodes(2).portuguese("n1").build();
    let text = format!(
        "{}[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 1\n",
        site(2, "")
    );
    let on = on_lab(
        lab,
        "portuguese",
        &text,
        "sleep 0.1; cat /nowhere 2>&1; echo \"locale $LC_ALL\"; echo SUCCESS",
    );
    on.run().expect(0);
    on.campaign.assert_whole(1);
    let run = on.campaign.run_names().pop_first().expect("a run");
    let said = fs::read_to_string(on.campaign.run_dir(&run).join("stdout")).expect("output");
    assert_eq!(
        said.matches("No such file or directory").count(),
        2,
        "{said}"
    );
    assert_eq!(said.matches("locale C.UTF-8").count(), 2, "{said}");
    on.assert_nothing_left(&["n1", "n2"]);
}

/// A script whose first run puts a link into its directory, which cvc must not fetch.
const LINKED_AT_FIRST: &str = "[ -e /shared/first ] || ln -s /etc/passwd \"${CVC_RUN#*@}/runs/${CVC_RUN%%@*}.partial/link\"; touch /shared/first; echo SUCCESS";

#[test]
fn a_result_that_was_left_on_the_head_before_the_journal_could_say_so_is_left_once() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(1).build();
    let text = format!(
        "{}[matrix]\napp = \"script\"\nmapping = \"1Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 1\nretries = 0\n",
        site(1, "")
    );
    let on = on_lab(lab, "left-before", &text, LINKED_AT_FIRST);
    on.run().expect(10);
    let journal = fs::read_to_string(on.campaign.root().join("journal.jsonl")).expect("a journal");
    let end = journal
        .lines()
        .position(|line| line.contains("run-finished"))
        .expect("an end");
    // once more without that record
    fs::remove_dir_all(on.campaign.root()).expect("a campaign");
    on.lab
        .node("n1")
        .shell("rm -r /shared/first /root/.cvc/unfetched");
    let mut command = on.command(&["run", "campaign.toml"]);
    command.env(
        "FAILPOINTS",
        format!("journal.jsonl.append={end}*off->1*return(enospc)->off"),
    );
    Running::start(command)
        .wait(Duration::from_secs(120))
        .expect(7);
    assert!(on.campaign.events("run-finished").is_empty());
    let left = on.lab.node("n1").shell("ls -d /root/.cvc/unfetched/*");
    let output = on.run().expect(10).stderr;
    let failures = on.campaign.failures();
    let [(cause, detail)] = &failures[..] else {
        panic!("{failures:?}\n{output}")
    };
    assert!(
        cause == "store" && detail.contains(&format!("it is left in {} on n1", left.trim())),
        "{detail}: {left}"
    );
    assert_eq!(
        on.lab.node("n1").shell("ls -d /root/.cvc/unfetched/*"),
        left
    );
    on.assert_nothing_left(&["n1"]);
}

#[test]
fn a_result_that_cannot_be_fetched_costs_its_run_an_attempt_and_stays_on_the_head() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(1).build();
    let text = format!(
        "{}[matrix]\napp = \"script\"\nmapping = \"1Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 2\nretries = 0\n",
        site(1, "")
    );
    let on = on_lab(lab, "unfetched", &text, LINKED_AT_FIRST);
    let output = on.run().expect(10).stderr;
    let failures = on.campaign.failures();
    let [(cause, detail)] = &failures[..] else {
        panic!("{failures:?}\n{output}")
    };
    assert!(
        cause == "store"
            && detail.contains("cannot be fetched")
            && detail.contains("/etc/passwd, which is outside"),
        "{detail}"
    );
    let left = on.lab.node("n1").shell("ls -d /root/.cvc/unfetched/*");
    assert!(
        detail.contains(&format!("it is left in {} on n1", left.trim())),
        "{detail}: {left}"
    );
    assert!(
        on.lab
            .node("n1")
            .shell("ls /root/.cvc/unfetched/*")
            .contains("outcome.json")
    );
    // the other run of the site has finished
    assert_eq!(on.campaign.events("run-finished").len(), 2);
    on.assert_nothing_left(&["n1"]);
}

#[test]
fn input_files_by_path_come_to_the_nodes_and_go_with_the_campaign() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(2).build();
    let areas = "[sites.lab.storage.local]\npath = \"/scratch-local\"\nkind = \"node-local\"\n\
                 [sites.lab.storage.shared]\npath = \"/shared/area\"\nkind = \"shared\"\n";
    let text = format!(
        "{}{areas}[matrix]\napp = \"script\"\nmapping = [\"1Nx1P\", \"2Nx1P\"]\nmpi = \"mpich5\"\nstorage = [\"local\", \"shared\"]\n\
         [run]\nrepeats = 1\nretries = 0\n",
        site(2, "")
    );
    let script =
        "[ \"$(wc -c <mesh.dat)\" -eq 300000 ] && { ls $HOME/.cvc/spool/*; echo SUCCESS; }";
    let on = on_lab(lab, "meshed", &text, script);
    let descriptor = on.campaign.dir().join("apps/script.toml");
    let text = fs::read_to_string(&descriptor).expect("reads");
    let with = "[[command.files]]\npath = \"mesh.dat\"\nsource = \"../mesh.dat\"\n[workloads.any]";
    fs::write(&descriptor, text.replace("[workloads.any]", with)).expect("writes");
    on.campaign.put("mesh.dat", &"x".repeat(300_000));
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    output.expect(0);
    // with node-local storage, only one node has a copy
    on.campaign.assert_whole(3);
    let plan = fs::read_to_string(on.campaign.root().join("plan.json")).expect("a plan");
    assert!(plan.contains("copied on one node"), "{plan}");
    for run in on.campaign.run_names() {
        let said =
            fs::read_to_string(on.campaign.run_dir(&run).join("stdout")).expect("its output");
        assert!(said.contains("lab.inputs"), "{said}");
    }
    on.assert_nothing_left(&["n1", "n2"]);
    let left = on
        .lab
        .node("n1")
        .shell("find $HOME/.cvc/spool -name '*.inputs' 2>/dev/null; true");
    assert!(!left.contains("inputs"), "{left}");
}
