//! Requests: each is carried out once, and its end is reported until the controller has it.

use crate::scripted::{Bench, Course, Script, run, task, write_run};
use cvc_agent::{AwaitedAttempt, Request};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::{read_outcome, sealed_outcome};
use cvc_engine::attempt::AttemptResult;
use std::fs;

fn script(courses: impl IntoIterator<Item = Course>) -> Script {
    Script {
        courses: parking_lot::Mutex::new(courses.into_iter().collect()),
        ..Script::default()
    }
}

const LONG: Course = Course::Ends(1000, Outcome::Succeeded);

#[tokio::test(start_paused = true)]
async fn an_attempt_is_reported_from_its_start_to_its_end_and_its_request_goes() {
    let bench = Bench::new(Script::default());
    fs::write(bench.spool.trace(), "before\n").expect("writes");
    bench
        .serve_while(async {
            bench.until("ready").await;
            bench.run(task(1, 0, &["n1"]));
            bench.until("stage 1 running").await;
            assert!(
                bench.has_request(&format!("run-{}-0", run(1))),
                "an agent after this one reads it"
            );
            let mut log = fs::OpenOptions::new()
                .append(true)
                .open(bench.spool.trace())
                .expect("the log");
            std::io::Write::write_all(&mut log, b"of the run\n").expect("writes");
            bench.until("succeeded").await;
            bench.close();
        })
        .await;
    assert_eq!(
        bench.summaries(),
        [
            "began",
            "ready",
            "started 1.0 7",
            "stage 1 running",
            "stage 1 collecting",
            "succeeded 1.0",
            "closing: the controller closed it",
            "note: not everything is removed",
            "closed: the controller closed it"
        ]
    );
    let dir = bench.spool.campaign();
    assert!(sealed_outcome(&dir, &run(1), 1).is_some());
    let kept = fs::read_to_string(dir.run(&run(1)).join("agent-trace.log")).expect("a log");
    assert_eq!(
        kept, "of the run\n",
        "what was logged before it is of no interest"
    );
    assert!(!bench.has_request(&format!("run-{}-0", run(1))) && !bench.has_request("close-1"));
}

#[tokio::test(start_paused = true)]
async fn runs_that_fail_without_a_directory_report_their_cause() {
    let bench = Bench::new(script([
        Course::Fails(AttemptResult::Failed {
            cause: Cause::Launch,
            detail: "no mpiexec".into(),
        }),
        Course::Breaks,
        Course::Fails(AttemptResult::Lost {
            reason: "its node went".into(),
            time_limit: true,
        }),
    ]));
    bench
        .serve_while(async {
            for n in 1..=3 {
                bench.run(task(n, 0, &["n1"]));
                bench
                    .until_holds("an end", || {
                        !bench.has_request(&format!("run-{}-0", run(n)))
                    })
                    .await;
            }
            bench.close();
        })
        .await;
    let summaries = bench.summaries().join("\n");
    assert!(
        summaries.contains("failed 1.0 Launch: no mpiexec"),
        "{summaries}"
    );
    assert!(
        summaries.contains("failed 2.0 Store: cannot write"),
        "{summaries}"
    );
    assert!(
        summaries.contains("lost 3.0 (time limit) its node went"),
        "{summaries}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_cuts_its_run_off_and_no_other() {
    let bench = Bench::new(script([LONG, Course::Ends(30, Outcome::Succeeded)]));
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.run(task(2, 0, &["n2"]));
            bench.until("started 2.0").await;
            bench.ask("stop-1", &Request::Stop { run: run(1) });
            bench.until("interrupted 1.0").await;
            bench.until("succeeded 2.0").await;
            bench.close();
        })
        .await;
    assert!(!bench.has_request("stop-1") && !bench.has_request(&format!("run-{}-0", run(1))));
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_begins_when_nothing_of_the_one_before_is_left() {
    let bench = Bench::new(script([LONG]));
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("started 1.0").await;
            bench.run(task(1, 1, &["n1"]));
            bench.until("succeeded 1.1").await;
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    let at = |what: &str| summaries.iter().position(|e| e.starts_with(what));
    assert!(at("interrupted 1.0") < at("started 1.1"), "{summaries:#?}");
    assert_eq!(*bench.script.begun.lock(), [(run(1), 0), (run(1), 1)]);
}

#[tokio::test(start_paused = true)]
async fn of_two_attempts_at_a_run_that_wait_only_the_later_one_begins() {
    let bench = Bench::new(Script::default());
    bench.run(task(1, 9, &["n1"]));
    bench.run(task(1, 10, &["n1"]));
    bench
        .serve_while(async {
            bench.until("succeeded 1.10").await;
            bench.close();
        })
        .await;
    assert_eq!(*bench.script.begun.lock(), [(run(1), 10)]);
    let summaries = bench.summaries().join("\n");
    assert!(
        summaries.contains("lost 1.9 a later attempt at the run was requested"),
        "{summaries}"
    );
}

#[tokio::test(start_paused = true)]
async fn finished_runs_are_reported_again_when_requested_again() {
    let bench = Bench::new(Script::default());
    let of = |n, dispatch| AwaitedAttempt::of_task(&task(n, dispatch, &["n1"]));
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("succeeded 1.0").await;
            // the same request, because the report was damaged on its way
            bench.run(task(1, 0, &["n1"]));
            bench
                .until_holds("a second report", || {
                    bench
                        .summaries()
                        .iter()
                        .filter(|e| *e == "succeeded 1.0")
                        .count()
                        == 2
                })
                .await;
            // a question for what never began and for what has ended
            bench.ask(
                "report-1",
                &Request::Report {
                    of: vec![of(1, 0), of(2, 0)],
                },
            );
            bench
                .until("lost 2.0 the report of its end was damaged")
                .await;
            bench.close();
        })
        .await;
    assert_eq!(bench.script.begun.lock().len(), 1);
    assert_eq!(
        bench
            .summaries()
            .iter()
            .filter(|e| *e == "succeeded 1.0")
            .count(),
        3
    );
    assert!(!bench.has_request("report-1") && !bench.has_request(&format!("run-{}-0", run(1))));
}

#[tokio::test(start_paused = true)]
async fn a_question_for_an_attempt_that_waits_or_runs_has_no_answer_yet() {
    let bench = Bench::new(script([LONG]));
    let of = AwaitedAttempt::of_task(&task(1, 0, &["n1"]));
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.ask("report-1", &Request::Report { of: vec![of] });
            bench.until("started 1.0").await;
            bench
                .until_holds("an answer", || !bench.has_request("report-1"))
                .await;
            assert!(!bench.summaries().iter().any(|e| e.starts_with("lost")));
            bench.close();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_whole_is_not_made_again() {
    let bench = Bench::new(Script::default());
    write_run(
        &bench.spool.campaign(),
        &task(1, 0, &["n1"]),
        Outcome::Succeeded,
    );
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n1"]));
            bench.until("succeeded 1.0").await;
            bench.close();
        })
        .await;
    assert!(bench.script.begun.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn fetched_attempts_are_removed_unless_a_later_one_has_their_place() {
    let bench = Bench::new(Script::default());
    let dir = bench.spool.campaign();
    let failed = Outcome::Failed {
        cause: Cause::Application,
        detail: "exit code 3".into(),
    };
    write_run(&dir, &task(1, 0, &["n1"]), failed);
    write_run(&dir, &task(1, 1, &["n1"]), Outcome::Succeeded);
    let forget = |attempt| Request::Forget {
        run: run(1),
        dispatch: attempt - 1,
        attempt,
    };
    bench
        .serve_while(async {
            bench.ask("forget-1", &forget(1));
            bench
                .until_holds("forgetting", || !bench.has_request("forget-1"))
                .await;
            assert!(!dir.failed(&run(1), 1).exists());
            assert!(read_outcome(&dir.run(&run(1))).is_ok_and(|file| file.attempt == 2));
            bench.ask("forget-2", &forget(2));
            bench
                .until_holds("forgetting", || !bench.has_request("forget-2"))
                .await;
            assert!(!dir.run(&run(1)).exists());
            bench.close();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_is_put_aside_and_blocks_no_other() {
    let bench = Bench::new(Script::default());
    let at = |name: &str| bench.spool.root().join(format!("in/{name}.json"));
    let damaged = format!("run-{}-1", run(1));
    // one that was there before the agent, and one that comes
    fs::write(at(&damaged), "{\"do\":\"run\"").expect("writes");
    bench
        .serve_while(async {
            bench.until("ready").await;
            fs::write(at("stop-x-1"), "\0\0\0").expect("writes");
            bench.until("stop-x-1").await;
            // the controller repeats what was lost before it hears that
            bench.run(task(1, 1, &["n1"]));
            bench
                .until_holds("an answer", || !bench.has_request(&damaged))
                .await;
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    let aside = |e: &&String| e.contains("was moved to");
    assert_eq!(summaries.iter().filter(aside).count(), 2, "{summaries:#?}");
    assert!(
        summaries.contains(&"lost 1.1 its request could not be read".to_owned()),
        "{summaries:#?}"
    );
    assert!(
        bench.script.begun.lock().is_empty(),
        "it was reported as lost"
    );
    assert!(!at("stop-x-1").exists());
    for name in [damaged.as_str(), "stop-x-1"] {
        assert!(
            bench
                .spool
                .root()
                .join(format!("in/unreadable/{name}.json"))
                .exists(),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_for_a_moment_is_carried_out_then() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.until("ready").await;
            // what cannot be read, and is no damaged request
            let unread = bench.spool.root().join("in/close-1.json");
            fs::create_dir(&unread).expect("makes");
            bench.ask("stop-1", &Request::Stop { run: run(9) });
            bench
                .until_holds("the next request", || !bench.has_request("stop-1"))
                .await;
            fs::remove_dir(&unread).expect("removes");
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    assert!(
        !summaries.iter().any(|e| e.contains("was moved to")),
        "{summaries:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_attempts_at_a_run_that_arrive_together_only_the_later_one_begins() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.until("ready").await;
            // no look at the spool comes between
            bench.run(task(1, 0, &["n1"]));
            bench.run(task(1, 1, &["n1"]));
            bench.until("succeeded 1.1").await;
            bench.close();
        })
        .await;
    assert_eq!(*bench.script.begun.lock(), [(run(1), 1)]);
    let lost = "lost 1.0 a later attempt at the run was requested before it began";
    assert!(
        bench.summaries().contains(&lost.to_owned()),
        "{:#?}",
        bench.summaries()
    );
}
