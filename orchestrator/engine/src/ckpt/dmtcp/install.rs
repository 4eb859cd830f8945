//! DMTCP: its installation, its command lines, and its coordinator's event log.

use crate::{
    ckpt::contract::Install,
    host::{Host, LocalHost},
    mpi::Missing,
    run::{RestartNumber, RunContext},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::DmtcpSettings;
use cvc_core::paths;
use cvc_core::point::Compression;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::Read, time::Duration};

/// C source of a library that works around faults of DMTCP between nodes. The library is compiled on the site ([`between_nodes_build`]), must have
/// the same path on all nodes of a run, and is passed to [`launch_words`].
pub(super) const BETWEEN_NODES: &str = include_str!("between_nodes.c");

/// Returns the command that compiles [`BETWEEN_NODES`] into `library`.
pub(super) fn between_nodes_build(source: &Utf8Path, library: &Utf8Path) -> Vec<String> {
    [
        "cc",
        "-std=gnu11",
        "-O2",
        "-shared",
        "-fPIC",
        "-o",
        library.as_str(),
        source.as_str(),
    ]
    .map(String::from)
    .into()
}

/// Environment variable that holds DMTCP's installation prefix on this machine.
pub(super) const ROOT: &str = "CVC_DMTCP_ROOT";

/// How to get DMTCP, which current distributions do not package.
const HINT: &str = "install it (Spack: spack install dmtcp; or from https://github.com/dmtcp/dmtcp) and put it on PATH, name its prefix in CVC_DMTCP_ROOT, or give the site `dmtcp = { prefix = … }`";

/// Finds DMTCP on this machine: at the site's prefix, at `CVC_DMTCP_ROOT`, or on PATH.
///
/// # Errors
/// DMTCP is not installed, or does not work.
pub(super) async fn find(settings: &DmtcpSettings) -> Result<Install, Missing> {
    let launch = find_launch(settings)?;
    let message = LocalHost
        .run(
            &[launch.to_string(), "--version".into()],
            &BTreeMap::new(),
            Duration::from_secs(20),
        )
        .await
        .map_err(|e| missing(format!("DMTCP does not work: {e}")))?;
    let text = format!("{}\n{}", message.stdout, message.stderr);
    let version = parse_version(&text)
        .ok_or_else(|| missing(format!("{launch} does not report its version")))?;
    Ok(Install {
        forks: forks(&launch),
        bin: launch.parent().map(Utf8Path::to_owned).unwrap_or_default(),
        version: Some(version),
    })
}

/// Finds DMTCP like [`find`] but does not start it, so its version stays unknown.
///
/// # Errors
/// DMTCP is not installed.
pub(super) fn find_files(settings: &DmtcpSettings) -> Result<Install, Missing> {
    let launch = find_launch(settings)?;
    Ok(Install {
        forks: forks(&launch),
        bin: launch.parent().map(Utf8Path::to_owned).unwrap_or_default(),
        version: None,
    })
}

/// The environment variable that makes each checkpointed process fork a copy of itself, which writes the image. `dmtcp_launch` sets the variable if,
/// and only if, it was built with `--enable-forked-checkpointing`. Processes of other builds obey the variable, too, but do not send the messages
/// that must follow such a checkpoint: the run fails.
pub(super) const FORKED: &str = "DMTCP_FORKED_CHECKPOINT";

/// Maximum size of a `dmtcp_launch` binary that is searched, bytes; the actual binary has about 4 MiB.
const MAX_LAUNCH_BYTES: u64 = 256 << 20;

/// Returns whether this `dmtcp_launch` makes forked copies of processes write the images: its binary then contains the name of the variable.
fn forks(launch: &Utf8Path) -> bool {
    let mut content = Vec::new();
    let read = std::fs::File::open(launch)
        .and_then(|file| file.take(MAX_LAUNCH_BYTES).read_to_end(&mut content));
    read.is_ok()
        && content
            .windows(FORKED.len())
            .any(|bytes| bytes == FORKED.as_bytes())
}

fn missing(what: String) -> Missing {
    Missing {
        what,
        hint: HINT.into(),
    }
}

/// Returns the path of `dmtcp_launch`.
fn find_launch(settings: &DmtcpSettings) -> Result<Utf8PathBuf, Missing> {
    match &settings.prefix {
        Some(prefix) => {
            let launch = paths::expand(prefix).join("bin/dmtcp_launch");
            paths::is_executable(&launch)
                .then_some(launch)
                .ok_or_else(|| Missing {
                    what: format!("DMTCP is not installed at {prefix}: no bin/dmtcp_launch there"),
                    hint: format!(
                        "install it there (from https://github.com/dmtcp/dmtcp, with --prefix={prefix}), or correct `dmtcp.prefix` of the site"
                    ),
                })
        }
        None => std::env::var(ROOT)
            .ok()
            .map(|root| Utf8PathBuf::from(root).join("bin/dmtcp_launch"))
            .filter(|p| paths::is_executable(p))
            .or_else(|| {
                paths::on_path(
                    &["dmtcp_launch"],
                    &std::env::var("PATH").unwrap_or_default(),
                )
            })
            .ok_or_else(|| missing("DMTCP is not installed: no dmtcp_launch on PATH".into())),
    }
}

/// Parses the version from the output of `dmtcp_launch --version`.
pub fn parse_version(text: &str) -> Option<String> {
    let words = text
        .split_whitespace()
        .map(|w| w.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    words
        .into_iter()
        .find(|w| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.'))
        .map(str::to_owned)
}

/// Returns the path of the program that DMTCP pipes images through; `None` without compression. DMTCP itself calls the `gzip` on PATH.
///
/// # Errors
/// The program is not installed. DMTCP would then store images uncompressed, with a warning.
pub(super) fn compressor(compression: Compression) -> Result<Option<Utf8PathBuf>, Missing> {
    let Some(name) = compression.program() else {
        return Ok(None);
    };
    paths::on_path(&[name], &std::env::var("PATH").unwrap_or_default())
        .map(Some)
        .ok_or_else(|| Missing {
            what: format!("{name} is not installed: DMTCP cannot compress images with it"),
            hint: format!("Debian, Ubuntu: apt-get install {name}; on every node of the site"),
        })
}

/// Directory of the images, in the working directory of a run.
pub(super) const CKPT_DIR: &str = "ckpt";
/// The coordinator's working directory, in the working directory of a run.
pub(super) const COORDINATOR_DIR: &str = "dmtcp";

/// Paths of the DMTCP files of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DmtcpLayout {
    /// Directory of the images.
    pub ckptdir: Utf8PathBuf,
    /// Directory where the coordinator writes the script of the next restart. It differs from the directory of the script that is being executed,
    /// which must not be replaced.
    pub scripts: Utf8PathBuf,
    /// Coordinator's working directory, where it writes its event logs.
    pub kvdir: Utf8PathBuf,
    /// Short private directory for temporary files.
    pub tmpdir: Utf8PathBuf,
    /// File with the coordinator's port.
    pub portfile: Utf8PathBuf,
    /// Coordinator's log.
    pub log: Utf8PathBuf,
}

impl DmtcpLayout {
    /// Returns the layout of a run.
    pub fn of(run: &RunContext) -> Self {
        let kvdir = run.work.join(COORDINATOR_DIR);
        Self {
            ckptdir: run.work.join(CKPT_DIR),
            scripts: run.work.join(CKPT_DIR),
            tmpdir: run.tmp.clone(),
            portfile: kvdir.join("port"),
            log: kvdir.join("coordinator.log"),
            kvdir,
        }
    }

    /// Returns the layout of this run's restart, which has its own coordinator. Restarted processes write their images into the same directory as the
    /// run's processes.
    #[must_use]
    pub fn of_restart(&self, which: RestartNumber) -> Self {
        let dir = self.kvdir.join(which.stem());
        Self {
            ckptdir: self.ckptdir.clone(),
            scripts: dir.clone(),
            tmpdir: self.tmpdir.clone(),
            portfile: self.kvdir.join(which.file("port")),
            log: self.kvdir.join(which.file("log")),
            kvdir: dir,
        }
    }
}

/// Returns whether the coordinator writes an event log at each checkpoint.
pub(super) fn has_event_log(install: &Install) -> bool {
    install.major_minor().is_some_and(|v| v >= (4, 0))
}

/// Returns whether `dmtcp_command` can answer in JSON.
pub(super) fn has_json(install: &Install) -> bool {
    install.major_minor().is_some_and(|v| v >= (5, 0))
}

/// Returns the coordinator's command line. The coordinator chooses a free port. It exits when its last client disconnects, or after `stale_s` seconds
/// without a client.
pub(super) fn coordinator(install: &Install, layout: &DmtcpLayout, stale_s: u64) -> Vec<String> {
    let mut argv = vec![
        install.program("dmtcp_coordinator"),
        "-p".into(),
        "0".into(),
        "--port-file".into(),
        layout.portfile.to_string(),
        "--ckptdir".into(),
        layout.scripts.to_string(),
        "--tmpdir".into(),
        layout.tmpdir.to_string(),
        "--coord-logfile".into(),
        layout.log.to_string(),
        "--exit-on-last".into(),
        "--daemon".into(),
        "--stale-timeout".into(),
        stale_s.to_string(),
    ];
    if has_event_log(install) {
        argv.push("--write-kv-data".into());
    }
    argv
}

/// Returns the words in front of the MPI launcher. `library` is loaded before DMTCP's own libraries; the caller appends the coordinator's host and
/// port.
pub(super) fn launch_words(
    install: &Install,
    layout: &DmtcpLayout,
    compression: Compression,
    library: Option<&Utf8Path>,
) -> Vec<String> {
    // DMTCP calls the `gzip` on PATH: make that the chosen compressor
    let gzip = match compression.compressor() {
        None => "--no-gzip",
        Some(_) => "--gzip",
    };
    let mut argv = vec![
        install.program("dmtcp_launch"),
        "-j".into(),
        gzip.into(),
        "--ckptdir".into(),
        layout.ckptdir.to_string(),
        "--tmpdir".into(),
        layout.tmpdir.to_string(),
    ];
    if let Some(library) = library {
        argv.extend(["--with-plugin".to_owned(), library.to_string()]);
    }
    argv
}

/// The answer of `dmtcp_command -s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of connected processes, including launchers.
    pub peers: u32,
    /// Whether the processes run, that is, are not being checkpointed.
    pub running: bool,
}

/// Parses the answer of `dmtcp_command -s`: text, or with `--json` (DMTCP 5.0 and later) a line of JSON.
pub fn parse_status(message: &str) -> Option<Status> {
    if let Some(line) = message.lines().find(|l| l.trim_start().starts_with('{')) {
        let answer: JsonStatus = serde_json::from_str(line).ok()?;
        return (answer.command_status == "DMT_COORD_SUCCESS").then_some(Status {
            peers: answer.num_peers,
            running: answer.running,
        });
    }
    let value = |key: &str| {
        message
            .lines()
            .find_map(|l| l.trim().strip_prefix(key)?.strip_prefix('='))
            .map(str::trim)
    };
    Some(Status {
        peers: value("NUM_PEERS")?.parse().ok()?,
        running: value("RUNNING")? == "yes",
    })
}

/// Maximum length of a quoted line, characters.
const QUOTED: usize = 400;

/// Finds the first assertion in DMTCP's standard error whose failure ended a process. Returns its line, truncated, without colours and other control
/// characters. DMTCP 4 writes `[TIME, PID, TID, Error] at FILE:LINE in FUNCTION; REASON='...`. Earlier versions write `[PID] ERROR at ...`; their
/// loader writes `[PID] FILE:LINE FUNCTION:` and, in the next line, `Assertion failed: ...`.
pub fn failed_assertion(stderr: &str) -> Option<String> {
    let mut before = String::new();
    for line in stderr.lines() {
        let line = without_controls(line);
        if line.contains("REASON='")
            && (line.contains(", Error] at ") || line.contains("] ERROR at "))
        {
            return Some(line.chars().take(QUOTED).collect());
        }
        if line.starts_with("Assertion failed: ")
            && before.starts_with('[')
            && before.contains(".c:")
            && before.ends_with(':')
        {
            return Some(format!("{before} {line}").chars().take(QUOTED).collect());
        }
        before = line;
    }
    None
}

/// Returns the line without control characters and without escape sequences for colours (`ESC [ ... m`).
fn without_controls(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        plain.push_str(rest.strip_prefix('m').unwrap_or(rest));
    }
    plain.retain(|c| !c.is_control());
    plain.trim().to_owned()
}

/// The fields of the JSON answer that are used.
#[derive(Deserialize)]
struct JsonStatus {
    command_status: String,
    num_peers: u32,
    running: bool,
}

/// Times when the phases of one checkpoint ended, by the coordinator's clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// The coordinator began the checkpoint.
    pub start: jiff::Timestamp,
    /// All processes are suspended.
    pub suspended: Option<jiff::Timestamp>,
    /// Coordination and draining of connections have ended; writing begins.
    pub coordinated: jiff::Timestamp,
    /// Every process has written its image.
    pub written: jiff::Timestamp,
    /// The restart script exists.
    pub complete: jiff::Timestamp,
}

/// A problem with an event log.
#[derive(Debug, thiserror::Error)]
pub enum EventLogError {
    /// The file is not JSON, or it is incomplete.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The file is not an event log.
    #[error("it has no /Event_Timestamp_Ms")]
    NoTimestamps,
    /// A time cannot be read.
    #[error("`{text}`: {source}")]
    Time {
        /// Text of the time that cannot be read.
        text: String,
        /// The problem.
        source: jiff::Error,
    },
    /// An entry is not a number and a name.
    #[error("`{at}`: `{entry}` does not name an event")]
    Entry {
        /// Time of the entry.
        at: String,
        /// Text of the entry.
        entry: String,
    },
}

/// Returns the phases of the last checkpoint in a coordinator's event log (`dmtcp_coordinator_db-*.json`); `None` if the log has no complete
/// checkpoint. Times in the log have no time zone; they are in UTC, because the run's script starts the coordinator in UTC.
///
/// # Errors
/// The text is not such a log, or the log is still being written.
pub fn parse_events(json: &str) -> Result<Option<Events>, EventLogError> {
    let value: serde_json::Value = serde_json::from_str(json)?;
    let Some(log) = value.get("/Event_Timestamp_Ms").and_then(|v| v.as_object()) else {
        return Err(EventLogError::NoTimestamps);
    };
    let mut events = Vec::new();
    for (at, what) in log {
        // an event is "00003-Barrier-DMT:SUSPEND"
        let named = what
            .as_str()
            .and_then(|e| e.split_once('-'))
            .and_then(|(number, name)| Some((number.parse().ok()?, name)));
        let (number, name): (u64, &str) = named.ok_or_else(|| EventLogError::Entry {
            at: at.clone(),
            entry: what.to_string(),
        })?;
        let zoned = at
            .parse::<jiff::civil::DateTime>()
            .and_then(|t| t.to_zoned(jiff::tz::TimeZone::UTC));
        let at = zoned.map_err(|source| EventLogError::Time {
            text: at.clone(),
            source,
        })?;
        events.push((number, name.to_owned(), at.timestamp()));
    }
    events.sort();
    Ok(last_checkpoint(&events))
}

/// Returns the last complete checkpoint among numbered events. The log has at most one event for each millisecond: a later event in the same
/// millisecond replaces the earlier one. An event that is missing for this reason gets the time of the next event.
fn last_checkpoint(events: &[(u64, String, jiff::Timestamp)]) -> Option<Events> {
    let write = events
        .iter()
        .rposition(|e| e.1 == "Barrier-DMT:WriteCkpt")?;
    let earlier = events[..write]
        .iter()
        .rposition(|e| e.1 == "Ckpt-Complete" || e.1 == "Barrier-DMT:WriteCkpt")
        .map_or(0, |at| at + 1);
    let this = &events[earlier..write];
    let at = |name: &str| this.iter().find(|e| e.1 == name);
    let suspended = at("Barrier-DMT:SUSPEND");
    let start = match (at("Ckpt-Start"), suspended) {
        (Some(start), _) => start.2,
        // the next event replaced this one in its millisecond
        (None, Some(next)) => next.2,
        (None, None) => return None,
    };
    let (number, written) = (events[write].0, events[write].2);
    // the time of a barrier is the time when the last process reached it: the last barrier before WriteCkpt ends the coordination
    let coordinated = this
        .last()
        .filter(|e| e.0 + 1 == number)
        .map_or(written, |e| e.2);
    // the checkpoint is complete at the first event, of any kind, after the barrier of the written images
    let complete = events[write + 1..].first()?.2;
    Some(Events {
        start,
        suspended: suspended.map(|e| e.2),
        coordinated,
        written,
        complete,
    })
}

/// Parses DMTCP's restart script (` :: HOST :bg: IMAGE IMAGE...`). Returns the host on which each image was written, by the image's file name.
pub fn images_by_host(script: &str) -> std::collections::BTreeMap<String, String> {
    let mut images = std::collections::BTreeMap::new();
    let mut words = script
        .split_whitespace()
        .map(|w| w.trim_matches(['\'', '"']));
    let mut host: Option<String> = None;
    while let Some(word) = words.next() {
        match word {
            "::" => host = words.next().map(str::to_owned),
            ":bg:" | ":fg:" => {}
            image if image.ends_with(".dmtcp") => {
                if let (Some(host), Some(file)) = (&host, image.rsplit('/').next()) {
                    images.insert(file.to_owned(), host.clone());
                }
            }
            _ => host = None,
        }
    }
    images
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"/Event_Timestamp_Ms": {"2026-11-21T11:43:27.581": "00001-Initializing-Computation", "2026-11-21T11:43:28.248": "00002-Ckpt-Start",
        "2026-11-21T11:43:28.250": "00003-Barrier-DMT:SUSPEND", "2026-11-21T11:43:28.297": "00004-Barrier-DMT:CHECKPOINT",
        "2026-11-21T11:43:28.347": "00005-Barrier-Socket::Ckpt_Register_Peer_Info", "2026-11-21T11:43:28.969": "00006-Barrier-DMT:WriteCkpt",
        "2026-11-21T11:43:29.024": "00007-Ckpt-Complete"}}"#;

    #[test]
    fn a_build_for_forked_checkpoints_is_detected_by_its_binary() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("dmtcp_launch")).expect("UTF-8");
        let of = |content: &str| {
            std::fs::write(&path, content).expect("writes");
            forks(&path)
        };
        assert!(!of("\u{7f}ELF\0DMTCP_GZIP\0_(forked)\0"));
        assert!(of("\u{7f}ELF\0DMTCP_GZIP\0DMTCP_FORKED_CHECKPOINT\0rest"));
        assert!(!forks(Utf8Path::new("/nowhere/dmtcp_launch")));
    }

    #[test]
    fn latency_is_split_at_the_last_barrier_before_the_images() {
        let events = parse_events(LOG).expect("reads").expect("whole");
        let ms = |a: jiff::Timestamp, b: jiff::Timestamp| b.duration_since(a).as_millis();
        assert_eq!(ms(events.start, events.coordinated), 99);
        assert_eq!(ms(events.coordinated, events.written), 622);
        assert_eq!(ms(events.written, events.complete), 55);
    }

    #[test]
    fn of_two_events_in_one_millisecond_only_the_later_is_logged() {
        // as DMTCP 4.2.0 wrote it: 00002-Ckpt-Start is missing because 00003 happened in the same millisecond
        let log = LOG.replace(r#""2026-11-21T11:43:28.248": "00002-Ckpt-Start","#, "");
        let events = parse_events(&log).expect("reads").expect("whole");
        assert_eq!(
            events.coordinated.duration_since(events.start).as_millis(),
            97
        );
        assert_eq!(Some(events.start), events.suspended);
        // the last barrier is missing: it was reached when the images had been written
        let log = LOG.replace(
            r#""2026-11-21T11:43:28.347": "00005-Barrier-Socket::Ckpt_Register_Peer_Info","#,
            "",
        );
        let events = parse_events(&log).expect("reads").expect("whole");
        assert_eq!(events.coordinated, events.written);
        // the coordinator's exit can happen in the same millisecond as the end, and replace it in the log
        let log = LOG.replace("00007-Ckpt-Complete", "00008-Exiting");
        assert!(parse_events(&log).expect("reads").is_some());
    }

    #[test]
    fn the_last_of_several_checkpoints_counts() {
        let second = r#""2026-11-21T11:43:29.024": "00007-Ckpt-Complete", "2026-11-21T11:43:40.000": "00008-Ckpt-Start",
            "2026-11-21T11:43:40.010": "00009-Barrier-DMT:SUSPEND", "2026-11-21T11:43:40.100": "00010-Barrier-Socket::Ckpt_Register_Peer_Info""#;
        let begun = LOG.replace(
            r#""2026-11-21T11:43:29.024": "00007-Ckpt-Complete""#,
            second,
        );
        let first = parse_events(LOG).expect("reads");
        assert_eq!(
            parse_events(&begun).expect("reads"),
            first,
            "the second is not written yet"
        );
        let whole = begun.replace(
            r#"Ckpt_Register_Peer_Info"}}"#,
            r#"Ckpt_Register_Peer_Info", "2026-11-21T11:43:40.500": "00011-Barrier-DMT:WriteCkpt", "2026-11-21T11:43:40.600": "00012-Ckpt-Complete"}}"#,
        );
        let events = parse_events(&whole).expect("reads").expect("whole");
        assert_eq!(events.written.duration_since(events.start).as_millis(), 500);
        assert_eq!(
            events.coordinated.duration_since(events.start).as_millis(),
            100
        );
        // the end of the first checkpoint is missing: a later event replaced it in its millisecond
        let whole = whole.replace(r#""2026-11-21T11:43:29.024": "00007-Ckpt-Complete", "#, "");
        assert_eq!(parse_events(&whole).expect("reads"), Some(events));
    }

    #[test]
    fn a_log_without_a_whole_checkpoint_is_no_checkpoint_and_other_files_are_errors() {
        let torn = LOG.replace("00006-Barrier-DMT:WriteCkpt", "00006-Exiting");
        assert_eq!(parse_events(&torn).expect("reads"), None);
        assert!(matches!(
            parse_events("{}"),
            Err(EventLogError::NoTimestamps)
        ));
        assert!(matches!(parse_events("{"), Err(EventLogError::Json(_))));
        assert!(matches!(
            parse_events(&LOG.replace("00006-Barrier", "Barrier")),
            Err(EventLogError::Entry { .. })
        ));
        assert!(matches!(
            parse_events(&LOG.replace("2026-11-21T", "yesterday ")),
            Err(EventLogError::Time { .. })
        ));
    }

    #[test]
    fn status_is_read_from_the_command_s_words() {
        let message = "Coordinator:\n  Host: 127.0.0.1\n  Port: 33513\nStatus...\n  NUM_PEERS=6\n  RUNNING=yes\n";
        assert_eq!(
            parse_status(message),
            Some(Status {
                peers: 6,
                running: true
            })
        );
        assert_eq!(parse_status("Coordinator not found"), None);
    }

    #[test]
    fn status_is_read_from_the_command_s_json() {
        let answer = |status: &str, rest: &str| {
            format!(
                r#"{{"schema_version":1,"command":"DMT_STATUS","command_status":"{status}","coordinator_host":"127.0.0.1","coordinator_port":33513{rest}}}"#
            )
        };
        let running = answer(
            "DMT_COORD_SUCCESS",
            r#","num_peers":6,"running":true,"checkpoint_interval":0"#,
        );
        assert_eq!(
            parse_status(&format!("{running}\n\n")),
            Some(Status {
                peers: 6,
                running: true
            })
        );
        let suspended = running.replace("true", "false");
        assert_eq!(
            parse_status(&format!("a warning\n{suspended}\n")),
            Some(Status {
                peers: 6,
                running: false
            })
        );
        assert_eq!(parse_status(&answer("DMT_COORD_NOT_FOUND", "")), None);
        // truncated answers, or answers with unknown parts
        assert_eq!(parse_status(&running[..running.len() - 1]), None);
        assert_eq!(parse_status(&running.replace("6", "-6")), None);
    }

    #[test]
    fn an_assertion_is_distinguished_from_warnings_and_from_program_output() {
        let warning = "\u{1b}[0;33m[2026-11-25T09:00:00.000, 41000, 41000, Warning] at fileconnection.cpp:410 in refill; REASON='JWARNING(fd != -1) failed;\u{1b}[0m";
        assert_eq!(failed_assertion(warning), None);
        assert_eq!(
            failed_assertion(
                "a.out: a.c:3: main: Assertion `x' failed.\nAssertion failed: of the user's own\n"
            ),
            None
        );
        let fatal = "[2026-11-25T09:00:00.000, 41000, 41001, Error] at sysvipc.cpp:77 in refill; REASON='JASSERT(_realId != -1) failed; (_id = 3);    bt: Terminating...";
        let text = format!("{warning}\n\u{1b}[0;31m{fatal}\n    Backtrace:\n\n\u{1b}[0m\n");
        assert_eq!(failed_assertion(&text).as_deref(), Some(fatal));
        let equal = fatal.replace(
            "JASSERT(_realId != -1) failed",
            "ASSERT_EQ failed; <0(0)> == <rc(-1)>.",
        );
        assert_eq!(failed_assertion(&equal), Some(equal.clone()));
        let older =
            "[41000] ERROR at sysvipc.cpp:77 in refill; REASON='JASSERT(_realId != -1) failed'";
        assert_eq!(
            failed_assertion(&format!("one\n{older}\n")).as_deref(),
            Some(older)
        );
        let loader = "[41000] mtcp_restart.c:915 restore_memory_areas:\n  Assertion failed: mmappedat == area->addr\n";
        assert_eq!(
            failed_assertion(loader).as_deref(),
            Some(
                "[41000] mtcp_restart.c:915 restore_memory_areas: Assertion failed: mmappedat == area->addr"
            )
        );
        assert_eq!(
            failed_assertion(&format!("{older}{}", "é".repeat(1000)))
                .map(|line| line.chars().count()),
            Some(QUOTED)
        );
    }

    #[test]
    fn json_is_requested_only_where_it_is_supported() {
        let has_json = |version: &str| {
            has_json(&Install {
                bin: "/bin".into(),
                version: Some(version.into()),
                forks: false,
            })
        };
        assert!(has_json("5.0") && has_json("5.0.1-rc1") && has_json("10.1"));
        assert!(!has_json("4.2.0") && !has_json("3.0") && !has_json("unknown"));
    }
}
