//! Differences between machines in the output that pages show. A page shows the output on one machine. Before the comparison, patterns replace the
//! parts that differ on other machines: `[..]` within a line, `...` for any number of lines.

use regex::Regex;

/// Lines that differ, are repeated or are missing on other machines: the page, and a pattern that matches the lines.
const LINES: [(&str, &str); 2] = [
    // the installed software determines which points are skipped, and the other points determine the width of columns
    (
        "README.md",
        r"^(point  |─|[0-9a-f]{8}  |\d+ points? (is|are) skipped|  DMTCP |    - |space of checkpoints)",
    ),
    (
        "docs/quickstart.md",
        r"^(point  |─|[0-9a-f]{8}  |\d+ points? (is|are) skipped|  DMTCP |    - |space of checkpoints)",
    ),
];

/// Parts of lines that differ on other machines: the page, a regular expression that matches the part, and the pattern that replaces it.
const PARTS: [(&str, &str, &str); 5] = [
    ("README.md", r"^\d+ runs, about .*", "[..] runs, about [..]"),
    (
        "README.md",
        r"\): .* needed, .* free$",
        "): [..] needed, [..] free",
    ),
    (
        "docs/quickstart.md",
        r"^\d+ runs, about .*",
        "[..] runs, about [..]",
    ),
    (
        "docs/quickstart.md",
        r"\): .* needed, .* free$",
        "): [..] needed, [..] free",
    ),
    (
        "docs/mpi.md",
        r"^(ok|--)  MPI library (\w+) .*",
        "[..]  MPI library $2 [..]",
    ),
];

/// Commands of which a page, as it says, shows only some lines.
const EXCERPTS: [(&str, &str); 1] = [("docs/mpi.md", "$ cvc doctor")];

/// Pattern that matches any number of lines, even none.
const ANY: &str = "...";

/// A line of the pattern text, with the lines of the page that it replaces.
pub struct Pattern {
    pub text: String,
    shown: Vec<String>,
}

/// Returns the page with patterns in place of all parts that vary.
pub fn patterns(page: &str, text: &str) -> Vec<Pattern> {
    let regex = |pattern: &str| Regex::new(pattern).expect("a pattern");
    let varies: Vec<_> = LINES
        .iter()
        .filter(|(of, _)| *of == page)
        .map(|(_, pattern)| regex(pattern))
        .collect();
    let parts: Vec<_> = PARTS
        .iter()
        .filter(|(of, ..)| *of == page)
        .map(|(_, pattern, to)| (regex(pattern), *to))
        .collect();
    let mut found: Vec<Pattern> = Vec::new();
    let (mut console, mut excerpt) = (false, false);
    for line in text.lines() {
        let (fence, command) = (line.starts_with("```"), line.starts_with("$ "));
        if excerpt {
            join(&mut found, None);
        }
        if fence || command {
            console = line == "```console" || command && console;
            excerpt = console && EXCERPTS.contains(&(page, line));
        }
        if console && varies.iter().any(|r| r.is_match(line)) {
            join(&mut found, Some(line));
        } else {
            // an empty line after `...` belongs to it; otherwise `...` would end at the first empty line
            if console && !fence && !command && !line.is_empty() && ends_with_empty_line(&found) {
                join(&mut found, None);
            }
            let inside = |text: String, (r, to): &(Regex, &str)| r.replace(&text, *to).into_owned();
            let text = if console {
                parts.iter().fold(line.to_owned(), inside)
            } else {
                line.to_owned()
            };
            found.push(Pattern {
                text,
                shown: vec![line.to_owned()],
            });
        }
    }
    found
}

/// Adds `...`, or joins the line to a preceding `...` with an empty line between them.
fn join(found: &mut Vec<Pattern>, line: Option<&str>) {
    let empty = if ends_with_empty_line(found) {
        found.pop()
    } else {
        None
    };
    if found.last().is_none_or(|last| last.text != ANY) {
        found.push(Pattern {
            text: ANY.to_owned(),
            shown: Vec::new(),
        });
    }
    let lines = empty
        .into_iter()
        .flat_map(|e| e.shown)
        .chain(line.map(str::to_owned));
    found
        .last_mut()
        .expect("the pattern for any lines")
        .shown
        .extend(lines);
}

fn ends_with_empty_line(found: &[Pattern]) -> bool {
    matches!(found, [.., any, empty] if any.text == ANY && empty.text.is_empty())
}

/// Restores the page: puts its own lines in place of the patterns that are left in the text, and keeps new text.
pub fn page(before: Vec<Pattern>, text: &str) -> String {
    let mut page = String::new();
    let mut before = before
        .into_iter()
        .collect::<std::collections::VecDeque<_>>();
    for line in text.lines() {
        let shown = match before.iter().position(|pattern| pattern.text == line) {
            Some(at) => before
                .drain(..=at)
                .next_back()
                .map(|pattern| pattern.shown)
                .unwrap_or_default(),
            None => vec![line.to_owned()],
        };
        page.extend(shown.into_iter().map(|line| line + "\n"));
    }
    page
}

#[test]
fn patterns_stand_for_what_varies_and_give_way_to_it_again() {
    let text = "text\n```console\n$ cvc plan x\npoint  class\n\n2 points are skipped here\n\n36 runs, about 28 s\n\n```\npoint  class\n";
    let expected = [
        "text",
        "```console",
        "$ cvc plan x",
        ANY,
        "[..] runs, about [..]",
        "",
        "```",
        "point  class",
    ];
    let found = patterns("README.md", text);
    assert_eq!(
        found.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(page(found, &expected.join("\n")), text);
    let changed = expected.join("\n").replace("plan x\n", "plan x\nnew\n");
    assert_eq!(
        page(patterns("README.md", text), &changed),
        text.replace("plan x\n", "plan x\nnew\n")
    );

    let text = "```console\n$ cvc doctor\nok  MPI library mpich  4\nok  MPI library openmpi  5\n```\nend\n";
    let expected = [
        "```console",
        "$ cvc doctor",
        ANY,
        "[..]  MPI library mpich [..]",
        ANY,
        "[..]  MPI library openmpi [..]",
        ANY,
        "```",
        "end",
    ];
    let found = patterns("docs/mpi.md", text);
    assert_eq!(
        found.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(page(found, &expected.join("\n")), text);
}
