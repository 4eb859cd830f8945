//! The answers that define a new campaign, and their consequences.

use super::own::OwnProgram;
use crate::args::{InitSite, Measure};
use cvc_core::app::{LoadedApp, descriptor::Counts};

/// Where the runs of a campaign take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Local,
    Ssh {
        hosts: Vec<String>,
    },
    Slurm {
        nodes: u32,
        login: Option<String>,
        partition: Option<String>,
    },
    Ec2 {
        region: String,
        instance_types: Vec<String>,
        nodes: u32,
    },
}

impl Place {
    pub fn nodes(&self) -> u32 {
        match self {
            Self::Local => 1,
            Self::Ssh { hosts } => u32::try_from(hosts.len()).unwrap_or(u32::MAX),
            Self::Slurm { nodes, .. } | Self::Ec2 { nodes, .. } => *nodes,
        }
    }

    pub const fn kind(&self) -> InitSite {
        match self {
            Self::Local => InitSite::Local,
            Self::Ssh { .. } => InitSite::Ssh,
            Self::Slurm { .. } => InitSite::Slurm,
            Self::Ec2 { .. } => InitSite::Ec2,
        }
    }
}

/// All answers that a campaign file is written from.
#[derive(Clone, Debug)]
pub struct Answers {
    pub name: String,
    pub measures: Vec<Measure>,
    pub place: Place,
    pub apps: Vec<LoadedApp>,
    pub own: Option<OwnProgram>,
    pub class: Option<String>,
    pub processes: Vec<u32>,
    pub mpi: Vec<String>,
    pub has_driven: bool,
}

impl Answers {
    pub fn measures(&self, what: Measure) -> bool {
        self.measures.contains(&what)
    }

    /// Returns whether DMTCP takes the checkpoints. The programs take their own instead if three conditions hold: DMTCP is missing or
    /// [`Self::writes_only_checkpoints`]; the checkpoint of every program can do what is measured; compression is not measured.
    pub fn uses_driven(&self) -> bool {
        let own_do = self.apps.iter().all(|app| {
            let own = app.descriptor.checkpoint.as_ref();
            own.is_some_and(|own| own.restartable || !self.measures(Measure::Restart))
        });
        let free = self.has_driven && !self.writes_only_checkpoints();
        free || !own_do || self.measures(Measure::Compression)
    }

    /// Returns whether aggregators are measured with a program whose only collective I/O is its own checkpoint. For such a program, aggregators
    /// affect only runs in which it writes that checkpoint.
    pub fn writes_only_checkpoints(&self) -> bool {
        let only =
            |app: &LoadedApp| app.descriptor.io.collective && app.descriptor.checkpoint.is_some();
        self.measures(Measure::Aggregators) && self.apps.iter().any(only)
    }

    /// Returns whether restarts get runs of their own. Overhead and compression need runs that continue after their checkpoint, but a run that DMTCP
    /// restarts does not continue.
    pub fn restarts_some(&self) -> bool {
        let needs_end = self.measures(Measure::Overhead) || self.measures(Measure::Compression);
        self.measures(Measure::Restart) && needs_end && self.uses_driven()
    }

    /// Returns whether runs continue after their checkpoint.
    pub fn runs_on(&self) -> bool {
        self.measures(Measure::Restart) || self.measures(Measure::Overhead)
    }

    /// Returns whether every program prints the steps that it has reached.
    pub fn prints_steps(&self) -> bool {
        self.apps
            .iter()
            .all(|app| app.descriptor.progress.is_some())
    }
}

/// Returns whether all applications allow this number of processes.
pub fn is_legal(apps: &[LoadedApp], processes: u32) -> bool {
    apps.iter().all(|app| {
        let rule = &app.descriptor.processes;
        processes >= rule.min
            && rule.max.is_none_or(|max| processes <= max)
            && rule.rule.has(processes)
    })
}

/// Returns numbers of processes that all applications allow, from `fewest` to `most`. With `several`, each is at least twice the previous one, and
/// there are at least two, if necessary above `most`. Otherwise returns the largest one.
pub fn choose_counts(apps: &[LoadedApp], most: u32, several: bool, fewest: u32) -> Vec<u32> {
    let legal: Vec<u32> = (fewest..=most.max(fewest))
        .filter(|n| is_legal(apps, *n))
        .collect();
    let Some(last) = legal
        .last()
        .copied()
        .or_else(|| (fewest..=4096).find(|n| is_legal(apps, *n)))
    else {
        return Vec::new();
    };
    if !several {
        return vec![last];
    }
    let mut chosen: Vec<u32> = Vec::new();
    for count in legal {
        if chosen
            .last()
            .is_none_or(|before| count >= before.saturating_mul(2))
        {
            chosen.push(count);
        }
    }
    // with a single count, no scaling can be seen
    let next = |above: u32| (above.max(fewest)..=4096).find(|n| is_legal(apps, *n));
    while chosen.len() < 2
        && let Some(count) = next(
            chosen
                .last()
                .map_or(last, |before| before.saturating_add(1)),
        )
    {
        chosen.push(count);
    }
    chosen
}

/// Describes a rule for numbers of processes.
pub const fn describe_counts(rule: Counts) -> &'static str {
    match rule {
        Counts::Any => "any number",
        Counts::Square => "a square: 1, 4, 9, 16",
        Counts::PowerOfTwo => "a power of two: 1, 2, 4, 8",
        Counts::NearSquare => {
            "the product of two numbers of which one is at most twice the other: 1, 2, 4, 6, 8, 9"
        }
        Counts::Cube => "a cube: 1, 8, 27",
    }
}

/// Returns the mapping with the most nodes, at most `nodes`, in which every node has equally many processes.
pub fn spread(processes: u32, nodes: u32) -> String {
    let used = (1..=nodes.min(processes))
        .rev()
        .find(|n| processes.is_multiple_of(*n))
        .unwrap_or(1);
    format!("{used}Nx{}P", processes / used)
}

#[cfg(test)]
mod tests {
    use super::{choose_counts, spread};

    #[test]
    fn processes_are_spread_evenly() {
        assert_eq!(
            [(4, 2), (9, 2), (6, 4), (1, 8)].map(|(p, n)| spread(p, n)),
            ["2Nx2P", "1Nx9P", "3Nx2P", "1Nx1P"]
        );
    }

    #[test]
    fn counts_double() {
        assert_eq!(choose_counts(&[], 9, true, 1), [1, 2, 4, 8]);
        assert_eq!(choose_counts(&[], 6, false, 1), [6]);
    }
}
