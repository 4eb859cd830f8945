//! `cvc calibrate`

use crate::common::campaign;
use serde_json::Value;
use std::fs;

const COLUMNS: &str = "app,class,mapping,mpi,dtapp_mib,lb_mib,shmem_mib,headers_mib,image_mib,file_mib,launchers_mib,aux_mib,stored_mib,latency_s\n";

/// Runs of two programs whose images fall with the processes.
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
fn coverage_is_told_by_claim_and_quantity_and_drawn() {
    let c = campaign("calibrated", "");
    c.put("runs.csv", &table(&["one", "two"]));
    let told = c.cvc(&[
        "calibrate",
        "--from",
        "runs.csv",
        "--samples",
        "100",
        "--json",
        "--page",
        "pages",
        "--write-table",
        "errors.csv",
    ]);
    let json: Value = serde_json::from_str(&told.expect(0).stdout).expect("JSON");
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
        // of some kinds of data few intervals hold: that is told, not hidden
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
    let page = fs::read_to_string(c.dir().join("pages/calibration.md")).expect("the page");
    assert!(
        page.contains("each of one, two") && page.contains("img/calibration.svg"),
        "{page}"
    );
    assert!(
        fs::read_to_string(c.dir().join("pages/img/calibration.svg"))
            .expect("the picture")
            .contains("</svg>")
    );
    let errors = fs::read_to_string(c.dir().join("errors.csv")).expect("the table");
    assert!(
        errors.lines().any(|l| l.starts_with("latency_s,open-mpi,")),
        "{errors}"
    );
}

#[test]
fn one_program_and_wrong_tables_are_refused() {
    let c = campaign("refused", "");
    c.put("one.csv", &table(&["one"]));
    let told = c
        .cvc(&["calibrate", "--from", "one.csv", "--samples", "100"])
        .expect(8)
        .stderr;
    assert!(
        told.contains("1 program") && told.contains("hint: give runs of two programs or more"),
        "{told}"
    );
    let told = c.cvc(&["calibrate", "--from", "none.csv"]).expect(6).stderr;
    assert!(
        told.contains("none.csv") && told.contains("hint:"),
        "{told}"
    );
    let told = c.cvc(&["calibrate", "--samples", "5"]).expect(2).stderr;
    assert!(told.contains("100"), "{told}");
}
