//! Records: typed facts about a run. Measured values have another type than predicted or printed ones.

use crate::ids::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Printed by the application.
    ApplicationOutput,
    /// Measured by cvc's own clock.
    Clock,
    /// Read from the checkpointer's event log.
    CheckpointerLog,
    /// Read from a checkpoint image.
    Image,
    /// Size of a file on disk.
    FileSize,
    /// Read from a trace.
    Trace,
    /// The kernel's accounting of the processes (getrusage, /proc).
    Kernel,
    /// A file system's counters of its clients.
    FileSystem,
    /// Time by cvc's own clock, multiplied by a price.
    Price,
    /// Measured elsewhere, in an imported table.
    Imported,
}

pub use crate::measured::{Unit, names};

/// One measured fact of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run.
    pub run: RunId,
    /// Name of the quantity: one of [`names`], or a figure of merit of the application.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// How it was obtained.
    pub source: Source,
    /// Source file, relative to the run's directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub artefact: Option<String>,
    /// Labels that distinguish the record from others with the same name: ckpt, rank, zone, kind, image, role, rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_figure_is_read_to_its_last_digit(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            let record = Record {
                run: RunId::from_written("r"),
                name: names::COST_USD.to_owned(),
                value,
                unit: Unit::Usd,
                source: Source::Price,
                artefact: None,
                labels: Default::default(),
            };
            let text = serde_json::to_string(&record).expect("JSON");
            let read: Record = serde_json::from_str(&text).expect("a record");
            prop_assert_eq!(read.value.to_bits(), value.to_bits(), "{}", text);
        }
    }
}
