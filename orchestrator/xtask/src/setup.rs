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
        tests e /etc/passwd python:no_such_module\ntests f no-such-program # why unit=ff\nnodes g no-such-program\noptional h no-such-program\n";
    assert_eq!(missing(table, ""), "b /");
    assert_eq!(missing(table, "tests"), "b d e f / dd");
}
