//! The file of the index in a campaign's directory, and conditions that prevent writing it.

use crate::made::{Made, names, runs};
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_index::error::AnalysisError;
use cvc_index::{FILE, Index, RunOutcome, SCHEMA};
use std::{fs, os::unix::fs::PermissionsExt};

fn rebuild(directory: &Utf8Path) -> Result<Index, AnalysisError> {
    Index::rebuild(directory, |_, _| Ok(()))
}

fn store_error(error: AnalysisError) -> StoreError {
    match error {
        AnalysisError::Store(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn an_index_replaces_the_one_before_and_leaves_nothing_else() {
    let mut made = Made::new(1, 1);
    let directory = made.save();
    let before = rebuild(&directory).expect("an index");
    made.succeed("p0-1", &[]);
    made.save();
    let after = rebuild(&directory).expect("an index");
    let state = |index: &Index| runs(index)["p0-1"].state;
    assert_eq!(state(&before), RunOutcome::Pending, "it is still read");
    assert_eq!(state(&after), RunOutcome::Succeeded);
    assert_eq!(
        state(&Index::open(&directory).expect("an index")),
        RunOutcome::Succeeded
    );
    assert_eq!(after.path(), directory.join(FILE));
    assert_eq!(
        names(&directory),
        [FILE, "journal.jsonl", "plan.json", "runs"]
    );
    let mode = directory
        .join(FILE)
        .metadata()
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o644);
}

#[test]
fn an_index_that_cannot_be_completed_takes_no_name() {
    let made = Made::new(1, 1);
    let directory = made.save();
    let refused = Index::rebuild(&directory, |_, plan| {
        assert_eq!(plan.campaign, "made");
        Err(StoreError::damaged("predictions.jsonl", 3, "torn").into())
    });
    refused.expect_err("it is not complete");
    assert_eq!(names(&directory), ["journal.jsonl", "plan.json"]);
}

#[test]
fn an_index_apart_leaves_the_directory_alone_and_goes_with_its_value() {
    let made = Made::new(1, 1);
    let directory = made.save();
    let index = Index::in_temporary_file(&directory).expect("an index");
    assert_eq!(names(&directory), ["journal.jsonl", "plan.json"]);
    let path = index.path().to_owned();
    assert!(path.is_file());
    drop(index);
    assert!(!path.exists());
}

#[test]
fn a_directory_that_may_only_be_read_has_its_index_apart() {
    let made = Made::new(1, 1);
    let directory = made.save();
    let set = |mode: u32| {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("sets");
    };
    set(0o555);
    let may_write = fs::write(directory.join("probe"), b"").is_ok();
    let index = rebuild(&directory).expect("an index");
    set(0o755);
    // the superuser can write to every directory
    let is_inside = index.path().parent() == Some(directory.as_path());
    assert_eq!(is_inside, may_write, "{}", index.path());
}

#[test]
fn a_newer_index_is_refused_and_an_older_one_is_read() {
    let made = Made::new(1, 1);
    let directory = made.save();
    drop(rebuild(&directory).expect("an index"));
    let set = |version: u32| {
        let connection = rusqlite::Connection::open(directory.join(FILE)).expect("opens");
        connection
            .pragma_update(None, "user_version", version)
            .expect("sets");
    };
    set(SCHEMA - 1);
    Index::open(&directory).expect("an older one");
    set(SCHEMA + 1);
    let error = store_error(Index::open(&directory).expect_err("a newer one"));
    let newer = matches!(error, StoreError::Newer { found, known, .. } if (found, known) == (SCHEMA + 1, SCHEMA));
    assert!(newer, "{error}");
}

#[test]
fn what_is_no_index_says_where_it_is() {
    let made = Made::new(1, 1);
    let directory = made.save();
    let error = Index::open(&directory).expect_err("there is none");
    assert_eq!(error.path(), Some(directory.join(FILE).as_std_path()));
    fs::write(
        directory.join(FILE),
        "something else, and long enough for a header".repeat(9),
    )
    .expect("writes");
    let error = Index::open(&directory).expect_err("it is none");
    assert!(matches!(error, AnalysisError::Index { .. }), "{error}");
    assert_eq!(error.path(), Some(directory.join(FILE).as_std_path()));
}

#[test]
fn a_plan_is_needed_and_a_journal_is_not() {
    let made = Made::new(1, 1);
    let directory = made.save();
    fs::remove_file(directory.join("journal.jsonl")).expect("removes");
    let index = rebuild(&directory).expect("an index");
    let pending = runs(&index)
        .values()
        .all(|run| run.state == RunOutcome::Pending);
    assert!(pending, "it was never run");
    made.write("plan.json", "{\n\"schema\": 1,\n\"campaign\": 3}");
    let error = store_error(rebuild(&directory).expect_err("it is damaged"));
    let damaged = matches!(&error, StoreError::Damaged { line: Some(3), .. });
    assert!(damaged, "{error}");
    fs::remove_file(directory.join("plan.json")).expect("removes");
    let error = rebuild(&directory).expect_err("there is none");
    assert_eq!(
        error.path(),
        Some(directory.join("plan.json").as_std_path())
    );
}

#[test]
fn a_damaged_journal_is_an_error() {
    let mut made = Made::new(1, 1);
    made.succeed("p0-1", &[]);
    let directory = made.save();
    let journal = directory.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    fs::write(&journal, text.replacen("\"started\"", "\"st@rted\"", 1)).expect("writes");
    let error = rebuild(&directory).expect_err("it is damaged");
    assert_eq!(error.path(), Some(journal.as_std_path()));
    assert!(!directory.join(FILE).exists());
}
