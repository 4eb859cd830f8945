//! Tests of pages in a browser, as readers open them: nothing is wider than the page, and the page's script works as intended.

use crate::{advice, common, comparison};
use base64::{Engine, prelude::BASE64_STANDARD};
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Document, write_all};
use cvc_testkit::{require, tool::Tool, utf8};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

/// Widths of a phone, a tablet and a screen, CSS pixels.
const WIDTHS: [u32; 3] = [400, 1000, 1600];

/// Opens a page in frames of these widths, and calls a function in each: `probe(document, window)`, in JavaScript, possibly asynchronous. Returns the
/// results.
fn opened(page: &str, widths: &[u32], probe: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a directory");
    let frames: String = widths
        .iter()
        .map(|w| format!("<iframe style=\"border:0;width:{w}px;height:800px\"></iframe>"))
        .collect();
    let html = format!(
        "<!DOCTYPE html><body>{frames}<pre id=\"result\"></pre><script>\n\
         const page = new TextDecoder().decode(Uint8Array.from(atob(\"{}\"), (c) => c.charCodeAt(0)));\n\
         const probe = {probe};\n\
         const one = (frame) => new Promise((done) => {{\n\
           frame.onload = async () => {{\n\
             try {{ done(await probe(frame.contentDocument, frame.contentWindow)); }} catch (e) {{ done({{ error: String(e) }}); }}\n\
           }};\n\
           frame.srcdoc = page;\n\
         }});\n\
         Promise.all([...document.querySelectorAll(\"iframe\")].map(one)).then((found) => {{\n\
           for (const frame of document.querySelectorAll(\"iframe\")) frame.remove();\n\
           document.getElementById(\"result\").textContent = btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(found))));\n\
         }});\n\
         </script></body>",
        BASE64_STANDARD.encode(page)
    );
    let file = dir.path().join("frames.html");
    fs::write(&file, html).expect("a file");
    let output = Command::new(Tool::Chromium.find().expect("Chromium"))
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--dump-dom",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("Chromium starts");
    let (dom, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // violations of the Content-Security-Policy, and exceptions that the script did not catch
    let told: Vec<&str> = log.lines().filter(|l| l.contains(":CONSOLE")).collect();
    assert!(told.is_empty(), "{told:#?}");
    let result = dom
        .split_once("<pre id=\"result\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map(|(result, _)| result)
        .unwrap_or_else(|| panic!("no result\n{log}"));
    let json = BASE64_STANDARD.decode(result).expect("base64");
    serde_json::from_slice(&json).unwrap_or_else(|e| panic!("{e}: {result}\n{log}"))
}

fn page_of(report: &Document) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    write_all(report, utf8(dir.path()), &[Format::Html]).expect("a page");
    fs::read_to_string(dir.path().join("report.html")).expect("a page")
}

fn campaign_page(make: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path());
    page_of(&build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report"))
}

/// Checks that nothing extends beyond the page, and that no part of a legend is hidden, also in parts that are collapsed at first.
fn fits(page: &str) {
    let found = opened(
        page,
        &WIDTHS,
        "async (document, window) => {
           for (const details of document.querySelectorAll('details')) details.open = true;
           await new Promise((next) => setTimeout(next, 50));
           const root = document.documentElement;
           const wide = root.clientWidth;
           const out = (e) => e.getBoundingClientRect().right > wide + 0.5 && !e.parentElement.closest('.scroll, pre');
           return {
             inner: window.innerWidth,
             scroll: root.scrollWidth,
             figures: document.querySelectorAll('figure svg').length,
             out: [...document.querySelectorAll('main *, header *')].filter(out).map((e) => e.outerHTML.slice(0, 120)),
           };
         }",
    );
    for (width, found) in WIDTHS.into_iter().zip(found) {
        let number = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("{found}"));
        assert_eq!(number("inner"), u64::from(width));
        assert!(number("figures") > 0, "{found}");
        assert!(number("scroll") <= u64::from(width), "{width}: {found}");
        assert_eq!(found["out"], Value::Array(Vec::new()), "{width}");
    }
}

#[test]
fn no_page_of_a_campaign_is_wider_than_its_window() {
    require!(Tool::Chromium);
    fits(&campaign_page(|dir| {
        common::campaign(dir);
    }));
    fits(&campaign_page(common::campaign_with_costs));
}

#[test]
fn no_comparison_and_no_advice_is_wider_than_its_window() {
    require!(Tool::Chromium);
    fits(&page_of(&comparison::made()));
    fits(&page_of(&advice::made()));
}

#[test]
fn tables_are_filtered_sorted_and_copied() {
    require!(Tool::Chromium);
    let page = campaign_page(|dir| common::campaign_of(dir, common::many_points()));
    let found = opened(
        &page,
        &[1000],
        "async (document, window) => {
           const copied = [];
           Object.defineProperty(window.navigator, 'clipboard', { value: { writeText: async (text) => { copied.push(text); } } });
           const tables = [...document.querySelectorAll('table')];
           const tools = (table) => table.parentElement.previousElementSibling;
           const table = document.getElementById('points');
           const [input, told] = [tools(table).querySelector('input'), tools(table).querySelector('[aria-live]')];
           const buttons = [...tools(table).querySelectorAll('button')];
           const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
           const type = (text) => { input.value = text; input.dispatchEvent(new window.Event('input')); };
           const press = async (button) => { button.click(); await new Promise((next) => setTimeout(next, 10)); };
           const column = [...table.tHead.rows[0].cells].findIndex((th) => th.className.includes('measured'));
           const keys = () => [...table.tBodies[0].rows].map((row) => row.cells[column].dataset.sort).filter((key) => key !== '').map(Number);
           const sort = table.tHead.rows[0].cells[column].querySelector('button');
           const all = shown().length;
           type('gzip 1NX9p');
           const filtered = shown().map((row) => row.textContent);
           const filteredTold = told.textContent;
           await press(buttons[0]);
           const copiedTold = told.textContent;
           await press(buttons[1]);
           type('');
           const again = shown().length;
           sort.click();
           const up = keys();
           sort.click();
           const down = keys();
           return {
             all, filtered, filteredTold, copiedTold, again, up, down, copied,
             sorted: table.tHead.rows[0].cells[column].getAttribute('aria-sort'),
             filters: tables.every((t) => !!tools(t).querySelector('input') === t.tBodies[0].rows.length > 8),
             labels: buttons.map((b) => b.getAttribute('aria-label')),
             named: input.labels[0].textContent.trim(),
           };
         }",
    )
    .remove(0);
    assert!(found["error"].is_null(), "{found}");
    let count = |name: &str| {
        found[name]
            .as_array()
            .unwrap_or_else(|| panic!("{found}"))
            .len()
    };
    let (all, filtered) = (found["all"].as_u64().expect("a number"), count("filtered"));
    assert!(filtered > 0 && (filtered as u64) < all, "{found}");
    for row in found["filtered"].as_array().expect("rows") {
        let row = row.as_str().expect("a text");
        assert!(row.contains("gzip") && row.contains("1Nx9P"), "{row}");
    }
    assert_eq!(found["filteredTold"], format!("{filtered} of {all} rows"));
    assert_eq!(
        found["copiedTold"],
        format!("{filtered} rows copied as CSV")
    );
    assert_eq!(found["again"], all);
    assert_eq!(found["filters"], true);
    assert_eq!(found["named"], "Filter rows:");
    assert_eq!(found["sorted"], "descending");
    let numbers = |name: &str| -> Vec<f64> {
        let values = found[name].as_array().expect("an array").iter();
        values.map(|v| v.as_f64().expect("a number")).collect()
    };
    let (up, mut down) = (numbers("up"), numbers("down"));
    assert!(up.is_sorted() && up.first() < up.last(), "{up:?}");
    down.reverse();
    assert_eq!(up, down);

    let [csv, latex] = [0, 1].map(|i| {
        found["copied"][i]
            .as_str()
            .unwrap_or_else(|| panic!("{found}"))
    });
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), filtered + 1, "{csv}");
    assert!(lines[0].contains(",wall time (s),"), "{csv}");
    assert!(lines[1..].iter().all(|l| l.contains("gzip")), "{csv}");
    for part in [
        "\\begin{tabular}",
        "\\toprule",
        "\\midrule",
        "\\bottomrule",
        "\\end{table}",
    ] {
        assert_eq!(latex.matches(part).count(), 1, "{latex}");
    }
    assert_eq!(latex.matches("\\\\\n").count(), filtered + 1, "{latex}");
}

#[test]
fn a_copied_table_has_the_ends_of_intervals_in_columns_of_their_own() {
    require!(Tool::Chromium);
    let page = campaign_page(|dir| {
        common::campaign(dir);
    });
    let copied = opened(
        &page,
        &[1000],
        "async (document, window) => {
           const copied = [];
           Object.defineProperty(window.navigator, 'clipboard', { value: { writeText: async (text) => { copied.push(text); } } });
           const table = document.getElementById('points');
           for (const button of table.parentElement.previousElementSibling.querySelectorAll('button')) button.click();
           await new Promise((next) => setTimeout(next, 10));
           return copied;
         }",
    )
    .remove(0);
    let csv = copied[0].as_str().unwrap_or_else(|| panic!("{copied}"));
    let mut lines = csv.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a line");
    let at = head
        .iter()
        .position(|h| *h == "wall time (s)")
        .unwrap_or_else(|| panic!("{csv}"));
    assert_eq!(
        head[at + 1..at + 3],
        ["wall time (s) low", "wall time (s) high"]
    );
    let mut seen = 0;
    for line in lines.filter(|l| !l[at + 1].is_empty()) {
        let [mean, low, high] = [0, 1, 2].map(|i| line[at + i].parse::<f64>().expect(csv));
        assert!(low <= mean && mean <= high, "{csv}");
        seen += 1;
    }
    assert!(seen > 0, "{csv}");
    let latex = copied[1].as_str().expect("a text");
    assert!(
        latex.contains(" [") && latex.contains("]") && !latex.contains("\n  ["),
        "{latex}"
    );
}

/// Returns the page as it is printed, but as a page for a screen: its rules for paper apply everywhere, and its security policy is removed, because
/// it has a digest of the rules.
fn for_paper(page: &str) -> String {
    let (before, rest) = page
        .split_once("<meta http-equiv=\"Content-Security-Policy\"")
        .expect("a policy");
    let (_, after) = rest.split_once('>').expect("the end of the element");
    let page = format!("{before}{after}");
    assert!(page.contains("@media print"));
    page.replace("@media print", "@media all")
}

/// Width of an A4 page in landscape format: 297 mm less the margins, at 96 pixels per inch.
const PAPER: u32 = 1040;

#[test]
fn on_paper_no_column_is_cut_and_headings_of_tables_can_be_repeated() {
    require!(Tool::Chromium);
    let pages = [
        campaign_page(|dir| common::campaign_of(dir, common::many_points())),
        campaign_page(common::campaign_with_costs),
        page_of(&comparison::made()),
    ];
    for page in pages {
        let found = opened(
            &for_paper(&page),
            &[PAPER],
            "async (document, window) => {
               await new Promise((next) => setTimeout(next, 50));
               const style = (e) => window.getComputedStyle(e);
               const tables = [...document.querySelectorAll('table')].filter((t) => t.checkVisibility());
               return {
                 tables: tables.length,
                 cut: tables.filter((t) => t.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((t) => t.id),
                 scrolls: [...document.querySelectorAll('.scroll')].filter((e) => style(e).overflowX !== 'visible').length,
                 sticky: [...document.querySelectorAll('th')].filter((e) => style(e).position !== 'static').length,
                 boxes: [...document.querySelectorAll('th button')].filter((e) => style(e).display !== 'contents').length,
                 heads: tables.filter((t) => style(t.tHead).display !== 'table-header-group').length,
                 alone: [...document.querySelectorAll('h2, h3, p.caption')].filter((e) => style(e).breakAfter !== 'avoid').length,
                 controls: [...document.querySelectorAll('.tools, .hint, nav')].filter((e) => style(e).display !== 'none').length,
               };
             }",
        )
        .remove(0);
        assert!(found["tables"].as_u64() > Some(3), "{found}");
        assert_eq!(found["cut"], Value::Array(Vec::new()), "{found}");
        for name in ["scrolls", "sticky", "boxes", "heads", "alone", "controls"] {
            assert_eq!(found[name], 0, "{name}: {found}");
        }
    }
}

#[test]
fn what_is_wider_than_the_page_says_that_it_scrolls_and_plots_fill_a_wide_page() {
    require!(Tool::Chromium);
    let page = campaign_page(|dir| {
        common::campaign(dir);
    });
    let found = opened(
        &page,
        &WIDTHS,
        "async (document, window) => {
           await new Promise((next) => setTimeout(next, 50));
           const boxes = [...document.querySelectorAll('.scroll')].filter((e) => e.checkVisibility());
           const hint = (box) => {
             let before = box.previousElementSibling;
             if (before.classList.contains('tools')) before = before.previousElementSibling;
             return before.classList.contains('hint') && !before.hidden;
           };
           const row = document.querySelector('.figures').getBoundingClientRect();
           const right = Math.max(...[...document.querySelectorAll('.figures figure')].map((e) => e.getBoundingClientRect().right));
           return {
             wide: boxes.filter((e) => e.scrollWidth > e.clientWidth).length,
             untold: boxes.filter((e) => (e.scrollWidth > e.clientWidth) !== hint(e)).length,
             filled: (right - row.left) / row.width,
           };
         }",
    );
    for (width, found) in WIDTHS.into_iter().zip(&found) {
        assert_eq!(found["untold"], 0, "{width}: {found}");
    }
    assert!(found[0]["wide"].as_u64() > Some(0), "{found:?}");
    let filled = found[2]["filled"].as_f64().expect("a number");
    assert!((0.9..1.001).contains(&filled), "{found:?}");
}
