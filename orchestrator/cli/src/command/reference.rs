//! Writes the reference of the command line as Markdown (docs/cli.md), from the same definitions that parse it.

use crate::{
    args::{CiArgs, Where, Which},
    exit_status::ExitStatus,
    failure::Failure,
    help, output,
};
use camino::Utf8Path;
use clap::{Arg, ArgAction, Args, Command};
use std::io::Write;

pub fn print() -> Result<ExitStatus, Failure> {
    output::shown().write_all(markdown().as_bytes())?;
    Ok(ExitStatus::Done)
}

/// Writes a manual page for the program and for each command into an existing directory.
pub fn write_manual(dir: &Utf8Path) -> Result<ExitStatus, Failure> {
    clap_mangen::generate_to(help::command(), dir).map_err(|error| Failure::Other {
        status: ExitStatus::Internal,
        message: format!("cannot write manual pages into {dir}: {error}"),
        hint: Some("give an existing, writable directory".into()),
    })?;
    Ok(ExitStatus::Done)
}

fn shown(command: &&Command) -> bool {
    !command.is_hide_set()
}

fn markdown() -> String {
    let mut cvc = help::command();
    cvc.build();
    let mut text = String::from(
        "# The commands of `cvc`\n\nWritten by `cargo xtask reference`; do not edit. Options of many commands: [common options](#common-options).\n\n",
    );
    text.push_str(&format!("{}\n", about(&cvc)));
    for command in cvc.get_subcommands().filter(shown) {
        section(command, command.get_name(), &mut text);
    }
    text.push_str("\n## Common options\n\n");
    for argument in common().get_arguments() {
        let mut commands = Vec::new();
        commands_with(argument, &cvc, "", &mut commands);
        text.push_str(&format!(
            "- `{}`: {} ({})\n",
            name(argument),
            meaning(argument),
            commands.join(", ")
        ));
    }
    for argument in cvc.get_arguments().filter(|a| a.is_global_set()) {
        text.push_str(&format!(
            "- `{}`: {} (all)\n",
            name(argument),
            meaning(argument)
        ));
    }
    text.push_str(&format!(
        "\n## Exit codes\n\n{}",
        ExitStatus::markdown_table()
    ));
    text
}

/// Returns a command with the options that many commands share, which the page describes once.
fn common() -> Command {
    let json = Arg::new("json")
        .long("json")
        .help("Print JSON")
        .action(ArgAction::SetTrue);
    let common = Which::augment_args(Command::new("common").disable_help_flag(true));
    CiArgs::augment_args(Where::augment_args(common).arg(json))
}

fn is_same(one: &Arg, other: &Arg) -> bool {
    one.get_long() == other.get_long() && one.get_help() == other.get_help()
}

/// Collects the names of all subcommands that accept an option, recursively.
fn commands_with(option: &Arg, command: &Command, called: &str, found: &mut Vec<String>) {
    for inner in command.get_subcommands().filter(shown) {
        let inner_called = format!("{called} {}", inner.get_name());
        if inner
            .get_arguments()
            .any(|argument| is_same(argument, option))
        {
            found.push(format!("`{}`", inner_called.trim_start()));
        }
        commands_with(option, inner, &inner_called, found);
    }
}

fn about(command: &Command) -> String {
    let mut about = command
        .get_long_about()
        .or_else(|| command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    if !about.is_empty() && !about.ends_with('.') {
        about.push('.');
    }
    about
}

fn section(command: &Command, called: &str, text: &mut String) {
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage
        .trim_start_matches("Usage: ")
        .lines()
        .map(str::trim)
        .collect();
    let usage = usage.join("`, `");
    text.push_str(&format!(
        "\n## `cvc {called}`\n\n{}\n\n`{usage}`\n",
        about(command)
    ));
    let common = common();
    let is_common = |argument: &Arg| common.get_arguments().any(|other| is_same(argument, other));
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|a| !a.is_hide_set() && !a.is_global_set() && a.get_id() != "help")
        .filter(|a| !is_common(a))
        .collect();
    if !arguments.is_empty() {
        text.push('\n');
        for argument in arguments {
            text.push_str(&format!("- `{}`: {}\n", name(argument), meaning(argument)));
        }
    }
    for inner in command.get_subcommands().filter(shown) {
        section(inner, &format!("{called} {}", inner.get_name()), text);
    }
}

fn name(argument: &Arg) -> String {
    let value = argument.get_value_names().map(|names| {
        names
            .iter()
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    });
    match (argument.get_long(), argument.get_action().takes_values()) {
        (Some(long), true) => format!("--{long} {}", value.unwrap_or_default()),
        (Some(long), false) => format!("--{long}"),
        (None, _) => value.unwrap_or_else(|| argument.get_id().to_string()),
    }
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        text.push_str(&format!(" ({})", values.join(", ")));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|d| format!("`{}`", d.to_string_lossy()))
        .collect();
    let is_shown = argument.get_action().takes_values() && !argument.is_hide_default_value_set();
    if is_shown && !defaults.is_empty() {
        text.push_str(&format!("; default {}", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        text.push_str(&format!("; variable `{}`", variable.to_string_lossy()));
    }
    text
}
