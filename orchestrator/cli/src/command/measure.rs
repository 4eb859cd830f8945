//! `--measure` and `--from` of `cvc reproduce`: runs the campaigns of a paper, and compares their measurements with its tables.

use super::run;
use crate::{
    args::{MeasureArgs, RunArgs, SelectionArgs, Which},
    exit_status::ExitStatus,
    failure::Failure,
    output::note,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_index::Index;
use cvc_paper::paper::Paper;
use cvc_paper::rerun::{self, CampaignMeasurements, Definition, Joined};
use cvc_session::campaigns::load;

/// What was measured of a paper.
pub enum Outcome {
    /// The paper names no campaign that measures it.
    Nothing,
    /// The user stopped a campaign; it goes on with the same command.
    Interrupted,
    /// Measured, by these campaigns.
    Joined {
        definition: Box<Definition>,
        joined: Joined,
        from: Vec<Utf8PathBuf>,
    },
}

/// Runs the requested campaigns and joins all measurements with the paper's tables.
pub fn measured(folder: &Utf8Path, paper: &Paper, args: &MeasureArgs) -> Result<Outcome, Failure> {
    let Some(definition) = rerun::load(folder.as_std_path())? else {
        if args.measure || !args.from.is_empty() {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!(
                    "{folder} has no {}, so {} cannot be measured here",
                    rerun::FILE,
                    paper.id
                ),
                hint: Some(
                    "leave --measure and --from out, or write one: docs/reproduce-measure.md"
                        .into(),
                ),
            });
        }
        return Ok(Outcome::Nothing);
    };
    if args.measure {
        for campaign in &definition.campaigns {
            let file = folder.join(&campaign.file);
            note(format_args!("{file}, variant {}", campaign.variant));
            let args = RunArgs {
                file,
                which: Which {
                    variant: Some(campaign.variant.clone()),
                },
                place: args.place.clone(),
                json: false,
                retry_failed: false,
                keep_going: false,
                selection: SelectionArgs { only: Vec::new() },
                time_limit: None,
                install: false,
                update_lock: false,
                report: None,
            };
            // failed runs are results: their cells say so
            if run::run(&args)? == ExitStatus::Interrupted {
                return Ok(Outcome::Interrupted);
            }
        }
    }
    let from = if args.from.is_empty() {
        of_paper(folder, &definition, args)?
    } else {
        args.from.clone()
    };
    let mut measured = CampaignMeasurements::default();
    for dir in &from {
        if !dir.join("plan.json").is_file() {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{dir} is not a campaign: it has no plan.json"),
                hint: Some(
                    "--from names the directory of a campaign that was run, such as campaigns/NAME"
                        .into(),
                ),
            });
        }
        // only read, never changed: it may be an archive
        measured.add(&Index::apart(dir)?)?;
    }
    let joined = rerun::join(paper, &definition, &measured);
    if let Some(mistake) = joined.mistakes.first() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{}: {mistake}", folder.join(rerun::FILE)),
            hint: Some("compare with the paper's paper.toml and docs/reproduce-measure.md".into()),
        });
    }
    Ok(Outcome::Joined {
        definition: Box::new(definition),
        joined,
        from,
    })
}

/// The existing directories of the paper's campaigns, with every variant.
fn of_paper(
    folder: &Utf8Path,
    definition: &Definition,
    args: &MeasureArgs,
) -> Result<Vec<Utf8PathBuf>, Failure> {
    let mut dirs = Vec::new();
    for campaign in &definition.campaigns {
        let plain = load(&folder.join(&campaign.file), None)?;
        let names = std::iter::once(plain.name.clone())
            .chain(plain.variants.iter().map(|v| format!("{}-{v}", plain.name)));
        for dir in names.map(|name| CampaignDir::new(&args.place.campaigns, &name)) {
            if dir.journal().is_file() && !dirs.iter().any(|d| d == dir.root()) {
                dirs.push(dir.root().to_owned());
            }
        }
    }
    Ok(dirs)
}
