//! Reads files of runs on this machine as text.

use super::error::RunError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::descriptor::Descriptor;
use regex::Regex;
use std::io::{Read, Seek, SeekFrom};

/// Maximum number of bytes of a program's output that are searched, counted from the end.
const MAX_OUTPUT: u64 = 64 << 20;

/// Returns the last 64 MiB of a run's file as text; less if the file is shorter.
pub(crate) fn text(path: &Utf8Path) -> String {
    text_until(path, u64::MAX)
}

/// Returns the content of a run's file up to this offset in bytes, as text; at most the last 64 MiB of that part.
pub(crate) fn text_until(path: &Utf8Path, end: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let begin = file.metadata()?.len().min(end).saturating_sub(MAX_OUTPUT);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(end - begin).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read()
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default()
}

/// Maximum number of bytes read at once from a growing file, so that excessive output is read in pieces.
const PIECE: u64 = 4 << 20;

/// A growing file of a run, of which only new content is read.
#[derive(Debug)]
pub(crate) struct GrowingFile {
    path: Utf8PathBuf,
    offset: u64,
}

impl GrowingFile {
    /// Creates a reader at the file's beginning. The file may appear later.
    pub fn new(path: Utf8PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// Appends new content to `to`, at most 4 MiB. Returns the number of bytes; `None` if the file cannot be read.
    pub fn read_new(&mut self, to: &mut Vec<u8>) -> Option<usize> {
        let before = to.len();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(PIECE).read_to_end(to)
        });
        match read {
            Ok(count) => {
                self.offset += count as u64;
                Some(count)
            }
            Err(_) => {
                // after an error the same bytes are read again
                to.truncate(before);
                None
            }
        }
    }
}

/// Beginnings of the lines that launchers print after a program has failed, in addition to the program's own output.
const TRAILERS: [&str; 23] = [
    // Open MPI
    "-----",
    "Primary job  terminated normally, but",
    "a non-zero exit code.",
    "mpirun detected that one or more processes exited",
    "mpiexec detected that one or more processes exited",
    "the job to be terminated. The first process to do so was",
    "Process name:",
    "Exit code:",
    "MPI_ABORT was invoked on rank",
    "with errorcode",
    "NOTE: invoking MPI_ABORT causes",
    "You may or may not see output from other processes",
    "exactly when Open MPI kills them",
    "mpirun noticed that process rank",
    // MPICH
    "=====",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   PID ",
    "=   EXIT CODE",
    "=   CLEANING UP REMAINING PROCESSES",
    "=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
    "This typically refers to a problem with your application",
    "Please see the FAQ page for debugging suggestions",
];

/// Parts of the lines that launchers print after a program has failed, which show that the program had been started.
const STARTED: [&str; 4] = [
    "Process name:",
    "BAD TERMINATION OF ONE OF YOUR APPLICATION",
    "Exited with exit code",
    "noticed that process rank",
];

/// Words that mark a line as an error message.
const WRONG: [&str; 12] = [
    "error",
    "cannot",
    "can't",
    "could not",
    "fatal",
    "failed",
    "no such file",
    "not found",
    "exception",
    "abort",
    "segmentation",
    "traceback",
];

/// Beginnings of the lines in which launchers and their helpers report that they cannot start a program.
const LAUNCHERS: [&str; 14] = [
    "[",
    "mpirun",
    "mpiexec",
    "prterun",
    "orterun",
    "srun",
    "slurmstepd",
    "HYD",
    "ssh:",
    "bash:",
    "sh:",
    "/bin/sh:",
    "Host key",
    "Permission denied",
];

/// Returns whether the output shows that the program was started: a launcher reports it, or a line is from neither a launcher nor a helper.
pub(crate) fn was_started(text: &str) -> bool {
    // Open MPI puts its messages between two lines of dashes
    let mut is_ruled = false;
    without_dmtcp(text).into_iter().any(|line| {
        if line.starts_with("-----") {
            is_ruled = !is_ruled;
            return false;
        }
        let is_of_launcher = LAUNCHERS.iter().any(|begin| line.starts_with(begin));
        STARTED.iter().any(|part| line.contains(part))
            || !is_ruled && !line.trim().is_empty() && !is_of_launcher && !is_trailer(line)
    })
}

/// Returns whether a launcher added this line to a program's output.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start();
    let is_of = |launchers: &[&str]| launchers.iter().any(|begin| line.starts_with(begin));
    TRAILERS.iter().any(|trailer| line.starts_with(trailer))
        // the messages begin with the name by which the launcher was called
        || is_of(&["mpirun", "mpiexec"])
            && (line.contains(" detected that one or more processes exited")
                || line.contains(" noticed that process rank"))
        || line.starts_with("srun: ") && line.contains("Exited with exit code")
}

/// Maximum number of lines of one DMTCP message.
const MESSAGE_LINES: usize = 12;

/// Returns the lines without DMTCP's notes and warnings, which say nothing about a failure. DMTCP's errors stay.
fn without_dmtcp(text: &str) -> Vec<&str> {
    let mut own = Vec::new();
    // remaining lines of a coloured message that spans several lines
    let mut lines_left = 0;
    for line in text.lines() {
        if lines_left > 0 {
            lines_left = if line.contains(END_OF_COLOUR) {
                0
            } else {
                lines_left - 1
            };
            continue;
        }
        let plain = line
            .strip_prefix('\u{1b}')
            .and_then(|rest| Some(rest.split_once('m')?.1));
        let message = plain.unwrap_or(line);
        let is_harmless = message.starts_with('[')
            && (message.contains(", Note] at ") || message.contains(", Warning] at "));
        if !is_harmless {
            own.push(line);
        } else if plain.is_some() && !line.contains(END_OF_COLOUR) {
            lines_left = MESSAGE_LINES;
        }
    }
    own
}

/// Escape sequence at the end of a coloured message.
const END_OF_COLOUR: &str = "\u{1b}[0m";

/// Returns the program's own lines: without blank lines, launchers' messages about a failure, and DMTCP's notes and warnings. Returns all lines if no
/// others exist.
pub fn own_lines(text: &str) -> Vec<&str> {
    let is_written = |line: &&str| !line.trim().is_empty();
    let own: Vec<&str> = without_dmtcp(text)
        .into_iter()
        .filter(|line| !is_trailer(line))
        .map(str::trim_end)
        .filter(is_written)
        .collect();
    if own.is_empty() {
        text.lines().map(str::trim_end).filter(is_written).collect()
    } else {
        own
    }
}

/// Returns the last message of a program in one line of at most 400 characters: the first line that mentions an error, and the last two lines.
/// Launchers' messages are removed, unless there is nothing else.
pub(crate) fn own_words(text: &str) -> String {
    let mut own: Vec<&str> = Vec::new();
    for line in own_lines(text).into_iter().map(str::trim) {
        // several ranks print the same line
        if own.last() != Some(&line) {
            own.push(line);
        }
    }
    let is_wrong = |line: &&str| {
        let line = line.to_ascii_lowercase();
        WRONG.iter().any(|word| line.contains(word))
    };
    let last = own.len().saturating_sub(2);
    let mut selected: Vec<&str> = own[..last]
        .iter()
        .find(|l| is_wrong(l))
        .copied()
        .into_iter()
        .collect();
    // without an error line, take one more of the last lines
    let from = if selected.is_empty() {
        own.len().saturating_sub(3)
    } else {
        last
    };
    let rest = own[from..].iter().filter(|line| !selected.contains(line));
    let rest: Vec<&str> = rest.copied().collect();
    selected.extend(rest);
    let selected = selected.join(" | ");
    match selected.char_indices().rev().nth(399) {
        Some((at, _)) => format!("…{}", &selected[at..]),
        None if selected.is_empty() => "no output".into(),
        None => selected,
    }
}

/// Returns the stream in which a pattern is found: standard error if the pattern is only there, otherwise standard output.
pub(crate) fn stream_with<'a>(pattern: &Regex, (stdout, stderr): (&'a str, &'a str)) -> &'a str {
    if !pattern.is_match(stdout) && pattern.is_match(stderr) {
        stderr
    } else {
        stdout
    }
}

/// Compiles a pattern of a descriptor, with `^` and `$` matching at every line.
pub(crate) fn compile(app: &Descriptor, pattern: &str) -> Result<Regex, RunError> {
    Regex::new(&format!("(?m){pattern}")).map_err(|e| RunError::Descriptor {
        app: app.name.clone(),
        problem: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_MPI: &str = "At line 12 of file heat2d.f90 (unit = 10)\nFortran runtime error: Cannot open file 'heat.nml': No such file or directory\n\n\
        Error termination. Backtrace:\n#0  0x7f in ???\n#1  0x7f in ???\n\
        --------------------------------------------------------------------------\n\
        Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n\
        --------------------------------------------------------------------------\n\
        mpirun detected that one or more processes exited with non-zero status, thus causing\n\
        the job to be terminated. The first process to do so was:\n\n  Process name: [[8351,1],2]\n  Exit code:    2\n\
        --------------------------------------------------------------------------\n";

    #[test]
    fn the_programs_own_error_is_reported_without_the_launchers_additions() {
        let selected = own_words(OPEN_MPI);
        assert!(
            selected.starts_with("Fortran runtime error: Cannot open file 'heat.nml'"),
            "{selected}"
        );
        assert!(
            !selected.contains("Process name") && !selected.contains("----"),
            "{selected}"
        );
        assert!(was_started(OPEN_MPI));
        let hydra = "panic: bad mesh\n\n=====================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 7 RUNNING AT n1\n\
            =   EXIT CODE: 2\n=   CLEANING UP REMAINING PROCESSES\n";
        assert_eq!(own_words(hydra), "panic: bad mesh");
        assert!(was_started(hydra));
    }

    #[test]
    fn remarks_of_dmtcp_are_not_output_of_the_program() {
        let text = "\u{1b}[0;33m[2026-11-25T22:45:43.260, 40000, 40000, Warning] at signalwrappers.cpp:158 in sigaction; REASON='JWARNING(false) failed; \
            (stopSignal = 12);Message: Application trying to use DMTCP's signal\n  You should employ a different signal\n  (Further warnings will be suppressed.)\u{1b}[0m\n\
            At line 12 of file heat2d.f90\nFortran runtime error: Cannot open file 'heat.nml'\n\
            mpirun.openmpi detected that one or more processes exited with non-zero status, thus causing\n";
        assert_eq!(
            own_words(text),
            "At line 12 of file heat2d.f90 | Fortran runtime error: Cannot open file 'heat.nml'"
        );
        assert!(was_started(text));
        let error = "\u{1b}[0;31m[2026-11-25T22:45:43.260, 40000, 40000, Error] at a.cpp:1 in f; REASON='JASSERT(ok) failed'\u{1b}[0m\n";
        assert!(own_words(error).contains("JASSERT"));
    }

    #[test]
    fn a_line_of_the_program_shows_that_it_was_started() {
        assert!(was_started("Fortran runtime error: no file\n"));
        for launcher in [
            "",
            "[mpiexec@n1] HYDU_create_process: execvp error\n",
            "--------\nmpirun was unable to launch the specified application\n--------\n",
            "srun: error: Unable to create step\n",
        ] {
            assert!(!was_started(launcher), "{launcher}");
        }
    }

    #[test]
    fn without_own_output_the_launchers_message_is_reported() {
        let launcher = "----------\nThere are not enough slots available in the system to satisfy the 64\nslots that were requested by the application:\n----------\n";
        assert!(own_words(launcher).contains("not enough slots"));
        assert!(!was_started(launcher));
        assert!(own_words("Exit code:    2\n").contains("Exit code"));
        assert_eq!(own_words(" \n"), "no output");
    }

    #[test]
    fn the_last_three_lines_are_reported_where_none_is_an_error_and_long_ones_are_cut() {
        assert_eq!(own_words("a\nb\nc\nd\n"), "b | c | d");
        assert!(own_words(&"x".repeat(1000)).chars().count() <= 401);
    }
}
