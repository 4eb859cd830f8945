//! An agent after another one: what that left is ended, and reported.

use crate::scripted::{Bench, Script, run, task, write_run};
use cvc_agent::{AwaitedAttempt, DispatchId, Event, Request};
use cvc_core::outcome::Outcome;
use cvc_engine::attempt::FoundComponents;
use cvc_os::proc::ProcessId;
use std::{collections::BTreeMap, fs};

const SHEPHERD: ProcessId = ProcessId {
    pid: 70,
    start_ticks: 90,
};

fn ready() -> Event {
    Event::Ready {
        nodes: vec!["n1".into()],
        cores: 1,
        obstacles: BTreeMap::new(),
        found: FoundComponents::default(),
    }
}

fn id(n: u8) -> DispatchId {
    DispatchId::of_task(&task(n, 0, &["n1"]))
}

fn started(n: u8) -> Event {
    Event::Started {
        id: id(n),
        shepherd: SHEPHERD,
    }
}

/// An agent was killed with one run that is whole, one that is not, and one whose end it had reported.
fn after_a_kill(script: Script) -> Bench {
    let bench = Bench::new(script);
    let closed = Event::Closed {
        reason: "before".into(),
    };
    bench.before([
        ready(),
        closed,
        ready(),
        started(1),
        started(2),
        Event::Interrupted { id: id(3) },
    ]);
    write_run(
        &bench.spool.campaign(),
        &task(1, 0, &["n1"]),
        Outcome::Succeeded,
    );
    for n in 1..=3 {
        bench.run(task(n, 0, &["n1"]));
    }
    bench.ask("stop-2", &Request::Stop { run: run(2) });
    bench
}

#[tokio::test(start_paused = true)]
async fn remains_of_a_killed_agent_are_ended_and_reported_before_new_runs_begin() {
    let bench = after_a_kill(Script::default());
    bench.ask(
        "report-1",
        &Request::Report {
            of: vec![AwaitedAttempt::of_task(&task(4, 0, &["n1"]))],
        },
    );
    bench
        .serve_while(async {
            bench
                .until("lost 4.0 the report of its end was damaged")
                .await;
            bench.run(task(5, 0, &["n1"]));
            bench.until("succeeded 5.0").await;
            bench.close();
        })
        .await;
    assert_eq!(
        *bench.script.recovered.lock(),
        [(run(1), Some(SHEPHERD)), (run(2), Some(SHEPHERD))]
    );
    assert_eq!(*bench.script.begun.lock(), [(run(5), 0)]);
    assert_eq!(*bench.script.calls.lock(), ["take over", "clear", "close"]);
    let summaries = bench.summaries();
    let mine = summaries
        .iter()
        .rposition(|e| e == "began")
        .expect("it began");
    assert_eq!(
        summaries[mine + 1..mine + 6],
        [
            "succeeded 1.0",
            "lost 2.0 the agent on the head node ended first",
            "lost 3.0 the report of its end was damaged",
            "lost 4.0 the report of its end was damaged",
            "ready"
        ]
    );
    assert!(!bench.has_request("stop-2") && !bench.has_request("report-1"));
    for n in 1..=3 {
        assert!(!bench.has_request(&format!("run-{}-0", run(n))), "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_came_after_an_agent_closed_are_for_this_one() {
    let bench = Bench::new(Script::default());
    bench.before([
        ready(),
        Event::Closed {
            reason: "before".into(),
        },
    ]);
    bench.run(task(1, 0, &["n1"]));
    bench.ask("close-0", &Request::Close);
    bench
        .serve_while(async {
            bench.until("succeeded 1.0").await;
            bench.close();
        })
        .await;
    assert!(bench.script.recovered.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn processes_that_cannot_be_ended_are_left_to_the_next_agent() {
    let bench = after_a_kill(Script {
        keeps_leftovers: true,
        ..Script::default()
    });
    let error = bench
        .serve()
        .await
        .expect_err("it cannot be ended")
        .to_string();
    assert!(error.contains("cannot write"), "{error}");
    let summaries = bench.summaries();
    let last = summaries.last().expect("an event");
    assert!(
        last.starts_with("unable: it could not continue: cannot write"),
        "{summaries:#?}"
    );
    assert!(
        bench.script.calls.lock().contains(&"close"),
        "its own nodes are let go"
    );
    assert!(
        bench.has_request(&format!("run-{}-0", run(1))),
        "the next one reads it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_another_protocol_ends_leftovers_and_says_why_it_cannot_work() {
    let bench = after_a_kill(Script::default());
    let mut orders = bench.orders();
    orders.protocol += 1;
    bench.order(&orders);
    let error = bench
        .serve()
        .await
        .expect_err("another protocol")
        .to_string();
    assert!(error.contains("install the same version of cvc"), "{error}");
    assert_eq!(
        *bench.script.ended_leftovers.lock(),
        [(run(1), Some(SHEPHERD)), (run(2), Some(SHEPHERD))],
        "not of what has an end"
    );
    let summaries = bench.summaries();
    assert_eq!(
        summaries[summaries.len() - 2..],
        [
            format!("unable: {error}"),
            "closed: it could not work".into()
        ]
    );
    assert!(bench.script.calls.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_nodes_reports_leftovers_that_it_cannot_end() {
    let bench = after_a_kill(Script {
        keeps_leftovers: true,
        unready: Some("no node answers"),
        ..Script::default()
    });
    bench.serve().await.expect_err("it has no nodes");
    let summaries = bench.summaries();
    let last = summaries.last().expect("an event");
    assert!(
        last.starts_with(
            "unable: no node answers; processes of an earlier agent cannot be ended: cannot write"
        ),
        "it is not closed: {summaries:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_an_agent_that_gathers_its_nodes() {
    let bench = Bench::new(Script {
        gathers_for_ever: true,
        ..Script::default()
    });
    let (served, ()) = tokio::join!(bench.serve(), async {
        bench
            .until_holds("gathering", || !bench.script.calls.lock().is_empty())
            .await;
        bench.script.terminated.notify_one();
    });
    served.expect_err("it has no nodes");
    assert_eq!(
        bench.summaries(),
        [
            "began",
            "unable: it was ended by a signal",
            "closed: it could not work"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_damaged_log_is_reported_and_its_numbers_do_not_come_again() {
    let bench = Bench::new(Script::default());
    bench.before([ready(), started(1)]);
    let log = fs::read_to_string(bench.spool.events()).expect("a log");
    let damaged = log.replacen("\"ready\"", "\"rexdy\"", 1);
    fs::write(bench.spool.events(), damaged).expect("writes");
    bench
        .serve_while(async {
            bench.until("ready").await;
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    assert!(
        summaries
            .iter()
            .any(|e| e.starts_with("note: ") && e.contains("events.jsonl")),
        "{summaries:#?}"
    );
    let began = bench.events().into_iter().find_map(|event| match event {
        Event::Began { after } => Some(after),
        _ => None,
    });
    assert_eq!(began, Some(2));
}
