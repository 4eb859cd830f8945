//! Tests of `cargo xtask calibrate`.

use cvc_simulation::calibration::command::run;
use serde_json::Value;
use std::fs;

const COLUMNS: &str = "app,class,mapping,mpi,dtapp_mib,lb_mib,shmem_mib,headers_mib,image_mib,file_mib,launchers_mib,aux_mib,stored_mib,latency_s\n";

/// Returns a table of runs of these programs, whose images shrink with the number of processes.
fn table(programs: &[&str]) -> String {
    let mut text = COLUMNS.to_owned();
    for (i, app) in programs.iter().enumerate() {
        for p in [1, 2, 4, 8, 16] {
            let scatter = 1.0 + 0.01 * f64::from((p * (i as i32 + 2)) % 5);
            let (data, processes) = (scatter * 200.0 / f64::from(p), f64::from(p));
            let image = data + 50.0 + 8.0 + 10.0;
            let stored = image * processes + 40.0 + 8.0;
            let time = scatter * (0.5 + 0.2 * processes);
            text += &format!(
                "{app},A,1Nx{p}P,openmpi,{data:.3},50,8,10,{image:.3},{image:.3},40,8,{stored:.3},{time:.3}\n"
            );
        }
    }
    text
}

#[test]
fn coverage_is_reported_by_claim_and_quantity_and_drawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(at("runs.csv"), table(&["one", "two"])).expect("a table");
    let printed = calibrate(&[
        "--from",
        &at("runs.csv"),
        "--samples",
        "100",
        "--json",
        "--page",
        &at("pages"),
        "--write-table",
        &at("errors.csv"),
    ]);
    let json: Value = serde_json::from_str(&printed.expect("a result")).expect("JSON");
    let repeats = json["repeats"].as_array().expect("simulations");
    let of = |claim: &str| repeats.iter().filter(|s| s["claim"] == claim).count();
    assert!(
        of("mean") == 64 && of("paired-false-star") == 21 && of("share") == 3,
        "{repeats:?}"
    );
    for s in repeats {
        let (true_ones, all) = (
            s["came_true"].as_u64().expect("a count"),
            s["samples"].as_u64().expect("a count"),
        );
        // for some kinds of data few intervals cover the true value: the page reports this
        let is_interval = s["nominal"] == 0.95;
        assert!(
            all <= 100 && true_ones <= all && (is_interval || true_ones * 2 <= all),
            "{s}"
        );
    }
    assert_eq!(
        json["predictions"]["programs"],
        serde_json::json!(["one", "two"])
    );
    let times = json["predictions"]["by_quantity"]
        .as_array()
        .expect("quantities")
        .iter()
        .find(|q| q["of"] == "checkpoint time")
        .expect("times");
    assert!(
        times["cells"].as_u64() > Some(10) && times["without_interval"] == 0,
        "{times}"
    );
    let page = fs::read_to_string(at("pages/calibration.md")).expect("the page");
    assert!(
        page.contains("Each of one, two") && page.contains("img/calibration.svg"),
        "{page}"
    );
    assert!(
        fs::read_to_string(at("pages/img/calibration.svg"))
            .expect("the picture")
            .contains("</svg>")
    );
    let errors = fs::read_to_string(at("errors.csv")).expect("the table");
    assert!(
        errors.lines().any(|l| l.starts_with("latency_s,open-mpi,")),
        "{errors}"
    );
}

#[test]
fn one_program_and_wrong_tables_and_options_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(at("one.csv"), table(&["one"])).expect("a table");
    for (arguments, expected) in [
        (
            &["--from", &at("one.csv"), "--samples", "100"][..],
            "hint: give runs of two programs or more",
        ),
        (&["--from", &at("none.csv")], "none.csv"),
        (&["--samples", "5"], "100 to 1000000"),
        (&["--pages", "5"], "usage:"),
    ] {
        let problem = calibrate(arguments).expect_err("refused");
        assert!(problem.contains(expected), "{problem}");
    }
}

fn calibrate(arguments: &[&str]) -> Result<String, String> {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    run(&arguments, |_, _, _| {})
}
