//! Reads counters from a file, or from a directory with a file for each node.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter},
    registry::COUNTERS,
};
use crate::lines::{LineStep, Lines, files_below, open};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Maximum number of lines examined to detect the format.
const SAMPLED_LINES: usize = 200;

/// Maximum number of bytes kept of the lines that are examined to detect the format.
const SAMPLED_BYTES: usize = 4 << 20;

/// Name of the source if a single file is read.
const ONLY: &str = "node";

/// Counts that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The system cannot read the file, or it is damaged.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The format of the text is unknown.
    #[error("{} has no counts of metadata operations", path.display())]
    Unrecognised {
        /// The path.
        path: PathBuf,
    },
    /// The directory has no files.
    #[error("{} has no files", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The files are of different counters.
    #[error("{} has counts of {found}, but the other files have counts of {expected}", path.display())]
    Mixed {
        /// The first file whose counter differs.
        path: PathBuf,
        /// Its counter.
        found: &'static str,
        /// Counter of the other files.
        expected: &'static str,
    },
}

/// Reads a file, or all files in a directory, each named after its node. Files may be gzip-compressed.
///
/// # Errors
/// A file cannot be read, has an unknown format, or is of a different counter than the others.
pub fn read_counters(
    path: &Path,
    options: &CounterOptions,
) -> Result<CounterSnapshot, CounterError> {
    let failed = |error| CounterError::Read {
        path: path.to_owned(),
        error,
    };
    if !path.is_dir() {
        return read_file(path, ONLY, options);
    }
    let mut all: Option<CounterSnapshot> = None;
    for file in files_below(path).map_err(failed)? {
        let name = file.file_name().map(|name| name.to_string_lossy());
        let name = name.as_deref().unwrap_or(ONLY);
        let found = read_file(&file, name.strip_suffix(".gz").unwrap_or(name), options)?;
        match &mut all {
            None => all = Some(found),
            Some(all) if all.counter != found.counter => {
                return Err(CounterError::Mixed {
                    path: file,
                    found: found.counter,
                    expected: all.counter,
                });
            }
            Some(all) => {
                all.sources.extend(found.sources);
                for note in found.notes {
                    all.note(&note);
                }
            }
        }
    }
    all.ok_or(CounterError::Empty {
        path: path.to_owned(),
    })
}

fn read_file(
    path: &Path,
    source: &str,
    options: &CounterOptions,
) -> Result<CounterSnapshot, CounterError> {
    let text = open(path).map_err(|error| CounterError::Read {
        path: path.to_owned(),
        error,
    })?;
    read_counter_text(text, path, source, options)
}

/// Reads a text from the source with this name; `path` is for error messages.
///
/// # Errors
/// The text cannot be read, or its format is unknown.
pub fn read_counter_text(
    text: impl Read,
    path: &Path,
    source: &str,
    options: &CounterOptions,
) -> Result<CounterSnapshot, CounterError> {
    let failed = |error| CounterError::Read {
        path: path.to_owned(),
        error,
    };
    let mut lines = Lines::new(text);
    let mut sampled: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let mut reading: Option<Box<dyn CounterLines>> = None;
    loop {
        match lines.advance().map_err(failed)? {
            LineStep::End => break,
            LineStep::TooLong => continue,
            LineStep::Line | LineStep::Torn => {}
        }
        let line = lines.line();
        if let Some(reading) = &mut reading {
            reading.line(line);
            continue;
        }
        sampled.push(line.to_vec());
        bytes += line.len();
        if let Some(counter) = recognise(line) {
            let mut begun = counter.begin(source, options);
            for line in sampled.drain(..) {
                begun.line(&line);
            }
            reading = Some(begun);
        } else if sampled.len() >= SAMPLED_LINES || bytes >= SAMPLED_BYTES {
            break;
        }
    }
    match reading {
        Some(reading) => Ok(reading.finish()),
        None => Err(CounterError::Unrecognised {
            path: path.to_owned(),
        }),
    }
}

fn recognise(line: &[u8]) -> Option<&'static dyn MetadataCounter> {
    COUNTERS.into_iter().find(|of| of.recognises(line))
}
