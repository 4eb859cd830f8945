//! What happens when one of the two ends dies, hangs or is left alone.

use super::{
    process::{Agent, LIMIT, Run, after, crew_of, crew_with, is_alive, member, patient},
    times::QUICK,
};
use cvc_engine::crew::{Crew, CrewError, CrewSettings, whole};
use cvc_probe::sentinel::SentinelRequest;
use cvc_testkit::{process::signal, wait_until};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_dies_is_lost_at_once_and_can_be_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let (crew, pids) = crew_of(3).await;
    let run = Run::start(
        "pending",
        dir.path(),
        "trap 'echo >asked' TERM; echo >ready; while :; do sleep 0.1; done",
    );
    let has = |file: &str| dir.path().join(file).exists();
    tokio::task::block_in_place(|| wait_until("the run", LIMIT, || has("ready")));
    // a question that is under way when it happens
    let end = SentinelRequest::End {
        marker: run.marker.clone(),
        dirs: vec![],
        grace_s: 120.0,
    };
    let asking = {
        let crew = crew.clone();
        tokio::spawn(async move { crew.ask("n2", end, LIMIT).await })
    };
    tokio::task::block_in_place(|| wait_until("the question", LIMIT, || has("asked")));
    signal(pids[1], Signal::SIGKILL);
    // at once: not by its silence
    let (host, reason) = crew.wait_lost(&["n1", "n2"]).await;
    assert_eq!(host, "n2");
    assert!(reason.contains("signal: 9"), "{reason}");
    let error = asking.await.unwrap().unwrap_err();
    assert!(error.is_lost() && error.host() == "n2", "{error}");
    assert!(crew.skew("n2", LIMIT).await.unwrap_err().is_lost());
    assert!(crew.skew("n1", LIMIT).await.is_ok());
    // waiting for others goes on
    assert!(
        tokio::time::timeout(Duration::from_millis(300), crew.wait_lost(&["n1", "n3"]))
            .await
            .is_err()
    );

    assert_eq!(crew.revive().await, ["n2"]);
    assert!(crew.lost().borrow().is_empty());
    assert!(crew.skew("n2", LIMIT).await.is_ok());
    assert!(crew.revive().await.is_empty());
    crew.close().await;
    assert!(crew.revive().await.is_empty(), "a closed crew stays closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_hangs_is_lost_although_its_node_answers() {
    let settings = CrewSettings {
        lost_after_s: 1.0,
        ..QUICK
    };
    let (crew, pids) = crew_with(2, settings).await;
    let begin = Instant::now();
    // what is heard now is heard after the beginning
    crew.skew("n1", LIMIT).await.unwrap();
    signal(pids[0], Signal::SIGSTOP);
    let (host, reason) = tokio::time::timeout(LIMIT, crew.wait_lost(&["n1"]))
        .await
        .unwrap();
    assert!(
        begin.elapsed().as_secs_f64() >= 8.0 * settings.lost_after_s,
        "{:?}",
        begin.elapsed()
    );
    assert!(
        host == "n1" && reason.contains("though new connections answer"),
        "{reason}"
    );
    wait_until("the end of the process that hung", LIMIT, || {
        !is_alive(pids[0])
    });
    assert_eq!(crew.revive().await, ["n1"]);
    crew.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_that_is_silent_for_longer_than_the_limit_is_not_lost() {
    let settings = CrewSettings {
        lost_after_s: 1.0,
        ..QUICK
    };
    let (crew, pids) = crew_with(2, settings).await;
    crew.skew("n1", LIMIT).await.unwrap();
    signal(pids[0], Signal::SIGSTOP);
    let early = tokio::time::timeout(Duration::from_secs(4), crew.wait_lost(&["n1"])).await;
    signal(pids[0], Signal::SIGCONT);
    assert!(early.is_err(), "{early:?}");
    assert!(crew.skew("n1", LIMIT).await.is_ok());
    crew.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_shorter_than_the_limit_loses_no_node() {
    let settings = CrewSettings {
        lost_after_s: 6.0,
        ..QUICK
    };
    let (crew, pids) = crew_with(1, settings).await;
    let begin = Instant::now();
    signal(pids[0], Signal::SIGSTOP);
    tokio::time::sleep(Duration::from_secs(2)).await;
    signal(pids[0], Signal::SIGCONT);
    assert!(crew.skew("n1", LIMIT).await.is_ok());
    tokio::time::sleep(
        Duration::from_secs_f64(settings.lost_after_s + 0.5).saturating_sub(begin.elapsed()),
    )
    .await;
    assert!(crew.lost().borrow().is_empty());
    crew.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_cannot_be_restarted_stay_lost() {
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("up");
    std::fs::write(&flag, "").unwrap();
    let argv = after(&format!(
        "[ -e {} ] || {{ echo 'No route to host' >&2; exit 255; }}",
        flag.display()
    ));
    let crew = Crew::start(vec![member("n1", argv)], patient())
        .await
        .unwrap();
    std::fs::remove_file(&flag).unwrap();
    signal(super::process::pid(&crew, "n1"), Signal::SIGKILL);
    crew.wait_lost(&["n1"]).await;
    assert!(crew.revive().await.is_empty());
    assert_eq!(crew.lost().borrow().len(), 1);
    std::fs::write(&flag, "").unwrap();
    assert_eq!(crew.revive().await, ["n1"]);
    crew.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_work_stops_neither_beats_nor_other_answers() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::start(
        "stubborn",
        dir.path(),
        "trap '' TERM; while :; do sleep 0.1; done",
    );
    let (crew, _) = crew_with(1, QUICK).await;
    let begin = Instant::now();
    // longer than the silence that loses a node
    let slow = {
        let (crew, marker) = (crew.clone(), run.marker.clone());
        tokio::spawn(async move {
            crew.end(&["n1"], &marker, &[], QUICK.lost_after_s + 2.0, LIMIT)
                .await
        })
    };
    for _ in 0..10 {
        crew.skew("n1", LIMIT).await.unwrap();
    }
    assert!(!slow.is_finished(), "the answers did not wait for it");
    let patience = Duration::from_millis(100);
    let error = crew.end(&["n1"], "another", &[], 5.0, LIMIT).await;
    assert!(error[0].1.as_ref().unwrap().ended.is_empty());
    let late = crew
        .ask(
            "n1",
            SentinelRequest::End {
                marker: run.marker.clone(),
                dirs: vec![],
                grace_s: 120.0,
            },
            patience,
        )
        .await;
    assert!(
        matches!(late, Err(CrewError::Timeout { request: "end", .. })),
        "{late:?}"
    );
    let ended = slow.await.unwrap().remove(0).1.unwrap();
    assert!(begin.elapsed().as_secs_f64() >= QUICK.lost_after_s + 2.0);
    assert!(
        ended.left.is_empty() && ended.ended.iter().any(|p| p.pid == run.child.id()),
        "{ended:?}"
    );
    assert!(run.has_ended());
    assert!(crew.lost().borrow().is_empty());
    crew.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_runs_end_when_the_crew_is_closed_or_dropped_and_unguarded_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    for close in [true, false] {
        let mut guarded = Run::start("guarded", dir.path(), "sleep 30 & wait");
        let mut other = Run::start("other", dir.path(), "sleep 30 & wait");
        let (crew, pids) = crew_of(1).await;
        for run in [&guarded, &other] {
            whole(
                crew.guard(&["n1"], &run.marker, &[dir.path().to_owned()], &[], LIMIT)
                    .await,
            )
            .unwrap();
        }
        whole(crew.unguard(&["n1"], &other.marker, LIMIT).await).unwrap();
        if close {
            crew.close().await;
            assert!(guarded.has_ended(), "closing waits for it");
        } else {
            drop(crew);
        }
        tokio::task::block_in_place(|| {
            wait_until("the end of the guarded run", LIMIT, || guarded.has_ended());
            wait_until("the end of the sentinel", LIMIT, || !is_alive(pids[0]));
        });
        assert!(!other.has_ended());
    }
}

/// A sentinel that is killed (by the kernel for want of memory, by Slurm with its step) ends nothing itself.
#[tokio::test(flavor = "multi_thread")]
async fn processes_of_a_killed_sentinel_are_ended_before_its_node_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let own = scratch.path().join("run/rank-0");
    std::fs::create_dir_all(&own).unwrap();
    let mut guarded = Run::start("guarded", dir.path(), "sleep 30 & wait");
    let mut other = Run::start("other", dir.path(), "sleep 30 & wait");
    let (crew, pids) = crew_of(1).await;
    whole(
        crew.guard(
            &["n1"],
            &guarded.marker,
            &[dir.path().to_owned()],
            std::slice::from_ref(&own),
            LIMIT,
        )
        .await,
    )
    .unwrap();
    whole(
        crew.guard(&["n1"], &other.marker, &[dir.path().to_owned()], &[], LIMIT)
            .await,
    )
    .unwrap();
    whole(crew.unguard(&["n1"], &other.marker, LIMIT).await).unwrap();
    // one that the sentinel refuses to guard does not keep the node away later
    let refused = crew.guard(&["n1"], "", &[], &[], LIMIT).await;
    assert!(
        matches!(refused[0].1, Err(CrewError::Refused { .. })),
        "{refused:?}"
    );
    signal(pids[0], Signal::SIGKILL);
    crew.wait_lost(&["n1"]).await;
    assert!(!guarded.has_ended() && own.exists(), "it was not ended");
    assert_eq!(crew.revive().await, ["n1"]);
    assert!(
        guarded.has_ended() && !own.exists(),
        "ended and removed before the node was back"
    );
    assert!(!other.has_ended(), "not guarded any more");
    crew.close().await;
}

#[test]
fn a_killed_agent_takes_its_guarded_run_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::start("orphan", dir.path(), "sleep 30 & wait");
    let (agent, sentinel) = Agent::start(dir.path(), &run.marker);
    assert!(!run.has_ended());
    agent.signal(Signal::SIGKILL);
    wait_until("the end of the guarded run", LIMIT, || run.has_ended());
    wait_until("the end of the sentinel", LIMIT, || !is_alive(sentinel));
}

/// As after a power failure of the agent's machine: the line stays open, but nothing comes any more.
#[test]
fn a_silent_agent_counts_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::start("silent", dir.path(), "sleep 30 & wait");
    let (agent, sentinel) = Agent::start(dir.path(), &run.marker);
    let begin = Instant::now();
    agent.signal(Signal::SIGSTOP);
    wait_until("the end of the guarded run", LIMIT, || run.has_ended());
    assert!(
        begin.elapsed().as_secs_f64() > QUICK.lost_after_s / 2.0,
        "not before its time"
    );
    wait_until("the end of the sentinel", LIMIT, || !is_alive(sentinel));
}
