//! Tests that statements of the pages agree with the code: versions of formats, dependencies of crates, and which design records replaced others.

use super::{all_pages, root};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Returns the numbers that pages state: a pattern around each, and the values that the code has.
fn numbers() -> [(&'static str, Vec<u32>); 3] {
    [
        (
            r"(?i)(?:index has schema|version of\s+the\s+schema, currently) (\d+)",
            vec![cvc_index::SCHEMA],
        ),
        (
            r"(?i)(?:format of journals is|journals? (?:has|have) (?:the )?format) (\d+)",
            vec![cvc_journal::FORMAT],
        ),
        (
            r"(?i)protocol(?:'s number)?(?: has version| is version| version| is)? (\d+)",
            vec![cvc_agent::PROTOCOL, cvc_probe::sentinel::PROTOCOL],
        ),
    ]
}

/// Returns the statements of a text that disagree with the code.
fn wrong_numbers(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pattern, right) in numbers() {
        for stated in Regex::new(pattern).expect("a pattern").captures_iter(text) {
            if !stated[1].parse().is_ok_and(|n| right.contains(&n)) {
                wrong.push(format!("`{}`, but the code has {right:?}", &stated[0]));
            }
        }
    }
    wrong
}

#[test]
fn numbers_of_formats_and_protocols_on_pages_are_those_of_the_code() {
    let mut stated = 0;
    for (page, text) in all_pages() {
        // statements about released versions stay valid
        let text = text.split("\n## 0.").next().unwrap_or_default();
        assert_eq!(
            wrong_numbers(text),
            Vec::<String>::new(),
            "{}",
            page.display()
        );
        stated += numbers()
            .iter()
            .map(|(pattern, _)| {
                Regex::new(pattern)
                    .expect("a pattern")
                    .find_iter(text)
                    .count()
            })
            .sum::<usize>();
    }
    assert!(
        stated >= 3,
        "the pages state {stated} numbers; do the patterns still find them?"
    );
}

#[test]
fn wrong_numbers_are_found_wherever_the_line_breaks() {
    let text = "The version of\nthe schema, currently 999, and journals have format 999. The agent's protocol has version 999.";
    assert_eq!(wrong_numbers(text).len(), 3, "{:?}", wrong_numbers(text));
    let right = format!(
        "The index has schema {}. The protocol is {}.",
        cvc_index::SCHEMA,
        cvc_agent::PROTOCOL
    );
    assert_eq!(wrong_numbers(&right), Vec::<String>::new());
}

/// Returns the names of crates in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_map_says_what_each_crate_is_for() {
    let map = fs::read_to_string(root().join("docs/architecture.md")).expect("the map");
    let rows = map.lines().filter(|line| line.starts_with("| `"));
    let described: BTreeSet<&str> = rows.flat_map(names).collect();
    let crates = fs::read_dir(root().join("orchestrator")).expect("the crates");
    for folder in crates {
        let name = folder.expect("a crate").file_name();
        let name = name.to_str().expect("a name");
        assert!(described.contains(name), "docs/architecture.md: {name}");
    }
}

/// Returns the status of each design record by its file, and the files that it names.
fn statuses() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let link = Regex::new(r"\]\((\d{4}-[a-z-]+\.md)\)").expect("a pattern");
    let records = all_pages()
        .into_iter()
        .filter(|(page, _)| page.parent().is_some_and(|d| d.ends_with("design")));
    let named = records.map(|(page, text)| {
        (
            page.file_name()
                .and_then(|n| n.to_str())
                .expect("a name")
                .to_owned(),
            text,
        )
    });
    let status = |text: &str| {
        text.split("\n\n")
            .find(|part| part.starts_with("Status: "))
            .unwrap_or_default()
            .replace('\n', " ")
    };
    let others = |status: &str| {
        link.captures_iter(status)
            .map(|l| l[1].to_owned())
            .collect()
    };
    named
        .filter(|(name, _)| name != "README.md")
        .map(|(name, text)| (name, status(&text)))
        .map(|(n, s)| (n, (s.clone(), others(&s))))
        .collect()
}

#[test]
fn a_record_that_another_one_overrides_says_so_and_so_does_the_list() {
    let list = fs::read_to_string(root().join("docs/design/README.md")).expect("the list");
    let statuses = statuses();
    for (name, (status, others)) in &statuses {
        let overridden = ["superseded", "withdrawn"]
            .into_iter()
            .find(|word| status.contains(word));
        assert!(
            overridden.is_some() || status.starts_with("Status: accepted"),
            "{name}: unknown status: {status}"
        );
        for other in others {
            let (_, back) = statuses
                .get(other)
                .unwrap_or_else(|| panic!("{name}: no record {other}"));
            assert!(
                back.contains(name),
                "the status of {name} names {other}, whose status does not name {name}"
            );
        }
        assert!(
            overridden.is_none() || !others.is_empty(),
            "{name}: {status}; hint: link to the record that took its place"
        );
        let row = list
            .lines()
            .find(|line| line.contains(&format!("({name})")))
            .unwrap_or_else(|| panic!("the list lacks {name}"));
        assert!(
            overridden.is_none_or(|word| row.contains(word)),
            "the list does not say that {name} is {overridden:?}"
        );
    }
    assert!(
        statuses
            .values()
            .filter(|(_, others)| !others.is_empty())
            .count()
            >= 3,
        "the rejections of record 8 are superseded by record 10"
    );
}
