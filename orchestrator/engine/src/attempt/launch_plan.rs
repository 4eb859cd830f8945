//! How a run is started: scripts, environment and files as data. Pure: reads and writes nothing.

use super::{
    choice::Choice,
    context::SiteContext,
    error::RunError,
    nodes::AllocatedNodes,
    run_dirs::{RANKS, SESSION},
    script_exit::ScriptFailure,
};
use crate::{
    ckpt::{
        dmtcp::{self, DmtcpInstall, DmtcpLayout},
        quirks::{self, Quirk, Situation},
    },
    mpi::{self, Launch, LaunchRequest},
    render::{self, Template, shell_quote},
    tracer::NODE,
    transport::Transport,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{app::template_values, campaign::StorageKind, point::Point};
use cvc_probe::sentinel::{NewFile, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the script that starts every rank, in the working directory.
pub(super) const RANK_SCRIPT: &str = ".cvc-rank.sh";

/// Source of the library that repairs DMTCP between nodes, in the working directory.
const BETWEEN_NODES: &str = "dmtcp-nodes.c";

/// Variables of the caller that are passed on to a run.
#[derive(Clone, Debug)]
pub(super) struct Ambient {
    /// The minimal environment that programs start from.
    pub base: BTreeMap<String, String>,
    /// What tells launchers that they are inside a job of Slurm.
    pub slurm: BTreeMap<String, String>,
}

/// A file that the script of the run copies into the working directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    /// Its name in the directory `inputs`, and in the working directory.
    pub name: String,
    pub content: String,
    pub executable: bool,
}

/// How a run is started.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub request: LaunchRequest,
    pub quirks: Vec<Quirk>,
    pub inputs: Vec<Input>,
    /// What is started for every rank, where ranks must tell on which node they are.
    pub rank_script: Option<(Utf8PathBuf, String)>,
    /// What is started, unless a checkpointer must be started before it.
    pub command: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Values for the scripts of the run and of its restart.
    pub values: Value,
    /// Processes that a checkpointer must see before a checkpoint makes sense.
    pub peers: u32,
}

impl LaunchPlan {
    /// Plans the launch of a run.
    ///
    /// # Errors
    /// When a template of the descriptor cannot be rendered, or an input file has a name that is not one.
    pub fn of(choice: &Choice, context: &SiteContext, point: &Point, ambient: &Ambient) -> Result<Self, RunError> {
        let mut request = request(choice, context, point);
        let quirks = quirks_of(choice, point, &request);
        // remedies for a hazard must reach the library's daemons as well
        request.export.extend(quirks.iter().flat_map(|q| q.env.keys().cloned()));
        let mut launch = mpi::launch(&choice.install, &request);
        launch.argv.extend(quirks.iter().flat_map(|q| q.args.iter().cloned()));
        launch.argv.extend(choice.traced.launcher_args.iter().cloned());
        let app = &choice.app;
        let values = template_values(app, point, choice.program.as_str(), choice.dir.as_str(), choice.work.as_str());
        let env = environment(choice, &launch, &quirks, &values, request.transport, ambient, &context.run.locale)?;
        let args = arguments(&format!("{}: command.args", app.name), &app.command.args, &values)?;
        let mut prefix: Vec<String> = choice.traced.prefix.iter().map(|word| word.replace(NODE, "")).collect();
        let mut rank_script = None;
        let mut launcher = launch.argv.clone();
        if choice.used.transport != Transport::Local {
            // ranks tell where they are, and what would follow the launcher is put before each of them
            let text = render::render(
                Template::RANK_SCRIPT,
                &json!({ "ranks": choice.work.join(RANKS), "prefix": rank_prefix(&choice.traced.prefix) }),
            )?;
            prefix.clear();
            let path = choice.work.join(RANK_SCRIPT);
            launcher.extend(["sh".to_owned(), path.to_string()]);
            rank_script = Some((path, text));
        }
        let inputs = inputs(choice, &request, &launch, &values)?;
        let command = wrap(&launcher, &choice.program, &args);
        let values = json!({
            "run": choice.run.as_str(),
            "campaign": context.campaign,
            "cvc": env!("CARGO_PKG_VERSION"),
            "factors": Point::FACTORS.iter().copied().chain(point.user.keys().map(String::as_str))
                .filter_map(|f| Some(json!({ "name": f, "value": point.factor(f)? }))).collect::<Vec<_>>(),
            "env": env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
            "work": choice.work,
            "session": choice.work.join(SESSION),
            "tmp": choice.tmp,
            "inputs": inputs.iter()
                .map(|i| json!({ "stored": format!("inputs/{}", i.name), "target": choice.work.join(&i.name) })).collect::<Vec<_>>(),
            "prefix": prefix,
            "command": command,
            "exit": ScriptFailure::values(),
            "dmtcp": choice.dmtcp.as_ref()
                .map(|(install, layout)| dmtcp_values(install, layout, point, &choice.used, context.run.timeout_s)),
        });
        let peers = point.processes() + launch.launcher_processes;
        let command = prefix.into_iter().chain(command).collect();
        Ok(Self { request, quirks, inputs, rank_script, command, env, values, peers })
    }

    /// Returns what the other nodes must have before the run starts: directories, and where they see other files than this one, the inputs
    /// as well.
    pub fn elsewhere(&self, choice: &Choice) -> Request {
        let (work, tmp) = (&choice.work, &choice.tmp);
        let (mut remove, mut dirs, mut files) = (vec![tmp.into()], vec![(tmp.into(), 0o700)], Vec::new());
        if choice.used.storage == StorageKind::NodeLocal {
            remove.push(work.into());
            dirs.push((work.into(), 0o755));
            dirs.push((work.join(RANKS).into(), 0o755));
            dirs.extend(choice.traced.dirs.iter().map(|dir| (dir.into(), 0o755)));
            let file = |path: &Utf8Path, content: &str| NewFile { path: path.into(), content: content.to_owned(), mode: 0o755 };
            files.extend(self.rank_script.iter().map(|(path, text)| file(path, text)));
            files.extend(self.inputs.iter().map(|input| file(&work.join(&input.name), &input.content)));
        }
        Request::Make { remove, dirs, files }
    }
}

/// What is put before a rank in its script, which knows the name of its node as `$host`.
fn rank_prefix(words: &[String]) -> String {
    let word = |word: &String| {
        word.split(NODE).map(|part| if part.is_empty() { String::new() } else { shell_quote(part) }).collect::<Vec<_>>().join("\".$host\"")
    };
    words.iter().map(|of| if of.is_empty() { shell_quote(of) } else { word(of) } + " ").collect()
}

/// The request to the launcher.
fn request(choice: &Choice, context: &SiteContext, point: &Point) -> LaunchRequest {
    let mut export: Vec<String> = ["CVC_RUN", "TMPDIR", "LC_ALL"].map(String::from).into();
    export.extend(choice.app.command.env.keys().cloned());
    LaunchRequest {
        mapping: point.mapping.clone(),
        hosts: choice.used.ranks.iter().map(|n| n.among.clone()).collect(),
        cores_per_node: choice.cores,
        aggregators: point.aggregators,
        cb_buffer: point.cb_buffer,
        collective_io: choice.app.io.collective,
        run_dir: choice.work.clone(),
        tmp_dir: choice.tmp.clone(),
        transport: choice.checkpointer.transport(choice.used.transport),
        interface: choice.interface.clone(),
        oversubscribe: context.site.oversubscribe,
        export,
        marker: choice.marker.clone(),
    }
}

/// The hazards that a run meets.
fn quirks_of(choice: &Choice, point: &Point, request: &LaunchRequest) -> Vec<Quirk> {
    quirks::apply(&Situation {
        checkpointer: point.checkpointer,
        family: choice.install.family,
        device: choice.install.device.clone(),
        version: choice.install.version.clone(),
        transport: request.transport,
        more_ranks_than_cores: point.mapping.node_loads().any(|l| l > choice.cores),
        nodes: point.mapping.nodes(),
        dmtcp: choice.dmtcp.as_ref().and_then(|(d, _)| d.major_minor()),
    })
}

/// The environment of a run: the caller's minimum, the launcher's, the remedies for hazards, the descriptor's, the tracer's.
fn environment(
    choice: &Choice,
    launch: &Launch,
    quirks: &[Quirk],
    values: &Value,
    transport: Transport,
    ambient: &Ambient,
    locale: &str,
) -> Result<BTreeMap<String, String>, RunError> {
    let mut env = ambient.base.clone();
    // programs write their figures in the language of their locale
    env.insert("LC_ALL".into(), locale.to_owned());
    if let Transport::Slurm(_) = transport {
        env.extend(ambient.slurm.clone());
    }
    env.insert("TMPDIR".into(), choice.tmp.to_string());
    env.extend(launch.env.clone());
    env.extend(quirks.iter().flat_map(|q| q.env.iter().map(|(k, v)| (k.clone(), v.clone()))));
    for (name, template) in &choice.app.command.env {
        let value = render::render_text(&format!("{}: command.env.{name}", choice.app.name), template, values)?;
        env.insert(name.clone(), value);
    }
    env.extend(choice.traced.env.clone());
    Ok(env)
}

/// Host files, hint files and the application's inputs.
fn inputs(choice: &Choice, request: &LaunchRequest, launch: &Launch, values: &Value) -> Result<Vec<Input>, RunError> {
    let launch_values = mpi::file_values(request);
    let mut inputs = Vec::new();
    for (name, template) in &launch.files {
        let content = render::render(*template, &launch_values)?;
        inputs.push(Input { name: (*name).to_owned(), content, executable: template.is_executable() });
    }
    let app = &choice.app;
    for file in &app.command.files {
        if !is_plain_name(&file.path) {
            return Err(RunError::Descriptor {
                app: app.name.clone(),
                problem: format!("input file `{}`: write a plain file name; it is put into the working directory", file.path),
            });
        }
        let content = render::render_text(&format!("{}: {}", app.name, file.path), &file.content, values)?;
        inputs.push(Input { name: file.path.clone(), content, executable: false });
    }
    if choice.dmtcp.is_some() && choice.used.several() {
        inputs.push(Input { name: BETWEEN_NODES.to_owned(), content: dmtcp::BETWEEN_NODES.to_owned(), executable: false });
    }
    Ok(inputs)
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && Utf8Path::new(name).components().all(|c| matches!(c, camino::Utf8Component::Normal(_)))
}

/// The order in which things wrap each other: tracer, checkpointer, MPI launcher, program. The checkpointer's part is in the script,
/// because its port is only known there.
pub(super) fn wrap(launch: &[String], program: &Utf8Path, args: &[String]) -> Vec<String> {
    launch.iter().cloned().chain([program.to_string()]).chain(args.iter().cloned()).collect()
}

/// A program's arguments from their templates; one that renders to nothing is left out.
pub(super) fn arguments(name: &str, templates: &[String], values: &Value) -> Result<Vec<String>, RunError> {
    let mut args = Vec::new();
    for template in templates {
        args.push(render::render_text(name, template, values)?);
    }
    args.retain(|a| !a.is_empty());
    Ok(args)
}

/// Values for the part of the scripts that is DMTCP's.
fn dmtcp_values(install: &DmtcpInstall, layout: &DmtcpLayout, point: &Point, used: &AllocatedNodes, timeout_s: f64) -> Value {
    // long enough for the slowest start, short enough not to stay for hours if the program never comes
    let stale_s = (timeout_s.ceil() as u64).clamp(60, 7 * 24 * 3600);
    let second = layout.of_restart();
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
