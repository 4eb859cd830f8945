//! From a command line to the input of a campaign: the program, its input files, its MPI library.

use crate::{
    command::init::own::{OwnProgram, TrialFacts, plain},
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::source_file::SourceFile;
use cvc_core::campaign::{MpiFamily, MpiLibrary, MpiSource};
use cvc_core::environment::may_hold_secret;
use cvc_core::names::wrong_variable;
use cvc_core::paths::{self, is_executable, on_path};
use cvc_core::units::size;
use cvc_engine::mpi::{self, Ask, linked_mpi};
use cvc_session::command_line::{CommandLine, LauncherCall, is_launcher, parse};
use indexmap::IndexMap;
use std::{collections::BTreeMap, fs, io::Read};

/// Limits for copying the working directory into every run: number of files, and bytes in total.
const MAX_COPIED: (usize, u64) = (300, 64 << 20);
/// Maximum depth of the directories that are searched below the working directory.
const MAX_DEPTH: usize = 3;
/// Prefixes of the shell's variables that programs and MPI libraries read.
const PASSED_ON: [&str; 16] = [
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "OMPI_",
    "MPICH_",
    "MPIR_",
    "UCX_",
    "FI_",
    "I_MPI_",
];
/// Programs that run a script.
const INTERPRETERS: [&str; 9] = [
    "python", "perl", "ruby", "julia", "rscript", "octave", "bash", "sh", "node",
];

/// A command that cvc can run as a campaign.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The command as typed.
    pub typed: String,
    pub own: OwnProgram,
    pub processes: u32,
    /// Whether the command contains the number of processes, so that cvc can try others.
    pub can_change: bool,
    /// The name of the MPI library.
    pub mpi: String,
    pub library: MpiLibrary,
    /// The directory in which the command was typed.
    pub here: Utf8PathBuf,
    /// Input files that are copied into the directory of every run. They are copies made once in the store, because the originals may change between
    /// runs.
    pub sources: Vec<SourceFile>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Returns the error for a command that cannot be tried.
pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message: message.into(),
        hint: Some(hint.into()),
    }
}

/// Prepares a command, and copies its input files into `store`.
///
/// # Errors
/// The command cannot be started on this machine, or it is a command that cvc does not run.
pub async fn prepare(words: &[String], store: &Utf8Path) -> Result<Prepared, Failure> {
    let line = parse(words, &|word| find_program(word).is_some())
        .map_err(|error| refused(error.to_string(), error.hint()))?;
    let program = program(&line)?;
    let mut notes = Vec::new();
    let processes = processes(&line)?;
    let (mpi, mut library) = library(&line, &program, &mut notes).await?;
    library.env = environment(&line)?;
    if let Some(call) = &line.launcher {
        library.args = call.kept.clone();
    }
    let here = std::env::current_dir()
        .ok()
        .and_then(|here| Utf8PathBuf::from_path_buf(here).ok());
    let here = here.ok_or_else(|| {
        refused(
            "the name of this directory is not UTF-8",
            "change to another directory",
        )
    })?;
    let inputs = inputs(&here, &line, &program, store)?;
    notes.extend(inputs.note);
    if let Some(word) = inputs.args.iter().find(|word| word.contains("{{")) {
        return Err(refused(
            format!(
                "the argument `{word}` contains `{{{{`, which begins a template in descriptors"
            ),
            "put the command into a script, and use that",
        ));
    }
    let file = program.file_name().unwrap_or_default().to_owned();
    let own = OwnProgram {
        name: format!("own-{}", name_of(&file, &line.args)),
        directory: program
            .parent()
            .map(ToString::to_string)
            .unwrap_or_default(),
        by_library: None,
        linked: linked_mpi(&program),
        is_fortran: is_fortran(&program),
        file,
        args: inputs.args,
        inputs: Vec::new(),
        fixed_processes: None,
        facts: TrialFacts::default(),
    };
    Ok(Prepared {
        typed: words.join(" "),
        own,
        processes: processes.unwrap_or(1),
        can_change: processes.is_some_and(|count| count > 1),
        mpi,
        library,
        here,
        sources: inputs.sources,
        notes,
    })
}

fn is_fortran(program: &Utf8Path) -> bool {
    let libraries = fs::File::open(program).and_then(|mut file| mpi::needed(&mut file));
    let libraries = libraries.unwrap_or_default();
    libraries.iter().any(|l| l.starts_with("libgfortran."))
}

/// Returns the name of the descriptor: the name of the program, or, if the program is an interpreter, the name of its script.
fn name_of(file: &str, args: &[String]) -> String {
    let lower = file.to_lowercase();
    let is_interpreter = INTERPRETERS
        .iter()
        .any(|name| lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == *name);
    let script = args.iter().find(|arg| !arg.starts_with('-'));
    let stem = script.and_then(|script| Utf8Path::new(script).file_stem());
    let name = plain(stem.filter(|_| is_interpreter).unwrap_or(file));
    if name.is_empty() {
        "program".into()
    } else {
        name
    }
}

/// Finds a program by its name or path, as a shell does. Links are not resolved: the interpreter of a virtual environment finds its packages by the
/// path of the link.
fn find_program(word: &str) -> Option<Utf8PathBuf> {
    if word.contains('/') {
        let path = paths::make_absolute(paths::expand(word));
        return is_executable(&path).then_some(path);
    }
    on_path(&[word], &std::env::var("PATH").unwrap_or_default()).map(paths::make_absolute)
}

fn program(line: &CommandLine) -> Result<Utf8PathBuf, Failure> {
    let word = &line.program;
    let shown = |path: Utf8PathBuf| normal(&path);
    if let Some(found) = find_program(word) {
        refuse_script_with_launcher(&found)?;
        return Ok(shown(found));
    }
    let path = paths::expand(word);
    if path.is_dir() {
        return Err(refused(
            format!("{word} is a directory"),
            "give the path of the program in it",
        ));
    }
    if path.is_file() && word.contains('/') {
        return Err(refused(
            format!("{word} is not executable"),
            format!("chmod +x {word}, or put its interpreter in front, as in: python3 {word}"),
        ));
    }
    let beside = path.is_file();
    Err(refused(
        format!("no program {word} found"),
        if beside {
            format!("the shell searches only PATH: write ./{word}")
        } else {
            "give its path, or a name on PATH".to_owned()
        },
    ))
}

/// Returns a path without its `.` components.
fn normal(path: &Utf8Path) -> Utf8PathBuf {
    path.components()
        .filter(|part| *part != camino::Utf8Component::CurDir)
        .collect()
}

/// Refuses a script that calls an MPI launcher: cvc must start the launcher itself.
fn refuse_script_with_launcher(program: &Utf8Path) -> Result<(), Failure> {
    const LOOKED_AT: u64 = 64 << 10;
    let is_short = fs::metadata(program).is_ok_and(|metadata| metadata.len() <= LOOKED_AT);
    let text = is_short.then(|| fs::read(program).unwrap_or_default());
    let text = text
        .filter(|text| text.starts_with(b"#!"))
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let interpreter = text.strip_prefix("#!").and_then(|rest| {
        let mut words = rest.lines().next()?.split_whitespace();
        words.find(|word| !word.ends_with("/env"))
    });
    let is_shell = interpreter.is_some_and(|word| word.ends_with("sh"));
    let starts = |line: &&str| {
        line.split_whitespace()
            .find(|word| *word != "exec" && !word.contains('='))
            .is_some_and(is_launcher)
    };
    match text.lines().find(starts).filter(|_| is_shell) {
        Some(line) => Err(refused(
            format!("{program} starts a launcher itself: {}", line.trim()),
            "use the command in it: cvc starts the launcher",
        )),
        None => Ok(()),
    }
}

/// Returns the number of processes on the command line; `None` without a launcher.
fn processes(line: &CommandLine) -> Result<Option<u32>, Failure> {
    let Some(call) = &line.launcher else {
        return Ok(None);
    };
    match call.processes {
        Some(count) => Ok(Some(count)),
        None => Err(refused(
            format!("`{}` gives no number of processes", call.program),
            format!("add it: {} -n 4 …", call.program),
        )),
    }
}

/// Returns the MPI library of the command, in the form of a campaign file.
async fn library(
    line: &CommandLine,
    program: &Utf8Path,
    notes: &mut Vec<String>,
) -> Result<(String, MpiLibrary), Failure> {
    let linked = linked_mpi(program).map(|linked| linked.family);
    let made = |family: MpiFamily, source: MpiSource| {
        let library = MpiLibrary {
            environment: Default::default(),
            family,
            source,
            env: IndexMap::new(),
            args: Vec::new(),
            io: None,
        };
        (family.word().to_owned(), library)
    };
    let call = line.launcher.as_ref().filter(|call| !call.is_srun());
    let Some(call) = call else {
        let family = match linked {
            Some(family) => family,
            None => installed().await?,
        };
        if let Some(srun) = &line.launcher {
            let title = mpi::launcher(family).title();
            notes.push(format!(
                "{} and its options are left out: the processes are started by the launcher of {title} on this machine",
                srun.program
            ));
        }
        return Ok(made(family, MpiSource::Path));
    };
    let (path, family) = launcher(call).await?;
    if let Some(linked) = linked.filter(|linked| *linked != family) {
        let (theirs, own) = (mpi::launcher(family), mpi::launcher(linked));
        return Err(refused(
            format!(
                "{} is linked with {}, and {} is the launcher of {}",
                line.program,
                own.title(),
                call.program,
                theirs.title()
            ),
            format!(
                "start it with {}: with another launcher every process runs alone",
                own.programs().first().copied().unwrap_or("mpiexec")
            ),
        ));
    }
    if !call.left_out.is_empty() {
        notes.push(format!(
            "cvc places the processes itself: `{}` is left out",
            call.left_out.join(" ")
        ));
    }
    Ok(made(family, MpiSource::Mpiexec(path.into_string())))
}

/// Returns the path of the launcher that the command calls, and its MPI family.
async fn launcher(call: &LauncherCall) -> Result<(Utf8PathBuf, MpiFamily), Failure> {
    let Some(path) = find_program(&call.program) else {
        return Err(Failure::Other {
            status: ExitStatus::Installation,
            message: format!("no launcher {} found", call.program),
            hint: Some("install an MPI library, or give the launcher's path; `cvc doctor` shows what is installed".into()),
        });
    };
    let env = BTreeMap::new();
    let ask = Ask {
        name: &call.program,
        mpiexec: &path,
        env: &env,
    };
    let answer = ask
        .run(&[path.as_str(), "--version"])
        .await
        .unwrap_or_default();
    let family = MpiFamily::ALL
        .iter()
        .find(|family| mpi::launcher(**family).recognizes(&answer));
    match family {
        Some(family) => Ok((path, *family)),
        None => Err(refused(
            format!("{} is not a launcher of Open MPI or MPICH", call.program),
            "cvc supports these two libraries; give the path of their mpirun or mpiexec",
        )),
    }
}

/// Returns the family of an MPI library that is installed on this machine.
async fn installed() -> Result<MpiFamily, Failure> {
    // the last family is the one that DMTCP restarts most reliably, so it is tried first
    for family in MpiFamily::ALL.iter().rev() {
        let library = MpiLibrary {
            environment: Default::default(),
            family: *family,
            source: MpiSource::Path,
            env: IndexMap::new(),
            args: Vec::new(),
            io: None,
        };
        if mpi::find(family.word(), &library).await.is_ok() {
            return Ok(*family);
        }
    }
    Err(Failure::Other {
        status: ExitStatus::Installation,
        message: "no MPI library found; cvc starts programs with its launcher".into(),
        hint: Some("install one (Debian, Ubuntu: apt-get install openmpi-bin)".into()),
    })
}

/// Returns the environment variables that the command line and the shell set for the program.
fn environment(line: &CommandLine) -> Result<IndexMap<String, String>, Failure> {
    let of_shell = std::env::vars().filter(|(name, _)| {
        PASSED_ON.iter().any(|start| name.starts_with(start)) && !may_hold_secret(name)
    });
    let mut env: IndexMap<String, String> = of_shell
        .filter(|(name, value)| wrong_variable(name, value).is_none())
        .collect();
    env.sort_keys();
    for (name, value) in &line.env {
        let value = match value {
            Some(value) => value.clone(),
            None => std::env::var(name).unwrap_or_default(),
        };
        if let Some((message, hint)) = wrong_variable(name, &value) {
            return Err(refused(message, hint));
        }
        env.insert(name.clone(), value);
    }
    Ok(env)
}

/// The input files to copy into the runs' directories, and the arguments of the command with paths that are valid there.
struct Inputs {
    sources: Vec<SourceFile>,
    args: Vec<String>,
    note: Option<String>,
}

/// Finds the files that the program may read, and copies them into the store. Each run has its own directory, so that the program overwrites no file
/// of the user. The files are those of the working directory; if these are too many or too large, those that the command names.
fn inputs(
    here: &Utf8Path,
    line: &CommandLine,
    program: &Utf8Path,
    store: &Utf8Path,
) -> Result<Inputs, Failure> {
    let cvcs = store.parent();
    let (mut all, mut note) = (below(here, here, cvcs), None);
    let named: Vec<Utf8PathBuf> = line
        .args
        .iter()
        .map(|arg| normal(arg.as_ref()))
        .filter(|path| is_below(path))
        .collect();
    if all.is_none() {
        all = Some(of_names(&named, here, cvcs));
        note = Some(format!(
            "this directory has more than {} or {} files: runs get copies only of files named in the command",
            size(MAX_COPIED.1 as f64),
            MAX_COPIED.0
        ));
    }
    let mut all = all.unwrap_or_default();
    all.retain(|below| here.join(below) != program);
    let args = line
        .args
        .iter()
        .map(|arg| found_from_elsewhere(arg, here, &all));
    let args = args.collect();
    let mut sources = Vec::new();
    for below in all {
        let whole = here.join(&below);
        match store_copy(&whole, &below, store) {
            Ok(source) => sources.push(source),
            Err(error) if named.iter().any(|path| below.starts_with(path)) => {
                return Err(refused(
                    format!("cannot read {whole}: {error}"),
                    "the command names it",
                ));
            }
            // the file is unreadable or was removed meanwhile
            Err(_) => {}
        }
    }
    Ok(Inputs {
        sources,
        args,
        note,
    })
}

/// Copies a file into the store, so that all runs read the same content even if the original changes meanwhile, as a log of this command does.
fn store_copy(whole: &Utf8Path, below: &Utf8Path, store: &Utf8Path) -> std::io::Result<SourceFile> {
    let copy = store.join(below);
    if let Some(parent) = copy.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(whole, &copy)?;
    SourceFile::read(below.as_str(), copy)
}

/// Returns whether a path is relative and consists of plain names only, without `.` and `..`.
fn is_below(path: &Utf8Path) -> bool {
    let is_name = |part| matches!(part, camino::Utf8Component::Normal(_));
    !path.as_str().is_empty() && path.components().all(is_name)
}

/// Returns the files that the command names, and the files below each directory that it names. A directory with too many or too large files adds
/// none.
fn of_names(named: &[Utf8PathBuf], here: &Utf8Path, cvcs: Option<&Utf8Path>) -> Vec<Utf8PathBuf> {
    let mut all: Vec<Utf8PathBuf> = Vec::new();
    for path in named {
        let whole = here.join(path);
        match whole.is_dir() {
            true => all.extend(below(here, &whole, cvcs).unwrap_or_default()),
            false if whole.is_file() => all.push(path.clone()),
            false => {}
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Returns the files below a directory, as paths relative to `top`, without the files below `cvcs` (cvc's own directory). Returns `None` if they are
/// too many or too large to copy.
fn below(
    top: &Utf8Path,
    directory: &Utf8Path,
    cvcs: Option<&Utf8Path>,
) -> Option<Vec<Utf8PathBuf>> {
    let (mut left, mut bytes, mut all) = (MAX_COPIED.0 + 1, 0, Vec::new());
    gather(
        (top, cvcs),
        directory,
        MAX_DEPTH,
        &mut left,
        &mut bytes,
        &mut all,
    );
    (left > 0 && bytes <= MAX_COPIED.1).then_some(all)
}

/// Collects the files below a directory, as paths relative to `top`, without the files below `cvcs` (cvc's own directory).
fn gather(
    (top, cvcs): (&Utf8Path, Option<&Utf8Path>),
    directory: &Utf8Path,
    depth: usize,
    left: &mut usize,
    bytes: &mut u64,
    all: &mut Vec<Utf8PathBuf>,
) {
    let mut entries: Vec<_> = directory
        .read_dir_utf8()
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by(|a, b| a.file_name().cmp(b.file_name()));
    for entry in entries {
        let path = entry.path();
        if *left == 0 || entry.file_name().starts_with('.') || Some(path) == cvcs {
            continue;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth > 0 {
            gather((top, cvcs), path, depth - 1, left, bytes, all);
        } else if let Ok(metadata) = fs::metadata(path)
            && metadata.is_file()
            && !is_other_program(path)
            && let Ok(below) = path.strip_prefix(top)
        {
            *left -= 1;
            *bytes += metadata.len();
            all.push(below.to_owned());
        }
    }
}

/// Returns whether a file is an ELF executable and not a shared library, which a program may load.
fn is_other_program(path: &Utf8Path) -> bool {
    let mut magic = [0; 4];
    let is_library = path.file_name().is_some_and(|name| name.contains(".so"));
    !is_library
        && is_executable(path)
        && fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// Makes the path in an argument absolute if the file exists here and is not copied into the run's directory. This includes a path after `=`.
fn found_from_elsewhere(arg: &str, here: &Utf8Path, copied: &[Utf8PathBuf]) -> String {
    let (option, path) = match arg.split_once('=') {
        Some((option, path)) => (Some(option), path),
        None => (None, arg),
    };
    let typed = normal(path.as_ref());
    let is_relative = !path.is_empty() && !path.starts_with('/') && !path.starts_with('-');
    let is_copied = copied.iter().any(|below| below.starts_with(&typed));
    // without a dot or a slash it is probably not a path
    let is_path = path.contains(['/', '.']) && here.join(&typed).exists();
    if !is_relative || is_copied || !is_path {
        return arg.to_owned();
    }
    let whole = here.join(&typed);
    let whole = whole.canonicalize_utf8().unwrap_or(whole);
    match option {
        Some(option) => format!("{option}={whole}"),
        None => whole.into_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_COPIED, found_from_elsewhere, inputs, name_of};
    use camino::Utf8Path;
    use cvc_session::command_line::parse;
    use std::fs;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_descriptor_is_called_like_the_program_or_its_script() {
        assert_eq!(name_of("CoMD-mpi", &[]), "comd-mpi");
        assert_eq!(
            name_of("python3.11", &words("-u jacobi/solve.py 10")),
            "solve"
        );
        assert_eq!(name_of("---", &[]), "program");
    }

    #[test]
    fn files_of_the_directory_are_copied_and_others_are_found_by_whole_paths() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = Utf8Path::from_path(scratch.path()).expect("UTF-8");
        let top = top.canonicalize_utf8().expect("whole");
        let here = top.join("run");
        fs::create_dir_all(here.join("pots")).expect("made");
        for (file, text) in [
            ("run/pots/Cu.eam", "1"),
            ("run/a.out", "2"),
            ("big.dat", "3"),
        ] {
            fs::write(top.join(file), text).expect("written");
        }
        let line = words("./a.out -d pots --in=../big.dat ../big.dat pots/Cu.eam 12 ../none");
        let line = parse(&line, &|_| false).expect("read");
        let found = inputs(&here, &line, &here.join("a.out"), &top.join("store")).expect("found");
        let copied: Vec<&str> = found.sources.iter().map(|s| s.path.as_str()).collect();
        assert_eq!(copied, ["pots/Cu.eam"]);
        let big = top.join("big.dat");
        assert_eq!(
            found.args.join(" "),
            format!("-d pots --in={big} {big} pots/Cu.eam 12 ../none")
        );
    }

    #[test]
    fn in_a_large_directory_what_the_command_names_is_copied() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = Utf8Path::from_path(scratch.path()).expect("UTF-8");
        let top = top.canonicalize_utf8().expect("whole");
        let here = top.join("run");
        fs::create_dir_all(here.join("pots")).expect("made");
        for number in 0..MAX_COPIED.0 {
            fs::write(here.join(format!("a{number}")), "").expect("written");
        }
        let line = words("./a.out -d pots z.in ../none");
        let line = parse(&line, &|_| false).expect("read");
        let copied = |line| {
            let found = inputs(&here, line, &here.join("a.out"), &top.join("store"));
            let found = found.expect("found");
            let paths = found.sources.into_iter().map(|s| s.path.to_string());
            (paths.collect::<Vec<_>>(), found.note.is_some())
        };
        let (all, is_noted) = copied(&line);
        assert_eq!((all.len(), is_noted), (MAX_COPIED.0, false));
        fs::write(here.join("pots/Cu.eam"), "").expect("written");
        fs::write(here.join("z.in"), "").expect("written");
        let (named, is_noted) = copied(&line);
        assert_eq!(named, ["pots/Cu.eam", "z.in"]);
        assert!(is_noted);
    }

    #[test]
    fn words_that_are_no_paths_stay() {
        let here = Utf8Path::new("/");
        for word in ["usr", "-x", "--size=usr", "/usr", "4", ""] {
            assert_eq!(found_from_elsewhere(word, here, &[]), word);
        }
    }
}
