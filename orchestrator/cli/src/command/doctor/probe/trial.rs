//! One trial: a small campaign of one run in a temporary directory, which takes a checkpoint and restarts it.

use crate::command::temporary::{self, name_of};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::runner::Options;
use cvc_core::app::load::load_text;
use cvc_core::campaign::{Site, SmallCampaign, Spec};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::Outcome;
use cvc_core::plan;
use cvc_core::point::{CheckpointerKind, Moment};
use cvc_core::record::names;
use cvc_core::source::SourceErrors;
use cvc_core::stop::StopSignal;
use cvc_core::units::counted;
use cvc_engine::ckpt::quirks::Quirk;
use cvc_session::{Scratch, Trial};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Time limit of the program until it is ended after its checkpoint, and again of its restart, seconds.
const RUN_S: u32 = 50;
/// Time limit of the checkpoint, seconds.
const CHECKPOINT_S: u32 = 40;
/// Time limit of a trial once its run has begun: that of the program and of its restart, and time to end them. With it, nobody waits
/// for more than two minutes.
const LIMIT: Duration = Duration::from_secs(115);
/// Ranks of every trial.
const RANKS: f64 = 2.0;
/// Lines of a log that are shown.
const LOG_LINES: usize = 6;

/// The stencil kernel, which verifies its result, in a size that computes for some seconds. Ranks that wait give up their core.
const APP: &str = r#"schema = 1
name = "probe"
title = "cvc's stencil kernel, some seconds long"
kernel = true
[program]
names = ["kernel-stencil"]
install = "part of cvc"
[command]
args = ["--size", "32", "--steps", "60", "--work", "100", "--ckpt-every", "0"]
env = { OMPI_MCA_mpi_yield_when_idle = "1", MPIR_CVAR_POLLS_BEFORE_YIELD = "1" }
[workloads.probe]
[success]
pattern = '^Verification = SUCCESSFUL'
forbid = '^Verification = FAILED'
[progress]
step = '^Time step (\d+)'
"#;

/// What a trial shows, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Column {
    Starts,
    CheckpointTaken,
    ImagesComplete,
    Restarts,
    ResultVerified,
}

impl Column {
    pub(super) const ALL: [Self; 5] = [
        Self::Starts,
        Self::CheckpointTaken,
        Self::ImagesComplete,
        Self::Restarts,
        Self::ResultVerified,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Starts => "starts",
            Self::CheckpointTaken => "checkpoint taken",
            Self::ImagesComplete => "images complete",
            Self::Restarts => "restarts",
            Self::ResultVerified => "result verified",
        }
    }

    /// Logs of a run that explain why it came no further than this.
    fn logs(self) -> &'static [&'static str] {
        match self {
            Self::Starts => &["stderr", "coordinator.out", "stdout"],
            Self::CheckpointTaken | Self::ImagesComplete => {
                &["stderr", "coordinator.log", "coordinator.out"]
            }
            Self::Restarts | Self::ResultVerified => &[
                "restart.stderr",
                "restart.coordinator.out",
                "restart.stdout",
            ],
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub(super) enum Cell {
    /// It works.
    Works { seconds: f64 },
    /// It does not, after this time.
    Fails { seconds: f64 },
    /// It was not reached.
    NotReached,
}

/// Why a trial came no further.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Failure {
    pub(super) what: String,
    /// The log, and its last lines.
    pub(super) log: Option<(String, Vec<String>)>,
}

/// What a run used, by its own description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Used {
    /// File name of the launcher.
    pub(super) launcher: String,
    /// What is known of this very version or device of the MPI library.
    pub(super) warnings: Vec<String>,
}

impl Used {
    /// Reads the description in the directory of a run.
    fn read(directory: &Utf8Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Library {
            mpiexec: Utf8PathBuf,
        }
        #[derive(Deserialize)]
        struct Description {
            mpi: Library,
            quirks: Vec<Quirk>,
        }
        let text = std::fs::read(directory.join("run.json")).ok()?;
        let Description { mpi, quirks } = serde_json::from_slice(&text).ok()?;
        let of_the_library = quirks
            .into_iter()
            .filter(|q| q.when.device.is_some() || q.when.version.is_some());
        Some(Self {
            launcher: mpi.mpiexec.file_name()?.to_owned(),
            warnings: of_the_library.filter_map(|q| q.note).collect(),
        })
    }
}

/// The result of a trial.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) cells: [Cell; 5],
    pub(super) failure: Option<Failure>,
    /// What the run used, if it came as far as that.
    pub(super) used: Option<Used>,
    /// Whether the user stopped it.
    pub(super) is_interrupted: bool,
}

/// What is tried.
#[derive(Clone, Debug)]
pub(super) struct Attempt<'a> {
    /// The campaign that has the site.
    pub(super) spec: &'a Spec,
    pub(super) site: &'a str,
    /// The site.
    pub(super) settings: &'a Site,
    pub(super) mpi: &'a str,
    pub(super) nodes: u32,
}

impl Attempt<'_> {
    /// The name of the trial in messages.
    pub(super) fn name(&self) -> String {
        format!(
            "{} on {}, {}",
            self.mpi,
            self.site,
            counted(self.nodes, "node")
        )
    }

    /// The campaign of the trial: the site as the user has it, with one library and one run.
    fn campaign(&self) -> Result<Spec, SourceErrors> {
        let mut site = self.settings.clone();
        site.mpi.retain(|name, _| name == self.mpi);
        // two ranks must do on one core as well
        site.oversubscribe |= site.cluster.is_none();
        let campaign = SmallCampaign {
            name: "doctor-probe".into(),
            path: self.spec.path.clone(),
            site_name: self.site.to_owned(),
            site,
            app: load_text("probe.toml".as_ref(), APP)?,
            class: None,
            mapping: match self.nodes {
                1 => Mapping::one_node(2),
                nodes => Mapping::even(nodes, 1),
            },
            mpi: vec![self.mpi.to_owned()],
            checkpointers: vec![CheckpointerKind::Dmtcp],
        };
        campaign.into_spec(|run, checkpoint| {
            run.repeats = 1;
            run.retries = 0;
            run.timeout_s = f64::from(RUN_S);
            checkpoint.moment = Moment::AfterStep(3);
            checkpoint.restart_check = true;
            checkpoint.timeout_s = f64::from(CHECKPOINT_S);
        })
    }

    /// Carries the trial out, and leaves nothing of it.
    pub(super) async fn carry_out(&self, base: &Options, interrupted: &StopSignal) -> Tried {
        let spec = match self.campaign() {
            Ok(spec) => spec,
            Err(errors) => return failed_before(errors.to_string()),
        };
        let plan = plan::build(&spec);
        if let Some(excluded) = plan.excluded.first() {
            return failed_before(excluded.reason.to_string());
        }
        let scratch = match Scratch::new("cvc-doctor-") {
            Ok(scratch) => scratch,
            Err(error) => return failed_before(error.to_string()),
        };
        let start = Instant::now();
        let (campaign, name) = ((&spec, &plan), self.name());
        let trial = temporary::carry_out(campaign, &scratch, &name, base, LIMIT, interrupted).await;
        let mut tried = judge(&trial, start);
        if let Some(problem) = trial.problem {
            tried.failure = Some(failure(problem));
        } else if let Some(late) = trial.late.filter(|_| tried.failure.is_none()) {
            tried.failure = Some(failure(late));
        }
        if let Err(error) = scratch.close() {
            tried.failure = Some(failure(error.to_string()));
        }
        Tried {
            is_interrupted: trial.is_interrupted,
            ..tried
        }
    }
}

fn failure(what: String) -> Failure {
    Failure { what, log: None }
}

fn failed_before(what: String) -> Tried {
    Tried {
        cells: [Cell::NotReached; 5],
        failure: Some(failure(what)),
        used: None,
        is_interrupted: false,
    }
}

/// Judges what was seen of a run and what its directory holds.
fn judge(trial: &Trial, start: Instant) -> Tried {
    let now = Instant::now();
    let Some(began) = trial.began() else {
        return failed_before("the run never began".into());
    };
    let directory = trial.directory();
    let records = trial.records();
    let value = |name: &str| records.value(name);
    let images: f64 = records
        .0
        .iter()
        .filter(|r| {
            r.name == names::CKPT_FILES && r.labels.get("kind").is_some_and(|k| k == "rank")
        })
        .map(|r| r.value)
        .sum();
    let end = trial.ended().map_or(now, |(at, _)| *at);
    let (checkpoint, restart, collecting) = (
        trial.stage("checkpoint"),
        trial.stage("restart"),
        trial.stage("collecting"),
    );
    let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
    let restarted = trial
        .text("restart.stdout")
        .lines()
        .any(|l| l.starts_with("Time step ") || l.starts_with("Verification = "));
    let (outcome, has_ended) = (trial.outcome(), trial.ended().is_some());
    let succeeded = outcome == Some(&Outcome::Succeeded);
    // what works, and for how long it took; in the order of the columns
    let works = [
        (
            checkpoint.is_some(),
            seconds(began, checkpoint.or(collecting).unwrap_or(end)),
        ),
        (
            succeeded || restart.is_some() || value(names::CKPT_LATENCY_S).is_some(),
            value(names::CKPT_LATENCY_S).unwrap_or_else(|| {
                checkpoint.map_or(0.0, |at| seconds(at, restart.or(collecting).unwrap_or(end)))
            }),
        ),
        (
            succeeded || (restart.is_some() && (images >= RANKS || !has_ended)),
            value(names::CKPT_STORAGE_S).unwrap_or_else(|| {
                checkpoint.map_or(0.0, |at| seconds(at, restart.or(collecting).unwrap_or(end)))
            }),
        ),
        (
            succeeded || restarted,
            restart.map_or(0.0, |at| seconds(at, collecting.unwrap_or(end))),
        ),
        (succeeded, collecting.map_or(0.0, |at| seconds(at, end))),
    ];
    let mut cells = [Cell::NotReached; 5];
    let mut stopped_at = None;
    for ((cell, (works, seconds)), column) in cells.iter_mut().zip(works).zip(Column::ALL) {
        *cell = if works {
            Cell::Works { seconds }
        } else {
            Cell::Fails { seconds }
        };
        if !works {
            stopped_at = Some(column);
            break;
        }
    }
    let failure = match (outcome, stopped_at) {
        (Some(Outcome::Failed { cause, detail }), column) => Some(Failure {
            what: format!("{}: {detail}", name_of(*cause)),
            log: column.and_then(|column| last_of(&directory, column)),
        }),
        (Some(Outcome::Succeeded), _) => None,
        // it was ended early, which its caller explains
        (None, _) => {
            tracing::debug!(after_s = start.elapsed().as_secs_f64(), "a trial was ended");
            None
        }
    };
    Tried {
        cells,
        failure,
        used: Used::read(&directory),
        is_interrupted: false,
    }
}

/// The last lines of the first log of a run that says something.
fn last_of(directory: &Utf8Path, column: Column) -> Option<(String, Vec<String>)> {
    column.logs().iter().find_map(|name| {
        let bytes = std::fs::read(directory.join(name)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|l| !l.is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..]
            .iter()
            .map(|l| l.chars().take(300).collect())
            .collect::<Vec<String>>();
        (!last.is_empty()).then(|| ((*name).to_owned(), last))
    })
}
