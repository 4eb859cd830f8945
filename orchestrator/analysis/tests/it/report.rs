//! Tests of the way from a campaign's directory to its reports.

use crate::common;
use base64::{Engine, prelude::BASE64_STANDARD};
use cvc_prediction::holdout::rebuild_index;

use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::point::Repeat;
use cvc_core::record::{Unit, names};
use cvc_core::store::StoreError;
use cvc_index::Index;
use cvc_index::error::AnalysisError;
use cvc_show::{Cell, write_all};
use cvc_testkit::utf8;
use sha2::{Digest, Sha256};
use std::{fs, path::Path};

fn page(dir: &Path) -> String {
    let index = rebuild_index(utf8(dir)).expect("an index");
    let report = build(&index).expect("a report");
    write_all(&report, &utf8(dir).join("report"), &[Format::Html]).expect("a page");
    fs::read_to_string(dir.join("report/report.html")).expect("a page")
}

#[test]
fn the_index_holds_what_the_journal_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = common::campaign(dir.path());
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let one = |sql: &str| -> f64 {
        index
            .connection()
            .query_row(sql, [], |r| r.get(0))
            .expect(sql)
    };
    assert_eq!(one("SELECT count(*) FROM points"), 12.0);
    assert_eq!(
        one("SELECT count(*) FROM runs"),
        made.plan.runs.len() as f64
    );
    assert_eq!(
        one(
            "SELECT count(*) FROM runs WHERE state = 'failed' AND cause = 'checkpoint' AND dir LIKE '%.failed-1'"
        ),
        1.0
    );
    assert_eq!(
        one("SELECT count(*) FROM runs WHERE attempts = 2 AND state = 'succeeded'"),
        1.0
    );
    assert_eq!(
        one("SELECT count(*) FROM runs WHERE records = 'damaged'"),
        1.0
    );
    assert_eq!(one("SELECT count(*) FROM excluded"), 1.0);
    let damaged: String = index
        .connection()
        .query_row(
            "SELECT records_detail FROM runs WHERE id = ?",
            [made.damaged.as_str()],
            |r| r.get(0),
        )
        .expect("a run");
    assert!(damaged.starts_with("line "), "{damaged}");
    // The table has a row per run with factors and values, including the campaign's own factor. Warm-ups are included and marked.
    assert_eq!(
        one("SELECT count(*) FROM v_run_values"),
        made.plan.runs.len() as f64
    );
    assert_eq!(one("SELECT DISTINCT user_steps FROM v_run_values"), 20.0);
    assert_eq!(
        one("SELECT count(*) FROM v_run_values WHERE kind = 'warmup' AND wall_s > 100"),
        12.0
    );
    // The total of both kinds of file; the mean of the ranks' zones.
    assert_eq!(
        one(
            "SELECT DISTINCT ckpt_files FROM v_run_values WHERE mapping = '1Nx4P' AND ckpt_files NOT NULL"
        ),
        6.0
    );
    assert_eq!(
        one(
            "SELECT DISTINCT zone_bytes_LB_structural FROM v_run_values WHERE mpi = 'mpich' AND ckpt_files NOT NULL"
        ),
        11.0 * 1048576.0
    );
    // Summaries omit warm-ups, failed runs and damaged records.
    assert_eq!(
        one("SELECT max(max) FROM v_point_summary WHERE quantity = 'wall_s' AND n = 3"),
        one(
            "SELECT max(wall_s) FROM v_run_values WHERE kind = 'measured' AND repeat < 4 AND point != (SELECT id FROM points WHERE seq = 1)"
        )
    );
    assert_eq!(
        one("SELECT count(*) FROM summaries WHERE quantity = 'wall_s' AND n = 2"),
        2.0
    );
    assert_eq!(
        one("SELECT severe_outliers FROM v_point_summary WHERE quantity = 'wall_s' AND n = 7"),
        1.0
    );
}

#[test]
fn the_quantities_of_each_run_are_those_of_all_records_together() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let all = cvc_index::quantity_statement().replace("INSERT INTO quantities", "");
    let rows = |sql: &str| {
        let mut statement = index.connection().prepare(sql).expect("SQL");
        let row = |r: &rusqlite::Row<'_>| {
            Ok((
                r.get::<_, String>(0)?,
                r.get::<_, String>(1)?,
                r.get::<_, String>(2)?,
                r.get::<_, f64>(3)?,
            ))
        };
        statement
            .query_map([], row)
            .expect("rows")
            .collect::<Result<Vec<_>, _>>()
            .expect("rows")
    };
    let stored = rows("SELECT run, quantity, unit, value FROM v_quantities ORDER BY run, quantity");
    assert_eq!(
        stored,
        rows(&format!(
            "SELECT * FROM ({}) ORDER BY run, quantity",
            all.replace("?1", "0").trim_end().trim_end_matches(';')
        ))
    );
    assert!(stored.len() > 500, "{}", stored.len());
}

#[test]
fn rebuilding_changes_nothing_and_needs_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let json =
        |index: &Index| serde_json::to_string(&build(index).expect("a report")).expect("json");
    let first = json(&rebuild_index(utf8(dir.path())).expect("an index"));
    fs::remove_file(dir.path().join("index.sqlite")).expect("an index");
    assert_eq!(
        first,
        json(&rebuild_index(utf8(dir.path())).expect("an index"))
    );
    assert_eq!(
        first,
        json(&Index::open(utf8(dir.path())).expect("an index"))
    );
    let left: Vec<_> = fs::read_dir(dir.path())
        .expect("a directory")
        .flatten()
        .map(|e| e.file_name())
        .filter(|n| n.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_page_needs_no_network_escapes_what_users_write_and_shows_what_failed() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = common::campaign(dir.path());
    let page = page(dir.path());
    // The name of the SVG namespace is not a resource, because no browser loads it.
    let without_namespaces = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for reference in ["http://", "https://", "url(", "@import", "src=", "<link"] {
        assert!(!without_namespaces.contains(reference), "{reference}");
    }
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert"));
    assert!(
        page.contains("checkpoint") && page.contains(&format!("runs/{}.failed-1", made.failed))
    );
    assert!(page.contains("class=\"num bad\" data-sort=\"1\""));
    assert!(page.contains(&format!("runs/{}", made.damaged)) && page.contains("damaged"));
    assert!(page.contains("measured, n &#x3D; 7") && page.contains("class=\"flag severe\""));
    balanced(&page);
}

/// Checks that every opened element is closed, in order.
fn balanced(page: &str) {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if rest.starts_with('!') || rest.starts_with('?') {
            continue;
        }
        // An attribute may contain `>` only if it is quoted.
        let mut quoted = false;
        let end = rest.char_indices().find(|(_, c)| {
            quoted ^= *c == '"';
            *c == '>' && !quoted
        });
        let (end, _) = end.expect("a tag that ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        assert!(
            !name.is_empty(),
            "an unescaped < before: {}",
            tag.chars().take(60).collect::<String>()
        );
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()));
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            if ["script", "style"].contains(&name.as_str()) {
                let close = rest.find(&format!("</{name}>")).expect("an end");
                rest = &rest[close + name.len() + 3..];
            } else {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_format_is_written_and_rows_are_rectangular() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let report = build(&index).expect("a report");
    for table in report.tables() {
        assert!(
            table.rows.iter().all(|r| r.len() == table.columns.len()),
            "{}",
            table.id
        );
    }
    let files = write_all(&report, &utf8(dir.path()).join("report"), &Format::ALL).expect("files");
    for file in [
        "report.html",
        "report.json",
        "report.md",
        "csv/points.csv",
        "csv/statistics.csv",
        "csv/records.csv",
        "csv/failed.csv",
        "csv/excluded.csv",
    ] {
        assert!(
            files.contains(&utf8(dir.path()).join("report").join(file)),
            "{file}"
        );
    }
    let records = fs::read_to_string(dir.path().join("report/csv/records.csv")).expect("records");
    let count: i64 = index
        .connection()
        .query_row("SELECT count(*) FROM records", [], |r| r.get(0))
        .expect("a count");
    assert_eq!(records.lines().count() as i64, count + 1);
    let points = fs::read_to_string(dir.path().join("report/csv/points.csv")).expect("points");
    assert!(points.starts_with("site,app,class,mapping,processes,mpi,checkpointer,compression,aggregators,cb_buffer,storage,restart_check,moment,tracer,user_steps,n,failed,wall_s_n,wall_s_mean"), "{points}");
    // Numbers in full precision are read back unchanged.
    let measured = report.tables().find(|t| t.id == "points").and_then(|t| {
        t.rows[0].iter().find_map(|c| match c {
            Cell::Measured { summary } => Some(summary.mean),
            _ => None,
        })
    });
    assert!(points.contains(&measured.expect("a mean").to_string()));
}

#[test]
fn latex_typesets_whatever_users_write() {
    cvc_testkit::require!(cvc_testkit::Tool::Latex);
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let to = dir.path().join("report");
    write_all(&report, utf8(&to), &[Format::Latex]).expect("files");
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

#[test]
fn what_the_reader_came_for_stands_apart_from_the_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let columns = |id: &str| -> Vec<(String, Option<&str>)> {
        let table = report
            .tables()
            .find(|t| t.id == id)
            .unwrap_or_else(|| panic!("no table {id}"));
        table
            .columns
            .iter()
            .map(|c| (c.id.clone(), c.better))
            .collect()
    };
    let points = columns("points");
    let at = points
        .iter()
        .position(|c| c.0 == "wall_s")
        .expect("wall time");
    let lower = Some("lower is better");
    let main = [
        "wall_s",
        "ckpt_latency_s",
        "ckpt_coordination_s",
        "ckpt_storage_s",
        "ckpt_stored_bytes",
    ]
    .map(|q| (q.to_owned(), lower));
    assert_eq!(points[at..at + 5], main);
    assert_eq!(points[at + 5..], [("ckpt_files".to_owned(), None)]);
    let merits = columns("merits");
    assert!(
        merits.ends_with(&[
            ("io_time_s".to_owned(), lower),
            ("mops_mop_per_s".to_owned(), Some("higher is better"))
        ]),
        "{merits:?}"
    );
    // Figures of merit without a better direction, and quantities that cvc uses internally, are in data files only.
    for (table, part) in [
        ("points", "residual"),
        ("merits", "residual"),
        ("comparison", "residual"),
        ("comparison", "cpu_user_s"),
    ] {
        assert!(
            columns(table).iter().all(|c| !c.0.contains(part)),
            "{table} has {part}"
        );
    }
    let statistics = report
        .tables()
        .find(|t| t.id == "statistics")
        .expect("all quantities");
    let all = serde_json::to_string(&statistics.rows).expect("json");
    assert!(statistics.folded && all.contains("residual") && all.contains("cpu_user_s"));
    assert!(
        plots(&report)
            .iter()
            .all(|p| !p.title.contains("residual") && !p.title.contains("cpu_user"))
    );
}

/// Returns the value of a numeric attribute of the first element of a drawing.
fn number(svg: &str, before: &str) -> f64 {
    let rest = svg
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} in {svg}"))
        .1;
    let digits: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    digits.parse().expect("a number")
}

#[test]
fn each_panel_is_a_drawing_of_its_own_that_stays_readable_on_narrow_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_of(dir.path(), common::many_points());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let all = plots(&report);
    let most = all.iter().map(|p| p.panels.len()).max();
    assert!(most >= Some(3), "{most:?} panels at most");
    for plot in &all {
        for svg in plot.panels.iter().chain(&plot.keys) {
            assert!(
                svg.starts_with("<svg")
                    && svg.matches("<svg").count() == 1
                    && svg.ends_with("</svg>\n"),
                "{svg}"
            );
            let (width, least) = (number(svg, " width=\""), number(svg, "min-width:"));
            assert!(width <= f64::from(plot.width), "{}: {width}", plot.title);
            // font size in CSS pixels when the drawing is at its smallest
            let smallest = svg
                .split("font-size=\"")
                .skip(1)
                .map(|rest| number(rest, "") * least / width)
                .reduce(f64::min)
                .expect("text");
            assert!(smallest >= 9.0, "{}: {smallest}", plot.title);
        }
        // a single series needs no legend
        assert!(plot.keys.len() != 1, "{}", plot.title);
    }
    let page = page(dir.path());
    assert_eq!(page.matches("<div class=\"panels\" ").count(), all.len());
    assert_eq!(
        page.matches("<div class=\"keys\" ").count(),
        all.iter().filter(|p| !p.keys.is_empty()).count()
    );
}

fn plots(report: &cvc_show::Document) -> Vec<&cvc_show::Plot> {
    let blocks = report.sections.iter().flat_map(|s| &s.blocks);
    blocks
        .filter_map(|b| {
            if let cvc_show::Block::Plot(plot) = b {
                Some(plot)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn runs_of_different_software_are_not_averaged_in_silence() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = common::campaign(dir.path());
    let mixed = |report: &cvc_show::Document| -> Vec<usize> {
        let of = |t: &cvc_show::Table| {
            let at = t.columns.iter().position(|c| c.id == "mixed");
            at.map_or(0, |at| {
                t.rows
                    .iter()
                    .filter(|r| !matches!(r[at], Cell::Empty))
                    .count()
            })
        };
        [
            "points",
            "merits",
            "statistics",
            "zones_structural",
            "comparison",
        ]
        .map(|id| report.tables().find(|t| t.id == id).map_or(usize::MAX, of))
        .into()
    };
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    assert_eq!(mixed(&report), [0; 5]);
    assert!(!page(dir.path()).contains("were made under different conditions"));
    let change = |run: &cvc_core::ids::RunId, file: &str, from: &str, to: &str| {
        let path = dir.path().join(format!("runs/{run}/{file}"));
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).expect("a file");
    };
    let run = |point: usize, repeat: Repeat| {
        let found = made
            .plan
            .runs
            .iter()
            .find(|r| r.point == made.plan.points[point].id && r.repeat == repeat);
        &found.expect("a run").id
    };
    // A warm-up is in no mean, and a path differs in every run.
    change(run(0, Repeat::Warmup(1)), "facts.json", "7.7.0", "7.6.0");
    assert!(!page(dir.path()).contains("were made under different conditions"));
    change(
        run(0, Repeat::Measured(2)),
        "facts.json",
        "7.7.0",
        "7.6.0 <b>",
    );
    change(
        run(1, Repeat::Measured(1)),
        "facts.json",
        "\"dmtcp\"",
        "\"other\"",
    );
    let latency = "\"ckpt_latency_s\"";
    let records = fs::read_to_string(dir.path().join(format!(
        "runs/{}/records.jsonl",
        run(2, Repeat::Measured(3))
    )))
    .expect("records");
    let line = records
        .lines()
        .find(|l| l.contains(latency))
        .expect("a latency")
        .to_owned();
    change(
        run(2, Repeat::Measured(3)),
        "records.jsonl",
        &line,
        &line.replace("checkpointer-log", "clock"),
    );
    let page = page(dir.path());
    assert!(
        page.contains("The counted runs of 3 points were made under different conditions"),
        "{}",
        &page[..4000]
    );
    assert!(page.contains("dmtcp.version in 2 points (7.6.0 &lt;b&gt; / 7.7.0 / not recorded)"));
    assert!(page.contains("source of ckpt_latency_s in 1 point (checkpointer-log / clock)"));
    let report = build(&Index::open(utf8(dir.path())).expect("an index")).expect("a report");
    let marks = mixed(&report);
    assert_eq!(marks[..2], [3, 3]);
    assert!(
        marks.iter().all(|n| *n > 0 && *n != usize::MAX),
        "{marks:?}"
    );
    assert!(
        report
            .tables()
            .all(|t| t.rows.iter().all(|r| r.len() == t.columns.len()))
    );
}

#[test]
fn the_title_of_the_campaign_file_is_the_heading() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    for (file, heading) in [
        (
            "[report]\ntitle = \"Sizes & <b>times\"\n",
            "<h1>Sizes &amp; &lt;b&gt;times</h1>\n<p class=\"kind\">made-up</p>",
        ),
        ("[report]\ntitle = \" \"\n", "<h1>made-up</h1>\n<nav"),
        ("[report", "<h1>made-up</h1>\n<nav"),
    ] {
        fs::write(dir.path().join("campaign.toml"), file).expect("a file");
        let page = page(dir.path());
        assert!(
            page.contains(heading),
            "{file}: {:?}",
            page.find("<h1").map(|at| &page[at..at + 120])
        );
        balanced(&page);
    }
}

/// Without its failed points, an application would be drawn over the MPI libraries, while the other applications are drawn over the mapping.
#[test]
fn failed_points_leave_the_axis_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let points = common::many_points()
        .into_iter()
        .filter(|p| p.app != common::HOSTILE && p.aggregators.is_none())
        .collect();
    common::campaign_of(dir.path(), points);
    let plan: cvc_core::plan::Plan =
        serde_json::from_str(&fs::read_to_string(dir.path().join("plan.json")).expect("a plan"))
            .expect("a plan");
    let mut journal = fs::read_to_string(dir.path().join("journal.jsonl")).expect("a journal");
    for (run, planned) in plan.runs.iter().zip(&plan.points) {
        if planned.point.app == "nas-lu" && planned.point.mapping.to_string() != "1Nx4P" {
            let lines = journal.lines().map(|l| {
                if l.contains(run.id.as_str()) {
                    fail(l)
                } else {
                    l.to_owned()
                }
            });
            journal = lines.map(|l| l + "\n").collect();
        }
    }
    fs::write(dir.path().join("journal.jsonl"), journal).expect("a journal");
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let of: Vec<_> = plots(&report)
        .into_iter()
        .filter(|p| p.id.starts_with("zones-") || p.id.starts_with("latency-"))
        .collect();
    assert!(
        of.iter().any(|p| p.title.contains("nas-lu")),
        "{:?}",
        of.iter().map(|p| &p.title).collect::<Vec<_>>()
    );
    for plot in of {
        assert!(
            crate::drawings::all_svg(plot).contains("mapping (nodes"),
            "{}",
            plot.title
        );
    }
}

#[test]
fn sizes_of_images_are_those_of_counted_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = common::campaign(dir.path());
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let mut found = std::collections::BTreeSet::new();
    index
        .each_image_size(names::IMAGE_BYTES, |size| {
            found.insert(size.run);
        })
        .expect("sizes");
    let is_counted = |run: &&cvc_core::plan::PlannedRun| {
        matches!(run.repeat, Repeat::Measured(_)) && run.id != made.failed
    };
    let counted = made.plan.runs.iter().filter(is_counted);
    let all: Vec<&str> = counted.map(|run| run.id.as_str()).collect();
    assert!(!found.is_empty() && found.iter().all(|run| all.contains(&run.as_str())));
}

#[test]
fn warm_ups_that_failed_or_were_repeated_are_in_no_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = common::campaign(dir.path());
    let counts = || {
        let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
        let rows = ["runs", "points"].map(|id| {
            let table = report.tables().find(|t| t.id == id).expect(id);
            format!("{:?}", table.rows)
        });
        let found = report.sections.iter().find(|s| s.id == "found");
        (rows, format!("{:?}", found.expect("a section").blocks[0]))
    };
    let before = counts();
    let mut warm_ups = made
        .plan
        .runs
        .iter()
        .filter(|r| r.repeat == Repeat::Warmup(1));
    let [failed, repeated] = [(); 2].map(|()| warm_ups.next().expect("a warm-up").id.as_str());
    let path = dir.path().join("journal.jsonl");
    let journal = fs::read_to_string(&path).expect("a journal");
    let mut lines: Vec<String> = Vec::new();
    for line in journal.lines() {
        let is_finish = line.contains("\"run-finished\"");
        if is_finish && line.contains(failed) {
            lines.push(fail_by(line, cvc_core::outcome::Cause::Restart));
        } else if is_finish && line.contains(repeated) {
            let second = |line: &str| line.replace("\"attempt\":1", "\"attempt\":2");
            let intended = lines.last().expect("its beginning").clone();
            lines.extend([fail(line), second(&intended), second(line)]);
        } else {
            lines.push(line.to_owned());
        }
    }
    for (number, line) in lines.iter_mut().enumerate() {
        // the last line is incomplete
        if let Ok(mut entry) = serde_json::from_str::<serde_json::Value>(line) {
            entry["seq"] = (number + 1).into();
            *line = entry.to_string();
        }
    }
    fs::write(&path, lines.join("\n")).expect("a journal");
    let index = rebuild_index(utf8(dir.path())).expect("an index");
    let changed: u32 = index
        .connection()
        .query_row(
            "SELECT count(*) FROM runs WHERE kind = 'warmup' AND (state = 'failed' OR attempts = 2)",
            [],
            |r| r.get(0),
        )
        .expect("a count");
    assert_eq!(changed, 2);
    assert_eq!(counts(), before);
}

/// Returns the line of the journal, changed to a failure.
fn fail(line: &str) -> String {
    fail_by(line, cvc_core::outcome::Cause::Checkpoint)
}

fn fail_by(line: &str, cause: cvc_core::outcome::Cause) -> String {
    let mut entry: serde_json::Value = serde_json::from_str(line).expect("a line");
    let failed = serde_json::to_value(cvc_core::outcome::Outcome::Failed {
        cause,
        detail: "made up".to_owned(),
    });
    replace_outcome(&mut entry, &failed.expect("json"));
    entry.to_string()
}

fn replace_outcome(value: &mut serde_json::Value, outcome: &serde_json::Value) {
    if let Some(members) = value.as_object_mut() {
        for (key, member) in members {
            if key == "outcome" {
                *member = outcome.clone()
            } else {
                replace_outcome(member, outcome)
            }
        }
    }
}

/// A line between two MPI libraries would suggest values between them.
#[test]
fn lines_join_only_what_has_an_order() {
    let all = common::many_points();
    let of = |mapping: Option<&str>| -> Vec<_> {
        let fits = |p: &&cvc_core::point::Point| {
            p.app == "nas-bt"
                && p.aggregators.is_none()
                && mapping.is_none_or(|m| p.mapping.to_string() == m)
        };
        all.iter()
            .filter(fits)
            .filter(|p| p.factor("checkpointer").as_deref() == Some("none"))
            .cloned()
            .collect()
    };
    for (points, lines) in [(of(Some("1Nx4P")), false), (of(None), true)] {
        let dir = tempfile::tempdir().expect("a directory");
        common::campaign_of(dir.path(), points);
        let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
        let wall = plots(&report)
            .into_iter()
            .find(|p| p.title.starts_with("Wall time"))
            .expect("a plot");
        assert_eq!(
            crate::drawings::all_svg(wall).contains("stroke-width=\"2\""),
            lines,
            "{}",
            crate::drawings::all_svg(wall)
        );
    }
}

#[test]
fn omissions_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_of(dir.path(), common::many_points());
    let page = page(dir.path());
    assert!(page.contains("The first 200 of ") && page.contains("The first 60 of 90 points"));
}

#[test]
fn the_markdown_is_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    write_all(&report, utf8(dir.path()), &[Format::Markdown]).expect("files");
    insta::assert_snapshot!(fs::read_to_string(dir.path().join("report.md")).expect("markdown"));
}

#[test]
fn the_json_is_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let mut json = serde_json::to_value(&report).expect("json");
    // Keep one table as an example of all, and omit drawings, which are reviewed by eye.
    let sections = json["sections"].as_array_mut().expect("sections");
    let shapes: Vec<String> = sections
        .iter()
        .flat_map(|s| {
            s["blocks"]
                .as_array()
                .into_iter()
                .flatten()
                .map(move |b| (s, b))
        })
        .map(|(s, b)| {
            format!(
                "{} / {} {}",
                s["id"].as_str().unwrap_or(""),
                b["block"].as_str().unwrap_or(""),
                b["id"].as_str().unwrap_or("")
            )
        })
        .collect();
    let mut points = sections
        .iter()
        .flat_map(|s| s["blocks"].as_array().into_iter().flatten())
        .find(|b| b["id"] == "points")
        .expect("points")
        .clone();
    points["rows"].as_array_mut().expect("rows").truncate(1);
    insta::assert_json_snapshot!(serde_json::json!({ "shapes": shapes, "points": points }));
}

#[test]
fn a_campaign_that_never_ran_has_a_report() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    fs::remove_file(dir.path().join("journal.jsonl")).expect("a journal");
    fs::remove_dir_all(dir.path().join("runs")).expect("runs");
    let page = page(dir.path());
    assert!(page.contains("not finished"));
}

#[test]
fn missing_and_damaged_files_are_reported_without_a_panic() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(
        rebuild_index(utf8(dir.path())),
        Err(AnalysisError::Store(StoreError::Io { .. }))
    ));
    let made = common::campaign(dir.path());
    for run in &made.plan.runs {
        let run = dir.path().join(format!("runs/{}", run.id));
        if run.exists() {
            fs::write(run.join("facts.json"), "[1, 2").expect("facts");
            fs::remove_file(run.join("records.jsonl")).expect("records");
        }
    }
    let page = page(dir.path());
    assert!(page.contains("are missing or damaged"));
    let journal = fs::read_to_string(dir.path().join("journal.jsonl")).expect("a journal");
    fs::write(
        dir.path().join("journal.jsonl"),
        journal.replacen("\"seq\":3", "\"seq\":x", 1),
    )
    .expect("a journal");
    match rebuild_index(utf8(dir.path())) {
        Err(AnalysisError::Store(e @ StoreError::Damaged { line: Some(3), .. })) => {
            assert!(e.to_string().contains("journal.jsonl"), "{e}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn campaigns_of_other_shapes_have_reports() {
    let one = common::many_points().split_off(269);
    for points in [Vec::new(), one, common::many_points()] {
        let dir = tempfile::tempdir().expect("a directory");
        let count = points.len();
        common::campaign_of(dir.path(), points);
        let page = page(dir.path());
        balanced(&page);
        assert!(!page.contains("<script>alert"), "{count} points");
        let index = Index::open(utf8(dir.path())).expect("an index");
        let rows: i64 = index
            .connection()
            .query_row("SELECT count(*) FROM v_run_values", [], |r| r.get(0))
            .expect("a count");
        assert_eq!(rows as usize, count);
    }
}

/// Writes the report, in a format, of a campaign whose failed runs printed this text.
fn report_of_hostile(detail: &str, format: Format) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let journal = dir.path().join("journal.jsonl");
    let lines = fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<String> = lines
        .lines()
        .map(|line| {
            // the last line is incomplete
            let Ok(mut entry) = serde_json::from_str::<serde_json::Value>(line) else {
                return line.to_owned();
            };
            if entry["outcome"]["result"] == "failed" {
                entry["outcome"]["detail"] = detail.into();
            }
            entry.to_string()
        })
        .collect();
    fs::write(&journal, lines.join("\n")).expect("writes");
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    write_all(&report, &utf8(dir.path()).join("report"), &[format]).expect("files");
    dir
}

#[test]
fn what_programs_say_is_no_formula_in_tables() {
    for start in ["=", "-", "\t"] {
        let dir = report_of_hostile(&format!("{start}cmd|' /C calc'!A0"), Format::Csv);
        let table = fs::read_to_string(dir.path().join("report/csv/failed.csv")).expect("a table");
        assert!(table.contains(&format!("'{start}cmd|")), "{table}");
        assert!(
            !table.contains(&format!(",{start}cmd|"))
                && !table.contains(&format!(",\"{start}cmd|")),
            "{table}"
        );
    }
    let dir = report_of_hostile("exit code -9", Format::Csv);
    assert!(
        fs::read_to_string(dir.path().join("report/csv/failed.csv"))
            .expect("a table")
            .contains(",exit code -9,")
    );
}

/// Names of factors, facts and figures of merit become headings, and their values become cells.
#[test]
fn no_heading_and_no_cell_is_a_formula() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    for file in ["plan.json", "journal.jsonl"] {
        // the value of the campaign's own factor, and the reason of the exclusion
        let path = dir.path().join(file);
        let text = fs::read_to_string(&path).expect("reads");
        fs::write(
            &path,
            text.replace("\"steps\":20", "\"steps\":\"=cmd|' /C calc'!A0\""),
        )
        .expect("writes");
    }
    for run in fs::read_dir(dir.path().join("runs"))
        .expect("runs")
        .flatten()
    {
        let path = run.path().join("facts.json");
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::write(
            &path,
            text.replacen('{', "{\"=HYPERLINK(1)\": \"@SUM(1)\",", 1),
        )
        .expect("writes");
    }
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let files =
        write_all(&report, &utf8(dir.path()).join("report"), &[Format::Csv]).expect("files");
    let mut inert = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("reads");
        inert += text.matches("'=cmd").count()
            + text.matches("'@SUM").count()
            + text.matches("'=HYPERLINK").count();
        for (i, field) in text.split([',', '\n']).enumerate() {
            let field = field.trim_start_matches('"');
            let is_formula =
                field.starts_with(['=', '+', '-', '@']) && field.parse::<f64>().is_err();
            assert!(!is_formula, "{file}: field {i}: {field}");
        }
    }
    assert!(inert > 0, "the texts are in the tables");
}

#[test]
fn a_page_runs_no_script_but_its_own_and_loads_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let page = page(dir.path());
    let between = |begin: &str, end: &str| {
        let (_, rest) = page.split_once(begin).expect(begin);
        rest.split_once(end).expect(end).0
    };
    let policy = between(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"",
        "\">",
    );
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(
        policy.contains(&format!(
            "script-src 'sha256-{}';",
            hash(between("<script>", "</script>"))
        )),
        "{policy}"
    );
    assert!(
        policy.contains(&format!(
            "style-src 'sha256-{}';",
            hash(between("<style>", "</style>"))
        )),
        "{policy}"
    );
    assert!(
        page.find("Content-Security-Policy") < page.find("<style>"),
        "it holds for what follows it"
    );
    // constructs that a policy without `unsafe-inline` would forbid
    assert!(!page.contains(" onclick=") && !page.contains("javascript:"));
}

#[test]
fn what_steers_a_terminal_is_written_out_in_pages() {
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}txt";
    for (format, name) in [
        (Format::Html, "report.html"),
        (Format::Markdown, "report.md"),
    ] {
        let dir = report_of_hostile(hostile, format);
        let page = fs::read_to_string(dir.path().join("report").join(name)).expect("a page");
        assert!(page.contains(r"\u{1b}]0;owned\u{7}\u{202e}txt"), "{name}");
        assert!(!page.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{name}");
    }
}

#[test]
fn what_programs_say_is_no_link_and_no_image_in_markdown() {
    let dir = report_of_hostile(
        "![i](http://e.x/i.png) [l](javascript:alert) https://e.x www.e.x me@e.x <http://e.x>",
        Format::Markdown,
    );
    let text = fs::read_to_string(dir.path().join("report/report.md")).expect("a report");
    let shown = "![i\\](http\\://e.x/i.png) [l\\](javascript:alert) https\\://e.x www\\.e.x me\\@e.x &lt;http\\://e.x&gt;";
    assert!(text.contains(shown), "{text}");
}

/// A page opens at once in a browser, whatever the number of runs and points; `CVC_REPORT_RUNS` sets the number of runs.
#[test]
fn a_page_of_many_runs_stays_small() {
    let runs: u32 =
        std::env::var("CVC_REPORT_RUNS").map_or(5_000, |n| n.parse().expect("a number"));
    let repeats = 10;
    let made = (0..runs / repeats).map(|i| {
        let point = cvc_core::point::Point {
            site: "box".to_owned(),
            app: "solver".to_owned(),
            class: "S".to_owned(),
            mapping: format!("{}Nx{}P", 1 + i % 64, 1 + i / 64)
                .parse()
                .expect("a mapping"),
            mpi: "mpich".to_owned(),
            checkpointer: cvc_core::point::CheckpointerKind::Dmtcp,
            storage: "run".to_owned(),
            ..Default::default()
        };
        let values = |repeat: u32| {
            let noise = 1.0 + f64::from((i * 31 + repeat * 17) % 101) / 5000.0;
            vec![
                ("wall_s", 100.0 * noise, Unit::Seconds),
                ("ckpt_latency_s", 2.0 * noise, Unit::Seconds),
                ("ckpt_stored_bytes", 1e9 * noise, Unit::Bytes),
            ]
        };
        (
            point,
            (0..repeats).map(|repeat| Ok(values(repeat))).collect(),
        )
    });
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_measured(dir.path(), made.collect());
    let text = page(dir.path());
    assert!(text.len() < 5_000_000, "{} bytes", text.len());
}

#[test]
fn sites_are_series_of_one_plot() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign_with_costs(dir.path());
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let wall: Vec<_> = plots(&report)
        .into_iter()
        .filter(|p| p.id.starts_with("wall-s-"))
        .collect();
    let [plot] = &wall[..] else {
        panic!("{:?}", wall.iter().map(|p| &p.title).collect::<Vec<_>>())
    };
    assert_eq!((plot.panels.len(), plot.keys.len()), (1, 4));
    for site in ["cluster", "c5", "spot", "laptop"] {
        assert!(plot.keys.iter().any(|k| k.contains(site)), "{site}");
        assert!(!plot.title.contains(site), "{}", plot.title);
    }
}

#[test]
fn every_identifier_of_a_page_occurs_once() {
    let dir = tempfile::tempdir().expect("a directory");
    common::campaign(dir.path());
    let page = page(dir.path());
    let all: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
}
