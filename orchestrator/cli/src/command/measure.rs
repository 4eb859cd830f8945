//! `--measure` and `--from` of `cvc reproduce`: runs the campaigns of a paper, and compares their measurements with its tables.

use super::run;
use crate::command::records::warn_of_index;
use crate::{
    args::{MeasureArgs, RunArgs, SelectionArgs, Which},
    exit_status::ExitStatus,
    failure::Failure,
    output::note,
    text::paragraph,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_core::units::counted;
use cvc_index::Index;
use cvc_paper::paper::Paper;
use cvc_paper::rerun::{self, CampaignMeasurements, Definition, Joined};
use cvc_session::campaigns::load;
use indexmap::IndexSet;

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
        /// The campaigns that were read.
        from: Vec<ReadCampaign>,
    },
}

/// A campaign whose measurements were read.
pub struct ReadCampaign {
    pub dir: Utf8PathBuf,
    /// Its name in measurements.
    pub name: String,
    /// The programs of its runs that succeeded.
    pub programs: IndexSet<String>,
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
    let skipped = run::SkippedRuns::default();
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
            if run::run_collecting(&args, Some(&skipped))? == ExitStatus::Interrupted {
                return Ok(Outcome::Interrupted);
            }
        }
        if let Some(text) = not_run(&skipped.lock()) {
            note(format_args!("{}", paragraph("", &text)));
        }
    }
    let dirs = if args.from.is_empty() {
        of_paper(folder, &definition, args)?
    } else {
        args.from.clone()
    };
    let mut measured = CampaignMeasurements::default();
    let mut from = Vec::new();
    for dir in dirs {
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
        let known = measured.points.len();
        let index = Index::apart(&dir)?;
        warn_of_index(&dir, &index)?;
        measured.add(&index)?;
        let own = &measured.points[known..];
        let of_runs = own.iter().filter(|p| !p.runs.is_empty());
        from.push(ReadCampaign {
            dir,
            name: own.first().map_or_else(String::new, |p| p.campaign.clone()),
            programs: of_runs
                .filter_map(|p| p.factors.get("app").cloned())
                .collect(),
        });
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

/// What was skipped of all campaigns, in one sentence: the names of what is not installed, each once. `None` if nothing was.
fn not_run(skipped: &[(u64, String)]) -> Option<String> {
    let runs: u64 = skipped.iter().map(|(runs, _)| runs).sum();
    if runs == 0 {
        return None;
    }
    let (mut names, mut others): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (_, reason) in skipped {
        let found = missing(reason);
        let list = if found.is_empty() {
            (&mut others, vec![reason.as_str()])
        } else {
            (&mut names, found)
        };
        for name in list.1 {
            if !list.0.contains(&name) {
                list.0.push(name);
            }
        }
    }
    let mut text = format!("{} skipped", counted(runs, "run"));
    if !names.is_empty() {
        text.push_str(&format!(": missing are {}", names.join(", ")));
    }
    for other in others {
        text.push_str(&format!("; {other}"));
    }
    text.push_str("; `cvc plan` with the campaign file says where each was looked for");
    Some(text)
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

/// What a reason says is not installed. Reasons are sentences for people; the names are what those of several points have in common.
fn missing(reason: &str) -> Vec<&str> {
    let parts: Vec<&str> = reason.split(" is not installed").collect();
    let before = &parts[..parts.len() - 1];
    before
        .iter()
        .map(|text| {
            let begin = text.rfind("MPI library `").filter(|_| text.ends_with('`'));
            let word = || text.rfind([' ', ';']).map_or(0, |at| at + 1);
            text[begin.unwrap_or_else(word)..].trim()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::not_run;

    #[test]
    fn what_is_missing_is_named_once_and_other_reasons_are_kept() {
        let npb = |n: u32| {
            format!(
                "npb-bt is not installed: no bt.C.{n} in DIR; MPI library `mpich-ch3` is not installed: no bin/mpiexec"
            )
        };
        let text = not_run(&[
            (1, npb(4)),
            (3, npb(9)),
            (1, "more memory than there is".into()),
        ]);
        assert_eq!(
            text.as_deref(),
            Some(
                "5 runs skipped: missing are npb-bt, MPI library `mpich-ch3`; more memory than there is; `cvc plan` with the campaign file says \
                 where each was looked for"
            )
        );
        assert_eq!(not_run(&[]), None);
    }
}
