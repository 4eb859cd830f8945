//! How a crew comes together, or does not.

use super::process::{LIMIT, after, crew_of, is_alive, member, patient, pid, sentinel};
use cvc_engine::crew::{Crew, CrewError, CrewSettings, Member, whole};
use std::{path::PathBuf, time::Instant};

#[tokio::test(flavor = "multi_thread")]
async fn all_members_answer_in_the_order_of_their_names() {
    let members = vec![
        member("n2", sentinel()),
        Member {
            name: "here".into(),
            argv: None,
        },
        member(
            "n1",
            after(
                "printf '\\033[1mWelcome to n1\\033[0m\\r\\n'; echo '{}'; echo '{\"id\":null}'; printf 'half a line'; echo noise >&2",
            ),
        ),
        // garbage at any time, and a line that is only half one
        member(
            "n3",
            after(
                "(for i in 1 2 3 4 5 6; do echo \"garbage $i {\"; echo more >&2; sleep 0.05; done) &",
            ),
        ),
    ];
    let crew = Crew::start(members, patient())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(crew.names(), ["n2", "here", "n1", "n3"]);
    for _ in 0..10 {
        let paths = [PathBuf::from("/tmp/not/there"), PathBuf::from("/proc")];
        let free = whole(crew.free(&["n3", "n1", "here", "n2"], &paths, LIMIT).await).unwrap();
        assert_eq!(
            free.iter()
                .map(|(host, _)| host.as_str())
                .collect::<Vec<_>>(),
            ["n3", "n1", "here", "n2"]
        );
        for (_, spaces) in &free {
            assert_eq!(
                (spaces.len(), spaces[1].place.file_system.as_str()),
                (2, "proc")
            );
            assert!(spaces[0].free_bytes > 0);
        }
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    let skew = crew.skew("n1", LIMIT).await.unwrap();
    assert!(
        skew.offset_s.abs() <= skew.uncertainty_s + 0.01,
        "{skew:?}: it is the same clock"
    );
    assert!(
        matches!(crew.skew("n9", LIMIT).await, Err(CrewError::Unknown { host }) if host == "n9")
    );
    assert!(crew.lost().borrow().is_empty());
    crew.close().await;
    assert!(crew.skew("n1", LIMIT).await.unwrap_err().is_lost());
    assert!(crew.skew("here", LIMIT).await.unwrap_err().is_lost());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unusable_host_is_named_with_its_message_and_hint() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("sentinel.pid");
    let output = |text: &str| vec!["sh".to_owned(), "-c".into(), text.into()];
    // two of them end only when both are there: they are tried side by side
    let both = |own: &str, other: &str| {
        let [own, other] = [own, other].map(|file| dir.path().join(file).display().to_string());
        format!("echo >{own}; until [ -e {other} ]; do sleep 0.02; done")
    };
    let denied = format!(
        "{}; echo 'u@denied: Permission denied (publickey).' >&2; exit 255",
        both("1", "2")
    );
    let members = vec![
        member("good", after(&format!("echo $$ > {}", at.display()))),
        member("denied", output(&denied)),
        member("hangs", output("echo 'Last login: today'; sleep 30")),
        member(
            "absent",
            vec!["/nowhere/cvc-node".into(), "sentinel".into()],
        ),
        member("nothing", vec![]),
        member(
            "other",
            output(
                "echo '{\"hello\":{\"protocol\":99,\"version\":\"9.0\",\"host\":\"h\",\"pid\":1}}'; sleep 30",
            ),
        ),
        member(
            "127",
            output(&format!(
                "{}; exec /nowhere/cvc-node sentinel",
                both("2", "1")
            )),
        ),
    ];
    let error = Crew::start(
        members,
        CrewSettings {
            start_limit_s: 5.0,
            ..patient()
        },
    )
    .await
    .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.host(), "denied");
    for part in [
        "6 nodes cannot be used",
        "denied: its sentinel ended before its first message (exit status: 255)",
        "Permission denied (publickey)",
        "accept a key of this user",
        "hangs: its sentinel did not answer within 5 s",
        "Last login: today",
        "absent: cannot start /nowhere/cvc-node: No such file or directory",
        "nothing: internal error (please report): no command",
        "other: cvc-node there has version 9.0",
        "127: its sentinel ended before its first message (exit status: 127)",
        "cvc install",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains("good"), "{text}");
    let pid: i32 = std::fs::read_to_string(at).unwrap().trim().parse().unwrap();
    assert!(!is_alive(pid), "the sentinel that did start is ended");
}

/// It says hello and beats as it should, and does not mind that its line closes: as an ssh whose other end is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_does_not_go_is_cut_off() {
    let hello = serde_json::json!({ "hello": cvc_probe::sentinel::Hello::of_this_process() });
    let script = format!("echo '{hello}'; while :; do echo '{{\"beat\":1}}'; sleep 0.1; done");
    let stubborn = member("n1", vec!["sh".into(), "-c".into(), script]);
    let settings = CrewSettings {
        close_limit_s: 0.4,
        ..patient()
    };
    let crew = Crew::start(vec![stubborn, member("n2", sentinel())], settings)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let asked = crew
        .ask(
            "n1",
            cvc_probe::sentinel::SentinelRequest::Clock,
            std::time::Duration::from_millis(200),
        )
        .await;
    assert!(
        matches!(
            asked,
            Err(CrewError::Timeout {
                request: "clock",
                ..
            })
        ),
        "it answers nothing: {asked:?}"
    );
    let begin = Instant::now();
    crew.close().await;
    assert!(
        (0.4..patient().close_limit_s).contains(&begin.elapsed().as_secs_f64()),
        "{:?}",
        begin.elapsed()
    );
    assert!(crew.lost().borrow().is_empty(), "closed is not lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_members_are_one_crew() {
    let (crew, pids) = crew_of(64).await;
    let names = crew.names();
    let ranks = whole(crew.ranks(&names, "nobody", LIMIT).await).unwrap();
    assert!(ranks.len() == 64 && ranks.iter().all(|(_, ranks)| ranks.is_empty()));
    assert!(crew.lost().borrow().is_empty());
    assert_eq!(pids[63], pid(&crew, "n64"));
    crew.close().await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[tokio::test]
async fn a_crew_of_this_process_is_closed_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = super::process::Run::start("local", dir.path(), "sleep 30");
    let crew = Crew::here("localhost");
    assert_eq!(crew.names(), ["localhost"]);
    assert!(!crew.hostname("localhost").unwrap().is_empty());
    whole(
        crew.guard(&["localhost"], &run.marker, &[], &[], LIMIT)
            .await,
    )
    .unwrap();
    whole(crew.facts(&["localhost"], &[], LIMIT).await).unwrap();
    assert!(!run.has_ended());
    crew.close().await;
    assert!(run.has_ended());
}
