//! Computes the cost that a cluster's jobs would have on cloud instances, by list prices.

use super::{
    book::PriceBook,
    machines::{self, MachineFacts},
};
use cvc_journal::price::{MIN_S, Price};
use serde::Serialize;

/// Size of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSize {
    /// Number of nodes that the job used.
    pub nodes: u32,
    /// Processors of all nodes together.
    pub cpus: u32,
    /// Memory that the job needs on one node, MiB; `None` if unknown: then every instance is assumed to have enough.
    pub memory_mib: Option<f64>,
    /// Run time, seconds.
    pub seconds: f64,
}

/// The part of an instance that is assumed to replace one processor of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processor {
    /// A physical core.
    Core,
    /// A vCPU, which may be half a core.
    Vcpu,
}

/// An instance type with its prices.
#[derive(Clone, Debug)]
pub struct PricedType {
    /// Name of the type.
    pub name: &'static str,
    /// Facts about the type.
    pub facts: &'static MachineFacts,
    /// Hourly price of an on-demand instance.
    pub on_demand: Price,
    /// Hourly price of a spot instance; an upper bound if the market was not queried.
    pub spot: Price,
}

impl PricedType {
    /// Returns the number of instances of this type that a job needs; `None` if the job does not fit. A job of one node needs one instance. A job of
    /// several nodes is redistributed over as many instances as its processors and its memory need.
    pub fn instances_for(&self, job: &JobSize, processor: Processor) -> Option<u32> {
        let cores = match processor {
            Processor::Core => self.facts.cores,
            Processor::Vcpu => self.facts.vcpus,
        };
        let memory_mib = self.facts.memory_mib as f64;
        let of_node = job.memory_mib.unwrap_or(0.0);
        if job.nodes <= 1 {
            return (job.cpus <= cores && of_node <= memory_mib).then_some(1);
        }
        let by_memory = (of_node * f64::from(job.nodes) / memory_mib).ceil();
        let count = f64::from(job.cpus.div_ceil(cores)).max(by_memory);
        (count <= f64::from(job.cpus)).then_some((count as u32).max(1))
    }
}

/// Returns the types of a region with known prices, except types whose speed depends on CPU credits.
pub fn priced_types(book: &PriceBook, region: &str) -> Vec<PricedType> {
    machines::shipped()
        .types
        .iter()
        .filter(|(name, facts)| facts.baseline.is_none() && !name.starts_with("t2."))
        .filter_map(|(name, facts)| {
            Some(PricedType {
                name,
                facts,
                on_demand: book.on_demand(region, name).ok()?,
                spot: book.spot(region, name, &[], None).ok()?,
            })
        })
        .collect()
}

/// How the time of a job on an instance type was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeBasis {
    /// The instance is assumed to be as fast as the cluster.
    EqualSpeed,
    /// The time on the cluster is multiplied by a measured ratio: the program's time on such instances over its time on the cluster.
    Measured,
}

/// How a job runs on instances of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobRun {
    /// Number of instances.
    pub instances: u32,
    /// Run time, seconds. If failures are expected, the expected time including them.
    pub seconds: f64,
    /// How the run time was determined.
    pub basis: TimeBasis,
    /// Computing time between two checkpoints, seconds, if the job takes any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
}

impl JobRun {
    /// Returns the billed hours of all instances together.
    fn instance_hours(&self) -> f64 {
        f64::from(self.instances) * self.seconds.max(MIN_S) / 3600.0
    }
}

/// The cost of a job on one instance type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobCost {
    /// The type.
    pub instance_type: &'static str,
    /// The job's run on this type.
    #[serde(flatten)]
    pub run: JobRun,
    /// Cost with on-demand instances, US dollars.
    pub on_demand_usd: f64,
    /// Cost with spot instances, US dollars.
    pub spot_usd: f64,
}

impl JobCost {
    fn new(of: &PricedType, run: JobRun) -> Self {
        let hours = run.instance_hours();
        Self {
            instance_type: of.name,
            on_demand_usd: hours * of.on_demand.usd_per_hour,
            spot_usd: hours * of.spot.usd_per_hour,
            run,
        }
    }
}

/// Cost of all fitting jobs on one instance type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeTotal {
    /// The type.
    pub instance_type: &'static str,
    /// Architecture that programs need: `x86_64` or `arm64`.
    pub architecture: &'static str,
    /// Number of jobs that fit.
    pub jobs: usize,
    /// Number of these jobs whose time is based on a measurement.
    pub measured: usize,
    /// Hours of all instances together.
    pub instance_hours: f64,
    /// Cost with on-demand instances, US dollars.
    pub on_demand_usd: f64,
    /// Cost with spot instances, US dollars.
    pub spot_usd: f64,
    /// Whether the spot cost is an upper bound, because the market was not queried.
    pub spot_at_most: bool,
}

/// The costs of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobCosts {
    /// For each job, the cost on the type that is cheapest on demand; `None` if the job fits on no type.
    pub cheapest: Vec<Option<JobCost>>,
    /// Total cost on each type. Types on which more jobs fit come first; among equals, the cheaper type.
    pub types: Vec<TypeTotal>,
}

/// Computes the cost of jobs on instance types. `run_of` returns how the job with this index runs on a type; `None` if it does not fit.
pub fn price_jobs(
    jobs: usize,
    types: &[PricedType],
    run_of: impl Fn(usize, &PricedType) -> Option<JobRun>,
) -> JobCosts {
    let mut cheapest: Vec<Option<JobCost>> = vec![None; jobs];
    let mut totals = Vec::new();
    for of in types {
        let mut total = TypeTotal {
            instance_type: of.name,
            architecture: &of.facts.architecture,
            jobs: 0,
            measured: 0,
            instance_hours: 0.0,
            on_demand_usd: 0.0,
            spot_usd: 0.0,
            spot_at_most: of.spot.at_most,
        };
        for (job, best) in cheapest.iter_mut().enumerate() {
            let Some(run) = run_of(job, of) else { continue };
            let cost = JobCost::new(of, run);
            total.jobs += 1;
            total.measured += usize::from(cost.run.basis == TimeBasis::Measured);
            total.instance_hours += cost.run.instance_hours();
            total.on_demand_usd += cost.on_demand_usd;
            total.spot_usd += cost.spot_usd;
            if best
                .as_ref()
                .is_none_or(|best| cost.on_demand_usd < best.on_demand_usd)
            {
                *best = Some(cost);
            }
        }
        totals.push(total);
    }
    totals.sort_by(|a, b| {
        b.jobs
            .cmp(&a.jobs)
            .then(a.on_demand_usd.total_cmp(&b.on_demand_usd))
    });
    JobCosts {
        cheapest,
        types: totals,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(nodes: u32, cpus: u32, memory_mib: Option<f64>) -> JobSize {
        JobSize {
            nodes,
            cpus,
            memory_mib,
            seconds: 7200.0,
        }
    }

    fn of(name: &str) -> PricedType {
        let types = priced_types(&PriceBook::shipped(), "us-east-1");
        types.into_iter().find(|t| t.name == name).expect("a type")
    }

    #[test]
    fn a_job_fits_by_its_cores_and_its_memory() {
        // 8 vCPUs on 4 cores, 16 GiB
        let small = of("c5.2xlarge");
        assert_eq!((small.facts.cores, small.facts.memory_mib), (4, 16_384));
        let instances = |job: &JobSize, processor| small.instances_for(job, processor);
        let core = Processor::Core;
        assert_eq!(instances(&sized(1, 4, None), core), Some(1));
        assert_eq!(
            instances(&sized(1, 5, None), core),
            None,
            "a node is not split"
        );
        assert_eq!(instances(&sized(1, 8, None), Processor::Vcpu), Some(1));
        assert_eq!(instances(&sized(1, 1, Some(16_385.0)), core), None);
        assert_eq!(instances(&sized(2, 9, Some(1000.0)), core), Some(3));
        assert_eq!(
            instances(&sized(2, 8, Some(40_000.0)), core),
            Some(5),
            "by memory"
        );
        assert_eq!(
            instances(&sized(2, 2, Some(400_000.0)), core),
            None,
            "more than its processes"
        );
    }

    #[test]
    fn totals_are_sums_of_jobs_and_the_cheapest_type_is_chosen_for_each() {
        let types = [of("c5.2xlarge"), of("c5.4xlarge")];
        let jobs = [sized(1, 4, None), sized(1, 8, None)];
        let costs = price_jobs(jobs.len(), &types, |job, of| {
            Some(JobRun {
                instances: of.instances_for(&jobs[job], Processor::Core)?,
                seconds: jobs[job].seconds,
                basis: TimeBasis::EqualSpeed,
                interval_s: None,
            })
        });
        let chosen: Vec<&str> = costs
            .cheapest
            .iter()
            .flatten()
            .map(|c| c.instance_type)
            .collect();
        assert_eq!(chosen, ["c5.2xlarge", "c5.4xlarge"]);
        let large = &costs.types[0];
        assert_eq!((large.instance_type, large.jobs), ("c5.4xlarge", 2));
        let expected = 2.0 * 2.0 * types[1].on_demand.usd_per_hour;
        assert!((large.on_demand_usd - expected).abs() < 1e-12);
        assert_eq!(costs.types[1].jobs, 1);
        assert!(
            large.spot_at_most,
            "the shipped table has no prices of the spot market"
        );
    }
}
