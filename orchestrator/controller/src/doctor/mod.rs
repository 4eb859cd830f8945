//! Checks one by one what a cluster needs for runs over several of its nodes; each finding has its hint.

mod between;
mod check;
mod clock;
mod cloud;
mod compute;
mod facts;
mod head;
mod node;
mod program;
mod ring;

pub use check::{Check, State};

use camino::{Utf8Path, Utf8PathBuf};
use cvc_cloud::provider::Clouds;
use cvc_core::campaign::{Cluster, Site, SiteKind};
use cvc_engine::host::Host;
use cvc_sites::ssh::{Notice, SshHost, Target};
use node::Node;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::Instrument;

/// What of this machine sites are checked with.
#[derive(Clone)]
pub struct Here {
    /// The directory of the campaign file: ssh files are below it if they are relative.
    pub base: Utf8PathBuf,
    /// The program that is put on nodes.
    pub node_program: Utf8PathBuf,
    /// The clouds; `None` in a cvc that was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
}

/// Machines that answer.
struct Machines {
    /// With their names among the nodes.
    nodes: Vec<(SshHost, String)>,
    /// The head, if it is not one of the nodes.
    head: Option<SshHost>,
}

/// Reaches all machines of a site at the same time.
async fn reach_all(
    name: &str,
    cluster: &Cluster,
    base: &Utf8Path,
    checks: &mut Vec<Check>,
) -> Machines {
    let heads = cluster
        .head
        .iter()
        .filter(|h| cluster.hosts.iter().all(|n| n.name != h.name));
    let ssh = cluster.ssh.below(base);
    let (mut nodes, mut head) = (Vec::new(), None);
    let is_node = cluster
        .hosts
        .iter()
        .map(|h| (h, true))
        .chain(heads.map(|h| (h, false)));
    let reaching: Vec<_> = is_node
        .map(|(entry, is_node)| {
            let (target, entry) = (Target::new(name, &entry.below(base), &ssh), entry.clone());
            (
                is_node,
                entry,
                tokio::spawn(reach(target).in_current_span()),
            )
        })
        .collect();
    for (is_node, entry, reached) in reaching {
        match reached.await {
            Ok((found, host)) => {
                checks.extend(found);
                match host {
                    Some(host) if is_node => nodes.push((host, entry.among_nodes().to_owned())),
                    Some(host) => head = Some(host),
                    None => {}
                }
            }
            Err(panic) => checks.push(Check::new(
                "connection",
                State::Bad,
                format!("{}: {panic}", entry.name),
                "",
            )),
        }
    }
    Machines { nodes, head }
}

/// Checks a site of several machines; `tell` is called with what is being checked.
pub async fn examine(
    name: &str,
    site: &Site,
    here: &Here,
    tell: &mut dyn FnMut(String),
) -> Vec<Check> {
    if let Some(ec2) = &site.ec2 {
        return cloud::examine(ec2, &here.node_program, here.clouds.as_ref(), tell).await;
    }
    let Some(cluster) = &site.cluster else {
        return Vec::new();
    };
    let base = here.base.as_path();
    let mut checks = vec![program::examine(&here.node_program, [])];
    tell("connecting".into());
    let Machines { nodes, head } = reach_all(name, cluster, base, &mut checks).await;
    if site.kind == SiteKind::Slurm {
        match &head {
            Some(login) => {
                tell("a compute node, by srun".into());
                checks.extend(compute::examine(login, site, cluster).await);
            }
            None => {
                let found = "without a login node that is reached by ssh, nodes are checked when runs begin";
                checks.push(Check::new("compute node", State::Skipped, found, ""));
            }
        }
        return checks;
    }
    let head_name = cluster
        .head
        .as_ref()
        .or(cluster.hosts.first())
        .map(|entry| entry.name.as_str());
    if let Some(machine) = head
        .iter()
        .chain(nodes.iter().map(|(host, _)| host))
        .find(|host| Some(host.name()) == head_name)
    {
        tell(format!("the head, {}", machine.name()));
        checks.extend(head::examine(machine).await);
    }
    let mut ready = Vec::new();
    for (host, among) in nodes {
        tell(format!("asking {}", host.name()));
        match facts::ask(&host, &[], site, cluster).await {
            Ok(facts) => ready.push(Node {
                host,
                among,
                behind: None,
                facts,
            }),
            Err(error) => checks.push(Check::of(host.name(), "facts", &error)),
        }
    }
    if ready.is_empty() {
        return checks;
    }
    tell("clocks".into());
    checks.extend(clock::skew(&ready).await);
    checks.extend(facts::compare(&ready, site));
    tell("ssh between nodes".into());
    // MPI is launched on the head, which may not be a node of mappings
    let starts = head
        .as_ref()
        .map_or_else(|| ready[0].host.clone(), Clone::clone);
    checks.extend(between::ssh(&starts, &ready).await);
    tell("storage".into());
    checks.extend(between::storage(&ready, site).await);
    checks.extend(rings(&starts, &ready, site, cluster, tell).await);
    checks
}

async fn rings(
    head: &SshHost,
    nodes: &[Node],
    site: &Site,
    cluster: &Cluster,
    tell: &mut dyn FnMut(String),
) -> Vec<Check> {
    let [first, second, ..] = nodes else {
        return vec![Check::new(
            "MPI between nodes",
            State::Skipped,
            "only one node can be reached, and the check needs two",
            "",
        )];
    };
    if head.name() != first.name() {
        let found = format!(
            "MPI is launched on {}, which is not a node of the site; only runs will show whether that works",
            head.name()
        );
        return vec![Check::new("MPI between nodes", State::Skipped, found, "")];
    }
    let mut checks = Vec::new();
    for (library, entry) in &site.mpi {
        // a library that is on no node is reported among the versions
        if let (Some(found), Some(_)) =
            (first.facts.mpi.get(library), second.facts.mpi.get(library))
        {
            tell(format!("MPI between nodes: {library}"));
            checks.push(
                ring::round(&ring::Ring {
                    first,
                    second,
                    library,
                    entry,
                    found,
                    cluster,
                })
                .await,
            );
        }
    }
    checks
}

/// Connects to a machine, and reports its host key.
async fn reach(target: Target) -> (Vec<Check>, Option<SshHost>) {
    let pinned = target.pinned.clone();
    let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let to = Arc::clone(&notices);
    let host = SshHost::with_listener(target, Arc::new(move |n| to.lock().push(n)));
    if let Err(error) = host.connect().await {
        return (vec![Check::of(host.name(), "connection", &error)], None);
    }
    let notices = notices.lock().clone();
    let on = Some(host.name().to_owned());
    let mut checks = vec![Check {
        host: on.clone(),
        ..Check::good("connection", "reached by ssh")
    }];
    let new: Vec<String> = notices.iter().map(ToString::to_string).collect();
    let believed = notices.iter().any(|n| {
        matches!(
            n,
            Notice::Pinned {
                vouched_by: None,
                ..
            }
        )
    });
    let state = if believed {
        State::Doubtful
    } else {
        State::Good
    };
    let hint = if believed {
        "compare the fingerprint with the one from its administrator; remove a wrong one with ssh-keygen -R"
    } else {
        ""
    };
    let found = if new.is_empty() {
        format!("is pinned in {pinned}")
    } else {
        new.join("; ")
    };
    checks.push(Check {
        host: on,
        ..Check::new("host key", state, found, hint)
    });
    (checks, Some(host))
}
