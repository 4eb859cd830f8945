//! Parses a command line that starts a program, with or without an MPI launcher, as typed in a shell. Has no side effects and reads no files.

use camino::Utf8Path;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The call of the MPI launcher; `None` if the program is started directly.
    pub launcher: Option<LauncherCall>,
    /// Variables that the command sets for the program. With `None` as value, the variable has the value that it has in the shell.
    pub env: Vec<(String, Option<String>)>,
    /// The program or interpreter.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
}

/// A call of a launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LauncherCall {
    /// Name or path of the launcher, as typed.
    pub program: String,
    /// Number of processes; `None` if the command does not give it.
    pub processes: Option<u32>,
    /// Options that are passed on to the launcher.
    pub kept: Vec<String>,
    /// Options that place processes on nodes. They are left out of the launcher's command, because cvc places the processes.
    pub left_out: Vec<String>,
}

impl LauncherCall {
    /// Returns the launcher's file name.
    pub fn file_name(&self) -> &str {
        file_name(&self.program)
    }

    /// Returns whether the launcher is Slurm's `srun`, which belongs to no MPI library.
    pub fn is_srun(&self) -> bool {
        self.file_name() == SRUN
    }
}

/// Why a command line cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// There is no program to start.
    #[error("there is no command")]
    Empty,
    /// The command has a launcher, but no program after it.
    #[error("`{launcher}` has no program to start")]
    NoProgram {
        /// The launcher, as typed.
        launcher: String,
    },
    /// An option of the launcher has no value.
    #[error("the option `{option}` of `{launcher}` has no value")]
    NoValue {
        /// The launcher, as typed.
        launcher: String,
        /// The option, as typed.
        option: String,
    },
    /// The number of processes is invalid.
    #[error("`{text}` is not a number of processes")]
    Count {
        /// The text, as typed.
        text: String,
    },
    /// An option names other machines.
    #[error("`{option}` of `{launcher}` names other machines")]
    Machines {
        /// The launcher, as typed.
        launcher: String,
        /// The option, as typed.
        option: String,
    },
    /// An option would change the command, or the place where it runs.
    #[error("the option `{option}` of `{launcher}` is not supported")]
    Unsupported {
        /// The launcher, as typed.
        launcher: String,
        /// The option, as typed.
        option: String,
    },
    /// The command starts several programs, as in `a : b`.
    #[error("the command starts several programs (`:`)")]
    Several,
    /// Another program starts the launcher.
    #[error("`{launcher}` is started by `{program}`")]
    Inner {
        /// The first word of the command.
        program: String,
        /// The launcher in the arguments of this program, as typed.
        launcher: String,
    },
}

impl CommandLineError {
    /// Returns how to correct the command.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "write the command behind `--`, as in: cvc try -- mpirun -np 4 ./a.out",
            Self::NoProgram { .. } | Self::NoValue { .. } => {
                "write it as you start it, as in: mpirun -np 4 ./a.out"
            }
            Self::Count { .. } => "write a number from 1, as in: -np 4",
            Self::Machines { .. } => {
                "leave it out to try the command on this machine; for others write a campaign: cvc init --site ssh, or --site slurm"
            }
            Self::Unsupported { .. } => {
                "leave it out; change to the directory of the program yourself"
            }
            Self::Several => "try one program at a time",
            Self::Inner { .. } => "put the launcher first, as in: mpirun -np 4 ./a.out",
        }
    }
}

/// Name of Slurm's launcher.
const SRUN: &str = "srun";
/// Names of launchers of MPI libraries, without the suffixes of distributions.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "orterun", "prterun", SRUN];

/// Suffixes that distributions and MPICH add to the names of launchers.
const SUFFIXES: [&str; 5] = ["", "openmpi", "mpich", "hydra", "gforker"];

/// What an option of a launcher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Count,
    /// Sets a variable. The value is `A=1` or `A`; an option with two values has the name and the value separately.
    Variable,
    /// Passed on to the launcher unchanged.
    Kept,
    /// Places processes on nodes, which cvc does instead.
    Placed,
    /// Names other machines.
    Hosts,
    Unsupported,
}

/// Options of mpirun and mpiexec of Open MPI and MPICH: names without hyphens, number of values, meaning.
const OF_MPI: &[(&[&str], usize, Meaning)] = &[
    (&["np", "n", "c"], 1, Meaning::Count),
    (&["x"], 1, Meaning::Variable),
    (&["env", "genv"], 2, Meaning::Variable),
    (
        &["mca", "gmca", "omca", "prtemca", "pmixmca"],
        2,
        Meaning::Kept,
    ),
    (
        &[
            "tune",
            "am",
            "iface",
            "launcher",
            "bootstrap",
            "launcher-exec",
            "rmk",
            "genvlist",
            "envlist",
            "stdin",
            "timeout",
            "prefix",
            "personality",
            "path",
            "pmi-port",
        ],
        1,
        Meaning::Kept,
    ),
    (
        &[
            "allow-run-as-root",
            "tag-output",
            "timestamp-output",
            "q",
            "quiet",
            "v",
            "verbose",
            "genvall",
            "envall",
            "genvnone",
            "envnone",
            "l",
            "prepend-rank",
            "print-all-exitcodes",
            "disable-auto-cleanup",
        ],
        0,
        Meaning::Kept,
    ),
    (
        &[
            "map-by",
            "bind-to",
            "rank-by",
            "npernode",
            "N",
            "ppn",
            "perhost",
            "npersocket",
            "cpus-per-proc",
            "cpus-per-rank",
            "cpu-set",
            "cpu-list",
            "rf",
            "rankfile",
        ],
        1,
        Meaning::Placed,
    ),
    (
        &[
            "oversubscribe",
            "nooversubscribe",
            "use-hwthread-cpus",
            "bynode",
            "byslot",
            "bycore",
            "bind-to-core",
            "bind-to-none",
            "bind-to-socket",
            "display-map",
            "nolocal",
            "display-allocation",
            "report-bindings",
        ],
        0,
        Meaning::Placed,
    ),
    (
        &[
            "host",
            "H",
            "hosts",
            "hostfile",
            "machinefile",
            "f",
            "default-hostfile",
        ],
        1,
        Meaning::Hosts,
    ),
    (
        &["wdir", "wd", "configfile", "app", "output-filename"],
        1,
        Meaning::Unsupported,
    ),
];

/// Options of srun. All of them except the number of processes concern the batch system.
const OF_SRUN: &[(&[&str], usize, Meaning)] = &[
    (&["n", "ntasks"], 1, Meaning::Count),
    (
        &[
            "N",
            "nodes",
            "c",
            "cpus-per-task",
            "p",
            "partition",
            "t",
            "time",
            "J",
            "job-name",
            "w",
            "nodelist",
            "A",
            "account",
            "q",
            "qos",
            "m",
            "distribution",
            "mem",
            "mem-per-cpu",
            "ntasks-per-node",
            "cpu-bind",
            "mpi",
            "x",
            "exclude",
            "C",
            "constraint",
            "G",
            "gpus",
            "gres",
            "reservation",
            "export",
            "L",
            "licenses",
            "o",
            "output",
            "e",
            "error",
            "i",
            "input",
        ],
        1,
        Meaning::Placed,
    ),
    (
        &[
            "l",
            "label",
            "u",
            "unbuffered",
            "v",
            "verbose",
            "Q",
            "quiet",
            "O",
            "overcommit",
            "K",
            "kill-on-bad-exit",
            "exclusive",
            "s",
            "oversubscribe",
            "overlap",
        ],
        0,
        Meaning::Placed,
    ),
    (&["D", "chdir", "multi-prog"], 1, Meaning::Unsupported),
];

fn file_name(word: &str) -> &str {
    Utf8Path::new(word).file_name().unwrap_or(word)
}

/// Returns whether a word is an MPI launcher: `mpirun`, `/opt/x/bin/mpiexec.hydra`, `mpirun.openmpi`, `srun`.
pub fn is_launcher(word: &str) -> bool {
    let name = file_name(word);
    let (stem, suffix) = name.split_once('.').unwrap_or((name, ""));
    LAUNCHERS.contains(&stem) && SUFFIXES.contains(&suffix)
}

/// Parses a word that sets a variable, `NAME=value`; `None` if the word does not have this form.
fn setting(word: &str) -> Option<(String, Option<String>)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (name.to_owned(), Some(value.to_owned())))
}

/// Removes the settings of variables at the beginning of a command line, as in `A=1 B=2 …` or `env A=1 …`, and appends them to `env`.
fn take_env(words: &mut &[String], env: &mut Vec<(String, Option<String>)>) {
    let is_env = |words: &[String]| {
        words.first().is_some_and(|word| file_name(word) == "env")
            && words.get(1).is_some_and(|word| setting(word).is_some())
    };
    while let Some((first, rest)) = words.split_first() {
        match setting(first) {
            Some(variable) => env.push(variable),
            None if is_env(words) => {}
            None => break,
        }
        *words = rest;
    }
}

/// Parses a command line. `is_program` returns whether a word is the name of a program that can be started. The word after an unknown option counts
/// as the option's value, unless it is such a name.
///
/// # Errors
/// The command starts no program, several programs, or a program on other machines.
pub fn parse(
    words: &[String],
    is_program: &dyn Fn(&str) -> bool,
) -> Result<CommandLine, CommandLineError> {
    let mut words = words;
    let mut env = Vec::new();
    take_env(&mut words, &mut env);
    let mut launcher = None;
    if let Some((first, rest)) = words.split_first()
        && is_launcher(first)
    {
        let (call, left) = launcher_call(first, rest, is_program, &mut env)?;
        launcher = Some(call);
        words = left;
        take_env(&mut words, &mut env);
    }
    let Some((program, args)) = words.split_first() else {
        return Err(launcher.map_or(CommandLineError::Empty, |call| {
            CommandLineError::NoProgram {
                launcher: call.program,
            }
        }));
    };
    if launcher.is_some() && args.iter().any(|word| word == ":") {
        return Err(CommandLineError::Several);
    }
    if let Some(inner) = args.iter().find(|word| is_launcher(word))
        && launcher.is_none()
    {
        return Err(CommandLineError::Inner {
            program: program.clone(),
            launcher: inner.clone(),
        });
    }
    Ok(CommandLine {
        launcher,
        env,
        program: program.clone(),
        args: args.to_vec(),
    })
}

/// An option as typed, as in `-np`, `--np=4`, or `-n4` (srun only).
struct OptionWord<'w> {
    name: &'w str,
    joined: Option<&'w str>,
}

impl<'w> OptionWord<'w> {
    fn read(word: &'w str, is_srun: bool) -> Option<Self> {
        let long = word.strip_prefix("--").filter(|rest| !rest.is_empty());
        if let Some(rest) = long {
            let (name, joined) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (rest, None),
            };
            return Some(Self { name, joined });
        }
        let short = word.strip_prefix('-').filter(|rest| !rest.is_empty())?;
        // `-n4` of srun; MPI launchers have long option names after a single hyphen
        let letter = short.chars().next().map_or(0, char::len_utf8);
        let is_joined = is_srun && short.len() > letter;
        Some(Self {
            name: if is_joined { &short[..letter] } else { short },
            joined: is_joined.then(|| &short[letter..]),
        })
    }
}

fn launcher_call<'w>(
    launcher: &str,
    words: &'w [String],
    is_program: &dyn Fn(&str) -> bool,
    env: &mut Vec<(String, Option<String>)>,
) -> Result<(LauncherCall, &'w [String]), CommandLineError> {
    let mut call = LauncherCall {
        program: launcher.to_owned(),
        ..LauncherCall::default()
    };
    let known = if call.is_srun() { OF_SRUN } else { OF_MPI };
    let mut left = words;
    while let Some((word, rest)) = left.split_first() {
        let Some(option) = OptionWord::read(word, call.is_srun()) else {
            break;
        };
        let found = known
            .iter()
            .find(|(names, ..)| names.contains(&option.name));
        let unknown = || {
            let is_value = rest
                .first()
                .is_some_and(|next| !next.starts_with('-') && !is_program(next));
            let meaning = if call.is_srun() {
                Meaning::Placed
            } else {
                Meaning::Kept
            };
            (usize::from(is_value && option.joined.is_none()), meaning)
        };
        let (values, meaning) =
            found.map_or_else(unknown, |(_, values, meaning)| (*values, *meaning));
        let following = values.saturating_sub(usize::from(option.joined.is_some()));
        if rest.len() < following {
            return Err(CommandLineError::NoValue {
                launcher: launcher.to_owned(),
                option: word.clone(),
            });
        }
        let (taken, after) = rest.split_at(following);
        let values: Vec<&str> = option
            .joined
            .into_iter()
            .chain(taken.iter().map(String::as_str))
            .collect();
        let typed = std::iter::once(word).chain(taken).cloned();
        apply(&mut call, meaning, &values, typed.collect(), env)?;
        left = after;
    }
    Ok((call, left))
}

/// Applies an option of the launcher, given its meaning and values, to `call` and `env`. `typed` has the words of the option.
fn apply(
    call: &mut LauncherCall,
    meaning: Meaning,
    values: &[&str],
    typed: Vec<String>,
    env: &mut Vec<(String, Option<String>)>,
) -> Result<(), CommandLineError> {
    let launcher = || call.program.clone();
    let option = || typed.first().cloned().unwrap_or_default();
    match meaning {
        Meaning::Count => {
            let text = values.first().copied().unwrap_or_default();
            let count = text.parse::<u32>().ok().filter(|count| *count > 0);
            let Some(count) = count else {
                return Err(CommandLineError::Count { text: text.into() });
            };
            call.processes = Some(count);
        }
        Meaning::Variable => match values {
            [name, value] => env.push(((*name).to_owned(), Some((*value).to_owned()))),
            [word] => env.push(setting(word).unwrap_or_else(|| ((*word).to_owned(), None))),
            _ => {}
        },
        Meaning::Kept => call.kept.extend(typed),
        Meaning::Placed => call.left_out.extend(typed),
        Meaning::Hosts => {
            let is_here = |host: &str| {
                let name = host.split_once(':').map_or(host, |(name, _)| name);
                matches!(name, "localhost" | "127.0.0.1")
            };
            let hosts = values.first().copied().unwrap_or_default();
            if !hosts.split(',').all(is_here) {
                return Err(CommandLineError::Machines {
                    launcher: launcher(),
                    option: typed.join(" "),
                });
            }
            call.left_out.extend(typed);
        }
        Meaning::Unsupported => {
            return Err(CommandLineError::Unsupported {
                launcher: launcher(),
                option: option(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, CommandLineError, parse};

    fn parsed(line: &str) -> Result<CommandLine, CommandLineError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words, &|word| word.starts_with("./") || word == "python3")
    }

    fn is_read(line: &str, processes: Option<u32>, program: &str, args: &str) {
        let read = parsed(line).expect(line);
        let launcher = read.launcher.as_ref();
        assert_eq!(
            (
                launcher.and_then(|l| l.processes),
                read.program.as_str(),
                read.args.join(" ").as_str()
            ),
            (processes, program, args),
            "{line}"
        );
    }

    #[test]
    fn launchers_of_both_families_are_read() {
        is_read("mpirun -np 4 ./a.out 1 -n 2", Some(4), "./a.out", "1 -n 2");
        is_read("mpiexec --n 2 python3 s.py", Some(2), "python3", "s.py");
        is_read("mpirun.openmpi -c 3 ./a", Some(3), "./a", "");
        is_read("/opt/x/bin/mpiexec.hydra -n 8 ./a", Some(8), "./a", "");
        is_read("mpirun --np=4 --mca btl self,sm ./a", Some(4), "./a", "");
        is_read("srun -n4 -c 2 --mpi=pmix ./a", Some(4), "./a", "");
        is_read("srun --ntasks=4 -p debug ./a", Some(4), "./a", "");
        is_read("./a -np 4", None, "./a", "-np 4");
        is_read("mpirun ./a", None, "./a", "");
    }

    #[test]
    fn options_go_to_the_launcher_or_are_cvcs_own() {
        let read =
            parsed("mpirun -np 2 --mca btl self --bind-to core --tag-output -host localhost:2 ./a");
        let launcher = read.expect("read").launcher.expect("a launcher");
        assert_eq!(launcher.kept, ["--mca", "btl", "self", "--tag-output"]);
        assert_eq!(
            launcher.left_out,
            ["--bind-to", "core", "-host", "localhost:2"]
        );
    }

    #[test]
    fn a_word_after_an_unknown_option_is_its_value_unless_it_can_be_started() {
        is_read("mpirun -np 2 --odd value ./a x", Some(2), "./a", "x");
        is_read("mpirun -np 2 --odd ./a x", Some(2), "./a", "x");
        is_read("mpirun -np 2 --odd --odder ./a x", Some(2), "./a", "x");
    }

    #[test]
    fn variables_are_read_wherever_they_are_set() {
        let read = parsed("A=1 env B=2 mpirun -np 2 -x C -x D=4 -genv E 5 env F=6 ./a G=7");
        let read = read.expect("read");
        let env: Vec<String> = read
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("?")))
            .collect();
        assert_eq!(env, ["A=1", "B=2", "C=?", "D=4", "E=5", "F=6"]);
        assert_eq!(
            (read.program.as_str(), read.args.join(" ").as_str()),
            ("./a", "G=7")
        );
    }

    #[test]
    fn commands_that_cannot_be_tried_are_refused() {
        let refused = |line: &str| parsed(line).expect_err(line).to_string();
        assert_eq!(refused(""), "there is no command");
        assert_eq!(refused("A=1"), "there is no command");
        assert_eq!(refused("mpirun -np 4"), "`mpirun` has no program to start");
        assert_eq!(
            refused("mpirun -np"),
            "the option `-np` of `mpirun` has no value"
        );
        assert_eq!(
            refused("mpirun -np four ./a"),
            "`four` is not a number of processes"
        );
        assert_eq!(
            refused("mpirun -np 0 ./a"),
            "`0` is not a number of processes"
        );
        assert_eq!(
            refused("mpirun -np 2 -host n1,n2 ./a"),
            "`-host n1,n2` of `mpirun` names other machines"
        );
        assert_eq!(
            refused("mpirun -np 2 -wdir /x ./a"),
            "the option `-wdir` of `mpirun` is not supported"
        );
        assert_eq!(
            refused("mpirun -np 2 ./a : -np 1 ./b"),
            "the command starts several programs (`:`)"
        );
        assert_eq!(
            refused("time mpirun -np 2 ./a"),
            "`mpirun` is started by `time`"
        );
    }
}
