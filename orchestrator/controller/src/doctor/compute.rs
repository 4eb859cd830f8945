//! A compute node of a Slurm site, beside the login node: a short `srun` asks it, if one is free.

use super::{
    check::{Check, State},
    facts,
    node::Node,
};
use cvc_core::campaign::{Cluster, Site, SlurmSettings};
use cvc_engine::host::HostError;
use cvc_sites::slurm::hint_for_refusal;
use cvc_sites::ssh::SshHost;

/// How long a node is waited for, seconds.
const WAIT_S: u32 = 30;

/// The command that starts another one on a compute node, at once or not at all.
fn starter(slurm: &SlurmSettings) -> Vec<String> {
    let mut argv = vec![
        "srun".to_owned(),
        format!("--immediate={WAIT_S}"),
        "--job-name=cvc-doctor".into(),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        "--time=1".into(),
        "--quiet".into(),
    ];
    let named = [
        ("partition", &slurm.partition),
        ("account", &slurm.account),
        ("constraint", &slurm.constraint),
        ("qos", &slurm.qos),
        ("reservation", &slurm.reservation),
    ];
    argv.extend(
        named
            .into_iter()
            .filter_map(|(key, value)| Some(format!("--{key}={}", value.as_ref()?))),
    );
    argv
}

/// Asks one compute node, over the login node.
pub(super) async fn examine(login: &SshHost, site: &Site, cluster: &Cluster) -> Vec<Check> {
    let Some(slurm) = &cluster.slurm else {
        return Vec::new();
    };
    let asked = facts::ask(login, &starter(slurm), site, cluster).await;
    match asked {
        Ok(facts) => {
            let node = facts.node.clone();
            let mut checks = vec![Check {
                host: Some(node.clone()),
                ..Check::good("compute node", "a short srun has asked it")
            }];
            let node = Node {
                host: login.clone(),
                among: node.clone(),
                behind: Some(node),
                facts,
            };
            let name = node.name().to_owned();
            checks.extend(
                facts::compare(&[node], site)
                    .into_iter()
                    .map(|check| Check {
                        host: Some(name.clone()),
                        ..check
                    }),
            );
            checks
        }
        Err(error) => vec![refused(&error)],
    }
}

/// Without a node nothing is known of it, which is no fault; anything else that Slurm says keeps jobs from running.
fn refused(error: &HostError) -> Check {
    let text = error.to_string();
    let is_busy = matches!(error, HostError::Timeout { .. })
        || [
            "temporarily unavailable",
            "Requested nodes are busy",
            "Immediate",
            "immediate",
            "Pending",
        ]
        .iter()
        .any(|words| text.contains(words));
    if is_busy {
        return Check::new(
            "compute node",
            State::Skipped,
            format!("none was free within {WAIT_S} s: {text}"),
            "",
        );
    }
    let hint = hint_for_refusal(&text);
    Check::new("compute node", State::Bad, text, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cluster_is_no_fault_and_a_wrong_partition_is() {
        let of = |message: &str| {
            refused(&HostError::Ssh {
                host: "login".into(),
                message: message.into(),
            })
            .state
        };
        assert_eq!(
            of("srun: error: Unable to allocate resources: Requested nodes are busy"),
            State::Skipped
        );
        assert_eq!(
            of("srun: error: Unable to allocate resources: Invalid partition name specified"),
            State::Bad
        );
    }
}
