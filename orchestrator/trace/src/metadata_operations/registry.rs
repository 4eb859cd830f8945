//! The registry of counters.

use super::{counter::MetadataCounter, glusterfs, lustre, moosefs, nfs, orangefs, strace};

/// All counters. The first counter that recognises one of a file's first lines reads the file.
pub const COUNTERS: [&dyn MetadataCounter; 6] = [
    &glusterfs::GlusterFs,
    &moosefs::MooseFs,
    &nfs::Nfs,
    &lustre::Lustre,
    &orangefs::OrangeFs,
    &strace::Strace,
];
