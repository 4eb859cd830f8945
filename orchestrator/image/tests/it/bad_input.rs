//! Input that is not an image, or incomplete: each results in one clear error, without a panic and without allocating the size that a header
//! claims.

use crate::common::{self, Kind, gzip, small};
use cvc_image::{ImageError, ImageErrorKind, is_complete, read_image};
use proptest::prelude::*;
use std::{fs, path::PathBuf};

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> PathBuf {
        self.0.path().join("ckpt_prog_98ff-42000-1f.dmtcp")
    }
    fn error(&self, bytes: &[u8]) -> ImageError {
        fs::write(self.path(), bytes).unwrap();
        let error = read_image(&self.path())
            .map(|_| ())
            .expect_err("this is not a good image");
        assert!(
            error.to_string().contains(self.path().to_str().unwrap()),
            "{error}"
        );
        assert!(!error.hint().is_empty());
        error
    }
}

const KINDS: [Kind; 4] = [Kind::A, Kind::B, Kind::C, Kind::V4];

#[test]
fn not_an_image() {
    let s = Scratch::new();
    assert!(matches!(s.error(b"").kind, ImageErrorKind::Empty));
    for bytes in [
        &b"hello"[..],
        &[0; 10_000],
        b"\x7fELF and so on",
        b"\x1f",
        b"BZh91AY&SY",
    ] {
        assert!(
            matches!(s.error(bytes).kind, ImageErrorKind::NotAnImage { .. }),
            "{bytes:?}"
        );
    }
    assert!(matches!(
        s.error(&gzip(b"hello")).kind,
        ImageErrorKind::NotAnImage { .. }
    ));
    let mut future = small(Kind::V4);
    future[24..28].copy_from_slice(b"7.0\n");
    assert!(
        matches!(s.error(&future).kind, ImageErrorKind::UnknownVersion { ref found } if found.contains("v7.0"))
    );
    let missing = read_image(&s.0.path().join("nothing")).unwrap_err();
    assert!(
        matches!(missing.kind, ImageErrorKind::Io(_)) && missing.to_string().contains("nothing")
    );
    assert!(matches!(
        read_image(s.0.path()).unwrap_err().kind,
        ImageErrorKind::NotAFile("a directory")
    ));
}

#[test]
fn wrong_second_signature() {
    let s = Scratch::new();
    let mut v4 = small(Kind::V4);
    v4[4096] = b'X';
    let error = s.error(&v4);
    assert!(matches!(
        error.kind,
        ImageErrorKind::SecondSignature {
            expected: "DMTCP_CHECKPOINT_IMAGE_v4.0",
            ..
        }
    ));
    assert_eq!(error.offset, Some(4096));
    let mut v4 = small(Kind::V4);
    v4[4096 + 232] ^= 1;
    assert!(matches!(
        s.error(&v4).kind,
        ImageErrorKind::HeaderCopiesDiffer
    ));

    let mut v3 = common::v2_header(1, &[]);
    v3[4096] = b'X';
    v3.resize(20 << 20, 0);
    let error = s.error(&v3);
    assert!(
        matches!(error.kind, ImageErrorKind::SecondSignature { expected: "MTCP_HEADER_v2.2", ref found } if found.starts_with("`XTCP_"))
    );
    assert_eq!(error.offset, Some(4096));
}

#[test]
fn every_truncation_is_found_without_reading_data() {
    let s = Scratch::new();
    for kind in KINDS {
        let whole = small(kind);
        for len in (1..whole.len()).step_by(509).chain([whole.len() - 1]) {
            let error = s.error(&whole[..len]);
            assert!(
                matches!(error.kind, ImageErrorKind::Truncated { .. }),
                "{kind:?} cut to {len}: {error}"
            );
            assert!(error.offset.unwrap() <= len as u64);
            assert!(!is_complete(&s.path()).unwrap());
            // The same case: an incomplete image that was compressed as a whole.
            assert!(matches!(
                s.error(&gzip(&whole[..len])).kind,
                ImageErrorKind::Truncated { .. }
            ));
        }
        fs::write(s.path(), &whole).unwrap();
        assert!(is_complete(&s.path()).unwrap());
    }
}

#[test]
fn a_gzip_that_ends_early() {
    let s = Scratch::new();
    let whole = gzip(&small(Kind::V4));
    for len in 2..whole.len() {
        let error = s.error(&whole[..len]);
        assert!(
            matches!(error.kind, ImageErrorKind::GzipEndsEarly),
            "cut to {len} of {}: {error}",
            whole.len()
        );
        assert!(
            error.gzip && error.to_string().contains("uncompressed stream"),
            "{error}"
        );
        assert!(!is_complete(&s.path()).unwrap());
    }
    fs::write(s.path(), &whole).unwrap();
    assert!(is_complete(&s.path()).unwrap());
}

#[test]
fn a_damaged_gzip() {
    let s = Scratch::new();
    let whole = gzip(&small(Kind::V4));
    // The last eight bytes are checksum and length: if they are wrong, the file is invalid even if the data are intact.
    for at in whole.len() - 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let error = s.error(&bytes);
        assert!(
            matches!(error.kind, ImageErrorKind::GzipCorrupt(_)),
            "byte {at}: {error}"
        );
        assert!(is_complete(&s.path()).is_err());
    }
    let mut bytes = whole.clone();
    bytes.extend(b"garbage");
    assert!(matches!(s.error(&bytes).kind, ImageErrorKind::GzipTrailing));
    // Concatenated members are one stream, as for gzip; zeros at the end are padding.
    let plain = small(Kind::V4);
    let mut members = gzip(&plain[..5000]);
    members.extend(gzip(&plain[5000..]));
    members.extend([0; 300_000]);
    fs::write(s.path(), &members).unwrap();
    assert_eq!(
        read_image(&s.path()).unwrap().uncompressed_bytes,
        plain.len() as u64
    );
}

#[test]
fn bytes_after_the_end_marker() {
    let s = Scratch::new();
    for kind in KINDS {
        let mut bytes = small(kind);
        let len = bytes.len() as u64;
        bytes.extend([0; 9]);
        let error = s.error(&bytes);
        assert!(
            matches!(
                error.kind,
                ImageErrorKind::TrailingBytes {
                    count: 9,
                    exact: true
                }
            ),
            "{error}"
        );
        assert_eq!(error.offset, Some(len));
        assert!(matches!(
            s.error(&gzip(&bytes)).kind,
            ImageErrorKind::TrailingBytes { .. }
        ));
    }
}

#[test]
fn absurd_area_headers() {
    let s = Scratch::new();
    let whole = small(Kind::V4);
    let edit = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        bytes[8192 + at..8192 + at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    for (at, value, field) in [
        (16, 0, "size"),
        (16, u64::MAX - 1, "size"),
        (16, 1 << 60, "size"),
        (0, u64::MAX, "start address"),
        (8, 0, "end address"),
        (8, u64::MAX, "end address"),
        (72, i64::MAX.cast_unsigned(), "size of the file mapping"),
    ] {
        for bytes in [edit(at, value), gzip(&edit(at, value))] {
            let error = s.error(&bytes);
            assert!(
                matches!(error.kind, ImageErrorKind::Absurd { field: f, .. } if f == field),
                "{error}"
            );
            assert_eq!(error.offset, Some(8192));
        }
    }
    // A possible value, but not in this file.
    assert!(
        matches!(s.error(&edit(72, 1 << 40)).kind, ImageErrorKind::Truncated { needed, present, .. } if needed == 1 << 40 && present < 1 << 20)
    );
    assert!(matches!(
        s.error(&gzip(&edit(72, 1 << 40))).kind,
        ImageErrorKind::Truncated { .. }
    ));
}

#[test]
fn runs_without_their_region() {
    let s = Scratch::new();
    let at = 0x5000_0000_0000;
    let orphan = common::image(
        Kind::V4,
        &[
            common::file(at, 4096, 5, "/bin/x"),
            common::child(at + 8192, 4096, 3, false),
        ],
    );
    let error = s.error(&orphan);
    assert!(matches!(error.kind, ImageErrorKind::ChildWithoutParent));
    assert_eq!(error.offset, Some(8192 + 8192));
    let outside = common::image(
        Kind::V4,
        &[
            common::parent(at, 4096, 3, ""),
            common::child(at + 8192, 4096, 3, true),
        ],
    );
    assert!(matches!(
        s.error(&outside).kind,
        ImageErrorKind::ChildOutsideParent { .. }
    ));
}

#[test]
fn a_nameless_first_area_does_not_mislead_the_layout() {
    let s = Scratch::new();
    for kind in KINDS {
        let mut areas = common::small_areas(kind);
        let mut first = areas.remove(0);
        first.start -= 1 << 20;
        first.end -= 1 << 20;
        (first.name, first.flags, first.mmap_file_size) = (Vec::new(), 0x22, -1);
        areas.insert(0, first);
        fs::write(s.path(), common::image(kind, &areas)).unwrap();
        let image = read_image(&s.path()).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let letter = if kind == Kind::V4 {
            "C".to_owned()
        } else {
            format!("{kind:?}")
        };
        assert_eq!(format!("{:?}", image.format.area_layout), letter);
    }
}

/// Checks that a file results in an image or an error, with no more regions than its length allows.
fn check(path: &std::path::Path, uncompressed: usize) {
    match read_image(path) {
        Ok(image) => {
            assert!(image.regions.len() <= uncompressed / 4096);
            assert_eq!(image.uncompressed_bytes, uncompressed as u64);
            assert_eq!(
                image.zones.literal.stored_with_headers.sum() + image.fixed_overhead_bytes,
                image.uncompressed_bytes
            );
            assert_eq!(
                image.zones.structural.stored_with_headers.sum() + image.fixed_overhead_bytes,
                image.uncompressed_bytes
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = is_complete(path);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_images_never_panic(
        kind in prop::sample::select(&KINDS[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..100, any::<u64>(), 1usize..9), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let s = Scratch::new();
        let mut bytes = small(kind);
        let pages = bytes.len() / 4096;
        for (page, at, value, len) in edits {
            // Most numbers are in the first hundred bytes of a header.
            let at = page.index(pages) * 4096 + at;
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(s.path(), &bytes).unwrap();
        check(&s.path(), bytes.len());
        fs::write(s.path(), gzip(&bytes)).unwrap();
        check(&s.path(), bytes.len());
    }

    #[test]
    fn random_bytes_never_panic(start in 0usize..4, bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let s = Scratch::new();
        let mut file = match start {
            0 => Vec::new(),
            1 => common::v4_header("prog", "/prog", 1),
            2 => common::v2_header(1, &[1, 2, 3]),
            _ => vec![0x1f, 0x8b, 8, 0],
        };
        file.extend(&bytes);
        fs::write(s.path(), &file).unwrap();
        let _ = read_image(&s.path()).map(|_| ()).map_err(|error| error.to_string());
    }

    #[test]
    fn changed_gzip_never_panics(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let s = Scratch::new();
        let mut bytes = gzip(&small(Kind::V4));
        let at = at.index(bytes.len());
        bytes[at] = value;
        fs::write(s.path(), &bytes).unwrap();
        let _ = read_image(&s.path()).map(|_| ()).map_err(|error| error.to_string());
    }
}
