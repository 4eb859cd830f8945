//! Several sites: one that no longer works does not stop the others.

use crate::memory::{Bench, Course, HOSTS, LOCAL, Settings};

const BOTH: &str = "mapping = '1Nx1P'\nsite = ['local', 'far']";

#[tokio::test(start_paused = true)]
async fn a_site_that_no_longer_works_is_given_up_and_the_next_session_tries_again() {
    let bench = Bench::new(&format!("{LOCAL}{HOSTS}"), BOTH, "repeats = 3\nretries = 0");
    let far = bench
        .plan
        .points
        .iter()
        .position(|p| p.point.site == "far")
        .expect("a point");
    bench.set(move |point, _| {
        if point == far {
            Course::Breaks("its head does not answer")
        } else {
            Course::Succeeds(10, 1.0)
        }
    });
    let summary = bench.run().await;
    assert_eq!((summary.succeeded, summary.skipped), (3, 3));
    let text = serde_json::to_string(&*bench.heard.lock()).expect("JSON");
    assert!(
        text.contains("its head does not answer; the next `cvc run` tries again"),
        "{text}"
    );
    assert_eq!(bench.attempts()[far], 1, "its other runs are not tried");
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    let summary = bench.run().await;
    assert_eq!(summary.succeeded, 6);
    assert!(bench.cost_no_attempt());
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_the_only_site_ends_the_session() {
    let bench = Bench::new(HOSTS, "mapping = '1Nx1P'", "repeats = 3");
    bench.set(|_, _| Course::Breaks("its head does not answer"));
    let error = bench
        .try_run(Settings::default())
        .await
        .expect_err("it has no site");
    assert!(
        error.to_string().contains("its head does not answer"),
        "{error}"
    );
    assert_eq!(
        (bench.attempts(), bench.count("run-abandoned")),
        (vec![1], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_a_bug_and_leaves_the_journal_usable() {
    let bench = Bench::new(LOCAL, "mapping = '1Nx1P'", "repeats = 2");
    bench.set(|_, _| panic!("a bug"));
    let error = bench
        .try_run(Settings::default())
        .await
        .expect_err("a bug")
        .to_string();
    assert!(
        error.contains("internal error") || error.contains("bug"),
        "{error}"
    );
    bench.set(|_, _| Course::Succeeds(1, 1.0));
    assert_eq!(bench.run().await.succeeded, 2);
}
