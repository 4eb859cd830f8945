//! `[predict]`: the points that models are fitted on, the points that they are judged on, and the bounds that they must keep.

use super::{
    factor::{Entry, Factor, Value, same_user},
    level::OfPoint,
};
use crate::{factor_registry::settings, point::Point, quantity::Quantity, source::Span};
use indexmap::IndexMap;

/// Which side of the split a point is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Models are fitted on it.
    Train,
    /// Models are judged on it.
    HeldOut,
}

/// A set of conditions, all of which a point must meet.
#[derive(Clone, Debug)]
pub struct When {
    /// The values of each factor that is named.
    pub entries: Vec<Entry>,
    /// Their position in the file.
    pub span: Span,
}

/// What is predicted from what, and the bounds of the gate.
#[derive(Clone, Debug, Default)]
pub struct PredictSettings {
    /// Points that models are fitted on: those that meet one of these.
    pub train: Vec<When>,
    /// Points that models are judged on; `None`: every point that is not a training point.
    pub held_out: Option<Vec<When>>,
    /// Largest mean error of a quantity over the held-out points of a program and MPI library, percent.
    pub max_error_pct: IndexMap<Quantity, f64>,
    /// Minimum share of the held-out cells that have a 95 % interval, and of those the share that lie within it, percent.
    pub min_coverage_pct: Option<f64>,
}

impl PredictSettings {
    /// The side of a point; `None` if it is on neither.
    pub fn role(&self, point: &Point) -> Option<Role> {
        if any(&self.train, point) {
            return Some(Role::Train);
        }
        self.held_out
            .as_ref()
            .is_none_or(|held_out| any(held_out, point))
            .then_some(Role::HeldOut)
    }

    /// Every factor that is named, with its values.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.train
            .iter()
            .chain(self.held_out.iter().flatten())
            .flat_map(|w| &w.entries)
    }
}

/// Whether a point meets one of these.
pub(super) fn any(conditions: &[When], point: &Point) -> bool {
    conditions.iter().any(|w| w.matches(point))
}

impl When {
    /// Whether a point meets them.
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
        /// Whether a factor of a point has a value.
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
                Factor::User(user) => matches!(value, Value::User(v) if point.user.get(user).is_some_and(|of| same_user(v, of))),
                $(Factor::$Name => matches!(value, Value::$Name(level) if OfPoint::level(&point.$name) == Some(level)),)*
            }
        }
    };
}
settings!(define_is);
