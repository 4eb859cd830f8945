//! Times of phases at a place (site, library, storage area), parsed from the output of a replay.

use super::{
    by_size::{SizeLaw, SizeLaws},
    ior::IorTimes,
};
use cvc_core::units::{MIB, dollars};
use cvc_model::io_phase::{error_on_time_pct, time_s};
use cvc_model::stats::Summary;
use cvc_session::Trial;
use cvc_trace::phases::{IoModel, PhaseFamily};
use serde::{Deserialize, Serialize};

/// The workload class of replays.
pub const CLASS: &str = "model";

/// Mean time over repetitions of the replay.
#[derive(Serialize)]
pub struct ReplayTime {
    pub mean_s: f64,
    /// Lower end of the 95 % interval; `None` for a single repetition.
    pub low_s: Option<f64>,
    pub high_s: Option<f64>,
}

impl ReplayTime {
    pub fn of(values: &[f64]) -> Option<Self> {
        let summary = Summary::of(values)?;
        Some(Self {
            mean_s: summary.mean,
            low_s: summary.interval.map(|ends| ends.low.max(0.0)),
            high_s: summary.interval.map(|ends| ends.high),
        })
    }

    /// Returns the time with a further time that has no error.
    pub fn plus(&self, seconds: f64) -> Self {
        Self {
            mean_s: self.mean_s + seconds,
            low_s: self.low_s.map(|low| low + seconds),
            high_s: self.high_s.map(|high| high + seconds),
        }
    }

    pub fn text(&self) -> String {
        match (self.low_s, self.high_s) {
            (Some(low), Some(high)) => {
                format!("{:.3} s ({low:.3} to {high:.3})", self.mean_s)
            }
            _ => format!("{:.3} s", self.mean_s),
        }
    }
}

/// Rates of direct writes and reads, without the page cache, of all processes together, MiB/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRate {
    pub write_mib_s: f64,
    pub read_mib_s: f64,
}

impl DeviceRate {
    /// Returns the time of the device for a phase, seconds.
    fn seconds(self, family: &PhaseFamily, processes: u32) -> Option<f64> {
        let written = family.bytes_written(processes).min(family.weight_bytes);
        let read = family.weight_bytes - written;
        let parts = [(written, self.write_mib_s), (read, self.read_mib_s)];
        time_s(&parts.map(|(bytes, rate)| (bytes as f64 / MIB, rate))).ok()
    }
}

/// Estimated time of one phase of a family of similar phases.
#[derive(Serialize)]
pub struct PhaseTime {
    pub first: u32,
    pub count: u32,
    pub bytes: u64,
    pub each: ReplayTime,
    /// Time of one phase in the traced run, seconds.
    pub traced_s: f64,
    /// |estimated - traced| / traced, percent.
    pub error_pct: Option<f64>,
    /// Bandwidth of all processes, MiB/s; `None` for a phase that only syncs.
    pub mib_s: Option<f64>,
    /// Bandwidth relative to direct writes and reads, percent; above 100 where caches hold the data.
    pub device_pct: Option<f64>,
    /// Time from the times of calls by size, seconds; `None` without measured storage.
    pub by_size_s: Option<f64>,
    /// Time by IOR with the published rule, seconds; `None` without IOR, and for a phase that only syncs.
    pub ior_s: Option<f64>,
}

impl PhaseTime {
    pub fn of(first: u32, count: u32, bytes: u64, each: ReplayTime) -> Self {
        let rate = bytes as f64 / MIB / each.mean_s;
        Self {
            first,
            count,
            bytes,
            mib_s: (bytes > 0 && rate.is_finite()).then_some(rate),
            each,
            traced_s: 0.0,
            error_pct: None,
            device_pct: None,
            by_size_s: None,
            ior_s: None,
        }
    }

    /// Adds the traced time, and the share of the device.
    pub fn compare(&mut self, model: &IoModel, device: Option<DeviceRate>) {
        let Some(traced) = model.phases.iter().find(|f| f.first == self.first) else {
            return;
        };
        self.traced_s = traced.io_s;
        self.error_pct = error_on_time_pct(self.each.mean_s, self.traced_s).ok();
        let of_device = || device?.seconds(traced, model.processes);
        self.device_pct = self
            .mib_s
            .and(of_device())
            .map(|s| 100.0 * s / self.each.mean_s);
    }
}

#[derive(Serialize)]
pub struct Row {
    pub site: String,
    pub mpi: String,
    pub storage: String,
    /// I/O time of all replayed phases, each counted as often as it occurs in the program.
    pub io: Option<ReplayTime>,
    /// [`Self::io`] of each repetition, seconds; empty if it is interpolated.
    pub repeats_s: Vec<f64>,
    /// Time of the whole run, with computation; `None` if the model is not from a run.
    pub run: Option<ReplayTime>,
    /// Price of all nodes, US dollars per hour; `None` if it is unknown.
    pub usd_per_hour: Option<f64>,
    /// Source of the price.
    pub price: Option<String>,
    /// Cost of the whole run, US dollars.
    pub usd: Option<f64>,
    pub phases: Vec<PhaseTime>,
    /// Time that the replay took in total, seconds.
    pub replay_s: Option<f64>,
    /// Why there is no estimate.
    pub problem: Option<String>,
    /// I/O time of all replayed phases by IOR with the published rule, seconds.
    pub ior_s: Option<f64>,
    /// Why IOR gave no time.
    pub ior_problem: Option<String>,
    /// I/O time of all replayed phases from the times of calls by size, seconds.
    pub by_size_s: Option<f64>,
    /// |by size - replayed| / replayed, percent; `None` without a replay.
    pub by_size_error_pct: Option<f64>,
    /// The times of calls by size.
    pub laws: Vec<SizeLaw>,
    /// Why there are none.
    pub by_size_problem: Option<String>,
    /// Rates of direct writes and reads.
    pub device: Option<DeviceRate>,
    /// Why they were not measured.
    pub device_problem: Option<String>,
    /// Date of the storage profile, if the times are interpolated from one.
    pub measured_on: Option<String>,
}

/// Returns the number between two parts of a line, and the rest of the line.
fn between<'t>(line: &'t str, before: &str, after: &str) -> Option<(f64, &'t str)> {
    let (number, rest) = line.split_once(before)?.1.split_once(after)?;
    Some((number.parse().ok()?, rest))
}

/// Times parsed from the output of a replay.
pub struct Printed {
    pub totals: Vec<f64>,
    /// For each family: its first phase, the number of its phases, bytes, and seconds of each repetition.
    pub phases: Vec<(u32, u32, u64, Vec<f64>)>,
    pub wall_s: Option<f64>,
    pub device: Option<DeviceRate>,
    pub device_problem: Option<String>,
}

impl Printed {
    pub fn of(trial: &Trial) -> Self {
        let mut printed = Self {
            totals: Vec::new(),
            phases: Vec::new(),
            wall_s: trial.records().value("wall_s"),
            device: None,
            device_problem: None,
        };
        for line in trial.text("stdout").lines() {
            if let Some((total, _)) = between(line, ": ", " s of I/O") {
                printed.totals.push(total);
            }
            if let Some(problem) = line.strip_prefix("Device: not measured, ") {
                printed.device_problem = Some(problem.to_owned());
            }
            let device = || {
                let (write_mib_s, rest) = between(line, "Device: write ", " MiB/s, ")?;
                let (read_mib_s, _) = between(rest, "read ", " MiB/s")?;
                Some(DeviceRate {
                    write_mib_s,
                    read_mib_s,
                })
            };
            printed.device = printed.device.or_else(device);
            let phase = || {
                let (number, rest) = between(line, ": phase ", ": ")?;
                let (seconds, rest) = rest.split_once(" s for each of ")?;
                let (count, size) = rest.split_once(", ")?;
                let bytes = size.split_once(" bytes")?.0.parse().ok()?;
                Some((
                    number as u32,
                    seconds.parse().ok()?,
                    count.parse().ok()?,
                    bytes,
                ))
            };
            if let Some((number, seconds, count, bytes)) = phase() {
                let mut known = printed.phases.iter_mut();
                match known.find(|(known, ..)| *known == number) {
                    Some((.., all)) => all.push(seconds),
                    None => printed.phases.push((number, count, bytes, vec![seconds])),
                }
            }
        }
        printed
    }
}

impl Row {
    pub fn of(site: &str, mpi: &str, storage: &str) -> Self {
        Self {
            site: site.to_owned(),
            mpi: mpi.to_owned(),
            storage: storage.to_owned(),
            io: None,
            repeats_s: Vec::new(),
            run: None,
            usd_per_hour: None,
            price: None,
            usd: None,
            phases: Vec::new(),
            replay_s: None,
            problem: None,
            ior_s: None,
            ior_problem: None,
            by_size_s: None,
            by_size_error_pct: None,
            laws: Vec::new(),
            by_size_problem: None,
            device: None,
            device_problem: None,
            measured_on: None,
        }
    }

    /// Describes the price of the site's nodes.
    pub fn priced(&self) -> Option<String> {
        let (usd, source) = self.usd_per_hour.zip(self.price.as_ref())?;
        let usd = dollars(usd);
        Some(format!("{}: {usd} an hour ({source})", self.site))
    }

    pub fn take(&mut self, printed: Printed) {
        self.io = ReplayTime::of(&printed.totals);
        self.repeats_s = printed.totals;
        self.replay_s = printed.wall_s;
        self.device = printed.device;
        self.device_problem = printed.device_problem;
        let phase = |(first, count, bytes, all): (u32, u32, u64, Vec<f64>)| {
            Some(PhaseTime::of(first, count, bytes, ReplayTime::of(&all)?))
        };
        self.phases = printed.phases.into_iter().filter_map(phase).collect();
        if self.io.is_none() {
            self.problem = Some("the replay printed no time".to_owned());
        }
    }

    /// Adds the times from measured storage, by size of calls.
    pub fn take_by_size(&mut self, model: &IoModel, laws: &SizeLaws) {
        let mut all = Some(0.0);
        for phase in &mut self.phases {
            let family = model.phases.iter().find(|f| f.first == phase.first);
            phase.by_size_s = family.and_then(|family| laws.phase_s(model, family));
            let of_all = phase.by_size_s.map(|s| s * f64::from(phase.count));
            all = all.zip(of_all).map(|(all, of)| all + of);
        }
        self.laws = laws.used(model);
        self.by_size_s = all.filter(|_| !self.phases.is_empty());
        if self.by_size_s.is_none() && self.io.is_some() {
            let problem = match laws.is_empty() {
                true => "this place was not measured; `cvc estimate --measure` does it",
                false => "not every kind of call was measured with two sizes",
            };
            self.by_size_problem = Some(problem.to_owned());
        }
        let replayed = self.io.as_ref().filter(|_| !self.repeats_s.is_empty());
        self.by_size_error_pct = self
            .by_size_s
            .zip(replayed)
            .and_then(|(s, io)| error_on_time_pct(s, io.mean_s).ok());
    }

    pub fn take_ior(&mut self, times: &IorTimes) {
        let mut all = 0.0;
        for phase in &mut self.phases {
            let of = times.iter().find(|(first, _)| *first == phase.first);
            phase.ior_s = of.map(|(_, seconds)| *seconds);
            all += phase.ior_s.unwrap_or(0.0) * f64::from(phase.count);
        }
        self.ior_s = Some(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_trace::phases::storage_model;

    #[test]
    fn a_phase_as_fast_as_the_device_reaches_all_of_it() {
        let (model, _) = storage_model(4);
        let device = DeviceRate {
            write_mib_s: 8.0,
            read_mib_s: 2.0,
        };
        // the first phase writes 4 MiB, the second reads them
        for (i, seconds) in [(0, 0.5), (1, 2.0)] {
            let family = &model.phases[i];
            let time = ReplayTime::of(&[seconds]).expect("a time");
            let mut phase = PhaseTime::of(family.first, 1, family.weight_bytes, time);
            phase.compare(&model, Some(device));
            assert_eq!(phase.mib_s, Some(4.0 / seconds));
            assert_eq!(phase.device_pct, Some(100.0));
            phase.compare(&model, None);
            assert_eq!(phase.device_pct, None);
        }
    }
}
