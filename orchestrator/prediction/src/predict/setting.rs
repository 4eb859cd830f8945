//! The setting of a run: the properties that distinguish checkpoints.

use cvc_core::app::size::ProblemSize;
use cvc_core::mapping::Mapping;

use cvc_core::point::{Compression, Point};

use cvc_core::units::ByteSize;
use cvc_model::{MpiKind, Output, Setting, nas};
use serde::Serialize;

/// The setting at which a checkpoint was observed, or for which one is predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSetting {
    /// Name of the application's descriptor, or of an application in the observations.
    pub app: String,
    /// Workload class of the application.
    pub class: String,
    /// Mapping of processes to nodes.
    pub mapping: Mapping,
    /// Name of the MPI library, as in the campaign or the table.
    pub mpi_name: String,
    /// Kind of the MPI library.
    pub mpi: MpiKind,
    /// Compression of the files.
    pub compression: Compression,
    /// Number of aggregators of collective I/O, if set.
    pub aggregators: Option<u32>,
    /// Size of the collective buffer, if set.
    pub cb_buffer: Option<ByteSize>,
    /// The problem size, if a descriptor declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ProblemSize>,
}

impl RunSetting {
    /// Returns the setting of a campaign's point.
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
            size: ProblemSize::by_embedded(&point.app, &point.class, point.processes()),
        }
    }

    /// Returns a label such as `npb-bt.A 1Nx4P mpich-ch3`, with further settings such as `gzip aggregators=2 cb_buffer=4MiB`. Equal settings have
    /// equal labels.
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

    /// Returns whether another run has the same setting. Libraries are compared by name.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Self {
            mpi: other.mpi,
            size: other.size.clone(),
            ..self.clone()
        } == *other
    }

    /// Returns the number of processes on each node if all nodes have the same number. Only then does a mean over ranks apply to one number.
    pub fn load(&self) -> Option<u32> {
        let mut loads = self.mapping.groups().iter().map(|g| g.processes_per_node);
        let first = loads.next()?;
        loads.all(|l| l == first).then_some(first)
    }

    /// Returns the setting as models use it, on a node with `load` processes. Its `output` is empty.
    pub(crate) fn on_node(&self, load: u32) -> Setting {
        Setting {
            app: self.app.clone(),
            class: self.class.clone(),
            nas: nas::Problem::of(&self.app, &self.class),
            size: self.size.clone(),
            mapping: self.mapping.clone(),
            per_node: load,
            mpi: self.mpi,
            output: Output::default(),
        }
    }
}

/// Returns the kind of a library from the text that a run recorded, such as `MPICH 4.0.2 (ch3:nemesis), ROMIO`.
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

/// Returns the kind of a library from its name, if no run recorded it: `mpich-ch3` and `nemesis`, `mpich` (ch4), `openmpi`.
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
    fn the_recorded_version_shows_the_kind_of_a_library() {
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
                size: None,
            }
            .load()
        };
        assert_eq!(load("2Nx8P"), Some(8));
        assert_eq!(load("1Nx8P+2Nx8P"), Some(8));
        assert_eq!(load("6Nx4P+1Nx1P"), None);
    }
}
