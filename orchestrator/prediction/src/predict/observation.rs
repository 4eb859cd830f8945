//! Observations at one setting.

use super::{environment::Environment, setting::RunSetting};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_model::{Identified, Output, Setting, shmem};
use serde::Serialize;
use std::collections::BTreeMap;

/// The observed values at one point; for a campaign, means over its counted runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// The point's identifier, or FILE:LINE.
    pub id: String,
    /// Label for display, such as `npb-bt.A 1Nx4P mpich-ch3`.
    pub label: String,
    /// Origin of the observation: the directory of a campaign, or a file.
    pub origin: String,
    /// The observed setting.
    #[serde(flatten)]
    pub setting: RunSetting,
    /// DMTCP and kernel; `None` if unknown, or if no checkpoint was taken.
    pub environment: Option<Environment>,
    /// Number of cores of each node; `None` if unknown, or if nodes differ.
    pub cores: Option<u32>,
    /// Mean of each quantity.
    pub quantities: BTreeMap<Quantity, f64>,
    /// Share of each zone in the compressed file divided by its share in the image, with zones by owner; only for gzip runs that recorded it.
    #[serde(skip)]
    pub zone_ratios: BTreeMap<Quantity, f64>,
}

impl Identified for Observation {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Observation {
    /// Returns the number of processes on each node, if all nodes have the same number.
    pub fn load(&self) -> Option<u32> {
        self.setting.load()
    }

    /// Returns the observed value of a quantity.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        self.quantities.get(&quantity).copied()
    }

    /// Returns the value to which models are fitted: for files next to the images, the value of one node; for other quantities, the observed value.
    /// If headers were not observed, their value is the size of an image, or of an uncompressed file, minus its zones.
    pub(crate) fn fitted(&self, quantity: Quantity) -> Option<f64> {
        let observed = self.value(quantity);
        match quantity {
            Quantity::Aux => Some(observed? / f64::from(self.setting.mapping.nodes())),
            Quantity::Headers => observed.or_else(|| {
                let zones = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem];
                let zones = zones.iter().map(|zone| self.value(*zone));
                let plain = self.setting.compression == Compression::None;
                let file = || self.value(Quantity::File).filter(|_| plain);
                Some(self.value(Quantity::Image).or_else(file)? - zones.sum::<Option<f64>>()?)
            }),
            _ => observed,
        }
    }

    /// Returns the observed setting as models use it. For an uneven mapping, it has the number of processes on the first node.
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

    /// Returns the MiB of the program's data in the files of a node: the data zone, and data next to shared memory.
    fn own_mib(&self) -> Option<f64> {
        let load = self.load()?;
        let (data, shared) = (self.value(Quantity::Dtapp)?, self.value(Quantity::Shmem)?);
        Some(f64::from(load) * (data + shmem::data_mib(&self.setting.on_node(load), shared)))
    }

    /// Returns the MiB of the files of a node, if all nodes have the same number of ranks: the files of all ranks including aggregators, or the
    /// number of ranks times the mean file.
    pub(crate) fn node_mib(&self) -> Option<f64> {
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
            let suffixes: &[&str] = match q.unit() {
                "MiB" => &["_mib"],
                "s" => &["_s"],
                _ => &["_files", "_writes", "_reads"],
            };
            assert!(suffixes.iter().any(|of| q.name().ends_with(of)), "{q}");
        }
    }
}
