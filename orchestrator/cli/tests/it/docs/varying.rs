//! What differs between machines in the output that pages show. A page shows what one machine printed; before that is compared, patterns take the
//! place of what another one may print: `[..]` within a line, `...` for any lines.

use regex::Regex;

/// Lines that another machine prints differently, more often, or not at all: the page, and what matches them.
const LINES: [(&str, &str); 3] = [
    // which points are skipped depends on what is installed, and the width of columns on the other points
    (
        "README.md",
        r"^(point  |─|[0-9a-f]{8}  |\d+ points? (is|are) skipped|  DMTCP |    - |space of checkpoints)",
    ),
    (
        "docs/quickstart.md",
        r"^(point  |─|[0-9a-f]{8}  |\d+ points? (is|are) skipped|  DMTCP |    - |space of checkpoints)",
    ),
    (
        "docs/doctor.md",
        r"^(    what  |─|(ok|--)  (MPI|compiler|DMTCP|strace|Darshan|DFTracer|make|cc|gzip) |what does not work|  (MPI|compiler|DMTCP|strace|Darshan|DFTracer|timing|make|cc|gzip)\b.*: |    hint: )",
    ),
];

/// Parts of lines that another machine prints differently: the page, what matches them, and the pattern.
const PARTS: [(&str, &str, &str); 12] = [
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
    // how long it takes, and when git has written the states
    (
        "docs/delta.md",
        r"^(state \d+: .* stored, )[0-9.]+ s",
        "$1[..] s",
    ),
    (
        "docs/delta.md",
        r"^(\d+ +)[0-9.]+ s ( *.*) {2}[0-9.]+ s$",
        "$1[..] s $2  [..] s",
    ),
    (
        "docs/delta.md",
        r"^(state .* of the series in )[0-9.]+ s$",
        "$1[..] s",
    ),
    ("docs/delta.md", r"^state( +)after .*", "state$1after [..]"),
    ("docs/delta.md", r"^─+$", "[..]"),
    (
        "docs/doctor.md",
        r"^ok  site local  .*, oversubscription",
        "ok  site local  [..], oversubscription",
    ),
    (
        "docs/doctor.md",
        r"^(ok|--)  timing  .*",
        "[..]  timing  [..]",
    ),
    (
        "docs/mpi.md",
        r"^(ok|--)  MPI library (\w+) .*",
        "[..]  MPI library $2 [..]",
    ),
];

/// Commands of which a page shows some lines only, and says so.
const EXCERPTS: [(&str, &str); 1] = [("docs/mpi.md", "$ cvc doctor")];

/// Matches any lines, also none.
const ANY: &str = "...";

/// A line of a pattern, with the lines of the page in whose place it is.
pub struct Pattern {
    pub text: String,
    shown: Vec<String>,
}

/// What a page looks like on every machine.
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
            // the empty line after any lines is one of them: else they would end at the first one
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

/// Adds a pattern for any lines, or the line to one before, with an empty line between the two.
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

/// The page again: its own lines for the patterns that are left in the text, and what is new.
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
