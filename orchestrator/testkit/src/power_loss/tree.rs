//! A directory and everything below it, in memory.

use super::history::{Files, History, Kind};
use std::{
    collections::BTreeMap,
    fs,
    ops::Deref,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A directory.
    Directory {
        /// Mode of the directory.
        mode: u32,
    },
    /// A file.
    File {
        /// Mode of the file.
        mode: u32,
        /// Content of the file.
        content: Vec<u8>,
    },
    /// A symbolic link, with its target.
    Link(PathBuf),
}

/// Files and directories by path, parents first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree(BTreeMap<PathBuf, Node>);

impl Deref for Tree {
    type Target = BTreeMap<PathBuf, Node>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Tree {
    /// Returns the files after the changes for which `is_made` returns true.
    pub(super) fn after(history: &History, is_made: impl Fn(usize) -> bool) -> Self {
        let mut files = Files::default();
        for (_, step) in history
            .steps
            .iter()
            .enumerate()
            .filter(|(at, _)| is_made(*at))
        {
            files.apply(&step.change);
        }
        Self::of(history, &files)
    }

    pub(super) fn of(history: &History, files: &Files) -> Self {
        let node = |inode: usize| {
            let (kind, mode) = &history.kinds[inode];
            match kind {
                Kind::Directory => Node::Directory { mode: *mode },
                Kind::File => Node::File {
                    mode: *mode,
                    content: files.content(inode).to_owned(),
                },
                Kind::Link(to) => Node::Link(to.clone()),
            }
        };
        Self(
            files
                .reachable()
                .into_iter()
                .map(|(path, inode)| (path, node(inode)))
                .collect(),
        )
    }

    /// Returns the content of a file; `None` if it does not exist.
    pub fn content(&self, path: &Path) -> Option<&[u8]> {
        match self.0.get(path)? {
            Node::File { content, .. } => Some(content),
            Node::Directory { .. } | Node::Link(_) => None,
        }
    }

    /// Returns the files below a path, with paths relative to it.
    #[must_use]
    pub fn below(&self, path: &Path) -> Self {
        let below = self
            .0
            .iter()
            .filter_map(|(at, node)| Some((at.strip_prefix(path).ok()?.to_owned(), node.clone())));
        Self(below.collect())
    }
}

/// Reads `name` below `root` with everything below it; returns an empty tree if it does not exist.
pub fn read_tree(root: &Path, name: &str) -> Tree {
    let mut tree = Tree::default();
    let mut todo = vec![PathBuf::from(name)];
    while let Some(path) = todo.pop() {
        let whole = root.join(&path);
        let Ok(metadata) = fs::symlink_metadata(&whole) else {
            continue;
        };
        let fail = |e| panic!("{}: {e}", whole.display());
        let mode = metadata.permissions().mode() & 0o7777;
        let node = if metadata.is_dir() {
            todo.extend(
                fs::read_dir(&whole)
                    .unwrap_or_else(fail)
                    .flatten()
                    .map(|entry| path.join(entry.file_name())),
            );
            Node::Directory { mode }
        } else if metadata.is_symlink() {
            Node::Link(fs::read_link(&whole).expect("a link"))
        } else {
            let content = fs::read(&whole).unwrap_or_else(|e| panic!("{}: {e}", whole.display()));
            Node::File { mode, content }
        };
        tree.0.insert(path, node);
    }
    tree
}

/// Writes a tree below `root`. None of the tree's files may exist there.
pub fn write_tree(root: &Path, tree: &Tree) {
    for (path, node) in &tree.0 {
        let whole = root.join(path);
        let written = match node {
            Node::Directory { .. } => fs::create_dir(&whole),
            Node::File { content, .. } => fs::write(&whole, content),
            Node::Link(to) => symlink(to, &whole),
        };
        written.unwrap_or_else(|e| panic!("{}: {e}", whole.display()));
        if let Node::Directory { mode } | Node::File { mode, .. } = node {
            fs::set_permissions(&whole, fs::Permissions::from_mode(*mode))
                .unwrap_or_else(|e| panic!("{}: {e}", whole.display()));
        }
    }
}
