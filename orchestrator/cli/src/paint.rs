//! Colours on terminals: failures red, successes green, warnings yellow. Control characters in text from outside are made visible before painting, so
//! other programs cannot colour anything.

use std::{borrow::Cow, ffi::OsStr, io::IsTerminal};

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Words that are painted at the beginning of a line, after blanks.
const BEGINNINGS: [(&str, &str); 3] = [("error:", RED), ("warning:", YELLOW), ("hint:", GREEN)];
/// Words that are painted anywhere in a line.
const WORDS: [(&str, &str); 5] = [
    ("FAILED", RED),
    ("failed", RED),
    ("fails", RED),
    ("succeeded", GREEN),
    ("done", GREEN),
];

/// Returns whether a stream gets colours: it is a terminal that supports them, and NO_COLOR and CLICOLOR=0 are not set.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    let variable = std::env::var_os;
    stream.is_terminal()
        && allows(
            variable("NO_COLOR").as_deref(),
            variable("CLICOLOR").as_deref(),
            variable("TERM").as_deref(),
        )
}

fn allows(no_color: Option<&OsStr>, clicolor: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
        && clicolor.is_none_or(|value| value != "0")
        && term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Adds colours to cvc's text, which must not contain control characters.
pub fn paint(text: &str) -> Cow<'_, str> {
    let begins = |line: &str| {
        let words = line.trim_start();
        BEGINNINGS
            .iter()
            .find(|(begin, _)| words.starts_with(begin))
    };
    let is_plain = !WORDS.iter().any(|(word, _)| text.contains(word))
        && !text.lines().any(|line| begins(line).is_some());
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut painted = String::with_capacity(text.len() + 32);
    for line in text.split_inclusive('\n') {
        match begins(line) {
            Some((begin, colour)) => {
                let blanks = line.len() - line.trim_start().len();
                let end = blanks + begin.len();
                painted.push_str(&line[..blanks]);
                painted.push_str(colour);
                painted.push_str(begin);
                painted.push_str(PLAIN);
                // the rest of the line is a message, in which these words are not states
                painted.push_str(&line[end..]);
            }
            None => paint_words(line, &mut painted),
        }
    }
    Cow::Owned(painted)
}

/// Paints whole words, except after the number 0.
fn paint_words(line: &str, painted: &mut String) {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let mut rest = line;
    while !rest.is_empty() {
        let begin = rest.find(is_letter).unwrap_or(rest.len());
        let length = rest[begin..].find(|c| !is_letter(c));
        let end = length.map_or(rest.len(), |length| begin + length);
        let (before, word) = (&rest[..begin], &rest[begin..end]);
        painted.push_str(before);
        let known = WORDS.iter().find(|(of, _)| *of == word);
        match known.filter(|_| !painted.ends_with(" 0 ") && painted != "0 ") {
            Some((_, colour)) => painted.extend([colour, word, PLAIN]),
            None => painted.push_str(word),
        }
        rest = &rest[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::{allows, paint};
    use std::ffi::OsStr;

    #[test]
    fn states_and_beginnings_are_painted_and_nothing_else() {
        assert_eq!(paint("plain text\n"), "plain text\n");
        assert_eq!(
            paint("error: it failed\n  hint: run it\n"),
            "\x1b[31merror:\x1b[0m it failed\n  \x1b[32mhint:\x1b[0m run it\n"
        );
        assert_eq!(
            paint("[3/24] x: FAILED (timeout): y"),
            "[3/24] x: \x1b[31mFAILED\x1b[0m (timeout): y"
        );
        // parts of words and paths, and words after 0, are not painted
        for text in [
            "run.failed-1",
            "runs/failed/x",
            "undone",
            "2 of 2, 0 failed",
        ] {
            assert_eq!(paint(text), text);
        }
    }

    #[test]
    fn colours_are_for_terminals_that_have_them_and_users_that_want_them() {
        let of = |no_color: Option<&str>, clicolor: Option<&str>, term: Option<&str>| {
            allows(
                no_color.map(OsStr::new),
                clicolor.map(OsStr::new),
                term.map(OsStr::new),
            )
        };
        let xterm = Some("xterm-256color");
        assert!(of(None, None, xterm) && of(Some(""), Some("1"), xterm));
        assert!(!of(Some("1"), None, xterm) && !of(None, Some("0"), xterm));
        assert!(!of(None, None, Some("dumb")) && !of(None, None, None));
    }
}
