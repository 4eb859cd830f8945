//! Runs programs with a time limit and keeps their output.

use std::{
    io::Read,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::NamedTempFile;

/// Runs a program to completion; panics with its output if it takes longer than the limit.
#[track_caller]
pub fn output_within(mut command: Command, limit: Duration) -> Output {
    let name = format!("{command:?}");
    // files, not pipes: background processes of the program could hold a pipe open forever
    let (stdout, stderr) = (output_file(), output_file());
    let stream = |file: &NamedTempFile| {
        Stdio::from(
            file.as_file()
                .try_clone()
                .unwrap_or_else(|e| panic!("{name}: {e}")),
        )
    };
    command
        .stdin(Stdio::null())
        .stdout(stream(&stdout))
        .stderr(stream(&stderr));
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
    let begin = Instant::now();
    let mut is_late = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap_or_else(|e| panic!("{name}: {e}")) {
            break status;
        }
        if begin.elapsed() > limit && !is_late {
            is_late = true;
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    let output = Output {
        status,
        stdout: read(&stdout),
        stderr: read(&stderr),
    };
    assert!(
        !is_late,
        "{name} took longer than {limit:?}: {}",
        both_streams(&output)
    );
    output
}

/// Creates a file for an output stream. It is opened for appending, so that a program that opens `/dev/stderr` itself overwrites nothing.
fn output_file() -> NamedTempFile {
    tempfile::Builder::new()
        .prefix("cvc-output-")
        .append(true)
        .tempfile()
        .expect("cannot create a temporary file")
}

fn read(file: &NamedTempFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.reopen()
        .and_then(|mut f| f.read_to_end(&mut bytes))
        .unwrap_or_else(|e| panic!("{}: {e}", file.path().display()));
    bytes
}

/// Runs a program that must succeed, and returns its standard output.
#[track_caller]
pub(super) fn run_checked(what: &str, command: Command, limit: Duration) -> String {
    let output = output_within(command, limit);
    assert!(
        output.status.success(),
        "{what}: {}: {}",
        output.status,
        both_streams(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn both_streams(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
