//! `cargo xtask layers`: crates depend only on crates of lower layers, and the modules of a crate do not import each other in a cycle.
//!
//! Dependencies are read from the sources: imports and paths, resolved through re-exports to the file that defines the name. A `mod.rs` or
//! `lib.rs` that re-exports a name of its descendants does not thereby depend on them. Test code does not count.

mod crates;
mod graph;
mod resolve;
mod source;
#[cfg(test)]
mod tests;

use crate::workspace::{self, Package, Target};
use graph::Graph;
use resolve::Dependency;
use source::Tree;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

/// Maximum number of imports that are listed without `--all`.
const FEW: usize = 24;

/// The hint for all violations.
const HINT: &str = "hint: to break a cycle, move the names that close it to a module below both sides, or pass what is needed as a parameter or a \
                    trait; a `mod.rs` whose children import from it should only re-export";

/// The modules of one target and their dependencies.
struct Layers {
    /// The crate, and the program if it is one.
    name: String,
    tree: Tree,
    dependencies: Vec<Dependency>,
}

/// Prints the module graph of every crate (or of the named ones), then all violations; returns whether there are none.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let everything = arguments.iter().any(|a| a == "--all");
    let named: Vec<&String> = arguments.iter().filter(|a| *a != "--all").collect();
    let packages = workspace::packages()?;
    if let Some(unknown) = named
        .iter()
        .find(|n| !packages.iter().any(|p| p.name == ***n))
    {
        return Err(format!(
            "unknown crate `{unknown}`: the workspace has {}",
            names(packages.iter().map(|p| p.name.clone()))
        ));
    }
    let mut violations = crates::violations(&packages);
    for package in packages
        .iter()
        .filter(|p| named.is_empty() || named.iter().any(|n| **n == p.name))
    {
        for layers in targets(package)? {
            if layers.tree.modules.len() > 1 {
                println!("{}", layers.draw());
            }
            violations.extend(layers.cycles(everything));
        }
    }
    if violations.is_empty() {
        println!("the crates form layers; no import cycles");
    } else {
        println!(
            "{}\n\n{HINT}\nviolations: {}",
            violations.join("\n\n"),
            violations.len()
        );
    }
    Ok(violations.is_empty())
}

/// Reads the library and the programs of a crate.
fn targets(package: &Package) -> Result<Vec<Layers>, String> {
    let compiled = package
        .targets
        .iter()
        .filter(|t| matches!(t.kind.as_str(), "lib" | "bin"));
    compiled
        .map(|target| Layers::read(package, target))
        .collect()
}

impl Layers {
    fn read(package: &Package, target: &Target) -> Result<Self, String> {
        let name = match target.kind.as_str() {
            "lib" => package.name.clone(),
            _ => format!("{}, program {}", package.name, target.name),
        };
        Self::of(name, &target.root, &|path| {
            std::fs::read_to_string(path).ok()
        })
    }

    fn of(name: String, root: &Path, read: &source::Reader) -> Result<Self, String> {
        let tree = source::tree(root, read)?;
        let dependencies = resolve::dependencies(&tree);
        Ok(Self {
            name,
            tree,
            dependencies,
        })
    }

    /// Maps a module to its ancestor (or itself) among the children of `level`, or to `level`; `None` if it is elsewhere.
    fn lift(&self, mut index: usize, level: usize) -> Option<usize> {
        if index == level {
            return Some(level);
        }
        loop {
            let parent = self.tree.modules[index].parent?;
            if parent == level {
                return Some(index);
            }
            index = parent;
        }
    }

    /// Returns the dependencies among the children of a module and its own file.
    fn between(&self, level: usize) -> BTreeMap<(usize, usize), Vec<&Dependency>> {
        let mut between: BTreeMap<(usize, usize), Vec<&Dependency>> = BTreeMap::new();
        for dependency in &self.dependencies {
            let (Some(from), Some(to)) = (
                self.lift(dependency.from, level),
                self.lift(dependency.to, level),
            ) else {
                continue;
            };
            // a re-export by the parent, or by the module that defines the name, is not a dependency of its own
            let same_place = dependency
                .defined_in
                .is_some_and(|module| to == level || self.lift(module, level) == Some(to));
            if from != to && !same_place {
                between.entry((from, to)).or_default().push(dependency);
            }
        }
        between
    }

    fn graph(&self, level: usize, between: &BTreeMap<(usize, usize), Vec<&Dependency>>) -> Graph {
        let below = self.tree.modules[level].children.values().copied();
        let nodes = below
            .filter(|c| !self.tree.modules[*c].inline)
            .chain([level])
            .collect();
        Graph {
            nodes,
            edges: between
                .iter()
                .map(|(pair, dependencies)| (*pair, dependencies.len()))
                .collect(),
        }
    }

    /// Names a child of `level`, or `level` itself by its file.
    fn named(&self, index: usize, level: usize) -> String {
        if index == level {
            self.file(index)
        } else {
            self.tree.modules[index].name.clone()
        }
    }

    /// Returns the file of a module, relative to the root file's directory.
    fn file(&self, index: usize) -> String {
        let root = self.tree.modules[0].file.parent().unwrap_or(Path::new(""));
        let file = &self.tree.modules[index].file;
        file.strip_prefix(root)
            .unwrap_or(file)
            .display()
            .to_string()
    }

    /// Draws the top-level modules, one per line, lowest level first; `↺` marks those in a cycle.
    fn draw(&self) -> String {
        let between = self.between(0);
        let graph = self.graph(0, &between);
        let files = self.tree.modules.iter().filter(|m| !m.inline).count();
        let lines: usize = self.tree.modules.iter().map(|m| m.lines).sum();
        let mut text = format!(
            "{}: {} modules, {files} files, {lines} lines",
            self.name,
            graph.nodes.len() - 1
        );
        let cycles = graph.cycles();
        let mut modules: Vec<(usize, String, usize)> = graph
            .levels()
            .into_iter()
            .map(|(node, level)| (level, self.named(node, 0), node))
            .collect();
        modules.sort();
        for (level, name, node) in modules {
            let below = names(
                between
                    .keys()
                    .filter(|(from, _)| *from == node)
                    .map(|(_, to)| self.named(*to, 0)),
            );
            if node != 0 || !below.is_empty() {
                let mark = if cycles.iter().any(|c| c.contains(&node)) {
                    '↺'
                } else {
                    ' '
                };
                let _ = write!(
                    text,
                    "\n  {level:>2} {mark} {name}{}{below}",
                    if below.is_empty() { "" } else { " → " }
                );
            }
        }
        text + "\n"
    }

    /// Describes every cycle: of top-level modules, and of the files in each module's directory.
    fn cycles(&self, everything: bool) -> Vec<String> {
        let levels = (0..self.tree.modules.len())
            .filter(|m| self.tree.of_file(*m) == *m && !self.tree.modules[*m].children.is_empty());
        levels
            .flat_map(|level| {
                let between = self.between(level);
                let graph = self.graph(level, &between);
                graph
                    .cycles()
                    .into_iter()
                    .map(move |cycle| (level, cycle))
                    .collect::<Vec<_>>()
            })
            .map(|(level, cycle)| self.cycle(level, &cycle, everything))
            .collect()
    }

    fn cycle(&self, level: usize, cycle: &BTreeSet<usize>, everything: bool) -> String {
        let between = self.between(level);
        let back: BTreeSet<(usize, usize)> = self
            .graph(level, &between)
            .feedback_edges(cycle)
            .into_iter()
            .collect();
        let (closing, others): (Vec<_>, Vec<_>) = between
            .iter()
            .filter(|((from, to), _)| cycle.contains(from) && cycle.contains(to))
            .partition(|(pair, _)| back.contains(pair));
        let place = if level == 0 {
            String::new()
        } else {
            format!(" in {}", self.file(level))
        };
        let mut text = format!(
            "{}: import cycle of {} modules{place}: {}\n  closed by (smallest set found):",
            self.name,
            cycle.len(),
            names(cycle.iter().map(|m| self.named(*m, level)))
        );
        self.list(&mut text, &closing);
        let pairs = others
            .iter()
            .flat_map(|(_, dependencies)| dependencies.iter().map(|a| (a.from, a.to)))
            .collect::<BTreeSet<_>>();
        if everything || pairs.len() <= FEW {
            text += "\n  against:";
            self.list(&mut text, &others);
        } else {
            let _ = write!(
                text,
                "\n  against: imports between {} pairs of files (listed by `cargo xtask layers --all`)",
                pairs.len()
            );
        }
        text
    }

    /// Lists imports, one line per pair of files.
    fn list(&self, text: &mut String, between: &[(&(usize, usize), &Vec<&Dependency>)]) {
        let mut pairs: BTreeMap<(String, String), BTreeMap<usize, Vec<String>>> = BTreeMap::new();
        for dependency in between
            .iter()
            .flat_map(|(_, dependencies)| dependencies.iter())
        {
            let name = match dependency.defined_in {
                None => dependency.name.clone(),
                Some(module) => format!(
                    "{} (defined in {}; import it from there)",
                    dependency.name,
                    self.file(module)
                ),
            };
            pairs
                .entry((self.file(dependency.from), self.file(dependency.to)))
                .or_default()
                .entry(dependency.line)
                .or_default()
                .push(name);
        }
        for ((from, to), lines) in pairs {
            let first = lines.keys().next().copied().unwrap_or_default();
            let _ = write!(
                text,
                "\n    {from}:{first} → {to}: {}",
                names(lines.into_values().flatten())
            );
        }
    }
}

fn names(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
