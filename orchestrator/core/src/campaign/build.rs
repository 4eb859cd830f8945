//! Converts tables of factors to grids: looks up names, fills in defaults, attaches rules.

use super::{
    checker::Checker,
    factor::{Entry, Factor, Value},
    grid::{Column, Grid, Rule, RuleEffect, SettingColumns, Shadows},
    model::{CheckpointSettings, Site, TraceSettings},
};
use crate::{
    app::LoadedApp,
    source::{Span, suggestion},
};
use crate::{factor_registry::settings, mapping::Mapping};
use indexmap::IndexMap;

/// Maximum number of combinations of a matrix; a larger number is probably a typing error.
const MAX_COMBINATIONS: usize = 1_000_000;

/// A rule as written.
pub struct WrittenRule {
    pub effect: RuleEffect,
    pub when: Vec<Entry>,
    pub reason: String,
}

/// The names that factors may refer to, and the settings that defaults come from.
pub struct Known<'a> {
    pub sites: &'a IndexMap<String, Site>,
    pub apps: &'a IndexMap<String, LoadedApp>,
    pub rules: &'a [WrittenRule],
    pub checkpoint: &'a CheckpointSettings,
    pub trace: &'a TraceSettings,
}

/// Factors of a grid by axis. An axis has one factor or several zipped ones, whose lists have equal lengths.
struct Axes<'a> {
    sizes: Vec<usize>,
    factors: Vec<(usize, &'a Entry)>,
}

impl<'a> Axes<'a> {
    /// Numbers the axes after axis 0, which has the constant values; `None` if one of the axes has no factor.
    fn of(axes: &'a [Vec<Entry>]) -> Option<Self> {
        let mut found = Self {
            sizes: vec![1],
            factors: Vec::new(),
        };
        for axis in axes {
            let size = axis.first()?.values.len();
            for entry in axis {
                found.factors.push((found.sizes.len(), entry));
            }
            found.sizes.push(size);
        }
        Some(found)
    }

    fn find(&self, factor: &Factor) -> Option<(usize, &'a Entry)> {
        self.factors
            .iter()
            .find(|(_, e)| e.factor == *factor)
            .copied()
    }

    /// Returns the column of a factor. A factor that the file does not name gets its default, on axis 0.
    fn column<T: Clone>(
        &self,
        factor: &Factor,
        default: T,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Column<T> {
        match self.find(factor) {
            Some((axis, entry)) => Column {
                axis,
                values: entry
                    .values
                    .iter()
                    .map(|(v, _)| read(v).unwrap_or_else(|| default.clone()))
                    .collect(),
            },
            None => Column {
                axis: 0,
                values: vec![default],
            },
        }
    }
}

macro_rules! define_setting_columns {
    ($($Name:ident $name:ident: $type:ty, $level:ty = $default:expr, $needs:ident, $digest:ident;)*) => {
        /// Returns the columns of all settings. A setting that the file does not name has its default.
        fn setting_columns(found: &Axes<'_>, known: &Known<'_>) -> SettingColumns {
            SettingColumns {
                $($name: {
                    let default: fn(&Known<'_>) -> $level = $default;
                    found.column(&Factor::$Name, default(known), |value| match value {
                        Value::$Name(level) => Some(level.clone()),
                        _ => None,
                    })
                },)*
            }
        }
    };
}
settings!(define_setting_columns);

fn name(value: &Value) -> Option<String> {
    match value {
        Value::Name(name) => Some(name.clone()),
        _ => None,
    }
}

/// Builds a grid; `None` after an error. `whole` is the position of the table in the file.
pub fn grid(
    check: &mut Checker<'_>,
    known: &Known<'_>,
    axes: &[Vec<Entry>],
    whole: Option<Span>,
) -> Option<Grid> {
    let before = check.errors.len();
    let mut found = Axes::of(axes)?;
    let site = site_column(check, known, &mut found);
    let app = app_column(check, known, &found, whole.clone());
    let (mapping, processes) = mapping_columns(check, &found, whole.clone());
    if check.errors.len() > before {
        return None;
    }
    let (app, mapping) = (app?, mapping?);
    let class = class_column(check, known, &found, &app, whole);
    let of_sites = |names: &dyn Fn(&Site) -> Vec<String>| -> Vec<Vec<String>> {
        site.values
            .iter()
            .map(|i| {
                known
                    .sites
                    .get_index(*i)
                    .map(|(_, s)| names(s))
                    .unwrap_or_default()
            })
            .collect()
    };
    let libraries = of_sites(&|s| s.mpi.keys().cloned().collect());
    let mpi = column_of_sites(
        check,
        &found,
        Factor::Mpi,
        "MPI library",
        &libraries,
        site.axis,
    );
    let areas = of_sites(&|s| s.storage.keys().cloned().collect());
    let storage = column_of_sites(
        check,
        &found,
        Factor::Storage,
        "storage area",
        &areas,
        site.axis,
    );

    let mut combinations: usize = 1;
    for size in &found.sizes {
        combinations = combinations.saturating_mul(*size);
    }
    if combinations > MAX_COMBINATIONS {
        let span = found
            .factors
            .iter()
            .max_by_key(|(_, e)| e.values.len())
            .map(|(_, e)| e.key.clone());
        check.fail(
            span,
            format!(
                "the matrix has {combinations} combinations; the maximum is {MAX_COMBINATIONS}"
            ),
            "shorten lists, or vary factors together in a [[zip]]",
        );
    }
    if check.errors.len() > before {
        return None;
    }

    let user = user_columns(&found);
    let mut grid = Grid {
        site,
        app,
        class: class?,
        mapping,
        processes,
        threads: threads_column(&found),
        mpi,
        storage,
        settings: setting_columns(&found, known),
        first_user: user
            .iter()
            .filter_map(|(name, column)| Some((name.clone(), column.values.first()?.clone())))
            .collect(),
        user,
        shadows: Shadows::find(found.sizes.len(), &found.factors),
        rules: Vec::new(),
        axes: found.sizes.clone(),
    };
    attach_rules(known, &mut grid);
    Some(grid)
}

/// Returns the column of a factor whose levels are names in a site's settings, such as MPI libraries or storage areas. If the file does not name the
/// factor, each site's first name is the value.
fn column_of_sites(
    check: &mut Checker<'_>,
    found: &Axes<'_>,
    factor: Factor,
    what: &str,
    names: &[Vec<String>],
    site_axis: usize,
) -> Column<String> {
    match found.find(&factor) {
        Some((axis, entry)) => {
            check_names(check, entry, what, &names.concat());
            Column {
                axis,
                values: entry.values.iter().filter_map(|(v, _)| name(v)).collect(),
            }
        }
        None => Column {
            axis: site_axis,
            values: names
                .iter()
                .map(|names| names.first().cloned().unwrap_or_default())
                .collect(),
        },
    }
}

fn user_columns(found: &Axes<'_>) -> Vec<(String, Column<crate::point::UserValue>)> {
    found
        .factors
        .iter()
        .filter_map(|(axis, entry)| {
            let Factor::User(name) = &entry.factor else {
                return None;
            };
            let values = entry
                .values
                .iter()
                .filter_map(|(v, _)| match v {
                    Value::User(v) => Some(v.clone()),
                    _ => None,
                })
                .collect();
            Some((
                name.clone(),
                Column {
                    axis: *axis,
                    values,
                },
            ))
        })
        .collect()
}

fn attach_rules(known: &Known<'_>, grid: &mut Grid) {
    for rule in known.rules {
        // A rule that names a factor which this grid lacks matches nothing.
        let conditions: Option<Vec<_>> = rule
            .when
            .iter()
            .map(|e| grid.condition(e, known.sites, known.apps))
            .collect();
        if let Some(conditions) = conditions {
            grid.rules.push(Rule {
                effect: rule.effect,
                conditions,
                reason: rule.reason.clone(),
            });
        }
    }
}

/// Reports each value of the entry that is not a known name.
pub fn check_names(check: &mut Checker<'_>, entry: &Entry, what: &str, known: &[String]) {
    for (value, span) in &entry.values {
        let Value::Name(name) = value else { continue };
        if !known.contains(name) {
            let mut list: Vec<&str> = known.iter().map(String::as_str).collect();
            list.sort_unstable();
            list.dedup();
            check.fail(
                Some(span.clone()),
                format!("unknown {what} `{name}`"),
                suggestion(name, "known here", list),
            );
        }
    }
}

fn site_column(check: &mut Checker<'_>, known: &Known<'_>, found: &mut Axes<'_>) -> Column<usize> {
    let names: Vec<String> = known.sites.keys().cloned().collect();
    match found.find(&Factor::Site) {
        Some((axis, entry)) => {
            check_names(check, entry, "site", &names);
            let index = |v: &Value| {
                name(v)
                    .and_then(|n| known.sites.get_index_of(&n))
                    .unwrap_or(0)
            };
            Column {
                axis,
                values: entry.values.iter().map(|(v, _)| index(v)).collect(),
            }
        }
        None => {
            found.sizes.push(names.len());
            Column {
                axis: found.sizes.len() - 1,
                values: (0..names.len()).collect(),
            }
        }
    }
}

fn app_column(
    check: &mut Checker<'_>,
    known: &Known<'_>,
    found: &Axes<'_>,
    whole: Option<Span>,
) -> Option<Column<usize>> {
    let Some((axis, entry)) = found.find(&Factor::App) else {
        check.fail(
            whole,
            "the key `app` is missing",
            "add `app = \"NAME\"`, the name of a descriptor",
        );
        return None;
    };
    let index = |v: &Value| name(v).and_then(|n| known.apps.get_index_of(&n));
    Some(Column {
        axis,
        values: entry
            .values
            .iter()
            .map(|(v, _)| index(v))
            .collect::<Option<Vec<_>>>()?,
    })
}

fn mapping_columns(
    check: &mut Checker<'_>,
    found: &Axes<'_>,
    whole: Option<Span>,
) -> (Option<Column<Mapping>>, Option<Column<u32>>) {
    let count = |v: &Value| match v {
        Value::Count(count) => Some(*count),
        _ => None,
    };
    let mapping = |v: &Value| match v {
        Value::Mapping(mapping) => Some(mapping.clone()),
        _ => None,
    };
    match (found.find(&Factor::Mapping), found.find(&Factor::Processes)) {
        (Some((axis, entry)), given) => {
            let mappings = Column {
                axis,
                values: entry
                    .values
                    .iter()
                    .filter_map(|(v, _)| mapping(v))
                    .collect(),
            };
            let processes = given.map(|(axis, entry)| Column {
                axis,
                values: entry.values.iter().filter_map(|(v, _)| count(v)).collect(),
            });
            (Some(mappings), processes)
        }
        (None, Some((axis, entry))) => {
            let values = entry
                .values
                .iter()
                .filter_map(|(v, _)| count(v))
                .map(Mapping::one_node)
                .collect();
            (Some(Column { axis, values }), None)
        }
        (None, None) => {
            check.fail(
                whole,
                "neither `processes` nor `mapping` is given",
                "add `processes = [1, 4]`, or `mapping = [\"1Nx4P\"]`",
            );
            (None, None)
        }
    }
}

fn threads_column(found: &Axes<'_>) -> Option<Column<u32>> {
    let (axis, entry) = found.find(&Factor::Threads)?;
    let count = |v: &Value| match v {
        Value::Count(count) => Some(*count),
        _ => None,
    };
    let values = entry.values.iter().filter_map(|(v, _)| count(v)).collect();
    Some(Column { axis, values })
}

fn class_column(
    check: &mut Checker<'_>,
    known: &Known<'_>,
    found: &Axes<'_>,
    app: &Column<usize>,
    whole: Option<Span>,
) -> Option<Column<String>> {
    if let Some((axis, entry)) = found.find(&Factor::Class) {
        return Some(Column {
            axis,
            values: entry.values.iter().filter_map(|(v, _)| name(v)).collect(),
        });
    }
    let mut values = Vec::new();
    for index in &app.values {
        let (name, app) = known.apps.get_index(*index)?;
        let workloads: Vec<&str> = app
            .descriptor
            .workloads
            .keys()
            .map(String::as_str)
            .collect();
        match workloads.as_slice() {
            [only] => values.push((*only).to_owned()),
            several => {
                let hint = format!("add `class`; {name} has: {}", several.join(", "));
                check.fail(
                    whole,
                    format!(
                        "`class` is missing, and {name} has {} workloads",
                        several.len()
                    ),
                    hint,
                );
                return None;
            }
        }
    }
    Some(Column {
        axis: app.axis,
        values,
    })
}
