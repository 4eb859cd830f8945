//! The help of the program: its commands by purpose.

use crate::{args::Arguments, exit_status::ExitStatus};
use clap::{ArgMatches, Command, CommandFactory};
use std::ffi::OsString;

/// The commands by purpose, in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Begin",
        &["demo", "try", "init", "plan", "doctor", "install"],
    ),
    (
        "Run",
        &[
            "run",
            "status",
            "explain",
            "serve",
            "down",
            "interrupt",
            "fsck",
            "report-bug",
        ],
    ),
    (
        "Look",
        &["report", "image", "delta", "trace", "phases", "metadata"],
    ),
    (
        "Decide",
        &[
            "compare",
            "advise",
            "predict",
            "strategy",
            "estimate",
            "bandwidth",
            "aa-test",
        ],
    ),
    ("Exchange", &["reproduce", "import", "export"]),
    ("Clouds", &["prices", "jobs", "sweep"]),
    ("Shells", &["completions", "schema", "help"]),
];

/// Output of `cvc` without arguments.
pub const FIRST_SCREEN: &str = "\
cvc measures what checkpoints of MPI programs cost, in seconds, MiB and dollars,
on this machine, clusters and clouds: for those who run such programs, and those
who choose machines for them.

  cvc demo                           run a small campaign, in two minutes
  cvc try -- mpirun -np 4 ./a.out    measure checkpoints of your own program
  cvc init                           write a campaign file from a few answers
  cvc doctor                         show what is installed, and what is missing

Commands: `cvc --help`. Topics and words: `cvc help`.
";

/// A topic of `cvc help` other than commands and words of the vocabulary.
pub struct Topic {
    pub name: &'static str,
    pub about: &'static str,
    pub show: fn(&Command) -> String,
}

/// All topics of `cvc help`.
pub const TOPICS: [Topic; 2] = [
    Topic {
        name: "commands",
        about: "All commands by purpose",
        show: described_groups,
    },
    Topic {
        name: "exit-codes",
        about: "Meanings of exit codes",
        show: |_| ExitStatus::help_table() + "\n",
    },
];

/// Returns the command line of cvc, with the commands grouped in the help.
pub fn command() -> Command {
    let cvc = with_negative_numbers(Arguments::command());
    let groups = named_groups();
    cvc.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// Accepts a negative number such as `-3` as the value of each option, so that the error is about the number and not about an unknown option.
fn with_negative_numbers(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let is_option = !arg.is_positional() && arg.get_action().takes_values();
            match is_option && !arg.is_allow_hyphen_values_set() {
                true => arg.allow_negative_numbers(true),
                false => arg,
            }
        })
        .mut_subcommands(with_negative_numbers)
}

/// Returns an error for an empty path in the arguments: it would mean the current directory, or nothing.
fn refuse_empty_paths(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    const PATHS: [&str; 4] = ["FILE", "DIR", "DIRECTORY", "PATH"];
    for arg in command.get_arguments() {
        let names = arg.get_value_names().unwrap_or_default();
        let is_path = names.iter().any(|name| PATHS.contains(&name.as_str()));
        let mut values = matches
            .try_get_raw(arg.get_id().as_str())
            .ok()
            .flatten()
            .into_iter()
            .flatten();
        if is_path && values.any(|value| value.is_empty()) {
            let name = arg.get_long().map_or_else(
                || format!("<{}>", names.first().map_or("FILE", |name| name.as_str())),
                |long| format!("--{long}"),
            );
            return Err(command.clone().error(
                clap::error::ErrorKind::InvalidValue,
                format!("{name} needs a file or directory name, but is empty"),
            ));
        }
    }
    match matches.subcommand() {
        Some((name, below)) => command.find_subcommand(name).map_or(Ok(()), |subcommand| {
            let above = command.get_bin_name().unwrap_or(command.get_name());
            let subcommand = subcommand.clone().bin_name(format!("{above} {name}"));
            refuse_empty_paths(&subcommand, below)
        }),
        None => Ok(()),
    }
}

/// Parses a command line. After an option with an optional value, the next word is taken as the value if the command line is then valid.
///
/// # Errors
/// The command line is invalid.
pub fn parse(mut words: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let cvc = command();
    let subcommand = words.iter().skip(1).find_map(|w| cvc.find_subcommand(w));
    // the words after `--` are the command of another program
    let own = words.iter().position(|word| word == "--");
    let last = own.unwrap_or(words.len()).saturating_sub(1);
    for at in (0..last).rev() {
        let name = words[at].to_str().and_then(|word| word.strip_prefix("--"));
        let is_optional = |name| subcommand.is_some_and(|of| has_optional_value(of, name));
        if !name.is_some_and(is_optional) {
            continue;
        }
        let mut joined = words.clone();
        let value = joined.remove(at + 1);
        joined[at].push("=");
        joined[at].push(value);
        if cvc.clone().try_get_matches_from(&joined).is_ok() {
            words = joined;
        }
    }
    let matches = cvc.clone().try_get_matches_from(words)?;
    refuse_empty_paths(&cvc, &matches)?;
    Ok(matches)
}

/// Returns whether the command or one of its subcommands has this option with an optional value.
fn has_optional_value(command: &Command, name: &str) -> bool {
    command
        .get_arguments()
        .any(|option| option.is_require_equals_set() && option.get_long() == Some(name))
        || command
            .get_subcommands()
            .any(|below| has_optional_value(below, name))
}

/// Returns clap's help for the command that the words name, such as `delta make`; `None` if there is none.
pub fn of_command(words: &[String]) -> Option<clap::Error> {
    let line = ["cvc"].into_iter().chain(words.iter().map(String::as_str));
    parse(line.chain(["--help"]).map(OsString::from).collect()).err()
}

/// Lists the names of each group's commands on one line.
fn named_groups() -> String {
    GROUPS
        .iter()
        .map(|(heading, names)| format!("{:11}{}\n", format!("{heading}:"), names.join(", ")))
        .collect()
}

/// Lists each group's commands, one per line with a description.
fn described_groups(cvc: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|n| n.len());
    let width = width.max().unwrap_or_default();
    let line = |name: &&str| {
        let about = cvc.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        format!("  {name:width$}  {about}\n")
    };
    let groups = GROUPS.map(|(heading, names)| {
        let lines: String = names.iter().map(line).collect();
        format!("{heading}:\n{lines}")
    });
    groups.join("\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parsed(words: &str) -> Result<ArgMatches, clap::Error> {
        parse(words.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn a_value_that_may_be_left_out_follows_with_and_without_an_equals_sign() {
        let watch = |words: &str| {
            let matches = parsed(words).unwrap();
            let (_, status) = matches.subcommand().unwrap();
            let campaign = status.get_one::<camino::Utf8PathBuf>("campaign").unwrap();
            (
                *status.get_one::<f64>("watch").unwrap(),
                campaign.to_string(),
            )
        };
        for (words, pause_s) in [
            ("cvc status x --watch=5s", 5.0),
            ("cvc status x --watch 5s", 5.0),
            ("cvc status --watch 5s x", 5.0),
            ("cvc status --watch x", 2.0),
            ("cvc status x --watch", 2.0),
        ] {
            assert_eq!(watch(words), (pause_s, "x".to_owned()), "{words}");
        }
        assert!(parsed("cvc compare a b --gate worse").is_ok());
        assert!(parsed("cvc compare a b --gate worst").is_ok());
        assert!(parsed("cvc compare a b --gate=worst").is_err());
        for words in ["cvc try ./a --watch 5s", "cvc try -- ./a --watch 5s"] {
            let matches = parsed(words).unwrap();
            let (_, tried) = matches.subcommand().unwrap();
            let command: Vec<&String> = tried.get_many("command").unwrap().collect();
            assert_eq!(command, ["./a", "--watch", "5s"], "{words}");
        }
    }

    #[test]
    fn the_first_screens_fit_a_terminal_of_80_columns_and_24_lines() {
        let narrow = command().term_width(80);
        let help = narrow.try_get_matches_from(["cvc", "--help"]).unwrap_err();
        let help = help.render().to_string();
        // one line of the terminal is left for the prompt
        for (screen, lines) in [(help.as_str(), 23), (FIRST_SCREEN, 10)] {
            assert!(screen.lines().count() <= lines, "{screen}");
            let widest = screen.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(80), "{screen}");
        }
    }

    #[test]
    fn each_command_stands_in_one_group_on_one_line_of_80_columns() {
        let mut cvc = Arguments::command();
        cvc.build();
        let shown: BTreeSet<&str> = cvc
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(Command::get_name)
            .collect();
        let named: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        assert_eq!(named.len(), shown.len());
        assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), shown);
        for line in described_groups(&cvc).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
