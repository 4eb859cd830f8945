//! Gets answers: from options, from a terminal, or from defaults.

use crate::{
    exit_status::ExitStatus, failure::Failure, machine::runtime, output::note, text::paragraph,
};
use std::io::IsTerminal;

/// Where answers come from that no option gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The user is asked.
    Terminal,
    /// Defaults.
    Defaults,
    /// Defaults of what does not decide what is measured; the rest is missing.
    Nobody,
}

/// A question.
pub struct Question<'a> {
    /// The question, as a terminal shows it.
    text: &'a str,
    /// The option that answers it.
    option: &'a str,
    /// The answer that an empty line stands for, if there is one.
    default: Option<String>,
    /// Whether it decides what is measured: its default counts only where the user takes defaults.
    decides: bool,
}

impl<'a> Question<'a> {
    /// A question that only the user or an option answers.
    pub fn new(option: &'a str, text: &'a str) -> Self {
        Self {
            text,
            option,
            default: None,
            decides: true,
        }
    }

    /// With a default that the user has to take.
    pub fn suggesting(self, default: impl Into<String>) -> Self {
        Self {
            default: Some(default.into()),
            ..self
        }
    }

    /// With a default that holds unless the user says otherwise.
    pub fn usual(self, default: impl Into<String>) -> Self {
        Self {
            decides: false,
            ..self.suggesting(default)
        }
    }
}

/// Gets answers, and collects the options that are missing.
pub struct Asker {
    source: Source,
    missing: Vec<String>,
}

impl Asker {
    pub fn new(takes_defaults: bool) -> Self {
        let source = match takes_defaults {
            true => Source::Defaults,
            false if std::io::stdin().is_terminal() => Source::Terminal,
            false => Source::Nobody,
        };
        Self {
            source,
            missing: Vec::new(),
        }
    }

    /// Whether the user is asked.
    pub fn is_terminal(&self) -> bool {
        self.source == Source::Terminal
    }

    /// The answer to a question that no option has answered; `None` if it has to be given by an option. An answer on a terminal that `parse` refuses
    /// is asked for again.
    ///
    /// # Errors
    /// When the input ends, or the default is refused.
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
                    message: "the answers ended: nothing was written".into(),
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

    /// The answer that an option gives, or else the one to a question.
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

    /// Refuses to go on without answers.
    ///
    /// # Errors
    /// When options are missing.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let hint = match self.source {
            Source::Nobody => {
                "give these options, or --yes for the defaults of those that have one; on a terminal cvc asks"
            }
            Source::Defaults | Source::Terminal => "give these options: they have no default",
        };
        Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "not enough is known to write a campaign: {}",
                self.missing.join(", ")
            ),
            hint: Some(hint.into()),
        })
    }
}

/// Reads a line; `None` at the end of the input, and after Ctrl-C, which no longer ends the program once it has been listened to.
fn read_line() -> Result<Option<String>, Failure> {
    let (send, line) = tokio::sync::oneshot::channel();
    // a thread that still waits for a line when the program ends ends with it
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).unwrap_or(0);
        // the wait may be over
        let _ = send.send((read > 0).then_some(line));
    });
    Ok(runtime()?.block_on(async {
        tokio::select! {
            line = line => line.ok().flatten(),
            _ = tokio::signal::ctrl_c() => None,
        }
    }))
}

/// The words of a list, with commas or blanks between them.
pub fn words(text: &str) -> Vec<String> {
    let words = text.split([',', ' ']).filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// What an option gives that may be given several times; `None` if it is not given.
pub fn some<T: Clone>(given: &[T]) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.to_vec())
}

/// An error of what was typed.
pub fn wrong(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message: message.into(),
        hint: Some(hint.into()),
    }
}
