//! The file system of a storage area: its servers, and its counters of metadata operations.

use crate::crew::Crew;
use cvc_core::campaign::{DeployedFileSystem, Deployment, StorageArea};
use cvc_probe::sentinel::{NodeFacts, ServersOf};
use cvc_trace::metadata_operations::{CounterOptions, CounterSnapshot, read_counter_text};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Time limit of a query to a node.
const LIMIT: Duration = Duration::from_secs(30);
/// Interval at which the metadata server of a running program is looked for.
const WATCH: Duration = Duration::from_secs(5);
/// Number of times in a row that it must be missing: clients survive a restart.
const MISSED: usize = 2;
/// Port of MooseFS's metadata server for chunk servers.
const CHUNK_SERVERS: u16 = 9420;

/// The file system of a storage area that cvc has deployed, or whose operations are counted.
#[derive(Clone, Debug)]
pub struct UsedFileSystem {
    /// Name of the area.
    area: String,
    path: PathBuf,
    counts: bool,
    deployment: Option<Deployment>,
    /// Addresses of the hosts that store the file system's data, by host.
    addresses: BTreeMap<String, Vec<String>>,
    /// Whether the metadata server is gone, so that each access to files takes until the client's time limit.
    lost: Arc<AtomicBool>,
}

/// A reading of a file system's operation counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterReading {
    /// The counters, by node or brick.
    pub at: CounterSnapshot,
    /// Nodes whose counters could not be read, each with the reason.
    pub unread: BTreeMap<String, String>,
}

impl UsedFileSystem {
    /// Returns the file system of a storage area; `None` if cvc has neither deployed it nor counts its operations.
    pub fn from_area(
        name: &str,
        area: &StorageArea,
        facts: &BTreeMap<String, NodeFacts>,
    ) -> Option<Self> {
        if area.deploy.is_none() && !area.count_operations {
            return None;
        }
        let data = area.deploy.iter().flat_map(|deployment| &deployment.data);
        let addresses = data.map(|host| {
            let of_host = facts.get(host).map(|facts| facts.interfaces.as_slice());
            let all = of_host.unwrap_or_default().iter();
            let all = all.flat_map(|interface| interface.addresses.clone());
            (host.clone(), all.collect())
        });
        Some(Self {
            area: name.to_owned(),
            path: area.path.as_deref().map(PathBuf::from).unwrap_or_default(),
            counts: area.count_operations,
            deployment: area.deploy.clone(),
            addresses: addresses.collect(),
            lost: Arc::default(),
        })
    }

    /// Returns whether the metadata server was found to be gone.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until the metadata server is gone, and describes the problem. Never returns if the file system has no such server.
    pub async fn wait_lost(&self, crew: &Crew) -> String {
        let has_server = (self.deployment.as_ref()).is_some_and(|of| !of.metadata.is_empty());
        if !has_server {
            return std::future::pending().await;
        }
        let mut missed = 0;
        loop {
            tokio::time::sleep(WATCH).await;
            match self.server_problem(crew).await {
                Some(problem) if self.is_lost() => {
                    missed += 1;
                    if missed == MISSED {
                        return problem;
                    }
                }
                _ => missed = 0,
            }
        }
    }

    /// Describes a problem of the servers: fewer are running than the campaign file names. `None` if there is no problem.
    pub async fn server_problem(&self, crew: &Crew) -> Option<String> {
        let deployment = self.deployment.as_ref()?;
        let asked = deployment.informant()?;
        let servers = match deployment.file_system {
            DeployedFileSystem::MooseFs => ServersOf::Port {
                port: CHUNK_SERVERS,
            },
            DeployedFileSystem::GlusterFs => ServersOf::Volume {
                name: Deployment::volume(&self.area),
            },
        };
        let answers = crew.servers(&[asked], &servers, LIMIT).await;
        let (_, found) = answers.into_iter().next()?;
        let what = format!(
            "the storage area {} ({})",
            self.area,
            deployment.file_system.title()
        );
        let has_metadata = !deployment.metadata.is_empty();
        self.lost.store(false, Ordering::Relaxed);
        let silent = |why: &str| {
            self.lost.store(has_metadata, Ordering::Relaxed);
            Some(format!(
                "{what} has lost its servers: {asked} does not list any ({why})"
            ))
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return silent(&error.to_string()),
        };
        if let Some(why) = &found.silent {
            return silent(why);
        }
        let serves = |host: &&String| {
            let addresses = self.addresses.get(*host).map(Vec::as_slice);
            (addresses.unwrap_or_default().iter()).any(|own| found.addresses.contains(own))
        };
        let (serving, missing): (Vec<&String>, Vec<&String>) =
            deployment.data.iter().partition(serves);
        (!missing.is_empty()).then(|| {
            let missing: Vec<&str> = missing.iter().map(|host| host.as_str()).collect();
            format!(
                "{what} has {} of its {} data servers: none is running on {}",
                serving.len(),
                deployment.data.len(),
                missing.join(", ")
            )
        })
    }

    /// Returns whether operations are counted.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Reads the file system's counters: on these nodes or, for GlusterFS, on a server, which has the counters of all bricks.
    ///
    /// # Errors
    /// The file system has no counters.
    pub async fn read_counters(
        &self,
        crew: &Crew,
        nodes: &[&str],
    ) -> Result<CounterReading, String> {
        let servers = (self.deployment.as_ref())
            .filter(|of| of.file_system == DeployedFileSystem::GlusterFs)
            .map(|of| of.data.iter().map(String::as_str).collect::<Vec<_>>());
        let mut reading = CounterReading::default();
        match servers {
            None => self.read_on(crew, nodes, &mut reading).await?,
            Some(servers) => {
                for server in servers {
                    self.read_on(crew, &[server], &mut reading).await?;
                    if !reading.at.sources.is_empty() {
                        // each server has the counters of all bricks
                        reading.unread.clear();
                        break;
                    }
                }
            }
        }
        Ok(reading)
    }

    async fn read_on(
        &self,
        crew: &Crew,
        nodes: &[&str],
        reading: &mut CounterReading,
    ) -> Result<(), String> {
        for (node, answer) in crew.counters(nodes, &self.path, LIMIT).await {
            let found = match answer {
                Err(error) => Err(error.to_string()),
                Ok(found) => match found.text {
                    Some(text) => snapshot(&text, &node),
                    None => {
                        return Err(format!(
                            "operations on the storage area {} cannot be counted: {} has no counters on {node}; remove its `count_operations`",
                            self.area, found.file_system
                        ));
                    }
                },
            };
            match found {
                Ok(found) => {
                    reading.at.counter = found.counter;
                    reading.at.sources.extend(found.sources);
                    reading.at.notes.extend(found.notes);
                }
                Err(why) => {
                    reading.unread.insert(node, why);
                }
            }
        }
        Ok(())
    }

    /// Returns facts for a run: the file system with its servers and settings.
    pub fn facts(&self) -> Option<Value> {
        let deployment = self.deployment.as_ref()?;
        let mut facts = json!({
            "type": deployment.file_system.name(),
            "area": self.area,
            "data": deployment.data.join(" "),
            "copies": deployment.copies.to_string(),
        });
        if !deployment.metadata.is_empty() {
            facts["metadata"] = deployment.metadata.join(" ").into();
        }
        if let Some(stripe) = deployment.stripe {
            facts["stripe"] = stripe.to_string().into();
        }
        Some(facts)
    }
}

fn snapshot(text: &str, node: &str) -> Result<CounterSnapshot, String> {
    let options = CounterOptions::default();
    read_counter_text(text.as_bytes(), Path::new("its counters"), node, &options)
        .map_err(|error| error.to_string())
}
