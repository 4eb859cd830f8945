//! Explains Slurm's reasons, with hints.

/// The reason why a job waits, and what to do if it waits too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In plain words.
    pub means: &'static str,
    /// What to do.
    pub hint: &'static str,
    /// Whether it can never start as requested.
    pub hopeless: bool,
}

/// Explains the reason of a pending job. `None` for unknown reasons; sites can define their own.
pub fn explain(reason: &str) -> Option<Explanation> {
    let waits = |means, hint| {
        Some(Explanation {
            means,
            hint,
            hopeless: false,
        })
    };
    let hopeless = |means, hint| {
        Some(Explanation {
            means,
            hint,
            hopeless: true,
        })
    };
    // `ReqNodeNotAvail, UnavailableNodes:n[1-2]`, `(Resources)`
    let word = reason
        .trim_matches(['(', ')'])
        .split([',', ' ', ':'])
        .next()
        .unwrap_or_default();
    match word {
        "Resources" => waits(
            "its nodes are busy",
            "wait, or ask for fewer nodes or another partition",
        ),
        "Priority" => waits(
            "other jobs go first",
            "wait, or ask for a shorter time limit so that it fits between them",
        ),
        "BeginTime" => waits(
            "it may not start yet; after a requeue Slurm waits two minutes",
            "wait",
        ),
        "Dependency" => waits("it waits for another job", "wait"),
        "ReqNodeNotAvail" | "NodeDown" => waits(
            "a node that it needs is down, drained or reserved",
            "see `sinfo -R`, or name other nodes or another partition",
        ),
        "Nodes" | "UnavailableNodes" => waits("nodes are down or drained", "see `sinfo -R`"),
        "Reservation" => waits(
            "its reservation has not begun",
            "see `scontrol show reservation`",
        ),
        "Prolog" => waits("its nodes are being prepared", "wait"),
        "BootFail" => waits("a node did not start", "see `sinfo -R`"),
        "Licenses" => waits("a licence is not free", "wait"),
        "JobArrayTaskLimit" => waits("too many tasks of its array are running", "wait"),
        "QOSMaxJobsPerUserLimit"
        | "QOSMaxNodePerUserLimit"
        | "QOSMaxCpuPerUserLimit"
        | "QOSGrpNodeLimit"
        | "QOSGrpCpuLimit"
        | "QOSMaxSubmitJobPerUserLimit"
        | "AssocGrpNodeLimit"
        | "AssocGrpCpuLimit"
        | "AssocMaxJobsLimit"
        | "AssocGrpJobsLimit"
        | "MaxJobsPerAccount"
        | "MaxNodePerAccount" => waits(
            "a limit of the account or quality of service is used up",
            "wait for your other jobs, or use another account or `qos`",
        ),
        "AssocGrpCPUMinutesLimit" | "AssocGrpBillingMinutes" | "QOSGrpCPUMinutesLimit" => hopeless(
            "the account has used up its processor time",
            "use another account (`slurm.account`)",
        ),
        "JobHeldUser" | "held" => hopeless(
            "its user put it on hold",
            "release it: scontrol release <job>",
        ),
        "JobHeldAdmin" => hopeless("an administrator put it on hold", "ask them why"),
        "job" | "job_requeued_in_held_state" | "JobHoldMaxRequeue" => hopeless(
            "it was requeued and is on hold",
            "release it: scontrol release <job>",
        ),
        "PartitionNodeLimit" => hopeless(
            "the job asks for more nodes than the partition allows for one job",
            "lower `slurm.nodes`, or choose another `slurm.partition`",
        ),
        "PartitionTimeLimit" => hopeless(
            "the partition does not allow this much time",
            "lower `slurm.time_limit_s`, or choose another `slurm.partition`",
        ),
        "PartitionDown" | "PartitionInactive" => hopeless(
            "the partition is switched off",
            "choose another `slurm.partition`",
        ),
        "QOSMaxWallDurationPerJobLimit" | "AssocMaxWallDurationPerJobLimit" => hopeless(
            "the account or quality of service does not allow this much time",
            "lower `slurm.time_limit_s`",
        ),
        "QOSMaxNodePerJobLimit" | "AssocMaxNodePerJobLimit" | "QOSMaxCpuPerJobLimit" => hopeless(
            "the job asks for more nodes than the account or quality of service allows",
            "lower `slurm.nodes`",
        ),
        "BadConstraints" => hopeless(
            "no nodes have the requested features",
            "see `sinfo -o '%N %f %c %m'`, and change `slurm.constraint` or `slurm.nodes`",
        ),
        "DependencyNeverSatisfied" => hopeless("the job that it waits for failed", "cancel it"),
        "InvalidAccount" | "AssociationJobLimit" | "AccountNotAllowed" => hopeless(
            "the account may not run here",
            "give `slurm.account`: sacctmgr show associations user=$USER",
        ),
        "InvalidQOS" | "QOSNotAllowed" => hopeless(
            "the quality of service may not be used",
            "give another `slurm.qos`",
        ),
        "ReservationDeleted" => hopeless(
            "its reservation was removed",
            "give another `slurm.reservation`, or none",
        ),
        "DeadLine" => hopeless("its deadline cannot be met", "cancel it"),
        _ => None,
    }
}

/// The hint for a refusal by sbatch, from its message.
pub fn hint_for_refusal(message: &str) -> &'static str {
    let message = message.to_lowercase();
    let table: &[(&[&str], &str)] = &[
        (
            &["invalid account"],
            "give an account that may use this partition (`slurm.account`): sacctmgr show associations user=$USER",
        ),
        (
            &["invalid partition", "partition not available"],
            "give a partition that exists (`slurm.partition`): sinfo",
        ),
        (
            &["invalid qos"],
            "give a quality of service that you may use (`slurm.qos`)",
        ),
        (
            &["time limit", "timelimit"],
            "lower `slurm.time_limit_s`, or choose another partition: sinfo -o '%P %l'",
        ),
        (
            &["invalid feature"],
            "no node has these features; change `slurm.constraint`: sinfo -o '%N %f'",
        ),
        (
            &["reservation"],
            "give a reservation that exists and that you may use (`slurm.reservation`): scontrol show reservation",
        ),
        (
            &[
                "node count",
                "more processors",
                "node configuration is not available",
                "memory specification",
            ],
            "ask for what the nodes have (`slurm.nodes`, `slurm.constraint`): sinfo -o '%P %D %c %m'",
        ),
        (&["invalid node name"], "name nodes that exist: sinfo -N"),
        (
            &["access/permission denied", "permission denied"],
            "ask the administrators whether you may submit here",
        ),
        (
            &["submit limit", "qosmaxsubmit", "assocmaxsubmit"],
            "wait until some of your jobs have ended",
        ),
        (
            &["unable to open", "no such file"],
            "give the site a `base` that the login node sees",
        ),
        (
            &["unrecognized option", "invalid option", "unknown option"],
            "correct `slurm.sbatch_args`",
        ),
    ];
    let found = table
        .iter()
        .find(|(words, _)| words.iter().any(|w| message.contains(w)));
    found.map_or(
        "change the site's `slurm` settings according to sbatch's message",
        |(_, hint)| hint,
    )
}

/// Whether a tool of Slurm failed because it did not reach the controller, so that repeating it may help.
pub fn is_transient(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "socket timed out",
        "unable to contact slurm controller",
        "connection refused",
        "connection timed out",
        "zero bytes were transmitted or received",
        "temporarily unable to accept job",
        "resource temporarily unavailable",
        "slurm backup controller in standby",
        "message timed out",
        "connection reset",
        "slurmctld is busy",
    ]
    .iter()
    .any(|t| message.contains(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_real_sbatch_have_their_hints() {
        let recorded = include_str!("../../tests/data/slurm/sbatch-errors.txt");
        let table: Vec<String> = recorded
            .split("== ")
            .filter(|part| part.contains("rc 1"))
            .map(|part| {
                let (arguments, message) = part.split_once('\n').expect("arguments");
                assert!(!is_transient(message), "{message}");
                format!("{arguments}: {}", hint_for_refusal(message))
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn an_unreachable_controller_is_asked_again() {
        for line in include_str!("../../tests/data/slurm/down.txt")
            .lines()
            .filter(|l| !l.starts_with("rc"))
        {
            assert!(is_transient(line), "{line}");
        }
        assert!(is_transient(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        ));
    }

    #[test]
    fn reasons_are_explained_also_with_what_follows_them() {
        let explained = explain("ReqNodeNotAvail, UnavailableNodes:n[1-2]").expect("known");
        assert!(explained.hint.contains("sinfo -R") && !explained.hopeless);
        assert!(explain("PartitionNodeLimit").expect("known").hopeless);
        assert!(
            explain("job requeued in held state")
                .expect("known")
                .hint
                .contains("release")
        );
        assert_eq!(explain("SomethingOfThisSite"), None);
    }
}
