//! A TOML file with positions: sections are decoded one by one, and errors say how to fix them.

use crate::source::SourceError;
use cvc_os::regular;
use serde::Deserialize;
use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// A position in bytes of the file.
pub type Span = Range<usize>;

/// A file that was read.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// Path of the file.
    pub path: PathBuf,
    /// Text of the file.
    pub text: Arc<str>,
}

/// Maximum size of a file that people write, bytes. The largest such file so far has a hundredth of this size.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file that people write. Refuses anything but regular files, because a pipe may block and a device may have no end.
///
/// # Errors
/// The file cannot be read, is not a regular file, or has more than 16 MiB.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    regular::read_up_to(regular::open_named(path)?, MAX_BYTES)
}

impl SourceText {
    /// Reads a text file. If it cannot be read or is not text, the error has no position.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let fail = |message: String, hint: &str| SourceError {
            message,
            hint: Some(hint.to_owned()),
            span: None,
            path: path.to_owned(),
            text: Arc::from(""),
        };
        let bytes = read_regular(path).map_err(|e| {
            let hint = match e.kind() {
                io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                    "give the path of a text file"
                }
                io::ErrorKind::IsADirectory => "give the path of a file in it",
                io::ErrorKind::PermissionDenied => "give the path of a readable file",
                _ => "give the path of an existing file",
            };
            fail(format!("cannot read the file: {e}"), hint)
        })?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                path: path.to_owned(),
                text: text.into(),
            }),
            Err(e) => Err(fail(
                format!("byte {} is not UTF-8 text", e.utf8_error().valid_up_to()),
                "a TOML file is UTF-8 text; save it as such",
            )),
        }
    }

    /// Returns an error about this file, without or with a position in it.
    pub fn error(
        &self,
        span: Option<Span>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) -> SourceError {
        SourceError {
            message: message.into(),
            hint: hint.into(),
            span,
            path: self.path.clone(),
            text: self.text.clone(),
        }
    }

    /// Parses the whole file as a table; returns every syntax error.
    pub fn parse(&self) -> Result<DeTable<'_>, Vec<SourceError>> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        if errors.is_empty() {
            return Ok(table.into_inner());
        }
        let mut errors: Vec<SourceError> =
            errors.into_iter().map(|e| self.syntax_error(&e)).collect();
        errors.sort_by_key(|e| e.span.as_ref().map_or(0, |s| s.start));
        Err(errors)
    }

    /// Rewords a syntax error of the parser.
    fn syntax_error(&self, e: &toml::de::Error) -> SourceError {
        // some errors of the parser (too deep nesting) have no position
        let span = e.span().or(Some(0..0));
        let message = e.message().trim().replace('\n', ", ");
        let written = span
            .clone()
            .and_then(|s| self.text.get(s))
            .unwrap_or_default()
            .trim();
        if message.contains("duplicate key") {
            let hint = "a key or table may be given once; remove one of the two";
            return self.error(span, format!("`{written}` is given twice"), hint.to_owned());
        }
        if message.starts_with("string values must be quoted") {
            let (message, hint) = if written.is_empty() {
                (
                    "the value after the `=` is missing".to_owned(),
                    "write a value, or remove the key".to_owned(),
                )
            } else {
                (
                    format!("`{written}` is not a valid value"),
                    "write texts in \"quotes\"; true, false and numbers without".to_owned(),
                )
            };
            return self.error(span, message, hint);
        }
        let hint = "see https://toml.io for the syntax: keys are `name = value`, texts are in quotes, lists in [brackets]";
        self.error(span, message, hint.to_owned())
    }

    /// Decodes a section as a typed value.
    pub fn decode<'t, T: Deserialize<'t>>(
        &self,
        value: &Spanned<DeValue<'t>>,
    ) -> Result<T, SourceError> {
        T::deserialize(ValueDeserializer::from(value.clone())).map_err(|e| {
            let (message, hint) = plain_words(e.message().trim());
            self.error(e.span().or_else(|| Some(value.span())), message, hint)
        })
    }
}

/// One step from a table or a list to a contained value.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// An element of a list, from 0.
    Index(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Returns the position of a value. If the value does not exist, returns the position of the deepest table or list on its path that exists.
pub fn span_of(table: &DeTable<'_>, way: &[Step<'_>]) -> Option<Span> {
    let Some(Step::Key(first)) = way.first() else {
        return None;
    };
    let mut value = table.get(*first)?;
    for step in &way[1..] {
        let next = match (step, value.get_ref()) {
            (Step::Key(key), DeValue::Table(t)) => t.get(*key),
            (Step::Index(i), DeValue::Array(a)) => a.get(*i),
            (Step::Key(_) | Step::Index(_), _) => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
    }
    Some(value.span())
}

/// Returns the position of a key; `None` if the table does not have it.
pub fn key_span(table: &DeTable<'_>, key: &str) -> Option<Span> {
    table.get_key_value(key).map(|(k, _)| k.span())
}

/// Returns the candidate that a misspelt name probably means; `None` if none is close enough.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let comparable = |text: &str| {
        text.chars()
            .take(64)
            .flat_map(char::to_lowercase)
            .collect::<String>()
    };
    let name = comparable(name);
    let length = name.chars().count();
    candidates
        .into_iter()
        // swapping two neighbouring letters counts as one change
        .map(|c| (strsim::osa_distance(&name, &comparable(c)), c))
        .filter(|(d, c)| *d <= (length.max(c.len()) / 3).max(1))
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Returns the hint `did you mean X? WHAT: a, b, c`.
pub fn suggestion<'a>(name: &str, what: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let list = listed(name, &known);
    match closest(name, known.iter().copied()) {
        Some(close) => format!("did you mean `{close}`? {what}: {list}"),
        None => format!("{what}: {list}"),
    }
}

/// Returns the known names as a list. If there are too many, returns those with the same beginning as the wrong name, or the first ones.
fn listed(name: &str, known: &[&str]) -> String {
    const MAX_LISTED: usize = 60;
    const EXAMPLES: usize = 10;
    if known.is_empty() {
        return "none".to_owned();
    }
    if known.len() <= MAX_LISTED {
        return known.join(", ");
    }
    let family = name.split_once('.').map_or(name, |(family, _)| family);
    let mut shown: Vec<&str> = known
        .iter()
        .copied()
        .filter(|k| !family.is_empty() && k.starts_with(family))
        .collect();
    if shown.is_empty() {
        shown = known.to_vec();
    }
    shown.truncate(EXAMPLES);
    format!("{}, ... ({})", shown.join(", "), known.len())
}

/// Rewords an error of the TOML decoder; returns the message and a hint.
pub fn plain_words(message: &str) -> (String, Option<String>) {
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let names = quoted_names(rest);
        let (wrong, known) = names
            .split_first()
            .map_or(("", &[][..]), |(w, k)| (w.as_str(), k));
        return (
            format!("unknown key `{wrong}`"),
            Some(suggestion(
                wrong,
                "known keys here",
                known.iter().map(String::as_str),
            )),
        );
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted_names(rest);
        let (wrong, known) = names
            .split_first()
            .map_or(("", &[][..]), |(w, k)| (w.as_str(), k));
        return (
            format!("unknown value `{wrong}`"),
            Some(suggestion(
                wrong,
                "known values here",
                known.iter().map(String::as_str),
            )),
        );
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let key = quoted_names(rest).concat();
        return (
            format!("the key `{key}` is missing"),
            Some(format!("add `{key} = ...` to this table")),
        );
    }
    if let Some(words) = plain_type(message) {
        return words;
    }
    let known = [
        (
            "wanted exactly 1 element",
            "more than one form of a setting",
            "keep one of these keys and remove the others",
        ),
        (
            "expected exactly 1 element",
            "more than one form of a setting",
            "keep one of these keys and remove the others",
        ),
        (
            "expected seconds",
            "expected seconds",
            "write a number or a list of numbers without a unit, as in { at_s = [5, 10] }",
        ),
    ];
    for (beginning, message_here, hint) in known {
        if message.starts_with(beginning) {
            return (message_here.to_owned(), Some(hint.to_owned()));
        }
    }
    (
        message.replace('\n', ", "),
        Some("compare with the file's JSON Schema (`cvc schema`) or its reference page".to_owned()),
    )
}

/// Returns message and hint for a value of the wrong type.
fn plain_type(message: &str) -> Option<(String, Option<String>)> {
    let (found, expected) = ["invalid type: ", "invalid value: "]
        .into_iter()
        .find_map(|prefix| message.strip_prefix(prefix)?.rsplit_once(", expected "))?;
    let found = found
        .replace("string ", "text ")
        .replace("sequence", "list")
        .replace("map", "table")
        .replace("floating point", "number");
    if expected == "any value" && found.ends_with(" as i128") {
        let number = quoted_names(&found).concat();
        return Some((
            format!("`{number}` has too many digits"),
            Some("write a number with at most 18 digits".to_owned()),
        ));
    }
    let expected = match expected {
        "i64" | "i32" => "a whole number",
        "u64" | "u32" => "a whole number that is not negative",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other => other,
    };
    let hint = format!("write {expected} here");
    Some((format!("expected {expected}, found {found}"), Some(hint)))
}

/// Returns what is in backquotes.
fn quoted_names(text: &str) -> Vec<String> {
    let names = text.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{closest, listed, plain_words};

    #[test]
    fn a_number_beyond_the_formats_is_named_as_such() {
        let (message, _) =
            plain_words("invalid type: integer `99999999999999999999` as i128, expected any value");
        assert_eq!(message, "`99999999999999999999` has too many digits");
    }

    #[test]
    fn of_hundreds_of_names_only_those_that_begin_alike_are_listed() {
        let many: Vec<String> = (0..200).map(|n| format!("m{}.{n}xlarge", n % 4)).collect();
        let names = || many.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(
            listed("m9.large", &names()),
            "m0.0xlarge, m1.1xlarge, m2.2xlarge, m3.3xlarge, m0.4xlarge, m1.5xlarge, m2.6xlarge, m3.7xlarge, m0.8xlarge, m1.9xlarge, ... (200)"
        );
        let alike = listed("m2.huge", &names());
        assert!(
            alike.starts_with("m2.2xlarge, m2.6xlarge, ") && alike.ends_with("... (200)"),
            "{alike}"
        );
        assert_eq!(listed("x", &["a", "b"]), "a, b");
    }

    #[test]
    fn a_misspelt_name_finds_the_close_one_and_a_strange_one_nothing() {
        let known = ["repeats", "warmups", "seed"];
        assert_eq!(closest("repeat", known), Some("repeats"));
        assert_eq!(closest("repaets", known), Some("repeats"));
        assert_eq!(closest("Seed", known), Some("seed"));
        assert_eq!(closest("budget", known), None);
        assert_eq!(closest("", known), None);
    }
}
