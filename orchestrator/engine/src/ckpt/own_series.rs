//! A series of checkpoints that a program writes itself: what differs between them, by places in their files, measured before the next one
//! overwrites them.

use super::series::{self, Measured};
use crate::run::{Findings, RunContext, RunError, compile, files, patterns};
use camino::Utf8PathBuf;
use cvc_delta::{
    Addressing, BlockSize, Signature, Source as State, SourceFile, changed_bytes, sign,
};
use cvc_probe::sentinel::FileFound;
use regex::Regex;
use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

/// Delay between looks at the files.
const TICK: Duration = Duration::from_millis(20);
/// How long the files of a program that does not tell when a checkpoint is complete have not changed when it is taken for complete.
const QUIET: Duration = Duration::from_millis(500);
/// Most checkpoints that are measured: the hashes of all are held in memory.
const MOST: usize = 1000;
/// Most of the output that is kept while a line is incomplete, bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The checkpoints of a run that were measured.
#[derive(Debug)]
pub(super) struct OwnSeries {
    begin: Instant,
    /// What tells that a checkpoint is complete, if the program tells it.
    told: Option<Told>,
    /// Complete checkpoints that were looked at, as the output tells.
    seen: usize,
    /// Files as they were seen last, and since when.
    quiet: (Vec<FileFound>, Instant),
    /// Files of the last checkpoint that was measured.
    last: Vec<FileFound>,
    signatures: Vec<Signature>,
    measured: Vec<Measured>,
}

impl OwnSeries {
    /// None yet. The program of the run starts now.
    ///
    /// # Errors
    /// When a pattern of the descriptor cannot be used.
    pub fn new(run: &RunContext) -> Result<Self, RunError> {
        let own = run.app.checkpoint.as_ref();
        let told = own
            .and_then(|own| own.time_s.as_deref())
            .map(|pattern| {
                Ok::<_, RunError>(Told::new(
                    run.dir.join("stdout"),
                    compile(&run.app, pattern)?,
                ))
            })
            .transpose()?;
        Ok(Self {
            begin: Instant::now(),
            told,
            seen: 0,
            quiet: (Vec::new(), Instant::now()),
            last: Vec::new(),
            signatures: Vec::new(),
            measured: Vec::new(),
        })
    }

    /// Measures checkpoints as they appear. Never ends by itself; what was measured stays when this is dropped.
    ///
    /// # Errors
    /// When nodes cannot be asked for files.
    pub async fn watch(&mut self, run: &RunContext) -> Result<(), RunError> {
        loop {
            if self.is_due() {
                self.look(run, false).await?;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Measures the last checkpoint of a program that has ended, if it was not yet.
    ///
    /// # Errors
    /// When nodes cannot be asked for files.
    pub async fn end(&mut self, run: &RunContext) -> Result<(), RunError> {
        self.look(run, true).await
    }

    /// Whether there may be another complete checkpoint.
    fn is_due(&mut self) -> bool {
        self.told
            .as_mut()
            .is_none_or(|told| told.count() > self.seen)
    }

    /// Looks at the files, and measures them if they are of another checkpoint, and complete.
    async fn look(&mut self, run: &RunContext, is_over: bool) -> Result<(), RunError> {
        let number = self.told.as_ref().map_or(0, |told| told.count);
        let found = find(run).await?;
        if found.is_empty() || found == self.last || self.measured.len() >= MOST {
            self.seen = number;
            return Ok(());
        }
        if self.told.is_none() && !is_over && !self.are_quiet(&found) {
            return Ok(());
        }
        let at_s = self.begin.elapsed().as_secs_f64();
        let state = state(&found);
        let signing = tokio::task::spawn_blocking(move || {
            let begin = Instant::now();
            let signature = sign(&state, Addressing::Index, BlockSize::PAGE, &|_| {});
            (signature, begin.elapsed().as_secs_f64())
        });
        // what cannot be read has just been replaced, or is looked at again
        let Ok((Ok(signature), hash_s)) = signing.await else {
            return Ok(());
        };
        if find(run).await? != found {
            return Ok(());
        }
        self.seen = number;
        self.add(found, signature, at_s, hash_s);
        Ok(())
    }

    /// Whether the files have not changed for a while.
    fn are_quiet(&mut self, found: &[FileFound]) -> bool {
        if self.quiet.0 != found {
            self.quiet = (found.to_vec(), Instant::now());
        }
        self.quiet.1.elapsed() >= QUIET
    }

    fn add(&mut self, found: Vec<FileFound>, signature: Signature, at_s: f64, hash_s: f64) {
        let changed = self
            .signatures
            .iter()
            .map(|old| changed_bytes(&signature, old))
            .collect();
        self.measured.push(Measured {
            at_s,
            bytes: signature.bytes(),
            changed,
            // only images have parts
            parts: BTreeMap::new(),
            hash_s,
        });
        self.signatures.push(signature);
        self.last = found;
    }

    /// Records what was measured of a series of which the program says that it wrote so many, and what each method would store of it.
    pub fn record(&self, written: usize, to: &mut Findings) {
        let planned = written.max(self.measured.len()) as u64;
        series::record(&self.measured, planned, to);
    }
}

/// The files of the checkpoint that is there, none of them empty, by their paths.
async fn find(run: &RunContext) -> Result<Vec<FileFound>, RunError> {
    let Some(own) = &run.app.checkpoint else {
        return Ok(Vec::new());
    };
    let found = files(run, &patterns(run, &own.files)?).await?;
    let mut found: Vec<FileFound> = found.into_iter().map(|(_, file)| file).collect();
    found.retain(|file| file.bytes > 0);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// These files as one state.
fn state(found: &[FileFound]) -> State {
    let file = |file: &FileFound| {
        let mode = std::fs::metadata(&file.path).map_or(0o600, |m| m.permissions().mode());
        SourceFile {
            name: file.path.display().to_string(),
            path: file.path.clone(),
            bytes: file.bytes,
            mode,
        }
    };
    State {
        path: found.first().map(|f| f.path.clone()).unwrap_or_default(),
        files: found.iter().map(file).collect(),
        links: Vec::new(),
        taken_s: 0.0,
    }
}

/// What a program says of checkpoints that it has written, as its output grows: only what is new is read.
#[derive(Debug)]
struct Told {
    path: Utf8PathBuf,
    pattern: Regex,
    offset: u64,
    /// The beginning of the last line.
    line: Vec<u8>,
    /// Matches so far.
    count: usize,
}

impl Told {
    fn new(path: Utf8PathBuf, pattern: Regex) -> Self {
        Self {
            path,
            pattern,
            offset: 0,
            line: Vec::new(),
            count: 0,
        }
    }

    /// Number of checkpoints that complete lines tell of.
    fn count(&mut self) -> usize {
        let mut new = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            // a program that floods its output is read in pieces
            file.take(4 << 20).read_to_end(&mut new)
        });
        self.offset += read.unwrap_or(0) as u64;
        self.line.extend_from_slice(&new);
        let whole = self.line.iter().rposition(|b| *b == b'\n');
        if let Some(end) = whole {
            let text = String::from_utf8_lossy(&self.line[..=end]);
            self.count += self.pattern.captures_iter(&text).count();
            self.line.drain(..=end);
        }
        let excess = self.line.len().saturating_sub(MAX_LINE_BYTES);
        self.line.drain(..excess);
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_counted_by_complete_lines() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let pattern =
            Regex::new(r"(?m)^Checkpoint \d+ written in ([0-9.]+) s$").expect("a pattern");
        let mut told = Told::new(path.clone(), pattern);
        assert_eq!(told.count(), 0, "no output yet");
        let mut text =
            "step 1\nCheckpoint 1 written in 0.5 s\nCheckpoint 2 written in 0.".to_owned();
        std::fs::write(&path, &text).expect("writes");
        assert_eq!((told.count(), told.count()), (1, 1));
        text += "5 s\n";
        std::fs::write(&path, &text).expect("writes");
        assert_eq!(told.count(), 2);
    }
}
