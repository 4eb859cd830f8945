//! Names of the predicted quantities in campaign files and in files of predictions, and what of the index each is compared with.

pub use crate::predict::Quantity;

/// The quantities that are held against measurements, in the order of tables: those that a campaign file can name.
pub(crate) use crate::predict::JUDGED;

use crate::{predict, record::names, units::MIB};
use serde::{Deserialize, Deserializer, de};

/// Its name in campaign files: percents need no unit.
pub fn short(quantity: Quantity) -> &'static str {
    let name = quantity.name();
    name.strip_suffix("_mib").or_else(|| name.strip_suffix("_s")).unwrap_or(name)
}

/// The quantity with a name of files.
pub fn named(name: &str) -> Option<Quantity> {
    Quantity::ALL.into_iter().find(|q| q.name() == name)
}

/// The quantity with a name of campaign files.
pub fn named_short(name: &str) -> Option<Quantity> {
    JUDGED.into_iter().find(|q| short(*q) == name)
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name).ok_or_else(|| de::Error::custom(format!("`{name}` is no quantity that is predicted")))
    }
}

/// The quantity of the index (`summaries`) that it is compared with, and what that is to be multiplied by; `None` if the index has no
/// summary of it.
pub fn measured(quantity: Quantity) -> Option<(&'static str, f64)> {
    match quantity {
        Quantity::Stored => Some((names::CKPT_STORED_BYTES, 1.0 / MIB)),
        Quantity::Latency => Some((names::CKPT_LATENCY_S, 1.0)),
        Quantity::App => Some((names::WALL_S, 1.0)),
        other => predict::TAKEN.iter().find(|(_, q, _)| *q == other).map(|(name, _, factor)| (*name, *factor)),
    }
}
