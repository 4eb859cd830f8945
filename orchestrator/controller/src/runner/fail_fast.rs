//! Notices that runs fail in the same way: no attempt is then repeated in vain, and a site where nothing has succeeded begins no more runs.

use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::point::Point;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Number of different points at which runs must fail in the same way before a site begins no more; all points of a site that has fewer.
const POINTS: usize = 3;
/// Number of failed attempts, at least.
const ATTEMPTS: usize = 3;
/// An attempt that fails within this time, seconds, fails at its start: what it waits for does not come by itself.
const QUICK_S: f64 = 5.0;
/// Number of failed attempts of a site after which the order of the plan holds again.
const FIRST: usize = 20;
/// Each level of these factors must have been tried: what fails with one may succeed with another.
const TRIED: [&str; 5] = ["app", "class", "mapping", "mpi", "checkpointer"];

/// What failures that are alike have in common: the cause, and the first of the program's own words without numbers and paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Likeness {
    cause: Cause,
    words: String,
}

impl Likeness {
    /// Of a failure; `None` for one that the machines or the budget are the reason of, which may be gone by the next run.
    fn of(outcome: &Outcome) -> Option<Self> {
        let Outcome::Failed { cause, detail } = outcome else {
            return None;
        };
        match cause {
            Cause::Launch
            | Cause::Application
            | Cause::Checkpoint
            | Cause::Restart
            | Cause::SettingIgnored
            | Cause::Misplaced
            | Cause::Timeout
            | Cause::OutOfMemory
            | Cause::Output => Some(Self {
                cause: *cause,
                words: words(detail),
            }),
            Cause::EndedFromOutside
            | Cause::NodeLost
            | Cause::Cancelled
            | Cause::Preempted
            | Cause::Reclaimed
            | Cause::DiskFull
            | Cause::Budget
            | Cause::Store => None,
        }
    }
}

/// The first part of what is said of a failure, without what differs from run to run: numbers, paths, where in its course the run was.
fn words(detail: &str) -> String {
    let first = detail.split(" | ").next().unwrap_or_default();
    // a program that fails at once does so with and without a checkpoint to come
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

/// The attempts of one site that failed in one way.
#[derive(Debug, Default)]
struct Alike {
    attempts: usize,
    points: HashSet<PointId>,
}

/// What failed on one site in this session.
#[derive(Debug, Default)]
struct OfSite {
    alike: HashMap<Likeness, Alike>,
    /// The levels of [`TRIED`] that failed.
    levels: HashSet<(&'static str, String)>,
    /// Whether a run has succeeded, or no more are begun: nothing more is to be noticed.
    is_settled: bool,
}

impl OfSite {
    /// Number of levels of a point that may matter and were not tried.
    fn untried(&self, point: &Point) -> usize {
        let levels = TRIED.iter().filter_map(|f| Some((*f, point.factor(f)?)));
        levels.filter(|level| !self.levels.contains(level)).count()
    }
}

/// Runs that failed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedAlike {
    pub(super) points: usize,
    pub(super) attempts: usize,
}

/// The failures of one session.
#[derive(Debug, Default)]
pub(super) struct FailFast {
    /// Whether the user wants to go on regardless.
    keeps_going: bool,
    sites: HashMap<String, OfSite>,
    /// How the last attempt of a run failed, if quickly.
    last: HashMap<RunId, Likeness>,
    /// Failures of points that another attempt did not help against.
    in_vain: HashSet<(PointId, Likeness)>,
    /// Points at which a run has succeeded in this session: whatever fails there may be chance.
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

    /// Takes in how an attempt ended. Returns why another attempt at the run would be in vain, if that is known: one at its point that failed
    /// in this way as quickly was repeated in this session, and failed in the same way. Where a run of the point has succeeded, nothing is in vain.
    pub(super) fn judge_retry(
        &mut self,
        run: &RunId,
        point: &PointId,
        outcome: &Outcome,
        wall_s: f64,
    ) -> Option<String> {
        let before = self.last.remove(run);
        let Some(now) = Likeness::of(outcome) else {
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
            self.in_vain.insert(of_point.clone());
        }
        let is_vain = self.in_vain.contains(&of_point);
        self.last.insert(run.clone(), now);
        is_vain.then(|| {
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

    /// Takes in that an attempt at a run of a point ended.
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
        if let Some(likeness) = Likeness::of(outcome) {
            let alike = of_site.alike.entry(likeness).or_default();
            alike.attempts += 1;
            alike.points.insert(id.clone());
        }
    }

    /// Whether a site is to begin no more runs after a run failed in this way. `open` are the points of its runs that may still succeed,
    /// `has_succeeded` tells whether one has in any session; both are asked for only if they matter.
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
            .get(&Likeness::of(outcome)?)
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

    /// The run to begin next on a site where the first ones failed and none has succeeded: one of these open ones at a level, or else at a point,
    /// that was not tried yet, because that tells most. `None` if any will do.
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
        // of equal ones the first in the order of the plan
        open.iter()
            .rev()
            .max_by_key(|(_, _, point)| of_site.untried(point))
            .filter(|(_, _, point)| of_site.untried(point) > 0)
            .or_else(|| open.iter().find(|(_, id, _)| is_new(id)))
            .map(|(number, ..)| *number)
    }

    /// Whether any site begins no more runs.
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

    /// One failed attempt at each of these points, and whether the site stops after it.
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
    fn numbers_paths_and_where_a_run_was_do_not_tell_failures_apart() {
        let plain = words("exit code 2: rank 3 of 8 cannot open /tmp/a/b: No such file | #0 0x7f");
        assert_eq!(
            plain,
            words(
                "it ended before its checkpoint, exit code 2: rank 11 of 16 cannot open /x: No such file | done"
            )
        );
        assert_ne!(plain, words("exit code 2: wrong mesh"));
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
    fn what_was_not_tried_comes_next_until_something_succeeds() {
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
    fn a_success_in_any_session_and_the_users_will_let_a_site_go_on() {
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
    fn a_second_attempt_is_left_out_once_one_was_in_vain() {
        let mut fast = FailFast::new(false);
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let (here, there) = (PointId::from_written("p"), PointId::from_written("q"));
        let same = own("exit code 2: no mesh");
        assert_eq!(fast.judge_retry(&a, &here, &same, 1.0), None, "chance");
        let reason = fast.judge_retry(&a, &here, &same, 1.0).expect("in vain");
        assert!(reason.contains("it failed twice"), "{reason}");
        assert_eq!(fast.judge_retry(&b, &here, &same, 9.0), None, "a while");
        assert!(fast.judge_retry(&b, &here, &same, 1.0).is_some());
        let c = RunId::from_written("c");
        assert_eq!(fast.judge_retry(&c, &there, &same, 1.0), None, "elsewhere");
        let other = own("exit code 1: other");
        assert_eq!(fast.judge_retry(&b, &here, &other, 1.0), None);
    }

    #[test]
    fn what_fails_at_a_point_that_has_succeeded_is_always_tried_again() {
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
