//! Why runs and points are where they are.

use crate::{bench::Begun, words::by_point};
use cvc_core::point::{Excluded, ExcludedBy};
use cvc_session::explanation::{
    ExplainedRun, Explanation, end_of, end_of_output, explain_id, explain_points,
};
use cvc_session::run_words::RunWord;

/// The explanation of a run.
fn run(begun: &Begun, number: usize) -> ExplainedRun {
    let id = begun.run(number);
    let (plan, state) = (&begun.session.plan, begun.state());
    let found = explain_id(begun.dir(), plan, &state, id.as_str());
    match found.as_slice() {
        [Explanation::Run(run)] => run.clone(),
        other => panic!("{other:?}"),
    }
}

/// Why the point of a run has the runs that it has.
fn point(begun: &Begun, number: usize) -> String {
    let id = begun.point(number);
    let (plan, state) = (&begun.session.plan, begun.state());
    let found = explain_id(begun.dir(), plan, &state, id.as_str());
    match found.as_slice() {
        [Explanation::Point { why, runs, .. }] => {
            assert_eq!(runs.len(), 2);
            why.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_that_succeeded_has_its_attempts_and_its_directory() {
    let mut begun = Begun::new();
    begun.fail(0, 1, None);
    begun.succeed(0, 2);
    let run = run(&begun, 0);
    assert_eq!(run.state, RunWord::Succeeded);
    assert_eq!(run.why, "at attempt 2");
    assert_eq!(run.repeat, "repeat 1");
    assert_eq!(run.directory, Some(format!("runs/{}", run.run)));
    let of: Vec<(u32, &str, Option<f64>)> = run
        .attempts
        .iter()
        .map(|a| (a.number, a.end.as_str(), a.took_s))
        .collect();
    // each begins ten seconds before its end
    assert_eq!(
        of,
        [
            (1, "failed (application): exit code 2", Some(10.0)),
            (2, "succeeded", Some(10.0))
        ]
    );
    assert_eq!(
        run.attempts[0].started.as_deref(),
        Some("2030-01-01T00:00:30Z")
    );
}

#[test]
fn a_run_that_succeeded_at_once_says_no_more() {
    let mut begun = Begun::new();
    begun.succeed(0, 1);
    assert_eq!(run(&begun, 0).why, "at the first attempt");
}

#[test]
fn a_failed_run_names_the_command_that_retries_it() {
    let mut begun = Begun::new();
    begun.fail(0, 1, None);
    begun.fail(0, 2, Some("it failed twice in this way"));
    let run = run(&begun, 0);
    assert_eq!(
        run.why,
        "exit code 2; it failed twice in this way; `cvc run --retry-failed` retries it"
    );
    assert_eq!(run.directory, Some(format!("runs/{}.failed-2", run.run)));
    assert_eq!(
        run.attempts[1].end,
        "failed (application): exit code 2; it failed twice in this way"
    );
}

#[test]
fn runs_that_were_cut_off_say_how() {
    for (lost, with_controller, end, why) in [
        (
            true,
            false,
            "lost with its agent or nodes; does not count",
            "it was lost with its agent or its nodes",
        ),
        (
            false,
            true,
            "ended with its controller; does not count",
            "it was interrupted",
        ),
        (
            false,
            false,
            "interrupted; does not count",
            "it was interrupted",
        ),
    ] {
        let mut begun = Begun::new();
        begun.abandon(0, lost, with_controller);
        let run = run(&begun, 0);
        assert_eq!(run.state, RunWord::Abandoned);
        assert_eq!(run.attempts[0].end, end);
        assert_eq!(run.attempts[0].nodes, ["n1", "n2"]);
        let expected = format!("{why}, which does not count as an attempt: `cvc run` repeats it");
        assert_eq!(run.why, expected);
        assert_eq!(run.directory, None);
    }
}

#[test]
fn a_run_under_way_has_no_end_yet() {
    let mut begun = Begun::new();
    begun.intend(0, 1, &[]);
    let run = run(&begun, 0);
    assert!(run.why.starts_with("it is running"), "{}", run.why);
    assert_eq!(run.directory, Some(format!("runs/{}.partial", run.run)));
    assert_eq!(run.attempts[0].end, "its end is not recorded");
    assert_eq!(
        (run.attempts[0].took_s, run.attempts[0].nodes.len()),
        (None, 0)
    );
}

#[test]
fn runs_wait_for_those_before_them_that_are_to_be_done() {
    let mut begun = Begun::new();
    let why = |begun: &Begun, number: usize| run(begun, number).why;
    assert_eq!(why(&begun, 0), "it is the next one that `cvc run` starts");
    assert_eq!(
        why(&begun, 1),
        "it waits for its turn: 1 run comes before it"
    );
    assert_eq!(
        why(&begun, 3),
        "it waits for its turn: 3 runs come before it"
    );
    begun.succeed(0, 1);
    begun.fail(1, 1, None);
    begun.abandon(2, false, false);
    // what is done or failed for good is not waited for, and what was cut off is
    assert_eq!(
        why(&begun, 3),
        "it waits for its turn: 1 run comes before it"
    );
    // nor is a run that is gone: it is repeated
    std::fs::remove_dir(begun.dir().run(&begun.run(0))).expect("removes");
    assert_eq!(
        why(&begun, 3),
        "it waits for its turn: 2 runs come before it"
    );
    assert_eq!(
        why(&begun, 0),
        "it succeeded, but its directory is missing: `cvc run` repeats it"
    );
}

#[test]
fn a_point_counts_its_runs() {
    let mut begun = Begun::new();
    let ([first, second], [other, another]) = by_point(&begun);
    assert_eq!(
        point(&begun, first),
        "0 of 2 runs succeeded, 0 failed, 2 left"
    );
    begun.succeed(first, 1);
    begun.abandon(second, false, false);
    assert_eq!(
        point(&begun, first),
        "1 of 2 runs succeeded, 0 failed, 1 left"
    );
    begun.decide(first);
    assert_eq!(
        point(&begun, first),
        "1 of 2 runs succeeded, 0 failed, 0 left; no more are needed after 1 repeat: wall_s ±1.0 % after 1 repeat"
    );
    let needed = run(&begun, second).why;
    assert_eq!(
        needed,
        "no further run of its point is needed: wall_s ±1.0 % after 1 repeat"
    );
    begun.fail(other, 1, None);
    begun.quarantine(other);
    let why = point(&begun, other);
    assert!(
        why.starts_with(
            "0 of 2 runs succeeded, 1 failed, 0 left, because its point failed too often"
        ),
        "{why}"
    );
    assert!(
        run(&begun, another)
            .why
            .starts_with("it is not tried, because its point")
    );
}

#[test]
fn a_skipped_run_names_the_missing_software() {
    let mut begun = Begun::new();
    begun.skip(0);
    assert_eq!(
        run(&begun, 0).why,
        "it cannot run here: no mpiexec; each `cvc run` checks again"
    );
}

#[test]
fn four_letters_of_an_identifier_are_enough_and_fewer_are_not() {
    let begun = Begun::new();
    let (plan, state) = (&begun.session.plan, begun.state());
    let id = begun.run(0);
    let find = |text: &str| explain_id(begun.dir(), plan, &state, text).len();
    assert_eq!(find(&id.as_str()[..3]), 0);
    assert_eq!(find(&id.as_str()[..4]), 1);
    assert_eq!(find("nothing-like-it"), 0);
}

#[test]
fn combinations_that_do_not_run_have_their_reason_behind_the_points() {
    let begun = Begun::new();
    let (plan, state) = (&begun.session.plan, begun.state());
    let excluded = Excluded {
        point: plan.points[0].point.clone(),
        by: ExcludedBy::Application,
        reason: "8 is not a square".to_owned().into(),
    };
    let found = explain_points(begun.dir(), plan, &state, &plan.points[..1], [&excluded]);
    let [
        Explanation::Point { factors, .. },
        Explanation::Excluded { why, factors: same },
    ] = found.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!(why, "does not run, by application: 8 is not a square");
    assert_eq!(factors, same);
    assert!(factors.contains(&("app".to_owned(), "demo".to_owned())));
}

#[test]
fn the_ends_of_outputs_are_shown_errors_first() {
    let mut begun = Begun::new();
    begun.succeed(0, 1);
    let explained = run(&begun, 0);
    assert!(end_of_output(begun.dir(), &explained).is_empty());
    let place = begun.dir().run(&begun.run(0));
    std::fs::write(place.join("stdout"), "result\n").expect("writes");
    std::fs::write(place.join("stderr"), "warning\n").expect("writes");
    let ends = end_of_output(begun.dir(), &explained);
    assert_eq!(
        ends,
        [
            ("stderr", "warning\n".to_owned()),
            ("stdout", "result\n".to_owned())
        ]
    );
    std::fs::write(place.join("stderr"), " \n\n").expect("writes");
    assert_eq!(
        end_of_output(begun.dir(), &explained).len(),
        1,
        "blank ones are none"
    );
    let waiting = run(&begun, 1);
    assert!(end_of_output(begun.dir(), &waiting).is_empty());
}

#[test]
fn of_a_long_output_the_last_bytes_are_shown() {
    let begun = Begun::new();
    let text = format!(
        "{}{}the end\n",
        "a".repeat(30_000),
        "b".repeat(16 * 1024 - 8)
    );
    begun.bench.write("long", &text);
    let shown = end_of(&begun.bench.path("long")).expect("an end");
    assert_eq!(shown.len(), 16 * 1024);
    assert!(shown.starts_with('b') && shown.ends_with("the end\n"));
    assert_eq!(end_of(&begun.bench.path("nothing")), None);
    // what is no file is said to be none
    let other = end_of(&begun.bench.path("apps")).expect("a reason");
    assert!(other.contains("apps: "), "{other}");
}
