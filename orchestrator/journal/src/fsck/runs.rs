//! Whether the directories of runs are what the journal says.

use super::problem::{Problem, Remedy};
use crate::{CampaignState, RunState};
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::store::{CampaignDir, StoreError, check_manifest, read_outcome, sealed_outcome};
use std::collections::BTreeSet;

/// What a name below `runs/` stands for.
enum Name {
    Succeeded(RunId),
    Failed(RunId, u32),
    Partial(RunId),
    /// By an earlier repair, or because another controller made it again.
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

/// Adds what is wrong with the directories of runs, and returns how many were checked.
pub(super) fn check(
    dir: &CampaignDir,
    state: &CampaignState,
    problems: &mut Vec<Problem>,
    mut tell: impl FnMut(usize, usize),
) -> Result<usize, StoreError> {
    let names = names(&dir.runs())?;
    let mut runs: Vec<_> = state.runs.iter().collect();
    runs.sort_by_key(|(run, _)| (*run).clone());
    let total = runs.len() + names.len();
    for (done, (run, history)) in runs.into_iter().enumerate() {
        tell(done, total);
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
                consequence: "the journal says that this run succeeded, and its results are not to be trusted".into(),
                remedy: Some(Remedy::RepeatRun { run: run.clone(), attempt: *attempt, reason: what.clone() }),
                what,
                is_damage: true,
            });
        }
    }
    for (done, name) in names.iter().enumerate() {
        tell(total - names.len() + done, total);
        problems.extend(unrecorded(dir, state, name));
    }
    tell(total, total);
    Ok(names.len())
}

/// What is wrong with the directory of a run that succeeded.
fn problem_of(dir: &Utf8Path, attempt: u32, manifest: Option<&str>) -> Option<String> {
    if !dir.is_dir() {
        return Some("the directory is missing".to_owned());
    }
    match read_outcome(dir) {
        Err(error) => return Some(error.to_string()),
        Ok(file) if file.attempt != attempt => {
            return Some(format!(
                "outcome.json is of attempt {}, and the journal has attempt {attempt}",
                file.attempt
            ));
        }
        Ok(_) => {}
    }
    manifest
        .and_then(|digest| check_manifest(dir, digest).err())
        .map(|problem| problem.to_string())
}

/// What is remarkable about a name below `runs/` that the journal does not explain.
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
            // its controller was killed in between, or it is under way: the next session takes it as it is
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
                            "the run is whole, and the journal does not know that it ended",
                            "the next `cvc run` would make it again in its place",
                        )
                    }),
                    None => Some(note(
                        "the journal does not know this run, and it is not whole",
                        "nothing reads it",
                    )),
                }
            }
        },
        Name::Failed(run, attempt) => {
            let known = state
                .runs
                .get(&run)
                .is_some_and(|h| h.attempts.iter().any(|a| a.number == attempt));
            (!known).then(|| note("the journal does not know this attempt", "nothing reads it"))
        }
        Name::Partial(run) => {
            let open = matches!(state.run(&run), Some(RunState::Open { .. }));
            (!open).then(|| {
                note(
                    "an attempt that the journal does not know, or that has ended",
                    "the next `cvc run` removes it",
                )
            })
        }
        Name::PutAside => None,
        Name::Other => Some(note("cvc gives no such name", "nothing reads it")),
    }
}

/// Names below `runs/`; none if it does not exist.
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
    fn what_was_put_aside_is_told_from_what_nobody_knows() {
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
