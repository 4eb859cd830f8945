//! `cvc help`, and `cvc` without a command.

use crate::{
    exit_status::ExitStatus,
    failure::Failure,
    help::{self, TOPICS, Topic},
    output, vocabulary,
};
use clap::Command;
use cvc_core::source::closest;
use cvc_show::Blocks;
use std::io::Write;

/// Prints the first screen. The exit code is that of a wrong command line, so that a script with an empty variable does not continue.
pub fn first_screen() -> Result<ExitStatus, Failure> {
    output::shown().write_all(help::FIRST_SCREEN.as_bytes())?;
    Ok(ExitStatus::Usage)
}

/// Prints the help for a command, a topic or a word; without words, lists all of them.
pub fn help(words: &[String]) -> Result<ExitStatus, Failure> {
    let cvc = help::command();
    let name = words.join(" ");
    let topic = TOPICS.iter().find(|topic| topic.name == name);
    let word = vocabulary::find(&name);
    let command = find_command(&cvc, words);
    if words.is_empty() {
        output::print(&overview())?;
    } else if let Some(Topic { show, .. }) = topic {
        output::shown().write_all(show(&cvc).as_bytes())?;
    } else if word.is_none() && command.is_none() {
        return Err(unknown(&cvc, &name));
    }
    if let Some(word) = word {
        let mut answer = Blocks::default();
        answer.say(format!("{}: {}", word.names.join(", "), word.meaning));
        if !word.pages.is_empty() {
            answer.say(format!("More: {}", word.pages.join(", ")));
        }
        if command.is_some() {
            answer.heading(format!("The command `cvc {name}`:"));
            answer.gap();
        }
        output::print(&answer)?;
    }
    if let Some(usage) = command.and(help::of_command(words)) {
        output::show_usage(&usage)?;
    }
    Ok(ExitStatus::Done)
}

/// Finds the command that the words name, such as `delta make`.
fn find_command<'a>(cvc: &'a Command, words: &[String]) -> Option<&'a Command> {
    let (last, above) = words.split_last()?;
    let parent = match above {
        [] => cvc,
        above => find_command(cvc, above)?,
    };
    parent.find_subcommand(last)
}

fn overview() -> Blocks {
    let mut answer = Blocks::default();
    answer.line("Usage: cvc help [COMMAND|TOPIC|WORD]");
    answer.heading("Topics:");
    for topic in TOPICS {
        answer.line(format!("  {:11} {}", topic.name, topic.about));
    }
    answer.heading("Words:");
    answer.item(1, vocabulary::names().collect::<Vec<_>>().join(", "));
    answer.gap();
    answer.say("Examples: `cvc help run`, `cvc help delta make`, `cvc help mapping`.");
    answer
}

fn unknown(cvc: &Command, name: &str) -> Failure {
    let commands = cvc.get_subcommands().filter(|c| !c.is_hide_set());
    let mut known: Vec<&str> = commands.map(Command::get_name).collect();
    for name in vocabulary::names().chain(TOPICS.map(|topic| topic.name)) {
        known.push(name);
    }
    let close = closest(name, known);
    let hint = match close {
        Some(close) => format!("did you mean `cvc help {close}`? `cvc help` lists all topics"),
        None => "`cvc help` lists all topics".to_owned(),
    };
    Failure::Other {
        status: ExitStatus::Usage,
        message: format!("there is no command, topic or word `{name}`"),
        hint: Some(hint),
    }
}
