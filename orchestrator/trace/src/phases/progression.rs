//! Represents positions as nested arithmetic progressions.

use serde::{Deserialize, Serialize};

/// One level of repetition: count and distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Level {
    /// Number of repetitions.
    pub count: u64,
    /// Distance from one repetition to the next, bytes.
    pub step: i64,
}

/// Positions in a file: the first position, and levels of repetition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progression {
    /// First position, bytes.
    pub first: i64,
    /// Levels of repetition, from the innermost to the outermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

impl Progression {
    /// Returns the number of positions.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.levels.iter().map(|level| level.count).product()
    }

    /// Returns whether there are no positions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with all positions in order.
    pub fn each(&self, each: &mut impl FnMut(i64)) {
        fn within(levels: &[Level], at: i64, each: &mut impl FnMut(i64)) {
            match levels.split_last() {
                None => each(at),
                Some((outer, inner)) => {
                    for i in 0..outer.count {
                        within(inner, at + outer.step * i as i64, each);
                    }
                }
            }
        }
        within(&self.levels, self.first, each);
    }

    /// Returns the lowest and the highest position.
    #[must_use]
    pub fn bounds(&self) -> (i64, i64) {
        let (mut low, mut high) = (self.first, self.first);
        for level in &self.levels {
            let reach = level.step * (level.count as i64 - 1);
            low += reach.min(0);
            high += reach.max(0);
        }
        (low, high)
    }
}

/// Maximum number of levels.
const MAX_LEVELS: usize = 4;

struct Run {
    shape: Vec<Level>,
    first: i64,
    count: u64,
    step: i64,
}

impl Run {
    fn close(self) -> Progression {
        let mut levels = self.shape;
        if self.count > 1 {
            levels.push(Level {
                count: self.count,
                step: self.step,
            });
        }
        Progression {
            first: self.first,
            levels,
        }
    }
}

/// Combines positions one at a time, in memory that depends on their regularity and not on their number.
#[derive(Default)]
pub struct Fold {
    runs: [Option<Run>; MAX_LEVELS],
    done: Vec<Progression>,
}

impl Fold {
    pub fn push(&mut self, position: i64) {
        self.push_at(
            0,
            Progression {
                first: position,
                levels: Vec::new(),
            },
        );
    }

    fn push_at(&mut self, level: usize, next: Progression) {
        let Some(slot) = self.runs.get_mut(level) else {
            self.done.push(next);
            return;
        };
        if let Some(run) = slot
            && run.shape == next.levels
            && (run.count == 1 || next.first == run.first + run.step * run.count as i64)
        {
            if run.count == 1 {
                run.step = next.first - run.first;
            }
            run.count += 1;
            return;
        }
        let new = Run {
            shape: next.levels,
            first: next.first,
            count: 1,
            step: 0,
        };
        if let Some(old) = slot.replace(new) {
            self.push_at(level + 1, old.close());
        }
    }

    pub fn finish(mut self) -> Vec<Progression> {
        for level in 0..MAX_LEVELS {
            if let Some(run) = self.runs.get_mut(level).and_then(Option::take) {
                self.push_at(level + 1, run.close());
            }
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(positions: &[i64]) -> Vec<Progression> {
        let mut fold = Fold::default();
        positions.iter().for_each(|p| fold.push(*p));
        fold.finish()
    }

    fn unfolded(all: &[Progression]) -> Vec<i64> {
        let mut positions = Vec::new();
        all.iter()
            .for_each(|p| p.each(&mut |at| positions.push(at)));
        positions
    }

    #[test]
    fn rows_of_planes_become_one_progression_with_three_levels() {
        let mut positions = Vec::new();
        for plane in 0..5 {
            for row in 0..4 {
                for piece in 0..3 {
                    positions.push(1000 + plane * 4096 + row * 512 + piece * 64);
                }
            }
        }
        let all = folded(&positions);
        let steps = |p: &Progression| -> Vec<(u64, i64)> {
            p.levels.iter().map(|l| (l.count, l.step)).collect()
        };
        assert_eq!(all.len(), 1);
        assert_eq!(steps(&all[0]), [(3, 64), (4, 512), (5, 4096)]);
        assert_eq!(all[0].bounds(), (1000, 1000 + 4 * 4096 + 3 * 512 + 2 * 64));
        assert_eq!(unfolded(&all), positions);
    }

    proptest::proptest! {
        #[test]
        fn order_and_positions_stay(positions in proptest::collection::vec(-20_i64..20, 0..60)) {
            assert_eq!(unfolded(&folded(&positions)), positions);
        }
    }
}
