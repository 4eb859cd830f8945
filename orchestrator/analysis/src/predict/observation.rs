//! What was observed at one setting.

use cvc_core::quantity::Quantity;
use cvc_core::{
    mapping::Mapping,
    point::Compression,
    units::{ByteSize, MIB},
};
use cvc_model::{Identified, MpiKind, Output, Setting, nas};
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
    /// Name of the application's descriptor.
    pub app: String,
    /// Its workload.
    pub class: String,
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Name of the MPI library, as in the campaign or the table.
    pub mpi_name: String,
    /// What kind of library that is.
    pub mpi: MpiKind,
    /// How the files were stored.
    pub compression: Compression,
    /// Aggregators of collective I/O, if they were set.
    pub aggregators: Option<u32>,
    /// Collective buffer, if it was set.
    pub cb_buffer: Option<ByteSize>,
    /// Means, by quantity.
    pub quantities: BTreeMap<Quantity, f64>,
}

impl Identified for Observation {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Observation {
    /// The label of a setting.
    pub fn label_of(app: &str, class: &str, mapping: &Mapping, mpi: &str, compression: Compression) -> String {
        let gzip = if compression == Compression::Gzip { " gzip" } else { "" };
        format!("{app}.{class} {mapping} {mpi}{gzip}")
    }

    /// Its setting in words; observations of the same setting have the same.
    pub(super) fn setting_name(&self) -> String {
        format!("{} {:?} {:?}", self.label, self.aggregators, self.cb_buffer)
    }

    /// Processes on each node, if all nodes have the same number: only then does a mean over ranks belong to a node load.
    pub fn load(&self) -> Option<u32> {
        even_load(&self.mapping)
    }

    /// A value that was observed.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        self.quantities.get(&quantity).copied()
    }

    /// Where it was observed, as models see it. An uneven mapping stands with the load of its first node.
    pub fn setting(&self) -> Setting {
        let first = self.mapping.groups().first().map_or(1, |g| g.processes_per_node);
        let output =
            Output { node_mib: self.node_mib(), aggregators: self.aggregators, buffer_mib: self.cb_buffer.map(|b| b.0 as f64 / MIB) };
        Setting { output, ..setting(&self.app, &self.class, &self.mapping, self.load().unwrap_or(first), self.mpi) }
    }

    /// MiB of the files of a node, if all nodes have the same number of ranks: those of all ranks, aggregators too, or the mean file of a rank by their number.
    fn node_mib(&self) -> Option<f64> {
        let load = self.load()?;
        let of_all = self.value(Quantity::Ranks).map(|all| all / f64::from(self.mapping.nodes()));
        let of_one = || self.value(Quantity::File).or(self.value(Quantity::Image)).map(|file| file * f64::from(load));
        of_all.or_else(of_one).filter(|mib| *mib > 0.0)
    }
}

/// The common load of all nodes.
pub(super) fn even_load(mapping: &Mapping) -> Option<u32> {
    let mut loads = mapping.groups().iter().map(|g| g.processes_per_node);
    let first = loads.next()?;
    loads.all(|l| l == first).then_some(first)
}

/// A setting, with the benchmark that it is.
pub(super) fn setting(app: &str, class: &str, mapping: &Mapping, per_node: u32, mpi: MpiKind) -> Setting {
    Setting {
        app: app.to_owned(),
        class: class.to_owned(),
        nas: nas::Problem::of(app, class),
        mapping: mapping.clone(),
        per_node,
        mpi,
        output: Output::default(),
    }
}

/// The kind of library that a run recorded: `MPICH 4.0.2 (ch3:nemesis), ROMIO`.
pub fn mpi_kind_of_fact(fact: &str) -> Option<MpiKind> {
    let fact = fact.to_ascii_lowercase();
    match () {
        () if fact.starts_with("open mpi") => Some(MpiKind::OpenMpi),
        () if fact.starts_with("mpich") && fact.contains("nemesis") => Some(MpiKind::Nemesis),
        () if fact.starts_with("mpich") => Some(MpiKind::Mpich),
        () => None,
    }
}

/// The kind of library that a name stands for where no run says it: `mpich-ch3` and `nemesis`, `mpich` (ch4), `openmpi`.
pub fn mpi_kind_of_name(name: &str) -> Option<MpiKind> {
    let name = name.to_ascii_lowercase().replace([' ', '_'], "-");
    match () {
        () if name.contains("openmpi") || name.contains("open-mpi") || name.contains("ompi") => Some(MpiKind::OpenMpi),
        () if name.contains("ch3") || name.contains("nemesis") => Some(MpiKind::Nemesis),
        () if name.contains("mpich") => Some(MpiKind::Mpich),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{even_load, mpi_kind_of_fact, mpi_kind_of_name};
    use cvc_core::quantity::Quantity;
    use cvc_model::MpiKind;

    #[test]
    fn the_kind_of_a_library_is_told_by_what_the_run_recorded() {
        assert_eq!(mpi_kind_of_fact("MPICH 4.0.2 (ch3:nemesis), ROMIO"), Some(MpiKind::Nemesis));
        assert_eq!(mpi_kind_of_fact("MPICH 4.2.1 (ch4:ofi), ROMIO"), Some(MpiKind::Mpich));
        assert_eq!(mpi_kind_of_fact("Open MPI 4.1.4, OMPIO"), Some(MpiKind::OpenMpi));
        assert_eq!(mpi_kind_of_fact("something else"), None);
        assert_eq!(mpi_kind_of_name("mpich-ch3"), Some(MpiKind::Nemesis));
        assert_eq!(mpi_kind_of_name("mpich"), Some(MpiKind::Mpich));
        assert_eq!(mpi_kind_of_name("Open MPI"), Some(MpiKind::OpenMpi));
        assert_eq!(mpi_kind_of_name("intel"), None);
    }

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

    #[test]
    fn only_an_even_mapping_has_a_load() {
        assert_eq!(even_load(&"2Nx8P".parse().expect("a mapping")), Some(8));
        assert_eq!(even_load(&"1Nx8P+2Nx8P".parse().expect("a mapping")), Some(8));
        assert_eq!(even_load(&"6Nx4P+1Nx1P".parse().expect("a mapping")), None);
    }
}
