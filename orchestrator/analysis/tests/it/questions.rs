//! Tests of the questions that a report answers: the overhead of checkpoints, the savings of compression, the effect of a factor, verified restarts.

use crate::common::{MadeRepeat, campaign_measured};
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::outcome::Cause;
use cvc_core::point::{CheckpointerKind, Compression, Moment, Point, TracerKind};
use cvc_core::record::Unit;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Cell, Document, Table, write_all};
use std::{fs, path::Path};

fn point(
    app: &str,
    aggregators: Option<u32>,
    checkpointer: CheckpointerKind,
    compression: Compression,
) -> Point {
    let dmtcp = checkpointer == CheckpointerKind::Dmtcp;
    Point {
        site: "local".to_owned(),
        app: app.to_owned(),
        class: "W".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        checkpointer,
        compression,
        aggregators,
        storage: "run".to_owned(),
        restart_check: dmtcp.then_some(false),
        moment: dmtcp.then_some(Moment::AfterStep(1)),
        tracer: Some(TracerKind::None),
        ..Point::default()
    }
}

/// Returns three repeats around these values: wall time, processor time, and size and time of one checkpoint.
fn repeats(wall_s: f64, cpu_s: f64, checkpoint: Option<(f64, f64)>) -> Vec<MadeRepeat> {
    [0.98, 1.0, 1.02]
        .map(|f| {
            let mut values = vec![
                ("wall_s", wall_s * f, Unit::Seconds),
                ("cpu_user_s", cpu_s * f, Unit::Seconds),
                ("cpu_system_s", 0.5, Unit::Seconds),
            ];
            if let Some((stored, latency_s)) = checkpoint {
                values.extend([
                    ("ckpt_stored_bytes", stored, Unit::Bytes),
                    ("ckpt_latency_s", latency_s, Unit::Seconds),
                ]);
            }
            Ok(values)
        })
        .into()
}

/// Builds the report of BT-IO FULL with two numbers of aggregators, and SIMPLE, which has no aggregators; each without a checkpoint, with one, and
/// with gzip.
fn campaign(dir: &Path) -> Document {
    let mut made = Vec::new();
    for (app, aggregators, wall_s) in [
        ("full", Some(1), 20.0),
        ("full", Some(2), 10.0),
        ("simple", None, 40.0),
    ] {
        let of = |checkpointer, compression| point(app, aggregators, checkpointer, compression);
        made.push((
            of(CheckpointerKind::None, Compression::None),
            repeats(wall_s, 8.0, None),
        ));
        made.push((
            of(CheckpointerKind::Dmtcp, Compression::None),
            repeats(wall_s * 1.25, 9.5, Some((400e6, 2.0))),
        ));
        made.push((
            of(CheckpointerKind::Dmtcp, Compression::Gzip),
            repeats(wall_s * 1.5, 19.5, Some((100e6, 8.0))),
        ));
    }
    // restarted runs end at their checkpoint and have no wall time; one restart failed
    let mut restarted = point("full", Some(1), CheckpointerKind::Dmtcp, Compression::None);
    restarted.restart_check = Some(true);
    let verified = || {
        Ok(vec![
            ("restart_verified", 1.0, Unit::Bool),
            ("restart_to_end_s", 7.5, Unit::Seconds),
            ("cpu_user_s", 2.0, Unit::Seconds),
        ])
    };
    made.push((restarted, vec![verified(), Err(Cause::Restart), verified()]));
    campaign_measured(dir, made);
    build(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a report")
}

fn table<'r>(report: &'r Document, id: &str) -> &'r Table {
    report
        .tables()
        .find(|t| t.id == id)
        .unwrap_or_else(|| panic!("no table {id}"))
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text { text } => text.clone(),
        Cell::Number { value } => format!("{value:.1}"),
        Cell::Measured { summary } => format!("{:.1}", summary.mean),
        Cell::Empty => String::new(),
        other => panic!("{other:?}"),
    }
}

/// Returns the rows of a table that contain these texts.
fn rows<'t>(table: &'t Table, with: &'t [&'t str]) -> Vec<Vec<String>> {
    let shown = table
        .rows
        .iter()
        .map(|row| row.iter().map(text).collect::<Vec<_>>());
    shown
        .filter(|row| with.iter().all(|text| row.iter().any(|cell| cell == text)))
        .collect()
}

/// Returns the answer to a question.
fn said(found: &[(String, String)], name: &str) -> String {
    found
        .iter()
        .find(|(what, _)| what == name)
        .unwrap_or_else(|| panic!("no {name}: {found:?}"))
        .1
        .clone()
}

fn pairs(report: &Document, section: &str) -> Vec<(String, String)> {
    let found = report
        .sections
        .iter()
        .find(|s| s.id == section)
        .expect("a section");
    found
        .blocks
        .iter()
        .filter_map(|b| {
            if let Block::Pairs { pairs } = b {
                Some(pairs.clone())
            } else {
                None
            }
        })
        .flatten()
        .collect()
}

#[test]
fn checkpoints_add_this_much_to_the_wall_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let overhead = table(&report, "overhead");
    // three points, each uncompressed and with gzip; the restarted point ended at its checkpoint
    assert_eq!(overhead.rows.len(), 6);
    let row = &rows(overhead, &["full, uncompressed, 2 aggregators"])[0];
    assert_eq!(row[2..5], ["10.0", "12.5", "25.0"], "{row:?}");
    let found = pairs(&report, "found");
    let said = |name: &str| said(&found, name);
    // no mean over both; the repeats have the same noise
    assert_eq!(
        said("checkpoints by dmtcp, uncompressed, wall time"),
        "+25.0 % (no scatter; 3 points)"
    );
    assert_eq!(
        said("checkpoints by dmtcp, gzip, wall time"),
        "+50.0 % (no scatter; 3 points)"
    );
}

#[test]
fn what_pigz_saves_has_a_table_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let of = |compression| point("full", None, CheckpointerKind::Dmtcp, compression);
    let made = [
        (Compression::None, 400e6, 2.0),
        (Compression::Gzip, 100e6, 8.0),
        (Compression::Pigz, 110e6, 4.0),
    ]
    .map(|(compression, stored, s)| (of(compression), repeats(20.0, 8.0, Some((stored, s)))));
    campaign_measured(dir.path(), made.into());
    let report =
        build(&rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index"))
            .expect("a report");
    for (id, column, ratio) in [
        ("compression", "ckpt_stored_bytes_gzip", "4.0"),
        ("compression-pigz", "ckpt_stored_bytes_pigz", "3.6"),
    ] {
        let table = table(&report, id);
        assert!(table.columns.iter().any(|c| c.id == column), "{id}");
        assert_eq!(rows(table, &[])[0][1], ratio, "{id}");
    }
    let found = pairs(&report, "found");
    assert!(
        said(&found, "pigz instead of uncompressed, checkpoint time").starts_with("× 2.00"),
        "{found:?}"
    );
}

#[test]
fn each_factor_that_was_varied_has_an_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let found = pairs(&report, "found");
    let said = |name: &str| said(&found, name);
    for (what, answer) in [
        (
            "gzip instead of uncompressed, stored size",
            "-75.0 % (no scatter; 3 points)",
        ),
        (
            "gzip instead of uncompressed, checkpoint time",
            "× 4.00 (no scatter; 3 points)",
        ),
        (
            "gzip instead of uncompressed, wall time",
            "+20.0 % (no scatter; 3 points)",
        ),
        (
            "2 aggregators instead of 1 aggregator, stored size",
            "the same",
        ),
        (
            "2 aggregators instead of 1 aggregator, wall time",
            "-50.0 % (no scatter; 3 points)",
        ),
    ] {
        assert_eq!(said(what), answer, "{what}");
    }
    // the terminal output begins with sizes and times
    assert_eq!(
        report.found[0],
        (
            "a checkpoint stores".to_owned(),
            "95 MiB to 381 MiB, by point".to_owned()
        )
    );
    assert!(
        report.found.len() <= 20
            && report
                .found
                .iter()
                .any(|(what, _)| what == "gzip instead of uncompressed, wall time")
    );
}

#[test]
fn growth_and_sites_have_answers_of_their_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut made = Vec::new();
    for (site, overhead) in [("here", 1.1), ("there", 1.6)] {
        for (processes, stored) in [(1, 100e6), (2, 150e6), (4, 250e6)] {
            for checkpointer in [CheckpointerKind::None, CheckpointerKind::Dmtcp] {
                let mut of = point("full", None, checkpointer, Compression::None);
                of.site = site.to_owned();
                of.mapping = format!("1Nx{processes}P").parse().expect("a mapping");
                let with = checkpointer == CheckpointerKind::Dmtcp;
                let wall_s = if with { 10.0 * overhead } else { 10.0 };
                made.push((of, repeats(wall_s, 8.0, with.then_some((stored, 2.0)))));
            }
        }
    }
    campaign_measured(dir.path(), made);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let found = pairs(&build(&index).expect("a report"), "found");
    let said = |name: &str| said(&found, name);
    assert!(
        said("4 processes instead of 1 process, stored size").starts_with("× 2.50 (no scatter; ")
    );
    // the answer is not a mean over the sites
    assert!(said("checkpoints by dmtcp, here, wall time").starts_with("+10.0 %"));
    assert!(said("checkpoints by dmtcp, there, wall time").starts_with("+60.0 %"));
    assert!(said("there instead of here, wall time").starts_with("+20."));
}

#[test]
fn points_that_are_only_restarted_too_are_not_drawn_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut made = Vec::new();
    for processes in [1, 2] {
        for restarted in [false, true] {
            let mut of = point("full", None, CheckpointerKind::Dmtcp, Compression::None);
            of.restart_check = Some(restarted);
            of.mapping = format!("1Nx{processes}P").parse().expect("a mapping");
            made.push((of, repeats(10.0, 8.0, Some((1e8, 2.0)))));
        }
    }
    campaign_measured(dir.path(), made);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let plots: Vec<_> = report
        .sections
        .iter()
        .filter(|s| s.id == "plots")
        .flat_map(|s| &s.blocks)
        .filter_map(|b| match b {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .collect();
    assert!(!plots.is_empty());
    for plot in plots {
        assert_eq!(plot.panels.len(), 1, "{}", plot.title);
        let drawn = plot.panels.iter().chain(&plot.keys);
        assert!(
            !drawn.into_iter().any(|svg| svg.contains("restarted")),
            "{}",
            plot.title
        );
    }
}

#[test]
fn an_overhead_that_no_run_can_show_is_reported_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut restarted = point("full", None, CheckpointerKind::Dmtcp, Compression::None);
    restarted.restart_check = Some(true);
    let ended = || {
        Ok(vec![
            ("ckpt_stored_bytes", 4e8, Unit::Bytes),
            ("restart_to_end_s", 7.5, Unit::Seconds),
        ])
    };
    let made = vec![
        (
            point("full", None, CheckpointerKind::None, Compression::None),
            repeats(10.0, 8.0, None),
        ),
        (restarted, vec![ended(), ended(), ended()]),
    ];
    campaign_measured(dir.path(), made);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let found = pairs(&build(&index).expect("a report"), "found");
    let (_, said) = found
        .iter()
        .find(|(name, _)| name == "checkpoints by dmtcp")
        .expect("an answer");
    assert!(
        said.starts_with(
            "wall time not measured: all runs with checkpoints end at their checkpoint"
        ),
        "{said}"
    );
}

#[test]
fn compression_has_its_ratio_and_its_processor_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let compression = table(&report, "compression");
    assert_eq!(compression.rows.len(), 3);
    for row in rows(compression, &[]) {
        assert_eq!(
            row[1..],
            [
                "4.0",
                "400000000.0",
                "100000000.0",
                "2.0",
                "8.0",
                "10.0",
                "20.0"
            ],
            "{row:?}"
        );
    }
}

#[test]
fn programs_are_compared_although_one_ignores_a_factor() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let effect = &rows(table(&report, "effects"), &["simple", "full", "wall time"])[0];
    // SIMPLE takes two and four times as long as FULL with one and with two aggregators
    assert_eq!(effect[4..7], ["6.0", "18.0", "182.8"], "{effect:?}");
    assert_eq!(effect[9], "larger by 183 %");
    let aggregators = &rows(
        table(&report, "effects"),
        &["2 aggregators", "1 aggregator", "wall time"],
    )[0];
    assert_eq!(
        (aggregators[4].as_str(), aggregators[6].as_str()),
        ("3.0", "-50.0"),
        "{aggregators:?}"
    );
    let none = &rows(
        table(&report, "effects"),
        &["2 aggregators", "1 aggregator", "stored"],
    )[0];
    assert_eq!(none[9], "the same");
    // runs that ended at their checkpoint used less processor time, which is not an effect
    assert!(rows(table(&report, "effects"), &["restarted", "processor time"]).is_empty());
}

#[test]
fn restarts_have_a_headline_and_a_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let found = pairs(&report, "found");
    assert!(
        found.contains(&("restarted and verified".to_owned(), "2 of 3".to_owned())),
        "{found:?}"
    );
    let points = table(&report, "points");
    let column = |id: &str| {
        points
            .columns
            .iter()
            .position(|c| c.id.starts_with(id))
            .unwrap_or_else(|| panic!("no column {id}"))
    };
    let row = rows(points, &["2 of 3"]);
    assert_eq!(row.len(), 1);
    assert_eq!(row[0][column("restart_to_end")], "7.5");
    assert_eq!(rows(points, &[])[0][column("restarted_and_verified")], "");
}

#[test]
fn each_run_is_found_by_its_point() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let directories = table(&report, "run_directories");
    assert_eq!(directories.rows.len(), 30);
    let column = |id: &str| {
        directories
            .columns
            .iter()
            .position(|c| c.id == id)
            .unwrap_or_else(|| panic!("no column {id}"))
    };
    for row in rows(directories, &[]) {
        assert!(
            dir.path().join(&row[column("directory")]).is_dir(),
            "{row:?}"
        );
        assert_eq!(
            row[column("state")] == "failed",
            row[column("directory")].ends_with(".failed-1"),
            "{row:?}"
        );
    }
    let to = Utf8Path::from_path(dir.path())
        .expect("UTF-8")
        .join("report");
    write_all(&report, &to, &Format::ALL).expect("files");
    let csv = fs::read_to_string(to.join("csv/run_directories.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 31);
}

fn warnings(report: &Document) -> Vec<&str> {
    let blocks = report.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .filter_map(|block| {
            if let Block::Warning { text } = block {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn results_that_change_with_time_are_reported_and_drawn() {
    let dir = tempfile::tempdir().expect("a directory");
    // ten repeats, each 2 % slower than the previous one; a second point does the same at another level
    let slower = |wall_s: f64| {
        (0..10)
            .map(|i| Ok(vec![("wall_s", wall_s * 1.02f64.powi(i), Unit::Seconds)]))
            .collect()
    };
    let none = |app: &str| point(app, None, CheckpointerKind::None, Compression::None);
    campaign_measured(
        dir.path(),
        vec![(none("full"), slower(10.0)), (none("simple"), slower(40.0))],
    );
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let warnings = warnings(&report);
    assert!(
        warnings
            .iter()
            .any(|text| text.starts_with("Results drifted: the wall time on local rose by ")),
        "{warnings:?}"
    );
    let drawn = report
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .any(|block| matches!(block, Block::Plot(p) if p.id == "order-wall-s"));
    assert!(drawn);
}

#[test]
fn disturbed_runs_are_flagged_and_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |wall_s: f64, other_cpu: f64, steal: f64| {
        let mib = f64::from(1 << 20);
        Ok(vec![
            ("wall_s", wall_s, Unit::Seconds),
            ("other_cpu_share", other_cpu, Unit::One),
            ("steal_share", steal, Unit::One),
            ("swapped_bytes", 0.99 * mib, Unit::Bytes),
            // without the number of processors it is unknown whether the run's own processes waited for each other
            ("cpu_pressure_share", 0.9, Unit::One),
            // if the processor time of other programs is known, the load before the run is ignored
            ("runnable_before", 50.0, Unit::Count),
        ])
    };
    let quiet = point("full", None, CheckpointerKind::None, Compression::None);
    let noisy = point("simple", None, CheckpointerKind::None, Compression::None);
    let of_quiet = vec![
        run(10.0, 0.049, 0.0),
        run(10.0, 0.01, 0.0),
        run(10.2, 0.01, 0.009),
    ];
    let of_noisy = vec![
        run(10.0, 0.0, 0.0),
        run(15.0, 0.3, 0.02),
        run(10.0, 0.0, 0.0),
    ];
    campaign_measured(dir.path(), vec![(quiet, of_quiet), (noisy, of_noisy)]);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let told = warnings(&report)
        .into_iter()
        .find(|text| text.contains("disturbed"))
        .expect("a warning");
    assert_eq!(
        told,
        "1 run of 6 was disturbed: 2.0 % of processor time went to other virtual machines, 30.0 % of processor time went to other programs. They \
         are included in the numbers below; Outcomes lists them."
    );
    let disturbed = table(&report, "disturbed");
    assert_eq!(disturbed.rows.len(), 1);
    let column = |id: &str| {
        disturbed
            .columns
            .iter()
            .position(|c| c.id == id)
            .unwrap_or_else(|| panic!("no column {id}"))
    };
    let row = &disturbed.rows[0];
    let number = |id: &str| {
        if let Cell::Number { value } = row[column(id)] {
            value
        } else {
            panic!("{id}: {:?}", row[column(id)])
        }
    };
    assert_eq!(text(&row[column("repeat")]), "2");
    assert!(
        (number("time_from_median_pct") - 50.0).abs() < 1e-9
            && (number("other_cpu_share_pct") - 30.0).abs() < 1e-9
    );
    // the run stays in the mean of its point
    let points = table(&report, "points");
    let wall = points
        .columns
        .iter()
        .position(|c| c.id.starts_with("wall_s"))
        .expect("wall times");
    let means: Vec<f64> = points
        .rows
        .iter()
        .map(|row| {
            if let Cell::Measured { summary } = &row[wall] {
                summary.mean
            } else {
                f64::NAN
            }
        })
        .collect();
    assert!(
        means.iter().any(|mean| (mean - 35.0 / 3.0).abs() < 1e-9),
        "{means:?}"
    );
}
