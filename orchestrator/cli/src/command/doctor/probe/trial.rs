//! One trial: a campaign of one run in a temporary directory. The run takes a small checkpoint and is restarted from it.

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

/// Time limit of the program until it is killed after its checkpoint, and separately of its restart, seconds.
const RUN_S: u32 = 50;
/// Time limit of the checkpoint, seconds.
const CHECKPOINT_S: u32 = 40;
/// Time limit of a trial from the start of its run: the limits of the program and its restart, plus time to end them. It keeps the wait below two
/// minutes.
const LIMIT: Duration = Duration::from_secs(115);
/// Number of ranks of every trial.
const RANKS: f64 = 2.0;
/// Maximum number of lines shown of a log.
const LOG_LINES: usize = 6;

/// Descriptor of the stencil kernel, which verifies its result, with a size that computes for some seconds. Waiting ranks yield their core.
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

/// The columns of the matrix of trials, in this order.
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

    /// Returns the logs of a run that explain why it failed at this step.
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
    /// The step succeeded, after this time.
    Works { seconds: f64 },
    /// The step failed, after this time.
    Fails { seconds: f64 },
    /// An earlier step failed.
    NotReached,
}

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CellFailure {
    pub(super) what: String,
    /// The name of the log that explains the failure, and the log's last lines.
    pub(super) log: Option<(String, Vec<String>)>,
}

/// Software used by a run, from its records.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UsedSoftware {
    /// File name of the launcher.
    pub(super) launcher: String,
    /// Known problems of this version or device of the MPI library.
    pub(super) warnings: Vec<String>,
}

impl UsedSoftware {
    /// Reads the used software from the records in a run's directory.
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
pub(super) struct TriedCell {
    pub(super) cells: [Cell; 5],
    pub(super) failure: Option<CellFailure>,
    /// Software that the run used, if the run recorded it.
    pub(super) used: Option<UsedSoftware>,
    /// Whether the user stopped the trial.
    pub(super) is_interrupted: bool,
}

/// The MPI library and checkpointer under trial.
#[derive(Clone, Debug)]
pub(super) struct Attempt<'a> {
    /// The campaign that the site belongs to.
    pub(super) spec: &'a Spec,
    pub(super) site: &'a str,
    /// The settings of the site.
    pub(super) settings: &'a Site,
    pub(super) mpi: &'a str,
    pub(super) nodes: u32,
}

impl Attempt<'_> {
    /// Returns the name of the trial for messages.
    pub(super) fn name(&self) -> String {
        format!(
            "{} on {}, {}",
            self.mpi,
            self.site,
            counted(self.nodes, "node")
        )
    }

    /// Returns the campaign of the trial: the site's settings with only one library, and one run.
    fn campaign(&self) -> Result<Spec, SourceErrors> {
        let mut site = self.settings.clone();
        site.mpi.retain(|name, _| name == self.mpi);
        // on one core both ranks share it
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
            checkpointers: CheckpointerKind::all_driven()
                .map(|(kind, _)| kind)
                .take(1)
                .collect(),
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

    /// Runs the trial, and removes its files.
    pub(super) async fn carry_out(&self, base: &Options, interrupted: &StopSignal) -> TriedCell {
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
        TriedCell {
            is_interrupted: trial.is_interrupted,
            ..tried
        }
    }
}

fn failure(what: String) -> CellFailure {
    CellFailure { what, log: None }
}

fn failed_before(what: String) -> TriedCell {
    TriedCell {
        cells: [Cell::NotReached; 5],
        failure: Some(failure(what)),
        used: None,
        is_interrupted: false,
    }
}

/// Evaluates a run from its events and the contents of its directory.
fn judge(trial: &Trial, start: Instant) -> TriedCell {
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
    // whether each step succeeded and its time, in the order of the columns
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
        (Some(Outcome::Failed { cause, detail }), column) => Some(CellFailure {
            what: format!("{}: {detail}", name_of(*cause)),
            log: column.and_then(|column| last_of(&directory, column)),
        }),
        (Some(Outcome::Succeeded), _) => None,
        // the run was ended early, and the caller explains why
        (None, _) => {
            tracing::debug!(
                after_s = start.elapsed().as_secs_f64(),
                "a trial was interrupted"
            );
            None
        }
    };
    TriedCell {
        cells,
        failure,
        used: UsedSoftware::read(&directory),
        is_interrupted: false,
    }
}

/// Returns the name and the last lines of the run's first log that is not empty.
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
