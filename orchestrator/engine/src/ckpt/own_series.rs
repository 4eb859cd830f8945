//! A series of checkpoints that a program writes by itself. Differences between the checkpoints, by offset in their files, are measured before the
//! next checkpoint overwrites the files.

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

/// Interval between checks of the files.
const TICK: Duration = Duration::from_millis(20);
/// Time without a change after which the files of a program that does not announce complete checkpoints are assumed to be complete.
pub(super) const QUIET: Duration = Duration::from_millis(500);
/// Maximum pause before reading files is retried.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of checkpoints measured: their hashes are all held in memory.
const MAX_MEASURED: usize = 1000;
/// Maximum length of an incomplete output line that is kept, bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The measured checkpoints of a run.
#[derive(Debug)]
pub(super) struct OwnSeries {
    begin: Instant,
    /// Detects complete checkpoints in the program's output; `None` if the program does not announce them.
    announced: Option<Announcements>,
    /// Number of the last announced checkpoint that is measured or needs no measurement.
    seen: u64,
    /// Files at the last check, and the time of the first check that found them in this state.
    quiet: (Vec<(String, FileFound)>, Instant),
    /// Files of the last measured checkpoint.
    last: Vec<(String, FileFound)>,
    /// Numbers of the measured checkpoints.
    measured: Vec<u64>,
    /// A checkpoint that stages have copied but not processed yet.
    pending: Option<Taken>,
    /// Number of the last checkpoint that was not measured, and the reason.
    missed: Option<(u64, String)>,
    /// Clock offsets of the other nodes that answered, relative to this node's clock, nanoseconds.
    offsets_ns: BTreeMap<String, i64>,
    /// After a failed reading: the earliest time of the next attempt, and the pause that follows another failure.
    rest: (Instant, Duration),
}

/// A checkpoint to be measured.
#[derive(Debug)]
struct DueCheckpoint {
    number: u64,
    found: Vec<(String, FileFound)>,
    at_s: f64,
}

impl DueCheckpoint {
    /// Converts the checkpoint to the form that stages take.
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
            also: Vec::new(),
        };
        Taken {
            number: self.number,
            at_s: self.at_s,
            parts: by_node.into_iter().map(part).collect(),
        }
    }
}

impl OwnSeries {
    /// Creates an empty series. Call this when the run's program starts.
    ///
    /// # Errors
    /// A pattern of the descriptor cannot be used.
    pub fn new(run: &RunContext) -> Result<Self, RunError> {
        let own = run.app.checkpoint.as_ref();
        let announced = own
            .and_then(|own| own.time_s.as_deref())
            .map(|pattern| {
                Ok::<_, RunError>(Announcements::new(
                    run.dir.join("stdout"),
                    compile(&run.app, pattern)?,
                ))
            })
            .transpose()?;
        Ok(Self::of(announced))
    }

    fn of(announced: Option<Announcements>) -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            announced,
            seen: 0,
            quiet: (Vec::new(), now),
            last: Vec::new(),
            offsets_ns: BTreeMap::new(),
            measured: Vec::new(),
            pending: None,
            missed: None,
            rest: (now, TICK),
        }
    }

    /// Measures checkpoints as they appear. Returns only if there is an error. If this future is dropped, the measurements are kept.
    ///
    /// # Errors
    /// Nodes cannot be queried for files.
    pub async fn watch(&mut self, run: &RunContext, stages: &mut Stages<'_>) -> Result<(), Halt> {
        self.read_clocks(run).await;
        loop {
            if Instant::now() >= self.rest.0 && self.may_be_due() {
                self.look(run, stages, false).await?;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Measures the last checkpoint of a program that has ended, unless it is measured already.
    ///
    /// # Errors
    /// Nodes cannot be queried for files.
    pub async fn end(&mut self, run: &RunContext, stages: &mut Stages<'_>) -> Result<(), Halt> {
        if let Some(announced) = &mut self.announced {
            announced.end();
        }
        self.process_pending(stages).await?;
        self.look(run, stages, true).await
    }

    /// Reads the clocks of the other nodes that have files, and stores their offsets from this node's clock, by which the output's times are
    /// measured. The offset of a node that does not answer stays unknown.
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

    /// Returns the current checkpoint files that are not empty, sorted by path.
    async fn find(&self, run: &RunContext) -> Result<Vec<(String, FileFound)>, RunError> {
        let Some(own) = &run.app.checkpoint else {
            return Ok(Vec::new());
        };
        let mut found = files(run, &patterns(run, &own.files)?).await?;
        found.retain(|(_, file)| file.bytes > 0);
        found.sort_by(|(a, x), (b, y)| (&x.path, a).cmp(&(&y.path, b)));
        Ok(found)
    }

    /// Returns whether there may be a new complete checkpoint.
    fn may_be_due(&mut self) -> bool {
        self.announced
            .as_mut()
            .is_none_or(|announced| announced.count() > self.seen)
    }

    /// Checks the files, and passes them to the stages if they are a new and complete checkpoint.
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
        // if the program wrote during the reading, the files now differ from the data read
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
                self.pending = Some(taken);
                self.process_pending(stages).await?;
            }
            (Ok(Hold::Held), None) | (Err(_), _) => {}
        }
        Ok(())
    }

    /// Passes the copied checkpoint, if there is one, to the stages. If this future is dropped, the next call passes the same checkpoint again.
    async fn process_pending(&mut self, stages: &mut Stages<'_>) -> Result<(), Halt> {
        if let Some(taken) = &self.pending {
            stages.after(taken).await?;
            stages.confirm(Some(taken.number));
            self.pending = None;
        }
        Ok(())
    }

    /// Returns the checkpoint that consists of these files, if they are complete and not measured yet.
    fn due(&mut self, found: Vec<(String, FileFound)>, is_over: bool) -> Option<DueCheckpoint> {
        let announced = self
            .announced
            .as_ref()
            .map(|announced| (announced.count, announced.at_ns));
        let (mut number, announced_ns) =
            announced.unwrap_or((self.measured.len() as u64 + 1, i64::MAX));
        if found.is_empty() || found == self.last || self.measured.len() >= MAX_MEASURED {
            self.seen = number;
            return None;
        }
        match announced {
            None if !is_over && !self.are_quiet(&found) => return None,
            // the program did not announce anything, contrary to its descriptor: its last files count as complete
            Some((0, _)) if is_over => number = 1,
            Some((count, _)) if count <= self.seen => return None,
            _ => {}
        }
        let modified_ns = |(node, file): &(String, FileFound)| {
            let ahead_ns = self.offsets_ns.get(node).copied().unwrap_or(0);
            file.modified_ns.saturating_sub(ahead_ns)
        };
        if number > 0 && found.iter().any(|found| modified_ns(found) > announced_ns) {
            // a program that writes in place has begun the next checkpoint
            let why = "its files were changed after the program had announced it";
            self.missed = Some((number, why.to_owned()));
            return None;
        }
        let at_s = self.begin.elapsed().as_secs_f64();
        Some(DueCheckpoint {
            number,
            found,
            at_s,
        })
    }

    /// Updates the checkpoint's number to the last announced number. If the files have not changed since they were read, an announcement that came in
    /// between belongs to this checkpoint.
    fn note_late(&mut self, due: &mut DueCheckpoint) {
        if let Some(announced) = &mut self.announced {
            due.number = due.number.max(announced.count());
        }
    }

    /// Accepts a checkpoint whose files were read, unless they have changed, and returns its number. Otherwise records why the checkpoint was not
    /// measured.
    fn settle(
        &mut self,
        due: DueCheckpoint,
        read: Result<(), RunFailure>,
        again: &[(String, FileFound)],
    ) -> Option<u64> {
        if let Err(failure) = read {
            self.missed = Some((due.number, failure.detail));
            // each attempt may read for a long time while the measured program runs: wait longer after each failure
            let (_, pause) = self.rest;
            self.rest = (Instant::now() + pause, (pause * 2).min(MAX_PAUSE));
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

    /// Returns whether the files have been unchanged for [`QUIET`].
    fn are_quiet(&mut self, found: &[(String, FileFound)]) -> bool {
        if self.quiet.0 != found {
            self.quiet = (found.to_vec(), Instant::now());
        }
        self.quiet.1.elapsed() >= QUIET
    }

    /// Records the measurements of stages for a series of `written` checkpoints, as counted by the program. Also records why checkpoints are missing,
    /// if known.
    pub fn record(&self, written: usize, stages: &Stages<'_>, to: &mut Findings) {
        let taken = self.measured.len();
        let planned = written.max(taken) as u64;
        stages.measure(planned, to);
        if planned > taken as u64 || self.missed.is_some() || taken == 0 {
            to.notes.push(self.missing(planned));
        }
    }

    /// Describes how many of the `planned` checkpoints were measured, and why the others are missing, if known.
    fn missing(&self, planned: u64) -> String {
        let taken = self.measured.len();
        let why = match &self.missed {
            Some((number, why)) => format!("checkpoint {number} is missing: {why}"),
            None if planned == 0 => "none was complete when its files were checked".to_owned(),
            None if taken >= MAX_MEASURED => format!("at most {MAX_MEASURED} are measured"),
            None => "the others were overwritten before they were read".to_owned(),
        };
        let of = if self.announced.is_some() {
            format!(
                "{taken} of {} that the program announced",
                counted(planned, "checkpoint")
            )
        } else {
            counted(taken, "checkpoint")
        };
        format!("the series has {of}; {why}")
    }
}

/// Counts a program's announcements of written checkpoints in its growing output.
#[derive(Debug)]
pub(super) struct Announcements {
    output: GrowingFile,
    pattern: Regex,
    /// The incomplete last line.
    line: Vec<u8>,
    /// Number of matches until now.
    count: u64,
    /// Time when the last match was read, nanoseconds since 1970.
    at_ns: i64,
}

impl Announcements {
    pub fn new(path: Utf8PathBuf, pattern: Regex) -> Self {
        Self {
            output: GrowingFile::new(path),
            pattern,
            line: Vec::new(),
            count: 0,
            at_ns: i64::MAX,
        }
    }

    /// Returns the number of checkpoints announced in complete lines.
    pub fn count(&mut self) -> u64 {
        self.read();
        self.count
    }

    /// Reads new output, and returns its length in bytes.
    fn read(&mut self) -> usize {
        let new = self.output.read_new(&mut self.line).unwrap_or(0);
        let whole = self.line.iter().rposition(|b| *b == b'\n');
        if let Some(end) = whole {
            self.take(end + 1);
        }
        let excess = self.line.len().saturating_sub(MAX_LINE_BYTES);
        self.line.drain(..excess);
        new
    }

    /// Reads the rest of the output of an ended program; its last line may be incomplete.
    fn end(&mut self) {
        while self.read() > 0 {}
        self.take(self.line.len());
    }

    /// Counts matches in the first `bytes` unread bytes.
    fn take(&mut self, bytes: usize) {
        let announced: Vec<u8> = self.line.drain(..bytes).collect();
        let text = String::from_utf8_lossy(&announced);
        let more = self.pattern.captures_iter(&text).count() as u64;
        if more > 0 {
            self.count += more;
            self.at_ns = now_ns();
        }
    }
}

/// Returns the current time, nanoseconds since 1970.
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
        let mut announced = Announcements::new(path.clone(), pattern);
        assert_eq!(announced.count(), 0, "no output yet");
        let mut text =
            "step 1\nCheckpoint 1 written in 0.5 s\nCheckpoint 2 written in 0.".to_owned();
        std::fs::write(&path, &text).expect("writes");
        assert_eq!((announced.count(), announced.count()), (1, 1));
        text += "5 s\n";
        std::fs::write(&path, &text).expect("writes");
        assert_eq!(announced.count(), 2);
    }

    /// A directory with a program's output and checkpoint file, and the series measured from them.
    struct Program {
        dir: tempfile::TempDir,
        series: OwnSeries,
    }

    impl Program {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
            let pattern = Regex::new(r"(?m)^Checkpoint \d+$").expect("a pattern");
            let series = OwnSeries::of(Some(Announcements::new(path, pattern)));
            Self { dir, series }
        }

        /// Writes blocks with these bytes into the checkpoint file, as the program would.
        fn write(&self, blocks: &[u8]) {
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| [*b; 4096]).collect();
            std::fs::write(self.dir.path().join("ckpt"), bytes).expect("writes");
        }

        /// Writes output by which the program has announced this many checkpoints in total.
        fn announce(&self, count: usize) {
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

        /// Checks the files once. `meanwhile` writes to them after they were read, and before the check ends.
        fn look_while(&mut self, is_over: bool, meanwhile: impl FnOnce(&Self)) {
            if is_over {
                self.series.announced.as_mut().expect("it announces").end();
            } else if !self.series.may_be_due() {
                return;
            }
            let Some(mut due) = self.series.due(self.found(), is_over) else {
                return;
            };
            self.series.note_late(&mut due);
            // file systems have a coarse clock
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
        assert!(program.numbers().is_empty(), "not announced");
        program.announce(1);
        program.look();
        program.look();
        // the second checkpoint is overwritten by the third before it is read
        program.write(&[1, 2]);
        program.write(&[3, 2, 2]);
        program.announce(3);
        program.look();
        assert_eq!(program.numbers(), [1, 3]);
        let missing = "the series has 2 of 3 checkpoints that the program announced; the others were overwritten before they were read";
        assert_eq!(program.findings(3), (2, vec![missing.to_owned()]));
    }

    #[test]
    fn files_unchanged_until_the_next_announcement_are_that_of_the_next() {
        let mut program = Program::new();
        program.write(&[1]);
        program.announce(1);
        assert!(program.series.may_be_due());
        let mut due = program.series.due(program.found(), false).expect("due");
        // the file has the second checkpoint, which the output announces a little later
        program.announce(2);
        program.series.note_late(&mut due);
        assert_eq!(due.number, 2);
    }

    #[test]
    fn files_written_after_the_announcement_are_no_checkpoint() {
        let mut program = Program::new();
        program.write(&[1, 1]);
        program.announce(1);
        assert!(program.series.may_be_due());
        std::thread::sleep(TICK);
        // written in place: half of the second checkpoint
        program.write(&[2, 1]);
        program.look();
        assert!(program.numbers().is_empty());
        // nor are the remains of a program that ended early
        program.look_while(true, |_| {});
        let (count, notes) = program.findings(1);
        assert_eq!(count, 0);
        assert_eq!(
            notes,
            [
                "the series has 0 of 1 checkpoint that the program announced; checkpoint 1 is missing: its files were changed after the program had announced \
                 it"
            ]
        );
        program.announce(2);
        program.look();
        assert_eq!(program.numbers(), [2], "announced, and unchanged since");
    }

    #[test]
    fn files_written_while_they_are_read_are_no_checkpoint() {
        let mut program = Program::new();
        program.write(&[1, 1]);
        program.announce(1);
        program.look_while(false, |program| program.write(&[2, 1]));
        assert!(program.numbers().is_empty());
        let (_, notes) = program.findings(1);
        assert!(
            notes[0].ends_with("1 is missing: its files were changed while they were read"),
            "{notes:?}"
        );
        program.announce(2);
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
    fn unreadable_files_are_retried_at_growing_intervals_and_reported() {
        let mut program = Program::new();
        program.write(&[1]);
        program.announce(1);
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
        assert!(pauses.is_sorted() || pauses[11] >= MAX_PAUSE, "{pauses:?}");
        assert!(pauses[11] >= MAX_PAUSE && pauses[11] < 2 * MAX_PAUSE);
        let (count, notes) = program.findings(1);
        assert_eq!(count, 0);
        assert!(
            notes.len() == 1 && notes[0].contains("gone: cannot open"),
            "{notes:?}"
        );
        // a checkpoint that becomes readable is measured, and the pauses are short again
        program.look();
        assert_eq!(program.numbers(), [1]);
        assert_eq!(program.series.rest.1, TICK);
        assert_eq!(program.findings(1), (1, Vec::new()));
    }

    #[test]
    fn a_program_that_announces_nothing_despite_its_descriptor_leaves_one_checkpoint() {
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
        assert_eq!(
            program
                .series
                .announced
                .as_ref()
                .map(|announced| announced.count),
            Some(1)
        );
    }
}
