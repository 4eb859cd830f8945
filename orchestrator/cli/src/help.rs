//! The help of the program: its commands by what one wants to do.

use crate::args::Arguments;
use clap::{Command, CommandFactory};

/// Commands by what they are for, in the order in which they are needed.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Begin", &["init", "plan", "doctor", "install"]),
    (
        "Run",
        &["run", "status", "explain", "serve", "down", "fsck"],
    ),
    ("Look", &["report", "image", "delta", "trace"]),
    (
        "Compare and decide",
        &["compare", "advise", "predict", "aa-test"],
    ),
    (
        "Papers and data of others",
        &["reproduce", "import", "export"],
    ),
    ("Clouds", &["prices", "sweep"]),
    ("For shells and editors", &["completions", "schema", "help"]),
];

/// What `help` does: clap adds it only when it parses.
const HELP: &str = "Print this message or the help of the given subcommand(s)";

/// The command line, with grouped help.
pub fn command() -> Command {
    let cvc = Arguments::command();
    let groups = groups(&cvc);
    cvc.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// The commands of each group, one per line.
fn groups(cvc: &Command) -> String {
    let name_width = cvc
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(|c| c.get_name().len())
        .max()
        .unwrap_or_default();
    let line = |name: &&str| {
        let about = cvc.find_subcommand(name).and_then(Command::get_about);
        let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
        format!("  {name:name_width$}  {about}\n")
    };
    GROUPS
        .iter()
        .map(|(heading, names)| {
            format!(
                "{heading}:\n{}\n",
                names.iter().map(line).collect::<String>()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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
        for line in groups(&cvc).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
