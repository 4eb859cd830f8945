//! Sentinels and agents as processes of a helper program.

use super::times::QUICK;
use cvc_engine::crew::{Crew, CrewSettings, Member};
use cvc_testkit::process::signal;
use nix::sys::signal::Signal;
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The program that is a sentinel, an agent, or an agent led by a test.
pub const HELPER: &str = env!("CARGO_BIN_EXE_crew-helper");

/// Enough for anything that is not meant to fail, also on a machine with other work.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What starts a sentinel.
pub fn sentinel() -> Vec<String> {
    vec![HELPER.to_owned(), "sentinel".into()]
}

/// A sentinel in a shell, with commands before it.
pub fn after(commands: &str) -> Vec<String> {
    let mut argv = vec![
        "sh".to_owned(),
        "-c".into(),
        format!("{commands}\nexec \"$@\""),
        "sh".into(),
    ];
    argv.extend(sentinel());
    argv
}

pub fn member(name: &str, argv: Vec<String>) -> Member {
    Member {
        name: name.to_owned(),
        argv: Some(argv),
    }
}

/// Times of a crew that loses no node by silence, however busy the machine is.
pub fn patient() -> CrewSettings {
    CrewSettings {
        lost_after_s: 60.0,
        ..QUICK
    }
}

/// A crew of n1, n2, … that loses no node by silence, and the processes of their sentinels.
pub async fn crew_of(count: usize) -> (Crew, Vec<i32>) {
    crew_with(count, patient()).await
}

/// The same with times of its own.
pub async fn crew_with(count: usize, settings: CrewSettings) -> (Crew, Vec<i32>) {
    let members = (1..=count)
        .map(|i| member(&format!("n{i}"), sentinel()))
        .collect();
    let crew = Crew::start(members, settings)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let pids = crew.names().iter().map(|name| pid(&crew, name)).collect();
    (crew, pids)
}

pub fn pid(crew: &Crew, name: &str) -> i32 {
    i32::try_from(crew.hello(name).unwrap().pid).unwrap()
}

pub fn is_alive(pid: i32) -> bool {
    cvc_os::proc::ProcessId::of(u32::try_from(pid).unwrap()).is_some()
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
        let child = Command::new("sh")
            .args(["-c", script])
            .env("CVC_RUN", &marker)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
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
        let mut helper = Command::new(HELPER);
        let child = helper
            .arg("agent")
            .arg(dir)
            .arg(marker)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ready = dir.join("ready");
        cvc_testkit::wait_until("the agent", LIMIT, || ready.exists());
        (
            Self(child),
            std::fs::read_to_string(ready).unwrap().parse().unwrap(),
        )
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
