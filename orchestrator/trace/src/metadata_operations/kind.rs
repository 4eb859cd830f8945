//! Common names of metadata operations.

/// A metadata operation, independent of the file system's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetadataKind {
    /// Creates a file.
    Create,
    /// Opens an existing file.
    Open,
    /// Looks up a name, successfully or not.
    Lookup,
    /// Queries attributes, permissions or free space.
    GetAttr,
    /// Sets attributes or the length of a file, or reserves space.
    SetAttr,
    /// Creates or lists entries of directories: subdirectories, links, listings.
    DirectoryEntry,
    /// Queries the file system, its servers or a session.
    Configuration,
    /// Acquires or releases a lock.
    Lock,
    /// Forces data to storage.
    Sync,
    /// Closes a file.
    Close,
    /// Removes a file or directory.
    Unlink,
    /// Renames a file or directory.
    Rename,
}

impl MetadataKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Create,
        Self::Open,
        Self::Lookup,
        Self::GetAttr,
        Self::SetAttr,
        Self::DirectoryEntry,
        Self::Configuration,
        Self::Lock,
        Self::Sync,
        Self::Close,
        Self::Unlink,
        Self::Rename,
    ];

    /// Returns the word used in tables, CSV and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Lookup => "lookup",
            Self::GetAttr => "getattr",
            Self::SetAttr => "setattr",
            Self::DirectoryEntry => "directory-entry",
            Self::Configuration => "configuration",
            Self::Lock => "lock",
            Self::Sync => "sync",
            Self::Close => "close",
            Self::Unlink => "unlink",
            Self::Rename => "rename",
        }
    }
}
