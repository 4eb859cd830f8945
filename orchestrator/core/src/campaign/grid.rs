//! A matrix as columns of values along axes.
//!
//! A grid has axes. An axis has one factor, or several zipped factors. A column has a factor's value for each position of its axis, so that zipped,
//! derived (mapping from processes) and defaulted factors (class from app) look the same to readers.

use super::{
    factor::{Entry, Factor, Value, same_user},
    level::OfPoint,
    model::Site,
};
use crate::{
    app::LoadedApp,
    factor_registry::settings,
    mapping::Mapping,
    point::{CheckpointerKind, Needs, Point, Reason, UserValue},
};
use indexmap::IndexMap;
use std::collections::HashMap;

/// The values of a factor, one for each position of its axis.
#[derive(Clone, Debug)]
pub struct Column<T> {
    pub axis: usize,
    pub values: Vec<T>,
}

impl<T> Column<T> {
    pub fn at(&self, index: &[usize]) -> &T {
        &self.values[index[self.axis]]
    }
}

impl<T: Default + PartialEq> Column<T> {
    /// Returns whether a combination represents all combinations that differ from it only in this factor. Called if the factor has no effect on them.
    /// The combination with the neutral level represents the others; without a neutral level, the first one does.
    pub fn stands_for_all(&self, index: &[usize]) -> bool {
        let neutral = self.values.iter().position(|of| *of == T::default());
        index[self.axis] == neutral.unwrap_or(0)
    }
}

/// Which positions of an axis a rule matches.
#[derive(Clone, Debug)]
pub struct Condition {
    pub axis: usize,
    pub matches: Vec<bool>,
}

/// Effect of a rule on the combinations that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEffect {
    /// `[[exclude]]`: the combinations do not run.
    Excludes,
    /// `[[expect_failure]]`: the combinations run, and are expected to fail.
    ExpectsFailure,
}

impl RuleEffect {
    /// Returns the name of the rule's tables in a campaign file.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Excludes => "exclude",
            Self::ExpectsFailure => "expect_failure",
        }
    }

    /// Returns the words with which messages introduce the reason of a rule.
    pub const fn explained(self) -> &'static str {
        match self {
            Self::Excludes => "why these combinations are not run",
            Self::ExpectsFailure => "why these combinations fail",
        }
    }
}

/// A rule, applied to one grid.
#[derive(Clone, Debug)]
pub struct Rule {
    pub effect: RuleEffect,
    pub conditions: Vec<Condition>,
    pub reason: String,
}

/// Positions of an axis that do not run: each differs from another position only in factors without effect, and the other position runs instead.
#[derive(Clone, Debug)]
pub struct Shadow {
    pub axis: usize,
    /// For each position of the axis, whether another position runs instead.
    pub hidden: Vec<bool>,
    /// The reason.
    pub reason: Reason,
}

/// The shadows of each checkpointer, in the order of [`CheckpointerKind::ALL`].
#[derive(Clone, Debug, Default)]
pub struct Shadows(Vec<(CheckpointerKind, Vec<Shadow>)>);

impl Shadows {
    /// Finds the shadows of a grid. `axes` is the number of axes; `factors` has the factors, each with the number of its axis.
    pub fn find(axes: usize, factors: &[(usize, &Entry)]) -> Self {
        let of = |kind| {
            (0..axes)
                .filter_map(|axis| Shadow::find(kind, axis, factors))
                .collect()
        };
        Self(
            CheckpointerKind::ALL
                .iter()
                .map(|kind| (*kind, of(*kind)))
                .collect(),
        )
    }

    /// Returns why a combination does not run because another one represents it; `None` if none does.
    pub fn reason(&self, checkpointer: CheckpointerKind, index: &[usize]) -> Option<&Reason> {
        let (_, shadows) = self.0.iter().find(|(kind, _)| *kind == checkpointer)?;
        shadows
            .iter()
            .find(|s| s.hidden[index[s.axis]])
            .map(|s| &s.reason)
    }
}

impl Shadow {
    fn find(kind: CheckpointerKind, axis: usize, factors: &[(usize, &Entry)]) -> Option<Self> {
        let mute = |entry: &Entry| !entry.factor.needs().are_met_by(kind);
        let on_axis = factors
            .iter()
            .filter(|(of, _)| *of == axis)
            .map(|(_, entry)| *entry);
        let (mute, others): (Vec<&Entry>, Vec<&Entry>) = on_axis.partition(|entry| mute(entry));
        let positions = mute.first()?.values.len();
        // the position with `none` or false represents the others; if there is none, the first
        let plain = |i: usize| mute.iter().filter(|e| e.values[i].0.is_plain()).count();
        let mut kept: HashMap<String, usize> = HashMap::new();
        let rows: Vec<String> = (0..positions)
            .map(|i| {
                others
                    .iter()
                    .map(|e| format!("{:?};", e.values[i].0))
                    .collect()
            })
            .collect();
        for (i, row) in rows.iter().enumerate() {
            let best = kept.entry(row.clone()).or_insert(i);
            if plain(i) > plain(*best) {
                *best = i;
            }
        }
        let hidden: Vec<bool> = rows
            .iter()
            .enumerate()
            .map(|(i, row)| kept.get(row) != Some(&i))
            .collect();
        let reason = Reason::NoEffect {
            factors: mute.iter().map(|e| e.factor.name().to_owned()).collect(),
            without: mute.iter().map(|e| e.factor.needs()).min()?,
        };
        hidden.contains(&true).then_some(Self {
            axis,
            hidden,
            reason,
        })
    }
}

/// Returns the condition that a factor has one of the entry's values, as positions on the factor's axis.
fn among<T>(column: &Column<T>, entry: &Entry, same: impl Fn(&Value, &T) -> bool) -> Condition {
    let matches = column
        .values
        .iter()
        .map(|v| entry.values.iter().any(|(wanted, _)| same(wanted, v)))
        .collect();
    Condition {
        axis: column.axis,
        matches,
    }
}

macro_rules! define_columns {
    ($($Name:ident $name:ident: $type:ty, $level:ty = $default:expr, $needs:ident, $digest:ident;)*) => {
        /// Columns of all settings.
        #[derive(Clone, Debug)]
        pub struct SettingColumns {
            $(pub $name: Column<$level>,)*
        }

        impl SettingColumns {
            /// Sets the settings of a point to the values at this position of the grid.
            pub fn set(&self, point: &mut Point, index: &[usize]) {
                let checkpointer = *self.checkpointer.at(index);
                $(point.$name = OfPoint::of_level(self.$name.at(index), Needs::$needs.are_met_by(checkpointer));)*
            }

            /// Returns the condition that a setting has one of the entry's values; `None` for a factor that is not a setting.
            fn condition(&self, entry: &Entry) -> Option<Condition> {
                match &entry.factor {
                    $(Factor::$Name => Some(among(&self.$name, entry, |v, level| matches!(v, Value::$Name(w) if w == level))),)*
                    _ => None,
                }
            }
        }

        /// Resets the settings that have no effect on a point, so that points that differ only in these become equal.
        pub fn silence(point: &mut Point) {
            let checkpointer = point.checkpointer;
            $(if !Needs::$needs.are_met_by(checkpointer) {
                OfPoint::<$level>::silence(&mut point.$name);
            })*
        }

        impl Factor {
            /// Returns the ability that the factor requires of a point's checkpointer.
            fn needs(&self) -> Needs {
                match self {
                    $(Self::$Name => Needs::$needs,)*
                    _ => Needs::Nothing,
                }
            }
        }
    };
}
settings!(define_columns);

/// A matrix, or one extra point, for which every axis has one position.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Number of positions of each axis, slowest axis first; axis 0 has one position, for the constant values.
    pub axes: Vec<usize>,
    /// Index of the site.
    pub site: Column<usize>,
    /// Index of the application.
    pub app: Column<usize>,
    pub class: Column<String>,
    pub mapping: Column<Mapping>,
    /// Number of processes; `None` unless the file gives both this number and the mapping.
    pub processes: Option<Column<u32>>,
    /// Number of threads; `None` if the file does not give it.
    pub threads: Option<Column<u32>>,
    pub mpi: Column<String>,
    pub storage: Column<String>,
    pub settings: SettingColumns,
    pub user: Vec<(String, Column<UserValue>)>,
    /// Free factors of the first combination; cloning this map is cheaper than building one for each point.
    pub first_user: IndexMap<String, UserValue>,
    /// Positions of the axes that do not run, because other positions represent them.
    pub shadows: Shadows,
    pub rules: Vec<Rule>,
}

impl Grid {
    /// Returns the number of combinations.
    pub fn len(&self) -> usize {
        self.axes.iter().product()
    }

    /// Returns the mapping of a combination, with the number of threads that the file gives.
    pub fn mapping(&self, index: &[usize]) -> Mapping {
        let mapping = self.mapping.at(index).clone();
        match &self.threads {
            Some(threads) => mapping.with_threads(*threads.at(index)),
            None => mapping,
        }
    }

    /// Returns the condition for a factor of a rule in this grid; `None` if the grid does not have the factor.
    pub fn condition(
        &self,
        entry: &Entry,
        sites: &IndexMap<String, Site>,
        apps: &IndexMap<String, LoadedApp>,
    ) -> Option<Condition> {
        let name_is = |value: &Value, name: &str| matches!(value, Value::Name(n) if n == name);
        Some(match &entry.factor {
            Factor::Site => among(&self.site, entry, |v, i| {
                sites
                    .get_index(*i)
                    .is_some_and(|(name, _)| name_is(v, name))
            }),
            Factor::App => among(&self.app, entry, |v, i| {
                apps.get_index(*i).is_some_and(|(name, _)| name_is(v, name))
            }),
            Factor::Class => among(&self.class, entry, |v, name| name_is(v, name)),
            Factor::Mpi => among(&self.mpi, entry, |v, name| name_is(v, name)),
            Factor::Storage => among(&self.storage, entry, |v, name| name_is(v, name)),
            Factor::Mapping => among(
                &self.mapping,
                entry,
                |v, m| matches!(v, Value::Mapping(w) if w == m),
            ),
            Factor::Processes => match &self.processes {
                Some(given) => among(given, entry, |v, p| *v == Value::Count(*p)),
                None => among(&self.mapping, entry, |v, m| {
                    *v == Value::Count(m.processes())
                }),
            },
            Factor::Threads => match &self.threads {
                Some(given) => among(given, entry, |v, t| *v == Value::Count(*t)),
                None => among(&self.mapping, entry, |v, m| {
                    m.threads().is_some_and(|t| *v == Value::Count(t))
                }),
            },
            Factor::User(name) => {
                let (_, column) = self.user.iter().find(|(n, _)| n == name)?;
                among(
                    column,
                    entry,
                    |v, u| matches!(v, Value::User(w) if same_user(w, u)),
                )
            }
            _ => self.settings.condition(entry)?,
        })
    }
}
