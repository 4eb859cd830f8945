//! A matrix as columns of values along axes.
//!
//! A grid has axes; an axis is one factor, or several that are zipped. A column is a factor's value for each position of its axis, so a
//! zipped, a derived (mapping from processes) and a defaulted factor (class from app) look the same to what reads them.

use super::{
    factor::{Entry, Factor, Value, same_user},
    model::Site,
};
use crate::{
    app::LoadedApp,
    mapping::Mapping,
    point::{CheckpointerKind, Compression, UserValue},
    units::ByteSize,
};
use indexmap::IndexMap;
use std::collections::HashSet;

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
    pub checkpointer: Column<CheckpointerKind>,
    pub compression: Column<Compression>,
    pub aggregators: Column<Option<u32>>,
    pub cb_buffer: Column<Option<ByteSize>>,
    pub storage: Column<String>,
    pub user: Vec<(String, Column<UserValue>)>,
    /// The free factors of the first combination: cloning a map is cheaper than building one for each point.
    pub first_user: IndexMap<String, UserValue>,
    /// For each position of the compression's axis: another position stands for it where compression has no effect.
    pub shadowed: Vec<bool>,
    pub rules: Vec<Rule>,
}

impl Grid {
    /// Number of combinations.
    pub fn len(&self) -> usize {
        self.axes.iter().product()
    }

    /// Marks the positions whose compression has no effect and that another position stands for: one that says `none` and is otherwise
    /// equal, or the first of those that are otherwise equal. `neighbours` writes the other values of a position.
    pub fn mark_shadowed(&mut self, neighbours: impl Fn(usize) -> String) {
        let values = &self.compression.values;
        let rows: Vec<String> = (0..values.len()).map(neighbours).collect();
        let without: HashSet<&String> = rows.iter().zip(values).filter(|(_, v)| **v == Compression::None).map(|(row, _)| row).collect();
        let mut earlier = HashSet::new();
        self.shadowed =
            rows.iter().zip(values).map(|(row, v)| *v != Compression::None && (without.contains(row) || !earlier.insert(row))).collect();
    }

    /// The conditions of a rule's factor in this grid: `None` if the grid does not have the factor.
    pub fn condition(&self, entry: &Entry, sites: &IndexMap<String, Site>, apps: &IndexMap<String, LoadedApp>) -> Option<Condition> {
        fn among<T>(column: &Column<T>, entry: &Entry, same: impl Fn(&Value, &T) -> bool) -> Condition {
            let matches = column.values.iter().map(|v| entry.values.iter().any(|(wanted, _)| same(wanted, v))).collect();
            Condition { axis: column.axis, matches }
        }
        let name_is = |value: &Value, name: &str| matches!(value, Value::Name(n) if n == name);
        Some(match &entry.factor {
            Factor::Site => among(&self.site, entry, |v, i| sites.get_index(*i).is_some_and(|(name, _)| name_is(v, name))),
            Factor::App => among(&self.app, entry, |v, i| apps.get_index(*i).is_some_and(|(name, _)| name_is(v, name))),
            Factor::Class => among(&self.class, entry, |v, name| name_is(v, name)),
            Factor::Mpi => among(&self.mpi, entry, |v, name| name_is(v, name)),
            Factor::Storage => among(&self.storage, entry, |v, name| name_is(v, name)),
            Factor::Mapping => among(&self.mapping, entry, |v, m| matches!(v, Value::Mapping(w) if w == m)),
            Factor::Processes => match &self.processes {
                Some(given) => among(given, entry, |v, p| *v == Value::Count(*p)),
                None => among(&self.mapping, entry, |v, m| *v == Value::Count(m.processes())),
            },
            Factor::Checkpointer => among(&self.checkpointer, entry, |v, k| *v == Value::Checkpointer(*k)),
            Factor::Compression => among(&self.compression, entry, |v, k| *v == Value::Compression(*k)),
            Factor::Aggregators => among(&self.aggregators, entry, |v, a| *v == Value::Aggregators(*a)),
            Factor::CbBuffer => among(&self.cb_buffer, entry, |v, b| *v == Value::Buffer(*b)),
            Factor::User(name) => {
                let (_, column) = self.user.iter().find(|(n, _)| n == name)?;
                among(column, entry, |v, u| matches!(v, Value::User(w) if same_user(w, u)))
            }
        })
    }
}
