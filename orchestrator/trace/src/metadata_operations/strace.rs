//! Counts system calls in text of strace, independent of the file system. Each file is one source.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter},
    kind::MetadataKind as K,
};
use crate::strace::{
    calls::{Call, call},
    syntax::{
        CallArguments, behind_cwd, descriptor, has_flag, name_behind, path_of_name, prefix, string,
    },
};
use memchr::{memchr, memmem};
use std::borrow::Cow;

pub(super) struct Strace;

impl MetadataCounter for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        let prefix = prefix(line);
        prefix.time.is_some()
            && called(&line[prefix.body..]).is_some()
            && memmem::find(line, b" = ").is_some()
    }

    fn begin(&self, source: &str, options: &CounterOptions) -> Box<dyn CounterLines> {
        let mut found = CounterSnapshot {
            counter: self.name(),
            ..CounterSnapshot::default()
        };
        found.source(source);
        Box::new(Calls {
            found,
            source: source.to_owned(),
            under: options.under.clone(),
            unplaced: 0,
        })
    }
}

/// Returns the name and the arguments of a call that begins in this line.
fn called(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let bracket = memchr(b'(', body)?;
    let name = &body[..bracket];
    let is_name = name.first().is_some_and(u8::is_ascii_lowercase)
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name.then(|| (name, &body[bracket + 1..]))
}

/// The arguments that identify the file of a call; numbers are indices of arguments.
#[derive(Clone, Copy)]
enum Named {
    /// A file descriptor.
    Descriptor(usize),
    /// A path, and the descriptor of its directory if there is one.
    Path(Option<usize>, usize),
}

/// Returns the kind of a call, and the argument that identifies its file.
fn kind(name: &[u8], call: Call, arguments: &CallArguments<'_>) -> Option<(K, Named)> {
    use Named::{Descriptor, Path};
    let first_path = |at: bool| match at {
        true => Path(Some(0), 1),
        false => Path(None, 0),
    };
    Some(match call {
        Call::Open { dir, path, flags } => {
            let kind = match has_flag(arguments.get(flags), "O_CREAT") {
                true => K::Create,
                false => K::Open,
            };
            (kind, Path(dir, path))
        }
        Call::Creat => (K::Create, Path(None, 0)),
        Call::Close => (K::Close, Descriptor(0)),
        Call::Fcntl => {
            let command = arguments.get(1);
            let is_lock = memmem::find(command, b"LK").is_some();
            return is_lock.then_some((K::Lock, Descriptor(0)));
        }
        Call::Sync => (K::Sync, Descriptor(0)),
        Call::Truncate => (K::SetAttr, Path(None, 0)),
        Call::Ftruncate | Call::Fallocate => (K::SetAttr, Descriptor(0)),
        Call::Rename { at } => (K::Rename, first_path(at)),
        Call::Link { at } => (K::DirectoryEntry, first_path(at)),
        Call::Symlink { at: false } => (K::DirectoryEntry, Path(None, 1)),
        Call::Symlink { at: true } => (K::DirectoryEntry, Path(Some(1), 2)),
        Call::Remove { at } => (K::Unlink, first_path(at)),
        Call::StatPath { dir, path } => match name {
            b"readlink" | b"readlinkat" => (K::Lookup, Path(dir, path)),
            _ => (K::GetAttr, Path(dir, path)),
        },
        Call::StatFd => (K::GetAttr, Descriptor(0)),
        Call::OtherPath { dir, path } => match name {
            b"mkdir" | b"mkdirat" => (K::DirectoryEntry, Path(dir, path)),
            b"mknod" | b"mknodat" => (K::Create, Path(dir, path)),
            b"getxattr" => (K::GetAttr, Path(dir, path)),
            _ => (K::SetAttr, Path(dir, path)),
        },
        Call::OtherFd => match name {
            b"getdents" | b"getdents64" => (K::DirectoryEntry, Descriptor(0)),
            b"flock" => (K::Lock, Descriptor(0)),
            b"fchmod" | b"fchown" => (K::SetAttr, Descriptor(0)),
            _ => return None,
        },
        Call::CloseRange
        | Call::Dup { .. }
        | Call::Read(_)
        | Call::Write(_)
        | Call::Seek
        | Call::LlSeek
        | Call::Msync
        | Call::Map
        | Call::Unmap
        | Call::Sendfile
        | Call::CopyRange
        | Call::Fork
        | Call::Exec { .. }
        | Call::Unshare
        | Call::Chdir
        | Call::Fchdir
        | Call::Getcwd
        | Call::Pair { .. }
        | Call::Stream(_)
        | Call::Invisible(_) => return None,
    })
}

struct Calls {
    found: CounterSnapshot,
    source: String,
    under: Option<Vec<u8>>,
    /// Number of calls whose file is unknown.
    unplaced: u64,
}

impl Calls {
    /// Returns whether a call is counted. If a directory is set, only calls on files below it are counted; otherwise all except those on descriptors
    /// of pipes and sockets.
    fn counts(&mut self, named: Named, arguments: &CallArguments<'_>) -> bool {
        let path = match named {
            Named::Descriptor(at) => named_path(arguments.get(at)),
            Named::Path(dir, path) => absolute(arguments, dir, path),
        };
        match (&self.under, path) {
            (Some(under), Some(path)) => is_below(&path, under),
            (Some(_), None) => {
                self.unplaced += 1;
                false
            }
            (None, Some(path)) => path.starts_with(b"/") || matches!(named, Named::Path(..)),
            (None, None) => true,
        }
    }
}

/// Returns the path of a descriptor if `-y` shows it.
fn named_path(argument: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (_, name) = descriptor(argument);
    name.map(path_of_name)
}

/// Returns a path, joined to its directory if the path is relative and the directory is known.
fn absolute<'a>(
    arguments: &CallArguments<'a>,
    dir: Option<usize>,
    path: usize,
) -> Option<Cow<'a, [u8]>> {
    let path = string(arguments.get(path))?;
    if path.starts_with(b"/") {
        return Some(path);
    }
    let dir = arguments.get(dir?);
    let name = match behind_cwd(dir) {
        Some(rest) => name_behind(rest, 0),
        None => descriptor(dir).1,
    };
    let mut whole = path_of_name(name?).into_owned();
    if !path.is_empty() {
        whole.push(b'/');
        whole.extend_from_slice(&path);
    }
    Some(Cow::Owned(whole))
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory)
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

impl CounterLines for Calls {
    fn line(&mut self, line: &[u8]) {
        let prefix = prefix(line);
        let Some((name, rest)) = called(&line[prefix.body..]) else {
            return;
        };
        let Some(call) = call(name) else {
            return;
        };
        // the arguments of a call that continues in a later line end here
        let arguments = match CallArguments::split(rest) {
            Some(arguments) => arguments,
            None => {
                let end = memmem::find(rest, b" <unfinished ...>").unwrap_or(rest.len());
                CallArguments::interrupted(&rest[..end], b"")
            }
        };
        let Some((kind, named)) = kind(name, call, &arguments) else {
            return;
        };
        if !self.counts(named, &arguments) {
            return;
        }
        // the file does not exist, so it was not opened or queried: only its name was looked up
        let is_absent = matches!(kind, K::Create | K::Open | K::GetAttr)
            && memmem::find(arguments.rest, b" ENOENT ").is_some();
        let kind = if is_absent { K::Lookup } else { kind };
        let name = match is_absent {
            true => format!("{} (ENOENT)", String::from_utf8_lossy(name)),
            false => String::from_utf8_lossy(name).into_owned(),
        };
        let native = match kind {
            K::Create if !name.starts_with("mknod") => format!("{name} (O_CREAT)"),
            _ => name,
        };
        self.found.source(&self.source).add(&native, kind, 1);
    }

    fn finish(self: Box<Self>) -> CounterSnapshot {
        let mut found = self.found;
        if self.unplaced > 0 {
            found.note("calls whose file is not known are left out: record with -y, which shows the paths of descriptors");
        }
        found
    }
}
