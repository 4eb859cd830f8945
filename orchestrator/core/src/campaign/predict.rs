//! `[predict]`: the points on which models are fitted, the points on which they are tested, and the bounds for their errors.

use super::{
    factor::{Entry, Factor, Value, same_user},
    level::OfPoint,
};
use crate::{factor_registry::settings, point::Point, quantity::Quantity, source::Span};
use indexmap::IndexMap;

/// How a point is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Models are fitted on the point.
    Train,
    /// Models are tested on the point.
    HeldOut,
}

/// A set of conditions, all of which a point must meet.
#[derive(Clone, Debug)]
pub struct When {
    /// The values of each given factor.
    pub entries: Vec<Entry>,
    /// Position of the conditions in the file.
    pub span: Span,
}

/// The division of points into training and held-out points, and the bounds of the prediction gate.
#[derive(Clone, Debug, Default)]
pub struct PredictSettings {
    /// Training points are those that meet one of these conditions.
    pub train: Vec<When>,
    /// Held-out points are those that meet one of these conditions; `None` for all points that are not training points.
    pub held_out: Option<Vec<When>>,
    /// Maximum mean error of a quantity over the held-out points of a program and MPI library, percent.
    pub max_error_pct: IndexMap<Quantity, f64>,
    /// Minimum share of held-out measurements with a 95 % interval that lie within their interval, percent.
    pub min_coverage_pct: Option<f64>,
}

impl PredictSettings {
    /// Returns how a point is used; `None` if it is neither a training nor a held-out point.
    pub fn role(&self, point: &Point) -> Option<Role> {
        if any(&self.train, point) {
            return Some(Role::Train);
        }
        self.held_out
            .as_ref()
            .is_none_or(|held_out| any(held_out, point))
            .then_some(Role::HeldOut)
    }

    /// Returns all given factors with their values.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.train
            .iter()
            .chain(self.held_out.iter().flatten())
            .flat_map(|w| &w.entries)
    }
}

/// Returns whether a point meets one of these sets of conditions.
pub(super) fn any(conditions: &[When], point: &Point) -> bool {
    conditions.iter().any(|w| w.matches(point))
}

impl When {
    /// Returns whether a point meets all conditions of the set.
    pub(super) fn matches(&self, point: &Point) -> bool {
        self.entries.iter().all(|entry| {
            entry
                .values
                .iter()
                .any(|(value, _)| is(&entry.factor, value, point))
        })
    }
}

macro_rules! define_is {
    ($($Name:ident $name:ident: $type:ty, $level:ty = $default:expr, $needs:ident, $digest:ident;)*) => {
        /// Returns whether a factor of a point has this value.
        fn is(factor: &Factor, value: &Value, point: &Point) -> bool {
            let name = |of: &str| matches!(value, Value::Name(n) if n == of);
            match factor {
                Factor::Site => name(&point.site),
                Factor::App => name(&point.app),
                Factor::Class => name(&point.class),
                Factor::Mpi => name(&point.mpi),
                Factor::Storage => name(&point.storage),
                Factor::Mapping => matches!(value, Value::Mapping(m) if *m == point.mapping),
                Factor::Processes => *value == Value::Count(point.processes()),
                Factor::Threads => point.threads().is_some_and(|of| *value == Value::Count(of)),
                Factor::User(user) => matches!(value, Value::User(v) if point.user.get(user).is_some_and(|of| same_user(v, of))),
                $(Factor::$Name => matches!(value, Value::$Name(level) if OfPoint::level(&point.$name) == Some(level)),)*
            }
        }
    };
}
settings!(define_is);
