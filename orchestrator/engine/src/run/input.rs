//! Files that a run needs in its working directory.

/// A file that is written into the working directory on every node, and stored with the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInput {
    /// Name of the file, both in the directory `inputs` and in the working directory.
    pub name: String,
    /// Content of the file.
    pub content: String,
    /// Whether the file is started by its path.
    pub executable: bool,
}
