//! Checks one by one what a cluster needs for runs over several of its nodes; each problem has a hint.

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

pub use check::{CheckState, DoctorCheck};

use camino::{Utf8Path, Utf8PathBuf};
use cvc_cloud::provider::Clouds;
use cvc_core::campaign::{Cluster, Site, SiteKind};
use cvc_engine::host::{Host, HostError, LocalHost};
use cvc_sites::slurm::{Client, NO_ANSWER, NOT_INSTALLED, SlurmError};
use cvc_sites::ssh::{HostNotice, SshHost, SshTarget};
use node::DoctorNode;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::Instrument;

/// Facts about this machine that the checks of sites need.
#[derive(Clone)]
pub struct Here {
    /// Directory of the campaign file; relative paths of ssh files refer to it.
    pub base: Utf8PathBuf,
    /// The program that cvc copies to nodes.
    pub node_program: Utf8PathBuf,
    /// The clouds; `None` in a cvc that was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
}

/// Machines to which a connection was made.
struct Machines {
    /// The nodes of the site, each with the name by which other nodes reach it.
    nodes: Vec<(SshHost, String)>,
    /// The head; `None` if it is one of the nodes or was not reached.
    head: Option<SshHost>,
}

/// Connects to all machines of a site at the same time. Appends the checks of the connections to `checks`.
async fn reach_all(
    name: &str,
    cluster: &Cluster,
    base: &Utf8Path,
    checks: &mut Vec<DoctorCheck>,
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
            let (target, entry) = (
                SshTarget::new(name, &entry.below(base), &ssh),
                entry.clone(),
            );
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
            Err(panic) => checks.push(DoctorCheck::new(
                "connection",
                CheckState::Bad,
                format!("{}: {panic}", entry.name),
                "",
            )),
        }
    }
    Machines { nodes, head }
}

/// Checks a site of several machines; `report` receives the name of each check before it begins.
pub async fn examine(
    name: &str,
    site: &Site,
    here: &Here,
    report: &mut dyn FnMut(String),
) -> Vec<DoctorCheck> {
    if let Some(ec2) = &site.ec2 {
        return cloud::examine(ec2, &here.node_program, here.clouds.as_ref(), report).await;
    }
    let Some(cluster) = &site.cluster else {
        return Vec::new();
    };
    let base = here.base.as_path();
    let mut checks = vec![program::examine(&here.node_program, [])];
    report("connecting".into());
    let Machines { nodes, head } = reach_all(name, cluster, base, &mut checks).await;
    if site.kind == SiteKind::Slurm {
        let asked: Arc<dyn Host> = match &head {
            Some(login) => Arc::new(login.clone()),
            // the unreachable login node has been reported already
            None if cluster.head.is_some() => return checks,
            None => Arc::new(LocalHost),
        };
        report("the controller of Slurm".into());
        let answers = slurm_answers(&asked).await;
        let is_up = answers.state == CheckState::Good;
        checks.push(answers);
        match &head {
            _ if !is_up => {
                let found = "not queried: jobs cannot be submitted";
                checks.push(DoctorCheck::new(
                    "compute node",
                    CheckState::Skipped,
                    found,
                    "",
                ));
            }
            Some(login) => {
                report("a compute node, by srun".into());
                checks.extend(compute::examine(login, site, cluster).await);
            }
            None => {
                let found = "without a login node that is reached by ssh, nodes are checked when runs begin";
                checks.push(DoctorCheck::new(
                    "compute node",
                    CheckState::Skipped,
                    found,
                    "",
                ));
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
        report(format!("the head, {}", machine.name()));
        checks.extend(head::examine(machine).await);
    }
    let mut ready = Vec::new();
    for (host, among) in nodes {
        report(format!("asking {}", host.name()));
        match facts::ask(&host, &[], site, cluster).await {
            Ok(facts) => ready.push(DoctorNode {
                host,
                among,
                behind: None,
                facts,
            }),
            Err(error) => checks.push(DoctorCheck::of(host.name(), "facts", &error)),
        }
    }
    if ready.is_empty() {
        return checks;
    }
    report("clocks".into());
    checks.extend(clock::skew(&ready).await);
    checks.extend(facts::compare(&ready, site));
    report("ssh between nodes".into());
    // MPI is launched on the head, even if no mapping uses it
    let starts = head
        .as_ref()
        .map_or_else(|| ready[0].host.clone(), Clone::clone);
    checks.extend(between::ssh(&starts, &ready).await);
    report("storage".into());
    checks.extend(between::storage(&ready, site).await);
    checks.extend(rings(&starts, &ready, site, cluster, report).await);
    checks
}

/// Checks that the controller of Slurm answers, on the machine that runs Slurm's commands.
async fn slurm_answers(host: &Arc<dyn Host>) -> DoctorCheck {
    let what = "Slurm's controller";
    let check = match Client::new(host.clone()).ping().await {
        Ok(()) => DoctorCheck::good(what, "answers squeue"),
        Err(SlurmError::Tool { message, hint, .. }) => {
            DoctorCheck::new(what, CheckState::Bad, message, hint)
        }
        Err(SlurmError::Host(error @ HostError::Start { .. })) => {
            DoctorCheck::new(what, CheckState::Bad, error.to_string(), NOT_INSTALLED)
        }
        Err(error) => DoctorCheck::new(what, CheckState::Bad, error.to_string(), NO_ANSWER),
    };
    DoctorCheck {
        host: Some(host.name().to_owned()),
        ..check
    }
}

async fn rings(
    head: &SshHost,
    nodes: &[DoctorNode],
    site: &Site,
    cluster: &Cluster,
    report: &mut dyn FnMut(String),
) -> Vec<DoctorCheck> {
    let [first, second, ..] = nodes else {
        return vec![DoctorCheck::new(
            "MPI between nodes",
            CheckState::Skipped,
            "only one node can be reached, and the check needs two",
            "",
        )];
    };
    if head.name() != first.name() {
        let found = format!(
            "MPI is launched on {}, which is not a node of the site; only runs will show whether that works",
            head.name()
        );
        return vec![DoctorCheck::new(
            "MPI between nodes",
            CheckState::Skipped,
            found,
            "",
        )];
    }
    let mut checks = Vec::new();
    for (library, entry) in &site.mpi {
        // a library that is on no node is reported with the versions
        if let (Some(found), Some(_)) =
            (first.facts.mpi.get(library), second.facts.mpi.get(library))
        {
            report(format!("MPI between nodes: {library}"));
            checks.push(
                ring::round(&ring::Ring {
                    first,
                    second,
                    library,
                    entry,
                    environment: site.run_environment(library, None),
                    found,
                    cluster,
                })
                .await,
            );
        }
    }
    checks
}

/// Connects to a machine and checks its host key. Returns the machine if it was reached.
async fn reach(target: SshTarget) -> (Vec<DoctorCheck>, Option<SshHost>) {
    let pinned = target.pinned.clone();
    let notices: Arc<Mutex<Vec<HostNotice>>> = Arc::default();
    let to = Arc::clone(&notices);
    let host = SshHost::with_listener(target, Arc::new(move |n| to.lock().push(n)));
    if let Err(error) = host.connect().await {
        return (
            vec![DoctorCheck::of(host.name(), "connection", &error)],
            None,
        );
    }
    let notices = notices.lock().clone();
    let on = Some(host.name().to_owned());
    let mut checks = vec![DoctorCheck {
        host: on.clone(),
        ..DoctorCheck::good("connection", "reached by ssh")
    }];
    let new: Vec<String> = notices.iter().map(ToString::to_string).collect();
    let believed = notices.iter().any(|n| {
        matches!(
            n,
            HostNotice::Pinned {
                vouched_by: None,
                ..
            }
        )
    });
    let state = if believed {
        CheckState::Doubtful
    } else {
        CheckState::Good
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
    checks.push(DoctorCheck {
        host: on,
        ..DoctorCheck::new("host key", state, found, hint)
    });
    (checks, Some(host))
}
