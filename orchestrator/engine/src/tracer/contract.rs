//! The contract of a tracer.

use crate::mpi::{Launcher, Missing};
use camino::{Utf8Path, Utf8PathBuf};
use std::{collections::BTreeMap, fmt};

/// Stands for a dot and the name of the node in words of [`Instrumentation::prefix`], and for nothing where there is only one node.
pub const NODE: &str = "{node}";

/// What a tracer adds to the launch of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instrumentation {
    /// Directories that must be there first, on every node.
    pub dirs: Vec<Utf8PathBuf>,
    /// Words before the command that is traced, in which [`NODE`] may be.
    pub prefix: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Arguments of the MPI launcher.
    pub launcher_args: Vec<String>,
}

/// Records the I/O of a run.
pub trait Tracer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Name for people.
    fn title(&self) -> &'static str;

    /// Finds its program or library on this machine.
    ///
    /// # Errors
    /// When it is not installed.
    fn find(&self) -> Result<Utf8PathBuf, Missing>;

    /// Returns what it adds to the launch of a run that works in this directory.
    fn instrument(&self, tool: &Utf8Path, work: &Utf8Path, family: &dyn Launcher) -> Instrumentation;

    /// Returns the name in the working directory of what it records, a file or a directory of files, which is fetched from every node and kept
    /// beside the run.
    fn trace(&self) -> Option<&'static str>;

    /// What its absence costs, for the doctor.
    fn cost_of_absence(&self) -> &'static str;
}

impl fmt::Debug for dyn Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
