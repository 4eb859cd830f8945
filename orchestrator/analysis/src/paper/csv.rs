//! Comma-separated values (RFC 4180) with the position of every field.

use cvc_core::source::{Source, SourceError, Span};

/// A field with its place.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub text: String,
    pub span: Span,
}

/// A file: its heading and its rows, all of the same length.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    pub source: Source,
    pub head: Vec<Field>,
    pub rows: Vec<Vec<Field>>,
}

/// Reads a file.
pub(super) fn read(path: &std::path::Path) -> Result<Csv, SourceError> {
    let source = Source::read(path).map_err(|mut e| {
        e.hint = e.hint.map(|h| h.replace("a TOML file", "a CSV file"));
        e
    })?;
    let mut records = split(&source)?.into_iter();
    let Some(head) = records.next() else {
        return Err(source.error(Some(0..0), "the file is empty", "its first line names the columns".to_owned()));
    };
    for (i, field) in head.iter().enumerate() {
        if field.text.is_empty() {
            return Err(source.error(Some(field.span.clone()), "a column without a name", "name it in the first line".to_owned()));
        }
        if head[..i].iter().any(|f| f.text == field.text) {
            let message = format!("the column `{}` is there twice", field.text);
            return Err(source.error(Some(field.span.clone()), message, "remove or rename one".to_owned()));
        }
    }
    let rows: Vec<Vec<Field>> = records.collect();
    for row in &rows {
        if row.len() != head.len() {
            let at = row.first().map(|f| f.span.clone());
            let message = format!("{} fields, and the first line names {} columns", row.len(), head.len());
            return Err(source.error(at, message, "write one field for each column; a field with a comma stands in \"quotes\"".to_owned()));
        }
    }
    Ok(Csv { source, head, rows })
}

fn split(source: &Source) -> Result<Vec<Vec<Field>>, SourceError> {
    let text = source.text.as_ref();
    let bytes = text.as_bytes();
    let (mut records, mut record) = (Vec::new(), Vec::new());
    // a mark of the byte order is no text
    let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    while at < bytes.len() {
        let start = at;
        let field = if bytes[at] == b'"' {
            let mut value = String::new();
            loop {
                let from = at + 1;
                let Some(quote) = text[from..].find('"').map(|i| from + i) else {
                    let hint = "end the field with a quotation mark; one inside is written twice".to_owned();
                    return Err(source.error(Some(start..start + 1), "the quotation mark is never closed", hint));
                };
                value.push_str(&text[from..quote]);
                at = quote + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                value.push('"');
            }
            if !matches!(bytes.get(at), None | Some(b',' | b'\n' | b'\r')) {
                let hint = "a field in quotes ends before the comma or the end of the line".to_owned();
                return Err(source.error(Some(at..at + 1), "text after the closing quotation mark", hint));
            }
            value
        } else {
            at = text[at..].find([',', '\n', '\r']).map_or(bytes.len(), |i| at + i);
            text[start..at].to_owned()
        };
        record.push(Field { text: field, span: start..at });
        match bytes.get(at) {
            Some(b',') => {
                at += 1;
                // a comma at the end of the text leaves an empty field behind it
                if at == bytes.len() {
                    record.push(Field { text: String::new(), span: at..at });
                }
            }
            Some(_) => {
                at += if text[at..].starts_with("\r\n") { 2 } else { 1 };
                push(&mut records, &mut record);
            }
            None => {}
        }
        // an empty field before the end of a line
        if bytes.get(at).is_some_and(|b| matches!(b, b'\n' | b'\r')) && at > 0 && bytes[at - 1] == b',' {
            record.push(Field { text: String::new(), span: at..at });
            at += if text[at..].starts_with("\r\n") { 2 } else { 1 };
            push(&mut records, &mut record);
        }
    }
    push(&mut records, &mut record);
    Ok(records)
}

/// Ends a record; an empty line is none.
fn push(records: &mut Vec<Vec<Field>>, record: &mut Vec<Field>) {
    let whole = std::mem::take(record);
    let empty = whole.iter().all(|field| field.span.is_empty());
    if whole.len() > 1 || !empty {
        records.push(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::split;
    use cvc_core::source::Source;

    fn fields(text: &str) -> Result<Vec<Vec<String>>, String> {
        let source = Source { path: "t.csv".into(), text: text.into() };
        split(&source).map(|r| r.into_iter().map(|f| f.into_iter().map(|f| f.text).collect()).collect()).map_err(|e| e.to_string())
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a,\"\\r\\n\u{feff}\u{e9} ]{0,40}") {
            if let Ok(records) = fields(&text) {
                proptest::prop_assert!(records.iter().all(|r| !r.is_empty()));
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
        assert_eq!(fields("a\n\"x"), Err("t.csv:2:1: the quotation mark is never closed".into()));
        assert_eq!(fields("a\n\"x\"y"), Err("t.csv:2:4: text after the closing quotation mark".into()));
    }
}
