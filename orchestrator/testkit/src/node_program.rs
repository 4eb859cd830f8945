//! The statically linked `cvc-node` for the nodes of a lab, which runs with any C library.

use std::{path::PathBuf, process::Command, sync::OnceLock};

/// Returns the path of a static `cvc-node`: the program that `CVC_NODE_PROGRAM` names, or else a program that this call builds.
///
/// # Panics
/// The program cannot be built.
pub fn node_program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| std::env::var_os("CVC_NODE_PROGRAM").map_or_else(build, PathBuf::from))
        .clone()
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["xtask", "node"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap_or_else(|e| panic!("cannot start cargo to build cvc-node: {e}"));
    assert!(
        output.status.success(),
        "cannot build cvc-node:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
