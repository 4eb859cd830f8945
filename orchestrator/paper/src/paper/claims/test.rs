//! Judges the tests of claims: computes their numbers, and compares the numbers with the bound.

use crate::paper::claim::{Extreme, Test};
use cvc_model::stats::compare;
use indexmap::IndexMap;

/// A row of one side of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Name of the row.
    pub about: String,
    /// Cells or factors of the row, by key.
    pub keys: IndexMap<String, String>,
    /// The number in the row; for runs, their mean.
    pub value: f64,
    /// The values of the runs, if they scatter; `None` for printed numbers and sizes.
    pub runs: Option<Vec<f64>>,
}

impl Item {
    fn key(&self, name: &str) -> &str {
        self.keys.get(name).map_or("", String::as_str)
    }
}

/// A number that was compared with the bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComparedSides {
    pub about: String,
    pub number: f64,
    /// Whether the number is within the bound; `None` if the scatter of the runs leaves it undecided.
    pub holds: Option<bool>,
}

/// The outcome of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestOutcome {
    pub(super) compared: Vec<ComparedSides>,
    /// Whether the test passes; `None` if undecided.
    pub holds: Option<bool>,
}

impl<S> Test<S> {
    /// Judges the test on the rows of both sides. `fixed` are the keys by which the sides are selected. By default, rows are not matched by these
    /// keys.
    pub fn judge(&self, each: &[Item], other: &[Item], fixed: &[&str]) -> TestOutcome {
        let mut compared = if self.than.is_some() || self.minus.is_some() {
            self.pairs(each, other, fixed)
        } else if let Some(key) = &self.along {
            self.steps(each, key)
        } else if self.spread {
            self.spreads(each)
        } else {
            each.iter().map(|item| self.value(item)).collect()
        };
        let by_number = |a: &ComparedSides, b: &ComparedSides| a.number.total_cmp(&b.number);
        match self.of {
            Some(Extreme::Largest) => {
                compared = compared.into_iter().max_by(by_number).into_iter().collect();
            }
            Some(Extreme::Smallest) => {
                compared = compared.into_iter().min_by(by_number).into_iter().collect();
            }
            None => {}
        }
        let holds = self.verdict(&compared);
        TestOutcome { compared, holds }
    }

    /// Returns whether enough numbers are within the bound; `None` if undecided.
    fn verdict(&self, compared: &[ComparedSides]) -> Option<bool> {
        let count = |wanted| compared.iter().filter(|c| c.holds == wanted).count();
        let (yes, no) = (count(Some(true)), count(Some(false)));
        let needed = self.share.unwrap_or(1.0) * compared.len() as f64;
        if yes + no == 0 {
            None
        } else if yes as f64 >= needed {
            Some(true)
        } else {
            ((compared.len() - no) as f64 + f64::EPSILON < needed).then_some(false)
        }
    }

    fn keeps(&self, number: f64) -> bool {
        self.above.is_none_or(|bound| number > bound)
            && self.below.is_none_or(|bound| number < bound)
            && self
                .between
                .is_none_or(|[low, high]| (low..=high).contains(&number))
    }

    fn value(&self, item: &Item) -> ComparedSides {
        ComparedSides {
            about: format!("{}: {}", item.about, shown(item.value)),
            number: item.value,
            holds: Some(self.keeps(item.value)),
        }
    }

    /// Returns the ratio of two rows. The ratio of runs is within the bound only if its whole interval is.
    fn ratio(&self, a: &Item, b: &Item) -> Option<ComparedSides> {
        let number = a.value / b.value;
        let holds = match (&a.runs, &b.runs) {
            (Some(a), Some(b)) => compare(a, b).and_then(|c| c.interval).and_then(|interval| {
                let ends = [interval.low, interval.high].map(|end| self.keeps(end));
                // an interval that extends beyond both ends of the range leaves the test undecided, too
                let outside = self
                    .between
                    .is_none_or(|[low, high]| interval.high < low || interval.low > high);
                match ends {
                    [true, true] => Some(true),
                    [false, false] if outside => Some(false),
                    _ => None,
                }
            }),
            _ => Some(self.keeps(number)),
        };
        number.is_finite().then(|| ComparedSides {
            about: format!("{}: {} against {}", a.about, shown(a.value), shown(b.value)),
            number,
            holds,
        })
    }

    fn pairs(&self, each: &[Item], other: &[Item], fixed: &[&str]) -> Vec<ComparedSides> {
        let matches = |a: &Item, b: &Item| match &self.matching {
            Some(keys) => keys.iter().all(|(own, theirs)| a.key(own) == b.key(theirs)),
            None => a
                .keys
                .iter()
                .filter(|(key, _)| !fixed.contains(&key.as_str()))
                .all(|(key, value)| b.keys.get(key).is_none_or(|other| other == value)),
        };
        let compared = |a: &Item, b: &Item| {
            if self.than.is_some() {
                return self.ratio(a, b);
            }
            let number = a.value - b.value;
            Some(ComparedSides {
                about: format!("{}: {} minus {}", a.about, shown(a.value), shown(b.value)),
                number,
                holds: Some(self.keeps(number)),
            })
        };
        let of = |a| {
            let same = other.iter().filter(move |b| matches(a, b));
            same.filter_map(move |b| compared(a, b))
        };
        each.iter().flat_map(of).collect()
    }

    fn groups<'i>(&self, items: &'i [Item]) -> Vec<Vec<&'i Item>> {
        let mut groups: IndexMap<Vec<&str>, Vec<&Item>> = IndexMap::new();
        for item in items {
            let name = self.within.iter().map(|key| item.key(key)).collect();
            groups.entry(name).or_default().push(item);
        }
        groups.into_values().collect()
    }

    fn steps(&self, items: &[Item], key: &str) -> Vec<ComparedSides> {
        let mut all = Vec::new();
        for group in self.groups(items) {
            let mut levels: Vec<(f64, Vec<&Item>)> = Vec::new();
            for item in group {
                let Ok(at) = item.key(key).parse::<f64>() else {
                    continue;
                };
                match levels.iter_mut().find(|(level, _)| *level == at) {
                    Some((_, of_level)) => of_level.push(item),
                    None => levels.push((at, vec![item])),
                }
            }
            levels.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in levels.windows(2) {
                for later in &pair[1].1 {
                    let before = pair[0].1.iter();
                    all.extend(before.filter_map(|before| self.ratio(later, before)));
                }
            }
        }
        all
    }

    fn spreads(&self, items: &[Item]) -> Vec<ComparedSides> {
        let by_value = |a: &&&Item, b: &&&Item| a.value.total_cmp(&b.value);
        let groups = self.groups(items).into_iter().filter(|g| g.len() > 1);
        groups
            .filter_map(|group| {
                let largest = group.iter().max_by(by_value)?;
                let smallest = group.iter().min_by(by_value)?;
                self.ratio(largest, smallest)
            })
            .collect()
    }
}

/// Formats a number with four significant digits, without zeros at the end.
pub(super) fn shown(value: f64) -> String {
    let decimals = if value == 0.0 {
        0
    } else {
        (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
