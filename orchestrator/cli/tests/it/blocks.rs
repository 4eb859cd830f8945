//! Tests of repeats that are divided among days or fleets.

use crate::common::scripted;
use cvc_core::store::line_file::with_sum;
use cvc_testkit::{Campaign, Tool, require};
use std::fs;

/// Sets every date in the journal back by a day, as if the runs had ended yesterday.
fn a_day_passes(c: &Campaign) {
    let journal = c.root().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let earlier: Vec<u8> = text
        .lines()
        .flat_map(|line| {
            let mut entry: serde_json::Value = serde_json::from_str(line).expect("an entry");
            let at: jiff::Timestamp = entry["at"]
                .as_str()
                .and_then(|at| at.parse().ok())
                .expect("a time");
            entry["at"] = (at - jiff::SignedDuration::from_hours(24))
                .to_string()
                .into();
            entry.as_object_mut().expect("an object").remove("sum");
            with_sum(entry.to_string().into_bytes()).expect("a line")
        })
        .collect();
    fs::write(&journal, earlier).expect("the journal");
    let _ = fs::remove_file(c.root().join("journal.mark"));
}

fn report(c: &Campaign) -> String {
    c.cvc(&["report", "campaign.toml"]).expect(0);
    fs::read_to_string(c.dir().join("reports/days/report.md")).expect("a report")
}

#[test]
fn repeats_of_another_day_wait_for_it_and_reports_tell_what_intervals_have() {
    require!(Tool::Mpich);
    let c = scripted("days", "echo SUCCESS", "repeats = 4\ndays = 2\nwarmups = 1");
    let plan = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(plan.contains("2 days"), "{plan}");
    let told = c.run().expect(0).stderr;
    assert!(
        told.contains("day 1 of 2")
            && told.contains("3 runs are left; `cvc run campaign.toml` continues from "),
        "{told}"
    );
    assert_eq!(c.run_names().len(), 3, "one warm-up and two counted runs");
    assert!(
        report(&c).contains("only one of the days has run"),
        "{}",
        report(&c)
    );
    // no run starts on the same day, even after several commands
    let told = c.run().expect(0).stderr;
    assert!(told.contains("(UTC) on with day 2"), "{told}");
    assert_eq!(c.run_names().len(), 3);
    a_day_passes(&c);
    let told = c.run().expect(0).stderr;
    assert!(
        told.contains("day 2 of 2") && !told.contains("left;"),
        "{told}"
    );
    c.assert_whole(6);
    let report = report(&c);
    assert!(
        report.contains("intervals include the variation between 2 days"),
        "{report}"
    );
}

#[test]
fn days_and_fleets_that_cannot_be_are_refused_with_a_hint() {
    let wrong = [
        (
            "repeats = 5\ndays = 2",
            "5 repeats cannot be divided equally among 2 days",
            "such as 6",
        ),
        ("repeats = 4\ndays = 1", "`days` is 1", "from 2 to 1000"),
        (
            "repeats = 4\ndays = 2\nfleets = 2",
            "both `fleets` and `days`",
            "remove one",
        ),
        (
            "repeats = 4\nfleets = 2",
            "`fleets` with the site",
            "only sites of kind `ec2` have fleets",
        ),
        (
            "repeats = { max = 8, until = \"5 %\" }\ndays = 2",
            "`days` with adaptive repeats",
            "give a fixed number of repeats",
        ),
    ];
    for (settings, message, hint) in wrong {
        let told = scripted("days", "true", settings)
            .cvc(&["plan", "campaign.toml"])
            .expect(2)
            .stderr;
        assert!(
            told.contains(message) && told.contains(hint),
            "{settings}: {told}"
        );
    }
}
