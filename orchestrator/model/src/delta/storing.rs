//! What a method stores of each state, and what restores it, when the changed volume depends on the distance alone.

use serde::Serialize;

/// How states are stored. The same rules as those of `cvc-delta`, which decides by what it finds; here, by the fitted volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Storing {
    /// Each in full.
    Full,
    /// Each against the one before.
    Incremental,
    /// Each against the first.
    Differential,
    /// Each against a base, which moves when S(D_b)/S(D_prev) exceeds the ratio.
    Adca {
        /// The threshold.
        ratio: f64,
    },
    /// As ADCA, but at most `files` files restore a state: a base that would make the chain longer is stored against the first state.
    Bounded {
        /// The threshold; below 1 the base moves with every state.
        ratio: f64,
        /// Files at most, 2 or more.
        files: u32,
    },
}

impl Storing {
    /// Its name, as in options of `cvc delta`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Incremental => "incremental",
            Self::Differential => "differential",
            Self::Adca { .. } => "adca",
            Self::Bounded { .. } => "bounded",
        }
    }

    /// Its name with its settings, for people.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Full | Self::Incremental | Self::Differential => self.name().to_owned(),
            Self::Adca { ratio } => format!("ADCA, ratio {ratio}"),
            Self::Bounded { ratio, files } if ratio < 1.0 => format!("bounded to {files} files"),
            Self::Bounded { ratio, files } => format!("bounded to {files} files, ratio {ratio}"),
        }
    }
}

/// A state as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StoredState {
    /// MiB that are written for it.
    pub stored_mib: f64,
    /// MiB that are read to restore it.
    pub restore_mib: f64,
    /// Files that restore it.
    pub files: u32,
    /// How many states before it the one is against which it is stored; 0 in full.
    pub reach: usize,
    /// Whether later states are stored against it.
    pub becomes_base: bool,
}

/// Returns what a method stores of `count` states that are the same distance apart. `changed_mib` is the volume that changes within so many
/// distances, `full_mib` a state in full.
#[must_use]
pub fn stored_states(
    storing: Storing,
    changed_mib: impl Fn(usize) -> f64,
    full_mib: f64,
    count: usize,
) -> Vec<StoredState> {
    let mut states: Vec<StoredState> = Vec::with_capacity(count);
    let mut current = 0;
    for t in 0..count {
        let in_full = StoredState {
            stored_mib: full_mib,
            restore_mib: full_mib,
            files: 1,
            reach: 0,
            becomes_base: true,
        };
        let against = |base: usize, becomes_base: bool| {
            let stored_mib = changed_mib(t - base);
            StoredState {
                stored_mib,
                restore_mib: states[base].restore_mib + stored_mib,
                files: states[base].files + 1,
                reach: t - base,
                becomes_base,
            }
        };
        let exceeds = |ratio: f64| {
            let previous = changed_mib(1);
            previous > 0.0 && changed_mib(t - current) / previous > ratio
        };
        let state = match storing {
            _ if t == 0 => in_full,
            Storing::Full => in_full,
            Storing::Incremental => against(t - 1, true),
            Storing::Differential => against(0, false),
            Storing::Adca { ratio } => against(current, exceeds(ratio)),
            Storing::Bounded { ratio, files } => {
                let moves = exceeds(ratio);
                if moves && states[current].files + 2 > files {
                    against(0, files > 2)
                } else {
                    against(current, moves)
                }
            }
        };
        if state.becomes_base {
            current = t;
        }
        states.push(state);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::{Storing, stored_states};

    fn line(distances: usize) -> f64 {
        10.0 + 2.0 * distances as f64
    }

    #[test]
    fn incremental_stores_least_and_restores_from_most() {
        let full = stored_states(Storing::Full, line, 100.0, 6);
        assert!(full.iter().all(|s| s.stored_mib == 100.0 && s.files == 1));
        let incremental = stored_states(Storing::Incremental, line, 100.0, 6);
        assert_eq!(
            (
                incremental[5].stored_mib,
                incremental[5].files,
                incremental[5].restore_mib
            ),
            (12.0, 6, 160.0)
        );
        let differential = stored_states(Storing::Differential, line, 100.0, 6);
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
        let of = |storing| {
            stored_states(storing, line, 100.0, 30)
                .iter()
                .map(|s| (s.stored_mib, s.files))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Storing::Adca { ratio: 0.0 }), of(Storing::Incremental));
        assert_eq!(
            of(Storing::Adca {
                ratio: f64::INFINITY
            }),
            of(Storing::Differential)
        );
        let bounded = stored_states(
            Storing::Bounded {
                ratio: 0.0,
                files: 4,
            },
            line,
            100.0,
            30,
        );
        // a base leaves room for a state against it, which would not move it
        assert_eq!(bounded.iter().map(|s| s.files).max(), Some(3));
    }
}
