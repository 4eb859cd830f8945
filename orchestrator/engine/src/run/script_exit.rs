//! How the script of a run reports that the program never started: by an exit code and by a file. The file distinguishes this from a program that
//! ends with the same code.

use camino::Utf8Path;
use serde_json::{Value, json};

/// Reasons why a run's program never starts. The template of the script gets their codes and the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptFailure {
    /// The run's directory could not be set up.
    Setup,
    /// The checkpointer did not start.
    Checkpointer,
    /// A module or a line of the prologue failed.
    Environment,
}

impl ScriptFailure {
    const ALL: [Self; 3] = [Self::Setup, Self::Checkpointer, Self::Environment];
    /// File in the run's directory that the script creates when it fails; it contains the code.
    const MARKER: &'static str = "script-failed";

    /// Returns the script's exit code for this failure.
    fn code(self) -> i32 {
        match self {
            Self::Setup => 97,
            Self::Checkpointer => 98,
            Self::Environment => 96,
        }
    }

    /// Returns the values for the template.
    pub fn values() -> Value {
        json!({ "setup": Self::Setup.code(), "checkpointer": Self::Checkpointer.code(), "environment": Self::Environment.code(), "marker": Self::MARKER })
    }

    /// Returns the failure of a script that ended with this code in a run's directory; `None` if the code is the program's.
    pub fn find(dir: &Utf8Path, code: Option<i32>) -> Option<Self> {
        let recorded: i32 = std::fs::read_to_string(dir.join(Self::MARKER))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Self::ALL
            .into_iter()
            .find(|failure| failure.code() == recorded && Some(recorded) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Template, render};
    use camino::Utf8PathBuf;
    use std::{fs, process::Command};

    /// Runs a run's script with this command, these inputs and this checkpointer's part. Returns the exit code and the script's failure.
    fn run(command: &str, inputs: Value, before: &str) -> (Option<i32>, Option<ScriptFailure>) {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = Utf8PathBuf::from_path_buf(temporary.path().to_owned()).expect("text");
        let sh = |script: &str| json!(["sh", "-c", script]);
        let values = json!({
            "run": "r", "campaign": "c", "cvc": "0", "factors": [], "env": [], "tmp": dir.join("tmp"), "work": dir.join("work"),
            "inputs": inputs, "copies": [], "before": before, "wrapper": "", "after": "", "prefix": [], "command": sh(command), "environment": null, "exit": ScriptFailure::values(),
        });
        // a file left by an earlier, manual start does not count
        fs::write(dir.join(ScriptFailure::MARKER), "97\n").expect("writes");
        fs::write(
            dir.join("launch.sh"),
            render(Template::RUN_SCRIPT, &values).expect("renders"),
        )
        .expect("writes");
        let mut bash = Command::new("bash");
        let output = bash
            .arg(dir.join("launch.sh"))
            .env("CVC_CLEAN", "1")
            .output()
            .expect("bash");
        let code = output.status.code();
        (code, ScriptFailure::find(&dir, code))
    }

    #[test]
    fn the_script_distinguishes_its_own_failures_from_those_of_the_program() {
        let missing = json!([{ "stored": "inputs/absent", "target": "absent" }]);
        assert_eq!(
            run("exit 0", missing, ""),
            (Some(97), Some(ScriptFailure::Setup))
        );
        assert_eq!(
            run("exit 0", json!([]), "false || fail 98\n"),
            (Some(98), Some(ScriptFailure::Checkpointer))
        );
        for code in [0, 1, 97, 98] {
            assert_eq!(
                run(&format!("exit {code}"), json!([]), ""),
                (Some(code), None),
                "the program's own"
            );
        }
    }
}
