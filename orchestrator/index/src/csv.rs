//! Comma-separated values (RFC 4180) with the position of every field, for error messages.
//!
//! The parser is that of the crate `csv`. It accepts anything; misplaced quotation marks are refused here.
//! Who writes such a file makes its texts [`inert`].

use csv_core::{ReadFieldResult, ReaderBuilder};
use cvc_core::source::{Source, SourceError, Span};
use std::{borrow::Cow, path::Path};

/// A field with its position.
#[derive(Clone, Debug)]
pub struct CsvField {
    /// Its text, without quotation marks around it.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// The fields of a row, and the line on which it begins, from 1.
#[derive(Clone, Debug)]
pub struct CsvRecord {
    /// The line.
    pub line: usize,
    /// The fields.
    pub fields: Vec<CsvField>,
}

/// A file: its header and its rows, all of the same length.
#[derive(Clone, Debug)]
pub struct CsvTable {
    /// The file.
    pub source: Source,
    /// Its first line.
    pub head: Vec<CsvField>,
    /// Its other lines.
    pub rows: Vec<Vec<CsvField>>,
}

impl CsvTable {
    /// Reads a file whose first line names the columns.
    ///
    /// # Errors
    /// The first problem: an unreadable file, a column without a name or named twice, a row of a different length.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let source = Source::read(path).map_err(|mut e| {
            e.hint = e.hint.map(|h| h.replace("a TOML file", "a CSV file"));
            e
        })?;
        let mut records = records(&source, None)?
            .into_iter()
            .map(|record| record.fields);
        let Some(head) = records.next() else {
            return Err(source.error(
                Some(0..0),
                "the file is empty",
                "its first line names the columns".to_owned(),
            ));
        };
        for (i, field) in head.iter().enumerate() {
            if field.text.is_empty() {
                return Err(source.error(
                    Some(field.span.clone()),
                    "a column without a name",
                    "name it in the first line".to_owned(),
                ));
            }
            if head[..i].iter().any(|f| f.text == field.text) {
                let message = format!("duplicate column `{}`", field.text);
                return Err(source.error(
                    Some(field.span.clone()),
                    message,
                    "remove or rename one".to_owned(),
                ));
            }
        }
        let rows: Vec<Vec<CsvField>> = records.collect();
        if let Some(row) = rows.iter().find(|row| row.len() != head.len()) {
            let at = row.first().map(|f| f.span.clone());
            let message = format!(
                "expected {1} fields as in the first line, found {0}",
                row.len(),
                head.len()
            );
            return Err(source.error(
                at,
                message,
                "write one field for each column; a field with a comma stands in \"quotes\""
                    .to_owned(),
            ));
        }
        Ok(Self { source, head, rows })
    }
}

/// What makes a spreadsheet take a text for a formula, if it begins with it. Some take the wide forms of East Asian scripts like the others.
const BEGINS_FORMULA: [char; 11] = [
    '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];

/// A field, with an apostrophe before it if a spreadsheet would take it for a formula: texts come from programs, campaign files and descriptors of
/// others. A number is none, whatever its sign.
pub fn inert(field: &str) -> Cow<'_, str> {
    if field.starts_with(BEGINS_FORMULA) && field.parse::<f64>().is_err() {
        Cow::Owned(format!("'{field}"))
    } else {
        Cow::Borrowed(field)
    }
}

/// Splits a text into records. Blank lines are skipped, and so are lines that begin with `comment`.
///
/// # Errors
/// A quotation mark that is not closed, or text beside a quoted field.
pub fn records(source: &Source, comment: Option<u8>) -> Result<Vec<CsvRecord>, SourceError> {
    let text = source.text.as_ref();
    let mut reader = ReaderBuilder::new().comment(comment).build();
    // no field is longer than the text
    let mut buffer = vec![0; text.len() + 1];
    let mut records = Vec::new();
    let mut record = CsvRecord {
        line: 1,
        fields: Vec::new(),
    };
    let (mut at, mut line, mut counted) = (0, 1, 0);
    loop {
        let mut start = at;
        if record.fields.is_empty() {
            start = record_start(text, at, comment);
            line += text[counted..start].matches('\n').count();
            counted = start;
            record.line = line;
        }
        let (result, read, written) = reader.read_field(&text.as_bytes()[at..], &mut buffer);
        at += read;
        let (record_end, end, written) = match result {
            // the comma or the end of the line was read too; at the end of the text there is nothing to read
            ReadFieldResult::Field { record_end } => {
                (record_end, at - usize::from(read > 0), written)
            }
            ReadFieldResult::InputEmpty => match reader.read_field(&[], &mut buffer[written..]) {
                (ReadFieldResult::Field { record_end }, _, rest) => {
                    (record_end, at, written + rest)
                }
                (
                    ReadFieldResult::InputEmpty
                    | ReadFieldResult::OutputFull
                    | ReadFieldResult::End,
                    ..,
                ) => break,
            },
            ReadFieldResult::OutputFull | ReadFieldResult::End => break,
        };
        check_quotes(source, start..end)?;
        record.fields.push(CsvField {
            text: String::from_utf8_lossy(&buffer[..written]).into_owned(),
            span: start..end,
        });
        if record_end {
            let fields = std::mem::take(&mut record.fields);
            let blank = matches!(&fields[..], [only] if text[only.span.clone()].trim().is_empty());
            if !blank {
                records.push(CsvRecord {
                    line: record.line,
                    fields,
                });
            }
        }
    }
    Ok(records)
}

/// The start of the next record, after what the parser skips: the byte order mark, empty lines and comments.
fn record_start(text: &str, from: usize, comment: Option<u8>) -> usize {
    let mut at = if from == 0 && text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        from
    };
    loop {
        at += text[at..]
            .bytes()
            .take_while(|b| matches!(b, b'\r' | b'\n'))
            .count();
        if comment.is_none() || text.as_bytes().get(at) != comment.as_ref() {
            return at;
        }
        at += text[at..].find('\n').unwrap_or(text.len() - at);
    }
}

/// Refuses a field whose quotation marks do not enclose all of it.
fn check_quotes(source: &Source, span: Span) -> Result<(), SourceError> {
    let raw = &source.text[span.clone()];
    let Some(mut rest) = raw.strip_prefix('"') else {
        if raw.trim_start().starts_with('"') {
            let hint =
                "begin the field with its quotation mark, directly after the comma".to_owned();
            return Err(source.error(Some(span), "a space before the quotation mark", hint));
        }
        return Ok(());
    };
    while let Some(quote) = rest.find('"') {
        let after = &rest[quote + 1..];
        match after.strip_prefix('"') {
            Some(doubled) => rest = doubled,
            None if after.is_empty() => return Ok(()),
            None => {
                let at = span.end - after.len();
                let hint =
                    "a field in quotes ends before the comma or the end of the line".to_owned();
                return Err(source.error(
                    Some(at..at + 1),
                    "text after the closing quotation mark",
                    hint,
                ));
            }
        }
    }
    let hint = "end the field with a quotation mark; one inside is written twice".to_owned();
    Err(source.error(
        Some(span.start..span.start + 1),
        "the quotation mark is never closed",
        hint,
    ))
}

#[cfg(test)]
mod tests {
    use super::records;
    use cvc_core::source::Source;

    fn source(text: &str) -> Source {
        Source {
            path: "t.csv".into(),
            text: text.into(),
        }
    }

    fn fields(text: &str) -> Result<Vec<Vec<String>>, String> {
        let records = records(&source(text), None).map_err(|e| e.to_string())?;
        Ok(records
            .into_iter()
            .map(|r| r.fields.into_iter().map(|f| f.text).collect())
            .collect())
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a,#\"\\r\\n\u{feff}\u{e9} ]{0,40}") {
            for comment in [None, Some(b'#')] {
                if let Ok(records) = records(&source(&text), comment) {
                    proptest::prop_assert!(records.iter().all(|r| !r.fields.is_empty()));
                    // an unquoted field stands in the text where its span says
                    for field in records.iter().flat_map(|r| &r.fields) {
                        let raw = &text[field.span.clone()];
                        proptest::prop_assert!(raw.starts_with('"') || raw == field.text, "{field:?} is {raw:?}");
                    }
                }
            }
        }

        #[test]
        fn what_is_quoted_comes_back(cells in proptest::collection::vec("[a,\"\\r\\n ]{0,6}", 1..5)) {
            let line: Vec<String> = cells.iter().map(|c| format!("\"{}\"", c.replace('"', "\"\""))).collect();
            proptest::prop_assert_eq!(fields(&line.join(",")), Ok(vec![cells]));
        }
    }

    #[test]
    fn fields_quotes_and_empty_fields() {
        assert_eq!(
            fields("a,b\n1,\"x, \"\"y\"\"\"\r\n,\n\n2,"),
            Ok(vec![
                vec!["a".into(), "b".into()],
                vec!["1".into(), "x, \"y\"".into()],
                vec![String::new(), String::new()],
                vec!["2".into(), String::new()],
            ])
        );
        assert_eq!(fields("\u{feff}a\n"), Ok(vec![vec!["a".into()]]));
        assert_eq!(fields(""), Ok(vec![]));
        assert_eq!(
            fields("a\n\"x"),
            Err("t.csv:2:1: the quotation mark is never closed".into())
        );
        assert_eq!(
            fields("a\n\"x\"y"),
            Err("t.csv:2:4: text after the closing quotation mark".into())
        );
        assert_eq!(
            fields("a,b\n1, \"x\""),
            Err("t.csv:2:3: a space before the quotation mark".into())
        );
    }

    #[test]
    fn records_know_their_lines_and_comments_are_skipped() {
        let text = "\u{feff}# made by hand\n\na,b\r\n\n#,\n  \n1,\"x\ny\"\n2,#";
        let read = records(&source(text), Some(b'#')).expect("records");
        let lines: Vec<(usize, &str)> = read
            .iter()
            .map(|r| (r.line, &text[r.fields[0].span.clone()]))
            .collect();
        assert_eq!(lines, [(3, "a"), (7, "1"), (9, "2")]);
        assert_eq!(&text[read[1].fields[1].span.clone()], "\"x\ny\"");
        assert_eq!(read[2].fields[1].text, "#");
    }
}
