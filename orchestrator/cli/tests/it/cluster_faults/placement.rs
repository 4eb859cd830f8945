//! Tests of ranks on wrong nodes, of ranks that never end, and of points that run side by side.

use crate::cluster_faults::steps::{SECOND, SOON, STEPS, ends, on_lab, scripted, site, turn};
use crate::common::cluster::LIMIT;
use cvc_testkit::{Lab, Tool, require, wait_until};
use std::time::Duration;

#[test]
fn a_launcher_that_does_not_keep_to_the_mapping_fails_the_run_at_once() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let mpich5 = Tool::Mpich5.find().expect("required");
    for node in lab.nodes() {
        // the launcher drops `-f FILE`, so that all ranks run on the first host
        node.shell(&format!(
            "cat >/opt/wrong-mpiexec <<'EOF'\n#!/bin/bash\nargs=()\nwhile [ $# -gt 0 ]; do case \"$1\" in -f) shift 2;; *) args+=(\"$1\"); shift;; esac; done\n\
             exec {} \"${{args[@]}}\"\nEOF\nchmod 755 /opt/wrong-mpiexec",
            mpich5.display()
        ));
    }
    let text = format!(
        "{}[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n",
        site(2, "")
    );
    let text = text.replace(&mpich5.display().to_string(), "/opt/wrong-mpiexec");
    let on = on_lab(lab, "wrong", &text, STEPS);
    let cvc = on.begin();
    on.wait_start(1);
    // the test does not let the run continue, so the wrong node is noticed before the end of the run
    on.wait_finished(1);
    ends(cvc, 10);
    let detail = on.only_failure("misplaced");
    assert!(detail.contains("rank 1 is on n1 instead of n2"), "{detail}");
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn a_program_that_ignores_everything_is_ended_everywhere_when_its_time_is_up() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let script = "trap '' TERM INT HUP PIPE\nsetsid sh \"$0\" deaf >/dev/null 2>&1 &\necho 'Time step 1'\nwhile :; do sleep 1; done\n";
    let script = format!(
        "[ \"$1\" != deaf ] || {{ trap '' TERM INT HUP; while :; do sleep 1; done; }}\n{script}"
    );
    let on = scripted(
        3,
        "deaf",
        "",
        &script,
        "mapping = \"3Nx1P\"",
        "repeats = 1\nretries = 0\ntimeout_s = 5",
    );
    ends(on.begin(), 10);
    on.only_failure("timeout");
    on.assert_clean(&["n1", "n2", "n3"]);
}

#[test]
fn an_mpi_library_that_hangs_between_nodes_is_ended_in_time() {
    require!(Tool::Lab, Tool::Mpich5, Tool::Mpich);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let mpich = Tool::Mpich.find().expect("required");
    let text = format!(
        "{}[sites.lab.mpi.debian]\nfamily = \"mpich\"\nmpiexec = \"{}\"\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\n\
         mpi = \"debian\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 10\n",
        site(2, ""),
        mpich.display()
    );
    let on = on_lab(lab, "hangs", &text, STEPS);
    let output = on.begin().wait(LIMIT);
    // some versions hang in MPI_Finalize, others do not: the run must end in either case
    match output.code {
        Some(0) => on.campaign.assert_whole(1),
        _ => assert_eq!(
            on.only_failure("timeout"),
            "it did not end within 10 s (run.timeout_s)"
        ),
    }
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn points_of_two_nodes_run_side_by_side_only_where_the_site_allows_it() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let matrix = "mapping = \"2Nx1P\"\nuser = { trial = [1, 2] }";
    let on = scripted(
        4,
        "beside",
        "side_by_side = true",
        STEPS,
        matrix,
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(2);
    on.wait_ranks(&["n1", "n2", "n3", "n4"]);
    std::thread::sleep(SECOND);
    assert_eq!(on.starts().len(), 2, "no node has two");
    // after the controller is killed here, the next one finds both runs again
    cvc.kill();
    let cvc = on.begin();
    wait_until("the second controller", SOON, || {
        on.campaign.events("started").len() == 2
    });
    on.go_all();
    ends(cvc, 0);
    on.campaign.assert_whole(4);
    assert!(on.start_counts().values().all(|n| *n == 1));
    on.assert_clean(&["n1", "n2", "n3", "n4"]);

    let on = scripted(
        4,
        "single",
        "",
        STEPS,
        matrix,
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(on.starts().len(), 1);
    on.go_all();
    ends(cvc, 0);
    let order: Vec<String> = on
        .campaign
        .journal()
        .iter()
        .filter_map(|e| {
            e["event"]
                .as_str()
                .filter(|e| e.starts_with("run-"))
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(
        order,
        ["run-intended", "run-started", "run-finished"].repeat(2),
        "one after the other"
    );
    on.assert_clean(&["n1", "n2", "n3", "n4"]);
}
