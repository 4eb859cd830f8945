//! Files that a run needs in its working directory.

/// A file that is put into the working directory, on every node, and kept beside the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name in the directory `inputs`, and in the working directory.
    pub name: String,
    /// Its content.
    pub content: String,
    /// Whether it is called by its path.
    pub executable: bool,
}
