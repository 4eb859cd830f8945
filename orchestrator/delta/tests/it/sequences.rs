//! For random changes of a process between checkpoints, each checkpoint is restored byte for byte.

use crate::process::{DATA, PAGE, Process, files};
use cvc_delta::{
    Addressing, BlockSize, Codec, KeptHashes, Method, Series, SeriesOptions, Source, StateFile,
    StateRecord, Threshold, Transform, changed_bytes, sign,
};
use cvc_image::{ReadOptions, read_image_with};
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeMap, fs, path::Path};

/// A change between two checkpoints.
#[derive(Clone, Debug)]
enum Event {
    /// A page gets a different content, or zeros.
    Write(u64, u64),
    /// A page is added or removed.
    Touch(u64),
    Free(u64),
    /// A page gets the content of another page, possibly of the other process.
    Copy(u64, usize, u64),
    /// A file next to the images grows by this number of bytes.
    Append(usize),
    /// The file next to the images gets a different name.
    Rename,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..40_u64, 0..9_u64).prop_map(|(page, number)| Event::Write(page, number * 100)),
        2 => (0..60_u64).prop_map(Event::Touch),
        1 => (0..60_u64).prop_map(Event::Free),
        2 => (0..40_u64, 0..2_usize, 0..40_u64).prop_map(|(to, rank, from)| Event::Copy(to, rank, from)),
        1 => (1..6000_usize).prop_map(Event::Append),
        1 => Just(Event::Rename),
    ]
}

fn options() -> impl Strategy<Value = SeriesOptions> {
    let threshold = prop_oneof![
        (0.0..4.0_f64).prop_map(Threshold::Ratio),
        Just(Threshold::Ratio(f64::INFINITY)),
        (-4096..40_960_i64).prop_map(Threshold::Bytes),
    ];
    let method = (0..5_u8, threshold, 2..5_u32).prop_map(|(n, threshold, files)| match n {
        0 => Method::Full,
        1 => Method::Incremental,
        2 => Method::Differential,
        3 => Method::Adca { threshold },
        _ => Method::Bounded { threshold, files },
    });
    let codec = prop::sample::select(Codec::ALL.to_vec());
    let transform = prop::sample::select(vec![Transform::None, Transform::Shuffle, Transform::Xor]);
    let addressing = prop::sample::select(vec![Addressing::Address, Addressing::Index]);
    let size = prop::sample::select(vec![4096_u64, 8192, 65_536]);
    let packet = prop::sample::select(vec![0_u32, 1, 3, 256]);
    (
        method,
        codec,
        transform,
        addressing,
        size,
        packet,
        any::<bool>(),
    )
        .prop_map(
            |(method, codec, transform, addressing, size, packet_blocks, once)| SeriesOptions {
                method,
                addressing,
                block_bytes: BlockSize::new(size).unwrap(),
                codec,
                transform,
                packet_blocks,
                once,
            },
        )
}

/// Writes a state as files.
fn write(dir: &Path, processes: &[Process], beside: &[u8], gzipped: bool) {
    write_named(dir, processes, "open.txt", beside, gzipped);
}

fn write_named(dir: &Path, processes: &[Process], name: &str, beside: &[u8], gzipped: bool) {
    fs::create_dir(dir).unwrap();
    for process in processes {
        process.write(
            &dir.join(format!("ckpt_prog_{}.dmtcp", process.vpid)),
            gzipped,
        );
    }
    fs::create_dir(dir.join("ckpt_prog_files")).unwrap();
    fs::write(dir.join("ckpt_prog_files").join(name), beside).unwrap();
}

fn record_of(series: &Series, state: u32) -> &StateRecord {
    series.states().iter().find(|s| s.state == state).unwrap()
}

/// The blocks of a state in all files, each with its place and its content.
type Blocks = Vec<((String, u64), Vec<u8>)>;

fn blocks(dir: &Path, options: &SeriesOptions) -> Blocks {
    let size = options.block_bytes.bytes();
    let mut found = Vec::new();
    for (name, bytes) in files(dir) {
        let is_image = name.ends_with(".dmtcp") && options.addressing == Addressing::Address;
        // for each extent: its start in the file, its address, and its length
        let stretches = if is_image {
            let image = read_image_with(&dir.join(&name), ReadOptions { areas: true }).unwrap();
            let areas = image.areas.iter();
            areas
                .map(|a| (a.file_offset + PAGE, a.start, a.data_bytes))
                .collect()
        } else {
            vec![(0, 0, bytes.len() as u64)]
        };
        for (offset, start, length) in stretches {
            let mut at = start;
            while at < start + length {
                let end = (at / size * size + size).min(start + length);
                let from = (offset + at - start) as usize;
                let content = bytes[from..from + (end - at) as usize].to_vec();
                found.push(((name.clone(), at), content));
                at = end;
            }
        }
    }
    found
}

/// Returns the bytes of blocks that differ from the base's block at the same place but equal a block at another place. Compares all blocks with
/// each other.
fn moved(dir: &Path, series: &Series, state: u32) -> u64 {
    let base = record_of(series, state).base.unwrap();
    let [new, old] =
        [state, base].map(|n| blocks(&dir.join(format!("state-{n}")), series.options()));
    new.iter()
        .filter(|(_, content)| content.iter().any(|byte| *byte != 0))
        .filter(|block| !old.contains(block))
        .filter(|(_, content)| old.iter().any(|(_, other)| other == content))
        .map(|(_, content)| content.len() as u64)
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_state_comes_back(
        options in options(),
        steps in prop::collection::vec(prop::collection::vec((0..2_usize, event()), 0..12), 1..7),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut processes = [Process::new(40_000, 30), Process::new(41_000, 30)];
        let mut beside = crate::process::content(4711);
        beside.extend(b"beside");
        let mut name = 0;
        let mut series = Series::create(&dir.path().join("series"), options).unwrap();
        for (n, events) in steps.iter().enumerate() {
            for (rank, event) in events {
                let pages = &mut processes[*rank].pages;
                match event {
                    Event::Write(page, number) => {
                        pages.entry(DATA + page * PAGE).and_modify(|p| *p = *number);
                    }
                    Event::Touch(page) => {
                        pages.entry(DATA + page * PAGE).or_insert(*page + 7);
                    }
                    Event::Free(page) => {
                        pages.remove(&(DATA + page * PAGE));
                    }
                    Event::Append(bytes) => beside.extend(std::iter::repeat_n(b'x', *bytes)),
                    Event::Rename => name += 1,
                    Event::Copy(to, from_rank, from) => {
                        let content = processes[*from_rank].pages.get(&(DATA + from * PAGE));
                        if let Some(number) = content.copied() {
                            processes[*rank].pages.insert(DATA + to * PAGE, number);
                        }
                    }
                }
            }
            let state = dir.path().join(format!("state-{}", n + 1));
            write_named(&state, &processes, &format!("segment-{name}"), &beside, false);
            let record = series.add(&state, &|_| {}).unwrap();
            prop_assert_eq!(record.state as usize, n + 1);
            prop_assert!(record.moved_bytes <= record.changed_bytes);
        }
        for n in 1..=steps.len() {
            let state = u32::try_from(n).unwrap();
            let to = dir.path().join(format!("restored-{n}"));
            series.restore(state, &to, &|_| {}).unwrap();
            let was = dir.path().join(format!("state-{n}"));
            prop_assert!(files(&to) == files(&was));
            series.verify(state, Some(&was), &|_| {}).unwrap();
            if options.once && record_of(&series, state).base.is_some() {
                prop_assert_eq!(record_of(&series, state).moved_bytes, moved(dir.path(), &series, state));
            }
            if let Method::Bounded { files, .. } = options.method {
                prop_assert!(series.chain_of(state).unwrap().len() <= files as usize);
            }
        }
    }

    #[test]
    fn what_changed_is_what_a_comparison_of_all_pages_finds(
        events in prop::collection::vec(event(), 0..30),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let before = Process::new(40_000, 30);
        let mut after = before.clone();
        for event in &events {
            match event {
                Event::Write(page, number) => {
                    after.pages.entry(DATA + page * PAGE).and_modify(|p| *p = *number);
                }
                Event::Touch(page) => {
                    after.pages.entry(DATA + page * PAGE).or_insert(*page + 7);
                }
                Event::Free(page) => {
                    after.pages.remove(&(DATA + page * PAGE));
                }
                Event::Copy(..) | Event::Append(_) | Event::Rename => {}
            }
        }
        let signed = |process: &Process, name: &str| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).unwrap();
            process.write(&dir.join("ckpt.dmtcp"), false);
            sign(&Source::list(&dir).unwrap(), Addressing::Address, BlockSize::PAGE, &|_| {}).unwrap()
        };
        let differs = |new: &BTreeMap<u64, u64>, old: &BTreeMap<u64, u64>| {
            new.iter().filter(|(page, number)| old.get(page) != Some(number)).count() as u64 * PAGE
        };
        let (old, new) = (signed(&before, "old"), signed(&after, "new"));
        prop_assert_eq!(changed_bytes(&new, &old), differs(&after.pages, &before.pages));
        prop_assert_eq!(changed_bytes(&old, &new), differs(&before.pages, &after.pages));
    }
}

#[test]
fn a_page_that_comes_moves_nothing_by_address_and_everything_behind_it_by_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 200);
    process.pages.remove(&(DATA + 10 * PAGE));
    let stored = |addressing: Addressing, process: &Process| {
        let series = dir.path().join(format!("{addressing:?}"));
        let mut series = Series::create(
            &series,
            SeriesOptions {
                addressing,
                method: Method::Incremental,
                ..SeriesOptions::default()
            },
        )
        .unwrap();
        let mut grown = process.clone();
        grown.pages.insert(DATA + 10 * PAGE, 11);
        let mut last = None;
        for (n, process) in [process, &grown].into_iter().enumerate() {
            let path = dir.path().join(format!("{addressing:?}-{n}"));
            fs::create_dir(&path).unwrap();
            process.write(&path.join("ckpt.dmtcp"), false);
            last = Some(series.add(&path, &|_| {}).unwrap());
        }
        last.unwrap().changed_bytes
    };
    assert_eq!(stored(Addressing::Address, &process), PAGE);
    assert!(stored(Addressing::Index, &process) > 180 * PAGE);
}

#[test]
fn a_gzipped_image_comes_back_inflated() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 50);
    let mut series = Series::create(
        &dir.path().join("series"),
        SeriesOptions {
            method: Method::Incremental,
            ..SeriesOptions::default()
        },
    )
    .unwrap();
    for n in 1..=3_u32 {
        process
            .pages
            .insert(DATA + u64::from(n) * PAGE, 1000 + u64::from(n));
        let packed = dir.path().join(format!("gzip-{n}"));
        let plain = dir.path().join(format!("plain-{n}"));
        write(&packed, &[process.clone()], b"", true);
        write(&plain, &[process.clone()], b"", false);
        let record = series.add(&packed, &|_| {}).unwrap();
        assert!(n == 1 || record.changed_bytes == PAGE, "{record:?}");
        series
            .restore(n, &dir.path().join(format!("back-{n}")), &|_| {})
            .unwrap();
        assert!(files(&dir.path().join(format!("back-{n}"))) == files(&plain));
        series.verify(n, Some(&packed), &|_| {}).unwrap();
    }
}

#[test]
fn a_gzipped_image_is_compared_by_index_as_the_plain_one_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 50);
    let options = SeriesOptions {
        method: Method::Incremental,
        addressing: Addressing::Index,
        ..SeriesOptions::default()
    };
    let mut of_gzip = Series::create(&dir.path().join("of-gzip"), options).unwrap();
    let mut of_plain = Series::create(&dir.path().join("of-plain"), options).unwrap();
    for n in 1..=2 {
        process.pages.insert(DATA + n * PAGE, 1000 + n);
        let packed = dir.path().join(format!("gzip-{n}"));
        let plain = dir.path().join(format!("plain-{n}"));
        write(&packed, &[process.clone()], b"", true);
        write(&plain, &[process.clone()], b"", false);
        let (a, b) = (
            of_gzip.add(&packed, &|_| {}).unwrap(),
            of_plain.add(&plain, &|_| {}).unwrap(),
        );
        assert_eq!(a.changed_bytes, b.changed_bytes);
        of_gzip.verify(a.state, Some(&plain), &|_| {}).unwrap();
    }
}

#[test]
fn what_ranks_have_in_common_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    for vpid in 0..4 {
        let mut process = Process::new(40_000 + vpid, 100);
        process
            .pages
            .insert(DATA, 5000 + u64::try_from(vpid).unwrap());
        process.write(&state.join(format!("ckpt_{vpid}.dmtcp")), false);
    }
    let size = |once: bool| {
        let options = SeriesOptions {
            once,
            codec: Codec::None,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&dir.path().join(format!("{once}")), options).unwrap();
        series.add(&state, &|_| {}).unwrap().packet_bytes
    };
    assert_eq!(size(false), 400 * PAGE);
    assert_eq!(size(true), 103 * PAGE);
}

/// Restores more files than can stay open, with blocks in the same packets; each state also with XOR. Each byte is reported as progress once.
#[test]
fn many_files_with_the_same_blocks_come_back_and_each_byte_is_told_once() {
    for transform in [Transform::None, Transform::Xor] {
        let dir = tempfile::tempdir().unwrap();
        let options = SeriesOptions {
            method: Method::Incremental,
            addressing: Addressing::Index,
            packet_blocks: 8,
            transform,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&dir.path().join("series"), options).unwrap();
        for t in 1..=3_u64 {
            let state = dir.path().join(t.to_string());
            fs::create_dir(&state).unwrap();
            for n in 0..300_u64 {
                // unique blocks, blocks common to several files, zeros, unchanged blocks, and a short block
                let mut bytes = Vec::new();
                for number in [1000 * t + n, t + n % 7, 0, 0, n, 5000 + (n + t) % 11] {
                    bytes.extend(crate::process::content(number));
                }
                bytes.extend(vec![t as u8; n as usize]);
                fs::write(state.join(format!("{n:03}")), bytes).unwrap();
            }
            fs::write(state.join("empty"), b"").unwrap();
            fs::write(state.join("zeros"), vec![0; 1 << 20]).unwrap();
            series.add(&state, &|_| {}).unwrap();
        }
        for t in 1..=3_u32 {
            let (was, to) = (
                dir.path().join(t.to_string()),
                dir.path().join(format!("r{t}")),
            );
            let told = Cell::new(0);
            series
                .restore(t, &to, &|bytes| told.set(told.get() + bytes))
                .unwrap();
            let was = files(&was);
            assert!(files(&to) == was, "{transform:?}, {t}");
            let all: u64 = was.values().map(|bytes| bytes.len() as u64).sum();
            assert_eq!(told.get(), all, "{transform:?}, {t}");
        }
    }
}

#[test]
fn one_block_is_read_from_one_packet() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::new(40_000, 64);
    let options = SeriesOptions {
        packet_blocks: 4,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&dir.path().join("series"), options).unwrap();
    for n in 0..2 {
        process.pages.insert(DATA + 5 * PAGE, 900 + n);
        let state = dir.path().join(format!("state-{n}"));
        write(&state, &[process.clone()], b"", false);
        series.add(&state, &|_| {}).unwrap();
    }
    let name = "ckpt_prog_40000.dmtcp";
    let mut chain = series.chain(2).unwrap();
    assert_eq!(chain.len(), 2);
    assert_eq!(
        chain.block(name, DATA + 5 * PAGE + 17).unwrap(),
        crate::process::content(901)
    );
    assert_eq!(
        chain.block(name, DATA + 6 * PAGE).unwrap(),
        crate::process::content(7)
    );
    let error = chain.block(name, 0x10).unwrap_err().to_string();
    assert!(
        error.contains("no block at 0x10 of ckpt_prog_40000.dmtcp"),
        "{error}"
    );
}

#[test]
fn what_is_at_another_place_of_the_base_is_not_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let shared: Vec<u8> = (0..20)
        .flat_map(|n| crate::process::content(7000 + n))
        .collect();
    for transform in [Transform::None, Transform::Shuffle, Transform::Xor] {
        let mut processes = [Process::new(40_000, 50), Process::new(41_000, 50)];
        let place = dir.path().join(transform.as_str());
        fs::create_dir(&place).unwrap();
        let options = SeriesOptions {
            method: Method::Incremental,
            codec: Codec::None,
            transform,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&place.join("series"), options).unwrap();
        let mut add = |n: u32, processes: &[Process], name: &str| {
            let state = place.join(n.to_string());
            write_named(&state, processes, name, &shared, false);
            series.add(&state, &|_| {}).unwrap()
        };
        add(1, &processes, "SYSV-1");
        // the shared memory has another name, a rank has a page of the other rank, and one page is new
        processes[0].pages.insert(DATA + 3 * PAGE, 7001);
        processes[1].pages.insert(DATA + 4 * PAGE, 17);
        processes[1].pages.insert(DATA + 90 * PAGE, 99_000);
        let record = add(2, &processes, "SYSV-2");
        assert_eq!(record.changed_bytes, 23 * PAGE);
        assert_eq!(record.moved_bytes, 22 * PAGE);
        assert_eq!((record.new_bytes, record.packet_bytes), (Some(PAGE), PAGE));
        // blocks that the previous state referred to are referred to again
        let record = add(3, &processes, "SYSV-3");
        assert_eq!((record.changed_bytes, record.packet_bytes), (20 * PAGE, 0));
        for n in 1..=3 {
            let back = place.join(format!("back-{n}"));
            series.restore(n, &back, &|_| {}).unwrap();
            assert!(files(&back) == files(&place.join(n.to_string())));
            series
                .verify(n, Some(&place.join(n.to_string())), &|_| {})
                .unwrap();
        }
        // states that it refers to are not removed
        assert!(series.prune(1).unwrap().is_empty());
        let file = place.join("series/0002.state");
        let summary = StateFile::open(&file).unwrap().summary().clone();
        let moved: u64 = summary.images.iter().map(|i| i.moved_bytes).sum();
        assert_eq!(moved, 22 * PAGE);
    }
}

#[test]
fn without_once_everything_that_changed_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let options = SeriesOptions {
        method: Method::Incremental,
        codec: Codec::None,
        once: false,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&dir.path().join("series"), options).unwrap();
    for (n, name) in ["SYSV-1", "SYSV-2"].into_iter().enumerate() {
        let state = dir.path().join(n.to_string());
        write_named(&state, &[], name, &crate::process::content(3), false);
        let record = series.add(&state, &|_| {}).unwrap();
        assert_eq!((record.packet_bytes, record.moved_bytes), (PAGE, 0));
    }
}

#[test]
fn series_of_the_first_version_are_read_and_go_on() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("series");
    fs::create_dir(&place).unwrap();
    for (name, bytes) in files(&root.join("version-1")) {
        if name.ends_with(".state") {
            assert_eq!(bytes[..8], *b"cvcdelt\x01");
        }
        fs::write(place.join(name), bytes).unwrap();
    }
    let mut series = Series::open(&place).unwrap();
    let state = |n: u32| root.join("relax").join(n.to_string());
    for n in 1..=3 {
        let verified = series.verify(n, Some(&state(n)), &|_| {}).unwrap();
        assert!(
            !matches!(verified.hashes, KeptHashes::MadeAgain(_)),
            "{verified:?}"
        );
    }
    let record = series.add(&state(4), &|_| {}).unwrap();
    assert_eq!((record.state, record.base), (4, Some(3)));
    series.verify(4, Some(&state(4)), &|_| {}).unwrap();
    assert!(series.take_made_again().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Reads ranges that begin and end anywhere: in headers, in blocks, beyond the end.
    #[test]
    fn a_stretch_of_a_file_is_what_the_file_has_there(
        options in options(),
        stretches in prop::collection::vec((0..200_000_u64, 0..40_000_u64), 1..8),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Process::new(40_000, 30);
        let mut series = Series::create(&dir.path().join("series"), options).unwrap();
        for n in 1..=3 {
            process.pages.insert(DATA + n * PAGE, 1000 * n);
            process.pages.insert(DATA + 2 * n * PAGE + 40 * PAGE, 3);
            write(&dir.path().join(n.to_string()), &[process.clone()], b"beside", false);
            series.add(&dir.path().join(n.to_string()), &|_| {}).unwrap();
        }
        let mut chain = series.chain(3).unwrap();
        for (name, bytes) in files(&dir.path().join("3")) {
            for (from, length) in &stretches {
                let mut read = Vec::new();
                chain.read(&name, *from..from + length, &mut |bytes| {
                    read.extend_from_slice(bytes);
                    Ok(())
                }).unwrap();
                let end = bytes.len() as u64;
                let (from, to) = ((*from).min(end) as usize, (from + length).min(end) as usize);
                prop_assert!(read == bytes[from..to], "{name} {from}..{to}");
            }
        }
    }
}

#[test]
fn a_file_that_a_state_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut series = Series::create(&dir.path().join("series"), SeriesOptions::default()).unwrap();
    write(&dir.path().join("1"), &[], b"beside", false);
    series.add(&dir.path().join("1"), &|_| {}).unwrap();
    let mut chain = series.chain(1).unwrap();
    let error = chain.read("open.txt", 0..9, &mut |_| Ok(())).unwrap_err();
    let said = "no file `open.txt` in this state: it has ckpt_prog_files/open.txt";
    assert!(error.to_string().ends_with(said), "{error}");
}
