//! Reads a possibly damaged journal, and salvages its intact entries.

use super::problem::{Problem, Remedy};
use crate::{
    CampaignState, Entry, Event, EventProblem, FORMAT, Lineage, Mark, RunState, WrittenNodes,
    newer_format,
};
use cvc_core::ids::NodeName;
use cvc_core::store::{
    CampaignDir, StoreError, claimed_lineage,
    line_file::{self, BadLine},
    regular, sealed_outcome,
};
use cvc_core::units::counted;
use std::collections::BTreeMap;

/// A journal as found, damaged or not.
#[derive(Debug, Default)]
pub(super) struct OldJournal {
    /// Whether the journal exists.
    exists: bool,
    /// Intact entries, each with the number of its line.
    pub(super) entries: Vec<(usize, Entry)>,
    damaged: Vec<BadLine>,
    torn_bytes: u64,
    /// Gaps in the numbers of entries: the line after the gap, and the first and the last missing number.
    missing: Vec<(usize, u64, u64)>,
    /// Description of what is missing according to the mark; `None` if nothing is.
    went_back: Option<String>,
}

/// The part of a journal that is kept, in a form that can be continued.
pub(super) struct Salvaged {
    /// Salvaged entries, renumbered.
    pub(super) entries: Vec<Entry>,
    /// The state folded from the entries.
    pub(super) state: CampaignState,
    /// Intact entries that are omitted because they do not follow from the others: line number and reason.
    pub(super) left_out: Vec<(usize, EventProblem)>,
}

impl OldJournal {
    pub(super) fn read(dir: &CampaignDir) -> Result<Self, StoreError> {
        let path = dir.journal();
        let file = match regular::open(path.as_std_path()) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        };
        let mut old = Self {
            exists: true,
            ..Self::default()
        };
        let (mark, mut marked) = (Mark::read(&path), None);
        let (mut last, mut newer) = (0_u64, None);
        let scan = line_file::scan(file, |line, json| -> Result<(), serde_json::Error> {
            let entry: Entry = serde_json::from_slice(json)
                .inspect_err(|_| newer = newer.or(newer_format(json)))?;
            if let Event::Opened { format, .. } = &entry.event {
                newer = newer.or(Some(*format).filter(|format| *format > FORMAT));
            }
            if entry.seq > last.saturating_add(1) {
                old.missing.push((line, last + 1, entry.seq - 1));
            }
            if mark.as_ref().is_some_and(|mark| mark.entry == entry.seq) {
                marked = line_file::sum_of(json).map(str::to_owned);
            }
            last = last.max(entry.seq);
            old.entries.push((line, entry));
            Ok(())
        })
        .map_err(StoreError::io("read", &path))?
        .with_synced_lines();
        if let Some(format) = newer {
            return Err(StoreError::newer(&path, format, FORMAT));
        }
        old.torn_bytes = scan.torn_bytes();
        old.damaged = scan.damaged;
        // damaged lines count as present here, because their problems are reported separately
        let lines = last.max((old.entries.len() + old.damaged.len()) as u64);
        old.went_back = mark.and_then(|mark| mark.missing(lines, marked.as_deref()));
        Ok(old)
    }

    /// Returns the number of entries that are lost.
    pub(super) fn lost(&self) -> u64 {
        let missing = self.missing.iter().fold(0_u64, |sum, (_, first, last)| {
            sum.saturating_add((last - first).saturating_add(1))
        });
        missing.max(self.damaged.len() as u64)
    }

    /// Returns whether the journal is damaged or has lost entries.
    pub(super) fn is_damaged(&self) -> bool {
        !self.damaged.is_empty() || !self.missing.is_empty()
    }

    /// Returns the problems of the journal. `salvaged` is the part of it that can be kept.
    pub(super) fn problems(&self, dir: &CampaignDir, salvaged: &Salvaged) -> Vec<Problem> {
        let path = dir.journal();
        let rewrite = |line, what: String, consequence: String| Problem {
            path: path.clone(),
            line,
            what,
            consequence,
            remedy: Some(Remedy::RewriteJournal),
            is_damage: true,
        };
        if !self.exists {
            let consequence = "the record of runs, and of leftovers on sites and in clouds, is lost: the directories of runs show the former, `cvc sweep` \
                               finds the latter";
            return vec![rewrite(
                None,
                "the journal is missing".into(),
                consequence.into(),
            )];
        }
        let mut problems = Vec::new();
        for bad in &self.damaged {
            let bytes = bad.bytes.end - bad.bytes.start;
            let consequence = format!(
                "the content of its {bytes} bytes is lost; the lines before and after it are intact"
            );
            problems.push(rewrite(Some(bad.number), bad.problem.clone(), consequence));
        }
        for (line, first, last) in &self.missing {
            // damaged lines before this line explain the missing numbers
            if !self
                .damaged
                .iter()
                .any(|bad| bad.number < *line && bad.number as u64 >= *first)
            {
                let which = if first == last {
                    format!("entry {first} is missing")
                } else {
                    format!("entries {first} to {last} are missing")
                };
                problems.push(rewrite(Some(*line), which, "their content is lost".into()));
            }
        }
        for (line, why) in &salvaged.left_out {
            let in_cloud = if matches!(why, EventProblem::NoLease { .. }) {
                "; `cvc sweep` finds its leftovers in a cloud"
            } else {
                ""
            };
            let consequence =
                format!("it does not follow from the remaining entries, and is omitted{in_cloud}");
            problems.push(rewrite(Some(*line), why.to_string(), consequence));
        }
        if let Some(what) = &self.went_back {
            problems.push(Problem {
                path: path.clone(),
                line: None,
                what: format!("the journal was reset to an earlier state: {what}"),
                consequence:
                    "it was restored from an older copy, or its end is lost; directories show its runs, `squeue` and `cvc sweep` its machines"
                        .into(),
                remedy: Some(Remedy::AcceptJournal),
                is_damage: true,
            });
        }
        if self.torn_bytes > 0 {
            let had_followed = if self.went_back.is_some() {
                ""
            } else {
                ", and nothing depends on it"
            };
            problems.push(Problem {
                path: path.clone(),
                line: None,
                what: format!("{} at the end are not a complete entry", counted(self.torn_bytes, "byte")),
                consequence: format!("an entry was being written when the machine stopped; the next `cvc run` removes it{had_followed}"),
                remedy: None,
                is_damage: false,
            });
        }
        problems
    }

    /// Returns the intact entries in a form that can be continued. Adds entries only if they must have existed, because an intact one implies them.
    pub(super) fn salvage(&self, dir: &CampaignDir) -> Salvaged {
        let mut salvaged = Salvaged {
            entries: Vec::new(),
            state: CampaignState::default(),
            left_out: Vec::new(),
        };
        let first_at = self
            .entries
            .first()
            .map_or(jiff::Timestamp::now(), |(_, entry)| entry.at);
        if !matches!(
            self.entries.first(),
            Some((
                _,
                Entry {
                    event: Event::Opened { .. },
                    ..
                }
            ))
        ) {
            let campaign = dir.root().file_name().unwrap_or("campaign").to_owned();
            // the lineage is lost with the first line, unless a later entry gives it; this machine may have recorded it
            let is_given = self
                .entries
                .iter()
                .any(|(_, entry)| matches!(entry.event, Event::LineageGiven { .. }));
            let remembered =
                || claimed_lineage(dir.root()).map(|written| Lineage::from_written(&written));
            let lineage = if is_given {
                None
            } else {
                remembered().or_else(|| Lineage::random().ok())
            };
            let opened = Event::Opened {
                format: FORMAT,
                campaign,
                cvc: env!("CARGO_PKG_VERSION").to_owned(),
                lineage,
            };
            salvaged.push(first_at, opened);
        }
        let mut sets: BTreeMap<u32, Vec<NodeName>> = BTreeMap::new();
        for (line, Entry { at, event, .. }) in &self.entries {
            let mut event = salvaged.with_own_nodes(event.clone(), &mut sets);
            if let Event::Opened { format, .. } = &mut event {
                // the format of the rewritten lines, which have checksums
                *format = FORMAT;
            }
            let event = &event;
            for implied in salvaged.implied(dir, event) {
                salvaged.push(*at, implied);
            }
            match salvaged.state.check(event) {
                Ok(()) => salvaged.push(*at, event.clone()),
                Err(why) => salvaged.left_out.push((*line, why)),
            }
        }
        salvaged
    }
}

impl Salvaged {
    pub(super) fn push(&mut self, at: jiff::Timestamp, event: Event) {
        let entry = Entry {
            seq: self.entries.len() as u64 + 1,
            at,
            event,
        };
        if self.state.apply(&entry).is_ok() {
            self.entries.push(entry);
        }
    }

    /// Returns the event with the nodes of its attempt as the new journal has to write them: the lines that defined the numbers of node sets may be
    /// lost. If the nodes are unknown, the event has none.
    fn with_own_nodes(&self, mut event: Event, sets: &mut BTreeMap<u32, Vec<NodeName>>) -> Event {
        if let Event::RunIntended { nodes, .. } = &mut event {
            let names = match &*nodes {
                WrittenNodes::Names(names) => names.clone(),
                WrittenNodes::Set {
                    set,
                    names: Some(names),
                } => {
                    let names = names
                        .expand()
                        .map(|names| names.to_vec())
                        .unwrap_or_default();
                    sets.insert(*set, names.clone());
                    names
                }
                WrittenNodes::Set { set, names: None } => {
                    sets.get(set).cloned().unwrap_or_default()
                }
            };
            *nodes = self.state.node_sets.write(&names);
        }
        event
    }

    /// Returns the events that are missing although they must have preceded this one.
    fn implied(&self, dir: &CampaignDir, event: &Event) -> Vec<Event> {
        let (run, attempt, is_begin) = match event {
            Event::RunIntended { run, attempt, .. } => (run, *attempt, true),
            Event::RunStarted { run, attempt, .. }
            | Event::RunFinished { run, attempt, .. }
            | Event::CheckpointKept { run, attempt, .. }
            | Event::RunAbandoned { run, attempt, .. } => (run, *attempt, false),
            Event::Opened { .. }
            | Event::LineageGiven { .. }
            | Event::Started { .. }
            | Event::SiteOpened { .. }
            | Event::SiteClosed { .. }
            | Event::RunDiscarded { .. }
            | Event::ResultsFetched { .. }
            | Event::Repaired { .. }
            | Event::PointQuarantined { .. }
            | Event::PointDecided { .. }
            | Event::PointsSkipped { .. }
            | Event::PointReleased { .. }
            | Event::LeaseIntended { .. }
            | Event::LeaseAcquired { .. }
            | Event::LeaseExtended { .. }
            | Event::LeasePriced { .. }
            | Event::LeaseKept { .. }
            | Event::LeaseLost { .. }
            | Event::LeaseReleased { .. }
            | Event::Interrupted { .. }
            | Event::Completed { .. } => return Vec::new(),
        };
        let mut implied = Vec::new();
        match self.state.run(run) {
            Some(RunState::Open { attempt: open, .. }) if is_begin || *open != attempt => {
                implied.push(match sealed_outcome(dir, run, *open) {
                    Some(file) => Event::finished(run.clone(), file),
                    None => Event::RunAbandoned {
                        run: run.clone(),
                        attempt: *open,
                        ended: Vec::new(),
                        lost: false,
                        with_controller: false,
                    },
                });
                if !is_begin {
                    implied.push(Event::RunIntended {
                        run: run.clone(),
                        attempt,
                        nodes: Default::default(),
                    });
                }
            }
            Some(RunState::Abandoned { .. }) | None if !is_begin => {
                implied.push(Event::RunIntended {
                    run: run.clone(),
                    attempt,
                    nodes: Default::default(),
                });
            }
            Some(RunState::Finished { attempt: ended, .. }) if !is_begin && *ended < attempt => {
                implied.push(Event::RunIntended {
                    run: run.clone(),
                    attempt,
                    nodes: Default::default(),
                });
            }
            Some(
                RunState::Open { .. } | RunState::Abandoned { .. } | RunState::Finished { .. },
            )
            | None => {}
        }
        implied
    }
}
