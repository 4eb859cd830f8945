//! Folders of papers: a new one needs no Rust, and what is wrong in one is said with file, line and column.

use cvc_core::campaign::Format;
use cvc_core::source::SourceErrors;
use cvc_paper::paper::{CellVerdict, Measurements, Paper, judge, load, report};
use cvc_show::write_all;
use std::{fmt::Write, fs, path::Path};

const PAPER: &str = r#"schema = 1
id = "small"
title = "A small paper"
authors = ["A. Author"]

[[tables]]
id = "1"
title = "Table 1"
file = "tables/t1.csv"
caption = "Sizes"
columns = [
  { id = "what", heading = "what", kind = "label" },
  { id = "p", heading = "processes", kind = "setting" },
  { id = "each", heading = "each", unit = "MiB", kind = "measured" },
  { id = "all", heading = "all", unit = "MiB", kind = "derived", rule = { name = "product", of = ["p", "each"] } },
]

[[anomaly_cells]]
id = "A1"
table = "1"
rows = { p = "4" }
columns = ["all"]
effect = "wrong"
likely = 8.4
"#;
const TABLE: &str = "what,p,each,all\none,2,1.5,3.0\n\"two, more\",4,2.1,8.0\n";
const ANOMALIES: &str =
    "id,table,cell,printed,likely,why,confidence\nA1,1,all,8.0,8.4,four times 2.1,high\n";

fn written(dir: &Path, paper: &str, table: &str, anomalies: &str) -> Result<Paper, SourceErrors> {
    let folder = dir.join("small");
    fs::create_dir_all(folder.join("tables")).expect("a folder");
    fs::write(folder.join("paper.toml"), paper).expect("written");
    fs::write(folder.join("tables/t1.csv"), table).expect("written");
    fs::write(folder.join("anomalies.csv"), anomalies).expect("written");
    load(&folder)
}

#[test]
fn tables_that_would_have_one_file_in_a_report_are_refused() {
    let table =
        &PAPER[PAPER.find("[[tables]]").expect("a table")..PAPER.find("[[anomaly").expect("cells")];
    for (id, message) in [
        (
            "4-1",
            "the tables `4.1` and `4-1` would have the same file in a report",
        ),
        ("4.1", "the table `4.1` is given twice"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let more = [("4.1"), id].map(|id| table.replace("id = \"1\"", &format!("id = \"{id}\"")));
        let paper = PAPER.replace("[[anomaly", &format!("{}[[anomaly", more.concat()));
        let errors = written(dir.path(), &paper, TABLE, ANOMALIES).expect_err("one file of two");
        let messages: Vec<&str> = errors.0.iter().map(|e| e.message.as_str()).collect();
        assert_eq!(messages, [message]);
    }
}

#[test]
fn a_paper_is_a_folder_and_nothing_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let paper = written(dir.path(), PAPER, TABLE, ANOMALIES).unwrap_or_else(|e| panic!("{e}"));
    let of = judge(&paper, &[], &Measurements::new());
    assert!(matches!(
        of.tables[0].rows[0][3].verdict,
        CellVerdict::Equal { .. }
    ));
    assert!(
        matches!(&of.tables[0].rows[1][3].verdict, CellVerdict::PrintedWrong { likely_value: Some(v), .. } if *v == 8.4)
    );
    let c = of.tables[0].counts;
    assert_eq!(
        (c.judged, c.labels, c.equal, c.wrong, c.cannot),
        (4, 4, 1, 1, 2)
    );
}

#[test]
fn a_wrong_folder_is_refused_with_place_and_hint() {
    let paper = |from: &str, to: &str| {
        (
            PAPER.replacen(from, to, 1),
            TABLE.to_owned(),
            ANOMALIES.to_owned(),
        )
    };
    let table = |text: &str| (PAPER.to_owned(), text.to_owned(), ANOMALIES.to_owned());
    let anomalies = |text: &str| (PAPER.to_owned(), TABLE.to_owned(), text.to_owned());
    let cases = [
        (
            "a column that is missing",
            table("what,p,each\none,2,1.5\n"),
        ),
        (
            "a column too many",
            table("what,p,each,all,new\none,2,1.5,3.0,1\n"),
        ),
        ("a column twice", table("what,p,each,each\none,2,1.5,3.0\n")),
        (
            "a negative size",
            table("what,p,each,all\none,2,-1.5,3.0\n"),
        ),
        (
            "text for a number",
            table("what,p,each,all\none,2,1.5,3.0\ntwo,four,2.1,8.4\n"),
        ),
        (
            "a number that is none",
            table("what,p,each,all\none,2,NaN,3.0\n"),
        ),
        (
            "a comma for a point",
            table("what,p,each,all\none,2,\"1,5\",3.0\n"),
        ),
        ("an empty cell", table("what,p,each,all\none,2,,3.0\n")),
        ("a short line", table("what,p,each,all\none,2,1.5\n")),
        (
            "a quotation mark that stays open",
            table("what,p,each,all\n\"one,2,1.5,3.0\n"),
        ),
        ("no rows", table("what,p,each,all\n")),
        ("an empty file", table("")),
        ("another format", paper("schema = 1", "schema = 9")),
        ("another name", paper("id = \"small\"", "id = \"large\"")),
        ("a misspelt key", paper("authors", "autors")),
        (
            "a rule that does not exist",
            paper("name = \"product\"", "name = \"produkt\""),
        ),
        (
            "a rule on a column that does not exist",
            paper("of = [\"p\", \"each\"]", "of = [\"p\", \"every\"]"),
        ),
        (
            "a rule with too little",
            paper("of = [\"p\", \"each\"]", "of = [\"p\"]"),
        ),
        (
            "a model that does not exist",
            paper(
                "kind = \"measured\"",
                "kind = \"measured\", model = \"zone\"",
            ),
        ),
        (
            "a kind that does not exist",
            paper("kind = \"measured\"", "kind = \"mesured\""),
        ),
        (
            "a tolerance without an amount",
            paper(
                "kind = \"measured\"",
                "kind = \"measured\", tolerance = { because = \"so\" }",
            ),
        ),
        (
            "a file that is missing",
            paper("tables/t1.csv", "tables/t2.csv"),
        ),
        (
            "a misprint in a table that does not exist",
            paper("table = \"1\"", "table = \"2\""),
        ),
        (
            "a misprint in a row that does not exist",
            paper("p = \"4\"", "p = \"5\""),
        ),
        (
            "a misprint in a column that does not exist",
            paper("columns = [\"all\"]", "columns = [\"al\"]"),
        ),
        (
            "text that was meant in a column of numbers",
            paper("likely = 8.4", "likely = \"8.4\""),
        ),
        (
            "a misprint that is not listed",
            paper("id = \"A1\"", "id = \"A2\""),
        ),
        (
            "a misprint twice",
            anomalies(&format!("{ANOMALIES}A1,1,all,8.0,8.4,again,high\n")),
        ),
        (
            "a misprint without a column",
            anomalies("id,table,cell,printed,likely,why\nA1,1,all,8.0,8.4,four times 2.1\n"),
        ),
    ];
    let mut all = String::new();
    for (what, (paper, table, anomalies)) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        let errors = written(dir.path(), &paper, &table, &anomalies)
            .err()
            .unwrap_or_else(|| panic!("{what} is taken"));
        writeln!(all, "# {what}").expect("text");
        for error in &errors.0 {
            let file = error
                .path
                .strip_prefix(dir.path())
                .expect("in the folder")
                .display();
            let place = error
                .position()
                .map(|(line, column)| format!(":{line}:{column}"))
                .unwrap_or_default();
            // the words of the operating system are its own
            let message = error
                .message
                .split(": No such file")
                .next()
                .expect("a text");
            writeln!(
                all,
                "{file}{place}: {message}\n  hint: {}",
                error
                    .hint
                    .as_deref()
                    .unwrap_or_else(|| panic!("no hint: {error}"))
            )
            .expect("text");
        }
    }
    insta::assert_snapshot!(all);
}

fn emitted(dir: &Path, formats: &[Format]) -> camino::Utf8PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers/thesis");
    let paper = load(&folder).unwrap_or_else(|e| panic!("{e}"));
    let to = camino::Utf8PathBuf::from_path_buf(dir.join("report")).expect("text");
    write_all(
        &report(&judge(&paper, &[], &Measurements::new())).expect("a report"),
        &to,
        formats,
    )
    .expect("files");
    to
}

#[test]
fn every_printed_number_and_every_anomaly_is_on_the_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = emitted(dir.path(), &Format::ALL);
    let page = fs::read_to_string(to.join("report.html")).expect("the page");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers/thesis");
    let paper = load(&folder).unwrap_or_else(|e| panic!("{e}"));
    for t in &paper.tables {
        let id = format!("table-{}", t.definition.id.replace('.', "-"));
        let from = page
            .find(&format!("<table id=\"{id}\""))
            .unwrap_or_else(|| panic!("no table {id}"));
        let here = &page[from..page[from..]
            .find("</table>")
            .map_or(page.len(), |end| from + end)];
        assert_eq!(here.matches("<tr>").count(), t.rows().len() + 1, "{id}");
        for cell in t.rows().iter().flatten().filter_map(|c| c.number()) {
            assert!(
                here.contains(&format!(">{}<", cell.text()))
                    || here.contains(&format!(">{} <", cell.text())),
                "{id}: {cell}"
            );
        }
        assert!(to.join("csv").join(format!("{id}.csv")).is_file(), "{id}");
    }
    for anomaly in &paper.anomalies {
        assert!(page.contains(&anomaly.id), "{}", anomaly.id);
    }
    assert!(!to.join("csv/records.csv").exists(), "a paper has no runs");
    let csv = fs::read_to_string(to.join("csv/table-5-3.csv")).expect("a table");
    assert!(
        csv.lines()
            .next()
            .expect("a heading")
            .contains("gstored_nogzip_GiB,gstored_nogzip_GiB_recomputed,"),
        "{csv}"
    );
    assert!(csv.contains(",35.40,"), "zeros at the end are printed, too");
    assert!(
        !csv.contains("0000000"),
        "binary fractions are not shown: {csv}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(to.join("report.json")).expect("JSON"))
            .expect("JSON");
    assert_eq!(json["kind"], "paper");
}

#[test]
fn latex_typesets_the_report() {
    cvc_testkit::require!(cvc_testkit::Tool::Latex);
    let dir = tempfile::tempdir().expect("a directory");
    let to = emitted(dir.path(), &[Format::Latex]);
    let program = cvc_testkit::Tool::Latex.find().expect("required above");
    let mut command = std::process::Command::new(&program);
    if program.ends_with("pdflatex") {
        command.args(["-interaction=nonstopmode", "-halt-on-error"]);
    }
    let finished = command
        .arg("report.tex")
        .current_dir(&to)
        .output()
        .expect("starts");
    let log = String::from_utf8_lossy(&finished.stdout);
    assert!(
        finished.status.success() && to.join("report.pdf").is_file(),
        "{}",
        &log[log.len().saturating_sub(2000)..]
    );
}
