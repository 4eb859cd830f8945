//! Series that were manipulated to harm the user, and states that change while they are stored.

use crate::process::{Process, files};
use cvc_delta::{
    Chain, DeltaErrorKind, DeltaSummary, Hash, Method, Series, SeriesOptions, StateFile,
};
use std::{
    cell::Cell,
    fs,
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

/// Returns the range of the tables in a state's file.
fn tables(bytes: &[u8]) -> std::ops::Range<usize> {
    let end = bytes.len() - 16;
    u64::from_le_bytes(bytes[end..end + 8].try_into().unwrap()) as usize..end
}

/// Returns a section with a correct checksum.
fn section(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length, &Hash::of(bytes).0[..], bytes].concat()
}

/// Edits the head of a state's file and updates all checksums; unless `is_consistent`, the digest stays unchanged.
pub fn reseal(path: &Path, is_consistent: bool, edit: impl FnOnce(&mut DeltaSummary)) {
    let bytes = fs::read(path).unwrap();
    let tables = tables(&bytes);
    let head_bytes = u64::from_le_bytes(bytes[tables.start..][..8].try_into().unwrap()) as usize;
    let (head, rest) = bytes[tables.start + 24..].split_at(head_bytes);
    let mut summary: DeltaSummary = serde_json::from_slice(head).unwrap();
    edit(&mut summary);
    if is_consistent {
        summary.digest = summary.digest_of_files();
    }
    let head = section(&serde_json::to_vec(&summary).unwrap());
    fs::write(path, [&bytes[..tables.start], &head, rest].concat()).unwrap();
}

/// Stores a state with a file and a link; returns the enclosing temporary directory, the directory of the state, and the state's file.
fn stored(options: SeriesOptions) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    Process::new(40_000, 20).write(&state.join("ckpt_40000.dmtcp"), false);
    symlink("x", state.join("l")).unwrap();
    let mut series = Series::create(&dir.path().join("series"), options).unwrap();
    series.add(&state, &|_| {}).unwrap();
    let file = dir.path().join("series/0001.state");
    (dir, state, file)
}

fn restore(file: &Path, to: &Path) -> Result<(), String> {
    let chain = StateFile::open(file).and_then(|file| Chain::new(vec![file]));
    chain
        .and_then(|mut chain| chain.restore(to, &|_| {}))
        .map_err(|error| error.to_string())
}

#[test]
fn no_name_of_a_state_leads_out_of_the_place_where_it_is_restored() {
    let (dir, _, file) = stored(SeriesOptions::default());
    let victim = dir.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let whole = fs::read(&file).unwrap();
    let out = victim.display().to_string();
    let cases: [&[(&str, &str)]; 12] = [
        &[("a//b", &out), ("a/b/x", "/tmp/evil")],
        &[("a/./b", &out), ("a/b/x", "/tmp/evil")],
        &[("a/b/", &out), ("a/b/x", "/tmp/evil")],
        &[("./a", &out), ("a/x", "/tmp/evil")],
        &[("a", &out), ("a//x", "/tmp/evil")],
        &[("a", &out), ("a", "/tmp/evil")],
        &[("../victim/x", "/tmp/evil")],
        &[("a/../../victim/x", "/tmp/evil")],
        &[(&format!("{out}/x"), "/tmp/evil")],
        &[("", "/tmp/evil")],
        &[("ckpt_40000.dmtcp/x", "/tmp/evil")],
        &[("a\0b", "/tmp/evil")],
    ];
    let names = |dir: &Path| fs::read_dir(dir).unwrap().count();
    let before = names(dir.path());
    for links in cases {
        let linked = |summary: &mut DeltaSummary| {
            let owned = |(name, to): &(&str, &str)| ((*name).to_owned(), (*to).to_owned());
            summary.links = links.iter().map(owned).collect();
        };
        reseal(&file, true, linked);
        let error = restore(&file, &dir.path().join("back")).unwrap_err();
        assert!(error.contains("0001.state"), "{error}");
        if links == [("ckpt_40000.dmtcp/x", "/tmp/evil")] {
            fs::write(&file, &whole).unwrap();
            continue;
        }
        // a file in place of the last link
        fs::write(&file, &whole).unwrap();
        reseal(&file, true, |summary| {
            linked(summary);
            summary.images[0].name = summary.links.pop().unwrap().0;
        });
        let name = StateFile::read_summary(&file).map(|s| s.images[0].name.clone());
        if let Ok(name) = name {
            panic!("{name:?} is accepted");
        }
        restore(&file, &dir.path().join("back")).unwrap_err();
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!((names(dir.path()), names(&victim)), (before, 0));
    restore(&file, &dir.path().join("back")).unwrap();
}

#[test]
fn what_a_head_says_that_its_digest_does_not_is_found() {
    let (dir, state, file) = stored(SeriesOptions::default());
    let whole = fs::read(&file).unwrap();
    let edits: [fn(&mut DeltaSummary); 4] = [
        |s| s.links[0].1 = "/etc/passwd".into(),
        |s| s.links[0].0 = "other".into(),
        |s| s.images[0].mode = 0o4755,
        |s| s.images[0].name = "other".into(),
    ];
    let series = Series::open(&dir.path().join("series")).unwrap();
    for edit in edits {
        reseal(&file, false, edit);
        let error = series.verify(1, None, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("names, permissions or links"), "{error}");
        // with another digest it is a different state
        fs::write(&file, &whole).unwrap();
        reseal(&file, true, edit);
        series.verify(1, None, &|_| {}).unwrap_err();
        fs::write(&file, &whole).unwrap();
    }
    // setuid and setgid bits are never restored, whether the state is foreign or not
    reseal(&file, true, |summary| summary.images[0].mode = 0o7755);
    restore(&file, &dir.path().join("back")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir.path().join("back/ckpt_40000.dmtcp")), 0o755);
    let image = state.join("ckpt_40000.dmtcp");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o4750)).unwrap();
    let mut series = Series::create(&dir.path().join("own"), SeriesOptions::default()).unwrap();
    series.add(&state, &|_| {}).unwrap();
    series.verify(1, Some(&state), &|_| {}).unwrap();
    series
        .restore(1, &dir.path().join("own-back"), &|_| {})
        .unwrap();
    assert_eq!(mode(&dir.path().join("own-back/ckpt_40000.dmtcp")), 0o750);
}

#[test]
fn numbers_without_content_behind_them_are_refused_before_anything_is_unpacked() {
    let (_dir, _, file) = stored(SeriesOptions::default());
    let whole = fs::read(&file).unwrap();
    for edit in [
        (|s: &mut DeltaSummary| s.images[0].bytes = u64::MAX) as fn(&mut DeltaSummary),
        |s| s.images.push(s.images[0].clone()),
        |s| s.images[0].frame_bytes = 1 << 63,
        |s| s.images[0].blocks = 200_000_000,
        |s| s.stored_blocks = 200_000_000,
    ] {
        reseal(&file, true, edit);
        let error = StateFile::open(&file).unwrap_err();
        assert!(
            matches!(error.kind, DeltaErrorKind::Damaged { .. }),
            "{error}"
        );
        fs::write(&file, &whole).unwrap();
    }
    // a table that is long after decompression, with the number of entries that it then has
    let blocks = 20_000_000_u32;
    let mut table = (u64::from(blocks) * 4).to_le_bytes().to_vec();
    let mut encoder = zstd::stream::write::Encoder::new(&mut table, 3).unwrap();
    for _ in 0..blocks / 1000 {
        encoder
            .write_all(&4096_u32.to_le_bytes().repeat(1000))
            .unwrap();
    }
    encoder.finish().unwrap();
    reseal(&file, true, |s| s.stored_blocks = blocks);
    let bytes = fs::read(&file).unwrap();
    let at = tables(&bytes);
    let skip = |from: usize| {
        from + 24 + u64::from_le_bytes(bytes[from..][..8].try_into().unwrap()) as usize
    };
    let lengths = skip(skip(at.start));
    let parts = [&bytes[..lengths], &section(&table), &bytes[skip(lengths)..]];
    fs::write(&file, parts.concat()).unwrap();
    assert!(fs::metadata(&file).unwrap().len() < 300_000);
    let error = StateFile::open(&file).unwrap_err();
    assert!(
        matches!(error.kind, DeltaErrorKind::Damaged { .. }),
        "{error}"
    );
}

#[test]
fn links_and_pipes_in_the_place_of_files_are_errors_at_once() {
    let (dir, state, file) = stored(SeriesOptions::default());
    let place = dir.path().join("series");
    for name in ["manifest.json", "0001.state", "0001.sign", "lock"] {
        let path = place.join(name);
        let kept = dir.path().join("kept");
        fs::rename(&path, &kept).unwrap();
        for is_link in [true, false] {
            if is_link {
                symlink(&kept, &path).unwrap();
            } else {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.unwrap().success());
            }
            let error = Series::open(&place)
                .and_then(|mut series| series.add(&state, &|_| {}).map(|_| series))
                .and_then(|series| series.verify(1, None, &|_| {}))
                .unwrap_err();
            let kind = if is_link { "a symbolic link" } else { "a pipe" };
            let error = error.to_string();
            assert!(error.contains(name) && error.contains(kind), "{error}");
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&kept, &path).unwrap();
    }
    restore(&file, &dir.path().join("back")).unwrap();
}

#[test]
fn an_older_manifest_removes_no_later_state() {
    let (dir, state, _) = stored(SeriesOptions {
        method: Method::Differential,
        ..SeriesOptions::default()
    });
    let place = dir.path().join("series");
    let older = fs::read(place.join("manifest.json")).unwrap();
    let mut series = Series::open(&place).unwrap();
    for count in 1..=3 {
        series.add(&state, &|_| {}).unwrap();
        let newer = fs::read(place.join("manifest.json")).unwrap();
        fs::write(place.join("manifest.json"), &older).unwrap();
        let before = files(&place);
        let mut old = Series::open(&place).unwrap();
        let unknown = old.unknown_states().unwrap();
        assert_eq!(unknown.len(), count);
        for error in [
            old.add(&state, &|_| {}).map(|_| ()).unwrap_err(),
            old.prune(1).map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("0002.state"), "{error}");
        }
        assert!(files(&place) == before, "something was removed");
        fs::write(place.join("manifest.json"), &newer).unwrap();
    }
    assert_eq!(series.add(&state, &|_| {}).unwrap().state, 5);
    // an unfinished state is removed, and so is a pruned one
    let last = fs::read(place.join("0005.state")).unwrap();
    fs::write(place.join("0006.state"), &last).unwrap();
    fs::write(place.join(".cvc-new-0006"), "").unwrap();
    series.prune(1).unwrap();
    fs::write(place.join("0002.state"), &last).unwrap();
    assert_eq!(series.add(&state, &|_| {}).unwrap().state, 6);
    assert!(!place.join("0002.state").exists() && !place.join(".cvc-new-0006").exists());
    assert!(series.unknown_states().unwrap().is_empty());
}

#[test]
fn a_state_is_of_one_moment_or_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let (one, two) = (state.join("a"), state.join("b"));
    fs::write(&one, vec![1; 40 << 20]).unwrap();
    fs::write(&two, "small").unwrap();
    let place = dir.path().join("series");
    let mut series = Series::create(&place, SeriesOptions::default()).unwrap();
    series.add(&state, &|_| {}).unwrap();
    let before = files(&place);
    let write_at = |path: &Path, at: u64, bytes: &[u8]| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    let changes: [&dyn Fn(); 6] = [
        // the first block has been read by then, and is equal to the block of the base
        &|| {
            (
                write_at(&one, 0, &[7; 4096]),
                write_at(&one, (40 << 20) - 4096, &[7; 4096]),
            )
                .0
        },
        &|| write_at(&one, 40 << 20, &[7; 4096]),
        &|| {
            fs::OpenOptions::new()
                .write(true)
                .open(&one)
                .unwrap()
                .set_len(30 << 20)
                .unwrap()
        },
        &|| write_at(&two, 0, b"other"),
        &|| {
            fs::copy(&two, dir.path().join("c")).unwrap();
            fs::rename(dir.path().join("c"), &two).unwrap();
        },
        &|| fs::remove_file(&two).unwrap(),
    ];
    for (number, change) in changes.iter().enumerate() {
        // at the first progress report, and later, when blocks are stored
        for calls in [1, 5] {
            fs::write(&one, vec![1; 40 << 20]).unwrap();
            fs::write(&two, "small").unwrap();
            // so that there are blocks to store
            write_at(&one, 20 << 20, &[number as u8 + 10; 4096]);
            std::thread::sleep(Duration::from_millis(30));
            let count = Cell::new(0);
            let progress = |_| {
                count.set(count.get() + 1);
                if count.get() == calls {
                    change();
                }
            };
            let error = series.add(&state, &progress).unwrap_err();
            assert!(count.get() >= calls, "{number}: nothing was changed");
            assert!(
                matches!(error.kind, DeltaErrorKind::Changed),
                "{number}: {error}"
            );
            assert!(files(&place) == before, "{number}");
        }
    }
}
