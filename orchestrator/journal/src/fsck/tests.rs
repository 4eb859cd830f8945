use super::{FsckFindings, Repaired, check, repair};
use crate::{self as journal, CampaignState, Entry, Event, Journal, RunState};
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::{CampaignDir, OUTCOME, OutcomeFile, sealed_outcome, write_manifest};
use std::fs;

/// A campaign of two runs. The first run failed once and then succeeded; the second succeeded at once.
struct Made {
    _dir: tempfile::TempDir,
    dir: CampaignDir,
}

fn run(n: u32) -> RunId {
    RunId::from_written(&format!("run{n}"))
}

fn seal(dir: &CampaignDir, run: &RunId, attempt: u32, outcome: Outcome) -> OutcomeFile {
    let path = if outcome == Outcome::Succeeded {
        dir.run(run)
    } else {
        dir.failed(run, attempt)
    };
    fs::create_dir_all(&path).expect("makes");
    fs::write(path.join("stdout"), format!("{run} {attempt}")).expect("writes");
    let manifest = Some(write_manifest(&path, &[OUTCOME]).expect("writes"));
    let file = OutcomeFile {
        attempt,
        outcome,
        records: None,
        wall_s: 1.0,
        manifest,
        kept: None,
    };
    fs::write(path.join(OUTCOME), serde_json::to_vec(&file).expect("JSON")).expect("writes");
    file
}

impl Made {
    fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = CampaignDir::at(
            &Utf8Path::from_path(temporary.path())
                .expect("UTF-8")
                .join("demo"),
        );
        fs::create_dir_all(dir.runs()).expect("makes");
        let mut journal = Journal::open(&dir.journal(), "demo", |_| Ok(())).expect("opens");
        let mut write = |event| journal.append(event).map(|_| ()).expect("appends");
        write(Event::Started {
            plan: "p".into(),
            runs: 2,
            pid: 1,
            cvc: "0.1.0".into(),
        });
        let failed = Outcome::Failed {
            cause: Cause::Timeout,
            detail: "slow".into(),
        };
        for (n, attempt, outcome) in [
            (1, 1, failed),
            (1, 2, Outcome::Succeeded),
            (2, 1, Outcome::Succeeded),
        ] {
            write(Event::RunIntended {
                run: run(n),
                attempt,
                nodes: Default::default(),
            });
            write(Event::RunStarted {
                run: run(n),
                attempt,
                pid: 7,
                start_ticks: 8,
            });
            write(seal_event(&dir, n, attempt, outcome));
        }
        write(Event::Completed {
            succeeded: 2,
            failed: 0,
        });
        Self {
            _dir: temporary,
            dir,
        }
    }

    fn check(&self) -> FsckFindings {
        check(&self.dir, |_, _| {}).expect("can be checked")
    }

    /// Damages lines of the journal, by numbers from 1.
    fn damage(&self, lines: &[usize]) {
        let text = fs::read_to_string(self.dir.journal()).expect("reads");
        let damaged: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(at, line)| {
                if lines.contains(&(at + 1)) {
                    line.replacen("\"at\"", "\"At\"", 1)
                } else {
                    line.to_owned()
                }
            })
            .collect();
        fs::write(self.dir.journal(), damaged.join("\n") + "\n").expect("writes");
    }

    fn repair(&self) -> Repaired {
        let repaired = repair(&self.dir, &self.check()).expect("repairs");
        assert!(!self.check().is_damaged(), "{:#?}", self.check().problems);
        repaired
    }

    fn state(&self) -> CampaignState {
        CampaignState::read(&self.dir.journal()).expect("is whole")
    }
}

fn seal_event(dir: &CampaignDir, n: u32, attempt: u32, outcome: Outcome) -> Event {
    Event::finished(run(n), seal(dir, &run(n), attempt, outcome))
}

fn succeeded(state: &CampaignState, n: u32, with: u32) -> bool {
    matches!(state.run(&run(n)), Some(RunState::Finished { attempt, outcome: Outcome::Succeeded, .. }) if *attempt == with)
}

#[test]
fn an_undamaged_campaign_has_no_problems() {
    let made = Made::new();
    let found = made.check();
    assert_eq!(
        (found.problems, found.entries, found.directories),
        (vec![], 12, 3)
    );
}

#[test]
fn whichever_line_is_damaged_the_runs_that_were_made_stay_made() {
    for line in 1..=11 {
        let made = Made::new();
        made.damage(&[line]);
        CampaignState::read(&made.dir.journal()).expect_err("damaged");
        let found = made.check();
        assert_eq!(found.problems[0].line, Some(line), "{:#?}", found.problems);
        let damaged = fs::read(made.dir.journal()).expect("reads");
        let repaired = made.repair();
        let state = made.state();
        for (n, attempt) in [(1, 2), (2, 1)] {
            // if the line with the run's end is lost, the run is open and its directory sealed, as after a `kill -9`; the next session adds it
            let open = matches!(state.run(&run(n)), Some(RunState::Open { attempt: open, .. }) if *open == attempt);
            let taken = open && sealed_outcome(&made.dir, &run(n), attempt).is_some();
            assert!(
                succeeded(&state, n, attempt) || taken,
                "line {line}: {:?}",
                state.runs
            );
        }
        assert_eq!(state.repairs, 1);
        let old = repaired.old_journal.expect("the damaged journal is kept");
        assert_eq!(fs::read(old).expect("reads"), damaged);
    }
}

#[test]
fn a_missing_journal_is_rebuilt_from_the_directories() {
    let made = Made::new();
    fs::remove_file(made.dir.journal()).expect("removes");
    let found = made.check();
    assert!(
        found.problems[0].what.contains("missing")
            && found.problems[0].consequence.contains("cvc sweep"),
        "{:#?}",
        found.problems
    );
    assert_eq!(made.repair().recorded, [run(1), run(2)]);
    let state = made.state();
    assert!(
        succeeded(&state, 1, 2) && succeeded(&state, 2, 1) && state.lineage.is_some(),
        "{state:?}"
    );
}

#[test]
fn runs_whose_directories_are_missing_or_changed_are_repeated() {
    let made = Made::new();
    fs::remove_dir_all(made.dir.run(&run(1))).expect("removes");
    fs::write(made.dir.run(&run(2)).join("stdout"), "edited").expect("writes");
    let found = made.check();
    let what: Vec<&str> = found.problems.iter().map(|p| p.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "the directory is missing",
            "stdout was changed after sealing: its digest differs from that in manifest.b3"
        ]
    );
    let repaired = made.repair();
    assert_eq!(repaired.to_repeat[0], (run(1), None));
    let aside = repaired.to_repeat[1].1.clone().expect("nothing is removed");
    assert_eq!(
        fs::read_to_string(aside.join("stdout")).expect("reads"),
        "edited"
    );
    let state = made.state();
    assert!(
        (1..=2).all(|n| matches!(state.run(&run(n)), Some(RunState::Abandoned { .. }))),
        "{state:?}"
    );
    assert_eq!(
        state.run(&run(1)),
        Some(&RunState::Abandoned { attempts: 1 }),
        "its next attempt has the number of the one that is gone"
    );
}

#[test]
fn a_missing_line_is_reported_with_its_number() {
    let made = Made::new();
    let text = fs::read_to_string(made.dir.journal()).expect("reads");
    let without: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != 4)
        .map(|(_, line)| line)
        .collect();
    fs::write(made.dir.journal(), without.join("\n") + "\n").expect("writes");
    let found = made.check();
    assert_eq!(found.problems[0].what, "entry 5 is missing");
    made.repair();
    assert!(succeeded(&made.state(), 1, 2));
}

#[test]
fn a_torn_end_is_reported_and_needs_no_repair() {
    let made = Made::new();
    let mut text = fs::read(made.dir.journal()).expect("reads");
    text.extend_from_slice(b"{\"seq\":13,");
    fs::write(made.dir.journal(), text).expect("writes");
    let found = made.check();
    assert!(
        !found.is_damaged() && found.problems[0].what.contains("10 bytes at the end"),
        "{:#?}",
        found.problems
    );
}

#[test]
fn a_journal_of_an_earlier_format_is_repaired_and_keeps_the_name_of_its_place() {
    let made = Made::new();
    let text = fs::read_to_string(made.dir.journal()).expect("reads");
    let older: Vec<String> = text
        .lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let fields = value.as_object_mut().expect("an object");
            fields.remove("sum");
            fields.remove("lineage");
            if fields.contains_key("format") {
                fields.insert("format".into(), 2.into());
            }
            value.to_string()
        })
        .collect();
    // as after a full disk: half a line, directly followed by the next one
    let older = [
        &older[..3],
        &[older[3][..20].to_owned() + &older[4]],
        &older[5..],
    ]
    .concat();
    fs::write(made.dir.journal(), older.join("\n") + "\n").expect("writes");
    made.repair();
    let place = journal::Lineage::of_place(&made.dir.root().canonicalize_utf8().expect("a path"));
    assert_eq!(made.state().lineage, Some(place));
    assert!(succeeded(&made.state(), 1, 2) && succeeded(&made.state(), 2, 1));
}

#[test]
fn a_lineage_that_was_given_later_is_kept_where_the_first_line_is_lost() {
    let made = Made::new();
    let text = fs::read_to_string(made.dir.journal()).expect("reads");
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let fields = value.as_object_mut().expect("an object");
            fields.remove("sum");
            if fields.remove("lineage").is_some() {
                fields.insert("format".into(), 2.into());
            }
            value.to_string() + "\n"
        })
        .collect();
    fs::write(made.dir.journal(), lines.concat()).expect("writes");
    drop(Journal::open(&made.dir.journal(), "demo", |_| Ok(())).expect("opens"));
    let given = made.state().lineage;
    made.damage(&[1]);
    assert!(
        made.check()
            .problems
            .iter()
            .all(|problem| !problem.what.contains("lineage")),
        "{:#?}",
        made.check().problems
    );
    made.repair();
    assert_eq!(made.state().lineage, given);
}

#[test]
fn a_rewritten_journal_has_only_whole_entries_with_numbers_without_gaps() {
    let made = Made::new();
    made.damage(&[3, 6, 9]);
    made.repair();
    let entries: Vec<Entry> = journal::read(&made.dir.journal()).expect("is whole");
    assert!(entries.iter().zip(1..).all(|(entry, n)| entry.seq == n));
    assert!(entries.iter().any(|e| matches!(
        e.event,
        Event::Repaired {
            lost: 3,
            left_out: 0,
            ..
        }
    )));
}
