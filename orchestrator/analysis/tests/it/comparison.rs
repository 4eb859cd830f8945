//! Tests of comparisons of two sides: equal points, differences in the environment, and verdicts.

use crate::common::{MadeRepeat, campaign_measured};
use crate::drawings::all_svg;
use camino::Utf8Path;
use cvc_analysis::comparison::{
    ComparedRow, Outcome, Side, SideComparison, compare_sides, comparison_report,
};
use cvc_core::campaign::Format;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::record::Unit;
use cvc_index::Index;
use cvc_show::{Block, Document, write_all};
use std::{fs, path::Path};

fn point(site: &str, mapping: &str, checkpointer: CheckpointerKind) -> Point {
    Point {
        site: site.to_owned(),
        app: "solver".to_owned(),
        class: "S".to_owned(),
        mapping: mapping.parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        checkpointer,
        storage: "run".to_owned(),
        ..Point::default()
    }
}

/// Returns repeats with these wall times and, if given, checkpoints of this size in this number of files.
fn runs(walls_s: &[f64], checkpoint: Option<(f64, f64)>) -> Vec<MadeRepeat> {
    walls_s
        .iter()
        .map(|wall_s| {
            let mut values = vec![("wall_s", *wall_s, Unit::Seconds)];
            if let Some((mib, files)) = checkpoint {
                values.extend([
                    ("ckpt_stored_bytes", mib * 1_048_576.0, Unit::Bytes),
                    ("ckpt_storage_s", wall_s / 50.0, Unit::Seconds),
                    ("ckpt_files", files, Unit::Count),
                ]);
            }
            Ok(values)
        })
        .collect()
}

fn index(dir: &Path) -> Index {
    Index::in_temporary_file(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index")
}

fn side(name: &str, made: Vec<(Point, Vec<MadeRepeat>)>) -> Side {
    let dir = tempfile::tempdir().expect("a directory");
    campaign_measured(dir.path(), made);
    Side::of_campaign(name, &index(dir.path())).expect("a side")
}

fn rows<'c>(comparison: &'c SideComparison, quantity: &str) -> Vec<&'c ComparedRow> {
    comparison
        .rows
        .iter()
        .filter(|row| row.quantity == quantity)
        .collect()
}

const NONE: CheckpointerKind = CheckpointerKind::None;
const DMTCP: CheckpointerKind = CheckpointerKind::Dmtcp;

/// Returns a cluster, and a cloud that takes half the time, scatters less, and at one mapping stores a little more and one file more.
fn cluster_and_cloud() -> (Side, Side) {
    let cluster = side(
        "cluster",
        vec![
            (
                point("cluster", "2Nx2P", NONE),
                runs(&[100.0, 104.0, 97.0, 101.0], None),
            ),
            (
                point("cluster", "2Nx2P", DMTCP),
                runs(&[110.0, 113.0, 108.0, 111.0], Some((400.0, 6.0))),
            ),
            (
                point("cluster", "4Nx1P", NONE),
                runs(&[80.0, 83.0, 79.0], None),
            ),
            (point("cluster", "8Nx1P", NONE), runs(&[70.0, 71.0], None)),
        ],
    );
    let cloud = side(
        "cloud",
        vec![
            (
                point("cloud", "2Nx2P", NONE),
                runs(&[50.0, 50.2, 49.9, 50.1], None),
            ),
            (
                point("cloud", "2Nx2P", DMTCP),
                runs(&[50.6, 50.8, 50.5, 50.7], Some((404.0, 7.0))),
            ),
            (
                point("cloud", "4Nx1P", NONE),
                runs(&[81.0, 79.0, 83.5], None),
            ),
        ],
    );
    (cluster, cloud)
}

#[test]
fn equal_points_of_two_sides_are_compared_quantity_by_quantity() {
    let (cluster, cloud) = cluster_and_cloud();
    let found = compare_sides(&cluster, &cloud, 0.02);
    assert_eq!(found.pairs, 3);
    let walls = rows(&found, "wall_s");
    assert_eq!(walls[0].outcome, Outcome::Smaller, "{}", walls[0].words);
    assert!(
        walls[0]
            .change_pct
            .is_some_and(|pct| (pct + 50.2).abs() < 0.1)
    );
    assert!(
        walls[0].words.starts_with("smaller by 50.2 ± "),
        "{}",
        walls[0].words
    );
    assert!(
        matches!(walls[2].outcome, Outcome::CannotTell { more_repeats: Some(more) } if more > 1),
        "{}",
        walls[2].words
    );
    // a difference of 1 % without scatter is within the margin of 2 %
    let stored = rows(&found, "ckpt_stored_bytes");
    assert_eq!(stored[0].outcome, Outcome::Same, "{}", stored[0].words);
    let files = rows(&found, "ckpt_files");
    assert_eq!(
        (files[0].outcome.clone(), files[0].words.as_str()),
        (Outcome::Unequal, "not equal: 6 and 7")
    );
    // checkpoints add 10 % on the cluster, and 1.2 % in the cloud
    let overhead = rows(&found, "wall_with_over_without");
    assert_eq!(overhead.len(), 1);
    assert!(
        (overhead[0].first.mean - 1.0996).abs() < 1e-3,
        "{overhead:?}"
    );
    assert_eq!(
        overhead[0].outcome,
        Outcome::Smaller,
        "{}",
        overhead[0].words
    );
    // 400 MiB in 110 / 50 s
    let bandwidth = rows(&found, "ckpt_bandwidth_mib_per_s");
    assert!(
        (bandwidth[0].first.mean - 181.0).abs() < 0.5,
        "{bandwidth:?}"
    );
    assert!(found.differs() && found.is_worse() && found.is_undecided());
    assert_eq!(found.unmatched.len(), 1);
    assert_eq!(
        (
            found.unmatched[0].side.as_str(),
            found.unmatched[0].why.as_str()
        ),
        ("cluster", "cloud has no such point")
    );
}

#[test]
fn the_answers_say_how_much_slower_how_variable_and_what_checkpoints_add() {
    let (cluster, cloud) = cluster_and_cloud();
    insta::assert_snapshot!(compare_sides(&cluster, &cloud, 0.02).answers.join("\n"));
}

#[test]
fn a_side_is_the_same_as_itself_and_only_what_is_asked_for_is_compared() {
    let (cluster, _) = cluster_and_cloud();
    let found = compare_sides(&cluster, &cluster, 0.05);
    assert!(!found.differs() && found.environment.is_empty());
    let stored = found
        .clone()
        .only(&["ckpt_stored_bytes".to_owned()])
        .expect("it is compared");
    assert!(stored.rows.iter().all(|row| row.outcome == Outcome::Same) && !stored.rows.is_empty());
    assert_eq!(
        found
            .only(&["no_such".to_owned()])
            .expect_err("unknown")
            .to_string(),
        "`no_such` is not measured on both sides"
    );
}

#[test]
fn two_campaigns_that_differ_in_one_version_differ_in_exactly_that_line() {
    let made = || vec![(point("lab", "2Nx2P", NONE), runs(&[10.0, 10.1, 9.9], None))];
    let (before, after) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    campaign_measured(before.path(), made());
    campaign_measured(after.path(), made());
    for entry in fs::read_dir(after.path().join("runs")).expect("runs") {
        let facts = entry.expect("a run").path().join("facts.json");
        let text = fs::read_to_string(&facts).expect("facts");
        assert!(text.contains("9.9.1"), "{text}");
        fs::write(&facts, text.replace("9.9.1", "9.9.2")).expect("facts");
    }
    let sides = [before.path(), after.path()]
        .map(|dir| Side::of_campaign("lab", &index(dir)).expect("a side"));
    let found = compare_sides(&sides[0], &sides[1], 0.05);
    let told: Vec<String> = found
        .environment
        .iter()
        .map(|d| {
            format!(
                "{}: {} -> {}",
                d.what,
                d.first.join(";"),
                d.second.join(";")
            )
        })
        .collect();
    assert_eq!(told, ["mpi.version: 9.9.1 -> 9.9.2"]);
}

#[test]
fn a_factor_with_one_level_on_each_side_is_part_of_the_environment() {
    let of = |mpi: &str| {
        let mut point = point("lab", "2Nx2P", NONE);
        point.mpi = mpi.to_owned();
        side(mpi, vec![(point, runs(&[10.0, 10.1, 9.9], None))])
    };
    let found = compare_sides(&of("mpich"), &of("openmpi"), 0.05);
    assert_eq!((found.pairs, found.unmatched.len()), (1, 0));
    assert_eq!(
        (
            found.environment[0].first.as_slice(),
            found.environment[0].second.as_slice()
        ),
        (
            ["mpich".to_owned()].as_slice(),
            ["openmpi".to_owned()].as_slice()
        )
    );
}

#[test]
fn sites_of_one_campaign_are_sides_and_a_point_on_two_sites_is_of_neither() {
    let made =
        ["a", "b", "c"].map(|site| (point(site, "2Nx2P", NONE), runs(&[10.0, 10.5, 9.9], None)));
    let whole = side("all", made.into());
    assert_eq!(whole.sites(), ["a", "b", "c"]);
    let [a, b] = ["a", "b"].map(|site| whole.of_site(site, site).expect("a site"));
    assert_eq!(compare_sides(&a, &b, 0.05).pairs, 1);
    assert!(whole.of_site("d", "d").is_none());
    let found = compare_sides(&whole, &a, 0.05);
    assert_eq!(found.pairs, 0);
    assert!(
        found
            .unmatched
            .iter()
            .all(|u| u.why.contains("name one site"))
    );
    assert!(found.answers[0].contains("there is no comparison"));
}

/// Returns a report for other tests.
pub fn made() -> Document {
    let (cluster, cloud) = cluster_and_cloud();
    comparison_report(&compare_sides(&cluster, &cloud, 0.02)).expect("drawings")
}

#[test]
fn a_comparison_is_written_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = Utf8Path::from_path(dir.path()).expect("UTF-8");
    let report = made();
    let files = write_all(&report, to, &Format::ALL).expect("a report");
    assert!(
        files
            .iter()
            .any(|file| file.ends_with("csv/points_wall_s.csv")),
        "{files:?}"
    );
    let page = fs::read_to_string(to.join("report.html")).expect("a page");
    assert!(page.contains("cloud against cluster") && page.contains("smaller by 50.2"));
}

#[test]
fn wall_times_and_stored_bytes_are_drawn_side_by_side() {
    let report = made();
    let plots: Vec<_> = report
        .sections
        .iter()
        .flat_map(|s| &s.blocks)
        .filter_map(|b| match b {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .collect();
    let ids: Vec<&str> = plots.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids, ["sides-wall-s", "sides-ckpt-stored-bytes"]);
    let (cluster, cloud) = cluster_and_cloud();
    let compared = compare_sides(&cluster, &cloud, 0.02);
    for (plot, quantity) in plots.iter().zip(["wall_s", "ckpt_stored_bytes"]) {
        let rows = rows(&compared, quantity);
        let svg = all_svg(plot);
        // a circle and a triangle for each pair, each with its name
        assert_eq!(svg.matches("<circle").count(), rows.len(), "{quantity}");
        assert_eq!(svg.matches("<polygon").count(), rows.len(), "{quantity}");
        assert!(rows.iter().all(|row| svg.contains(&row.at)), "{quantity}");
        assert!(
            plot.caption.contains("cluster (circles)")
                && plot.caption.contains("cloud (triangles)"),
            "{}",
            plot.caption
        );
        for value in rows.iter().flat_map(|r| [&r.first, &r.second]) {
            let interval = value.interval.expect("an interval of repeats");
            assert!(interval.low <= value.mean && value.mean <= interval.high);
        }
    }
}

#[test]
fn zero_and_zero_are_the_same() {
    let idle = |name: &str, bytes: f64| {
        let values = |wall_s: f64| {
            Ok(vec![
                ("wall_s", wall_s, Unit::Seconds),
                ("ckpt_stored_bytes", bytes, Unit::Bytes),
            ])
        };
        side(
            name,
            vec![(
                point(name, "2Nx2P", DMTCP),
                [50.0, 50.2, 49.9].map(values).into(),
            )],
        )
    };
    let stored = |a: f64, b: f64| {
        let comparison = compare_sides(&idle("one", a), &idle("two", b), 0.05);
        let row = rows(&comparison, "ckpt_stored_bytes")[0].clone();
        (row.outcome, row.words)
    };
    assert_eq!(
        stored(0.0, 0.0),
        (Outcome::Same, "the same: zero".to_owned())
    );
    // a value on one side only is not the same
    assert!(!matches!(
        stored(0.0, 5.0).0,
        Outcome::Same | Outcome::Equal
    ));
}

#[test]
fn what_equal_names_stand_for_is_listed_where_it_differs() {
    let with = |name: &str, facts: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        campaign_measured(
            dir.path(),
            vec![(point(name, "2Nx2P", NONE), runs(&[50.0, 51.0], None))],
        );
        for run in fs::read_dir(dir.path().join("runs")).expect("runs") {
            let path = run.expect("a run").path().join("facts.json");
            fs::write(path, facts).expect("facts");
        }
        Side::of_campaign(name, &index(dir.path())).expect("a side")
    };
    let small = with(
        "small",
        r#"{"cvc": "1", "workload": {"solver.S": {"args": "--grid {{w.grid}}", "grid": 64}}}"#,
    );
    let large = with(
        "large",
        r#"{"cvc": "1", "workload": {"solver.S": {"args": "--grid {{w.grid}} --fast", "grid": 96, "steps": 10}}}"#,
    );
    let listed: Vec<(String, String, String)> = compare_sides(&small, &large, 0.05)
        .environment
        .into_iter()
        .filter(|d| d.what.starts_with("workload."))
        .map(|d| (d.what, d.first.join("|"), d.second.join("|")))
        .collect();
    let of = |what: &str, first: &str, second: &str| {
        (
            format!("workload.solver.S.{what}"),
            first.to_owned(),
            second.to_owned(),
        )
    };
    assert_eq!(
        listed,
        [
            of("args", "--grid {{w.grid}}", "--grid {{w.grid}} --fast"),
            of("grid", "64", "96"),
            of("steps", "not recorded", "10"),
        ]
    );
    // no facts are listed about a program that only one side has, or about runs that recorded none
    let other = with("other", r#"{"cvc": "1"}"#);
    let found = compare_sides(&small, &other, 0.05).environment;
    assert!(
        found.iter().all(|d| !d.what.starts_with("workload.")),
        "{found:?}"
    );
}

#[test]
fn writes_and_bursts_of_traces_are_compared() {
    let traced = |name: &str, writes: f64, bursts: f64| {
        let repeats = (0..3).map(|i| {
            Ok(vec![
                ("wall_s", 10.0 + f64::from(i), Unit::Seconds),
                ("trace_write_ops", writes, Unit::Count),
                ("trace_write_bursts", bursts, Unit::Count),
            ])
        });
        side(name, vec![(point(name, "1Nx4P", NONE), repeats.collect())])
    };
    let (cluster, cloud) = (
        traced("cluster", 1000.0, 12.0),
        traced("cloud", 1500.0, 12.0),
    );
    let comparison = compare_sides(&cluster, &cloud, 0.05);
    let found = |quantity| {
        let all = rows(&comparison, quantity);
        assert_eq!(all.len(), 1, "{quantity}");
        (all[0].first.mean, all[0].second.mean)
    };
    assert_eq!(found("trace_write_ops"), (1000.0, 1500.0));
    assert_eq!(found("trace_write_bursts"), (12.0, 12.0));
}
