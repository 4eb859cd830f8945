//! DMTCP's part of a run's script: its coordinator, the words in front of the launcher, and the end of the coordinator.

use super::install::{
    BETWEEN_NODES, DmtcpLayout, FORKED, between_nodes_build, compressor, coordinator, launch_words,
};
use crate::{
    ckpt::contract::{Install, LaunchPart},
    render::{self, RenderError, Template, shell_quote},
    run::{RunContext, RunInput, ScriptFailure},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::strategy::Strategy;
use serde_json::json;

/// File in the working directory with the source of the library that works around faults of DMTCP between nodes.
const SOURCE: &str = "dmtcp-nodes.c";
/// File in the working directory with the compiled library.
const LIBRARY: &str = "dmtcp-nodes.so";

/// Subdirectory of a run's working directory with the compressor that DMTCP finds as `gzip`. It is removed together with the images.
pub(super) const PROGRAMS: &str = "dmtcp-programs";

/// Template of the commands that start the coordinator.
const START: Template = Template::new(
    "launch/dmtcp-start.sh.hbs",
    include_str!("../../../../../templates/launch/dmtcp-start.sh.hbs"),
);

/// Returns DMTCP's part of a run's script.
pub(super) fn launch(install: &Install, run: &RunContext) -> Result<LaunchPart, RenderError> {
    let layout = DmtcpLayout::of(run);
    let several = run.used.several();
    let library = several.then(|| run.work.join(LIBRARY));
    let compression = run.plan.compression();
    let words = launch_words(install, &layout, compression, library.as_deref());
    let command = install.program("dmtcp_command");
    // DMTCP calls the `gzip` on PATH, and only with arguments that gzip accepts
    let other = compression.program().filter(|program| *program != "gzip");
    // if the compressor has disappeared meanwhile, the link is dangling, and the script reports that in coordinator.out
    let gzip = other.map(|program| {
        let found = compressor(compression).ok().flatten();
        found.unwrap_or_else(|| Utf8PathBuf::from(format!("/usr/bin/{program}")))
    });
    let before = render::render(
        START,
        &json!({
            "ckptdir": layout.ckptdir, "kvdir": layout.kvdir, "portfile": layout.portfile,
            "coordinator": coordinator(install, &layout, stale_s(run)),
            "launch": words, "library": library, "in_place": in_place(install, run),
            "gzip": gzip, "programs": run.work.join(PROGRAMS), "command": command, "host": host(run), "exit": ScriptFailure::values(),
            "library_build": library.as_ref().map(|library| between_nodes_build(&run.work.join(SOURCE), library)),
        }),
    )?;
    let words: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    let in_place = in_place(install, run);
    let source = || RunInput {
        name: SOURCE.to_owned(),
        content: BETWEEN_NODES.to_owned(),
        executable: false,
    };
    Ok(LaunchPart {
        before,
        wrapper: format!(
            "{} -h {} -p \"$DMTCP_PORT\"{in_place}",
            words.join(" "),
            shell_quote(host(run))
        ),
        rank: if gzip.is_some() {
            first_on_path(&run.work.join(PROGRAMS))
        } else {
            Vec::new()
        },
        after: format!(
            "[ -z \"${{CVC_BY_HAND:-}}\" ] || {} -h 127.0.0.1 -p \"$DMTCP_PORT\" -q >/dev/null 2>&1\n",
            shell_quote(&command)
        ),
        inputs: several.then(source).into_iter().collect(),
    })
}

/// Returns words after `dmtcp_launch` that disable forked checkpoints, if the build enables them and each process must write its image itself.
fn in_place(install: &Install, run: &RunContext) -> String {
    if install.forks && run.point.strategy != Strategy::Forked {
        format!(" env -u {FORKED}")
    } else {
        String::new()
    }
}

/// Returns words that start a program with this directory first on its PATH. Setting the launcher's environment is not enough: Open MPI prepends the
/// directory of its own programs to PATH, which may contain a gzip.
fn first_on_path(dir: &Utf8Path) -> Vec<String> {
    let script = format!(
        "PATH={}:\"$PATH\"; export PATH; exec \"$0\" \"$@\"",
        shell_quote(dir.as_str())
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

/// Returns the address by which processes reach the coordinator. Ranks on other nodes must reach it, too.
pub(super) fn host(run: &RunContext) -> &str {
    if run.used.several() {
        &run.used.head.among
    } else {
        "127.0.0.1"
    }
}

/// Returns the number of seconds after which a coordinator without processes exits: long enough for the slowest start, short enough not to run for
/// hours if the program never starts.
pub(super) fn stale_s(run: &RunContext) -> u64 {
    (run.timeout_s.ceil() as u64).clamp(60, 7 * 24 * 3600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_missing_compressor_is_named_with_its_package() {
        let dir = tempfile::tempdir().expect("a directory");
        let begin = START.text().split("{{#if gzip}}\n").nth(1);
        let part = begin.and_then(|rest| rest.split("{{/if}}").next());
        let run = |gzip: &str| {
            let programs = dir.path().join("some programs");
            let values =
                json!({ "gzip": gzip, "programs": programs, "exit": { "checkpointer": 98 } });
            let part = render::render_text("t", part.expect("it is there"), &values);
            let script = format!(
                "RUN={}; fail() {{ exit \"$1\"; }}\n{}",
                shell_quote(&dir.path().to_string_lossy()),
                part.expect("renders")
            );
            let status = Command::new("bash").args(["-c", &script]).status();
            status.expect("bash").code()
        };
        assert_eq!(run("/bin/sh"), Some(0));
        let out = dir.path().join("coordinator.out");
        assert!(!out.exists(), "nothing is wrong");
        assert_eq!(run("/no where/pigz"), Some(98));
        let text = std::fs::read_to_string(out).expect("its message");
        for part in ["/no where/pigz", "install the package pigz"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_program_finds_the_directory_first_and_gets_its_arguments() {
        let words = first_on_path(Utf8Path::new("/some where/it's"));
        let text = Command::new(&words[0])
            .args(&words[1..])
            .args(["sh", "-c", "echo \"$PATH|$0|$1\"", "a b", "$c"])
            .output()
            .expect("sh");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(
            text.starts_with("/some where/it's:/") && text.trim_end().ends_with("|a b|$c"),
            "{text}"
        );
    }
}
