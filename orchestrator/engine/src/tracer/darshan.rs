//! POSIX and MPI-IO operations, by Darshan with DXT.

use super::contract::{Instrumentation, Tracer};
use crate::mpi::{Launcher, Missing};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::paths;

/// Darshan's log.
const LOG: &str = "run.darshan";

/// Darshan.
pub(super) struct Darshan;

impl Tracer for Darshan {
    fn name(&self) -> &'static str {
        "darshan"
    }

    fn title(&self) -> &'static str {
        "Darshan"
    }

    /// Finds the library for preloading: that of `CVC_DARSHAN_LIB`, or the one beside `darshan-config`.
    fn find(&self) -> Result<Utf8PathBuf, Missing> {
        let missing = || {
            Missing {
            what: "Darshan's runtime library is not installed".into(),
            hint: "install it (Spack: spack install darshan-runtime darshan-util) and set CVC_DARSHAN_LIB to libdarshan.so".into(),
        }
        };
        if let Ok(given) = std::env::var("CVC_DARSHAN_LIB") {
            return Some(Utf8PathBuf::from(given))
                .filter(|p| p.is_file())
                .ok_or_else(missing);
        }
        let config = paths::on_path(
            &["darshan-config"],
            &std::env::var("PATH").unwrap_or_default(),
        )
        .ok_or_else(missing)?;
        let prefix = config
            .parent()
            .and_then(|b| b.parent())
            .ok_or_else(missing)?;
        ["lib", "lib64"]
            .iter()
            .map(|l| prefix.join(l).join("libdarshan.so"))
            .find(|p| p.is_file())
            .ok_or_else(missing)
    }

    fn instrument(
        &self,
        tool: &Utf8Path,
        work: &Utf8Path,
        family: &dyn Launcher,
    ) -> Instrumentation {
        Instrumentation {
            env: [
                ("DXT_ENABLE_IO_TRACE".to_owned(), "1".to_owned()),
                ("DARSHAN_LOGFILE".to_owned(), work.join(LOG).into_string()),
            ]
            .into(),
            // for the ranks alone: the launcher is not traced
            launcher_args: family.rank_env("LD_PRELOAD", tool.as_str()),
            ..Instrumentation::default()
        }
    }

    fn trace(&self) -> Option<&'static str> {
        Some(LOG)
    }

    fn cost_of_absence(&self) -> &'static str {
        "tracer = \"darshan\" cannot be used"
    }
}
