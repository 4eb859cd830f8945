//! Compares cvc's listing of images with DMTCP's own, for images that the test makes with DMTCP, if it is installed.

use cvc_image::{is_complete, read_dir, read_image, write_listing};
use cvc_probe::sentinel::{SentinelAnswer, SentinelRequest, answer};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A program with the regions that matter: static data, a grown heap, threads, a shared mapping, partly written memory.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static double field[1 << 20];
static void *wait_for_ever(void *unused) { for (;;) pause(); return unused; }
int main(void) {
    for (size_t i = 0; i < 1 << 19; i++) field[i] = (double)i;
    char *patches = malloc(64 << 20);
    for (size_t i = 0; i < 64; i += 2) memset(patches + (i << 20), (int)i + 1, 12345);
    char *shared = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 1 << 19);
    pthread_t thread;
    pthread_create(&thread, 0, wait_for_ever, 0);
    puts("computing");
    fflush(stdout);
    for (volatile unsigned long n = 0;; n++) usleep(1000);
}
"#;

/// Time limit, seconds, with which every process of the test is started: programs under DMTCP ignore SIGTERM.
const LIMIT: &str = "120";

/// A coordinator, and the processes that it controls.
pub(crate) struct Session {
    bin: PathBuf,
    pub(crate) dir: tempfile::TempDir,
    port: String,
    launched: Option<Child>,
}

impl Session {
    pub(crate) fn start(bin: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port_file = dir.path().join("port");
        let log = dir.path().join("coordinator.log");
        let status = Command::new("timeout")
            .args(["-s", "KILL", LIMIT])
            .arg(bin.join("dmtcp_coordinator"))
            .args([
                "-q",
                "-p",
                "0",
                "--exit-on-last",
                "--daemon",
                "--stale-timeout",
                LIMIT,
                "--port-file",
            ])
            .arg(&port_file)
            .arg("--ckptdir")
            .arg(dir.path())
            .arg("--coord-logfile")
            .arg(&log)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(
            status.success(),
            "the coordinator did not start: {}",
            fs::read_to_string(&log).unwrap_or_default()
        );
        let mut session = Self {
            bin,
            dir,
            port: String::new(),
            launched: None,
        };
        session.wait("a port file", |s| {
            fs::read_to_string(s.dir.path().join("port"))
                .is_ok_and(|port| port.trim().parse::<u16>().is_ok())
        });
        session.port = fs::read_to_string(&port_file).unwrap().trim().to_owned();
        session
    }

    pub(crate) fn wait(&self, what: &str, ready: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !ready(self) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no {what} within a minute"
            );
            sleep(Duration::from_millis(50));
        }
    }

    fn launch(&mut self, compression: &str, program: &[&Path]) {
        self.launch_peers(compression, program, 1, &[]);
    }

    /// Launches a program with this number of processes, launchers included.
    pub(crate) fn launch_peers(
        &mut self,
        compression: &str,
        program: &[&Path],
        peers: u32,
        env: &[(&str, &str)],
    ) {
        let out = fs::File::create(self.dir.path().join("stdout")).unwrap();
        let child = Command::new("timeout")
            .args(["-s", "KILL", LIMIT])
            .arg(self.bin.join("dmtcp_launch"))
            .args([
                "-q",
                "-j",
                "-h",
                "127.0.0.1",
                "-p",
                &self.port,
                compression,
                "--ckptdir",
            ])
            .arg(self.dir.path())
            .arg("--tmpdir")
            .arg(self.dir.path())
            .args(program)
            .envs(env.iter().copied())
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.launched = Some(child);
        self.wait("running peer", |s| {
            let status = String::from_utf8_lossy(&s.command("-s").stdout).into_owned();
            status.contains(&format!("NUM_PEERS={peers}\n")) && status.contains("RUNNING=yes")
        });
    }

    pub(crate) fn command(&self, what: &str) -> Output {
        Command::new("timeout")
            .args(["-s", "KILL", "30"])
            .arg(self.bin.join("dmtcp_command"))
            .args(["-h", "127.0.0.1", "-p", &self.port, what])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub(crate) fn images(&self) -> Vec<PathBuf> {
        let is_image = |path: &PathBuf| {
            path.extension()
                .is_some_and(|extension| extension == "dmtcp")
        };
        fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(is_image)
            .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.command("-k");
        let _ = self.command("-q");
        if let Some(mut child) = self.launched.take() {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(5) && matches!(child.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(50));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn bin_or_skip(test: &str) -> Option<PathBuf> {
    let bin = crate::common::dmtcp::bin();
    if bin.is_none() {
        cvc_testkit::tool::skipped(test, cvc_testkit::Tool::Dmtcp.name());
    }
    bin
}

/// Returns the compiled C program, or `sleep` without a compiler.
fn program(dir: &Path) -> Vec<PathBuf> {
    let (source, program) = (dir.join("patches.c"), dir.join("patches"));
    fs::write(&source, PROGRAM).unwrap();
    match Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg("-pthread")
        .status()
    {
        Ok(status) if status.success() => vec![program],
        _ => vec!["sleep".into(), "600".into()],
    }
}

fn check(test: &str, compression: &str) {
    let Some(bin) = bin_or_skip(test) else { return };
    let mut session = Session::start(bin);
    let program = program(session.dir.path());
    session.launch(
        compression,
        &program.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
    );
    session.wait("output of the program", |s| {
        program.len() > 1 || fs::metadata(s.dir.path().join("stdout")).unwrap().len() > 0
    });
    session.command("-kc");
    // The program does not wait for its checkpoint: an image is complete when it can be parsed to its end.
    session.wait("complete image", |s| {
        s.images()
            .first()
            .is_some_and(|image| is_complete(image).unwrap_or(false))
    });
    let [path] = &session.images()[..] else {
        panic!("one image, not {:?}", session.images())
    };
    let image = read_image(path).unwrap();
    assert_eq!(image.gzip, compression == "--gzip");

    // DMTCP's own tool needs an uncompressed image.
    let plain = session.dir.path().join("plain");
    if image.gzip {
        let status = Command::new("gzip")
            .arg("-dc")
            .stdin(fs::File::open(path).unwrap())
            .stdout(fs::File::create(&plain).unwrap())
            .status();
        assert!(status.unwrap().success());
    } else {
        fs::copy(path, &plain).unwrap();
    }
    let output = Command::new("timeout")
        .args(["-s", "KILL", "30"])
        .arg(session.bin.join("mtcp_restart"))
        .arg("--simulate")
        .arg(&plain)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let theirs = output
        .stderr
        .splitn(2, |&byte| byte == b'\n')
        .nth(1)
        .unwrap_or_default();
    let mut ours = Vec::new();
    write_listing(&image, &mut ours).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&ours),
        String::from_utf8_lossy(theirs)
    );
    assert_eq!(
        fs::metadata(&plain).unwrap().len(),
        image.uncompressed_bytes
    );

    let dir = read_dir(session.dir.path()).unwrap();
    assert_eq!(
        (
            dir.totals.rank.images,
            dir.totals.launcher.images,
            dir.broken.len()
        ),
        (1, 0, 0)
    );
    assert_eq!(
        dir.totals.stored_bytes,
        image.file_bytes + dir.totals.files_dirs.bytes
    );
    let expected_bss = if program.len() == 1 { 4 << 20 } else { 0 };
    assert!(image.zones.structural.stored.dtapp > expected_bss);
}

#[test]
fn a_plain_image_made_now_is_listed_as_dmtcp_lists_it() {
    check(
        "a_plain_image_made_now_is_listed_as_dmtcp_lists_it",
        "--no-gzip",
    );
}

#[test]
fn a_gzip_image_made_now_is_listed_as_dmtcp_lists_it() {
    check(
        "a_gzip_image_made_now_is_listed_as_dmtcp_lists_it",
        "--gzip",
    );
}

/// A restarted process lacks the environment of its run. It is found by the files that it has open in the run's directories.
#[test]
fn a_restarted_process_is_found_by_its_directory_and_ended_though_it_ignores_term() {
    let Some(bin) = bin_or_skip(
        "a_restarted_process_is_found_by_its_directory_and_ended_though_it_ignores_term",
    ) else {
        return;
    };
    let mut session = Session::start(bin);
    let program = program(session.dir.path());
    session.launch(
        "--no-gzip",
        &program.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
    );
    session.command("-kc");
    session.wait("complete image", |s| {
        s.images()
            .first()
            .is_some_and(|image| is_complete(image).unwrap_or(false))
    });
    let mut first = session.launched.take().unwrap();
    let begin = Instant::now();
    while first.try_wait().unwrap().is_none() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "it was killed after its checkpoint"
        );
        sleep(Duration::from_millis(20));
    }
    let (image, mut second) = (
        session.images().remove(0),
        Session::start(session.bin.clone()),
    );
    let restart = Command::new("timeout")
        .args(["-s", "KILL", LIMIT])
        .arg(second.bin.join("dmtcp_restart"))
        .args(["-q", "-h", "127.0.0.1", "-p", &second.port, "--tmpdir"])
        .arg(session.dir.path())
        .arg(&image)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    second.launched = Some(restart);
    second.wait("running peer", |s| {
        let status = String::from_utf8_lossy(&s.command("-s").stdout).into_owned();
        status.contains("NUM_PEERS=1") && status.contains("RUNNING=yes")
    });
    let end = |dir: &Path| {
        let request = SentinelRequest::End {
            marker: "no process carries this".into(),
            dirs: vec![dir.to_owned()],
            grace_s: 0.3,
        };
        match answer(&request) {
            Ok(SentinelAnswer::Ended(ended)) => ended,
            other => panic!("{other:?}"),
        }
    };
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(
        end(elsewhere.path()).ended.is_empty(),
        "it has nothing to do with another directory"
    );
    assert!(String::from_utf8_lossy(&second.command("-s").stdout).contains("NUM_PEERS=1"));
    let ended = end(session.dir.path());
    assert!(
        !ended.ended.is_empty() && ended.left.is_empty(),
        "{ended:?}"
    );
    let begin = Instant::now();
    while second
        .launched
        .as_mut()
        .unwrap()
        .try_wait()
        .unwrap()
        .is_none()
    {
        assert!(begin.elapsed() < Duration::from_secs(60), "{ended:?}");
        sleep(Duration::from_millis(20));
    }
}
