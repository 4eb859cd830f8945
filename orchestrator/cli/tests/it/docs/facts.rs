//! What pages state about the code is what the code says: numbers of formats, who may depend on whom, and which record took the place of another.

use super::{all_pages, root};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// A number that pages state, as a pattern around it, and the numbers of the code that it may be.
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

/// What a text states that the code does not.
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
        // what a released version had stays true
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

/// The crates that each crate may depend on, as `cargo xtask layers` has them.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let source = fs::read_to_string(root().join("orchestrator/xtask/src/layers/crates.rs"))
        .expect("the layers");
    let table = source
        .split("const ALLOWED")
        .nth(1)
        .and_then(|rest| rest.split("\n];").next())
        .expect("the table")
        .to_owned();
    let row = Regex::new(r#"\(\s*(?:"(cvc[a-z0-9-]*|xtask)"|TESTKIT),\s*&\[([^\]]*)\],?\s*\)"#)
        .expect("a pattern");
    let short = |name: &str| {
        if name == "cvc" {
            "cli".to_owned()
        } else {
            name.trim_start_matches("cvc-").to_owned()
        }
    };
    let of = |list: &str| list.split('"').skip(1).step_by(2).map(short).collect();
    row.captures_iter(&table)
        .map(|r| {
            (
                short(r.get(1).map_or("cvc-testkit", |name| name.as_str())),
                of(&r[2]),
            )
        })
        .collect()
}

/// The crates in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_record_of_crates_lists_what_they_may_depend_on() {
    let allowed = allowed();
    let record = fs::read_to_string(root().join("docs/design/0006-crates.md")).expect("the record");
    let mut found = BTreeMap::new();
    for row in record.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let mut below: BTreeSet<String> = names(cells[2]).map(str::to_owned).collect();
        if cells[2].ends_with("and below") {
            let direct = below.clone();
            below.extend(
                direct
                    .iter()
                    .flat_map(|name| allowed.get(name).cloned().unwrap_or_default()),
            );
        }
        found.extend(names(cells[0]).map(|name| (name.to_owned(), below.clone())));
    }
    assert_eq!(
        found, allowed,
        "docs/design/0006-crates.md against orchestrator/xtask/src/layers/crates.rs"
    );
}

/// The status of each record, by its file, and the files that it names.
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
