//! System calls, by strace.

use super::contract::{Instrumentation, NODE, Tracer};
use crate::mpi::{Launcher, Missing};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::paths;

/// Directory of the traces.
const TRACE: &str = "trace";

/// strace.
pub(super) struct Strace;

impl Tracer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn title(&self) -> &'static str {
        "strace"
    }

    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        paths::on_path(&["strace"], &std::env::var("PATH").unwrap_or_default()).ok_or_else(|| {
            Missing {
                what: "strace is not installed".into(),
                hint: "Debian, Ubuntu: apt-get install strace".into(),
            }
        })
    }

    fn instrument(&self, tool: &Utf8Path, work: &Utf8Path, _: &dyn Launcher) -> Instrumentation {
        let traces = work.join(TRACE);
        // where all nodes see the same directory, processes of two may have the same number
        let output = traces.join(format!("strace{NODE}"));
        let prefix = [
            tool.as_str(),
            "-ff",
            "-ttt",
            "-T",
            "-y",
            "-e",
            "trace=%desc,%file,%process",
            "-o",
            output.as_str(),
        ];
        Instrumentation {
            prefix: prefix.map(String::from).into(),
            dirs: vec![traces],
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(TRACE)
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"strace\" cannot be used"
    }
}
