//! What was observed at one setting.

use super::{environment::Environment, setting::RunSetting};
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_model::{Identified, Output, Setting, shmem};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that was observed at one point: of a campaign, the means over its counted runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// A point's identifier, or FILE:LINE.
    pub id: String,
    /// For people: `npb-bt.A 1Nx4P mpich-ch3`.
    pub label: String,
    /// Where it comes from: a campaign's directory or a file.
    pub origin: String,
    /// Where it was observed.
    #[serde(flatten)]
    pub setting: RunSetting,
    /// DMTCP and kernel; `None` if that is not known, or no checkpoint was taken.
    pub environment: Option<Environment>,
    /// Cores of each of its nodes; `None` if not known, or if they differ.
    pub cores: Option<u32>,
    /// Means, by quantity.
    pub quantities: BTreeMap<Quantity, f64>,
    /// Of a gzip run that recorded it, what a zone takes of the file by what it takes of the image, by owner.
    #[serde(skip)]
    pub zone_ratios: BTreeMap<Quantity, f64>,
}

impl Identified for Observation {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Observation {
    /// Processes on each node, if all nodes have the same number.
    pub fn load(&self) -> Option<u32> {
        self.setting.load()
    }

    /// A value that was observed.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        self.quantities.get(&quantity).copied()
    }

    /// The value that models are fitted to: of files beside the images that of a node, and else what was observed. Where a table has no
    /// headers, they are what an image has beyond its zones.
    pub(crate) fn fitted(&self, quantity: Quantity) -> Option<f64> {
        let observed = self.value(quantity);
        match quantity {
            Quantity::Aux => Some(observed? / f64::from(self.setting.mapping.nodes())),
            Quantity::Headers => observed.or_else(|| {
                let zones = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem];
                let zones = zones.iter().map(|zone| self.value(*zone));
                Some(self.value(Quantity::Image)? - zones.sum::<Option<f64>>()?)
            }),
            _ => observed,
        }
    }

    /// Where it was observed, as models see it. An uneven mapping stands with the load of its first node.
    pub fn model_setting(&self) -> Setting {
        let RunSetting {
            mapping,
            aggregators,
            cb_buffer,
            ..
        } = &self.setting;
        let first = mapping.groups().first().map_or(1, |g| g.processes_per_node);
        let output = Output {
            node_mib: self.node_mib(),
            own_mib: self.own_mib(),
            aggregators: *aggregators,
            buffer_mib: cb_buffer.map(|b| b.0 as f64 / MIB),
            cores: self.cores,
        };
        Setting {
            output,
            ..self.setting.on_node(self.load().unwrap_or(first))
        }
    }

    /// MiB of the files of a node that are data of the program: its zone, and what lies beside shared memory.
    fn own_mib(&self) -> Option<f64> {
        let load = self.load()?;
        let (data, shared) = (self.value(Quantity::Dtapp)?, self.value(Quantity::Shmem)?);
        Some(f64::from(load) * (data + shmem::data_mib(&self.setting.on_node(load), shared)))
    }

    /// MiB of the files of a node, if all nodes have the same number of ranks: those of all ranks, aggregators too, or the mean file of a rank by their number.
    fn node_mib(&self) -> Option<f64> {
        let load = self.load()?;
        let of_all = self
            .value(Quantity::Ranks)
            .map(|all| all / f64::from(self.setting.mapping.nodes()));
        let of_one = || {
            self.value(Quantity::File)
                .or(self.value(Quantity::Image))
                .map(|file| file * f64::from(load))
        };
        of_all.or_else(of_one).filter(|mib| *mib > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use cvc_core::quantity::Quantity;

    #[test]
    fn names_of_quantities_are_unique_and_carry_their_unit() {
        let mut names: Vec<&str> = Quantity::ALL.iter().map(|q| q.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Quantity::ALL.len());
        for q in Quantity::ALL {
            let suffix = match q.unit() {
                "MiB" => "_mib",
                "s" => "_s",
                _ => "_files",
            };
            assert!(q.name().ends_with(suffix), "{q}");
        }
    }
}
