//! Programs with a time limit and what they said.

use std::{
    env,
    ffi::OsString,
    io::Read,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Runs a program to its end; panics with what it said when it takes longer than the limit.
#[track_caller]
pub fn output_within(mut command: Command, limit: Duration) -> Output {
    let name = format!("{command:?}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read = |mut pipe: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    };
    let (stdout, stderr) = (read(Box::new(stdout)), read(Box::new(stderr)));
    let begin = Instant::now();
    let mut late = false;
    let status = loop {
        match child.try_wait().unwrap_or_else(|e| panic!("{name}: {e}")) {
            // what it left behind may hold its streams open
            Some(status) if stdout.is_finished() && stderr.is_finished() || begin.elapsed() > limit => break status,
            Some(_) => {}
            None if begin.elapsed() > limit && !late => {
                late = true;
                let _ = child.kill();
            }
            None => {}
        }
        thread::sleep(Duration::from_millis(2));
    };
    let text = |handle: thread::JoinHandle<Vec<u8>>| if handle.is_finished() { handle.join().unwrap_or_default() } else { Vec::new() };
    let output = Output { status, stdout: text(stdout), stderr: text(stderr) };
    assert!(!late, "{name} took longer than {limit:?}: {}", said(&output));
    output
}

/// Runs a program that must succeed; its standard output.
#[track_caller]
pub(super) fn finished(what: &str, command: Command, limit: Duration) -> String {
    let output = output_within(command, limit);
    assert!(output.status.success(), "{what}: {}: {}", output.status, said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both streams of a program.
fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// PATH, with where administrators' programs lie.
pub(super) fn path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
    path
}
