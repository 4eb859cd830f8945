//! Tests of `setup.sh`, which the README's commands use to find missing packages of `packages.txt`.

use crate::workspace;
use std::{fs, process::Command};

/// Returns the packages and services that the set-up finds missing for a given table.
fn missing(table: &str, arguments: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let script = workspace::root()
        .expect("a repository")
        .join("orchestrator/xtask/setup.sh");
    fs::copy(script, directory.path().join("setup.sh")).expect("the set-up");
    fs::write(directory.path().join("packages.txt"), table).expect("a table");
    let read = format!(
        "set -euo pipefail; . ./setup.sh; missing_packages {arguments}; echo ${{packages[*]-}} / ${{units[*]-}}"
    );
    let output = Command::new("bash")
        .args(["-c", &read])
        .current_dir(&directory)
        .output()
        .expect("bash");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_set_up_finds_missing_packages() {
    let table = "# a comment\n\ncompile z no-such-program\nbuild a bash\nbuild b bash no-such-program\ntests c no-such-program|bash\ntests d /no/such/file unit=dd\n\
        tests e /etc/passwd python:no_such_module\ntests f no-such-program # why unit=ff\nnodes g no-such-program\nlab l no-such-program\noptional h no-such-program\n";
    assert_eq!(missing(table, ""), "z b /");
    assert_eq!(missing(table, "lab"), "z b l /");
    assert_eq!(missing(table, "tests"), "z b d e f l / dd");
    assert_eq!(missing(table, "compile"), "z /");
}

/// Only fresh machines would miss a file that was moved, and there the set-up continues without it: so check every file.
#[test]
fn every_file_that_the_set_up_names_is_there() {
    let root = workspace::root().expect("a repository");
    let script = fs::read_to_string(root.join("orchestrator/xtask/setup.sh")).expect("the set-up");
    let named: Vec<&str> = script
        .split(|c: char| c.is_whitespace() || "\"'();|".contains(c))
        .filter(|word| word.starts_with("orchestrator/"))
        .map(|word| word.split('$').next().unwrap_or_default())
        .collect();
    assert!(!named.is_empty(), "the set-up names files");
    for file in named {
        // a path that contains a variable is checked up to the variable
        let path = root.join(file);
        let parent = path.parent().expect("a directory");
        let beginning = path.file_name().expect("a name").to_string_lossy();
        let found = parent.read_dir().is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry
                    .is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(&*beginning))
            })
        });
        assert!(found, "{file}");
    }
}
