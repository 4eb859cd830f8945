//! From how many clients or checkpoints on which layout needs the fewest operations or the least time: predicted from half of the settings of a
//! campaign, and judged at the others.

use crate::results::{data::Data, rows::PointRow};
use cvc_core::record::names;
use cvc_model::{
    Estimate,
    metadata::{
        Layout, MetadataSetting,
        crossing::{LayoutLine, WinningRange, winning_ranges},
        law::{Counted, OperationLaw},
        time_law::TimeLaw,
    },
    stats::compare,
};
use cvc_show::{Cell, Column, Table};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Quantities that are compared, with what a layout of the least value has.
const QUANTITIES: [(&str, &str); 3] = [
    (names::METADATA_OPERATIONS, "fewest metadata operations"),
    (
        names::METADATA_MESSAGES,
        "fewest messages to metadata servers",
    ),
    (names::CKPT_LATENCY_S, "least checkpoint time"),
];

/// Numbers of clients and of checkpoints.
type Setting = (u64, u64);
/// Values of the repeats by setting.
type Values = BTreeMap<Setting, Vec<f64>>;

/// The variable along which layouts are compared; the other one is fixed.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    Clients,
    Checkpoints,
}

impl Along {
    fn of(self, (clients, checkpoints): Setting) -> (u64, u64) {
        match self {
            Self::Clients => (clients, checkpoints),
            Self::Checkpoints => (checkpoints, clients),
        }
    }

    fn setting(self, at: u64, fixed: u64) -> Setting {
        match self {
            Self::Clients => (at, fixed),
            Self::Checkpoints => (fixed, at),
        }
    }
}

/// A quantity as a function of the setting, fitted to some of the settings.
enum Law {
    Operations(OperationLaw),
    Time(TimeLaw),
}

fn metadata_setting((clients, checkpoints): Setting) -> MetadataSetting {
    MetadataSetting {
        clients,
        checkpoints,
        // not varied: part of the other terms
        servers: 1,
    }
}

/// The fitted laws of all layouts with enough settings.
struct Fitted(BTreeMap<Layout, Law>);

impl Fitted {
    fn new(all: &BTreeMap<Layout, Values>, fitted: &BTreeSet<Setting>, quantity: &str) -> Self {
        let law = |values: &Values| {
            let values = values.iter().filter(|(at, _)| fitted.contains(at));
            match quantity {
                names::CKPT_LATENCY_S => time_law(values),
                _ => operation_law(values),
            }
        };
        let laws = all
            .iter()
            .filter_map(|(layout, values)| Some((*layout, law(values)?)));
        Self(laws.collect())
    }

    /// Returns the prediction of each layout whose law determines it.
    fn at(&self, at: Setting) -> BTreeMap<Layout, Estimate> {
        let of = |law: &Law| match law {
            Law::Operations(law) => law.at(metadata_setting(at)).ok(),
            Law::Time(law) => Some(law.at(at.0, at.1)),
        };
        let laws = self.0.iter();
        laws.filter_map(|(layout, law)| Some((*layout, of(law)?)))
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn operation_law<'v>(values: impl Iterator<Item = (&'v Setting, &'v Vec<f64>)>) -> Option<Law> {
    let mut counts = Vec::new();
    for (at, values) in values {
        for value in values {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let count = value.round() as u64;
            counts.push(Counted {
                at: metadata_setting(*at),
                count,
            });
        }
    }
    OperationLaw::fit(&counts).ok().map(Law::Operations)
}

fn time_law<'v>(values: impl Iterator<Item = (&'v Setting, &'v Vec<f64>)>) -> Option<Law> {
    let times: Vec<(u64, u64, f64)> = values.map(|(at, of)| (at.0, at.1, mean(of))).collect();
    TimeLaw::fit(&times).ok().map(Law::Time)
}

/// Returns every second setting of the grid in both directions, so that each number of clients and of checkpoints is in both halves.
fn half(settings: &BTreeSet<Setting>) -> BTreeSet<Setting> {
    let place = |of: fn(&Setting) -> u64| {
        let levels: BTreeSet<u64> = settings.iter().map(of).collect();
        levels
            .into_iter()
            .zip(0_usize..)
            .collect::<BTreeMap<_, _>>()
    };
    let (clients, checkpoints) = (place(|at| at.0), place(|at| at.1));
    let is_even = |at: &&Setting| (clients[&at.0] + checkpoints[&at.1]).is_multiple_of(2);
    settings.iter().filter(is_even).copied().collect()
}

/// Returns the layouts that may have the least value by the predictions, or by the repeats.
fn least_predicted(of: &BTreeMap<Layout, Estimate>) -> BTreeSet<Layout> {
    let ends = |e: &Estimate| e.interval.map_or((e.value, e.value), |i| (i.low, i.high));
    let highest = of.values().map(|e| ends(e).1).fold(f64::INFINITY, f64::min);
    let may = of.iter().filter(|(_, e)| ends(e).0 <= highest);
    may.map(|(layout, _)| *layout).collect()
}

fn least_measured(of: &BTreeMap<Layout, &Vec<f64>>) -> BTreeSet<Layout> {
    let best = of.values().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let Some(best) = best else {
        return BTreeSet::new();
    };
    let is_least = |values: &[f64]| {
        mean(values) <= mean(best)
            // counts that do not scatter differ without a test
            || (values.iter().any(|v| *v != values[0]) || best.iter().any(|v| *v != best[0]))
                && !compare(values, best).is_some_and(|c| c.differs())
    };
    let least = of.iter().filter(|(_, values)| is_least(values));
    least.map(|(layout, _)| *layout).collect()
}

/// Held-out settings of a range by outcome.
#[derive(Default)]
struct Outcomes {
    confirmed: usize,
    refuted: Vec<String>,
    open: usize,
}

impl Outcomes {
    fn describe(&self) -> String {
        let all = self.confirmed + self.refuted.len() + self.open;
        match self {
            _ if all == 0 => "not measured".to_owned(),
            Self { refuted, .. } if !refuted.is_empty() => {
                format!("refuted {}", refuted.join(", "))
            }
            Self { confirmed: 0, .. } => "undecided: no layout is clearly the best".to_owned(),
            Self { confirmed, .. } => format!("confirmed at {confirmed} of {all}"),
        }
    }
}

fn words(layouts: impl IntoIterator<Item = Layout>) -> String {
    let words: Vec<&str> = layouts.into_iter().map(Layout::word).collect();
    words.join(", ")
}

/// Points that differ in layout, clients and checkpoints only.
struct Group {
    at: String,
    quantity: &'static str,
    what: &'static str,
    values: BTreeMap<Layout, Values>,
}

impl Group {
    /// Returns the settings at which all layouts were measured.
    fn settings(&self) -> BTreeSet<Setting> {
        let mut of = self
            .values
            .values()
            .map(|v| v.keys().copied().collect::<BTreeSet<_>>());
        let first = of.next().unwrap_or_default();
        of.fold(first, |all, own| all.intersection(&own).copied().collect())
    }

    /// Adds the rows of the ranges in which a layout wins, each with its outcome at held-out settings.
    fn rows(&self, rows: &mut Vec<Vec<Cell>>) {
        let settings = self.settings();
        let fitted = half(&settings);
        let held_out: BTreeSet<Setting> = settings.difference(&fitted).copied().collect();
        if held_out.is_empty() {
            return;
        }
        let laws = Fitted::new(&self.values, &fitted, self.quantity);
        for along in [Along::Clients, Along::Checkpoints] {
            let fixed: BTreeSet<u64> = settings.iter().map(|at| along.of(*at).1).collect();
            for fixed in fixed {
                let own = settings.iter().filter(|at| along.of(**at).1 == fixed);
                let own: Vec<u64> = own.map(|at| along.of(*at).0).collect();
                let (Some(first), Some(last)) = (own.first(), own.last()) else {
                    continue;
                };
                if first == last {
                    continue;
                }
                for range in self.ranges(&laws, along, fixed, (*first, *last)) {
                    let outcomes = self.judge(&laws, along, fixed, &range, &held_out);
                    rows.push(self.row(along, fixed, &range, &outcomes));
                }
            }
        }
    }

    fn ranges(
        &self,
        laws: &Fitted,
        along: Along,
        fixed: u64,
        (first, last): (u64, u64),
    ) -> Vec<WinningRange> {
        let (begin, end) = (
            laws.at(along.setting(first, fixed)),
            laws.at(along.setting(last, fixed)),
        );
        let line = |(layout, of): (&Layout, &Estimate)| {
            Some(LayoutLine {
                layout: *layout,
                first: of.value,
                last: end.get(layout)?.value,
            })
        };
        let lines: Vec<LayoutLine> = begin.iter().filter_map(line).collect();
        // a law that is unknown for one layout leaves the winner open
        if lines.len() < self.values.len() {
            return Vec::new();
        }
        winning_ranges(&lines, first, last)
    }

    fn judge(
        &self,
        laws: &Fitted,
        along: Along,
        fixed: u64,
        range: &WinningRange,
        held_out: &BTreeSet<Setting>,
    ) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for at in held_out {
            let (value, other) = along.of(*at);
            if other != fixed || !(range.from..=range.to).contains(&value) {
                continue;
            }
            let predicted = least_predicted(&laws.at(*at));
            let measured = self.values.iter().map(|(layout, of)| (*layout, &of[at]));
            let measured = least_measured(&measured.collect());
            if measured.len() == self.values.len() || predicted.len() == self.values.len() {
                outcomes.open += 1;
            } else if predicted.is_disjoint(&measured) {
                outcomes
                    .refuted
                    .push(format!("at {value}: {}", words(measured)));
            } else {
                outcomes.confirmed += 1;
            }
        }
        outcomes
    }

    fn row(
        &self,
        along: Along,
        fixed: u64,
        range: &WinningRange,
        outcomes: &Outcomes,
    ) -> Vec<Cell> {
        let (variable, constant) = match along {
            Along::Clients => ("clients", "checkpoints"),
            Along::Checkpoints => ("checkpoints", "clients"),
        };
        vec![
            Cell::text(&self.at),
            Cell::text(self.what),
            Cell::text(format!("{fixed} {constant}")),
            Cell::text(variable),
            Cell::count(range.from as usize),
            Cell::count(range.to as usize),
            Cell::text(words(range.layouts.iter().copied())),
            Cell::text(outcomes.describe()),
        ]
    }
}

/// Returns whether several points have the same `number` but another `level`.
fn shares<'d, N: Ord, L: PartialEq + 'd>(
    data: &'d Data,
    number: impl Fn(&PointRow) -> N,
    level: impl Fn(&'d PointRow) -> L,
) -> bool {
    let mut levels: BTreeMap<N, L> = BTreeMap::new();
    let mut points = data.points.iter().filter(|point| point.checkpoints > 0);
    points.any(|point| *levels.entry(number(point)).or_insert_with(|| level(point)) != level(point))
}

/// Groups the points by the levels of all factors but layout and mapping. Classes are one group if each has another number of checkpoints, numbers of
/// nodes if each number of processes is on as many nodes.
fn groups(data: &Data) -> Vec<Group> {
    let by_class = shares(
        data,
        |point| point.checkpoints,
        |point| point.factor("class"),
    );
    let by_nodes = shares(data, |point| point.processes, |point| point.nodes);
    let others: Vec<&str> = (data.varying().into_iter())
        .filter(|factor| !["layout", "mapping", "processes"].contains(factor))
        .filter(|factor| by_class || *factor != "class")
        .collect();
    let mut groups: IndexMap<(String, usize), BTreeMap<Layout, Values>> = IndexMap::new();
    for point in data.points.iter().filter(|point| point.checkpoints > 0) {
        let Some(layout) = Layout::from_word(point.factor("layout")) else {
            continue;
        };
        let levels = others.iter().map(|factor| point.factor(factor).to_owned());
        let nodes = by_nodes.then(|| format!("{} nodes", point.nodes));
        let levels: Vec<String> = levels.chain(nodes).collect();
        let at = (u64::from(point.processes), u64::from(point.checkpoints));
        for (place, (quantity, _)) in QUANTITIES.iter().enumerate() {
            let values = point.independent(quantity);
            if !values.is_empty() {
                let of = groups.entry((levels.join(", "), place)).or_default();
                of.entry(layout)
                    .or_default()
                    .entry(at)
                    .or_default()
                    .extend(values);
            }
        }
    }
    groups.sort_unstable_keys();
    let group = |((at, place), values): ((String, usize), BTreeMap<Layout, Values>)| Group {
        at,
        quantity: QUANTITIES[place].0,
        what: QUANTITIES[place].1,
        values,
    };
    groups
        .into_iter()
        .map(group)
        .filter(|group| group.values.len() > 1)
        .collect()
}

/// Returns the table; `None` if no group has settings to predict and others to judge.
pub(super) fn table(data: &Data) -> Option<Table> {
    let mut rows = Vec::new();
    for group in groups(data) {
        group.rows(&mut rows);
    }
    let columns = vec![
        Column::plain("at", "at"),
        Column::plain("quantity", "quantity"),
        Column::plain("fixed", "with"),
        Column::plain("variable", "for"),
        Column::plain("from", "from"),
        Column::plain("to", "to"),
        Column::plain("layouts", "best layout"),
        Column::plain("verdict", "at held-out settings"),
    ];
    let caption = "Predicted from every second setting, a number of clients and of checkpoints, and judged at the others: the predicted layout is among those with \
                   the least measured value, or another one is. Operations follow their law, times a·C·n + b·n + c·C + e.";
    let mut table = Table::new(
        "layout-crossings",
        "Best layouts and where they change",
        caption,
        columns,
    );
    table.rows = rows;
    (!table.rows.is_empty()).then_some(table)
}
