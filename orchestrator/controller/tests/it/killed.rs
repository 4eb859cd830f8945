//! Controllers that are killed: the next one loses nothing and repeats nothing that is whole.

use crate::memory::{Bench, Course, HOSTS, LOCAL, Settings, one_point};
use cvc_controller::observe::SessionProgress;
use cvc_core::outcome::Cause;
use cvc_core::stop::StopRequest;
use cvc_core::store::OUTCOME;
use cvc_journal::{Event, Journal};
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, sync::Arc, time::Duration};

/// The whole runs, with what identifies their directories.
fn inodes(bench: &Bench) -> BTreeMap<String, u64> {
    let runs = bench.plan.runs.iter().map(|r| bench.dir().run(&r.id));
    runs.filter(|dir| dir.join(OUTCOME).exists())
        .map(|dir| {
            (
                dir.to_string(),
                fs::metadata(&dir).expect("a directory").ino(),
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn killed_at_many_moments_it_resumes_without_loss_or_repetition() {
    let bench = Bench::new(
        LOCAL,
        "mapping = ['1Nx1P', '1Nx2P']",
        "repeats = 3\nretries = 0",
    );
    bench.set(|_, _| Course::Succeeds(10, 1.0));
    // each session lasts longer than a run, so that it gets on
    for session in 0..5 {
        let before = inodes(&bench);
        bench.run_and_kill(10.5 + f64::from(session)).await;
        let after = inodes(&bench);
        assert!(
            before
                .iter()
                .all(|(run, inode)| after.get(run) == Some(inode))
        );
    }
    let before = inodes(&bench);
    assert_eq!(before.len(), 5);
    let summary = bench.run().await;
    assert_eq!((summary.succeeded, bench.whole()), (6, 6));
    let after = inodes(&bench);
    assert!(
        before
            .iter()
            .all(|(run, inode)| after.get(run) == Some(inode))
    );
    assert!(bench.events().len() < 100 && bench.state().completed);
}

#[tokio::test(start_paused = true)]
async fn a_run_under_which_the_controller_ends_again_and_again_fails_and_the_others_continue() {
    let bench = one_point("repeats = 2\nretries = 0");
    bench.set(|_, _| Course::Succeeds(1000, 1.0));
    // a shutdown that does not wait is not the work of the run
    let stops = Arc::clone(&bench.stops.lock());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stops.request(StopRequest::Finish);
    };
    tokio::join!(bench.run_and_kill(5.0), stop);
    assert_eq!(bench.count("interrupted"), 1);
    *bench.stops.lock() = Arc::default();
    for _ in 0..4 {
        bench.run_and_kill(5.0).await;
    }
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    let summary = bench.run().await;
    assert_eq!((summary.succeeded, summary.failed), (1, 1));
    assert!(bench.has_heard(|p| {
        let text = serde_json::to_string(p).expect("JSON");
        text.contains("ended-from-outside") && text.contains("cvc was ended 4 times")
    }));
    assert_eq!(bench.count("run-abandoned"), 4);
    let again = Settings {
        retry_failed: true,
        ..Settings::default()
    };
    assert_eq!(bench.run_with(again).await.succeeded, 2);
}

#[tokio::test(start_paused = true)]
async fn runs_of_an_agent_are_awaited_on_the_same_nodes_and_not_repeated() {
    let mut bench = Bench::new(
        HOSTS,
        "mapping = ['1Nx1P', '2Nx1P']",
        "repeats = 1\nretries = 0",
    );
    bench.side_by_side = true;
    bench.set(|_, _| Course::Succeeds(100, 1.0));
    bench.run_and_kill(50.0).await;
    let before = bench.carried.lock().begun.clone();
    assert_eq!(before.len(), 2, "on different nodes at the same time");
    let summary = bench.run().await;
    assert_eq!(summary.succeeded, 2);
    let carried = bench.carried.lock();
    let resumed = &carried.begun[2..];
    assert_eq!(resumed.len(), 2);
    for task in resumed {
        let first = before
            .iter()
            .find(|t| t.planned.id == task.planned.id)
            .expect("it began");
        assert_eq!(
            (task.attempt, task.dispatch, &task.nodes),
            (1, 0, &first.nodes)
        );
    }
    assert_eq!(
        carried.forgotten.len(),
        2,
        "the agent may remove what was fetched"
    );
    drop(carried);
    assert_eq!(
        (bench.count("run-intended"), bench.count("run-abandoned")),
        (2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_directory_is_missing_is_repeated_and_one_that_the_journal_lacks_is_kept() {
    let bench = one_point("repeats = 3");
    assert_eq!(bench.run().await.succeeded, 3);
    fs::remove_dir_all(bench.dir().run(&bench.plan.runs[1].id)).expect("removes");
    assert_eq!(bench.run().await.succeeded, 3);
    assert_eq!(
        (bench.attempts(), bench.count("run-discarded")),
        (vec![4], 1)
    );
    assert!(bench.has_heard(
        |p| matches!(p, SessionProgress::Missing { runs } if *runs == [bench.plan.runs[1].id.clone()])
    ));

    // the journal is an older copy: only its beginning and the first run
    let journal = bench.dir().journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let finished = text.find("run-finished").expect("a run");
    let end = finished + text[finished..].find('\n').expect("a line") + 1;
    fs::write(&journal, &text[..end]).expect("writes");
    let _ = fs::remove_file(journal.with_extension("mark"));
    let before = inodes(&bench);
    assert_eq!(bench.run().await.succeeded, 3);
    assert_eq!((inodes(&bench), bench.attempts()), (before, vec![4]));
    assert!(bench.has_heard(|p| matches!(p, SessionProgress::TakenIn { runs } if runs.len() == 2)));
}

#[tokio::test(start_paused = true)]
async fn cut_after_every_record_it_resumes_with_nothing_lost_and_nothing_repeated() {
    let bench = one_point("repeats = 3\nretries = 0");
    bench.run().await;
    let journal = bench.dir().journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let whole = inodes(&bench);
    for cut in 1..=lines.len() {
        for torn in [false, true] {
            let mut kept = lines[..cut].concat();
            if torn && let Some(next) = lines.get(cut) {
                kept.push_str(&next[..next.len() / 2]);
            }
            fs::write(&journal, kept).expect("writes");
            let _ = fs::remove_file(journal.with_extension("mark"));
            let summary = bench.run().await;
            assert_eq!(summary.succeeded, 3, "cut after {cut}, torn: {torn}");
            assert_eq!(inodes(&bench), whole, "cut after {cut}, torn: {torn}");
        }
    }
    assert_eq!(bench.attempts(), [3], "every run was whole");
}

#[tokio::test(start_paused = true)]
async fn runs_of_an_agent_are_awaited_by_a_session_of_other_points_too() {
    let mut bench = Bench::new(
        HOSTS,
        "mapping = ['1Nx1P', '2Nx1P']",
        "repeats = 1\nretries = 0",
    );
    bench.side_by_side = true;
    bench.set(|_, _| Course::Succeeds(100, 1.0));
    bench.run_and_kill(50.0).await;
    let other = Settings {
        only: Some(vec![0]),
        ..Settings::default()
    };
    let summary = bench.run_with(other).await;
    assert_eq!((summary.succeeded, summary.left), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn remains_of_a_finished_run_of_an_earlier_controller_are_removed() {
    let bench = one_point("repeats = 1");
    bench.run().await;
    let partial = bench.dir().partial(&bench.plan.runs[0].id);
    fs::create_dir_all(&partial).expect("makes");
    bench.run().await;
    assert!(!partial.exists() && bench.whole() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_run_that_counts_as_cut_off_is_kept() {
    let bench = one_point("repeats = 2\nretries = 0");
    bench.run().await;
    let journal = bench.dir().journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let end = lines
        .iter()
        .rposition(|line| line.contains("run-finished"))
        .expect("an end");
    fs::write(&journal, lines[..end].concat()).expect("writes");
    let _ = fs::remove_file(journal.with_extension("mark"));
    let cut_off = Event::RunAbandoned {
        run: bench.plan.runs[1].id.clone(),
        attempt: 1,
        ended: Vec::new(),
        lost: false,
        with_controller: false,
    };
    let mut opened = Journal::open(&journal, "c", |_| Ok(())).expect("opens");
    opened.append(cut_off).expect("writes");
    drop(opened);
    let before = inodes(&bench);
    assert_eq!(bench.run().await.succeeded, 2);
    assert_eq!((inodes(&bench), bench.attempts()), (before, vec![2]));
    assert!(bench.has_heard(|p| matches!(p, SessionProgress::TakenIn { runs } if runs.len() == 1)));
}

#[tokio::test(start_paused = true)]
async fn results_without_a_journal_are_not_overwritten() {
    let bench = one_point("repeats = 1");
    bench.run().await;
    fs::remove_file(bench.dir().journal()).expect("removes");
    let error = bench
        .try_run(Settings::default())
        .await
        .expect_err("refused")
        .to_string();
    assert!(
        error.contains("it is missing") && error.contains("would be overwritten"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_was_requested_and_killed_continues() {
    let bench = one_point("repeats = 3\nretries = 0\nquarantine_after = 1");
    bench.set(|_, _| Course::Fails(1, Cause::Application, "exit code 1"));
    assert_eq!(bench.run().await.failed, 1);
    bench.set(|_, _| Course::Succeeds(100, 1.0));
    let retry = Settings {
        retry_failed: true,
        ..Settings::default()
    };
    tokio::time::timeout(Duration::from_secs(5), bench.try_run(retry))
        .await
        .expect_err("it would have gone on");
    // the failure of before is not the outcome of what was cut off, and the point is not set aside any more
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    assert_eq!(bench.run().await.succeeded, 3);
}

#[tokio::test(start_paused = true)]
async fn a_half_written_run_is_repeated_independent_of_its_journal_entries() {
    let bench = one_point("repeats = 2\nretries = 0");
    bench.run().await;
    let journal = bench.dir().journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let last = &bench.plan.runs[1].id;
    let intended = lines
        .iter()
        .rposition(|line| line.contains("run-intended"))
        .expect("an intention");
    for cut in [intended, intended + 1, intended + 2] {
        fs::write(&journal, lines[..cut].concat()).expect("writes");
        let _ = fs::remove_file(journal.with_extension("mark"));
        let (run, partial) = (bench.dir().run(last), bench.dir().partial(last));
        fs::rename(&run, &partial).expect("moves");
        fs::remove_file(partial.join(OUTCOME)).expect("removes");
        let before = bench.attempts()[0];
        assert_eq!(bench.run().await.succeeded, 2, "cut after {cut}");
        assert_eq!(bench.attempts(), [before + 1], "cut after {cut}");
        assert!(!partial.exists());
    }
}
