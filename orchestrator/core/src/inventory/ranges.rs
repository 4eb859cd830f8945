//! Names of hosts as inventories write them: `n[01:16]`, `rack[a:c]-[1:9:2]`, `n1:2222`.

use super::groups::MAX_HOSTS;

/// Why a pattern names no hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternProblem {
    #[error("a host without a name")]
    NoName,
    #[error("a host with more than {MAX_RANGES} ranges")]
    TooManyRanges,
    #[error("more than {MAX_HOSTS} hosts")]
    TooManyHosts,
    #[error("a `[` without its `]`")]
    Unclosed,
    #[error("a range has other characters than letters and digits: write [BEGIN:END]")]
    OtherCharacters,
    #[error("the range [{0}] is not [BEGIN:END] or [BEGIN:END:STEP]")]
    Form(String),
    #[error("the range [{0}] has no end")]
    NoEnd(String),
    #[error("invalid step `{step}` of the range [{range}]")]
    Step { step: String, range: String },
    #[error("the range [{range}] begins with {begin} digits and ends with {end}")]
    Width {
        range: String,
        begin: usize,
        end: usize,
    },
    #[error("the range [{0}] ends before it begins")]
    Backwards(String),
    #[error("the range [{0}] must go from number to number or from letter to letter")]
    Mixed(String),
    #[error("the range [{0}] has more than {MAX_HOSTS} hosts")]
    LongRange(String),
}

/// Names and port of a pattern.
pub(super) fn expand(pattern: &str) -> Result<(Vec<String>, Option<u16>), PatternProblem> {
    let (names, port) = split(pattern);
    if names.is_empty() {
        return Err(PatternProblem::NoName);
    }
    if names.matches('[').count() > MAX_RANGES {
        return Err(PatternProblem::TooManyRanges);
    }
    let mut all = Vec::new();
    expand_into(names, &mut all)?;
    Ok((all, port))
}

/// The port after the name, if there is one.
fn split(pattern: &str) -> (&str, Option<u16>) {
    if let Some((address, port)) = pattern.strip_prefix('[').and_then(|p| p.rsplit_once("]:"))
        && let Ok(port) = port.parse()
    {
        return (address, Some(port));
    }
    let Some((name, port)) = pattern.rsplit_once(':') else {
        return (pattern, None);
    };
    // colons inside a range, or of an address of version 6
    let bare = name.split('[').enumerate().map(|(i, part)| {
        if i == 0 {
            part
        } else {
            part.split_once(']').map_or("", |(_, rest)| rest)
        }
    });
    match port.parse() {
        Ok(port)
            if bare.clone().all(|part| !part.contains(':'))
                && name.matches('[').count() == name.matches(']').count() =>
        {
            (name, Some(port))
        }
        Ok(_) | Err(_) => (pattern, None),
    }
}

/// Maximum number of ranges in a pattern.
const MAX_RANGES: usize = 16;

fn expand_into(name: &str, all: &mut Vec<String>) -> Result<(), PatternProblem> {
    let Some((head, rest)) = name.split_once('[') else {
        if all.len() >= MAX_HOSTS {
            return Err(PatternProblem::TooManyHosts);
        }
        all.push(name.to_owned());
        return Ok(());
    };
    let (range, tail) = rest.split_once(']').ok_or(PatternProblem::Unclosed)?;
    for word in words(range)? {
        expand_into(&format!("{head}{word}{tail}"), all)?;
    }
    Ok(())
}

/// Expands a range.
fn words(range: &str) -> Result<Vec<String>, PatternProblem> {
    let owned = || range.to_owned();
    let parts: Vec<&str> = range.split(':').collect();
    // what is like none is not shown: it may be of any file
    if !range.chars().all(|c| c.is_ascii_alphanumeric() || c == ':') {
        return Err(PatternProblem::OtherCharacters);
    }
    let (begin, end, step) = match parts.as_slice() {
        [begin, end] => (*begin, *end, "1"),
        [begin, end, step] => (*begin, *end, *step),
        _ => return Err(PatternProblem::Form(owned())),
    };
    let begin = if begin.is_empty() { "0" } else { begin };
    if end.is_empty() {
        return Err(PatternProblem::NoEnd(owned()));
    }
    let bad_step = || PatternProblem::Step {
        step: step.to_owned(),
        range: owned(),
    };
    let step: usize = step.parse().ok().filter(|s| *s > 0).ok_or_else(bad_step)?;
    let width = if begin.len() > 1 && begin.starts_with('0') {
        begin.len()
    } else {
        0
    };
    if width > 0 && width != end.len() {
        return Err(PatternProblem::Width {
            range: owned(),
            begin: width,
            end: end.len(),
        });
    }
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let letter = |text: &str| match text.chars().collect::<Vec<_>>().as_slice() {
        [one] => letters.iter().position(|l| l == one),
        _ => None,
    };
    if let (Some(from), Some(to)) = (letter(begin), letter(end)) {
        if from > to {
            return Err(PatternProblem::Backwards(owned()));
        }
        return Ok(letters[from..=to]
            .iter()
            .step_by(step)
            .map(char::to_string)
            .collect());
    }
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| PatternProblem::Mixed(owned()))
    };
    let (from, to) = (number(begin)?, number(end)?);
    if from > to {
        return Err(PatternProblem::Backwards(owned()));
    }
    if (to - from) as usize / step >= MAX_HOSTS {
        return Err(PatternProblem::LongRange(owned()));
    }
    Ok((from..=to)
        .step_by(step)
        .map(|n| format!("{n:0width$}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> String {
        match expand(pattern) {
            Ok((names, port)) => format!(
                "{}{}",
                names.join(" "),
                port.map(|p| format!(" port {p}")).unwrap_or_default()
            ),
            Err(problem) => format!("error: {problem}"),
        }
    }

    #[test]
    fn ranges_and_ports() {
        assert_eq!(of("n[01:03]"), "n01 n02 n03");
        assert_eq!(of("n[9:11]"), "n9 n10 n11");
        assert_eq!(
            of("r[a:b]-[1:5:2].x:2222"),
            "ra-1.x ra-3.x ra-5.x rb-1.x rb-3.x rb-5.x port 2222"
        );
        assert_eq!(of("n[:2]"), "n0 n1 n2");
        assert_eq!(of("[fd00::1]:22"), "fd00::1 port 22");
        assert_eq!(of("fd00::1"), "fd00::1");
        assert_eq!(of("n1:99999"), "n1:99999");
        for bad in [
            "n[1:",
            "n[3:1]",
            "n[1]",
            "n[1:2:3:4]",
            "n[01:9]",
            "n[a:3]",
            "n[1:]",
            "n[1:9:0]",
            "n[0:4000000000]",
            "n[0:999][0:999]",
            // as many as would end the stack
            &"[0:0]".repeat(20_000),
            "[:]",
            "",
        ] {
            assert!(of(bad).starts_with("error: "), "{bad}: {}", of(bad));
        }
    }
}
