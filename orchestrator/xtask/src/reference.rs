//! `cargo xtask reference`: writes the pages and schemas that cvc itself generates. Tests check that the files are up to date.

use crate::workspace;
use std::fs;

/// Arguments of cvc that generate a file, with the path of the file.
const GENERATED: [(&[&str], &str); 3] = [
    (&["reference"], "docs/cli.md"),
    (
        &["schema", "campaign"],
        "experiments/schema/campaign.schema.json",
    ),
    (&["schema", "app"], "experiments/schema/app.schema.json"),
];

/// Writes all generated files.
pub fn write() -> Result<(), String> {
    let root = workspace::root()?;
    for (arguments, file) in GENERATED {
        let mut command = workspace::cargo();
        command
            .args([
                "run",
                "--quiet",
                "--locked",
                "--package",
                "cvc",
                "--bin",
                "cvc",
                "--",
            ])
            .args(arguments)
            .current_dir(&root);
        let output = command
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|e| format!("cannot start cargo: {e}"))?;
        if !output.status.success() {
            return Err(format!("cvc {}: {}", arguments.join(" "), output.status));
        }
        let path = root.join(file);
        fs::write(&path, output.stdout).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{file}");
    }
    Ok(())
}
