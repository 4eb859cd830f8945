use super::*;
use crate::predict::PredictError;
use camino::Utf8Path;
use cvc_model::{
    Estimate,
    metadata::{Layout, cost::StorageRates, known::KnownFileSystem},
};

fn question(processes: u32, checkpoints: u64) -> LayoutQuestion {
    LayoutQuestion {
        processes,
        per_node: 16,
        bytes: 1 << 30,
        checkpoints,
        servers: 1,
        rates: StorageRates {
            bytes_s: 100e6,
            operations_s: 500.0,
        },
        interval_s: Some(3600.0),
        keep: 2,
        file_limit: None,
        stripe_bytes: None,
        block_bytes: None,
        dmtcp: None,
    }
}

fn known(name: &str) -> OperationSource {
    OperationSource::Known(KnownFileSystem::from_name(name).expect("known"))
}

fn layout(answer: &LayoutAnswer, of: Layout) -> &LayoutForecast {
    let found = answer.layouts.iter().find(|f| f.layout == of);
    found.expect("the layout")
}

#[test]
fn slides_setting_ranks_delegation_first_and_files_per_process_last() {
    let answer = layout_answer(&known("pvfs2"), &question(128, 9)).expect("an answer");
    let order: Vec<Layout> = answer.layouts.iter().map(|of| of.layout).collect();
    assert_eq!(order[0], Layout::Delegated, "{order:?}");
    assert_eq!(order.last(), Some(&Layout::PerProcess));
    let delegated = layout(&answer, Layout::Delegated);
    assert_eq!(delegated.operations, Estimate::exact(257.0));
    assert_eq!(delegated.files.peak, 1);
    assert_eq!(layout(&answer, Layout::PerProcess).files.peak, 3 * 128);
    // one file for each of 8 nodes has the operations of one file for each of 8 processes
    let per_node = layout(&answer, Layout::PerNode);
    assert_eq!(per_node.operations.value, 37.0 * 8.0);
    assert_eq!(per_node.files.kept, 16);
    // logs are written like files per process
    let log = layout(&answer, Layout::Log);
    assert_eq!(
        log.operations,
        layout(&answer, Layout::PerProcess).operations
    );
    assert_eq!(
        log.notes.last().map(String::as_str),
        Some("written like files per process")
    );
    assert!(
        answer
            .sentence
            .starts_with("delegated needs 257 operations, 5 % of those of per-process"),
        "{}",
        answer.sentence
    );
}

#[test]
fn slides_interval_of_the_number_of_checkpoints_begins_with_two() {
    let mut asked = question(128, 9);
    asked.per_node = 1;
    let answer = layout_answer(&known("pvfs2"), &asked).expect("an answer");
    // with one process on each node, one file for each process and one for each node are the same
    let first = &answer.by_checkpoints[0];
    assert_eq!(
        (first.from, first.layouts.contains(&Layout::Delegated)),
        (1, true)
    );
    assert_eq!(answer.by_checkpoints.len(), 1);
    assert_eq!(
        answer.by_nodes.last().map(|range| range.layouts.clone()),
        Some(vec![Layout::Delegated])
    );
}

#[test]
fn several_servers_leave_only_delegation() {
    let mut asked = question(128, 9);
    asked.servers = 4;
    let answer = layout_answer(&known("pvfs2"), &asked).expect("an answer");
    assert_eq!(answer.layouts.len(), 1);
    assert_eq!(answer.unknown.len(), 5);
    assert_eq!(answer.layouts[0].operations, Estimate::exact(641.0));
}

#[test]
fn a_file_system_that_was_counted_at_other_clients_only_refuses() {
    let error = layout_answer(&known("moosefs"), &question(16, 1)).expect_err("only 8");
    assert!(
        error.to_string().contains("the same number of clients"),
        "{error}"
    );
    assert!(error.hint().expect("a hint").contains("--operations"));
}

const TABLE: &str = "layout,clients,checkpoints,servers,kind,count\n\
    segmented,2,1,1,create,1\nsegmented,2,1,1,open,1\n\
    segmented,4,1,1,create,1\nsegmented,4,1,1,open,3\n\
    segmented,2,3,1,create,3\nsegmented,2,3,1,open,3\n\
    segmented,4,3,1,create,3\nsegmented,4,3,1,open,9\n\
    segmented,8,3,1,create,3\nsegmented,8,3,1,open,21\n\
    per-process,2,1,1,create,2\nper-process,2,1,1,open,0\n\
    per-process,4,1,1,create,4\nper-process,4,1,1,open,0\n\
    per-process,2,3,1,create,6\nper-process,2,3,1,open,0\n\
    per-process,4,3,1,create,12\nper-process,4,3,1,open,0\n\
    per-process,8,3,1,create,24\nper-process,8,3,1,open,0\n";

fn table(text: &str) -> Result<OperationTable, PredictError> {
    parse_operations(Utf8Path::new("counts.csv"), text)
}

#[test]
fn counted_kinds_follow_their_laws_to_other_settings() {
    let source = OperationSource::Counted(table(TABLE).expect("a table"));
    let answer = layout_answer(&source, &question(128, 30)).expect("an answer");
    let segmented = layout(&answer, Layout::Segmented);
    assert_eq!(segmented.operations, Estimate::exact(128.0 * 30.0));
    let kinds: Vec<(&str, f64)> = segmented
        .kinds
        .iter()
        .map(|k| (k.kind.as_str(), k.count))
        .collect();
    assert_eq!(kinds, [("create", 30.0), ("open", 127.0 * 30.0)]);
    assert!(segmented.notes.is_empty(), "{:?}", segmented.notes);
    let per_process = layout(&answer, Layout::PerProcess);
    assert_eq!(per_process.operations, Estimate::exact(128.0 * 30.0));
    assert_eq!(answer.unknown.len(), 2);
}

#[test]
fn unknown_counts_leave_their_setting_out_and_are_reported() {
    let damaged = TABLE.replace("segmented,8,3,1,open,21", "segmented,8,3,1,open,unknown");
    let table = table(&damaged).expect("a table");
    let source = OperationSource::Counted(table);
    let answer = layout_answer(&source, &question(128, 30)).expect("an answer");
    assert_eq!(
        answer.warnings,
        ["segmented at 8 clients and 3 checkpoints is left out: a count is unknown"]
    );
    let segmented = layout(&answer, Layout::Segmented);
    assert_eq!(segmented.operations.value, 128.0 * 30.0);
    // four settings for four terms leave no degrees of freedom
    assert_eq!(segmented.operations.interval, None);
}

#[test]
fn tables_that_were_appended_to_each_other_are_one() {
    let head = TABLE.lines().next().expect("a header");
    let appended = TABLE.replacen("\nper-process", &format!("\n{head}\nper-process"), 1);
    assert_ne!(appended, TABLE);
    let answer = |text: &str| {
        let source = OperationSource::Counted(table(text).expect("a table"));
        let answer = layout_answer(&source, &question(128, 30)).expect("an answer");
        layout(&answer, Layout::PerProcess).operations
    };
    assert_eq!(answer(&appended), answer(TABLE));
}

#[test]
fn wrong_tables_are_refused_with_line_and_hint() {
    let refused = |text: &str| {
        let error = table(text).expect_err(text);
        (error.to_string(), error.hint().expect("a hint").to_owned())
    };
    let head = "layout,clients,checkpoints,servers,kind,count\n";
    let (message, hint) = refused(&format!("{head}segmentd,2,1,1,create,1\n"));
    assert!(
        message.starts_with("counts.csv:2: unknown layout `segmentd`"),
        "{message}"
    );
    assert!(hint.contains("did you mean `segmented`?"), "{hint}");
    for (row, part) in [
        ("segmented,0,1,1,create,1", "`clients` is `0`"),
        ("segmented,2,1,1,create,-1", "`count` is `-1`"),
        ("segmented,2,1,1,,1", "`kind` is empty"),
        (
            "segmented,2,1,1,create,1\nsegmented,2,1,1,create,1",
            "counted twice",
        ),
        (
            "segmented,2,1,1,create,1\nsegmented,4,1,1,open,1",
            "servers has no `",
        ),
        ("segmented,2,1,1,create,unknown", "all counts are unknown"),
    ] {
        let (message, _) = refused(&format!("{head}{row}\n"));
        assert!(message.contains(part), "{row}: {message}");
    }
    assert!(
        refused("layout,clients\n")
            .0
            .contains("`checkpoints` is missing")
    );
    assert!(refused("").0.contains("empty"));
    assert!(refused(head).0.contains("no counts"));
}

#[test]
fn what_the_server_cannot_bear_and_too_many_files_are_said() {
    let mut asked = question(128, 9);
    asked.rates.operations_s = 0.1;
    asked.file_limit = Some(200);
    let answer = layout_answer(&known("pvfs2"), &asked).expect("an answer");
    assert!(
        answer
            .sentence
            .contains("per-process would overload the metadata server;"),
        "{}",
        answer.sentence
    );
    assert!(
        answer
            .sentence
            .ends_with("log, per-process exceed the limit of files"),
        "{}",
        answer.sentence
    );
    assert_eq!(layout(&answer, Layout::PerProcess).files.can_keep, Some(0));
}

/// Returns a table without some of its rows, and a function that returns the sum of a layout's counts by kind at a setting.
fn held_out(text: &str) -> (String, impl Fn(&str, &str) -> f64) {
    let is_kept = |line: &&str| {
        let words: Vec<&str> = line.split(',').collect();
        words.len() < 6 || (words[1] != "8" && words[2] != "9")
    };
    let kept: Vec<&str> = text.lines().filter(is_kept).collect();
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect();
    let count = move |layout: &str, kind: &str| {
        let found = rows.iter().filter(|row| {
            row.len() == 6 && row[0] == layout && row[1] == "8" && row[2] == "9" && row[4] == kind
        });
        found
            .map(|row| row[5].parse::<f64>().expect("a count"))
            .sum()
    };
    (kept.join("\n"), count)
}

#[test]
fn laws_of_measured_file_systems_hold_at_clients_and_checkpoints_that_were_left_out() {
    let tables = [
        (
            "glusterfs",
            include_str!("../../../../experiments/operations-glusterfs.csv"),
            &["create", "open", "close", "sync", "lookup", "setattr"][..],
        ),
        (
            "moosefs",
            include_str!("../../../../experiments/operations-moosefs.csv"),
            &[],
        ),
    ];
    for (name, text, exact) in tables {
        let (kept, counted) = held_out(text);
        let source = OperationSource::Counted(table(&kept).expect("a table"));
        let mut asked = question(8, 9);
        asked.per_node = 1;
        let answer = layout_answer(&source, &asked).expect("an answer");
        for of in answer
            .layouts
            .iter()
            .filter(|of| !matches!(of.layout, Layout::PerNode | Layout::Log))
        {
            let word = of.layout.word();
            let mut total = 0.0;
            for kind in &of.kinds {
                let measured = counted(word, &kind.kind);
                total += measured;
                if exact.contains(&kind.kind.as_str()) {
                    assert_eq!(kind.count, measured, "{name}: {word}: {}", kind.kind);
                }
            }
            let error = (of.operations.value / total - 1.0).abs();
            assert!(
                error < 0.1,
                "{name}: {word}: {} for {total}",
                of.operations.value
            );
        }
    }
}
