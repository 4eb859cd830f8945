//! Parses Slurm's reports about nodes.

use super::info::duration_s;

/// Format for `sinfo -N -h -o`, whose output [`read_sinfo`] parses.
pub const SINFO_FORMAT: &str = "%N|%T|%c|%m|%f|%P|%l|%E";

/// A node in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: String,
    /// State without the mark for power saving or a missing answer.
    pub state: String,
    /// Whether the node currently does not answer Slurm.
    pub silent: bool,
    /// Number of processors.
    pub cpus: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Features of the node.
    pub features: Vec<String>,
    /// The partition.
    pub partition: String,
    /// The partition's time limit, seconds; `None` if there is no limit.
    pub time_limit_s: Option<f64>,
    /// Reason why the node is down or drained.
    pub reason: Option<String>,
}

impl NodeInfo {
    /// Returns whether jobs can be allocated the node, now or after the current jobs.
    pub fn is_usable(&self) -> bool {
        // `inval`: the node registered with less than its configured resources; `future`: it does not exist yet
        const AWAY: [&str; 11] = [
            "down", "drained", "draining", "drain", "fail", "failing", "error", "unknown", "maint",
            "inval", "future",
        ];
        !self.silent && !AWAY.contains(&self.state.as_str())
    }
}

/// Parses the output of `sinfo -N -h -o` with [`SINFO_FORMAT`]. Lines that cannot be parsed are omitted.
pub fn read_sinfo(answer: &str) -> Vec<NodeInfo> {
    let line = |line: &str| -> Option<NodeInfo> {
        let fields: Vec<&str> = line.splitn(8, '|').map(str::trim).collect();
        let &[
            name,
            state,
            cpus,
            memory,
            features,
            partition,
            limit,
            reason,
        ] = fields.as_slice()
        else {
            return None;
        };
        // the state has a suffix: * no answer, ~ # % ! $ @ ^ - power and maintenance; `mixed+` has flags
        let state = state.split('+').next().unwrap_or(state);
        let bare = state.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        Some(NodeInfo {
            name: name.to_owned(),
            state: bare.to_lowercase(),
            silent: state[bare.len()..].contains('*'),
            cpus: cpus.trim_end_matches('+').parse().ok()?,
            memory_mib: memory.trim_end_matches('+').parse().ok()?,
            features: features
                .split(',')
                .filter(|f| *f != "(null)" && !f.is_empty())
                .map(str::to_owned)
                .collect(),
            partition: partition.trim_end_matches('*').to_owned(),
            time_limit_s: duration_s(limit),
            reason: (!matches!(reason, "none" | "")).then(|| reason.to_owned()),
        })
    };
    answer.lines().filter_map(line).collect()
}
