//! The log file of a session: one for each `cvc run`, `cvc install` and `cvc down`, in the directory of its campaign.

use crate::text::shown;
use camino::Utf8PathBuf;
use cvc_core::log;
use cvc_core::store::CampaignDir;
use jiff::{Timestamp, tz::TimeZone};
use std::sync::Mutex;

static FILE: Mutex<Option<Utf8PathBuf>> = Mutex::new(None);

/// The hint of an internal error: what to send with a report. The log of this session is a part of it, once it has begun; of several campaigns,
/// that of the last.
pub fn how_to_report() -> String {
    match FILE.lock().ok().and_then(|file| file.as_deref().map(shown)) {
        Some(log) => format!(
            "send the command, its whole output and {log}; `cvc run` goes on where it ended"
        ),
        None => "send the command and its whole output".to_owned(),
    }
}

/// Writes the log of this process to a new file of the campaign, from its first line on.
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
        // the campaign works without it; whatever prevents this file also prevents the journal, which is reported
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
