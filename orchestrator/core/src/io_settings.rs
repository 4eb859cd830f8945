//! The factors that each correspond to one setting of an MPI-IO layer. This table determines which points make sense, what a launch sets, and what is
//! verified. It does not contain `aggregators` and `cb_buffer`, which every layer has.

use crate::{
    mpi_io::MpiIo,
    point::{FactorId, Point},
};

/// A factor that sets an option of an MPI-IO layer.
#[derive(Clone, Copy, Debug)]
pub struct IoSetting {
    /// The factor.
    pub factor: FactorId,
    /// The layer that has the setting.
    pub layer: MpiIo,
    /// Name of the ROMIO hint or of the Open MPI MCA parameter.
    pub key: &'static str,
    /// Whether the setting affects only collective writes.
    pub is_collective: bool,
    value: fn(&Point) -> Option<String>,
}

/// All settings.
pub const IO_SETTINGS: [IoSetting; 6] = [
    IoSetting {
        factor: FactorId::RomioDsWrite,
        layer: MpiIo::Romio,
        key: "romio_ds_write",
        is_collective: false,
        value: |point| Some(point.romio_ds_write?.to_string()),
    },
    IoSetting {
        factor: FactorId::RomioCbWrite,
        layer: MpiIo::Romio,
        key: "romio_cb_write",
        is_collective: true,
        value: |point| Some(point.romio_cb_write?.to_string()),
    },
    IoSetting {
        factor: FactorId::IndWrBufferSize,
        layer: MpiIo::Romio,
        key: "ind_wr_buffer_size",
        is_collective: false,
        value: |point| Some(point.ind_wr_buffer_size?.0.to_string()),
    },
    IoSetting {
        factor: FactorId::CycleBufferSize,
        layer: MpiIo::Ompio,
        key: "io_ompio_cycle_buffer_size",
        is_collective: false,
        value: |point| Some(point.cycle_buffer_size?.0.to_string()),
    },
    IoSetting {
        factor: FactorId::GroupingOption,
        layer: MpiIo::Ompio,
        key: "io_ompio_grouping_option",
        is_collective: true,
        value: |point| Some(point.grouping_option?.to_string()),
    },
    IoSetting {
        factor: FactorId::Fcoll,
        layer: MpiIo::Ompio,
        key: FCOLL,
        is_collective: true,
        value: |point| Some(point.fcoll.as_ref()?.to_string()),
    },
];

/// Returns a setting of MPI-IO (including aggregators and collective buffers) that a point sets without effect, because the program does not write
/// its files by MPI-IO or not collectively. `None` if all settings of the point have an effect.
pub fn unreached_setting(point: &Point, is_mpi_io: bool, is_collective: bool) -> Option<FactorId> {
    let settings = IO_SETTINGS
        .iter()
        .map(|setting| (setting.factor, setting.is_collective));
    [(FactorId::Aggregators, true), (FactorId::CbBuffer, true)]
        .into_iter()
        .chain(settings)
        .filter(|(_, only_collective)| !is_mpi_io || (*only_collective && !is_collective))
        .map(|(factor, _)| factor)
        .find(|factor| !point.is_neutral(factor.name()))
}

/// The MCA parameter that selects Open MPI's component for collective I/O.
pub const FCOLL: &str = "fcoll";

/// A setting with the value that a point gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoValue {
    /// The layer that has the setting.
    pub layer: MpiIo,
    /// Name of the ROMIO hint or of the Open MPI MCA parameter.
    pub key: &'static str,
    /// The value in the form that the layer reads.
    pub value: String,
}

/// Returns the settings for which a point has a value.
pub fn io_values(point: &Point) -> Vec<IoValue> {
    let given = IO_SETTINGS.iter().filter_map(|setting| {
        Some(IoValue {
            layer: setting.layer,
            key: setting.key,
            value: (setting.value)(point)?,
        })
    });
    given.collect()
}

/// Returns why the MPI-IO settings of a point make no sense; `None` if they do. They may belong to another layer than the library's `layer`, need a
/// program that writes collectively, or contradict each other.
pub fn senseless(point: &Point, is_collective: bool, layer: MpiIo) -> Option<String> {
    let (app, mpi) = (&point.app, &point.mpi);
    for setting in IO_SETTINGS.iter().filter(|of| (of.value)(point).is_some()) {
        let name = setting.factor.name();
        if setting.layer != layer {
            let (of, has) = (setting.layer.title(), layer.title());
            return Some(format!(
                "{name} is a setting of {of}, and `{mpi}` uses {has}"
            ));
        }
        if setting.is_collective && !is_collective {
            return Some(format!(
                "{app} does no collective I/O: {name} has no effect on it"
            ));
        }
    }
    let buffers = point.aggregators.is_some() || point.cb_buffer.is_some();
    let switch = point
        .romio_cb_write
        .filter(|of| *of != crate::mpi_io::HintSwitch::Enable);
    switch.filter(|_| buffers).map(|of| {
        format!("aggregators and cb_buffer need romio_cb_write = \"enable\", not \"{of}\"")
    })
}
