//! The notebook of the documentation plots the values in the index.

use crate::{common, made::Made};
use camino::Utf8Path;
use cvc_core::{
    outcome::Cause,
    point::{CheckpointerKind, Point},
    record::{Unit, names},
};
use cvc_export::{export_parquet, export_tables};
use cvc_testkit::{Tool, require, tool::skipped};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Writes a campaign with three process counts at each of these sites, and three repeats each; the first repeat at 8 processes failed.
fn campaign(dir: &Path, sites: &[&str]) {
    let mut made = Vec::new();
    for (site, more) in sites.iter().zip([0.0, 12.5, 3.25]) {
        for (mapping, processes) in [("1Nx4P", 4.0), ("2Nx4P", 8.0), ("4Nx4P", 16.0)] {
            let point = Point {
                site: (*site).to_owned(),
                app: "kernel-solver".to_owned(),
                class: "S".to_owned(),
                mapping: mapping.parse().expect("a mapping"),
                mpi: "mpich".to_owned(),
                checkpointer: CheckpointerKind::Dmtcp,
                storage: "run".to_owned(),
                ..Point::default()
            };
            let repeats = (1..=3)
                .map(|repeat| {
                    if mapping == "2Nx4P" && repeat == 1 {
                        return Err(Cause::Checkpoint);
                    }
                    let bytes =
                        (160.0 + 14.0 * processes + more) * 1e6 + f64::from(repeat) * 4096.0;
                    Ok(vec![(names::CKPT_STORED_BYTES, bytes, Unit::Bytes)])
                })
                .collect();
            made.push((point, repeats));
        }
    }
    common::campaign_measured(dir, made);
}

/// Returns the code cells of the notebook, concatenated.
fn code() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notebooks/figure.ipynb");
    let text = fs::read_to_string(path).expect("the notebook");
    let notebook: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(notebook["nbformat"], 4);
    let cells = notebook["cells"].as_array().expect("cells");
    let mut code = String::new();
    for cell in cells.iter().filter(|cell| cell["cell_type"] == "code") {
        for line in cell["source"].as_array().expect("lines") {
            code.push_str(line.as_str().expect("text"));
        }
        code.push('\n');
    }
    code
}

struct Drawn {
    told: String,
    /// By export and point: number of runs, mean in MiB, number of processes.
    points: BTreeMap<(String, String), (u64, f64, u32)>,
    series: BTreeMap<String, usize>,
}

/// Runs the notebook in a directory that contains exports.
fn draw(python: &PathBuf, dir: &Utf8Path, exports: &[&str]) -> Drawn {
    let ran = Command::new(python)
        .args(["-c", &code()])
        .current_dir(dir)
        .env("MPLBACKEND", "Agg")
        .env("MPLCONFIGDIR", dir)
        .env("CVC_EXPORTS", exports.join(":"))
        .output()
        .expect("python starts");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let figure = fs::read_to_string(dir.join("figure.svg")).expect("a figure");
    assert!(figure.contains("<svg") && figure.contains("</svg>"));
    let mut drawn = Drawn {
        told: String::from_utf8_lossy(&ran.stdout).into_owned(),
        points: BTreeMap::new(),
        series: BTreeMap::new(),
    };
    let mut table = csv::Reader::from_path(dir.join("figure.csv")).expect("a table");
    for row in table.deserialize() {
        let row: BTreeMap<String, String> = row.expect("a row");
        let of = (row["export"].clone(), row["point"].clone());
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        let told = (
            number("runs") as u64,
            number("mean_mib"),
            number("processes") as u32,
        );
        assert!(drawn.points.insert(of, told).is_none());
        *drawn.series.entry(row["series"].clone()).or_default() += 1;
    }
    drawn
}

/// Compares the plotted points with the checkpoint sizes in the index.
fn assert_is_that_of_the_index(drawn: &Drawn, export: &str, made: &Made) {
    let mut points = BTreeMap::new();
    for planned in made.index.points_and_baselines().expect("points") {
        points.insert(planned.id.to_string(), planned.point.processes());
    }
    let mut compared = 0;
    for summary in made.index.summaries().expect("summaries") {
        if summary.quantity != names::CKPT_STORED_BYTES {
            continue;
        }
        let point = summary.point.to_string();
        let (runs, mib, processes) = drawn.points[&(export.to_owned(), point.clone())];
        let expected = summary.summary.mean / 1_048_576.0;
        assert!((mib / expected - 1.0).abs() < 1e-12, "{mib} {expected}");
        assert_eq!(
            (runs, processes),
            (summary.summary.n as u64, points[&point])
        );
        compared += 1;
    }
    let of_export = drawn.points.keys().filter(|(of, _)| of == export).count();
    assert_eq!(compared, of_export);
    assert!(compared > 2);
}

#[test]
fn the_notebook_draws_the_means_of_the_index_for_each_site() {
    require!(Tool::Plotting);
    let python = Tool::Plotting.find().expect("it is there");
    let made = Made::new(|dir| campaign(dir, &["cluster", "cloud"]));
    export_tables(&made.index, &made.path("tables"), false).expect("CSV");
    let drawn = draw(&python, &made.path(""), &["tables"]);
    assert_is_that_of_the_index(&drawn, "tables", &made);
    assert_eq!(drawn.told, "6 points in 2 series\n");
    let of_sites = ["site cloud", "site cluster"].map(|name| (name.to_owned(), 3));
    assert_eq!(drawn.series, BTreeMap::from(of_sites));
}

#[test]
fn the_notebook_compares_campaigns_and_never_mixes_levels_of_a_factor() {
    require!(Tool::Plotting);
    let python = Tool::Plotting.find().expect("it is there");
    let import = Command::new(&python)
        .args(["-c", "import pyarrow"])
        .output();
    let has_pyarrow = import.is_ok_and(|o| o.status.success());
    let made = Made::new(|dir| campaign(dir, &["cluster"]));
    // a campaign with warm-ups, a failed run, a damaged run, and two more factors
    let other = Made::new(|dir| drop(common::campaign(dir)));
    export_tables(&other.index, &made.path("other"), false).expect("CSV");
    if has_pyarrow {
        export_parquet(&made.index, &made.path("tables"), false).expect("Parquet");
    } else {
        skipped("cvc_export::notebook (from Parquet)", "pyarrow of PyPI");
        export_tables(&made.index, &made.path("tables"), false).expect("CSV");
    }
    let drawn = draw(&python, &made.path(""), &["tables", "other"]);
    assert_is_that_of_the_index(&drawn, "tables", &made);
    assert_is_that_of_the_index(&drawn, "other", &other);
    // two libraries with two settings each, and the cluster
    assert_eq!(drawn.series.values().collect::<Vec<_>>(), [&3; 5]);
}

#[test]
fn the_notebook_says_that_nothing_was_measured() {
    require!(Tool::Plotting);
    let python = Tool::Plotting.find().expect("it is there");
    let made = Made::new(common::campaign_with_costs);
    export_tables(&made.index, &made.path("export"), false).expect("CSV");
    let ran = Command::new(python)
        .args(["-c", &code()])
        .current_dir(made.path(""))
        .env("MPLBACKEND", "Agg")
        .env_remove("CVC_EXPORTS")
        .output()
        .expect("python starts");
    let told = String::from_utf8_lossy(&ran.stderr);
    let expected = "ValueError: no run of export measured ckpt_stored_bytes";
    assert!(!ran.status.success() && told.contains(expected), "{told}");
}
