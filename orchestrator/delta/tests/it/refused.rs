//! Input that is refused: each with one error that names the problem and the file, and without leaving partial files.

use crate::process::{DATA, PAGE, Process, files};
use cvc_delta::{BlockSize, DeltaErrorKind, Method, Series, SeriesOptions, Threshold};
use std::{fs, path::Path};

fn state(dir: &Path, name: &str, process: &Process) -> std::path::PathBuf {
    let state = dir.join(name);
    fs::create_dir(&state).unwrap();
    process.write(&state.join(format!("ckpt_{}.dmtcp", process.vpid)), false);
    state
}

#[test]
fn settings_that_make_no_sense() {
    for bytes in [0, 1, 1000, 2048, 5000, 2 << 20] {
        let error = BlockSize::new(bytes).unwrap_err().to_string();
        assert!(
            error.contains(&format!("a block of {bytes} bytes")),
            "{error}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    for (threshold, said) in [
        (f64::NAN, "NaN is no threshold"),
        (-0.5, "-0.5 is no threshold"),
    ] {
        let method = Method::Adca {
            threshold: Threshold::Ratio(threshold),
        };
        let options = SeriesOptions {
            method,
            ..SeriesOptions::default()
        };
        let error = Series::create(&dir.path().join("new"), options)
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{error}");
        assert!(!dir.path().join("new").exists());
    }
}

#[test]
fn states_that_are_none_leave_the_series_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 20);
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    series
        .add(&state(dir.path(), "one", &process), &|_| {})
        .unwrap();
    let before = files(&place);

    let other = state(dir.path(), "other", &Process::new(50_000, 20));
    let temporary = state(dir.path(), "temporary", &process);
    fs::write(temporary.join("ckpt_40000.dmtcp.temp"), "half").unwrap();
    let truncated = state(dir.path(), "truncated", &process);
    let image = truncated.join("ckpt_40000.dmtcp");
    let bytes = fs::read(&image).unwrap();
    fs::write(&image, &bytes[..bytes.len() - 5000]).unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let pipe = state(dir.path(), "pipe", &process);
    assert!(
        std::process::Command::new("mkfifo")
            .arg(pipe.join("p"))
            .status()
            .unwrap()
            .success()
    );
    for (path, said) in [
        (&other, "another run"),
        (
            &temporary,
            "ckpt_40000.dmtcp.temp: a temporary file of DMTCP",
        ),
        (&truncated, "ckpt_40000.dmtcp"),
        (&empty, "no file in it"),
        (&pipe, "p: a pipe, which cannot be stored"),
        (&dir.path().join("nowhere"), "nowhere: cannot read"),
    ] {
        let error = series.add(path, &|_| {}).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(files(&place) == before, "{}", path.display());
    }
    assert!(
        series
            .add(&other, &|_| {})
            .unwrap_err()
            .to_string()
            .contains("50000"),
        "the process is named"
    );
    process.pages.insert(DATA, 77);
    series
        .add(&state(dir.path(), "two", &process), &|_| {})
        .unwrap();
}

#[test]
fn places_that_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::new(40_000, 20);
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    let one = state(dir.path(), "one", &process);
    series.add(&one, &|_| {}).unwrap();
    let error = Series::create(&place, SeriesOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("series: exists"), "{error}");
    let error = series.restore(1, &one, &|_| {}).unwrap_err().to_string();
    assert!(error.ends_with("one: exists"), "{error}");
    let error = series
        .restore(9, &dir.path().join("nine"), &|_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("no state 9: the series has 1"), "{error}");
    let error = Series::open(&one).unwrap_err().to_string();
    assert!(error.contains("it has no manifest.json"), "{error}");
}

#[test]
fn states_that_nobody_needs_can_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 60);
    let options = SeriesOptions {
        method: Method::Differential,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&dir.path().join("series"), options).unwrap();
    for t in 1..=6 {
        process.pages.insert(DATA + t * PAGE, 1000 * t);
        series
            .add(&state(dir.path(), &t.to_string(), &process), &|_| {})
            .unwrap();
    }
    let gone: Vec<u32> = series.prune(2).unwrap().iter().map(|s| s.state).collect();
    assert_eq!(gone, [2, 3, 4]);
    for t in [1, 5, 6] {
        series
            .verify(t, Some(&dir.path().join(t.to_string())), &|_| {})
            .unwrap();
    }
    process.pages.insert(DATA, 5);
    let next = series
        .add(&state(dir.path(), "7", &process), &|_| {})
        .unwrap();
    assert_eq!((next.state, next.base), (7, Some(1)));
}

#[test]
fn what_a_killed_program_left_is_swept_and_a_series_without_states_goes() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::new(40_000, 20);
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    fs::write(place.join(".cvc-new-x"), "half").unwrap();
    let one = state(dir.path(), "one", &process);
    series.add(&one, &|_| {}).unwrap();
    assert!(!place.join(".cvc-new-x").exists());
    let kept = fs::metadata(place.join("0001.sign")).unwrap().len();
    assert_eq!(series.kept_hashes_bytes(), kept);
    series.remove_if_empty().unwrap();
    assert!(place.join("0001.state").exists(), "it has a state");
    let empty = dir.path().join("empty");
    Series::create(&empty, SeriesOptions::default())
        .unwrap()
        .remove_if_empty()
        .unwrap();
    assert!(!empty.exists());
}

#[test]
fn of_many_who_begin_a_series_at_once_each_state_that_is_told_is_there() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let one = state(dir.path(), "one", &Process::new(40_000, 20));
        let place = dir.path().join("series");
        let told: Vec<u32> = std::thread::scope(|scope| {
            let make = || {
                let mut series = Series::create(&place, SeriesOptions::default())
                    .or_else(|_| Series::open(&place))
                    .ok()?;
                let added = series.add(&one, &|_| {});
                if added.is_err() {
                    let _ = series.remove_if_empty();
                }
                added.ok().map(|record| record.state)
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(make)).collect();
            threads
                .into_iter()
                .filter_map(|t| t.join().unwrap())
                .collect()
        });
        if told.is_empty() {
            continue;
        }
        let series = Series::open(&place).unwrap();
        assert_eq!(series.states().len(), told.len(), "{told:?}");
        for record in series.states() {
            series.verify(record.state, Some(&one), &|_| {}).unwrap();
        }
    }
}

#[test]
fn what_is_not_in_the_manifest_goes_and_memory_of_processes_stays_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let one = state(dir.path(), "one", &Process::new(40_000, 20));
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    for left in ["0001.state", "0007.sign", ".cvc-new-x"] {
        fs::write(place.join(left), "left by one that was killed").unwrap();
    }
    series.add(&one, &|_| {}).unwrap();
    let names: Vec<String> = files(&place).into_keys().collect();
    assert_eq!(names, ["0001.sign", "0001.state", "lock", "manifest.json"]);
    for name in ["0001.sign", "0001.state"] {
        let mode = fs::metadata(place.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
}

#[test]
fn names_that_are_no_text_are_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let dir = tempfile::tempdir().unwrap();
    let one = state(dir.path(), "one", &Process::new(40_000, 20));
    fs::write(one.join(OsStr::from_bytes(b"n\xff")), "x").unwrap();
    let mut series = Series::create(&dir.path().join("series"), SeriesOptions::default()).unwrap();
    let error = series.add(&one, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("a name that is not UTF-8"), "{error}");
}

#[test]
fn a_state_with_more_files_links_or_rights_is_another_one() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let one = state(dir.path(), "one", &Process::new(40_000, 20));
    let mut series = Series::create(&dir.path().join("series"), SeriesOptions::default()).unwrap();
    series.add(&one, &|_| {}).unwrap();
    let differs = || {
        series
            .verify(1, Some(&one), &|_| {})
            .is_err_and(|e| matches!(e.kind, DeltaErrorKind::OtherBytes))
    };
    assert!(!differs());
    fs::write(one.join("more"), "x").unwrap();
    assert!(differs());
    fs::remove_file(one.join("more")).unwrap();
    std::os::unix::fs::symlink("elsewhere", one.join("link")).unwrap();
    assert!(differs());
    fs::remove_file(one.join("link")).unwrap();
    let image = one.join("ckpt_40000.dmtcp");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(differs());
    fs::remove_file(&image).unwrap();
    fs::write(one.join("x"), "x").unwrap();
    assert!(differs());
}

#[test]
fn of_full_states_only_the_last_ones_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let one = state(dir.path(), "one", &Process::new(40_000, 20));
    let options = SeriesOptions {
        method: Method::Full,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&dir.path().join("series"), options).unwrap();
    for _ in 0..4 {
        series.add(&one, &|_| {}).unwrap();
    }
    assert_eq!(series.prune(1).unwrap().len(), 3);
    assert_eq!(series.add(&one, &|_| {}).unwrap().state, 5);
}
