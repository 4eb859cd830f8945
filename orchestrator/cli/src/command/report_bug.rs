//! `cvc report-bug`

use crate::{
    args::ReportBugArgs,
    command::export::failure,
    exit_status::ExitStatus,
    failure::Failure,
    output::emit,
    text::{paragraph, shown},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    store::CampaignDir,
    units::{counted, size},
};
use cvc_export::{BugReport, pack_bug_report};
use cvc_session::campaigns::campaign_dir_even_damaged;
use jiff::{Timestamp, tz::TimeZone};
use std::fs;

/// Files that describe the system.
const SYSTEM: [&str; 2] = ["/proc/version", "/etc/os-release"];

pub fn report_bug(args: &ReportBugArgs) -> Result<ExitStatus, Failure> {
    let (dir, mut runs) = find(args)?;
    runs.extend(args.runs.iter().cloned());
    let to = args.to.clone().unwrap_or_else(|| usual_name(&dir));
    let report = pack_bug_report(&dir, &runs, &versions(), &to).map_err(failure)?;
    show(&report);
    Ok(ExitStatus::Done)
}

/// Returns the campaign, and the run if the argument is a run's directory. An incomplete campaign is found by its directory.
fn find(args: &ReportBugArgs) -> Result<(CampaignDir, Vec<String>), Failure> {
    let typed = &args.campaign;
    let whole = typed.canonicalize_utf8().unwrap_or_else(|_| typed.clone());
    let above = whole
        .parent()
        .filter(|above| above.file_name() == Some("runs"));
    if let (Some(campaign), Some(run)) = (above.and_then(Utf8Path::parent), whole.file_name()) {
        return Ok((CampaignDir::at(campaign), vec![run.to_owned()]));
    }
    let variant = args.which.variant.as_deref();
    match campaign_dir_even_damaged(typed, variant, &args.place.campaigns) {
        Ok(dir) => Ok((dir, Vec::new())),
        Err(error) => match remains(typed, &args.place.campaigns) {
            Some(dir) => Ok((dir, Vec::new())),
            None => Err(error.into()),
        },
    }
}

/// Finds the directory of an incomplete campaign, by its path, its name or the name of its file: it must contain a file that only campaigns have.
fn remains(typed: &Utf8Path, campaigns: &Utf8Path) -> Option<CampaignDir> {
    let by_name = typed.file_stem().map(|name| campaigns.join(name));
    let candidates = [Some(typed.to_owned()), by_name];
    let has_some = |dir: &Utf8PathBuf| {
        [
            "campaign.toml",
            "plan.json",
            "journal.jsonl",
            "runs",
            "logs",
        ]
        .iter()
        .any(|name| dir.join(name).exists())
    };
    let found = candidates.into_iter().flatten().find(has_some);
    found.map(|dir| CampaignDir::at(&dir))
}

fn usual_name(dir: &CampaignDir) -> Utf8PathBuf {
    let time = Timestamp::now()
        .to_zoned(TimeZone::UTC)
        .strftime("%Y%m%dT%H%M%SZ");
    let name = dir.root().file_name().unwrap_or("campaign");
    format!("cvc-bug-{name}-{time}.tar.gz").into()
}

/// Returns the versions of cvc and of this machine's software.
fn versions() -> String {
    let mut text = format!(
        "cvc {} ({}), {}\n",
        env!("CARGO_PKG_VERSION"),
        if cfg!(feature = "ec2") {
            "with EC2"
        } else {
            "without EC2"
        },
        std::env::consts::ARCH
    );
    for path in SYSTEM {
        // a missing file is skipped
        text += &fs::read_to_string(path).unwrap_or_default();
    }
    text
}

fn show(report: &BugReport) {
    emit(format_args!(
        "{}: {}, {}",
        shown(&report.path),
        size(report.bytes as f64),
        counted(report.packed.len(), "file")
    ));
    for file in &report.packed {
        let cut = if file.is_cut { ", in parts" } else { "" };
        let size = size(file.bytes as f64);
        emit(format_args!("  {}  {size}{cut}", file.name));
    }
    for file in &report.left_out {
        emit(format_args!("  left out: {}: {}", file.name, file.reason));
    }
    emit(paragraph(
        "",
        &format!(
            "Recognised secrets, addresses, and names of hosts and users were removed; check the file before you send it. {}",
            where_to_send()
        ),
    ));
}

fn where_to_send() -> String {
    let repository = env!("CARGO_PKG_REPOSITORY");
    match repository.is_empty() {
        true => {
            "Attach it to an issue at the place you got cvc from, with the command and its output."
                .to_owned()
        }
        false => format!(
            "Attach it to an issue at {repository}/issues, with the command and its output."
        ),
    }
}
