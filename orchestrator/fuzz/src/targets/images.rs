//! Targets for checkpoint images, their directories, and DMTCP's output.

use super::scratch::{side, with_dir};
use cvc_engine::ckpt::{Install, dmtcp};
use cvc_image::{self, Image, PAGE, ReadOptions, Zone, ZoneBytes};
use flate2::{Compression, write::GzEncoder};
use std::{fs, io::Write, path::Path};

pub(crate) const IMAGE_WORDS: &[&str] = &[
    "DMTCP_CHECKPOINT_IMAGE_v2.0\n",
    "DMTCP_CHECKPOINT_IMAGE_v4.0\n",
    "MTCP_HEADER_v2.2\n",
    "[heap]\0",
    "[stack]\0",
    "/dev/shm/x\0",
    "/usr/lib/libm.so.6\0",
    "\u{1f}\u{8b}",
];

/// Checks the reader of images, plain or compressed.
pub(crate) fn image(data: &[u8]) {
    with_dir(|dir| {
        let path = dir
            .join("ckpt_prog_98ff-42000-2f1307f1a2b.dmtcp")
            .into_std_path_buf();
        fs::write(&path, data).expect("writes");
        let plain = cvc_image::read_image_with(&path, ReadOptions { areas: true });
        match &plain {
            Ok(image) => sound(image, data.len() as u64),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        if side(data, 8) > 0 {
            return;
        }
        match (cvc_image::is_complete(&path), &plain) {
            (Ok(complete), Ok(_)) => assert!(complete),
            (Ok(complete), Err(error)) => assert!(!complete && error.is_unfinished()),
            (Err(_), read) => assert!(read.is_err()),
        }
        // the compressed image gives the same result
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(1));
        gzip.write_all(data).expect("compresses");
        fs::write(&path, gzip.finish().expect("compresses")).expect("writes");
        let inflated = cvc_image::read_image(&path);
        match (plain, inflated) {
            (Ok(plain), Ok(inflated)) if !plain.gzip => {
                let same = (
                    plain.regions == inflated.regions,
                    plain.zones == inflated.zones,
                    plain.header == inflated.header,
                );
                assert_eq!(
                    (same, plain.uncompressed_bytes),
                    ((true, true, true), inflated.uncompressed_bytes)
                );
            }
            // an image that is compressed already is invalid when compressed again
            (Ok(plain), Err(_)) => assert!(plain.gzip),
            (Ok(_), Ok(_)) => panic!("compressed twice, and read"),
            (Err(_), Err(_)) => {}
            (Err(error), Ok(_)) => panic!("read only compressed: {error}"),
        }
    });
}

/// Checks properties of every image that was read.
fn sound(image: &Image, file_bytes: u64) {
    let page = PAGE as u64;
    assert_eq!(image.file_bytes, file_bytes);
    assert!(image.gzip || image.uncompressed_bytes == file_bytes);
    assert_eq!(
        image.fixed_overhead_bytes + image.area_headers * page + image.data_bytes,
        image.uncompressed_bytes
    );
    assert_eq!(image.end_marker_offset + page, image.uncompressed_bytes);
    assert_eq!(image.areas.len() as u64, image.area_headers);
    assert_eq!(
        image.areas.iter().map(|area| area.data_bytes).sum::<u64>(),
        image.data_bytes
    );
    assert_eq!(
        image
            .regions
            .iter()
            .map(|region| region.stored)
            .sum::<u64>(),
        image.data_bytes
    );
    assert_eq!(
        image
            .regions
            .iter()
            .map(|region| region.headers)
            .sum::<u64>(),
        image.area_headers
    );
    let all: u128 = image
        .regions
        .iter()
        .map(|region| u128::from(region.end - region.start))
        .sum();
    for rules in [&image.zones.literal, &image.zones.structural] {
        assert_eq!(rules.stored.sum(), image.data_bytes);
        assert_eq!(
            rules.stored_with_headers.sum(),
            image.data_bytes + image.area_headers * page
        );
        assert_eq!(
            u128::from(rules.r#virtual.sum()),
            all.min(u128::from(u64::MAX))
        );
        assert!(
            Zone::ALL
                .into_iter()
                .all(|zone| rules.accessible.get(zone) <= rules.r#virtual.get(zone))
        );
    }
    let owner = &image.zones.owner;
    assert_eq!(owner.stored.sum(), image.data_bytes);
    assert_eq!(
        owner.stored_with_headers.sum(),
        image.data_bytes + image.area_headers * page
    );
    assert_eq!(
        u128::from(owner.r#virtual.sum()),
        all.min(u128::from(u64::MAX))
    );
    let mut zones = [0; 3];
    for sub in &image.sub_zones {
        let zone = Zone::ALL
            .iter()
            .position(|zone| *zone == sub.zone)
            .expect("a zone");
        zones[zone] += sub.stored;
    }
    let stored: &ZoneBytes = &image.zones.structural.stored;
    assert_eq!(zones, Zone::ALL.map(|zone| stored.get(zone)));
    assert_eq!(
        image.sub_zones.iter().map(|sub| sub.n).sum::<u64>(),
        image.regions.len() as u64
    );
    let mut listing = Vec::new();
    cvc_image::write_listing(image, &mut listing).expect("writes");
    let json = serde_json::to_string(image).expect("JSON");
    let back: Image = serde_json::from_str(&json).expect("reads its own JSON");
    assert_eq!(serde_json::to_string(&back).expect("JSON"), json);
}

pub(crate) const DIR_WORDS: &[&str] = &[
    "\n== ",
    "ckpt_",
    ".dmtcp",
    ".dmtcp.temp",
    "_files",
    "/fd-info.txt",
    "/../",
    "mpiexec",
    ":",
    "..",
    "_1-2-3",
];

/// Checks the reader of checkpoint directories. The bytes are files, each after a line `== NAME`.
pub(crate) fn checkpoint_dir(data: &[u8]) {
    with_dir(|dir| {
        let root = dir.join("ckpt");
        fs::create_dir(&root).expect("a directory");
        fs::write(dir.join("secret"), "twelve bytes").expect("writes");
        let mut name: Option<String> = None;
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            if let Some(text) = line.strip_prefix(b"== ") {
                let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
                // only use paths inside the directory, to test the reader only
                let parts = text.split('/').all(|part| !matches!(part, "" | "." | ".."))
                    && !text.contains('\0');
                name = Some(text).filter(|text| parts && text.len() < 200);
            } else if let Some(file) = name.as_ref().map(|name| root.join(name)) {
                let made = file
                    .parent()
                    .is_some_and(|parent| fs::create_dir_all(parent).is_ok());
                if made
                    && let Ok(mut file) =
                        fs::OpenOptions::new().create(true).append(true).open(&file)
                {
                    file.write_all(line).expect("writes");
                }
            }
        }
        let Ok(read) = cvc_image::read_dir_with(
            root.as_std_path(),
            cvc_image::ReadDirOptions {
                threads: Some(std::num::NonZeroUsize::MIN),
            },
        ) else {
            panic!("the directory is there");
        };
        let totals = &read.totals;
        assert_eq!(
            totals.rank.images + totals.launcher.images,
            read.images.len() as u64
        );
        assert_eq!(totals.broken_images, read.broken.len() as u64);
        let bytes: u64 = read
            .images
            .iter()
            .map(|i| i.image.file_bytes)
            .chain(read.broken.iter().map(|b| b.file_bytes))
            .sum();
        assert_eq!(
            totals.stored_bytes,
            bytes + read.files_dirs.iter().map(|d| d.bytes).sum::<u64>()
        );
        for found in &read.files_dirs {
            assert!(found.path.starts_with(&root));
            for saved in &found.saved {
                assert!(
                    saved.bytes.is_none() || Path::new(&saved.saved_name).components().count() == 1,
                    "{saved:?}"
                );
            }
        }
        let json = serde_json::to_string(&read).expect("JSON");
        let back: cvc_image::CheckpointDir =
            serde_json::from_str(&json).expect("reads its own JSON");
        assert_eq!(
            (back.images, back.files_dirs, back.totals),
            (read.images, read.files_dirs, read.totals)
        );
    });
}

pub(crate) const EVENT_WORDS: &[&str] = &[
    "/Event_Timestamp_Ms",
    "Ckpt-Start",
    "Ckpt-Complete",
    "Barrier-DMT:SUSPEND",
    "Barrier-DMT:WriteCkpt",
    "2026-11-21T11:43:28.248",
    "9999-12-31T23:59:59.999",
    "-009999-01-01T00:00:00",
    "18446744073709551615-",
    "00003-",
    "\": \"",
];

/// Checks the reader of the event log of DMTCP's coordinator.
pub(crate) fn dmtcp_events(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match dmtcp::parse_events(&text) {
        Ok(Some(events)) => {
            assert!(
                text.contains("Barrier-DMT:WriteCkpt") || text.contains('\\'),
                "{events:?}"
            );
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(crate) const TEXT_WORDS: &[&str] = &[
    "::",
    ":bg:",
    ":fg:",
    ".dmtcp",
    "NUM_PEERS=",
    "RUNNING=yes",
    "'",
    "\"",
    "/",
    "4.2.0",
    "(DMTCP)",
];

/// Checks the readers of DMTCP's restart script, of its command's answers, and of its version.
pub(crate) fn dmtcp_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for (image, host) in dmtcp::images_by_host(&text) {
        assert!(
            image.ends_with(".dmtcp")
                && !image.contains('/')
                && text.contains(&image)
                && text.contains(&host),
            "{image} on {host}"
        );
    }
    if dmtcp::parse_status(&text).is_some() {
        assert!(text.contains("NUM_PEERS"));
    }
    if let Some(version) = dmtcp::parse_version(&text) {
        let install = Install {
            bin: "/opt/bin".into(),
            version: Some(version.clone()),
            forks: false,
        };
        assert!(
            install
                .major_minor()
                .is_none_or(|(major, _)| version.contains(&major.to_string())),
            "{version}"
        );
    }
}
