//! Tests of `cvc jobs` and other questions about jobs that need no campaign, as users type them.

use crate::common::campaign;
use serde_json::Value;
use std::fs;

const EXPORT: &str = "\
JobID|JobName|State|AllocNodes|AllocCPUS|ReqMem|ElapsedRaw|Start
1|bt|COMPLETED|1|4|4Gn|7200|2026-03-01T10:00:00
1.batch|batch|COMPLETED|1|4||7200|2026-03-01T10:00:00
2|other|FAILED|1|4|4Gn|3600|2026-03-01T10:00:00
3|other|RUNNING|1|4|4Gn|3600|2026-03-01T10:00:00
4|huge|COMPLETED|1|4000|4Gn|3600|2026-03-01T10:00:00
";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn jobs_of_an_export_are_priced_by_list_price_and_as_measured_where_programs_ran() {
    let c = campaign("unused", "");
    fs::write(c.dir().join("jobs.txt"), EXPORT).expect("an export");
    let run = |args: &[&str]| c.cvc(&[&["jobs", "jobs.txt"], args].concat());
    let on_one = ["--type", "c5.2xlarge", "--json"];
    let plain = json(&run(&on_one).expect(0).stdout);
    assert_eq!(plain["schema"], 1);
    assert_eq!((&plain["jobs"], &plain["steps"]), (&3.into(), &1.into()));
    assert_eq!(plain["fit_nowhere"], 1, "{plain}");
    assert_eq!(plain["left_out"]["not ended: RUNNING"], 1);
    // three hours on one instance with four cores
    let usd = |of: &Value| of["total"]["on_demand_usd"].as_f64().expect("dollars");
    let hour = usd(&plain) / 3.0;
    assert!((0.2..0.6).contains(&hour), "{plain}");
    assert_eq!(plain["total"]["measured"], 0);

    // there the program takes half as long as on the cluster
    fs::write(
        c.dir().join("times.csv"),
        "app,site,mapping,wall_s\nbt,hpc,1Nx4P,20\nbt,hpc,1Nx4P,20\nbt,c5.2xlarge,1Nx4P,10\nbt,c5.2xlarge,1Nx4P,10\n",
    )
    .expect("a table");
    c.cvc(&["import", "times.csv"]).expect(0);
    let from = ["--from", "times", "--cluster", "hpc"];
    let measured = json(&run(&[&on_one[..], &from].concat()).expect(0).stdout);
    assert_eq!(measured["total"]["measured"], 1);
    assert!((usd(&measured) - 2.0 * hour).abs() < 1e-9, "{measured}");

    let shown = run(&["--csv", "costs.csv"]).expect(0).stdout;
    assert!(shown.contains("3 jobs"), "{shown}");
    assert!(shown.contains("left out: 1 not ended: RUNNING"), "{shown}");
    let csv = fs::read_to_string(c.dir().join("costs.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(csv.contains("equal-speed"), "{csv}");
}

#[test]
fn types_for_which_programs_must_be_built_anew_are_marked_and_may_be_left_out() {
    let c = campaign("unused", "");
    fs::write(c.dir().join("jobs.txt"), EXPORT).expect("an export");
    let all = c.cvc(&["jobs", "jobs.txt"]).expect(0).stdout;
    assert!(
        all.contains("(arm64)") && all.contains("--architecture x86_64"),
        "{all}"
    );
    let x86 = ["jobs", "jobs.txt", "--architecture", "x86_64"];
    let shown = c.cvc(&x86).expect(0).stdout;
    assert!(!shown.contains("arm64"), "{shown}");
    let types = json(&c.cvc(&[&x86[..], &["--json"]].concat()).expect(0).stdout)["types"].clone();
    let types = types.as_array().expect("types");
    assert!(!types.is_empty() && types.iter().all(|t| t["architecture"] == "x86_64"));
}

#[test]
fn wrong_exports_types_and_sites_are_refused() {
    let c = campaign("unused", "");
    fs::write(c.dir().join("jobs.txt"), EXPORT).expect("an export");
    fs::write(c.dir().join("bare.txt"), "1|bt|COMPLETED|4\n").expect("an export");
    fs::write(
        c.dir().join("none.txt"),
        "JobID|NCPUS|Elapsed|State\n1|4|00:10:00|RUNNING\n",
    )
    .expect("an export");
    let refused = |args: &[&str], code: i32| c.cvc(args).expect(code).stderr;
    let typed = refused(&["jobs", "jobs.txt", "--type", "c5.2xlrge"], 2);
    assert!(typed.contains("did you mean `c5.2xlarge`?"), "{typed}");
    let strange = refused(&["jobs", "jobs.txt", "--type", "c5.huge"], 2);
    assert!(
        strange.contains("c5.large") && strange.len() < 400,
        "{strange}"
    );
    let unwritable = refused(&["jobs", "jobs.txt", "--csv", "absent/a.csv"], 7);
    assert!(
        unwritable.contains("absent does not exist: create it"),
        "{unwritable}"
    );
    let other = refused(
        &[
            "jobs",
            "jobs.txt",
            "--type",
            "c5.large",
            "--architecture",
            "arm64",
        ],
        2,
    );
    assert!(other.contains("--architecture"), "{other}");
    let bare = refused(&["jobs", "bare.txt"], 2);
    assert!(bare.contains("no column JobID"), "{bare}");
    assert!(refused(&["jobs", "absent.txt"], 2).contains("cannot read absent.txt"));
    assert!(refused(&["jobs", "."], 2).contains("it is not a file"));
    assert!(refused(&["jobs", "none.txt"], 16).contains("not ended: RUNNING"));
    let region = refused(&["jobs", "jobs.txt", "--region", "moon-1"], 2);
    assert!(
        region.contains("no prices of instances in moon-1"),
        "{region}"
    );
}

#[test]
fn who_knows_a_checkpoint_and_the_nodes_gets_an_interval_and_dollars() {
    let c = campaign("unused", "");
    let asked = [
        "predict",
        "--checkpoint-time",
        "3m",
        "--nodes",
        "100",
        "--mtbf-node",
        "1000h",
        "--app-time",
        "24h",
        "--instance",
        "c5.2xlarge",
    ];
    let shown = c.cvc(&asked).expect(0).stdout;
    for part in [
        "overhead without",
        "overhead, failures",
        "10 h 00 min between failures of the job on 100 nodes",
        "no checkpoint, no failure",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let answer = json(&c.cvc(&[&asked[..], &["--json"]].concat()).expect(0).stdout);
    let daly = &answer["checkpoint"]["schedules"][1];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{answer}"));
    let total_s = number(&daly["with_failures"]["total_s"]);
    let overhead = number(&daly["overhead"]);
    assert!(
        (total_s / 86_400.0 - 1.0 - overhead).abs() < 1e-9,
        "one denominator"
    );
    let cost = &answer["checkpoint"]["costs"][2];
    assert_eq!(cost["rule"], "Daly");
    let expected = total_s / 3600.0 * number(&cost["usd_per_hour"]);
    assert!(
        (number(&cost["machines_usd"]) / expected - 1.0).abs() < 1e-9,
        "{cost}"
    );
    let asks = c
        .cvc(&["predict", "--checkpoint-time", "3m"])
        .expect(2)
        .stderr;
    assert!(asks.contains("--mtbf-node"), "{asks}");
    let wrong = [&asked[..9], &["--instance", "c5.2xlrge"]].concat();
    let wrong = c.cvc(&wrong).expect(2).stderr;
    assert!(wrong.contains("did you mean `c5.2xlarge`?"), "{wrong}");
}
