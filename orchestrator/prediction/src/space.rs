//! The space that a checkpoint by DMTCP needs at each point of a plan, before it is taken. Files that programs write themselves are in the
//! outputs that their descriptors declare.
//!
//! It is an upper end, because a disk that is full in the middle of a campaign costs more than one that is half empty. Of each point, the first
//! of these that there is:
//!
//! 1. what its own runs stored: the most of them, and a twentieth;
//! 2. the upper end of the interval that the models of [`crate::predict`] give for all files, fitted on the campaign's other points;
//! 3. the same, fitted on a table that cvc carries (the NAS benchmarks under DMTCP 4.2.0, as its column `dmtcp` says), and a tenth. Of a program whose data no model knows, the
//!    data that its descriptor declares take their place; without any, only the rest is counted, and [`CheckpointSpace::is_whole`] is false.
//!
//! Where no run tells how well a program's data are compressed, they count as they are.

use crate::predict::{
    self, Calibration, Forecasts, Observation, Predictor, Question, RunSetting, mpi_kind_of_name,
};
use camino::Utf8Path;
use cvc_core::campaign::{MpiFamily, Spec};
use cvc_core::ids::PointId;
use cvc_core::plan::Plan;
use cvc_core::point::{Compression, PlannedPoint, Point};
use cvc_core::quantity::Quantity;
use cvc_core::record::names;
use cvc_core::units::MIB;
use cvc_index::{FILE, Index};
use cvc_model::{Estimate, MpiKind};
use std::{collections::HashMap, fs};

/// Part that is added to what own runs stored: checkpoints of one point differ by less.
const OF_OWN_RUNS: f64 = 1.05;
/// Part that is added where other programs' runs stand in for own ones: their libraries and small areas differ.
const OF_OTHER_PROGRAMS: f64 = 1.1;
/// Part that is added to a number without an interval, and to one of several nodes that follows from runs on one.
const WITHOUT_INTERVAL: f64 = 1.3;
/// Data of each process beyond its share of those that a descriptor declares: copies of what all of them need, and edges, MiB.
const OWN_MIB: f64 = 2.0;

/// One checkpoint of each NAS benchmark, with its zones.
const TABLE: &str = include_str!("../../../experiments/nas-sizes.csv");

/// What a space is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpaceBasis {
    /// Runs of the very point.
    OwnRuns,
    /// Models fitted on other points of the campaign.
    Campaign,
    /// Models fitted on the table that cvc carries.
    Table,
}

/// The space that one checkpoint of a point needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSpace {
    /// Bytes of all files.
    pub bytes: u64,
    /// What this is based on.
    pub basis: SpaceBasis,
    /// Whether the data of the program are in it; otherwise nothing is known of them.
    pub is_whole: bool,
}

/// MiB of a checkpoint of a point, and whether the data of the program are in them.
type Answer = fn(&Spec, &Point, &Predictor<'_>) -> Option<(f64, bool)>;

/// Returns the space of a checkpoint of each point that takes one. `campaign` is the directory of the campaign, which need not exist; what
/// cannot be read of it counts as not observed.
pub fn of_plan(spec: &Spec, plan: &Plan, campaign: &Utf8Path) -> HashMap<PointId, CheckpointSpace> {
    let points = plan.points.iter().cloned();
    of_points(
        spec,
        points
            .filter(|p| p.point.checkpointer.is_driven())
            .collect(),
        campaign,
        |_| true,
    )
}

/// Returns the memory that all processes of each point need together: what an image of them without compression would hold, whether one is taken or
/// not.
pub fn memory_of_plan(
    spec: &Spec,
    plan: &Plan,
    campaign: &Utf8Path,
) -> HashMap<PointId, CheckpointSpace> {
    let uncompressed = |planned: &PlannedPoint| PlannedPoint {
        point: Point {
            compression: Compression::None,
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

/// The space of a checkpoint of each point; `counts` says of which points what their own runs stored is the answer.
fn of_points(
    spec: &Spec,
    points: Vec<PlannedPoint>,
    campaign: &Utf8Path,
    counts: impl Fn(&PointId) -> bool,
) -> HashMap<PointId, CheckpointSpace> {
    if points.is_empty() {
        return HashMap::new();
    }
    let (own, observed) = observed(campaign);
    let mut spaces: HashMap<PointId, CheckpointSpace> = HashMap::new();
    for planned in &points {
        if let Some(most) = own.get(planned.id.as_str()).filter(|_| counts(&planned.id)) {
            let bytes = (most * OF_OWN_RUNS).ceil() as u64;
            spaces.insert(
                planned.id.clone(),
                CheckpointSpace {
                    bytes,
                    basis: SpaceBasis::OwnRuns,
                    is_whole: true,
                },
            );
        }
    }
    let table = predict::parse(Utf8Path::new("nas-sizes.csv"), TABLE).unwrap_or_default();
    // nobody knows which of the environments of earlier runs the next ones have: the largest answer of all counts
    let observed = predict::by_environment(observed)
        .into_iter()
        .map(|group| -> (_, _, Answer) { (group, SpaceBasis::Campaign, from_campaign) });
    let sources = observed.chain([(table, SpaceBasis::Table, from_table as Answer)]);
    // without any, only sizes of earlier versions of DMTCP would be left
    for (observations, basis, answer) in
        sources.filter(|(observations, ..)| !observations.is_empty())
    {
        cvc_model::split(
            observations,
            |_| true,
            |training, _| {
                // the upper ends of many parts, each widened for any program, would add up to far more than is stored: runs of other programs
                // have a margin of their own
                let widened = if basis == SpaceBasis::Table {
                    Calibration::default()
                } else {
                    Calibration::embedded()
                };
                let Ok(predictor) = Predictor::train_with(&training, widened) else {
                    return;
                };
                for planned in &points {
                    // of one basis the largest
                    if spaces
                        .get(&planned.id)
                        .is_some_and(|known| known.basis != basis)
                    {
                        continue;
                    }
                    if let Some((mib, is_whole)) = answer(spec, &planned.point, &predictor) {
                        let space = CheckpointSpace {
                            bytes: (mib * MIB).ceil() as u64,
                            basis,
                            is_whole,
                        };
                        let known = spaces.entry(planned.id.clone()).or_insert(space);
                        known.bytes = known.bytes.max(space.bytes);
                    }
                }
            },
        );
    }
    spaces
}

/// The most that runs of each point stored, bytes, and what was observed at all points.
fn observed(campaign: &Utf8Path) -> (HashMap<String, f64>, Vec<Observation>) {
    let Some(index) = index(campaign) else {
        return (HashMap::new(), Vec::new());
    };
    let stored = index
        .summaries()
        .unwrap_or_default()
        .into_iter()
        .filter(|s| s.quantity == names::CKPT_STORED_BYTES);
    let observations = predict::from_index(&index, campaign.as_str()).unwrap_or_default();
    (
        stored.map(|s| (s.point, s.summary.max)).collect(),
        observations
            .into_iter()
            .filter(|o| !o.quantities.is_empty())
            .collect(),
    )
}

/// The index of a campaign: the one of its last report if nothing was run since.
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
        .or_else(|| Index::apart(campaign).ok())
}

/// The question whose answer is the checkpoint of a point.
fn question(spec: &Spec, point: &Point, compression: Compression) -> Option<Question> {
    let library = spec.sites.get(&point.site)?.mpi.get(&point.mpi)?;
    let of_family = match library.family {
        MpiFamily::OpenMpi => MpiKind::OpenMpi,
        // the larger of the two
        MpiFamily::Mpich => MpiKind::Nemesis,
    };
    let mpi = mpi_kind_of_name(&point.mpi)
        .filter(|kind| (*kind == MpiKind::OpenMpi) == (of_family == MpiKind::OpenMpi))
        .unwrap_or(of_family);
    let setting = RunSetting {
        compression,
        ..RunSetting::of_point(point, mpi)
    };
    let collective = spec
        .apps
        .get(&point.app)
        .is_some_and(|app| app.descriptor.io.collective);
    Some(Question {
        setting,
        collective,
        taken_as: None,
    })
}

/// MiB that the campaign's other points predict, with compression as it was observed or without any.
fn from_campaign(spec: &Spec, point: &Point, predictor: &Predictor<'_>) -> Option<(f64, bool)> {
    [point.compression, Compression::None]
        .into_iter()
        .find_map(|compression| {
            let forecasts = predictor.forecast(&question(spec, point, compression)?);
            Some((upper_end(forecasts.first(Quantity::Stored)?.estimate), true))
        })
}

/// MiB by runs of the NAS benchmarks, and whether the data of the program are in them.
fn from_table(spec: &Spec, point: &Point, predictor: &Predictor<'_>) -> Option<(f64, bool)> {
    let workload = spec
        .apps
        .get(&point.app)
        .and_then(|app| app.descriptor.workloads.get(&point.class));
    let declared = workload.and_then(|w| w.data_mib);
    let mut question = question(spec, point, Compression::None)?;
    // libraries are told apart by their kind; those of the newer MPICH are not in the table
    if question.setting.mpi == MpiKind::Mpich {
        question.setting.mpi = MpiKind::Nemesis;
    }
    let forecasts = predictor.forecast(&question);
    if let Some(stored) = forecasts.first(Quantity::Stored) {
        // the runs were on one node
        let over_nodes = if question.setting.mapping.nodes() > 1 {
            WITHOUT_INTERVAL
        } else {
            1.0
        };
        return Some((
            upper_end(stored.estimate) * OF_OTHER_PROGRAMS * over_nodes,
            true,
        ));
    }
    let rest = without_data(&question, &forecasts)?;
    let data = declared.map(|mib| mib + OWN_MIB * f64::from(point.processes()));
    Some((
        (rest + data.unwrap_or(0.0)) * OF_OTHER_PROGRAMS,
        declared.is_some(),
    ))
}

/// Everything but the application's data, MiB.
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
    Some(ranks + surplus + first(Quantity::Launchers)? + first(Quantity::Aux)?)
}

fn upper_end(estimate: Estimate) -> f64 {
    estimate
        .interval
        .map_or(estimate.value * WITHOUT_INTERVAL, |interval| interval.high)
}
