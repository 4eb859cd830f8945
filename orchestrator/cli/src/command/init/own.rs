//! A program of the user's own: where it is, how it is started, what it is linked with, and what one run showed.

use super::ask::{Asker, Question, wrong};
use crate::{failure::Failure, output::note, text::paragraph};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::learn::{LearnedFigure, StepLine, SuccessLine};
use cvc_core::campaign::MpiFamily;
use cvc_core::{paths, words};
use cvc_engine::mpi::{LinkedMpi, linked_mpi, needed};
use std::fs::File;

/// A program of the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnProgram {
    /// Name of its descriptor.
    pub name: String,
    /// Its directory and file name.
    pub directory: String,
    pub file: String,
    /// What follows it on the command line.
    pub args: Vec<String>,
    /// Files that it reads from its working directory; absolute.
    pub inputs: Vec<Utf8PathBuf>,
    /// Its MPI library, if it says so by itself.
    pub linked: Option<LinkedMpi>,
    /// Whether it is a program in Fortran, by gfortran.
    pub is_fortran: bool,
    /// What one run showed.
    pub facts: TrialFacts,
}

/// What one run showed about a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialFacts {
    /// The run; `None` if there was none.
    pub tried: Option<Tried>,
    pub success: Option<SuccessLine>,
    pub step: Option<StepLine>,
    pub figures: Vec<LearnedFigure>,
}

/// A run that was made to learn from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub processes: u32,
    pub mpi: String,
    pub wall_s: f64,
    /// When, as people write it.
    pub on: String,
    /// Whether it came to its end, without an error.
    pub ended: bool,
}

impl OwnProgram {
    /// A program by its path.
    pub fn at(path: &Utf8Path) -> Result<Self, Failure> {
        let path = &paths::expand(path.as_str());
        let whole = path.canonicalize_utf8().unwrap_or_else(|_| path.clone());
        let (Some(file), Some(directory)) = (
            whole.file_name(),
            whole.parent().filter(|p| p.is_absolute()),
        ) else {
            return Err(wrong(
                format!("--program: {path} is not there"),
                "give the path of a program; an absolute one if it is only on other machines",
            ));
        };
        if whole.is_dir() {
            return Err(wrong(
                format!("--program: {path} is a directory"),
                "give the path of the program in it",
            ));
        }
        if whole.exists() && !paths::is_executable(&whole) {
            return Err(wrong(
                format!("--program: {path} is not executable"),
                format!("chmod +x {path}"),
            ));
        }
        let libraries = File::open(&whole)
            .and_then(|mut file| needed(&mut file))
            .unwrap_or_default();
        Ok(Self {
            name: format!("own-{}", plain(file)),
            directory: directory.to_string(),
            file: file.to_owned(),
            args: Vec::new(),
            inputs: Vec::new(),
            linked: linked_mpi(&whole),
            is_fortran: libraries.iter().any(|l| l.starts_with("libgfortran.")),
            facts: TrialFacts::default(),
        })
    }

    /// Its name without what names of campaigns cannot have.
    pub fn plain_name(&self) -> String {
        plain(&self.file)
    }

    /// The library that it is linked with, as campaigns call it.
    pub fn library(&self) -> Option<&'static str> {
        self.linked.as_ref().map(|linked| match linked.family {
            MpiFamily::Mpich => "mpich",
            MpiFamily::OpenMpi => "openmpi",
        })
    }

    /// Its arguments as the program gets them: input files by their names in the working directory.
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

    /// Its arguments in one line, which is split into them again.
    pub fn typed_args(&self) -> String {
        self.args
            .iter()
            .map(|arg| in_quotes(arg))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// A file by the path that was typed: from here, or from the program's directory.
    fn find(&self, typed: &str) -> Option<Utf8PathBuf> {
        let typed = paths::expand(typed);
        [typed.clone(), Utf8Path::new(&self.directory).join(&typed)]
            .into_iter()
            .filter(|path| path.is_file())
            .find_map(|path| path.canonicalize_utf8().ok())
    }

    /// Asks for its arguments and its input files, as far as no option gives them.
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
        self.args = answer.unwrap_or_default();
        if !inputs.is_empty() {
            self.inputs = self.read_inputs(inputs)?;
            return Ok(());
        }
        // what it is called with and is there is likely to be read
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
                    "all of them are put into one directory: rename one",
                ));
            }
            found.push(file);
        }
        Ok(found)
    }

    /// Adds files next to the program that its messages name: those that it may miss.
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

    /// Says what was read from the program.
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

/// Small letters, digits and hyphens.
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

/// A word that is split again into itself.
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

/// Whether an answer to the question for programs is the path of one, and not the name of applications.
pub fn is_path(text: &str, names: &[String]) -> bool {
    let first = text.split([',', ' ']).next().unwrap_or_default();
    text.contains('/')
        || text.starts_with('~')
        || (!names.iter().any(|n| n == first) && Utf8Path::new(text).is_file())
}

#[cfg(test)]
mod tests {
    use super::{in_quotes, is_path};

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
