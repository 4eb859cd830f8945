//! DMTCP's part of the script of a run: its coordinator, the words before the launcher, and the end.

use super::install::{
    BETWEEN_NODES, DmtcpLayout, between_nodes_build, compressor, coordinator, launch_words,
};
use crate::{
    ckpt::contract::{Install, LaunchPart},
    render::{self, RenderError, Template, shell_quote},
    run::{Input, RunContext, ScriptFailure},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::point::Compression;
use serde_json::json;

/// Source of the library that repairs DMTCP between nodes, in the working directory.
const SOURCE: &str = "dmtcp-nodes.c";
/// That library.
const LIBRARY: &str = "dmtcp-nodes.so";

/// Directory in the working directory of a run with the program that DMTCP is to take for `gzip`. It is removed with the images.
pub(super) const PROGRAMS: &str = "dmtcp-programs";

/// What starts it.
const START: Template = Template::new(
    "launch/dmtcp-start.sh.hbs",
    include_str!("../../../../../templates/launch/dmtcp-start.sh.hbs"),
);

/// DMTCP's part of the script of a run.
pub(super) fn launch(install: &Install, run: &RunContext) -> Result<LaunchPart, RenderError> {
    let layout = DmtcpLayout::of(run);
    let several = run.used.several();
    let library = several.then(|| run.work.join(LIBRARY));
    let words = launch_words(install, &layout, run.point.compression, library.as_deref());
    let command = install.program("dmtcp_command");
    // DMTCP compresses with what is `gzip` on PATH, and only with the arguments that gzip has
    let gzip = match run.point.compression {
        Compression::None | Compression::Gzip => None,
        // where it has gone meanwhile, the link to it leads nowhere, and the script says so in coordinator.out
        Compression::Pigz => Some(
            compressor(run.point.compression)
                .ok()
                .flatten()
                .unwrap_or_else(|| Utf8PathBuf::from("/usr/bin/pigz")),
        ),
    };
    let before = render::render(
        START,
        &json!({
            "ckptdir": layout.ckptdir, "kvdir": layout.kvdir, "portfile": layout.portfile,
            "coordinator": coordinator(install, &layout, stale_s(run)),
            "launch": words, "library": library,
            "gzip": gzip, "programs": run.work.join(PROGRAMS), "command": command, "host": host(run), "exit": ScriptFailure::values(),
            "library_build": library.as_ref().map(|library| between_nodes_build(&run.work.join(SOURCE), library)),
        }),
    )?;
    let words: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    let source = || Input {
        name: SOURCE.to_owned(),
        content: BETWEEN_NODES.to_owned(),
        executable: false,
    };
    Ok(LaunchPart {
        before,
        wrapper: format!(
            "{} -h {} -p \"$DMTCP_PORT\"",
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

/// Words that start a program with this directory first on its PATH. The environment of the launcher is not enough: Open MPI puts the directory of
/// its own programs before it, in which there may be a gzip.
fn first_on_path(dir: &Utf8Path) -> Vec<String> {
    let script = format!(
        "PATH={}:\"$PATH\"; export PATH; exec \"$0\" \"$@\"",
        shell_quote(dir.as_str())
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

/// How its processes address the coordinator: ranks on other nodes must reach it as well.
pub(super) fn host(run: &RunContext) -> &str {
    if run.used.several() {
        &run.used.head.among
    } else {
        "127.0.0.1"
    }
}

/// Seconds after which a coordinator without a process leaves: long enough for the slowest start, short enough not to stay for hours if the
/// program never comes.
pub(super) fn stale_s(run: &RunContext) -> u64 {
    (run.timeout_s.ceil() as u64).clamp(60, 7 * 24 * 3600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_compressor_that_is_gone_is_named_with_what_to_install() {
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
        let told = std::fs::read_to_string(out).expect("it is told");
        for part in ["/no where/pigz", "install the package pigz"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_program_finds_the_directory_first_and_gets_its_arguments() {
        let words = first_on_path(Utf8Path::new("/some where/it's"));
        let told = Command::new(&words[0])
            .args(&words[1..])
            .args(["sh", "-c", "echo \"$PATH|$0|$1\"", "a b", "$c"])
            .output()
            .expect("sh");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(
            told.starts_with("/some where/it's:/") && told.trim_end().ends_with("|a b|$c"),
            "{told}"
        );
    }
}
