//! The sessions that one command holds: one, or one for each fleet of instances.

use crate::{
    audience::Audience, campaigns::clock_warning, error::SessionError, installing::install_all,
    session::Session,
};
use cvc_controller::observe::Progress;
use cvc_controller::runner::{NextBlock, Options, Summary, next_block, run_campaign};
use cvc_core::campaign::{Block, BlockKind, SiteKind};
use cvc_core::clock;
use cvc_core::ids::PointId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Point};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::CampaignDir;
use cvc_engine::attempt::{Found, Readiness};
use cvc_journal::{CampaignState, RunState};
use cvc_os::measuring::others_measure;
use cvc_sites::install::Lock;
use jiff::{Timestamp, civil::Date};
use std::collections::HashSet;
use tokio::time::Instant;

/// How sessions are held.
#[derive(Clone, Copy, Debug, Default)]
pub struct HoldOptions {
    /// Whether runs that failed for good are tried again.
    pub retry_failed: bool,
    /// Whether sites go on whose first runs all fail in the same way.
    pub keep_going: bool,
    /// Whether what is missing is installed first.
    pub install: bool,
    /// Whether the software of sites is recorded in the lock file, instead of being compared with it.
    pub update_lock: bool,
    /// The end of the sessions; the caller asks for a stop then.
    pub until: Option<Instant>,
}

/// How the sessions of a command ended.
#[derive(Debug)]
pub struct Ended {
    /// The state of the campaign.
    pub summary: Summary,
    /// The block of runs that must wait for another day.
    pub waits: Option<(Block, Date)>,
}

impl Session {
    /// Runs what remains of the campaign, block by block.
    ///
    /// # Errors
    /// What stops the campaign. A failed run is data, not an error.
    pub async fn hold(
        &self,
        options: HoldOptions,
        base: Options,
        audience: &dyn Audience,
        mut stop_signal: StopSignal,
    ) -> Result<Ended, SessionError> {
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
        // a journal that cannot be read is refused in a moment, with all that there is to say
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
                // what is left of earlier ones
                NextBlock::NotBefore { block, .. } => Some(block.number - 1),
            };
            if let NextBlock::Of(block) = next {
                audience.block(block, spec.run.block_count());
            }
            let of_now = Options {
                // what failed on this fleet is not tried again on the next
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
                // fleets come one after another; days do not pass meanwhile
                NextBlock::Of(block)
                    if block.of == BlockKind::Fleets
                        && !is_over
                        && last_block.is_some_and(|last| block.number > last) => {}
                NextBlock::NotBefore { block, day } => {
                    return Ok(Ended {
                        summary,
                        waits: Some((block, day)),
                    });
                }
                NextBlock::All | NextBlock::Of(_) => {
                    return Ok(Ended {
                        summary,
                        waits: None,
                    });
                }
            }
        }
    }

    /// One session, up to and including a block of runs.
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
            Readiness::for_points(&spec.apps, left.iter().copied().filter(|p| p.site == site))
        };
        let sites = self
            .ask_sites(readiness, |what| observer.on(&Progress::Preparing { what }))
            .await;
        drop(observer);
        for (name, site) in &sites {
            Lock::keep(&self.dir, name, &Found::of(site), options.update_lock)?;
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
                "another campaign measures on this machine now: times of both may suffer, and their reports flag the runs".to_owned();
            observer.on(&Progress::Site { what });
        }
        let times = estimates.too_long(spec.run.timeout_s);
        for what in times.into_iter().chain(estimates.too_short()) {
            observer.on(&Progress::Site { what });
        }
        for shortage in shortages {
            observer.on(&Progress::Site {
                what: shortage.told(),
            });
        }
        Ok(run_campaign(spec, plan, sites, &options, stop_signal, observer.as_mut()).await?)
    }
}

/// The points with a run that is not known to have succeeded, or of which the directory is gone.
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
