//! The states of runs in words.

use crate::bench::Begun;
use cvc_session::run_words::{RunWord, RunWords};
use std::fs;

/// The words of all runs, with their reasons.
fn words(begun: &Begun) -> Vec<(RunWord, Option<String>)> {
    let state = begun.state();
    let words = RunWords::of(begun.dir(), &begun.session.plan, &state);
    let runs = begun.session.plan.runs.iter();
    runs.map(|run| words.of_run(run)).collect()
}

fn states(begun: &Begun) -> Vec<RunWord> {
    words(begun).into_iter().map(|(word, _)| word).collect()
}

/// Numbers of the runs of the first run's point, and of the other point.
pub(crate) fn by_point(begun: &Begun) -> ([usize; 2], [usize; 2]) {
    let of = |same: bool| {
        let numbers = (0..4).filter(|n| (begun.point(*n) == begun.point(0)) == same);
        let numbers: Vec<usize> = numbers.collect();
        <[usize; 2]>::try_from(numbers).expect("two repeats")
    };
    (of(true), of(false))
}

#[test]
fn runs_that_were_tried_have_the_words_of_their_ends() {
    let mut begun = Begun::new();
    begun.succeed(0, 1);
    begun.succeed(1, 1);
    begun.fail(2, 1, Some("not tried again: it failed twice"));
    begun.intend(3, 1, &[]);
    fs::remove_dir(begun.dir().run(&begun.run(1))).expect("removes");
    let reason = "exit code 2; not tried again: it failed twice";
    assert_eq!(
        words(&begun),
        [
            (RunWord::Succeeded, None),
            (RunWord::Missing, Some("its directory is missing".into())),
            (RunWord::Failed, Some(reason.into())),
            (RunWord::Open, None)
        ]
    );
}

#[test]
fn a_reason_not_to_try_again_is_that_of_the_last_attempt() {
    let mut begun = Begun::new();
    begun.fail(0, 1, Some("of an earlier session"));
    begun.fail(0, 2, None);
    assert_eq!(
        words(&begun)[0],
        (RunWord::Failed, Some("exit code 2".into()))
    );
}

#[test]
fn a_quarantined_point_keeps_its_ends_and_its_other_runs_are_not_tried() {
    let mut begun = Begun::new();
    let ([first, second], [other, _]) = by_point(&begun);
    begun.abandon(first, false, false);
    begun.succeed(other, 1);
    assert_eq!(states(&begun)[first], RunWord::Abandoned);
    begun.quarantine(first);
    begun.quarantine(other);
    let states = states(&begun);
    assert_eq!(
        (states[first], states[second]),
        (RunWord::Quarantined, RunWord::Quarantined)
    );
    assert_eq!(states[other], RunWord::Succeeded);
}

#[test]
fn a_decided_point_needs_no_further_run() {
    let mut begun = Begun::new();
    let ([first, second], [other, _]) = by_point(&begun);
    begun.succeed(first, 1);
    begun.decide(first);
    let words = words(&begun);
    assert_eq!(words[first].0, RunWord::Succeeded);
    let reason = "wall_s ±1.0 % after 1 repeat".to_owned();
    assert_eq!(words[second], (RunWord::NotNeeded, Some(reason)));
    assert_eq!(words[other], (RunWord::ToDo, None));
}

#[test]
fn a_skipped_point_is_one_that_was_never_tried() {
    let mut begun = Begun::new();
    let ([first, second], [other, _]) = by_point(&begun);
    begun.abandon(other, false, false);
    begun.skip(first);
    begun.skip(other);
    let words = words(&begun);
    for run in [first, second] {
        assert_eq!(words[run], (RunWord::Skipped, Some("no mpiexec".into())));
    }
    assert_eq!(words[other].0, RunWord::Abandoned);
}
