//! What a method stores of each checkpoint (state), and reads to restore it, if the changed volume depends only on the time between two states.

use cvc_delta_rules::{Chains, Method, MethodName, Threshold};
use serde::{Serialize, Serializer};

/// Serialises a method for JSON: its name, and its ratio and maximum number of files if it has them.
pub(super) fn as_document<S: Serializer>(
    method: &Method,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Document {
        method: MethodName,
        #[serde(skip_serializing_if = "Option::is_none")]
        ratio: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        files: Option<u32>,
    }
    Document {
        method: method.name(),
        ratio: method.threshold().and_then(Threshold::ratio),
        files: method.files(),
    }
    .serialize(serializer)
}

/// A stored checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StoredState {
    /// MiB written for it.
    pub stored_mib: f64,
    /// MiB read to restore it.
    pub restore_mib: f64,
    /// Number of files read to restore it.
    pub files: u32,
    /// Distance to its base, in checkpoints; 0 if it is stored in full.
    pub reach: usize,
    /// Whether later checkpoints use it as their base.
    pub becomes_base: bool,
}

/// Returns what a method stores of `count` checkpoints at equal intervals. `changed_mib` returns the MiB that change within a number of intervals;
/// `full_mib` is the size of a full checkpoint.
#[must_use]
pub fn stored_states(
    method: Method,
    changed_mib: impl Fn(usize) -> f64,
    full_mib: f64,
    count: usize,
) -> Vec<StoredState> {
    let mut states: Vec<StoredState> = Vec::with_capacity(count);
    let mut chains = Chains::new(method);
    for t in 0..count {
        let stored = chains.add(|older| changed_mib(t - older));
        let reach = stored.base.map_or(0, |base| t - base);
        let stored_mib = stored.base.map_or(full_mib, |_| changed_mib(reach));
        let base_mib = stored.base.map_or(0.0, |base| states[base].restore_mib);
        states.push(StoredState {
            stored_mib,
            restore_mib: base_mib + stored_mib,
            files: stored.files,
            reach,
            becomes_base: stored.becomes_base,
        });
    }
    states
}

#[cfg(test)]
mod tests {
    use super::stored_states;
    use cvc_delta_rules::Method;

    fn line(distances: usize) -> f64 {
        10.0 + 2.0 * distances as f64
    }

    #[test]
    fn incremental_stores_least_and_restores_from_most() {
        let full = stored_states(Method::Full, line, 100.0, 6);
        assert!(full.iter().all(|s| s.stored_mib == 100.0 && s.files == 1));
        let incremental = stored_states(Method::Incremental, line, 100.0, 6);
        assert_eq!(
            (
                incremental[5].stored_mib,
                incremental[5].files,
                incremental[5].restore_mib
            ),
            (12.0, 6, 160.0)
        );
        let differential = stored_states(Method::Differential, line, 100.0, 6);
        assert_eq!(
            (
                differential[5].stored_mib,
                differential[5].files,
                differential[5].restore_mib
            ),
            (20.0, 2, 120.0)
        );
    }

    #[test]
    fn limits_of_the_threshold_are_the_other_methods() {
        let of = |method| {
            stored_states(method, line, 100.0, 30)
                .iter()
                .map(|s| (s.stored_mib, s.files))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Method::adca(0.0)), of(Method::Incremental));
        assert_eq!(of(Method::adca(f64::INFINITY)), of(Method::Differential));
        let bounded = stored_states(Method::bounded(0.0, 4), line, 100.0, 30);
        // a base leaves room in the chain for one more checkpoint, which then does not become a base itself
        assert_eq!(bounded.iter().map(|s| s.files).max(), Some(3));
    }
}
