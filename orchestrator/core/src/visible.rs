//! Text from outside (programs, other machines, names of files) as a terminal may get it: with the characters that would steer it written out.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

/// How a character that steers a terminal is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people: `\u{1b}`.
    Text,
    /// In JSON, which has such characters within strings only: `\u001b`. What reads it gets the same text.
    Json,
}

/// Whether a character steers a terminal, or turns the order of what follows round: control characters except line feed and tab, DEL, those of
/// ISO 6429's set C1, and Unicode's embeddings, overrides and isolates of directions.
fn steers(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with what would steer a terminal written out.
pub fn visible(text: &str) -> Cow<'_, str> {
    in_form(text, Form::Text)
}

/// The same for the text of a JSON document, which stays one.
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
            // a String takes everything
            Form::Text => drop(write!(out, "{}", c.escape_unicode())),
            Form::Json => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// The same for text that another part of this program has coloured for a terminal: colours and weights (`ESC [ 1 ; 31 m`) stay.
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

/// The length of the sequence with which a text begins, if it only sets a weight or a colour: nothing that hides text.
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

/// Writes text with what would steer a terminal written out, so that no caller can forget it. Bytes that are no text are written out too.
#[derive(Debug)]
pub struct Visible<W> {
    to: W,
    form: Form,
    /// The beginning of a character whose end was not written yet.
    begun: Vec<u8>,
}

impl<W> Visible<W> {
    /// Writes to `to`, in this form.
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
            // no text yet, and perhaps text with what comes
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A title, a cleared screen, a copied text, a bell, an overwritten line, a deleted character, a C1 sequence, turned text.
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}]52;c;eA==\u{1b}\\ bad\rgood \u{7f}\u{9b}31m\u{202e}txt\u{2069}";

    #[test]
    fn what_steers_a_terminal_is_written_out_and_other_text_stays() {
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
