//! Counters of metadata operations in recorded samples.

use cvc_trace::metadata_operations::{
    COUNTERS, CounterError, CounterOptions, CounterSnapshot, MetadataCounts, MetadataKind,
    difference, read_counters, since_start,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/metadata")
        .join(name)
}

fn read(path: &Path) -> CounterSnapshot {
    read_counters(path, &CounterOptions::default()).unwrap()
}

fn counted(of: &MetadataCounts) -> BTreeMap<&'static str, u64> {
    of.kinds
        .iter()
        .map(|of| (of.kind.word(), of.count.unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn expect(of: &MetadataCounts, kinds: &[(&'static str, u64)]) {
    assert_eq!(
        counted(of),
        kinds.iter().copied().collect::<BTreeMap<_, _>>()
    );
    assert_eq!(of.total, Some(kinds.iter().map(|(_, count)| count).sum()));
}

#[test]
fn glusterfs_counts_calls_of_each_brick_from_text_and_xml() {
    for kind in ["txt", "xml"] {
        let before = read(&data(&format!("glusterfs/before.{kind}")));
        let after = read(&data(&format!("glusterfs/after.{kind}")));
        let counts = difference(&before, &after, None);
        assert_eq!(counts.counter, "glusterfs");
        let bricks: Vec<&str> = counts.sources.iter().map(|of| of.source.as_str()).collect();
        assert_eq!(bricks, ["n1:/bricks/v", "n2:/bricks/v"]);
        // eight files, each created, flushed and synced once
        let kinds = counted(&counts);
        for of in ["create", "close", "sync"] {
            assert_eq!(kinds.get(of), Some(&8), "{kind}: {kinds:?}");
        }
        let second = &counts.sources[1];
        assert_eq!(second.kinds[&MetadataKind::Create], 5);
        assert_eq!(second.native["CREATE"].count, 5);
        assert!(!second.native.contains_key("WRITE"));
    }
    let text = difference(
        &read(&data("glusterfs/before.txt")),
        &read(&data("glusterfs/after.txt")),
        None,
    );
    expect(
        &text,
        &[
            ("create", 8),
            ("close", 8),
            ("sync", 8),
            ("lookup", 88),
            ("getattr", 2),
        ],
    );
}

#[test]
fn moosefs_counts_operations_and_messages_of_each_mount_without_its_housekeeping() {
    let (idle, before, after) = (
        read(&data("moosefs/idle")),
        read(&data("moosefs/before")),
        read(&data("moosefs/after")),
    );
    let counts = difference(&before, &after, Some((&idle, &before)));
    // four processes, three checkpoints: the first process creates the file, the others open it
    expect(
        &counts,
        &[
            ("create", 3),
            ("open", 9),
            ("close", 12),
            ("lookup", 12),
            ("sync", 12),
        ],
    );
    assert_eq!(counts.sources.len(), 4);
    assert_eq!(counts.messages, Some(58));
    assert_eq!(counts.notes, Vec::<String>::new());
    let with_reading = difference(&before, &after, None);
    assert!(with_reading.total > counts.total, "{with_reading:?}");
}

#[test]
fn orangefs_counts_requests_that_began_by_server() {
    let before = read(&data("orangefs/before"));
    let counts = difference(&before, &read(&data("orangefs/after")), None);
    // two clients query the configuration of each of two servers and of one more
    expect(
        &counts,
        &[
            ("configuration", 6),
            ("getattr", 4),
            ("create", 1),
            ("directory-entry", 1),
            ("sync", 2),
        ],
    );
    let configuration: Vec<u64> = counts
        .sources
        .iter()
        .map(|of| of.kinds[&MetadataKind::Configuration])
        .collect();
    assert_eq!(configuration, [4, 2]);
}

#[test]
fn nfs_counts_each_mount_and_tells_version_4_from_3() {
    let (before, after) = (read(&data("nfs/before")), read(&data("nfs/after")));
    let counts = difference(&before, &after, None);
    let sources: Vec<&str> = counts.sources.iter().map(|of| of.source.as_str()).collect();
    assert_eq!(sources, ["node /home", "node /scratch"]);
    let [home, scratch] = &counts.sources[..] else {
        panic!("{sources:?}");
    };
    assert_eq!(home.kinds[&MetadataKind::Create], 8);
    assert_eq!(home.kinds[&MetadataKind::Sync], 8);
    // in NFS version 4, CREATE makes directories, and OPEN makes files
    assert_eq!(scratch.kinds.get(&MetadataKind::Create), None);
    assert_eq!(scratch.kinds[&MetadataKind::Open], 20);
    assert_eq!(scratch.kinds[&MetadataKind::DirectoryEntry], 8);
    assert_eq!(scratch.kinds[&MetadataKind::Lock], 18);
    assert_eq!(before.sources["node /home"].age_s, Some(1000.0));
}

#[test]
fn lustre_counts_requests_to_metadata_servers_once() {
    let counts = difference(
        &read(&data("lustre/before")),
        &read(&data("lustre/after")),
        None,
    );
    expect(
        &counts,
        &[
            ("create", 3),
            ("lookup", 51),
            ("getattr", 9),
            ("setattr", 6),
            ("lock", 27),
            ("sync", 24),
            ("close", 24),
            ("unlink", 3),
            ("rename", 3),
        ],
    );
    assert_eq!(counts.notes.len(), 2, "{:?}", counts.notes);
}

#[test]
fn strace_counts_calls_below_a_directory_and_lookups_in_vain() {
    let options = CounterOptions {
        under: Some(b"/scratch".to_vec()),
    };
    let counts = since_start(&read_counters(&data("strace"), &options).unwrap());
    expect(
        &counts,
        &[
            ("create", 4),
            ("open", 2),
            ("lookup", 2),
            ("getattr", 4),
            ("directory-entry", 6),
            ("sync", 4),
            ("close", 6),
            ("unlink", 2),
            ("rename", 4),
        ],
    );
    assert_eq!(counts.sources.len(), 2);
    assert_eq!(counts.sources[0].native["openat (O_CREAT)"].count, 2);
    let all = since_start(&read(&data("strace")));
    assert!(all.total > counts.total);
}

fn in_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counts");
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn torn_calls_are_counted_once_and_relative_paths_stand_below_their_directory() {
    let (_dir, path) = in_file(
        "7 1700000000.000001 openat(AT_FDCWD</scratch/a>, \"x\", O_RDWR|O_CREAT, 0644 <unfinished ...>\n\
         8 1700000000.000002 openat(5</scratch>, \"y\", O_RDONLY <unfinished ...>\n\
         7 1700000000.000003 <... openat resumed>) = 3</scratch/a/x> <0.000010>\n\
         8 1700000000.000004 <... openat resumed>) = 4</scratch/y> <0.000010>\n\
         8 1700000000.000005 close(4</scratch/y>) = 0 <0.000010>\n\
         8 1700000000.000006 close(9</scratchy/z>) = 0 <0.000010>\n\
         8 1700000000.000007 close(10<socket:[12]>) = 0 <0.000010>\n\
         7 1700000000.000008 fcntl(3</scratch/a/x>, F_SETLKW, {l_type=F_WRLCK}) = 0 <0.000010>\n\
         7 1700000000.000009 fcntl(3</scratch/a/x>, F_GETFL) = 0 <0.000010>\n\
         7 1700000000.000010 close(3) = 0 <0.000010>\n",
    );
    let options = CounterOptions {
        under: Some(b"/scratch/".to_vec()),
    };
    let counts = since_start(&read_counters(&path, &options).unwrap());
    expect(
        &counts,
        &[("create", 1), ("open", 1), ("close", 1), ("lock", 1)],
    );
    assert!(
        counts.notes[0].contains("record with -y"),
        "{:?}",
        counts.notes
    );
}

#[test]
fn a_lost_node_and_a_counter_that_began_anew_make_counts_unknown() {
    let (before, after) = (read(&data("moosefs/before")), read(&data("moosefs/after")));
    let mut lost = after.clone();
    lost.sources.remove("m2");
    let counts = difference(&before, &lost, None);
    assert_eq!((counts.total, counts.messages), (None, None));
    assert!(counts.kinds.iter().all(|of| of.count.is_none()));
    let of_lost = counts.sources.iter().find(|of| of.source == "m2").unwrap();
    assert!(of_lost.unknown.as_ref().unwrap().contains("lost"));
    // a mount that reconnected, counters that decreased, a profile with a lower age
    let mut again = after.clone();
    again.sources.get_mut("m1").unwrap().generation = Some(1);
    assert_eq!(difference(&before, &again, None).total, None);
    assert_eq!(difference(&after, &before, None).total, None);
    let (mut older, younger) = (
        read(&data("glusterfs/before.txt")),
        read(&data("glusterfs/after.txt")),
    );
    older.sources.get_mut("n1:/bricks/v").unwrap().age_s = Some(900.0);
    assert_eq!(difference(&older, &younger, None).total, None);
    // a new node has no earlier counts
    assert_eq!(difference(&lost, &after, None).total, None);
}

#[test]
fn a_restarted_orangefs_server_makes_its_counts_unknown() {
    let before = read(&data("orangefs/before"));
    let mut after = read(&data("orangefs/after"));
    after.sources.get_mut("s2.log").unwrap().generation = Some(2);
    let counts = difference(&before, &after, None);
    assert_eq!(counts.total, None);
    assert_eq!(counts.sources[0].unknown, None);
}

#[test]
fn idle_counts_beyond_those_of_the_run_are_reported() {
    let (before, after) = (read(&data("moosefs/before")), read(&data("moosefs/after")));
    let counts = difference(&before, &before, Some((&before, &after)));
    assert_eq!(counts.total, Some(0));
    assert!(
        counts.notes[0].contains("over a time as long as the run"),
        "{:?}",
        counts.notes
    );
}

#[test]
fn other_texts_and_mixed_directories_are_refused() {
    let refused = |path: &Path| read_counters(path, &CounterOptions::default()).unwrap_err();
    let (dir, path) = in_file("nothing\nof use\n");
    assert!(matches!(refused(&path), CounterError::Unrecognised { .. }));
    assert!(matches!(
        refused(&dir.path().join("none")),
        CounterError::Read { .. }
    ));
    fs::copy(data("nfs/before"), dir.path().join("a")).unwrap();
    fs::copy(data("lustre/before"), dir.path().join("b")).unwrap();
    fs::remove_file(&path).unwrap();
    let error = refused(dir.path());
    assert!(
        error
            .to_string()
            .ends_with("has counts of lustre, but the other files have counts of nfs"),
        "{error}"
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(refused(empty.path()), CounterError::Empty { .. }));
}

#[test]
fn each_sample_is_recognised_by_one_counter_only() {
    for (name, sample) in [
        ("glusterfs", "glusterfs/before.txt"),
        ("glusterfs", "glusterfs/before.xml"),
        ("moosefs", "moosefs/before/m0"),
        ("nfs", "nfs/before"),
        ("lustre", "lustre/before"),
        ("orangefs", "orangefs/before/s1.log"),
        ("strace", "strace/rank0.strace"),
    ] {
        let text = fs::read_to_string(data(sample)).unwrap();
        let recognising: Vec<&str> = COUNTERS
            .iter()
            .filter(|of| text.lines().any(|line| of.recognises(line.as_bytes())))
            .map(|of| of.name())
            .collect();
        assert_eq!(recognising, [name], "{sample}");
    }
}

#[test]
fn a_million_lines_of_an_access_log_are_counted_in_bounded_memory() {
    let line = |i: u64, what: &str| {
        format!("[A 11/27 20:10:00.{i:06}] root.root@10.0.0.1 H={i} S=0x5581c0: getattr: {what}\n")
    };
    let mut text = String::new();
    for i in 0..500_000 {
        text += &line(i, "start");
        text += &line(i, "finish (Success)");
    }
    let (_dir, path) = in_file(&text);
    let began = Instant::now();
    let counts = since_start(&read(&path));
    let seconds = began.elapsed().as_secs_f64();
    expect(&counts, &[("getattr", 500_000)]);
    assert!(seconds < 20.0, "{seconds} s");
}
