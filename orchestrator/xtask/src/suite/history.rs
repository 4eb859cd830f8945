//! How long tests took the last time: the longest are started first, so that none of them is alone at the end.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

/// Durations by the name of the test, in a file of the build directory.
pub struct History {
    file: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl History {
    /// Reads it; without a file it is empty.
    pub fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let seconds =
            text.lines().filter_map(|l| l.split_once('\t')).filter_map(|(s, name)| Some((name.to_owned(), s.parse().ok()?))).collect();
        Self { file, seconds }
    }

    /// How long a test took.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.seconds.get(name).copied()
    }

    /// Notes how long a test took.
    pub fn note(&mut self, name: &str, took: Duration) {
        self.seconds.insert(name.to_owned(), took.as_secs_f64());
    }

    /// Writes it. That it cannot is no reason to fail: it only orders tests.
    pub fn write(&self) {
        let text: String = self.seconds.iter().map(|(name, seconds)| format!("{seconds:.2}\t{name}\n")).collect();
        let partial = self.file.with_extension(format!("partial-{}", std::process::id()));
        let _ = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &self.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_kept_between_calls() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("durations.tsv");
        let mut history = History::read(file.clone());
        assert_eq!(history.of("cvc a::b"), None);
        history.note("cvc a::b", Duration::from_millis(1250));
        history.note("cvc it c", Duration::from_secs(90));
        history.write();
        let again = History::read(file);
        assert_eq!((again.of("cvc a::b"), again.of("cvc it c")), (Some(1.25), Some(90.0)));
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }
}
