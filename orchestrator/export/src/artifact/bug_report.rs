//! A bug report: files of the campaign and of its failed runs, without secrets and names, in a small tar.gz. Also works for damaged campaigns:
//! unreadable parts are listed with the reason.

use super::{Folder, clean, journal_line, names::NameFinder, scrub::Scrubber};
use crate::error::ExportError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{CampaignDir, StoreError, write_output};
use flate2::{Compression, write::GzEncoder};
use std::{
    collections::VecDeque,
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    time::SystemTime,
};

/// Maximum number of bytes that are packed from one file: half from its beginning and half from its end.
pub const MAX_FILE_BYTES: u64 = 512 << 10;
/// Maximum total size of all texts, bytes.
pub const MAX_TOTAL_BYTES: u64 = 8 << 20;
/// Maximum number of runs packed.
const MAX_RUNS: usize = 5;
/// Maximum number of session logs packed.
const MAX_LOGS: usize = 3;
/// Maximum number of files examined in a run.
const MAX_RUN_FILES: usize = 100;
/// Number of bytes that are read of a journal line at once; a longer line is treated as several lines.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Marks omitted text.
const CUT: &str = "\n[... cut out by cvc report-bug ...]\n";

/// A bug report that was written.
#[derive(Debug)]
pub struct BugReport {
    /// Path of the report.
    pub path: Utf8PathBuf,
    /// Length of the report, bytes.
    pub bytes: u64,
    /// The packed files, in the order of the archive.
    pub packed: Vec<PackedFile>,
    /// Files that were left out.
    pub left_out: Vec<LeftOutFile>,
}

/// A file of a bug report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Path in the archive.
    pub name: String,
    /// Length in the archive, bytes.
    pub bytes: u64,
    /// Whether parts of the original file are omitted.
    pub is_cut: bool,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutFile {
    /// Path in the campaign, without secrets and names.
    pub name: String,
    /// Why it was left out.
    pub reason: LeftOutReason,
}

/// Why a file was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// It is not text.
    Binary,
    /// It is too large to be packed whole, and a part of it would be meaningless.
    TooLarge,
    /// The report has reached its maximum size.
    Full,
    /// It cannot be read.
    Unreadable(io::ErrorKind),
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary => f.write_str("not text"),
            Self::TooLarge => write!(f, "larger than {} KiB", MAX_FILE_BYTES >> 10),
            Self::Full => write!(
                f,
                "the report has reached its maximum of {} MiB",
                MAX_TOTAL_BYTES >> 20
            ),
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
        }
    }
}

/// A text to be packed.
struct Text {
    name: String,
    text: String,
    is_cut: bool,
}

/// Packs a bug report about the runs whose identifiers begin with one of `runs`; if `runs` is empty, about the most recent failed runs. `versions`
/// describes cvc and the machine.
///
/// # Errors
/// No run has such a prefix, the report's path exists, or the report cannot be written.
pub fn pack_bug_report(
    campaign: &CampaignDir,
    runs: &[String],
    versions: &str,
    to: &Utf8Path,
) -> Result<BugReport, ExportError> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(ExportError::Exists {
            path: to.to_owned(),
            is_export: false,
        });
    }
    let chosen = choose_runs(campaign, runs);
    if chosen.is_empty() && !runs.is_empty() && !journal_has(campaign, runs) {
        return Err(ExportError::NoRun {
            campaign: campaign.root().to_owned(),
            runs: runs.join(", "),
        });
    }
    let folder = Folder::open(campaign.root())?;
    let mut collected = Collected::default();
    collected.keep("versions.txt", versions.to_owned(), false);
    collected.journal(campaign, &folder, runs);
    for name in chosen
        .iter()
        .flat_map(|run| run_files(campaign, run))
        .chain(newest(campaign, "logs", MAX_LOGS))
        .chain(["campaign.toml", "cvc.lock", "plan.json"].map(str::to_owned))
    {
        if fs::symlink_metadata(campaign.root().join(&name)).is_ok() {
            collected.file(&folder, &name);
        }
    }
    let mut scrubber = collected.scrubber(&folder);
    let base = campaign.root().file_name().unwrap_or("campaign");
    let base = format!("cvc-bug-{}", scrubber.clean(base));
    let (packed, archive) = collected
        .archive(&mut scrubber, &base)
        .map_err(StoreError::io("write", to))?;
    write_output(to, &archive)?;
    Ok(BugReport {
        path: to.to_owned(),
        bytes: archive.len() as u64,
        packed,
        left_out: collected
            .left_out
            .into_iter()
            .map(|(name, reason)| LeftOutFile {
                name: scrubber.clean(&name).into_owned(),
                reason,
            })
            .collect(),
    })
}

/// Returns the names of the run directories to pack, newest first.
fn choose_runs(campaign: &CampaignDir, wanted: &[String]) -> Vec<String> {
    let mut names = by_age(&campaign.runs());
    if !wanted.is_empty() {
        names.retain(|name| wanted.iter().any(|begin| name.starts_with(begin.as_str())));
        return names;
    }
    // if no run failed, the latest run is packed as an example
    let (mut failed, others): (Vec<String>, Vec<String>) = names
        .into_iter()
        .partition(|name| name.contains(".failed-") || name.ends_with(".partial"));
    failed.truncate(MAX_RUNS);
    if failed.is_empty() {
        failed.extend(others.into_iter().next());
    }
    failed
}

/// Returns the names in a directory, newest first; none if it cannot be read.
fn by_age(directory: &Utf8Path) -> Vec<String> {
    let entries = directory.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, String)> = entries
        .map(|entry| {
            let changed = fs::symlink_metadata(entry.path()).and_then(|m| m.modified());
            let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
            (changed, entry.file_name().to_owned())
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, name)| name).collect()
}

fn newest(campaign: &CampaignDir, directory: &str, count: usize) -> Vec<String> {
    let names = by_age(&campaign.root().join(directory)).into_iter();
    names
        .take(count)
        .map(|name| format!("{directory}/{name}"))
        .collect()
}

/// Returns the files of a run, without those in subdirectories, which contain images and output of programs.
fn run_files(campaign: &CampaignDir, run: &str) -> Vec<String> {
    let entries = campaign.runs().join(run).read_dir_utf8();
    let mut files: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| format!("runs/{run}/{}", entry.file_name()))
        .collect();
    files.sort();
    files.truncate(MAX_RUN_FILES);
    files
}

/// Returns whether a line of the journal contains one of these identifier prefixes: a run without a directory appears only in the journal.
fn journal_has(campaign: &CampaignDir, runs: &[String]) -> bool {
    let mut found = false;
    let Ok(file) = File::open(campaign.journal()) else {
        return false;
    };
    // an unreadable journal contains none
    let _ = each_line(file, |line| found |= names_run(line, runs));
    found
}

fn names_run(line: &[u8], runs: &[String]) -> bool {
    let line = String::from_utf8_lossy(line);
    runs.iter().any(|run| line.contains(&format!("\"{run}")))
}

/// Calls `take` for each line. A line longer than [`MAX_LINE_BYTES`] is passed in pieces of this length.
fn each_line(file: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        let read = Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        take(&line);
    }
}

/// Returns the beginning and the end of a file, cut at line boundaries, and whether anything is omitted.
fn head_and_tail(mut file: File) -> io::Result<(Vec<u8>, bool)> {
    let bytes = file.metadata()?.len();
    let mut read = Vec::new();
    if bytes <= MAX_FILE_BYTES {
        // limits the length, because the file may grow while it is read
        file.take(MAX_FILE_BYTES).read_to_end(&mut read)?;
        return Ok((read, false));
    }
    let half = MAX_FILE_BYTES / 2;
    Read::take(&mut file, half).read_to_end(&mut read)?;
    let whole = read
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    read.truncate(whole);
    file.seek(SeekFrom::Start(bytes - half))?;
    let mut tail = Vec::new();
    file.take(half).read_to_end(&mut tail)?;
    let begin = tail
        .iter()
        .position(|b| *b == b'\n')
        .map_or(tail.len(), |at| at + 1);
    read.extend_from_slice(CUT.as_bytes());
    read.extend_from_slice(without_half_key(&tail[begin..]));
    Ok((read, true))
}

/// Removes the end of a private key whose beginning is omitted: it would not be recognised as part of a key.
fn without_half_key(tail: &[u8]) -> &[u8] {
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|part| part == what);
    let end = find(tail, b"-----END ");
    let begin = find(tail, b"-----BEGIN ");
    match (begin, end) {
        (Some(begin), Some(end)) if begin < end => tail,
        (_, Some(end)) => {
            let rest = &tail[end..];
            find(rest, b"\n").map_or(&[], |at| &rest[at..])
        }
        (_, None) => tail,
    }
}

/// The contents of the report so far.
#[derive(Default)]
struct Collected {
    texts: Vec<Text>,
    left_out: Vec<(String, LeftOutReason)>,
    bytes: u64,
}

impl Collected {
    fn keep(&mut self, name: &str, text: String, is_cut: bool) {
        if self.bytes + text.len() as u64 > MAX_TOTAL_BYTES {
            self.left_out.push((name.to_owned(), LeftOutReason::Full));
            return;
        }
        self.bytes += text.len() as u64;
        self.texts.push(Text {
            name: name.to_owned(),
            text,
            is_cut,
        });
    }

    /// Reads a file of the campaign.
    fn file(&mut self, folder: &Folder, name: &str) {
        let opened = folder.root.open(name.as_ref());
        let read = opened.and_then(|file| {
            if !file.metadata()?.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            head_and_tail(file)
        });
        match read {
            Err(error) => {
                let reason = LeftOutReason::Unreadable(error.kind());
                self.left_out.push((name.to_owned(), reason));
            }
            Ok((bytes, _)) if bytes.contains(&0) => {
                self.left_out.push((name.to_owned(), LeftOutReason::Binary));
            }
            // a part of a structured text may lack the keys by which secrets are recognised
            Ok((_, true))
                if [".json", ".toml", ".lock"]
                    .iter()
                    .any(|end| name.ends_with(end)) =>
            {
                self.left_out
                    .push((name.to_owned(), LeftOutReason::TooLarge));
            }
            Ok((bytes, is_cut)) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.keep(name, text, is_cut);
            }
        }
    }

    /// Collects the journal's lines about these runs or, if `runs` is empty, its last lines.
    fn journal(&mut self, campaign: &CampaignDir, folder: &Folder, runs: &[String]) {
        let Some(name) = campaign.journal().file_name().map(str::to_owned) else {
            return;
        };
        if fs::symlink_metadata(campaign.journal()).is_err() {
            let reason = LeftOutReason::Unreadable(io::ErrorKind::NotFound);
            self.left_out.push((name, reason));
            return;
        }
        let (mut lines, mut bytes, mut is_cut) = (VecDeque::new(), 0, false);
        let read = folder.root.open(name.as_ref()).and_then(|file| {
            each_line(file, |line| {
                if !runs.is_empty() && !names_run(line, runs) {
                    is_cut = true;
                    return;
                }
                bytes += line.len() as u64;
                lines.push_back(String::from_utf8_lossy(line).into_owned());
                while bytes > MAX_FILE_BYTES
                    && let Some(first) = lines.pop_front()
                {
                    bytes -= first.len() as u64;
                    is_cut = true;
                }
            })
        });
        match read {
            Ok(()) => self.keep(&name, lines.into_iter().collect(), is_cut),
            Err(error) => {
                let reason = LeftOutReason::Unreadable(error.kind());
                self.left_out.push((name, reason));
            }
        }
    }

    /// Returns a scrubber for the names and secrets found in the collected texts and in the campaign file, even if the campaign file is not packed.
    fn scrubber(&self, folder: &Folder) -> Scrubber {
        let mut finder = NameFinder::default();
        for name in ["campaign.toml", "hosts.json"] {
            // no names can be found in an unreadable campaign file
            let _ = folder.find_names(&mut finder, name);
        }
        for Text { name, text, .. } in &self.texts {
            if name.ends_with(".jsonl") {
                for line in text.lines() {
                    match serde_json::from_str(line) {
                        Ok(value) => finder.json(&value),
                        Err(_) => finder.text(line),
                    }
                }
            } else if let Ok(value) = serde_json::from_str(text) {
                finder.json(&value);
            } else {
                finder.text(text);
            }
        }
        finder.this_machine();
        Scrubber::new(finder.found(), false)
    }

    /// Returns the archive, with all files below the directory `base`.
    fn archive(
        &self,
        scrubber: &mut Scrubber,
        base: &str,
    ) -> io::Result<(Vec<PackedFile>, Vec<u8>)> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let mut packed = Vec::new();
        for Text { name, text, is_cut } in &self.texts {
            let clean = match name.ends_with(".jsonl") {
                true => clean_lines(scrubber, text)?,
                false => clean::text(scrubber, name.as_ref(), text).into_bytes(),
            };
            let path = format!("{base}/{}", scrubber.clean(name));
            let mut header = tar::Header::new_gnu();
            header.set_size(clean.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, &path, clean.as_slice())?;
            packed.push(PackedFile {
                name: path,
                bytes: clean.len() as u64,
                is_cut: *is_cut,
            });
        }
        Ok((packed, archive.into_inner()?.finish()?))
    }
}

/// Removes names from lines of JSON, and updates the checksum of each line whose checksum was correct.
fn clean_lines(scrubber: &mut Scrubber, text: &str) -> io::Result<Vec<u8>> {
    let mut clean = Vec::new();
    for line in text.lines() {
        clean.extend(journal_line(scrubber, line.as_bytes())?);
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::{LeftOutReason, MAX_FILE_BYTES, pack_bug_report, without_half_key};
    use crate::error::ExportError;
    use camino::{Utf8Path, Utf8PathBuf};
    use cvc_core::store::CampaignDir;
    use std::{collections::BTreeMap, fs, io::Read};

    fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
        let made = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(made.path().to_owned()).expect("UTF-8");
        (made, path)
    }

    fn put(root: &Utf8Path, name: &str, bytes: impl AsRef<[u8]>) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
        fs::write(path, bytes).expect("writes");
    }

    /// Returns the texts in an archive, by their names without the first directory.
    fn unpacked(archive: &Utf8Path) -> BTreeMap<String, String> {
        let file = fs::File::open(archive).expect("the archive");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let entries = archive.entries().expect("entries");
        entries
            .map(|entry| {
                let mut entry = entry.expect("an entry");
                let path = entry.path().expect("a path").display().to_string();
                let name = path.split_once('/').expect("a directory").1.to_owned();
                let mut text = String::new();
                entry.read_to_string(&mut text).expect("text");
                (name, text)
            })
            .collect()
    }

    #[test]
    fn a_damaged_campaign_is_packed_without_secrets_and_names() {
        let (_made, root) = scratch();
        let campaign = root.join("heat");
        put(
            &campaign,
            "journal.jsonl",
            "{\"run\":\"r1\",\"head\":\"secrethost7\"}\n\0\u{1}torn{{{\n{\"run\":\"r2\"",
        );
        put(
            &campaign,
            "campaign.toml",
            "env = { API_TOKEN = \"hunter2hunter2\" }\nbroken [[[\n",
        );
        put(
            &campaign,
            "runs/r1.failed-1/stderr",
            "alice@secrethost7: token hunter2hunter2 refused\n",
        );
        put(&campaign, "runs/r1.failed-1/image.dmtcp", b"\0\0\0");
        put(&campaign, "runs/r3/stdout", "fine\n");
        put(
            &campaign,
            "logs/cvc-1.log",
            "AKIAABCDEFGHIJKLMNOP from 10.1.2.3\n",
        );
        let to = root.join("bug.tar.gz");
        let dir = CampaignDir::at(&campaign);
        let report = pack_bug_report(&dir, &[], "cvc 1.0\n", &to).expect("packed");
        let texts = unpacked(&to);
        let names: Vec<&str> = texts.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "campaign.toml",
                "journal.jsonl",
                "logs/cvc-1.log",
                "runs/r1.failed-1/stderr",
                "versions.txt"
            ],
            "the failed run, and not the other"
        );
        let all: String = texts.into_values().collect();
        for secret in ["hunter2", "secrethost7", "alice", "AKIA", "10.1.2.3"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        assert!(all.contains("torn{{{"), "damage stays: {all}");
        let reasons: Vec<_> = report.left_out.iter().map(|f| &f.reason).collect();
        assert_eq!(reasons, [&LeftOutReason::Binary]);
        assert!(matches!(
            pack_bug_report(&dir, &[], "", &to),
            Err(ExportError::Exists { .. })
        ));
    }

    #[test]
    fn of_a_run_its_lines_and_files_are_packed_and_large_ones_in_parts() {
        let (_made, root) = scratch();
        let campaign = root.join("heat");
        put(
            &campaign,
            "journal.jsonl",
            "{\"run\":\"r1-a\"}\n{\"run\":\"r2-b\"}\n",
        );
        let line = format!("{}\n", "x".repeat(99));
        let large = format!("first\n{}last\n", line.repeat(20_000));
        put(&campaign, "runs/r1-a/stdout", &large);
        put(
            &campaign,
            "runs/r1-a/facts.json",
            format!("[{}0]", "1,".repeat(1 << 19)),
        );
        put(&campaign, "runs/r2-b/stdout", "other\n");
        let to = root.join("bug.tar.gz");
        let dir = CampaignDir::at(&campaign);
        let report = pack_bug_report(&dir, &["r1".to_owned()], "", &to).expect("packed");
        let texts = unpacked(&to);
        assert_eq!(texts["journal.jsonl"], "{\"run\":\"r1-a\"}\n");
        let stdout = &texts["runs/r1-a/stdout"];
        assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n"));
        assert!(stdout.len() as u64 <= MAX_FILE_BYTES + 100);
        assert!(!texts.contains_key("runs/r2-b/stdout"));
        assert!(
            report
                .packed
                .iter()
                .any(|f| f.name.ends_with("stdout") && f.is_cut)
        );
        assert!(
            report
                .left_out
                .iter()
                .any(|f| f.reason == LeftOutReason::TooLarge)
        );
        let refused = pack_bug_report(&dir, &["r9".to_owned()], "", &root.join("other.tar.gz"));
        assert!(
            matches!(refused, Err(ExportError::NoRun { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn the_end_of_a_key_whose_beginning_was_cut_out_is_removed() {
        let half = b"MIIEow\nabc\n-----END RSA PRIVATE KEY-----\nrest\n";
        assert_eq!(without_half_key(half), b"\nrest\n");
        let whole = b"-----BEGIN A-----\nabc\n-----END A-----\n";
        assert_eq!(without_half_key(whole), whole);
        assert_eq!(without_half_key(b"plain\n"), b"plain\n");
    }
}
