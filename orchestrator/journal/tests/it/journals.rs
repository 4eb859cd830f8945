//! Journals that cvc 0.1.0 and later versions wrote stay readable. The files in `data/journals` are never changed: a new format gets files of its own.

use camino::Utf8PathBuf;
use cvc_core::outcome::Outcome;
use cvc_journal::{self as journal, Attempt, CampaignState, Event, Lease, RunState};
use rstest::rstest;
use std::{collections::BTreeSet, fmt::Write};

fn golden(name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/journals")).join(name)
}

fn outcome(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "no end".to_owned(),
        Some(Outcome::Succeeded) => "succeeded".to_owned(),
        Some(Outcome::Failed { cause, detail }) => format!("failed {cause:?}: {detail}"),
    }
}

fn attempt(a: &Attempt) -> String {
    let nodes = a
        .nodes
        .iter()
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    let end = if a.abandoned {
        "abandoned".to_owned()
    } else {
        outcome(a.outcome.as_ref())
    };
    let at = |t: Option<jiff::Timestamp>| t.map_or("-".to_owned(), |t| t.to_string());
    format!(
        "    attempt {} on [{nodes}] {} .. {}: {end}",
        a.number,
        at(a.started),
        at(a.ended)
    )
}

fn lease(l: &Lease) -> String {
    let at = |t: Option<jiff::Timestamp>| t.map_or("-".to_owned(), |t| t.to_string());
    let mut text = format!("lease {} of {}: ", l.name, l.site);
    match &l.order {
        None => write!(text, "job {}", l.job().unwrap_or("-")),
        Some(order) => write!(
            text,
            "{} x {} in {} for {}, like {}, instances [{}]",
            order.count,
            order.instance_type,
            order.zone.as_deref().unwrap_or("-"),
            order
                .rate
                .as_ref()
                .map_or("-".to_owned(), |r| r.sources().join(", ")),
            order.config_digest.as_deref().unwrap_or("-"),
            l.instances()
                .iter()
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
                .join(" "),
        ),
    }
    .expect("text");
    let lost: Vec<String> = l
        .lost
        .iter()
        .map(|(id, since)| format!("{id} {since}"))
        .collect();
    write!(
        text,
        "\n    {} .. {} .. {}, released {}, kept until {}, deadline {}, lost [{}]",
        l.intended,
        at(l.acquired),
        at(l.ended),
        l.released,
        at(l.kept_until),
        at(l.deadline),
        lost.join(", ")
    )
    .expect("text");
    for (since, usd) in &l.prices {
        write!(text, "\n    ${usd:.4} an hour since {since}").expect("text");
    }
    text
}

/// All that is public of a state, in lines that do not depend on how it is represented.
fn describe(state: &CampaignState) -> String {
    let mut text = String::new();
    let mut line = |l: String| text.push_str(&(l + "\n"));
    line(format!(
        "cvc {:?}, plan {:?}, {} sessions, {} interruptions",
        state.cvc, state.plan, state.sessions, state.interruptions
    ));
    line(format!(
        "completed {}, span {:?}",
        state.completed,
        state.span.map(|(a, b)| (a.to_string(), b.to_string()))
    ));
    line(format!(
        "open sites: {}",
        state
            .open_sites
            .iter()
            .map(|s| s.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    ));
    line(format!(
        "quarantined: {}",
        state
            .quarantined
            .iter()
            .map(|p| p.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    ));
    for (point, d) in &state.decided {
        line(format!(
            "decided {point} after {} repeats, narrow {}: {}",
            d.repeats, d.is_narrow, d.reason
        ));
    }
    for (point, reason) in &state.skipped {
        line(format!("skipped {point}: {reason}"));
    }
    let mut runs: Vec<_> = state.runs.iter().collect();
    runs.sort_by_key(|(run, _)| (*run).clone());
    for (run, history) in runs {
        line(match &history.state {
            RunState::Open { attempt, shepherd } => {
                format!("run {run}: open, attempt {attempt}, shepherd {shepherd:?}")
            }
            RunState::Abandoned { attempts } => {
                format!("run {run}: abandoned after {attempts} attempts")
            }
            RunState::Finished {
                attempt,
                outcome: how,
                records,
                manifest: _,
            } => {
                format!(
                    "run {run}: attempt {attempt} {}, records {records:?}",
                    outcome(Some(how))
                )
            }
        });
        history.attempts.iter().for_each(|a| line(attempt(a)));
    }
    state.leases.iter().for_each(|l| line(lease(l)));
    text
}

#[rstest]
#[case("local")]
#[case("ssh")]
#[case("slurm")]
#[case("ec2")]
fn journals_of_version_0_1_0_are_read(#[case] kind: &str) {
    let path = golden(&format!("{kind}.jsonl"));
    let entries = journal::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let state = CampaignState::of(&entries).unwrap_or_else(|e| panic!("{e}"));
    insta::assert_snapshot!(format!("journal_{kind}"), describe(&state));
    // written in the form of today they say the same
    let today: Vec<journal::Entry> = entries
        .iter()
        .map(|e| serde_json::from_str(&serde_json::to_string(e).expect("json")).expect("an entry"))
        .collect();
    assert_eq!(CampaignState::of(&today), Ok(state));
    assert_eq!(today, entries);
}

#[rstest]
#[case("format-3")]
#[case("format-3-prices")]
#[case("format-3-decided")]
#[case("format-3-kept")]
// begun by version 0.1.0
#[case("continued")]
fn journals_of_format_3_are_read(#[case] name: &str) {
    let entries =
        journal::read(&golden(&format!("{name}.jsonl"))).unwrap_or_else(|e| panic!("{e}"));
    let state = CampaignState::of(&entries).unwrap_or_else(|e| panic!("{e}"));
    insta::assert_snapshot!(format!("journal_{name}"), describe(&state));
}

/// The event's name in the journal. An event that is added here needs a golden journal.
fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Opened { .. } => "opened",
        Event::LineageGiven { .. } => "lineage-given",
        Event::Started { .. } => "started",
        Event::SiteOpened { .. } => "site-opened",
        Event::SiteClosed { .. } => "site-closed",
        Event::RunIntended { .. } => "run-intended",
        Event::RunStarted { .. } => "run-started",
        Event::RunFinished { .. } => "run-finished",
        Event::CheckpointKept { .. } => "checkpoint-kept",
        Event::RunAbandoned { .. } => "run-abandoned",
        Event::RunDiscarded { .. } => "run-discarded",
        Event::Repaired { .. } => "repaired",
        Event::PointQuarantined { .. } => "point-quarantined",
        Event::PointsSkipped { .. } => "points-skipped",
        Event::PointReleased { .. } => "point-released",
        Event::PointDecided { .. } => "point-decided",
        Event::LeaseIntended { .. } => "lease-intended",
        Event::LeaseAcquired { .. } => "lease-acquired",
        Event::LeaseExtended { .. } => "lease-extended",
        Event::LeasePriced { .. } => "lease-priced",
        Event::LeaseKept { .. } => "lease-kept",
        Event::LeaseLost { .. } => "lease-lost",
        Event::LeaseReleased { .. } => "lease-released",
        Event::ResultsFetched { .. } => "results-fetched",
        Event::Interrupted { .. } => "interrupted",
        Event::Completed { .. } => "completed",
    }
}

#[test]
fn every_event_occurs_in_a_golden_journal_of_the_newest_format() {
    let all = [
        "format-3",
        "format-3-prices",
        "format-3-decided",
        "format-3-kept",
        "continued",
    ]
    .map(|name| journal::read(&golden(&format!("{name}.jsonl"))).unwrap_or_else(|e| panic!("{e}")));
    let found: BTreeSet<&str> = all
        .iter()
        .flatten()
        .map(|entry| name_of(&entry.event))
        .collect();
    assert_eq!(found.len(), 26, "{found:?}");
    let text = std::fs::read_to_string(golden("format-3.jsonl")).expect("one");
    assert!(
        text.lines().all(|line| line.contains("\"sum\":\"")),
        "each line has its checksum"
    );
}
