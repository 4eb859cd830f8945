//! Reads `.stats` in the root of a MooseFS mount: requests of the kernel to the mount, and messages of the mount to the master.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter, text},
    kind::MetadataKind as K,
};

pub(super) struct MooseFs;

impl MetadataCounter for MooseFs {
    fn name(&self) -> &'static str {
        "moosefs"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        let line = text(line);
        line.starts_with("fuse_ops.") || line.starts_with("master.packets_sent: ")
    }

    fn begin(&self, source: &str, _: &CounterOptions) -> Box<dyn CounterLines> {
        let mut found = CounterSnapshot {
            counter: self.name(),
            ..CounterSnapshot::default()
        };
        found.source(source);
        Box::new(Mount {
            found,
            source: source.to_owned(),
        })
    }
}

/// Returns the kind of an operation. `None` for operations that the mount answers itself: some lookups, and `getxattr`, which the kernel requests
/// before each write.
fn kind(name: &str) -> Option<K> {
    Some(match name {
        "create" | "mknod" => K::Create,
        "open" => K::Open,
        "lookup.master" | "readlink.master" => K::Lookup,
        "getattr" | "access" | "statfs" => K::GetAttr,
        "setattr" | "setxattr" | "removexattr" => K::SetAttr,
        "mkdir" | "symlink" | "link" | "opendir" | "readdir" | "readdirplus" => K::DirectoryEntry,
        "setlk" | "getlk" | "flock" => K::Lock,
        "fsync" => K::Sync,
        "release" => K::Close,
        "unlink" | "rmdir" => K::Unlink,
        "rename" => K::Rename,
        _ => return None,
    })
}

struct Mount {
    found: CounterSnapshot,
    source: String,
}

impl CounterLines for Mount {
    fn line(&mut self, line: &[u8]) {
        let Some((name, value)) = text(line).split_once(": ") else {
            return;
        };
        let Ok(value) = value.parse() else {
            return;
        };
        let source = self.found.source(&self.source);
        match name {
            "master.packets_sent" => source.messages = Some(value),
            "master.reconnects" => source.generation = Some(value),
            _ => {
                if let Some(operation) = name.strip_prefix("fuse_ops.")
                    && let Some(kind) = kind(operation)
                {
                    source.add(operation, kind, value);
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> CounterSnapshot {
        self.found
    }
}
