//! `--measure` and `--from` of `cvc reproduce`: runs a paper's campaigns, and compares their measurements with its tables.

use super::run;
use crate::command::records::warn_of_index;
use crate::{
    args::{MeasureArgs, RunArgs, Which},
    exit_status::ExitStatus,
    failure::Failure,
    output::note,
    text::paragraph,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_core::units::counted;
use cvc_index::Index;
use cvc_paper::paper::{ClaimOutcome, Paper};
use cvc_paper::rerun::{self, CampaignMeasurements, Definition, Joined};
use cvc_session::campaigns::load;
use indexmap::IndexSet;

/// Outcome of measuring a paper.
pub enum Outcome {
    /// The paper defines no campaigns.
    Nothing,
    /// The user stopped a campaign; the same command continues it.
    Interrupted,
    /// Measurements were joined with the tables.
    Joined {
        definition: Box<Definition>,
        joined: Joined,
        /// The claims of the paper, checked against the printed values and the measurements.
        claims: Vec<ClaimOutcome>,
        /// The campaigns whose measurements were read.
        from: Vec<ReadCampaign>,
    },
}

/// A campaign whose measurements were read.
pub struct ReadCampaign {
    pub dir: Utf8PathBuf,
    /// Name of the campaign in measurements.
    pub name: String,
    /// The programs with successful runs.
    pub programs: IndexSet<String>,
}

/// Runs the requested campaigns and joins all measurements with the paper's tables.
/// If `only` names tables, runs only the campaigns with programs of these tables.
pub fn measured(
    folder: &Utf8Path,
    paper: &Paper,
    only: &[&str],
    args: &MeasureArgs,
) -> Result<Outcome, Failure> {
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
                    "leave --measure and --from out, or write one (docs/reproduce-measure.md)"
                        .into(),
                ),
            });
        }
        return Ok(Outcome::Nothing);
    };
    let skipped = run::SkippedRuns::default();
    if args.measure {
        let chosen = chosen(folder, paper, &definition, only, args)?;
        for (file, variant) in chosen {
            note(format_args!("{file}, variant {variant}"));
            let which = Which {
                variant: Some(variant),
            };
            let args = RunArgs::for_file(file, which, args.place.clone());
            // failed runs are results, which appear in the tables' cells
            if run::run_collecting(&args, Some(&skipped))? == ExitStatus::Interrupted {
                return Ok(Outcome::Interrupted);
            }
        }
        if let Some(mut text) = not_run(&skipped.lock()) {
            let known = variants(folder, &definition)?;
            let small = ["kernels", "laptop"]
                .into_iter()
                .find(|v| known.contains(*v));
            if let (None, Some(variant)) = (&args.variant, small) {
                text.push_str(&format!(
                    "; --variant {variant} runs only programs shipped with cvc"
                ));
            }
            note(format_args!("{}", paragraph("", &text)));
        }
    }
    let dirs = if args.from.is_empty() {
        of_paper(folder, &definition, args)?
    } else {
        args.from.clone()
    };
    let (measured, from) = read_campaigns(dirs)?;
    let joined = rerun::join(paper, &definition, &measured);
    if let Some(mistake) = joined.mistakes.first() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{}: {mistake}", folder.join(rerun::FILE)),
            hint: Some("compare with the paper's paper.toml and docs/reproduce-measure.md".into()),
        });
    }
    Ok(Outcome::Joined {
        claims: rerun::claims(paper, &definition, &measured),
        definition: Box::new(definition),
        joined,
        from,
    })
}

/// Reads the measurements of the campaigns in these directories.
fn read_campaigns(
    dirs: Vec<Utf8PathBuf>,
) -> Result<(CampaignMeasurements, Vec<ReadCampaign>), Failure> {
    let mut measured = CampaignMeasurements::default();
    let mut from = Vec::new();
    for dir in dirs {
        if !dir.join("plan.json").is_file() {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{dir} is not a campaign: it has no plan.json"),
                hint: Some(
                    "--from needs the directory of a completed campaign, such as campaigns/NAME"
                        .into(),
                ),
            });
        }
        // the campaign is only read, since it may be an archive
        let known = measured.points.len();
        let index = Index::in_temporary_file(&dir)?;
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
    Ok((measured, from))
}

/// Returns the campaign files to run, each with its variant: those that have the requested variant and run a program of the chosen tables.
fn chosen(
    folder: &Utf8Path,
    paper: &Paper,
    definition: &Definition,
    only: &[&str],
    args: &MeasureArgs,
) -> Result<Vec<(Utf8PathBuf, String)>, Failure> {
    let programs = rerun::programs(paper, definition, only);
    let mut chosen = Vec::new();
    for campaign in &definition.campaigns {
        let file = folder.join(&campaign.file);
        let variant = args.variant.as_ref().unwrap_or(&campaign.variant);
        if !load(&file, None)?.variants.contains(variant) {
            continue;
        }
        // look at the defined variant, because the requested one may run other programs in place of the paper's
        let is_about = only.is_empty()
            || load(&file, Some(&campaign.variant))?
                .apps
                .keys()
                .any(|app| programs.contains(app));
        if is_about {
            chosen.push((file, variant.clone()));
        }
    }
    if chosen.is_empty() {
        let known: Vec<String> = variants(folder, definition)?.into_iter().collect();
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: match &args.variant {
                Some(variant) if !known.contains(variant) => {
                    format!("no campaign of {} has a variant `{variant}`", paper.id)
                }
                _ => format!("no campaign of {} measures these tables", paper.id),
            },
            hint: Some(format!("variants of its campaigns: {}", known.join(", "))),
        });
    }
    Ok(chosen)
}

/// Returns the variants of all campaigns of a paper.
fn variants(folder: &Utf8Path, definition: &Definition) -> Result<IndexSet<String>, Failure> {
    let mut names = IndexSet::new();
    for campaign in &definition.campaigns {
        names.extend(load(&folder.join(&campaign.file), None)?.variants);
    }
    Ok(names)
}

/// Summarizes the skipped runs of all campaigns in a sentence that names each missing software once. `None` if no run was skipped.
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
    text.push_str("; `cvc plan` with the campaign file shows where cvc searched");
    Some(text)
}

/// Returns the existing directories of the paper's campaigns, for every variant.
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

/// Returns the names of missing software in the reason why runs were skipped: the words before each "is not installed".
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
    fn missing_software_is_named_once_and_other_reasons_are_kept() {
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
                "5 runs skipped: missing are npb-bt, MPI library `mpich-ch3`; more memory than there is; `cvc plan` with the campaign file shows where cvc searched"
            )
        );
        assert_eq!(not_run(&[]), None);
    }
}
