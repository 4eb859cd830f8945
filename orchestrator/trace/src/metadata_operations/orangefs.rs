//! Reads the access log of OrangeFS servers (`EventLogging access`): a line at the begin of each request, and one at its end.
//!
//! Format, from `PINT_ACCESS_DEBUG` of the server: `[A TIME] USER.GROUP@CLIENT H=HANDLE S=ADDRESS: OPERATION: start`.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter},
    kind::MetadataKind as K,
};
use memchr::memmem;

pub(super) struct OrangeFs;

impl MetadataCounter for OrangeFs {
    fn name(&self) -> &'static str {
        "orangefs"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        operation(line).is_some()
    }

    fn begin(&self, source: &str, _: &CounterOptions) -> Box<dyn CounterLines> {
        let mut found = CounterSnapshot {
            counter: self.name(),
            ..CounterSnapshot::default()
        };
        found.source(source).generation = Some(0);
        Box::new(Log {
            found,
            source: source.to_owned(),
        })
    }
}

/// Returns the operation in a line of the log, and its result.
fn operation(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"[A ")?;
    let at = memmem::find(rest, b" S=")?;
    let address = &rest[at + 3..];
    let at = memmem::find(address, b": ")?;
    let named = &address[at + 2..];
    let end = memmem::find(named, b": ")?;
    Some((&named[..end], named[end + 2..].trim_ascii()))
}

/// Returns the kind of a request. Data operations and requests between servers have none.
fn kind(operation: &[u8]) -> Option<K> {
    Some(match operation {
        b"create" | b"batch_create" | b"stuffed_create" => K::Create,
        b"lookup_path" | b"lookup" => K::Lookup,
        b"getattr"
        | b"get_attr"
        | b"listattr"
        | b"list_attr"
        | b"geteattr"
        | b"get_eattr"
        | b"listeattr"
        | b"list_eattr"
        | b"statfs"
        | b"tree_get_file_size"
        | b"tree_getattr" => K::GetAttr,
        b"setattr" | b"set_attr" | b"seteattr" | b"set_eattr" | b"deleattr" | b"del_eattr"
        | b"atomiceattr" | b"truncate" | b"unstuff" | b"tree_setattr" => K::SetAttr,
        b"crdirent" | b"chdirent" | b"mkdir" | b"readdir" => K::DirectoryEntry,
        b"getconfig" | b"get_config" | b"mgmt_get_uid" | b"mgmt_get_user_cert" => K::Configuration,
        b"flush" => K::Sync,
        b"remove" | b"batch_remove" | b"rmdirent" | b"tree_remove" => K::Unlink,
        _ => return None,
    })
}

struct Log {
    found: CounterSnapshot,
    source: String,
}

impl CounterLines for Log {
    fn line(&mut self, line: &[u8]) {
        let Some((operation, what)) = operation(line) else {
            // the server writes this line when it starts
            if line.starts_with(b"[S ")
                && memmem::find(line, b" starting").is_some()
                && let Some(starts) = &mut self.found.source(&self.source).generation
            {
                *starts += 1;
            }
            return;
        };
        if what == b"start"
            && let Some(kind) = kind(operation)
        {
            let name = String::from_utf8_lossy(operation).into_owned();
            self.found.source(&self.source).add(&name, kind, 1);
        }
    }

    fn finish(self: Box<Self>) -> CounterSnapshot {
        self.found
    }
}
