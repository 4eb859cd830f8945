//! Tests of repeats that continue until the interval of a point is narrow enough.

use crate::common::scripted;
use cvc_testkit::{Campaign, Tool, require};
use serde_json::Value;
use std::fs;

const FIGURE: &str = "[[figures]]\nname = \"rate\"\npattern = '^rate = (\\S+)'\nunit = \"Mop/s\"\nbetter = \"higher\"\nrequired = true\n";

/// Returns a campaign whose program prints one rate of a list in each run, and starts again after the last one.
fn telling(rates: &[&str], repeats: &str) -> Campaign {
    let settings = format!("repeats = {repeats}\nretries = 0");
    let c = scripted("until", "true", &settings);
    let count = c.dir().join("count");
    let script = format!(
        "n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) > {0}; set -- {1}; shift $((n % {2})); echo \"rate = $1\"; echo SUCCESS",
        count.display(),
        rates.join(" "),
        rates.len()
    );
    c.script_app("script", &script, FIGURE);
    c
}

fn read(c: &Campaign, file: &str) -> String {
    fs::read_to_string(c.dir().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn decisions(c: &Campaign) -> Vec<Value> {
    c.events("point-decided")
}

#[test]
fn a_point_that_scatters_little_ends_early_and_says_why() {
    require!(Tool::Mpich);
    let c = telling(
        &["100", "101", "99"],
        r#"{ min = 3, max = 8, until = "5 %", of = "rate" }"#,
    );
    let plan = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(
        plan.contains("3 to 8")
            && plan.contains("at most 8 runs")
            && plan.contains("rate is within ±5 %"),
        "{plan}"
    );
    let told = c.run().expect(0);
    assert!(
        told.stderr
            .contains("rate ±3.3 % after 3 repeats, 5 % requested; 5 runs not needed"),
        "{}",
        told.stderr
    );
    assert_eq!(c.run_names().len(), 3);
    let decided = decisions(&c);
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(
        (&decided[0]["repeats"], &decided[0]["is_narrow"]),
        (&Value::from(3), &Value::from(true))
    );
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(status.contains("3 of 3 runs succeeded (100 %)"), "{status}");
    assert!(
        status.contains("5 runs not needed: the intervals of 1 point are known"),
        "{status}"
    );
    c.cvc(&["report", "campaign.toml"]).expect(0);
    let report = read(&c, "reports/until/report.md");
    assert!(
        report.contains("Repeats until intervals were narrow")
            && report.contains("rate ±3.3 % after 3 repeats"),
        "{report}"
    );
    assert!(!report.contains("not finished"), "{report}");
    // no run is left, so nothing is done
    c.run().expect(0);
    assert_eq!(c.run_names().len(), 3);
}

#[test]
fn points_have_five_runs_at_least_unless_the_file_says_otherwise() {
    for (repeats, expected) in [
        (r#"{ max = 8, until = "5 %" }"#, "5 to 8"),
        (r#"{ max = 4, until = "5 %" }"#, "4 to 4"),
    ] {
        let c = scripted("usual", "true", &format!("repeats = {repeats}"));
        let plan = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
        assert!(plan.contains(expected), "{repeats}: {plan}");
    }
}

#[test]
fn wrong_rules_are_refused_with_their_place() {
    for (repeats, message) in [
        (r#"{ min = 2, max = 8, until = "5 %" }"#, "`min` is 2"),
        (
            r#"{ min = 9, max = 8, until = "5 %" }"#,
            "`min` is 9, more than `max`, 8",
        ),
        (
            r#"{ min = 3, max = 8, until = "0 %" }"#,
            "`until` is \"0 %\"",
        ),
        (
            r#"{ min = 3, max = 8, until = "200 %" }"#,
            "`until` is \"200 %\"",
        ),
        (
            r#"{ min = 3, max = 8, until = "few" }"#,
            "`until` is \"few\"",
        ),
        (
            r#"{ min = 3, max = 8, until = "5 %", of = " " }"#,
            "`of` is empty",
        ),
        (r#"{ max = 2, until = "5 %" }"#, "`max` is 2"),
        (
            r#"{ min = 3, max = 8 }"#,
            "expected a number of runs, or a table with",
        ),
        ("0", "`repeats` is 0"),
    ] {
        let c = scripted("wrong", "true", &format!("repeats = {repeats}"));
        let told = c.cvc(&["plan", "campaign.toml"]).expect(2).stderr;
        assert!(
            told.contains(message) && told.contains("hint:") && told.contains("campaign.toml:"),
            "{repeats}: {told}"
        );
    }
}
