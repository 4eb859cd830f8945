//! Numbers in the output of programs. A number with a decimal comma, which many languages use, must not be mistaken for its part before the comma.

use regex::{Captures, Regex};

/// The full text of a number of which a pattern captures only the part before a comma.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CutNumber(String);

/// Returns the numbers that the first group of a pattern captures. Captures that are not numbers are ignored.
///
/// # Errors
/// A captured number may continue after a comma; the error has the first such number.
pub(crate) fn numbers(pattern: &Regex, text: &str) -> Result<Vec<f64>, CutNumber> {
    let mut all = Vec::new();
    for captures in pattern.captures_iter(text) {
        if let Some(cut) = cut_off(pattern, text, &captures) {
            return Err(CutNumber(cut.to_owned()));
        }
        all.extend(
            captures
                .get(1)
                .and_then(|group| group.as_str().parse::<f64>().ok()),
        );
    }
    Ok(all)
}

/// Returns the full number if a comma and a digit follow the captured part, and the pattern itself does not require the comma.
fn cut_off<'t>(pattern: &Regex, text: &'t str, captures: &Captures<'t>) -> Option<&'t str> {
    let (whole, group) = (captures.get(0)?, captures.get(1)?);
    let after = text[group.end()..]
        .strip_prefix(',')
        .filter(|after| after.starts_with(|c: char| c.is_ascii_digit()))?;
    group
        .as_str()
        .ends_with(|c: char| c.is_ascii_digit())
        .then_some(())?;
    // replace the comma by another character: if the match is the same, the pattern does not require the comma as a separator
    let begin = text[..whole.start()].rfind('\n').map_or(0, |at| at + 1);
    let end = text[whole.end().max(group.end())..]
        .find('\n')
        .map_or(text.len(), |at| whole.end().max(group.end()) + at);
    let other = format!(
        "{};{}",
        &text[begin..group.end()],
        &text[group.end() + 1..end]
    );
    let same = |found: &Captures<'_>| {
        found
            .get(1)
            .is_some_and(|g| (g.start() + begin, g.end() + begin) == (group.start(), group.end()))
    };
    if !pattern.captures_iter(&other).any(|found| same(&found)) {
        return None;
    }
    let digits = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    Some(&text[group.start()..group.end() + 1 + digits])
}

/// Hint for a number that was captured only in part.
pub(crate) const CUT_HINT: &str = "if it has a decimal comma, run the program under LC_ALL=C.UTF-8; if the comma separates values, put it into the pattern \
                                   after the group";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, text: &str) -> Result<Vec<f64>, CutNumber> {
        numbers(
            &Regex::new(&format!("(?m){pattern}")).expect("a pattern"),
            text,
        )
    }

    #[test]
    fn a_decimal_comma_is_not_where_a_number_ends() {
        assert_eq!(
            of("time ([0-9.]+)", "time 0.451\ntime 2\n"),
            Ok(vec![0.451, 2.0])
        );
        for (pattern, text) in [
            ("time ([0-9.]+)", "time 0.1\ntime 0,451\n"),
            ("^time ([0-9.]+).*s$", "x\ntime 0,451 s\ny"),
            (r"(\d+)", "0,451"),
        ] {
            assert_eq!(
                of(pattern, text),
                Err(CutNumber("0,451".to_owned())),
                "{pattern}"
            );
        }
        assert_eq!(
            of("time ([0-9.]+)", "time 1.234,5 s"),
            Err(CutNumber("1.234,5".to_owned())),
            "with points between thousands"
        );
    }

    #[test]
    fn a_comma_that_separates_is_none() {
        assert_eq!(
            of("time ([0-9.]+)", "time 3, then 4; time 5,x; time 6,"),
            Ok(vec![3.0, 5.0, 6.0])
        );
        assert_eq!(
            of(r"^row,(\d+),", "row,3,4\nrow,5,6\n"),
            Ok(vec![3.0, 5.0]),
            "the pattern asks for it"
        );
        assert_eq!(of(r"^row,\d+,(\d+)$", "row,3,4\n"), Ok(vec![4.0]));
        assert_eq!(
            of(r"(\d+)(?:,|;)\d", "3,4"),
            Err(CutNumber("3,4".to_owned())),
            "it asks for anything"
        );
        assert_eq!(
            of("time (.*)$", "time 0,451\ntime 3\n"),
            Ok(vec![3.0]),
            "no number"
        );
        assert_eq!(of("time (-?[0-9.]+)?", "time \n"), Ok(vec![]));
    }
}
