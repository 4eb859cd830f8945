//! Runs that fail: retries, points that are set aside, sites whose first runs fail alike.

use crate::memory::{Bench, Course, HOSTS, LOCAL, Settings, one_point};
use cvc_controller::observe::SessionProgress;
use cvc_core::outcome::Cause;
use cvc_engine::attempt::AttemptResult;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREE: &str = "mapping = ['1Nx1P', '1Nx2P', '1Nx4P']";

fn keep_going() -> Settings {
    Settings {
        keep_going: true,
        ..Settings::default()
    }
}

fn no_mesh() -> Course {
    Course::Fails(1, Cause::Application, "exit code 3: cannot open mesh.nml")
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_points_set_aside_and_tried_again_on_request() {
    let bench = Bench::new(
        LOCAL,
        "mapping = ['1Nx1P', '1Nx2P']",
        "repeats = 5\nretries = 1\nquarantine_after = 2\norder = 'interleaved'",
    );
    let fails = |point, _: &_| match point {
        0 => Course::Fails(30, Cause::Application, "exit code 1"),
        _ => Course::Succeeds(1, 1.0),
    };
    bench.set(fails);
    let summary = bench.run_with(keep_going()).await;
    // 2 runs of 2 attempts each, and 5 good ones: a point that is set aside does not stop the others
    assert_eq!(
        (
            summary.succeeded,
            summary.failed,
            summary.skipped,
            summary.left
        ),
        (5, 2, 3, 0)
    );
    assert_eq!(
        (bench.attempts(), bench.count("point-quarantined")),
        (vec![4, 5], 1)
    );
    assert!(bench.has_heard(|p| matches!(p, SessionProgress::Quarantined { skipped: 3, .. })));
    assert!(!summary.interrupted && bench.count("completed") == 1);

    // without a request nothing is tried again
    let again = bench.run_with(keep_going()).await;
    assert_eq!((again, bench.attempts()), (summary, vec![4, 5]));

    // requested: the numbers of attempts continue
    let request = || Settings {
        retry_failed: true,
        ..keep_going()
    };
    bench.run_with(request()).await;
    assert_eq!(
        (bench.attempts(), bench.count("point-released")),
        (vec![8, 5], 1)
    );
    let last = bench.carried.lock().begun.last().map(|t| t.attempt);
    assert_eq!(last, Some(4));

    bench.set(|_, _| Course::Succeeds(1, 1.0));
    let summary = bench.run_with(request()).await;
    assert_eq!((summary.succeeded, bench.whole()), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_site_whose_first_runs_fail_alike_begins_no_more_and_continues_later() {
    let bench = Bench::new(LOCAL, THREE, "repeats = 5");
    bench.set(|_, _| no_mesh());
    let summary = bench.run().await;
    assert!(summary.failed_alike && summary.left == 15, "{summary:?}");
    assert_eq!(
        bench.attempts(),
        [1, 1, 1],
        "different points tell more than the order of the plan"
    );
    assert!(bench.has_heard(|p| matches!(
        p,
        SessionProgress::FailedAlike {
            points: 3,
            attempts: 3,
            left: 15,
            cause: Cause::Application,
            ..
        }
    )));
    // regardless, if requested
    let summary = bench.run_with(keep_going()).await;
    assert!(!summary.failed_alike && summary.left == 0, "{summary:?}");
    assert_eq!(bench.count("point-quarantined"), 3);
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    let summary = bench
        .run_with(Settings {
            retry_failed: true,
            ..Settings::default()
        })
        .await;
    assert_eq!(summary.succeeded, 15);
}

#[tokio::test(start_paused = true)]
async fn a_success_lets_the_others_continue_and_hopeless_attempts_are_skipped() {
    let bench = Bench::new(LOCAL, THREE, "repeats = 2\nretries = 2");
    bench.set(|point, _| match point {
        0 | 1 => no_mesh(),
        _ => Course::Succeeds(1, 1.0),
    });
    let summary = bench.run().await;
    assert_eq!(
        (summary.succeeded, summary.failed, summary.failed_alike),
        (2, 4, false)
    );
    let tried = bench.attempts();
    // four runs with three attempts each would be twelve
    assert!((4..=6).contains(&(tried[0] + tried[1])), "{tried:?}");
    assert!(bench.has_heard(|p| matches!(
        p,
        SessionProgress::RunFinished { not_again: Some(why), retry: false, .. } if why.contains("failed twice in this way")
    )));
    bench.run().await;
    assert_eq!(bench.attempts(), tried, "it is written down");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_lost_is_repeated_three_times_without_counting() {
    let bench = one_point("repeats = 1\nretries = 0");
    let lost = || {
        Course::Returns(AttemptResult::Lost {
            reason: "its node went".into(),
            time_limit: false,
        })
    };
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    bench.set(move |_, _| match TRIES.fetch_add(1, Ordering::Relaxed) {
        0..3 => lost(),
        _ => Course::Succeeds(1, 1.0),
    });
    let summary = bench.run().await;
    assert_eq!((summary.succeeded, bench.count("run-abandoned")), (1, 3));
    assert!(bench.cost_no_attempt());

    let bench = one_point("repeats = 1\nretries = 0");
    bench.set(move |_, _| lost());
    let summary = bench.run().await;
    assert_eq!((summary.failed, bench.attempts()), (1, vec![4]));
    assert!(bench.has_heard(|p| {
        let text = serde_json::to_string(p).expect("JSON");
        text.contains("lost 4 times with its agent or nodes: its node went")
            && text.contains("node-lost")
    }));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_left_a_checkpoint_continues_from_it_without_counting_and_a_failed_continuation_starts_over()
 {
    let run = "repeats = 1\nretries = 0\n[checkpoint]\nresume = true";
    let bench = Bench::new(HOSTS, "mapping = '2Nx1P'", run);
    bench.set(|_, task| match task.attempt {
        1 | 2 => Course::LosesNode(10),
        _ => Course::Succeeds(10, 1.0),
    });
    let summary = bench.run().await;
    assert_eq!(summary.succeeded, 1);
    let begun_of = |bench: &Bench| -> Vec<(u32, Option<u32>)> {
        let carried = bench.carried.lock();
        let of = |task: &cvc_engine::attempt::Task| {
            let from = task.resume.as_ref().map(|kept| kept.attempt);
            (task.attempt, from)
        };
        carried.begun.iter().map(of).collect()
    };
    assert_eq!(begun_of(&bench), [(1, None), (2, Some(1)), (3, Some(2))]);
    assert_eq!(bench.count("checkpoint-kept"), 2);

    let run = "repeats = 1\nretries = 1\n[checkpoint]\nresume = true";
    let bench = Bench::new(HOSTS, "mapping = '2Nx1P'", run);
    bench.set(|_, task| match task.attempt {
        1 => Course::LosesNode(10),
        2 => Course::Fails(10, Cause::Restart, "damaged"),
        _ => Course::Succeeds(10, 1.0),
    });
    bench.run().await;
    assert_eq!(begun_of(&bench), [(1, None), (2, Some(1)), (3, None)]);
}

#[tokio::test(start_paused = true)]
async fn without_resume_a_checkpoint_that_was_left_is_not_used() {
    let bench = Bench::new(HOSTS, "mapping = '2Nx1P'", "repeats = 1\nretries = 1");
    bench.set(|_, task| match task.attempt {
        1 => Course::LosesNode(10),
        _ => Course::Succeeds(10, 1.0),
    });
    bench.run().await;
    assert!(
        bench
            .carried
            .lock()
            .begun
            .iter()
            .all(|task| task.resume.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_without_a_directory_gets_one() {
    let bench = one_point("repeats = 1\nretries = 0");
    bench.set(|_, _| {
        Course::Returns(AttemptResult::Failed {
            cause: Cause::Timeout,
            detail: "its job ended".into(),
        })
    });
    assert_eq!(bench.run().await.failed, 1);
    let failed = bench.dir().failed(&bench.plan.runs[0].id, 1);
    assert!(failed.join("outcome.json").is_file());
}

#[tokio::test(start_paused = true)]
async fn points_that_cannot_run_are_skipped_with_their_reason_and_do_not_stop_the_others() {
    let mut bench = Bench::new(LOCAL, THREE, "repeats = 2");
    bench.obstacles.insert(1, "demo is not installed");
    let summary = bench.run().await;
    assert_eq!(
        (summary.succeeded, summary.skipped, summary.left),
        (4, 2, 0)
    );
    assert!(bench.has_heard(|p| matches!(
        p,
        SessionProgress::Skipped { reason, runs: 2, points } if reason == "demo is not installed" && points.len() == 1
    )));
    assert_eq!(bench.count("points-skipped"), 1);
}
