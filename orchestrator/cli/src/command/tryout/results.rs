//! Evaluates the campaigns of `cvc try`.

use super::{
    measure::{By, Measured},
    prepare::Prepared,
    runs::Read,
};
use crate::failure::Failure;
use cvc_core::measured::names;
use cvc_core::quantity::Quantity;
use cvc_model::schedule::{daly_s, expected_s};
use cvc_model::stats::{Comparison, Interval, Summary, compare};
use cvc_model::{Estimate, split};
use cvc_prediction::predict::{
    KnownNames, Observation, Predictor, Question, from_index, keep_one_environment,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Mean time between failures if no other is given, seconds.
const MTBF_S: f64 = 86_400.0;
/// Multiples of the command's process count for which cvc predicts.
const TIMES: [u32; 2] = [2, 4];
/// Maximum number of warnings shown for a prediction.
const WARNINGS: usize = 1;
/// Name of the row for a rank's whole file, which is the sum of its zones.
pub const FILE: &str = "file";

/// Results of trying a command.
#[derive(Clone, Debug, Serialize)]
pub struct TryResult {
    pub command: String,
    /// The MPI library, with its version.
    pub mpi: String,
    /// What took the checkpoints: `dmtcp` or `application`.
    pub checkpointer: &'static str,
    /// Version of the checkpointer, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpointer_version: Option<String>,
    pub processes: u32,
    /// Number of cores of this machine.
    pub cores: usize,
    /// Numbers of runs by kind and outcome.
    pub runs: Runs,
    /// Bytes that a checkpoint stores in total.
    pub stored_bytes: Option<Value>,
    /// Number of files of a checkpoint.
    pub files: Option<f64>,
    /// Time of a checkpoint, seconds.
    pub checkpoint_s: Option<Value>,
    /// Parts of the checkpoint time, seconds.
    pub coordination_s: Option<f64>,
    pub storage_s: Option<f64>,
    /// Volumes, MiB: of each zone of a rank, of the whole file of a rank, and of the files that belong to no rank.
    pub zones: Vec<Zone>,
    /// Time of the command without and with one checkpoint, seconds.
    pub without_s: Option<Value>,
    pub with_s: Option<Value>,
    /// Increase of the command's time by one checkpoint, percent.
    pub overhead: Option<Overhead>,
    pub restart: Restart,
    /// Measurements and predictions for other numbers of processes.
    pub forecasts: Vec<ForecastRow>,
    /// Recommended checkpoint interval.
    pub schedule: Option<Schedule>,
    /// The program's own checkpoint, if cvc detected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_checkpoint: Option<OwnCheckpoint>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The values of each run by quantity, for comparisons.
    #[serde(skip)]
    pub values: HashMap<&'static str, Vec<f64>>,
}

/// Numbers of runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Runs {
    pub with_checkpoint: usize,
    pub without_checkpoint: usize,
    pub failed: usize,
}

/// A mean over runs, with its scatter.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Value {
    pub n: usize,
    pub mean: f64,
    pub sd: Option<f64>,
    /// 95 % interval of the mean.
    pub interval: Option<Interval>,
}

/// The volume of a zone (a part of memory).
#[derive(Clone, Debug, Serialize)]
pub struct Zone {
    pub name: &'static str,
    /// Whether the volume is a mean over ranks; otherwise it is a total.
    pub is_of_rank: bool,
    pub mib: f64,
}

/// Increase of a command's time by one checkpoint.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overhead {
    pub percent: f64,
    /// 95 % interval of the percentage.
    pub interval: Option<Interval>,
}

/// Outcome of the restart.
#[derive(Clone, Debug, Serialize)]
pub struct Restart {
    /// `verified`, `works`, `failed` or `not-tried`.
    pub result: &'static str,
    /// Time from the start of the restart to the end of the program, seconds.
    pub to_end_s: Option<f64>,
    /// Explains the result: why the restart failed or was not tried, or what its success shows.
    pub reason: String,
}

/// Checkpoint size and time with one number of processes.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastRow {
    pub processes: u32,
    /// Where the numbers come from.
    pub basis: Basis,
    pub stored_mib: Option<Estimate>,
    pub checkpoint_s: Option<Estimate>,
    /// Why a number is missing or assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured runs with this number of processes.
    Runs,
    /// Models fitted to runs with other numbers of processes.
    Forecast,
    /// A straight line through the values measured with two numbers of processes.
    Assumption,
    /// There is no number.
    None,
}

/// The recommended checkpoint interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Schedule {
    /// Mean time between failures of the job, seconds.
    pub mtbf_s: f64,
    /// Whether the mean time between failures is cvc's assumption.
    pub mtbf_is_assumed: bool,
    /// Computing time between two checkpoints, seconds (Daly 2006).
    pub interval_s: f64,
    /// Time lost to checkpoints and failures at this interval, percent of the program's time.
    pub loss_pct: f64,
}

/// The program's own checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct OwnCheckpoint {
    pub files: Vec<String>,
    pub bytes: u64,
    /// Number of checkpoints detected.
    pub checkpoints: usize,
    /// Why cvc takes the files for a checkpoint.
    pub evidence: &'static str,
    /// Time from the first to the last change of the files, seconds.
    pub write_s: Option<f64>,
}

fn value(summary: Option<&Summary>) -> Option<Value> {
    summary.map(|of| Value {
        n: of.n,
        mean: of.mean,
        sd: of.sd,
        interval: of.interval,
    })
}

/// Evaluates the campaigns of a command.
///
/// # Errors
/// Files of the campaigns cannot be read.
pub fn evaluate(
    prepared: &Prepared,
    measured: &Measured,
    mtbf_s: Option<f64>,
) -> Result<TryResult, Failure> {
    let main = Read::campaign(&measured.main)?;
    let (with, without) = (main.summaries(true)?, main.summaries(false)?);
    let observations = observations(&main, measured)?;
    let here = observations.iter().find(|o| {
        o.setting.mapping.processes() == prepared.processes && o.value(Quantity::Stored).is_some()
    });
    let mut notes = prepared.notes.clone();
    let forecasts = forecasts(prepared, measured, &observations, &mut notes)?;
    let wall = |has| main.values(has, names::WALL_S);
    let values = HashMap::from([
        (
            names::WALL_S,
            if measured.has_baseline {
                wall(false)?
            } else {
                wall(true)?
            },
        ),
        (
            names::CKPT_STORED_BYTES,
            main.values(true, names::CKPT_STORED_BYTES)?,
        ),
        (
            names::CKPT_LATENCY_S,
            main.values(true, names::CKPT_LATENCY_S)?,
        ),
    ]);
    let failed = main.failures()?;
    if let Some((cause, detail)) = failed.first() {
        let which = match failed.len() {
            1 => "1 failed run is excluded".to_owned(),
            count => format!("{count} failed runs are excluded"),
        };
        notes.push(format!("{which}: {cause}: {detail}"));
    }
    let own = measured.pilot.own_files.as_ref();
    let checkpoint_s = value(with.get(names::CKPT_LATENCY_S));
    let seconds = checkpoint_s.map(|of| of.mean).or(own
        .filter(|_| measured.by != By::Dmtcp)
        .and_then(|own| own.write_s));
    if measured.by == By::Dmtcp {
        notes.extend(measured.hazards.iter().cloned());
    }
    if let By::Application { missing } = &measured.by {
        notes.push(format!(
            "{missing}: sizes are those of the program's own checkpoints"
        ));
    }
    Ok(TryResult {
        command: prepared.typed.clone(),
        mpi: main.fact("mpi")?.unwrap_or_else(|| prepared.mpi.clone()),
        checkpointer: match measured.by {
            By::Dmtcp => "dmtcp",
            By::Application { .. } => "application",
        },
        checkpointer_version: main.fact("dmtcp")?.filter(|_| measured.by == By::Dmtcp),
        processes: prepared.processes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        runs: Runs {
            with_checkpoint: values[names::CKPT_STORED_BYTES].len(),
            without_checkpoint: wall(false)?.len(),
            failed: failed.len(),
        },
        stored_bytes: value(with.get(names::CKPT_STORED_BYTES)),
        files: with.get(names::CKPT_FILES).map(|of| of.mean),
        checkpoint_s,
        coordination_s: with.get(names::CKPT_COORDINATION_S).map(|of| of.mean),
        storage_s: with.get(names::CKPT_STORAGE_S).map(|of| of.mean),
        zones: here.map(zones).unwrap_or_default(),
        without_s: value(without.get(names::WALL_S)),
        with_s: value(with.get(names::WALL_S)).filter(|_| measured.pilot.ended),
        overhead: overhead(&main, measured)?,
        restart: restart(measured)?,
        forecasts,
        schedule: seconds.and_then(|seconds| schedule(seconds, mtbf_s)),
        own_checkpoint: own.map(|own| OwnCheckpoint {
            files: own.files.iter().map(|(path, _)| path.to_string()).collect(),
            bytes: own.bytes(),
            checkpoints: own.checkpoints,
            evidence: own.evidence.describe(),
            write_s: own.write_s,
        }),
        notes,
        values,
    })
}

/// Returns the increase of the command's time by one checkpoint. Returns `None` if all runs take a checkpoint, because the time without one is then
/// unknown.
fn overhead(main: &Read, measured: &Measured) -> Result<Option<Overhead>, Failure> {
    if !measured.has_baseline {
        return Ok(None);
    }
    let (with, without) = (
        main.values(true, names::WALL_S)?,
        main.values(false, names::WALL_S)?,
    );
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let compared: Option<Comparison> = compare(&with, &without);
    Ok(compared.map(|of| Overhead {
        percent: percent(of.ratio),
        interval: of.interval.map(|i| Interval {
            low: percent(i.low),
            high: percent(i.high),
        }),
    }))
}

fn zones(here: &Observation) -> Vec<Zone> {
    let of = [
        (Quantity::Dtapp, "data", true),
        (Quantity::Lb, "libraries", true),
        (Quantity::Shmem, "shared memory", true),
        (Quantity::Headers, "headers", true),
        (Quantity::File, FILE, true),
        (Quantity::Launchers, "launcher", false),
        (Quantity::Aux, "other files", false),
    ];
    let zone = |(quantity, name, is_of_rank)| {
        Some(Zone {
            name,
            is_of_rank,
            mib: here.value(quantity)?,
        })
    };
    of.into_iter().filter_map(zone).collect()
}

fn restart(measured: &Measured) -> Result<Restart, Failure> {
    let dir = match &measured.restart {
        Ok(dir) => dir,
        Err(reason) => {
            return Ok(Restart {
                result: "not-tried",
                to_end_s: None,
                reason: reason.clone(),
            });
        }
    };
    let read = Read::campaign(dir)?;
    let to_end_s = read.values(true, names::RESTART_TO_END_S)?.first().copied();
    let verified = read.values(true, names::RESTART_VERIFIED)?;
    if let Some((cause, detail)) = read.failures()?.into_iter().next() {
        return Ok(Restart {
            result: "failed",
            to_end_s: None,
            reason: format!("{cause}: {detail}"),
        });
    }
    let line = measured.descriptor.learned.success.as_ref();
    Ok(match (verified.first(), line) {
        (Some(verified), Some(line)) if *verified > 0.0 && line.verifies => Restart {
            result: "verified",
            to_end_s,
            reason: format!("it printed `{}`", line.line),
        },
        (Some(_), _) => Restart {
            result: "works",
            to_end_s,
            reason: "no printed line confirms its result".into(),
        },
        (None, _) => Restart {
            result: "failed",
            to_end_s: None,
            reason: "it has no records".into(),
        },
    })
}

/// Returns the recommended interval for failures at random times.
fn schedule(checkpoint_s: f64, mtbf_s: Option<f64>) -> Option<Schedule> {
    let mean_s = mtbf_s.unwrap_or(MTBF_S);
    let interval_s = daly_s(checkpoint_s, mean_s).ok().filter(|s| *s > 0.0)?;
    // the loss per unit of work, independent of the length of the run
    let expected = expected_s(1.0, checkpoint_s, interval_s, mean_s).ok()?;
    Some(Schedule {
        mtbf_s: mean_s,
        mtbf_is_assumed: mtbf_s.is_none(),
        interval_s,
        loss_pct: (expected - 1.0) * 100.0,
    })
}

/// Returns the observations with the command's number of processes and with fewer.
fn observations(main: &Read, measured: &Measured) -> Result<Vec<Observation>, Failure> {
    let mut all = from_index(&main.index, measured.main.root().as_str())?;
    if let Ok((dir, _)) = &measured.fewer {
        let read = Read::campaign(dir)?;
        all.extend(from_index(&read.index, dir.root().as_str())?);
    }
    Ok(all)
}

/// Returns checkpoint sizes for several numbers of processes, measured or predicted.
fn forecasts(
    prepared: &Prepared,
    measured: &Measured,
    observations: &[Observation],
    notes: &mut Vec<String>,
) -> Result<Vec<ForecastRow>, Failure> {
    let size = match measured.by {
        By::Dmtcp => Quantity::Stored,
        By::Application { .. } => Quantity::Application,
    };
    let mut rows: BTreeMap<u32, ForecastRow> = BTreeMap::new();
    for o in observations {
        let Some(stored) = o.value(size) else {
            continue;
        };
        let processes = o.setting.mapping.processes();
        let row = ForecastRow {
            processes,
            basis: Basis::Runs,
            stored_mib: Some(Estimate::bare(stored)),
            checkpoint_s: o.value(Quantity::Latency).map(Estimate::bare),
            reason: None,
        };
        rows.insert(processes, row);
    }
    let counts = TIMES.map(|times| prepared.processes.saturating_mul(times));
    let predicted = match (&measured.fewer, &measured.by) {
        (Err(why), _) => rows_without_forecast(&counts, why),
        (Ok(_), By::Application { .. }) => on_a_line(&counts, &rows),
        (Ok(_), By::Dmtcp) => forecast_rows(&counts, observations, notes)?,
    };
    let predicted = predicted.into_iter().map(|row| (row.processes, row));
    // measurements take precedence
    let mut all: BTreeMap<u32, ForecastRow> = predicted.collect();
    all.append(&mut rows);
    Ok(all.into_values().collect())
}

/// Returns rows without a prediction, with the reason.
fn rows_without_forecast(counts: &[u32], why: &str) -> Vec<ForecastRow> {
    let row = |processes: &u32| ForecastRow {
        processes: *processes,
        basis: Basis::None,
        stored_mib: None,
        checkpoint_s: None,
        reason: Some(format!(
            "no forecast: measured with one process count only: {why}"
        )),
    };
    counts.iter().map(row).collect()
}

/// Extrapolates linearly from two measured numbers of processes: no model exists for the size of programs' own checkpoints.
fn on_a_line(counts: &[u32], rows: &BTreeMap<u32, ForecastRow>) -> Vec<ForecastRow> {
    let sizes: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|(count, row)| Some((f64::from(*count), row.stored_mib?.value)))
        .collect();
    let [(few, less), .., (many, more)] = sizes.as_slice() else {
        return rows_without_forecast(counts, "no measurement with another");
    };
    let row = |processes: &u32| {
        let slope = (more - less) / (many - few);
        let value = more + slope * (f64::from(*processes) - many);
        ForecastRow {
            processes: *processes,
            basis: Basis::Assumption,
            stored_mib: Some(Estimate::bare(value.max(0.0))),
            checkpoint_s: None,
            reason: Some(format!("assumed to grow as from {few} to {many} processes")),
        }
    };
    counts.iter().map(row).collect()
}

/// Returns predictions by models fitted to the runs.
fn forecast_rows(
    counts: &[u32],
    observations: &[Observation],
    notes: &mut Vec<String>,
) -> Result<Vec<ForecastRow>, Failure> {
    let (kept, _) = keep_one_environment(observations.to_vec(), |_| true);
    let known = KnownNames {
        apps: &[],
        observations: &kept,
    };
    let questions = counts
        .iter()
        .map(|count| Ok((*count, Question::parse(&count.to_string(), known)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    split(
        kept.clone(),
        |_: &Observation| true,
        |training, _| {
            let predictor = Predictor::train(&training)?;
            let mut rows = Vec::new();
            for (processes, question) in questions {
                let said = predictor.forecast(&question);
                let of = |quantity| {
                    let line = said.of(quantity).next();
                    line.map_or(Err("no model for it"), |line| line.forecast.estimate())
                };
                let stored = of(Quantity::Stored);
                rows.push(ForecastRow {
                    processes,
                    basis: match stored {
                        Ok(_) => Basis::Forecast,
                        Err(_) => Basis::None,
                    },
                    stored_mib: stored.ok(),
                    checkpoint_s: of(Quantity::Latency).ok(),
                    reason: stored.err().map(str::to_owned),
                });
                for warning in said.warnings.into_iter().take(WARNINGS) {
                    if !notes.contains(&warning) {
                        notes.push(warning);
                    }
                }
            }
            Ok(rows)
        },
    )
}
