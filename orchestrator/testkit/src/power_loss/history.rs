//! History of the files below a directory: their changes in order, and the syncs.

use super::trace::{Arg, Call};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// Number of a file or directory, whatever its name.
pub(super) type Inode = usize;

/// The recorded directory itself, which existed on disk before the recording.
pub(super) const ROOT: Inode = 0;

/// The kind of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Directory,
    File,
    Link(PathBuf),
}

/// A change of one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A file, which may be new, gets a name.
    Name {
        dir: Inode,
        name: OsString,
        inode: Inode,
    },
    /// A name is removed.
    Unname {
        dir: Inode,
        name: OsString,
    },
    /// A file is renamed atomically.
    Rename {
        from: (Inode, OsString),
        to: (Inode, OsString),
        inode: Inode,
    },
    Write {
        inode: Inode,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        inode: Inode,
        length: usize,
    },
}

impl Change {
    /// Returns the file whose content the change affects; `None` for a change of names.
    pub fn content_of(&self) -> Option<Inode> {
        match self {
            Self::Write { inode, .. } | Self::Cut { inode, .. } => Some(*inode),
            Self::Name { .. } | Self::Unname { .. } | Self::Rename { .. } => None,
        }
    }

    /// Returns whether the change affects names in this directory.
    fn is_in(&self, directory: Inode) -> bool {
        match self {
            Self::Name { dir, .. } | Self::Unname { dir, .. } => *dir == directory,
            Self::Rename { from, to, .. } => from.0 == directory || to.0 == directory,
            Self::Write { .. } | Self::Cut { .. } => false,
        }
    }
}

/// A change, with the path of the changed file at that moment.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub change: Change,
    pub path: PathBuf,
}

/// A call that synced something.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    /// Number of changes that preceded the end of the call.
    pub at: usize,
    /// Changes that this call puts on disk.
    pub covers: BTreeSet<usize>,
    /// Description of the call and its file, for messages.
    pub what: String,
}

/// All changes and syncs below a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub steps: Vec<Step>,
    pub syncs: Vec<Sync>,
    /// Kind and mode of each inode.
    pub kinds: Vec<(Kind, u32)>,
}

/// The files that result from a set of changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    names: BTreeMap<Inode, BTreeMap<OsString, Inode>>,
    contents: BTreeMap<Inode, Vec<u8>>,
}

impl Files {
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Name { dir, name, inode } => {
                self.names
                    .entry(*dir)
                    .or_default()
                    .insert(name.clone(), *inode);
            }
            Change::Unname { dir, name } => {
                self.names.entry(*dir).or_default().remove(name);
            }
            Change::Rename { from, to, inode } => {
                let names = self.names.entry(from.0).or_default();
                // if the change that gave the first name was lost, another file may have this name
                if names.get(&from.1) == Some(inode) {
                    names.remove(&from.1);
                }
                self.names
                    .entry(to.0)
                    .or_default()
                    .insert(to.1.clone(), *inode);
            }
            Change::Write { inode, at, bytes } => {
                let content = self.contents.entry(*inode).or_default();
                // fill a gap with zeros, because the bytes before this write were lost
                content.resize(content.len().max(at + bytes.len()), 0);
                content[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Change::Cut { inode, length } => {
                self.contents.entry(*inode).or_default().resize(*length, 0)
            }
        }
    }

    pub fn length(&self, inode: Inode) -> usize {
        self.contents.get(&inode).map_or(0, Vec::len)
    }

    pub fn find(&self, path: &Path) -> Option<Inode> {
        path.components().try_fold(ROOT, |dir, part| {
            self.names.get(&dir)?.get(part.as_os_str()).copied()
        })
    }

    /// Returns all files that can be reached from the root, by path.
    pub fn reachable(&self) -> BTreeMap<PathBuf, Inode> {
        let (mut found, mut todo) = (BTreeMap::new(), vec![(PathBuf::new(), ROOT)]);
        while let Some((path, inode)) = todo.pop() {
            for (name, below) in self.names.get(&inode).into_iter().flatten() {
                // limit the depth: a partly lost rename can put a directory into itself
                if path.components().count() < 40 {
                    todo.push((path.join(name), *below));
                }
            }
            if inode != ROOT {
                found.insert(path, inode);
            }
        }
        found
    }

    pub fn content(&self, inode: Inode) -> &[u8] {
        self.contents.get(&inode).map_or(&[], Vec::as_slice)
    }
}

/// Converts calls to changes. Only files below one name in the root are recorded.
pub(super) struct Recorder<'r> {
    root: &'r Path,
    name: &'r str,
    umask: u32,
    history: History,
    files: Files,
    /// Number of changes that preceded the end of each call.
    changes_after: Vec<usize>,
}

impl<'r> Recorder<'r> {
    pub fn new(root: &'r Path, name: &'r str, umask: u32) -> Self {
        let history = History {
            kinds: vec![(Kind::Directory, 0o755)],
            ..History::default()
        };
        Self {
            root,
            name,
            umask,
            history,
            files: Files::default(),
            changes_after: vec![0],
        }
    }

    pub fn follow(mut self, calls: &[Call]) -> (History, Files) {
        for call in calls {
            self.call(call);
            self.changes_after.push(self.history.steps.len());
        }
        (self.history, self.files)
    }

    /// Returns the path of an argument relative to the root; `None` if the file is not recorded. A relative path starts at `base`.
    fn path(&self, base: Option<&Arg>, arg: &Arg) -> Option<PathBuf> {
        if arg.is_deleted || arg.bytes.is_none() {
            return None;
        }
        let base = base
            .filter(|base| base.bytes.is_some())
            .map_or_else(|| self.root.to_owned(), Arg::path);
        let whole = base.join(arg.path());
        let below = whole.strip_prefix(self.root).ok()?;
        let below: PathBuf = below
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        assert!(
            !below.components().any(|part| part == Component::ParentDir),
            "a path that goes up: {}",
            whole.display()
        );
        below.starts_with(self.name).then_some(below)
    }

    fn do_change(&mut self, change: Change, path: &Path) {
        self.files.apply(&change);
        self.history.steps.push(Step {
            change,
            path: path.to_owned(),
        });
    }

    fn place(&self, path: &Path) -> (Inode, OsString) {
        let dir = self.files.find(path.parent().unwrap_or(Path::new("")));
        let dir = dir.unwrap_or_else(|| panic!("the directory of {} is not known", path.display()));
        (dir, path.file_name().unwrap_or_default().to_owned())
    }

    fn make(&mut self, path: &Path, kind: Kind, mode: u32) -> Inode {
        let inode = self.history.kinds.len();
        self.history.kinds.push((kind, mode & !self.umask));
        let (dir, name) = self.place(path);
        self.do_change(Change::Name { dir, name, inode }, path);
        inode
    }

    fn remove(&mut self, path: &Path) {
        let (dir, name) = self.place(path);
        self.do_change(Change::Unname { dir, name }, path);
    }

    fn rename(&mut self, from: Option<PathBuf>, to: Option<PathBuf>) {
        match (from, to) {
            (Some(from), Some(to)) => {
                let inode = self.known(&from);
                let change = Change::Rename {
                    from: self.place(&from),
                    to: self.place(&to),
                    inode,
                };
                self.do_change(change, &to);
            }
            (None, None) => {}
            (from, to) => panic!("a rename across the border: {from:?} to {to:?}"),
        }
    }

    fn known(&self, path: &Path) -> Inode {
        self.files
            .find(path)
            .unwrap_or_else(|| panic!("{} is not known", path.display()))
    }

    fn write(&mut self, call: &Call, at: Option<usize>, bytes: Option<Vec<u8>>) {
        let Some(path) = self.path(None, &call.args[0]) else {
            return;
        };
        let mut bytes = bytes.unwrap_or_else(|| panic!("what is written? {call:?}"));
        // record the bytes that the call accepted
        bytes.truncate(
            usize::try_from(call.args.last().expect("a result").number()).expect("a length"),
        );
        let inode = self.known(&path);
        // without an offset: all writers of a campaign append, or write a new file from its beginning
        let at = at.unwrap_or_else(|| self.files.length(inode));
        self.do_change(Change::Write { inode, at, bytes }, &path);
    }

    fn cut(&mut self, path: Option<PathBuf>, length: usize) {
        let Some(path) = path else { return };
        let inode = self.known(&path);
        if self.files.length(inode) != length {
            self.do_change(Change::Cut { inode, length }, &path);
        }
    }

    fn open(&mut self, base: Option<&Arg>, path: &Arg, flags: &Arg, mode: Option<&Arg>) {
        let Some(path) = self.path(base, path) else {
            return;
        };
        match self.files.find(&path) {
            None if flags.has("O_CREAT") => {
                self.make(&path, Kind::File, mode.map_or(0o666, Arg::mode));
            }
            Some(_) if flags.has("O_TRUNC") => self.cut(Some(path), 0),
            Some(_) | None => {}
        }
    }

    fn sync(&mut self, call: &Call, covers: impl Fn(&Change) -> bool) {
        let before = self.changes_after[call.began_after];
        let covers = (0..before)
            .filter(|at| covers(&self.history.steps[*at].change))
            .collect();
        let of = call.args[0]
            .bytes
            .as_ref()
            .map(|_| call.args[0].path().display().to_string())
            .unwrap_or_default();
        self.history.syncs.push(Sync {
            at: self.history.steps.len(),
            covers,
            what: format!("{} of {of}", call.name),
        });
    }

    fn call(&mut self, call: &Call) {
        let args = &call.args;
        // every call here succeeded: failed calls were skipped before
        match call.name.as_str() {
            "open" => self.open(
                None,
                &args[0],
                &args[1],
                args.get(2).filter(|_| args.len() > 3),
            ),
            "openat" => self.open(
                Some(&args[0]),
                &args[1],
                &args[2],
                args.get(3).filter(|_| args.len() > 4),
            ),
            "creat" => {
                let flags = Arg {
                    text: "O_CREAT|O_TRUNC".to_owned(),
                    ..Arg::default()
                };
                self.open(None, &args[0], &flags, Some(&args[1]));
            }
            "mkdir" => self.make_directory(None, &args[0], &args[1]),
            "mkdirat" => self.make_directory(Some(&args[0]), &args[1], &args[2]),
            "rmdir" | "unlink" => {
                if let Some(path) = self.path(None, &args[0]) {
                    self.remove(&path);
                }
            }
            "unlinkat" => {
                if let Some(path) = self.path(Some(&args[0]), &args[1]) {
                    self.remove(&path);
                }
            }
            "rename" => self.rename(self.path(None, &args[0]), self.path(None, &args[1])),
            "renameat" => self.rename(
                self.path(Some(&args[0]), &args[1]),
                self.path(Some(&args[2]), &args[3]),
            ),
            "renameat2" => {
                assert!(!args[4].has("RENAME_EXCHANGE"), "{call:?}");
                self.rename(
                    self.path(Some(&args[0]), &args[1]),
                    self.path(Some(&args[2]), &args[3]),
                );
            }
            "symlink" => self.make_link(&args[0], None, &args[1]),
            "symlinkat" => self.make_link(&args[0], Some(&args[1]), &args[2]),
            "write" => self.write(call, None, args[1].bytes.clone()),
            "writev" => self.write(call, None, Some(args[1].vector())),
            "pwrite64" => {
                let at = usize::try_from(args[3].number()).expect("a position");
                self.write(call, Some(at), args[1].bytes.clone());
            }
            "truncate" | "ftruncate" => {
                self.cut(
                    self.path(None, &args[0]),
                    usize::try_from(args[1].number()).expect("a length"),
                );
            }
            "chmod" | "fchmod" => self.set_mode(None, &args[0], &args[1]),
            "fchmodat" => self.set_mode(Some(&args[0]), &args[1], &args[2]),
            "fsync" | "fdatasync" => self.sync_one(call),
            "syncfs" | "sync" => self.sync(call, |_| true),
            // the trace does not contain the data that these calls write
            "link" | "linkat" | "mknod" | "mknodat" | "pwritev" | "pwritev2" | "fallocate"
            | "copy_file_range" | "sendfile" => {
                let touched: Vec<PathBuf> =
                    args.iter().filter_map(|arg| self.path(None, arg)).collect();
                assert!(
                    touched.is_empty(),
                    "{} is not understood here: {touched:?}",
                    call.name
                );
            }
            // guarantees nothing
            "sync_file_range" => {}
            other => panic!("{other} was not asked for"),
        }
    }

    fn make_directory(&mut self, base: Option<&Arg>, path: &Arg, mode: &Arg) {
        if let Some(path) = self.path(base, path) {
            self.make(&path, Kind::Directory, mode.mode());
        }
    }

    fn make_link(&mut self, target: &Arg, base: Option<&Arg>, path: &Arg) {
        if let Some(path) = self.path(base, path) {
            self.make(&path, Kind::Link(target.path()), 0o777);
        }
    }

    /// Sets the mode of a file, for all moments: a loss of permissions is not simulated.
    fn set_mode(&mut self, base: Option<&Arg>, path: &Arg, mode: &Arg) {
        if let Some(path) = self.path(base, path) {
            let inode = self.known(&path);
            self.history.kinds[inode].1 = mode.mode();
        }
    }

    /// Records a sync with the guarantee of POSIX only: syncing a file does not put its name on disk, and syncing a directory puts its names but not
    /// their files on disk.
    fn sync_one(&mut self, call: &Call) {
        let file = &call.args[0];
        // the name of the root itself is on disk
        let is_root = !file.is_deleted && file.bytes.is_some() && file.path() == self.root;
        let inode = if is_root {
            Some(ROOT)
        } else {
            self.path(None, file).map(|path| self.known(&path))
        };
        if let Some(inode) = inode {
            self.sync(call, |change| {
                change.content_of() == Some(inode) || change.is_in(inode)
            });
        }
    }
}
