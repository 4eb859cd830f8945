//! Storage profiles: bandwidths of storage, measured once and saved with their date, so that later models are estimated without a run.

use super::{
    by_size::{SizeLaws, on_line},
    place::{RunEnd, TrialPlace, TrialRuns},
    row::{CLASS, DeviceRate, PhaseTime, Printed, ReplayTime, Row},
};
use crate::{
    args::EstimateArgs, command::phases::failed, exit_status::ExitStatus, failure::Failure, output,
};
use camino::Utf8Path;
use cvc_core::app::replay::{ReplayWorkload, of_model};
use cvc_core::mapping::Mapping;
use cvc_core::units::{MIB, counted, size};
use cvc_model::io_phase::time_s;
use cvc_trace::phases::{
    AccessKind, IoModel, PhaseFamily, ReplayOptions, StorageCell, storage_model,
};
use jiff::Zoned;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs};

const FORMAT: &str = "cvc-storage";
const VERSION: u32 = 1;
/// Replay options that include every phase once.
const ALL: ReplayOptions = ReplayOptions {
    only_relevant: false,
    most_phases: None,
    think: 0.0,
};

/// A storage profile, a JSON document.
#[derive(Serialize, Deserialize)]
pub struct StorageProfile {
    format: String,
    schema: u32,
    measured: Vec<MeasuredStorage>,
}

/// Measurements of a storage area with an MPI library on one date.
#[derive(Serialize, Deserialize)]
struct MeasuredStorage {
    site: String,
    mpi: String,
    storage: String,
    mapping: String,
    processes: u32,
    /// Whether the times include flushing the written data to disk.
    sync: bool,
    date: String,
    /// Rates of direct writes and reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<DeviceRate>,
    rates: Vec<MeasuredRate>,
}

#[derive(Serialize, Deserialize)]
struct MeasuredRate {
    kind: AccessKind,
    op: String,
    request_bytes: u64,
    /// Mean over repetitions, summed over all processes, MiB/s.
    mib_s: f64,
}

impl StorageProfile {
    /// Reads a profile; a file that does not exist gives an empty one.
    fn read(path: &Utf8Path) -> Result<Self, Failure> {
        let unreadable = |problem: String| Failure::Other {
            status: ExitStatus::Unreadable,
            message: format!("{path}: {problem}"),
            hint: Some("`cvc estimate --measure FILE` writes it".into()),
        };
        if !path.exists() {
            return Ok(Self {
                format: FORMAT.to_owned(),
                schema: VERSION,
                measured: Vec::new(),
            });
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let found: Self =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if found.format != FORMAT || found.schema != VERSION {
            return Err(unreadable("no measured storage of this version".into()));
        }
        Ok(found)
    }

    /// Reads a profile that has measurements.
    pub fn read_measured(path: &Utf8Path) -> Result<Self, Failure> {
        let profile = Self::read(path)?;
        if profile.measured.is_empty() {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{path} has no measured storage"),
                hint: Some(format!(
                    "`cvc estimate --measure {path} CAMPAIGN` measures it"
                )),
            });
        }
        Ok(profile)
    }

    /// Returns the times of calls at a place (site, library, storage area).
    pub fn laws(&self, row: &Row, sync: bool) -> SizeLaws {
        let place = (&row.site, &row.mpi, &row.storage);
        let all = self.measured.iter();
        let here = all.filter(|of| (&of.site, &of.mpi, &of.storage) == place && of.sync == sync);
        size_laws(here)
    }

    fn add(&mut self, new: MeasuredStorage) {
        let key = |of: &MeasuredStorage| {
            let names = (of.site.clone(), of.mpi.clone(), of.storage.clone());
            (names, of.mapping.clone(), of.sync)
        };
        self.measured.retain(|known| key(known) != key(&new));
        self.measured.push(new);
    }
}

impl MeasuredStorage {
    fn of(
        place: &TrialPlace<'_>,
        (mapping, sync): (&Mapping, bool),
        cells: &[StorageCell],
        printed: &Printed,
    ) -> Self {
        let rates = printed.phases.iter().filter_map(|(number, _, bytes, all)| {
            let cell = cells.get(usize::try_from(*number).ok()?.checked_sub(1)?)?;
            let mean_s = all.iter().sum::<f64>() / all.len() as f64;
            let mib_s = *bytes as f64 / MIB / mean_s;
            let rate = MeasuredRate {
                kind: cell.kind,
                op: if cell.is_write { "write" } else { "read" }.to_owned(),
                request_bytes: cell.request_bytes,
                mib_s,
            };
            mib_s.is_finite().then_some(rate)
        });
        Self {
            site: place.name.to_owned(),
            mpi: place.mpi.to_owned(),
            storage: place.storage.to_owned(),
            mapping: mapping.to_string(),
            processes: mapping.processes(),
            sync,
            date: Zoned::now().date().to_string(),
            device: printed.device,
            rates: rates.collect(),
        }
    }

    /// Returns pairs of the size of a call, MiB, and its time, seconds.
    fn call_times(&self, kind: AccessKind, op: &str) -> Vec<(f64, f64)> {
        let rates = self.rates.iter();
        let of_kind = rates.filter(|rate| rate.kind == kind && rate.op == op);
        let time = |rate: &MeasuredRate| {
            let mib = rate.request_bytes as f64 / MIB;
            (mib, mib * f64::from(self.processes) / rate.mib_s)
        };
        of_kind.map(time).collect()
    }

    /// Returns the bandwidth for requests of this size, MiB/s. It is interpolated linearly in logarithms; beyond the measured sizes it is the
    /// bandwidth of the nearest size.
    fn rate(&self, kind: AccessKind, op: &str, request_bytes: f64) -> Option<f64> {
        let rates = self.rates.iter();
        let of_kind = rates.filter(|rate| rate.kind == kind && rate.op == op);
        let points = of_kind.map(|rate| (rate.request_bytes as f64, rate.mib_s));
        on_line(points.collect(), request_bytes)
    }
}

/// Measures the storage at each place of a campaign (site, library, storage area), and saves the results.
pub async fn measure(
    args: &EstimateArgs,
    runs: &TrialRuns<'_>,
    path: &Utf8Path,
) -> Result<ExitStatus, Failure> {
    let mut profile = StorageProfile::read(path)?;
    let (model, cells) = storage_model(runs.mapping.processes());
    let workload = ReplayWorkload {
        name: CLASS,
        options: ALL,
        repeats: args.repeats,
        sync: args.sync,
        device: true,
    };
    let mut measured = 0_usize;
    for place in runs.places(args) {
        let app = of_model("replay", path.as_std_path(), &model, &[workload]);
        let app = app.map_err(failed)?;
        let name = format!("{} in {} of {}", place.mpi, place.storage, place.name);
        match runs.run(&place, (app, CLASS), Printed::of).await {
            RunEnd::Printed(printed) => {
                let of = (&runs.mapping, args.sync);
                profile.add(MeasuredStorage::of(&place, of, &cells, &printed));
                measured += 1;
            }
            RunEnd::Failed(problem) => output::note(format_args!("{name}: {problem}")),
            RunEnd::Interrupted => return Ok(ExitStatus::Interrupted),
        }
    }
    if measured == 0 {
        return Ok(ExitStatus::Installation);
    }
    let text = serde_json::to_string_pretty(&profile).unwrap_or_default() + "\n";
    fs::write(path, text).map_err(|error| Failure::Other {
        status: ExitStatus::Host,
        message: format!("cannot write {path}: {error}"),
        hint: None,
    })?;
    output::emit(format_args!(
        "{path}: {} measured with {}",
        counted(measured, "storage area"),
        counted(runs.mapping.processes(), "process")
    ));
    Ok(ExitStatus::Done)
}

/// Estimates the phases of a model for all places of a profile without a run. Also returns remarks about the assumptions.
pub fn interpolated(
    args: &EstimateArgs,
    model: &IoModel,
    path: &Utf8Path,
) -> Result<(Vec<Row>, Vec<String>), Failure> {
    let profile = StorageProfile::read(path)?;
    let wanted = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|a| a == name);
    let fits = |of: &&MeasuredStorage| {
        wanted(&args.site, &of.site)
            && wanted(&args.mpi, &of.mpi)
            && wanted(&args.storage, &of.storage)
            && of.sync == args.sync
    };
    let mut all: Vec<&MeasuredStorage> = profile.measured.iter().filter(fits).collect();
    let place = |of: &MeasuredStorage| (of.site.clone(), of.mpi.clone(), of.storage.clone());
    all.sort_by_key(|of| place(of));
    if all.is_empty() {
        let sync = if args.sync { " --sync" } else { "" };
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{path} has no measured storage that fits"),
            hint: Some(format!(
                "`cvc estimate --measure {path}{sync} CAMPAIGN` measures it"
            )),
        });
    }
    let mut rows = Vec::new();
    let mut remarks = BTreeSet::new();
    for of_place in all.chunk_by(|a, b| place(a) == place(b)) {
        rows.extend(row(args, model, of_place, &mut remarks));
    }
    Ok((rows, remarks.into_iter().collect()))
}

fn row(
    args: &EstimateArgs,
    model: &IoModel,
    measured: &[&MeasuredStorage],
    remarks: &mut BTreeSet<String>,
) -> Option<Row> {
    let first = measured.first()?;
    let options = args.options.options();
    let families = model.phases.iter().filter(|f| options.phases_of(f) > 0);
    let times: Option<Vec<PhaseTime>> = families
        .map(|family| {
            let time = ReplayTime::of(&[seconds(model, family, measured, remarks)?])?;
            Some(PhaseTime::of(
                family.first,
                family.count,
                family.weight_bytes,
                time,
            ))
        })
        .collect();
    let phases = times.unwrap_or_default();
    let total = phases.iter().map(|of| of.each.mean_s * f64::from(of.count));
    let total: f64 = total.sum();
    let missing = "not every kind of access was measured".to_owned();
    let mut row = Row {
        io: ReplayTime::of(&[total]).filter(|_| !phases.is_empty()),
        problem: phases.is_empty().then_some(missing),
        phases,
        device: nearest(measured, model.processes).and_then(|of| of.device),
        measured_on: measured.iter().map(|of| of.date.clone()).min(),
        ..Row::of(&first.site, &first.mpi, &first.storage)
    };
    row.take_by_size(model, &size_laws(measured.iter().copied()));
    Some(row)
}

/// Returns the time of each kind of call by its size.
fn size_laws<'m>(measured: impl Iterator<Item = &'m MeasuredStorage>) -> SizeLaws {
    let mut laws = SizeLaws::default();
    for of in measured {
        for kind in AccessKind::ALL {
            for op in ["write", "read"] {
                laws.add(kind, op, of.processes, &of.call_times(kind, op));
            }
        }
    }
    laws
}

/// Returns the measurement with the number of processes that is closest.
fn nearest<'m>(measured: &[&'m MeasuredStorage], processes: u32) -> Option<&'m MeasuredStorage> {
    let all = measured.iter().copied();
    all.min_by_key(|of| of.processes.abs_diff(processes))
}

/// Estimates the time of a phase, seconds.
fn seconds(
    model: &IoModel,
    family: &PhaseFamily,
    measured: &[&MeasuredStorage],
    remarks: &mut BTreeSet<String>,
) -> Option<f64> {
    let mut parts = Vec::new();
    for part in &family.loops {
        for op in part.ops.iter().filter(|op| op.op != "sync") {
            let ranks = op.ranks.list(model.processes).len();
            let each = (0..ranks).map(|i| op.request_bytes.get(i).max(0) as f64);
            let bytes = each.sum::<f64>() * (op.calls() * part.rounds) as f64;
            let request = bytes / (op.calls() * part.rounds) as f64 / ranks as f64;
            let kind = AccessKind::of(model.files.get(op.file)?, op);
            let at = |of: &&MeasuredStorage| {
                Some((f64::from(of.processes), of.rate(kind, &op.op, request)?))
            };
            let points: Vec<(f64, f64)> = measured.iter().filter_map(at).collect();
            let rate = of_processes(points, ranks, remarks)?;
            remark_on_ends(measured, request, remarks);
            parts.push((bytes / MIB, rate));
        }
    }
    time_s(&parts).ok()
}

/// Returns the bandwidth for a number of processes, interpolated between measured numbers.
fn of_processes(
    points: Vec<(f64, f64)>,
    processes: usize,
    remarks: &mut BTreeSet<String>,
) -> Option<f64> {
    let is_within = points.iter().any(|(p, _)| *p <= processes as f64)
        && points.iter().any(|(p, _)| *p >= processes as f64);
    if !is_within {
        remarks.insert(format!(
            "storage was not measured with {} or more and fewer: the nearest number is taken",
            counted(processes, "process")
        ));
    }
    match points.as_slice() {
        [(_, only)] => Some(*only),
        _ => on_line(points, processes as f64),
    }
}

fn remark_on_ends(measured: &[&MeasuredStorage], request: f64, remarks: &mut BTreeSet<String>) {
    let sizes = || {
        let rates = measured.iter().flat_map(|of| &of.rates);
        rates.map(|rate| rate.request_bytes as f64)
    };
    let (low, high) = (
        sizes().fold(f64::MAX, f64::min),
        sizes().fold(0.0, f64::max),
    );
    if request < low || request > high {
        let (low, high) = (size(low), size(high));
        remarks.insert(format!(
            "requests were measured from {low} to {high}; others are taken as those at the end"
        ));
    }
}
