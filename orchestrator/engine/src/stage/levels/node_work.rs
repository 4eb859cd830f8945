//! Requests work on kept checkpoints from the nodes.

use crate::{
    crew::CrewError,
    run::{AllocatedNodes, LATER, RunFailure, SESSION, random_bytes},
    stage::lost,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::outcome::Cause;
use cvc_probe::sentinel::{
    LevelDone, LevelProblem, LevelWork, Movement, PortRequest, StreamTarget, StreamToken,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    path::PathBuf,
};

/// Time limit of data moves between nodes, seconds. It ends before the caller stops waiting for the answer.
const MOVE_LIMIT_S: f64 = LATER.as_secs_f64() - 60.0;

/// Why a node did not carry out a request.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The request did not reach the node, or the node did not answer.
    Crew(CrewError),
    /// The node could not carry out the work.
    Problem(LevelProblem),
}

impl Trouble {
    /// Returns whether the cause is a damaged or missing copy on the node.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.is_damaged)
    }

    /// Converts the problem to a failure of the run; `what` is the beginning of the message.
    pub fn failure(self, node: &str, cause: Cause, what: &str) -> RunFailure {
        match self {
            Self::Crew(error) => {
                let mut failure = lost(&error);
                failure.detail = format!("{what}: {}", failure.detail);
                failure
            }
            Self::Problem(problem) => {
                let cause = if problem.is_full {
                    Cause::DiskFull
                } else {
                    cause
                };
                RunFailure::new(cause, format!("{what} on {node}: {}", problem.why))
            }
        }
    }

    /// Returns the rank of the cause. Of several failures the one with the lowest rank is reported, because the others may follow from it.
    fn order(&self) -> u8 {
        match self {
            Self::Crew(_) => 0,
            Self::Problem(problem) if problem.is_full => 1,
            Self::Problem(problem) if problem.is_damaged => 2,
            Self::Problem(_) => 3,
        }
    }
}

/// Answers of nodes, in the order of the requests.
pub(super) type NodeAnswers = Vec<(String, Result<LevelDone, Trouble>)>;

/// The nodes that keep a run's checkpoints, and the directories on them.
#[derive(Clone, Debug)]
pub(super) struct NodeWork {
    used: AllocatedNodes,
    at: Utf8PathBuf,
    /// Names of the nodes that have parts of checkpoints, in the order of the mapping; empty before the first checkpoint.
    pub names: Vec<String>,
}

impl NodeWork {
    pub fn new(used: AllocatedNodes, at: Utf8PathBuf) -> Self {
        Self {
            used,
            at,
            names: Vec::new(),
        }
    }

    /// Returns the directory of a node's own files of a checkpoint.
    pub fn own_dir(&self, id: u64) -> PathBuf {
        self.at.join(id.to_string()).join("own").into()
    }

    /// Returns the directory of a node's session files, which a checkpointer stores in the run's working directory.
    pub fn session_dir(&self, node: &str) -> PathBuf {
        let work = self.at.parent().unwrap_or(&self.at);
        work.join(format!("{SESSION}-{node}")).into()
    }

    /// Returns the same request for each of these nodes.
    pub fn everywhere(&self, work: &LevelWork) -> Vec<(String, LevelWork)> {
        let names = self.names.iter();
        names.map(|name| (name.clone(), work.clone())).collect()
    }

    /// Sends requests to nodes concurrently, for this directory.
    pub async fn ask_in(&self, dir: &Utf8Path, works: Vec<(String, LevelWork)>) -> NodeAnswers {
        let used = &self.used;
        let answers = used
            .crew
            .levels(&used.marker, dir.as_std_path(), works, LATER)
            .await;
        let answer =
            |(node, answer): (String, Result<Result<LevelDone, LevelProblem>, CrewError>)| {
                let answer = match answer {
                    Ok(done) => done.map_err(Trouble::Problem),
                    Err(error) => Err(Trouble::Crew(error)),
                };
                (node, answer)
            };
        answers.into_iter().map(answer).collect()
    }

    /// Sends requests to nodes concurrently, for the directory where they keep checkpoints.
    pub async fn ask(&self, works: Vec<(String, LevelWork)>) -> NodeAnswers {
        self.ask_in(&self.at, works).await
    }

    /// Sends requests to nodes concurrently. Returns all answers, or the failure of the run; `what` is the beginning of its message.
    pub async fn all(
        &self,
        works: Vec<(String, LevelWork)>,
        cause: Cause,
        what: &str,
    ) -> Result<Vec<LevelDone>, RunFailure> {
        whole(self.ask(works).await).map_err(|(node, trouble)| trouble.failure(&node, cause, what))
    }

    /// Sends a request about a shared directory to one node after another, until one answers.
    pub async fn first(
        &self,
        dir: &Utf8Path,
        work: LevelWork,
        cause: Cause,
        what: &str,
    ) -> Result<LevelDone, RunFailure> {
        let lost = self.used.crew.lost().borrow().clone();
        let first = self.names.iter().find(|name| !lost.contains_key(*name));
        let works = first.map(|name| (name.clone(), work));
        let done = whole(self.ask_in(dir, works.into_iter().collect()).await);
        let done = done.map_err(|(node, trouble)| trouble.failure(&node, cause, what))?;
        Ok(done.into_iter().next().unwrap_or_default())
    }

    /// Like [`NodeWork::try_to_carry_out`], but converts an error to the failure of the run.
    pub async fn carry_out(
        &self,
        id: u64,
        movement: &Movement,
        cause: Cause,
        what: &str,
    ) -> Result<u64, RunFailure> {
        let moved = self.try_to_carry_out(id, movement).await;
        moved.map_err(|(node, trouble)| trouble.failure(&node, cause, what))
    }

    /// Moves data between nodes. Returns the number of bytes that the nodes sent each other.
    pub async fn try_to_carry_out(
        &self,
        id: u64,
        movement: &Movement,
    ) -> Result<u64, (String, Trouble)> {
        if movement.links().is_empty() {
            return Ok(0);
        }
        let targets = self.open(movement).await?;
        let work = |(number, name): (usize, &String)| {
            let flows = movement.flows(number, |link| targets.get(link).cloned());
            let limit_s = MOVE_LIMIT_S;
            let is_idle = flows.is_empty();
            (!is_idle).then(|| (name.clone(), LevelWork::Move { id, flows, limit_s }))
        };
        let works = self.names.iter().enumerate().filter_map(work).collect();
        let done = whole(self.ask(works).await)?;
        Ok(done.iter().map(|done| done.bytes).sum())
    }

    /// Opens the ports of all streams, each at the address under which the sender reaches the receiver.
    async fn open(
        &self,
        movement: &Movement,
    ) -> Result<HashMap<String, StreamTarget>, (String, Trouble)> {
        let addresses = self.addresses(movement).await?;
        let mut requests: BTreeMap<usize, Vec<PortRequest>> = BTreeMap::new();
        for link in movement.links() {
            let Some(address) = addresses.get(&(link.from, link.to)) else {
                continue;
            };
            let request = PortRequest {
                name: link.name.clone(),
                address: *address,
                token: self.token(link.to)?,
            };
            requests.entry(link.to).or_default().push(request);
        }
        let works = requests.iter().map(|(node, requests)| {
            let work = LevelWork::Listen(requests.clone());
            (self.names[*node].clone(), work)
        });
        let done = whole(self.ask(works.collect()).await)?;
        let mut targets = HashMap::new();
        for (requests, done) in requests.into_values().zip(done) {
            for (request, address) in requests.into_iter().zip(done.ports) {
                let token = request.token;
                targets.insert(request.name, StreamTarget { address, token });
            }
        }
        Ok(targets)
    }

    fn token(&self, node: usize) -> Result<StreamToken, (String, Trouble)> {
        let bytes = random_bytes().map_err(|error| {
            let problem = LevelProblem {
                why: error.to_string(),
                is_full: false,
                is_damaged: false,
            };
            (self.names[node].clone(), Trouble::Problem(problem))
        })?;
        Ok(StreamToken::new(bytes))
    }

    /// Queries, on the senders, the addresses of the receivers.
    async fn addresses(
        &self,
        movement: &Movement,
    ) -> Result<HashMap<(usize, usize), IpAddr>, (String, Trouble)> {
        let mut receivers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for link in movement.links() {
            receivers.entry(link.from).or_default().insert(link.to);
        }
        let among = |node: &usize| {
            let name = &self.names[*node];
            let node = self.used.ranks.iter().find(|rank| rank.name == *name);
            node.map_or_else(|| name.clone(), |node| node.among.clone())
        };
        let works = receivers.iter().map(|(from, to)| {
            let hosts = to.iter().map(among).collect();
            (self.names[*from].clone(), LevelWork::Resolve(hosts))
        });
        let done = whole(self.ask(works.collect()).await)?;
        let mut addresses = HashMap::new();
        for ((from, to), done) in receivers.into_iter().zip(done) {
            addresses.extend(to.into_iter().map(|to| (from, to)).zip(done.addresses));
        }
        Ok(addresses)
    }
}

/// Returns all answers, or the error with the lowest rank ([`Trouble::order`]).
pub(super) fn whole(answers: NodeAnswers) -> Result<Vec<LevelDone>, (String, Trouble)> {
    let (mut all, mut worst) = (Vec::new(), None::<(String, Trouble)>);
    for (node, answer) in answers {
        match answer {
            Ok(done) => all.push(done),
            Err(trouble) => {
                if worst
                    .as_ref()
                    .is_none_or(|(_, known)| trouble.order() < known.order())
                {
                    worst = Some((node, trouble));
                }
            }
        }
    }
    worst.map_or(Ok(all), Err)
}
