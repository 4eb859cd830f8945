//! `cvc jobs`: what the jobs of a cluster would cost on cloud instances.

use super::{import, sides};
use crate::{
    args::JobsArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit},
};
use cvc_analysis::advice::{MeasuredTimes, measured_times};
use cvc_cloud::cost::{
    JobCost, JobCosts, JobRun, JobSize, PriceBook, PricedType, Processor, TimeBasis, TypeTotal,
    cache_file, price_jobs, priced_types,
};
use cvc_core::{
    source::{SourceText, suggestion},
    store::write_output,
    units::{counted, dollars, duration},
};
use cvc_import::{ClusterJob, ClusterJobs, read_jobs};
use cvc_model::schedule::{daly_s, with_failures};
use cvc_show::{Blocks, Table, csv_line, or_dash};
use indexmap::IndexMap;
use serde::Serialize;
use std::{collections::HashMap, fs};

/// Version of the JSON document.
const SCHEMA: u32 = 1;
/// Maximum number of rows of each table; JSON and CSV have all.
const LISTED: usize = 12;

/// The output of `--json`.
#[derive(Serialize)]
struct JobsOutput<'a> {
    schema: u32,
    region: &'a str,
    processor: Processor,
    assumptions: &'a [String],
    /// Number of jobs counted in the export.
    jobs: usize,
    /// Number of jobs that fit on no instance type.
    fit_nowhere: usize,
    /// Number of job steps.
    steps: usize,
    left_out: &'a IndexMap<String, usize>,
    cpu_hours: f64,
    /// Sums with each job on its cheapest instance type.
    total: Total,
    types: &'a [TypeTotal],
    each: Vec<PricedJob<'a>>,
}

/// Sums over the jobs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Total {
    jobs: usize,
    measured: usize,
    on_demand_usd: f64,
    spot_usd: f64,
    spot_at_most: bool,
}

/// A job with its cheapest instance type.
#[derive(Serialize)]
struct PricedJob<'a> {
    id: &'a str,
    name: &'a str,
    state: &'a str,
    nodes: u32,
    cpus: u32,
    memory_mib: Option<f64>,
    elapsed_s: f64,
    cost: Option<&'a JobCost>,
}

pub fn jobs(args: &JobsArgs) -> Result<ExitStatus, Failure> {
    let found = read(args)?;
    if found.jobs.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::RowsLeftOut,
            message: format!("{}: no usable job", args.file),
            hint: Some(format!("left out: {}", reasons(&found.left_out).join("; "))),
        });
    }
    let types = types(args)?;
    let measured = JobMeasurements::open(args)?;
    let sizes: Vec<JobSize> = found.jobs.iter().map(size_of).collect();
    let processor = match args.vcpu {
        true => Processor::Vcpu,
        false => Processor::Core,
    };
    let costs = price_jobs(found.jobs.len(), &types, |job, of| {
        let instances = of.instances_for(&sizes[job], processor)?;
        Some(measured.run_of(&found.jobs[job], of.name, instances))
    });
    let assumptions = assumptions(args, &types, &measured);
    let total = total(&costs, &types);
    if let Some(file) = &args.csv {
        let text = csv(&found.jobs, &costs);
        write_output(file, text.as_bytes())?;
        if !args.json {
            emit(file);
        }
    }
    let output = JobsOutput {
        schema: SCHEMA,
        region: &args.region,
        processor,
        assumptions: &assumptions,
        jobs: found.jobs.len(),
        fit_nowhere: costs.cheapest.iter().filter(|c| c.is_none()).count(),
        steps: found.steps,
        left_out: &found.left_out,
        cpu_hours: cpu_hours(&found.jobs),
        total,
        types: &costs.types,
        each: each(&found.jobs, &costs),
    };
    output::answer(args.json, &output, |out| show(out, &output))?;
    Ok(ExitStatus::Done)
}

/// Reads the export of the cluster's jobs. It may be large: a year of a cluster has hundreds of megabytes.
fn read(args: &JobsArgs) -> Result<ClusterJobs, Failure> {
    let cannot = |message: String| Failure::Other {
        status: ExitStatus::Usage,
        message: format!("cannot read {}: {message}", args.file),
        hint: Some("give a file with the output of `sacct --parsable2` or `sacct --json`".into()),
    };
    let path = args.file.as_std_path();
    if !fs::metadata(path)
        .map_err(|e| cannot(e.to_string()))?
        .is_file()
    {
        return Err(cannot("it is not a file".to_owned()));
    }
    let bytes = fs::read(path).map_err(|e| cannot(e.to_string()))?;
    // names of jobs may have any encoding
    let source = SourceText {
        path: path.to_owned(),
        text: String::from_utf8_lossy(&bytes).into(),
    };
    read_jobs(&source).map_err(import::failure)
}

fn size_of(job: &ClusterJob) -> JobSize {
    JobSize {
        nodes: job.nodes,
        cpus: job.cpus,
        memory_mib: job.memory_mib,
        seconds: job.elapsed_s,
    }
}

/// Returns the requested instance types: by default all with a known price, except types whose speed depends on CPU credits.
fn types(args: &JobsArgs) -> Result<Vec<PricedType>, Failure> {
    let book = PriceBook::open(&cache_file());
    let mut types = priced_types(&book, &args.region);
    let names: Vec<&str> = types.iter().map(|t| t.name).collect();
    if names.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("cvc has no prices of instances in {}", args.region),
            hint: Some("use a region with prices, such as us-east-1 or eu-central-1".into()),
        });
    }
    if let Some(unknown) = args.types.iter().find(|t| !names.contains(&t.as_str())) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("--type: no price of `{unknown}` in {}", args.region),
            hint: Some(suggestion(unknown, "types", names)),
        });
    }
    types.retain(|t| match &args.architecture {
        Some(only) if *only != t.facts.architecture => false,
        _ => args.types.is_empty() || args.types.iter().any(|name| name == t.name),
    });
    if types.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "--type: none of the types has the architecture {}",
                args.architecture.as_deref().unwrap_or("any")
            ),
            hint: Some("give types of this --architecture, or leave it out".into()),
        });
    }
    Ok(types)
}

/// Measurements of the programs that the jobs run.
struct JobMeasurements<'a> {
    times: Vec<MeasuredTimes>,
    cluster: Option<&'a str>,
    mtbf_node_s: Option<f64>,
}

impl<'a> JobMeasurements<'a> {
    fn open(args: &'a JobsArgs) -> Result<Self, Failure> {
        let open = sides::open(&args.from, &args.which, &args.place)?;
        let times: Vec<MeasuredTimes> = open
            .iter()
            .flat_map(|open| measured_times(&open.side))
            .collect();
        if let Some(cluster) = &args.cluster
            && !times.iter().any(|t| t.site == *cluster)
        {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("--cluster: there are no results of a site `{cluster}`"),
                hint: Some(suggestion(
                    cluster,
                    "sites",
                    times
                        .iter()
                        .map(|t| t.site.as_str())
                        .collect::<std::collections::BTreeSet<_>>(),
                )),
            });
        }
        Ok(Self {
            times,
            cluster: args.cluster.as_deref(),
            mtbf_node_s: args.mtbf_node,
        })
    }

    /// Returns the fastest measured point of the job's program on a site, with as many processes as the job has processors. The program is recognized
    /// by the job's name: the program's name, with or without its class.
    fn fastest(&self, job: &ClusterJob, site: &str) -> Option<&MeasuredTimes> {
        let is_program = |program: &str| {
            program.eq_ignore_ascii_case(&job.name)
                || program
                    .rsplit_once('.')
                    .is_some_and(|(app, _)| app.eq_ignore_ascii_case(&job.name))
        };
        self.times
            .iter()
            .filter(|t| t.site == site && t.processes == job.cpus && is_program(&t.program))
            .min_by(|a, b| {
                let by_time = a.work_s.total_cmp(&b.work_s);
                // equally fast points: prefer one with a measured checkpoint time
                by_time.then(a.ckpt_s.is_none().cmp(&b.ckpt_s.is_none()))
            })
    }

    /// Estimates the run of a job on instances of a type. If its program was measured on this type and on the cluster, scales the job's time, and
    /// uses the measured number of nodes. Otherwise uses `instances`, the number that the job needs.
    fn run_of(&self, job: &ClusterJob, instance_type: &str, instances: u32) -> JobRun {
        let there = self.fastest(job, instance_type);
        let here = there
            .and(self.cluster)
            .and_then(|site| self.fastest(job, site));
        let mut run = match there.zip(here).filter(|(_, here)| here.work_s > 0.0) {
            Some((there, here)) => JobRun {
                instances: there.nodes,
                seconds: job.elapsed_s * there.work_s / here.work_s,
                basis: TimeBasis::Measured,
                interval_s: None,
            },
            None => JobRun {
                instances,
                seconds: job.elapsed_s,
                basis: TimeBasis::EqualSpeed,
                interval_s: None,
            },
        };
        let ckpt_s = there.and_then(|t| t.ckpt_s).filter(|s| *s > 0.0);
        if let Some((ckpt_s, mtbf_node_s)) = ckpt_s.zip(self.mtbf_node_s) {
            let mtbf_s = mtbf_node_s / f64::from(run.instances);
            if let Ok(interval_s) = daly_s(ckpt_s, mtbf_s)
                && let Ok(expected) = with_failures(run.seconds, ckpt_s, interval_s, mtbf_s, ckpt_s)
            {
                run.interval_s = Some(interval_s.min(run.seconds));
                run.seconds = expected.total_s;
            }
        }
        run
    }
}

fn assumptions(
    args: &JobsArgs,
    types: &[PricedType],
    measured: &JobMeasurements<'_>,
) -> Vec<String> {
    let mut dates: Vec<String> = types.iter().map(|t| t.on_demand.source()).collect();
    dates.sort();
    dates.dedup();
    let mut all = vec![
        match args.vcpu {
            true => "each cluster processor counts as a vCPU (--vcpu)".to_owned(),
            false => "each cluster processor counts as a physical core (--vcpu: as a vCPU)".to_owned(),
        },
        "every core is assumed as fast as one of the cluster, unless a time was measured".to_owned(),
        "each job has its own instances, billed by the second, for at least one minute; without disks, transfer and setup".to_owned(),
        "a single-node job runs on one instance; a multi-node job on as few as have its cores and memory".to_owned(),
        format!("on demand: {} in {}", dates.join("; "), args.region),
        match types.iter().all(|t| t.spot.at_most) {
            true => "spot: unknown, at most the on-demand price; `cvc prices` fetches it".to_owned(),
            false => "spot: the highest price of all zones, without interruptions".to_owned(),
        },
    ];
    if types.iter().any(|t| t.facts.is_arm()) {
        all.push("programs are built for arm64 where a type is marked so; --architecture x86_64 leaves these types out".to_owned());
    }
    if let (Some(mtbf_s), false) = (measured.mtbf_node_s, measured.times.is_empty()) {
        all.push(format!(
            "jobs with measured checkpoints take them at Daly's interval, with {} between failures of an instance (--mtbf-node); others run without failures",
            duration(mtbf_s)
        ));
    }
    all
}

fn cpu_hours(jobs: &[ClusterJob]) -> f64 {
    jobs.iter()
        .map(|job| f64::from(job.cpus) * job.elapsed_s / 3600.0)
        .sum()
}

fn total(costs: &JobCosts, types: &[PricedType]) -> Total {
    let mut total = Total::default();
    for cost in costs.cheapest.iter().flatten() {
        total.jobs += 1;
        total.measured += usize::from(cost.run.basis == TimeBasis::Measured);
        total.on_demand_usd += cost.on_demand_usd;
        total.spot_usd += cost.spot_usd;
        total.spot_at_most |= types
            .iter()
            .any(|t| t.name == cost.instance_type && t.spot.at_most);
    }
    total
}

fn each<'a>(jobs: &'a [ClusterJob], costs: &'a JobCosts) -> Vec<PricedJob<'a>> {
    jobs.iter()
        .zip(&costs.cheapest)
        .map(|(job, cost)| PricedJob {
            id: &job.id,
            name: &job.name,
            state: &job.state,
            nodes: job.nodes,
            cpus: job.cpus,
            memory_mib: job.memory_mib,
            elapsed_s: job.elapsed_s,
            cost: cost.as_ref(),
        })
        .collect()
}

fn csv(jobs: &[ClusterJob], costs: &JobCosts) -> String {
    let mut text = "job,name,state,nodes,cpus,memory_mib,elapsed_s,instance_type,instances,time_s,time_basis,interval_s,on_demand_usd,spot_usd\n".to_owned();
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for (job, cost) in jobs.iter().zip(&costs.cheapest) {
        let own = [
            job.id.clone(),
            job.name.clone(),
            job.state.clone(),
            job.nodes.to_string(),
            job.cpus.to_string(),
            number(job.memory_mib),
            job.elapsed_s.to_string(),
        ];
        let there = cost.as_ref().map_or_else(Default::default, |cost| {
            [
                cost.instance_type.to_owned(),
                cost.run.instances.to_string(),
                cost.run.seconds.to_string(),
                basis(cost.run.basis).to_owned(),
                number(cost.run.interval_s),
                cost.on_demand_usd.to_string(),
                cost.spot_usd.to_string(),
            ]
        });
        csv_line(&mut text, own.into_iter().chain(there));
    }
    text
}

fn basis(basis: TimeBasis) -> &'static str {
    match basis {
        TimeBasis::EqualSpeed => "equal-speed",
        TimeBasis::Measured => "measured",
    }
}

fn reasons(left_out: &IndexMap<String, usize>) -> Vec<String> {
    let mut all: Vec<(&String, &usize)> = left_out.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1));
    all.iter().map(|(why, n)| format!("{n} {why}")).collect()
}

fn spot(usd: f64, at_most: bool) -> String {
    match at_most {
        true => format!("≤{}", dollars(usd)),
        false => dollars(usd),
    }
}

fn show(out: &mut Blocks, output: &JobsOutput<'_>) {
    out.say(format!(
        "{}, {:.1} CPU hours; the {} that fit an instance type cost {} on demand, {} on spot, each on its cheapest type",
        counted(output.jobs, "job"),
        output.cpu_hours,
        output.total.jobs,
        dollars(output.total.on_demand_usd),
        spot(output.total.spot_usd, output.total.spot_at_most)
    ));
    if output.fit_nowhere > 0 {
        let subject = counted(output.fit_nowhere, "job");
        out.say(format!(
            "warning: {subject} without a large enough instance type, not in these sums"
        ));
    }
    for why in reasons(output.left_out) {
        out.say(format!("left out: {why}"));
    }
    if output.steps > 0 {
        out.say(format!(
            "not counted: {}, parts of their jobs",
            counted(output.steps, "step")
        ));
    }
    out.heading("assumed:");
    for text in output.assumptions {
        out.item(1, text);
    }
    out.gap();
    show_programs(out, output);
    out.gap();
    let rows = Table::of(
        output.types.iter().filter(|t| t.jobs > 0).take(LISTED),
        &[
            ("all on", &|t| marked(t.instance_type, output.types)),
            ("jobs\nthat fit", &|t| t.jobs.to_string()),
            ("as measured\nhere", &|t| t.measured.to_string()),
            ("instance\nhours", &|t| format!("{:.1}", t.instance_hours)),
            ("on demand", &|t| dollars(t.on_demand_usd)),
            ("spot", &|t| spot(t.spot_usd, t.spot_at_most)),
        ],
    );
    out.table(rows);
    let fitting = output.types.iter().filter(|t| t.jobs > 0).count();
    let more = fitting.saturating_sub(LISTED);
    if more > 0 {
        out.line(format!(
            "and {} more; --json has all",
            counted(more, "type")
        ));
    }
}

/// Returns the name of an instance type, with its architecture if programs for x86-64 must be rebuilt for it.
fn marked(name: &str, types: &[TypeTotal]) -> String {
    let is_arm = |of: &TypeTotal| of.instance_type == name && of.architecture == "arm64";
    match types.iter().any(is_arm) {
        true => format!("{name} (arm64)"),
        false => name.to_owned(),
    }
}

/// Jobs with the same name.
#[derive(Default)]
struct JobGroup {
    jobs: usize,
    fit: usize,
    measured: usize,
    cpu_hours: f64,
    on_demand_usd: f64,
    types: HashMap<&'static str, usize>,
}

fn show_programs(out: &mut Blocks, output: &JobsOutput<'_>) {
    let mut by_name: IndexMap<&str, JobGroup> = IndexMap::new();
    for job in &output.each {
        let of = by_name.entry(job.name).or_default();
        of.jobs += 1;
        of.cpu_hours += f64::from(job.cpus) * job.elapsed_s / 3600.0;
        if let Some(cost) = job.cost {
            of.fit += 1;
            of.measured += usize::from(cost.run.basis == TimeBasis::Measured);
            of.on_demand_usd += cost.on_demand_usd;
            *of.types.entry(cost.instance_type).or_default() += 1;
        }
    }
    by_name.sort_by(|_, a, _, b| b.on_demand_usd.total_cmp(&a.on_demand_usd));
    let rows = Table::of(
        by_name.iter().take(LISTED),
        &[
            ("name", &|(name, _)| (**name).to_owned()),
            ("jobs", &|(_, of)| of.jobs.to_string()),
            ("that fit", &|(_, of)| of.fit.to_string()),
            ("as measured\nhere", &|(_, of)| of.measured.to_string()),
            ("CPU hours", &|(_, of)| format!("{:.1}", of.cpu_hours)),
            ("cheapest on", &|(_, of)| {
                let most = of.types.iter().max_by_key(|(name, n)| (**n, **name));
                or_dash(most, |(name, _)| match of.types.len() {
                    1 => marked(name, output.types),
                    n => format!("{} and {} more", marked(name, output.types), n - 1),
                })
            }),
            ("on demand", &|(_, of)| {
                or_dash((of.fit > 0).then_some(of.on_demand_usd), dollars)
            }),
        ],
    );
    out.table(rows);
    let more = by_name.len().saturating_sub(LISTED);
    if more > 0 {
        out.line(format!(
            "and {} more; --csv has every job",
            counted(more, "name")
        ));
    }
}
