//! The reference of the command line as Markdown (docs/cli.md), from the same definitions that parse it.

use crate::{exit_status::ExitStatus, failure::Failure, help, output};
use camino::Utf8Path;
use clap::{Arg, Command};
use std::io::Write;

pub fn print() -> Result<ExitStatus, Failure> {
    output::shown().write_all(markdown().as_bytes())?;
    Ok(ExitStatus::Done)
}

/// Writes a manual page of the program and of each command into a directory that exists.
pub fn write_manual(dir: &Utf8Path) -> Result<ExitStatus, Failure> {
    clap_mangen::generate_to(help::command(), dir).map_err(|error| Failure::Other {
        status: ExitStatus::Internal,
        message: format!("cannot write manual pages into {dir}: {error}"),
        hint: Some("name a directory that exists and that you may write".into()),
    })?;
    Ok(ExitStatus::Done)
}

fn shown(command: &&Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn markdown() -> String {
    let mut cvc = help::command();
    cvc.build();
    let mut text = String::from(
        "# The commands of `cvc`\n\nWritten by `cargo xtask reference`; do not edit.\n\n",
    );
    text.push_str(&format!("{}\n", about(&cvc)));
    for command in cvc.get_subcommands().filter(shown) {
        section(command, command.get_name(), &mut text);
    }
    text.push_str("\n## Options of every command\n\n| argument | meaning |\n| --- | --- |\n");
    for argument in cvc.get_arguments().filter(|a| a.is_global_set()) {
        text.push_str(&format!(
            "| `{}` | {} |\n",
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
    let usage = usage.trim_start_matches("Usage: ");
    text.push_str(&format!(
        "\n## `cvc {called}`\n\n{}\n\n```text\n{usage}\n```\n",
        about(command)
    ));
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|a| !a.is_hide_set() && !a.is_global_set() && a.get_id() != "help")
        .collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument | meaning |\n| --- | --- |\n");
        for argument in arguments {
            text.push_str(&format!(
                "| `{}` | {} |\n",
                name(argument),
                meaning(argument)
            ));
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
        .unwrap_or_default()
        .replace('|', "\\|");
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        text.push_str(&format!("; one of {}", values.join(", ")));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|d| format!("`{}`", d.to_string_lossy()))
        .collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        text.push_str(&format!("; default {}", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        text.push_str(&format!(
            "; also by the variable `{}`",
            variable.to_string_lossy()
        ));
    }
    text
}
