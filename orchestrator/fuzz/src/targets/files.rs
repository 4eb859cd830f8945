//! Targets for files of campaigns and spools, and for archives from nodes.

use super::scratch::{side, with_dir};
use camino::{Utf8Component, Utf8Path};
use cvc_agent::{Event as AgentEvent, EventLog, OldEvents};
use cvc_core::ids::{NodeName, SiteName, is_path_part};
use cvc_core::store::{
    CampaignDir, LineFile, check_manifest,
    line_file::{self, check_sum, with_sum},
};
use cvc_journal::fsck;
use cvc_journal::{self as journal, CampaignState, Entry, Event, Journal, Lineage};
use cvc_sites::ssh::unpack;
use std::{convert::Infallible, fs, os::unix::fs::MetadataExt};

pub(crate) const LINE_WORDS: &[&str] = &[
    "\n",
    "../..",
    "\"/etc/passwd\"",
    "{\"seq\":",
    "\"format\":1",
    "\"format\":3",
    "\"format\":4",
    "\"lineage\":\"",
    "\"event\":\"opened\"",
    "\"event\":\"run-intended\"",
    "\"event\":\"run-finished\"",
    "\"event\":\"interrupted\",\"now\":false",
    ",\"sum\":\"",
    "\"at\":\"9999-12-31T23:59:59Z\"",
    "\"attempt\":",
    "null",
    "\0\0\0\0",
];

/// Gives every line that is a JSON object a correct checksum, because readers refuse lines with wrong checksums at once.
fn with_sums(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let end = content
            .windows(8)
            .rposition(|part| part == b",\"sum\":\"")
            .unwrap_or(content.len().saturating_sub(1));
        let mut json = content[..end].to_vec();
        json.push(b'}');
        match with_sum(json) {
            Ok(summed) if line.len() > content.len() => out.extend(summed),
            Ok(_) | Err(_) => out.extend_from_slice(line),
        }
    }
    out
}

/// Returns three quarters of the inputs with correct checksums, and the others unchanged.
fn half_with_sums(data: &[u8]) -> Vec<u8> {
    if side(data, 4) > 0 {
        with_sums(data)
    } else {
        data.to_vec()
    }
}

/// Checks the reader of files with checksummed lines.
pub(crate) fn lines(data: &[u8]) {
    let data = &half_with_sums(data);
    let refuse = |json: &[u8]| side(json, 16) == 0;
    let scan = || {
        line_file::scan(data.as_slice(), |_, json| {
            if refuse(json) {
                Err("not this one".to_owned())
            } else {
                Ok(())
            }
        })
        .expect("reads memory")
    };
    let seen = scan();
    let open_end = usize::from(data.last().is_some_and(|last| *last != b'\n'));
    assert_eq!(seen.bytes, data.len() as u64);
    assert_eq!(
        seen.good + seen.damaged.len() + seen.torn.len() + open_end,
        data.split_inclusive(|byte| *byte == b'\n').count()
    );
    assert!(seen.whole_bytes <= seen.bytes);
    let mut at = 0;
    for bad in seen.damaged.iter().chain(&seen.torn) {
        assert!(
            bad.bytes.start >= at && bad.bytes.end > bad.bytes.start && !bad.problem.is_empty(),
            "{bad:?}"
        );
        at = bad.bytes.end;
        assert_eq!(data[at as usize - 1], b'\n');
    }
    assert!(
        seen.damaged
            .iter()
            .all(|bad| bad.bytes.end <= seen.whole_bytes)
    );
    assert!(
        seen.torn
            .iter()
            .all(|bad| bad.bytes.start >= seen.whole_bytes)
    );
    let synced = scan().with_synced_lines();
    assert_eq!(
        synced.damaged.len() + synced.torn.len(),
        seen.damaged.len() + seen.torn.len()
    );
    assert!(synced.torn.len() <= 2 && synced.torn_bytes() <= seen.torn_bytes());
    with_dir(|dir| {
        let path = dir.join("lines.jsonl");
        fs::write(&path, data).expect("writes");
        let is_synced = side(data, 2) == 0;
        let (mut file, opened) =
            LineFile::open(&path, is_synced, |_, _| Ok::<(), Infallible>(())).expect("opens");
        let appended = file.append(br#"{"more":1}"#.to_vec(), false);
        assert_eq!(appended.is_ok(), opened.damaged.is_empty(), "{opened:?}");
        let now = fs::read(&path).expect("reads");
        if appended.is_ok() {
            assert!(now.starts_with(&data[..opened.whole_bytes as usize]) && now.ends_with(b"}\n"));
            let (_, again) =
                LineFile::open(&path, is_synced, |_, _| Ok::<(), Infallible>(())).expect("opens");
            assert_eq!(
                (again.good, again.damaged.len(), again.torn_bytes()),
                (opened.good + 1, 0, 0)
            );
        } else {
            assert_eq!(now, *data, "a damaged file stays as it is");
        }
    });
}

/// Checks the reader of journals.
pub(crate) fn journal(data: &[u8]) {
    let data = &half_with_sums(data);
    with_dir(|root| {
        let dir = CampaignDir::at(root);
        let path = dir.journal();
        fs::write(&path, data).expect("writes");
        let read = journal::read(&path);
        if side(data, 8) == 0 {
            repaired(&dir);
            fs::write(&path, data).expect("writes");
        }
        // remove the mark of the length of another journal
        let _ = fs::remove_file(path.with_extension("mark"));
        let mut entries: Vec<Entry> = Vec::new();
        let opened = Journal::open(&path, "campaign", |entry| {
            entries.push(entry.clone());
            Ok(())
        });
        let mut journal = match (read, opened) {
            (Ok(read), Ok(journal)) => {
                assert!(entries.starts_with(&read) && entries.len() <= read.len() + 1);
                journal
            }
            (Err(_), Err(_)) => {
                assert_eq!(
                    fs::read(&path).expect("reads"),
                    *data,
                    "a journal that is refused stays as it is"
                );
                return;
            }
            (Ok(_), Err(error)) => panic!("read, but not opened: {error}"),
            (Err(error), Ok(_)) => panic!("opened, but not read: {error}"),
        };
        assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
        // computing the state must give an error, not panic, whatever the content
        if let Ok(state) = CampaignState::of(&entries) {
            stays_inside(&dir, &state);
        }
        entries.push(
            journal
                .append(Event::Interrupted { now: false })
                .expect("appends"),
        );
        drop(journal);
        let again = journal::read(&path).expect("a journal that was opened");
        assert_eq!(again.len(), entries.len());
        // the format version in the first line of an old journal was raised
        assert_eq!(again[1..], entries[1..]);
        assert_eq!(again[0].seq, entries[0].seq);
    });
}

/// Checks that no path made from a name in a journal leaves the intended directory.
fn stays_inside(dir: &CampaignDir, state: &CampaignState) {
    for (run, history) in &state.runs {
        let attempts = history
            .attempts
            .iter()
            .map(|attempt| dir.failed(run, attempt.number));
        for path in [dir.run(run), dir.partial(run)].into_iter().chain(attempts) {
            assert_eq!(path.parent(), Some(dir.runs().as_path()), "{run}");
            assert!(path.file_name().is_some(), "{run}");
        }
        assert_eq!(
            dir.work(run).parent(),
            Some(dir.root().join("work").as_path()),
            "{run}"
        );
    }
    let leases = state
        .leases
        .iter()
        .flat_map(|lease| [lease.name.as_str(), lease.site.as_str()]);
    let nodes = state
        .runs
        .values()
        .flat_map(|history| &history.attempts)
        .flat_map(|attempt| attempt.nodes.iter());
    let names = leases
        .chain(state.open_sites.iter().map(SiteName::as_str))
        .chain(state.lineage.iter().map(Lineage::as_str))
        .chain(nodes.map(NodeName::as_str));
    for name in names {
        assert!(is_path_part(name), "{name:?}");
    }
}

/// Checks that a repaired file is valid.
fn repaired(dir: &CampaignDir) {
    let Ok(findings) = fsck::check(dir, |_, _| ()) else {
        return;
    };
    if fsck::repair(dir, &findings).is_err() {
        return;
    }
    let after = fsck::check(dir, |_, _| ()).expect("a repaired campaign can be checked");
    assert!(!after.is_damaged(), "{:?}", after.problems);
    CampaignState::read(&dir.journal()).expect("a repaired journal can be read");
}

/// Checks the reader of an agent's events.
pub(crate) fn event_log(data: &[u8]) {
    let data = &half_with_sums(data);
    with_dir(|dir| {
        let path = dir.join("events.jsonl");
        fs::write(&path, data).expect("writes");
        let (mut log, OldEvents { events, damage }) =
            EventLog::open(&path).expect("opens whatever is in it");
        assert!(events.len() <= data.split(|byte| *byte == b'\n').count());
        log.write(AgentEvent::Closed {
            reason: "the end".to_owned(),
        })
        .expect("writes");
        drop(log);
        let (_, after) = EventLog::open(&path).expect("opens");
        assert_eq!(after.events.len(), events.len() + 1);
        assert!(after.damage.is_some() || damage.is_none());
        let last = after.events.last().map_or(0, |event| event.seq);
        assert!(
            events
                .iter()
                .all(|event| event.seq < last || event.seq == u64::MAX),
            "a number was used twice"
        );
    });
    let _ = check_sum(data);
}

pub(crate) const MANIFEST_WORDS: &[&str] = &[
    "  ",
    "\n",
    "../",
    "/",
    "./",
    "../secret",
    "stdout",
    "trace/log",
    "manifest.b3",
    "/dev/zero",
    "/etc/hostname",
    "\0",
];

/// Checks the reader of the manifest of a run's directory, as sent by a node.
pub(crate) fn manifest(data: &[u8]) {
    with_dir(|dir| {
        fs::write(dir.join("secret"), "secret").expect("writes");
        let run = dir.join("run");
        fs::create_dir_all(run.join("trace")).expect("a directory");
        for (name, text) in [("stdout", "one"), ("trace/log", "two")] {
            fs::write(run.join(name), text).expect("writes");
        }
        let data = if side(data, 4) > 0 {
            with_digests(&run, data)
        } else {
            data.to_vec()
        };
        fs::write(run.join("manifest.b3"), &data).expect("writes");
        // use the manifest's own digest, as a malicious node would
        let digest = cvc_core::ids::short_digest(&data);
        if check_manifest(&run, &digest).is_ok() {
            let text = String::from_utf8(data).expect("UTF-8");
            for file in text
                .lines()
                .filter_map(|line| line.split_once("  "))
                .map(|(_, file)| file)
            {
                assert!(is_inside(Utf8Path::new(file)), "`{file}` was read");
            }
        }
    });
}

/// Gives every line that names a small file the correct digest.
fn with_digests(run: &Utf8Path, data: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(data) else {
        return data.to_vec();
    };
    let line = |line: &str| {
        let file = line
            .split_once("  ")
            .map(|(_, file)| run.join(file))
            .filter(|file| file.is_file())?;
        let content = fs::read(&file).ok()?;
        Some(format!(
            "{}  {}\n",
            blake3::hash(&content).to_hex(),
            line.split_once("  ")?.1
        ))
    };
    text.lines()
        .map(|one| line(one).unwrap_or_else(|| format!("{one}\n")))
        .collect::<String>()
        .into_bytes()
}

fn is_inside(path: &Utf8Path) -> bool {
    path.components()
        .all(|c| matches!(c, Utf8Component::Normal(_) | Utf8Component::CurDir))
}

pub(crate) const ARCHIVE_WORDS: &[&str] = &[
    "../",
    "/",
    "./",
    "a/b/c",
    "..",
    "up",
    "ustar  \0",
    "ustar\u{0}00",
    "././@LongLink\0",
    "stdout",
    "secret",
    "27 path=../../escape\n",
    "\0",
];

/// Maximum size of an unpacked archive.
const MAX_UNPACKED_BYTES: u64 = 1 << 20;
/// Length of a block of a tar archive.
const BLOCK: usize = 512;

/// Checks unpacking an archive sent by a node.
pub(crate) fn archive(data: &[u8]) {
    let data = if side(data, 4) > 0 {
        with_header_sums(data)
    } else {
        data.to_vec()
    };
    with_dir(|dir| {
        fs::write(dir.join("secret"), "secret").expect("writes");
        fs::create_dir(dir.join("runs")).expect("a directory");
        fs::create_dir(dir.join("runs/other")).expect("a directory");
        let to = dir.join("runs/run");
        let unpacked = unpack("head", data.as_slice(), &to, MAX_UNPACKED_BYTES);
        if let Err(error) = &unpacked {
            assert!(!error.to_string().is_empty());
        }
        assert_eq!(
            fs::read(dir.join("secret")).expect("the file beside it"),
            b"secret"
        );
        assert_eq!(
            (names(dir), names(&dir.join("runs"))),
            (
                vec!["runs".into(), "secret".into()],
                vec!["other".into(), "run".into()]
            )
        );
        assert!(names(&dir.join("runs/other")).is_empty());
        let root = to.canonicalize_utf8().expect("it is made");
        let mut bytes = 0;
        inside(&root, &root, &mut bytes);
        assert!(
            bytes <= MAX_UNPACKED_BYTES,
            "{} bytes became {bytes}",
            data.len()
        );
    });
}

fn names(dir: &Utf8Path) -> Vec<String> {
    let mut names: Vec<String> = dir
        .read_dir_utf8()
        .expect("a directory")
        .flatten()
        .map(|e| e.file_name().to_owned())
        .collect();
    names.sort();
    names
}

/// Checks that nothing leads outside the directory, and that files are no larger than the received data.
fn inside(root: &Utf8Path, dir: &Utf8Path, bytes: &mut u64) {
    for entry in dir.read_dir_utf8().expect("a directory").flatten() {
        let metadata = entry.path().symlink_metadata().expect("metadata");
        if metadata.is_symlink() {
            if let Ok(real) = entry.path().canonicalize_utf8() {
                assert!(real.starts_with(root), "{} leads to {real}", entry.path());
            }
        } else if metadata.is_dir() {
            inside(root, entry.path(), bytes);
        } else {
            assert!(
                metadata.is_file(),
                "{} is a device, pipe or socket",
                entry.path()
            );
            // a hard link needs no space
            *bytes += metadata.len() / metadata.nlink();
        }
    }
}

/// Gives every block that looks like a header a correct checksum.
fn with_header_sums(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for block in data
        .chunks_exact_mut(BLOCK)
        .filter(|block| block[257..262] == *b"ustar")
    {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    data
}
