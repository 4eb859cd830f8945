//! A campaign file with a directory of campaigns.

use camino::Utf8PathBuf;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::CampaignDir;
use cvc_journal::{CampaignState, Entry, Event};
use cvc_session::{CampaignSession, SessionError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{fs, path::Path};

pub(crate) const LOCAL: &str = "[sites.here]\nkind = 'local'\n";
pub(crate) const CLOUD: &str = "[sites.cloud]\nkind = 'ec2'\nec2 = { region = 'us-east-1', instance_types = ['c5.large'], nodes = 4 }\n[budget]\nusd = 10.0\n";
pub(crate) const TWO_POINTS: &str = "app = 'demo'\nclass = 'S'\nmapping = ['1Nx1P', '1Nx2P']\n";

pub(crate) struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    /// A directory with this campaign `c` in `campaign.toml`.
    pub(crate) fn new(sites: &str, matrix: &str, rest: &str) -> Self {
        let bench = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
        let demo = fs::read_to_string(apps.join("demo.toml")).expect("an application");
        bench.write("apps/demo.toml", &demo);
        let text = format!("schema = 1\nname = 'c'\n{sites}[matrix]\n{matrix}{rest}");
        bench.write("campaign.toml", &text);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> Utf8PathBuf {
        let path = Utf8PathBuf::from_path_buf(self.directory.path().join(name));
        path.expect("UTF-8")
    }

    pub(crate) fn file(&self) -> Utf8PathBuf {
        self.path("campaign.toml")
    }

    pub(crate) fn campaigns(&self) -> Utf8PathBuf {
        self.path("campaigns")
    }

    /// Writes a file below the directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
        fs::write(path, text).expect("writes");
    }

    pub(crate) fn look(&self) -> CampaignSession {
        CampaignSession::look(&self.file(), None, &self.campaigns())
            .unwrap_or_else(|e| panic!("{e}"))
    }
}

/// A campaign that has begun: what its journal says, written and folded.
pub(crate) struct Begun {
    pub(crate) bench: Bench,
    pub(crate) session: CampaignSession,
    events: Vec<Event>,
}

impl Begun {
    /// Two points with two repeats each on this machine, in the order of the plan.
    pub(crate) fn new() -> Self {
        let order = "[run]\nrepeats = 2\norder = 'as-written'\n";
        let bench = Bench::new(LOCAL, TWO_POINTS, order);
        let session = bench.look();
        Self {
            events: vec![
                Event::Opened {
                    format: 1,
                    campaign: "c".into(),
                    cvc: "0.1.0".into(),
                    lineage: None,
                },
                Event::Started {
                    plan: "0123456789abcdef".into(),
                    runs: 4,
                    pid: 1,
                    cvc: String::new(),
                },
            ],
            session,
            bench,
        }
    }

    pub(crate) fn dir(&self) -> &CampaignDir {
        &self.session.dir
    }

    /// The run of this number in the plan.
    pub(crate) fn run(&self, number: usize) -> RunId {
        self.session.plan.runs[number].id.clone()
    }

    /// The point of a run.
    pub(crate) fn point(&self, number: usize) -> PointId {
        self.session.plan.runs[number].point.clone()
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(crate) fn intend(&mut self, number: usize, attempt: u32, nodes: &[&str]) {
        let nodes: Vec<cvc_core::ids::NodeName> = nodes.iter().map(|n| (*n).into()).collect();
        let run = self.run(number);
        self.push(Event::RunIntended {
            run,
            attempt,
            nodes: cvc_journal::NodeSets::default().write(&nodes),
        });
    }

    fn finish(&mut self, number: usize, attempt: u32, outcome: Outcome, not_again: Option<&str>) {
        let run = self.run(number);
        self.push(Event::RunFinished {
            run,
            attempt,
            outcome,
            records: None,
            manifest: None,
            not_again: not_again.map(str::to_owned),
        });
    }

    pub(crate) fn fail(&mut self, number: usize, attempt: u32, not_again: Option<&str>) {
        self.intend(number, attempt, &[]);
        let outcome = Outcome::Failed {
            cause: Cause::Application,
            detail: "exit code 2".into(),
        };
        self.finish(number, attempt, outcome, not_again);
    }

    /// An attempt that succeeds and leaves its directory.
    pub(crate) fn succeed(&mut self, number: usize, attempt: u32) {
        self.intend(number, attempt, &[]);
        self.finish(number, attempt, Outcome::Succeeded, None);
        let run = self.run(number);
        fs::create_dir_all(self.dir().run(&run)).expect("makes");
    }

    pub(crate) fn abandon(&mut self, number: usize, lost: bool, with_controller: bool) {
        self.intend(number, 1, &["n1", "n2"]);
        let run = self.run(number);
        self.push(Event::RunAbandoned {
            run,
            attempt: 1,
            ended: Vec::new(),
            lost,
            with_controller,
        });
    }

    pub(crate) fn quarantine(&mut self, number: usize) {
        let point = self.point(number);
        self.push(Event::PointQuarantined { point, failures: 2 });
    }

    pub(crate) fn decide(&mut self, number: usize) {
        let point = self.point(number);
        self.push(Event::PointDecided {
            point,
            repeats: 1,
            is_narrow: true,
            reason: "wall_s ±1.0 % after 1 repeat".into(),
        });
    }

    pub(crate) fn skip(&mut self, number: usize) {
        let points = vec![self.point(number)];
        let reason = "no mpiexec".into();
        self.push(Event::PointsSkipped { points, reason });
    }

    /// The entries, ten seconds apart.
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

    /// Writes plan, campaign file and journal into the campaign's directory.
    pub(crate) fn save(&self) {
        let journal: String = self
            .entries()
            .iter()
            .map(|entry| json!(entry).to_string() + "\n")
            .collect();
        let text = fs::read_to_string(self.bench.file()).expect("a file");
        self.bench.write("campaigns/c/journal.jsonl", &journal);
        self.bench.write("campaigns/c/campaign.toml", &text);
        let plan = json!(self.session.plan).to_string();
        self.bench.write("campaigns/c/plan.json", &plan);
    }
}

/// What is wrong and the hint of what was asked for and cannot be.
#[track_caller]
pub(crate) fn asked<T>(result: Result<T, SessionError>) -> (String, String) {
    match result {
        Err(SessionError::ImpossibleRequest { message, hint }) => (message, hint),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was possible"),
    }
}
