//! Collects runs while results of other programs are read, and lists data that cannot be imported.

use crate::{
    error::ImportError,
    run::{ImportedRun, ImportedValue, is_factor, point_of, value_in},
};
use cvc_core::{record::Unit, source::SourceText};
use indexmap::IndexMap;
use serde_json::Value;
use std::collections::BTreeMap;

/// The runs of a file found so far.
pub(crate) struct Found<'s> {
    pub source: &'s SourceText,
    pub runs: Vec<ImportedRun>,
    /// Remarks about the import, each with its number of occurrences.
    pub remarks: IndexMap<(&'static str, String), usize>,
    /// Data that cannot be imported, with the reason and the number of occurrences.
    pub left_out: IndexMap<(&'static str, String), usize>,
}

/// A run that is being read.
#[derive(Default)]
pub(crate) struct Draft {
    levels: IndexMap<String, String>,
    values: Vec<ImportedValue>,
    pub facts: BTreeMap<String, String>,
}

impl Draft {
    /// Sets the level of a built-in factor.
    pub(crate) fn set(&mut self, factor: &str, level: impl Into<String>) {
        let level = level.into();
        if !level.is_empty() {
            self.levels.insert(factor.to_owned(), level);
        }
    }

    /// Sets the level of a free factor. A factor with the name of a built-in one is renamed.
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
    /// Adds a remark, or increases its number of occurrences.
    pub(crate) fn remark(&mut self, noun: &'static str, what: impl Into<String>) {
        *self.remarks.entry((noun, what.into())).or_default() += 1;
    }

    /// Records data that cannot be imported, or increases the number of occurrences.
    pub(crate) fn leave_out(&mut self, noun: &'static str, why: impl Into<String>) {
        *self.left_out.entry((noun, why.into())).or_default() += 1;
    }

    /// Adds a value to a run. If the value is not a valid number, a remark says that it is left out.
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

    /// Adds a run if it has a value; otherwise records that it is left out.
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

    /// Returns an error: an entry does not have the form that `program` writes. `what` says how it differs.
    pub(crate) fn wrong(&self, program: &str, what: &str) -> ImportError {
        let hint = format!("use the unmodified file from {program}");
        let message = format!("not a result of {program}: {what}");
        self.source.error(None, message, hint).into()
    }
}

/// Returns a finite number from a value, which may also be a string.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite())
}

/// Returns a value as text without quotation marks; null is empty.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
