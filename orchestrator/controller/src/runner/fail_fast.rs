//! Detects runs that fail in the same way. A run is then not tried again if another attempt cannot succeed, and a site on which no run has succeeded
//! begins no more runs.

use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::point::Point;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Number of points at which runs must have failed in the same way before a site begins no more runs. If the site has fewer points, runs must have
/// failed at all of them.
const POINTS: usize = 3;
/// Minimum number of attempts that must have failed in the same way before a site begins no more runs.
const ATTEMPTS: usize = 3;
/// An attempt that fails within this time, seconds, failed at its start, so that waiting before the next attempt does not help.
const QUICK_S: f64 = 5.0;
/// Number of failed attempts on a site up to which the most informative run comes next. After that, runs follow the order of the plan again.
const FIRST: usize = 20;
/// Factors whose levels all must have been tried before a site begins no more runs: runs that fail with one level may succeed with another.
const TRIED: [&str; 5] = ["app", "class", "mapping", "mpi", "checkpointer"];

/// What similar failures have in common: the cause, and the first words of the program's own message without numbers and paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similarity {
    cause: Cause,
    words: String,
}

impl Similarity {
    /// Returns the key under which similar failures are counted. `None` if a machine or the budget caused the failure, because the next run may have
    /// another machine or budget.
    fn of(outcome: &Outcome) -> Option<Self> {
        let Outcome::Failed { cause, detail } = outcome else {
            return None;
        };
        cause.is_of_program().then(|| Self {
            cause: *cause,
            words: comparable_words(detail),
        })
    }
}

/// Returns the first part of a failure's message, without the parts that differ from run to run: numbers, paths, progress of the run.
fn comparable_words(detail: &str) -> String {
    let first = detail.split(" | ").next().unwrap_or_default();
    // a program that fails at its start does so whether or not a checkpoint would follow
    let own = match first.find("exit code ") {
        Some(at) => &first[at..],
        None => first,
    };
    let plain = |word: &str| {
        if word.contains('/') {
            return "PATH".to_owned();
        }
        let mut shown = String::new();
        for letter in word.chars() {
            if !letter.is_ascii_digit() {
                shown.push(letter);
            } else if !shown.ends_with('#') {
                shown.push('#');
            }
        }
        shown
    };
    let words: Vec<String> = own.split_whitespace().map(plain).collect();
    words.join(" ")
}

/// The attempts on one site that failed in the same way.
#[derive(Debug, Default)]
struct Alike {
    attempts: usize,
    points: HashSet<PointId>,
}

/// Failures on one site in this session.
#[derive(Debug, Default)]
struct OfSite {
    alike: HashMap<Similarity, Alike>,
    /// The levels of the factors in [`TRIED`] with which runs failed.
    levels: HashSet<(&'static str, String)>,
    /// Whether nothing is left to detect: a run of the site has succeeded, or the site already begins no more runs.
    is_settled: bool,
}

impl OfSite {
    /// Returns how many of a point's levels of the factors in [`TRIED`] have not been tried on the site.
    fn untried(&self, point: &Point) -> usize {
        let levels = TRIED.iter().filter_map(|f| Some((*f, point.factor(f)?)));
        levels.filter(|level| !self.levels.contains(level)).count()
    }
}

/// Numbers of the points and the attempts that failed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedAlike {
    pub(super) points: usize,
    pub(super) attempts: usize,
}

/// The failures of one session.
#[derive(Debug, Default)]
pub(super) struct FailFast {
    /// Whether the user wants to continue although runs fail in the same way.
    keeps_going: bool,
    sites: HashMap<String, OfSite>,
    /// How the last attempt at each run failed, if it failed quickly (within [`QUICK_S`]).
    last: HashMap<RunId, Similarity>,
    /// Points at which a run failed quickly twice in succession in the same way; another attempt at the point would probably fail like that, too.
    hopeless: HashSet<(PointId, Similarity)>,
    /// Points at which a run has succeeded in this session. A failure there may be random, so attempts are repeated.
    healthy: HashSet<PointId>,
    /// Sites that begin no more runs.
    stopped: BTreeSet<String>,
}

impl FailFast {
    pub(super) fn new(keeps_going: bool) -> Self {
        Self {
            keeps_going,
            ..Self::default()
        }
    }

    /// Records how an attempt ended. Returns the reason why the run is not tried again, or `None` if it may be. The reason is that this run or
    /// another run of its point failed twice in succession in this way, each time within [`QUICK_S`] of its start. If a run of the point has
    /// succeeded in this session, the result is `None`.
    pub(super) fn judge_retry(
        &mut self,
        run: &RunId,
        point: &PointId,
        outcome: &Outcome,
        wall_s: f64,
    ) -> Option<String> {
        let before = self.last.remove(run);
        let Some(now) = Similarity::of(outcome) else {
            if *outcome == Outcome::Succeeded {
                self.healthy.insert(point.clone());
            }
            return None;
        };
        if wall_s >= QUICK_S || self.keeps_going || self.healthy.contains(point) {
            return None;
        }
        let is_repeated = before.as_ref() == Some(&now);
        let of_point = (point.clone(), now.clone());
        if is_repeated {
            self.hopeless.insert(of_point.clone());
        }
        let is_hopeless = self.hopeless.contains(&of_point);
        self.last.insert(run.clone(), now);
        is_hopeless.then(|| {
            let whose = if is_repeated {
                "it"
            } else {
                "another run of its point"
            };
            format!(
                "not tried again: {whose} failed twice in this way within {QUICK_S} s of its start"
            )
        })
    }

    /// Records that an attempt at a run of a point ended.
    pub(super) fn note(&mut self, id: &PointId, point: &Point, outcome: &Outcome) {
        if self.keeps_going {
            return;
        }
        let of_site = self.sites.entry(point.site.clone()).or_default();
        if *outcome == Outcome::Succeeded {
            of_site.is_settled = true;
        }
        if of_site.is_settled {
            return;
        }
        for factor in TRIED {
            of_site
                .levels
                .extend(point.factor(factor).map(|level| (factor, level)));
        }
        if let Some(similarity) = Similarity::of(outcome) {
            let alike = of_site.alike.entry(similarity).or_default();
            alike.attempts += 1;
            alike.points.insert(id.clone());
        }
    }

    /// Decides after a run failed with `outcome` whether its site begins no more runs. If so, returns the failures that justify this. `open` returns
    /// the points of the site with runs that may still succeed; `has_succeeded` returns whether a run of the site has succeeded in any session. Both
    /// functions are called only if the decision depends on them.
    pub(super) fn stops<'p>(
        &mut self,
        site: &str,
        outcome: &Outcome,
        open: impl FnOnce() -> Vec<(&'p PointId, &'p Point)>,
        has_succeeded: impl FnOnce() -> bool,
    ) -> Option<FailedAlike> {
        let of_site = self
            .sites
            .get_mut(site)
            .filter(|of_site| !of_site.is_settled)?;
        let alike = of_site
            .alike
            .get(&Similarity::of(outcome)?)
            .filter(|alike| alike.attempts >= ATTEMPTS)?;
        let open = open();
        let is_new = |(id, _): &&(&PointId, &Point)| !alike.points.contains(*id);
        if open.is_empty() || alike.points.len() < POINTS && open.iter().any(|p| is_new(&p)) {
            return None;
        }
        if open.iter().any(|(_, point)| of_site.untried(point) > 0) {
            return None;
        }
        let found = FailedAlike {
            points: alike.points.len(),
            attempts: alike.attempts,
        };
        of_site.is_settled = true;
        if has_succeeded() {
            return None;
        }
        self.stopped.insert(site.to_owned());
        Some(found)
    }

    /// Returns the number of the most informative run for a site whose first runs failed and none succeeded: an open run with the most levels not
    /// tried yet, otherwise an open run at a point where no run has failed. `None` if there is no such run, or if more than [`FIRST`] attempts have
    /// failed.
    pub(super) fn preferred<'p>(
        &self,
        site: &str,
        open: impl FnOnce() -> Vec<(usize, &'p PointId, &'p Point)>,
    ) -> Option<usize> {
        let of_site = self
            .sites
            .get(site)
            .filter(|of_site| !of_site.is_settled && !of_site.alike.is_empty())?;
        let attempts: usize = of_site.alike.values().map(|alike| alike.attempts).sum();
        if attempts > FIRST {
            return None;
        }
        let open = open();
        let is_new = |id: &PointId| {
            of_site
                .alike
                .values()
                .all(|alike| !alike.points.contains(id))
        };
        // among equally informative runs the first in the order of the plan
        open.iter()
            .rev()
            .max_by_key(|(_, _, point)| of_site.untried(point))
            .filter(|(_, _, point)| of_site.untried(point) > 0)
            .or_else(|| open.iter().find(|(_, id, _)| is_new(id)))
            .map(|(number, ..)| *number)
    }

    /// Returns whether any site begins no more runs.
    pub(super) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cause: Cause, detail: &str) -> Outcome {
        Outcome::Failed {
            cause,
            detail: detail.to_owned(),
        }
    }

    fn own(detail: &str) -> Outcome {
        failed(Cause::Application, detail)
    }

    fn point(name: &str, mpi: &str) -> (PointId, Point) {
        let point = Point {
            site: "local".to_owned(),
            app: "heat".into(),
            mpi: mpi.to_owned(),
            ..Point::default()
        };
        (PointId::from_written(name), point)
    }

    /// Notes these failed attempts, one for each point, and returns for each whether the site stops after it.
    fn stops(failures: &[(&str, &str, &Outcome)], open: &[(&str, &str)]) -> Vec<bool> {
        let mut fast = FailFast::new(false);
        let open: Vec<(PointId, Point)> = open.iter().map(|(n, m)| point(n, m)).collect();
        failures
            .iter()
            .map(|(name, mpi, outcome)| {
                let (id, point) = point(name, mpi);
                fast.note(&id, &point, outcome);
                let open = || open.iter().map(|(id, point)| (id, point)).collect();
                fast.stops("local", outcome, open, || false).is_some()
            })
            .collect()
    }

    #[test]
    fn numbers_paths_and_progress_do_not_distinguish_failures() {
        let plain = comparable_words(
            "exit code 2: rank 3 of 8 cannot open /tmp/a/b: No such file | #0 0x7f",
        );
        assert_eq!(
            plain,
            comparable_words(
                "it ended before its checkpoint, exit code 2: rank 11 of 16 cannot open /x: No such file | done"
            )
        );
        assert_ne!(plain, comparable_words("exit code 2: wrong mesh"));
    }

    #[test]
    fn a_site_stops_after_three_points_that_failed_in_the_same_way() {
        let same = own("exit code 2: no mesh");
        let open = [
            ("a", "mpich"),
            ("b", "mpich"),
            ("c", "mpich"),
            ("d", "mpich"),
        ];
        let failures = [
            ("a", "mpich", &same),
            ("a", "mpich", &same),
            ("a", "mpich", &same),
            ("b", "mpich", &same),
            ("c", "mpich", &same),
        ];
        assert_eq!(stops(&failures, &open), [false, false, false, false, true]);
    }

    #[test]
    fn a_library_that_was_not_tried_is_tried_first() {
        let same = own("exit code 2: no mesh");
        let open = [("d", "mpich"), ("e", "openmpi")];
        let failures = [
            ("a", "mpich", &same),
            ("b", "mpich", &same),
            ("c", "mpich", &same),
            ("e", "openmpi", &same),
        ];
        assert_eq!(stops(&failures, &open), [false, false, false, true]);
    }

    #[test]
    fn untried_runs_come_next_until_one_succeeds() {
        let mut fast = FailFast::new(false);
        let (a, b, c) = (
            point("a", "mpich"),
            point("b", "mpich"),
            point("c", "openmpi"),
        );
        let open = || vec![(0, &a.0, &a.1), (1, &b.0, &b.1), (2, &c.0, &c.1)];
        assert_eq!(fast.preferred("local", open), None, "nothing failed");
        fast.note(&a.0, &a.1, &own("exit code 2: no mesh"));
        assert_eq!(fast.preferred("local", open), Some(2), "another library");
        fast.note(&c.0, &c.1, &own("exit code 2: no mesh"));
        assert_eq!(fast.preferred("local", open), Some(1), "another point");
        fast.note(&b.0, &b.1, &Outcome::Succeeded);
        assert_eq!(fast.preferred("local", open), None);
    }

    #[test]
    fn a_small_site_stops_when_all_its_points_failed() {
        let same = own("exit code 2: no mesh");
        let open = [("a", "mpich"), ("b", "mpich")];
        let failures = [
            ("a", "mpich", &same),
            ("b", "mpich", &same),
            ("a", "mpich", &same),
        ];
        assert_eq!(stops(&failures, &open), [false, false, true]);
    }

    #[test]
    fn different_failures_and_those_of_machines_stop_nothing() {
        let (one, other, lost) = (
            own("exit code 2: no mesh"),
            own("exit code 2: no licence"),
            failed(Cause::NodeLost, "n1: silent"),
        );
        let open = [("x", "mpich")];
        let failures = [
            ("a", "mpich", &one),
            ("b", "mpich", &other),
            ("c", "mpich", &one),
            ("d", "mpich", &other),
        ];
        assert_eq!(stops(&failures, &open), [false; 4]);
        let of_machines = [
            ("a", "mpich", &lost),
            ("b", "mpich", &lost),
            ("c", "mpich", &lost),
        ];
        assert_eq!(stops(&of_machines, &open), [false; 3]);
    }

    #[test]
    fn a_success_in_any_session_or_the_users_will_lets_a_site_continue() {
        let same = own("exit code 2: no mesh");
        let (d, other) = point("d", "mpich");
        for (keeps_going, has_succeeded) in [(true, false), (false, true)] {
            let mut fast = FailFast::new(keeps_going);
            for name in ["a", "b", "c"] {
                let (id, point) = point(name, "mpich");
                fast.note(&id, &point, &same);
            }
            let stopped = fast.stops("local", &same, || vec![(&d, &other)], || has_succeeded);
            assert_eq!(stopped, None);
            assert!(!fast.has_stopped());
        }
    }

    #[test]
    fn a_second_attempt_is_skipped_once_one_did_not_help() {
        let mut fast = FailFast::new(false);
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let (here, there) = (PointId::from_written("p"), PointId::from_written("q"));
        let same = own("exit code 2: no mesh");
        assert_eq!(fast.judge_retry(&a, &here, &same, 1.0), None, "chance");
        let reason = fast.judge_retry(&a, &here, &same, 1.0).expect("hopeless");
        assert!(reason.contains("it failed twice"), "{reason}");
        assert_eq!(fast.judge_retry(&b, &here, &same, 9.0), None, "a while");
        assert!(fast.judge_retry(&b, &here, &same, 1.0).is_some());
        let c = RunId::from_written("c");
        assert_eq!(fast.judge_retry(&c, &there, &same, 1.0), None, "elsewhere");
        let other = own("exit code 1: other");
        assert_eq!(fast.judge_retry(&b, &here, &other, 1.0), None);
    }

    #[test]
    fn failures_at_a_point_that_has_succeeded_are_always_retried() {
        let mut fast = FailFast::new(false);
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let point = PointId::from_written("p");
        let flaky = own("exit code 1: address in use");
        fast.judge_retry(&a, &point, &flaky, 1.0);
        fast.judge_retry(&a, &point, &Outcome::Succeeded, 1.0);
        fast.judge_retry(&b, &point, &flaky, 1.0);
        assert_eq!(fast.judge_retry(&b, &point, &flaky, 1.0), None);
    }

    #[test]
    fn a_class_that_was_not_tried_is_tried_before_a_site_stops() {
        let mut fast = FailFast::new(false);
        let same = own("exit code 1: no output");
        for name in ["a", "b", "c"] {
            let (id, mut point) = point(name, "mpich");
            point.class = "L".into();
            fast.note(&id, &point, &same);
        }
        let (id, mut small) = point("d", "mpich");
        small.class = "A".into();
        assert_eq!(
            fast.stops("local", &same, || vec![(&id, &small)], || false),
            None
        );
        assert_eq!(fast.preferred("local", || vec![(7, &id, &small)]), Some(7));
    }
}
