//! Gets answers for `cvc init`: from options, from the terminal, or from defaults.

use crate::{
    exit_status::ExitStatus, failure::Failure, machine::runtime, output::note, text::paragraph,
};
use std::io::IsTerminal;

/// Where answers come from if no option gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The user is asked on the terminal.
    Terminal,
    /// All questions get their defaults.
    Defaults,
    /// Secondary questions get their defaults; an essential question without an option is an error.
    OptionsOnly,
}

/// A question.
pub struct Question<'a> {
    /// The text that the terminal shows.
    text: &'a str,
    /// The command-line option that answers the question.
    option: &'a str,
    /// The answer for an empty line, if there is one.
    default: Option<String>,
    /// Whether the question is essential: without a terminal, its default is used only with --yes.
    decides: bool,
}

impl<'a> Question<'a> {
    /// Returns an essential question without a default.
    pub fn new(option: &'a str, text: &'a str) -> Self {
        Self {
            text,
            option,
            default: None,
            decides: true,
        }
    }

    /// Adds a default that the user has to confirm.
    pub fn suggesting(self, default: impl Into<String>) -> Self {
        Self {
            default: Some(default.into()),
            ..self
        }
    }

    /// Adds a default that is used unless the user overrides it, which makes the question secondary.
    pub fn usual(self, default: impl Into<String>) -> Self {
        Self {
            decides: false,
            ..self.suggesting(default)
        }
    }
}

/// Gets answers, and collects the options that are missing for essential questions.
pub struct Asker {
    source: Source,
    missing: Vec<String>,
}

impl Asker {
    pub fn new(takes_defaults: bool) -> Self {
        let source = match takes_defaults {
            true => Source::Defaults,
            false if std::io::stdin().is_terminal() => Source::Terminal,
            false => Source::OptionsOnly,
        };
        Self {
            source,
            missing: Vec::new(),
        }
    }

    /// Returns whether questions are asked on a terminal.
    pub fn is_terminal(&self) -> bool {
        self.source == Source::Terminal
    }

    /// Returns the answer to a question that no option answers, from the terminal or the default. Returns `None` if only an option can answer the
    /// question. If `parse` refuses an answer on a terminal, the question is asked again.
    ///
    /// # Errors
    /// The input ends, or `parse` refuses the default.
    pub fn ask<T>(
        &mut self,
        question: &Question<'_>,
        parse: impl Fn(&str) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.source != Source::Terminal {
            let may_default = self.source == Source::Defaults || !question.decides;
            return match &question.default {
                Some(default) if may_default => parse(default).map(Some),
                Some(_) | None => {
                    self.missing.push(question.option.to_owned());
                    Ok(None)
                }
            };
        }
        let default = question
            .default
            .as_ref()
            .map(|d| format!(" [{d}]"))
            .unwrap_or_default();
        loop {
            note(paragraph("", &format!("{}{default}", question.text)));
            let Some(line) = read_line()? else {
                return Err(Failure::Other {
                    status: ExitStatus::Interrupted,
                    message: "standard input ended: nothing was written".into(),
                    hint: None,
                });
            };
            let answer = match (line.trim(), &question.default) {
                ("", Some(default)) => default.as_str(),
                ("", None) => continue,
                (given, _) => given,
            };
            match parse(answer) {
                Ok(value) => return Ok(Some(value)),
                Err(Failure::Other { message, hint, .. }) => {
                    note(paragraph("", &message));
                    if let Some(hint) = hint {
                        note(paragraph("  ", &format!("hint: {hint}")));
                    }
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Returns the answer from an option, otherwise by asking.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn given_or<T>(
        &mut self,
        given: Option<T>,
        question: &Question<'_>,
        parse: impl Fn(&str) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match given {
            Some(given) => Ok(Some(given)),
            None => self.ask(question, parse),
        }
    }

    /// Fails if answers are missing.
    ///
    /// # Errors
    /// Options for essential questions are missing.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let hint = match self.source {
            Source::OptionsOnly => {
                "give these options, or --yes for the available defaults; on a terminal cvc asks"
            }
            Source::Defaults | Source::Terminal => "give these options: they have no default",
        };
        Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "missing information for a campaign: {}",
                self.missing.join(", ")
            ),
            hint: Some(hint.into()),
        })
    }
}

/// Reads a line; `None` at the end of the input and after Ctrl-C, which by then no longer ends the program.
fn read_line() -> Result<Option<String>, Failure> {
    let (send, line) = tokio::sync::oneshot::channel();
    // the thread may wait for a line until the program ends
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).unwrap_or(0);
        // an error means that nobody waits for the line any more
        let _ = send.send((read > 0).then_some(line));
    });
    Ok(runtime()?.block_on(async {
        tokio::select! {
            line = line => line.ok().flatten(),
            _ = tokio::signal::ctrl_c() => None,
        }
    }))
}

/// Asks a yes/no question.
pub fn ask_yes(
    asker: &mut Asker,
    option: &str,
    text: &str,
    default: bool,
) -> Result<bool, Failure> {
    let question = Question::new(option, text).usual(if default { "yes" } else { "no" });
    let answer = asker.ask(&question, |text| match text.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err(wrong(
            format!("`{text}` is neither yes nor no"),
            "type y or n",
        )),
    })?;
    Ok(answer.unwrap_or(default))
}

/// Splits a list at commas and blanks.
pub fn words(text: &str) -> Vec<String> {
    let words = text.split([',', ' ']).filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// Returns the values of a repeatable option; `None` if it is not given.
pub fn some<T: Clone>(given: &[T]) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.to_vec())
}

/// Returns an error about the user's input.
pub fn wrong(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message: message.into(),
        hint: Some(hint.into()),
    }
}
