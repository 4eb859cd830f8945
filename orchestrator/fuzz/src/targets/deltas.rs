//! Targets for files of a series of deltas.

use super::scratch::with_dir;
use cvc_delta::{DeltaSummary, Series, Signature, StateFile};
use std::{fs, os::unix::fs::MetadataExt};

pub(crate) const STATE_WORDS: &[&str] = &[
    "cvcdelt\u{1}",
    "cvcdelt\u{2}",
    "cvcdelt\u{3}",
    "\"base\":null",
    "\"base\":{\"state\":1,\"digest\":\"0\"}",
    "\"block_bytes\":4096",
    "\"codec\":\"none\"",
    "\"codec\":\"lz4\"",
    "\"stored_blocks\":4294967295",
    "\"transform\":\"xor\"",
    "\"name\":\"../x\"",
];

/// The complete state that is the base of the delta `moved.state`.
const BASE: &[u8] = include_bytes!("../../seeds/delta-state/base.state");

pub(crate) const SIGNATURE_WORDS: &[&str] = &[
    "cvcsign\u{1}",
    "\"extents\":18446744073709551615",
    "\"blocks\":0",
    "\"block_bytes\":4096",
];

pub(crate) const SERIES_WORDS: &[&str] = &[
    "\"base\": null",
    "\"base\": 1",
    "\"state\": 1",
    "\"file\": \"0001.state\"",
    "\"file\": \"../0001.state\"",
    "\"version\": 2",
    "\"ratio\": \"infinite\"",
    "\"name\": \"bounded\"",
];

/// Corrects the checksums of all sections after offset `from`, so that their contents are parsed.
fn seal(bytes: &mut [u8], from: usize) {
    let mut at = from;
    while let Some(before) = bytes.get(at..at + 24) {
        let length = u64::from_le_bytes(before[..8].try_into().expect("eight bytes"));
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| (at + 24).checked_add(length));
        let Some(section) = end.and_then(|end| bytes.get(at + 24..end)) else {
            return;
        };
        let checksum = blake3::hash(section);
        at += 8;
        bytes[at..at + 16].copy_from_slice(&checksum.as_bytes()[..16]);
        at += 16 + usize::try_from(length).expect("it fits above");
    }
}

pub(crate) const HEAD_WORDS: &[&str] = &[
    "\"links\":[[\"a//b\",\"../outside\"],[\"a/b/x\",\"/tmp/x\"]]",
    "[\"a/./b\",\"..\"],[\"a/b/x\",\"y\"]",
    "\"name\":\"a/b/x\"",
    "../outside/x",
    "//",
    "/./",
    "/../",
    "\\u0000",
    "18446744073709551615",
    "\"mode\":2541",
];

/// Checks the header of a state's file, with a correct checksum and the correct digest of its names and links: no header makes a restore write
/// outside its directory.
pub(crate) fn head(data: &[u8]) {
    let end = BASE.len() - 16;
    let at = u64::from_le_bytes(BASE[end..end + 8].try_into().expect("eight bytes"));
    let at = usize::try_from(at).expect("of a small file");
    let length = u64::from_le_bytes(BASE[at..at + 8].try_into().expect("eight bytes"));
    let rest = at + 24 + usize::try_from(length).expect("of a small file");
    let head = match serde_json::from_slice::<DeltaSummary>(data) {
        Ok(mut summary) => {
            summary.digest = summary.digest_of_files();
            serde_json::to_vec(&summary).expect("plain data")
        }
        Err(_) => data.to_vec(),
    };
    let section = [&(head.len() as u64).to_le_bytes()[..], &[0; 16], &head].concat();
    let mut sealed = [&BASE[..at], &section, &BASE[rest..]].concat();
    seal(&mut sealed, at);
    with_dir(|dir| {
        let path = dir.join("0001.state").into_std_path_buf();
        let outside = dir.join("outside");
        fs::create_dir(&outside).expect("makes");
        fs::write(&path, &sealed).expect("writes");
        let to = dir.join("back").into_std_path_buf();
        let restored = StateFile::open(&path)
            .and_then(|file| cvc_delta::Chain::new(vec![file]))
            .and_then(|mut chain| chain.restore(&to, &|_| {}));
        assert_eq!(restored.is_ok(), to.exists());
        assert_eq!(
            fs::read_dir(&outside).expect("lists").count(),
            0,
            "written outside"
        );
        let expected = 2 + usize::from(to.exists());
        assert_eq!(fs::read_dir(dir).expect("lists").count(), expected);
        let mut open: Vec<_> = to.exists().then_some(to).into_iter().collect();
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).expect("lists") {
                let path = entry.expect("an entry").path();
                let found = fs::symlink_metadata(&path).expect("it is there");
                assert_eq!(found.mode() & 0o6000, 0, "{}", path.display());
                if found.is_dir() {
                    open.push(path);
                }
            }
        }
    });
}

/// Replaces the digest in a header by that of its names and links, if the header can be parsed.
fn with_digest(bytes: &mut [u8], from: usize) {
    let Some(before) = bytes.get(from..from + 24) else {
        return;
    };
    let length = u64::from_le_bytes(before[..8].try_into().expect("eight bytes"));
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| (from + 24).checked_add(length));
    let Some(head) = end.and_then(|end| bytes.get_mut(from + 24..end)) else {
        return;
    };
    let Ok(summary) = serde_json::from_slice::<DeltaSummary>(head) else {
        return;
    };
    let (old, new) = (summary.digest.as_bytes(), summary.digest_of_files());
    let place = head.windows(old.len().max(1)).position(|part| part == old);
    if let Some(at) = place.filter(|_| old.len() == new.len()) {
        head[at..at + new.len()].copy_from_slice(new.as_bytes());
    }
}

/// Checks the reader of a state's file: unchanged, and with correct checksums of its tables.
pub(crate) fn state(data: &[u8]) {
    let mut sealed = data.to_vec();
    if let Some((rest, _)) = data.split_last_chunk::<8>()
        && let Some((_, place)) = rest.split_last_chunk::<8>()
    {
        let from = usize::try_from(u64::from_le_bytes(*place)).unwrap_or(usize::MAX);
        if from < sealed.len() {
            with_digest(&mut sealed, from);
            seal(&mut sealed, from);
        }
    }
    for bytes in [data, &sealed] {
        with_dir(|dir| {
            let path = dir.join("0001.state").into_std_path_buf();
            fs::write(&path, bytes).expect("writes");
            let file = match StateFile::open(&path) {
                Ok(file) => file,
                Err(error) => {
                    assert!(error.to_string().contains("0001.state"), "{error}");
                    return;
                }
            };
            let (summary, digest) = (file.summary().clone(), file.summary().digest.clone());
            assert_eq!(file.file_bytes(), bytes.len() as u64);
            let mut files = vec![file];
            if summary.base.is_some() {
                let base = dir.join("base.state").into_std_path_buf();
                fs::write(&base, BASE).expect("writes");
                files.push(StateFile::open(&base).expect("it is not damaged"));
            }
            // the base of the delta is missing
            let Ok(mut chain) = cvc_delta::Chain::new(files) else {
                assert!(summary.base.is_some());
                return;
            };
            let to = dir.join("back").into_std_path_buf();
            match chain.restore(&to, &|_| {}) {
                Ok(()) => {
                    assert_eq!(chain.summary().digest, digest);
                    for image in &summary.images {
                        read_middle(&mut chain, image, &to);
                        let restored = fs::metadata(to.join(&image.name)).expect("restored");
                        assert_eq!(restored.len(), image.bytes, "{}", image.name);
                    }
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    assert!(!to.exists(), "half-written");
                }
            }
        });
    }
}

/// Checks that a range in the middle of a file equals the restored content.
fn read_middle(chain: &mut cvc_delta::Chain, image: &cvc_delta::ImageEntry, to: &std::path::Path) {
    let restored = fs::read(to.join(&image.name)).expect("restored");
    let (from, end) = (image.bytes / 3, image.bytes - image.bytes / 3);
    let mut read = Vec::new();
    let took = chain.read(&image.name, from..end, &mut |bytes| {
        read.extend_from_slice(bytes);
        Ok(())
    });
    took.expect("it was restored");
    let within = |at: u64| usize::try_from(at).expect("it was restored");
    assert!(
        read == restored[within(from)..within(end)],
        "{}",
        image.name
    );
}

/// Checks the reader of the hashes of a state: unchanged, and with correct checksums.
pub(crate) fn signature(data: &[u8]) {
    let mut sealed = data.to_vec();
    if sealed.len() > 8 {
        seal(&mut sealed, 8);
    }
    for bytes in [data, &sealed] {
        with_dir(|dir| {
            let path = dir.join("0001.sign").into_std_path_buf();
            fs::write(&path, bytes).expect("writes");
            let Ok(read) = Signature::read(&path) else {
                return;
            };
            assert!(cvc_delta::changed_bytes(&read, &read) <= read.bytes());
            // hashes that were read can be written
            let again = dir.join("again.sign").into_std_path_buf();
            read.write(&again).expect("writes");
            assert_eq!(Signature::read(&again).expect("reads"), read);
        });
    }
}

/// Checks the reader of the manifest of a series.
pub(crate) fn series(data: &[u8]) {
    with_dir(|dir| {
        fs::write(dir.join("manifest.json"), data).expect("writes");
        let Ok(series) = Series::open(dir.as_std_path()) else {
            return;
        };
        for record in series.states() {
            // a chain is no longer than the number of states; its files do not exist here
            if let Ok(chain) = series.chain_of(record.state) {
                assert!(chain.len() <= series.states().len());
            }
            assert!(series.verify(record.state, None, &|_| {}).is_err());
        }
    });
}
