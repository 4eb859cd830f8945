//! Everything that is decided about a run before anything is written.

use super::{
    error::RunError,
    nodes::{AllocatedNodes, Node, Nodes},
    run_dirs::{marker, new_tmp_dir, work_dir},
    site::ReadySite,
    task::Task,
};
use crate::{
    ckpt::{
        Checkpointer, checkpointer,
        dmtcp::{DmtcpInstall, DmtcpLayout},
    },
    mpi::MpiInstall,
    tracer::{Instrumentation, tracer},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{app::descriptor::Descriptor, ids::RunId, store::CampaignDir};
use cvc_probe::sentinel::InstanceFacts;
use serde_json::{Value, json};

/// The choices for a run.
#[derive(Debug)]
pub(super) struct Choice {
    pub run: RunId,
    pub app: Descriptor,
    pub install: MpiInstall,
    pub program: Utf8PathBuf,
    pub checkpointer: &'static dyn Checkpointer,
    pub dmtcp: Option<(DmtcpInstall, DmtcpLayout)>,
    /// What the tracer adds.
    pub traced: Instrumentation,
    /// Its directory, still called `.partial`.
    pub dir: Utf8PathBuf,
    /// Its working directory in the storage area.
    pub work: Utf8PathBuf,
    /// Short private directory.
    pub tmp: Utf8PathBuf,
    /// The marker of its processes.
    pub marker: String,
    /// Its nodes.
    pub used: AllocatedNodes,
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
    pub fn of(site: &ReadySite, nodes: &Nodes, campaign: &CampaignDir, task: &Task) -> Result<Self, RunError> {
        let (context, point, run) = (&site.context, &task.point, task.planned.id.clone());
        let problem = |problem: String| RunError::Descriptor { app: point.app.clone(), problem };
        let app = context.apps.get(&point.app).map(|a| a.descriptor.clone()).ok_or_else(|| problem("it is not loaded".into()))?;
        let install = match site.mpi.get(&point.mpi) {
            Some(Ok(install)) => install.clone(),
            _ => return Err(problem(format!("MPI library `{}` is not installed", point.mpi))),
        };
        let program = site.program(&app, point).map_err(|m| problem(m.to_string()))?;
        let checkpointer = checkpointer(point.checkpointer);
        if let Some(missing) = checkpointer.missing(&site.tools()) {
            return Err(problem(missing.to_string()));
        }
        let (work, tmp) = (work_dir(context, campaign, point, &run), new_tmp_dir()?);
        let ranks = nodes.choose(&task.nodes, &point.mapping).ok_or_else(|| {
            problem(format!("{} needs {} nodes, and the site has {}", point.mapping, point.mapping.nodes(), task.nodes.len()))
        })?;
        let on_request = checkpointer.course(&context.checkpoint.of(point)).on_request;
        let dmtcp = site.dmtcp.as_ref().ok().filter(|_| on_request).map(|install| (install.clone(), DmtcpLayout::of(&work, &tmp)));
        let tool = site.tracer(point).map_err(|m| problem(m.to_string()))?;
        let traced = tracer(context.trace.of(point)).instrument(tool, &work, install.family);
        let marker = marker(campaign, &run);
        Ok(Self {
            used: AllocatedNodes {
                crew: nodes.crew.clone(),
                head: nodes.head.clone(),
                transport: nodes.transport,
                storage: context.site.storage.get(&point.storage).map(|a| a.kind).unwrap_or_default(),
                marker: marker.clone(),
                dirs: vec![work.clone().into(), tmp.clone().into()],
                ranks: ranks.clone(),
            },
            node_facts: ranks.iter().map(|node| facts_of(node, nodes, &work)).collect(),
            instances: ranks.iter().filter_map(|node| nodes.instances.get(&node.name)).cloned().collect(),
            interface: nodes.interface.clone(),
            cores: site.cores,
            dir: campaign.partial(&run),
            run,
            app,
            install,
            program,
            checkpointer,
            dmtcp,
            traced,
            work,
            tmp,
            marker,
        })
    }
}

/// A short description of a node, which is kept with every run.
fn facts_of(node: &Node, nodes: &Nodes, work: &Utf8Path) -> Value {
    // a node that was away when the others were asked is unknown
    let Some(facts) = nodes.facts.get(&node.name) else { return json!({ "name": node.name, "host": node.hostname }) };
    let place =
        facts.places.iter().filter(|p| work.starts_with(p.path.to_string_lossy().as_ref())).max_by_key(|p| p.path.as_os_str().len());
    let interfaces = facts.interfaces.iter().filter(|i| !i.addresses.is_empty()).map(|i| {
        let speed = i.speed_mbit.map(|speed| format!(" {speed} Mbit/s")).unwrap_or_default();
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
