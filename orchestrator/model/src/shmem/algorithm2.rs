//! The thesis's Algorithm 2.

use crate::{
    check::{at_least_one, not_negative},
    fit::FitError,
};
use serde::Serialize;

/// Parameters of Algorithm 2, MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Algorithm2 {
    /// Size with one process.
    pub c1: f64,
    /// Size with eight processes.
    pub c2: f64,
    /// Growth per process in the first branch, plus one.
    pub b: f64,
}

impl Default for Algorithm2 {
    /// The thesis prints neither c1 nor c2; its estimates imply that their sum is 93.
    fn default() -> Self {
        Self {
            c1: 31.0,
            c2: 62.0,
            b: 5.0,
        }
    }
}

/// Largest number of processes of the last branch.
const LAST: u32 = 63;

/// Returns the MiB with `p` processes on the node. Source: thesis, Algorithm 2. The printed `or` in the conditions is read as `and`, E as the
/// floor, and the sum runs over i = 1 … a − 2:
///
/// ```text
/// a = ⌊(p − 1)/7⌋
///  1 ≤ p ≤  7:  c1 + (b − 1)(p − 1)
///  8 ≤ p ≤ 14:  c2 + (b + a − 1)(p − 8a)
/// 15 ≤ p ≤ 21:  c1 + c2 + (b + a − 1)(p − 7a)
/// 22 ≤ p ≤ 63:  c1 + c2 + (b + a − 1)(p − 7a) + Σ 7(b + i)
/// ```
///
/// # Errors
/// There are no processes, or more than 63, for which the algorithm has no branch; or a parameter is negative.
pub fn algorithm2_mib(per_node: u32, parameters: Algorithm2) -> Result<f64, FitError> {
    if per_node > LAST {
        return Err(FitError::OutOfDomain(format!(
            "Algorithm 2 has no branch for {per_node} processes on a node: the last one ends at {LAST}"
        )));
    }
    algorithm2_extended_mib(per_node, parameters)
}

/// Returns the MiB of [`algorithm2_mib`], with the value at 63 for more than 63 processes: the thesis prints this value for 64.
///
/// # Errors
/// There are no processes, or a parameter is negative.
pub fn algorithm2_clamped_mib(per_node: u32, parameters: Algorithm2) -> Result<f64, FitError> {
    algorithm2_extended_mib(per_node.min(LAST), parameters)
}

/// Returns the MiB of [`algorithm2_mib`], with the last branch extended beyond 63 processes.
///
/// # Errors
/// There are no processes, or a parameter is negative.
pub fn algorithm2_extended_mib(per_node: u32, parameters: Algorithm2) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    let c1 = not_negative("c1", parameters.c1)?;
    let c2 = not_negative("c2", parameters.c2)?;
    let b = not_negative("b", parameters.b)?;
    let steps = (per_node - 1) / 7;
    let a = f64::from(steps);
    Ok(match per_node {
        0..=7 => c1 + (b - 1.0) * (p - 1.0),
        8..=14 => c2 + (b + a - 1.0) * (p - 8.0 * a),
        15..=21 => c1 + c2 + (b + a - 1.0) * (p - 7.0 * a),
        22.. => {
            let n = a - 2.0;
            c1 + c2 + (b + a - 1.0) * (p - 7.0 * a) + 7.0 * (n * b + n * (n + 1.0) / 2.0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Algorithm2, FitError, algorithm2_clamped_mib, algorithm2_extended_mib, algorithm2_mib,
    };

    #[test]
    fn beyond_the_last_branch_there_is_a_reason_a_clamped_value_and_an_extended_one() {
        let given = Algorithm2::default();
        let refused = algorithm2_mib(64, given).expect_err("no branch");
        assert!(
            matches!(&refused, FitError::OutOfDomain(why) if why.contains("64") && why.contains("63")),
            "{refused}"
        );
        assert_eq!(algorithm2_clamped_mib(64, given), Ok(534.0));
        assert_eq!(algorithm2_extended_mib(64, given), Ok(547.0));
        assert!(matches!(
            algorithm2_mib(0, given),
            Err(FitError::BadValue { .. })
        ));
        assert!(matches!(
            algorithm2_mib(4, Algorithm2 { c1: -1.0, ..given }),
            Err(FitError::BadValue { .. })
        ));
        assert!(matches!(
            algorithm2_mib(
                4,
                Algorithm2 {
                    b: f64::NAN,
                    ..given
                }
            ),
            Err(FitError::BadValue { .. })
        ));
    }
}
