//! Builds a small campaign with invented values; no number in it was measured.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::{PointId, RunId, short_digest};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Point, Repeat};
use cvc_core::record::{Record, Source, Unit};
use cvc_index::{Index, IndexedRun};
use cvc_journal::{CampaignState, Entry, Event};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{collections::BTreeMap, fs};

/// A record's name, value, unit and labels.
pub(crate) type Value<'a> = (&'a str, f64, Unit, &'a [(&'a str, &'a str)]);

/// A campaign; its plan and journal are written when the index is built.
pub(crate) struct Made {
    directory: tempfile::TempDir,
    pub(crate) plan: Plan,
    events: Vec<Event>,
}

impl Made {
    /// Creates the points `p0`, `p1`, ... on 1, 2, ... nodes, each with a warm-up `pN-w1` and the repeats `pN-1`, `pN-2`, ....
    pub(crate) fn new(points: u32, repeats: u32) -> Self {
        let point = |n: u32| PlannedPoint {
            id: PointId::from_written(&format!("p{n}")),
            point: Point {
                site: "here".into(),
                app: "heat".into(),
                class: "S".into(),
                mapping: format!("{}Nx2P", n + 1).parse().expect("a mapping"),
                mpi: "mpich".into(),
                storage: "disk".into(),
                ..Point::default()
            },
            baseline: false,
            expected_failure: None,
        };
        let run = |n: u32, repeat: Repeat| PlannedRun {
            id: RunId::from_written(&match repeat {
                Repeat::Warmup(r) => format!("p{n}-w{r}"),
                Repeat::Measured(r) => format!("p{n}-{r}"),
            }),
            point: PointId::from_written(&format!("p{n}")),
            repeat,
            block: None,
        };
        let of_point = |n: u32| {
            let repeats = (1..=repeats).map(Repeat::Measured);
            std::iter::once(Repeat::Warmup(1))
                .chain(repeats)
                .map(move |repeat| run(n, repeat))
        };
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            plan: Plan {
                schema: 1,
                campaign: "made".into(),
                seed: 7,
                points: (0..points).map(point).collect(),
                runs: (0..points).flat_map(of_point).collect(),
                excluded: Vec::new(),
                predict: None,
            },
            events: vec![
                Event::Opened {
                    format: 1,
                    campaign: "made".into(),
                    cvc: "0.1.0".into(),
                    lineage: None,
                },
                Event::Started {
                    plan: "0123456789abcdef".into(),
                    runs: 0,
                    pid: 4242,
                    cvc: String::new(),
                },
            ],
        }
    }

    pub(crate) fn path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.directory.path().to_owned()).expect("UTF-8")
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(crate) fn intend(&mut self, run: &str, attempt: u32) {
        self.push(Event::RunIntended {
            run: RunId::from_written(run),
            attempt,
            nodes: Default::default(),
        });
    }

    fn finish(&mut self, run: &str, attempt: u32, outcome: Outcome, records: Option<String>) {
        self.push(Event::RunFinished {
            run: RunId::from_written(run),
            attempt,
            outcome,
            records,
            manifest: None,
            not_again: None,
        });
    }

    /// Adds an attempt that fails.
    pub(crate) fn fail(&mut self, run: &str, attempt: u32, detail: &str) {
        self.intend(run, attempt);
        let outcome = Outcome::Failed {
            cause: Cause::Checkpoint,
            detail: detail.into(),
        };
        self.finish(run, attempt, outcome, None);
    }

    /// Adds an attempt that is abandoned.
    pub(crate) fn abandon(&mut self, run: &str, attempt: u32) {
        self.intend(run, attempt);
        self.push(Event::RunAbandoned {
            run: RunId::from_written(run),
            attempt,
            ended: Vec::new(),
            lost: false,
            with_controller: false,
        });
    }

    /// Adds a first attempt that succeeds with these records.
    pub(crate) fn succeed(&mut self, run: &str, values: &[Value<'_>]) {
        self.intend(run, 1);
        self.succeed_at(run, 1, values);
    }

    /// Lets an attempt in progress succeed with these records.
    pub(crate) fn succeed_at(&mut self, run: &str, attempt: u32, values: &[Value<'_>]) {
        let text: String = values
            .iter()
            .map(|(name, value, unit, labels)| {
                let labels = labels
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
                let record = Record {
                    run: RunId::from_written(run),
                    name: (*name).to_owned(),
                    value: *value,
                    unit: *unit,
                    source: Source::Clock,
                    artefact: None,
                    labels: labels.collect(),
                };
                serde_json::to_string(&record).expect("JSON") + "\n"
            })
            .collect();
        self.write(&format!("runs/{run}/records.jsonl"), &text);
        let digest = short_digest(text.as_bytes());
        self.finish(run, attempt, Outcome::Succeeded, Some(digest));
    }

    /// Writes a file below the campaign's directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
        fs::write(path, text).expect("writes");
    }

    /// Writes the plan and the journal. Consecutive journal entries are ten seconds apart.
    pub(crate) fn save(&self) -> Utf8PathBuf {
        self.write("plan.json", &json!(self.plan).to_string());
        let journal: String = self
            .entries()
            .iter()
            .map(|entry| json!(entry).to_string() + "\n")
            .collect();
        self.write("journal.jsonl", &journal);
        self.path()
    }

    fn entries(&self) -> Vec<Entry> {
        let begin: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        (1..)
            .zip(&self.events)
            .map(|(seq, event)| Entry {
                seq,
                at: begin + SignedDuration::from_secs(10 * seq as i64),
                event: event.clone(),
            })
            .collect()
    }

    pub(crate) fn state(&self) -> CampaignState {
        CampaignState::of(&self.entries()).expect("a journal")
    }

    pub(crate) fn index(&self) -> Index {
        Index::in_temporary_file(&self.save()).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Returns the runs of an index by name.
pub(crate) fn runs(index: &Index) -> BTreeMap<String, IndexedRun> {
    let runs = index.runs().expect("runs").into_iter();
    runs.map(|run| (run.id.clone(), run)).collect()
}

/// Returns the facts of a run.
pub(crate) fn facts(index: &Index, run: &str) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    index
        .each_fact(|fact| {
            if fact.run == run {
                facts.insert(fact.key, fact.value);
            }
        })
        .expect("facts");
    facts
}

/// Returns the values of a run by quantity, each with its unit.
pub(crate) fn values(index: &Index, run: &str) -> BTreeMap<String, (f64, String)> {
    let mut values = BTreeMap::new();
    let each = |of: cvc_index::RunValue| {
        if of.run == run {
            values.insert(of.quantity, (of.value, of.unit));
        }
    };
    index.each_run_value(each).expect("values");
    values
}

/// Returns the names in a directory.
pub(crate) fn names(directory: &Utf8Path) -> Vec<String> {
    let entries = directory.read_dir_utf8().expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_owned())
        .collect();
    names.sort();
    names
}
