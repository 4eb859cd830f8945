//! A trial: one run in a temporary directory.

use crate::bench::{Bench, LOCAL};
use cvc_core::stop::{StopRequest, StopRequests};
use cvc_session::{CampaignSession, Machine, Scratch, Trial};
use std::time::Duration;

const ONE: &str = "app = 'demo'\nclass = 'S'\nmapping = '1Nx1P'\n";

async fn carry_out(
    session: &CampaignSession,
    scratch: &Scratch,
    stops: &StopRequests,
) -> (Trial, Vec<String>) {
    let machine = Machine {
        campaigns: scratch.path().join("not-used"),
        clouds: None,
    };
    let options = machine.options().expect("options");
    let mut messages = Vec::new();
    let mut report = |what: &str| messages.push(what.to_owned());
    let trial = Trial::carry_out(
        (&session.spec, &session.plan),
        scratch,
        &options,
        Duration::from_secs(60),
        &stops.subscribe(),
        &mut report,
    )
    .await;
    assert!(
        !machine.campaigns.exists(),
        "all of it is in the scratch directory"
    );
    (trial, messages)
}

#[test]
fn a_scratch_directory_goes_with_its_value() {
    let scratch = Scratch::new("cvc-test-scratch-").expect("a directory");
    let path = scratch.path().to_owned();
    assert!(
        path.is_dir()
            && path
                .file_name()
                .is_some_and(|n| n.starts_with("cvc-test-scratch-"))
    );
    std::fs::write(path.join("left"), "").expect("writes");
    scratch.close().expect("removes");
    assert!(!path.exists());
    let dropped = Scratch::new("cvc-test-scratch-").expect("a directory");
    let path = dropped.path().to_owned();
    drop(dropped);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_trial_that_the_user_stops_before_it_begins_has_no_run() {
    let session = Bench::new(LOCAL, ONE, "[run]\nrepeats = 1\n").look();
    let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
    let stops = StopRequests::default();
    stops.request(StopRequest::StopNow);
    let (trial, _) = carry_out(&session, &scratch, &stops).await;
    assert!(trial.is_interrupted);
    assert_eq!(trial.late, None);
    assert!(trial.problem.is_some());
    assert!(trial.began().is_none() && trial.outcome().is_none());
    assert_eq!(trial.stage("launch"), None);
    assert_eq!(
        (trial.directory().as_str(), trial.work().as_str()),
        ("", "")
    );
    assert_eq!(trial.text("stdout"), "");
    assert_eq!(trial.records().value("wall_s"), None);
}

#[tokio::test]
async fn a_trial_of_a_missing_program_names_it() {
    let session = Bench::new(LOCAL, ONE, "[run]\nrepeats = 1\n").look();
    let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
    let (trial, _) = carry_out(&session, &scratch, &StopRequests::default()).await;
    let problem = trial.problem.as_deref().expect("a reason");
    assert!(
        problem.contains("demo") || problem.contains("mpi"),
        "{problem}"
    );
    assert!(!trial.is_interrupted && trial.late.is_none());
    assert!(trial.began().is_none() && trial.ended().is_none());
}

#[tokio::test]
async fn a_trial_whose_run_never_began_says_so() {
    let mut session = Bench::new(LOCAL, ONE, "[run]\nrepeats = 1\n").look();
    session.plan.points.clear();
    session.plan.runs.clear();
    let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
    let (trial, _) = carry_out(&session, &scratch, &StopRequests::default()).await;
    assert_eq!(trial.problem.as_deref(), Some("the run never began"));
    assert!(!trial.is_interrupted && trial.late.is_none());
}
