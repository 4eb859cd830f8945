//! What a paper's report is taken for: the list of misprints, all cells for programs, tables for a thesis, the plot.

use crate::common::thesis;
use cvc_core::campaign::Format;
use cvc_index::csv::CsvTable;
use cvc_paper::paper::{
    CellKey, CellVerdict, MeasuredHere, Measurements, judge, known, load, misprints, report,
};
use cvc_show::{Block, Cell, Confidence, Document, Mark, Plot, Table, write_all};
use cvc_testkit::{require, tool::Tool};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers")
}

fn written(report: &Document, format: Format) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let to = camino::Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("text");
    write_all(report, &to, &[format]).expect("files");
    dir
}

/// The reports of all papers of the repository.
fn reports() -> Vec<Document> {
    let of = |name: &String| {
        let paper = load(&papers().join(name)).unwrap_or_else(|e| panic!("{e}"));
        report(&judge(&paper, &[], &Measurements::new())).expect("a report")
    };
    known(&[papers()]).iter().map(of).collect()
}

fn table<'r>(report: &'r Document, id: &str) -> &'r Table {
    let found = report.tables().find(|t| t.id == id);
    found.unwrap_or_else(|| panic!("no table {id}"))
}

/// All values of an attribute of a page.
fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    page.split(&format!(" {name}=\""))
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[test]
fn all_misprints_are_in_one_list_and_link_to_their_cells() {
    let judged = judge(&thesis(), &[], &Measurements::new());
    let list = misprints(&judged);
    let counted: usize = judged.tables.iter().map(|t| t.counts.wrong).sum();
    assert_eq!((list.len(), counted), (40, 40));
    let stored = list
        .iter()
        .find(|m| m.table.id == "5.3")
        .expect("a misprint of Table 5.3");
    assert_eq!(
        (stored.printed, stored.likely, stored.table.page),
        ("47.02", "61.42", Some(125))
    );
    assert_eq!(stored.confidence, Confidence::High);
    assert!(stored.about.contains("processes 64"), "{}", stored.about);
    let made = report(&judged).expect("a report");
    assert_eq!(table(&made, "misprints").rows.len(), 40);
    let dir = written(&made, Format::Html);
    let page = fs::read_to_string(dir.path().join("report.html")).expect("a page");
    let ids: BTreeSet<&str> = attributes(&page, "id").into_iter().collect();
    for cell in &table(&made, "misprints").rows {
        let Cell::Link { to, .. } = &cell[0] else {
            panic!("{cell:?}")
        };
        assert!(ids.contains(to.as_str()), "{to}");
        assert!(page.contains(&format!("<td id=\"{to}\" ")), "{to}");
    }
}

#[test]
fn every_identifier_of_a_page_occurs_once_and_every_link_leads_somewhere() {
    for report in reports() {
        let dir = written(&report, Format::Html);
        let page = fs::read_to_string(dir.path().join("report.html")).expect("a page");
        let all = attributes(&page, "id");
        let ids: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(ids.len(), all.len(), "{}: {all:?}", report.campaign);
        for link in attributes(&page, "href") {
            let to = link.strip_prefix('#').expect("a link into the page");
            assert!(ids.contains(to), "{}: {link}", report.campaign);
        }
    }
}

#[test]
fn one_filter_finds_the_misprints_among_all_cells() {
    let judged = judge(&thesis(), &[], &Measurements::new());
    let dir = written(&report(&judged).expect("a report"), Format::Csv);
    let cells = CsvTable::read(&dir.path().join("csv/cells.csv")).unwrap_or_else(|e| panic!("{e}"));
    let column = |name: &str| {
        let at = cells.head.iter().position(|f| f.text == name);
        at.unwrap_or_else(|| panic!("no column {name}"))
    };
    let all: usize = judged.tables.iter().map(|t| t.counts.judged).sum();
    assert_eq!(cells.rows.len(), all);
    let [verdict, printed, likely] = ["verdict", "printed", "likely"].map(column);
    let wrong: Vec<_> = cells
        .rows
        .iter()
        .filter(|r| r[verdict].text == "misprint")
        .map(|r| (r[printed].text.as_str(), r[likely].text.as_str()))
        .collect();
    assert_eq!(wrong.len(), 40);
    assert!(wrong.contains(&("27.50", "27.69")), "{wrong:?}");
    for name in ["recomputed", "model", "measured"] {
        let at = column(name);
        for row in &cells.rows {
            let digits = row[at].text.chars().filter(char::is_ascii_digit);
            let significant: String = digits.skip_while(|c| *c == '0').collect();
            let significant = significant.trim_end_matches('0');
            assert!(significant.len() <= 17, "{name}: {}", row[at].text);
        }
    }
    let list =
        CsvTable::read(&dir.path().join("csv/misprints.csv")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(list.rows.len(), 40);
}

#[test]
fn pandas_reads_all_cells_and_finds_the_misprints() {
    require!(Tool::Plotting);
    let judged = judge(&thesis(), &[], &Measurements::new());
    let dir = written(&report(&judged).expect("a report"), Format::Csv);
    let program = "import pandas\n\
                   cells = pandas.read_csv('csv/cells.csv', dtype={'printed': str, 'table': str})\n\
                   wrong = cells[cells.verdict == 'misprint']\n\
                   row = wrong[wrong.table == '5.4'].iloc[0]\n\
                   print(len(cells), len(wrong), row.printed, row.likely, cells.recomputed.dtype)";
    let output = Command::new(Tool::Plotting.find().expect("required above"))
        .args(["-c", program])
        .current_dir(dir.path())
        .output()
        .expect("starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "2141 40 27.50 27.69 float64",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_mark_of_a_misprint_says_how_sure_it_is() {
    let made = report(&judge(&thesis(), &[], &Measurements::new())).expect("a report");
    let mut seen = BTreeSet::new();
    for cell in made.tables().flat_map(|t| t.rows.iter().flatten()) {
        if let Cell::Against { against } = cell {
            assert_eq!(against.mark == Mark::Wrong, against.confidence.is_some());
            if against.mark == Mark::Wrong {
                seen.insert(against.symbol());
            }
        }
    }
    let marks = ["\u{2717}", "\u{2717}?"].map(str::to_owned);
    assert_eq!(seen, marks.into());
    assert!(Mark::Wrong.meaning().contains("??"));
}

/// Slides that say 7 % of 6.2 % round: that is no misprint.
#[test]
fn rounded_talk_differs_and_a_sum_that_is_one_off_accuses_nobody() {
    let paper = load(&papers().join("pfs-delegation")).unwrap_or_else(|e| panic!("{e}"));
    let judged = judge(&paper, &[], &Measurements::new());
    let differs = |id: &str| {
        let t = judged.tables.iter().find(|t| t.definition.id == id);
        let cells = t.expect("a table").rows.iter().flatten();
        cells.filter(|c| c.verdict == CellVerdict::Differs).count()
    };
    assert_eq!((differs("claims"), differs("totals")), (4, 1));
    assert!(
        misprints(&judged)
            .iter()
            .all(|m| m.confidence == Confidence::High)
    );
    let a63 = judged
        .anomalies
        .iter()
        .find(|a| a.id == "A63")
        .expect("A63");
    assert!(
        a63.printed.contains("4132") && a63.printed.contains("4133"),
        "{a63:?}"
    );
}

/// Whether braces and environments of a LaTeX file are closed.
fn balanced(text: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for part in text.split('\\').skip(1) {
        if let Some(name) = part
            .strip_prefix("begin{")
            .and_then(|r| r.split('}').next())
        {
            open.push(name);
        } else if let Some(name) = part.strip_prefix("end{").and_then(|r| r.split('}').next())
            && open.pop() != Some(name)
        {
            return false;
        }
    }
    let plain = text
        .replace("\\\\", "")
        .replace("\\{", "")
        .replace("\\}", "");
    let braces = plain.chars().try_fold(0i32, |depth, c| match c {
        '{' => Some(depth + 1),
        '}' if depth > 0 => Some(depth - 1),
        '}' => None,
        _ => Some(depth),
    });
    open.is_empty()
        && braces == Some(0)
        && text.matches("\\begingroup").count() == text.matches("\\endgroup").count()
}

#[test]
fn each_table_is_a_latex_file_with_caption_and_label() {
    let mut labels = BTreeSet::new();
    for report in reports() {
        let dir = written(&report, Format::Latex);
        let main = fs::read_to_string(dir.path().join("report.tex")).expect("a document");
        assert!(balanced(&main), "{main}");
        for table in report.tables().filter(|t| !t.folded) {
            let name = format!("tables/{}", table.id);
            assert!(main.contains(&format!("\\input{{{name}}}")), "{name}");
            let text = fs::read_to_string(dir.path().join(format!("{name}.tex"))).expect("a table");
            assert!(balanced(&text), "{text}");
            for part in [
                "\\caption[",
                "\\toprule",
                "\\endfirsthead",
                "\\endhead",
                "\\end{longtable}",
            ] {
                assert!(text.contains(part), "{name}: {part}");
            }
            assert!(!text.contains("[U+"), "{name} has a sign that LaTeX lacks");
            let label = text
                .split("\\label{tab:")
                .nth(1)
                .and_then(|r| r.split('}').next());
            assert!(
                labels.insert(label.expect("a label").to_owned()),
                "{label:?} twice"
            );
        }
    }
}

#[test]
fn tables_can_be_read_into_a_thesis() {
    require!(Tool::Latex);
    let judged = judge(&thesis(), &["5.3", "5.4"], &Measurements::new());
    let dir = written(&report(&judged).expect("a report"), Format::Latex);
    let document = "\\documentclass[11pt,a4paper]{report}\n\
                    \\usepackage[T1]{fontenc}\\usepackage[utf8]{inputenc}\n\
                    \\usepackage{booktabs,longtable,array,textcomp,amssymb}\n\
                    \\begin{document}\\listoftables\\chapter{Results}\n\
                    See Table~\\ref{tab:thesis-table-5-3}.\n\
                    \\input{tables/table-5-3}\\input{tables/table-5-4}\n\\end{document}\n";
    fs::write(dir.path().join("mine.tex"), document).expect("written");
    let program = Tool::Latex.find().expect("required above");
    let mut log = String::new();
    // twice: the list of tables and the reference are known then
    for _ in 0..2 {
        let mut command = Command::new(&program);
        if program.ends_with("pdflatex") {
            command.args(["-interaction=nonstopmode", "-halt-on-error"]);
        }
        let output = command
            .arg("mine.tex")
            .current_dir(dir.path())
            .output()
            .expect("starts");
        log = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{log}");
    }
    assert!(!log.contains("undefined"), "{log}");
    assert!(dir.path().join("mine.pdf").is_file());
}

#[test]
fn one_table_brings_only_what_belongs_to_it() {
    let judged = judge(&thesis(), &["5.3"], &Measurements::new());
    let names: Vec<&str> = judged.anomalies.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(names, ["A34"]);
    assert!(judged.notes.is_empty());
    let made = report(&judged).expect("a report");
    assert!(made.sections.iter().all(|s| s.id != "text"));
}

fn plot(report: &Document) -> Option<&Plot> {
    let blocks = report.sections.iter().flat_map(|s| &s.blocks);
    blocks
        .filter_map(|b| match b {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .next()
}

#[test]
fn what_is_held_against_print_is_drawn_over_print() {
    let paper = thesis();
    let without = report(&judge(&paper, &[], &Measurements::new())).expect("a report");
    let drawn = plot(&without).expect("a plot");
    // recomputed, and another model
    assert_eq!(drawn.keys.len(), 2);
    assert!(drawn.panels.len() > 3 && drawn.panels[0].contains("MiB"));
    let measured = MeasuredHere {
        campaigns: Vec::new(),
        value: 110.2,
        n: 3,
        sd: Some(0.1),
        from: "made up".into(),
        tolerance_pct: 1.0,
        reason: None,
    };
    let measurements = Measurements::from([(CellKey::new("5.1", 0, "dtapp_MiB"), measured)]);
    let with = report(&judge(&paper, &[], &measurements)).expect("a report");
    assert_eq!(plot(&with).expect("a plot").keys.len(), 3);
    // nothing is drawn where nothing can be compared
    let delta = reports().into_iter().find(|r| r.campaign == "delta");
    assert!(plot(&delta.expect("delta")).is_none());
}

#[test]
fn columns_that_have_nothing_are_not_shown_and_stay_in_data_files() {
    let made = report(&judge(&thesis(), &[], &Measurements::new())).expect("a report");
    let columns = |shown: bool| -> Vec<&str> {
        let columns = table(&made, "summary").columns.iter();
        columns
            .filter(|c| c.data_only != shown)
            .map(|c| c.heading.as_str())
            .collect()
    };
    assert!(columns(true).contains(&"misprint"));
    assert_eq!(
        columns(false),
        ["measured here", "of these agree", "differ, known why"]
    );
}
