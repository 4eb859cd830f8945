//! Tests of the gate of predictions: exit codes and messages. The campaign is finished, with values that real runs measured.

use crate::{common, measured};
use cvc_testkit::{Campaign, Tool, campaign::Finished, require};
use std::fs;

const SPLIT: &str = "[predict]\ntrain = [{ processes = [1, 4, 9] }]\n";
const MISSED: &str = "max_error = { image = 0.0001 }\n";
const KEPT: &str = "max_error = { image = 90, shmem = 90 }\nmin_coverage = 1\n";

/// Returns a finished campaign with this section `predict`, and with values of real runs.
fn finished(predict: &str, fails: impl Fn(&cvc_core::point::Point) -> bool) -> Campaign {
    let text = format!("{}{predict}", measured::CAMPAIGN);
    let campaign = common::campaign("measured", "");
    campaign.put("campaign.toml", &text);
    measured::campaign(&campaign.root(), &text, fails);
    campaign
}

fn output(finished: &Finished) -> String {
    format!("{}{}", finished.stdout, finished.stderr)
}

#[test]
fn a_report_says_what_is_missed_and_fails_only_when_asked() {
    let c = finished(&format!("{SPLIT}{MISSED}"), |_| false);
    let plain = c.cvc(&["report", "campaign.toml"]).expect(0);
    assert!(
        plain
            .stderr
            .contains("a prediction misses its bound: image of npb-bt on mpich-ch3: mean error "),
        "{}",
        output(&plain)
    );
    assert!(
        plain.stderr.contains("above the bound of 0.0001 %"),
        "{}",
        output(&plain)
    );
    let gated = c.cvc(&["report", "campaign.toml", "--gate"]).expect(11);
    assert_eq!(plain.stderr, gated.stderr);
    assert!(
        fs::exists(c.dir().join("reports/measured/report.html")).is_ok_and(|e| e),
        "the report is written all the same"
    );
    assert!(fs::exists(c.root().join("predictions.jsonl")).is_ok_and(|e| e));
}

#[test]
fn a_kept_bound_is_reported_and_succeeds() {
    let c = finished(&format!("{SPLIT}{KEPT}"), |_| false);
    let gated = c.cvc(&["report", "campaign.toml", "--gate"]).expect(0);
    assert!(
        gated.stderr.contains("the predictions meet their bounds; "),
        "{}",
        output(&gated)
    );
    // Without bounds there is nothing to check: the request is refused, not silently accepted.
    for predict in [SPLIT, ""] {
        let c = finished(predict, |_| false);
        let refused = c.cvc(&["report", "campaign.toml", "--gate"]).expect(2);
        assert!(
            refused.stderr.contains("no bounds for predictions")
                && refused.stderr.contains("max_error"),
            "{}",
            output(&refused)
        );
        c.cvc(&["report", "campaign.toml"]).expect(0);
    }
}

#[test]
fn a_run_ends_with_the_gates_code_unless_runs_failed() {
    let missed = format!("{SPLIT}{MISSED}");
    let c = finished(&missed, |_| false);
    let run = c.run().expect(11);
    assert!(
        run.stderr
            .contains("a prediction misses its bound: image of npb-sp on openmpi"),
        "{}",
        output(&run)
    );
    let json = c.cvc(&["run", "campaign.toml", "--json"]).expect(11);
    let event = json
        .stdout
        .lines()
        .filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok())
        .find(|e| e["event"] == "predictions");
    let event = event.unwrap_or_else(|| panic!("{}", json.stdout));
    assert_eq!(event["kept"], false);
    assert_eq!(event["missed"].as_array().map(Vec::len), Some(4), "{event}");
    // Finished runs stay valid if only the bounds change.
    c.put(
        "campaign.toml",
        &format!("{}{SPLIT}{KEPT}", measured::CAMPAIGN),
    );
    let run = c.run().expect(0);
    assert!(
        run.stderr.contains("the predictions meet their bounds"),
        "{}",
        output(&run)
    );
}

#[test]
fn failed_runs_come_before_the_gate() {
    require!(Tool::Mpich);
    let text = format!(
        "{}[matrix]\napp = \"script\"\nprocesses = [1, 2]\nmpi = \"mpich\"\n[run]\nrepeats = 1\nretries = 0\n[predict]\ntrain = [{{ processes = 1 }}]\nmax_error = {{ image = 1 }}\n",
        common::SITE
    );
    for (script, code) in [("echo SUCCESS", 11), ("exit 1", 10)] {
        let c = common::campaign("gate", &text);
        c.script_app("script", &format!("sleep 0.1\n{script}"), "");
        let run = c.run().expect(code);
        let miss = "a prediction misses its bound: image of script on mpich was not measured at any held-out point (bound 1 %)";
        assert!(run.stderr.contains(miss), "{}", output(&run));
    }
}
