//! The runs of a session as checks for continuous integration, with expected failures.

use crate::{
    ci::{Check, CheckList, CheckResult},
    display::Varying,
};
use cvc_core::plan::PlannedRun;
use cvc_core::point::Point;
use cvc_core::store::StoreError;
use cvc_journal::CampaignState;
use cvc_session::{
    CampaignSession,
    explanation::end_of,
    progress::output_of,
    run_words::{RunWord, RunWords},
};
use std::collections::HashMap;

/// Returns each run of the session as a check. For a run that is expected to fail, a failure passes the check and a success fails it.
///
/// # Errors
/// The journal cannot be read.
pub fn checks(session: &CampaignSession) -> Result<CheckList, StoreError> {
    let plan = session.selected();
    let state = CampaignState::read(&session.dir.journal())?;
    let words = RunWords::of(&session.dir, &plan, &state);
    let varying = Varying::of(plan.points.iter().map(|p| &p.point));
    let points: HashMap<_, &Point> = plan.points.iter().map(|p| (&p.id, &p.point)).collect();
    let check = |run: &PlannedRun| Check {
        group: points
            .get(&run.point)
            .map_or_else(String::new, |point| varying.show(point)),
        name: run.repeat.to_string(),
        time_s: time_s(&state, run),
        result: result(session, &state, &words, run),
    };
    Ok(CheckList {
        title: format!("cvc run {}", plan.campaign),
        checks: plan.runs.iter().map(check).collect(),
    })
}

fn result(
    session: &CampaignSession,
    state: &CampaignState,
    words: &RunWords<'_>,
    run: &PlannedRun,
) -> CheckResult {
    let (word, detail) = words.of_run(run);
    let detail = detail.unwrap_or_default();
    let expected = match word {
        RunWord::Failed => words.expected_of_program(run),
        _ => words.expected_failure(run),
    };
    match (word, expected) {
        (RunWord::Succeeded, None) | (RunWord::Failed, Some(_)) => CheckResult::Passed,
        (RunWord::Succeeded, Some(reason)) => CheckResult::Failed {
            message: format!("it succeeded although it was expected to fail: {reason}"),
            detail: String::new(),
        },
        (RunWord::Failed, None) => CheckResult::Failed {
            message: detail,
            detail: output_of(&session.dir, state, run)
                .and_then(|file| end_of(&file))
                .unwrap_or_default(),
        },
        (word, _) => CheckResult::Skipped {
            why: [word.as_str(), &detail]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(": "),
        },
    }
}

/// Returns the duration of the last attempt at a run, seconds, from the journal.
fn time_s(state: &CampaignState, run: &PlannedRun) -> Option<f64> {
    let last = state.runs.get(&run.id)?.attempts.last()?;
    Some(last.ended?.duration_since(last.started?).as_secs_f64())
}
