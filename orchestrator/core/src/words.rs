//! Splits a line into words as a POSIX shell does, with quotes and backslashes only.

/// Why a line cannot be split into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsProblem {
    /// The line ends with a backslash.
    #[error("the line ends with a backslash")]
    Backslash,
    /// A quote is not closed.
    #[error("a quote is not closed")]
    Quote,
}

/// Splits a line into words.
///
/// # Errors
/// A quote is not closed, or nothing follows a backslash.
pub fn split(line: &str) -> Result<Vec<String>, WordsProblem> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') if matches!(chars.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(chars.next())
            }
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, '\\') => match chars.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(WordsProblem::Backslash),
            },
            (None, c) if c.is_whitespace() => all.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(WordsProblem::Quote);
    }
    all.extend(word);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{WordsProblem, split};

    #[test]
    fn words_are_split_as_a_shell_does() {
        let words = split(r#"--in "my mesh.dat"  -n 4 'a "b"' c\ d #1"#).expect("words");
        assert_eq!(
            words,
            ["--in", "my mesh.dat", "-n", "4", "a \"b\"", "c d", "#1"]
        );
        assert_eq!(split("a 'b"), Err(WordsProblem::Quote));
        assert_eq!(split("a \\"), Err(WordsProblem::Backslash));
    }
}
