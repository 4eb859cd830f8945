//! Reads what runs leave on this machine as text.

use super::error::RunError;
use camino::Utf8Path;
use cvc_core::app::descriptor::Descriptor;
use regex::Regex;

/// Maximum number of bytes of a program's output that are searched.
const MAX_OUTPUT: u64 = 64 << 20;

/// A file of the run as text, at most its last 64 MiB.
pub(crate) fn text(path: &Utf8Path) -> String {
    text_until(path, u64::MAX)
}

/// The beginning of a file of the run as text, up to this offset in bytes; at most the last 64 MiB of it.
pub(crate) fn text_until(path: &Utf8Path, end: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
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

/// What launchers say of a program that ended badly, whatever the program said before: the beginnings of such lines.
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

/// Parts of lines that launchers add once a program has ended badly: it was started.
const STARTED: [&str; 4] = [
    "Process name:",
    "BAD TERMINATION OF ONE OF YOUR APPLICATION",
    "Exited with exit code",
    "noticed that process rank",
];

/// Words of a line that says what went wrong.
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

/// Whether the launcher says that the program was started and ended badly.
pub(crate) fn was_started(text: &str) -> bool {
    text.lines()
        .any(|line| STARTED.iter().any(|part| line.contains(part)))
}

/// The lines of a program, without blank ones and without what launchers add once it has ended badly; all lines if there are no others.
pub fn own_lines(text: &str) -> Vec<&str> {
    let lines = || {
        text.lines()
            .map(str::trim_end)
            .filter(|l| !l.trim().is_empty())
    };
    let is_own = |line: &&str| {
        let line = line.trim_start();
        !TRAILERS.iter().any(|trailer| line.starts_with(trailer))
            && !(line.starts_with("srun: ") && line.contains("Exited with exit code"))
    };
    let own: Vec<&str> = lines().filter(is_own).collect();
    if own.is_empty() {
        lines().collect()
    } else {
        own
    }
}

/// What a program said at its end, in one line, bounded: the first line that tells of an error, and the last two. What launchers add to it is
/// left out, unless there is nothing else.
pub(crate) fn own_words(text: &str) -> String {
    let own: Vec<&str> = own_lines(text).into_iter().map(str::trim).collect();
    let is_wrong = |line: &&str| {
        let line = line.to_ascii_lowercase();
        WRONG.iter().any(|word| line.contains(word))
    };
    let last = own.len().saturating_sub(2);
    let mut told: Vec<&str> = own[..last]
        .iter()
        .find(|l| is_wrong(l))
        .copied()
        .into_iter()
        .collect();
    // without such a line, one more of the last ones
    let from = if told.is_empty() {
        own.len().saturating_sub(3)
    } else {
        last
    };
    told.extend(&own[from..]);
    let told = told.join(" | ");
    match told.char_indices().rev().nth(399) {
        Some((at, _)) => format!("…{}", &told[at..]),
        None if told.is_empty() => "no output".into(),
        None => told,
    }
}

/// Compiles a pattern of a descriptor, in which `^` and `$` match at every line.
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
    fn the_programs_own_error_is_told_and_not_what_the_launcher_adds() {
        let told = own_words(OPEN_MPI);
        assert!(
            told.starts_with("Fortran runtime error: Cannot open file 'heat.nml'"),
            "{told}"
        );
        assert!(
            !told.contains("Process name") && !told.contains("----"),
            "{told}"
        );
        assert!(was_started(OPEN_MPI));
        let hydra = "panic: bad mesh\n\n=====================\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 7 RUNNING AT n1\n\
            =   EXIT CODE: 2\n=   CLEANING UP REMAINING PROCESSES\n";
        assert_eq!(own_words(hydra), "panic: bad mesh");
        assert!(was_started(hydra));
    }

    #[test]
    fn without_own_words_the_launchers_are_told() {
        let launcher = "There are not enough slots available in the system to satisfy the 64\nslots that were requested by the application:\n";
        assert!(own_words(launcher).contains("not enough slots"));
        assert!(!was_started(launcher));
        assert!(own_words("Exit code:    2\n").contains("Exit code"));
        assert_eq!(own_words(" \n"), "no output");
    }

    #[test]
    fn three_lines_at_the_end_are_told_where_none_is_an_error_and_long_ones_are_cut() {
        assert_eq!(own_words("a\nb\nc\nd\n"), "b | c | d");
        assert!(own_words(&"x".repeat(1000)).chars().count() <= 401);
    }
}
