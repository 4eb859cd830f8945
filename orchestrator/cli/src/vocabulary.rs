//! The vocabulary of cvc for `cvc help WORD`, from docs/vocabulary.md.

use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../docs/vocabulary.md");

/// All rows, in the order of the page.
static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| PAGE.lines().filter_map(parse_row).collect());

/// A row of the page, which may explain several words.
pub struct Word {
    pub names: Vec<&'static str>,
    /// The meaning, without Markdown syntax.
    pub meaning: String,
    /// Paths in the repository of pages with more details.
    pub pages: Vec<String>,
}

/// Returns the names of all words.
pub fn names() -> impl Iterator<Item = &'static str> {
    WORDS.iter().flat_map(|word| word.names.iter().copied())
}

/// Finds the row of a word. Case is ignored, and hyphens, blanks and underscores are equal: `held-out-point` finds `held-out point`.
pub fn find(name: &str) -> Option<&'static Word> {
    let comparable = |text: &str| text.to_lowercase().replace([' ', '_'], "-");
    let name = comparable(name);
    WORDS
        .iter()
        .find(|word| word.names.iter().any(|known| comparable(known) == name))
}

fn parse_row(line: &'static str) -> Option<Word> {
    let row = line.strip_prefix("| **")?.strip_suffix(" |")?;
    let (names, meaning) = row.split_once(" | ")?;
    let (meaning, pages) = without_links(meaning);
    Some(Word {
        names: names.trim_end_matches("**").split("**, **").collect(),
        meaning,
        pages,
    })
}

/// Replaces Markdown links by their texts, and removes parentheses that only refer to pages. Also returns the targets of the links.
fn without_links(text: &str) -> (String, Vec<String>) {
    let (mut plain, mut pages, mut rest) = (String::new(), Vec::new(), text);
    let mut is_reference = false;
    while let Some((before, shown, target, after)) = next_link(rest) {
        is_reference = before.ends_with(" (") || is_reference && before == ", ";
        if is_reference {
            plain.push_str(before.trim_end_matches(" (").trim_end_matches(", "));
        } else {
            plain.push_str(before);
            plain.push_str(shown);
        }
        pages.push(format!("docs/{target}"));
        rest = after;
        if is_reference && let Some(after) = rest.strip_prefix(')') {
            (is_reference, rest) = (false, after);
        }
    }
    (plain + rest, pages)
}

/// Splits a text at its first link: returns the text before the link, the link's text, its target, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (shown, rest) = rest.split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    Some((before, shown, target, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_page_is_a_word_with_a_plain_meaning() {
        let rows = PAGE.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(WORDS.len(), rows - 2, "without the head of the table");
        for word in WORDS.iter() {
            assert!(!word.meaning.contains("]("), "{}", word.meaning);
            for name in &word.names {
                assert!(!name.contains('*') && find(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn links_become_their_text_and_the_pages_to_read() {
        let (text, pages) =
            without_links("a [file](x.md#top), `2Nx8P` ([MPI](mpi.md), [plan](plan.md)); and more");
        assert_eq!(text, "a file, `2Nx8P`; and more");
        assert_eq!(pages, ["docs/x.md#top", "docs/mpi.md", "docs/plan.md"]);
    }

    #[test]
    fn a_word_is_found_however_it_is_written() {
        for name in ["held-out point", "Held-Out-Point", "held-out_point"] {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("no such word").is_none());
    }
}
