//! What the set-up of the README's commands does with `packages.txt`.

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
    let table = "# a comment\n\nbuild a bash\nbuild b bash no-such-program\ntests c no-such-program|bash\ntests d /no/such/file unit=dd\n\
        tests e /etc/passwd python:no_such_module\ntests f no-such-program # why unit=ff\nnodes g no-such-program\nlab l no-such-program\noptional h no-such-program\n";
    assert_eq!(missing(table, ""), "b /");
    assert_eq!(missing(table, "lab"), "b l /");
    assert_eq!(missing(table, "tests"), "b d e f l / dd");
}

/// A file that was moved would otherwise be missed on fresh machines alone, where the set-up then goes on without what needs it.
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
        // before a variable only the beginning of the name is known
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
