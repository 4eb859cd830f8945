//! A killed restore leaves a temporary directory. The next restore to the same place removes it, but not a directory that another process is
//! filling.

use crate::process::{Process, files};
use cvc_delta::{Series, SeriesOptions};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const SERIES: &str = "CVC_TEST_RESTORE_SERIES";
const TO: &str = "CVC_TEST_RESTORE_TO";

/// Not a test by itself: when requested, this process begins a restore and then waits.
#[test]
fn restores_and_stays_there_if_it_is_asked() {
    let (Some(series), Some(to)) = (env::var_os(SERIES), env::var_os(TO)) else {
        return;
    };
    let series = Series::open(Path::new(&series)).unwrap();
    let _ = series.restore(1, Path::new(&to), &|_| {
        thread::sleep(Duration::from_secs(600))
    });
}

struct Restoring(Child);

impl Restoring {
    fn start(series: &Path, to: &Path) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "killed::restores_and_stays_there_if_it_is_asked"])
            .env(SERIES, series)
            .env(TO, to)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        // SIGKILL
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns what the directory contains in addition to the restored states.
fn temporary(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(".cvc-new-")
        })
        .collect();
    found.sort();
    found
}

/// Waits until `count` directories are being filled.
fn wait_for(dir: &Path, count: usize) -> Vec<PathBuf> {
    let begin = Instant::now();
    loop {
        let found = temporary(dir);
        let is_filled =
            |path: &&PathBuf| path.is_dir() && path.read_dir().unwrap().next().is_some();
        if found.iter().filter(is_filled).count() == count {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{found:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_restore_left_goes_and_what_a_living_one_fills_stays() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    Process::new(40_000, 30).write(&state.join("ckpt.dmtcp"), false);
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    series.add(&state, &|_| {}).unwrap();
    let beside = dir.path().join("beside");
    fs::create_dir(&beside).unwrap();
    let to = beside.join("back");

    let killed = Restoring::start(&place, &to);
    let of_killed = wait_for(&beside, 1);
    drop(killed);
    assert_eq!(
        temporary(&beside),
        of_killed,
        "a killed one cannot clean up"
    );

    // a restore to another place has no effect on it
    series.restore(1, &beside.join("back-2"), &|_| {}).unwrap();
    assert_eq!(temporary(&beside), of_killed);

    let _living = Restoring::start(&place, &to);
    let of_living: Vec<PathBuf> = loop {
        let found = wait_for(&beside, 1);
        if found.iter().all(|path| !of_killed.contains(path)) {
            break found;
        }
        thread::sleep(Duration::from_millis(5));
    };
    series.restore(1, &to, &|_| {}).unwrap();
    assert!(files(&to) == files(&state));
    assert_eq!(temporary(&beside), of_living);
}

#[test]
fn a_restore_that_ends_or_fails_leaves_nothing_beside() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    Process::new(40_000, 30).write(&state.join("ckpt.dmtcp"), false);
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    series.add(&state, &|_| {}).unwrap();
    // a name of the maximum length
    let long = dir.path().join("é".repeat(127));
    series.restore(1, &long, &|_| {}).unwrap();
    assert!(files(&long) == files(&state));
    let path = place.join("0001.state");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    series
        .restore(1, &dir.path().join("back"), &|_| {})
        .unwrap_err();
    assert_eq!(temporary(dir.path()), Vec::<PathBuf>::new());
}
