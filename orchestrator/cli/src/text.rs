//! Text for terminals.

use camino::{Utf8Path, Utf8PathBuf};
pub use cvc_show::{paragraph, terminal_width};

/// Returns a path for messages: relative to the current directory if it is below.
pub fn shown(path: &Utf8Path) -> Utf8PathBuf {
    let here = std::env::current_dir()
        .ok()
        .and_then(|d| Utf8PathBuf::from_path_buf(d).ok());
    here.and_then(|h| path.strip_prefix(h).ok().map(Utf8Path::to_owned))
        .unwrap_or_else(|| path.to_owned())
}
