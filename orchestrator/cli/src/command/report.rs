//! `cvc report`

use super::{campaign_dir, shown};
use crate::{
    args::{ReportArgs, ReportFormat, Which},
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_lib::{
    spec::Format,
    store::{CampaignDir, Index},
};
use std::io::Write;

pub fn report(args: &ReportArgs) -> Result<u8, Failure> {
    let dir = campaign_dir(&args.campaign, &args.which, &args.place)?;
    let wanted = if args.format.is_empty() {
        super::load(&dir.campaign_file(), &Which { variant: None }).map(|s| s.report.formats).unwrap_or_else(|_| Format::USUAL.to_vec())
    } else {
        formats(&args.format)
    };
    let name = dir.root().file_name().unwrap_or("campaign").to_owned();
    let to = args.to.clone().unwrap_or_else(|| Utf8PathBuf::from("reports").join(name));
    let files = write(&dir, &to, &wanted)?;
    let mut out = std::io::stdout().lock();
    for file in files {
        writeln!(out, "{}", shown(&file))?;
    }
    Ok(0)
}

/// The formats of an option.
pub fn formats(wanted: &[ReportFormat]) -> Vec<Format> {
    let format = |f: &ReportFormat| match f {
        ReportFormat::Html => Format::Html,
        ReportFormat::Csv => Format::Csv,
        ReportFormat::Json => Format::Json,
        ReportFormat::Markdown => Format::Markdown,
        ReportFormat::Latex => Format::Latex,
    };
    wanted.iter().map(format).collect()
}

/// Rebuilds the index and writes the report; the main file of each format first.
pub fn write(dir: &CampaignDir, to: &Utf8Path, formats: &[Format]) -> Result<Vec<Utf8PathBuf>, Failure> {
    let index = Index::rebuild(dir.root())?;
    let report = cvc_lib::report::build(&index)?;
    Ok(cvc_lib::report::write_all(&report, to, formats)?)
}
