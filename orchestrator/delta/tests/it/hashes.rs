//! Missing or damaged hashes, and hashes of another state, are computed again from the stored states.

use crate::process::{DATA, PAGE, Process, files};
use cvc_delta::{KeptHashes, Method, Series, SeriesOptions, Signature};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn state(dir: &Path, n: u64) -> PathBuf {
    let state = dir.join(n.to_string());
    let mut process = Process::new(40_000, 30);
    process.pages.insert(DATA, 1000 + n);
    process.pages.insert(DATA + n * PAGE, 1);
    fs::create_dir(&state).unwrap();
    process.write(&state.join("ckpt.dmtcp"), false);
    state
}

/// Creates a series of three states, each stored against the first.
fn series(dir: &Path) -> PathBuf {
    let options = SeriesOptions {
        method: Method::Differential,
        ..SeriesOptions::default()
    };
    let place = dir.join("series");
    let mut series = Series::create(&place, options).unwrap();
    for n in 1..=3 {
        series.add(&state(dir, n), &|_| {}).unwrap();
    }
    place
}

/// Returns possible damage of a file of hashes, each with the expected message.
fn wrongs(place: &Path) -> Vec<(Option<Vec<u8>>, &'static str)> {
    let good = fs::read(place.join("0001.sign")).unwrap();
    let mut flipped = good.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let other = fs::read(place.join("0003.sign")).unwrap();
    vec![
        (
            None,
            "0001.sign: missing: it is needed to add the next state",
        ),
        (
            Some(flipped),
            "0001.sign: damaged: the hashes: checksum mismatch",
        ),
        (Some(good[..100].to_vec()), "0001.sign: damaged: "),
        (
            Some(Vec::new()),
            "0001.sign: not a file of cvc delta: too short",
        ),
        (Some(other), "0001.sign: the hashes of another state"),
    ]
}

fn spoil(place: &Path, bytes: Option<&Vec<u8>>) {
    let path = place.join("0001.sign");
    match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn verify_tells_of_it_and_makes_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let good = files(&place);
    for (bytes, said) in wrongs(&place) {
        spoil(&place, bytes.as_ref());
        let open = Series::open(&place).unwrap();
        match open.verify(1, None, &|_| {}).unwrap().hashes {
            KeptHashes::MadeAgain(why) => assert!(why.contains(said), "{why}"),
            other => panic!("{said}: {other:?}"),
        }
        assert!(files(&place) == good, "{said}");
        let hashes = |n| open.verify(n, None, &|_| {}).unwrap().hashes;
        assert_eq!(
            [hashes(1), hashes(2), hashes(3)],
            [KeptHashes::Whole, KeptHashes::Unneeded, KeptHashes::Whole]
        );
    }
}

#[test]
fn the_next_state_is_compared_with_hashes_that_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let fourth = state(dir.path(), 4);
    let wrongs = wrongs(&place);
    let before = files(&place);
    let mut expected = None;
    for (bytes, said) in [(before.get("0001.sign").cloned(), "")]
        .into_iter()
        .chain(wrongs)
    {
        let copy = dir.path().join("copy");
        fs::create_dir(&copy).unwrap();
        for (name, bytes) in &before {
            fs::write(copy.join(name), bytes).unwrap();
        }
        spoil(&copy, bytes.as_ref());
        let mut series = Series::open(&copy).unwrap();
        series.add(&fourth, &|_| {}).unwrap();
        let told = series.take_made_again();
        if said.is_empty() {
            assert!(told.is_empty());
        } else {
            let [(1, why)] = &told[..] else {
                panic!("{told:?}")
            };
            assert!(why.contains(said), "{why}");
        }
        // the result is the same as with hashes that were never damaged
        let stored = (
            fs::read(copy.join("0004.state")).unwrap(),
            fs::read(copy.join("0001.sign")).unwrap(),
        );
        assert!(
            *expected.get_or_insert_with(|| stored.clone()) == stored,
            "{said}"
        );
        series.verify(4, Some(&fourth), &|_| {}).unwrap();
        fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn of_a_state_that_is_damaged_too_nothing_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    fs::remove_file(place.join("0001.sign")).unwrap();
    let path = place.join("0001.state");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = files(&place);
    let mut open = Series::open(&place).unwrap();
    for error in [
        open.verify(1, None, &|_| {}).unwrap_err(),
        open.add(&state(dir.path(), 4), &|_| {}).unwrap_err(),
    ] {
        let said = "0001.state: damaged: packet 1 of 1";
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(files(&place) == before);
}

#[test]
fn where_nothing_can_be_written_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let path = place.join("0001.sign");
    fs::remove_file(&path).unwrap();
    let lock = fs::File::options()
        .write(true)
        .open(place.join("lock"))
        .unwrap();
    lock.lock().unwrap();
    let open = Series::open(&place).unwrap();
    match open.verify(1, None, &|_| {}).unwrap().hashes {
        KeptHashes::Wrong(wrong, why) => {
            assert!(wrong.contains("0001.sign: missing"), "{wrong}");
            assert!(why.contains("another cvc changes this series"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!path.exists());
}

#[test]
fn hashes_that_are_made_from_what_is_stored_are_those_of_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let open = Series::open(&place).unwrap();
    for n in [1, 3] {
        let kept = Signature::read(&place.join(format!("000{n}.sign"))).unwrap();
        assert!(open.chain(n).unwrap().sign(&|_| {}).unwrap() == kept);
    }
}

#[test]
fn hashes_that_no_method_needs_are_not_missed() {
    for (method, of_first) in [
        (Method::Full, false),
        (Method::Incremental, false),
        (Method::Differential, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("series");
        let options = SeriesOptions {
            method,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&place, options).unwrap();
        for n in 1..=4 {
            series.add(&state(dir.path(), n), &|_| {}).unwrap();
        }
        let has = |n: u32| place.join(format!("{n:04}.sign")).exists();
        assert_eq!([1, 2, 3, 4].map(has), [of_first, false, false, true]);
        series.prune(2).unwrap();
        for kept in series.states() {
            let hashes = series.verify(kept.state, None, &|_| {}).unwrap().hashes;
            let is_needed = kept.state == 4 || (of_first && kept.state == 1);
            let expected = if is_needed {
                KeptHashes::Whole
            } else {
                KeptHashes::Unneeded
            };
            assert_eq!(hashes, expected, "{method:?} {}", kept.state);
        }
        // the next state can be added
        let next = series.add(&state(dir.path(), 5), &|_| {}).unwrap();
        assert!(next.volumes.is_some());
        assert!(series.take_made_again().is_empty());
    }
}
