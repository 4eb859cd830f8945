//! One quantity of one pair of points, with its verdict.

use cvc_core::app::descriptor::Better;
use cvc_model::stats::{Comparison, Interval, Summary, Verdict};
use serde::Serialize;

/// The values of a quantity on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideValue {
    /// Number of independent values: of repeats, or of days and fleets.
    pub n: usize,
    /// Their mean, in the unit of the row.
    pub mean: f64,
    /// Their standard deviation; `None` of one value.
    pub sd: Option<f64>,
    /// The 95 % interval of their mean; `None` of one value.
    pub interval: Option<Interval>,
}

impl SideValue {
    /// Summarises values; `None` without any. Of repeats that ended when an interval was narrow, that of the mean is wider.
    pub(super) fn of(values: &[f64], stopped: bool) -> Option<Self> {
        let summary = if stopped {
            Summary::of_stopped(values)
        } else {
            Summary::of(values)
        }?;
        Some(Self {
            n: summary.n,
            mean: summary.mean,
            sd: summary.sd,
            interval: summary.interval,
        })
    }

    /// The coefficient of variation; `None` if it has no meaning.
    pub fn variation(&self) -> Option<f64> {
        self.sd.filter(|_| self.mean > 0.0).map(|sd| sd / self.mean)
    }
}

/// What a comparison ended in.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Outcome {
    /// Must be equal, and is.
    Equal,
    /// Must be equal, and is not.
    Unequal,
    /// The difference is within the margin.
    Same,
    /// The second side is larger.
    Larger,
    /// The second side is smaller.
    Smaller,
    /// Nothing is shown.
    CannotTell {
        /// Repeats that are missing on each side; `None` if that is not known, or too many.
        more_repeats: Option<usize>,
    },
}

impl Outcome {
    /// Whether a difference is shown.
    pub fn differs(&self) -> bool {
        matches!(self, Self::Unequal | Self::Larger | Self::Smaller)
    }
}

/// One quantity of one pair of points.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// Name of the quantity.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// The point: levels of the factors that vary.
    pub at: String,
    /// Which way is better; absent if neither is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// On the first side.
    pub first: SideValue,
    /// On the second side.
    pub second: SideValue,
    /// How much larger the second is than the first, percent; `None` if nothing can be divided.
    pub change_pct: Option<f64>,
    /// The 95 % interval of that, percent.
    pub interval_pct: Option<Interval>,
    /// The verdict.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The verdict in words.
    pub words: String,
}

impl ComparedRow {
    /// Whether the second side is worse: in the direction that is not better, or not equal though it must be.
    pub fn is_worse(&self) -> bool {
        matches!(
            (&self.outcome, self.better),
            (Outcome::Unequal, _)
                | (Outcome::Larger, Some(Better::Lower))
                | (Outcome::Smaller, Some(Better::Higher))
        )
    }

    /// Judges a comparison.
    pub(super) fn judged(compared: Compared, margin: f64) -> Self {
        let pct = |ratio: f64| (ratio - 1.0) * 100.0;
        let comparison = compared.comparison;
        let is_zero = |of: &SideValue| of.mean == 0.0 && of.sd.unwrap_or(0.0) == 0.0;
        let interval_pct = comparison.and_then(|c| c.interval).map(|i| Interval {
            low: pct(i.low),
            high: pct(i.high),
        });
        let outcome = match comparison {
            _ if compared.must_be_equal => {
                if compared.missing.is_none()
                    && same_number(compared.first.mean, compared.second.mean)
                {
                    Outcome::Equal
                } else {
                    Outcome::Unequal
                }
            }
            Some(comparison) => match Verdict::of(&comparison, margin) {
                Verdict::Same => Outcome::Same,
                Verdict::Larger => Outcome::Larger,
                Verdict::Smaller => Outcome::Smaller,
                Verdict::CannotTell { more_repeats } => Outcome::CannotTell { more_repeats },
            },
            // nothing can be divided by zero, and nothing has to be
            None if is_zero(&compared.first) && is_zero(&compared.second) => Outcome::Same,
            None => Outcome::CannotTell { more_repeats: None },
        };
        let change_pct = comparison.map(|c| pct(c.ratio));
        Self {
            words: compared.missing.unwrap_or_else(|| {
                words(
                    &outcome,
                    change_pct,
                    interval_pct,
                    margin,
                    (&compared.first, &compared.second),
                )
            }),
            quantity: compared.quantity,
            unit: compared.unit,
            at: compared.at,
            better: compared.better,
            first: compared.first,
            second: compared.second,
            change_pct,
            interval_pct,
            outcome,
        }
    }
}

/// Whether two means of equal numbers are the same but for rounding.
fn same_number(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The verdict as people say it.
fn words(
    outcome: &Outcome,
    change_pct: Option<f64>,
    interval_pct: Option<Interval>,
    margin: f64,
    (first, second): (&SideValue, &SideValue),
) -> String {
    // as many digits as the uncertainty has
    let by = |sign: f64| {
        let change = change_pct.unwrap_or(0.0) * sign;
        match interval_pct.map(|i| (i.high - i.low) / 2.0) {
            Some(half) if half >= 0.005 => {
                let decimals = usize::from(half < 10.0) + usize::from(half < 1.0);
                format!("{change:.decimals$} ± {half:.decimals$} %")
            }
            Some(_) | None => format!("{change:.2} %"),
        }
    };
    match outcome {
        Outcome::Equal => "equal".to_owned(),
        Outcome::Unequal => format!("not equal: {} and {}", first.mean, second.mean),
        Outcome::Same if change_pct.is_none() => "the same: zero".to_owned(),
        Outcome::Same => format!("the same within {} %", margin * 100.0),
        Outcome::Larger => format!("larger by {}", by(1.0)),
        Outcome::Smaller => format!("smaller by {}", by(-1.0)),
        Outcome::CannotTell {
            more_repeats: Some(1),
        } => "cannot tell: 1 more repeat would".to_owned(),
        Outcome::CannotTell {
            more_repeats: Some(more),
        } => format!("cannot tell: {more} more repeats would"),
        Outcome::CannotTell { more_repeats: None } if first.n.min(second.n) < 2 => {
            "cannot tell: one repeat shows no scatter".to_owned()
        }
        Outcome::CannotTell { more_repeats: None } if first.mean <= 0.0 => {
            "cannot tell: nothing to divide by".to_owned()
        }
        Outcome::CannotTell { more_repeats: None } => {
            "cannot tell: the repeats scatter too much".to_owned()
        }
    }
}

/// A comparison before it is judged.
pub(crate) struct Compared {
    pub quantity: String,
    pub unit: String,
    pub at: String,
    pub first: SideValue,
    pub second: SideValue,
    /// Which way is better, if either is.
    pub better: Option<Better>,
    /// Whether the values must be equal: numbers of files, structures.
    pub must_be_equal: bool,
    /// What one side has and the other has not, in words.
    pub missing: Option<String>,
    /// Second over first; `None` where nothing can be divided.
    pub comparison: Option<Comparison>,
}
