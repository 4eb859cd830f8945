//! Compares the header, sizes, regions, zones, areas and listing of every fixture with expected values.

use crate::common;
use cvc_image::{
    Family, Image, Layout, MpiFlavour, OwnerZone, Part, ReadOptions, Zone, read_image,
    read_image_with, write_listing,
};
use serde_json::Value;
use std::fs;

fn listing(image: &Image) -> String {
    let mut out = Vec::new();
    write_listing(image, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Asserts that everything in `expected` is in `actual`, and that lists have the same length.
fn assert_contains(actual: &Value, expected: &Value, at: &str) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            for (key, value) in expected {
                let found = actual
                    .get(key)
                    .unwrap_or_else(|| panic!("{at}: no key `{key}`"));
                assert_contains(found, value, &format!("{at}.{key}"));
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{at}: length");
            for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
                assert_contains(a, e, &format!("{at}[{i}]"));
            }
        }
        _ => assert_eq!(actual, expected, "{at}"),
    }
}

fn assert_identity(image: &Image) {
    let areas = image.area_headers * 4096 + image.data_bytes;
    assert_eq!(image.fixed_overhead_bytes + areas, image.uncompressed_bytes);
    for rules in [&image.zones.literal, &image.zones.structural] {
        assert_eq!(
            rules.stored_with_headers.sum() + image.fixed_overhead_bytes,
            image.uncompressed_bytes
        );
        assert_eq!(rules.stored.sum(), image.data_bytes);
    }
    let owner = &image.zones.owner;
    assert_eq!(
        owner.stored_with_headers.sum() + image.fixed_overhead_bytes,
        image.uncompressed_bytes
    );
    assert_eq!(owner.stored.sum(), image.data_bytes);
    assert_eq!(image.end_marker_offset + 4096, image.uncompressed_bytes);
}

#[test]
fn every_fixture_reads_as_expected() {
    let mut with_expectation = 0;
    for name in common::fixture_names() {
        let image = read_image_with(&common::fixture(&name), ReadOptions { areas: true })
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(image.gzip);
        assert_identity(&image);

        let expected_listing =
            fs::read_to_string(common::fixtures().join(format!("{name}.listing.txt"))).unwrap();
        assert!(
            listing(&image) == expected_listing,
            "{name}: the listing differs from DMTCP's own"
        );

        let areas = String::from_utf8(common::gunzip(
            &common::fixtures().join(format!("{name}.areas.tsv.gz")),
        ))
        .unwrap();
        let mut rows = areas.lines();
        rows.next();
        for (i, (row, area)) in rows.by_ref().zip(&image.areas).enumerate() {
            let read = format!(
                "{}\t{:#x}\t{:#x}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                area.file_offset,
                area.start,
                area.end,
                area.size,
                area.prot,
                area.flags,
                area.properties,
                area.mmap_file_size,
                area.data_bytes,
                area.name
            );
            assert_eq!(read, row, "{name}: area header {i}");
        }
        assert_eq!(
            areas.lines().count() - 1,
            image.areas.len(),
            "{name}: number of area headers"
        );

        let path = common::fixtures().join(format!("{name}.expected.json"));
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        with_expectation += 1;
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        // These keys say how the fixture and its original were made; they are not in the image.
        for key in ["fixture", "how", "original_gzip", "original_file_bytes"] {
            expected.as_object_mut().unwrap().remove(key);
        }
        assert_contains(&serde_json::to_value(&image).unwrap(), &expected, &name);
    }
    assert!(with_expectation >= 17);
}

#[test]
fn a_plain_file_reads_like_the_gzipped_one() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "v3-single-process",
        "mpich-btW-np4-mpiexec",
        "v2.4-layoutA-synthetic",
        "v2.6-layoutB-synthetic",
        "ompi-bt34A-np4-rank0-noise",
    ] {
        let path = dir.path().join("image.dmtcp");
        fs::write(&path, common::gunzip(&common::fixture(name))).unwrap();
        let options = ReadOptions { areas: true };
        let (plain, gzip) = (
            read_image_with(&path, options).unwrap(),
            read_image_with(&common::fixture(name), options).unwrap(),
        );
        assert!(!plain.gzip && gzip.gzip);
        assert_eq!(plain.file_bytes, plain.uncompressed_bytes);
        assert_eq!(
            (plain.format, &plain.header, &plain.regions, &plain.areas),
            (gzip.format, &gzip.header, &gzip.regions, &gzip.areas),
            "{name}"
        );
        assert_eq!(
            (plain.zones, &plain.sub_zones),
            (gzip.zones, &gzip.sub_zones),
            "{name}"
        );
    }
}

#[test]
fn the_old_layouts_are_recognised() {
    for (name, layout, headers) in [
        ("v2.4-layoutA-synthetic", Layout::A, 60),
        ("v2.6-layoutB-synthetic", Layout::B, 60),
    ] {
        let image = read_image(&common::fixture(name)).unwrap();
        assert_eq!(
            (
                image.format.family,
                image.format.area_layout,
                image.area_headers
            ),
            (Family::V2, layout, headers)
        );
        // None of the first sixty headers is `[heap]`, so the literal rule counts everything as application data.
        assert_eq!(
            image.zones.literal.stored.sum(),
            image.zones.literal.stored.dtapp
        );
    }
    let image = read_image(&common::fixture("v3-single-process")).unwrap();
    assert_eq!(
        (image.format.family, image.format.area_layout),
        (Family::V2, Layout::C)
    );
}

#[test]
fn runs_of_an_old_layout_make_one_region_for_the_structural_rules() {
    use common::Kind;
    let dir = tempfile::tempdir().unwrap();
    for kind in [Kind::A, Kind::B, Kind::C, Kind::V4] {
        let path = dir.path().join("image.dmtcp");
        fs::write(&path, common::small(kind)).unwrap();
        let image = read_image(&path).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
        assert_identity(&image);
        let subs: Vec<_> = image
            .sub_zones
            .iter()
            .map(|sum| (sum.sub.as_str(), sum.stored, sum.headers))
            .collect();
        let runs = if matches!(kind, Kind::A | Kind::B) {
            1
        } else {
            2
        };
        let file = if matches!(kind, Kind::A | Kind::B) {
            ("file", 4096, 1)
        } else {
            ("file", 4096 + 777, 2)
        };
        let expected = [
            ("exe", 8192, 2),
            ("bss", 4096, 1 + runs),
            ("heap", 4096, runs),
            file,
            ("shared", 4096, 1),
            ("stack", 4096, 1),
        ];
        assert_eq!(subs, expected, "{kind:?}");
        assert!(
            image
                .regions
                .iter()
                .all(|region| region.zone == region.literal || region.zone == Zone::Shmem)
        );
        assert_eq!(image.zones.literal, image.zones.structural, "{kind:?}");
    }
}

/// Returns the stored size of a part by the owner rules, MiB.
fn part_mib(image: &Image, part: Part) -> f64 {
    image.zones.owner.stored.get(part) as f64 / f64::from(1 << 20)
}

#[test]
fn what_a_program_allocates_is_its_own_by_the_owner_rules() {
    // programs with known allocations: 32 MiB by their source; the arrays of BT class A of NPB 3.4, which are static in 3.3 (28.56 MiB)
    for (name, library, allocated) in [
        ("mpich5-ch4ofi-np4-rank0", MpiFlavour::MpichCh4Ofi, 32.0),
        ("ompi-bt34A-np4-rank0-noise", MpiFlavour::OpenMpi, 28.56),
        ("v3-single-process", MpiFlavour::None, 64.0),
    ] {
        let image = read_image(&common::fixture(name)).unwrap();
        assert_eq!(
            image.baseline.as_ref().map(|baseline| baseline.library),
            Some(library),
            "{name}"
        );
        let found = part_mib(&image, Part::Allocated);
        assert!(
            (found / allocated - 1.0).abs() < 0.02,
            "{name}: {found} MiB, not {allocated}"
        );
        assert!(
            image.zones.owner.stored.zone(OwnerZone::Shmem) < 1 << 20,
            "{name}"
        );
    }
}

#[test]
fn static_arrays_and_shared_memory_are_by_owner_what_they_are_structurally() {
    for (name, library) in [
        ("mpich-btA-np4-rank0", MpiFlavour::MpichCh3),
        ("mpich-btB-np4-rank0", MpiFlavour::MpichCh3),
        ("mpich-luA-np4-rank2", MpiFlavour::MpichCh3),
        ("ompi-btA-np4-rank0", MpiFlavour::OpenMpi),
    ] {
        let image = read_image(&common::fixture(name)).unwrap();
        let of = |sub: &str| {
            image
                .sub_zones
                .iter()
                .filter(|sum| sum.sub.as_str() == sub)
                .map(|sum| sum.stored)
                .sum::<u64>()
        };
        let stored = &image.zones.owner.stored;
        assert_eq!(stored.get(Part::Static), of("exe") + of("bss"), "{name}");
        assert_eq!(stored.get(Part::Heap), of("heap"), "{name}");
        assert_eq!(stored.get(Part::Shared), of("shared"), "{name}");
        let baseline = image.baseline.as_ref().unwrap();
        assert_eq!(baseline.library, library, "{name}");
        // the remaining library memory is within the interval of the built-in baseline
        let spread = baseline.stored_high_bytes - baseline.stored_low_bytes;
        assert!(
            stored.get(Part::Allocated) <= spread.max(512 << 10),
            "{name}: {}",
            stored.get(Part::Allocated)
        );
    }
}

#[test]
fn nameless_memory_with_an_inode_was_shared() {
    let dir = tempfile::tempdir().unwrap();
    for kind in [
        common::Kind::A,
        common::Kind::B,
        common::Kind::C,
        common::Kind::V4,
    ] {
        let path = dir.path().join("image.dmtcp");
        let mut areas = common::small_areas(kind);
        let at = areas
            .iter()
            .position(|area| area.name.starts_with(b"/dev/shm"))
            .unwrap();
        let start = areas[at].start + 0x10_0000;
        let anonymous = common::Area {
            flags: 0x22,
            mmap_file_size: -1,
            name: Vec::new(),
            ..areas[at].clone()
        };
        areas.insert(
            at + 1,
            common::Area {
                start,
                end: start + 4096,
                inode: 3674,
                ..anonymous.clone()
            },
        );
        areas.insert(
            at + 2,
            common::Area {
                start: start + 0x10_0000,
                end: start + 0x10_1000,
                ..anonymous
            },
        );
        // unlike this image, every real image contains memory of DMTCP; with less than the baseline, all of it may count as the libraries'
        fs::write(&path, common::image(kind, &areas)).unwrap();
        let image = read_image(&path).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
        let stored = &image.zones.owner.stored;
        assert_eq!(stored.get(Part::Shared), 2 * 4096, "{kind:?}");
        assert_eq!(
            stored.get(Part::Allocated) + stored.get(Part::LibraryMemory),
            4096,
            "{kind:?}"
        );
        assert_eq!(
            image.baseline.is_none(),
            matches!(kind, common::Kind::A | common::Kind::B),
            "nothing is known of DMTCP 2.x"
        );
    }
}

#[test]
fn names_that_are_not_utf8_stay_as_they_are_in_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image.dmtcp");
    let mut areas = common::small_areas(common::Kind::V4);
    areas[0].name = b"/home/\xff\xfe/prog".to_vec();
    fs::write(&path, common::image(common::Kind::V4, &areas)).unwrap();
    let image = read_image(&path).unwrap();
    let mut out = Vec::new();
    write_listing(&image, &mut out).unwrap();
    assert!(
        out.windows(13)
            .any(|w| w == b"/home/\xff\xfe/prog"[..13].as_ref())
    );
    assert!(
        serde_json::to_string(&image)
            .unwrap()
            .contains("/home/\u{fffd}\u{fffd}/prog")
    );
}
