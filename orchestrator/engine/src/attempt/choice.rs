//! Makes all decisions about a run, before anything is written.

use super::site::ReadySite;
use crate::{
    ckpt::{self, Checkpointer, checkpointer},
    mpi::{Missing, MpiInstall},
    run::{
        AllocatedNodes, Node, Nodes, RunContext, RunError, Task, UsedFileSystem, flush_dir, marker,
        new_tmp_dir, work_dir, written_tmp_dir,
    },
    tracer::{Instrumentation, tracer},
    transport::Transport,
};
use camino::Utf8Path;
use cvc_core::campaign::{CheckpointPlan, RunEnvironment, StagePlan};
use cvc_core::point::{Point, TracerKind};
use cvc_core::store::CampaignDir;
use cvc_probe::sentinel::{InstanceFacts, cpu_here};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The decisions about a run.
#[derive(Debug)]
pub(super) struct Choice {
    pub run: RunContext,
    pub install: MpiInstall,
    pub checkpointer: &'static dyn Checkpointer,
    pub checkpointer_install: ckpt::Install,
    /// Modules and commands that set up the environment before the launcher starts.
    pub environment: RunEnvironment,
    /// Environment variables that these modules and commands set.
    pub set: BTreeMap<String, String>,
    /// Environment variables and command prefix that the tracer adds.
    pub traced: Instrumentation,
    /// What the tracer adds to a restart; empty unless the run is restarted exactly once.
    pub traced_restart: Instrumentation,
    /// Facts about the nodes of the run's ranks.
    pub node_facts: Vec<Value>,
    /// Cloud machines of the nodes of the run's ranks.
    pub instances: Vec<InstanceFacts>,
    /// Network interface between nodes.
    pub interface: Option<String>,
    /// Number of cores of a node.
    pub cores: u32,
    /// Whether a node has too few physical cores for the threads of its processes.
    pub hardware_threads: bool,
    /// Whether checkpoints are kept for the run's next attempt.
    pub keeps: bool,
    /// Whether the run continues from a checkpoint of an earlier attempt.
    pub resumes: bool,
}

impl Choice {
    /// Chooses programs, directories and nodes of a task.
    ///
    /// # Errors
    /// The site lacks something that the task needs.
    pub fn of(
        site: &ReadySite,
        nodes: &Nodes,
        campaign: &CampaignDir,
        task: &Task,
    ) -> Result<Self, RunError> {
        let (context, point, run) = (&site.context, &task.point, task.planned.id.clone());
        let problem = |problem: String| RunError::Descriptor {
            app: point.app.clone(),
            problem,
        };
        let app = context
            .apps
            .get(&point.app)
            .map(|a| a.descriptor.clone())
            .ok_or_else(|| problem("it is not loaded".into()))?;
        let install = match site.mpi.get(&point.mpi) {
            Some(Ok(install)) => install.clone(),
            _ => {
                return Err(problem(format!(
                    "MPI library `{}` is not installed",
                    point.mpi
                )));
            }
        };
        let environment = context.site.run_environment(&point.mpi, Some(&point.app));
        let program = site
            .program(&app, point)
            .map_err(|m| problem(m.to_string()))?;
        let checkpointer_install = site
            .checkpointer(point.checkpointer)
            .map_err(|m| problem(m.to_string()))?
            .clone();
        let work = work_dir(context, campaign, point, &run);
        // images of an earlier attempt contain the path of its private directory: reuse it
        let kept_tmp = task
            .resume
            .as_ref()
            .and_then(|kept| written_tmp_dir(&kept.details));
        let tmp = match kept_tmp {
            Some(tmp) => tmp,
            None => new_tmp_dir()?,
        };
        let ranks = nodes.choose(&task.nodes, &point.mapping).ok_or_else(|| {
            problem(format!(
                "{} needs {} nodes, and the site has {}",
                point.mapping,
                point.mapping.nodes(),
                task.nodes.len()
            ))
        })?;
        let tool = site.tracer(point).map_err(|m| problem(m.to_string()))?;
        let by = tracer(context.trace.of(point));
        let traced = by.instrument(&tool, &work, install.family);
        let plan = CheckpointPlan::of(&context.checkpoint, Some(&context.site), point);
        let checkpointer = checkpointer(point.checkpointer);
        let mut traced_restart = Instrumentation::default();
        let keeps = context.checkpoint.resume && can_resume(&plan, context.trace.of(point));
        // several restarts would write into one trace
        if checkpointer.course(&plan).restarted && plan.restarts() == 1 {
            traced_restart = traced.for_restart(by, &work);
        }
        let used = AllocatedNodes {
            crew: nodes.crew.clone(),
            head: nodes.head.clone(),
            transport: nodes.transport,
            storage: context
                .site
                .storage
                .get(&point.storage)
                .map(|a| a.kind)
                .unwrap_or_default(),
            marker: marker(campaign, &run),
            dirs: vec![work.clone().into(), tmp.clone().into()],
            file_system: (context.site.storage.get(&point.storage))
                .and_then(|area| UsedFileSystem::from_area(&point.storage, area, &nodes.facts)),
            ranks: ranks.clone(),
        };
        Ok(Self {
            node_facts: ranks
                .iter()
                .map(|node| facts_of(node, nodes, &work))
                .collect(),
            instances: ranks
                .iter()
                .filter_map(|node| nodes.instances.get(&node.name))
                .cloned()
                .collect(),
            set: set(site, point, &environment, &install)
                .map_err(|missing| problem(missing.to_string()))?,
            environment,
            interface: nodes.interface.clone(),
            cores: site.cores,
            hardware_threads: needs_hardware_threads(point, &ranks, nodes),
            keeps,
            resumes: task.resume.is_some(),
            install,
            checkpointer,
            checkpointer_install,
            traced,
            traced_restart,
            run: RunContext {
                dir: campaign.partial(&run),
                id: run,
                point: point.clone(),
                app,
                program,
                plan,
                flush_dir: flush_dir(context, campaign, point, &task.planned.id),
                work,
                tmp,
                used,
                timeout_s: context.run.timeout_s,
            },
        })
    }
}

/// Returns whether a run with this plan and tracer can be continued in another attempt. A run cannot be continued if it ends after its checkpoint, if
/// it restarts repeatedly, or if a stage or a tracer would record only its last part.
fn can_resume(plan: &CheckpointPlan, tracer: TracerKind) -> bool {
    plan.taker().takes_checkpoints()
        && !plan.kills()
        && plan.restarts() <= 1
        && plan.stages().iter().all(is_kept_on_nodes)
        && tracer == TracerKind::None
}

fn is_kept_on_nodes(stage: &StagePlan) -> bool {
    match stage {
        StagePlan::Levels(_) => true,
        StagePlan::Compare | StagePlan::Delta { .. } => false,
    }
}

/// Returns whether a node has fewer physical cores than its processes have threads.
fn needs_hardware_threads(point: &Point, ranks: &[Node], nodes: &Nodes) -> bool {
    let physical = |node: &Node| {
        let cpu = match nodes.facts.get(&node.name) {
            Some(facts) => facts.cpu.clone(),
            None if nodes.transport == Transport::Local => cpu_here(),
            None => return u32::MAX,
        };
        cpu.cores.unwrap_or(cpu.usable)
    };
    point.threads().is_some()
        && ranks
            .iter()
            .zip(point.mapping.node_cores())
            .any(|(node, needed)| needed > physical(node))
}

/// Returns the variables that a point's environment sets: the variables with which its MPI library was found, and those of its application.
fn set(
    site: &ReadySite,
    point: &Point,
    environment: &RunEnvironment,
    install: &MpiInstall,
) -> Result<BTreeMap<String, String>, Missing> {
    let mut set = BTreeMap::new();
    if !environment.is_empty() {
        set.extend(install.env.clone());
        set.extend(site.entered(point).map_err(Clone::clone)?.clone());
    }
    Ok(set)
}

/// Returns a short description of a node, which is stored with every run.
fn facts_of(node: &Node, nodes: &Nodes, work: &Utf8Path) -> Value {
    // a node that was not available when the others were queried has no facts
    let Some(facts) = nodes.facts.get(&node.name) else {
        return json!({ "name": node.name, "host": node.hostname });
    };
    let place = facts
        .places
        .iter()
        .filter(|p| work.starts_with(p.path.to_string_lossy().as_ref()))
        .max_by_key(|p| p.path.as_os_str().len());
    let interfaces = facts
        .interfaces
        .iter()
        .filter(|i| !i.addresses.is_empty())
        .map(|i| {
            let speed = i
                .speed_mbit
                .map(|speed| format!(" {speed} Mbit/s"))
                .unwrap_or_default();
            format!("{}{speed} {}", i.name, i.addresses.join(" "))
        });
    let mut value = json!({
        "name": node.name, "host": facts.host, "kernel": facts.kernel, "os": facts.os, "cpu": facts.cpu.model,
        "cores": facts.cpu.usable, "memory_bytes": facts.memory_bytes, "glibc": facts.glibc,
        "storage": place.map(|p| format!("{} {} on {}", p.file_system, p.source, p.mount_point.display())),
        "interfaces": interfaces.collect::<Vec<_>>(),
    });
    if let Some(instance) = nodes.instances.get(&node.name) {
        value["instance"] = json!(instance);
    }
    value
}
