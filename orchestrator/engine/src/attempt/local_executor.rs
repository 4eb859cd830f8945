//! The executor on this machine; on a cluster, in the agent.

use super::{
    beside::Neighbours,
    execute::execute,
    executed::{Executed, failed, interrupted},
    executor::{AttemptResult, Executor, choose_free},
    prepare::{Prepared, prepare},
    recover::{self, recover_run},
    remains::Remains,
    site::ReadySite,
    slurm_steps::Steps,
    traces::{fetch_traces, read_traces},
    unhurried::unhurried,
};
use crate::{
    crew::{self, CrewError},
    run::{
        AttemptReporter, LATER, Nodes, RunError, RunFailure, SOON, Shepherds, SiteContext, Task,
        begun_tmp_dir, marker, work_dir,
    },
    transport::Transport,
};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::StorageKind;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopSignal, stop_now};
use cvc_core::store::{CampaignDir, OutcomeFile, StoreError, remove_all};
use cvc_journal::price::NodeRate;
use cvc_os::proc::ProcessId;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Time between a signal's arrival at a run and at cvc, where both get it.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Carries out attempts on this machine, whose ranks may run on other nodes.
pub struct LocalExecutor {
    /// What the site has.
    pub site: Arc<ReadySite>,
    /// Its nodes.
    pub nodes: Arc<Nodes>,
    /// Directory of the campaign.
    pub dir: CampaignDir,
    /// What supervises its runs.
    pub shepherds: Shepherds,
    /// Directories to remove once lost nodes are back.
    pub pending_cleanup: PendingCleanup,
    /// Whether Slurm starts steps in this job.
    pub steps: Steps,
}

/// Directories that could not be removed because their node was lost.
#[derive(Debug, Default)]
pub struct PendingCleanup(Mutex<BTreeMap<String, BTreeSet<PathBuf>>>);

impl PendingCleanup {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<PathBuf>>> {
        self.0.lock()
    }
}

impl LocalExecutor {
    /// Carries out one attempt, from its preparation to its directory's final name.
    ///
    /// # Errors
    /// When its directory cannot be written.
    #[tracing::instrument(name = "attempt", skip_all, fields(run = %task.planned.id, number = task.attempt))]
    pub async fn attempt(
        &self,
        task: &Task,
        mut stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError> {
        let run = task.planned.id.clone();
        let prepared = match prepare(&self.site, &self.nodes, &self.dir, task) {
            Ok(prepared) => prepared,
            Err(error) => {
                let work = work_dir(&self.site.context, &self.dir, &task.point, &run);
                return self
                    .finish(&run, &work, task.attempt, failed(failure_of(&error)))
                    .await
                    .map(AttemptResult::Ended);
            }
        };
        let used = &prepared.run.used;
        let everywhere = used.everywhere();
        let began = std::time::Instant::now();
        let neighbours = Neighbours::watch();
        let ready = match self.get_ready(&prepared, task.disk_bytes).await {
            Ok(()) => tokio::select! {
                started = self.steps.wait(&prepared, |what| reporter.stage(what)) => started.map(|()| true).map_err(|refused| RunFailure::new(Cause::Launch, refused.to_string())),
                (node, reason) = used.crew.wait_lost(&everywhere) => Err(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}"))),
                () = stop_now(&mut stop_signal) => Ok(false),
            },
            Err(problem) => Err(problem),
        };
        let mut executed = match ready {
            Err(failure) => failed(failure),
            Ok(false) => interrupted(),
            Ok(true) => match execute(
                &self.site.context,
                &prepared,
                &self.shepherds,
                &mut stop_signal,
                reporter,
            )
            .await
            {
                Ok(executed) => executed,
                Err(error) => {
                    used.end_others().await;
                    Executed {
                        shepherd_lost: true,
                        ..failed(failure_of(&error))
                    }
                }
            },
        };
        executed.interrupted |= is_doubtful(&executed.outcome)
            && was_stopped(executed.told_to_end, &mut stop_signal).await;
        if executed.interrupted {
            self.end_leftovers(&run, &prepared.run.work).await?;
            self.clear_others(&prepared, false).await;
            let gone = [prepared.run.work.clone(), prepared.run.dir.clone()];
            unhurried(move || gone.iter().try_for_each(|path| remove_all(path))).await??;
            return Ok(AttemptResult::Interrupted);
        }
        // of a failed run, what can be had
        if let (Err(failure), Outcome::Succeeded) =
            (fetch_traces(&prepared).await, &executed.outcome)
        {
            executed.outcome = failure.into();
        }
        let (traced, unread) = read_traces(&prepared).await?;
        executed.records.extend(traced.records);
        if !traced.notes.is_empty() {
            executed.facts["trace_gaps"] = traced.notes.join("\n").into();
        }
        if let Some(unread) = unread {
            executed.facts["trace_not_read"] = unread.into();
        }
        neighbours.note(&mut executed.facts);
        drop(neighbours);
        if let Some(rate) = self.rate() {
            // it used its nodes all that time, whatever the result
            let used_s = executed.used_s(began);
            let nodes = task.point.mapping.nodes();
            executed.records.push(rate.record(&run, used_s, nodes));
        }
        // its script removes it, unless it was killed; the name is the run's own
        let _ = remove_all(&prepared.request.tmp_dir);
        if executed.shepherd_lost {
            // nobody has ended what it watched over
            self.end_leftovers(&run, &prepared.run.work).await?;
        }
        self.clear_others(&prepared, true).await;
        self.finish(&run, &prepared.run.work, task.attempt, executed)
            .await
            .map(AttemptResult::Ended)
    }

    /// Ends what a shepherd may have left of a run on this machine.
    async fn end_leftovers(&self, run: &RunId, work: &Utf8Path) -> Result<(), RunError> {
        let (dir, run, work) = (self.dir.clone(), run.clone(), work.to_owned());
        unhurried(move || drop(recover::end_leftovers(&dir, &run, None, &work))).await
    }

    /// Price of a node of the site, if known.
    fn rate(&self) -> Option<NodeRate> {
        let context = &self.site.context;
        context
            .rate
            .clone()
            .or_else(|| NodeRate::of_settings(&context.site.price, Some(self.site.cores)))
    }

    /// Checks the space on every node, and makes directories on the other nodes.
    async fn get_ready(
        &self,
        prepared: &Prepared,
        disk_bytes: Option<u64>,
    ) -> Result<(), RunFailure> {
        if let Some(detail) = self.no_room(prepared, disk_bytes).await? {
            return Err(RunFailure::new(Cause::DiskFull, detail));
        }
        let used = &prepared.run.used;
        let others = used.others();
        if others.is_empty() {
            return Ok(());
        }
        let crew = |error: CrewError| RunFailure::new(cause_of_crew(&error), error.to_string());
        let made = used
            .crew
            .ask_all(&others, prepared.elsewhere.clone(), SOON)
            .await;
        crew::whole(made).map_err(crew)?;
        let private = [prepared.request.tmp_dir.clone().into()];
        crew::whole(
            used.crew
                .guard(&others, &used.marker, &used.dirs, &private, SOON)
                .await,
        )
        .map_err(crew)?;
        Ok(())
    }

    /// Removes what a run left on the other nodes, except what is kept.
    async fn clear_others(&self, prepared: &Prepared, may_keep: bool) {
        let used = &prepared.run.used;
        let others = used.others();
        if others.is_empty() {
            return;
        }
        let run = &self.site.context.run;
        let (images, outputs) = (may_keep && run.keep_images, may_keep && run.keep_outputs);
        let work = prepared.run.work.as_std_path();
        let mut dirs: Vec<PathBuf> = vec![prepared.request.tmp_dir.clone().into()];
        if used.storage == StorageKind::NodeLocal {
            match (images, outputs) {
                (false, false) => dirs.push(work.into()),
                (false, true) => dirs.extend(
                    prepared
                        .checkpointer
                        .dirs()
                        .iter()
                        .map(|dir| work.join(dir)),
                ),
                // what lies beside the images is small, and cannot be told from outputs without asking again
                (true, _) => {}
            }
        }
        self.remove_or_defer(&others, &dirs).await;
        let _ = used.crew.unguard(&others, &used.marker, SOON).await;
    }

    /// Removes directories on nodes; on a lost one, once it is back.
    async fn remove_or_defer(&self, nodes: &[&str], dirs: &[PathBuf]) {
        for (node, removed) in self.nodes.crew.remove(nodes, dirs, &[], LATER).await {
            if removed.is_err() {
                self.pending_cleanup
                    .lock()
                    .entry(node)
                    .or_default()
                    .extend(dirs.iter().cloned());
            }
        }
    }

    /// Tries once to reach these lost nodes again, and removes what was left on those that are back.
    pub async fn bring_back(&self, wanted: impl Fn(&str) -> bool) {
        let (back, _) = self.nodes.crew.revive_of(wanted).await;
        for node in back {
            let pending = self.pending_cleanup.lock().remove(&node);
            if let Some(dirs) = pending {
                self.remove_or_defer(&[&node], &dirs.into_iter().collect::<Vec<_>>())
                    .await;
            }
        }
    }

    /// Ends what a killed engine left of an attempt on all nodes, and removes it unless it was complete. Returns the number of processes
    /// ended on this machine, and the outcome if the run was complete.
    pub async fn recover(
        &self,
        task: &Task,
        shepherd: Option<ProcessId>,
    ) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
        let run = &task.planned.id;
        let work = work_dir(&self.site.context, &self.dir, &task.point, run);
        let tmp = begun_tmp_dir(&self.dir, run);
        let others = self.nodes.others();
        let dirs: [PathBuf; 2] = [work.clone().into(), tmp.clone().into()];
        // a node that does not answer now is lost, and what it guarded is ended there
        let _ = self
            .nodes
            .crew
            .end(&others, &marker(&self.dir, run), &dirs, 0.0, SOON)
            .await;
        let recovered = recover_run(
            &self.dir,
            |_| Some(&*self.site.context),
            run,
            task.attempt,
            shepherd,
        )?;
        let shared = self
            .site
            .context
            .site
            .storage
            .get(&task.point.storage)
            .is_some_and(|a| a.kind == StorageKind::Shared);
        let keep = shared || recovered.1.is_some();
        let gone = if keep {
            vec![tmp.into()]
        } else {
            dirs.to_vec()
        };
        self.remove_or_defer(&others, &gone).await;
        Ok(recovered)
    }

    /// Checks the space that a run needs on every node where it writes.
    async fn no_room(
        &self,
        prepared: &Prepared,
        needed: Option<u64>,
    ) -> Result<Option<String>, RunFailure> {
        let Some(needed) = needed else {
            return Ok(None);
        };
        let used = &prepared.run.used;
        let processes = u64::from(prepared.run.point.processes().max(1));
        let found = used
            .crew
            .free(&used.places(), &[prepared.run.work.clone().into()], SOON)
            .await;
        let found =
            crew::whole(found).map_err(|e| RunFailure::new(Cause::NodeLost, e.to_string()))?;
        for (node, spaces) in found {
            // each node has its part of the ranks, and one may hold everything where all see the same
            let load: u64 = used
                .ranks
                .iter()
                .zip(prepared.run.point.mapping.node_loads())
                .filter(|(n, _)| n.name == node)
                .map(|(_, l)| u64::from(l))
                .sum();
            let share = if used.storage == StorageKind::Shared {
                needed
            } else {
                (needed * load).div_ceil(processes)
            };
            let Some(free) = spaces.first().map(|s| s.free_bytes) else {
                continue;
            };
            let mib = |bytes: u64| bytes >> 20;
            if free < share {
                let on = if used.transport == Transport::Local {
                    String::new()
                } else {
                    format!("{node}: ")
                };
                return Ok(Some(format!(
                    "{on}{} needs about {} MiB and has {} MiB free: free some space, or choose another storage area",
                    prepared.run.work,
                    mib(share),
                    mib(free)
                )));
            }
        }
        Ok(None)
    }

    /// Gives what a run left its final place.
    async fn finish(
        &self,
        run: &RunId,
        work: &Utf8Path,
        attempt: u32,
        executed: Executed,
    ) -> Result<OutcomeFile, RunError> {
        let run_settings = &self.site.context.run;
        let (images, outputs) = (run_settings.keep_images, run_settings.keep_outputs);
        let remains = Remains {
            dir: self.dir.clone(),
            run: run.clone(),
            work: work.to_owned(),
            attempt,
            images,
            outputs,
        };
        unhurried(move || remains.finish(executed)).await?
    }
}

#[async_trait]
impl<E: From<RunError> + Send + 'static> Executor<E> for LocalExecutor {
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, E> {
        Ok(LocalExecutor::attempt(self, task, stop_signal, reporter).await?)
    }

    fn cores(&self) -> u32 {
        self.site.cores
    }

    fn nodes(&self) -> Vec<String> {
        let lost = self.nodes.crew.lost().borrow().clone();
        self.nodes
            .all
            .iter()
            .map(|n| n.name.clone())
            .filter(|n| !lost.contains_key(n))
            .collect()
    }

    fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        let nodes = Executor::<E>::nodes(self);
        if self.nodes.transport == Transport::Local {
            // this machine counts as all the nodes that a mapping may want
            return Some(nodes);
        }
        choose_free(nodes, wanted, used)
    }

    fn side_by_side(&self) -> bool {
        self.site
            .context
            .site
            .cluster
            .as_ref()
            .is_some_and(|c| c.side_by_side)
    }

    fn obstacle(&self, planned: &PlannedPoint) -> Option<String> {
        self.site.obstacle(&planned.point)
    }

    fn local_context(&self) -> Option<&SiteContext> {
        Some(&self.site.context)
    }

    fn forget(&self, _: &Task) {
        // the outcome lies in the campaign's own directory: nothing else is kept of it
    }
}

/// Whether a failure may be the work of whoever asked for a stop.
fn is_doubtful(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Succeeded => false,
        // these are the run's own, whatever happens to the session
        Outcome::Failed { cause, .. } => !matches!(cause, Cause::Timeout | Cause::Output),
    }
}

/// Whether a run that failed may have been ended by what asked for a stop: a shutdown sends its signal to everything, and cvc may hear of it after
/// the run.
async fn was_stopped(told_to_end: bool, stop_signal: &mut StopSignal) -> bool {
    if told_to_end {
        // one that sent a signal to the run alone has ended the run alone
        let _ = tokio::time::timeout(
            STOP_LIMIT,
            stop_signal.wait_for(|now| *now >= StopRequest::Finish),
        )
        .await;
    }
    *stop_signal.borrow() >= StopRequest::Finish
}

/// What of a run's own directory could not be used is that run's failure, not the campaign's.
fn failure_of(error: &RunError) -> RunFailure {
    let cause = match error {
        RunError::Store(error) if error.is_full_disk() => Cause::DiskFull,
        RunError::Input(error) if error.is_full_disk() => Cause::DiskFull,
        RunError::Store(_) => Cause::Store,
        RunError::Host(_)
        | RunError::Input(_)
        | RunError::Render(_)
        | RunError::Descriptor { .. }
        | RunError::Shepherd { .. }
        | RunError::Area(_)
        | RunError::Broken(_) => Cause::Launch,
        RunError::Crew(error) => cause_of_crew(error),
    };
    RunFailure::new(cause, error.to_string())
}

/// The result of a run for which a node could not do what it was asked.
fn cause_of_crew(error: &CrewError) -> Cause {
    match error {
        _ if error.is_disk_full() => Cause::DiskFull,
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Launch,
    }
}

/// Bytes that a user may still write to the file system of this directory.
pub fn free_bytes(directory: &Utf8Path) -> Option<u64> {
    let absolute =
        Utf8PathBuf::from_path_buf(std::path::absolute(directory.as_std_path()).ok()?).ok()?;
    let existing = absolute.ancestors().find(|d| d.exists())?;
    cvc_os::space::free_bytes(existing.as_std_path()).ok()
}
