//! Reads `/proc/self/mountstats`: the operations that the kernel's NFS client sent, by mount. Source of the format: `net/sunrpc/stats.c` and
//! `fs/nfs/super.c` in the kernel. The first number of an operation is how often it was sent.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter, text},
    kind::MetadataKind as K,
};

pub(super) struct Nfs;

impl MetadataCounter for Nfs {
    fn name(&self) -> &'static str {
        "nfs"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        let line = text(line);
        line.starts_with("device ") && line.contains(" mounted on ")
    }

    fn begin(&self, source: &str, _: &CounterOptions) -> Box<dyn CounterLines> {
        Box::new(Mounts {
            found: CounterSnapshot {
                counter: self.name(),
                ..CounterSnapshot::default()
            },
            node: source.to_owned(),
            mount: None,
            is_version_4: false,
            in_operations: false,
        })
    }
}

/// Returns the kind of an operation. In NFS version 4, CREATE makes directory entries other than files, and OPEN also creates files.
fn kind(name: &str, is_version_4: bool) -> Option<K> {
    Some(match name {
        "CREATE" if is_version_4 => K::DirectoryEntry,
        "CREATE" => K::Create,
        "OPEN" | "OPEN_CONFIRM" | "OPEN_NOATTR" | "OPEN_DOWNGRADE" => K::Open,
        "LOOKUP" | "LOOKUPP" | "LOOKUP_ROOT" | "READLINK" => K::Lookup,
        "GETATTR" | "ACCESS" | "FSSTAT" | "STATFS" | "GETACL" | "GETXATTR" | "LISTXATTRS" => {
            K::GetAttr
        }
        "SETATTR" | "SETACL" | "SETXATTR" | "REMOVEXATTR" | "ALLOCATE" | "DEALLOCATE"
        | "LAYOUTCOMMIT" => K::SetAttr,
        "MKDIR" | "MKNOD" | "SYMLINK" | "LINK" | "READDIR" | "READDIRPLUS" => K::DirectoryEntry,
        "FSINFO"
        | "PATHCONF"
        | "SERVER_CAPS"
        | "SETCLIENTID"
        | "SETCLIENTID_CONFIRM"
        | "EXCHANGE_ID"
        | "CREATE_SESSION"
        | "DESTROY_SESSION"
        | "DESTROY_CLIENTID"
        | "SEQUENCE"
        | "GET_LEASE_TIME"
        | "RECLAIM_COMPLETE"
        | "RENEW"
        | "FS_LOCATIONS"
        | "FSID_PRESENT"
        | "SECINFO"
        | "SECINFO_NO_NAME"
        | "TEST_STATEID"
        | "FREE_STATEID"
        | "GETDEVICEINFO"
        | "GETDEVICELIST"
        | "LAYOUTGET"
        | "LAYOUTRETURN"
        | "BIND_CONN_TO_SESSION" => K::Configuration,
        "LOCK" | "LOCKT" | "LOCKU" | "RELEASE_LOCKOWNER" | "DELEGRETURN" => K::Lock,
        "COMMIT" => K::Sync,
        "CLOSE" => K::Close,
        "REMOVE" | "RMDIR" => K::Unlink,
        "RENAME" => K::Rename,
        _ => return None,
    })
}

struct Mounts {
    found: CounterSnapshot,
    /// Name of the input file, which stands for a node.
    node: String,
    /// The mount to which the current lines belong, if it is an NFS mount.
    mount: Option<String>,
    is_version_4: bool,
    in_operations: bool,
}

impl CounterLines for Mounts {
    fn line(&mut self, line: &[u8]) {
        let line = text(line);
        if let Some(device) = line.strip_prefix("device ") {
            self.in_operations = false;
            self.mount = None;
            let (Some((_, rest)), Some((_, kind))) = (
                device.split_once(" mounted on "),
                line.split_once(" with fstype "),
            ) else {
                return;
            };
            let version = kind.split_whitespace().next().unwrap_or_default();
            if version == "nfs" || version == "nfs4" {
                let place = rest.split(" with fstype ").next().unwrap_or_default();
                let name = format!("{} {place}", self.node);
                self.found.source(&name);
                self.is_version_4 = version == "nfs4";
                self.mount = Some(name);
            }
            return;
        }
        let Some(mount) = &self.mount else {
            return;
        };
        if line == "per-op statistics" {
            self.in_operations = true;
        } else if let Some((name, values)) = line.split_once(':') {
            let first = values.split_whitespace().next().unwrap_or_default();
            let source = self.found.source(mount);
            if name == "age" {
                source.age_s = first.parse().ok();
            } else if self.in_operations
                && let Some(kind) = kind(name, self.is_version_4)
                && let Ok(count) = first.parse()
            {
                source.add(name, kind, count);
            }
        }
    }

    fn finish(self: Box<Self>) -> CounterSnapshot {
        let mut found = self.found;
        if found.sources.is_empty() {
            found.note("it has no NFS mount");
        }
        found
    }
}
