//! The log of a session: cvc's actions, and each command that it ran, with its duration and outcome.
//!
//! The log goes to a file and, if requested, to the terminal. It contains no secrets: each line is redacted when it is written, and events of other
//! libraries, such as a cloud's SDK, are omitted.

use crate::environment::may_hold_secret;
use crate::visible::visible;
use parking_lot::{Mutex, MutexGuard};
use regex::{Captures, Regex};
use std::{
    borrow::Cow,
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::LazyLock,
    time::Duration,
};
pub use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, filter::Targets, fmt::layer, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Maximum size of the log lines that are held in memory before [`to_file`] is called, bytes.
const MAX_WAITING: usize = 1 << 20;
/// Maximum length of a command line in an event, characters.
const MAX_COMMAND: usize = 600;
/// Maximum length of a command's output in an event, characters; the end of the output is kept.
const MAX_OUTPUT: usize = 1000;
/// Replacement for secrets.
const REDACTED: &str = "[redacted]";

/// Destination of the log lines for the file.
enum Sink {
    /// [`to_file`] has not been called yet. Holds the lines until then.
    Waiting(Vec<u8>),
    File(File),
}

static SINK: Mutex<Sink> = Mutex::new(Sink::Waiting(Vec::new()));

fn sink() -> MutexGuard<'static, Sink> {
    SINK.lock()
}

/// Writes lines to the file, or keeps them until the file is known.
struct ToFile;

impl Write for ToFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let redacted = redact(&String::from_utf8_lossy(line)).into_owned();
        match &mut *sink() {
            // a full disk is reported by the journal
            Sink::File(file) => _ = file.write_all(redacted.as_bytes()),
            Sink::Waiting(kept) if kept.len() + redacted.len() <= MAX_WAITING => {
                kept.extend_from_slice(redacted.as_bytes())
            }
            Sink::Waiting(_) => {}
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines to standard error.
struct ToTerminal;

impl Write for ToTerminal {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // the loss of the terminal must not stop cvc: it may have to give machines back
        let _ = io::stderr().write_all(visible(&redact(&String::from_utf8_lossy(line))).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log of this process: up to level `terminal` on standard error, and everything for the file that is later passed to [`to_file`]. Only
/// the first call has an effect.
pub fn start(terminal: LevelFilter) {
    let own = |level: LevelFilter| Targets::new().with_target("cvc", level);
    let file = layer()
        .with_ansi(false)
        .with_writer(|| ToFile)
        .with_filter(own(LevelFilter::DEBUG));
    let shown = layer()
        .with_ansi(false)
        .with_writer(|| ToTerminal)
        .with_filter(own(terminal));
    // a second start in one process, as in tests, has no effect
    let _ = tracing_subscriber::registry()
        .with(file)
        .with(shown)
        .try_init();
}

/// Appends the log to this file from now on, beginning with earlier lines. Creates the directory.
///
/// # Errors
/// The file cannot be opened or written.
pub fn to_file(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut sink = sink();
    if let Sink::Waiting(kept) = &*sink {
        file.write_all(kept)?;
    }
    *sink = Sink::File(file);
    Ok(())
}

/// How a command ended.
#[derive(Clone, Copy)]
pub enum Ended<'a> {
    /// The command exited with a code (`None` after a signal); also its standard error.
    Exit(Option<i32>, &'a str),
    /// The command could not be started, exceeded its time limit, or lost its connection.
    Failed(&'a dyn fmt::Display),
}

/// The last command that succeeded, and how often it has succeeded again since then. Repeats are only counted, because they would fill the log.
static REPEATED: Mutex<(String, u64)> = Mutex::new((String::new(), 0));

/// Returns whether this command succeeded and is the same as the last one that succeeded. For any other command, logs how often the last one was
/// repeated.
fn is_repeated(on: &str, command: &str, succeeded: bool) -> bool {
    let mut last = REPEATED.lock();
    let this = format!("{on}: {command}");
    if succeeded && last.0 == this {
        last.1 += 1;
        return true;
    }
    let (before, times) = std::mem::replace(
        &mut *last,
        (if succeeded { this } else { String::new() }, 0),
    );
    if times > 0 {
        tracing::debug!(command = before, times, "command repeated");
    }
    false
}

/// Logs a command that was sent to another program or machine, with its duration and outcome: failures at level INFO, others at DEBUG. A command that
/// succeeds several times in a row is logged once, followed by the number of repeats.
pub fn command_event(on: &str, argv: &[impl AsRef<str>], took: Duration, ended: Ended<'_>) {
    let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    let line = redact(&words.join(" ")).replace('\n', " ");
    let command = head(&line, MAX_COMMAND);
    if is_repeated(on, &command, matches!(ended, Ended::Exit(Some(0), _))) {
        return;
    }
    let seconds = (took.as_secs_f64() * 1000.0).round() / 1000.0;
    match ended {
        Ended::Exit(Some(0), _) => tracing::debug!(on, command, seconds, exit = 0, "command"),
        Ended::Exit(Some(code), output) => tracing::info!(
            on,
            command,
            seconds,
            exit = code,
            output = tail(output),
            "command failed"
        ),
        Ended::Exit(None, output) => tracing::info!(
            on,
            command,
            seconds,
            output = tail(output),
            "command ended by a signal"
        ),
        Ended::Failed(error) => tracing::info!(
            on,
            command,
            seconds,
            error = tail(&error.to_string()),
            "command failed"
        ),
    }
}

fn head(text: &str, most: usize) -> String {
    if text.chars().count() > most {
        text.chars().take(most).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

fn tail(text: &str) -> String {
    let text = redact(text.trim()).into_owned();
    let count = text.chars().count();
    if count > MAX_OUTPUT {
        ['…']
            .into_iter()
            .chain(text.chars().skip(count - MAX_OUTPUT))
            .collect()
    } else {
        text
    }
}

/// Values of this process's variables that may be secrets. Very short values are excluded, because replacing them would make lines unreadable.
static VALUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let long = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let public = [
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
    ];
    long.filter(|(name, value)| {
        may_hold_secret(name) && !public.contains(&name.as_str()) && value.len() >= 8
    })
    .map(|(_, value)| value)
    .collect()
});

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // NAME=value, NAME: value, "name":"value"; a quoted value is replaced as a whole, even if it is quoted for a shell within a shell
        r#"(?i)\b(AWS_[A-Z0-9_]+|[A-Z0-9_-]*(?:secret|token|password|passwd|access_?key|api_?key)[A-Z0-9_]*)(\\*["']?\s*[=:]\s*)(?:'\\''.*?'\\''|\\*"[^"]*"|'[^']*'|[^\s"'\\;,&]+)"#,
        // Authorization: Bearer value
        r#"(?i)\b((?:proxy-)?authorization)(\\*["']?\s*[=:]\s*)(?:\\*"[^"]*"|'[^']*'|[^\n"'\\]+)"#,
        // https://user:password@host
        r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@"']*)(:)[^\s/@"']+(@)"#,
        // --token value
        r#"(?i)(--[a-z0-9-]*(?:secret|token|password|passwd|access-?key|api-?key))(\s+)[^\s"'\\;,&]+"#,
        // AWS key identifiers
        r"\b()()(?:AKIA|ASIA)[A-Z0-9]{12,}\b",
        // private keys
        r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----)().*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Returns a text without secrets: values of variables and options with secret names, values of this process's secret variables, AWS keys, and
/// private keys are replaced.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for value in VALUES
        .iter()
        .filter(|value| text.contains(value.as_str()))
        .collect::<Vec<_>>()
    {
        text = Cow::Owned(text.replace(value.as_str(), REDACTED));
    }
    for pattern in PATTERNS.iter() {
        if pattern.is_match(&text) {
            text = Cow::Owned(
                pattern
                    .replace_all(&text, |found: &Captures<'_>| {
                        format!(
                            "{}{}{REDACTED}{}",
                            &found[1],
                            &found[2],
                            found.get(3).map_or("", |end| end.as_str())
                        )
                    })
                    .into_owned(),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MAX_COMMAND, PATTERNS, REDACTED, head, is_repeated, redact};

    #[test]
    fn secrets_are_left_out_whatever_way_they_are_written() {
        assert_eq!(PATTERNS.len(), 6);
        let secret = "s3cr3tvalue";
        for text in [
            format!("env AWS_SECRET_ACCESS_KEY={secret} ssh n1"),
            format!("AWS_SESSION_TOKEN=\\\"{secret}\\\" true"),
            format!("--password {secret} --user me"),
            format!("curl -H 'X-Auth-Token: {secret}'"),
            format!("{{\"db_password\":\"{secret}\",\"n\":1}}"),
            format!("GITHUB_TOKEN='{secret}'"),
            format!("aws_secret_access_key = {secret}"),
            format!("TOKEN='\\''a/b;{secret}'\\'' true"),
            format!("PASSWORD='two {secret}' true"),
            format!("git clone https://user:{secret}@host/x.git"),
            format!("Authorization: Bearer {secret}"),
            format!("{{\"authorization\":\"Basic {secret}\"}}"),
        ] {
            let shown = redact(&text);
            assert!(
                !shown.contains(secret) && shown.contains(REDACTED),
                "{text} -> {shown}"
            );
        }
        assert_eq!(
            redact("key AKIAIOSFODNN7EXAMPLE of it"),
            format!("key {REDACTED} of it")
        );
        let key =
            "-----BEGIN OPENSSH PRIVATE KEY-----\nabcdef\n-----END OPENSSH PRIVATE KEY-----\nafter";
        assert!(!redact(key).contains("abcdef") && redact(key).ends_with("after"));
    }

    #[test]
    fn only_successes_in_a_row_are_repetitions() {
        let polls = [
            ("n1", "poll", true, false),
            ("n1", "poll", true, true),
            ("n2", "poll", true, false),
            ("n2", "poll", false, false),
        ];
        for (on, command, succeeded, repeated) in polls {
            assert_eq!(
                is_repeated(on, command, succeeded),
                repeated,
                "{on} {command} {succeeded}"
            );
        }
        assert!(
            !is_repeated("n2", "poll", true),
            "after a failure it is logged again"
        );
    }

    #[test]
    fn commands_stay_as_they_are() {
        for text in [
            "ssh -o BatchMode=yes n1 'squeue --json --name=cvc-1'",
            "ansible-playbook -i hosts.ini site.yml",
            "mpiexec -n 4 ./bt.A.4",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long = "é".repeat(MAX_COMMAND + 5);
        assert_eq!(head(&long, MAX_COMMAND).chars().count(), MAX_COMMAND + 1);
        assert_eq!(head("short", MAX_COMMAND), "short");
    }
}
