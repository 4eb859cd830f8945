//! The space that a checkpoint needs at each point of a plan, before it is taken. A checkpoint that the program writes itself needs the size that
//! runs of the point stored, else the prediction from the campaign's other points, else the bytes that the program's descriptor declares. The outputs
//! of a run need at least this space.
//!
//! It is an upper bound, because a disk that gets full in the middle of a campaign costs more than one that is half empty. The first available
//! source is used for each point:
//!
//! 1. the maximum that runs of the point stored, plus 5 %;
//! 2. the upper end of the interval for all files from the models of [`crate::predict`], fitted to the campaign's other points;
//! 3. the upper end of the interval from models fitted to a table built into cvc (the NAS benchmarks under DMTCP 4.2.0, as in its column `dmtcp`),
//!    plus 10 %. For a program whose data no model predicts, the data that its descriptor declares are used. Without declared data, only the rest
//!    is counted, and [`CheckpointSpace::is_whole`] is false.
//!
//! If no run shows how well a program's data are compressed, they count uncompressed.

use crate::predict::{
    self, Calibration, Forecasts, Observation, Predictor, Question, RunSetting, mpi_kind_of_name,
};
use camino::Utf8Path;
use cvc_core::campaign::{MpiFamily, Spec};
use cvc_core::ids::PointId;
use cvc_core::plan::{CheckpointBytes, Plan};
use cvc_core::point::{CheckpointerKind, Compression, PlannedPoint, Point};
use cvc_core::quantity::Quantity;
use cvc_core::record::names;
use cvc_core::retention::left_mib;
use cvc_core::units::MIB;
use cvc_index::{FILE, Index};
use cvc_model::{Estimate, MpiKind};
use std::{collections::HashMap, fs};

/// Factor for sizes stored by runs of the point: checkpoints of one point differ by less.
const OF_OWN_RUNS: f64 = 1.05;
/// Factor for sizes from other programs' runs, whose libraries and small areas differ.
const OF_OTHER_PROGRAMS: f64 = 1.1;
/// Factor for a number without an interval, and for a number on several nodes that follows from runs on one.
const WITHOUT_INTERVAL: f64 = 1.3;
/// Data of each process in addition to its share of the declared data, MiB: copies of common data, and edges.
const OWN_MIB: f64 = 2.0;

/// The summary of a checkpoint's files next to the images.
const AUXILIARY_BYTES: &str = "ckpt_bytes_aux";

/// A table with one checkpoint of each NAS benchmark, by zone.
const TABLE: &str = include_str!("../../../experiments/nas-sizes.csv");

/// Source of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceBasis {
    /// Runs of the point.
    OwnRuns,
    /// Models fitted to other points of the campaign.
    Campaign,
    /// Models fitted to the table built into cvc.
    Table,
    /// The bytes of a program's own checkpoints that the descriptor declares.
    Declared,
}

/// The space that one checkpoint of a point needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSpace {
    /// Bytes of all files.
    pub bytes: u64,
    /// The part of `bytes` that later checkpoints do not replace.
    pub left_bytes: u64,
    /// Source of the number.
    pub basis: SpaceBasis,
    /// Whether the program's data are included; otherwise their size is unknown.
    pub is_whole: bool,
}

impl CheckpointSpace {
    /// Returns the size of one checkpoint.
    pub fn checkpoint_bytes(&self) -> CheckpointBytes {
        CheckpointBytes {
            all: self.bytes,
            left: self.left_bytes,
        }
    }
}

/// The predicted size of a checkpoint.
struct PredictedSize {
    /// MiB of all files.
    mib: f64,
    /// MiB of the files next to the images, of all nodes.
    auxiliary_mib: f64,
    /// Whether the program's data are included.
    is_whole: bool,
}

impl PredictedSize {
    fn space(&self, basis: SpaceBasis) -> CheckpointSpace {
        CheckpointSpace {
            bytes: bytes(self.mib),
            left_bytes: bytes(left_mib(self.auxiliary_mib)),
            basis,
            is_whole: self.is_whole,
        }
    }
}

/// Returns the size of a checkpoint of a point.
type Answer = fn(&Spec, &Point, &Predictor<'_>) -> Option<PredictedSize>;

/// Returns the space of a checkpoint for each point that takes checkpoints. `campaign` is the campaign's directory, which need not exist;
/// unreadable parts of it count as not observed.
pub fn of_plan(spec: &Spec, plan: &Plan, campaign: &Utf8Path) -> HashMap<PointId, CheckpointSpace> {
    let points = plan.points.iter().cloned();
    of_points(
        spec,
        points
            .filter(|p| p.point.checkpointer.takes_checkpoints())
            .collect(),
        campaign,
        |_| true,
    )
}

/// Returns the memory of all processes of each point together: the size of their images without compression, even if the point takes no checkpoint.
pub fn memory_of_plan(
    spec: &Spec,
    plan: &Plan,
    campaign: &Utf8Path,
) -> HashMap<PointId, CheckpointSpace> {
    let uncompressed = |planned: &PlannedPoint| PlannedPoint {
        point: Point {
            compression: Compression::None,
            // the size of a checkpoint that the program writes itself says nothing about its memory
            checkpointer: CheckpointerKind::None,
            ..planned.point.clone()
        },
        ..planned.clone()
    };
    let is_uncompressed = |id: &PointId| {
        plan.points.iter().any(|p| {
            p.id == *id
                && p.point.checkpointer.is_driven()
                && p.point.compression == Compression::None
        })
    };
    of_points(
        spec,
        plan.points.iter().map(uncompressed).collect(),
        campaign,
        is_uncompressed,
    )
}

/// Returns the space of a checkpoint of each point. `counts` returns whether the sizes that the runs of a point stored are used for this point.
fn of_points(
    spec: &Spec,
    points: Vec<PlannedPoint>,
    campaign: &Utf8Path,
    counts: impl Fn(&PointId) -> bool,
) -> HashMap<PointId, CheckpointSpace> {
    if points.is_empty() {
        return HashMap::new();
    }
    let (own, mut observed) = observed(campaign);
    for RunSetting {
        app,
        class,
        mapping,
        size,
        ..
    } in observed.iter_mut().map(|o| &mut o.setting)
    {
        if let Some(of) = spec.apps.get(app) {
            *size = of.descriptor.problem_size(class, mapping.processes());
        }
    }
    let mut spaces: HashMap<PointId, CheckpointSpace> = HashMap::new();
    for planned in &points {
        if let Some(most) = own.get(planned.id.as_str()).filter(|_| counts(&planned.id)) {
            spaces.insert(planned.id.clone(), most.space(SpaceBasis::OwnRuns));
        }
    }
    let table = predict::parse(Utf8Path::new("nas-sizes.csv"), TABLE).unwrap_or_default();
    // runs of earlier environments may differ from the next ones, so the largest number over all environments is used
    let observed = predict::by_environment(observed)
        .into_iter()
        .map(|group| -> (_, _, Answer) { (group, SpaceBasis::Campaign, from_campaign) });
    let sources = observed.chain([(table, SpaceBasis::Table, from_table as Answer)]);
    // an empty source is skipped, because only sizes of earlier versions of DMTCP would remain
    for (observations, basis, answer) in
        sources.filter(|(observations, ..)| !observations.is_empty())
    {
        cvc_model::split(
            observations,
            |_| true,
            |training, _| {
                // adding up the widened upper ends of many parts would give far more than is stored, so intervals from the table are not widened; a
                // factor replaces the widening
                let widened = if basis == SpaceBasis::Table {
                    Calibration::default()
                } else {
                    Calibration::embedded()
                };
                let Ok(predictor) = Predictor::train_with(&training, widened) else {
                    return;
                };
                for planned in &points {
                    // the largest number of those with the same source is used
                    if spaces
                        .get(&planned.id)
                        .is_some_and(|known| known.basis != basis)
                    {
                        continue;
                    }
                    if let Some(size) = answer(spec, &planned.point, &predictor) {
                        let is_declared = basis == SpaceBasis::Table
                            && planned.point.checkpointer.has_own_files();
                        let basis = if is_declared {
                            SpaceBasis::Declared
                        } else {
                            basis
                        };
                        let space = size.space(basis);
                        let known = spaces.entry(planned.id.clone()).or_insert(space);
                        known.bytes = known.bytes.max(space.bytes);
                        known.left_bytes = known.left_bytes.max(space.left_bytes);
                    }
                }
            },
        );
    }
    spaces
}

/// Returns the maximum size that runs of each point stored, and the observations at all points.
fn observed(campaign: &Utf8Path) -> (HashMap<String, PredictedSize>, Vec<Observation>) {
    let Some(index) = index(campaign) else {
        return (HashMap::new(), Vec::new());
    };
    let summaries = index.summaries().unwrap_or_default();
    let auxiliary: HashMap<&str, f64> = summaries
        .iter()
        .filter(|s| s.quantity == AUXILIARY_BYTES)
        .map(|s| (s.point.as_str(), s.summary.max))
        .collect();
    let size = |point: &str, stored: f64| PredictedSize {
        mib: stored * OF_OWN_RUNS / MIB,
        auxiliary_mib: auxiliary
            .get(point)
            .map_or(0.0, |of| of * OF_OWN_RUNS / MIB),
        is_whole: true,
    };
    let stored = summaries
        .iter()
        .filter(|s| s.quantity == names::CKPT_STORED_BYTES)
        .map(|s| (s.point.clone(), size(&s.point, s.summary.max)));
    let observations = predict::from_index(&index, campaign.as_str()).unwrap_or_default();
    (
        stored.collect(),
        observations
            .into_iter()
            .filter(|o| !o.quantities.is_empty())
            .collect(),
    )
}

/// Returns the index of a campaign: the stored one if it is newer than the journal, otherwise an index in a temporary file. Returns `None` if there
/// is no journal, or if the index cannot be made.
fn index(campaign: &Utf8Path) -> Option<Index> {
    let changed = |file: &str| {
        fs::metadata(campaign.join(file))
            .and_then(|m| m.modified())
            .ok()
    };
    let journal = changed("journal.jsonl")?;
    let is_new = changed(FILE).is_some_and(|index| index > journal);
    is_new
        .then(|| Index::open(campaign).ok())
        .flatten()
        .or_else(|| Index::in_temporary_file(campaign).ok())
}

/// Returns the question for the checkpoint of a point; `None` if the site does not define the point's MPI library.
fn question(spec: &Spec, point: &Point, compression: Compression) -> Option<Question> {
    let library = spec.sites.get(&point.site)?.mpi.get(&point.mpi)?;
    let of_family = match library.family {
        MpiFamily::OpenMpi => MpiKind::OpenMpi,
        // the kind with the larger sizes
        MpiFamily::Mpich => MpiKind::Nemesis,
    };
    let mpi = mpi_kind_of_name(&point.mpi)
        .filter(|kind| (*kind == MpiKind::OpenMpi) == (of_family == MpiKind::OpenMpi))
        .unwrap_or(of_family);
    let descriptor = spec.apps.get(&point.app).map(|app| &app.descriptor);
    let setting = RunSetting {
        compression,
        size: descriptor.and_then(|d| d.problem_size(&point.class, point.processes())),
        ..RunSetting::of_point(point, mpi)
    };
    let collective = descriptor.is_some_and(|d| d.io.collective);
    Some(Question {
        setting,
        collective,
        taken_as: None,
    })
}

/// Returns the size predicted from the campaign's other points, with the observed compression or else without compression.
fn from_campaign(spec: &Spec, point: &Point, predictor: &Predictor<'_>) -> Option<PredictedSize> {
    if point.checkpointer.has_own_files() {
        return own(spec, point, predictor);
    }
    [point.compression, Compression::None]
        .into_iter()
        .find_map(|compression| {
            let forecasts = predictor.forecast(&question(spec, point, compression)?);
            Some(PredictedSize {
                mib: upper_end(forecasts.first(Quantity::Stored)?.estimate),
                auxiliary_mib: auxiliary(&forecasts).unwrap_or(0.0),
                is_whole: true,
            })
        })
}

/// Returns the MiB of the files next to the images.
fn auxiliary(forecasts: &Forecasts) -> Option<f64> {
    Some(upper_end(forecasts.first(Quantity::Aux)?.estimate))
}

/// Returns the size of a checkpoint that the program writes itself.
fn own(spec: &Spec, point: &Point, predictor: &Predictor<'_>) -> Option<PredictedSize> {
    let forecasts = predictor.forecast(&question(spec, point, Compression::None)?);
    let estimate = forecasts.first(Quantity::Application)?.estimate;
    let most = estimate.interval.map_or(estimate.value, |of| of.high);
    Some(PredictedSize {
        mib: most * OF_OWN_RUNS,
        auxiliary_mib: 0.0,
        is_whole: true,
    })
}

/// Returns the size predicted from runs of the NAS benchmarks.
fn from_table(spec: &Spec, point: &Point, predictor: &Predictor<'_>) -> Option<PredictedSize> {
    if point.checkpointer.has_own_files() {
        return own(spec, point, predictor);
    }
    let app = spec.apps.get(&point.app);
    let workload = app.and_then(|app| app.descriptor.workload(&point.class).ok());
    let declared = workload.and_then(|w| w.data_mib);
    let mut question = question(spec, point, Compression::None)?;
    // libraries are distinguished by their kind; the table has no runs with newer versions of MPICH
    if question.setting.mpi == MpiKind::Mpich {
        question.setting.mpi = MpiKind::Nemesis;
    }
    let forecasts = predictor.forecast(&question);
    let auxiliary_mib = auxiliary(&forecasts).map_or(0.0, |of| of * OF_OTHER_PROGRAMS);
    if let Some(stored) = forecasts.first(Quantity::Stored) {
        // the runs of the table were on one node
        let over_nodes = if question.setting.mapping.nodes() > 1 {
            WITHOUT_INTERVAL
        } else {
            1.0
        };
        return Some(PredictedSize {
            mib: upper_end(stored.estimate) * OF_OTHER_PROGRAMS * over_nodes,
            auxiliary_mib: auxiliary_mib * over_nodes,
            is_whole: true,
        });
    }
    let rest = without_data(&question, &forecasts)?;
    let data = declared.map(|mib| mib + OWN_MIB * f64::from(point.processes()));
    Some(PredictedSize {
        mib: (rest + data.unwrap_or(0.0)) * OF_OTHER_PROGRAMS,
        auxiliary_mib,
        is_whole: declared.is_some(),
    })
}

/// Returns the MiB of everything except the application's data.
fn without_data(question: &Question, forecasts: &Forecasts) -> Option<f64> {
    let first = |quantity| forecasts.first(quantity).map(|p| upper_end(p.estimate));
    let of_rank = first(Quantity::Lb)? + first(Quantity::Headers)?;
    let shared = |load: u32| {
        let line = forecasts
            .of(Quantity::Shmem)
            .find(|line| line.node_load.is_none_or(|of| of == load))?;
        Some(upper_end(line.forecast.prediction()?.estimate))
    };
    let mapping = &question.setting.mapping;
    let ranks: f64 = mapping
        .node_loads()
        .map(|load| Some(f64::from(load) * (of_rank + shared(load)?)))
        .sum::<Option<f64>>()?;
    let aggregators = f64::from(question.setting.aggregators.unwrap_or(mapping.nodes()));
    let surplus = if question.collective {
        first(Quantity::Surplus).unwrap_or(0.0) * aggregators
    } else {
        0.0
    };
    Some(ranks + surplus + first(Quantity::Launchers)? + auxiliary(forecasts)?)
}

fn bytes(mib: f64) -> u64 {
    (mib * MIB).ceil() as u64
}

fn upper_end(estimate: Estimate) -> f64 {
    estimate
        .interval
        .map_or(estimate.value * WITHOUT_INTERVAL, |interval| interval.high)
}
