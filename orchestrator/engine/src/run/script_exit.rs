//! How the script of a run tells that the run never began: an exit code, and a file that tells it from a program that ends with that code.

use camino::Utf8Path;
use serde_json::{Value, json};

/// Ways in which a run never begins. The codes and the name of the file are handed to the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptFailure {
    /// The run's directory could not be set up.
    Setup,
    /// The checkpointer did not start.
    Checkpointer,
}

impl ScriptFailure {
    const ALL: [Self; 2] = [Self::Setup, Self::Checkpointer];
    /// The file in the run's directory that the script leaves when it fails: it holds the code.
    const MARKER: &'static str = "script-failed";

    /// The exit code of the script.
    fn code(self) -> i32 {
        match self {
            Self::Setup => 97,
            Self::Checkpointer => 98,
        }
    }

    /// The values of the template.
    pub fn values() -> Value {
        json!({ "setup": Self::Setup.code(), "checkpointer": Self::Checkpointer.code(), "marker": Self::MARKER })
    }

    /// The failure of the script that ended with this code in the directory of a run; `None` if it was the program that did.
    pub fn find(dir: &Utf8Path, code: Option<i32>) -> Option<Self> {
        let told: i32 = std::fs::read_to_string(dir.join(Self::MARKER))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Self::ALL
            .into_iter()
            .find(|failure| failure.code() == told && Some(told) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Template, render};
    use camino::Utf8PathBuf;
    use std::{fs, process::Command};

    /// Runs the script of a run with this command, whose inputs and checkpointer's part are as given; its exit code, and the failure of the script.
    fn run(command: &str, inputs: Value, before: &str) -> (Option<i32>, Option<ScriptFailure>) {
        let temporary = tempfile::tempdir().expect("a directory");
        let dir = Utf8PathBuf::from_path_buf(temporary.path().to_owned()).expect("text");
        let sh = |script: &str| json!(["sh", "-c", script]);
        let values = json!({
            "run": "r", "campaign": "c", "cvc": "0", "factors": [], "env": [], "tmp": dir.join("tmp"), "work": dir.join("work"),
            "inputs": inputs, "copies": [], "before": before, "wrapper": "", "after": "", "prefix": [], "command": sh(command), "exit": ScriptFailure::values(),
        });
        // what an earlier start by hand has left does not count
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
    fn the_script_tells_its_own_failures_from_those_of_the_program() {
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
