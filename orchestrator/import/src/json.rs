//! Results of other programs as JSON. Whose they are is recognised by their content.

use crate::{
    error::ImportError,
    peers, reframe,
    run::{ImportedRun, ImportedValue, ReadFile, is_factor, point_of, value_in},
};
use cvc_core::{source::Source, units::counted};
use indexmap::IndexMap;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// Reads the results of a program that is known here.
///
/// # Errors
/// When it is not JSON, of no known program, or something in it is wrong.
pub(crate) fn read(source: &Source) -> Result<ReadFile, ImportError> {
    let value: Value = serde_json::from_str(&with_null(&source.text)).map_err(|error| {
        let start = source
            .text
            .split_inclusive('\n')
            .take(error.line().saturating_sub(1));
        let at = start.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let at = at.min(source.text.len());
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text);
        let hint = "give the whole file as the program wrote it".to_owned();
        source.error(Some(at..at), format!("not JSON: {message}"), hint)
    })?;
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

fn sentence(((noun, what), count): ((&'static str, String), usize)) -> String {
    format!("{} {what}", counted(count, noun))
}

/// Runs of a file while it is read.
pub(crate) struct Found<'s> {
    source: &'s Source,
    runs: Vec<ImportedRun>,
    /// What was made of things, with their number.
    remarks: IndexMap<(&'static str, String), usize>,
    /// What would be lost.
    left_out: IndexMap<(&'static str, String), usize>,
}

/// A run while it is read.
#[derive(Default)]
pub(crate) struct Draft {
    levels: IndexMap<String, String>,
    values: Vec<ImportedValue>,
    pub facts: BTreeMap<String, String>,
}

impl Draft {
    /// Sets a factor that every point has.
    pub(crate) fn set(&mut self, factor: &str, level: impl Into<String>) {
        let level = level.into();
        if !level.is_empty() {
            self.levels.insert(factor.to_owned(), level);
        }
    }

    /// Sets a free factor. One that is called like a factor of every point gets another name.
    pub(crate) fn set_free(&mut self, name: &str, level: &Value) {
        let name = if is_factor(name) && name != "class" {
            format!("param_{name}")
        } else {
            name.to_owned()
        };
        self.set(&name, text_of(level));
    }
}

impl Found<'_> {
    /// Counts something that a remark says.
    pub(crate) fn remark(&mut self, noun: &'static str, what: impl Into<String>) {
        *self.remarks.entry((noun, what.into())).or_default() += 1;
    }

    /// Counts something that would be lost.
    pub(crate) fn leave_out(&mut self, noun: &'static str, why: impl Into<String>) {
        *self.left_out.entry((noun, why.into())).or_default() += 1;
    }

    /// Adds a value to a run; one that is no number is counted.
    pub(crate) fn add(&mut self, draft: &mut Draft, name: &str, value: Option<&Value>, unit: &str) {
        let Some(number) = value.and_then(number_of) else {
            let what = format!("of `{name}` left out: not a finite number");
            return self.remark("value", what);
        };
        let value = value_in(name, number, unit);
        if !value.value.is_finite() {
            return self.remark("value", format!("of `{name}` left out: too large"));
        }
        if value.name != name {
            let what = format!(
                "of `{name}`: unknown unit `{unit}`, kept in the name `{}`",
                value.name
            );
            self.remark("value", what);
        }
        draft.values.push(value);
    }

    /// Adds a run, if it has a value.
    pub(crate) fn finish(
        &mut self,
        noun: &'static str,
        mut draft: Draft,
    ) -> Result<(), ImportError> {
        if draft.values.is_empty() {
            self.leave_out(noun, "left out: no value of a quantity");
            return Ok(());
        }
        let file = self.source.path.display().to_string();
        draft.facts.insert("imported.file".to_owned(), file);
        let point = point_of(&draft.levels).map_err(|(message, hint)| {
            let of = draft.levels.get("app").map_or("", String::as_str);
            self.source
                .error(None, format!("{noun} `{of}`: {message}"), hint)
        })?;
        self.runs.push(ImportedRun {
            point,
            values: draft.values,
            facts: draft.facts,
        });
        Ok(())
    }

    /// An entry that is not as this program writes it.
    pub(crate) fn wrong(&self, program: &str, what: &str) -> ImportError {
        let hint = format!("give the file as {program} wrote it");
        let message = format!("not a result of {program}: {what}");
        self.source.error(None, message, hint).into()
    }
}

/// The finite number of a value, also of a text.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite())
}

/// A value as text, without quotation marks; nothing of null.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The text with null for the words that Python writes for numbers that are not finite, which JSON does not have.
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
            // of the same length where it is longer, for positions in messages
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
