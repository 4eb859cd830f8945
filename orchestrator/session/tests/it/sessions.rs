//! A campaign that is open for a command.

use crate::bench::{Bench, LOCAL, TWO_POINTS, asked};
use cvc_session::CampaignSession;
use std::collections::HashSet;

#[test]
fn a_session_has_the_plan_of_its_file_and_the_directory_of_its_name() {
    let bench = Bench::new(LOCAL, TWO_POINTS, "[run]\nrepeats = 3\n");
    let session = bench.look();
    assert_eq!((session.plan.points.len(), session.plan.runs.len()), (2, 6));
    assert_eq!(session.dir.root(), bench.campaigns().join("c"));
    assert!(!session.dir.root().exists(), "nothing is made");
    assert_eq!(session.only, None);
    assert_eq!(session.selected(), session.plan);
    session.has_runs().expect("it has some");
    let opened = CampaignSession::open(&bench.file(), None, &bench.campaigns(), &|_| ());
    assert_eq!(opened.expect("a campaign").plan, session.plan);
}

#[test]
fn a_selection_limits_points_and_runs_and_leaves_the_plan_alone() {
    let bench = Bench::new(LOCAL, TWO_POINTS, "[run]\nrepeats = 3\n");
    let mut session = bench.look();
    let whole = session.plan.clone();
    session.select(&[]).expect("all of it");
    assert_eq!(session.only, None);
    session.select(&["mapping=1Nx2P".into()]).expect("a point");
    let selected = session.selected();
    let points: HashSet<_> = selected.points.iter().map(|p| p.id.clone()).collect();
    assert_eq!(session.only.as_ref(), Some(&points));
    assert_eq!((selected.points.len(), selected.runs.len()), (1, 3));
    assert_eq!(selected.points[0].point.mapping.to_string(), "1Nx2P");
    assert!(selected.runs.iter().all(|run| points.contains(&run.point)));
    assert_eq!(session.plan, whole);
}

#[test]
fn a_selection_of_nothing_is_refused() {
    let bench = Bench::new(LOCAL, TWO_POINTS, "");
    let mut session = bench.look();
    let (message, hint) = asked(session.select(&["mapping=9Nx9P".into()]));
    assert!(message.starts_with("--only: "), "{message}");
    assert!(!hint.is_empty());
    assert_eq!(session.only, None, "it is as it was");
}

#[test]
fn a_campaign_whose_points_are_all_excluded_has_no_runs() {
    let exclude = "[[exclude]]\nwhen = { app = 'demo' }\nreason = 'a test'\n";
    let bench = Bench::new(LOCAL, TWO_POINTS, exclude);
    let session = bench.look();
    let (message, hint) = asked(session.has_runs());
    let expected = format!("{}: nothing to run: 2 points, all excluded", bench.file());
    assert_eq!(message, expected);
    assert!(hint.contains("`cvc plan`"), "{hint}");
}
