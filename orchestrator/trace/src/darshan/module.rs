//! The modules that a log can have.

/// A part of Darshan that writes records of its own into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DarshanModule {
    /// An example that no log of a run has.
    Null,
    /// System calls of the C library.
    Posix,
    /// MPI-IO.
    MpiIo,
    /// Files of HDF5.
    H5f,
    /// Data sets of HDF5.
    H5d,
    /// Files of PnetCDF.
    PnetcdfFile,
    /// Variables of PnetCDF.
    PnetcdfVar,
    /// The partition of a Blue Gene/Q.
    BlueGeneQ,
    /// Stripes of files on Lustre.
    Lustre,
    /// Streams of the C library.
    Stdio,
    /// Every read and write of a file through POSIX.
    DxtPosix,
    /// Every read and write of a file through MPI-IO.
    DxtMpiIo,
    /// MDHIM, a key-value store.
    Mdhim,
    /// Counters of the network of a Cray XC.
    Apxc,
    /// Calls of MPI.
    Apmpi,
    /// Bytes over time.
    Heatmap,
    /// DAOS through its file system interface.
    Dfs,
    /// DAOS objects.
    Daos,
    /// A module that is newer than this reader, by its number in the log.
    Unknown(u8),
}

/// What is known of a module: its place is its number in the log.
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
    /// The module of this number in the header of a log of version 3.41.
    #[must_use]
    pub fn of_number(number: u8) -> Self {
        KNOWN
            .get(usize::from(number))
            .map_or(Self::Unknown(number), |&(module, _)| module)
    }

    /// Its name, as `darshan-parser` prints it; of an unknown one `<UNKNOWN>`.
    #[must_use]
    pub fn name(self) -> &'static str {
        KNOWN
            .iter()
            .find(|&&(module, _)| module == self)
            .map_or("<UNKNOWN>", |&(_, name)| name)
    }

    /// How messages call it.
    pub(super) fn part(self) -> String {
        if let Self::Unknown(number) = self {
            format!("module number {number}")
        } else {
            format!("module {}", self.name())
        }
    }
}
