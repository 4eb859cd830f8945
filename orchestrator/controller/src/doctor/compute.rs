//! Checks a compute node of a Slurm site, in addition to the login node: a short `srun` queries the node, if one is free.

use super::{
    check::{CheckState, DoctorCheck},
    facts,
    node::DoctorNode,
};
use cvc_core::campaign::{Cluster, Site, SlurmSettings};
use cvc_engine::host::HostError;
use cvc_sites::slurm::hint_for_refusal;
use cvc_sites::ssh::SshHost;

/// Time that `srun` may wait for a free node, seconds.
const WAIT_S: u32 = 30;

/// Returns the `srun` command and arguments that start a command on a compute node. If no node is free within [`WAIT_S`], `srun` gives up.
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
    argv.extend(
        slurm
            .placement(1)
            .map(|(key, value)| format!("--{key}={value}")),
    );
    argv
}

/// Queries one compute node, through the login node.
pub(super) async fn examine(login: &SshHost, site: &Site, cluster: &Cluster) -> Vec<DoctorCheck> {
    let Some(slurm) = &cluster.slurm else {
        return Vec::new();
    };
    let asked = facts::ask(login, &starter(slurm), site, cluster).await;
    match asked {
        Ok(facts) => {
            let node = facts.node.clone();
            let mut checks = vec![DoctorCheck {
                host: Some(node.clone()),
                ..DoctorCheck::good("compute node", "checked by a short srun")
            }];
            let node = DoctorNode {
                host: login.clone(),
                among: node.clone(),
                behind: Some(node),
                facts,
            };
            let name = node.name().to_owned();
            checks.extend(
                facts::compare(&[node], site)
                    .into_iter()
                    .map(|check| DoctorCheck {
                        host: Some(name.clone()),
                        ..check
                    }),
            );
            checks
        }
        Err(error) => vec![refused(&error)],
    }
}

/// Returns the check that says why no compute node was reached. If no node was free, the check is skipped. Any other answer of Slurm would also keep
/// jobs from running.
fn refused(error: &HostError) -> DoctorCheck {
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
        return DoctorCheck::new(
            "compute node",
            CheckState::Skipped,
            format!("none was free within {WAIT_S} s: {text}"),
            "",
        );
    }
    let hint = hint_for_refusal(&text);
    DoctorCheck::new("compute node", CheckState::Bad, text, hint)
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
            CheckState::Skipped
        );
        assert_eq!(
            of("srun: error: Unable to allocate resources: Invalid partition name specified"),
            CheckState::Bad
        );
        let slow = HostError::Timeout {
            host: "login".into(),
            argv: vec!["srun".into()],
            limit_s: 1.0,
        };
        assert_eq!(refused(&slow).state, CheckState::Skipped);
    }
}
