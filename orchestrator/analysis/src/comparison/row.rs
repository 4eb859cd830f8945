//! One quantity of one pair of points, with the verdict.

use cvc_core::app::descriptor::Better;
use cvc_model::stats::{Comparison, Interval, Summary, Verdict};
use serde::Serialize;

/// The values of a quantity on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideValue {
    /// Number of independent values: repeats, or days and fleets.
    pub n: usize,
    /// Mean of the values, in the unit of the row.
    pub mean: f64,
    /// Standard deviation of the values; `None` for a single value.
    pub sd: Option<f64>,
    /// 95 % interval of the mean; `None` for a single value.
    pub interval: Option<Interval>,
}

impl SideValue {
    /// Summarises values; returns `None` if there are none. `stopped`: the repeats ended because an interval was narrow. The interval of the mean is
    /// then made wider.
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

    /// Returns the coefficient of variation; `None` for a single value, and if the mean is not positive.
    pub fn variation(&self) -> Option<f64> {
        self.sd.filter(|_| self.mean > 0.0).map(|sd| sd / self.mean)
    }
}

/// Verdict of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Outcome {
    /// The values must be equal, and are.
    Equal,
    /// The values must be equal, and differ.
    Unequal,
    /// The difference is within the margin.
    Same,
    /// The second side is larger.
    Larger,
    /// The second side is smaller.
    Smaller,
    /// Undecided.
    CannotTell {
        /// Number of further repeats that each side needs; `None` if the number is unknown, or too large.
        more_repeats: Option<usize>,
    },
}

impl Outcome {
    /// Returns whether the verdict is a difference.
    pub fn differs(&self) -> bool {
        matches!(self, Self::Unequal | Self::Larger | Self::Smaller)
    }

    /// Returns whether the comparison is undecided.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::CannotTell { .. })
    }
}

/// One quantity of one pair of points.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// Name of the quantity.
    pub quantity: String,
    /// Unit of the quantity.
    pub unit: String,
    /// The point: levels of the factors that vary.
    pub at: String,
    /// The better direction; `None` if neither is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// Values on the first side.
    pub first: SideValue,
    /// Values on the second side.
    pub second: SideValue,
    /// Change from the first to the second side, percent; `None` without a ratio.
    pub change_pct: Option<f64>,
    /// 95 % interval of the change, adjusted for the number of comparisons, percent.
    pub interval_pct: Option<Interval>,
    /// The verdict.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The verdict as text.
    pub words: String,
}

impl ComparedRow {
    /// Returns whether the second side is worse: it changed in the worse direction, or differs although it must be equal.
    pub fn is_worse(&self) -> bool {
        matches!(
            (&self.outcome, self.better),
            (Outcome::Unequal, _)
                | (Outcome::Larger, Some(Better::Lower))
                | (Outcome::Smaller, Some(Better::Higher))
        )
    }

    /// Derives the verdict of a comparison.
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
            // both values are zero: there is no ratio, and none is needed
            None if is_zero(&compared.first) && is_zero(&compared.second) => Outcome::Same,
            None => Outcome::CannotTell { more_repeats: None },
        };
        let change_pct = comparison.map(|c| pct(c.ratio));
        Self {
            words: compared.missing.unwrap_or_else(|| {
                describe(
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

/// Returns whether two means are equal except for rounding.
fn same_number(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Describes the verdict.
fn describe(
    outcome: &Outcome,
    change_pct: Option<f64>,
    interval_pct: Option<Interval>,
    margin: f64,
    (first, second): (&SideValue, &SideValue),
) -> String {
    // show as many digits as the uncertainty allows
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
        } => "undecided: 1 more repeat would decide".to_owned(),
        Outcome::CannotTell {
            more_repeats: Some(more),
        } => format!("undecided: {more} more repeats would decide"),
        Outcome::CannotTell { more_repeats: None } if first.n.min(second.n) < 2 => {
            "undecided: the scatter of a single repeat is unknown".to_owned()
        }
        Outcome::CannotTell { more_repeats: None } if first.mean <= 0.0 => {
            "undecided: no ratio, because the first mean is not above 0".to_owned()
        }
        Outcome::CannotTell { more_repeats: None } => {
            "undecided: the repeats scatter too much".to_owned()
        }
    }
}

/// A comparison without a verdict.
pub(crate) struct Compared {
    pub quantity: String,
    pub unit: String,
    pub at: String,
    pub first: SideValue,
    pub second: SideValue,
    /// The better direction; `None` if neither is better.
    pub better: Option<Better>,
    /// Whether the values must be equal, such as numbers of files, or structures.
    pub must_be_equal: bool,
    /// The zones or parts that exist on one side only.
    pub missing: Option<String>,
    /// Ratio of the second to the first side; `None` if there is none.
    pub comparison: Option<Comparison>,
}
