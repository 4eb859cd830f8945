//! Tests of whole campaigns: what a user types, and the files that are left.

use crate::common::{SITE, campaign, scripted, waiting};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{fs, process::Command, time::Duration};

/// Time limit for an event, long enough for a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(90);

const KERNEL: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx2P\"\nmpi = [\"mpich\", \"openmpi\"]\naggregators = [1, 2]\n\
                      checkpointer = \"application\"\n[run]\nrepeats = 1\ntimeout_s = 300\n";

#[test]
fn kernels_are_compiled_only_for_libraries_that_points_left_use() {
    require!(Tool::Mpich, Tool::OpenMpi);
    // the site has both libraries, but only the points of one of them run a kernel
    let mut c = campaign(
        "wanted",
        &format!(
            "{SITE}{}",
            KERNEL
                .replace("[\"mpich\", \"openmpi\"]", "\"mpich\"")
                .replace("[1, 2]", "1")
        ),
    );
    let cache = c.dir().join("cache");
    c.env("XDG_CACHE_HOME", cache.to_str().expect("UTF-8"));
    let said = c.run().expect(0).stderr;
    assert!(
        said.contains("compiling the built-in kernels for mpich")
            && !said.contains("kernels for openmpi"),
        "{said}"
    );
    // no run is left, so that nothing is compiled although the cache is empty
    fs::remove_dir_all(cache.join("cvc/kernels")).expect("the kernels were there");
    let said = c.run().expect(0).stderr;
    assert!(!said.contains("compiling"), "{said}");
    assert!(!cache.join("cvc/kernels").exists());
    // a run that is repeated needs the kernels again
    fs::remove_dir_all(c.run_dir(&c.run_names().pop_first().expect("a run"))).expect("removes");
    let said = c.run().expect(0).stderr;
    assert!(
        said.contains("compiling the built-in kernels for mpich"),
        "{said}"
    );
}

#[test]
fn a_campaign_of_a_kernel_on_both_libraries_runs_once_and_reports() {
    require!(Tool::Mpich, Tool::OpenMpi);
    let mut c = campaign("kernel", &format!("{SITE}{KERNEL}"));
    c.env("AWS_SECRET_ACCESS_KEY", "sekret123");
    let first = c.run().expect(0);
    c.assert_whole(4);
    c.assert_nothing_left();
    let report = c.dir().join("reports/kernel");
    let html = fs::read_to_string(report.join("report.html")).expect("a report");
    assert!(
        first.stdout.contains("report.html") && html.contains("kernel-stencil"),
        "{}",
        first.stdout
    );
    for run in c.run_names() {
        let records = c.records(&run);
        let value = |name: &str| {
            records
                .iter()
                .find(|r| r["name"] == name)
                .unwrap_or_else(|| panic!("{run} has no {name}"))["value"]
                .as_f64()
        };
        let point = &read_json(&c.run_dir(&run).join("run.json"))["point"];
        assert_eq!(
            value("aggregators_effective"),
            point["aggregators"].as_f64(),
            "{run}"
        );
        assert!(
            value("ckpt_stored_bytes").is_some_and(|b| b > 200_000.0),
            "{run}"
        );
        assert!(value("wall_s").is_some_and(|s| s > 0.0), "{run}");
    }

    // no file contains private data of the user
    let grep = Command::new("grep")
        .args(["-rl", "sekret123"])
        .arg(c.dir())
        .output()
        .expect("grep");
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "");

    let before = c.events("run-intended").len();
    c.run().expect(0);
    assert_eq!(
        c.events("run-intended").len(),
        before,
        "a finished campaign starts nothing"
    );
    c.assert_whole(4);

    // an extended campaign only does the new runs
    c.rewrite(&format!(
        "{SITE}{}",
        KERNEL.replace("repeats = 1", "repeats = 2")
    ));
    c.run().expect(0);
    c.assert_whole(8);
    assert_eq!(c.events("run-intended").len(), 8);

    // each run can be repeated by its script, from another directory
    for run in c.run_names().into_iter().take(1) {
        let script = c.run_dir(&run).join("launch.sh");
        let finished = Command::new("timeout")
            .args(["-s", "KILL", "60", "bash"])
            .arg(&script)
            .current_dir("/")
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&finished.stdout);
        assert!(
            finished.status.success() && text.contains("Verification = SUCCESSFUL"),
            "{text}{}",
            String::from_utf8_lossy(&finished.stderr)
        );
    }
}

#[test]
fn runs_speak_the_language_of_the_campaign_whatever_that_of_its_user() {
    require!(Tool::Mpich);
    let says = "echo \"speaks $LC_ALL ${LANG-nothing} ${LANGUAGE-nothing}\"; echo SUCCESS";
    let mut c = scripted("language", says, "repeats = 1\n");
    c.env("LC_ALL", "de_DE.UTF-8")
        .env("LANG", "de_DE.UTF-8")
        .env("LANGUAGE", "de");
    let said = |c: &Campaign, run: &str| {
        fs::read_to_string(c.run_dir(run).join("stdout")).expect("output")
    };
    c.run().expect(0);
    let first = c.run_names();
    let run = first.first().expect("a run");
    assert!(
        said(&c, run).contains("speaks C.UTF-8 nothing nothing"),
        "{}",
        said(&c, run)
    );
    // another locale gives another point, which has no result yet
    c.rewrite(&format!("{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\nlocale = \"C\"\n"));
    c.run().expect(0);
    let run = c
        .run_names()
        .difference(&first)
        .next()
        .expect("another run")
        .clone();
    assert!(
        said(&c, &run).contains("speaks C nothing nothing"),
        "{}",
        said(&c, &run)
    );
}

#[test]
fn a_program_that_is_not_installed_is_skipped_with_its_hint_and_doctor_says_so() {
    require!(Tool::Mpich);
    let c = campaign(
        "gaps",
        "[sites.local]\nkind = \"local\"\nmpi.there = { family = \"mpich\" }\nmpi.gone = { family = \"mpich\", prefix = \"/nonexistent/mpich\" }\n\
         [matrix]\napp = \"script\"\nprocesses = 1\nmpi = [\"there\", \"gone\"]\n[run]\nrepeats = 2\n",
    );
    c.script_app("script", "echo SUCCESS", "");
    let finished = c.cvc(&["doctor", "campaign.toml", "--json"]).expect(5);
    let doctor: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let verdict = &doctor["verdict"];
    assert_eq!(
        (
            verdict["points"].as_u64(),
            verdict["points_that_cannot_run"].as_u64()
        ),
        (Some(2), Some(1)),
        "{doctor}"
    );
    assert!(
        verdict["obstacles"][0]["what"]
            .as_str()
            .is_some_and(|o| o.contains("/nonexistent/mpich")),
        "{doctor}"
    );
    let finished = c.cvc(&["doctor", "campaign.toml"]).expect(5);
    assert!(
        finished.stdout.contains("1 of 2 points") && finished.stdout.contains("hint:"),
        "{}",
        finished.stdout
    );

    // points that can run are run
    let finished = c.run().expect(0);
    assert!(
        finished.stderr.contains("skipped, 2 runs")
            && finished.stderr.contains("/nonexistent/mpich"),
        "{}",
        finished.stderr
    );
    c.assert_whole(2);
    // `cvc status` counts as `cvc run` does
    let counts = "2 runs succeeded, 0 failed, 2 skipped, 0 left";
    assert!(finished.stderr.contains(counts), "{}", finished.stderr);
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(
        status.contains("2 of 4 runs succeeded (50 %), 2 skipped (50 %)"),
        "{status}"
    );

    c.rewrite(&format!(
        "{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n"
    ));
    c.cvc(&["doctor", "campaign.toml"]).expect(0);
    let finished = c.cvc(&["doctor", "--json"]).expect(0);
    serde_json::from_str::<serde_json::Value>(&finished.stdout).expect("JSON");
}

#[test]
fn a_second_controller_is_refused_and_the_first_goes_on() {
    require!(Tool::Mpich);
    let (c, go) = waiting("locked", "repeats = 2");
    let first = c.start(&["run", "campaign.toml"]);
    cvc_testkit::wait_until("the first run", LIMIT, || {
        !c.events("run-started").is_empty()
    });
    let second = c.run().expect(7);
    assert!(
        second.stderr.contains("locked") && second.stderr.contains(&first.pid().to_string()),
        "{}",
        second.stderr
    );
    fs::write(go, "").expect("writes");
    first.wait(LIMIT).expect(0);
    c.assert_whole(2);
}

#[test]
fn a_newer_or_damaged_journal_is_refused_and_named() {
    require!(Tool::Mpich);
    let c = scripted("journal", "echo SUCCESS", "repeats = 1");
    c.run().expect(0);
    let path = c.root().join("journal.jsonl");
    let text = fs::read_to_string(&path).expect("journal");
    let (first, rest) = text.split_once('\n').expect("lines");
    let mut newer: serde_json::Value = serde_json::from_str(first).expect("JSON");
    newer["format"] = 9.into();
    newer.as_object_mut().expect("an object").remove("sum");
    let newer = cvc_core::store::line_file::with_sum(serde_json::to_vec(&newer).expect("JSON"))
        .expect("a line");
    fs::write(&path, [newer.as_slice(), rest.as_bytes()].concat()).expect("writes");
    for command in ["run", "status", "report"] {
        let finished = c.cvc(&[command, "campaign.toml"]).expect(7);
        assert!(
            finished.stderr.contains("journal.jsonl") && finished.stderr.contains("newer"),
            "{command}: {}",
            finished.stderr
        );
    }
    fs::write(
        &path,
        text.replacen("\"event\":\"run-intended\"", "\"event\":", 1),
    )
    .expect("writes");
    for command in ["run", "status", "report"] {
        let finished = c.cvc(&[command, "campaign.toml"]).expect(7);
        assert!(
            finished.stderr.contains("journal.jsonl") && finished.stderr.contains("line 3"),
            "{command}: {}",
            finished.stderr
        );
    }
    // a refused command changes nothing
    assert_eq!(
        fs::read_to_string(&path).expect("journal"),
        text.replacen("\"event\":\"run-intended\"", "\"event\":", 1)
    );
}

#[test]
fn two_campaigns_of_the_same_content_do_not_meet() {
    require!(Tool::Mpich);
    // the private directory of the first campaign must stay while the other campaign begins and ends
    let place = tempfile::tempdir().expect("a directory");
    let meet = place.path().display().to_string();
    let script = format!(
        "if mkdir {meet}/first; then touch $TMPDIR/mine; while [ ! -e {meet}/go ]; do sleep 0.05; done; test -e $TMPDIR/mine || exit 1; fi; echo SUCCESS"
    );
    let text = format!(
        "{SITE}[matrix]\napp = \"command\"\nclass = \"any\"\nprocesses = 1\nmpi = \"mpich\"\nuser.command = \"sh -c '{script}'\"\n[run]\nrepeats = 1\nretries = 0\n"
    );
    let (a, b) = (campaign("same", &text), campaign("same", &text));
    let first = a.start(&["run", "campaign.toml"]);
    cvc_testkit::wait_until("the first run", LIMIT, || {
        fs::exists(format!("{meet}/first")).is_ok_and(|e| e)
    });
    b.run().expect(0);
    fs::write(format!("{meet}/go"), "").expect("writes");
    first.wait(LIMIT).expect(0);
    assert_eq!(
        a.run_names(),
        b.run_names(),
        "the same content is the same run"
    );
    a.assert_whole(1);
    b.assert_whole(1);
}

/// A variant is a separate campaign: with its own runs, continuation and outputs.
#[test]
fn a_variant_runs_beside_its_file_and_is_found_again_without_an_option() {
    require!(Tool::Mpich);
    let c = campaign(
        "sizes",
        &format!(
            "{SITE}[matrix]\napp = \"script\"\nprocesses = [1, 2]\nmpi = \"mpich\"\n[run]\nrepeats = 3\n[variants.small]\nrun.repeats = 1\nreport.title = \"In small\"\n"
        ),
    );
    c.script_app("script", "echo SUCCESS", "");
    let finished = c.cvc(&["plan", "campaign.toml"]).expect(0);
    assert!(
        finished.stdout.contains("campaign sizes,")
            && finished.stdout.contains("variants (--variant NAME): small"),
        "{}",
        finished.stdout
    );
    c.cvc(&["run", "campaign.toml", "--variant", "small"])
        .expect(0);
    let root = c.dir().join("campaigns/sizes-small");
    let runs = || fs::read_dir(root.join("runs")).expect("runs").count();
    assert_eq!(runs(), 2);
    assert!(
        !c.dir().join("campaigns/sizes").exists(),
        "the file itself was not run"
    );
    let report =
        fs::read_to_string(c.dir().join("reports/sizes-small/report.md")).expect("a report");
    assert!(report.starts_with("# In small"), "{report}");

    // the stored file records its variant: it continues with it, and nothing is left to do
    fs::create_dir_all(root.join("apps")).expect("writes");
    fs::copy(
        c.dir().join("apps/script.toml"),
        root.join("apps/script.toml"),
    )
    .expect("copies");
    c.cvc(&["run", "campaigns/sizes-small/campaign.toml"])
        .expect(0);
    assert_eq!(runs(), 2);
    for way in [
        &["campaign.toml", "--variant", "small"][..],
        &["campaigns/sizes-small"],
        &["sizes-small"],
        &["campaigns/sizes-small/campaign.toml"],
    ] {
        let finished = c.cvc(&[&["status"], way].concat()).expect(0);
        assert!(
            finished
                .stdout
                .contains("campaign sizes-small: 2 of 2 runs succeeded (100 %)"),
            "{way:?}: {}",
            finished.stdout
        );
        let finished = c.cvc(&[&["report"], way].concat()).expect(0);
        assert!(
            finished.stdout.contains("reports/sizes-small/report.html"),
            "{way:?}: {}",
            finished.stdout
        );
    }

    for command in ["plan", "run", "status", "report", "doctor"] {
        let finished = c
            .cvc(&[command, "campaign.toml", "--variant", "smal"])
            .expect(2);
        assert!(
            finished.stderr.contains("unknown variant")
                && finished.stderr.contains("did you mean `small`?"),
            "{command}: {}",
            finished.stderr
        );
    }
    let finished = c
        .cvc(&["status", "sizes-small", "--variant", "small"])
        .expect(2);
    assert!(
        finished.stderr.contains("needs a campaign file"),
        "{}",
        finished.stderr
    );
}
