//! `cargo xtask node`: builds `cvc-node` statically, so that it runs on nodes with any C library.

use std::{path::PathBuf, process::Stdio};

/// Builds `cvc-node` and returns its path. The flags for static linking apply only to the program, because build scripts and procedural macros cannot
/// be static.
///
/// # Errors
/// Cargo cannot be started or the build fails.
pub fn build(release: bool) -> Result<PathBuf, String> {
    let root = crate::workspace::root()?;
    let status = crate::workspace::cargo()
        .args([
            "rustc",
            "--quiet",
            "--locked",
            "--package",
            "cvc-node",
            "--bin",
            "cvc-node",
        ])
        .args(if release {
            ["--release"].as_slice()
        } else {
            &["--features", "failpoints"]
        })
        .args([
            "--",
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=debuginfo",
        ])
        .current_dir(&root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err(format!(
            "cvc-node cannot be built ({status}): the compiler's messages are above"
        ));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |dir| root.join(dir));
    Ok(target
        .join(if release { "release" } else { "debug" })
        .join("cvc-node"))
}

/// Runs the command: builds `cvc-node` and prints its path.
///
/// # Errors
/// The build fails, or an argument is unknown.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let release = match arguments {
        [] => false,
        [one] if one == "--release" => true,
        _ => return Err("usage: cargo xtask node [--release]".into()),
    };
    println!("{}", build(release)?.display());
    Ok(())
}
