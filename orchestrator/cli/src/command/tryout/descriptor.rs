//! The descriptor of a command: before the pilot run, after it, and as written for the user.

use super::prepare::Prepared;
use crate::{
    command::init::{
        own::{OwnProgram, TrialFacts, TrialRecord},
        text,
    },
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::{
    self, LoadedApp,
    descriptor::OwnCheckpoint,
    learn::{Learned, SuccessLine},
    source_file::SourceFile,
};
use cvc_core::point::Moment;
use cvc_session::own_files::OwnFiles;
use serde_json::Value;
use std::{fmt::Write, fs, os::unix::fs::MetadataExt};

/// A regular expression that matches any output, even an empty one, for the first run, whose output is unknown.
const ANYTHING: &str = r"\A";
/// Minimum computing time of a program that leaves room for a checkpoint, seconds.
const SHORT_S: f64 = 0.5;
/// As [`SHORT_S`], for a program whose start a shell announces: the start-up time of the program then counts as computing time.
const SHORT_ANNOUNCED_S: f64 = 2.0;
/// Fractions of a run after which the checkpoint is taken: the default, and a second try if the run ended before.
const PARTS: [f64; 2] = [0.4, 0.15];
/// Minimum number of printed steps from which the moment of a checkpoint can be chosen.
const MIN_STEPS: usize = 5;
/// Command that prints a line before it starts a program with late output, because checkpoint times count from the first output.
const ANNOUNCES: &str = "echo cvc: started; exec \"$0\" \"$@\"";

/// Results of the pilot run.
#[derive(Clone, Debug)]
pub struct Pilot {
    pub wall_s: f64,
    /// Whether the program ended by itself.
    pub ended: bool,
    /// The files of the program's own checkpoint, if any.
    pub own_files: Option<OwnFiles>,
}

/// The descriptor of a command, as far as it is known.
#[derive(Clone, Debug)]
pub struct Descriptor {
    own: OwnProgram,
    here: Utf8PathBuf,
    pub sources: Vec<SourceFile>,
    pub learned: Learned,
    pub tried: Option<TrialRecord>,
    /// The files of the program's own checkpoint, if it is measured.
    pub own_files: Option<OwnFiles>,
    /// Whether a shell prints a line before the program starts, because the program's own output is late.
    pub is_announced: bool,
    /// Whether the program prints its lines without buffering, so that steps are seen in time.
    pub prints_often: bool,
    /// Time from the first output to the end of the pilot run, seconds.
    pub computes_s: f64,
}

impl Descriptor {
    pub fn new(prepared: &Prepared) -> Self {
        Self {
            own: prepared.own.clone(),
            here: prepared.here.clone(),
            sources: prepared.sources.clone(),
            learned: Learned::default(),
            tried: None,
            own_files: None,
            is_announced: false,
            prints_often: false,
            computes_s: 0.0,
        }
    }

    /// Returns the name of the program in campaigns.
    pub fn name(&self) -> &str {
        &self.own.name
    }

    /// Returns the moment of a checkpoint, and an earlier one in case the program ends before. If the pilot run ended by itself, both are fractions
    /// of its time; otherwise they are steps that it printed.
    ///
    /// # Errors
    /// The program ends too early for a checkpoint.
    pub fn moments(&self, pilot: &Pilot) -> Result<Vec<Moment>, Failure> {
        let least = match self.is_announced {
            true => SHORT_ANNOUNCED_S,
            false => SHORT_S,
        };
        if pilot.ended && self.computes_s < least {
            return Err(Failure::Other {
                status: ExitStatus::RunsFailed,
                message: format!(
                    "{} ends after {:.1} s, including the start of its processes: too short for a checkpoint",
                    self.own.file, pilot.wall_s
                ),
                hint: Some("give it more steps or a larger problem".into()),
            });
        }
        let steps = self
            .learned
            .step
            .as_ref()
            .map_or(&[][..], |step| &step.steps);
        let step_at = |part: f64| {
            let place = (steps.len() as f64 * part) as usize;
            steps.get(place).copied().filter(|step| *step > 0)
        };
        if !pilot.ended {
            let middle = step_at(0.25);
            return Ok(vec![
                middle.map_or(Moment::SizeOnly, Moment::SizeOnlyAfterStep),
            ]);
        }
        let at = |part: f64| {
            // round to a tenth of a second, which is precise enough
            let seconds = (self.computes_s * part * 10.0).round() / 10.0;
            Moment::AtS(vec![seconds.max(0.1)])
        };
        let [usual, early] = PARTS;
        let by_step = step_at(usual).filter(|_| self.prints_often && steps.len() >= MIN_STEPS);
        Ok(vec![
            by_step.map_or(at(usual), Moment::AfterStep),
            at(early),
        ])
    }

    /// Keeps only the input files that the program read, if the access times of the file system show them.
    pub fn keep_read_files(&mut self, work: &Utf8Path) {
        let was_read = |source: &SourceFile| {
            let metadata = fs::metadata(work.join(&source.path));
            metadata.map_or(true, |of| {
                (of.atime(), of.atime_nsec()) > (of.mtime(), of.mtime_nsec())
            })
        };
        let read: Vec<SourceFile> = self
            .sources
            .iter()
            .filter(|s| was_read(s))
            .cloned()
            .collect();
        let is_named = |source: &SourceFile| {
            let mut args = self.own.args.iter();
            args.any(|arg| Utf8Path::new(arg).ends_with(&source.path))
        };
        // if no file appears to be read although the command names some, the file system does not record access times
        if !read.is_empty() || !self.sources.iter().any(is_named) {
            self.sources = read;
        }
    }

    /// Returns the program with these facts, from which the descriptor is written.
    fn program(&self, facts: TrialFacts) -> OwnProgram {
        let mut own = OwnProgram {
            facts,
            ..self.own.clone()
        };
        if self.is_announced {
            let program = Utf8Path::new(&own.directory).join(&own.file);
            let args = ["-c".to_owned(), ANNOUNCES.to_owned(), program.into_string()];
            own.args = args.into_iter().chain(own.args).collect();
            (own.directory, own.file) = ("/bin".to_owned(), "sh".to_owned());
        }
        own
    }

    /// Returns the sections to append to the descriptor from the template: input files, which may be in subdirectories, and the program's own
    /// checkpoints. `source_of` returns the path from which an input file is copied.
    fn more(&self, source_of: impl Fn(&SourceFile) -> Utf8PathBuf) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut more = String::new();
        for source in &self.sources {
            // writing to text cannot fail
            let _ = write!(
                more,
                "\n[[command.files]]                # every run gets a copy in its working directory\npath = {}\nsource = {}\n",
                quoted(&source.path),
                quoted(source_of(source).as_str())
            );
        }
        if let Some(own) = &self.own_files {
            let OwnCheckpoint { files, always, .. } = own.descriptor();
            let files: Vec<String> = files.iter().map(|file| quoted(file)).collect();
            let _ = write!(
                more,
                "\n[checkpoint]                     # files {}\nfiles = [{}]\nalways = {always}                    # it writes them in every run\n",
                own.evidence.describe(),
                files.join(", ")
            );
        }
        more
    }

    /// Returns the descriptor for the runs of `cvc try`. If no line shows success, the exit code does.
    ///
    /// # Errors
    /// The descriptor is invalid.
    pub fn load(&self) -> Result<LoadedApp, Failure> {
        let anything = SuccessLine {
            pattern: ANYTHING.to_owned(),
            line: String::new(),
            verifies: false,
        };
        let tried = TrialRecord {
            processes: 1,
            mpi: String::new(),
            wall_s: 0.0,
            on: String::new(),
            ended: false,
        };
        let facts = TrialFacts {
            tried: Some(self.tried.clone().unwrap_or(tried)),
            success: Some(self.learned.success.clone().unwrap_or(anything)),
            step: self.learned.step.clone(),
            figures: Vec::new(),
            ..TrialFacts::default()
        };
        let text = text::write_descriptor(&self.program(facts), None)?
            + &self.more(|of| of.source.clone());
        let path = format!("{}.toml", self.own.name);
        Ok(app::load::load_text(path.as_ref(), &text)?)
    }

    /// Returns the descriptor that is written for the user.
    ///
    /// # Errors
    /// The descriptor cannot be written.
    pub fn text(&self) -> Result<String, Failure> {
        let facts = TrialFacts {
            tried: self.tried.clone(),
            success: self.learned.success.clone(),
            step: self.learned.step.clone(),
            figures: self.learned.figures.clone(),
            ..TrialFacts::default()
        };
        let program = self.program(facts);
        let text = text::write_descriptor(&program, None)?;
        let title = |file: &str| format!("title = {}", Value::from(file));
        let text = text.replacen("`cvc init`", "`cvc try`", 1).replacen(
            &title(&program.file),
            &title(&self.own.file),
            1,
        );
        Ok(text + &self.more(|of| self.here.join(&of.path)))
    }

    /// Returns the directory of the program.
    pub fn directory(&self) -> String {
        self.program(TrialFacts::default()).directory
    }

    /// Returns the program with all facts learned, from which the descriptor is written.
    pub fn own(&self) -> OwnProgram {
        self.program(TrialFacts {
            tried: self.tried.clone(),
            success: self.learned.success.clone(),
            step: self.learned.step.clone(),
            figures: self.learned.figures.clone(),
            ..TrialFacts::default()
        })
    }
}
