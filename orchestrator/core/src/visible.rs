//! Escapes text from outside (programs, other machines, file names) for terminals: characters that would control a terminal are replaced by visible
//! forms.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

/// The form of an escaped character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For text: `\u{1b}`.
    Text,
    /// For JSON, where such characters occur only in strings: `\u001b`. JSON readers get the original text.
    Json,
}

/// Returns whether a character controls a terminal or changes the direction of the following text: control characters except line feed and tab, DEL,
/// the C1 set of ISO 6429, and Unicode's directional embeddings, overrides and isolates.
fn steers(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text with escapes for characters that would control a terminal.
pub fn visible(text: &str) -> Cow<'_, str> {
    in_form(text, Form::Text)
}

/// Like [`visible`], for the text of a JSON document, which stays valid.
pub fn visible_json(text: &str) -> Cow<'_, str> {
    in_form(text, Form::Json)
}

fn in_form(text: &str, form: Form) -> Cow<'_, str> {
    let Some(first) = text.find(steers) else {
        return Cow::Borrowed(text);
    };
    let mut out = text[..first].to_owned();
    for c in text[first..].chars() {
        match form {
            _ if !steers(c) => out.push(c),
            // writing to a String cannot fail
            Form::Text => drop(write!(out, "{}", c.escape_unicode())),
            Form::Json => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// Like [`visible`], for text that this program has already coloured for a terminal: escape sequences for colours and weights (`ESC [ 1 ; 31 m`)
/// stay.
pub fn visible_styled(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&visible(&rest[..at]));
        let end = at + style_length(&rest[at..]).unwrap_or(0);
        out.push_str(&rest[at..end]);
        if end == at {
            out.push_str(&visible("\u{1b}"));
        }
        rest = &rest[end.max(at + 1)..];
    }
    out.push_str(&visible(rest));
    out
}

/// Returns the length in bytes of the escape sequence at the beginning of a text; `None` unless it only sets weights or colours and hides no text.
fn style_length(text: &str) -> Option<usize> {
    let (parameters, _) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let is_known = |p: &str| {
        matches!(p, "" | "0" | "1" | "4")
            || (p.len() == 2 && matches!(p.as_bytes(), [b'3', b'0'..=b'7']))
    };
    parameters
        .split(';')
        .all(is_known)
        .then_some("\u{1b}[".len() + parameters.len() + "m".len())
}

/// A writer that escapes characters that would control a terminal, so that no caller can forget it. Bytes that are not text are escaped, too.
#[derive(Debug)]
pub struct Visible<W> {
    to: W,
    form: Form,
    /// The first bytes of a character whose other bytes have not been written yet.
    begun: Vec<u8>,
}

impl<W> Visible<W> {
    /// Creates a writer that writes to `to` in this form.
    pub const fn new(to: W, form: Form) -> Self {
        Self {
            to,
            form,
            begun: Vec::new(),
        }
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined;
        let all = if self.begun.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut self.begun), bytes].concat();
            &joined
        };
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.to
                .write_all(in_form(chunk.valid(), self.form).as_bytes())?;
            let is_last = chunks.peek().is_none();
            // incomplete, but may become text together with the next bytes
            if is_last
                && std::str::from_utf8(chunk.invalid())
                    .is_err_and(|error| error.error_len().is_none())
            {
                self.begun = chunk.invalid().to_vec();
            } else {
                write_raw(&mut self.to, chunk.invalid(), self.form)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        write_raw(&mut self.to, &std::mem::take(&mut self.begun), self.form)?;
        self.to.flush()
    }
}

fn write_raw(to: &mut impl Write, bytes: &[u8], form: Form) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| match form {
        Form::Text => write!(to, "\\x{byte:02x}"),
        Form::Json => write!(to, "\u{fffd}"),
    })
}

/// Characters at the beginning of a text that make spreadsheets interpret it as a formula. Some spreadsheets accept full-width forms, too.
const BEGINS_FORMULA: [char; 11] = [
    '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];

/// Returns a field of a table. If a spreadsheet would interpret the field as a formula, an apostrophe is put before it: texts may come from programs,
/// campaign files and descriptors of other people. Numbers with a sign stay unchanged.
pub fn inert(field: &str) -> Cow<'_, str> {
    if field.starts_with(BEGINS_FORMULA) && field.parse::<f64>().is_err() {
        Cow::Owned(format!("'{field}"))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets a title, clears the screen, copies text, rings the bell, overwrites a line, deletes a character, has a C1 sequence, and reverses text.
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}]52;c;eA==\u{1b}\\ bad\rgood \u{7f}\u{9b}31m\u{202e}txt\u{2069}";

    #[test]
    fn control_characters_are_written_out_and_other_text_stays() {
        assert_eq!(
            visible("plain\ttext\n\u{e9} \u{2500} \u{6f22}"),
            "plain\ttext\n\u{e9} \u{2500} \u{6f22}"
        );
        assert_eq!(visible("a\u{1b}[2J\u{7}b\rc"), "a\\u{1b}[2J\\u{7}b\\u{d}c");
        let shown = visible(HOSTILE);
        assert!(
            shown.chars().all(|c| c.is_ascii_graphic() || c == ' '),
            "{shown:?}"
        );
    }

    #[test]
    fn json_stays_what_it_was() {
        let shown = serde_json::to_string(HOSTILE).expect("JSON");
        let shown = visible_json(&shown);
        assert!(!shown.contains(steers), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<String>(&shown).expect("still JSON"),
            HOSTILE
        );
    }

    #[test]
    fn styles_stay_and_nothing_else_does() {
        assert_eq!(
            visible_styled("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m x"),
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m x"
        );
        assert_eq!(
            visible_styled("\u{1b}[8mhidden\u{1b}[2J\u{1b}]0;m\r\u{1b}"),
            "\\u{1b}[8mhidden\\u{1b}[2J\\u{1b}]0;m\\u{d}\\u{1b}"
        );
    }

    #[test]
    fn a_writer_writes_it_out_wherever_its_pieces_end() {
        let text = format!("{HOSTILE} \u{6f22}");
        for size in 1..text.len() {
            let mut out = Visible::new(Vec::new(), Form::Text);
            for piece in text.as_bytes().chunks(size) {
                out.write_all(piece).expect("writes");
            }
            assert_eq!(
                String::from_utf8(out.to).expect("text"),
                visible(&text),
                "pieces of {size} bytes"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_written_out() {
        let mut out = Visible::new(Vec::new(), Form::Text);
        out.write_all(b"a\x9b31m\xff\xe6").expect("writes");
        out.flush().expect("writes");
        assert_eq!(out.to, b"a\\x9b31m\\xff\\xe6");
    }
}
