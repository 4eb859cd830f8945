//! Everything that is decided about a run before anything is written.

use super::site::ReadySite;
use crate::{
    ckpt::{self, Checkpointer, checkpointer},
    mpi::MpiInstall,
    run::{AllocatedNodes, Node, Nodes, RunContext, RunError, Task, marker, new_tmp_dir, work_dir},
    tracer::{Instrumentation, tracer},
};
use camino::Utf8Path;
use cvc_core::store::CampaignDir;
use cvc_probe::sentinel::InstanceFacts;
use serde_json::{Value, json};

/// The choices for a run.
#[derive(Debug)]
pub(super) struct Choice {
    pub run: RunContext,
    pub install: MpiInstall,
    pub checkpointer: &'static dyn Checkpointer,
    pub checkpointer_install: ckpt::Install,
    /// What the tracer adds.
    pub traced: Instrumentation,
    /// Facts of the nodes of its ranks.
    pub node_facts: Vec<Value>,
    /// Their machines in a cloud.
    pub instances: Vec<InstanceFacts>,
    /// Network interface between nodes.
    pub interface: Option<String>,
    /// Cores of a node.
    pub cores: u32,
}

impl Choice {
    /// Chooses programs, directories and nodes of a task.
    ///
    /// # Errors
    /// When the site lacks something that the task needs.
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
        let program = site
            .program(&app, point)
            .map_err(|m| problem(m.to_string()))?;
        let checkpointer_install = site
            .checkpointer(point.checkpointer)
            .map_err(|m| problem(m.to_string()))?
            .clone();
        let (work, tmp) = (work_dir(context, campaign, point, &run), new_tmp_dir()?);
        let ranks = nodes.choose(&task.nodes, &point.mapping).ok_or_else(|| {
            problem(format!(
                "{} needs {} nodes, and the site has {}",
                point.mapping,
                point.mapping.nodes(),
                task.nodes.len()
            ))
        })?;
        let tool = site.tracer(point).map_err(|m| problem(m.to_string()))?;
        let traced = tracer(context.trace.of(point)).instrument(tool, &work, install.family);
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
            interface: nodes.interface.clone(),
            cores: site.cores,
            install,
            checkpointer: checkpointer(point.checkpointer),
            checkpointer_install,
            traced,
            run: RunContext {
                dir: campaign.partial(&run),
                id: run,
                point: point.clone(),
                app,
                program,
                checkpoint: context.checkpoint.of(point),
                work,
                tmp,
                used,
                timeout_s: context.run.timeout_s,
            },
        })
    }
}

/// A short description of a node, which is kept with every run.
fn facts_of(node: &Node, nodes: &Nodes, work: &Utf8Path) -> Value {
    // a node that was away when the others were asked is unknown
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
