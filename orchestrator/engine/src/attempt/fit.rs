//! Compares each pattern, figure and file of a descriptor with the results of one run. A run reports only the first reason to fail, but the author of
//! a descriptor needs all of them.

use super::{
    collect::taken,
    outputs::{Outputs, found_below},
};
use crate::run::{CUT_HINT, RunError, compile, numbers, own_words, stream_with, text};
use camino::Utf8Path;
use cvc_core::app::descriptor::{Descriptor, Take};
use cvc_core::point::Point;
use cvc_core::units::counted;
use cvc_probe::shepherd::Exit;
use regex::Regex;
use serde::Serialize;

/// Whether a part of a descriptor fits the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// The part fits.
    Fits,
    /// The part may not fit: something optional was not found.
    Doubtful,
    /// The part does not fit: runs fail because of it.
    Fails,
    /// The run does not show whether the part fits.
    Unknown,
}

/// The result for one part of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitItem {
    /// Key of the descriptor, for example `figures.time_s`.
    pub key: String,
    /// Whether the part fits.
    pub fit: Fit,
    /// Description of what was found.
    pub found: String,
}

impl FitItem {
    /// Creates a result.
    pub fn new(key: impl Into<String>, fit: Fit, found: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            fit,
            found: found.into(),
        }
    }
}

/// Maximum length of a shown output line, characters.
const MAX_SHOWN: usize = 60;

/// Compares every part of a descriptor with a run of `point` on this machine. `dir` is the run's directory; `work` is its working directory, with all
/// files of the run.
///
/// # Errors
/// A pattern or a template of the descriptor cannot be used, or its files cannot be searched.
pub fn check_fit(
    app: &Descriptor,
    point: &Point,
    dir: &Utf8Path,
    work: &Utf8Path,
) -> Result<Vec<FitItem>, RunError> {
    let (stdout, stderr) = (text(&dir.join("stdout")), text(&dir.join("stderr")));
    let check = Check {
        app,
        point,
        dir,
        work,
        stdout: &stdout,
        stderr: &stderr,
    };
    let mut items = vec![check.exit()];
    items.extend(check.success()?);
    items.push(check.progress()?);
    items.extend(check.figures()?);
    items.extend(check.pages()?);
    items.extend(check.checkpoint()?);
    items.extend(check.writers()?);
    items.extend(check.outputs()?);
    Ok(items)
}

/// Reads how the program of a run ended, from the exit file in the run's directory; `None` if the file is missing or unreadable.
#[must_use]
pub fn read_exit(dir: &Utf8Path) -> Option<Exit> {
    serde_json::from_slice(&std::fs::read(dir.join("exit.json")).ok()?).ok()
}

/// Returns the output line in which something was found, truncated for display.
fn line(output: &str, start: usize, end: usize) -> String {
    // a match may begin with the end of the previous line
    let start = start + output[start..end].len() - output[start..end].trim_start().len();
    let begin = output[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = output[begin..].lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("`{}…`", &line[..at]),
        None => format!("`{line}`"),
    }
}

struct Check<'a> {
    app: &'a Descriptor,
    point: &'a Point,
    dir: &'a Utf8Path,
    work: &'a Utf8Path,
    stdout: &'a str,
    stderr: &'a str,
}

impl Check<'_> {
    fn regex(&self, pattern: &str) -> Result<Regex, RunError> {
        compile(self.app, pattern)
    }

    fn exit(&self) -> FitItem {
        let said = || {
            own_words(if self.stderr.trim().is_empty() {
                self.stdout
            } else {
                self.stderr
            })
        };
        let (fit, found) = match read_exit(self.dir) {
            None => (Fit::Fails, "the run left no exit status".to_owned()),
            Some(exit) => match (exit.start_error, exit.code) {
                (Some(error), _) => (Fit::Fails, error),
                (None, Some(code)) if self.app.success.exit_codes.contains(&code) => {
                    (Fit::Fits, format!("exit code {code}"))
                }
                (None, Some(code)) => (Fit::Fails, format!("exit code {code}: {}", said())),
                (None, None) => (
                    Fit::Fails,
                    format!(
                        "ended by {}: {}",
                        exit.signal.as_deref().unwrap_or("a signal"),
                        said()
                    ),
                ),
            },
        };
        FitItem::new("success.exit_codes", fit, found)
    }

    fn success(&self) -> Result<Vec<FitItem>, RunError> {
        let success = &self.app.success;
        let pattern = self.regex(&success.pattern)?;
        let stream = self.stream(&pattern);
        let mut items = vec![match pattern.find(stream) {
            Some(found) => FitItem::new(
                "success.pattern",
                Fit::Fits,
                line(stream, found.start(), found.end()),
            ),
            None => FitItem::new(
                "success.pattern",
                Fit::Fails,
                not_found(&success.pattern, self.stdout),
            ),
        }];
        if let Some(forbid) = &success.forbid {
            items.push(match self.regex(forbid)?.find(self.stdout) {
                Some(found) => FitItem::new(
                    "success.forbid",
                    Fit::Fails,
                    line(self.stdout, found.start(), found.end()),
                ),
                None => FitItem::new("success.forbid", Fit::Fits, "not in the output"),
            });
        }
        Ok(items)
    }

    /// Returns the stream in which a pattern is found.
    fn stream(&self, pattern: &Regex) -> &str {
        stream_with(pattern, (self.stdout, self.stderr))
    }

    fn progress(&self) -> Result<FitItem, RunError> {
        let Some(progress) = &self.app.progress else {
            let found = "not in the descriptor, so checkpoints after a step, and those that kill the program, are unavailable";
            return Ok(FitItem::new("progress.step", Fit::Unknown, found));
        };
        let pattern = self.regex(&progress.step)?;
        let steps: Vec<u64> = pattern
            .captures_iter(self.stream(&pattern))
            .filter_map(|c| c.get(1)?.as_str().parse().ok())
            .collect();
        Ok(match (steps.first(), steps.last()) {
            (Some(first), Some(last)) => FitItem::new(
                "progress.step",
                Fit::Fits,
                format!(
                    "{} printed, {first} to {last}",
                    counted(steps.len() as u64, "step")
                ),
            ),
            _ => FitItem::new(
                "progress.step",
                Fit::Fails,
                not_found(&progress.step, self.stdout),
            ),
        })
    }

    fn figures(&self) -> Result<Vec<FitItem>, RunError> {
        let mut items = Vec::new();
        for figure in &self.app.figures {
            let key = format!("figures.{}", figure.name);
            let absent = if figure.required {
                Fit::Fails
            } else {
                Fit::Doubtful
            };
            let pattern = self.regex(&figure.pattern)?;
            items.push(match numbers(&pattern, self.stream(&pattern)) {
                Err(cut) => FitItem::new(
                    key,
                    Fit::Fails,
                    format!("the pattern captures only a part of `{cut}`: {CUT_HINT}"),
                ),
                Ok(values) => match taken(figure, &values).map(|value| value * figure.scale) {
                    Some(value) if value.is_finite() => {
                        let times = if values.len() > 1 {
                            format!(", {} of {}", take(figure.take), values.len())
                        } else {
                            String::new()
                        };
                        FitItem::new(
                            key,
                            Fit::Fits,
                            format!("{value} {}{times}", unit(figure.unit)),
                        )
                    }
                    Some(value) => {
                        FitItem::new(key, absent, format!("{value} is not a finite number"))
                    }
                    None => FitItem::new(key, absent, not_found(&figure.pattern, self.stdout)),
                },
            });
        }
        Ok(items)
    }

    fn pages(&self) -> Result<Vec<FitItem>, RunError> {
        let mut items = Vec::new();
        for (key, pattern) in self.app.pages.iter().flat_map(|pages| pages.patterns()) {
            let key = format!("pages.{key}");
            items.push(match numbers(&self.regex(pattern)?, self.stdout) {
                Err(cut) => FitItem::new(
                    key,
                    Fit::Fails,
                    format!("the pattern captures only a part of `{cut}`: {CUT_HINT}"),
                ),
                Ok(values) if values.is_empty() => {
                    FitItem::new(key, Fit::Doubtful, not_found(pattern, self.stdout))
                }
                Ok(values) => {
                    FitItem::new(key, Fit::Fits, counted(values.len() as u64, "interval"))
                }
            });
        }
        Ok(items)
    }

    fn checkpoint(&self) -> Result<Vec<FitItem>, RunError> {
        let Some(own) = self
            .app
            .checkpoint
            .as_ref()
            .filter(|_| self.point.checkpointer.has_own_files())
        else {
            return Ok(Vec::new());
        };
        let found = found_below(self.app, self.point, self.work, &own.files)?;
        let bytes: u64 = found.iter().map(|(_, f)| f.bytes).sum();
        let mut items = vec![if bytes > 0 {
            FitItem::new(
                "checkpoint.files",
                Fit::Fits,
                format!("{}, {bytes} bytes", counted(found.len() as u64, "file")),
            )
        } else {
            FitItem::new(
                "checkpoint.files",
                Fit::Fails,
                format!("file {} is missing or empty", own.files.join(", ")),
            )
        }];
        // skip figures that are printed only with some ways of checkpointing: this run may have used another way
        let timed = own
            .patterns()
            .filter(|(key, _)| !["skipped", "size"].contains(key));
        for (key, pattern) in timed {
            let item = |fit, found| FitItem::new(format!("checkpoint.{key}"), fit, found);
            items.push(match numbers(&self.regex(pattern)?, self.stdout) {
                Err(cut) => item(
                    Fit::Fails,
                    format!("the pattern captures only a part of `{cut}`: {CUT_HINT}"),
                ),
                Ok(times) if times.is_empty() => {
                    item(Fit::Doubtful, not_found(pattern, self.stdout))
                }
                Ok(times) => {
                    let all: f64 = times.iter().sum();
                    let count = counted(times.len() as u64, "checkpoint");
                    item(Fit::Fits, format!("{count}, {all} s together"))
                }
            });
        }
        Ok(items)
    }

    fn writers(&self) -> Result<Option<FitItem>, RunError> {
        let Some(pattern) = &self.app.io.writers else {
            return Ok(None);
        };
        let found = self
            .regex(pattern)?
            .captures_iter(self.stdout)
            .filter_map(|c| c.get(1)?.as_str().parse::<u64>().ok())
            .last();
        Ok(Some(match found {
            Some(writers) => FitItem::new("io.writers", Fit::Fits, writers.to_string()),
            // without checkpoints of its own the program may have written nothing
            None => FitItem::new("io.writers", Fit::Doubtful, not_found(pattern, self.stdout)),
        }))
    }

    fn outputs(&self) -> Result<Vec<FitItem>, RunError> {
        let mut items = Vec::new();
        for (number, claim) in (1..).zip(&self.app.outputs) {
            let key = format!(
                "outputs.{}",
                claim.name.clone().unwrap_or_else(|| number.to_string())
            );
            let pattern = self.regex(&claim.size)?;
            let printed: Vec<&str> = pattern
                .captures_iter(self.stdout)
                .filter_map(|c| Some(c.get(1)?.as_str()))
                .collect();
            let outputs = Outputs::below(self.app, self.point, self.work, claim)?;
            items.push(match (printed.last(), outputs.judge(&printed)) {
                (_, Some(wrong)) => FitItem::new(key, Fit::Fails, wrong.detail),
                // the run reports no files; a program without its own checkpoints does not
                (None, None) => {
                    FitItem::new(key, Fit::Doubtful, not_found(&claim.size, self.stdout))
                }
                (Some(last), None) => FitItem::new(
                    key,
                    Fit::Fits,
                    format!(
                        "{} bytes found, but the program reports {last} x {}",
                        outputs.bytes(),
                        claim.scale
                    ),
                ),
            });
        }
        Ok(items)
    }
}

/// Describes that a pattern matches nothing.
fn not_found(pattern: &str, output: &str) -> String {
    format!(
        "nothing matches `{pattern}`; the output ends with: {}",
        own_words(output)
    )
}

/// Describes which of several values is taken.
fn take(take: Take) -> &'static str {
    match take {
        Take::First => "the first",
        Take::Last => "the last",
        Take::Sum => "the sum",
        Take::Max => "the largest",
    }
}

/// Returns a unit as descriptors spell it.
fn unit(unit: cvc_core::record::Unit) -> String {
    serde_json::to_value(unit)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}
