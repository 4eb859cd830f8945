//! The log file of a session: one for each `cvc run`, `cvc install` and `cvc down`, in the directory of its campaign.

use crate::text::shown;
use cvc_core::{log, store::CampaignDir};
use jiff::{Timestamp, tz::TimeZone};

/// Writes the log of this process to a new file of the campaign, from its first line on.
pub fn begin(dir: &CampaignDir) {
    let time = Timestamp::now().to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ");
    let file = dir.root().join("logs").join(format!("cvc-{time}-{}.log", std::process::id()));
    if let Err(error) = log::to_file(file.as_std_path()) {
        // the campaign works without it; whatever prevents this file also prevents the journal, which is reported
        tracing::warn!(%error, file = %shown(&file), "the log of the session cannot be written");
    }
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), arguments = arguments.join(" "), pid = std::process::id(), "session began");
}
