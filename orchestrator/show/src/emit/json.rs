//! Writes the whole document as JSON.

use crate::document::Document;
use camino::Utf8Path;
use cvc_core::store::StoreError;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// Depth down to which arrays and objects have a line for each element: sections, blocks and tables. A deeper element, such as a row, is written on
/// one line, which halves the size of a large campaign's file.
const LINES: usize = 6;

/// Writes the JSON in pieces, because it may exceed memory.
pub(super) fn write(
    report: &Document,
    path: &Utf8Path,
    mut out: &mut dyn Write,
) -> Result<(), StoreError> {
    let mut serializer = Serializer::with_formatter(&mut out, RowsAsLines::default());
    let written = report.serialize(&mut serializer).map_err(io::Error::from);
    written
        .and_then(|()| out.write_all(b"\n"))
        .map_err(StoreError::io("write", path))
}

#[derive(Default)]
struct RowsAsLines {
    lines: PrettyFormatter<'static>,
    depth: usize,
}

impl RowsAsLines {
    fn is_line(&self) -> bool {
        self.depth > LINES
    }

    /// Writes what separates a value from the previous one on the same line.
    fn next(out: &mut (impl Write + ?Sized), first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }
}

impl Formatter for RowsAsLines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.is_line() {
            return out.write_all(b"[");
        }
        self.lines.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= LINES {
            return out.write_all(b"]");
        }
        self.lines.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if self.is_line() {
            return Self::next(out, first);
        }
        self.lines.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.is_line() {
            return Ok(());
        }
        self.lines.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.is_line() {
            return out.write_all(b"{");
        }
        self.lines.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= LINES {
            return out.write_all(b"}");
        }
        self.lines.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if self.is_line() {
            return Self::next(out, first);
        }
        self.lines.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lines.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.is_line() {
            return Ok(());
        }
        self.lines.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_lines_and_nothing_is_lost() {
        let report = json!({ "empty": [], "sections": [{ "blocks": [
            { "rows": [[{ "cell": "text", "text": "a" }, { "cell": "empty" }], [], [[{}, [1, 2]]]], "notes": [] },
            { "text": "b" },
        ] }] });
        let mut text = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut text, RowsAsLines::default());
        report.serialize(&mut serializer).expect("JSON");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON"),
            report
        );
        let row = "            [{\"cell\": \"text\", \"text\": \"a\"}, {\"cell\": \"empty\"}],\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("            [],\n            [[{}, [1, 2]]]\n          ],"),
            "{text}"
        );
    }
}
