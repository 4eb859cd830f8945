//! Carries out the sessions of one command: a single session, or one for each fleet of instances.

use crate::{
    audience::Audience, campaigns::clock_warning, error::SessionError, installing::install_all,
    session::CampaignSession,
};
use cvc_controller::observe::SessionProgress;
use cvc_controller::runner::{NextBlock, Options, Summary, next_block, run_campaign};
use cvc_core::campaign::{Block, BlockKind, SiteKind};
use cvc_core::clock;
use cvc_core::ids::PointId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Point};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::CampaignDir;
use cvc_engine::attempt::{FoundComponents, Readiness};
use cvc_journal::{CampaignState, RunState};
use cvc_os::measuring::others_measure;
use cvc_sites::install::Lock;
use jiff::{Timestamp, civil::Date};
use std::collections::HashSet;
use tokio::time::Instant;

/// Options of the sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldOptions {
    /// Whether to retry runs that have no attempt left.
    pub retry_failed: bool,
    /// Whether a site continues to begin runs although its first runs all fail in the same way.
    pub keep_going: bool,
    /// Whether to install missing software first.
    pub install: bool,
    /// Whether to record the software of sites in the lock file, instead of comparing it with the file.
    pub update_lock: bool,
    /// Time at which the sessions end; `None` for no limit. The caller requests a stop at this time.
    pub until: Option<Instant>,
}

/// Result of all sessions of a command.
#[derive(Debug)]
pub struct HoldEnd {
    /// State of the campaign after the last session.
    pub summary: Summary,
    /// The next block of runs and the day on which it may begin; `None` unless that is a later day.
    pub waits: Option<(Block, Date)>,
}

impl CampaignSession {
    /// Carries out the rest of the campaign, block by block.
    ///
    /// # Errors
    /// The error that stops the campaign. A failed run is data, not an error.
    pub async fn hold(
        &self,
        options: HoldOptions,
        base: Options,
        audience: &dyn Audience,
        mut stop_signal: StopSignal,
    ) -> Result<HoldEnd, SessionError> {
        let (spec, plan, dir) = (&self.spec, &self.plan, &self.dir);
        if options.install {
            let mut observer = audience.preparing();
            install_all(
                spec,
                plan,
                dir,
                options.update_lock,
                &mut stop_signal,
                observer.as_mut(),
            )
            .await?;
        }
        // an unreadable journal is rejected, with all details, when the session opens it
        let mut state = CampaignState::read(&dir.journal()).unwrap_or_default();
        if let Some(warning) = clock_warning(&state, Timestamp::now()) {
            audience.remark(&warning);
        }
        let next_of =
            |state: &CampaignState| next_block(plan, state, self.only.as_ref(), clock::now());
        let mut next = next_of(&state);
        let mut is_first = true;
        loop {
            let last_block = match next {
                NextBlock::All => None,
                NextBlock::Of(block) => Some(block.number),
                // only what remains of earlier blocks
                NextBlock::NotBefore { block, .. } => Some(block.number - 1),
            };
            if let NextBlock::Of(block) = next {
                audience.block(block, spec.run.block_count());
            }
            let of_now = Options {
                // runs that failed on this fleet are not retried on the next one
                retry_failed: options.retry_failed && is_first,
                keep_going: options.keep_going,
                only: self.only.clone(),
                last_block,
                until: options.until,
                update_lock: options.update_lock,
                ..base.clone()
            };
            let summary = self
                .hold_one(&state, of_now, audience, stop_signal.clone())
                .await?;
            let is_over = summary.left == 0
                || summary.interrupted
                || summary.over_budget
                || summary.failed_alike
                || *stop_signal.borrow() != StopRequest::GoOn;
            state = CampaignState::read(&dir.journal()).unwrap_or_default();
            (next, is_first) = (next_of(&state), false);
            match next {
                // blocks for fleets follow each other immediately; a block for another day must wait
                NextBlock::Of(block)
                    if block.of == BlockKind::Fleets
                        && !is_over
                        && last_block.is_some_and(|last| block.number > last) => {}
                NextBlock::NotBefore { block, day } => {
                    return Ok(HoldEnd {
                        summary,
                        waits: Some((block, day)),
                    });
                }
                NextBlock::All | NextBlock::Of(_) => {
                    return Ok(HoldEnd {
                        summary,
                        waits: None,
                    });
                }
            }
        }
    }

    /// Carries out one session. `options` has the last block that the session carries out.
    async fn hold_one(
        &self,
        state: &CampaignState,
        options: Options,
        audience: &dyn Audience,
        stop_signal: StopSignal,
    ) -> Result<Summary, SessionError> {
        let (spec, plan) = (&self.spec, &self.plan);
        let mut observer = audience.preparing();
        let left = points_left(plan, &self.dir, state);
        let readiness = |site: &str| {
            let points = left.iter().copied().filter(|p| p.site == site);
            Readiness::for_points(&spec.apps, &spec.trace, points)
        };
        let sites = self
            .ask_sites(readiness, |what| {
                observer.on(&SessionProgress::Preparing { what })
            })
            .await;
        drop(observer);
        for (name, site) in &sites {
            Lock::keep(
                &self.dir,
                name,
                &FoundComponents::of(site),
                options.update_lock,
            )?;
        }
        let selected = self.selected();
        let expectations = self.expectations(&selected, &sites);
        let obstacles = expectations.obstacles(spec, &selected, &sites);
        let shortages = expectations.shortages(spec, &selected, &obstacles);
        let estimates = expectations.estimates;
        let options = Options {
            expected_s: estimates
                .points
                .iter()
                .map(|p| (p.point.clone(), p.seconds))
                .collect(),
            disk_bytes: estimates
                .points
                .iter()
                .map(|p| (p.point.clone(), p.peak_bytes))
                .collect(),
            ..options
        };
        let mut observer = audience.running(&selected.points, estimates.total_s);
        let is_here = |p: &PlannedPoint| {
            spec.sites
                .get(&p.point.site)
                .is_some_and(|site| site.kind == SiteKind::Local)
        };
        if selected.points.iter().any(is_here) && others_measure() {
            let what =
                "another campaign is measuring on this machine: both may be slower, and both reports flag the affected runs".to_owned();
            observer.on(&SessionProgress::Site { what });
        }
        let times = estimates.too_long(spec.run.timeout_s);
        for what in times.into_iter().chain(estimates.too_short()) {
            observer.on(&SessionProgress::Site { what });
        }
        for shortage in shortages {
            observer.on(&SessionProgress::Site {
                what: shortage.describe(),
            });
        }
        Ok(run_campaign(spec, plan, sites, &options, stop_signal, observer.as_mut()).await?)
    }
}

/// Returns the points that have runs left: runs that have not succeeded according to the journal, or whose directories are missing.
fn points_left<'p>(plan: &'p Plan, dir: &CampaignDir, state: &CampaignState) -> Vec<&'p Point> {
    let is_done = |run: &PlannedRun| {
        matches!(
            state.run(&run.id),
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            })
        ) && dir.run(&run.id).is_dir()
    };
    let left: HashSet<&PointId> = plan
        .runs
        .iter()
        .filter(|run| !is_done(run))
        .map(|run| &run.point)
        .collect();
    plan.points
        .iter()
        .filter(|p| left.contains(&p.id))
        .map(|p| &p.point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::ids::RunId;
    use cvc_core::outcome::Cause;
    use cvc_core::point::Repeat;
    use cvc_journal::{Entry, Event};

    #[test]
    fn points_are_left_until_each_run_has_succeeded_and_its_directory_is_there() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = CampaignDir::at(scratch.path().try_into().expect("UTF-8"));
        let id = |n: usize| PointId::from_written(&format!("p{n}"));
        let run = |n: usize| RunId::from_written(&format!("r{n}"));
        let point = |n: usize| PlannedPoint {
            id: id(n),
            point: Point {
                class: n.to_string(),
                ..Point::default()
            },
            baseline: false,
            expected_failure: None,
        };
        let planned = |n: usize| PlannedRun {
            id: run(n),
            point: id(n),
            repeat: Repeat::Measured(1),
            block: None,
        };
        let plan = Plan {
            schema: 1,
            campaign: "c".into(),
            seed: 1,
            points: (0..4).map(point).collect(),
            runs: (0..4).map(planned).collect(),
            excluded: Vec::new(),
            predict: None,
        };
        let failed = Outcome::Failed {
            cause: Cause::Application,
            detail: String::new(),
        };
        let outcomes = [
            Some(Outcome::Succeeded),
            Some(Outcome::Succeeded),
            Some(failed),
            None,
        ];
        let mut state = CampaignState::default();
        for (n, outcome) in outcomes.into_iter().enumerate() {
            let begin = Event::RunIntended {
                run: run(n),
                attempt: 1,
                nodes: Default::default(),
            };
            let end = outcome.map(|outcome| Event::RunFinished {
                run: run(n),
                attempt: 1,
                outcome,
                records: None,
                manifest: None,
                not_again: None,
            });
            for event in std::iter::once(begin).chain(end) {
                let at = Timestamp::UNIX_EPOCH;
                state.apply(&Entry { seq: 1, at, event }).expect("legal");
            }
        }
        std::fs::create_dir_all(dir.run(&run(0))).expect("makes");
        let left: Vec<&str> = points_left(&plan, &dir, &state)
            .into_iter()
            .map(|point| point.class.as_str())
            .collect();
        assert_eq!(left, ["1", "2", "3"]);
    }
}
