//! Tests of restarts: where a restarted program continues, how long that takes, and several restarts in a row.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, require};
use serde_json::Value;
use std::fs;

/// Returns a campaign of the stencil kernel on two ranks with Open MPI.
fn stencil(name: &str, checkpointer: &str, checkpoint: &str) -> Campaign {
    stencil_of("S", name, checkpointer, checkpoint)
}

fn stencil_of(class: &str, name: &str, checkpointer: &str, checkpoint: &str) -> Campaign {
    campaign(name, &stencil_text(class, checkpointer, checkpoint))
}

fn stencil_text(class: &str, checkpointer: &str, checkpoint: &str) -> String {
    format!(
        "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"{class}\"\nmapping = \"1Nx2P\"\nmpi = \"openmpi\"\ncheckpointer = \"{checkpointer}\"\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n[checkpoint]\ntimeout_s = 200\nrestart_check = true\n{checkpoint}\n"
    )
}

fn values(records: &[Value], name: &str, label: Option<(&str, &str)>) -> Vec<f64> {
    records
        .iter()
        .filter(|r| r["name"] == name && label.is_none_or(|(k, v)| r["labels"][k] == *v))
        .filter_map(|r| r["value"].as_f64())
        .collect()
}

/// Returns the steps in an output file of a run.
fn steps(c: &Campaign, run: &str, file: &str) -> Vec<u64> {
    let text = fs::read_to_string(c.run_dir(run).join(file)).expect(file);
    text.lines()
        .filter_map(|line| line.strip_prefix("Time step ")?.parse().ok())
        .collect()
}

/// Runs the campaign, which restarts its run three times, and checks the steps of all parts. Returns the run and its records.
fn three_in_a_row(c: &Campaign, all: u64) -> (String, Vec<Value>) {
    c.run().expect(0);
    c.assert_whole(1);
    c.assert_nothing_left();
    let run = c.run_names().pop_first().expect("a run");
    let records = c.records(&run);
    assert_eq!(values(&records, "restarts", None), [3.0]);
    assert_eq!(values(&records, "restart_verified", None), [1.0]);
    assert_eq!(values(&records, "restart_step_gap", None), [1.0; 3]);
    let files = [
        "stdout",
        "restart-1.stdout",
        "restart-2.stdout",
        "restart.stdout",
    ];
    let (mut first, mut last) = (0, 0);
    for file in files {
        let steps = steps(c, &run, file);
        let next = *steps.first().expect("steps");
        // a program that is killed after its checkpoint may print further steps before
        assert!(first < next && next <= last + 1, "{file}: {steps:?}");
        assert!(steps.is_sorted_by(|a, b| a + 1 == *b), "{file}: {steps:?}");
        (first, last) = (next, *steps.last().expect("steps"));
    }
    assert_eq!(last, all);
    for number in ["1", "2", "3"] {
        let of = |name: &str| values(&records, name, Some(("restart", number)));
        let (latency, bytes) = (of("restart_latency_s"), of("restart_bytes"));
        assert!(
            latency.len() == 1 && latency[0] > 0.0,
            "{number}: {latency:?}"
        );
        assert!(bytes.len() == 1 && bytes[0] > 0.0, "{number}: {bytes:?}");
    }
    (run, records)
}

#[test]
fn restarts_in_a_row_under_dmtcp_continue_each_after_the_one_before() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    // its steps are so long that it is suspended before the next one
    let c = stencil_of(
        "A",
        "row-dmtcp",
        "dmtcp",
        "moment = { after_step = 4 }\nrestarts = 3",
    );
    let (_, records) = three_in_a_row(&c, 200);
    let of = |name: &str| values(&records, name, None);
    // the time of the restart is part of the time to the end
    let last = values(&records, "restart_latency_s", Some(("restart", "3")));
    let [to_end, rest] = ["restart_to_end_s", "restart_rest_s"].map(|name| of(name)[0]);
    assert!(
        (last[0] + rest - to_end).abs() < 1e-6,
        "{last:?} {rest} {to_end}"
    );
    // checkpoints of restarted programs do not count as checkpoints of the campaign
    assert_eq!(of("ckpt_stored_bytes").len(), 1);
    assert_eq!(of("restart_ckpt_stored_bytes").len(), 2);
    assert_eq!(of("restart_bytes")[1], of("restart_ckpt_stored_bytes")[0]);
    // images of both ranks and of the launcher; the last image completes the checkpoint
    let done = of("ckpt_image_done_s");
    assert_eq!(done.len(), 3, "{done:?}");
    let last = values(&records, "ckpt_images_done_s", Some(("at", "last")))[0];
    assert_eq!(last, done.iter().copied().fold(0.0, f64::max));
    assert!(last <= of("ckpt_latency_s")[0] + 0.5, "{last}");
}

#[test]
fn restarts_in_a_row_from_own_checkpoints_continue_each_after_the_one_before() {
    require!(Tool::OpenMpi);
    // its steps are so long that it is killed before the next checkpoint
    let c = stencil_of("W", "row-own", "application", "restarts = 3");
    let (run, records) = three_in_a_row(&c, 120);
    assert_eq!(
        values(&records, "restart_from_step", None),
        [32.0, 64.0, 96.0]
    );
    assert_eq!(
        steps(&c, &run, "restart.stdout"),
        (97..=120).collect::<Vec<u64>>()
    );
}

/// Returns a campaign of a script that writes its own checkpoints, with `restarted` as its restart.
fn saver(name: &str, restarted: &str, checkpoint: &str) -> Campaign {
    let c = campaign(
        name,
        &format!(
            "{SITE}[matrix]\napp = \"saver\"\nprocesses = 1\nmpi = \"openmpi\"\ncheckpointer = \"application\"\n\
             [run]\nrepeats = 1\nretries = 0\ntimeout_s = 60\n[checkpoint]\nrestart_check = true\n{checkpoint}\n"
        ),
    );
    let steps = "step() { echo \"Time step $1\"; echo $1 >own.ckpt; echo \"saved $1 in 0.1 s\"; sleep 0.1; }\n";
    let script = c.put(
        "bin/saver.sh",
        &format!(
            "{steps}if [ \"$1\" = again ]; then from=$(cat own.ckpt); {restarted}\nelse for i in 1 2 3 4; do step $i; done; fi\necho SUCCESS\n"
        ),
    );
    let script = script.display();
    c.put(
        "apps/saver.toml",
        &format!(
            "schema = 1\nname = \"saver\"\ntitle = \"a script of a test\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n\
             [command]\nargs = [\"{script}\"]\nrestart_args = [\"{script}\", \"again\"]\n\
             [workloads.any]\n[success]\npattern = '^SUCCESS'\n[progress]\nstep = '^Time step (\\d+)'\n\
             [checkpoint]\nfiles = [\"own.ckpt\"]\nstep = '^saved (\\d+)'\ntime_s = '^saved \\d+ in ([0-9.]+) s'\nrestartable = true\n"
        ),
    );
    c
}

/// Returns why the only run failed.
fn failure(c: &Campaign) -> (Value, String) {
    c.run().expect(10);
    let finished = c.events("run-finished").pop().expect("a run");
    let outcome = &finished["outcome"];
    let detail = outcome["detail"].as_str().unwrap_or_default().to_owned();
    (outcome["cause"].clone(), detail)
}

#[test]
fn a_program_that_silently_begins_anew_has_failed_though_it_verifies() {
    require!(Tool::OpenMpi);
    let anew = saver("anew", "for i in 1 2 3 4 5; do step $i; done", "");
    let (cause, detail) = failure(&anew);
    assert_eq!(cause, "restart", "{detail}");
    assert!(
        detail.contains("its first step is 1, and the checkpoint was taken after step 4"),
        "{detail}"
    );
    let on = saver("on", "for i in 5 6; do step $i; done", "");
    on.run().expect(0);
    let run = on.run_names().pop_first().expect("a run");
    let records = on.records(&run);
    assert_eq!(values(&records, "restart_first_step", None), [5.0]);
    assert_eq!(values(&records, "restart_from_step", None), [4.0]);
    assert_eq!(values(&records, "restart_bytes", None), [2.0]);
}

#[test]
fn a_new_beginning_ends_the_row_at_the_restart_that_shows_it() {
    require!(Tool::OpenMpi);
    // the first restart continues, the second one begins at the start
    let restarted = "if [ -e once ]; then from=0; fi; : >once; for i in 1 2 3; do step $((from + i)); done; sleep 5";
    let c = saver("anew-later", restarted, "restarts = 3");
    let (cause, detail) = failure(&c);
    assert_eq!(cause, "restart", "{detail}");
    assert!(
        detail.starts_with("restart 2 of 3: ") && detail.contains("its first step is 1"),
        "{detail}"
    );
}

#[test]
fn a_program_with_too_few_checkpoints_for_its_restarts_says_so() {
    require!(Tool::OpenMpi);
    let c = saver("few", "echo \"Time step $((from + 1))\"", "restarts = 2");
    let (cause, detail) = failure(&c);
    assert_eq!(cause, "checkpoint", "{detail}");
    assert!(
        detail.starts_with("restart 1 of 2: the program ended before its next checkpoint"),
        "{detail}"
    );
}

#[test]
fn restarts_that_cannot_be_are_refused_when_the_file_is_read() {
    for (line, message) in [
        ("restarts = 0", "`restarts` is 0"),
        ("restarts = 101", "`restarts` is 101"),
        (
            "restarts = 2\nown_series = true",
            "`restarts` with `own_series`",
        ),
    ] {
        let c = stencil("refused", "application", line);
        let refused = c.cvc(&["plan", "campaign.toml"]).expect(2);
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
}

/// Returns a campaign of the stencil with forked checkpoints by the DMTCP in this prefix.
fn forked(name: &str, prefix: &std::path::Path, class: &str, checkpoint: &str) -> Campaign {
    let root = prefix.ancestors().nth(2).expect("its prefix");
    let prefix = format!("kind = \"local\"\ndmtcp.prefix = \"{}\"", root.display());
    let text = stencil_text(class, "dmtcp", checkpoint)
        .replace("kind = \"local\"", &prefix)
        .replace("checkpointer = ", "strategy = \"forked\"\ncheckpointer = ");
    campaign(name, &text)
}

#[test]
fn forked_checkpoints_are_refused_of_a_build_without_them_before_anything_runs() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let launch = Tool::Dmtcp.find().expect("DMTCP");
    let c = forked("not-forked", &launch, "S", "");
    let shown = c.cvc(&["run"]);
    let shown = format!("{}{}", shown.stdout, shown.stderr);
    assert!(
        shown.contains("was built without forked checkpointing"),
        "{shown}"
    );
    assert_eq!(c.run_names().len(), 0);
}

#[test]
fn a_forked_checkpoint_is_whole_when_its_copies_have_written_it_and_restarts_twice() {
    require!(Tool::DmtcpForked, Tool::OpenMpi);
    let launch = Tool::DmtcpForked.find().expect("DMTCP");
    let c = forked(
        "forked",
        &launch,
        "A",
        "moment = { after_step = 4 }\nrestarts = 2",
    );
    c.run().expect(0);
    c.assert_whole(1);
    c.assert_nothing_left();
    let run = c.run_names().pop_first().expect("a run");
    let records = c.records(&run);
    let of = |name: &str| values(&records, name, None);
    assert_eq!(of("restart_step_gap"), [1.0; 2]);
    assert_eq!(of("restart_verified"), [1.0]);
    // the program continued before its images were complete
    let (stop, latency) = (of("ckpt_stop_s")[0], of("ckpt_latency_s")[0]);
    assert!(stop > 0.0 && stop < latency, "{stop} {latency}");
    assert_eq!(of("ckpt_image_done_s").len(), 3);
}
