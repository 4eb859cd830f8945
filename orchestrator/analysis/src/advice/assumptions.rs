//! Assumptions behind the numbers of an advice, for readers who do not know the command with which it was made.

use super::{candidate::usd_per_node_second, constraints::Constraints};
use crate::comparison::Side;
use cvc_core::units::{dollars, duration};
use cvc_show::significant;
use serde::Serialize;
use std::collections::BTreeSet;

/// An assumption behind the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// Subject of the assumption.
    pub name: String,
    /// The assumed value, with its source.
    pub value: String,
}

impl Assumption {
    fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// The computing time of the job.
pub(super) struct JobLength {
    /// Computing time of the job as a multiple of a measured run's.
    pub times: f64,
    text: String,
}

impl JobLength {
    /// Derives the computing time from the constraints. `fastest` is the computing time of the fastest candidate in a run, with the candidate's
    /// label.
    pub(super) fn new(constraints: &Constraints, fastest: Option<(f64, String)>) -> Self {
        match (constraints.work_s, fastest) {
            (Some(work_s), Some((run_s, label))) => Self {
                times: work_s / run_s,
                text: format!(
                    "computes {} on {label}, the fastest: {} times a measured run (--work)",
                    duration(work_s),
                    rounded(work_s / run_s)
                ),
            },
            (Some(_), None) => Self {
                times: 1.0,
                text: "as long as a measured run: --work has no effect, because the time of the program without checkpoints is unknown"
                    .to_owned(),
            },
            _ if constraints.times == 1.0 => Self {
                times: 1.0,
                text: "as long as a measured run".to_owned(),
            },
            _ => Self {
                times: constraints.times,
                text: format!(
                    "computes {} times as long as a measured run (--times)",
                    rounded(constraints.times)
                ),
            },
        }
    }
}

fn rounded(times: f64) -> String {
    match times {
        t if t >= 100.0 => format!("{t:.0}"),
        t if t < 0.01 => significant(t),
        t => format!("{t:.2}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    }
}

/// Returns the constraints and assumptions about the job. `was_restarted`: whether restarts of any candidate were measured.
pub(super) fn of_job(
    constraints: &Constraints,
    length: &JobLength,
    was_restarted: bool,
) -> Vec<Assumption> {
    let mut all = vec![Assumption::new("job", &length.text)];
    let mut limit = |name: &str, value: Option<String>, option: &str| {
        all.extend(value.map(|text| Assumption::new(name, format!("{text} ({option})"))));
    };
    limit(
        "deadline",
        constraints.deadline_s.map(duration),
        "--deadline",
    );
    limit("budget", constraints.budget_usd.map(dollars), "--budget");
    let share = |share: f64| format!("at most {} %", rounded(100.0 * share));
    limit("overhead", constraints.overhead.map(share), "--overhead");
    limit(
        "walltime",
        constraints.walltime_s.map(duration),
        "--walltime",
    );
    limit("notice", constraints.notice_s.map(duration), "--notice");
    let only = constraints
        .checkpointed
        .then(|| "candidates with checkpoints only".to_owned());
    limit("checkpoints", only, "--checkpointed");
    all.push(match (constraints.every_s, constraints.mtbf_s) {
        (Some(every_s), _) => Assumption::new(
            "interval",
            format!(
                "{} of computing between two checkpoints (--every)",
                duration(every_s)
            ),
        ),
        (None, Some(_)) => Assumption::new(
            "interval",
            "Daly's, from each candidate's checkpoint time and the failures",
        ),
        (None, None) => {
            Assumption::new("interval", "none: as many checkpoints as in a measured run")
        }
    });
    match constraints.mtbf_s {
        Some(mtbf_s) => {
            all.push(Assumption::new(
                "failures",
                format!(
                    "random, {} apart on average over the whole job (--mtbf); time and cost are expected values",
                    duration(mtbf_s)
                ),
            ));
            all.push(Assumption::new(
                "restart",
                match constraints.restart_s {
                    Some(restart_s) => format!("takes {} (--restart-time)", duration(restart_s)),
                    None if was_restarted => "takes the measured time, or as long as a checkpoint if not measured; no time without checkpoints"
                        .to_owned(),
                    None => "takes as long as a checkpoint; no time without checkpoints".to_owned(),
                },
            ));
        }
        None => all.push(Assumption::new("failures", "none (--mtbf)")),
    }
    all
}

/// Returns the prices of the sites, with their sources.
pub(super) fn of_costs(sides: &[Side], constraints: &Constraints) -> Vec<Assumption> {
    let mut all = Vec::new();
    let mut unknown = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for side in sides {
        let measured = usd_per_node_second(side);
        for site in side.sites() {
            if !seen.insert((side.name().to_owned(), site.clone())) {
                continue;
            }
            let (usd_per_hour, source) =
                match (measured.get(site.as_str()), constraints.prices.get(&site)) {
                    (Some(usd), _) => (usd * 3600.0, "recorded with its runs".to_owned()),
                    (None, Some(price)) => (price.usd_per_hour, price.source.clone()),
                    (None, None) => {
                        unknown.insert(site);
                        continue;
                    }
                };
            let found = Assumption::new(
                format!("price of {site}"),
                format!("{} a node-hour ({source})", dollars(usd_per_hour)),
            );
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    if !unknown.is_empty() {
        let sites: Vec<String> = unknown.into_iter().collect();
        all.push(Assumption::new(
            "price",
            format!("unknown of {} (--price SITE=USD)", sites.join(", ")),
        ));
    }
    if let Some(price) = &constraints.storage_price {
        all.push(Assumption::new(
            "storage",
            format!(
                "two checkpoints for the length of the job, {} a GiB-month ({})",
                dollars(price.usd_per_gib_month),
                price.source
            ),
        ));
    }
    all
}
