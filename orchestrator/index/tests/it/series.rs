//! Reads records of images and of series of checkpoints back from the index.

use crate::made::{Made, Value};
use cvc_core::record::{
    Unit::{Bytes, Seconds},
    names,
};

const STORED: &str = "series_stored_bytes";

#[test]
fn volumes_of_a_series_are_means_with_the_checkpoint_that_they_rest_on() {
    let mut made = Made::new(1, 2);
    let label = |ckpt: &'static str, base: &'static str| {
        [("ckpt", ckpt), ("method", "incremental"), ("base", base)]
    };
    let [first, second, third, other] =
        [("2", "0"), ("3", "2"), ("10", "3"), ("10", "2")].map(|(c, b)| label(c, b));
    let run: [Value<'_>; 3] = [
        (STORED, 100.0, Bytes, &first),
        (STORED, 10.0, Bytes, &second),
        (STORED, 20.0, Bytes, &third),
    ];
    let again: [Value<'_>; 3] = [
        (STORED, 200.0, Bytes, &first),
        (STORED, 30.0, Bytes, &second),
        (STORED, 40.0, Bytes, &other),
    ];
    made.succeed("p0-w1", &[(STORED, 9999.0, Bytes, &first)]);
    made.succeed("p0-1", &run);
    made.succeed("p0-2", &again);
    let volumes = made.index().series_volumes().expect("volumes");
    let of: Vec<(u32, bool, Option<u32>, f64)> = volumes
        .iter()
        .map(|v| (v.ckpt, v.is_first, v.base, v.bytes))
        .collect();
    // checkpoints are sorted as numbers: 10 comes last; if runs differ in the base, there is none
    assert_eq!(
        of,
        [
            (2, true, None, 150.0),
            (3, false, Some(2), 20.0),
            (10, false, None, 30.0)
        ]
    );
    assert!(
        volumes
            .iter()
            .all(|v| v.method == "incremental" && v.point == "p0")
    );
}

#[test]
fn stored_files_have_their_method_codec_block_and_whether_they_were_live() {
    let mut made = Made::new(1, 1);
    let plain = [
        ("ckpt", "2"),
        ("method", "full"),
        ("codec", "zstd"),
        ("block", "4096"),
    ];
    let live = [
        ("ckpt", "1"),
        ("method", "full"),
        ("codec", "zstd"),
        ("block", "4096"),
        ("live", "true"),
    ];
    let whole = [("method", "full"), ("codec", "none"), ("block", "512")];
    let without = [("ckpt", "1"), ("method", "full"), ("codec", "zstd")];
    let records: [Value<'_>; 4] = [
        ("series_file_bytes", 5.0, Bytes, &plain),
        ("series_file_bytes", 7.0, Bytes, &live),
        ("series_file_bytes", 9.0, Bytes, &whole),
        ("series_file_bytes", 11.0, Bytes, &without),
    ];
    made.succeed("p0-1", &records);
    let stored = made
        .index()
        .series_stored("series_file_bytes")
        .expect("files");
    let of: Vec<(&str, u32, u32, bool, f64)> = stored
        .iter()
        .map(|s| (s.codec.as_str(), s.block, s.ckpt, s.is_live, s.value))
        .collect();
    assert_eq!(
        of,
        [
            ("none", 512, 0, false, 9.0),
            ("zstd", 4096, 1, true, 7.0),
            ("zstd", 4096, 2, false, 5.0)
        ]
    );
}

#[test]
fn states_and_changes_of_a_series_are_in_the_order_of_its_checkpoints() {
    let mut made = Made::new(1, 1);
    let ckpt = |n: &'static str| [("ckpt", n)];
    let (two, ten) = (ckpt("2"), ckpt("10"));
    let since = |n: &'static str, since: &'static str| [("ckpt", n), ("since", since)];
    let (direct, over) = (since("3", "2"), since("10", "2"));
    let zone = [
        ("ckpt", "3"),
        ("since", "2"),
        ("zone", "LB"),
        ("rule", "owner"),
    ];
    let old = [
        ("ckpt", "3"),
        ("since", "1"),
        ("zone", "LB"),
        ("rule", "owner"),
    ];
    let records: [Value<'_>; 8] = [
        ("series_at_s", 30.0, Seconds, &ten),
        ("series_bytes", 300.0, Bytes, &ten),
        ("series_at_s", 10.0, Seconds, &two),
        ("series_bytes", 200.0, Bytes, &two),
        ("series_changed_bytes", 9.0, Bytes, &over),
        ("series_changed_bytes", 5.0, Bytes, &direct),
        ("series_zone_changed_bytes", 4.0, Bytes, &zone),
        ("series_zone_changed_bytes", 400.0, Bytes, &old),
    ];
    made.succeed("p0-1", &records);
    made.succeed("p0-w1", &records);
    let index = made.index();
    let states = index.series_states().expect("states");
    let of: Vec<(u32, f64, f64)> = states.iter().map(|s| (s.ckpt, s.at_s, s.bytes)).collect();
    assert_eq!(of, [(2, 10.0, 200.0), (10, 30.0, 300.0)]);
    let changes = index.series_changes().expect("changes");
    let of: Vec<(u32, u32, Option<&str>, f64)> = changes
        .iter()
        .map(|c| (c.ckpt, c.since, c.zone.as_deref(), c.bytes))
        .collect();
    assert_eq!(
        of,
        [
            (3, 1, Some("LB"), 400.0),
            (3, 2, None, 5.0),
            (3, 2, Some("LB"), 4.0),
            (10, 2, None, 9.0)
        ]
    );
    let zones = index.series_zone_volumes().expect("zones");
    let of: Vec<(&str, u32, f64)> = zones
        .iter()
        .map(|z| (z.zone.as_str(), z.ckpt, z.bytes))
        .collect();
    assert_eq!(of, [("LB", 3, 4.0)]);
}

#[test]
fn zones_and_images_of_a_run_are_found() {
    let mut made = Made::new(1, 1);
    let zone = |ckpt: &'static str, rank: &'static str| {
        [
            ("ckpt", ckpt),
            ("rank", rank),
            ("zone", "LB"),
            ("rule", "owner"),
        ]
    };
    let [a, b, c] = [zone("1", "0"), zone("1", "1"), zone("2", "0")];
    let (image, launcher) = ([("ckpt", "1"), ("rank", "0")], [("role", "launcher")]);
    let sub = [("ckpt", "1"), ("zone", "LB"), ("sub", "heap")];
    let literal = [
        ("ckpt", "1"),
        ("rank", "0"),
        ("zone", "LB"),
        ("rule", "literal"),
    ];
    let records: [Value<'_>; 7] = [
        ("zone_bytes", 99.0, Bytes, &literal),
        ("zone_bytes", 3.0, Bytes, &a),
        ("zone_bytes", 4.0, Bytes, &b),
        ("zone_bytes", 5.0, Bytes, &c),
        ("image_bytes", 50.0, Bytes, &image),
        ("image_bytes", 60.0, Bytes, &launcher),
        ("sub_zone_bytes", 1.0, Bytes, &sub),
    ];
    made.succeed("p0-1", &records);
    made.succeed("p0-w1", &records);
    let index = made.index();
    let zones = index.zone_sizes().expect("zones");
    let of_run: Vec<(&str, f64)> = zones
        .iter()
        .filter(|z| z.run == "p0-1")
        .map(|z| (z.zone.as_str(), z.bytes))
        .collect();
    assert_eq!(of_run, [("LB", 7.0)], "the largest checkpoint by owner");
    let mut sizes = Vec::new();
    index
        .each_image_size(names::IMAGE_BYTES, |size| {
            sizes.push((size.run, size.ckpt, size.bytes))
        })
        .expect("sizes");
    assert_eq!(sizes, [("p0-1".to_owned(), "1".to_owned(), 50.0)]);
    let images = index.image_records("p0-1").expect("records");
    assert_eq!(images.len(), 7);
    let heap = images.iter().find(|r| r.name == "sub_zone_bytes");
    assert_eq!(heap.and_then(|r| r.sub.as_deref()), Some("heap"));
    let of_launcher = images.iter().find(|r| r.role.is_some()).expect("an image");
    assert_eq!((of_launcher.ckpt.as_str(), of_launcher.value), ("", 60.0));
}

#[test]
fn records_are_read_with_their_runs() {
    let mut made = Made::new(1, 1);
    let labels = [
        ("ckpt", "1"),
        ("rank", "3"),
        ("zone", "LB"),
        ("kind", "k"),
        ("rule", "owner"),
    ];
    made.succeed("p0-1", &[("zone_bytes", 3.5, Bytes, &labels)]);
    let mut seen = Vec::new();
    made.index()
        .each_record(|record| {
            seen.push((record.text.map(|t| t.map(str::to_owned)), record.value));
            Ok(())
        })
        .expect("records");
    let (text, value) = &seen[0];
    let of = |column: &str| {
        let columns = cvc_index::LabelledRecord::COLUMNS;
        let at = columns.iter().position(|name| *name == column);
        text[at.expect("a column")].as_deref()
    };
    assert_eq!((seen.len(), *value), (1, Some(3.5)));
    for (column, expected) in [
        ("run", "p0-1"),
        ("run_kind", "measured"),
        ("repeat", "1"),
        ("state", "succeeded"),
        ("name", "zone_bytes"),
        ("unit", "bytes"),
        ("source", "clock"),
        ("ckpt", "1"),
        ("rank", "3"),
        ("zone", "LB"),
        ("kind", "k"),
        ("rule", "owner"),
    ] {
        assert_eq!(of(column), Some(expected), "{column}");
    }
    assert_eq!(
        (of("artefact"), of("role"), of("image")),
        (None, None, None)
    );
}
