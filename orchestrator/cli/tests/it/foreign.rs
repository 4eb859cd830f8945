//! Tests of directories made by other users, of journals that were set back, and of concurrent controllers.

use crate::common::scripted;
use cvc_testkit::{Campaign, Tool, require, wait_until};
use nix::sys::signal::Signal;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Returns a campaign whose runs record their start, and end when the test allows it.
fn waiting(name: &str, repeats: u32) -> Campaign {
    let campaign = scripted(
        name,
        "",
        &format!("repeats = {repeats}\nretries = 0\ntimeout_s = 200"),
    );
    let marks = campaign.dir().join("marks");
    fs::create_dir(&marks).expect("makes");
    let script = format!(
        "echo begun >>{0}/begun\nuntil [ -e {0}/go ]; do sleep 0.05; done\necho SUCCESS",
        marks.display()
    );
    campaign.script_app("script", &script, "");
    campaign
}

fn begun(campaign: &Campaign) -> usize {
    fs::read_to_string(campaign.dir().join("marks/begun"))
        .unwrap_or_default()
        .lines()
        .count()
}

fn wait_begun(campaign: &Campaign, runs: usize) {
    wait_until(&format!("the start of run {runs}"), LIMIT, || {
        begun(campaign) >= runs
    });
}

fn go(campaign: &Campaign) {
    fs::write(campaign.dir().join("marks/go"), "").expect("writes");
}

/// Returns the contents of all files below a directory.
fn content(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(content(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    files
}

#[test]
fn names_in_a_journal_from_elsewhere_are_no_paths() {
    let campaign = scripted("tiny", "echo SUCCESS", "repeats = 1\nretries = 0");
    let precious = campaign
        .put("precious/thesis.tex", "years")
        .parent()
        .expect("a directory")
        .to_owned();
    let other = campaign.put("campaigns/other/journal.jsonl", "somebody's\n");
    let bashrc = campaign.put("victim/bashrc", "alias");
    let at = "\"at\":\"2026-11-20T14:03:07Z\"";
    let opened = |lineage: &str| {
        format!(
            "{{\"seq\":1,{at},\"event\":\"opened\",\"format\":3,\"campaign\":\"tiny\",\"cvc\":\"0.1.0\",\"lineage\":\"{lineage}\"}}\n"
        )
    };
    let started =
        format!("{{\"seq\":2,{at},\"event\":\"started\",\"plan\":\"0\",\"runs\":1,\"pid\":1}}\n");
    let run = |name: &str| {
        format!(
            "{}{started}{{\"seq\":3,{at},\"event\":\"run-intended\",\"run\":\"{name}\",\"attempt\":1}}\n",
            opened("00ff00ff00ff00ff")
        )
    };
    let finished = |name: &str| {
        format!(
            "{}{{\"seq\":4,{at},\"event\":\"run-finished\",\"run\":\"{name}\",\"attempt\":1,\"outcome\":{{\"result\":\"succeeded\"}}}}\n",
            run(name)
        )
    };
    let absolute = precious.to_str().expect("UTF-8");
    let journals = [
        (3, run(absolute)),
        (3, run("../..")),
        (3, run("..")),
        (1, opened("../../../../victim/bashrc")),
        (3, finished(absolute)),
        (
            2,
            format!(
                "{}{{\"seq\":2,{at},\"event\":\"site-opened\",\"site\":\"../../precious\"}}\n",
                opened("00ff00ff00ff00ff")
            ),
        ),
        (
            2,
            format!(
                "{}{{\"seq\":2,{at},\"event\":\"lease-intended\",\"lease\":\"../../precious\",\"site\":\"s\",\"nodes\":1}}\n",
                opened("00ff00ff00ff00ff")
            ),
        ),
    ];
    for (line, journal) in journals {
        let _ = fs::remove_dir_all(campaign.root());
        campaign.put("campaigns/tiny/journal.jsonl", &journal);
        for args in [
            &["down", "campaign.toml"] as &[&str],
            &["run", "campaign.toml"],
            &["status", "campaign.toml"],
            &["report", "campaigns/tiny"],
        ] {
            let refused = campaign.cvc(args);
            assert!(
                refused.code != Some(0),
                "{args:?} with {journal}: {}",
                refused.stdout
            );
        }
        let refused = campaign.cvc(&["run", "campaign.toml"]).expect(7);
        let place = format!("journal.jsonl is damaged, line {line}: ");
        assert!(
            refused.stderr.contains(&place) && refused.stderr.contains("is not a valid name of"),
            "{}",
            refused.stderr
        );
        campaign.cvc(&["fsck", "--repair", "campaigns/tiny"]);
        assert_eq!(
            fs::read_to_string(precious.join("thesis.tex")).expect("it is there"),
            "years",
            "{journal}"
        );
        assert_eq!(
            fs::read_to_string(&other).expect("it is there"),
            "somebody's\n",
            "{journal}"
        );
        assert_eq!(
            fs::read_to_string(&bashrc).expect("it is there"),
            "alias",
            "{journal}"
        );
    }
}

#[test]
fn a_journal_that_went_back_replaces_no_results() {
    require!(Tool::Mpich);
    let campaign = scripted("back", "echo SUCCESS", "repeats = 4\nretries = 0");
    campaign.run().expect(0);
    let (journal, runs) = (
        campaign.root().join("journal.jsonl"),
        content(&campaign.root().join("runs")),
    );
    let text = fs::read_to_string(&journal).expect("reads");
    let older: String = text.split_inclusive('\n').take(3).collect();
    let mut zeroed = text.clone().into_bytes();
    let from = zeroed.len() - 900;
    zeroed[from..].fill(0);
    for harmed in [older.clone().into_bytes(), zeroed] {
        fs::write(&journal, &harmed).expect("writes");
        let refused = campaign.run().expect(7);
        assert!(
            refused
                .stderr
                .contains("journal.jsonl was reset to an earlier state: it has"),
            "{}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("hint: ") && refused.stderr.contains("fsck --repair"),
            "{}",
            refused.stderr
        );
        assert_eq!(
            fs::read(&journal).expect("reads"),
            harmed,
            "nothing is changed"
        );
        assert_eq!(content(&campaign.root().join("runs")), runs);
    }
    fs::write(&journal, &older).expect("writes");
    let repaired = campaign.cvc(&["fsck", "--repair", "campaigns/back"]);
    assert!(
        repaired.stdout.contains("reset to an earlier state"),
        "{}",
        repaired.stdout
    );
    campaign.run().expect(0);
    assert_eq!(
        content(&campaign.root().join("runs")),
        runs,
        "nothing was measured again"
    );
    // without the mark, as in a directory that was copied incompletely
    fs::write(&journal, &older).expect("writes");
    fs::remove_file(campaign.root().join("journal.mark")).expect("removes");
    let taken = campaign.run().expect(0);
    assert!(
        taken
            .stderr
            .contains("3 finished runs missing in the journal"),
        "{}",
        taken.stderr
    );
    assert_eq!(
        content(&campaign.root().join("runs")),
        runs,
        "nothing was measured again"
    );
    assert_eq!(campaign.finishes().len(), 4);
}

#[test]
fn a_lock_that_is_deleted_lets_no_second_controller_in() {
    require!(Tool::Mpich);
    let campaign = waiting("unlocked", 2);
    let first = campaign.start(&["run", "campaign.toml"]);
    wait_begun(&campaign, 1);
    fs::remove_file(campaign.root().join("lock")).expect("a stale lock, somebody thinks");
    let second = campaign.run().expect(7);
    assert!(
        second
            .stderr
            .contains("another cvc is working on this campaign"),
        "{}",
        second.stderr
    );
    go(&campaign);
    first.wait(LIMIT).expect(0);
    assert_eq!(begun(&campaign), 2, "each run began once");
    campaign.assert_whole(2);
    campaign.assert_nothing_left();
}

#[test]
fn a_controller_whose_journal_somebody_else_writes_stops() {
    require!(Tool::Mpich);
    let campaign = waiting("fenced", 2);
    let first = campaign.start(&["run", "campaign.toml"]);
    wait_begun(&campaign, 1);
    // do what a controller does that no lock stops
    let journal = campaign.root().join("journal.jsonl");
    let mut text = fs::read(&journal).expect("reads");
    text.extend_from_slice(
        b"{\"seq\":6,\"at\":\"2026-11-20T14:03:07Z\",\"event\":\"interrupted\",\"now\":false}\n",
    );
    fs::write(&journal, &text).expect("writes");
    let stopped = first.wait(LIMIT).expect(7);
    assert!(
        stopped.stderr.contains("is no longer this cvc's") && stopped.stderr.contains("hint: "),
        "{}",
        stopped.stderr
    );
    assert_eq!(
        fs::read(&journal).expect("reads"),
        text,
        "it wrote nothing more"
    );
    wait_until("the end of its run", LIMIT, || {
        campaign.processes().is_empty()
    });
}

#[test]
fn a_campaign_that_is_moved_in_the_middle_of_a_run_stops_and_goes_on_in_its_new_place() {
    require!(Tool::Mpich);
    let campaign = waiting("moved", 3);
    let first = campaign.start(&["run", "campaign.toml"]);
    wait_begun(&campaign, 1);
    let (from, to) = (campaign.root(), campaign.dir().join("archive/moved"));
    fs::create_dir(campaign.dir().join("archive")).expect("makes");
    fs::rename(&from, &to).expect("moves");
    let stopped = first.wait(LIMIT).expect(7);
    assert!(
        stopped.stderr.contains("it was moved or deleted"),
        "{}",
        stopped.stderr
    );
    assert!(
        !from.exists(),
        "nothing is made in the old place: {:?}",
        fs::read_dir(&from).map(|d| d.count())
    );
    wait_until("the end of its run", LIMIT, || {
        campaign.processes().is_empty()
    });
    go(&campaign);
    campaign
        .cvc(&["run", "campaign.toml", "--campaigns", "archive"])
        .expect(0);
    fs::rename(&to, &from).expect("moves back");
    campaign.assert_whole(3);
    assert_eq!(
        begun(&campaign),
        4,
        "only the run that was cut off began twice"
    );
}

#[test]
fn what_is_left_of_a_site_that_the_file_no_longer_names_is_never_called_nothing() {
    let campaign = scripted("renamed", "echo SUCCESS", "repeats = 1\nretries = 0");
    let at = "\"at\":\"2026-11-20T14:03:07Z\"";
    let journal = |place: &str| {
        format!(
            "{{\"seq\":1,{at},\"event\":\"opened\",\"format\":3,\"campaign\":\"renamed\",\"cvc\":\"0.1.0\",\"lineage\":\"00ff00ff00ff00ff\"}}\n\
             {{\"seq\":2,{at},\"event\":\"started\",\"plan\":\"0\",\"runs\":1,\"pid\":1}}\n\
             {{\"seq\":3,{at},\"event\":\"site-opened\",\"site\":\"cluster\"{place}}}\n\
             {{\"seq\":4,{at},\"event\":\"lease-intended\",\"lease\":\"cvc-renamed-00ff00ff00ff00ff-1\",\"site\":\"cluster\",\"nodes\":4}}\n\
             {{\"seq\":5,{at},\"event\":\"lease-acquired\",\"lease\":\"cvc-renamed-00ff00ff00ff00ff-1\",\"by\":{{\"job\":\"4711\"}}}}\n"
        )
    };
    let unreachable = ",\"place\":{\"kind\":\"slurm\",\"head\":{\"name\":\"login\",\"address\":\"127.0.0.1\",\"port\":9},\"base\":\"~/.cvc\"}";
    for (place, said) in [("", "without recording where"), (unreachable, "127.0.0.1")] {
        let _ = fs::remove_dir_all(campaign.root());
        campaign.put("campaigns/renamed/journal.jsonl", &journal(place));
        let left = campaign.cvc(&["down", "campaign.toml"]).expect(9);
        assert!(
            !left.stdout.contains("nothing of renamed"),
            "{}",
            left.stdout
        );
        assert!(
            left.stderr.contains("cluster") && left.stderr.contains(said),
            "{}",
            left.stderr
        );
        assert!(
            campaign.events("site-closed").is_empty()
                && campaign.events("lease-released").is_empty()
        );
    }
    let forgotten = campaign
        .cvc(&["down", "campaign.toml", "--forget", "cluster"])
        .expect(0);
    assert!(!forgotten.stderr.contains("error"), "{}", forgotten.stderr);
    assert_eq!(campaign.events("site-closed")[0]["forgotten"], true);
    campaign.cvc(&["down", "campaign.toml"]).expect(0);
    campaign
        .cvc(&["down", "campaign.toml", "--forget", "cluster"])
        .expect(4);
}

/// Compiles a library that makes `flock` do nothing, as on file systems that do not support locks; `None` without a compiler.
fn without_locks(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("flock.c"), dir.join("libflock.so"));
    fs::write(
        &source,
        "int flock(int fd, int how) { (void)fd; (void)how; return 0; }\n",
    )
    .expect("writes");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .ok()?;
    made.success().then_some(library)
}

#[test]
fn without_locks_the_later_controller_stops_before_it_does_anything() {
    require!(Tool::Mpich);
    let mut campaign = waiting("lockless", 2);
    let library = without_locks(campaign.dir()).expect("compiles");
    campaign.env("LD_PRELOAD", library.to_str().expect("UTF-8"));
    let first = campaign.start(&["run", "campaign.toml"]);
    wait_begun(&campaign, 1);
    let second = campaign.run().expect(7);
    assert!(
        second
            .stderr
            .contains("another cvc is working on this campaign"),
        "{}",
        second.stderr
    );
    go(&campaign);
    first.wait(LIMIT).expect(0);
    assert_eq!(begun(&campaign), 2, "each run began once");
    campaign.assert_whole(2);
    // a killed controller does not count as running
    let campaign = campaign;
    let third = campaign.start(&["run", "campaign.toml", "--retry-failed"]);
    third.signal(Signal::SIGKILL);
    let _ = third.wait(LIMIT);
    campaign.run().expect(0);
}
