//! Runs of other programs' results while they are read, and what would be lost of them.

use crate::{
    error::ImportError,
    run::{ImportedRun, ImportedValue, is_factor, point_of, value_in},
};
use cvc_core::{record::Unit, source::Source};
use indexmap::IndexMap;
use serde_json::Value;
use std::collections::BTreeMap;

/// Runs of a file while it is read.
pub(crate) struct Found<'s> {
    pub source: &'s Source,
    pub runs: Vec<ImportedRun>,
    /// What was made of things, with their number.
    pub remarks: IndexMap<(&'static str, String), usize>,
    /// What would be lost.
    pub left_out: IndexMap<(&'static str, String), usize>,
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
        if value.value < 0.0 && value.unit != Unit::One {
            return self.remark("value", format!("of `{name}` left out: negative"));
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
