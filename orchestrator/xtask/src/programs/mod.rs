//! `cargo xtask programs`: checks that every program called by the product, its tests, the test kit and the Ansible roles is declared in
//! packages.txt, from which the set-up installs missing packages. This finds programs that merely happen to be on a developer's machine.

mod calls;
mod shell;
mod table;

use crate::workspace;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use table::Table;

/// Directories searched for calls.
const SCRIPTS: &[&str] = &["ansible", "templates", "orchestrator"];

/// The script that the scripts at the root source.
const SOURCED: &str = "orchestrator/xtask/setup.sh";

/// Shell scripts without an extension.
const AT_ROOT: &[&str] = &["test", "quickstart", ".ci/run"];

/// Prints all called programs with their first location; returns whether all are declared.
pub fn run() -> Result<bool, String> {
    let root = workspace::root()?;
    let table = read_table(&root)?;
    let called = called(&root)?;
    for (program, places) in &called {
        println!("{program}: {} ({} call{})", places[0], places.len(), if places.len() == 1 { "" } else { "s" });
    }
    let undeclared = undeclared(&table, &called);
    println!("{} programs called, {} not declared", called.len(), undeclared.len());
    for (program, _) in table.programs().filter(|(program, when)| !matches!(*when, "base" | "optional") && !called.contains_key(*program)) {
        println!("declared, but no call found: {program}");
    }
    undeclared.iter().for_each(|u| println!("{u}"));
    Ok(undeclared.is_empty())
}

fn read_table(root: &Path) -> Result<Table, String> {
    let path = root.join(table::PATH);
    Table::parse(&fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// Returns a message for each called program that is not declared.
fn undeclared(table: &Table, called: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let unknown = called.iter().filter(|(program, _)| !table.declares(program));
    unknown
        .map(|(program, places)| {
            format!(
                "{}: `{program}` is called but not declared; hint: add it to the line of its package in {}",
                places.join(", "),
                table::PATH
            )
        })
        .collect()
}

/// Returns the called programs, each with its locations (`file:line`).
fn called(root: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut called: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let sourced = shell::defined(&fs::read_to_string(root.join(SOURCED)).map_err(|e| format!("{SOURCED}: {e}"))?);
    let mut files: Vec<PathBuf> = AT_ROOT.iter().map(|f| root.join(f)).collect();
    for directory in SCRIPTS {
        collect(&root.join(directory), &mut files)?;
    }
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let calls: Vec<(usize, String)> = if name.ends_with(".rs") {
            calls::calls(&text).map_err(|e| format!("{name}:{e}"))?.into_iter().map(|c| (c.line, c.program)).collect()
        } else if name.ends_with(".sh") || AT_ROOT.contains(&name.as_str()) {
            shell::calls(&text).into_iter().map(|c| (c.line + 1, c.program)).collect()
        } else if name.ends_with(".sh.hbs") {
            shell::calls(&without_templates(&text)).into_iter().map(|c| (c.line + 1, c.program)).collect()
        } else if name.ends_with(".yml") {
            of_playbook(&text)
        } else {
            continue;
        };
        for (line, program) in calls.into_iter().filter(|(_, program)| !sourced.contains(program)) {
            called.entry(program).or_default().push(format!("{name}:{line}"));
        }
    }
    Ok(called)
}

/// Collects all files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// Replaces the placeholders of a Handlebars template by `$x`.
fn without_templates(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let (inner, after) = after.split_once("}}").unwrap_or((after, ""));
        plain.push_str(before);
        // a block (`{{#if}}`, `{{/if}}`, `{{else}}`) leaves nothing; lines stay lines
        let is_block = inner.starts_with(['#', '/', '!', '~']) || inner == "else";
        plain.push_str(if is_block { "" } else { "$x" });
        plain.extend(inner.chars().filter(|c| *c == '\n'));
        rest = after.trim_start_matches('}');
    }
    plain + rest
}

/// Returns the programs in `command` and `shell` tasks of a playbook.
fn of_playbook(text: &str) -> Vec<(usize, String)> {
    let mut calls = Vec::new();
    let mut in_argv = None;
    for (number, line) in text.lines().enumerate() {
        let item = line.trim().trim_start_matches("- ");
        let Some((key, value)) = item.split_once(':') else {
            if in_argv.take().is_some() {
                calls.extend(shell::calls(&jinja(item.trim_matches(['\'', '"']))).into_iter().map(|c| (number + 1, c.program)));
            }
            continue;
        };
        let key = key.rsplit('.').next().unwrap_or(key);
        in_argv = (key == "argv" && value.trim().is_empty()).then_some(());
        let value = value.trim();
        match key {
            "command" | "shell" | "cmd" if !value.is_empty() => {
                calls.extend(shell::calls(&jinja(value.trim_matches(['\'', '"']))).into_iter().map(|c| (number + 1, c.program)));
            }
            "argv" if value.starts_with('[') => {
                let first = value.trim_start_matches('[').split(',').next().unwrap_or_default().trim().trim_matches(['\'', '"', ']']);
                calls.extend(shell::calls(&jinja(first)).into_iter().map(|c| (number + 1, c.program)));
            }
            _ => {}
        }
    }
    calls
}

/// Replaces Jinja placeholders by `$x`.
fn jinja(text: &str) -> String {
    without_templates(&text.replace("{%", "{{#").replace("%}", "}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_called_program_is_declared() {
        let root = workspace::root().expect("a repository");
        let undeclared = undeclared(&read_table(&root).expect("a table"), &called(&root).expect("sources"));
        assert!(undeclared.is_empty(), "\n{}", undeclared.join("\n"));
    }

    /// Returns the packages and services that the set-up finds missing for a given table.
    fn missing(table: &str, arguments: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let script = workspace::root().expect("a repository").join(SOURCED);
        fs::copy(script, directory.path().join("setup.sh")).expect("the set-up");
        fs::write(directory.path().join("packages.txt"), table).expect("a table");
        let read = format!("set -euo pipefail; . ./setup.sh; missing_packages {arguments}; echo ${{packages[*]-}} / ${{units[*]-}}");
        let output = std::process::Command::new("bash").args(["-c", &read]).current_dir(&directory).output().expect("bash");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn the_set_up_finds_missing_packages() {
        let table = "# a comment\n\nbuild a bash\nbuild b bash no-such-program\ntests c no-such-program|bash\ntests d /no/such/file unit=dd\n\
            tests e /etc/passwd python:no_such_module\ntests f no-such-program # why unit=ff\nnodes g no-such-program\noptional h no-such-program\n";
        assert_eq!(missing(table, ""), "b /");
        assert_eq!(missing(table, "tests"), "b d e f / dd");
    }

    #[test]
    fn an_undeclared_program_is_reported_with_its_locations() {
        let table = Table::parse("tests sudo sudo").expect("a table");
        let called = BTreeMap::from([
            ("sudo".to_owned(), vec!["a.rs:1".to_owned()]),
            ("lsof".to_owned(), vec!["a.rs:2".to_owned(), "b.sh:3".to_owned()]),
        ]);
        let undeclared = undeclared(&table, &called);
        assert_eq!(undeclared.len(), 1);
        assert!(undeclared[0].starts_with("a.rs:2, b.sh:3: `lsof` is called but not declared; hint: "), "{undeclared:?}");
    }

    #[test]
    fn templates_and_playbooks_are_parsed() {
        assert_eq!(without_templates("{{#if a}}aa {{b}}{{/if}}\n{{{c}}} x"), "aa $x\n$x x");
        let playbook = "- name: no1\n  ansible.builtin.command: aa {{ x }}\n- command:\n    cmd: \"bb | cc\"\n- command:\n    argv:\n      - dd\n      - no2\n- command:\n    argv: [ee, no3]\n";
        let expected = [(2, "aa"), (4, "bb"), (4, "cc"), (7, "dd"), (10, "ee")].map(|(line, program)| (line, program.to_owned()));
        assert_eq!(of_playbook(playbook), expected);
    }
}
