//! Explains Slurm's reasons for waiting jobs and its refusals, with hints.

/// The meaning of Slurm's reason why a job waits, and what to do if the job waits too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingExplanation {
    /// The reason in plain words.
    pub means: &'static str,
    /// What the user can do.
    pub hint: &'static str,
    /// Whether the job can never start as requested.
    pub hopeless: bool,
}

/// Slurm's reasons: names, whether the job can never start, meaning, and hint.
const REASONS: [(&[&str], bool, &str, &str); 28] = [
    (&["None"], false, "Slurm has not considered it yet", "wait"),
    (
        &["Resources"],
        false,
        "its nodes are busy",
        "wait, or ask for fewer nodes or another partition",
    ),
    (
        &["Priority", "SchedDefer"],
        false,
        "other jobs go first",
        "wait, or ask for a shorter time limit so that it fits between them",
    ),
    (
        &["BeginTime"],
        false,
        "it may not start yet; after a requeue Slurm waits two minutes",
        "wait",
    ),
    (&["Dependency"], false, "it waits for another job", "wait"),
    (
        &["ReqNodeNotAvail", "NodeDown"],
        false,
        "a node that it needs is down, drained or reserved",
        "see `sinfo -R` and `scontrol show reservation`, or name other nodes or another partition",
    ),
    (
        &["Nodes", "UnavailableNodes"],
        false,
        "nodes are down, drained or reserved for jobs in higher partitions",
        "see `sinfo -R`",
    ),
    (
        &["Reservation"],
        false,
        "its reservation has not begun",
        "see `scontrol show reservation`",
    ),
    (
        &["Prolog", "Cleaning"],
        false,
        "its nodes are being prepared",
        "wait",
    ),
    (
        &["BootFail", "FrontEndDown", "SystemFailure"],
        false,
        "a node did not start or the system failed",
        "see `sinfo -R`",
    ),
    (
        &["PowerNotAvail", "PowerReserved"],
        false,
        "there is not enough electric power",
        "wait",
    ),
    (&["Licenses"], false, "a licence is not free", "wait"),
    (
        &[
            "BurstBufferResources",
            "BurstBufferStageIn",
            "BurstBufferOperation",
        ],
        false,
        "the burst buffer is not ready",
        "wait",
    ),
    (
        &["JobArrayTaskLimit"],
        false,
        "too many tasks of its array are running",
        "wait",
    ),
    (
        &["FedJobLock"],
        false,
        "another cluster of the federation may start it",
        "wait",
    ),
    (
        &["JobHeldUser", "held"],
        true,
        "its user put it on hold",
        "release it: scontrol release <job>",
    ),
    (
        &["JobHeldAdmin"],
        true,
        "an administrator put it on hold",
        "ask them why",
    ),
    (
        &["JobHoldMaxRequeue", "JobLaunchFailure"],
        true,
        "it could not be started and is on hold",
        "see `scontrol show job <job>`, then release it: scontrol release <job>",
    ),
    (
        &["PartitionNodeLimit"],
        true,
        "the job asks for more nodes than the partition allows for one job",
        "lower `slurm.nodes`, or choose another `slurm.partition`",
    ),
    (
        &["PartitionTimeLimit", "TimeLimit"],
        true,
        "the partition does not allow this much time",
        "lower `slurm.time_limit_s`, or choose another `slurm.partition`",
    ),
    (
        &["PartitionDown", "PartitionInactive"],
        true,
        "the partition is switched off",
        "choose another `slurm.partition`",
    ),
    (
        &["MaxMemPerLimit"],
        true,
        "the job asks for more memory than the partition allows per processor or node",
        "ask for less memory in `slurm.sbatch_args`, or choose another `slurm.partition`: scontrol show partition",
    ),
    (
        &["BadConstraints"],
        true,
        "no nodes have the requested features",
        "see `sinfo -o '%N %f %c %m'`, and change `slurm.constraint` or `slurm.nodes`",
    ),
    (
        &["DependencyNeverSatisfied"],
        true,
        "the job that it waits for failed",
        "cancel it",
    ),
    (
        &["InvalidAccount", "AssociationJobLimit", "AccountNotAllowed"],
        true,
        "the account may not run here",
        "give `slurm.account`: sacctmgr show associations user=$USER",
    ),
    (
        &["InvalidQOS", "QOSNotAllowed"],
        true,
        "the quality of service may not be used",
        "give another `slurm.qos`: sacctmgr show associations user=$USER format=qos",
    ),
    (
        &["ReservationDeleted"],
        true,
        "its reservation was removed",
        "give another `slurm.reservation`, or none",
    ),
    (
        &["DeadLine"],
        true,
        "its deadline cannot be met",
        "cancel it",
    ),
];

/// Explains the reason of a pending job. Returns `None` for an unknown reason; sites can define their own.
pub fn explain(reason: &str) -> Option<PendingExplanation> {
    // forms: `ReqNodeNotAvail, UnavailableNodes:n[1-2]`, `(Resources)`, `launch failed requeued held`
    let whole = reason.trim().trim_matches(['(', ')']).replace(' ', "_");
    if whole.ends_with("requeued_held") || whole.ends_with("requeued_in_held_state") {
        return Some(PendingExplanation {
            means: "its launch failed or it was requeued, and it is held until it is released",
            hint: "see why its launch failed (`scontrol show job <job>`), then release it: scontrol release <job>",
            hopeless: true,
        });
    }
    let word = whole.split([',', '_', ':']).next().unwrap_or_default();
    match REASONS.iter().find(|(words, ..)| words.contains(&word)) {
        Some((_, hopeless, means, hint)) => Some(PendingExplanation {
            means,
            hint,
            hopeless: *hopeless,
        }),
        None => limit_of(word),
    }
}

/// Explains the name of a limit of an account (`Assoc…`, `Max…PerAccount`) or of a quality of service (`QOS…`), from the parts of the name.
fn limit_of(word: &str) -> Option<PendingExplanation> {
    let is_limit = word.starts_with("Assoc")
        || word.starts_with("QOS")
        || word.starts_with("Max") && word.ends_with("PerAccount");
    let has = |part: &str| word.contains(part);
    let (means, hint, hopeless) = if !is_limit {
        return None;
    } else if has("WallDuration") || word.ends_with("TimeLimit") {
        (
            "the account or quality of service does not allow this much time",
            "lower `slurm.time_limit_s`: sacctmgr show qos format=name,maxwall",
            true,
        )
    } else if word.starts_with("QOSMin") {
        (
            "the job asks for less than the quality of service requires",
            "ask for more, or give another `slurm.qos`: sacctmgr show qos",
            true,
        )
    } else if has("PerJob") || has("PerNode") {
        (
            "the job asks for more than the account or quality of service allows for one job",
            "lower `slurm.nodes`, `slurm.time_limit_s` or the requests in `slurm.sbatch_args`, or give another `slurm.qos`",
            true,
        )
    } else if has("RunMinutes") {
        (
            "running jobs have reserved all time that the account or quality of service may use at once",
            "wait until some have ended, or lower `slurm.time_limit_s`",
            false,
        )
    } else if has("Minutes") || has("Wall") || has("UsageThreshold") {
        (
            "the account or quality of service has used up its time",
            "use another account (`slurm.account`) or `slurm.qos`",
            true,
        )
    } else {
        (
            "a limit of the account or quality of service is used up",
            "wait for other jobs to end, or use another `slurm.account` or `slurm.qos`: sacctmgr show associations user=$USER",
            false,
        )
    };
    Some(PendingExplanation {
        means,
        hint,
        hopeless,
    })
}

const ACCOUNT: &str = "give an account that may use this partition (`slurm.account`): sacctmgr show associations user=$USER";
const PARTITION: &str = "give a partition that exists and is up (`slurm.partition`): sinfo";
const PERMISSION: &str = "ask the administrators whether you may submit here";
const QOS: &str = "give a quality of service that you may use (`slurm.qos`)";
const TIME: &str = "lower `slurm.time_limit_s`, or choose another partition: sinfo -o '%P %l'";
const FEATURE: &str = "no node has these features; change `slurm.constraint`: sinfo -o '%N %f'";
const RESERVATION: &str = "give a reservation that exists and that you may use (`slurm.reservation`): scontrol show reservation";
const SIZE: &str = "request only properties that the nodes have (`slurm.nodes`, `slurm.constraint`): sinfo -o '%P %D %c %m'";
const NODE: &str = "name nodes that exist and are up: sinfo -N";
const JOBS: &str = "wait until some of your jobs have ended";
const POLICY: &str = "lower the number of submitted jobs, `slurm.nodes` or `slurm.time_limit_s`, depending on the exceeded limit: sacctmgr show \
    associations user=$USER; sacctmgr show qos";
const GRES: &str = "correct `slurm.gpus_per_node`, or the generic resources in `slurm.sbatch_args`: sinfo -o '%N %G'";
const LICENCE: &str =
    "correct `slurm.licenses`, or the licences in `slurm.sbatch_args`: scontrol show licenses";
const ARGUMENTS: &str = "correct `slurm.sbatch_args`";
const LATER: &str = "try again later";
const BASE: &str = "give the site a `base` that the login node sees";

/// Slurm's texts for the codes of refusals (`slurm_strerror`, 20.11 to 25.05), each with a hint.
const REFUSALS: [(&str, &str); 46] = [
    ("Access/permission denied", PERMISSION),
    ("Access denied to requested reservation", RESERVATION),
    ("Batch job submission requires a batch script", BASE),
    ("Burst Buffer permission denied", ARGUMENTS),
    ("Burst Buffer request invalid", ARGUMENTS),
    ("CPU count specification invalid", SIZE),
    ("Duplicate generic resource (gres) specification", GRES),
    (
        "Immediate execution impossible, insufficient priority",
        LATER,
    ),
    (
        "Invalid GRES specification (with and without type identification)",
        GRES,
    ),
    ("Invalid Trackable RESource (TRES) specification", GRES),
    (
        "Invalid account or account/partition combination specified",
        ACCOUNT,
    ),
    ("Invalid feature specification", FEATURE),
    ("Invalid generic resource (gres) specification", GRES),
    ("Invalid license specification", LICENCE),
    ("Invalid node name specified", NODE),
    ("Invalid partition name specified", PARTITION),
    ("Invalid qos specification", QOS),
    ("Invalid time specified", TIME),
    ("Invalid wckey specification", ARGUMENTS),
    ("Job can not start due to maintenance reservation.", LATER),
    ("Job dependency problem", ARGUMENTS),
    ("Job size specification needs to be provided", SIZE),
    (
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        POLICY,
    ),
    ("Memory required by task is not available", SIZE),
    ("More processors requested than permitted", SIZE),
    (
        "No partition specified or system default partition",
        PARTITION,
    ),
    ("Node count specification invalid", SIZE),
    ("Partition in DOWN state", PARTITION),
    (
        "Requested GRES option unsupported by configured SelectType plugin",
        GRES,
    ),
    (
        "Requested account has breached requested QOS usage threshold",
        QOS,
    ),
    ("Requested more tasks than available processors", SIZE),
    ("Requested node configuration is not available", SIZE),
    ("Requested nodes not in this partition", NODE),
    ("Requested operation is presently disabled", PERMISSION),
    ("Requested partition configuration not available now", SIZE),
    ("Requested reservation is in use", RESERVATION),
    ("Requested reservation is invalid", RESERVATION),
    ("Requested reservation not usable now", RESERVATION),
    (
        "Requested time limit is invalid (missing or exceeds some limit)",
        TIME,
    ),
    (
        "Required node not available (down, drained or reserved)",
        NODE,
    ),
    (
        "Required partition not available (inactive or drain)",
        PARTITION,
    ),
    ("System submissions disabled", LATER),
    ("Task count specification invalid", ARGUMENTS),
    ("Task distribution specification invalid", ARGUMENTS),
    ("Unable to create job record, try again", LATER),
    (
        "User's group not permitted to use this partition",
        PARTITION,
    ),
];

/// Returns the hint for a refusal by sbatch, from its message, whose lines may be joined by `; `. The text of Slurm's code decides. If this text only
/// names the accounting policy, the limit in another line decides. Without such a text, the words of the site's plugin or of sbatch decide.
pub fn hint_for_refusal(message: &str) -> &'static str {
    let lines = || {
        message.split([';', '\n']).map(|line| {
            let line = line.trim();
            [
                "sbatch: ",
                "srun: ",
                "error: ",
                "Batch job submission failed: ",
                "Unable to allocate resources: ",
            ]
            .iter()
            .fold(line, |line, prefix| {
                line.strip_prefix(prefix).unwrap_or(line)
            })
        })
    };
    let mut code = lines().filter_map(|line| REFUSALS.iter().find(|(text, _)| *text == line));
    match code.next_back() {
        Some(&(_, hint)) if hint != POLICY => hint,
        Some(_) => lines().find_map(hint_for_limit).unwrap_or(POLICY),
        None => hint_for_words(&message.to_lowercase()),
    }
}

/// Returns the hint for the name of a limit, as in `QOSMaxSubmitJobPerUserLimit`.
fn hint_for_limit(name: &str) -> Option<&'static str> {
    limit_of(name)?;
    Some(if name.contains("Wall") || name.contains("Minutes") {
        TIME
    } else if name.contains("Submit") || name.contains("Job") && !name.contains("PerJob") {
        JOBS
    } else {
        SIZE
    })
}

/// Returns the hint for a message without a known code, from a site's plugin, or from sbatch about its arguments.
fn hint_for_words(message: &str) -> &'static str {
    let table: [(&[&str], &str); 11] = [
        (&["account"], ACCOUNT),
        (&["partition"], PARTITION),
        (&["qos"], QOS),
        (&["time limit", "timelimit", "--time"], TIME),
        (&["feature", "constraint"], FEATURE),
        (&["reservation"], RESERVATION),
        (
            &["node count", "processors", "node configuration", "memory"],
            SIZE,
        ),
        (&["gres", "gpu", "tres"], GRES),
        (&["permission denied"], PERMISSION),
        (&["unable to open", "no such file"], BASE),
        (
            &["unrecognized option", "invalid option", "unknown option"],
            ARGUMENTS,
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

/// Hint if Slurm's commands are missing.
pub const NOT_INSTALLED: &str = "Slurm's commands are not installed: put them on PATH, or give the site a `login` where they are";
/// Hint if Slurm's controller does not answer.
pub const NO_ANSWER: &str = "the controller of Slurm does not answer: run `scontrol ping` there, and ask its administrators";

/// Returns the hint for a failed Slurm tool, from its message.
pub(super) fn hint_for_tool(message: &str) -> &'static str {
    let message = message.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if has(&[
        "resolve_ctls_from_dns_srv",
        "failed to load configs",
        "slurm.conf",
    ]) {
        "Slurm's configuration was not found: set SLURM_CONF, or give the site a `login` where Slurm's commands work"
    } else if has(&["munge", "authentication", "credential"]) {
        "the controller does not accept this user here: check that munged runs on both hosts with the same key"
    } else if has(&["command not found", "no such file", "not found"]) {
        NOT_INSTALLED
    } else if is_transient(&message) {
        NO_ANSWER
    } else {
        "see whether `squeue --me` works there"
    }
}

/// Returns whether a Slurm tool failed because it could not reach the controller, so that a retry may help.
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
    fn what_tools_say_of_the_controller_has_its_hint() {
        for (message, part) in [
            (
                "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; squeue: fatal: Could not establish a configuration source",
                "SLURM_CONF",
            ),
            (
                "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
                "scontrol ping",
            ),
            (
                "squeue: error: Munge encode failed: Failed to access",
                "munged",
            ),
            ("bash: squeue: command not found", "`login`"),
            ("something else", "squeue --me"),
        ] {
            assert!(hint_for_tool(message).contains(part), "{message}");
        }
    }

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

    #[test]
    fn reasons_of_the_real_squeue_say_whether_waiting_helps() {
        let table: Vec<String> = include_str!("../../tests/data/slurm/reasons.txt")
            .lines()
            .map(|reason| {
                let known = explain(reason).unwrap_or_else(|| panic!("unknown: {reason}"));
                let waits = if known.hopeless { "never" } else { "waits" };
                format!("{reason}: {waits}: {}", known.means)
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn a_refusal_is_explained_by_its_code_or_the_limit_before_it() {
        let policy = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        let fails = |text: &str| format!("sbatch: error: Batch job submission failed: {text}");
        for (message, hint) in [
            (policy.to_owned(), POLICY),
            (
                format!("sbatch: error: QOSMaxSubmitJobPerUserLimit; {policy}"),
                JOBS,
            ),
            (
                format!("sbatch: error: AssocMaxSubmitJobLimit\n{policy}"),
                JOBS,
            ),
            (
                format!("sbatch: error: QOSMaxWallDurationPerJobLimit; {policy}"),
                TIME,
            ),
            (
                format!("sbatch: error: QOSMaxNodePerJobLimit; {policy}"),
                SIZE,
            ),
            (fails("Invalid generic resource (gres) specification"), GRES),
            (
                format!(
                    "sbatch: error: You must specify a project account (-A); {}",
                    fails("Unspecified error")
                ),
                ACCOUNT,
            ),
            // texts of other codes before the code are ignored
            (
                format!(
                    "sbatch: error: Memory specification can not be satisfied; {}",
                    fails("Requested node configuration is not available")
                ),
                SIZE,
            ),
            (
                fails("Requested time limit is invalid (missing or exceeds some limit)"),
                TIME,
            ),
            (
                "sbatch: unrecognized option '--nosuch'".to_owned(),
                ARGUMENTS,
            ),
        ] {
            assert_eq!(hint_for_refusal(&message), hint, "{message}");
        }
    }
}
