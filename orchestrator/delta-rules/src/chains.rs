//! Determines for each state of a series which state it is stored against.

use crate::method::{Base, Decision, Method};

/// How a state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Index, from 0, of the state that it is stored against; `None`: it is stored in full.
    pub base: Option<usize>,
    /// Whether later states are stored against this one.
    pub becomes_base: bool,
    /// Number of files needed to restore it.
    pub files: u32,
}

/// The states of a series, stored by a method.
#[derive(Clone, Debug)]
pub struct Chains {
    method: Method,
    stored: Vec<Stored>,
    /// Index of the current base.
    current: usize,
}

impl Chains {
    /// Returns a series without states.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self {
            method,
            stored: Vec::new(),
            current: 0,
        }
    }

    /// Adds the next state. `changed` returns the volume of its changes since an earlier state, given by its index.
    pub fn add(&mut self, changed: impl Fn(usize) -> f64) -> Stored {
        let t = self.stored.len();
        let decision = match self.stored.get(self.current) {
            None => Decision::FIRST,
            Some(base) => self
                .method
                .decide(changed(self.current), changed(t - 1), base.files),
        };
        let base = decision.against.map(|base| match base {
            Base::First => 0,
            Base::Current => self.current,
            Base::Previous => t - 1,
        });
        let chain = base.and_then(|base| self.stored.get(base));
        let stored = Stored {
            base,
            becomes_base: decision.becomes_base,
            files: chain.map_or(1, |base| base.files + 1),
        };
        if stored.becomes_base {
            self.current = t;
        }
        self.stored.push(stored);
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::Threshold;

    /// Returns how a method stores 60 states; the volume of changes grows with the distance between states.
    fn of(method: Method) -> Vec<Stored> {
        let mut chains = Chains::new(method);
        (0..60_u32)
            .map(|t| chains.add(|older| 10.0 + 2.0 * f64::from(t - older as u32)))
            .collect()
    }

    #[test]
    fn limits_of_the_threshold_are_the_other_methods() {
        let bases = |method| of(method).iter().map(|s| s.base).collect::<Vec<_>>();
        assert_eq!(bases(Method::adca(0.0)), bases(Method::Incremental));
        let never = bases(Method::adca(f64::INFINITY));
        assert_eq!(never, bases(Method::Differential));
        let bytes = |bytes| Method::Adca {
            threshold: Threshold::Bytes(bytes),
        };
        assert_eq!(bases(bytes(-1)), bases(Method::Incremental));
        assert_eq!(bases(bytes(i64::MAX)), bases(Method::Differential));
        // the base changes at the first state whose difference exceeds 30 bytes: a distance of 16 states
        let moved = of(bytes(30))
            .iter()
            .position(|s| s.becomes_base && s.base.is_some());
        assert_eq!(moved, Some(17));
    }

    #[test]
    fn no_chain_is_longer_than_it_may_be_and_each_is_one_file_longer_than_its_base() {
        for files in [2, 3, 4, 8] {
            for ratio in [0.0, 1.3, 2.0, f64::INFINITY] {
                let stored = of(Method::bounded(ratio, files));
                assert!(stored.iter().all(|s| s.files <= files), "{files}, {ratio}");
            }
        }
        for method in [
            Method::Incremental,
            Method::adca(1.5),
            Method::bounded(1.3, 3),
        ] {
            let stored = of(method);
            for (t, state) in stored.iter().enumerate() {
                let base = state.base.map(|base| (base < t, stored[base].files + 1));
                assert_eq!(base, (t > 0).then_some((true, state.files)), "{method:?}");
            }
        }
        assert!(
            of(Method::Full)
                .iter()
                .all(|s| s.files == 1 && s.base.is_none())
        );
    }
}
