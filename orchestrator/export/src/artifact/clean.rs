//! Removes secrets and names from files by their format: values are decoded, cleaned, and encoded again, so that names in quoted values are found,
//! too.

use super::{
    patterns::{WITHHELD, is_secret},
    scrub::Scrubber,
};
use crate::error::ExportError;
use camino::Utf8Path;
use cvc_core::store::StoreError;
use serde::de::IgnoredAny;
use std::{
    borrow::Cow,
    io::{BufRead, Write},
};

/// Columns of tables and members of JSON objects that contain the name of a value. The value is in another column or member.
const NAMES: [&str; 4] = ["key", "name", "variable", "fact"];
/// The column or member that contains the value.
const VALUE: &str = "value";
/// Maximum length of the name of a decoded character entity, bytes.
const MAX_ENTITY: usize = 10;

/// Returns whether files of this format are cleaned line by line, so that their length is not limited.
pub(super) fn is_of_lines(path: &Utf8Path) -> bool {
    matches!(path.extension(), Some("jsonl"))
}

/// Cleans a file with lines of JSON.
pub(super) fn lines(
    scrubber: &mut Scrubber,
    from: &mut dyn BufRead,
    path: &Utf8Path,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line);
        if read.map_err(StoreError::io("read", path))? == 0 {
            return Ok(());
        }
        let clean = json(scrubber, &String::from_utf8_lossy(&line));
        out.write_all(clean.as_bytes())
            .map_err(StoreError::io("write", path))?;
    }
}

/// Cleans a text in the format that its file name indicates.
pub(super) fn text(scrubber: &mut Scrubber, path: &Utf8Path, text: &str) -> String {
    match path.extension() {
        Some("json") => json(scrubber, text),
        Some("csv") => csv(scrubber, text),
        Some("html" | "svg") => markup(scrubber, text),
        _ => scrubber.clean(text).into_owned(),
    }
}

impl Scrubber {
    /// Returns the cleaned value of a column or member with this name.
    pub(super) fn clean_value(&mut self, name: &str, text: &str) -> String {
        if is_secret(name) {
            WITHHELD.to_owned()
        } else if text.starts_with(['{', '[']) {
            json(self, text)
        } else {
            self.clean_again(text)
        }
    }
}

/// Cleans the strings in JSON; everything else stays unchanged. If the text is not JSON, it is cleaned as plain text.
pub(super) fn json(scrubber: &mut Scrubber, text: &str) -> String {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return scrubber.clean(text).into_owned();
    }
    Json {
        scrubber,
        out: String::with_capacity(text.len()),
        levels: vec![Level::default()],
    }
    .clean(text)
}

/// The object or list that encloses a value.
#[derive(Default)]
struct Level {
    /// The current key, in an object.
    key: String,
    /// Whether this is a list whose key names a secret, so that all its elements are secret.
    is_secret: bool,
    /// Whether a member of the object contains the name of a secret, so that the member `value` is secret.
    names_secret: bool,
}

struct Json<'s> {
    scrubber: &'s mut Scrubber,
    out: String,
    levels: Vec<Level>,
}

impl Json<'_> {
    fn clean(mut self, text: &str) -> String {
        let mut rest = text;
        while let Some(first) = rest.bytes().next() {
            let end = match first {
                b'"' => end_of_string(rest),
                b'0'..=b'9' | b'-' => rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
                    .unwrap_or(rest.len()),
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            let (token, after) = rest.split_at(end);
            match first {
                b'"' if after.trim_start().starts_with(':') => self.key(token),
                b'"' => self.string(token),
                b'0'..=b'9' | b'-' if self.is_secret() => self.put(WITHHELD),
                b'[' | b'{' => {
                    let is_secret = first == b'[' && self.is_secret();
                    self.levels.push(Level {
                        is_secret,
                        ..Level::default()
                    });
                    self.out.push_str(token);
                }
                b']' | b'}' => {
                    self.levels.pop();
                    self.out.push_str(token);
                }
                _ => self.out.push_str(token),
            }
            rest = after;
        }
        self.out
    }

    /// Returns whether the next value must be withheld.
    fn is_secret(&self) -> bool {
        let level = self.levels.last();
        level.is_some_and(|level| level.is_secret || is_secret(&level.key))
    }

    fn key(&mut self, token: &str) {
        let key: String = serde_json::from_str(token).unwrap_or_default();
        let clean = self.scrubber.clean_again(&key);
        if clean == key {
            self.out.push_str(token);
        } else {
            self.put(&clean);
        }
        if let Some(level) = self.levels.last_mut() {
            level.key = key;
        }
    }

    fn string(&mut self, token: &str) {
        let Ok(value) = serde_json::from_str::<String>(token) else {
            // an unpaired surrogate
            let clean = self.scrubber.clean(token).into_owned();
            self.out.push_str(&clean);
            return;
        };
        let is_secret = self.is_secret();
        let is_value = self
            .levels
            .last_mut()
            .is_some_and(|level| level.is_named(&value));
        if is_secret || is_value {
            return self.put(WITHHELD);
        }
        let clean = if value.starts_with(['{', '[']) {
            json(self.scrubber, &value)
        } else {
            self.scrubber.clean_again(&value)
        };
        if clean == value {
            self.out.push_str(token);
        } else {
            self.put(&clean);
        }
    }

    fn put(&mut self, text: &str) {
        let json = serde_json::to_string(text).unwrap_or_default();
        self.out.push_str(&json);
    }
}

impl Level {
    /// Returns whether a string is secret because it is the member `value` of an object in which an earlier member names a secret, as in
    /// `{"name": "API_TOKEN", "value": "..."}`. If the string is itself a member such as `name`, records whether it names a secret.
    fn is_named(&mut self, value: &str) -> bool {
        if NAMES.contains(&self.key.as_str()) {
            self.names_secret = names_secret(value);
        }
        self.names_secret && self.key == VALUE
    }
}

/// Returns whether a text is exactly the name of a secret, such as `env.API_TOKEN`.
fn names_secret(text: &str) -> bool {
    let text = text.trim();
    let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    !text.is_empty()
        && text.chars().all(is_name)
        && is_secret(text.rsplit('.').next().unwrap_or(text))
}

/// Returns the end of a string in JSON.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Cleans the fields of a CSV table. A record without changes is copied as it is.
fn csv(scrubber: &mut Scrubber, text: &str) -> String {
    let head = text.lines().next().unwrap_or_default();
    let delimiter = [b',', b';', b'\t']
        .into_iter()
        .max_by_key(|d| (head.bytes().filter(|b| b == d).count(), *d == b','))
        .unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let mut out = String::with_capacity(text.len());
    let (mut record, mut at) = (csv::StringRecord::new(), 0);
    let mut columns: Option<Vec<String>> = None;
    while reader.read_record(&mut record).is_ok_and(|read| read) {
        let end = usize::try_from(reader.position().byte()).unwrap_or(text.len());
        // the reader does not consume the second character of a line ending
        let end = end
            + usize::from(
                text.get(end.saturating_sub(1)..)
                    .is_some_and(|t| t.starts_with("\r\n")),
            );
        let raw = text.get(at..end).unwrap_or_default();
        at = end;
        let is_head = columns.is_none();
        let columns = columns.get_or_insert_with(|| {
            let names = record.iter().map(|name| name.trim().to_lowercase());
            names.collect()
        });
        let column = |n: usize| columns.get(n).map_or("", String::as_str);
        let has_named = record
            .iter()
            .enumerate()
            .any(|(n, field)| NAMES.contains(&column(n)) && names_secret(field));
        let fields: Vec<Cow<'_, str>> = record
            .iter()
            .enumerate()
            .map(|(n, field)| {
                let is_value = has_named && column(n) == VALUE;
                if !is_head && !field.is_empty() && (is_value || names_secret(column(n))) {
                    Cow::Borrowed(WITHHELD)
                } else if field.starts_with(['{', '[']) {
                    json(scrubber, field).into()
                } else {
                    scrubber.clean_again(field).into()
                }
            })
            .collect();
        if fields.iter().map(|f| &**f).eq(record.iter()) {
            out.push_str(raw);
            continue;
        }
        let terminator = match raw.ends_with("\r\n") {
            true => csv::Terminator::CRLF,
            false => csv::Terminator::Any(b'\n'),
        };
        let mut writer = csv::WriterBuilder::new()
            .delimiter(delimiter)
            .terminator(terminator)
            .flexible(true)
            .from_writer(Vec::new());
        let _ = writer.write_record(fields.iter().map(|f| f.as_bytes()));
        let line = writer.into_inner().unwrap_or_default();
        out.push_str(&String::from_utf8_lossy(&line));
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Cleans the tags of a page and the texts between them. If a text names a secret, the next text is treated as its value, as in tables.
fn markup(scrubber: &mut Scrubber, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut has_named) = (text, false);
    while !rest.is_empty() {
        let is_tag = rest.starts_with('<');
        let end = if is_tag {
            rest.find('>').map_or(rest.len(), |end| end + 1)
        } else {
            rest.find('<').unwrap_or(rest.len())
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        let decoded = decoded(part);
        if is_tag || decoded.trim().is_empty() {
            let clean = scrubber.clean(&decoded);
            match clean == decoded {
                true => out.push_str(part),
                // the quotes around attributes stay unchanged
                false if is_tag && !part.contains('&') => out.push_str(&clean),
                false => out.push_str(&scrubber.clean(part)),
            }
            continue;
        }
        let clean = if std::mem::replace(&mut has_named, names_secret(&decoded)) {
            WITHHELD.to_owned()
        } else if decoded.starts_with(['{', '[']) {
            json(scrubber, &decoded)
        } else {
            scrubber.clean(&decoded).into_owned()
        };
        if clean == decoded {
            out.push_str(part);
        } else {
            encode(&clean, part.contains('&'), &mut out);
        }
    }
    out
}

/// Decodes the character entities in a text of a page.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(MAX_ENTITY).position(|b| b == b';');
        let entity = end.and_then(|end| Some((entity(&rest[1..end])?, end + 1)));
        let (c, length) = entity.unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out.into()
}

fn entity(name: &str) -> Option<char> {
    let number = name.strip_prefix('#').and_then(|number| {
        match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        }
        .ok()
    });
    match name {
        "quot" => Some('"'),
        "apos" => Some('\''),
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "nbsp" => Some('\u{a0}'),
        _ => number.and_then(char::from_u32),
    }
}

/// Appends a text of a page to `out`, with character entities if the original text had some. A text without them may be in a script or style, where
/// entities are not decoded.
fn encode(text: &str, has_entities: bool, out: &mut String) {
    if !has_entities {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::names::NameFinder;

    fn cleaned(name: &str, of: &str) -> String {
        let mut finder = NameFinder::default();
        finder.text("/home/josé");
        let mut scrubber = Scrubber::new(finder.found(), false);
        text(&mut scrubber, Utf8Path::new(name), of)
    }

    #[test]
    fn secrets_of_any_length_are_withheld_by_their_names_in_every_format() {
        for (name, of, clean) in [
            (
                "a.json",
                r#"{"detail": "exit code 3: FAILURE {\"password\": \"s1\"} token=ab Bearer q7", "x": 1.50}"#,
                r#"{"detail": "exit code 3: FAILURE {\"password\": \"withheld\"} token=withheld Bearer withheld", "x": 1.50}"#,
            ),
            (
                "a.json",
                r#"{"password":"s1","pin_token":12,"tokens":["a","b"],"n":[1,-2e3]}"#,
                r#"{"password":"withheld","pin_token":"withheld","tokens":["withheld","withheld"],"n":[1,-2e3]}"#,
            ),
            (
                "a.json",
                r#"[{"name":"DB_PASSWORD","value":"s1"},{"name":"wall","value":"s1"},{"value":1}]"#,
                r#"[{"name":"DB_PASSWORD","value":"withheld"},{"name":"wall","value":"s1"},{"value":1}]"#,
            ),
            (
                "a.json",
                r#"{"f":"{\"password\":\"s\\\"1\"}","user":"jos\u00e9"}"#,
                r#"{"f":"{\"password\":\"withheld\"}","user":"user-1"}"#,
            ),
            // half a line is not JSON, and is cleaned as text
            (
                "a.json",
                r#"{"password":"s1","x"#,
                r#"{"password":"withheld","x"#,
            ),
            (
                "a.csv",
                "run,detail\r\n1,\"{\"\"password\"\": \"\"s1\"\"}\"\r\n2,\"a \"\"b\"\"\"\r\n",
                "run,detail\r\n1,\"{\"\"password\"\": \"\"withheld\"\"}\"\r\n2,\"a \"\"b\"\"\"\r\n",
            ),
            (
                "a.csv",
                "run;db_password;x\n1;s1;2\n2;;3\n",
                "run;db_password;x\n1;withheld;2\n2;;3\n",
            ),
            (
                "a.csv",
                "run,key,value\n1,env.API_TOKEN,s1\n1,cpu,fast\n",
                "run,key,value\n1,env.API_TOKEN,withheld\n1,cpu,fast\n",
            ),
            (
                "a.html",
                "<p title=\"token=ab\">{&quot;password&quot;: &quot;s1&quot;} token&#x3D;ab &amp; so</p>",
                "<p title=\"token=withheld\">{&quot;password&quot;: &quot;withheld&quot;} token=withheld &amp; so</p>",
            ),
            (
                "a.html",
                "<tr><td>DB_PASSWORD</td> <td>s1</td></tr><td>cpu</td><td>a &lt; b</td>",
                "<tr><td>DB_PASSWORD</td> <td>withheld</td></tr><td>cpu</td><td>a &lt; b</td>",
            ),
            ("a.md", "| token | s1 |\n", "| token | withheld |\n"),
            (
                "a.toml",
                "db_password = \"s1\"\n",
                "db_password = \"withheld\"\n",
            ),
        ] {
            assert_eq!(cleaned(name, of), clean, "{name}");
        }
    }

    #[test]
    fn texts_without_secrets_stay_unchanged() {
        for (name, text) in [
            (
                "a.json",
                "{ \"a\" : [1.0, 2e-5, true, null, \"\\u0041\\/\"] }\n",
            ),
            ("a.csv", "a,b\n\"1\",2\n\n3\r\n\"x\ny\",z"),
            (
                "a.html",
                "<!doctype html><p class='x'>a &amp; b &unknown; & c</p><",
            ),
        ] {
            assert_eq!(cleaned(name, text), text, "{name}");
        }
    }
}
