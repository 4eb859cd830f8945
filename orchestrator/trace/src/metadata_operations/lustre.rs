//! Reads `lctl get_param llite.*.stats mdc.*.md_stats mdc.*.stats`: requests of programs to a client, and requests of the client to metadata
//! servers. Source of the format: the Lustre manual, chapter on statistics.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter, text},
    kind::MetadataKind as K,
};

pub(super) struct Lustre;

impl MetadataCounter for Lustre {
    fn name(&self) -> &'static str {
        "lustre"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        let line = text(line);
        line.starts_with("snapshot_time")
            || ["llite.", "mdc."]
                .iter()
                .any(|part| line.starts_with(part) && line.ends_with("stats="))
    }

    fn begin(&self, source: &str, _: &CounterOptions) -> Box<dyn CounterLines> {
        Box::new(Parameters {
            found: CounterSnapshot {
                counter: self.name(),
                ..CounterSnapshot::default()
            },
            node: source.to_owned(),
            parameter: source.to_owned(),
        })
    }
}

/// Returns the kind of an operation. The prefixes of requests to servers in `name` are ignored.
fn kind(name: &str) -> Option<K> {
    let name = name.strip_prefix("mds_").unwrap_or(name);
    let name = name.strip_prefix("reint_").unwrap_or(name);
    Some(match name {
        "create" | "mknod" => K::Create,
        "open" => K::Open,
        "intent_lock" | "getattr_lock" | "getattr_name" | "readlink" => K::Lookup,
        "getattr" | "statfs" | "getxattr" | "listxattr" => K::GetAttr,
        "setattr" | "setxattr" | "removexattr" | "truncate" | "fallocate" => K::SetAttr,
        "mkdir" | "link" | "symlink" | "readdir" | "read_page" | "readpage" => K::DirectoryEntry,
        "connect" | "get_root" | "get_info" | "getstatus" => K::Configuration,
        "flock" | "enqueue" | "ldlm_ibits_enqueue" | "ldlm_flock_enqueue" | "ldlm_cancel" => {
            K::Lock
        }
        "fsync" | "sync" => K::Sync,
        "close" => K::Close,
        "unlink" | "rmdir" => K::Unlink,
        "rename" => K::Rename,
        _ => return None,
    })
}

struct Parameters {
    found: CounterSnapshot,
    /// Name of the input file, which stands for a node.
    node: String,
    parameter: String,
}

impl CounterLines for Parameters {
    fn line(&mut self, line: &[u8]) {
        let line = text(line);
        if let Some(parameter) = line.strip_suffix('=') {
            self.parameter = format!("{} {parameter}", self.node);
            self.found.source(&self.parameter);
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["start_time", time, ..] => {
                let whole = time.split('.').next().and_then(|s| s.parse().ok());
                self.found.source(&self.parameter).generation = whole;
            }
            [name, count, "samples", ..] => {
                if let (Some(kind), Ok(count)) = (kind(name), count.parse()) {
                    self.found.source(&self.parameter).add(name, kind, count);
                }
            }
            _ => {}
        }
    }

    /// Returns one of the two statistics, not their sum: requests of the client to servers result from requests of programs to the client.
    fn finish(self: Box<Self>) -> CounterSnapshot {
        let mut found = self.found;
        let has_requests = |source: &String| source.contains(" mdc.");
        if found.sources.keys().any(has_requests) && !found.sources.keys().all(has_requests) {
            found.sources.retain(|source, _| has_requests(source));
            found.note("the statistics of llite, whose operations the client may answer itself, are left out: those of mdc count the requests to the servers");
        }
        let requests = |source: &String| source.ends_with(".stats");
        let calls = |source: &String| source.ends_with(".md_stats");
        if found.sources.keys().any(requests) && found.sources.keys().any(calls) {
            found.sources.retain(|source, _| !requests(source));
            found.note(
                "the statistics mdc.*.stats are left out: mdc.*.md_stats count the same operations",
            );
        }
        found
    }
}
