//! The interval and the method with the least expected time or cost.

use super::{
    run::{DeltaCosts, DeltaRun, Prices, delta_run},
    storing::Storing,
    volume::VolumeCurve,
};
use crate::{fit::FitError, schedule::{daly_s, young_s}};
use serde::Serialize;

/// What is to be least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Expected time of the run.
    Time,
    /// Expected dollars of the machines for the run, and of all its checkpoints for a month.
    Cost,
}

impl Aim {
    /// What is to be least, of a run.
    #[must_use]
    pub fn of(self, run: &DeltaRun) -> f64 {
        match self {
            Self::Time => run.total_s,
            Self::Cost => run.run_dollars + run.dollars_per_month,
        }
    }
}

/// Most checkpoints of a run that are tried.
const MOST_STRETCHES: usize = 50_000;
/// Numbers of stretches that are tried first grow by this factor.
const GROWTH: f64 = 1.08;

/// What a choice is made for.
#[derive(Clone, Copy, Debug)]
pub struct Choosing<'a> {
    /// What changes.
    pub curve: &'a VolumeCurve,
    /// What storing takes.
    pub costs: &'a DeltaCosts,
    /// Seconds of the program without checkpoints.
    pub app_s: f64,
    /// Mean seconds between failures of the whole job.
    pub mtbf_s: f64,
    /// What machines and storage cost.
    pub prices: Prices,
    /// What is to be least.
    pub aim: Aim,
}

impl Choosing<'_> {
    /// A run in so many stretches.
    ///
    /// # Errors
    /// Those of [`delta_run`].
    pub fn run(&self, storing: Storing, stretches: usize) -> Result<DeltaRun, FitError> {
        delta_run(
            storing,
            self.curve,
            self.costs,
            self.app_s,
            self.mtbf_s,
            self.prices,
            stretches,
        )
    }
}

/// The best interval of a method, and what the rules for checkpoints of one size would say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BestInterval {
    /// The run with it.
    pub run: DeltaRun,
    /// Young's interval for full checkpoints, seconds.
    pub young_full_s: f64,
    /// Daly's.
    pub daly_full_s: f64,
}

/// Returns the interval with the least expected time or cost: of all numbers of equal stretches that are a factor of 1.08 apart, then of those around
/// the best.
///
/// # Errors
/// Times, rates or sizes that cannot be; a run that practically never ends.
pub fn least_interval(storing: Storing, choosing: Choosing<'_>) -> Result<BestInterval, FitError> {
    let mut best: Option<DeltaRun> = None;
    let take = |run: DeltaRun, best: &mut Option<DeltaRun>| {
        let value = choosing.aim.of(&run);
        let is_less = value.is_finite()
            && best
                .as_ref()
                .is_none_or(|best| value < choosing.aim.of(best));
        if is_less {
            *best = Some(run);
        }
        value
    };
    let (mut stretches, mut before) = (1_usize, 1_usize);
    let (mut around, mut was_best) = ((1, 1), false);
    while stretches <= MOST_STRETCHES {
        let least = best.as_ref().map(|b| choosing.aim.of(b));
        let value = take(choosing.run(storing, stretches)?, &mut best);
        if was_best {
            around.1 = stretches;
        }
        was_best = least.is_none_or(|least| value < least) && value.is_finite();
        if was_best {
            around = (before, stretches);
        }
        // it only grows from here
        if least.is_some_and(|least| value > 2.0 * least) {
            break;
        }
        before = stretches;
        stretches = ((stretches as f64 * GROWTH) as usize).max(stretches + 1);
    }
    for stretches in around.0..=around.1 {
        take(choosing.run(storing, stretches)?, &mut best);
    }
    let run = best.ok_or_else(|| {
        FitError::OutOfDomain(
            "failures are so frequent that the run practically never ends".into(),
        )
    })?;
    let full_s = choosing.costs.start_s + choosing.curve.full_mib / choosing.costs.write_mib_s;
    Ok(BestInterval {
        run,
        young_full_s: young_s(full_s, choosing.mtbf_s)?,
        daly_full_s: daly_s(full_s, choosing.mtbf_s)?,
    })
}

/// Methods that are tried, with thresholds and lengths of chains.
#[must_use]
pub fn candidates() -> Vec<Storing> {
    let mut all = vec![
        Storing::Full,
        Storing::Incremental,
        Storing::Differential,
    ];
    all.extend([1.25, 1.5, 2.0, 3.0, 4.0, 8.0].map(|ratio| Storing::Adca { ratio }));
    for files in [2, 3, 4, 6, 8, 12, 16, 24, 32, 64] {
        // below 1: the base moves with every state
        all.extend([0.0, 1.5, 2.0, 4.0].map(|ratio| Storing::Bounded { ratio, files }));
    }
    all
}

/// Returns the best of each method (full, incremental, differential, ADCA, bounded), the best first. Of methods that are alike to a thousandth of a
/// percent, the one with fewer files to a restart comes first.
///
/// # Errors
/// Those of [`least_interval`].
pub fn choose_method(choosing: Choosing<'_>) -> Result<Vec<BestInterval>, FitError> {
    let mut best: Vec<BestInterval> = Vec::new();
    let value = |b: &BestInterval| choosing.aim.of(&b.run);
    let is_before = |a: &BestInterval, b: &BestInterval| {
        let (x, y) = (value(a), value(b));
        if (x - y).abs() <= 1e-5 * y {
            a.run.files < b.run.files
        } else {
            x < y
        }
    };
    for storing in candidates() {
        let found = least_interval(storing, choosing)?;
        match best
            .iter_mut()
            .find(|b| b.run.storing.name() == storing.name())
        {
            Some(known) if is_before(&found, known) => *known = found,
            Some(_) => {}
            None => best.push(found),
        }
    }
    // few: the order of methods decides where neither is before the other
    for i in 1..best.len() {
        let mut place = i;
        while place > 0 && is_before(&best[place], &best[place - 1]) {
            best.swap(place, place - 1);
            place -= 1;
        }
    }
    Ok(best)
}
