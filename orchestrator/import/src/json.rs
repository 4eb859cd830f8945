//! Reads JSON results of other programs. The program is recognised by the content.

use crate::{draft::Found, error::ImportError, peers, reframe, run::ReadFile};
use cvc_core::{
    source::{SourceError, SourceText},
    units::counted,
};
use indexmap::IndexMap;
use serde_json::Value;
use std::borrow::Cow;

/// Reads the results of a known program.
///
/// # Errors
/// The file is not JSON, is not from a known program, or is invalid.
pub(crate) fn read(source: &SourceText) -> Result<ReadFile, ImportError> {
    let value = parse(source)?;
    let has = |key: &str| value.get(key).is_some_and(Value::is_array);
    let mut found = Found {
        source,
        runs: Vec::new(),
        remarks: IndexMap::new(),
        left_out: IndexMap::new(),
    };
    if has("runs") {
        reframe::read(&value, &mut found)?;
    } else if has("datapoints") {
        peers::hpcadvisor(&value, &mut found)?;
    } else if has("experiments") {
        peers::ramble(&value, &mut found)?;
    } else if has("results") {
        peers::hyperfine(&value, &mut found)?;
    } else {
        return Err(ImportError::Unknown {
            file: source.path.clone(),
        });
    }
    Ok(ReadFile {
        name: None,
        remarks: found.remarks.into_iter().map(sentence).collect(),
        left_out: found.left_out.into_iter().map(sentence).collect(),
        runs: found.runs,
    })
}

/// Parses JSON in which numbers may be `NaN`.
pub(crate) fn parse(source: &SourceText) -> Result<Value, SourceError> {
    serde_json::from_str(&with_null(&source.text)).map_err(|error| {
        let start = source
            .text
            .split_inclusive('\n')
            .take(error.line().saturating_sub(1));
        let at = start.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let at = at.min(source.text.len());
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text);
        let hint = "use the complete, unmodified file from the program".to_owned();
        source.error(Some(at..at), format!("not JSON: {message}"), hint)
    })
}

fn sentence(((noun, what), count): ((&'static str, String), usize)) -> String {
    format!("{} {what}", counted(count, noun))
}

/// Replaces Python's words for non-finite numbers, which are not valid JSON, with null.
fn with_null(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !WORDS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut changed = String::with_capacity(text.len());
    let (mut is_quoted, mut is_escaped, mut skip) = (false, false, 0);
    for (at, c) in text.char_indices() {
        if at < skip {
            continue;
        }
        if !is_quoted && let Some(word) = WORDS.iter().find(|word| text[at..].starts_with(**word)) {
            // padded to the same length, so that positions in messages stay correct
            changed.push_str(&format!("{:1$}", "null", word.len()));
            skip = at + word.len();
            continue;
        }
        if c == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = is_quoted && c == '\\' && !is_escaped;
        changed.push(c);
    }
    Cow::Owned(changed)
}
