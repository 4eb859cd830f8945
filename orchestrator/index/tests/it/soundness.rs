//! Detects records that differ from those that their run wrote.

use crate::made::{Made, runs, values};
use cvc_core::record::Unit::Seconds;
use cvc_index::{Index, RecordsState, UnsoundRecords, describe_unsound, unsound_records};
use std::fs;

/// Returns a campaign whose first repeat has sound records, the second none, the third damaged records, and the fourth changed records.
fn damaged() -> Made {
    let mut made = Made::new(1, 4);
    for n in 1..=4 {
        let wall = [("wall_s", f64::from(n), Seconds, &[][..])];
        made.succeed(&format!("p0-{n}"), &wall);
    }
    let path = |n: u32| made.path().join(format!("runs/p0-{n}/records.jsonl"));
    fs::remove_file(path(2)).expect("removes");
    let text = fs::read_to_string(path(3)).expect("records");
    fs::write(path(3), format!("{text}{}", &text[..20])).expect("writes");
    let text = fs::read_to_string(path(4)).expect("records");
    fs::write(path(4), text.replace("4.0", "5.0")).expect("writes");
    made
}

fn states(found: &[UnsoundRecords]) -> Vec<(&str, RecordsState)> {
    found
        .iter()
        .map(|of| (of.run.as_str(), of.records))
        .collect()
}

const UNSOUND: [(&str, RecordsState); 3] = [
    ("p0-2", RecordsState::Missing),
    ("p0-3", RecordsState::Damaged),
    ("p0-4", RecordsState::Changed),
];

#[test]
fn missing_and_damaged_records_are_left_out_and_changed_ones_count() {
    let index = damaged().index();
    let runs = runs(&index);
    let of = |run: &str| (runs[run].records, runs[run].records_detail.as_deref());
    assert_eq!(of("p0-1"), (RecordsState::Ok, None));
    assert_eq!(
        of("p0-2"),
        (RecordsState::Missing, Some("records.jsonl is missing"))
    );
    let (state, why) = of("p0-3");
    let why = why.expect("a reason");
    assert_eq!(state, RecordsState::Damaged);
    assert!(why.starts_with("line 2, column 20: EOF"), "{why}");
    let (state, why) = of("p0-4");
    assert_eq!(state, RecordsState::Changed);
    assert!(why.expect("a reason").contains("does not match its digest"));
    let wall = |run: &str| values(&index, run).get("wall_s").map(|(value, _)| *value);
    assert_eq!(
        ["p0-1", "p0-2", "p0-3", "p0-4"].map(wall),
        [Some(1.0), None, None, Some(5.0)]
    );
    let summaries = index.summaries().expect("summaries");
    assert_eq!(
        (summaries[0].summary.n, summaries[0].summary.mean),
        (2, 3.0)
    );
}

#[test]
fn the_index_and_the_files_agree_on_what_is_unsound() {
    let made = damaged();
    let index = made.index();
    let of_index = index.unsound_records().expect("runs");
    assert_eq!(states(&of_index), UNSOUND);
    let of_files = unsound_records(&made.path(), &made.plan, &made.state());
    assert_eq!(states(&of_files), UNSOUND);
    for (one, other) in of_index.iter().zip(&of_files) {
        assert_eq!(one.records_detail, other.records_detail);
    }
    // a missing directory concerns the whole run, and is reported elsewhere
    fs::remove_dir_all(made.path().join("runs/p0-2")).expect("removes");
    let of_files = unsound_records(&made.path(), &made.plan, &made.state());
    assert_eq!(states(&of_files), UNSOUND[1..]);
}

#[test]
fn sources_of_changed_records_are_listed() {
    let mut made = Made::new(2, 1);
    made.succeed("p0-1", &[("wall_s", 4.0, Seconds, &[])]);
    let path = made.path().join("runs/p0-1/records.jsonl");
    let text = fs::read_to_string(&path).expect("records");
    fs::write(&path, text.replace("clock", "image")).expect("writes");
    made.succeed("p1-w1", &[("wall_s", 4.0, Seconds, &[])]);
    let sources = made.index().record_sources().expect("sources");
    let of: Vec<(&str, &str, &str)> = sources
        .iter()
        .map(|of| (of.point.as_str(), of.name.as_str(), of.source.as_str()))
        .collect();
    assert_eq!(of, [("p0", "wall_s", "image")], "of counted runs alone");
}

#[test]
fn unsound_records_are_described_on_one_line() {
    assert_eq!(describe_unsound("c", &[]), None);
    let of = |n: u32, records: RecordsState| UnsoundRecords {
        run: format!("r{n}"),
        records,
        records_detail: None,
    };
    let mut found: Vec<UnsoundRecords> = (1..=3).map(|n| of(n, RecordsState::Damaged)).collect();
    assert_eq!(
        describe_unsound("c", &found).as_deref(),
        Some("c: records of 3 runs are not as they were written: 3 damaged (r1, r2, r3): left out")
    );
    found.push(of(4, RecordsState::Damaged));
    found.push(of(5, RecordsState::Changed));
    found.push(of(6, RecordsState::Missing));
    assert_eq!(
        describe_unsound("c", &found).as_deref(),
        Some(
            "c: records of 6 runs are not as they were written: 1 missing (r6): left out; 4 damaged (r1, r2, r3, and 1 more): left out; \
             1 changed (r5): differ from the digest in the journal; they count"
        )
    );
}

#[test]
fn words_say_which_states_are_over_readable_and_unsound() {
    use cvc_index::RunOutcome;
    let over: Vec<RunOutcome> = RunOutcome::ALL
        .into_iter()
        .filter(|o| o.is_over())
        .collect();
    assert_eq!(
        over,
        [
            RunOutcome::Succeeded,
            RunOutcome::Failed,
            RunOutcome::Quarantined
        ]
    );
    for state in RecordsState::ALL {
        let of = (state.is_readable(), state.is_unsound());
        let expected = match state {
            RecordsState::None => (false, false),
            RecordsState::Ok => (true, false),
            RecordsState::Changed => (true, true),
            RecordsState::Missing | RecordsState::Damaged => (false, true),
        };
        assert_eq!(of, expected, "{state}");
    }
}

#[test]
fn an_older_journal_without_digests_is_believed() {
    let mut made = Made::new(1, 1);
    made.succeed("p0-1", &[("wall_s", 4.0, Seconds, &[])]);
    let journal = made.save().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let (before, rest) = text.split_once("\"records\":\"").expect("a digest");
    let (_, after) = rest.split_once('"').expect("its end");
    fs::write(&journal, format!("{before}\"records\":\"\"{after}")).expect("writes");
    let index = Index::in_temporary_file(&made.path()).expect("an index");
    assert_eq!(runs(&index)["p0-1"].records, RecordsState::Ok);
}
