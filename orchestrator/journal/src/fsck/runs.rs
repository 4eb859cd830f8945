//! Checks whether the directories of runs match the journal.

use super::problem::{Problem, Remedy};
use crate::{CampaignState, RunState};
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::store::{CampaignDir, StoreError, check_manifest, read_outcome, sealed_outcome};
use std::collections::BTreeSet;

/// What a name in the directory `runs/` stands for.
enum Name {
    Succeeded(RunId),
    Failed(RunId, u32),
    Partial(RunId),
    /// Renamed by an earlier repair, or by cvc when another controller had repeated the run.
    PutAside,
    Other,
}

fn parse(name: &str) -> Name {
    let (run, rest) = name
        .split_once('.')
        .map_or((name, None), |(run, rest)| (run, Some(rest)));
    let Ok(run) = RunId::try_from(run.to_owned()) else {
        return Name::Other;
    };
    match rest {
        None => Name::Succeeded(run),
        Some("partial") => Name::Partial(run),
        Some(rest) if rest.starts_with("damaged-") => Name::PutAside,
        Some(rest) => {
            let (attempt, aside) = rest
                .split_once('.')
                .map_or((rest, None), |(attempt, aside)| (attempt, Some(aside)));
            match (
                attempt.strip_prefix("failed-").and_then(|n| n.parse().ok()),
                aside,
            ) {
                (Some(attempt), None) => Name::Failed(run, attempt),
                (Some(_), Some(aside)) if aside.starts_with("damaged-") => Name::PutAside,
                (Some(_) | None, _) => Name::Other,
            }
        }
    }
}

/// Appends the problems of run directories to `problems`, and returns the number of directories checked.
pub(super) fn check(
    dir: &CampaignDir,
    state: &CampaignState,
    problems: &mut Vec<Problem>,
    mut report: impl FnMut(usize, usize),
) -> Result<usize, StoreError> {
    let names = names(&dir.runs())?;
    let mut runs: Vec<_> = state.runs.iter().collect();
    runs.sort_by_key(|(run, _)| (*run).clone());
    let total = runs.len() + names.len();
    for (done, (run, history)) in runs.into_iter().enumerate() {
        report(done, total);
        if let RunState::Finished {
            attempt,
            outcome: Outcome::Succeeded,
            manifest,
            ..
        } = &history.state
            && let Some(what) = problem_of(&dir.run(run), *attempt, manifest.as_deref())
        {
            problems.push(Problem {
                path: dir.run(run),
                line: None,
                consequence:
                    "the journal records this run as succeeded, but its results cannot be trusted"
                        .into(),
                remedy: Some(Remedy::RepeatRun {
                    run: run.clone(),
                    attempt: *attempt,
                    reason: what.clone(),
                }),
                what,
                is_damage: true,
            });
        }
    }
    for (done, name) in names.iter().enumerate() {
        report(total - names.len() + done, total);
        problems.extend(unrecorded(dir, state, name));
    }
    report(total, total);
    Ok(names.len())
}

/// Returns the problem with the directory of a run that succeeded; `None` if it is intact.
fn problem_of(dir: &Utf8Path, attempt: u32, manifest: Option<&str>) -> Option<String> {
    if !dir.is_dir() {
        return Some("the directory is missing".to_owned());
    }
    match read_outcome(dir) {
        Err(error) => return Some(error.to_string()),
        Ok(file) if file.attempt != attempt => {
            return Some(format!(
                "outcome.json is from attempt {}, but the journal has attempt {attempt}",
                file.attempt
            ));
        }
        Ok(_) => {}
    }
    manifest
        .and_then(|digest| check_manifest(dir, digest).err())
        .map(|problem| problem.to_string())
}

/// Returns the problem with an entry of `runs/` that does not follow from the journal; `None` if it does follow, or is no problem.
fn unrecorded(dir: &CampaignDir, state: &CampaignState, name: &str) -> Option<Problem> {
    let path = dir.runs().join(name);
    let note = |what: &str, consequence: &str| Problem {
        path: path.clone(),
        line: None,
        what: what.into(),
        consequence: consequence.into(),
        remedy: None,
        is_damage: false,
    };
    match parse(name) {
        Name::Succeeded(run) => match state.run(&run) {
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) => None,
            // the run's controller was killed before it wrote the end, or is still working; the next session adds the run
            Some(RunState::Open { .. }) => None,
            Some(RunState::Finished { .. } | RunState::Abandoned { .. }) | None => {
                match read_outcome(&path)
                    .ok()
                    .and_then(|f| sealed_outcome(dir, &run, f.attempt))
                {
                    Some(file) => Some(Problem {
                        remedy: Some(Remedy::RecordRun(run, file)),
                        is_damage: true,
                        ..note(
                            "the run is complete, but the journal lacks its end",
                            "the next `cvc run` would repeat it in its place",
                        )
                    }),
                    None => Some(note(
                        "the run is not in the journal, and is incomplete",
                        "cvc does not read it",
                    )),
                }
            }
        },
        Name::Failed(run, attempt) => {
            let known = state
                .runs
                .get(&run)
                .is_some_and(|h| h.attempts.iter().any(|a| a.number == attempt));
            (!known).then(|| note("the attempt is not in the journal", "cvc does not read it"))
        }
        Name::Partial(run) => {
            let open = matches!(state.run(&run), Some(RunState::Open { .. }));
            (!open).then(|| {
                note(
                    "an attempt that is not in the journal, or has ended",
                    "the next `cvc run` removes it",
                )
            })
        }
        Name::PutAside => None,
        Name::Other => Some(note("not a name that cvc gives", "cvc does not read it")),
    }
}

/// Returns the names below `runs/`; empty if that directory does not exist.
fn names(runs: &Utf8Path) -> Result<BTreeSet<String>, StoreError> {
    match runs.read_dir_utf8() {
        Ok(entries) => entries
            .map(|e| e.map(|e| e.file_name().to_owned()))
            .collect::<Result<_, _>>()
            .map_err(StoreError::io("list", runs)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(StoreError::io("list", runs)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_attempts_are_distinguished_from_unknown_ones() {
        let run = "0123456789abcdef";
        let aside = |rest: &str| matches!(parse(&format!("{run}{rest}")), Name::PutAside);
        assert!(aside(".damaged-1") && aside(".failed-1.damaged-2"));
        assert!(matches!(
            parse(&format!("{run}.failed-3")),
            Name::Failed(_, 3)
        ));
        for other in [".failed-x.damaged-1", ".failed-1.old", ".old"] {
            assert!(
                matches!(parse(&format!("{run}{other}")), Name::Other),
                "{other}"
            );
        }
    }
}
