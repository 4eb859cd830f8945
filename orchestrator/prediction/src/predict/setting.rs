//! The setting of a run: what tells one checkpoint from another.

use cvc_core::mapping::Mapping;

use cvc_core::point::{Compression, Point};

use cvc_core::units::ByteSize;
use cvc_model::{MpiKind, Output, Setting, nas};
use serde::Serialize;

/// The setting at which a checkpoint was observed, or for which one is predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSetting {
    /// Name of the application's descriptor, or of an application of the observations.
    pub app: String,
    /// Its workload.
    pub class: String,
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Name of the MPI library, as in the campaign or the table.
    pub mpi_name: String,
    /// Kind of that library.
    pub mpi: MpiKind,
    /// How the files are stored.
    pub compression: Compression,
    /// Aggregators of collective I/O, if they are set.
    pub aggregators: Option<u32>,
    /// Collective buffer, if it is set.
    pub cb_buffer: Option<ByteSize>,
}

impl RunSetting {
    /// The setting of a campaign's point.
    pub(crate) fn of_point(point: &Point, mpi: MpiKind) -> Self {
        Self {
            app: point.app.clone(),
            class: point.class.clone(),
            mapping: point.mapping.clone(),
            mpi_name: point.mpi.clone(),
            mpi,
            compression: point.compression,
            aggregators: point.aggregators,
            cb_buffer: point.cb_buffer,
        }
    }

    /// A label for people: `npb-bt.A 1Nx4P mpich-ch3`, and what is set beyond that: `gzip aggregators=2 cb_buffer=4MiB`. Equal settings have equal
    /// labels.
    pub fn label(&self) -> String {
        let mut label = format!(
            "{}.{} {} {}",
            self.app, self.class, self.mapping, self.mpi_name
        );
        if let Some(program) = self.compression.program() {
            label.push_str(&format!(" {program}"));
        }
        if let Some(aggregators) = self.aggregators {
            label.push_str(&format!(" aggregators={aggregators}"));
        }
        if let Some(buffer) = self.cb_buffer {
            label.push_str(&format!(" cb_buffer={buffer}"));
        }
        label
    }

    /// Whether another run has the same setting. Libraries are the same if their names are.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Self {
            mpi: other.mpi,
            ..self.clone()
        } == *other
    }

    /// Processes on each node, if all nodes have the same number: only then does a mean over ranks belong to a node load.
    pub fn load(&self) -> Option<u32> {
        let mut loads = self.mapping.groups().iter().map(|g| g.processes_per_node);
        let first = loads.next()?;
        loads.all(|l| l == first).then_some(first)
    }

    /// The setting as models see it, on a node with `load` processes; without output.
    pub(crate) fn on_node(&self, load: u32) -> Setting {
        Setting {
            app: self.app.clone(),
            class: self.class.clone(),
            nas: nas::Problem::of(&self.app, &self.class),
            mapping: self.mapping.clone(),
            per_node: load,
            mpi: self.mpi,
            output: Output::default(),
        }
    }
}

/// Tells the kind of a library by what a run recorded: `MPICH 4.0.2 (ch3:nemesis), ROMIO`.
pub fn mpi_kind_of_fact(fact: &str) -> Option<MpiKind> {
    let fact = fact.to_ascii_lowercase();
    if fact.starts_with("open mpi") {
        Some(MpiKind::OpenMpi)
    } else if !fact.starts_with("mpich") {
        None
    } else if fact.contains("nemesis") {
        Some(MpiKind::Nemesis)
    } else {
        Some(MpiKind::Mpich)
    }
}

/// Tells the kind of a library by its name, where no run says it: `mpich-ch3` and `nemesis`, `mpich` (ch4), `openmpi`.
pub fn mpi_kind_of_name(name: &str) -> Option<MpiKind> {
    let name = name.to_ascii_lowercase().replace([' ', '_'], "-");
    let names = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if names(&["openmpi", "open-mpi", "ompi"]) {
        Some(MpiKind::OpenMpi)
    } else if names(&["ch3", "nemesis"]) {
        Some(MpiKind::Nemesis)
    } else {
        names(&["mpich"]).then_some(MpiKind::Mpich)
    }
}

#[cfg(test)]
mod tests {
    use super::{RunSetting, mpi_kind_of_fact, mpi_kind_of_name};
    use cvc_core::point::Compression;
    use cvc_model::MpiKind;

    #[test]
    fn the_recorded_version_tells_the_kind_of_a_library() {
        assert_eq!(
            mpi_kind_of_fact("MPICH 4.0.2 (ch3:nemesis), ROMIO"),
            Some(MpiKind::Nemesis)
        );
        assert_eq!(
            mpi_kind_of_fact("MPICH 4.2.1 (ch4:ofi), ROMIO"),
            Some(MpiKind::Mpich)
        );
        assert_eq!(
            mpi_kind_of_fact("Open MPI 4.1.4, OMPIO"),
            Some(MpiKind::OpenMpi)
        );
        assert_eq!(mpi_kind_of_fact("something else"), None);
        assert_eq!(mpi_kind_of_name("mpich-ch3"), Some(MpiKind::Nemesis));
        assert_eq!(mpi_kind_of_name("mpich"), Some(MpiKind::Mpich));
        assert_eq!(mpi_kind_of_name("Open MPI"), Some(MpiKind::OpenMpi));
        assert_eq!(mpi_kind_of_name("intel"), None);
    }

    #[test]
    fn only_an_even_mapping_has_a_load() {
        let load = |mapping: &str| {
            RunSetting {
                app: "npb-bt".into(),
                class: "A".into(),
                mapping: mapping.parse().expect("a mapping"),
                mpi_name: "openmpi".into(),
                mpi: MpiKind::OpenMpi,
                compression: Compression::None,
                aggregators: None,
                cb_buffer: None,
            }
            .load()
        };
        assert_eq!(load("2Nx8P"), Some(8));
        assert_eq!(load("1Nx8P+2Nx8P"), Some(8));
        assert_eq!(load("6Nx4P+1Nx1P"), None);
    }
}
