//! Durations of tests in previous runs, so that the longest tests start first and no long test runs alone at the end.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

/// Durations by test name, stored in a file in the target directory.
pub struct History {
    file: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl History {
    /// Reads the history; it is empty if there is no file.
    pub fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let seconds = text
            .lines()
            .filter_map(|l| l.split_once('\t'))
            .filter_map(|(s, name)| Some((name.to_owned(), s.parse().ok()?)))
            .collect();
        Self { file, seconds }
    }

    /// Returns the last duration of a test, in seconds.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.seconds.get(name).copied()
    }

    /// Records the duration of a test.
    pub fn note(&mut self, name: &str, took: Duration) {
        self.seconds.insert(name.to_owned(), took.as_secs_f64());
    }

    /// Writes the history. Errors are ignored, because the history only determines the order of tests.
    pub fn write(&self) {
        let text: String = self
            .seconds
            .iter()
            .map(|(name, seconds)| format!("{seconds:.2}\t{name}\n"))
            .collect();
        let partial = self
            .file
            .with_extension(format!("partial-{}", std::process::id()));
        let _ = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &self.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_kept_between_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("durations.tsv");
        let mut history = History::read(file.clone());
        assert_eq!(history.of("cvc a::b"), None);
        history.note("cvc a::b", Duration::from_millis(1250));
        history.note("cvc it c", Duration::from_secs(90));
        history.write();
        let again = History::read(file);
        assert_eq!(
            (again.of("cvc a::b"), again.of("cvc it c")),
            (Some(1.25), Some(90.0))
        );
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }
}
