//! Sessions that are stopped, or limited to some points or some time.

use crate::memory::{Bench, Course, LOCAL, Settings, one_point};
use cvc_controller::runner::{NextBlock, next_block};
use cvc_core::outcome::Cause;
use cvc_core::stop::StopRequest;
use std::{sync::Arc, time::Duration};

const FOUR: &str = "mapping = ['1Nx1P', '1Nx2P', '1Nx3P', '1Nx4P']";

/// Asks for a stop after this many seconds.
async fn stop(bench: &Bench, after_s: u64, how: StopRequest) {
    let stops = Arc::clone(&bench.stops.lock());
    tokio::time::sleep(Duration::from_secs(after_s)).await;
    stops.request(how);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_finishes_the_run_under_way_and_leaves_the_rest() {
    let bench = one_point("repeats = 3");
    bench.set(|_, _| Course::Succeeds(10, 1.0));
    let (summary, ()) = tokio::join!(bench.run(), stop(&bench, 5, StopRequest::Finish));
    assert_eq!(
        (summary.succeeded, summary.left, summary.interrupted),
        (1, 2, true)
    );
    assert_eq!(
        (bench.count("interrupted"), bench.count("completed")),
        (1, 0)
    );
    *bench.stops.lock() = Arc::default();
    let summary = bench.run().await;
    assert_eq!((summary.succeeded, summary.interrupted), (3, false));
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_at_once_cuts_the_run_off_and_it_loses_no_attempt() {
    let bench = one_point("repeats = 2\nretries = 0");
    bench.set(|_, _| Course::Succeeds(1000, 1.0));
    let (summary, ()) = tokio::join!(bench.run(), stop(&bench, 5, StopRequest::StopNow));
    assert_eq!(
        (summary.succeeded, summary.left, summary.interrupted),
        (0, 2, true)
    );
    assert_eq!((bench.count("run-abandoned"), bench.whole()), (1, 0));
    *bench.stops.lock() = Arc::default();
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    assert_eq!(bench.run().await.succeeded, 2);
    assert!(bench.cost_no_attempt());
}

#[tokio::test(start_paused = true)]
async fn a_request_before_the_first_run_begins_none() {
    let bench = one_point("repeats = 2");
    bench.stops.lock().request(StopRequest::Finish);
    let summary = bench.run().await;
    assert!(summary.interrupted && summary.left == 2);
    assert_eq!(bench.attempts(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_some_points_leaves_the_others_for_the_next_one() {
    let bench = Bench::new(LOCAL, FOUR, "repeats = 1");
    let only = |points: &[usize]| Settings {
        only: Some(points.to_vec()),
        ..Settings::default()
    };
    let summary = bench.run_with(only(&[0, 2])).await;
    assert_eq!(
        (summary.succeeded, summary.left, summary.interrupted),
        (2, 2, false)
    );
    assert_eq!(bench.attempts(), [1, 0, 1, 0]);
    assert_eq!(bench.count("completed"), 0);
    let summary = bench.run_with(only(&[0, 3])).await;
    assert_eq!((summary.succeeded, summary.left), (3, 1));
    assert_eq!(bench.run().await.succeeded, 4);
    assert_eq!(
        (bench.attempts(), bench.count("completed")),
        (vec![1; 4], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_up_to_a_block_leaves_the_runs_of_later_ones() {
    let bench = one_point("repeats = 4\ndays = 2");
    let up_to = |block| Settings {
        last_block: Some(block),
        ..Settings::default()
    };
    let summary = bench.run_with(up_to(1)).await;
    assert_eq!(
        (summary.succeeded, summary.left, bench.attempts()),
        (2, 2, vec![2])
    );
    let block = |task: &cvc_engine::attempt::Task| task.planned.block.map(|b| b.number);
    let begun: Vec<_> = bench.carried.lock().begun.iter().map(block).collect();
    assert_eq!(begun, [Some(1), Some(1)]);
    assert_eq!(bench.run_with(up_to(1)).await.left, 2, "none of it is open");
    let summary = bench.run_with(up_to(2)).await;
    assert_eq!((summary.succeeded, bench.attempts()), (4, vec![4]));
}

#[tokio::test(start_paused = true)]
async fn a_block_waits_for_the_next_day_and_not_for_points_that_failed_too_often() {
    let two = "mapping = ['1Nx1P', '1Nx2P']";
    let bench = Bench::new(
        LOCAL,
        two,
        "repeats = 4\ndays = 2\nretries = 0\nquarantine_after = 1",
    );
    bench.set(|point, _| match point {
        0 => Course::Fails(1, Cause::Application, "exit code 1"),
        _ => Course::Succeeds(1, 1.0),
    });
    let session = Settings {
        last_block: Some(1),
        keep_going: true,
        ..Settings::default()
    };
    bench.run_with(session).await;
    assert_eq!(bench.attempts(), [1, 2], "the first point is set aside");
    let state = bench.state();
    let (_, last) = state.span.expect("entries");
    let today = last.to_zoned(jiff::tz::TimeZone::UTC).date();
    let next = |now| next_block(&bench.plan, &state, None, now);
    match next(last) {
        NextBlock::NotBefore { block, day } => {
            assert_eq!((block.number, day), (2, today.tomorrow().expect("a day")));
        }
        other => panic!("{other:?}"),
    }
    let tomorrow = last + jiff::SignedDuration::from_hours(24);
    assert!(matches!(next(tomorrow), NextBlock::Of(block) if block.number == 2));
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_that_would_end_after_the_time_of_the_session() {
    let bench = one_point("repeats = 3");
    bench.set(|_, _| Course::Succeeds(50, 1.0));
    // the first run shows that each takes fifty seconds: a second one does not fit into eighty
    let session = |expected_s| Settings {
        lasts_s: Some(80),
        expected_s: Some(expected_s),
        ..Settings::default()
    };
    let summary = bench.run_with(session(1.0)).await;
    assert_eq!(
        (summary.succeeded, summary.left, summary.interrupted),
        (1, 2, false)
    );
    // what is expected to take longer does not begin
    let summary = bench.run_with(session(81.0)).await;
    assert_eq!((summary.succeeded, bench.attempts()), (1, vec![1]));
    let long = Settings {
        lasts_s: Some(1000),
        ..Settings::default()
    };
    assert_eq!(bench.run_with(long).await.succeeded, 3);
}

#[tokio::test(start_paused = true)]
async fn only_one_run_is_under_way_on_a_machine_unless_its_site_says_otherwise() {
    let mut bench = Bench::new(LOCAL, FOUR, "repeats = 2");
    bench.run().await;
    assert_eq!(bench.carried.lock().most, 1);
    bench.side_by_side = true;
    let parallel = Bench {
        side_by_side: true,
        ..Bench::new(LOCAL, FOUR, "repeats = 2")
    };
    parallel.run().await;
    assert_eq!(
        parallel.carried.lock().most,
        3,
        "as many as there are nodes"
    );
}
