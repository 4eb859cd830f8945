//! Sentinels and agents as processes: this test program itself, started again.

use cvc_engine::crew::{Crew, Member, Settings};
use cvc_testkit::process::signal;
use nix::sys::signal::Signal;
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Says which process the program is to be.
pub const ROLE: &str = "CVC_TEST_CREW_ROLE";

/// Enough for anything that is not meant to fail, also on a machine with other work.
pub const LIMIT: Duration = Duration::from_secs(20);

/// What starts a sentinel: the test harness prints some lines before it, as login shells do.
pub fn sentinel() -> Vec<String> {
    role("sentinel", "process::as_a_sentinel")
}

fn role(role: &str, test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    ["env".to_owned(), format!("{ROLE}={role}"), program, "--exact".into(), test.into(), "--nocapture".into()].into()
}

/// A sentinel in a shell, with commands before it.
pub fn after(commands: &str) -> Vec<String> {
    let mut argv = vec!["sh".to_owned(), "-c".into(), format!("{commands}\nexec \"$@\""), "sh".into()];
    argv.extend(sentinel());
    argv
}

pub fn member(name: &str, argv: Vec<String>) -> Member {
    Member { name: name.to_owned(), argv: Some(argv) }
}

/// Beats ten times a second, lost after 1.5 s.
pub fn quick() -> Settings {
    Settings { beat_s: 0.1, lost_after_s: 1.5, start_limit_s: 20.0, close_limit_s: 20.0 }
}

/// A crew of n1, n2, … and the processes of their sentinels.
pub async fn crew_of(count: usize) -> (Crew, Vec<i32>) {
    let members = (1..=count).map(|i| member(&format!("n{i}"), sentinel())).collect();
    let crew = Crew::start(members, quick()).await.unwrap_or_else(|e| panic!("{e}"));
    let pids = crew.names().iter().map(|name| pid(&crew, name)).collect();
    (crew, pids)
}

pub fn pid(crew: &Crew, name: &str) -> i32 {
    i32::try_from(crew.hello(name).unwrap().pid).unwrap()
}

pub fn is_alive(pid: i32) -> bool {
    cvc_probe::proc::ProcessId::of(u32::try_from(pid).unwrap()).is_some()
}

/// A run's process that does nothing for a while; ended when this is dropped.
pub struct Run {
    pub child: Child,
    pub marker: String,
}

impl Run {
    /// `script` is run by a shell.
    pub fn start(marker: &str, cwd: &Path, script: &str) -> Self {
        let marker = format!("{marker}@{}", cwd.display());
        let child = Command::new("sh").args(["-c", script]).env("CVC_RUN", &marker).current_dir(cwd).stdin(Stdio::null()).spawn().unwrap();
        Self { child, marker }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent in a process of its own, with a crew of one sentinel that guards a run.
pub struct Agent(pub Child);

impl Agent {
    /// Ready when it has written the sentinel's process number into `dir/ready`.
    pub fn start(dir: &Path, marker: &str) -> (Self, i32) {
        let argv = role("agent", "process::as_an_agent");
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .env("CVC_TEST_CREW_DIR", dir)
            .env("CVC_TEST_CREW_MARKER", marker)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ready = dir.join("ready");
        cvc_testkit::wait_until("the agent", LIMIT, || ready.exists());
        (Self(child), std::fs::read_to_string(ready).unwrap().parse().unwrap())
    }

    pub fn signal(&self, what: Signal) {
        signal(i32::try_from(self.0.id()).unwrap(), what);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn is_role(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|r| r == role)
}

/// No test by itself: the process of a sentinel, when another test starts it as one.
#[test]
fn as_a_sentinel() {
    if is_role("sentinel") {
        cvc_probe::sentinel::main(1.0).unwrap();
        std::process::exit(0);
    }
}

/// No test by itself: the process of an agent.
#[test]
fn as_an_agent() {
    if !is_role("agent") {
        return;
    }
    let dir = std::path::PathBuf::from(std::env::var("CVC_TEST_CREW_DIR").unwrap());
    let marker = std::env::var("CVC_TEST_CREW_MARKER").unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (crew, pids) = crew_of(1).await;
        cvc_engine::crew::whole(crew.guard(&["n1"], &marker, std::slice::from_ref(&dir), &[], LIMIT).await).unwrap();
        cvc_probe::shepherd::write_whole(&dir.join("ready"), pids[0].to_string().as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}
