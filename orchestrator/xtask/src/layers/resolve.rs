//! Resolves paths to the modules that define them: which file depends on which, and for what name.

use super::source::{Import, Module, Tree};
use std::collections::BTreeSet;

/// The use of a name of another module. Modules are indices into the tree; inline modules count as part of their file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The module that uses the name.
    pub from: usize,
    /// The module that defines or re-exports the name.
    pub to: usize,
    /// The name.
    pub name: String,
    /// Line of its first use.
    pub line: usize,
    /// If `to` only re-exports the name: the module that defines it.
    pub defined_in: Option<usize>,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    module: usize,
    /// `None`: the module itself.
    item: Option<String>,
    /// Modules that re-export it on the way.
    through: Vec<usize>,
}

/// Returns the dependencies of a crate, each name once per pair of files.
pub fn dependencies(tree: &Tree) -> Vec<Dependency> {
    let resolver = Resolver { tree };
    let mut dependencies = Vec::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for import in &module.imports {
            // re-exporting a descendant's name is not a dependency on it
            let re_export = |to: usize| import.public && tree.is_below(to, index);
            resolver.add(
                &mut dependencies,
                index,
                &import.path,
                import.line,
                import.name.is_none(),
                &re_export,
            );
        }
        for mention in &module.mentions {
            let variable = mention.path.len() == 1 && module.locals.contains(&mention.path[0]);
            if !variable {
                resolver.add(
                    &mut dependencies,
                    index,
                    &mention.path,
                    mention.line,
                    false,
                    &|_| false,
                );
            }
        }
    }
    dependencies.sort();
    dependencies.dedup_by(|b, a| (a.from, a.to, &a.name) == (b.from, b.to, &b.name));
    dependencies
}

impl Tree {
    /// Returns the module whose file contains this one.
    pub fn of_file(&self, mut index: usize) -> usize {
        while let (true, Some(parent)) = (self.modules[index].inline, self.modules[index].parent) {
            index = parent;
        }
        index
    }

    /// Tells whether a module is a descendant of another.
    pub fn is_below(&self, mut index: usize, above: usize) -> bool {
        while let Some(parent) = self.modules[index].parent {
            if parent == above {
                return true;
            }
            index = parent;
        }
        false
    }
}

struct Resolver<'a> {
    tree: &'a Tree,
}

impl Resolver<'_> {
    fn add(
        &self,
        dependencies: &mut Vec<Dependency>,
        from: usize,
        path: &[String],
        line: usize,
        glob: bool,
        re_export: &dyn Fn(usize) -> bool,
    ) {
        let Some(found) = self.path(from, path, &mut BTreeSet::new()) else {
            return;
        };
        let mut name = found.item.clone().unwrap_or_else(|| "(the module)".into());
        if glob {
            name += "::*";
        }
        let from = self.tree.of_file(from);
        let defined = self.tree.of_file(found.module);
        let mut add = |to: usize, defined_in| {
            if to != from && !re_export(to) {
                dependencies.push(Dependency {
                    from,
                    to,
                    name: name.clone(),
                    line,
                    defined_in,
                });
            }
        };
        // for a path to the module itself, the names used from it are resolved where they occur
        if found.item.is_some() {
            add(defined, None);
        }
        for through in found.through {
            let through = self.tree.of_file(through);
            if through != defined {
                add(through, Some(defined));
            }
        }
    }

    /// Resolves a path that occurs in a module.
    fn path(
        &self,
        at: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(0, rest, Vec::new(), seen),
            "self" => self.walk(at, rest, Vec::new(), seen),
            "super" => self.walk(self.tree.modules[at].parent?, rest, Vec::new(), seen),
            "Self" => None,
            _ => {
                let mut found = self.walk(at, path, Vec::new(), seen)?;
                // the imports of this module are counted on their own
                found.through.retain(|t| *t != at);
                Some(found)
            }
        }
    }

    /// Resolves the rest of a path inside a module.
    fn walk(
        &self,
        at: usize,
        path: &[String],
        mut through: Vec<usize>,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Found> {
        let module = &self.tree.modules[at];
        let Some((first, rest)) = path.split_first() else {
            return Some(Found {
                module: at,
                item: None,
                through,
            });
        };
        if first == "super" {
            return self.walk(module.parent?, rest, through, seen);
        }
        // `use child::child`: the last segment names the item rather than the module of the same name
        let child = module.children.get(first).copied();
        if let (Some(child), false) = (child, rest.is_empty()) {
            return self.walk(child, rest, through, seen);
        }
        if module.defined.contains(first) {
            return Some(Found {
                module: at,
                item: Some(first.clone()),
                through,
            });
        }
        if let Some(found) = self.imported(at, module, first, rest, seen) {
            through.push(at);
            through.extend(found.through);
            return Some(Found { through, ..found });
        }
        child.and_then(|child| self.walk(child, rest, through, seen))
    }

    /// Resolves a name that a module imports.
    fn imported(
        &self,
        at: usize,
        module: &Module,
        name: &str,
        rest: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Found> {
        if !seen.insert((at, name.to_owned())) {
            return None;
        }
        let follow = |import: &Import, seen: &mut BTreeSet<(usize, String)>| {
            let mut path = import.path.clone();
            if import.name.is_none() {
                path.push(name.to_owned());
            }
            path.extend_from_slice(rest);
            self.path(at, &path, seen)
        };
        let named = module
            .imports
            .iter()
            .filter(|i| i.name.as_deref() == Some(name))
            .find_map(|import| follow(import, seen));
        let found = named.or_else(|| {
            module
                .imports
                .iter()
                .filter(|i| i.name.is_none())
                .find_map(|import| follow(import, seen))
        });
        seen.remove(&(at, name.to_owned()));
        found
    }
}
