//! Numbers in the output of programs. One with a decimal comma, as many languages write it, must not be taken for its part before the comma.

use regex::{Captures, Regex};

/// The numbers that the first group of a pattern finds. Of what is no number nothing is said.
///
/// # Errors
/// The text of the first number that may go on behind the group, with a comma and a digit.
pub(crate) fn numbers(pattern: &Regex, text: &str) -> Result<Vec<f64>, String> {
    let mut all = Vec::new();
    for captures in pattern.captures_iter(text) {
        if let Some(cut) = cut_off(pattern, text, &captures) {
            return Err(cut.to_owned());
        }
        all.extend(
            captures
                .get(1)
                .and_then(|group| group.as_str().parse::<f64>().ok()),
        );
    }
    Ok(all)
}

/// The whole number, if a comma and a digit follow the group that a pattern found, and the pattern says nothing of a comma.
fn cut_off<'t>(pattern: &Regex, text: &'t str, captures: &Captures<'t>) -> Option<&'t str> {
    let (whole, group) = (captures.get(0)?, captures.get(1)?);
    let after = text[group.end()..]
        .strip_prefix(',')
        .filter(|after| after.starts_with(|c: char| c.is_ascii_digit()))?;
    group
        .as_str()
        .ends_with(|c: char| c.is_ascii_digit())
        .then_some(())?;
    // with anything else for the comma: if it finds the same, the comma is no separator that it asks for
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

/// What to do about such a number.
pub(crate) const CUT_HINT: &str = "if it has a decimal comma, run the program under LC_ALL=C.UTF-8; if the comma separates values, put it into the pattern behind the group";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, text: &str) -> Result<Vec<f64>, String> {
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
            assert_eq!(of(pattern, text), Err("0,451".to_owned()), "{pattern}");
        }
        assert_eq!(
            of("time ([0-9.]+)", "time 1.234,5 s"),
            Err("1.234,5".to_owned()),
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
            Err("3,4".to_owned()),
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
