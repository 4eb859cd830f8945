//! `cargo xtask reference`: writes the pages and schemas that are made by the program itself. Tests check that they are current.

use crate::workspace;
use std::fs;

/// Arguments of cvc, and the file that its output makes.
const GENERATED: [(&[&str], &str); 3] = [
    (&["reference"], "docs/cli.md"),
    (&["schema", "campaign"], "experiments/schema/campaign.schema.json"),
    (&["schema", "app"], "experiments/schema/app.schema.json"),
];

/// Writes all of them.
pub fn write() -> Result<(), String> {
    let root = workspace::root()?;
    for (arguments, file) in GENERATED {
        let mut command = workspace::cargo();
        command.args(["run", "--quiet", "--locked", "--package", "cvc", "--bin", "cvc", "--"]).args(arguments).current_dir(&root);
        let finished = command.stderr(std::process::Stdio::inherit()).output().map_err(|e| format!("cannot start cargo: {e}"))?;
        if !finished.status.success() {
            return Err(format!("cvc {}: {}", arguments.join(" "), finished.status));
        }
        let path = root.join(file);
        fs::write(&path, finished.stdout).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{file}");
    }
    Ok(())
}
