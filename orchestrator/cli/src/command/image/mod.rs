//! `cvc image`.
//!
//! | file | contents |
//! | --- | --- |
//! | `run.rs` | the command on a file, a directory of images, or all images below one |
//! | `file.rs`, `directory.rs`, `tree.rs`, `estimate.rs` | the output of each |
//! | `against.rs` | two images side by side |
//! | `zones.rs` | tables of zones |

mod against;
mod directory;
mod estimate;
mod file;
mod run;
#[cfg(test)]
mod tests;
mod tree;
mod zones;

use super::{delta, progress::Progress};
use crate::{
    args::{ImageCommand, ImageCommandArgs, image::ImageArgs},
    display::Varying,
    exit_status::ExitStatus,
    failure::Failure,
    image_error::ImageCommandError,
    output,
    text::terminal_width,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::PointId;
use cvc_core::plan::Plan;
use cvc_core::store::CampaignDir;
use cvc_prediction::predict::{from_images, to_csv};
use cvc_session::campaigns::read_plan;
use run::{Caller, run};
use std::{cell::RefCell, collections::HashMap, io::Write, path::Path, rc::Rc};
use tree::{Group, Grouping};

pub fn image(args: &ImageCommandArgs) -> Result<ExitStatus, Failure> {
    match (&args.command, &args.show) {
        (Some(ImageCommand::Diff(args)), _) => delta::diff(args),
        (None, Some(show)) if args.csv => table(show),
        (None, Some(args)) => show(args),
        // clap requires one of the arguments
        (None, None) => Err(Failure::Other {
            status: ExitStatus::Usage,
            message: "no image given".into(),
            hint: Some("see `cvc image --help`".into()),
        }),
    }
}

/// Prints the checkpoints below a directory as CSV of observations.
fn table(args: &ImageArgs) -> Result<ExitStatus, Failure> {
    let directory =
        Utf8PathBuf::from_path_buf(args.path.clone()).map_err(|path| Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{}: the name is not UTF-8", path.display()),
            hint: None,
        })?;
    let progress = Progress::start();
    let found = from_images(&directory, &|done, all| {
        progress.report(done as u64, all as u64, "images read");
    })?;
    drop(progress);
    for note in &found.notes {
        output::note(note);
    }
    let mut out = output::shown_as(true);
    out.write_all(to_csv(&found.observations).as_bytes())?;
    out.flush()?;
    Ok(ExitStatus::Done)
}

fn show(args: &ImageArgs) -> Result<ExitStatus, Failure> {
    let progress = Progress::start();
    let campaigns = Campaigns::below(&args.path);
    let (by_run, by_point) = (campaigns.clone(), campaigns);
    let groupings = vec![
        Grouping {
            title: "run",
            key: "runs",
            of_directory: Box::new(move |directory| Some(by_run.owner(directory)?.run)),
        },
        Grouping {
            title: "point",
            key: "points",
            of_directory: Box::new(move |directory| by_point.owner(directory)?.point),
        },
    ];
    let caller = Caller {
        progress: Some(&|done, all| progress.report(done as u64, all as u64, "images read")),
        estimating: Some(&|done, all| progress.report(done, all, "MiB read")),
        width: terminal_width(),
        groupings,
    };
    let mut out = output::shown_as(args.json);
    run(args, caller, &mut out).map_err(explain)?;
    Ok(ExitStatus::Done)
}

/// Adds to an error about missing images where a campaign keeps its images.
fn explain(error: ImageCommandError) -> Failure {
    match error {
        ImageCommandError::NoImages { path, .. } if path.ancestors().any(|directory| directory.join("journal.jsonl").is_file()) => {
            Failure::Other {
                status: ExitStatus::Unreadable,
                message: format!("{}: no images (`*.dmtcp`, `*.dmtcp.gz`) in this directory or below", path.display()),
                hint: Some(
                    "campaigns remove images after reading them; `keep_images = true` in [run] keeps those of later runs".into(),
                ),
            }
        }
        error => Failure::Image(error),
    }
}

/// The run and the point that the images of a directory belong to.
#[derive(Clone, Debug)]
struct Owner {
    run: Group,
    /// The point; `None` if the campaign's plan no longer has the run.
    point: Option<Group>,
}

/// A campaign that contains some of the images.
#[derive(Debug)]
struct KnownCampaign {
    plan: Option<Plan>,
    labels: HashMap<PointId, String>,
}

impl KnownCampaign {
    fn read(dir: &CampaignDir) -> Self {
        // images are shown even if the plan cannot be read
        let plan: Option<Plan> = read_plan(dir).ok();
        let labels = plan.as_ref().map(|plan| {
            let varying = Varying::of(plan.points.iter().map(|p| &p.point));
            plan.points
                .iter()
                .map(|p| (p.id.clone(), varying.show(&p.point)))
                .collect()
        });
        Self {
            plan,
            labels: labels.unwrap_or_default(),
        }
    }
}

/// The campaigns that contain the directories below a path. Each is read when its first image is found.
#[derive(Clone)]
struct Campaigns {
    /// The path that the user gave, and the same path without links.
    root: Rc<(Utf8PathBuf, Utf8PathBuf)>,
    known: Rc<RefCell<HashMap<Utf8PathBuf, Rc<KnownCampaign>>>>,
}

impl Campaigns {
    fn below(path: &Path) -> Self {
        let named = Utf8PathBuf::from_path_buf(path.to_owned()).unwrap_or_default();
        let real = named.canonicalize_utf8().unwrap_or_else(|_| named.clone());
        Self {
            root: Rc::new((named, real)),
            known: Rc::default(),
        }
    }

    /// Returns the run and the point for a directory `CAMPAIGN/work/RUN/…` or `CAMPAIGN/runs/RUN/…`.
    fn owner(&self, directory: &Path) -> Option<Owner> {
        let (named, real) = &*self.root;
        let directory = real.join(Utf8Path::from_path(directory)?.strip_prefix(named).ok()?);
        let below_campaign = |path: &&Utf8Path| {
            let parent = path.parent();
            parent
                .and_then(Utf8Path::file_name)
                .is_some_and(|name| matches!(name, "work" | "runs"))
                && parent
                    .and_then(Utf8Path::parent)
                    .is_some_and(|campaign| CampaignDir::at(campaign).journal().is_file())
        };
        let of_run = directory.ancestors().find(below_campaign)?;
        let root = of_run.parent()?.parent()?;
        // RUN.partial and RUN.failed-2 belong to RUN
        let run = of_run.file_name()?.split('.').next()?.to_owned();
        let campaign = Rc::clone(
            self.known
                .borrow_mut()
                .entry(root.to_owned())
                .or_insert_with(|| Rc::new(KnownCampaign::read(&CampaignDir::at(root)))),
        );
        let planned = campaign
            .plan
            .iter()
            .flat_map(|plan| &plan.runs)
            .find(|planned| planned.id.as_str() == run);
        // points of different campaigns may have the same label, so add the campaign's directory
        let label = |text: &str| match root.strip_prefix(real) {
            Ok(below) if !below.as_str().is_empty() => format!("{below}: {text}"),
            _ => text.to_owned(),
        };
        let of_point = planned.and_then(|planned| campaign.labels.get(&planned.point));
        let point = planned.zip(of_point).map(|(planned, text)| Group {
            name: planned.point.to_string(),
            label: Some(label(text)),
        });
        let run = Group {
            label: Some(label(of_point.map_or("not in the plan", String::as_str))),
            name: run,
        };
        Some(Owner { run, point })
    }
}
