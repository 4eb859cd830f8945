//! The size of a program's output at one time.

use camino::Utf8Path;

/// Lengths of a program's two output streams, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputSizes {
    /// Standard output.
    pub stdout: u64,
    /// Standard error.
    pub stderr: u64,
}

impl OutputSizes {
    /// Returns the current sizes of the files with these names in a run's directory.
    pub fn of(dir: &Utf8Path, stdout: &str, stderr: &str) -> Self {
        let bytes = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |file| file.len());
        Self {
            stdout: bytes(stdout),
            stderr: bytes(stderr),
        }
    }
}
