//! Tests of the sentinel's process: its protocol, the processes that it ends, and the paths that it refuses to remove.

use cvc_os::proc::ProcessId;
use cvc_probe::sentinel::{
    EndedProcess, SentinelAnswer, SentinelMessage, SentinelRequest, answer, removable, serve,
};
use cvc_testkit::{Tool, require, wait_until};
use nix::sys::signal::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(60);

/// A sentinel's process.
struct Sentinel {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Sentinel {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(cvc_testkit::node_program())
            .arg("sentinel")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn say(&mut self, line: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn receive(&mut self) -> SentinelMessage {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Returns the next line that is not a heartbeat.
    fn answer(&mut self) -> SentinelMessage {
        loop {
            let output = self.receive();
            if output.beat.is_none() {
                return output;
            }
        }
    }

    fn ends(&mut self) {
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < LIMIT, "the sentinel goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes of a run, started by a shell in a directory.
struct Run {
    child: Child,
    marker: String,
}

impl Run {
    fn start(name: &str, cwd: &Path, script: &str) -> Self {
        let marker = format!("{name}@{}", cwd.display());
        Self {
            child: Self::unmarked(cwd, script)
                .env("CVC_RUN", &marker)
                .spawn()
                .unwrap(),
            marker,
        }
    }

    fn unmarked(cwd: &Path, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(cwd)
            .stdin(Stdio::null());
        command
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the process whose number a script has written into a file.
fn written(file: &Path) -> ProcessId {
    wait_until("a process", LIMIT, || {
        fs::read_to_string(file).is_ok_and(|t| t.ends_with('\n'))
    });
    ProcessId::of(fs::read_to_string(file).unwrap().trim().parse().unwrap()).unwrap()
}

fn end(marker: &str, dirs: &[&Path], grace_s: f64) -> cvc_probe::sentinel::EndedProcesses {
    let dirs = dirs.iter().map(|d| (*d).to_owned()).collect();
    match answer(&SentinelRequest::End {
        marker: marker.to_owned(),
        dirs,
        grace_s,
    }) {
        Ok(SentinelAnswer::Ended(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_beats_answers_and_says_what_it_does_not_understand() {
    let mut sentinel = Sentinel::start(&["--beat-s", "0.05"]);
    let first = sentinel.receive();
    assert_eq!(first.beat, Some(0));
    let second = sentinel.receive();
    assert!(second.beat == Some(1) && second.at_ns > first.at_ns);
    sentinel.say("{\"hello\":{\"beat_s\":0.1,\"silence_s\":null}}");
    let hello = sentinel.answer().hello.unwrap();
    assert_eq!(
        (hello.protocol, hello.pid),
        (cvc_probe::sentinel::PROTOCOL, sentinel.child.id())
    );
    sentinel.say("{\"id\":7,\"do\":\"clock\"}");
    let output = sentinel.answer();
    assert_eq!(output.id, Some(7));
    assert!(
        matches!(output.ok, Some(SentinelAnswer::Clock { at_ns }) if at_ns > 1_600_000_000_000_000_000)
    );
    for (line, id, complaint) in [
        (
            "{\"id\":8,\"do\":\"dance\"}",
            Some(8),
            "unknown variant `dance`",
        ),
        ("{\"id\":9,\"do\":\"read\"}", Some(9), "missing field"),
        (
            "{\"id\":10,\"do\":\"read\",\"path\":\"relative\",\"most_bytes\":1}",
            Some(10),
            "expected an absolute path",
        ),
        (
            "{\"id\":11,\"do\":\"read\",\"path\":\"/dev/zero\",\"most_bytes\":1}",
            Some(11),
            "expected a file",
        ),
        (
            "{\"id\":12,\"do\":\"images\",\"dir\":\"/nowhere/at/all\"}",
            Some(12),
            "/nowhere/at/all: No such file",
        ),
        (
            "{\"id\":13,\"do\":\"globs\",\"dir\":\"/tmp\",\"patterns\":[\"../*\"]}",
            Some(13),
            "without `..`",
        ),
        (
            "{\"id\":14,\"do\":\"end\",\"marker\":\"\",\"dirs\":[],\"grace_s\":0}",
            Some(14),
            "marker",
        ),
        (
            "{\"id\":15,\"do\":\"guard\",\"marker\":\"x\",\"dirs\":[\"/\"]}",
            Some(15),
            "expected the directory of a run",
        ),
        ("{\"do\":\"clock\"}", None, "it has no `id`"),
        ("{\"hello\":{}}", None, "not a hello"),
        ("rubbish \u{1b}[0m", None, "not a request"),
    ] {
        sentinel.say(line);
        let output = sentinel.answer();
        assert_eq!(output.id, id, "{line}");
        let error = output.error.unwrap();
        assert!(error.contains(complaint), "{line}: {error}");
    }
    sentinel.stdin = None;
    sentinel.ends();
}

#[test]
fn requests_that_were_piped_in_are_answered_before_it_goes() {
    let (mut read, write) = std::io::pipe().unwrap();
    let input = "{\"id\":1,\"do\":\"facts\"}\n\n{\"ping\":1}\n{\"id\":2,\"do\":\"clock\"}";
    serve(input.as_bytes(), write, 10.0).unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    let mut ids: Vec<_> = text
        .lines()
        .filter_map(|l| serde_json::from_str::<SentinelMessage>(l).unwrap().id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 64, ..Default::default() })]
    /// Whatever input it receives, the sentinel continues, and reports lines that it cannot parse by lines of valid JSON.
    #[test]
    fn no_input_confuses_it(lines in proptest::collection::vec("\\PC*|\\{\"(id|do|hello|ping)\":[^\n]{0,20}", 0..8)) {
        let (mut read, write) = std::io::pipe().unwrap();
        let input = lines.iter().flat_map(|l| l.as_bytes().iter().copied().filter(|b| *b != b'\n').chain([b'\n'])).chain(*b"{\"id\":77,\"do\":\"clock\"}\n");
        serve(std::io::Cursor::new(input.collect::<Vec<u8>>()), write, 10.0).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        let output: Vec<SentinelMessage> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        proptest::prop_assert!(output.iter().any(|s| s.id == Some(77) && s.ok.is_some()), "{text}");
    }
}

#[test]
fn the_end_of_its_line_and_signals_end_what_it_guards() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [
        None,
        Some(Signal::SIGTERM),
        Some(Signal::SIGHUP),
        Some(Signal::SIGINT),
    ] {
        let mut run = Run::start(
            "guarded",
            dir.path(),
            "trap '' TERM; sleep 30 & while :; do sleep 0.1; done",
        );
        let mut sentinel = Sentinel::start(&[]);
        let private = tempfile::tempdir().unwrap();
        let remove = vec![private.path().join("its own")];
        std::fs::create_dir(&remove[0]).unwrap();
        let guard = SentinelRequest::Guard {
            marker: run.marker.clone(),
            dirs: vec![dir.path().to_owned()],
            remove,
        };
        let mut line = serde_json::to_value(&guard).unwrap();
        line["id"] = 1.into();
        sentinel.say(&line.to_string());
        assert!(matches!(sentinel.answer().ok, Some(SentinelAnswer::Done)));
        match signal {
            None => sentinel.stdin = None,
            Some(signal) => cvc_os::proc::signal(sentinel.child.id(), signal),
        }
        sentinel.ends();
        assert!(
            run.has_ended() && !private.path().join("its own").exists(),
            "{signal:?}"
        );
    }
}

/// The sentinel's output is a pipe whose reader has closed, while its input stays open.
#[test]
fn it_exits_without_a_reader() {
    let (read, write) = std::io::pipe().unwrap();
    let mut child = Command::new(cvc_testkit::node_program())
        .args(["sentinel", "--beat-s", "0.05"])
        .stdin(Stdio::piped())
        .stdout(write)
        .spawn()
        .unwrap();
    drop(read);
    wait_until("its end", LIMIT, || child.try_wait().unwrap().is_some());
}

#[test]
fn a_whole_run_is_ended_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // three processes: one that left its session and its parent, one without the marker below a marked one, one that ignores TERM
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 30' & env -u CVC_RUN sh -c 'echo $$ > plain; exec sleep 30' & \
                  trap '' TERM; echo $$ > main; while :; do sleep 0.1; done";
    let mut run = Run::start("whole", dir.path(), script);
    let mut other = Run::start("other", dir.path(), "exec sleep 30");
    let all = [
        written(&at("daemon")),
        written(&at("plain")),
        written(&at("main")),
    ];
    let begin = Instant::now();
    let ended = end(&run.marker, &[], 0.4);
    assert!(
        begin.elapsed() >= Duration::from_millis(400),
        "the one that ignores TERM gets its grace"
    );
    assert!(all.iter().all(|p| !p.is_alive()) && run.has_ended());
    assert!(ended.left.is_empty());
    for process in all {
        assert!(
            ended.ended.iter().any(|p| p.pid == process.pid),
            "{ended:?}"
        );
    }
    assert!(ended.ended.contains(&EndedProcess {
        pid: run.child.id(),
        program: "sh".into()
    }));
    assert!(!other.has_ended());
    assert_eq!(
        end(&run.marker, &[], 5.0),
        cvc_probe::sentinel::EndedProcesses::default(),
        "nothing is left, and that needs no grace"
    );
}

/// A proxy on another node has no marker, because sshd started it and passes no environment on. Its ranks are marked.
#[test]
fn a_launchers_proxy_above_the_ranks_is_ended_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let marker = format!("proxied@{}", dir.path().display());
    let proxy = dir.path().join("hydra_pmi_proxy");
    symlink("/bin/sh", &proxy).unwrap();
    let script = "for i in 0 1; do env CVC_RUN=\"$MARK\" PMI_RANK=$((i + 4)) sh -c 'sleep 30 & wait' & done; echo $$ > proxy; trap '' TERM; while :; do sleep 0.1; done";
    // the shell above the proxy represents sshd's session, which ends by itself and must not be ended
    let mut session = Run::unmarked(
        dir.path(),
        &format!("{} -c \"$SCRIPT\" & wait; sleep 30", proxy.display()),
    )
    .env("SCRIPT", script)
    .env("MARK", &marker)
    .spawn()
    .unwrap();
    let proxy = written(&dir.path().join("proxy"));
    let ranks = || match answer(&SentinelRequest::Ranks {
        marker: marker.clone(),
    }) {
        Ok(SentinelAnswer::Ranks(ranks)) => ranks,
        other => panic!("{other:?}"),
    };
    wait_until("two ranks", LIMIT, || ranks().len() == 2);
    // each rank is listed once, although its child has the same rank in its environment
    wait_until("their children", LIMIT, || {
        ranks()
            .iter()
            .all(|r| cvc_os::proc::descendants(r.pid).len() == 1)
    });
    assert_eq!(
        ranks()
            .iter()
            .map(|r| (r.rank, r.program.as_str()))
            .collect::<Vec<_>>(),
        [(4, "sh"), (5, "sh")]
    );
    let ended = end(&marker, &[], 0.2);
    assert!(
        !proxy.is_alive() && ended.ended.iter().any(|p| p.program == "hydra_pmi_proxy"),
        "{ended:?}"
    );
    assert!(ranks().is_empty());
    assert!(
        session.try_wait().unwrap().is_none(),
        "what is above the proxy goes on"
    );
    session.kill().unwrap();
    session.wait().unwrap();
}

#[test]
fn shared_memory_of_ended_ranks_is_removed_and_that_of_others_is_not() {
    require!(Tool::Python);
    let dir = tempfile::tempdir().unwrap();
    let own = std::process::id();
    let segment = |who: &str| PathBuf::from(format!("/dev/shm/mpich_shm_cvc_{who}_{own}"));
    let script = |who: &str| {
        let python = "import mmap,sys,time; f=open(sys.argv[1],'w+b'); f.truncate(4096); m=mmap.mmap(f.fileno(),4096); print('x',file=open(sys.argv[2],'w')); time.sleep(30)";
        format!(
            "exec python3 -c \"{python}\" {} {who}",
            segment(who).display()
        )
    };
    let run = Run::start("segments", dir.path(), &script("ours"));
    let mut other = Run::start("neighbour", dir.path(), &script("theirs"));
    for who in ["ours", "theirs"] {
        wait_until("a segment", LIMIT, || {
            fs::read_to_string(dir.path().join(who)).is_ok_and(|t| t == "x\n")
        });
    }
    let ended = end(&run.marker, &[], 1.0);
    let (ours, theirs) = (segment("ours").exists(), segment("theirs").exists());
    other.child.kill().unwrap();
    fs::remove_file(segment("theirs")).unwrap();
    assert_eq!((ours, theirs), (false, true));
    assert_eq!(ended.removed, [segment("ours")]);
    assert!(other.child.wait().is_ok());
}

#[test]
fn what_must_not_be_removed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("/", at("root")).unwrap();
    let home = std::env::var("HOME").unwrap();
    for (path, why) in [
        ("/", "close to the root"),
        ("/tmp", "close to the root"),
        ("relative/path/to", "absolute"),
        ("", "absolute"),
        ("/tmp/a/../../etc", "`..`"),
        (home.as_str(), "not removed"),
        ("/dev/shm", "mount point"),
        (at("root/tmp").to_str().unwrap(), "close to the root"),
        (at("root/dev/shm").to_str().unwrap(), "mount point"),
    ] {
        let path = Path::new(path);
        let error = removable(path).unwrap_err();
        assert!(
            error.to_string().contains(why),
            "{}: {error}",
            path.display()
        );
    }
    // a link itself is removed, not its target
    let kept = at("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "x").unwrap();
    symlink(&kept, at("link")).unwrap();
    let remove =
        |dirs: Vec<PathBuf>, files: Vec<PathBuf>| answer(&SentinelRequest::Remove { dirs, files });
    assert!(remove(vec![at("link")], vec![]).is_ok());
    assert!(kept.join("file").exists() && !at("link").exists());
    // one path that must not be removed prevents the removal of all
    assert!(remove(vec![kept.clone(), PathBuf::from("/tmp")], vec![]).is_err());
    assert!(
        remove(vec![], vec![kept.clone()])
            .unwrap_err()
            .to_string()
            .contains("expected a file")
    );
    assert!(kept.exists());
    // files are checked like directories
    assert!(
        remove(vec![], vec![at("kept/../kept/file")])
            .unwrap_err()
            .to_string()
            .contains("`..`")
    );
    assert!(kept.join("file").exists());
    assert!(remove(vec![kept.clone(), at("never/was")], vec![at("nor/this")]).is_ok());
    assert!(!kept.exists());
}

#[test]
fn a_mount_below_saves_what_is_above() {
    require!(Tool::Tmpfs);
    let dir = tempfile::tempdir().unwrap();
    let point = dir.path().join("run/scratch");
    fs::create_dir_all(&point).unwrap();
    let mount = |args: &[&str]| {
        assert!(
            Command::new(args[0])
                .args(&args[1..])
                .arg(&point)
                .status()
                .unwrap()
                .success()
        )
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=64k", "cvc-test"]);
    fs::write(point.join("file"), "x").unwrap();
    let free = answer(&SentinelRequest::Free {
        paths: vec![point.join("not/yet")],
    });
    let refused = removable(&dir.path().join("run"));
    let inside = removable(&point.join("file"));
    let full = answer(&SentinelRequest::Make {
        remove: vec![],
        dirs: vec![(point.join("new"), 0o755)],
        files: vec![cvc_probe::sentinel::NewFile {
            path: point.join("new/large"),
            content: "x".repeat(100_000),
            mode: 0o644,
        }],
    });
    let left: Vec<_> = fs::read_dir(point.join("new")).unwrap().flatten().collect();
    mount(&["umount"]);
    let Ok(SentinelAnswer::Free(spaces)) = free else {
        panic!("{free:?}")
    };
    assert_eq!(
        (
            spaces[0].place.file_system.as_str(),
            spaces[0].place.source.as_str()
        ),
        ("tmpfs", "cvc-test")
    );
    assert!(
        spaces[0].total_bytes == 65536 && spaces[0].free_bytes <= 65536 - 4096,
        "{spaces:?}"
    );
    assert!(refused.unwrap_err().to_string().contains("mount point"));
    assert!(inside.is_ok());
    let error = full.unwrap_err().to_string();
    assert!(
        error.contains("new/large") && error.contains("No space left"),
        "{error}"
    );
    assert!(left.is_empty(), "{left:?}");
}
