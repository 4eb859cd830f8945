//! Nodes that are lost, come back, or are reclaimed.

use crate::scripted::{Bench, Course, Script, task};
use cvc_agent::{NodeNotice, Request};
use cvc_core::outcome::Outcome;
use cvc_probe::sentinel::MetadataNotice;
use std::{collections::BTreeSet, time::Duration};

fn lose(bench: &Bench, node: &str) {
    bench.script.lost.send_modify(|lost| {
        lost.insert(node.into(), "no beat".into());
    });
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_on_a_lost_node_until_it_is_back_and_clean() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.until("ready").await;
            lose(&bench, "n2");
            bench.run(task(1, 0, &["n1", "n2"]));
            bench.until("lost 1.0 n2 was lost before it began").await;
            bench.run(task(2, 0, &["n1"]));
            bench.until("succeeded 2.0").await;
            bench.script.back.lock().insert("n2".into());
            bench
                .until_holds("the node", || bench.script.lost.borrow().is_empty())
                .await;
            assert!(
                !bench.summaries().contains(&"node back n2".to_owned()),
                "what was left there is still being removed"
            );
            bench.until("node back n2").await;
            bench.run(task(1, 1, &["n1", "n2"]));
            bench.until("succeeded 1.1").await;
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    assert_eq!(
        summaries
            .iter()
            .filter(|e| e.starts_with("node lost"))
            .count(),
        1,
        "{summaries:#?}"
    );
    let at = |what: &str| summaries.iter().position(|e| e.starts_with(what));
    assert!(
        at("node lost n2: no beat") < at("lost 1.0"),
        "or the controller would choose it again"
    );
}

#[tokio::test(start_paused = true)]
async fn lost_nodes_are_tried_again_now_and_then_but_not_while_a_run_has_them() {
    let bench = Bench::new(Script {
        courses: parking_lot::Mutex::new([Course::Ends(60, Outcome::Succeeded)].into()),
        ..Script::default()
    });
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n2"]));
            bench.until("started 1.0").await;
            lose(&bench, "n2");
            bench.until("succeeded 1.0").await;
            assert!(bench.script.wanted_back.lock().is_empty());
            tokio::time::sleep(Duration::from_secs(30)).await;
            let tries = bench.script.wanted_back.lock().len();
            assert!((3..=6).contains(&tries), "{tries} in 30 s");
            bench.close();
        })
        .await;
    let summaries = bench.summaries();
    assert!(
        summaries
            .iter()
            .any(|e| e.starts_with("note: n2 is lost: files of runs in ")),
        "{summaries:#?}"
    );
    let wanted = bench.script.wanted_back.lock();
    assert!(
        wanted
            .iter()
            .all(|nodes| *nodes == BTreeSet::from(["n2".to_owned()]))
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_site_no_longer_has_takes_no_run() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.run(task(1, 0, &["n7"]));
            bench.until("lost 1.0 its node n7 no longer exists").await;
            bench.close();
        })
        .await;
    assert!(bench.script.begun.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_elsewhere_when_the_cloud_reclaims_the_head() {
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.until("ready").await;
            bench.run(task(1, 0, &["n2"]));
            bench.until("succeeded 1.0").await;
            let notice = MetadataNotice {
                action: "terminate".into(),
                time: "2026-01-02T03:04:05Z".into(),
            };
            let leaving = NodeNotice::Leaving("n1".into(), notice);
            bench.script.notices.lock().push_back(leaving);
            bench.run(task(2, 0, &["n2"]));
            bench.until("lost 2.0 the cloud is reclaiming n1").await;
            bench.close();
        })
        .await;
    assert_eq!(bench.script.begun.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_when_the_cloud_reclaims_its_node_or_the_head() {
    let leaving = |node: &str| {
        let notice = MetadataNotice {
            action: "terminate".into(),
            time: "2026-01-02T03:04:05Z".into(),
        };
        NodeNotice::Leaving(node.into(), notice)
    };
    let bench = Bench::new(Script::default());
    bench
        .serve_while(async {
            bench.until("ready").await;
            bench.script.notices.lock().extend([
                NodeNotice::Silent("n1".into(), "no answer".into()),
                leaving("n2"),
            ]);
            bench.until("node leaving n2: terminate").await;
            bench
                .until("note: spot interruptions of n1 cannot be seen in advance: no answer")
                .await;
            bench.run(task(1, 0, &["n2"]));
            bench.until("lost 1.0 the cloud is reclaiming n2").await;
            bench.run(task(2, 0, &["n1"]));
            bench.until("succeeded 2.0").await;
            bench.script.notices.lock().push_back(leaving("n1"));
            bench.run(task(3, 0, &["n2"]));
            bench.until("lost 3.0 the cloud is reclaiming n").await;
            bench.run(task(4, 0, &["n1"]));
            bench.until("lost 4.0 the cloud is reclaiming n1").await;
            bench.close();
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rehearsed_notice_goes_to_attempts_and_the_node_is_taken_after_it_or_when_nothing_runs_there()
 {
    let announce = |node: &str, notice_s| Request::Announce {
        node: node.into(),
        notice_s,
        is_taken_by_agent: true,
    };
    let bench = Bench::new(Script::default());
    bench
        .script
        .courses
        .lock()
        .push_back(Course::Ends(30, Outcome::Succeeded));
    bench
        .serve_while(async {
            bench.until("ready").await;
            bench.run(task(1, 0, &["n2"]));
            bench.until("stage 1 running").await;
            bench.ask("announce-1", &announce("n2", 10.0));
            bench.until("node leaving n2: rehearsed").await;
            assert!(
                bench.script.taken.lock().is_empty(),
                "it has its notice first"
            );
            bench.until("succeeded 1.0").await;
            assert_eq!(*bench.script.taken.lock(), ["n2"]);
            // nothing runs there: it needs no notice
            bench.ask("announce-2", &announce("n2", 1000.0));
            bench.run(task(2, 0, &["n2"]));
            bench.until("lost 2.0").await;
            // the agent itself cannot be taken: its node is back at once
            bench.ask("announce-3", &announce("n1", 1000.0));
            bench.until("node back n1").await;
            bench.close();
        })
        .await;
    let announced = bench.script.announced.lock().clone();
    assert_eq!(announced, ["n2", "n2", "n1"]);
    assert_eq!(*bench.script.taken.lock(), ["n2", "n2"]);
}
