//! A user's own program: its path, arguments and libraries, and the results of one trial run.

use super::ask::{Asker, Question, ask_yes, wrong};
use crate::{failure::Failure, output::note, text::paragraph};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use cvc_core::app::learn::{CheckpointLines, LearnedFigure, StepLine, SuccessLine};
use cvc_core::campaign::MpiFamily;
use cvc_core::units::{self, counted};
use cvc_core::{paths, words};
use cvc_engine::mpi::{LinkedMpi, linked_mpi, needed};
use cvc_session::own_files::OwnFiles;
use std::fs::File;
use std::io::Read;

/// A user's own program.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnProgram {
    /// Name of the program's descriptor.
    pub name: String,
    /// Directory of the program, and the program's file name in it.
    pub directory: String,
    pub file: String,
    /// Directory with a sub-directory for each MPI library that has its own program; `None` if there is only this program.
    pub by_library: Option<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Absolute paths of the files that the program reads from its working directory.
    pub inputs: Vec<Utf8PathBuf>,
    /// The MPI library that the program is linked with, if its file shows it.
    pub linked: Option<LinkedMpi>,
    /// Whether the program is written in Fortran and compiled by gfortran.
    pub is_fortran: bool,
    /// The only number of processes that the arguments allow; `None` if they do not fix it.
    pub fixed_processes: Option<u32>,
    /// Results of the trial run.
    pub facts: TrialFacts,
}

/// Results of a trial run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialFacts {
    /// The run; `None` if none took place.
    pub tried: Option<TrialRecord>,
    pub success: Option<SuccessLine>,
    pub step: Option<StepLine>,
    pub figures: Vec<LearnedFigure>,
    /// The program's own checkpoint, as confirmed by the user.
    pub checkpoint: Option<OwnCheckpointFacts>,
}

/// The program's own checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnCheckpointFacts {
    pub files: OwnFiles,
    /// Lines that the program prints about its checkpoint, if any.
    pub lines: Option<CheckpointLines>,
}

impl OwnCheckpointFacts {
    /// Describes the checkpoint in a sentence: files, size, frequency, and the evidence for a checkpoint.
    pub fn describe(&self) -> String {
        let (first, count) = (self.files.files.first(), self.files.files.len());
        let name = first.map_or_else(String::new, |(path, _)| format!("`{path}`"));
        let more = match count {
            0 | 1 => String::new(),
            _ => format!(" and {} more", counted(count - 1, "file")),
        };
        let steps = self.lines.as_ref().map_or(&[][..], |lines| &lines.steps);
        let steps = match steps {
            [] => String::new(),
            [one] => format!(", at step {one}"),
            [first, .., last] => format!(", at steps {first} to {last}"),
        };
        let size = units::size(self.files.bytes() as f64);
        format!(
            "{name}{more}, {size}, {}{steps}, {}",
            counted(self.files.checkpoints, "checkpoint"),
            self.files.evidence.describe()
        )
    }
}

/// Returns the name of an MPI library, in the form of a campaign file.
fn library_name(linked: &LinkedMpi) -> &'static str {
    match linked.family {
        MpiFamily::Mpich => "mpich",
        MpiFamily::OpenMpi => "openmpi",
    }
}

/// A trial run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRecord {
    pub processes: u32,
    pub mpi: String,
    pub wall_s: f64,
    /// The date, for people.
    pub on: String,
    /// Whether the program ended by itself without an error.
    pub ended: bool,
}

impl OwnProgram {
    /// Finds a program by its path, or by its name on PATH. Links are not resolved: the interpreter of a virtual environment finds its packages by
    /// the path of the link.
    pub fn from_path(path: &Utf8Path) -> Result<Self, Failure> {
        let typed = path;
        let path = &paths::expand(path.as_str());
        let whole = match is_on_path_only(typed) {
            Some(found) => found,
            None => without_dots(&paths::make_absolute(path.clone())),
        };
        let (Some(file), Some(directory)) = (whole.file_name(), whole.parent()) else {
            return Err(wrong(
                format!("--program: {path} does not exist"),
                "give the program's path, absolute if it is only on other machines",
            ));
        };
        if !whole.exists() && path.is_relative() {
            return Err(wrong(
                format!("--program: {path} does not exist"),
                "give the program's path, absolute if it is only on other machines",
            ));
        }
        if whole.is_dir() {
            return Err(wrong(
                format!("--program: {path} is a directory"),
                "give the path of the program in it",
            ));
        }
        if whole.exists() {
            refuse_unstartable(path, &whole)?;
        }
        let libraries = File::open(&whole)
            .and_then(|mut file| needed(&mut file))
            .unwrap_or_default();
        Ok(Self {
            name: format!("own-{}", plain(file)),
            directory: directory.to_string(),
            file: file.to_owned(),
            by_library: None,
            args: Vec::new(),
            inputs: Vec::new(),
            linked: linked_mpi(&whole),
            is_fortran: libraries.iter().any(|l| l.starts_with("libgfortran.")),
            fixed_processes: None,
            facts: TrialFacts::default(),
        })
    }

    /// Asks whether arguments that look like a process grid fix the number of processes. `given` are the numbers of processes from an option.
    pub fn ask_processes(&mut self, asker: &mut Asker, given: &[u32]) -> Result<(), Failure> {
        let Some((typed, processes)) = process_grid(&self.args) else {
            return Ok(());
        };
        if given.iter().any(|count| *count != processes) {
            note(paragraph(
                "",
                &format!(
                    "`{typed}` looks like a decomposition over {}: with another number {} may fail",
                    counted(processes, "process"),
                    self.file
                ),
            ));
            return Ok(());
        }
        let text = format!(
            "`{typed}` looks like a decomposition over {}. Does {} run with this number only?",
            counted(processes, "process"),
            self.file
        );
        let is_fixed = match asker.is_terminal() {
            true => ask_yes(asker, "--args", &text, true)?,
            false => true,
        };
        if is_fixed {
            note(paragraph(
                "",
                &format!(
                    "`{typed}`: runs with {} only; `[processes]` of the descriptor says so",
                    counted(processes, "process")
                ),
            ));
            self.fixed_processes = Some(processes);
        }
        Ok(())
    }

    /// Returns the program's name without characters that are invalid in campaign names. If the program is an interpreter, returns the name of its
    /// script instead.
    pub fn plain_name(&self) -> String {
        let base = self
            .file
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_interpreter = base == "python"
            || INTERPRETERS
                .iter()
                .any(|(_, name)| *name == self.file || *name == base);
        let script = self.args.iter().find(|arg| {
            is_interpreter
                && INTERPRETERS
                    .iter()
                    .any(|(end, _)| Utf8Path::new(arg).extension() == Some(end))
        });
        let stem = script.and_then(|script| Utf8Path::new(script).file_stem());
        Some(plain(stem.unwrap_or(&self.file)))
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "program".into())
    }

    /// Sets the arguments, and derives the program's name again, since an argument may be the script.
    fn set_args(&mut self, args: Vec<String>) {
        self.args = args;
        self.name = format!("own-{}", self.plain_name());
    }

    /// Returns the name of the linked MPI library, in the form of a campaign file.
    pub fn library(&self) -> Option<&'static str> {
        self.linked.as_ref().map(library_name)
    }

    /// Returns the directory in which runs look for the program.
    pub fn app_dir(&self) -> &str {
        self.by_library.as_deref().unwrap_or(&self.directory)
    }

    /// Looks for the program of each of these libraries, in the sub-directory named like the library. Reports where to put those that are missing.
    pub fn find_by_library(&mut self, libraries: &[String]) {
        let Some(linked) = self.library() else { return };
        if libraries.iter().all(|mpi| mpi == linked) {
            return;
        }
        let directory = Utf8Path::new(&self.directory);
        let is_of_library = directory.file_name() == Some(linked);
        let base = match directory.parent().filter(|_| is_of_library) {
            Some(above) => above.to_owned(),
            None => directory.to_owned(),
        };
        let of = |mpi: &str| base.join(mpi).join(&self.file);
        let is_linked_with = |mpi: &str| {
            let places = [of(mpi), directory.join(&self.file)];
            let program = places.iter().find(|place| place.exists());
            let found = program.and_then(|program| linked_mpi(program));
            found.is_some_and(|found| library_name(&found) == mpi)
        };
        let missing: Vec<&String> = libraries
            .iter()
            .filter(|mpi| !is_linked_with(mpi))
            .collect();
        for mpi in &missing {
            note(paragraph(
                "",
                &format!(
                    "{} is linked with {linked}, and --mpi names {mpi}: compile it with {mpi} too, as {}, where its runs look for it \
                     (app_dirs = [\"{base}\"]); until then they fail",
                    self.file,
                    of(mpi)
                ),
            ));
        }
        if missing.is_empty() {
            note(format!(
                "each library has its own {}: app_dirs = [\"{base}\"]",
                self.file
            ));
        }
        self.by_library = Some(base.into_string());
    }

    /// Returns the arguments as passed to the program: an input file is named without its directory, because it is copied into the working directory.
    pub fn arguments(&self) -> Vec<String> {
        self.args
            .iter()
            .map(|arg| {
                let is_input = self
                    .find(arg)
                    .is_some_and(|file| self.inputs.contains(&file));
                let name = Utf8Path::new(arg).file_name().filter(|_| is_input);
                name.unwrap_or(arg).to_owned()
            })
            .collect()
    }

    /// Returns the arguments as one line that can be split into words again.
    pub fn typed_args(&self) -> String {
        self.args
            .iter()
            .map(|arg| in_quotes(arg))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Finds a file by a typed path, relative to the current directory or to the program's directory.
    fn find(&self, typed: &str) -> Option<Utf8PathBuf> {
        let typed = paths::expand(typed);
        [typed.clone(), Utf8Path::new(&self.directory).join(&typed)]
            .into_iter()
            .filter(|path| path.is_file())
            .find_map(|path| path.canonicalize_utf8().ok())
    }

    /// Asks for the arguments and the input files that no option gives.
    pub fn ask(
        &mut self,
        asker: &mut Asker,
        args: Option<&str>,
        inputs: &[String],
    ) -> Result<(), Failure> {
        let parse = |text: &str| match text {
            "none" => Ok(Vec::new()),
            text => words::split(text)
                .map_err(|problem| wrong(format!("--args: {problem}"), "close the quotes")),
        };
        let text = format!(
            "Arguments of {}, as you type them after its name?",
            self.file
        );
        let question = Question::new("--args", &text).usual(or_none(self.typed_args()));
        let given = args.map(parse).transpose()?;
        let answer = asker.given_or(given, &question, parse)?;
        self.set_args(answer.unwrap_or_default());
        if !inputs.is_empty() {
            self.inputs = self.read_inputs(inputs)?;
            return Ok(());
        }
        // existing files in the arguments are probably read
        let known = self.inputs.iter().map(ToString::to_string);
        let mut likely: Vec<String> = known.collect();
        for arg in &self.args {
            if let Some(file) = self.find(arg).filter(|f| !likely.contains(&f.to_string())) {
                likely.push(file.to_string());
            }
        }
        let likely: Vec<String> = likely.iter().map(|path| in_quotes(path)).collect();
        let question = Question::new(
            "--input",
            "Input files that it reads from its working directory? Their paths",
        )
        .usual(or_none(likely.join(" ")));
        let answer = asker.ask(&question, |text| match text {
            "none" => Ok(Vec::new()),
            text => {
                let words = words::split(text)
                    .map_err(|problem| wrong(format!("--input: {problem}"), "close the quotes"))?;
                self.read_inputs(&words)
            }
        })?;
        self.inputs = answer.unwrap_or_default();
        Ok(())
    }

    fn read_inputs(&self, typed: &[String]) -> Result<Vec<Utf8PathBuf>, Failure> {
        let mut found: Vec<Utf8PathBuf> = Vec::new();
        for path in typed {
            let Some(file) = self.find(path) else {
                return Err(wrong(
                    format!("--input: {path} is not a file"),
                    "give the path of a file that the program reads",
                ));
            };
            if found.contains(&file) {
                continue;
            }
            if found
                .iter()
                .any(|other| other.file_name() == file.file_name())
            {
                return Err(wrong(
                    format!(
                        "--input: two files are called {}",
                        file.file_name().unwrap_or_default()
                    ),
                    "they are copied into one directory: rename one",
                ));
            }
            found.push(file);
        }
        Ok(found)
    }

    /// Adds input files that the program's messages name, because the program may have failed without them. The files are searched in the current
    /// directory and in the program's directory.
    pub fn add_files_named_in(&mut self, messages: &str) {
        let words = messages.split(|c: char| c.is_whitespace() || "'\"`()[]<>,;:".contains(c));
        for word in words.map(|word| word.trim_end_matches('.')) {
            let is_name = !word.is_empty() && !word.contains('/') && word != self.file;
            if let Some(file) = is_name.then(|| self.find(word)).flatten()
                && !self.inputs.contains(&file)
            {
                self.inputs.push(file);
            }
        }
    }

    /// Prints which MPI library the program is linked with.
    pub fn report_library(&self) {
        if let Some(linked) = &self.linked {
            note(paragraph(
                "",
                &format!(
                    "{} is linked with {} ({})",
                    self.file,
                    match linked.family {
                        MpiFamily::Mpich => "MPICH",
                        MpiFamily::OpenMpi => "Open MPI",
                    },
                    linked.library
                ),
            ));
        }
    }
}

/// Names of options whose values are process counts, in each direction or in total.
const GRIDS: [&str; 12] = [
    "P",
    "p",
    "grid",
    "pgrid",
    "proc-grid",
    "procgrid",
    "procs",
    "nprocs",
    "processes",
    "ranks",
    "decomp",
    "topology",
];
/// Maximum product that counts as a process grid; a larger one is taken as a problem size.
const MAX_GRID: u32 = 256;

/// Returns the arguments that look like a process grid, and its number of processes, as in `-P 2 1 1`, `--grid 2x2`, `--procs=2,2`.
fn process_grid(args: &[String]) -> Option<(String, u32)> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0);
    for (place, arg) in args.iter().enumerate() {
        let Some(option) = arg.strip_prefix('-') else {
            continue;
        };
        let option = option.strip_prefix('-').unwrap_or(option).replace('_', "-");
        let (name, joined) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option.as_str(), None),
        };
        if !GRIDS.contains(&name) {
            continue;
        }
        let behind = &args[place + 1..];
        let (words, value) = match &joined {
            Some(value) => (1, value.as_str()),
            None => (2, behind.first().map_or("", String::as_str)),
        };
        let parts: Option<Vec<u32>> = value.split(['x', 'X', ',', '*']).map(number).collect();
        let (parts, words) = match parts {
            Some(parts) if parts.len() > 1 => (parts, words),
            Some(_) if joined.is_none() => {
                let sizes: Vec<u32> = behind
                    .iter()
                    .map_while(|word| number(word))
                    .take(3)
                    .collect();
                let words = 1 + sizes.len();
                (sizes, words)
            }
            Some(parts) => (parts, words),
            None => continue,
        };
        // a single number after a short or general name need not be a process count
        let says_processes = name.contains("proc") || name == "ranks";
        if parts.len() < 2 && !says_processes {
            continue;
        }
        let product = parts
            .iter()
            .try_fold(1u32, |all, part| all.checked_mul(*part));
        if let Some(product) = product.filter(|product| *product <= MAX_GRID) {
            return Some((args[place..place + words].join(" "), product));
        }
    }
    None
}

/// Returns the path of a program that can only be found on PATH. Returns `None` if the user typed a path with `/`, if the current directory has a
/// file of this name, or if PATH has none.
fn is_on_path_only(typed: &Utf8Path) -> Option<Utf8PathBuf> {
    let is_name = !typed.as_str().contains('/') && !typed.exists();
    let path = std::env::var("PATH").unwrap_or_default();
    let found = is_name.then(|| paths::on_path(&[typed.as_str()], &path))?;
    found.map(paths::make_absolute)
}

/// Returns a path without `.` components. If the path contains `..` and its directory exists, the directory is made canonical.
fn without_dots(path: &Utf8Path) -> Utf8PathBuf {
    let plain: Utf8PathBuf = path
        .components()
        .filter(|part| *part != Utf8Component::CurDir)
        .collect();
    let goes_up = plain
        .components()
        .any(|part| part == Utf8Component::ParentDir);
    let whole = goes_up.then(|| {
        let directory = plain.parent()?.canonicalize_utf8().ok()?;
        Some(directory.join(plain.file_name()?))
    });
    whole.flatten().unwrap_or(plain)
}

/// Interpreters by the suffix of a script's name.
const INTERPRETERS: [(&str, &str); 6] = [
    ("py", "python3"),
    ("sh", "bash"),
    ("jl", "julia"),
    ("R", "Rscript"),
    ("pl", "perl"),
    ("lua", "lua"),
];

/// Returns the interpreter for a script of this name; `None` for other files.
fn interpreter_of(path: &Utf8Path) -> Option<&'static str> {
    let of = INTERPRETERS
        .iter()
        .find(|(end, _)| path.extension() == Some(end));
    of.map(|(_, interpreter)| *interpreter)
}

/// Refuses a file that the kernel cannot start: it is not executable, or it is a script without an interpreter in its first line, which only shells
/// start.
fn refuse_unstartable(typed: &Utf8Path, whole: &Utf8Path) -> Result<(), Failure> {
    let mut begin = Vec::new();
    let read = File::open(whole).and_then(|file| file.take(64).read_to_end(&mut begin));
    let is_script = read.is_ok() && !begin.is_empty() && begin.iter().all(|b| *b != 0 && *b < 128);
    let names_interpreter = begin.starts_with(b"#!");
    let by_interpreter =
        interpreter_of(typed).map(|interpreter| format!("--program {interpreter} --args {typed}"));
    if is_script && !names_interpreter {
        let line = interpreter_of(typed).unwrap_or("INTERPRETER");
        if paths::is_executable(whole) || by_interpreter.is_some() {
            let command =
                by_interpreter.unwrap_or_else(|| format!("--program INTERPRETER --args {typed}"));
            return Err(wrong(
                format!(
                    "--program: {typed} is a script without `#!`, which only a shell can start"
                ),
                format!("{command}; or begin it with `#!/usr/bin/env {line}`"),
            ));
        }
    }
    if !paths::is_executable(whole) {
        return Err(wrong(
            format!("--program: {typed} is not executable"),
            format!("chmod +x {typed}"),
        ));
    }
    Ok(())
}

/// Converts a name to lower-case letters, digits and hyphens.
pub fn plain(name: &str) -> String {
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    plain.trim_matches('-').to_owned()
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".into() } else { text }
}

/// Quotes a word so that splitting the line returns it unchanged.
fn in_quotes(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-+=~".contains(c));
    if is_plain {
        word.to_owned()
    } else {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Returns whether the answer to the question for programs is a path, not a list of applications.
pub fn is_path(text: &str, names: &[String]) -> bool {
    let first = text.split([',', ' ']).next().unwrap_or_default();
    text.contains('/')
        || text.starts_with('~')
        || (!names.iter().any(|n| n == first) && Utf8Path::new(text).is_file())
}

#[cfg(test)]
mod tests {
    use super::{in_quotes, interpreter_of, is_path, process_grid, without_dots};
    use camino::Utf8Path;

    #[test]
    fn arguments_that_fix_the_number_of_processes_are_recognised() {
        let found = |typed: &str| {
            let args: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            process_grid(&args)
        };
        for (typed, part, processes) in [
            ("-n 100 -P 2 1 1", "-P 2 1 1", 2),
            ("--grid 2x2 -s 10", "--grid 2x2", 4),
            ("--procs=2,3", "--procs=2,3", 6),
            ("--nprocs 8", "--nprocs 8", 8),
        ] {
            assert_eq!(found(typed), Some((part.to_owned(), processes)), "{typed}");
        }
        for typed in [
            "-n 100",
            "--grid 512x512",
            "-p 4",
            "-P",
            "--grid big",
            "100 100",
            "-P 0 1",
        ] {
            assert_eq!(found(typed), None, "{typed}");
        }
    }

    #[test]
    fn links_stay_and_dots_go() {
        let path = |text: &str| without_dots(Utf8Path::new(text));
        assert_eq!(path("/a/./venv/bin/python"), "/a/venv/bin/python");
        assert_eq!(
            path("/usr/../bin-that-is-not-there/x"),
            "/usr/../bin-that-is-not-there/x"
        );
        assert_eq!(interpreter_of(Utf8Path::new("solve.py")), Some("python3"));
        assert_eq!(interpreter_of(Utf8Path::new("solve")), None);
    }

    #[test]
    fn a_path_is_distinguished_from_names_of_applications() {
        let names = ["npb-bt".to_owned()];
        assert!(is_path("./heat2d", &names) && is_path("~/bin/solver", &names));
        assert!(!is_path("npb-bt", &names) && !is_path("npb-bt, npb-sp", &names));
        assert!(!is_path("no-such-file", &names));
    }

    #[test]
    fn words_in_quotes_are_split_into_themselves() {
        for word in ["", "/a/b.dat", "my mesh", "a\"b\\c"] {
            let split = cvc_core::words::split(&in_quotes(word)).expect("words");
            assert_eq!(split, [word]);
        }
    }
}
