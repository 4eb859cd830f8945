//! A matrix as columns of values along axes.
//!
//! A grid has axes; an axis is one factor, or several that are zipped. A column is a factor's value for each position of its axis, so a
//! zipped, a derived (mapping from processes) and a defaulted factor (class from app) look the same to what reads them.

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

/// The values of a factor along an axis.
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

/// Which values of an axis a rule is about.
#[derive(Clone, Debug)]
pub struct Condition {
    pub axis: usize,
    pub matches: Vec<bool>,
}

/// An `[[exclude]]` rule as it applies to one grid.
#[derive(Clone, Debug)]
pub struct Rule {
    pub conditions: Vec<Condition>,
    pub reason: String,
}

/// Positions of an axis that another position stands for, because only factors without effect tell them apart.
#[derive(Clone, Debug)]
pub struct Shadow {
    pub axis: usize,
    /// For each position.
    pub hidden: Vec<bool>,
    /// Why.
    pub reason: Reason,
}

/// Shadows by the checkpointer of a point, in the order of [`CheckpointerKind::ALL`].
#[derive(Clone, Debug, Default)]
pub struct Shadows(Vec<(CheckpointerKind, Vec<Shadow>)>);

impl Shadows {
    /// Finds the shadows of a grid with these axes, whose factors each stand on one of them.
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

    /// Why a combination is not run on its own, if another one stands for it.
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
        // the one that says `none` or false stands for the others, else the first
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

/// The positions of a column at which a factor has one of the values of a condition.
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
        /// The columns of the settings.
        #[derive(Clone, Debug)]
        pub struct SettingColumns {
            $(pub $name: Column<$level>,)*
        }

        impl SettingColumns {
            /// Sets the settings of the point at a position.
            pub fn set(&self, point: &mut Point, index: &[usize]) {
                let checkpointer = *self.checkpointer.at(index);
                $(point.$name = OfPoint::of_level(self.$name.at(index), Needs::$needs.are_met_by(checkpointer));)*
            }

            /// The conditions of a rule's setting; `None` for any other factor.
            fn condition(&self, entry: &Entry) -> Option<Condition> {
                match &entry.factor {
                    $(Factor::$Name => Some(among(&self.$name, entry, |v, level| matches!(v, Value::$Name(w) if w == level))),)*
                    _ => None,
                }
            }
        }

        /// Makes points equal that differ only in settings that say nothing of them.
        pub fn silence(point: &mut Point) {
            let checkpointer = point.checkpointer;
            $(if !Needs::$needs.are_met_by(checkpointer) {
                OfPoint::<$level>::silence(&mut point.$name);
            })*
        }

        impl Factor {
            /// What a checkpointer must do for it to say something of a point.
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

/// A matrix, or one extra point (every axis has one position).
#[derive(Clone, Debug)]
pub struct Grid {
    /// Positions of each axis, slowest first; axis 0 has one position and carries what is constant.
    pub axes: Vec<usize>,
    /// Index of a site.
    pub site: Column<usize>,
    /// Index of an application.
    pub app: Column<usize>,
    pub class: Column<String>,
    pub mapping: Column<Mapping>,
    /// Only if the file gives both this and the mapping.
    pub processes: Option<Column<u32>>,
    pub mpi: Column<String>,
    pub storage: Column<String>,
    pub settings: SettingColumns,
    pub user: Vec<(String, Column<UserValue>)>,
    /// The free factors of the first combination: cloning a map is cheaper than building one for each point.
    pub first_user: IndexMap<String, UserValue>,
    /// Positions that other positions stand for.
    pub shadows: Shadows,
    pub rules: Vec<Rule>,
}

impl Grid {
    /// Number of combinations.
    pub fn len(&self) -> usize {
        self.axes.iter().product()
    }

    /// The conditions of a rule's factor in this grid: `None` if the grid does not have the factor.
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
