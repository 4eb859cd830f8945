//! Programs with a time limit and what they said.

use std::{
    io::Read,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Runs a program to its end; panics with what it said when it takes longer than the limit.
#[track_caller]
pub fn output_within(mut command: Command, limit: Duration) -> Output {
    let name = format!("{command:?}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (stdout, stderr) = (StreamReader::of(stdout), StreamReader::of(stderr));
    let begin = Instant::now();
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap_or_else(|e| panic!("{name}: {e}")) {
            break status;
        }
        if begin.elapsed() > limit && !late {
            late = true;
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    // what it left running may hold its streams open for ever
    let end = Instant::now();
    while !(stdout.thread.is_finished() && stderr.thread.is_finished()) && end.elapsed() < Duration::from_millis(300) {
        thread::sleep(Duration::from_millis(1));
    }
    let output = Output { status, stdout: stdout.so_far(), stderr: stderr.so_far() };
    assert!(!late, "{name} took longer than {limit:?}: {}", said(&output));
    output
}

/// Reads a stream while its program runs.
struct StreamReader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: thread::JoinHandle<()>,
}

impl StreamReader {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                into.lock().expect("no panic").extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, thread }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().expect("no panic").clone()
    }
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
