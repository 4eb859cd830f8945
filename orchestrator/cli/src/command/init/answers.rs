//! What a new campaign is to be: the answers, and what follows from them.

use super::own::OwnProgram;
use crate::args::{InitSite, Measure};
use cvc_core::app::{LoadedApp, descriptor::Counts};

/// Where a campaign runs.
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

/// Everything that a campaign file is written from.
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
    pub has_dmtcp: bool,
}

impl Answers {
    pub fn measures(&self, what: Measure) -> bool {
        self.measures.contains(&what)
    }

    /// Whether checkpoints are DMTCP's: the programs' own are taken where DMTCP is missing and they do.
    pub fn uses_dmtcp(&self) -> bool {
        let own_do = self.apps.iter().all(|app| {
            let own = app.descriptor.checkpoint.as_ref();
            own.is_some_and(|own| own.restartable || !self.measures(Measure::Restart))
        });
        let free = self.has_dmtcp && !self.writes_only_checkpoints();
        free || self.own.is_some() || !own_do || self.measures(Measure::Compression)
    }

    /// Whether aggregators are measured with a program whose only collective I/O is its own checkpoint: they act on nothing else.
    pub fn writes_only_checkpoints(&self) -> bool {
        let only =
            |app: &LoadedApp| app.descriptor.io.collective && app.descriptor.checkpoint.is_some();
        self.measures(Measure::Aggregators) && self.apps.iter().any(only)
    }

    /// Whether restarts are measured in addition to what only runs that continue after their checkpoint show: a restarted run under DMTCP does not.
    pub fn restarts_some(&self) -> bool {
        let needs_end = self.measures(Measure::Overhead) || self.measures(Measure::Compression);
        self.measures(Measure::Restart) && needs_end && self.uses_dmtcp()
    }

    /// Whether runs go on after their checkpoint.
    pub fn runs_on(&self) -> bool {
        self.measures(Measure::Restart) || self.measures(Measure::Overhead)
    }

    /// Whether every program prints the steps that it has reached.
    pub fn prints_steps(&self) -> bool {
        self.apps
            .iter()
            .all(|app| app.descriptor.progress.is_some())
    }
}

/// Whether all applications run with this many processes.
pub fn is_legal(apps: &[LoadedApp], processes: u32) -> bool {
    apps.iter().all(|app| {
        let rule = &app.descriptor.processes;
        processes >= rule.min
            && rule.max.is_none_or(|max| processes <= max)
            && rule.rule.has(processes)
    })
}

/// Process counts that all applications take: about doubling from the fewest to `most`; at least one if there is any.
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
    // one count alone scales nothing
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

/// A family of process counts in words.
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

/// Processes on as many nodes as divide them evenly.
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
