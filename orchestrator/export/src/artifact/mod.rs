//! Exports a campaign as an artefact to publish: a BagIt bag in a zip file, with a description, without secrets and, by default, without names.

mod bag;
mod bug_report;
mod clean;
mod describe;
mod names;
mod patterns;
mod scrub;

use crate::{
    error::ExportError,
    package::{self, PACKAGE, PackageFormat},
    tables,
    target::{files, json},
};
use bag::{Bag, Foreign, check_own};
pub use bug_report::{BugReport, LeftOutFile, LeftOutReason, PackedFile, pack_bug_report};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::RunId;
use cvc_core::store::{
    Beneath, CampaignDir, StoreError,
    line_file::{self, Sum, check_sum},
    own_prefix, remove_abandoned,
};
use cvc_index::Index;
use cvc_journal::event::{Entry, Event};
use cvc_os::output_file::{Target, target};
use describe::{ArtifactFacts, artifact_md};
use jiff::Timestamp;
use names::NameFinder;
use scrub::Scrubber;
use std::{
    collections::HashMap,
    convert::Infallible,
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Read, Write},
};

/// Maximum length of a file in an artefact, bytes. Files of lines may be longer; others are cleaned in memory as a whole.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Prefix of the names of files that are being written.
const TEMPORARY: &str = "artifact";

/// Options of an artefact.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArtifactOptions<'o> {
    /// Directory of an existing report to include; `None`: no report.
    pub report: Option<&'o Utf8Path>,
    /// Whether names of hosts, users and accounts, and addresses, are kept. Secrets are always removed.
    pub keep_names: bool,
    /// Whether an earlier artefact is replaced.
    pub replace: bool,
}

/// An artefact that was written.
#[derive(Debug)]
pub struct Artifact {
    /// Path of the zip file.
    pub path: Utf8PathBuf,
    /// Number of files in the payload.
    pub files: usize,
    /// Total length of the payload, bytes.
    pub payload_bytes: u64,
    /// Length of the zip file, bytes.
    pub bytes: u64,
}

/// Writes a campaign as a BagIt bag (RFC 8493) in a zip file: campaign file, lock, plan, journal, records and facts of runs, tables, the report if
/// there is one, and `ARTIFACT.md`. The same campaign always results in the same bytes. The file appears only when it is complete.
///
/// # Errors
/// The path exists and may not be replaced, or is not an artefact of cvc; the campaign is damaged or cannot be read; or the file cannot be written.
pub fn export_artifact(
    campaign: &CampaignDir,
    index: &Index,
    options: ArtifactOptions<'_>,
    file: &Utf8Path,
) -> Result<Artifact, ExportError> {
    let (file, mut stream) = place(file)?;
    let file = file.as_path();
    let temporary = Utf8PathBuf::from(std::env::temp_dir().to_string_lossy().into_owned());
    let parent = match file.parent() {
        _ if stream.is_some() => &temporary,
        Some(parent) if parent != "" => parent,
        _ => Utf8Path::new("."),
    };
    if stream.is_none() {
        check_target(file, options.replace)?;
        fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
        remove_abandoned(parent, TEMPORARY);
    }
    let made = tempfile_in(parent).map_err(StoreError::io("create a file in", parent))?;
    let sources = Sources::find(campaign, index, options.report)?;
    let (mut scrubber, extra) = sources.read(options)?;
    let base = package::package_name(index.meta()?.get("campaign").map_or("", String::as_str));
    let base = scrubber.clean(if base.is_empty() { "campaign" } else { &base });
    let mut bag = Bag::new(BufWriter::new(made.as_file()), file, &base)?;
    let text = artifact_md(index, &extra)?;
    bag.tag("ARTIFACT.md", &scrubber.clean(&text))?;
    sources.write(&mut scrubber, &mut bag)?;
    write_tables(index, &mut scrubber, &mut bag, file)?;
    let (files, payload_bytes) = bag.payload();
    let info = info(index, &mut scrubber)?;
    let mut out = bag.finish(&info)?;
    out.flush().map_err(StoreError::io("write", file))?;
    drop(out);
    let written = made.as_file();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    written
        .set_permissions(mode)
        .and_then(|()| written.sync_all())
        .map_err(StoreError::io("write", file))?;
    let bytes = written
        .metadata()
        .map_err(StoreError::io("read", file))?
        .len();
    if let Some(stream) = &mut stream {
        made.reopen()
            .and_then(|mut made| std::io::copy(&mut made, stream))
            .map_err(StoreError::io("write", file))?;
    } else {
        // another process may have created the path in the meantime
        check_target(file, options.replace)?;
        made.persist(file)
            .map_err(|error| StoreError::io("write", file)(error.error))?;
    }
    Ok(Artifact {
        path: file.to_owned(),
        files,
        payload_bytes,
        bytes,
    })
}

/// Resolves links. Returns the path to write to, and the opened object if it is not a regular file, such as a pipe.
fn place(file: &Utf8Path) -> Result<(Utf8PathBuf, Option<fs::File>), ExportError> {
    match target(file.as_std_path()) {
        Ok(Target::File(path)) => Ok((path.to_string_lossy().into_owned().into(), None)),
        Ok(Target::Stream(stream)) => Ok((file.to_owned(), Some(stream))),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            Err(ExportError::NoArtifact {
                path: file.to_owned(),
            })
        }
        Err(error) => Err(StoreError::io("write", file)(error).into()),
    }
}

fn tempfile_in(parent: &Utf8Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&own_prefix(TEMPORARY)?)
        .suffix(".zip")
        .tempfile_in(parent)
}

/// Checks that the path does not exist, or is an artefact that may be replaced.
fn check_target(file: &Utf8Path, replace: bool) -> Result<(), ExportError> {
    let Ok(found) = fs::symlink_metadata(file) else {
        return Ok(());
    };
    let foreign = || ExportError::NoArtifact {
        path: file.to_owned(),
    };
    if !found.is_file() {
        return Err(foreign());
    }
    match check_own(file) {
        Err(Foreign::Other) => Err(foreign()),
        _ if !replace => Err(ExportError::Exists {
            path: file.to_owned(),
            is_export: true,
        }),
        Err(Foreign::Added(added)) => Err(ExportError::Foreign {
            dir: file.to_owned(),
            file: added,
        }),
        Ok(()) => Ok(()),
    }
}

/// The files of a campaign that an artefact contains.
struct Sources<'c> {
    campaign: &'c CampaignDir,
    /// Existing files in the root of the campaign.
    root: Vec<&'static str>,
    /// Files of runs, relative to the campaign's directory.
    runs: Vec<String>,
    folder: Folder,
    /// Directory of a report, and its files.
    report: Option<(Folder, Vec<String>)>,
}

/// A directory whose files are published, except files behind symbolic links.
struct Folder {
    root: Beneath,
    path: Utf8PathBuf,
}

impl Folder {
    fn open(path: &Utf8Path) -> Result<Self, ExportError> {
        Ok(Self {
            root: Beneath::at(path.as_std_path()).map_err(StoreError::io("open", path))?,
            path: path.to_owned(),
        })
    }

    fn file(&self, name: &str) -> Result<File, ExportError> {
        let opened = self.root.open(name.as_ref());
        Ok(opened.map_err(StoreError::io("read", self.path.join(name)))?)
    }

    /// Reads a file as text; invalid UTF-8 is replaced.
    fn text(&self, name: &str) -> Result<String, ExportError> {
        let (path, mut bytes) = (self.path.join(name), Vec::new());
        self.file(name)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(StoreError::io("read", &path))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ExportError::TooLarge {
                path,
                max_bytes: MAX_FILE_BYTES,
            });
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Finds the names in a file according to its format, as far as the file can be parsed.
    fn find_names(&self, finder: &mut NameFinder, name: &str) -> Result<(), ExportError> {
        let path = self.path.join(name);
        match path.extension() {
            Some("toml" | "lock") => {
                let text = self.text(name)?;
                if let Ok(value) = toml::from_str::<serde_json::Value>(&text) {
                    finder.json(&value);
                }
                // also finds names in comments
                finder.text(&text);
            }
            Some("json") => {
                let text = self.text(name)?;
                match serde_json::from_str(&text) {
                    Ok(value) => finder.json(&value),
                    Err(_) => finder.text(&text),
                }
            }
            Some("jsonl") => {
                for line in BufReader::new(self.file(name)?).split(b'\n') {
                    let line = line.map_err(StoreError::io("read", &path))?;
                    match serde_json::from_slice(&line) {
                        Ok(value) => finder.json(&value),
                        Err(_) => finder.text(&String::from_utf8_lossy(&line)),
                    }
                }
            }
            _ => finder.text(&self.text(name)?),
        }
        Ok(())
    }

    /// Writes a file into a bag as `to`, without secrets and names.
    fn write<W: Write + std::io::Seek>(
        &self,
        name: &str,
        to: &str,
        scrubber: &mut Scrubber,
        bag: &mut Bag<'_, W>,
    ) -> Result<(), ExportError> {
        let path = self.path.join(name);
        if clean::is_of_lines(&path) {
            let mut file = BufReader::new(self.file(name)?);
            return bag.add(to, |out| clean::lines(scrubber, &mut file, &path, out));
        }
        let text = clean::text(scrubber, &path, &self.text(name)?);
        bag.add_text(to, &text)
    }
}

/// Returns whether a name is valid on all systems and in a manifest.
fn is_portable(name: &str) -> bool {
    !name.contains(|c: char| c == '\\' || c.is_control())
}

impl<'c> Sources<'c> {
    fn find(
        campaign: &'c CampaignDir,
        index: &Index,
        report: Option<&Utf8Path>,
    ) -> Result<Self, ExportError> {
        let at = |name: &str| campaign.root().join(name);
        let is_there = |name: &str| fs::symlink_metadata(at(name)).is_ok();
        let root = ["campaign.toml", "cvc.lock", "plan.json", "journal.jsonl"]
            .into_iter()
            .filter(|name| is_there(name))
            .collect();
        let mut runs = Vec::new();
        for run in index.runs()? {
            let Some(dir) = run.dir else { continue };
            for name in ["records.jsonl", "facts.json"] {
                let path = format!("{dir}/{name}");
                if is_there(&path) {
                    runs.push(path);
                }
            }
        }
        let report = match report {
            Some(dir) => {
                let is_of_report = |name: &String| {
                    let name = Utf8Path::new(name);
                    let known = ["html", "csv", "json", "jsonl", "md", "tex", "svg"];
                    name.extension().is_some_and(|of| known.contains(&of))
                        && !name.components().any(|part| part.as_str().starts_with('.'))
                };
                let found: Vec<String> = files(dir)?.into_iter().filter(is_of_report).collect();
                if let Some(name) = found.iter().find(|name| !is_portable(name)) {
                    return Err(ExportError::Name {
                        path: dir.join(name),
                    });
                }
                Some((Folder::open(dir)?, found))
            }
            None => None,
        };
        Ok(Self {
            folder: Folder::open(campaign.root())?,
            campaign,
            root,
            runs,
            report,
        })
    }

    /// Reads all files once, to find the names in them.
    fn read(&self, options: ArtifactOptions<'_>) -> Result<(Scrubber, ArtifactFacts), ExportError> {
        let mut finder = NameFinder::default();
        for name in self.root.iter().filter(|name| **name != "journal.jsonl") {
            self.folder.find_names(&mut finder, name)?;
        }
        if let Some(hosts) = self.campaign.hosts().file_name()
            && fs::symlink_metadata(self.campaign.hosts()).is_ok()
        {
            self.folder.find_names(&mut finder, hosts)?;
        }
        let mut extra = self.read_journal(&mut finder)?;
        for name in &self.runs {
            self.folder.find_names(&mut finder, name)?;
        }
        if let Some((folder, names)) = &self.report {
            for name in names {
                folder.find_names(&mut finder, name)?;
            }
        }
        finder.this_machine();
        extra.files.clone_from(&self.root);
        extra.has_report = self
            .report
            .as_ref()
            .is_some_and(|(_, names)| !names.is_empty());
        extra.keeps_names = options.keep_names;
        Ok((Scrubber::new(finder.found(), options.keep_names), extra))
    }

    /// Reads the attempts from the journal, and finds the names in it.
    fn read_journal(&self, finder: &mut NameFinder) -> Result<ArtifactFacts, ExportError> {
        let mut extra = ArtifactFacts {
            attempts_s: 0.0,
            attempts: 0,
            cut_off: 0,
            files: Vec::new(),
            has_report: false,
            keeps_names: false,
        };
        let mut open = HashMap::new();
        cvc_journal::read_each(&self.campaign.journal(), |entry| {
            if let Ok(value) = serde_json::to_value(&entry.event) {
                finder.json(&value);
            }
            count_attempt(entry, &mut open, &mut extra);
            Ok(())
        })?;
        Ok(extra)
    }

    /// Writes the files into a bag, without secrets and names.
    fn write<W: Write + std::io::Seek>(
        &self,
        scrubber: &mut Scrubber,
        bag: &mut Bag<'_, W>,
    ) -> Result<(), ExportError> {
        for name in &self.root {
            if *name == "journal.jsonl" {
                let (path, file) = (self.campaign.journal(), self.folder.file(name)?);
                bag.add(name, |out| clean_journal(&path, file, scrubber, out))?;
            } else {
                self.folder.write(name, name, scrubber, bag)?;
            }
        }
        for name in &self.runs {
            self.folder.write(name, name, scrubber, bag)?;
        }
        if let Some((folder, names)) = &self.report {
            for name in names {
                let to = format!("report/{}", scrubber.clean(name));
                folder.write(name, &to, scrubber, bag)?;
            }
        }
        Ok(())
    }
}

/// Adds the duration of a finished attempt.
fn count_attempt(
    entry: Entry,
    open: &mut HashMap<(RunId, u32), Timestamp>,
    extra: &mut ArtifactFacts,
) {
    let (run, attempt, is_cut_off) = match entry.event {
        Event::RunIntended { run, attempt, .. } => {
            open.insert((run, attempt), entry.at);
            return;
        }
        Event::RunFinished { run, attempt, .. } => (run, attempt, false),
        Event::RunAbandoned { run, attempt, .. } => (run, attempt, true),
        _ => return,
    };
    if let Some(began) = open.remove(&(run, attempt)) {
        extra.attempts += 1;
        extra.attempts_s += entry.at.duration_since(began).as_secs_f64().max(0.0);
        extra.cut_off += usize::from(is_cut_off);
    }
}

/// Removes names from a line of JSON; updates its checksum if the old one was correct.
fn journal_line(scrubber: &mut Scrubber, line: &[u8]) -> std::io::Result<Vec<u8>> {
    let has_sum = check_sum(line) == Sum::Right;
    let content = match line_file::sum_of(line).filter(|_| has_sum) {
        // removes `,"sum":"`, the checksum, and `"}`
        Some(sum) => [&line[..line.len() - sum.len() - 10], b"}"].concat(),
        None => line.to_vec(),
    };
    let mut clean = clean::json(scrubber, &String::from_utf8_lossy(&content)).into_bytes();
    if has_sum {
        return line_file::with_sum(clean);
    }
    clean.push(b'\n');
    Ok(clean)
}

/// Returns the journal without names, with updated checksums. An incomplete last line is omitted.
fn clean_journal(
    path: &Utf8Path,
    file: File,
    scrubber: &mut Scrubber,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut failed = None;
    let mut write = |line: &[u8]| out.write_all(&journal_line(scrubber, line)?);
    line_file::scan(file, |_, line| {
        if failed.is_none() {
            failed = write(line).err();
        }
        Ok::<(), Infallible>(())
    })
    .map_err(StoreError::io("read", path))?;
    match failed {
        Some(error) => Err(StoreError::io("write", path)(error).into()),
        None => Ok(()),
    }
}

fn write_tables<W: Write + std::io::Seek>(
    index: &Index,
    scrubber: &mut Scrubber,
    bag: &mut Bag<'_, W>,
    path: &Utf8Path,
) -> Result<(), ExportError> {
    let of = index.flat_tables()?;
    for table in &of {
        let name = format!("tables/{}", PackageFormat::Csv.file(table));
        bag.add(&name, |out| {
            tables::write_rows(index, table, path, out, |texts, at| {
                let text = texts.get(at)?.as_deref()?;
                // the columns of facts are run, key, value
                let key = texts.get(1).and_then(Option::as_deref).unwrap_or_default();
                let name = match (table.name, at) {
                    ("facts", 2) => key,
                    _ => &table.columns[at].name,
                };
                Some(scrubber.clean_value(name.rsplit('.').next().unwrap_or(name), text))
            })
        })?;
    }
    let package = json(&package::describe(index, &of, PackageFormat::Csv)?, path)?;
    let package = String::from_utf8_lossy(&package).into_owned();
    bag.add_text(&format!("tables/{PACKAGE}"), &scrubber.clean(&package))
}

/// Returns the lines about the campaign in `bag-info.txt`. The date is that of the last journal entry, so that the same campaign results in the
/// same bag.
fn info(
    index: &Index,
    scrubber: &mut Scrubber,
) -> Result<Vec<(&'static str, String)>, ExportError> {
    let meta = index.meta()?;
    let fact = |key: &str| meta.get(key).map(String::as_str);
    let mut info = Vec::new();
    if let Some(name) = fact("title").or(fact("campaign")) {
        info.push((
            "External-Description",
            scrubber
                .clean(&format!("Campaign of cvc: {name}"))
                .into_owned(),
        ));
    }
    if let Some(name) = fact("campaign") {
        info.push(("External-Identifier", scrubber.clean(name).into_owned()));
    }
    if let Some(day) = fact("last_entry").and_then(|at| at.split('T').next()) {
        info.push(("Bagging-Date", day.to_owned()));
    }
    Ok(info)
}
