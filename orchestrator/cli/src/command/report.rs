//! `cvc report`

use crate::{
    args::{ReportArgs, ReportFormat},
    exit_status::ExitStatus,
    failure::Failure,
    output::{emit, note},
    text::shown,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::store::CampaignDir;
use cvc_prediction::holdout::rebuild_index;
use cvc_prediction::holdout::{Gate, HoldoutResult};
use cvc_session::campaigns::{campaign_dir, load_stored};

pub fn report(args: &ReportArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    let wanted = if args.format.is_empty() {
        load_stored(&dir)
            .map(|s| s.report.formats)
            .unwrap_or_else(|_| Format::USUAL.to_vec())
    } else {
        formats(&args.format)
    };
    let name = dir.root().file_name().unwrap_or("campaign").to_owned();
    let to = args
        .to
        .clone()
        .unwrap_or_else(|| Utf8PathBuf::from("reports").join(name));
    let written = write(&dir, &to, &wanted)?;
    for file in &written.files {
        emit(shown(file));
    }
    let bounds = written.gate.as_ref().is_some_and(Gate::has_bounds);
    if args.gate && !bounds {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{} has no bounds for predictions to check with --gate", dir.campaign_file()),
            hint: Some("set `max_error` or `min_coverage` in its [predict] and run `cvc run`; finished runs are kept".into()),
        });
    }
    if let Some(gate) = &written.gate {
        show_gate(gate);
    }
    let is_kept = written.gate.is_none_or(|gate| gate.is_kept());
    Ok(if args.gate && !is_kept {
        ExitStatus::BoundMissed
    } else {
        ExitStatus::Done
    })
}

/// Returns the formats that the option selects.
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

/// Prints on standard error which bounds the predictions miss, and by how much.
pub fn show_gate(gate: &Gate) {
    let misses = gate.misses();
    for miss in &misses {
        note(format_args!("a prediction misses its bound: {miss}"));
    }
    if misses.is_empty() && gate.has_bounds() {
        note(format_args!(
            "the predictions meet their bounds; {} held-out cells with an interval are within it",
            gate.coverage
        ));
    }
}

/// A report that was written.
pub struct Written {
    /// The files of the report, the main file of each format first.
    pub files: Vec<Utf8PathBuf>,
    /// The verdict on the predictions, if the campaign has any.
    pub gate: Option<Gate>,
    /// The report's questions and answers.
    pub found: Vec<(String, String)>,
}

/// Rebuilds the index and writes the report.
pub fn write(dir: &CampaignDir, to: &Utf8Path, formats: &[Format]) -> Result<Written, Failure> {
    let index = rebuild_index(dir.root())?;
    let report = cvc_analysis::report::build(&index)?;
    let files = cvc_show::write_all(&report, to, formats)?;
    Ok(Written {
        files,
        gate: HoldoutResult::read(&index)?.as_ref().map(Gate::of),
        found: report.found,
    })
}
