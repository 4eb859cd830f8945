//! `cargo xtask layers`: checks that crates depend only on crates of lower layers, and that the modules of a crate do not import each other in a
//! cycle.

mod crates;
mod source;
#[cfg(test)]
mod tests;

use crate::workspace::{self, Package, Target};
use source::{Module, Use};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// The hint printed below violations.
const HINT: &str = "hint: to break a cycle, move the names that close it to a module below both sides, or pass what is needed as a parameter or a \
                    trait; a `mod.rs` whose children import from it should only re-export";

/// The uses between two modules below the same parent, or the parent and a child, by the indices of the using and the used module.
type Between<'a> = BTreeMap<(usize, usize), Vec<&'a Use>>;

/// Prints which modules of each crate (or of the named crates) import which, and all violations; returns whether there are none.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let packages = workspace::packages()?;
    if let Some(unknown) = arguments
        .iter()
        .find(|n| !packages.iter().any(|p| p.name == **n))
    {
        return Err(format!(
            "unknown crate `{unknown}`: the workspace has {}",
            names(packages.iter().map(|p| p.name.clone()))
        ));
    }
    let mut violations = crates::violations(&packages);
    for package in packages
        .iter()
        .filter(|p| arguments.is_empty() || arguments.contains(&p.name))
    {
        for target in compiled(package) {
            let modules = source::modules(&target.root)?;
            let uses = source::uses(&modules);
            if modules.len() > 1 {
                println!("{}, {} {}", package.name, target.kind, target.name);
                for ((from, to), _) in between(&modules, &uses, 0) {
                    println!("  {} → {}", file(&modules[from]), file(&modules[to]));
                }
            }
            violations.extend(cycles(&target.name, &modules, &uses));
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

fn compiled(package: &Package) -> impl Iterator<Item = &Target> {
    package
        .targets
        .iter()
        .filter(|t| matches!(t.kind.as_str(), "lib" | "bin"))
}

/// Returns the uses among a module's children and the module's own file; uses in deeper modules count for the child above them.
fn between<'a>(modules: &[Module], uses: &'a [Use], level: usize) -> Between<'a> {
    let above = &modules[level].path;
    let lift = |at: usize| {
        let path = &modules[at].path;
        if !path.starts_with(above) {
            return None;
        }
        let short = &path[..path.len().min(above.len() + 1)];
        modules.iter().position(|m| m.path == short)
    };
    let mut between = Between::new();
    for one in uses {
        if let (Some(from), Some(to)) = (lift(one.from), lift(one.to))
            && from != to
        {
            between.entry((from, to)).or_default().push(one);
        }
    }
    between
}

/// Describes every cycle among the children of each module.
fn cycles(name: &str, modules: &[Module], uses: &[Use]) -> Vec<String> {
    let mut found = Vec::new();
    for (level, above) in modules.iter().enumerate() {
        let between = between(modules, uses, level);
        let reachable = |from: usize| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(node) = open.pop() {
                open.extend(
                    between
                        .keys()
                        .filter(|(from, to)| *from == node && reached.insert(*to))
                        .map(|(_, to)| *to),
                );
            }
            reached
        };
        let reached: BTreeMap<usize, BTreeSet<usize>> = between
            .keys()
            .map(|(from, _)| (*from, reachable(*from)))
            .collect();
        let circle = |node: &usize| {
            reached[node]
                .iter()
                .copied()
                .filter(|n| reached.get(n).is_some_and(|r| r.contains(node)))
                .collect()
        };
        let circles: BTreeSet<BTreeSet<usize>> = reached
            .keys()
            .filter(|n| reached[n].contains(n))
            .map(circle)
            .collect();
        for circle in circles {
            let mut text = format!(
                "{name}: import cycle in {}: {}",
                file(above),
                names(circle.iter().map(|m| file(&modules[*m])))
            );
            let mut closing: Vec<_> = between
                .iter()
                .filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
                .map(|(_, uses)| uses)
                .collect();
            // list the imports with the fewest uses first, since they are the easiest to reverse
            closing.sort_by_key(|uses| uses.len());
            for one in closing.into_iter().flatten() {
                let _ = write!(
                    text,
                    "\n    {}:{} → {}: {}",
                    file(&modules[one.from]),
                    one.line,
                    file(&modules[one.to]),
                    one.name
                );
            }
            found.push(text);
        }
    }
    found
}

fn file(module: &Module) -> String {
    if module.path.is_empty() {
        "crate".to_owned()
    } else {
        module.path.join("::")
    }
}

fn names(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
