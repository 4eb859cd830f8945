//! The log file of a session: each `cvc run`, `cvc install` and `cvc down` writes one into the directory of its campaign.

use crate::text::shown;
use camino::Utf8PathBuf;
use cvc_core::log;
use cvc_core::store::CampaignDir;
use jiff::{Timestamp, tz::TimeZone};
use std::sync::Mutex;

static FILE: Mutex<Option<Utf8PathBuf>> = Mutex::new(None);

/// Returns the hint for an internal error: which files to send with a report. It names this session's log once that exists; after several campaigns,
/// the log of the last one.
pub fn how_to_report() -> String {
    match FILE.lock().ok().and_then(|file| file.as_deref().map(shown)) {
        Some(log) => format!(
            "send the command, its whole output and the archive of `cvc report-bug` (with {log}); `cvc run` continues where it ended"
        ),
        None => "send the command and its whole output".to_owned(),
    }
}

/// Starts to write this process's log to a new file of the campaign, beginning with the messages so far.
pub fn begin(dir: &CampaignDir) {
    let time = Timestamp::now()
        .to_zoned(TimeZone::UTC)
        .strftime("%Y%m%dT%H%M%SZ");
    let file = dir
        .root()
        .join("logs")
        .join(format!("cvc-{time}-{}.log", std::process::id()));
    match log::to_file(file.as_std_path()) {
        Ok(()) => {
            if let Ok(mut last) = FILE.lock() {
                *last = Some(file);
            }
        }
        // the campaign works without a log, and an error that also prevents the journal is reported there
        Err(error) => {
            tracing::warn!(%error, file = %shown(&file), "the log of the session cannot be written")
        }
    }
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        arguments = arguments.join(" "),
        pid = std::process::id(),
        "session began"
    );
}
