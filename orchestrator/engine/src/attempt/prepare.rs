//! Everything that a run needs, written down before anything is started: scripts, host and hint files, inputs.

use super::{
    error::RunError,
    nodes::{AllocatedNodes, Node, Nodes},
    run_dirs::{RANKS, SESSION, marker, tmp_dir, work_dir},
    site::ReadySite,
    task::Task,
};
use crate::{
    ckpt::{
        dmtcp::{self, DmtcpInstall, DmtcpLayout},
        quirks::{self, Quirk, Situation},
    },
    host::LocalHost,
    mpi::{self, LaunchRequest, MpiInstall},
    render::{self, Template},
    transport::Transport,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::template_values;
use cvc_core::{
    app::descriptor::Descriptor,
    campaign::{StorageKind, TracerKind},
    ids::RunId,
    point::{CheckpointerKind, Point},
    store::{CampaignDir, StoreError},
};
use cvc_probe::{
    sentinel::{InstanceFacts, NewFile, Request},
    shepherd::Job,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A run that is ready to start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub run: RunId,
    pub point: Point,
    pub app: Descriptor,
    /// Its directory, still called `.partial`.
    pub dir: Utf8PathBuf,
    /// Its working directory in the storage area.
    pub work: Utf8PathBuf,
    pub job: Job,
    pub request: LaunchRequest,
    pub install: MpiInstall,
    pub dmtcp: Option<(DmtcpInstall, DmtcpLayout)>,
    /// Processes that DMTCP must see before a checkpoint makes sense.
    pub peers: u32,
    pub program: Utf8PathBuf,
    pub quirks: Vec<Quirk>,
    /// Values for the restart script.
    values: Value,
    pub tracer: TracerKind,
    /// What the other nodes must have first.
    pub elsewhere: Request,
    /// Its nodes.
    pub used: AllocatedNodes,
    /// What those of its ranks are like.
    pub node_facts: Vec<Value>,
    /// Which machines of a cloud they are.
    pub instances: Vec<InstanceFacts>,
}

/// What is started for every rank.
const RANK_SCRIPT: &str = ".cvc-rank.sh";

/// Source of the library that repairs DMTCP between nodes, in the working directory.
const BETWEEN_NODES: &str = "dmtcp-nodes.c";

/// The order in which things wrap each other: tracer, checkpointer, MPI launcher, program. The checkpointer's part is in the script, because
/// its port is only known there.
fn wrap(launch: &[String], program: &Utf8Path, args: &[String]) -> Vec<String> {
    launch.iter().cloned().chain([program.to_string()]).chain(args.iter().cloned()).collect()
}

/// A program's arguments from their templates; one that renders to nothing is left out.
fn arguments(name: &str, templates: &[String], values: &Value) -> Result<Vec<String>, RunError> {
    let mut args = Vec::new();
    for template in templates {
        args.push(render::render_text(name, template, values)?);
    }
    args.retain(|a| !a.is_empty());
    Ok(args)
}

/// Writes everything into the run's new directory.
pub(super) fn prepare(site: &ReadySite, nodes: &Nodes, campaign: &CampaignDir, task: &Task) -> Result<Prepared, RunError> {
    let context = &site.context;
    let (planned, point) = (&task.planned, &task.point);
    let run = planned.id.clone();
    let app = context
        .apps
        .get(&point.app)
        .map(|a| a.descriptor.clone())
        .ok_or_else(|| RunError::Descriptor { app: point.app.clone(), problem: "it is not loaded".into() })?;
    let problem = |problem: String| RunError::Descriptor { app: point.app.clone(), problem };
    let install = match site.mpi.get(&point.mpi) {
        Some(Ok(install)) => install.clone(),
        _ => return Err(problem(format!("MPI library `{}` is not there", point.mpi))),
    };
    let program = site.program(&app, point).map_err(|m| problem(m.to_string()))?;
    let dir = campaign.partial(&run);
    let work = work_dir(context, campaign, point, &run);
    let tmp = tmp_dir(campaign, &run);
    let marker = marker(campaign, &run);
    let ranks = nodes
        .choose(&task.nodes, &point.mapping)
        .ok_or_else(|| problem(format!("{} needs {} nodes, and {} are there", point.mapping, point.mapping.nodes(), task.nodes.len())))?;
    let used = AllocatedNodes {
        crew: nodes.crew.clone(),
        head: nodes.head.clone(),
        transport: nodes.transport,
        storage: context.site.storage.get(&point.storage).map(|a| a.kind).unwrap_or_default(),
        marker: marker.clone(),
        dirs: vec![work.clone().into(), tmp.clone().into()],
        ranks,
    };
    for old in [&dir, &work] {
        if old.exists() {
            std::fs::remove_dir_all(old).map_err(StoreError::io("remove", old))?;
        }
    }
    for new in [&dir.join("inputs"), &work] {
        std::fs::create_dir_all(new).map_err(StoreError::io("make", new))?;
    }

    let under_dmtcp = point.checkpointer == CheckpointerKind::Dmtcp;
    let dmtcp = match (&site.dmtcp, under_dmtcp) {
        (Ok(dmtcp), true) => {
            let layout = DmtcpLayout {
                ckptdir: work.join("ckpt"),
                kvdir: work.join("dmtcp"),
                tmpdir: tmp.clone(),
                portfile: work.join("dmtcp/port"),
                log: work.join("dmtcp/coordinator.log"),
            };
            Some((dmtcp.clone(), layout))
        }
        (Err(missing), true) => return Err(problem(missing.to_string())),
        (_, false) => None,
    };
    let node_facts = used.ranks.iter().map(|node| facts_of(node, nodes, &work)).collect();
    let instances = used.ranks.iter().filter_map(|node| nodes.instances.get(&node.name)).cloned().collect();
    let mut export: Vec<String> = ["CVC_RUN", "TMPDIR"].map(String::from).into();
    export.extend(app.command.env.keys().cloned());
    let mut request = LaunchRequest {
        mapping: point.mapping.clone(),
        hosts: used.ranks.iter().map(|n| n.among.clone()).collect(),
        cores_per_node: site.cores,
        aggregators: point.aggregators,
        cb_buffer: point.cb_buffer,
        collective_io: app.io.collective,
        dmtcp: under_dmtcp,
        run_dir: work.clone(),
        tmp_dir: tmp.clone(),
        transport: match used.transport {
            // what srun starts is Slurm's, and cannot be restarted
            Transport::Slurm(_) if under_dmtcp => Transport::Ssh,
            other => other,
        },
        interface: nodes.interface.clone(),
        oversubscribe: context.site.oversubscribe,
        export,
        marker: marker.clone(),
    };
    let quirks = quirks::apply(&Situation {
        checkpointer: point.checkpointer,
        family: install.family,
        device: install.device.clone(),
        version: install.version.clone(),
        transport: request.transport,
        more_ranks_than_cores: point.mapping.node_loads().any(|l| l > site.cores),
        nodes: point.mapping.nodes(),
        dmtcp: dmtcp.as_ref().and_then(|(d, _)| d.major_minor()),
    });
    // what is set against a hazard must reach the library's daemons as well
    request.export.extend(quirks.iter().flat_map(|q| q.env.keys().cloned()));
    let mut launch = mpi::launch(&install, &request);
    launch.argv.extend(quirks.iter().flat_map(|q| q.args.iter().cloned()));

    let mut env = LocalHost::base_env();
    if let Transport::Slurm(_) = request.transport {
        // what tells launchers that they are inside a job
        env.extend(std::env::vars().filter(|(name, _)| name.starts_with("SLURM")));
    }
    env.insert("TMPDIR".into(), tmp.to_string());
    env.extend(launch.env.clone());
    env.extend(quirks.iter().flat_map(|q| q.env.iter().map(|(k, v)| (k.clone(), v.clone()))));
    let values = template_values(&app, point, program.as_str(), dir.as_str(), work.as_str());
    let text = |what: &str, template: &str| render::render_text(&format!("{}: {what}", app.name), template, &values);
    for (name, template) in &app.command.env {
        env.insert(name.clone(), text(&format!("command.env.{name}"), template)?);
    }
    let mut prefix: Vec<String> = Vec::new();
    match (context.trace.tracer, &site.strace, &site.darshan) {
        (TracerKind::Strace, Ok(strace), _) => {
            let traces = work.join("trace");
            std::fs::create_dir_all(&traces).map_err(StoreError::io("make", &traces))?;
            prefix = [strace.as_str(), "-ff", "-ttt", "-T", "-y", "-e", "trace=%desc,%file,%process", "-o", traces.join("strace").as_str()]
                .map(String::from)
                .into();
        }
        (TracerKind::Darshan, _, Ok(library)) => {
            env.insert("DXT_ENABLE_IO_TRACE".into(), "1".into());
            env.insert("DARSHAN_LOGFILE".into(), work.join("run.darshan").into_string());
            // for the ranks alone: the launcher is not traced
            launch.argv.extend(install.family.rank_env("LD_PRELOAD", library.as_str()));
        }
        _ => {}
    }
    let args = arguments(&format!("{}: command.args", app.name), &app.command.args, &values)?;
    let mut command = wrap(&launch.argv, &program, &args);
    let mut rank_script = None;
    if used.transport != Transport::Local {
        // ranks tell where they are, and what would follow the launcher is put before each of them
        let ranks = work.join(RANKS);
        let text = render::render(Template::RANK_SCRIPT, &json!({ "ranks": ranks, "prefix": std::mem::take(&mut prefix) }))?;
        let path = work.join(RANK_SCRIPT);
        command.splice(launch.argv.len()..launch.argv.len(), ["sh".to_owned(), path.to_string()]);
        std::fs::create_dir_all(&ranks).map_err(StoreError::io("make", &ranks))?;
        std::fs::write(&path, &text).map_err(StoreError::io("write", &path))?;
        rank_script = Some(NewFile { path: path.into(), content: text, mode: 0o755 });
    }

    let mut inputs = write_inputs(&dir, &work, &app, &request, &launch.files, &values)?;
    if dmtcp.is_some() && used.several() {
        let stored = dir.join("inputs").join(BETWEEN_NODES);
        std::fs::write(&stored, crate::ckpt::dmtcp::BETWEEN_NODES).map_err(StoreError::io("write", &stored))?;
        inputs.push(json!({ "stored": format!("inputs/{BETWEEN_NODES}"), "target": work.join(BETWEEN_NODES) }));
    }
    let script_values = json!({
        "run": run.as_str(),
        "campaign": context.campaign,
        "cvc": env!("CARGO_PKG_VERSION"),
        "factors": Point::FACTORS.iter().copied().chain(point.user.keys().map(String::as_str))
            .map(|f| json!({ "name": f, "value": point.factor(f).unwrap_or_default() })).collect::<Vec<_>>(),
        "env": env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
        "work": work,
        "session": work.join(SESSION),
        "tmp": tmp,
        "inputs": inputs,
        "prefix": prefix,
        "command": command,
        "dmtcp": dmtcp.as_ref().map(|(install, layout)| dmtcp_values(install, layout, point, &used, context.run.timeout_s)),
    });
    let script = dir.join("launch.sh");
    std::fs::write(&script, render::render(Template::RUN_SCRIPT, &script_values)?).map_err(StoreError::io("write", &script))?;
    let description = json!({
        "run": run.as_str(), "repeat": planned.repeat, "point": point, "descriptor": app, "mpi": install, "quirks": quirks,
        "checkpoint": context.checkpoint, "trace": context.trace,
    });
    let file = dir.join("run.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&description).unwrap_or_default()).map_err(StoreError::io("write", &file))?;

    let job = Job {
        argv: vec!["bash".into(), script.into_string()],
        env: BTreeMap::from([
            ("CVC_RUN".to_owned(), marker),
            // the environment is clean already
            ("CVC_CLEAN".to_owned(), "1".to_owned()),
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into())),
        ]),
        cwd: dir.clone().into(),
        stdout: dir.join("stdout").into(),
        stderr: dir.join("stderr").into(),
        pid_file: dir.join("shepherd.json").into(),
        exit_file: dir.join("exit.json").into(),
        timeout_s: context.run.timeout_s,
        ends_with_controller: true,
    };
    let peers = point.processes() + launch.launcher_processes;
    let elsewhere = elsewhere(&used, &work, &tmp, &inputs, rank_script, &dir)?;
    Ok(Prepared {
        run,
        point: point.clone(),
        app,
        dir,
        work,
        job,
        request,
        install,
        dmtcp,
        peers,
        program,
        quirks,
        values: script_values,
        tracer: context.trace.tracer,
        elsewhere,
        used,
        node_facts,
        instances,
    })
}

/// What a node is like, in few words: it is kept with every run.
fn facts_of(node: &Node, nodes: &Nodes, work: &Utf8Path) -> Value {
    // a node that was away when the others were asked has not said it
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

/// What the other nodes must have before the run starts: directories, and where they see other files than this one, the inputs as well.
fn elsewhere(
    used: &AllocatedNodes,
    work: &Utf8Path,
    tmp: &Utf8Path,
    inputs: &[Value],
    rank_script: Option<NewFile>,
    dir: &Utf8Path,
) -> Result<Request, RunError> {
    let (mut remove, mut dirs, mut files) = (vec![tmp.into()], vec![(tmp.into(), 0o700)], Vec::new());
    if used.storage == StorageKind::NodeLocal {
        remove.push(work.into());
        dirs.push((work.into(), 0o755));
        dirs.push((work.join(RANKS).into(), 0o755));
        files.extend(rank_script);
        for input in inputs {
            let (Some(stored), Some(target)) = (input["stored"].as_str(), input["target"].as_str()) else { continue };
            let stored = dir.join(stored);
            let content = std::fs::read_to_string(&stored).map_err(StoreError::io("read", &stored))?;
            files.push(NewFile { path: target.into(), content, mode: 0o755 });
        }
    }
    Ok(Request::Make { remove, dirs, files })
}

fn dmtcp_values(install: &DmtcpInstall, layout: &DmtcpLayout, point: &Point, used: &AllocatedNodes, timeout_s: f64) -> Value {
    // long enough for the slowest start, short enough not to stay for hours if the program never comes
    let stale_s = (timeout_s.ceil() as u64).clamp(60, 7 * 24 * 3600);
    let second = DmtcpLayout {
        portfile: layout.kvdir.join("restart.port"),
        ckptdir: layout.kvdir.join("restart"),
        kvdir: layout.kvdir.join("restart"),
        log: layout.kvdir.join("restart.log"),
        tmpdir: layout.tmpdir.clone(),
    };
    // what repairs DMTCP between nodes
    let work = layout.kvdir.parent().unwrap_or(&layout.kvdir);
    let library = used.several().then(|| work.join("dmtcp-nodes.so"));
    json!({
        "ckptdir": layout.ckptdir, "kvdir": layout.kvdir, "portfile": layout.portfile,
        "coordinator": install.coordinator(layout, stale_s),
        "launch": match &library {
            Some(library) => install.launch_with(layout, point.compression, library),
            None => install.launch(layout, point.compression),
        },
        "library": library,
        "library_build": library.as_ref().map(|l| dmtcp::between_nodes_build(&work.join(BETWEEN_NODES), l)),
        "command": install.program("dmtcp_command"),
        // ranks on other nodes must reach it as well
        "host": if used.several() { used.head.among.as_str() } else { "127.0.0.1" },
        "ckptdir2": second.ckptdir, "portfile2": second.portfile,
        "coordinator2": install.coordinator(&second, stale_s),
    })
}

/// Host files, hint files and the application's inputs: stored beside the script, copied by it into the working directory.
fn write_inputs(
    dir: &Utf8Path,
    work: &Utf8Path,
    app: &Descriptor,
    request: &LaunchRequest,
    files: &[(&'static str, Template)],
    values: &Value,
) -> Result<Vec<Value>, RunError> {
    let launch_values = mpi::file_values(request);
    let mut contents: Vec<(String, String, bool)> = Vec::new();
    for (name, template) in files {
        contents.push(((*name).to_owned(), render::render(*template, &launch_values)?, template.is_executable()));
    }
    for file in &app.command.files {
        let clean = !file.path.is_empty() && Utf8Path::new(&file.path).components().all(|c| matches!(c, camino::Utf8Component::Normal(_)));
        if !clean || file.path.contains('/') {
            return Err(RunError::Descriptor {
                app: app.name.clone(),
                problem: format!("input file `{}`: write a plain file name; it is put into the working directory", file.path),
            });
        }
        contents.push((file.path.clone(), render::render_text(&format!("{}: {}", app.name, file.path), &file.content, values)?, false));
    }
    let mut inputs = Vec::new();
    for (name, content, executable) in contents {
        let stored = dir.join("inputs").join(&name);
        std::fs::write(&stored, content).map_err(StoreError::io("write", &stored))?;
        if executable {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&stored, mode).map_err(StoreError::io("make executable", &stored))?;
        }
        inputs.push(json!({ "stored": format!("inputs/{name}"), "target": work.join(&name) }));
    }
    Ok(inputs)
}

impl Prepared {
    /// The job of a restart check from DMTCP's images, with what is started on each node.
    pub fn dmtcp_restart_job(&self, nodes: Value) -> Result<Job, RunError> {
        let script = self.dir.join("restart.sh");
        let mut values = self.values.clone();
        values["several"] = json!(self.used.several());
        values["nodes"] = nodes;
        std::fs::write(&script, render::render(Template::RESTART_SCRIPT, &values)?).map_err(StoreError::io("write", &script))?;
        Ok(self.second_job(&script))
    }

    /// The job of a restart check from the program's own checkpoint; `None` if it cannot restart.
    pub fn own_restart_job(&self) -> Result<Option<Job>, RunError> {
        let (Some(templates), true) = (&self.app.command.restart_args, self.app.checkpoint.as_ref().is_some_and(|c| c.restartable)) else {
            return Ok(None);
        };
        let values = template_values(&self.app, &self.point, self.program.as_str(), self.dir.as_str(), self.work.as_str());
        let args = arguments(&format!("{}: command.restart_args", self.app.name), templates, &values)?;
        let mut launch = mpi::launch(&self.install, &self.request).argv;
        launch.extend(self.quirks.iter().flat_map(|q| q.args.iter().cloned()));
        let mut script_values = self.values.clone();
        if self.used.transport != Transport::Local {
            launch.extend(["sh".to_owned(), self.work.join(RANK_SCRIPT).to_string()]);
        }
        script_values["command"] = json!(wrap(&launch, &self.program, &args));
        script_values["prefix"] = json!([]);
        let script = self.dir.join("restart.sh");
        std::fs::write(&script, render::render(Template::RUN_SCRIPT, &script_values)?).map_err(StoreError::io("write", &script))?;
        Ok(Some(self.second_job(&script)))
    }

    fn second_job(&self, script: &Utf8Path) -> Job {
        Job {
            argv: vec!["bash".into(), script.to_string()],
            stdout: self.dir.join("restart.stdout").into(),
            stderr: self.dir.join("restart.stderr").into(),
            pid_file: self.dir.join("restart.shepherd.json").into(),
            exit_file: self.dir.join("restart.exit.json").into(),
            ..self.job.clone()
        }
    }
}
