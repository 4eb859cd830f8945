//! Reads what Slurm reports about nodes.

use super::info::duration_s;

/// What [`read_sinfo`] reads: `sinfo -N -h -o` with this format.
pub const SINFO_FORMAT: &str = "%N|%T|%c|%m|%f|%P|%l|%E";

/// A node in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// Its state, without the mark of saved power or missing answers.
    pub state: String,
    /// Whether it does not answer Slurm at present.
    pub silent: bool,
    /// Processors.
    pub cpus: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Its features.
    pub features: Vec<String>,
    /// The partition.
    pub partition: String,
    /// The partition's time limit, seconds; `None` if it has none.
    pub time_limit_s: Option<f64>,
    /// Why it is down or drained.
    pub reason: Option<String>,
}

impl NodeInfo {
    /// Whether jobs can get it, now or after the jobs before them.
    pub fn is_usable(&self) -> bool {
        // `inval`: it registered with less than it is configured to have; `future`: it does not exist yet
        const AWAY: [&str; 11] = [
            "down", "drained", "draining", "drain", "fail", "failing", "error", "unknown", "maint",
            "inval", "future",
        ];
        !self.silent && !AWAY.contains(&self.state.as_str())
    }
}

/// Reads the lines of `sinfo -N -h -o` with [`SINFO_FORMAT`]; lines that cannot be read are left out.
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
        // behind the state stand marks: * no answer, ~ # % ! $ @ ^ - power and maintenance; `mixed+` has flags
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
