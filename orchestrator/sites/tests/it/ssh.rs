//! Tests of machines reached over ssh, with real sshd processes on nodes of a lab.

use crate::common::laptop;

use camino::Utf8Path;
use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::HostNotice;
use cvc_testkit::{Tool, require};
use laptop::{SOON, Site, argv, sh};
use proptest::{prelude::*, strategy::ValueTree};
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

#[test]
fn programs_run_with_their_limits_output_and_codes() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, heard) = site.host("n1");
    site.run(|| async {
        assert_eq!(sh(&host, "echo out; echo err >&2; exit 3").await.expect("runs"), "out\nerr\n3");
        assert_eq!(sh(&host, "kill -9 $$").await.expect("runs"), "signal");
        assert_eq!(sh(&host, "exit 127").await.expect("runs"), "127");
        assert_eq!(sh(&host, "exit 255").await.expect("runs"), "255");
        let missing = host.run(&argv(&["no-such-program"]), &BTreeMap::new(), Duration::from_secs(5)).await;
        assert!(matches!(&missing, Err(HostError::NoProgram { program, .. }) if program == "no-such-program"), "{missing:?}");
        // check that the command ends on the node, not only here
        let begin = Instant::now();
        let late = host.run(&argv(&["sleep", "4242"]), &BTreeMap::new(), Duration::from_secs(1)).await;
        assert!(matches!(late, Err(HostError::Timeout { .. })), "{late:?}");
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
        assert_eq!(site.lab.node("n1").processes("sleep 4242").len(), 0);
        let stubborn =
            host.run(&argv(&["sh", "-c", "trap '' TERM; sleep 4243 & wait; sleep 4243"]), &BTreeMap::new(), Duration::from_secs(1)).await;
        assert!(matches!(stubborn, Err(HostError::Timeout { .. })), "{stubborn:?}");
        let much = host.run(&argv(&["sh", "-c", "yes | head -c 5000000"]), &BTreeMap::new(), Duration::from_secs(20)).await.expect("runs");
        assert_eq!((much.code, much.stdout.len()), (Some(0), 1 << 20));
        let env = BTreeMap::from([("CVC_A".to_owned(), "a 'b'\n$c".to_owned())]);
        let shown = host.run(&argv(&["printenv", "CVC_A", "HOME"]), &env, Duration::from_secs(5)).await.expect("runs");
        assert_eq!(shown.stdout, "a 'b'\n$c\n/root\n");
        assert_eq!(host.home().await.expect("has a home"), "/root");
        assert_eq!(host.expand("~/x y").await.expect("expands"), "/root/x y");
        // more concurrent commands than sshd has sessions
        let many = (0..24).map(|i| {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, &format!("sleep 0.1; echo {i}")).await.expect("runs") })
        });
        for (i, output) in many.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(output.await.expect("no panic"), format!("{i}\n0"));
        }
    });
    assert!(
        matches!(
            heard.lock().expect("no panic").as_slice(),
            [HostNotice::Pinned {
                vouched_by: Some(_),
                ..
            }]
        ),
        "{heard:?}"
    );
    drop(host);
    cvc_testkit::wait_until("the end of the connection", SOON, || {
        site.lab.node("n1").processes("sshd: root@").is_empty()
    });
}

#[test]
fn what_is_no_posix_word_arrives_as_it_was() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let words = proptest::collection::vec(
        prop_oneof!["[^\0]{0,10}", "[ '\"\\\\\n;|&$`!*~#(){}<>=-]{0,8}"],
        1..5,
    );
    let cases: Vec<Vec<String>> = (0..24)
        .map(|_| words.new_tree(&mut runner).expect("words").current())
        .collect();
    site.run(|| async {
        let (host, _) = site.host("n1");
        for case in cases {
            let mut all = argv(&["printf", "%s\\0"]);
            all.extend(case.iter().cloned());
            let out = host
                .run(&all, &BTreeMap::new(), Duration::from_secs(10))
                .await
                .expect("runs");
            assert_eq!(
                out.stdout,
                case.iter().map(|w| format!("{w}\0")).collect::<String>(),
                "{case:?}"
            );
        }
    });
}

#[test]
fn files_arrive_whole_or_not_at_all() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, _) = site.host("n1");
    let big: Vec<u8> = (0..3_000_000u32).flat_map(|i| i.to_le_bytes()).collect();
    let local = site.dir.join("big");
    fs::write(&local, &big).expect("writes");
    site.run(|| async {
        let odd = Utf8Path::new("/tmp/odd 'näme'\n;$x");
        host.put(b"bytes \0 and \xff", odd).await.expect("puts");
        assert_eq!(host.get(odd).await.expect("gets"), b"bytes \0 and \xff");
        host.put(b"", Utf8Path::new("~/empty")).await.expect("puts");
        assert_eq!(host.get(Utf8Path::new("/root/empty")).await.expect("gets"), b"");
        let missing = host.get(Utf8Path::new("/nonexistent")).await;
        assert!(matches!(&missing, Err(HostError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound), "{missing:?}");
        host.upload(&local, "~/big", 0o700, &mut |_| ()).await.expect("uploads");
        assert_eq!(host.get(Utf8Path::new("~/big")).await.expect("gets"), big);
        assert_eq!(sh(&host, "stat -c %a ~/big ~/empty").await.expect("runs"), "700\n644\n0");
        site.lab.node("n1").fill("/scratch-local");
        let full = host.upload(&local, "/scratch-local/big", 0o644, &mut |_| ()).await;
        assert!(matches!(&full, Err(HostError::File { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull), "{full:?}");
        assert_eq!(sh(&host, "ls -A /scratch-local").await.expect("runs"), ".filled\n0");
    });
}

#[test]
fn directories_come_without_what_would_leave_theirs() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, _) = site.host("n1");
    let node = site.lab.node("n1");
    node.shell("mkdir -p '/root/d/sub dir'; cd /root/d; echo a >a; echo b >'sub dir/b\"'; ln -s ../a 'sub dir/l'; ln a h; mkfifo p; echo s >skip.o; mkdir skip; echo x >skip/x");
    node.shell("mkdir /root/evil; ln -s /etc /root/evil/etc; mkdir /root/evil2; ln -s ../.. /root/evil2/up");
    let to = site.dir.join("got");
    site.run(|| async {
        host.download("~/d", &to, &["*.o", "skip"], u64::MAX, &mut |_| ()).await.expect("downloads");
        host.download("/root/d", &to, &["*.o", "skip"], u64::MAX, &mut |_| ()).await.expect("downloads over it");
        for evil in ["/root/evil", "/root/evil2"] {
            let refused = host.download(evil, &site.dir.join("evil"), &[], u64::MAX, &mut |_| ()).await;
            assert!(matches!(&refused, Err(HostError::Refused { problem, .. }) if problem.contains("outside")), "{refused:?}");
        }
        let large = host.download("~/d", &site.dir.join("large"), &[], 4096, &mut |_| ()).await;
        assert!(matches!(&large, Err(HostError::Refused { problem, .. }) if problem.contains("more than")), "{large:?}");
        let missing = host.download("/nonexistent", &to, &[], u64::MAX, &mut |_| ()).await;
        assert!(matches!(&missing, Err(HostError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound), "{missing:?}");
    });
    let mut names: Vec<String> = fs::read_dir(&to)
        .expect("a directory")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "h", "sub dir"]);
    assert_eq!(
        fs::read_to_string(to.join("sub dir/b\"")).expect("a file"),
        "b\n"
    );
    assert_eq!(
        fs::read_link(to.join("sub dir/l")).expect("a link"),
        std::path::Path::new("../a")
    );
}

#[test]
fn a_channel_stays_open_and_tells_its_end() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, _) = site.host("n1");
    site.run(|| async {
        let mut pipe = host
            .pipe(&argv(&[
                "sh",
                "-c",
                "while read -r l; do echo \"got $l\"; done; echo bye >&2; exit 5",
            ]))
            .await
            .expect("starts");
        let mut line = String::new();
        for word in ["one", "two"] {
            line.clear();
            let stdin = pipe.stdin.as_mut().expect("open");
            stdin
                .write_all(format!("{word}\n").as_bytes())
                .await
                .expect("writes");
            pipe.stdout.read_line(&mut line).await.expect("reads");
            assert_eq!(line, format!("got {word}\n"));
        }
        assert_eq!(
            pipe.wait().await.expect("ends"),
            (Some(5), "bye\n".to_owned())
        );
        let missing = host
            .pipe(&argv(&["no-such-program"]))
            .await
            .expect("starts")
            .wait()
            .await;
        assert!(
            matches!(missing, Err(HostError::NoProgram { .. })),
            "{missing:?}"
        );
        // when the machine stops answering, the pipe ends by itself
        let mut silent = host.pipe(&argv(&["cat"])).await.expect("starts");
        site.lab.node("n1").poweroff();
        line.clear();
        let read = tokio::time::timeout(SOON, silent.stdout.read_line(&mut line)).await;
        assert!(read.is_ok(), "the line goes on");
        let lost = silent.wait().await;
        assert!(matches!(lost, Err(HostError::Lost { .. })), "{lost:?}");
    });
}

#[test]
fn files_of_a_head_that_speaks_portuguese_are_understood() {
    require!(Tool::Portuguese);
    let site = Site::of(
        cvc_testkit::Lab::builder()
            .nodes(1)
            .portuguese("n1")
            .build(),
    );
    // check that the node really prints this, otherwise the test shows nothing
    let said = site.lab.ssh("n1", "cat /nowhere");
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("Arquivo ou diretório inexistente"),
        "{said:?}"
    );
    let (host, _) = site.host("n1");
    let kind = |result: Result<(), HostError>| match result {
        Err(HostError::File { source, .. }) => Some(source.kind()),
        Ok(()) | Err(_) => None,
    };
    use std::io::ErrorKind::{NotADirectory, NotFound, StorageFull};
    site.run(|| async {
        assert_eq!(
            kind(
                host.get(Utf8Path::new("/nowhere/orders.json"))
                    .await
                    .map(|_| ())
            ),
            Some(NotFound)
        );
        assert_eq!(
            kind(host.get(Utf8Path::new("/etc/passwd/x")).await.map(|_| ())),
            Some(NotADirectory)
        );
        assert_eq!(
            kind(host.put(b"x", Utf8Path::new("/nowhere/x")).await),
            Some(NotFound)
        );
        let many = vec![0_u8; 2 << 20];
        sh(
            &host,
            "mkdir /mnt/small && mount -t tmpfs -o size=1m tmpfs /mnt/small",
        )
        .await
        .expect("runs");
        assert_eq!(
            kind(host.put(&many, Utf8Path::new("/mnt/small/x")).await),
            Some(StorageFull)
        );
        let to = site.dir.join("brought");
        let brought = host
            .download("/nowhere", &to, &[], 1 << 20, &mut |_| ())
            .await;
        assert_eq!(kind(brought), Some(NotFound));
        assert!(
            sh(&host, "cat /nowhere")
                .await
                .expect("runs")
                .contains("No such file or directory")
        );
    });
}
