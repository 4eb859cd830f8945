//! Finds out from the text of a crate's files which file uses names of which other file: in `use` statements and in paths that begin with `crate`,
//! `super`, `self` or a child module, also within macros and attributes. Re-exports are followed; comments and tests are skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A source file of a crate.
#[derive(Debug, Default)]
pub struct Module {
    /// Names of the module path below the crate's root; empty for the root.
    pub path: Vec<String>,
    /// Content of the file without comments and tests; line numbers are unchanged.
    text: String,
    /// Names that the module re-exports, each with its source path; a glob is `*`, with an entry for each.
    exports: Vec<(String, Vec<String>)>,
}

/// One use of a name; `from` and `to` are indices of modules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub from: usize,
    pub to: usize,
    pub name: String,
    pub line: usize,
}

/// Reads the modules of a target; parents come before their children.
pub fn modules(root: &Path) -> Result<Vec<Module>, String> {
    let mut modules = Vec::new();
    let dir = root.parent().unwrap_or(Path::new("")).to_path_buf();
    add(&mut modules, root, &dir, Vec::new())?;
    for module in &mut modules {
        module.exports = statements(&module.text)
            .filter(|(_, public, _)| *public)
            .flat_map(|(_, _, tree)| leaves(tree))
            .collect();
    }
    Ok(modules)
}

fn add(
    modules: &mut Vec<Module>,
    file: &Path,
    dir: &Path,
    path: Vec<String>,
) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = without_tests(&text);
    let children: Vec<String> = text
        .lines()
        .filter_map(declared)
        .map(str::to_owned)
        .collect();
    modules.push(Module {
        path: path.clone(),
        text,
        exports: Vec::new(),
    });
    for child in children {
        let (flat, below) = (dir.join(format!("{child}.rs")), dir.join(&child));
        let file: PathBuf = if flat.is_file() {
            flat
        } else {
            below.join("mod.rs")
        };
        add(
            modules,
            &file,
            &below,
            path.iter().cloned().chain([child]).collect(),
        )?;
    }
    Ok(())
}

/// Returns the module that a line declares (`mod name;` with any visibility), if any.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.rsplit_once("mod ")?;
    ((before.is_empty() || before.starts_with("pub")) && name.chars().all(is_word)).then_some(name)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Removes comments, and the items after `#[cfg(test)]` or `#[test]`. Such an item ends at `;`, or at a brace with the indentation of the attribute.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut until: Option<String> = None;
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let code = if line.trim_start().starts_with("//") {
            ""
        } else {
            line.split(" // ").next().unwrap_or_default()
        };
        match &until {
            None if code.trim_start().starts_with("#[cfg(test)]")
                || code.trim_start().starts_with("#[cfg(all(test")
                || code.trim() == "#[test]" =>
            {
                let alone = code.trim_end().ends_with(']');
                until =
                    (alone || !code.trim_end().ends_with([';', '}'])).then(|| indent.to_owned());
            }
            None => kept += code,
            Some(at) => {
                let ends = code.starts_with(at.as_str())
                    && !code[at.len()..].starts_with([' ', '#'])
                    && code.trim_end().ends_with([';', '}', ',']);
                // the item is one line, or this is its last line
                if ends {
                    until = None;
                }
            }
        }
        kept.push('\n');
    }
    kept
}

/// Returns the `use` statements: position, whether it is public, and the tree of imports.
fn statements(text: &str) -> impl Iterator<Item = (usize, bool, &str)> {
    text.match_indices("use ").filter_map(|(at, word)| {
        let before = text[..at]
            .rsplit(['\n', ';', '{', '}'])
            .next()
            .unwrap_or_default()
            .trim();
        let public = before.starts_with("pub");
        let tree = &text[at + word.len()..];
        let end = tree.find(';')?;
        (before.is_empty()
            || public
                && before
                    .chars()
                    .all(|c| is_word(c) || matches!(c, '(' | ')' | ':' | ' ')))
        .then_some((at, public, tree[..end].trim()))
    })
}

/// Returns the names in a tree of imports, each with its path: `a::{b, c as d}` contains `b` with the path `a::b` and `d` with `a::c`.
fn leaves(tree: &str) -> Vec<(String, Vec<String>)> {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix: Vec<String> = prefix
            .split("::")
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect();
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(&group[from..at]);
                    from = at + 1;
                }
                _ => {}
            }
        }
        parts.push(&group[from..]);
        let whole = |(name, path): (String, Vec<String>)| {
            let path: Vec<String> = prefix
                .iter()
                .cloned()
                .chain(path.into_iter().filter(|p| p != "self"))
                .collect();
            (
                if name == "self" {
                    path.last().cloned().unwrap_or_default()
                } else {
                    name
                },
                path,
            )
        };
        return parts
            .into_iter()
            .filter(|p| !p.trim().is_empty())
            .flat_map(leaves)
            .map(whole)
            .collect();
    }
    let (path, name) = tree
        .split_once(" as ")
        .map_or((tree, None), |(path, name)| (path, Some(name.trim())));
    let path: Vec<String> = path.split("::").map(|p| p.trim().to_owned()).collect();
    let last = path.last().cloned().unwrap_or_default();
    vec![(name.map_or(last, str::to_owned), path)]
}

/// Returns which modules use which names of which other modules.
pub fn uses(modules: &[Module]) -> Vec<Use> {
    let index: BTreeMap<&[String], usize> = modules
        .iter()
        .enumerate()
        .map(|(at, m)| (m.path.as_slice(), at))
        .collect();
    let mut found = BTreeSet::new();
    for (from, module) in modules.iter().enumerate() {
        let mut note = |at: usize, path: &[String]| {
            let line = module.text[..at].matches('\n').count() + 1;
            for to in resolve(modules, &index, from, path, 0)
                .into_iter()
                .filter(|to| *to != from)
            {
                let name = path.last().cloned().unwrap_or_default();
                found.insert(Use {
                    from,
                    to,
                    name,
                    line,
                });
            }
        };
        // the words of all text except `use` and `mod` statements
        let mut rest = module.text.clone();
        statements(&module.text).for_each(|(at, _, tree)| {
            rest.replace_range(at..at + 4 + tree.len(), &" ".repeat(4 + tree.len()))
        });
        let words: BTreeSet<&str> = rest
            .lines()
            .filter(|line| declared(line).is_none())
            .flat_map(|line| line.split(|c| !is_word(c)))
            .collect();
        for (at, public, tree) in statements(&module.text) {
            for (name, path) in leaves(tree) {
                // a module that only re-exports a child's name does not use it, unless the name occurs elsewhere in the file
                let of_child = path
                    .first()
                    .is_some_and(|first| first != "crate" && first != "super");
                if !public || !of_child || words.contains(name.as_str()) {
                    note(at, &path);
                }
            }
        }
        for (at, _) in module.text.match_indices("::") {
            let first = module.text[..at]
                .rsplit(|c| !is_word(c))
                .next()
                .unwrap_or_default();
            let start = at - first.len();
            let is_child = || {
                index.contains_key(
                    module
                        .path
                        .iter()
                        .map(String::as_str)
                        .chain([first])
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                        .as_slice(),
                )
            };
            if first.is_empty()
                || module.text[..start].ends_with(':')
                || !(matches!(first, "crate" | "super" | "self") || is_child())
            {
                continue;
            }
            let end = module.text[start..]
                .find(|c| !is_word(c) && c != ':')
                .map_or(module.text.len(), |e| start + e);
            let path: Vec<String> = module.text[start..end]
                .split("::")
                .filter(|p| !p.is_empty())
                .map(str::to_owned)
                .collect();
            // paths in `use` statements were handled above
            let in_use = module.text[..start].trim_end().ends_with("use");
            if !in_use && (path.len() > 1 || !module.text[end..].starts_with(['{', '$'])) {
                note(start, &path);
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the modules that define a path which the module with index `at` uses. Returns none if the path belongs to another crate.
fn resolve(
    modules: &[Module],
    index: &BTreeMap<&[String], usize>,
    at: usize,
    path: &[String],
    depth: usize,
) -> Vec<usize> {
    let mut here = modules[at].path.clone();
    let mut entered = false;
    for (number, word) in path.iter().enumerate() {
        match word.as_str() {
            "crate" if number == 0 => (here, entered) = (Vec::new(), true),
            "self" => entered = true,
            "super" => {
                if here.pop().is_none() {
                    return Vec::new();
                }
                entered = true;
            }
            word => {
                let below: Vec<String> = here.iter().cloned().chain([word.to_owned()]).collect();
                if index.contains_key(below.as_slice()) {
                    (here, entered) = (below, true);
                    continue;
                }
                if !entered {
                    return Vec::new();
                }
                let module = index[here.as_slice()];
                let rest = &path[number + 1..];
                let through = modules[module]
                    .exports
                    .iter()
                    .find(|(name, _)| name == word)
                    .map(|(_, to)| to);
                return match through {
                    Some(to) if depth < 9 => {
                        let to: Vec<String> = to.iter().chain(rest).cloned().collect();
                        let found = resolve(modules, index, module, &to, depth + 1);
                        if found.is_empty() {
                            vec![module]
                        } else {
                            found
                        }
                    }
                    _ => vec![module],
                };
            }
        }
    }
    if entered {
        index.get(here.as_slice()).copied().into_iter().collect()
    } else {
        Vec::new()
    }
}
