//! Lists of nodes in Slurm's notation: `n[1-3,07-10],gpu-a[1-2]x[0-1]`.

/// The error that a list cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse node list `{list}`: {problem} (column {column})")]
pub struct NodeListError {
    /// The list.
    pub list: String,
    /// The problem.
    pub problem: &'static str,
    /// Position of the problem, in bytes from 1.
    pub column: usize,
}

/// Maximum number of nodes in a list. A longer list is probably a typing error in a range.
const MAX_NODES: usize = 1 << 20;
/// Maximum number of digits of a number in a node's name, including leading zeros. A host name has at most 253 characters.
const MAX_DIGITS: usize = 253;

const TOO_MANY: &str = "more nodes than any cluster has";

/// Part of a name: fixed text, or alternative numbers.
enum Piece {
    Text(String),
    Numbers(Vec<String>),
}

/// Returns all nodes of a list, in order. If a name has several brackets, the numbers in the last one change fastest.
pub fn expand(list: &str) -> Result<Vec<String>, NodeListError> {
    let wrong = |problem, column: usize| NodeListError {
        list: list.to_owned(),
        problem,
        column: column + 1,
    };
    let mut nodes = Vec::new();
    for (at, part) in split_outside_brackets(list).map_err(|(problem, at)| wrong(problem, at))? {
        if part.trim().is_empty() {
            if list.trim().is_empty() {
                break;
            }
            return Err(wrong("a name is missing", at));
        }
        let pieces =
            pieces(part.trim()).map_err(|(problem, offset)| wrong(problem, at + offset))?;
        let count = pieces.iter().try_fold(1usize, |n, p| match p {
            Piece::Text(_) => Some(n),
            Piece::Numbers(numbers) => n.checked_mul(numbers.len()),
        });
        if count
            .and_then(|c| c.checked_add(nodes.len()))
            .is_none_or(|all| all > MAX_NODES)
        {
            return Err(wrong(TOO_MANY, at));
        }
        let mut names = vec![String::new()];
        for piece in &pieces {
            names = match piece {
                Piece::Text(text) => names.into_iter().map(|n| n + text).collect(),
                Piece::Numbers(numbers) => names
                    .iter()
                    .flat_map(|n| numbers.iter().map(move |d| format!("{n}{d}")))
                    .collect(),
            };
        }
        nodes.extend(names);
    }
    Ok(nodes)
}

/// Splits a list at commas outside of brackets; returns each part with its position.
fn split_outside_brackets(list: &str) -> Result<Vec<(usize, &str)>, (&'static str, usize)> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, None);
    for (at, c) in list.char_indices() {
        match (c, open) {
            ('[', None) => open = Some(at),
            ('[', Some(_)) => return Err(("a bracket within brackets", at)),
            (']', None) => return Err(("a bracket is closed that was not opened", at)),
            (']', Some(_)) => open = None,
            (',', None) => {
                parts.push((start, &list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(at) = open {
        return Err(("a bracket is not closed", at));
    }
    parts.push((start, &list[start..]));
    Ok(parts)
}

fn pieces(name: &str) -> Result<Vec<Piece>, (&'static str, usize)> {
    if let Some(at) = name.find(char::is_whitespace) {
        return Err(("a space within a name", at));
    }
    let (mut pieces, mut rest, mut at, mut count) = (Vec::new(), name, 0, 1usize);
    while let Some((text, after)) = rest.split_once('[') {
        let (inside, behind) = after
            .split_once(']')
            .ok_or(("a bracket is not closed", at))?;
        pieces.push(Piece::Text(text.to_owned()));
        at += text.len() + 1;
        let numbers = numbers(inside).map_err(|problem| (problem, at))?;
        // checked before the next bracket is expanded, because each may multiply the number of nodes
        count = count.saturating_mul(numbers.len());
        if count > MAX_NODES {
            return Err((TOO_MANY, at));
        }
        pieces.push(Piece::Numbers(numbers));
        at += inside.len() + 1;
        rest = behind;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

fn numbers(ranges: &str) -> Result<Vec<String>, &'static str> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            // including leading zeros; no valid name has so many digits
            true if text.len() > MAX_DIGITS => Err("a number is missing or too large"),
            true => text
                .parse::<u64>()
                .map_err(|_| "a number is missing or too large"),
            false => Err("brackets hold numbers and ranges only"),
        };
        let (from, to) = (number(low)?, number(high)?);
        if to < from {
            return Err("a range that ends before it begins");
        }
        if (to - from) as usize >= MAX_NODES || all.len() >= MAX_NODES {
            return Err(TOO_MANY);
        }
        let width = low.len();
        all.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

/// Returns a short list of these nodes, in order. Consecutive nodes whose names differ only in the number at the end become a range. The list never
/// has text after brackets, because Slurm does not parse that.
pub fn compress<T: AsRef<str>>(nodes: &[T]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for node in nodes.iter().map(AsRef::as_ref) {
        let prefix = node.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &node[prefix.len()..];
        // a number with too many digits for u64 is treated as text
        let is_number = digits.len() <= MAX_DIGITS && digits.parse::<u64>().is_ok();
        let (prefix, digits) = if is_number {
            (prefix, digits)
        } else {
            (node, "")
        };
        match groups.last_mut() {
            Some((p, numbers)) if *p == prefix && !digits.is_empty() && !numbers[0].is_empty() => {
                numbers.push(digits)
            }
            _ => groups.push((prefix, vec![digits])),
        }
    }
    let group = |(prefix, numbers): &(&str, Vec<&str>)| match numbers.as_slice() {
        [one] => format!("{prefix}{one}"),
        many => format!("{prefix}[{}]", ranges(many)),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(",")
}

fn ranges(numbers: &[&str]) -> String {
    let value = |text: &str| text.parse::<u64>().unwrap_or_default();
    let follows = |a: &str, b: &str| {
        value(a)
            .checked_add(1)
            .is_some_and(|next| format!("{next:0width$}", width = a.len()) == b)
    };
    let (mut parts, mut i) = (Vec::new(), 0);
    while i < numbers.len() {
        let mut j = i;
        // within a range, all numbers have the number of digits of the first
        while j + 1 < numbers.len()
            && follows(numbers[j], numbers[j + 1])
            && numbers[j + 1].len() == width_of(numbers[i], numbers[j + 1])
        {
            j += 1;
        }
        parts.push(if i == j {
            numbers[i].to_owned()
        } else {
            format!("{}-{}", numbers[i], numbers[j])
        });
        i = j + 1;
    }
    parts.join(",")
}

/// Returns the number of digits that a number has in a range that begins with `first`.
fn width_of(first: &str, number: &str) -> usize {
    first.len().max(number.trim_start_matches('0').len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_expanded_as_by_scontrol() {
        // the output of `scontrol show hostnames` of Slurm 22.05
        let message = "n1 n2 n3 n07 n08 n09 n10 gpu-a1x0 gpu-a1x1 gpu-a2x0 gpu-a2x1";
        assert_eq!(
            expand("n[1-3,07-10],gpu-a[1-2]x[0-1]")
                .expect("a list")
                .join(" "),
            message
        );
        assert_eq!(expand("login").expect("a list"), ["login"]);
        assert_eq!(expand("").expect("an empty list"), Vec::<String>::new());
    }

    #[test]
    fn numbers_of_any_length_are_refused_or_stay_text() {
        for digits in [21, 300, 65_535, 65_536, 100_000] {
            let number = format!("{}1", "0".repeat(digits));
            assert!(
                digits < MAX_DIGITS || expand(&format!("n[{number}]")).is_err(),
                "{digits}"
            );
            let nodes = [format!("n{number}"), format!("n{}2", "0".repeat(digits))];
            assert_eq!(
                expand(&compress(&nodes)).expect("a list"),
                nodes,
                "{digits}"
            );
        }
    }

    #[test]
    fn brackets_that_make_too_many_nodes_are_refused_before_the_next_one() {
        // would need several gigabytes if all brackets were expanded
        let list = format!("n{}", "[0-1048575]".repeat(200));
        assert_eq!(
            expand(&list).expect_err("too many").column,
            "n[0-1048575][".len() + 1
        );
    }

    #[test]
    fn lists_are_short_and_in_order() {
        let short = |list: &str| compress(&list.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(short("n1 n2 n3 n07 n08 x"), "n[1-3,07-08],x");
        assert_eq!(short("n3 n1 n2"), "n[3,1-2]");
        assert_eq!(short("n9 n10 n099 n100"), "n[9-10,099-100]");
        assert_eq!(short("a1x0 a1x1 a2x0"), "a1x[0-1],a2x0");
        assert_eq!(short("n1b n2b"), "n1b,n2b");
    }

    #[test]
    fn invalid_lists_are_refused_with_their_place() {
        for bad in [
            "n[1-",
            "n1]",
            "n[[1]]",
            "n[a]",
            "n[3-1]",
            "n1,,n2",
            "n[]",
            "n[1-99999999999]",
            "n[0-1023]x[0-1023]x[0-9]",
            "n 1",
            "n 1[1-2]",
        ] {
            let error = expand(bad).expect_err(bad).to_string();
            assert!(error.contains(bad) && error.contains("column"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn compressed_lists_expand_to_the_same(nodes in prop::collection::vec("[a-z]{1,3}-?[0-9]{0,3}x?[0-9]{1,2}[a-z]?", 0..40)) {
            prop_assert_eq!(expand(&compress(&nodes)).expect("its own list"), nodes);
        }

        #[test]
        fn ranges_survive(from in 0u64..1200, count in 1u64..30, width in 1usize..5) {
            let nodes: Vec<String> = (from..from + count).map(|n| format!("n{n:0width$}")).collect();
            let list = compress(&nodes);
            prop_assert_eq!(list.matches('-').count() + usize::from(count == 1), 1, "{}", &list);
            prop_assert_eq!(expand(&list).expect("its own list"), nodes);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[n0-9\\[\\],\\-é ]{0,30}") {
            let _ = expand(&text);
            let _ = compress(&[text]);
        }
    }
}
