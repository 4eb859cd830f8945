//! Pareto dominance of candidates. A candidate is dominated if another one is no worse in any objective and better in at least one. Of values with
//! intervals, the intervals must show this.

use serde::Serialize;

/// The value of an objective to minimise, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounded {
    /// The value.
    pub value: f64,
    /// Lower bound; equal to the value if it is exact.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Bounded {
    /// Returns a value without uncertainty.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    /// Applies a function that never falls to the value and its bounds.
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self {
            value: rising(self.value),
            low: rising(self.low),
            high: rising(self.high),
        }
    }
}

/// The Pareto rank of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParetoRank {
    /// No other candidate dominates it.
    Front,
    /// Another candidate dominates it by value, but the intervals overlap.
    #[serde(rename = "not-told-apart")]
    Indistinguishable,
    /// Another candidate dominates it even with the least favourable ends of the intervals.
    Dominated,
}

/// Returns whether the values of `a` dominate those of `b`: no worse in any objective, and better in at least one.
pub fn dominates(a: &[Bounded], b: &[Bounded]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.value <= b.value)
        && a.iter().zip(b).any(|(a, b)| a.value < b.value)
}

/// Returns whether `a` dominates `b` wherever the true values are in their intervals: no worse in any objective, and better in at least one.
pub fn surely_dominates(a: &[Bounded], b: &[Bounded]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.high <= b.low) && a.iter().zip(b).any(|(a, b)| a.high < b.low)
}

/// Returns the Pareto rank of each candidate. All candidates have the same objectives in the same order.
pub fn pareto_ranks(candidates: &[Vec<Bounded>]) -> Vec<ParetoRank> {
    candidates
        .iter()
        .map(|candidate| {
            let by = |rule: fn(&[Bounded], &[Bounded]) -> bool| {
                candidates.iter().any(|other| rule(other, candidate))
            };
            if by(surely_dominates) {
                ParetoRank::Dominated
            } else if by(dominates) {
                ParetoRank::Indistinguishable
            } else {
                ParetoRank::Front
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(values: &[f64]) -> Vec<Bounded> {
        values.iter().map(|v| Bounded::exact(*v)).collect()
    }

    /// The rule of a tool that compares with `>` in both objectives: every candidate that is equal in one objective stays on the front.
    fn strict_front(candidates: &[Vec<Bounded>]) -> Vec<bool> {
        candidates
            .iter()
            .map(|c| {
                !candidates
                    .iter()
                    .any(|o| c.iter().zip(o).all(|(c, o)| c.value > o.value))
            })
            .collect()
    }

    #[test]
    fn a_tie_in_one_objective_is_dominated_though_a_strict_rule_keeps_it() {
        let candidates = [[10.0, 1.0], [12.0, 1.0], [10.0, 1.5], [8.0, 2.0]].map(|c| exact(&c));
        assert_eq!(
            pareto_ranks(&candidates),
            [
                ParetoRank::Front,
                ParetoRank::Dominated,
                ParetoRank::Dominated,
                ParetoRank::Front
            ]
        );
        assert_eq!(strict_front(&candidates), [true, true, true, true]);
    }

    #[test]
    fn equal_candidates_and_a_single_one_are_the_front() {
        assert_eq!(
            pareto_ranks(&[exact(&[1.0, 2.0]), exact(&[1.0, 2.0])]),
            [ParetoRank::Front; 2]
        );
        assert_eq!(pareto_ranks(&[exact(&[1.0])]), [ParetoRank::Front]);
        assert_eq!(pareto_ranks(&[]), []);
    }

    #[test]
    fn a_difference_within_the_intervals_is_indistinguishable() {
        let of = |value: f64| Bounded {
            value,
            low: value - 1.0,
            high: value + 1.0,
        };
        let candidates = [
            vec![of(10.0), of(10.0)],
            vec![of(11.0), of(13.0)],
            vec![of(13.0), of(13.0)],
        ];
        assert_eq!(
            pareto_ranks(&candidates),
            [
                ParetoRank::Front,
                ParetoRank::Indistinguishable,
                ParetoRank::Dominated
            ]
        );
    }

    /// The run times of the thesis's Table 5.23, with the number of nodes of each row and the hourly price at that time, dollars.
    fn thesis() -> Vec<(String, f64, Vec<f64>)> {
        let table = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/papers/thesis/tables/t5-23.csv"
        );
        let text = std::fs::read_to_string(table).expect("the table");
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let rows = lines.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let of = |name: &str| fields[names.iter().position(|n| *n == name).expect("a column")];
            let price = match of("instance_type") {
                "t2.micro" => 0.012,
                "c3.xlarge" => 0.21,
                "c3.2xlarge" => 0.42,
                other => panic!("no price of {other}"),
            };
            let nodes: f64 = of("instances").parse().expect("a number");
            let name = [
                "instance_type",
                "instances",
                "processes_per_instance",
                "metric",
            ]
            .map(of);
            let runs = (1..=10).filter_map(|run| of(&format!("run{run}_s")).parse().ok());
            (name.join(" "), nodes * price, runs.collect())
        });
        rows.filter(|(name, ..)| name.contains("_time_linux"))
            .collect()
    }

    /// Errors of the tool with [`strict_front`] on this table. With one run of each row, which is its input, it never finds the front of the means.
    /// With hourly billing, as used at that time, it keeps rows although other rows are better at the same cost.
    #[test]
    fn a_strict_rule_on_single_runs_errs_on_the_tables_of_the_thesis() {
        let rows = thesis();
        let front = |candidates: &[Vec<Bounded>]| -> Vec<bool> {
            let ranks = pareto_ranks(candidates);
            ranks.iter().map(|s| *s == ParetoRank::Front).collect()
        };
        let by_second =
            |seconds: f64, usd_per_hour: f64| exact(&[seconds, seconds * usd_per_hour / 3600.0]);
        let mean = |runs: &[f64]| runs.iter().sum::<f64>() / runs.len() as f64;
        let of_means: Vec<_> = rows
            .iter()
            .map(|(_, usd, runs)| by_second(mean(runs), *usd))
            .collect();
        let right = front(&of_means);
        assert_eq!(right.iter().filter(|is| **is).count(), 4);
        let found = (0..10).filter(|run| {
            let single: Vec<_> = rows
                .iter()
                .map(|(_, usd, runs)| by_second(runs[*run], *usd))
                .collect();
            strict_front(&single) == right
        });
        assert_eq!(found.count(), 0, "of ten single runs");

        let by_hour: Vec<_> = rows
            .iter()
            .map(|(_, usd, runs)| exact(&[mean(runs), (mean(runs) / 3600.0).ceil() * usd]))
            .collect();
        let (strict, right) = (strict_front(&by_hour), front(&by_hour));
        let kept_wrongly: Vec<&str> = (0..rows.len())
            .filter(|i| strict[*i] && !right[*i])
            .map(|i| rows[i].0.as_str())
            .collect();
        assert_eq!(kept_wrongly.len(), 7, "{kept_wrongly:?}");
        // with checkpoints it is slower than without, at the same cost
        assert!(kept_wrongly.contains(&"c3.xlarge 4 4 app_ft_time_linux"));
    }

    proptest! {
        /// Compares the result with the definition over all pairs. The few different values make ties frequent.
        #[test]
        fn standings_are_those_of_the_definition(
            raw in prop::collection::vec(prop::collection::vec((0u8..5, 0u8..3), 1..=3), 0..12)
        ) {
            let objectives = raw.first().map_or(0, Vec::len);
            let candidates: Vec<Vec<Bounded>> = raw
                .iter()
                .filter(|c| c.len() == objectives)
                .map(|c| {
                    c.iter()
                        .map(|(value, width)| {
                            let (value, width) = (f64::from(*value), f64::from(*width) * 0.4);
                            Bounded { value, low: value - width, high: value + width }
                        })
                        .collect()
                })
                .collect();
            for (i, rank) in pareto_ranks(&candidates).into_iter().enumerate() {
                let (mut by_value, mut surely) = (false, false);
                for j in (0..candidates.len()).filter(|j| *j != i) {
                    let (mut no_worse, mut better, mut sure_no_worse, mut sure_better) = (true, false, true, false);
                    for (a, b) in candidates[j].iter().zip(&candidates[i]) {
                        if a.value > b.value { no_worse = false; }
                        if a.value < b.value { better = true; }
                        if a.high > b.low { sure_no_worse = false; }
                        if a.high < b.low { sure_better = true; }
                    }
                    by_value |= no_worse && better;
                    surely |= sure_no_worse && sure_better;
                }
                let expected = match (by_value, surely) {
                    (_, true) => ParetoRank::Dominated,
                    (true, false) => ParetoRank::Indistinguishable,
                    (false, false) => ParetoRank::Front,
                };
                prop_assert_eq!(rank, expected);
            }
        }

        /// Every candidate off the front is dominated by one on it, and none on the front dominates another.
        #[test]
        fn the_front_is_enough(raw in prop::collection::vec((0u8..6, 0u8..6), 1..20)) {
            let candidates: Vec<Vec<Bounded>> =
                raw.iter().map(|(a, b)| exact(&[f64::from(*a), f64::from(*b)])).collect();
            let ranks = pareto_ranks(&candidates);
            let front: Vec<&Vec<Bounded>> = candidates.iter().zip(&ranks)
                .filter(|(_, s)| **s == ParetoRank::Front).map(|(c, _)| c).collect();
            prop_assert!(!front.is_empty());
            for (candidate, rank) in candidates.iter().zip(&ranks) {
                let dominated = front.iter().any(|f| dominates(f, candidate));
                prop_assert_eq!(dominated, *rank != ParetoRank::Front);
            }
        }
    }
}
