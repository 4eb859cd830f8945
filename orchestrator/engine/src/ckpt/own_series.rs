//! A series of checkpoints that a program writes itself: what differs between them, by places in their files, measured before the next one
//! overwrites them.

use super::contract::Halt;
use crate::{
    run::{
        Findings, GrowingFile, RunContext, RunError, RunFailure, SOON, compile, files, patterns,
    },
    stage::{Hold, NodePart, Stages, Taken},
};
use camino::Utf8PathBuf;
use cvc_core::{outcome::Cause, units::counted};
use cvc_probe::sentinel::{CheckpointFiles, FileFound};
use regex::Regex;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Delay between looks at the files.
const TICK: Duration = Duration::from_millis(20);
/// How long the files of a program that does not tell when a checkpoint is complete have not changed when it is taken for complete.
const QUIET: Duration = Duration::from_millis(500);
/// Longest pause before files that could not be read are tried again.
const MOST_REST: Duration = Duration::from_secs(10);
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
    /// Number of the last complete checkpoint that needs no other look, as the output tells.
    seen: u64,
    /// Files as they were seen last, and since when.
    quiet: (Vec<(String, FileFound)>, Instant),
    /// Files of the last checkpoint that was measured.
    last: Vec<(String, FileFound)>,
    /// Numbers of those that were.
    measured: Vec<u64>,
    /// The last checkpoint that was tried in vain, and why.
    missed: Option<(u64, String)>,
    /// How far the clocks of other nodes are ahead of this one's, as far as it was asked, nanoseconds.
    offsets_ns: BTreeMap<String, i64>,
    /// What cannot be read is not tried again until then, and after that not for so long.
    rest: (Instant, Duration),
}

/// A checkpoint that is to be measured.
#[derive(Debug)]
struct Due {
    number: u64,
    found: Vec<(String, FileFound)>,
    at_s: f64,
}

impl Due {
    /// It as stages get it.
    fn taken(&self, run: &RunContext) -> Taken {
        let mut by_node: BTreeMap<&str, Vec<FileFound>> = BTreeMap::new();
        for (node, file) in &self.found {
            by_node.entry(node).or_default().push(file.clone());
        }
        let part = |(node, files): (&str, Vec<FileFound>)| NodePart {
            node: node.to_owned(),
            files: CheckpointFiles::Own {
                work: run.work.clone().into(),
                files,
            },
            content_bytes: 0,
        };
        Taken {
            number: self.number,
            at_s: self.at_s,
            parts: by_node.into_iter().map(part).collect(),
        }
    }
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
        Ok(Self::of(told))
    }

    fn of(told: Option<Told>) -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            told,
            seen: 0,
            quiet: (Vec::new(), now),
            last: Vec::new(),
            offsets_ns: BTreeMap::new(),
            measured: Vec::new(),
            missed: None,
            rest: (now, TICK),
        }
    }

    /// Measures checkpoints as they appear. Never ends by itself; what was measured stays when this is dropped.
    ///
    /// # Errors
    /// When nodes cannot be asked for files.
    pub async fn watch(&mut self, run: &RunContext, stages: &mut Stages<'_>) -> Result<(), Halt> {
        self.read_clocks(run).await;
        loop {
            if Instant::now() >= self.rest.0 && self.may_be_due() {
                self.look(run, stages, false).await?;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Measures the last checkpoint of a program that has ended, if it was not yet.
    ///
    /// # Errors
    /// When nodes cannot be asked for files.
    pub async fn end(&mut self, run: &RunContext, stages: &mut Stages<'_>) -> Result<(), Halt> {
        if let Some(told) = &mut self.told {
            told.end();
        }
        self.look(run, stages, true).await
    }

    /// Compares the clocks of other nodes that have files with this one's, whose times the output has. Of one that does not answer nothing is known.
    async fn read_clocks(&mut self, run: &RunContext) {
        let used = &run.used;
        for node in used.places().into_iter().filter(|n| *n != used.head.name) {
            if let Ok(skew) = used.crew.skew(node, SOON).await {
                let ahead_s = skew.offset_s - skew.uncertainty_s;
                self.offsets_ns
                    .insert(node.to_owned(), (ahead_s * 1e9) as i64);
            }
        }
    }

    /// The files of the checkpoint that is there, none of them empty, by their paths.
    async fn find(&self, run: &RunContext) -> Result<Vec<(String, FileFound)>, RunError> {
        let Some(own) = &run.app.checkpoint else {
            return Ok(Vec::new());
        };
        let mut found = files(run, &patterns(run, &own.files)?).await?;
        found.retain(|(_, file)| file.bytes > 0);
        found.sort_by(|(a, x), (b, y)| (&x.path, a).cmp(&(&y.path, b)));
        Ok(found)
    }

    /// Whether there may be another complete checkpoint.
    fn may_be_due(&mut self) -> bool {
        self.told
            .as_mut()
            .is_none_or(|told| told.count() > self.seen)
    }

    /// Looks at the files, and gives them to the stages if they are of another checkpoint, and complete.
    async fn look(
        &mut self,
        run: &RunContext,
        stages: &mut Stages<'_>,
        is_over: bool,
    ) -> Result<(), Halt> {
        let Some(mut due) = self.due(self.find(run).await?, is_over) else {
            return Ok(());
        };
        let mut taken = due.taken(run);
        let held = match stages.hold(&mut taken).await {
            Ok(Hold::Open) => stages.after(&taken).await.map(|()| Hold::Open),
            held => held,
        };
        self.note_late(&mut due);
        // what was written meanwhile is not what was read
        let again = match &held {
            Ok(_) => self.find(run).await?,
            Err(failure) if failure.cause == Cause::DiskFull => return Err(failure.clone().into()),
            Err(_) => Vec::new(),
        };
        let read = held.as_ref().map(|_| ()).map_err(RunFailure::clone);
        let settled = self.settle(due, read, &again);
        match (held, settled) {
            (Ok(Hold::Open), number) => stages.confirm(number),
            (Ok(Hold::Held), Some(number)) => {
                taken.number = number;
                stages.after(&taken).await?;
            }
            (Ok(Hold::Held), None) | (Err(_), _) => {}
        }
        Ok(())
    }

    /// The checkpoint that these files are, if they are complete and of none that was measured.
    fn due(&mut self, found: Vec<(String, FileFound)>, is_over: bool) -> Option<Due> {
        let told = self.told.as_ref().map(|told| (told.count, told.at_ns));
        let (mut number, told_ns) = told.unwrap_or((self.measured.len() as u64 + 1, i64::MAX));
        if found.is_empty() || found == self.last || self.measured.len() >= MOST {
            self.seen = number;
            return None;
        }
        match told {
            None if !is_over && !self.are_quiet(&found) => return None,
            // the program tells nothing, against its descriptor: what it leaves behind is complete
            Some((0, _)) if is_over => number = 1,
            Some((count, _)) if count <= self.seen => return None,
            _ => {}
        }
        let modified_ns = |(node, file): &(String, FileFound)| {
            let ahead_ns = self.offsets_ns.get(node).copied().unwrap_or(0);
            file.modified_ns.saturating_sub(ahead_ns)
        };
        if number > 0 && found.iter().any(|found| modified_ns(found) > told_ns) {
            // a program that writes in place has begun with the next one
            let why = "its files were changed after the program had told of it";
            self.missed = Some((number, why.to_owned()));
            return None;
        }
        let at_s = self.begin.elapsed().as_secs_f64();
        Some(Due {
            number,
            found,
            at_s,
        })
    }

    /// Gives a checkpoint the number that the program tells by now: if its files stay the same until after this, it was told late.
    fn note_late(&mut self, due: &mut Due) {
        if let Some(told) = &mut self.told {
            due.number = due.number.max(told.count());
        }
    }

    /// Takes a checkpoint that was read, unless its files are others by now, and returns its number; notes why one could not be read.
    fn settle(
        &mut self,
        due: Due,
        read: Result<(), RunFailure>,
        again: &[(String, FileFound)],
    ) -> Option<u64> {
        if let Err(failure) = read {
            self.missed = Some((due.number, failure.detail));
            // each try may have read for long, beside the program that is measured
            let (_, pause) = self.rest;
            self.rest = (Instant::now() + pause, (pause * 2).min(MOST_REST));
            return None;
        }
        self.rest = (Instant::now(), TICK);
        if again != due.found {
            let why = "its files were changed while they were read";
            self.missed = Some((due.number, why.to_owned()));
            return None;
        }
        self.seen = due.number;
        self.missed.take_if(|(number, _)| *number == due.number);
        self.measured.push(due.number);
        self.last = due.found;
        Some(due.number)
    }

    /// Whether the files have not changed for a while.
    fn are_quiet(&mut self, found: &[(String, FileFound)]) -> bool {
        if self.quiet.0 != found {
            self.quiet = (found.to_vec(), Instant::now());
        }
        self.quiet.1.elapsed() >= QUIET
    }

    /// Records what stages measured of a series of which the program says that it wrote so many; notes why checkpoints are missing, as far as that is
    /// known.
    pub fn record(&self, written: usize, stages: &Stages<'_>, to: &mut Findings) {
        let taken = self.measured.len();
        let planned = written.max(taken) as u64;
        stages.measure(planned, to);
        if planned > taken as u64 || self.missed.is_some() || taken == 0 {
            to.notes.push(self.missing(planned));
        }
    }

    /// What is missing of so many checkpoints, and why, as far as that is known.
    fn missing(&self, planned: u64) -> String {
        let taken = self.measured.len();
        let why = match &self.missed {
            Some((number, why)) => format!("checkpoint {number} is missing: {why}"),
            None if planned == 0 => "none was complete when its files were looked at".to_owned(),
            None if taken >= MOST => format!("no more than {MOST} are measured"),
            None => "the others were overwritten before they were read".to_owned(),
        };
        let of = if self.told.is_some() {
            format!(
                "{taken} of {} that the program told of",
                counted(planned, "checkpoint")
            )
        } else {
            counted(taken, "checkpoint")
        };
        format!("the series has {of}; {why}")
    }
}

/// What a program says of checkpoints that it has written, as its output grows.
#[derive(Debug)]
struct Told {
    output: GrowingFile,
    pattern: Regex,
    /// The beginning of the last line.
    line: Vec<u8>,
    /// Matches so far.
    count: u64,
    /// When the last of them had been read, nanoseconds since 1970.
    at_ns: i64,
}

impl Told {
    fn new(path: Utf8PathBuf, pattern: Regex) -> Self {
        Self {
            output: GrowingFile::new(path),
            pattern,
            line: Vec::new(),
            count: 0,
            at_ns: i64::MAX,
        }
    }

    /// Number of checkpoints that complete lines tell of.
    fn count(&mut self) -> u64 {
        self.read();
        self.count
    }

    /// Reads what is new; whether there was anything.
    fn read(&mut self) -> bool {
        let new = self.output.read_new(&mut self.line).unwrap_or(0);
        let whole = self.line.iter().rposition(|b| *b == b'\n');
        if let Some(end) = whole {
            self.take(end + 1);
        }
        let excess = self.line.len().saturating_sub(MAX_LINE_BYTES);
        self.line.drain(..excess);
        new > 0
    }

    /// Reads all that a program that has ended told; its last line may have no end.
    fn end(&mut self) {
        while self.read() {}
        self.take(self.line.len());
    }

    /// Counts matches in the first bytes of what is unread.
    fn take(&mut self, bytes: usize) {
        let told: Vec<u8> = self.line.drain(..bytes).collect();
        let text = String::from_utf8_lossy(&told);
        let more = self.pattern.captures_iter(&text).count() as u64;
        if more > 0 {
            self.count += more;
            self.at_ns = now_ns();
        }
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
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

    /// A directory with the output of a program and its checkpoint file, and the series of it.
    struct Program {
        dir: tempfile::TempDir,
        series: OwnSeries,
    }

    impl Program {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
            let pattern = Regex::new(r"(?m)^Checkpoint \d+$").expect("a pattern");
            let series = OwnSeries::of(Some(Told::new(path, pattern)));
            Self { dir, series }
        }

        /// The program writes blocks with these bytes into its file.
        fn write(&self, blocks: &[u8]) {
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| [*b; 4096]).collect();
            std::fs::write(self.dir.path().join("ckpt"), bytes).expect("writes");
        }

        /// The program tells of so many checkpoints in all.
        fn tell(&self, count: usize) {
            std::fs::write(
                self.dir.path().join("stdout"),
                "Checkpoint 1\n".repeat(count),
            )
            .expect("writes");
        }

        fn found(&self) -> Vec<(String, FileFound)> {
            use std::os::unix::fs::MetadataExt;
            let path = self.dir.path().join("ckpt");
            let of = std::fs::metadata(&path).expect("the file");
            let file = FileFound {
                path,
                bytes: of.len(),
                modified_ns: of.mtime() * 1_000_000_000 + of.mtime_nsec(),
                inode: of.ino(),
                device: of.dev(),
            };
            vec![("n1".to_owned(), file)]
        }

        /// A look at the files, between which and the next the program writes what `meanwhile` says.
        fn look_while(&mut self, is_over: bool, meanwhile: impl FnOnce(&Self)) {
            if is_over {
                self.series.told.as_mut().expect("it tells").end();
            } else if !self.series.may_be_due() {
                return;
            }
            let Some(mut due) = self.series.due(self.found(), is_over) else {
                return;
            };
            self.series.note_late(&mut due);
            // the clock of file systems is a coarse one
            std::thread::sleep(TICK);
            meanwhile(self);
            let again = self.found();
            self.series.settle(due, Ok(()), &again);
        }

        fn look(&mut self) {
            self.look_while(false, |_| {});
        }

        fn numbers(&self) -> Vec<u64> {
            self.series.measured.clone()
        }

        fn findings(&self, written: usize) -> (usize, Vec<String>) {
            let mut to = Findings::new(cvc_core::ids::RunId::of(b"r"));
            self.series.record(written, &Stages::default(), &mut to);
            (self.series.measured.len(), to.notes)
        }
    }

    #[test]
    fn checkpoints_keep_the_numbers_that_the_program_gives_them() {
        let mut program = Program::new();
        program.write(&[1, 1]);
        program.look();
        assert!(program.numbers().is_empty(), "not told of");
        program.tell(1);
        program.look();
        program.look();
        // the second is overwritten by the third, unread
        program.write(&[1, 2]);
        program.write(&[3, 2, 2]);
        program.tell(3);
        program.look();
        assert_eq!(program.numbers(), [1, 3]);
        let missing = "the series has 2 of 3 checkpoints that the program told of; the others were overwritten before they were read";
        assert_eq!(program.findings(3), (2, vec![missing.to_owned()]));
    }

    #[test]
    fn files_that_stay_the_same_until_the_next_is_told_are_the_next() {
        let mut program = Program::new();
        program.write(&[1]);
        program.tell(1);
        assert!(program.series.may_be_due());
        let mut due = program.series.due(program.found(), false).expect("due");
        // the file is the second one, of which the output tells a little later
        program.tell(2);
        program.series.note_late(&mut due);
        assert_eq!(due.number, 2);
    }

    #[test]
    fn what_is_written_after_the_program_told_is_no_checkpoint() {
        let mut program = Program::new();
        program.write(&[1, 1]);
        program.tell(1);
        assert!(program.series.may_be_due());
        std::thread::sleep(TICK);
        // in place: half of the second checkpoint
        program.write(&[2, 1]);
        program.look();
        assert!(program.numbers().is_empty());
        // nor is what a program has left behind that broke off
        program.look_while(true, |_| {});
        let (count, notes) = program.findings(1);
        assert_eq!(count, 0);
        assert_eq!(
            notes,
            [
                "the series has 0 of 1 checkpoint that the program told of; checkpoint 1 is missing: its files were changed after the program had told \
                 of it"
            ]
        );
        program.tell(2);
        program.look();
        assert_eq!(program.numbers(), [2], "told of, and unchanged since");
    }

    #[test]
    fn what_is_written_while_it_is_read_is_no_checkpoint() {
        let mut program = Program::new();
        program.write(&[1, 1]);
        program.tell(1);
        program.look_while(false, |program| program.write(&[2, 1]));
        assert!(program.numbers().is_empty());
        let (_, notes) = program.findings(1);
        assert!(
            notes[0].ends_with("1 is missing: its files were changed while they were read"),
            "{notes:?}"
        );
        program.tell(2);
        program.look();
        assert_eq!(program.numbers(), [2]);
        let (count, notes) = program.findings(2);
        assert_eq!(
            (count, notes.len()),
            (1, 1),
            "it is still missing: {notes:?}"
        );
    }

    #[test]
    fn files_that_cannot_be_read_are_tried_ever_more_rarely_and_told() {
        let mut program = Program::new();
        program.write(&[1]);
        program.tell(1);
        assert!(program.series.may_be_due());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let due = program.series.due(program.found(), false);
            let before = Instant::now();
            let unread = Err(RunFailure::new(Cause::Checkpoint, "gone: cannot open"));
            program.series.settle(due.expect("it is due"), unread, &[]);
            pauses.push(program.series.rest.0.duration_since(before));
        }
        assert!(pauses[0] >= TICK && pauses[1] >= 2 * TICK, "{pauses:?}");
        assert!(pauses.is_sorted() || pauses[11] >= MOST_REST, "{pauses:?}");
        assert!(pauses[11] >= MOST_REST && pauses[11] < 2 * MOST_REST);
        let (count, notes) = program.findings(1);
        assert_eq!(count, 0);
        assert!(
            notes.len() == 1 && notes[0].contains("gone: cannot open"),
            "{notes:?}"
        );
        // what can be read at last is measured, and the pauses are short again
        program.look();
        assert_eq!(program.numbers(), [1]);
        assert_eq!(program.series.rest.1, TICK);
        assert_eq!(program.findings(1), (1, Vec::new()));
    }

    #[test]
    fn a_program_that_tells_nothing_against_its_descriptor_leaves_one_checkpoint() {
        let mut program = Program::new();
        program.write(&[1]);
        program.look_while(true, |_| {});
        assert_eq!(program.numbers(), [1]);
    }

    #[test]
    fn the_last_line_of_a_program_that_has_ended_needs_no_end() {
        let mut program = Program::new();
        program.write(&[1]);
        std::fs::write(program.dir.path().join("stdout"), "Checkpoint 1").expect("writes");
        program.look();
        assert!(program.numbers().is_empty());
        program.look_while(true, |_| {});
        assert_eq!(program.numbers(), [1]);
        assert_eq!(program.series.told.as_ref().map(|told| told.count), Some(1));
    }
}
