//! A law for the number of metadata operations, a·C·n + b·n + c·C + d·C·M + e, fitted to counts. C is the number of clients, n of checkpoints, M of
//! metadata servers.
//!
//! Counts at one setting cannot predict others: with a single n, terms with n cannot be separated from constant terms. A law therefore records
//! which terms its counts determine, and predicts only where these terms suffice.

use super::{layout::MetadataSetting, rational::Rational};
use crate::{
    estimate::Estimate,
    fit::{FitError, least_squares, relative_weights},
};
use serde::Serialize;

/// Number of terms.
pub const TERMS: usize = 5;

/// Names of the terms, in the order of the coefficients.
pub const TERM_NAMES: [&str; TERMS] = ["C·n", "n", "C", "C·M", "1"];

type Part = fn(&MetadataSetting) -> u64;

/// The variables of a setting by name.
const PARTS: [(&str, Part); 3] = [
    ("clients", |at| at.clients),
    ("checkpoints", |at| at.checkpoints),
    ("metadata servers", |at| at.servers),
];

/// Returns the values of the terms at a setting.
fn terms(at: MetadataSetting) -> [i128; TERMS] {
    let (c, n, m) = (
        i128::from(at.clients),
        i128::from(at.checkpoints),
        i128::from(at.servers),
    );
    [c * n, n, c, c * m, 1]
}

/// Coefficients of the terms C·n, n, C, C·M and 1, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coefficients(pub [i64; TERMS]);

impl Coefficients {
    /// Returns the number of operations at a setting.
    pub fn at(self, setting: MetadataSetting) -> f64 {
        let sum: i128 = terms(setting)
            .iter()
            .zip(self.0)
            .map(|(term, by)| term.saturating_mul(i128::from(by)))
            .fold(0, i128::saturating_add);
        sum as f64
    }
}

/// A counted number of operations at a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The setting.
    pub at: MetadataSetting,
    /// Number of operations.
    pub count: u64,
}

/// Quality of a law's fit to its counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "quality", rename_all = "kebab-case")]
pub enum Quality {
    /// Integer coefficients reproduce every count, and there are more settings than terms.
    Exact,
    /// The law reproduces all counts, but has as many terms as there are settings, so that no count checks it.
    Unchecked,
    /// One set of integer coefficients reproduces every count except for a few additional operations, such as housekeeping of a mount.
    Near {
        /// Largest difference between count and law, operations.
        beyond: f64,
    },
    /// The law does not reproduce all counts.
    Approximate {
        /// Largest relative error at a setting that was left out of the fit.
        miss: f64,
    },
}

/// A law fitted to counts.
#[derive(Clone, Debug)]
pub struct OperationLaw {
    /// Rows in echelon form that span the fitted settings, each with the index of its leading term.
    basis: Vec<(usize, [Rational; TERMS])>,
    /// Coefficients of one solution: 0 for terms that do not lead a row.
    coefficients: [f64; TERMS],
    quality: Quality,
    /// For the numbers of clients, of checkpoints and of servers: the number, if it is the same in all counts; otherwise `None`.
    constant: [Option<u64>; 3],
}

/// The error for a setting whose number of operations does not follow from the counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the counts do not decide the terms {}{}", .terms.join(", "), also(.constant))]
pub struct Undecided {
    /// The undetermined terms, as in [`TERM_NAMES`].
    pub terms: Vec<&'static str>,
    /// The variables that are constant in all counts but different in the setting, such as `clients`.
    pub constant: Vec<&'static str>,
}

fn also(constant: &[&str]) -> String {
    match constant {
        [] => String::new(),
        of => format!(": all have the same number of {}", of.join(" and of ")),
    }
}

/// Maximum number of operations above an integer law that count as housekeeping.
const HOUSEKEEPING: f64 = 3.0;

fn product(at: MetadataSetting, coefficients: &[f64; TERMS]) -> f64 {
    let terms = terms(at).map(|term| term as f64);
    terms.iter().zip(coefficients).map(|(a, b)| a * b).sum()
}

fn too_large() -> FitError {
    FitError::OutOfDomain("the numbers of clients, checkpoints and servers are too large".into())
}

/// Order in which columns become leading columns: if counts do not separate several terms, the simplest one represents them. The column of the
/// counts is last.
const LEADING: [usize; TERMS + 1] = [4, 2, 1, 0, 3, TERMS];

/// An equation: the terms' values, and the count.
type Row = [Rational; TERMS + 1];

/// Reduces equations to echelon form and drops redundant rows. Returns pairs of a leading column and its row; `None` on overflow.
fn reduce(mut rows: Vec<Row>) -> Option<Vec<(usize, Row)>> {
    let mut reduced: Vec<(usize, Row)> = Vec::new();
    for column in LEADING {
        let Some(place) = rows.iter().position(|row| !row[column].is_zero()) else {
            continue;
        };
        let mut lead = rows.swap_remove(place);
        let by = lead[column];
        for value in &mut lead {
            *value = value.over(by)?;
        }
        let others = rows
            .iter_mut()
            .chain(reduced.iter_mut().map(|(_, row)| row));
        for row in others {
            let factor = row[column];
            for (value, of) in row.iter_mut().zip(lead) {
                *value = value.minus(of.times(factor)?)?;
            }
        }
        reduced.push((column, lead));
    }
    Some(reduced)
}

fn equation(counted: &Counted) -> Row {
    let mut row = [Rational::ZERO; TERMS + 1];
    for (value, term) in row.iter_mut().zip(terms(counted.at)) {
        *value = Rational::whole(term);
    }
    row[TERMS] = Rational::whole(i128::from(counted.count));
    row
}

/// Returns the number of distinct settings.
fn distinct(counts: &[Counted]) -> usize {
    let mut settings: Vec<MetadataSetting> = counts.iter().map(|of| of.at).collect();
    settings.sort_unstable();
    settings.dedup();
    settings.len()
}

impl OperationLaw {
    /// Fits a law to counts.
    ///
    /// # Errors
    /// There are no counts, clients or servers are zero, or the numbers are too large to solve without rounding.
    pub fn fit(counts: &[Counted]) -> Result<Self, FitError> {
        if counts.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: 1,
            });
        }
        for (what, zero) in [
            ("clients", counts.iter().any(|of| of.at.clients == 0)),
            (
                "metadata servers",
                counts.iter().any(|of| of.at.servers == 0),
            ),
        ] {
            if zero {
                return Err(FitError::BadValue {
                    what: format!("the number of {what}"),
                    value: 0.0,
                    why: "it must be at least 1".into(),
                });
            }
        }
        let mut law = Self::through(counts)?;
        if !matches!(law.quality, Quality::Approximate { .. }) {
            return Ok(law);
        }
        if let Some((coefficients, beyond)) = law.whole(counts) {
            law.coefficients = coefficients;
            law.quality = Quality::Near { beyond };
        } else {
            law.quality = Quality::Approximate {
                miss: law.largest_miss(counts),
            };
        }
        Ok(law)
    }

    /// Fits a law without checking it on settings that are left out.
    fn through(counts: &[Counted]) -> Result<Self, FitError> {
        let reduced = reduce(counts.iter().map(equation).collect()).ok_or_else(too_large)?;
        let is_consistent = reduced.iter().all(|(lead, _)| *lead < TERMS);
        let basis: Vec<(usize, [Rational; TERMS])> = reduced
            .iter()
            .filter(|(lead, _)| *lead < TERMS)
            .map(|(lead, row)| {
                let mut terms = [Rational::ZERO; TERMS];
                terms.copy_from_slice(&row[..TERMS]);
                (*lead, terms)
            })
            .collect();
        let mut coefficients = [0.0; TERMS];
        let quality = if is_consistent {
            for (lead, row) in &reduced {
                coefficients[*lead] = row[TERMS].to_f64();
            }
            // undetermined terms may have fractions in this one of many solutions, so only determined terms are checked
            let are_whole = reduced.iter().all(|(lead, row)| {
                let is_decided = (0..TERMS).all(|term| term == *lead || row[term].is_zero());
                !is_decided || row[TERMS].is_whole()
            });
            match distinct(counts) > basis.len() {
                true if are_whole => Quality::Exact,
                true => Quality::Approximate { miss: 0.0 },
                false => Quality::Unchecked,
            }
        } else {
            let leads: Vec<usize> = basis.iter().map(|(lead, _)| *lead).collect();
            let rows: Vec<Vec<f64>> = counts
                .iter()
                .map(|of| leads.iter().map(|l| terms(of.at)[*l] as f64).collect())
                .collect();
            // a count of 0 has no relative error
            let values: Vec<f64> = counts.iter().map(|of| of.count as f64).collect();
            let at_least: Vec<f64> = values.iter().map(|value| value.max(1.0)).collect();
            let fit = least_squares(&rows, &values, Some(&relative_weights(&at_least)))?;
            for (lead, value) in leads.iter().zip(fit.coefficients) {
                coefficients[*lead] = value;
            }
            Quality::Approximate { miss: 0.0 }
        };
        let constant = PARTS.map(|(_, part)| {
            let first = counts.first().map(|of| part(&of.at))?;
            counts
                .iter()
                .all(|of| part(&of.at) == first)
                .then_some(first)
        });
        Ok(Self {
            basis,
            coefficients,
            quality,
            constant,
        })
    }

    /// Returns the integer coefficients that reproduce all counts within [`HOUSEKEEPING`], with the largest difference. Returns `None` if there are
    /// none or several.
    fn whole(&self, counts: &[Counted]) -> Option<([f64; TERMS], f64)> {
        let leads: Vec<usize> = self.basis.iter().map(|(lead, _)| *lead).collect();
        let constant = TERMS - 1;
        if !leads.contains(&constant) || distinct(counts) <= leads.len() {
            return None;
        }
        let rows: Vec<Vec<f64>> = counts
            .iter()
            .map(|of| leads.iter().map(|l| terms(of.at)[*l] as f64).collect())
            .collect();
        let values: Vec<f64> = counts.iter().map(|of| of.count as f64).collect();
        let fit = least_squares(&rows, &values, None).ok()?;
        let steep: Vec<usize> = leads.iter().copied().filter(|l| *l != constant).collect();
        let mut rounded = [0.0; TERMS];
        for (lead, value) in leads.iter().zip(&fit.coefficients) {
            if *lead != constant {
                rounded[*lead] = value.round();
            }
        }
        let mut found = None;
        for neighbour in 0..3_usize.pow(u32::try_from(steep.len()).ok()?) {
            let mut tried = rounded;
            let mut rest = neighbour;
            for lead in &steep {
                tried[*lead] += [0.0, 1.0, -1.0][rest % 3];
                rest /= 3;
            }
            let left: Vec<f64> = counts
                .iter()
                .map(|of| of.count as f64 - product(of.at, &tried))
                .collect();
            let low = left.iter().copied().fold(f64::INFINITY, f64::min);
            let high = left.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // housekeeping only adds operations
            if high - low <= HOUSEKEEPING {
                if found.is_some() {
                    return None;
                }
                tried[constant] = low;
                found = Some((tried, high - low));
            }
        }
        found
    }

    /// Returns the largest relative error over settings. Each setting is predicted by a law fitted to the others, or by this law if the others do
    /// not determine the setting.
    fn largest_miss(&self, counts: &[Counted]) -> f64 {
        counts
            .iter()
            .map(|left_out| {
                let others: Vec<Counted> = counts
                    .iter()
                    .filter(|of| of.at != left_out.at)
                    .copied()
                    .collect();
                let predicted = (Self::through(&others).ok())
                    .and_then(|law| law.value(left_out.at).ok())
                    .unwrap_or_else(|| self.sum(left_out.at));
                (predicted - left_out.count as f64).abs() / (left_out.count as f64).max(1.0)
            })
            .fold(0.0, f64::max)
    }

    fn sum(&self, at: MetadataSetting) -> f64 {
        product(at, &self.coefficients)
    }

    /// Returns the rest of a row after subtracting the basis; `None` if the counts determine the row.
    fn remainder(&self, row: [Rational; TERMS]) -> Option<[Rational; TERMS]> {
        let mut left = row;
        for (lead, of) in &self.basis {
            let factor = left[*lead];
            for (value, of) in left.iter_mut().zip(of) {
                *value = value.minus(of.times(factor)?)?;
            }
        }
        Some(left)
    }

    fn value(&self, at: MetadataSetting) -> Result<f64, Undecided> {
        let row = terms(at).map(Rational::whole);
        let left = self.remainder(row).unwrap_or(row);
        if left.iter().all(|value| value.is_zero()) {
            return Ok(self.sum(at).max(0.0));
        }
        let differs = |((name, part), constant): (&(&'static str, Part), &Option<u64>)| {
            constant
                .is_some_and(|value| value != part(&at))
                .then_some(*name)
        };
        Err(Undecided {
            terms: (0..TERMS)
                .filter(|term| !self.decides(*term))
                .map(|term| TERM_NAMES[term])
                .collect(),
            constant: PARTS
                .iter()
                .zip(&self.constant)
                .filter_map(differs)
                .collect(),
        })
    }

    /// Returns whether the counts determine the coefficient of this term.
    pub fn decides(&self, term: usize) -> bool {
        let mut row = [Rational::ZERO; TERMS];
        if let Some(value) = row.get_mut(term) {
            *value = Rational::whole(1);
        }
        self.remainder(row)
            .is_some_and(|left| left.iter().all(|value| value.is_zero()))
    }

    /// Returns the coefficients in the order of [`TERM_NAMES`]; `None` for those that the counts do not determine.
    pub fn coefficients(&self) -> [Option<f64>; TERMS] {
        std::array::from_fn(|term| self.decides(term).then_some(self.coefficients[term]))
    }

    /// Returns the quality of the fit.
    pub fn quality(&self) -> Quality {
        self.quality
    }

    /// Returns the number of operations at a setting. The interval depends on [`Self::quality()`]: an exact law has no error, an unchecked law has no
    /// interval, a near law may be too low, and an approximate law has its largest error at a left-out setting on both sides.
    ///
    /// # Errors
    /// The counts do not determine the number at this setting.
    pub fn at(&self, at: MetadataSetting) -> Result<Estimate, Undecided> {
        let value = self.value(at)?;
        Ok(match self.quality {
            Quality::Exact => Estimate::exact(value),
            Quality::Unchecked => Estimate::bare(value),
            Quality::Near { beyond } => Estimate::between(value, value, value + beyond),
            Quality::Approximate { miss } => {
                Estimate::plus_minus(value, miss * value).not_negative()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(clients: u64, checkpoints: u64, servers: u64) -> MetadataSetting {
        MetadataSetting {
            clients,
            checkpoints,
            servers,
        }
    }

    fn counts(of: &[(u64, u64, u64, u64)]) -> Vec<Counted> {
        of.iter()
            .map(|(c, n, m, count)| Counted {
                at: setting(*c, *n, *m),
                count: *count,
            })
            .collect()
    }

    #[test]
    fn integer_laws_come_out_exactly_and_hold_at_other_settings() {
        let truth = Coefficients([4, 3, 2, 1, 5]);
        let seen: Vec<Counted> = [
            (2, 1, 1),
            (4, 1, 1),
            (2, 3, 1),
            (4, 3, 2),
            (8, 2, 4),
            (8, 9, 1),
        ]
        .iter()
        .map(|(c, n, m)| Counted {
            at: setting(*c, *n, *m),
            count: truth.at(setting(*c, *n, *m)) as u64,
        })
        .collect();
        let law = OperationLaw::fit(&seen).expect("a law");
        assert_eq!(law.quality(), Quality::Exact);
        assert_eq!(law.coefficients(), [4.0, 3.0, 2.0, 1.0, 5.0].map(Some));
        let at = setting(128, 30, 3);
        assert_eq!(law.at(at), Ok(Estimate::exact(truth.at(at))));
    }

    #[test]
    fn one_number_of_servers_leaves_their_term_open_but_answers_for_itself() {
        let seen = counts(&[(2, 1, 1, 8), (4, 1, 1, 14), (8, 1, 1, 26), (8, 5, 1, 26)]);
        let law = OperationLaw::fit(&seen).expect("a law");
        assert_eq!(law.quality(), Quality::Exact);
        assert_eq!(law.at(setting(100, 1, 1)).map(|e| e.value), Ok(302.0));
        let refused = law.at(setting(100, 1, 4)).expect_err("M was never varied");
        assert!(refused.terms.contains(&"C·M"), "{refused}");
        assert!(law.at(setting(8, 9, 1)).is_ok());
    }

    #[test]
    fn counts_at_one_number_of_clients_say_nothing_about_others() {
        let law = OperationLaw::fit(&counts(&[(8, 1, 1, 40), (8, 9, 1, 168)])).expect("a law");
        assert_eq!(law.at(setting(8, 5, 1)), Ok(Estimate::bare(104.0)));
        let refused = law.at(setting(16, 1, 1)).expect_err("C was never varied");
        assert_eq!(refused.terms, TERM_NAMES);
        assert_eq!(refused.constant, ["clients"]);
    }

    #[test]
    fn counts_without_a_law_give_an_interval_of_what_is_missed_when_left_out() {
        let seen = counts(&[
            (16, 9, 1, 608),
            (32, 9, 1, 1034),
            (64, 9, 1, 2376),
            (128, 9, 1, 4132),
        ]);
        let law = OperationLaw::fit(&seen).expect("a law");
        let Quality::Approximate { miss } = law.quality() else {
            panic!("{:?}", law.quality());
        };
        assert!((0.1..0.3).contains(&miss), "{miss}");
        let answer = law.at(setting(64, 9, 1)).expect("decided");
        assert_eq!(answer.covers(2376.0), Some(true), "{answer:?}");
        assert!(law.at(setting(64, 1, 1)).is_err());
    }

    #[test]
    fn housekeeping_is_separated_from_integer_laws() {
        // 2·C·n + 2·C, and up to 3 operations by the mount itself
        let beside = [0, 1, 0, 2, 3, 1, 0, 2, 1];
        let seen: Vec<Counted> = [2, 4, 8]
            .iter()
            .flat_map(|c| [1, 3, 9].map(|n| (*c, n)))
            .zip(beside)
            .map(|((c, n), more)| Counted {
                at: setting(c, n, 1),
                count: 2 * c * n + 2 * c + more,
            })
            .collect();
        let law = OperationLaw::fit(&seen).expect("a law");
        assert_eq!(law.quality(), Quality::Near { beyond: 3.0 });
        let answer = law.at(setting(128, 30, 1)).expect("decided");
        assert_eq!(answer, Estimate::between(7936.0, 7936.0, 7939.0));
        // published totals for shared files: C + 9(C − 1) + 36 + {1, 1, 2, 3}
        let printed = counts(&[
            (16, 9, 1, 188),
            (32, 9, 1, 348),
            (64, 9, 1, 669),
            (128, 9, 1, 1310),
        ]);
        let law = OperationLaw::fit(&printed).expect("a law");
        assert_eq!(law.quality(), Quality::Near { beyond: 2.0 });
        let answer = law.at(setting(256, 9, 1)).expect("decided");
        assert_eq!(answer.value, 256.0 + 9.0 * 255.0 + 36.0 + 1.0);
    }

    #[test]
    fn integers_that_small_counts_do_not_separate_are_not_claimed() {
        let seen = counts(&[
            (1, 1, 1, 2),
            (2, 1, 1, 4),
            (1, 2, 1, 5),
            (2, 2, 1, 7),
            (3, 2, 1, 8),
        ]);
        let law = OperationLaw::fit(&seen).expect("a law");
        assert!(
            matches!(law.quality(), Quality::Approximate { .. }),
            "{:?}",
            law.quality()
        );
    }

    #[test]
    fn different_counts_of_one_setting_are_no_exact_law() {
        let seen = counts(&[(2, 1, 1, 10), (2, 1, 1, 11), (4, 1, 1, 20)]);
        let law = OperationLaw::fit(&seen).expect("a law");
        assert!(matches!(law.quality(), Quality::Approximate { miss } if miss > 0.0));
    }

    #[test]
    fn no_counts_and_no_clients_are_refused() {
        assert!(OperationLaw::fit(&[]).is_err());
        assert!(OperationLaw::fit(&counts(&[(0, 1, 1, 3)])).is_err());
        assert!(OperationLaw::fit(&counts(&[(1, 1, 0, 3)])).is_err());
    }
}
