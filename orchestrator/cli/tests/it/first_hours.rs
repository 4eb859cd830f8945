//! Tests of situations in the first hours of use: missing files, keys without effect, numbers without units.

use crate::common::{SITE, campaign, scripted};
use cvc_testkit::{Running, Tool, require};
use std::{fs, time::Duration};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn results_without_a_journal_are_not_overwritten() {
    require!(Tool::Mpich);
    let c = scripted("lost", "echo SUCCESS", "repeats = 2");
    c.run().expect(0);
    let journal = c.root().join("journal.jsonl");
    let runs = c.run_names();
    let written = |run: &String| {
        fs::metadata(c.run_dir(run).join("outcome.json"))
            .and_then(|m| m.modified())
            .expect("an outcome")
    };
    let before: Vec<_> = runs.iter().map(written).collect();
    for empty in [false, true] {
        if empty {
            fs::write(&journal, "").expect("writes");
        } else {
            fs::remove_file(&journal).expect("removes");
        }
        let refused = c.run().expect(7).stderr;
        let what = if empty {
            "it is empty"
        } else {
            "it is missing"
        };
        assert!(
            refused.contains(what) && refused.contains("the results of 2 runs"),
            "{refused}"
        );
        assert!(
            refused.contains("cvc fsck") && refused.contains("--repair"),
            "{refused}"
        );
        assert_eq!(runs.iter().map(written).collect::<Vec<_>>(), before);
    }
    c.cvc(&["fsck", "--repair", "campaign.toml"]).expect(0);
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(status.contains("2 of 2 runs succeeded"), "{status}");
    c.run().expect(0);
    assert_eq!(runs.iter().map(written).collect::<Vec<_>>(), before);
}

#[test]
fn a_run_whose_directory_was_deleted_is_told_and_repeated() {
    require!(Tool::Mpich);
    let c = scripted("deleted", "echo SUCCESS", "repeats = 2");
    c.run().expect(0);
    let run = c.run_names().pop_first().expect("a run");
    fs::remove_dir_all(c.run_dir(&run)).expect("removes");
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(
        status.contains("1 of 2 runs succeeded (50 %), 1 left (50 %)"),
        "{status}"
    );
    assert!(
        status.contains("1 of these succeeded, but its directory is missing: `cvc run` repeats it"),
        "{status}"
    );
    let json: serde_json::Value = serde_json::from_str(
        &c.cvc(&["status", "--json", "campaign.toml"])
            .expect(0)
            .stdout,
    )
    .expect("JSON");
    let of_run = json["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .find(|r| r["run"] == run.as_str())
        .expect("the run")
        .clone();
    assert_eq!(of_run["state"], "missing");
    let again = c.run().expect(0).stderr;
    assert!(
        again.contains(&format!(
            "run {run} succeeded, but its directory is missing: it will be repeated"
        )),
        "{again}"
    );
    assert_eq!(
        (c.run_names().len(), c.events("run-finished").len()),
        (2, 3)
    );
    let again = c.cvc(&["fsck", "campaign.toml"]).expect(0).stdout;
    assert!(
        again.contains("2 run directories checked") && again.contains("nothing is damaged"),
        "{again}"
    );
    assert!(!c.run().expect(0).stderr.contains("missing"));
}

#[test]
fn keys_without_effect_are_told() {
    let matrix = "[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n";
    let more = "[checkpoint]\nrestart_check = true\nmoment = \"size-only\"\nown_series = true\n[run]\nrepeats = 3\n\
                [variants.short.run]\nrepeats = 3\ntimeout_s = 9\n";
    let c = campaign("idle", &format!("{SITE}{matrix}{more}"));
    c.script_app("script", "echo SUCCESS", "");
    let told = c.cvc(&["plan", "campaign.toml"]).expect(0).stderr;
    for key in ["restart_check", "moment"] {
        let line = told
            .lines()
            .find(|line| line.starts_with(&format!("warning: `{key}` has no effect")))
            .unwrap_or_else(|| panic!("{told}"));
        assert!(line.contains("checkpointer = \"dmtcp\""), "{line}");
    }
    let own = "warning: `own_series` has no effect: no point takes checkpoints that the program writes itself; add checkpointer = \"application\" to [matrix]";
    assert!(told.contains(own), "{told}");
    let variant = c
        .cvc(&["plan", "--variant", "short", "campaign.toml"])
        .expect(0)
        .stderr;
    assert!(
        variant.contains("warning: variant `short`: `run.repeats` is the same as without it"),
        "{variant}"
    );
    assert!(!variant.contains("timeout_s"), "{variant}");
    c.rewrite(&format!(
        "{SITE}{matrix}checkpointer = \"dmtcp\"\n[checkpoint]\nmoment = \"size-only\"\n"
    ));
    assert!(
        !c.cvc(&["plan", "campaign.toml"])
            .expect(0)
            .stderr
            .contains("no effect")
    );
    c.rewrite(&format!(
        "{SITE}[matrix]\napp = \"kernel-front\"\nclass = \"S\"\nprocesses = 1\nmpi = \"mpich\"\ncheckpointer = \"application\"\n\
         [checkpoint]\nown_series = true\n"
    ));
    assert!(
        !c.cvc(&["plan", "campaign.toml"])
            .expect(0)
            .stderr
            .contains("no effect")
    );
}

#[test]
fn a_plan_without_a_point_ends_with_a_code_and_a_misspelt_class_is_an_error() {
    let c = campaign(
        "nothing",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"Q\"\nprocesses = 1\nmpi = \"mpich\"\n"
        ),
    );
    let refused = c.cvc(&["plan", "campaign.toml"]).expect(2).stderr;
    assert!(
        refused.contains("unknown workload `Q`") && refused.contains("known here"),
        "{refused}"
    );
    c.rewrite(&format!("{SITE}[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = 4\naggregators = 9\nmpi = \"mpich\"\n"));
    let plan = c.cvc(&["plan", "campaign.toml"]).expect(2);
    assert!(
        plan.stdout.contains("9 aggregators, but only 4 processes")
            && plan.stderr.contains("nothing to run"),
        "{plan:?}"
    );
}

#[test]
fn a_number_without_a_unit_and_a_file_for_a_directory_are_refused() {
    let c = campaign(
        "units",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\nmpi = \"mpich\"\n"
        ),
    );
    let refused = c
        .cvc(&["predict", "--at", "npb-bt.A 4 mpich-ch3", "--mtbf", "24"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("`24` has no unit: write 24s, 24m, 24h or 24d"),
        "{refused}"
    );
    let refused = c
        .cvc(&["run", "--campaigns", "campaign.toml", "campaign.toml"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("it is a file; name a directory"),
        "{refused}"
    );
}

#[test]
fn a_campaign_that_may_only_be_read_is_reported() {
    require!(Tool::Mpich, Tool::Tmpfs);
    let c = scripted("archived", "echo SUCCESS", "repeats = 2");
    c.run().expect(0);
    let root = c.root();
    fs::remove_file(root.join("index.sqlite")).expect("removes");
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let cvc = c.command(&["report", "archived"]);
    let mut command = std::process::Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&root)
        .arg(cvc.get_program())
        .args(cvc.get_args())
        .current_dir(c.dir());
    command.envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    Running::start(command).wait(LIMIT).expect(0);
    assert!(!root.join("index.sqlite").exists(), "it may only be read");
    assert!(
        fs::read_to_string(c.dir().join("reports/archived/report.html"))
            .expect("a page")
            .contains("archived")
    );
}

#[test]
fn impossible_orders_of_magnitude_are_asked_back() {
    require!(Tool::Mpich);
    let matrix = |rest: &str| format!("{SITE}[matrix]\napp = \"script\"\nmpi = \"mpich\"\n{rest}");
    let c = campaign(
        "huge",
        &matrix("processes = [1, 100_000]\n[run]\nrepeats = 1\n"),
    );
    c.script_app("script", "echo SUCCESS", "");
    for command in ["plan", "run"] {
        let told = c.cvc(&[command, "campaign.toml"]).expect(0);
        let told = format!("{}{}", told.stdout, told.stderr);
        assert!(
            told.contains("1Nx100000P puts 100000 processes on a node")
                && told.contains("check the number"),
            "{told}"
        );
    }
    assert_eq!(c.run_names().len(), 1);
    // ten thousand repeats of one minute
    let long = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(!long.contains("is this intended?"), "{long}");
    c.rewrite(&matrix("processes = 1\n[matrix.user]\nn = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n[run]\nrepeats = 10_000\n"));
    let long = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(
        long.contains(" days") && long.contains("is this intended?"),
        "{long}"
    );
}

#[test]
fn a_reason_that_concerns_many_points_names_a_few() {
    let c = campaign(
        "many",
        &format!(
            "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\naggregators = [\"default\", 1]\n[matrix.user]\nn = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"
        ),
    );
    c.script_app("script", "echo SUCCESS", "");
    let plan = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(
        plan.contains("10 points are excluded:") && plan.contains("- and 2 more"),
        "{plan}"
    );
}
