//! The modules that a log can contain.

/// A module: a part of Darshan that writes its own kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DarshanModule {
    /// Darshan's example module, which no real log contains.
    Null,
    /// POSIX calls of the C library.
    Posix,
    /// MPI-IO.
    MpiIo,
    /// HDF5 files.
    H5f,
    /// HDF5 data sets.
    H5d,
    /// PnetCDF files.
    PnetcdfFile,
    /// PnetCDF variables.
    PnetcdfVar,
    /// Partition of a Blue Gene/Q.
    BlueGeneQ,
    /// Striping of files on Lustre.
    Lustre,
    /// Streams of the C library.
    Stdio,
    /// DXT: every read and write of a file through POSIX.
    DxtPosix,
    /// DXT: every read and write of a file through MPI-IO.
    DxtMpiIo,
    /// MDHIM, a key-value store.
    Mdhim,
    /// Network counters of a Cray XC.
    Apxc,
    /// MPI calls.
    Apmpi,
    /// Heat maps: bytes moved over time.
    Heatmap,
    /// DAOS, accessed as a file system.
    Dfs,
    /// DAOS, accessed as objects.
    Daos,
    /// A module that this reader does not support, with its number in the log.
    Unknown(u8),
}

/// The known modules and their names; the index is the number in the log.
const KNOWN: [(DarshanModule, &str); 18] = [
    (DarshanModule::Null, "NULL"),
    (DarshanModule::Posix, "POSIX"),
    (DarshanModule::MpiIo, "MPI-IO"),
    (DarshanModule::H5f, "H5F"),
    (DarshanModule::H5d, "H5D"),
    (DarshanModule::PnetcdfFile, "PNETCDF_FILE"),
    (DarshanModule::PnetcdfVar, "PNETCDF_VAR"),
    (DarshanModule::BlueGeneQ, "BG/Q"),
    (DarshanModule::Lustre, "LUSTRE"),
    (DarshanModule::Stdio, "STDIO"),
    (DarshanModule::DxtPosix, "DXT_POSIX"),
    (DarshanModule::DxtMpiIo, "DXT_MPIIO"),
    (DarshanModule::Mdhim, "MDHIM"),
    (DarshanModule::Apxc, "APXC"),
    (DarshanModule::Apmpi, "APMPI"),
    (DarshanModule::Heatmap, "HEATMAP"),
    (DarshanModule::Dfs, "DFS"),
    (DarshanModule::Daos, "DAOS"),
];

impl DarshanModule {
    /// Returns the module with this number in the header of a log of version 3.41.
    #[must_use]
    pub fn of_number(number: u8) -> Self {
        KNOWN
            .get(usize::from(number))
            .map_or(Self::Unknown(number), |&(module, _)| module)
    }

    /// Returns the name that `darshan-parser` prints; `<UNKNOWN>` for an unknown module.
    #[must_use]
    pub fn name(self) -> &'static str {
        KNOWN
            .iter()
            .find(|&&(module, _)| module == self)
            .map_or("<UNKNOWN>", |&(_, name)| name)
    }

    /// Returns the name used in messages.
    pub(super) fn part(self) -> String {
        if let Self::Unknown(number) = self {
            format!("module number {number}")
        } else {
            format!("module {}", self.name())
        }
    }
}
