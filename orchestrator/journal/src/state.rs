//! The state of a campaign, folded from its journal.

use super::{
    event::{Entry, Event},
    lineage::Lineage,
    node_set::NodeSets,
    place::SitePlace,
    problem::{EventProblem, IllegalEvent},
};
use crate::leases::{self, Lease};
use camino::Utf8Path;
use cvc_core::ids::{NodeName, PointId, RunId, SiteName};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::PlannedRun;
use cvc_core::store::StoreError;
use cvc_os::proc::ProcessId;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The state of a run. A run without a state has not been tried.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// Intended or started, and without a recorded end. The run is either active, or was interrupted when its controller ended.
    Open {
        /// Number of the open attempt.
        attempt: u32,
        /// The shepherd, the process that supervises the run, if it was started.
        shepherd: Option<ProcessId>,
    },
    /// Interrupted when its controller ended, and cleaned up since then; to be repeated.
    Abandoned {
        /// Number of earlier attempts that ended without being interrupted.
        attempts: u32,
    },
    /// Ended.
    Finished {
        /// Number of the attempt that ended.
        attempt: u32,
        /// The outcome.
        outcome: Outcome,
        /// Digest of the run's records.
        records: Option<String>,
        /// Digest of the manifest of the run's directory.
        manifest: Option<String>,
    },
}

/// One attempt at a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Number of the attempt, from 1. After an interrupted attempt, the next one has the same number.
    pub number: u32,
    /// Time at which the attempt was intended.
    pub started: Option<Timestamp>,
    /// Time at which the end was recorded.
    pub ended: Option<Timestamp>,
    /// Outcome; `None` while the attempt is active, or if it was interrupted.
    pub outcome: Option<Outcome>,
    /// Whether the attempt was interrupted.
    pub abandoned: bool,
    /// Whether the attempt was lost with its agent or nodes.
    pub lost: bool,
    /// Whether the attempt was interrupted because its controller ended without a request to stop.
    pub with_controller: bool,
    /// Nodes of the attempt; empty if it ran on this machine. Attempts on the same nodes share the list.
    pub nodes: Arc<[NodeName]>,
    /// Why no further attempt follows, although the campaign allows one.
    pub not_again: Option<String>,
    /// Size of the checkpoint from which the next attempt can continue, bytes; `None` if the attempt left none.
    pub kept_bytes: Option<u64>,
}

/// The state and the attempts of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHistory {
    /// State of the run.
    pub state: RunState,
    /// Attempts, in order.
    pub attempts: Vec<Attempt>,
}

impl RunHistory {
    /// Returns cause and detail of the failure, if the last finished attempt failed.
    pub fn failure(&self) -> Option<(Cause, &str)> {
        match self
            .attempts
            .iter()
            .rev()
            .find_map(|a| a.outcome.as_ref())?
        {
            Outcome::Failed { cause, detail } => Some((*cause, detail)),
            Outcome::Succeeded => None,
        }
    }

    /// Returns the attempt with this number that has not ended; adds one if there is none.
    fn under_way(&mut self, number: u32) -> &mut Attempt {
        let at = match self
            .attempts
            .iter()
            .rposition(|a| a.number == number && a.outcome.is_none() && !a.abandoned)
        {
            Some(at) => at,
            None => {
                self.attempts.push(Attempt {
                    number,
                    started: None,
                    ended: None,
                    outcome: None,
                    abandoned: false,
                    lost: false,
                    with_controller: false,
                    nodes: Arc::default(),
                    not_again: None,
                    kept_bytes: None,
                });
                self.attempts.len() - 1
            }
        };
        &mut self.attempts[at]
    }
}

/// Why a point needs no further run.
#[derive(Clone, Debug, PartialEq)]
pub struct PointDecision {
    /// Number of counted runs that had succeeded by then.
    pub repeats: u32,
    /// Whether the confidence interval is narrow enough.
    pub is_narrow: bool,
    /// Width of the interval, and its quantity, as text.
    pub reason: String,
}

/// The state of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignState {
    /// Identity of the campaign; `None` if the journal has a format without lineages and was not continued since.
    pub lineage: Option<Lineage>,
    /// State of every run that was tried.
    pub runs: HashMap<RunId, RunHistory>,
    /// Points that were quarantined: their remaining runs are not tried.
    pub quarantined: BTreeSet<PointId>,
    /// Points that need no further run, because their confidence intervals are narrow or they have all allowed runs.
    pub decided: BTreeMap<PointId, PointDecision>,
    /// Points that the last controller could not run, with the reason.
    pub skipped: BTreeMap<PointId, String>,
    /// Whether the last controller reached the end of its plan.
    pub completed: bool,
    /// Digest of the last plan that was started.
    pub plan: Option<String>,
    /// Times of the first and the last entry.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Versions of cvc that have worked on the campaign, in order.
    pub cvc: Vec<String>,
    /// Number of times that a controller began or resumed work on the campaign.
    pub sessions: u64,
    /// Sites on whose machines leftovers of cvc may exist.
    pub open_sites: BTreeSet<SiteName>,
    /// Places of the sites in `open_sites`, where the journal records them.
    pub places: BTreeMap<SiteName, SitePlace>,
    /// Number of times that a damaged journal was rewritten.
    pub repairs: u64,
    /// Whether the user interrupted the last session.
    pub stop_asked: bool,
    /// Number of sessions that the user interrupted.
    pub interruptions: u64,
    /// Leases that were requested from schedulers and clouds, in order.
    pub leases: Vec<Lease>,
    /// The sets of nodes that attempts have used so far.
    pub node_sets: NodeSets,
    /// Transfers from clouds, by site.
    pub fetched: BTreeMap<SiteName, Fetched>,
}

/// Transfers from the instances of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetched {
    /// Bytes transferred.
    pub bytes: u64,
    /// Price of the transfers, US dollars; `None` if the price of any of them is unknown.
    pub usd: Option<f64>,
}

impl CampaignState {
    /// Folds the entries of a journal.
    ///
    /// # Errors
    /// An event does not follow from the previous ones.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, IllegalEvent> {
        let mut state = Self::default();
        for entry in entries {
            state.apply(entry)?;
        }
        Ok(state)
    }

    /// Reads the journal in this file, and folds it.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or has an event that does not follow from the previous ones.
    pub fn read(path: &Utf8Path) -> Result<Self, StoreError> {
        let mut state = Self::default();
        super::read_each(path, |entry| state.apply(&entry))?;
        Ok(state)
    }

    /// Returns the state of a run; `None` if it was not tried.
    pub fn run(&self, run: &RunId) -> Option<&RunState> {
        self.runs.get(run).map(|history| &history.state)
    }

    /// Returns whether a run has succeeded.
    pub fn has_succeeded(&self, run: &RunId) -> bool {
        matches!(
            self.run(run),
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            })
        )
    }

    /// Returns whether the last attempt at a run failed.
    pub fn has_failed(&self, run: &RunId) -> bool {
        matches!(self.run(run), Some(RunState::Finished { .. })) && !self.has_succeeded(run)
    }

    /// Returns the points that the last controller could not run, each with the reason. Omits points of which any run in `runs` was ever tried.
    pub fn never_tried(&self, runs: &[PlannedRun]) -> HashMap<&PointId, &str> {
        let tried: HashSet<&PointId> = runs
            .iter()
            .filter(|r| self.runs.contains_key(&r.id))
            .map(|r| &r.point)
            .collect();
        self.skipped
            .iter()
            .filter(|(point, _)| !tried.contains(point))
            .map(|(point, reason)| (point, reason.as_str()))
            .collect()
    }

    /// Returns the leases of a site that were requested from schedulers or clouds, in order.
    pub fn leases_of(&self, site: &str) -> Vec<Lease> {
        self.leases
            .iter()
            .filter(|l| l.site == site)
            .cloned()
            .collect()
    }

    /// Returns the leases of a site that have not been released.
    pub fn open_leases_of(&self, site: &str) -> Vec<Lease> {
        let mut leases = self.leases_of(site);
        leases.retain(|lease| !lease.released);
        leases
    }

    /// Checks whether an event may follow the previous ones. Closing a site and releasing a lease are allowed twice, because version 0.1.0 wrote
    /// these events twice.
    ///
    /// # Errors
    /// The event may not follow, for this reason.
    pub fn check(&self, event: &Event) -> Result<(), EventProblem> {
        match event {
            Event::Opened { .. } if self.span.is_some() => Err(EventProblem::OpenedTwice),
            Event::RunIntended {
                run,
                attempt,
                nodes,
            } => match self.run(run) {
                Some(RunState::Open { attempt: open, .. }) => Err(EventProblem::OtherUnderWay {
                    run: run.clone(),
                    attempt: *attempt,
                    what: "intended",
                    open: *open,
                }),
                Some(RunState::Finished {
                    outcome: Outcome::Succeeded,
                    ..
                }) => Err(EventProblem::HasSucceeded {
                    run: run.clone(),
                    attempt: *attempt,
                }),
                Some(RunState::Abandoned { .. } | RunState::Finished { .. }) | None => {
                    self.node_sets.check(nodes)
                }
            },
            Event::RunStarted { run, attempt, .. } => {
                self.check_under_way(run, *attempt, "started")
            }
            Event::CheckpointKept { run, attempt, .. } => {
                self.check_under_way(run, *attempt, "kept")
            }
            Event::RunFinished { run, attempt, .. } => {
                self.check_under_way(run, *attempt, "finished")
            }
            Event::RunAbandoned { run, attempt, .. } => {
                self.check_under_way(run, *attempt, "abandoned")
            }
            Event::RunDiscarded { run, attempt, .. } => match self.run(run) {
                Some(RunState::Finished {
                    attempt: finished, ..
                }) if finished == attempt => Ok(()),
                _ => Err(EventProblem::NotFinished {
                    run: run.clone(),
                    attempt: *attempt,
                }),
            },
            Event::PointQuarantined { point, .. } if self.quarantined.contains(point) => {
                Err(EventProblem::PointTwice {
                    point: point.clone(),
                    what: "quarantined",
                })
            }
            Event::PointDecided { point, .. } if self.decided.contains_key(point) => {
                Err(EventProblem::PointTwice {
                    point: point.clone(),
                    what: "decided",
                })
            }
            Event::PointReleased { point } if !self.quarantined.contains(point) => {
                Err(EventProblem::NotQuarantined(point.clone()))
            }
            Event::LineageGiven { .. } if self.lineage.is_some() => {
                Err(EventProblem::SecondLineage)
            }
            Event::Opened { .. }
            | Event::LineageGiven { .. }
            | Event::Repaired { .. }
            | Event::Started { .. }
            | Event::SiteOpened { .. }
            | Event::SiteClosed { .. }
            | Event::PointQuarantined { .. }
            | Event::PointDecided { .. }
            | Event::PointsSkipped { .. }
            | Event::PointReleased { .. }
            | Event::ResultsFetched { .. }
            | Event::Interrupted { .. }
            | Event::Completed { .. } => Ok(()),
            Event::LeaseIntended { .. }
            | Event::LeaseAcquired { .. }
            | Event::LeaseExtended { .. }
            | Event::LeasePriced { .. }
            | Event::LeaseKept { .. }
            | Event::LeaseLost { .. }
            | Event::LeaseReleased { .. } => leases::check(&self.leases, event),
        }
    }

    fn check_under_way(
        &self,
        run: &RunId,
        attempt: u32,
        what: &'static str,
    ) -> Result<(), EventProblem> {
        match self.run(run) {
            Some(RunState::Open { attempt: open, .. }) if *open == attempt => Ok(()),
            Some(RunState::Open { attempt: open, .. }) => Err(EventProblem::OtherUnderWay {
                run: run.clone(),
                attempt,
                what,
                open: *open,
            }),
            Some(RunState::Abandoned { .. } | RunState::Finished { .. }) => {
                Err(EventProblem::HasEnded {
                    run: run.clone(),
                    attempt,
                    what,
                })
            }
            None => Err(EventProblem::NeverIntended {
                run: run.clone(),
                attempt,
                what,
            }),
        }
    }

    /// Applies one entry to the state.
    ///
    /// # Errors
    /// The event does not follow from the previous ones; the state is then unchanged.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), IllegalEvent> {
        self.check(&entry.event).map_err(|problem| IllegalEvent {
            line: entry.seq,
            problem,
        })?;
        self.update(entry);
        Ok(())
    }

    fn update(&mut self, Entry { at, event, .. }: &Entry) {
        self.span = Some((self.span.map_or(*at, |s| s.0), *at));
        match event {
            Event::Opened { cvc, lineage, .. } => {
                self.cvc.push(cvc.clone());
                self.lineage.clone_from(lineage);
            }
            Event::LineageGiven { lineage } => self.lineage = Some(lineage.clone()),
            Event::Started { plan, cvc, .. } => {
                if !cvc.is_empty() && self.cvc.last() != Some(cvc) {
                    self.cvc.push(cvc.clone());
                }
                self.completed = false;
                self.stop_asked = false;
                self.plan = Some(plan.clone());
                self.sessions += 1;
                self.skipped.clear();
                // the campaign may now require narrower intervals, so each session decides again
                self.decided.clear();
            }
            Event::SiteOpened { site, place } => {
                self.open_sites.insert(site.clone());
                self.places.extend(
                    place
                        .as_ref()
                        .map(|place| (site.clone(), (**place).clone())),
                );
            }
            Event::SiteClosed { site, .. } => {
                self.open_sites.remove(site);
                self.places.remove(site);
            }
            Event::RunIntended {
                run,
                attempt,
                nodes,
            } => {
                let state = RunState::Open {
                    attempt: *attempt,
                    shepherd: None,
                };
                let nodes = self.node_sets.apply(nodes);
                let attempt = self.set_run(run, *attempt, state);
                attempt.started = Some(*at);
                attempt.nodes = nodes;
            }
            Event::RunStarted {
                run,
                attempt,
                pid,
                start_ticks,
            } => {
                let state = RunState::Open {
                    attempt: *attempt,
                    shepherd: Some(ProcessId {
                        pid: *pid,
                        start_ticks: *start_ticks,
                    }),
                };
                self.set_run(run, *attempt, state)
                    .started
                    .get_or_insert(*at);
            }
            Event::RunFinished {
                run,
                attempt,
                outcome,
                records,
                manifest,
                not_again,
            } => {
                let (records, manifest) = (records.clone(), manifest.clone());
                let state = RunState::Finished {
                    attempt: *attempt,
                    outcome: outcome.clone(),
                    records,
                    manifest,
                };
                let attempt = self.set_run(run, *attempt, state);
                attempt.ended = Some(*at);
                attempt.outcome = Some(outcome.clone());
                attempt.not_again.clone_from(not_again);
            }
            Event::CheckpointKept {
                run,
                attempt,
                bytes,
            } => {
                if let Some(history) = self.runs.get_mut(run) {
                    history.under_way(*attempt).kept_bytes = Some(*bytes);
                }
            }
            Event::RunAbandoned {
                run,
                attempt,
                ended: _,
                lost,
                with_controller,
            } => {
                let attempt = self.set_run(
                    run,
                    *attempt,
                    RunState::Abandoned {
                        attempts: attempt.saturating_sub(1),
                    },
                );
                attempt.ended = Some(*at);
                attempt.abandoned = true;
                attempt.lost = *lost;
                attempt.with_controller = *with_controller;
            }
            Event::RunDiscarded { run, attempt, .. } => {
                // a discarded attempt counts as interrupted: the next attempt has the same number
                self.set_run(
                    run,
                    *attempt,
                    RunState::Abandoned {
                        attempts: attempt.saturating_sub(1),
                    },
                )
                .abandoned = true;
                self.completed = false;
                self.decided.clear();
            }
            Event::Repaired { .. } => self.repairs += 1,
            Event::PointQuarantined { point, .. } => {
                self.quarantined.insert(point.clone());
            }
            Event::Interrupted { .. } => {
                self.interruptions += u64::from(!self.stop_asked);
                self.stop_asked = true;
            }
            lease_event @ (Event::LeaseIntended { .. }
            | Event::LeaseAcquired { .. }
            | Event::LeaseExtended { .. }
            | Event::LeasePriced { .. }
            | Event::LeaseKept { .. }
            | Event::LeaseLost { .. }
            | Event::LeaseReleased { .. }) => leases::fold(&mut self.leases, *at, lease_event),
            Event::ResultsFetched {
                site, bytes, usd, ..
            } => {
                let fetched = self.fetched.entry(site.clone()).or_insert_with(|| Fetched {
                    bytes: 0,
                    usd: Some(0.0),
                });
                fetched.bytes = fetched.bytes.saturating_add(*bytes);
                fetched.usd = fetched.usd.zip(*usd).map(|(all, one)| all + one);
            }
            Event::PointsSkipped { points, reason } => {
                self.skipped
                    .extend(points.iter().map(|point| (point.clone(), reason.clone())));
            }
            Event::PointReleased { point } => {
                self.quarantined.remove(point);
            }
            Event::PointDecided {
                point,
                repeats,
                is_narrow,
                reason,
            } => {
                let decision = PointDecision {
                    repeats: *repeats,
                    is_narrow: *is_narrow,
                    reason: reason.clone(),
                };
                self.decided.insert(point.clone(), decision);
            }
            Event::Completed { .. } => self.completed = true,
        }
    }

    /// Sets the state of a run, and returns the attempt with this number.
    fn set_run(&mut self, run: &RunId, attempt: u32, state: RunState) -> &mut Attempt {
        let history = self.runs.entry(run.clone()).or_insert_with(|| RunHistory {
            state: state.clone(),
            attempts: Vec::new(),
        });
        history.state = state;
        history.under_way(attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acquired;
    use crate::WrittenNodes;
    use crate::price::NodeRate;
    use cvc_core::ids::LeaseId;

    fn entries(events: Vec<Event>) -> Vec<Entry> {
        (1..)
            .zip(events)
            .map(|(seq, event)| Entry {
                seq,
                at: Timestamp::from_second(seq as i64).expect("a time"),
                event,
            })
            .collect()
    }

    fn folded(entries: &[Entry]) -> CampaignState {
        CampaignState::of(entries).expect("a legal journal")
    }

    #[test]
    fn the_last_finish_wins_and_cut_off_attempts_do_not_count() {
        let (a, b) = (RunId::from_written("a"), RunId::from_written("b"));
        let failed = Outcome::Failed {
            cause: Cause::Timeout,
            detail: "too slow".to_owned(),
        };
        let finished =
            |run: &RunId, attempt, outcome: &Outcome, records: Option<&str>| Event::RunFinished {
                run: run.clone(),
                attempt,
                outcome: outcome.clone(),
                records: records.map(str::to_owned),
                manifest: None,
                not_again: None,
            };
        let state = CampaignState::of(&entries(vec![
            Event::RunIntended {
                run: a.clone(),
                attempt: 1,
                nodes: WrittenNodes::default(),
            },
            finished(&a, 1, &failed, None),
            Event::RunIntended {
                run: a.clone(),
                attempt: 2,
                nodes: WrittenNodes::default(),
            },
            finished(&a, 2, &Outcome::Succeeded, Some("digest")),
            Event::RunIntended {
                run: b.clone(),
                attempt: 1,
                nodes: WrittenNodes::default(),
            },
            Event::RunAbandoned {
                run: b.clone(),
                attempt: 1,
                ended: vec![],
                lost: false,
                with_controller: false,
            },
            Event::RunIntended {
                run: b.clone(),
                attempt: 1,
                nodes: WrittenNodes::default(),
            },
            Event::RunAbandoned {
                run: b.clone(),
                attempt: 1,
                ended: vec![],
                lost: false,
                with_controller: false,
            },
        ]))
        .expect("a legal journal");
        let end = RunState::Finished {
            attempt: 2,
            outcome: Outcome::Succeeded,
            records: Some("digest".to_owned()),
            manifest: None,
        };
        assert_eq!(
            (
                state.run(&a),
                state.runs[&a].attempts.len(),
                state.runs[&a].failure()
            ),
            (Some(&end), 2, None)
        );
        assert_eq!(
            (state.run(&b), state.runs[&b].attempts.len()),
            (Some(&RunState::Abandoned { attempts: 0 }), 2)
        );
    }

    #[test]
    fn runs_ended_with_their_controller_are_distinguished_from_those_the_user_stopped() {
        let read = |text: &str| serde_json::from_str::<Event>(text).expect("an event");
        let intended = || read(r#"{"event":"run-intended","run":"a","attempt":1}"#);
        let started = || Event::Started {
            plan: "p".to_owned(),
            runs: 1,
            pid: 1,
            cvc: String::new(),
        };
        let mut state = folded(&entries(vec![
            started(),
            intended(),
            // the form that earlier versions wrote
            read(r#"{"event":"run-abandoned","run":"a","attempt":1,"ended":[]}"#),
            intended(),
            read(
                r#"{"event":"run-abandoned","run":"a","attempt":1,"ended":[7],"with_controller":true}"#,
            ),
            Event::Interrupted { now: false },
            Event::Interrupted { now: true },
        ]));
        let counted: Vec<bool> = state.runs[&RunId::from_written("a")]
            .attempts
            .iter()
            .map(|a| a.with_controller)
            .collect();
        assert_eq!(
            (counted, state.interruptions, state.stop_asked),
            (vec![false, true], 1, true)
        );
        state
            .apply(&Entry {
                seq: 8,
                at: Timestamp::UNIX_EPOCH,
                event: started(),
            })
            .expect("a new session");
        assert!(!state.stop_asked);
    }

    #[test]
    fn a_run_that_began_is_open_and_its_shepherd_is_known() {
        let run = RunId::from_written("a");
        let mut journal = entries(vec![
            Event::Started {
                plan: "p".to_owned(),
                runs: 1,
                pid: 1,
                cvc: String::new(),
            },
            Event::RunIntended {
                run: run.clone(),
                attempt: 1,
                nodes: WrittenNodes::default(),
            },
            Event::RunStarted {
                run: run.clone(),
                attempt: 1,
                pid: 7,
                start_ticks: 9,
            },
        ]);
        assert_eq!(
            folded(&journal[..2]).run(&run),
            Some(&RunState::Open {
                attempt: 1,
                shepherd: None
            })
        );
        let state = folded(&journal);
        assert_eq!(
            state.run(&run),
            Some(&RunState::Open {
                attempt: 1,
                shepherd: Some(ProcessId {
                    pid: 7,
                    start_ticks: 9
                })
            })
        );
        // the attempt starts with the intent, and both events belong to the same attempt
        assert_eq!(state.runs[&run].attempts.len(), 1);
        assert_eq!(state.runs[&run].attempts[0].started, Some(journal[1].at));
        journal.push(Entry {
            seq: 4,
            at: journal[2].at,
            event: Event::Completed {
                succeeded: 0,
                failed: 0,
            },
        });
        assert!(folded(&journal).completed && state.sessions == 1);
    }

    #[test]
    fn an_event_that_does_not_follow_is_refused_with_its_line_and_changes_nothing() {
        let (run, point) = (RunId::from_written("a"), PointId::from_written("p"));
        let intended = |attempt| Event::RunIntended {
            run: run.clone(),
            attempt,
            nodes: WrittenNodes::default(),
        };
        let finished = |attempt| Event::RunFinished {
            run: run.clone(),
            attempt,
            outcome: Outcome::Succeeded,
            records: None,
            manifest: None,
            not_again: None,
        };
        let started = |attempt| Event::RunStarted {
            run: run.clone(),
            attempt,
            pid: 1,
            start_ticks: 1,
        };
        let abandoned = |attempt| Event::RunAbandoned {
            run: run.clone(),
            attempt,
            ended: vec![],
            lost: false,
            with_controller: false,
        };
        let opened = || Event::Opened {
            format: 2,
            campaign: "c".to_owned(),
            cvc: "0.2.0".to_owned(),
            lineage: None,
        };
        let lease = || LeaseId::from("l");
        let until = Timestamp::UNIX_EPOCH;
        let cases: Vec<(Vec<Event>, Event, &str)> = vec![
            (vec![opened()], opened(), "opened a second time"),
            (vec![], started(1), "never intended"),
            (vec![], finished(1), "never intended"),
            (vec![], abandoned(1), "never intended"),
            (vec![intended(1)], intended(2), "under way"),
            (vec![intended(1)], finished(2), "attempt 1 is under way"),
            (vec![intended(1), finished(1)], finished(1), "has ended"),
            (vec![intended(1), finished(1)], intended(2), "has succeeded"),
            (vec![intended(1), abandoned(1)], started(1), "has ended"),
            (
                vec![],
                Event::PointReleased {
                    point: point.clone(),
                },
                "not quarantined",
            ),
            (
                vec![Event::PointQuarantined {
                    point: point.clone(),
                    failures: 2,
                }],
                Event::PointQuarantined { point, failures: 2 },
                "a second time",
            ),
            (
                vec![],
                Event::LeaseAcquired {
                    lease: lease(),
                    by: Acquired::Job("1".into()),
                },
                "never intended",
            ),
            (
                vec![],
                Event::LeaseExtended {
                    lease: lease(),
                    until,
                },
                "never intended",
            ),
            (
                vec![],
                Event::LeasePriced {
                    lease: lease(),
                    rate: Box::new(NodeRate::new(vec![], 0.0)),
                    since: until,
                },
                "never intended",
            ),
            (
                vec![],
                Event::LeaseKept {
                    lease: lease(),
                    until,
                },
                "never intended",
            ),
            (
                vec![],
                Event::LeaseLost {
                    lease: lease(),
                    instances: vec![],
                    why: "gone".into(),
                },
                "never intended",
            ),
            (
                vec![],
                Event::LeaseReleased {
                    lease: lease(),
                    how: String::new(),
                },
                "never intended",
            ),
        ];
        for (before, event, problem) in cases {
            let line = before.len() as u64 + 1;
            let mut state = folded(&entries(before));
            let untouched = state.clone();
            let illegal = state
                .apply(&Entry {
                    seq: line,
                    at: Timestamp::UNIX_EPOCH,
                    event: event.clone(),
                })
                .expect_err("illegal");
            assert!(
                illegal.line == line && illegal.problem.to_string().contains(problem),
                "{event:?}: {illegal}"
            );
            assert_eq!(state, untouched);
            let error = illegal
                .in_file(Utf8Path::new("c/journal.jsonl"))
                .to_string();
            assert!(
                error.contains(&format!("c/journal.jsonl is damaged, line {line}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_lease_has_a_job_or_instances_in_both_forms_of_the_journal() {
        let by = |text: &str| serde_json::from_str::<Event>(text).expect("an event");
        let event = |by| Event::LeaseAcquired {
            lease: "l".into(),
            by,
        };
        let (job, instances) = (
            Acquired::Job("17".into()),
            Acquired::instances(["i-1", "i-2"]),
        );
        assert_eq!(
            by(r#"{"event":"lease-acquired","lease":"l","job":"17"}"#),
            event(job.clone())
        );
        assert_eq!(
            by(r#"{"event":"lease-acquired","lease":"l","job":"i-1,i-2"}"#),
            event(instances.clone())
        );
        for acquired in [job, instances] {
            let text = serde_json::to_string(&event(acquired.clone())).expect("json");
            assert!(text.contains("\"by\":{"), "{text}");
            assert_eq!(by(&text), event(acquired));
        }
    }
}
