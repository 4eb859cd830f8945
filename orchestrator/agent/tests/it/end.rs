//! When an agent ends, and what it leaves.

use crate::scripted::{Bench, Course, SLURM, Script, run, task};
use cvc_core::outcome::Outcome;
use std::{
    fs,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

fn long() -> Script {
    Script {
        courses: parking_lot::Mutex::new([Course::Ends(100_000, Outcome::Succeeded)].into()),
        ..Script::default()
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_no_controller_and_no_request_has_come_for_long_enough() {
    let bench = Bench::new(Script::default());
    let mut orders = bench.orders();
    orders.idle_s = 100.0;
    bench.order(&orders);
    let begin = Instant::now();
    bench
        .serve_while(async {
            bench.until("ready").await;
            // a controller touches its file
            for s in 0..4 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                let file = fs::File::create(bench.spool.controller()).expect("touches");
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(s))
                    .expect("a time");
            }
        })
        .await;
    let passed = begin.elapsed().as_secs();
    assert!((340..345).contains(&passed), "{passed}");
    assert_eq!(
        bench.summaries().last().map(String::as_str),
        Some("closed: no controller has connected for a long time")
    );
}

#[tokio::test(start_paused = true)]
async fn it_does_not_end_while_a_run_is_under_way() {
    let bench = Bench::new(Script {
        courses: parking_lot::Mutex::new([Course::Ends(1000, Outcome::Succeeded)].into()),
        ..Script::default()
    });
    let mut orders = bench.orders();
    orders.idle_s = 100.0;
    bench.order(&orders);
    bench.run(task(1, 0, &["n1"]));
    let begin = Instant::now();
    bench.serve_while(async {}).await;
    let passed = begin.elapsed().as_secs();
    assert!((1100..1105).contains(&passed), "{passed}");
    assert!(bench.summaries().contains(&"succeeded 1.0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn it_beats_while_it_lives_and_not_afterwards() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench
                .until_holds("a beat", || bench.spool.beat().exists())
                .await;
            fs::remove_file(bench.spool.beat()).expect("removes");
            bench
                .until_holds("another beat", || bench.spool.beat().exists())
                .await;
            bench.close();
        })
        .await;
    assert!(!bench.spool.beat().exists());
}

#[tokio::test(start_paused = true)]
async fn a_signal_cuts_its_runs_off_and_they_do_not_count() {
    let bench = Bench::new(long());
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("started 1.0").await;
            bench.script.terminated.notify_one();
        })
        .await;
    let summaries = bench.summaries();
    assert!(
        summaries.contains(&"lost 1.0 it was ended by a signal".to_owned()),
        "{summaries:#?}"
    );
    assert_eq!(
        summaries.last().map(String::as_str),
        Some("closed: it was ended by a signal")
    );
    assert_eq!(*bench.script.calls.lock(), ["gather", "clear", "close"]);
    assert!(!bench.has_request(&format!("run-{}-0", run(1))));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_had_the_whole_job_is_lost_to_its_time_limit() {
    let bench = Bench::on(SLURM, long());
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("started 1.0").await;
            tokio::time::sleep(Duration::from_secs(50)).await;
            bench.script.terminated.notify_one();
        })
        .await;
    let summaries = bench.summaries().join("\n");
    assert!(
        summaries.contains("lost 1.0 (time limit) cut off 50 s after the agent had begun"),
        "{summaries}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_began_after_another_one_is_repeated_in_the_next_job() {
    let bench = Bench::on(
        SLURM,
        Script {
            courses: parking_lot::Mutex::new(
                [
                    Course::Ends(1, Outcome::Succeeded),
                    Course::Ends(1000, Outcome::Succeeded),
                ]
                .into(),
            ),
            ..Script::default()
        },
    );
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("succeeded 1.0").await;
            bench.run(task(2, 0, &["n1"]));
            bench.until("started 2.0").await;
            tokio::time::sleep(Duration::from_secs(50)).await;
            bench.script.terminated.notify_one();
        })
        .await;
    let summaries = bench.summaries().join("\n");
    assert!(summaries.contains("lost 2.0 cut off 5"), "{summaries}");
}
