//! `cvc image`: the reader of images is in the probe; what it cannot know is to which runs and points of a campaign directories belong.

use super::{delta, progress::Progress};
use crate::{
    args::{ImageCommand, ImageCommandArgs},
    display::Varying,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::terminal_width,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::PointId;
use cvc_core::plan::Plan;
use cvc_core::store::CampaignDir;
use cvc_image_show::{
    Group, Grouping,
    command::{Caller, ImageArgs, ImageCommandError, run_for},
};
use cvc_prediction::predict::{from_images, to_csv};
use cvc_session::campaigns::read_plan;
use std::{cell::RefCell, collections::HashMap, io::Write, path::Path, rc::Rc};

pub fn image(args: &ImageCommandArgs) -> Result<ExitStatus, Failure> {
    match (&args.command, &args.show) {
        (Some(ImageCommand::Diff(args)), _) => delta::diff(args),
        (None, Some(show)) if args.csv => table(show),
        (None, Some(args)) => show(args),
        // clap asks for one of them
        (None, None) => Err(Failure::Other {
            status: ExitStatus::Usage,
            message: "no image is named".into(),
            hint: Some("`cvc image --help` says what can be asked".into()),
        }),
    }
}

/// Prints the checkpoints below a directory as a table of observations.
fn table(args: &ImageArgs) -> Result<ExitStatus, Failure> {
    let directory =
        Utf8PathBuf::from_path_buf(args.path.clone()).map_err(|path| Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{}: the name is not UTF-8", path.display()),
            hint: None,
        })?;
    let progress = Progress::start();
    let found = from_images(&directory, &|done, all| {
        progress.tell(done as u64, all as u64, "images read");
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
        progress: Some(&|done, all| progress.tell(done as u64, all as u64, "images read")),
        estimating: Some(&|done, all| progress.tell(done, all, "MiB read")),
        width: terminal_width(),
        groupings,
    };
    let mut out = output::shown_as(args.json);
    run_for(args, caller, &mut out).map_err(explain)?;
    Ok(ExitStatus::Done)
}

/// Says of a campaign without images where they have gone.
fn explain(error: ImageCommandError) -> Failure {
    match error {
        ImageCommandError::NoImages { path, .. } if path.ancestors().any(|directory| directory.join("journal.jsonl").is_file()) => {
            Failure::Other {
                status: ExitStatus::Unreadable,
                message: format!("{}: no images (`*.dmtcp`, `*.dmtcp.gz`) in this directory or below", path.display()),
                hint: Some(
                    "campaigns remove images once cvc has read them; `keep_images = true` in [run] keeps those of runs to come".into(),
                ),
            }
        }
        error => Failure::Image(error),
    }
}

/// To what the images of a directory belong.
#[derive(Clone, Debug)]
struct Owner {
    run: Group,
    /// `None` if the plan of the campaign has no such run any more.
    point: Option<Group>,
}

/// A campaign of which images were found.
#[derive(Debug)]
struct KnownCampaign {
    plan: Option<Plan>,
    labels: HashMap<PointId, String>,
}

impl KnownCampaign {
    fn read(dir: &CampaignDir) -> Self {
        // an image without its plan is still an image
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

/// The campaigns to which the directories below one belong, read when they are met.
#[derive(Clone)]
struct Campaigns {
    /// What the user named, and where that is.
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

    /// The run of a directory `CAMPAIGN/work/RUN/…` or `CAMPAIGN/runs/RUN/…`, and its point.
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
        // RUN.partial and RUN.failed-2 are of RUN
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
        // below a directory of several campaigns, a point of one may be called like that of another
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
