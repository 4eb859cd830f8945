//! Checks the dependencies against `deny.toml`.

use cvc_testkit::{Tool, require};
use std::process::Command;

/// Advisories are not checked, because they change without a change here and need the network.
#[test]
fn licenses_sources_and_duplicates_comply_with_deny_toml() {
    require!(Tool::CargoDeny);
    let output = Command::new("cargo")
        .args([
            "deny",
            "--offline",
            "--workspace",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
