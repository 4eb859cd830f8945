//! The expected time of a run with failures if its checkpoints and restarts have different durations.

use super::storing::{StoredState, as_document, stored_states};
use crate::{
    check::{not_negative, positive},
    fit::FitError,
    schedule::WithFailures,
};
use cvc_delta_rules::Method;
use serde::Serialize;

/// Returns the expected time in seconds of a run with failures, with its parts. A run is a sequence of segments, each given as (seconds of
/// computing, seconds of the checkpoint at its end, seconds of a restart from the checkpoint before it).
///
/// A segment takes M·e^(R/M)·(e^((τ + t)/M) − 1). [`crate::schedule::with_failures`] is the special case of equal segments. The result is infinite
/// if it overflows.
///
/// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006. His complete expected time is a sum over
/// segments that are independent of each other.
///
/// # Errors
/// The mean time between failures is not positive, or another time is negative.
pub fn with_failures_of(
    stretches: impl IntoIterator<Item = (f64, f64, f64)>,
    mtbf_s: f64,
) -> Result<WithFailures, FitError> {
    let m = positive("the mean time between failures", mtbf_s)?;
    let mut run = WithFailures {
        total_s: 0.0,
        failures: 0.0,
        checkpoints_s: 0.0,
        rework_s: 0.0,
        restarts_s: 0.0,
    };
    let mut app_s = 0.0;
    for (work_s, ckpt_s, restart_s) in stretches {
        let work = not_negative("the run time", work_s)?;
        let t = not_negative("the time of a checkpoint", ckpt_s)?;
        let r = not_negative("the time of a restart", restart_s)?;
        let stretch_s = m * (r / m).exp() * ((work + t) / m).exp_m1();
        run.total_s += stretch_s;
        run.restarts_s += stretch_s * -(-r / m).exp_m1();
        run.checkpoints_s += t;
        app_s += work;
    }
    run.failures = run.total_s / m;
    // rounding may make the difference negative
    run.rework_s = (run.total_s - app_s - run.checkpoints_s - run.restarts_s).max(0.0);
    Ok(run)
}

/// Effect and speed of a codec. A ratio is the length of files divided by the size of the blocks in them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Packing {
    /// Ratio for a full checkpoint. It is below 1 even without a codec if identical blocks are stored once.
    pub full_ratio: f64,
    /// Ratio for changed blocks.
    pub delta_ratio: f64,
    /// MiB of blocks compressed per second, without writing; `None` if compression takes no time.
    pub pack_mib_s: Option<f64>,
    /// MiB of blocks uncompressed per second, without reading; `None` if this takes no time.
    pub unpack_mib_s: Option<f64>,
}

impl Packing {
    /// Blocks are stored uncompressed.
    pub const NONE: Self = Self {
        full_ratio: 1.0,
        delta_ratio: 1.0,
        pack_mib_s: None,
        unpack_mib_s: None,
    };

    fn check(&self) -> Result<(), FitError> {
        positive("the compressed part of a state", self.full_ratio)?;
        positive("the compressed part of changed blocks", self.delta_ratio)?;
        if let Some(rate) = self.pack_mib_s {
            positive("the rate of compression", rate)?;
        }
        if let Some(rate) = self.unpack_mib_s {
            positive("the rate of decompression", rate)?;
        }
        Ok(())
    }

    /// Returns the MiB in the files that a restore reads: a full checkpoint of `full_mib`, and the changed blocks.
    fn read_mib(&self, restore_mib: f64, full_mib: f64) -> f64 {
        self.full_ratio * full_mib + self.delta_ratio * (restore_mib - full_mib).max(0.0)
    }
}

/// Returns the seconds for a volume at a rate; 0 without a rate.
fn seconds(mib: f64, mib_s: Option<f64>) -> f64 {
    mib_s.map_or(0.0, |rate| mib / rate)
}

/// Costs of storing and restoring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaCosts {
    /// c0: seconds of a checkpoint that do not depend on its size.
    pub start_s: f64,
    /// B: MiB written per second.
    pub write_mib_s: f64,
    /// MiB per second at which a checkpoint is compared with its base; `None` if the program continues during the comparison.
    pub search_mib_s: Option<f64>,
    /// Seconds of a restart that do not depend on its size.
    pub restart_s: f64,
    /// MiB read per second.
    pub read_mib_s: f64,
    /// Seconds for each file of a chain, in addition to the time for its bytes.
    pub file_s: f64,
    /// Compression of blocks before they are written.
    pub packing: Packing,
}

impl DeltaCosts {
    fn check(&self) -> Result<(), FitError> {
        not_negative("the start of a checkpoint", self.start_s)?;
        positive("the rate of writing", self.write_mib_s)?;
        if let Some(rate) = self.search_mib_s {
            positive("the rate of the search", rate)?;
        }
        not_negative("the time of a restart", self.restart_s)?;
        positive("the rate of reading", self.read_mib_s)?;
        not_negative("the time of a file", self.file_s)?;
        self.packing.check()
    }
}

/// Prices of machines and storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Prices {
    /// Dollars per hour for all machines of the run.
    pub dollars_per_hour: f64,
    /// Dollars per GiB and month of storage.
    pub dollars_per_gib_month: f64,
}

/// A run with checkpoints of one method at one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaRun {
    /// The method.
    #[serde(rename = "storing", serialize_with = "as_document")]
    pub method: Method,
    /// Computing time between two checkpoints, seconds.
    pub interval_s: f64,
    /// Number of checkpoints of the run.
    pub checkpoints: usize,
    /// Mean MiB written for a checkpoint after the first, which is stored in full.
    pub ckpt_mib: f64,
    /// Mean seconds of a checkpoint after the first.
    pub ckpt_s: f64,
    /// MiB of all checkpoints of the run.
    pub stored_mib: f64,
    /// MiB stored per hour of the run.
    pub stored_mib_per_hour: f64,
    /// Number of files in the longest chain that a restart reads.
    pub files: u32,
    /// Maximum computing time between a checkpoint and its base, seconds. The base is the earlier checkpoint relative to which changes are stored.
    pub reach_s: f64,
    /// Seconds of the longest restart.
    pub restart_s: f64,
    /// Expected duration of the run, seconds.
    pub total_s: f64,
    /// Fraction of the expected duration that is not the program's own time, 0 to 1.
    pub lost: f64,
    /// Expected number of failures during the run.
    pub failures: f64,
    /// Expected seconds of completed checkpoints.
    pub checkpoints_s: f64,
    /// Expected seconds of lost work.
    pub rework_s: f64,
    /// Expected seconds of restarts.
    pub restarts_s: f64,
    /// Expected dollars for the machines during the run.
    pub run_dollars: f64,
    /// Dollars per month if all checkpoints of the run are kept.
    pub dollars_per_month: f64,
}

/// A program, its machine, and the costs of its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaJob {
    /// Seconds of the program without checkpoints and failures.
    pub app_s: f64,
    /// Mean seconds between failures of the whole job.
    pub mtbf_s: f64,
    /// MiB of a full checkpoint.
    pub full_mib: f64,
    /// Costs of storing and restoring.
    pub costs: DeltaCosts,
    /// Prices of machines and storage.
    pub prices: Prices,
}

/// Returns the expected result of a run in equal segments, with a checkpoint after each segment except the last. `changed_mib` returns the MiB that
/// change within a number of seconds of computing; the program stops during checkpoints. A restart during the first segment starts from the
/// beginning and reads nothing.
///
/// # Errors
/// Times, rates or sizes are impossible, or there is no segment.
pub fn delta_run(
    method: Method,
    changed_mib: &dyn Fn(f64) -> f64,
    job: &DeltaJob,
    stretches: usize,
) -> Result<DeltaRun, FitError> {
    let DeltaJob { costs, prices, .. } = job;
    costs.check()?;
    let app = positive("the run time", job.app_s)?;
    let full = positive("the size of a checkpoint", job.full_mib)?;
    not_negative("the price of an hour", prices.dollars_per_hour)?;
    not_negative("the price of storage", prices.dollars_per_gib_month)?;
    if stretches == 0 {
        return Err(FitError::BadValue {
            what: "the number of stretches".into(),
            value: 0.0,
            why: "it must be at least 1".into(),
        });
    }
    let interval_s = app / stretches as f64;
    let states = stored_states(
        method,
        |n| changed_mib(n as f64 * interval_s),
        full,
        stretches - 1,
    );
    let search_s = match (method, costs.search_mib_s) {
        (Method::Full, _) | (_, None) => 0.0,
        (_, Some(rate)) => full / rate,
    };
    let packing = costs.packing;
    let written_mib = |state: &StoredState| {
        let ratio = if state.reach == 0 {
            packing.full_ratio
        } else {
            packing.delta_ratio
        };
        ratio * state.stored_mib
    };
    let ckpt_s = |state: &StoredState| {
        costs.start_s
            + search_s
            + seconds(state.stored_mib, packing.pack_mib_s)
            + written_mib(state) / costs.write_mib_s
    };
    let restart_s = |state: &StoredState| {
        costs.restart_s
            + packing.read_mib(state.restore_mib, full) / costs.read_mib_s
            + seconds(state.restore_mib, packing.unpack_mib_s)
            + f64::from(state.files) * costs.file_s
    };
    let run = with_failures_of(
        (0..stretches).map(|i| {
            let checkpoint = states.get(i).map_or(0.0, ckpt_s);
            let before = i.checked_sub(1).and_then(|before| states.get(before));
            let restart = before.map_or(costs.restart_s, restart_s);
            (interval_s, checkpoint, restart)
        }),
        job.mtbf_s,
    )?;
    let later = states.get(1..).unwrap_or_default();
    // an empty sum would be -0
    let stored_mib = states.iter().fold(0.0, |sum, s| sum + written_mib(s));
    let mean = |of: &dyn Fn(&StoredState) -> f64| {
        (!later.is_empty()).then(|| later.iter().map(of).sum::<f64>() / later.len() as f64)
    };
    let in_full = StoredState {
        stored_mib: full,
        restore_mib: full,
        files: 1,
        reach: 0,
        becomes_base: true,
    };
    let ckpt_mib = mean(&written_mib).unwrap_or_else(|| written_mib(&in_full));
    Ok(DeltaRun {
        method,
        interval_s,
        checkpoints: states.len(),
        ckpt_mib,
        ckpt_s: mean(&ckpt_s).unwrap_or_else(|| ckpt_s(&in_full)),
        stored_mib,
        stored_mib_per_hour: stored_mib / (run.total_s / 3600.0),
        files: states.iter().map(|s| s.files).max().unwrap_or(0),
        reach_s: states.iter().map(|s| s.reach).max().unwrap_or(0) as f64 * interval_s,
        restart_s: states.iter().map(restart_s).fold(costs.restart_s, f64::max),
        total_s: run.total_s,
        lost: if run.total_s.is_finite() {
            1.0 - app / run.total_s
        } else {
            1.0
        },
        failures: run.failures,
        checkpoints_s: run.checkpoints_s,
        rework_s: run.rework_s,
        restarts_s: run.restarts_s,
        run_dollars: run.total_s / 3600.0 * prices.dollars_per_hour,
        dollars_per_month: stored_mib / 1024.0 * prices.dollars_per_gib_month,
    })
}

#[cfg(test)]
mod tests {
    use super::{DeltaCosts, DeltaJob, Method, Packing, Prices, delta_run, with_failures_of};
    use crate::{delta::VolumeCurve, schedule::with_failures};

    #[test]
    fn equal_stretches_are_those_of_the_schedule() {
        let (app, t, tau, m, r) = (1000.0, 5.0, 90.0, 300.0, 20.0);
        let expected = with_failures(app, t, tau, m, r).expect("times");
        let stretches = (0..12).map(|i| {
            if i < 11 {
                (tau, t, r)
            } else {
                (app - 11.0 * tau, 0.0, r)
            }
        });
        let found = with_failures_of(stretches, m).expect("times");
        for (a, b) in [
            (expected.total_s, found.total_s),
            (expected.failures, found.failures),
            (expected.checkpoints_s, found.checkpoints_s),
            (expected.rework_s, found.rework_s),
            (expected.restarts_s, found.restarts_s),
        ] {
            assert!((a - b).abs() < 1e-9 * a.max(1.0), "{a} {b}");
        }
    }

    const CURVE: VolumeCurve = VolumeCurve {
        repeated_mib: 100.0,
        time_s: 60.0,
        rate_mib_s: 0.1,
        full_mib: 2000.0,
    };
    const COSTS: DeltaCosts = DeltaCosts {
        start_s: 1.0,
        write_mib_s: 100.0,
        search_mib_s: None,
        restart_s: 10.0,
        read_mib_s: 200.0,
        file_s: 0.5,
        packing: Packing::NONE,
    };

    #[test]
    fn a_chain_makes_checkpoints_short_and_restarts_long() {
        let of = |method| {
            delta_run(
                method,
                &|distance| CURVE.at(distance),
                &DeltaJob {
                    app_s: 36_000.0,
                    mtbf_s: 7200.0,
                    full_mib: CURVE.full_mib,
                    costs: COSTS,
                    prices: Prices {
                        dollars_per_hour: 2.0,
                        dollars_per_gib_month: 0.1,
                    },
                },
                100,
            )
            .expect("a run")
        };
        let (full, incremental) = (of(Method::Full), of(Method::Incremental));
        assert_eq!((full.files, incremental.files), (1, 99));
        assert_eq!(full.ckpt_s, 21.0);
        assert_eq!((full.reach_s, incremental.reach_s), (0.0, 360.0));
        assert_eq!(of(Method::Differential).reach_s, 98.0 * 360.0);
        assert!(incremental.ckpt_s < 3.0 && incremental.restart_s > full.restart_s + 50.0);
        assert!((full.stored_mib - 99.0 * 2000.0).abs() < 1e-6);
        assert!((full.dollars_per_month - 99.0 * 2000.0 / 1024.0 * 0.1).abs() < 1e-6);
        assert!((full.run_dollars - full.total_s / 1800.0).abs() < 1e-6);
        let parts = full.checkpoints_s + full.rework_s + full.restarts_s;
        assert!((full.total_s * full.lost - parts).abs() < 1e-6 * parts);
    }

    #[test]
    fn a_codec_writes_less_and_takes_its_time() {
        let packing = Packing {
            full_ratio: 0.25,
            delta_ratio: 0.5,
            pack_mib_s: Some(400.0),
            unpack_mib_s: Some(1000.0),
        };
        let of = |method, packing| {
            let job = DeltaJob {
                app_s: 36_000.0,
                mtbf_s: 7200.0,
                full_mib: CURVE.full_mib,
                costs: DeltaCosts { packing, ..COSTS },
                prices: Prices::default(),
            };
            delta_run(method, &|distance| CURVE.at(distance), &job, 100).expect("a run")
        };
        // 2000 MiB: 1 s to start, 5 s to compress, 500 MiB at 100 MiB/s
        let full = of(Method::Full, packing);
        assert!((full.ckpt_s - 11.0).abs() < 1e-9, "{full:?}");
        assert!((full.ckpt_mib - 500.0).abs() < 1e-9);
        // 10 s to start, 500 MiB at 200 MiB/s, 2 s to uncompress, and the time for one file
        assert!((full.restart_s - 15.0).abs() < 1e-9, "{full:?}");
        let plain = of(Method::Differential, Packing::NONE);
        let packed = of(Method::Differential, packing);
        assert!((packed.ckpt_mib / plain.ckpt_mib - 0.5).abs() < 1e-9);
        let delta_mib = plain.stored_mib - 2000.0;
        assert!((packed.stored_mib - 500.0 - 0.5 * delta_mib).abs() < 1e-6);
        for bad in [
            Packing {
                delta_ratio: 0.0,
                ..packing
            },
            Packing {
                pack_mib_s: Some(-1.0),
                ..packing
            },
            Packing {
                unpack_mib_s: Some(f64::NAN),
                ..packing
            },
        ] {
            let job = DeltaJob {
                app_s: 1.0,
                mtbf_s: 1.0,
                full_mib: 1.0,
                costs: DeltaCosts {
                    packing: bad,
                    ..COSTS
                },
                prices: Prices::default(),
            };
            assert!(
                delta_run(Method::Full, &|_| 0.0, &job, 1).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let run = |costs: &DeltaCosts, app_s, mtbf_s, stretches| {
            let job = DeltaJob {
                app_s,
                mtbf_s,
                full_mib: CURVE.full_mib,
                costs: *costs,
                prices: Prices::default(),
            };
            delta_run(
                Method::Full,
                &|distance| CURVE.at(distance),
                &job,
                stretches,
            )
        };
        assert!(run(&COSTS, 1.0, 1.0, 1).is_ok());
        assert!(run(&COSTS, 0.0, 1.0, 1).is_err());
        assert!(run(&COSTS, 1.0, -1.0, 1).is_err());
        assert!(run(&COSTS, 1.0, 1.0, 0).is_err());
        let slow = DeltaCosts {
            write_mib_s: 0.0,
            ..COSTS
        };
        assert!(run(&slow, 1.0, 1.0, 1).is_err());
    }
}
