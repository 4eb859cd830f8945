//! Tables of separated values (RFC 4180), with the position of every field for error messages.
//!
//! The parser is that of the crate `csv`, which accepts any text; misplaced quotation marks are rejected here. The separator is detected (comma,
//! semicolon, tab, or bars as in Markdown), and blanks around unquoted fields are ignored. Writers of such files escape texts that a spreadsheet
//! would run as formulas: `cvc_core::visible::inert`.

use csv_core::{ReadFieldResult, ReaderBuilder};
use cvc_core::source::{SourceError, SourceText, Span};
use std::{borrow::Cow, collections::HashSet, path::Path};

/// Maximum number of lines examined to detect the separator.
const SAMPLED_LINES: usize = 100;

/// First character of comment lines.
pub const COMMENT: u8 = b'#';

/// Words that mean a missing value in tables.
pub const MISSING_WORDS: [&str; 13] = [
    "N/A", "n/a", "NA", "na", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "-", "--", "?",
];

/// A field and its position.
#[derive(Clone, Debug)]
pub struct CsvField {
    /// Text of the field, without enclosing quotation marks.
    pub text: String,
    /// Position in the source text.
    pub span: Span,
}

/// A row: its fields, and the line on which it begins.
#[derive(Clone, Debug)]
pub struct CsvRecord {
    /// Number of the line, from 1.
    pub line: usize,
    /// The fields.
    pub fields: Vec<CsvField>,
}

/// A file: the header and the rows, all with the same number of fields.
#[derive(Clone, Debug)]
pub struct CsvTable {
    /// The text of the file.
    pub source: SourceText,
    /// Fields of the first line, the names of the columns.
    pub head: Vec<CsvField>,
    /// Fields of the other lines.
    pub rows: Vec<Vec<CsvField>>,
    /// For each row, the line of the file on which it begins, from 1.
    pub lines: Vec<usize>,
}

impl CsvTable {
    /// Reads a file whose first line names the columns.
    ///
    /// # Errors
    /// The first problem: the file cannot be read, a column is duplicated, or a row has a different length. An empty column name is not an error.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let source = SourceText::read(path).map_err(|mut e| {
            e.hint = e.hint.map(|h| h.replace("a TOML file", "a CSV file"));
            e
        })?;
        Self::parse(source)
    }

    /// Parses the text of such a file.
    ///
    /// # Errors
    /// The same as for [`Self::read`], except reading the file.
    pub fn parse(source: SourceText) -> Result<Self, SourceError> {
        let mut records = records(&source, Some(COMMENT))?.into_iter();
        let Some(CsvRecord { fields: head, .. }) = records.next() else {
            return Err(source.error(
                Some(0..0),
                "the file is empty",
                "write the names of the columns in the first line".to_owned(),
            ));
        };
        let mut names = HashSet::new();
        for field in &head {
            if !field.text.is_empty() && !names.insert(field.text.as_str()) {
                let message = format!("duplicate column `{}`", field.text);
                return Err(source.error(
                    Some(field.span.clone()),
                    message,
                    "remove or rename one".to_owned(),
                ));
            }
        }
        let (lines, rows): (Vec<usize>, Vec<Vec<CsvField>>) =
            records.map(|record| (record.line, record.fields)).unzip();
        check_head(&source, &head, &rows)?;
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
                "write one field for each column; put a field with a comma (also a decimal comma) in \"quotes\", or write `;` between columns"
                    .to_owned(),
            ));
        }
        Ok(Self {
            source,
            head,
            rows,
            lines,
        })
    }

    /// Empties all fields whose text is one of these words, which mark a missing value.
    pub fn clear_missing<W: AsRef<str>>(&mut self, words: &[W]) {
        for field in self.rows.iter_mut().flatten() {
            if words.iter().any(|word| word.as_ref() == field.text) {
                field.text.clear();
            }
        }
    }
}

/// Returns an error if the first line does not name columns.
fn check_head(
    source: &SourceText,
    head: &[CsvField],
    rows: &[Vec<CsvField>],
) -> Result<(), SourceError> {
    let at = head.first().map(|field| field.span.clone());
    if head.iter().all(|field| field.text.parse::<f64>().is_ok()) {
        return Err(source.error(
            at,
            "the first line has numbers instead of column names",
            "add a first line with the names of the columns, without a `#`".to_owned(),
        ));
    }
    let words = |row: &[CsvField]| match row {
        [only] => only.text.split_whitespace().count(),
        _ => 0,
    };
    if words(head) > 1 && rows.first().is_some_and(|row| words(row) == words(head)) {
        return Err(source.error(
            at,
            "the columns are separated by blanks",
            "write commas, semicolons or tabs between them".to_owned(),
        ));
    }
    Ok(())
}

/// The decimal separator of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// 12.5
    Point,
    /// 12,5
    Comma,
}

impl Decimal {
    /// Returns the separator with this name: `point` or `comma`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "point" => Some(Self::Point),
            "comma" => Some(Self::Comma),
            _ => None,
        }
    }

    /// Detects the decimal separator from fields with numbers.
    ///
    /// # Errors
    /// Returns the first ambiguous field: `1,234` could be 1.234, or 1234 with a thousands separator.
    pub fn of<'f>(fields: impl IntoIterator<Item = &'f CsvField>) -> Result<Self, &'f CsvField> {
        let (mut has_commas, mut unclear) = (false, None);
        for field in fields {
            let text = field.text.trim_start_matches(['+', '-']);
            if text.contains('.') && text.parse::<f64>().is_ok() {
                return Ok(Self::Point);
            }
            let Some((whole, decimals)) = text.split_once(',') else {
                continue;
            };
            if Self::Comma.number(text).is_none() {
                continue;
            }
            if decimals.len() == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0') {
                unclear.get_or_insert(field);
            } else {
                has_commas = true;
            }
        }
        match unclear {
            _ if has_commas => Ok(Self::Comma),
            Some(field) => Err(field),
            None => Ok(Self::Point),
        }
    }

    /// Detects the decimal separator from columns of records.
    ///
    /// # Errors
    /// Returns the line and the text of the first ambiguous field.
    pub fn of_rows<I: Iterator<Item = usize>>(
        rows: &[CsvRecord],
        places: impl Fn() -> I,
    ) -> Result<Self, (usize, &str)> {
        let fields = rows
            .iter()
            .flat_map(|row| places().filter_map(|place| row.fields.get(place)));
        Self::of(fields).map_err(|unclear| {
            let has = |row: &&CsvRecord| row.fields.iter().any(|field| field.span == unclear.span);
            let line = rows.iter().find(has).map_or(1, |row| row.line);
            (line, unclear.text.as_str())
        })
    }

    /// Parses a finite number without thousands separators.
    #[must_use]
    pub fn number(self, text: &str) -> Option<f64> {
        let text = match self {
            Self::Point => Cow::Borrowed(text),
            Self::Comma if text.contains('.') => return None,
            Self::Comma => Cow::Owned(text.replacen(',', ".", 1)),
        };
        let number = text.trim().parse::<f64>().ok();
        number.filter(|number| number.is_finite())
    }
}

/// Detects the separator of a table. Of the separators in the first line, chooses the one that occurs in the most lines as often as in the first; if
/// several do, the one that is most frequent there. Lines of bars above a ruled line are a Markdown table, as other tools print it.
fn separator(text: &str, comment: Option<u8>) -> u8 {
    let is_comment = |line: &str| comment.is_some() && line.as_bytes().first() == comment.as_ref();
    let lines = || {
        let all = text.trim_start_matches('\u{feff}').lines();
        all.filter(|line| !line.trim().is_empty() && !is_comment(line))
            .take(SAMPLED_LINES)
    };
    if lines()
        .zip(lines().skip(1))
        .any(|(names, rule)| is_bars(names) && is_rule(rule))
    {
        return b'|';
    }
    if let Some([.., named]) = lines().next().and_then(sep_line) {
        return *named;
    }
    let count = |line: &str, separator: u8| {
        let mut is_quoted = false;
        line.bytes()
            .filter(|byte| {
                is_quoted ^= *byte == b'"';
                !is_quoted && *byte == separator
            })
            .count()
    };
    let Some(head) = lines().next() else {
        return b',';
    };
    [b',', b';', b'\t']
        .into_iter()
        .filter(|separator| count(head, *separator) > 0)
        .max_by_key(|separator| {
            let in_head = count(head, *separator);
            let even = lines()
                .filter(|line| count(line, *separator) == in_head)
                .count();
            (even, in_head)
        })
        .unwrap_or(b',')
}

/// Returns the bytes of a line such as `sep=;`, with which Excel declares the separator before the first line.
fn sep_line(line: &str) -> Option<&[u8; 5]> {
    let bytes: &[u8; 5] = line.as_bytes().try_into().ok()?;
    matches!(bytes, [b's', b'e', b'p', b'=', b',' | b';' | b'\t']).then_some(bytes)
}

fn is_bars(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1 && line.starts_with('|') && line.ends_with('|')
}

fn is_rule(line: &str) -> bool {
    is_bars(line) && line.contains('-') && line.trim().bytes().all(|b| b"|-:+= ".contains(&b))
}

/// Returns the records of a Markdown table, `| a | b |`. Lines before and after the table are ignored.
fn bar_records(text: &str) -> Vec<CsvRecord> {
    let (mut records, mut start) = (Vec::new(), 0);
    for (number, line) in text.split('\n').enumerate() {
        if is_bars(line) && !is_rule(line) {
            let mut at = start + line.len() - line.trim_start().len() + 1;
            let inner = line.trim();
            let fields = inner[1..inner.len() - 1].split('|');
            records.push(CsvRecord {
                line: number + 1,
                fields: fields
                    .map(|field| {
                        let span = at..at + field.len();
                        at = span.end + 1;
                        trimmed(text, span)
                    })
                    .collect(),
            });
        }
        start += line.len() + 1;
    }
    records
}

/// Returns the field at a span, without quotation marks.
fn trimmed(text: &str, span: Span) -> CsvField {
    let raw = &text[span.clone()];
    let start = span.start + raw.len() - raw.trim_start().len();
    CsvField {
        text: raw.trim().to_owned(),
        span: start..start + raw.trim().len(),
    }
}

/// Splits a text into records. Skips blank lines and lines that begin with `comment`.
///
/// # Errors
/// A quotation mark is not closed, or text follows or precedes a quoted field directly.
pub fn records(source: &SourceText, comment: Option<u8>) -> Result<Vec<CsvRecord>, SourceError> {
    let text = source.text.as_ref();
    let separator = separator(text, comment);
    if separator == b'|' {
        return Ok(bar_records(text));
    }
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .comment(comment)
        .build();
    // a buffer of this length is sufficient: no field is longer than the text
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
            // the parser has also read the separator or line end, except at the end of the text
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
        record.fields.push(if text[start..end].starts_with('"') {
            CsvField {
                text: String::from_utf8_lossy(&buffer[..written]).into_owned(),
                span: start..end,
            }
        } else {
            trimmed(text, start..end)
        });
        if record_end {
            let fields = std::mem::take(&mut record.fields);
            // skips a single empty field, which is a blank line, and a first line that declares the separator
            let is_skipped = matches!(&fields[..], [only] if text[only.span.clone()].is_empty())
                || records.is_empty() && matches!(&fields[..], [sep, _] if sep.text == "sep=");
            if !is_skipped {
                records.push(CsvRecord {
                    line: record.line,
                    fields,
                });
            }
        }
    }
    Ok(records)
}

/// Returns the start of the next record; skips what the parser skips, too: the byte order mark, empty lines and comments.
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

/// Rejects a field that is only partly enclosed in quotation marks.
fn check_quotes(source: &SourceText, span: Span) -> Result<(), SourceError> {
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
    use super::{CsvField, Decimal, records};
    use cvc_core::source::SourceText;

    fn source(text: &str) -> SourceText {
        SourceText {
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
                    // the text at the span of an unquoted field is the field's text
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
    fn the_separator_is_recognised_and_blanks_around_fields_do_not_count() {
        let expected = Ok(vec![
            vec!["a".into(), "b c".into()],
            vec!["1,5".into(), "x".into()],
            vec!["2,5".into(), "y, z".into()],
        ]);
        for table in [
            "a;b c\n1,5;x\n2,5;y, z\n",
            "sep=;\r\na;b c\r\n1,5;x\r\n2,5;y, z\r\n",
            "\u{feff}a ; b c\n 1,5;x \n2,5 ;\"y, z\"\n",
            "a\tb c\n1,5\tx\n2,5\t y, z\n",
            "a, b c\n\"1,5\", x\n\"2,5\",\"y, z\"\n",
            "result:\n| a   | b c  |\n|-----|------|\n| 1,5 | x    |\n| 2,5 | y, z |\n",
        ] {
            assert_eq!(fields(table), expected, "{table}");
        }
        // a comma in a column name, or inside each row, is not a separator
        let table = "time, s;n\n1,5;2\n";
        assert_eq!(
            fields(table).map(|rows| rows[1].clone()),
            Ok(vec!["1,5".into(), "2".into()])
        );
    }

    #[test]
    fn the_sign_before_decimals_is_recognised_or_unclear() {
        let of = |texts: &[&str]| {
            let fields: Vec<CsvField> = texts
                .iter()
                .map(|text| CsvField {
                    text: (*text).to_owned(),
                    span: 0..0,
                })
                .collect();
            Decimal::of(&fields).map_err(|field| field.text.clone())
        };
        assert_eq!(of(&["12", "x", "", "-1e3"]), Ok(Decimal::Point));
        assert_eq!(of(&["812,4", "1,234"]), Ok(Decimal::Comma));
        assert_eq!(of(&["0,123"]), Ok(Decimal::Comma));
        assert_eq!(of(&["1234,567"]), Ok(Decimal::Comma));
        assert_eq!(of(&["1,234", "1.5"]), Ok(Decimal::Point));
        assert_eq!(of(&["12", "-1,234"]), Err("-1,234".into()));
        for (decimal, text, number) in [
            (Decimal::Comma, "-812,4", Some(-812.4)),
            (Decimal::Comma, "1,5e3", Some(1500.0)),
            (Decimal::Comma, "1.234,5", None),
            (Decimal::Comma, "1,2,3", None),
            (Decimal::Point, "1,234", None),
            (Decimal::Point, "inf", None),
        ] {
            assert_eq!(decimal.number(text), number, "{text}");
        }
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
