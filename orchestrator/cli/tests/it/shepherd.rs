//! Tests of the shepherd, started as by a controller.

use cvc_probe::shepherd::{Exit, Job, order};
use cvc_testkit::{Tool, process, require, wait_until};
use nix::sys::signal::Signal;
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn job(dir: &Path, argv: &[&str]) -> Job {
    Job {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: dir.into(),
        private_dir: None,
        stdout: dir.join("stdout"),
        stderr: dir.join("stderr"),
        pid_file: dir.join("shepherd.json"),
        exit_file: dir.join("exit.json"),
        timeout_s: 60.0,
        max_output_bytes: 1 << 20,
        ends_with_controller: true,
    }
}

fn start(dir: &Path, job: &Job) -> Child {
    let file = dir.join("job.json");
    fs::write(&file, serde_json::to_vec(job).expect("json")).expect("writes");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cvc"))
        .arg("shepherd")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shepherd");
    child
        .stdin
        .as_mut()
        .expect("its line")
        .write_all(&order(&file).expect("a path"))
        .expect("writes");
    child
}

/// Returns how the job ended. The pipe to the shepherd stays open until then.
fn end(mut child: Child, job: &Job) -> Exit {
    let _line = child.stdin.take();
    assert!(child.wait().expect("ends").success());
    serde_json::from_slice(&fs::read(&job.exit_file).expect("an exit")).expect("json")
}

#[test]
fn a_process_that_forks_and_exits_again_and_again_does_not_outlive_the_run() {
    require!(Tool::Python);
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, fifo) = (temporary.path(), temporary.path().join("alive"));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    // a process that survives holds the pipe; it ends by itself after 20 s if the test fails
    let forker = "import os,sys,time\nalive=open('alive','w')\nend=time.monotonic()+20\nos.setsid() if os.fork()==0 else os._exit(0)\n\
                  while time.monotonic()<end:\n    if os.fork(): os._exit(0)\n";
    let job = job(dir, &["python3", "-c", forker]);
    let mut alive: File = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(&fifo)
        .expect("opens");
    let exit = end(start(dir, &job), &job);
    assert!(exit.code == Some(0) && exit.leftovers > 0, "{exit:?}");
    match alive.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0, "nobody writes"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            panic!("something of the run lives on")
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn while_its_line_is_open_it_takes_note_of_signals_and_goes_on() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, go) = (temporary.path(), temporary.path().join("go"));
    let job = job(
        dir,
        &["sh", "-c", "until [ -e go ]; do sleep 0.05; done; exit 5"],
    );
    let child = start(dir, &job);
    wait_until("its word", LIMIT, || job.pid_file.exists());
    let pid = i32::try_from(child.id()).expect("a pid");
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        process::signal(pid, signal);
    }
    fs::write(go, "").expect("writes");
    let exit = end(child, &job);
    assert!(
        exit.code == Some(5) && exit.ended_by.is_none() && exit.end_requested,
        "{exit:?}"
    );
}
