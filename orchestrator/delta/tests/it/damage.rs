//! Damaged, missing or interchanged files.

use crate::hostile::reseal;
use crate::process::{DATA, PAGE, Process, files};
use cvc_delta::{Chain, Method, Series, SeriesOptions, StateFile};
use proptest::prelude::*;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Creates a series of four states, each stored against the previous one; returns its directory.
fn series(dir: &Path) -> PathBuf {
    let place = dir.join("series");
    let options = SeriesOptions {
        method: Method::Incremental,
        packet_blocks: 2,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&place, options).unwrap();
    let mut process = Process::new(40_000, 30);
    for t in 1..=4 {
        for page in 0..8 {
            process.pages.insert(DATA + page * PAGE, 1000 * t + page);
        }
        // content that the previous state has at another place
        process
            .pages
            .insert(DATA + 40 * PAGE + t * PAGE, 1000 * (t - 1) + 1);
        let state = dir.join(t.to_string());
        fs::create_dir(&state).unwrap();
        process.write(&state.join("ckpt.dmtcp"), false);
        series.add(&state, &|_| {}).unwrap();
    }
    place
}

fn error(series: &Path, state: u32) -> String {
    Series::open(series)
        .and_then(|s| s.verify(state, None, &|_| {}))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_missing_file_is_named_and_states_that_do_not_need_it_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    fs::rename(place.join("0003.state"), dir.path().join("away")).unwrap();
    assert!(error(&place, 4).ends_with("0003.state: missing: state 4 needs it"));
    let open = Series::open(&place).unwrap();
    open.restore(2, &dir.path().join("back"), &|_| {}).unwrap();
    assert!(files(&dir.path().join("back")) == files(&dir.path().join("2")));
}

#[test]
fn a_file_of_another_series_is_noticed() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = series(one.path());
    let mut other = Series::create(&two.path().join("series"), SeriesOptions::default()).unwrap();
    other.add(&one.path().join("3"), &|_| {}).unwrap();
    fs::copy(
        two.path().join("series/0001.state"),
        place.join("0001.state"),
    )
    .unwrap();
    let told = error(&place, 2);
    assert!(
        told.contains("0001.state: not the base of state 2"),
        "{told}"
    );
}

#[test]
fn a_flipped_byte_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let path = place.join("0003.state");
    let mut bytes = fs::read(&path).unwrap();
    // in the first packet
    bytes[20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let told = error(&place, 3);
    assert!(
        told.contains("0003.state: damaged: packet 1 of 4, at byte 8"),
        "{told}"
    );
    // no partial file remains, and blocks in other packets can be read
    let to = dir.path().join("back");
    let open = Series::open(&place).unwrap();
    assert!(open.restore(3, &to, &|_| {}).is_err());
    assert!(!to.exists());
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        left.iter()
            .all(|n| !n.to_string_lossy().starts_with(".cvc-new")),
        "{left:?}"
    );
    let mut chain = open.chain(3).unwrap();
    assert!(chain.block("ckpt.dmtcp", DATA).is_err());
    assert_eq!(
        chain.block("ckpt.dmtcp", DATA + 7 * PAGE).unwrap(),
        crate::process::content(3007)
    );
}

#[test]
fn a_file_that_is_another_one_than_was_stored_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let path = place.join("0003.state");
    let digest = StateFile::read_summary(&path).unwrap().images[0]
        .digest
        .clone();
    let open = Series::open(&place).unwrap();
    let chain = open.chain_of(3).unwrap();
    reseal(&path, true, |summary| {
        let other = if digest.starts_with('0') { '1' } else { '0' };
        summary.images[0].digest = format!("{other}{}", &digest[1..]);
    });
    let to = dir.path().join("back");
    let files = chain
        .iter()
        .map(|n| StateFile::open(&place.join(format!("{n:04}.state"))).unwrap());
    let mut chain = Chain::new(files.collect()).unwrap();
    let told = chain.restore(&to, &|_| {}).unwrap_err().to_string();
    assert!(
        told.contains(&format!(
            "ckpt.dmtcp: restored with the digest {digest} instead of"
        )),
        "{told}"
    );
    assert!(!to.exists());
    // the other states are intact
    open.restore(2, &to, &|_| {}).unwrap();
}

#[test]
fn a_manifest_that_leads_elsewhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let place = series(dir.path());
    let manifest = place.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for (from, to) in [
        ("0003.state", "../3/ckpt.dmtcp"),
        ("\"base\": 2", "\"base\": 3"),
        ("\"version\": 1", "\"version\": 99"),
        ("cvc-delta", "other"),
        ("\"state\": 4", "\"state\": 4294967295"),
        ("\"content_bytes\": ", "\"content_bytes\": 9999999999999"),
    ] {
        fs::write(&manifest, text.replace(from, to)).unwrap();
        let told = Series::open(&place).unwrap_err().to_string();
        assert!(told.contains("manifest.json"), "{told}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Changing, truncating or overwriting a file at any position results in an error or the correct bytes; never in a panic or wrong bytes.
    #[test]
    fn no_damage_gives_other_bytes(at in 0.0..1.0_f64, flip in 1..=255_u8, cut in any::<bool>()) {
        let dir = DIR.with(|dir| dir.path().to_owned());
        let original = fs::read(dir.join("series/0002.state")).unwrap();
        let mut bytes = original.clone();
        let at = (at * bytes.len() as f64) as usize;
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= flip;
        }
        let place = tempfile::tempdir().unwrap();
        for name in ["manifest.json", "0001.state"] {
            fs::copy(dir.join("series").join(name), place.path().join(name)).unwrap();
        }
        fs::write(place.path().join("0002.state"), &bytes).unwrap();
        let _ = StateFile::open(&place.path().join("0002.state"));
        let back = place.path().join("back");
        let restored = Series::open(place.path()).and_then(|s| s.restore(2, &back, &|_| {}));
        if restored.is_ok() {
            prop_assert!(files(&back) == files(&dir.join("2")));
        } else {
            prop_assert!(!back.exists());
        }
    }
}

thread_local! {
    static DIR: tempfile::TempDir = {
        let dir = tempfile::tempdir().unwrap();
        series(dir.path());
        dir
    };
}
