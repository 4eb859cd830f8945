//! Plans how a run is started: scripts, environment and files as data. Pure: reads and writes nothing.

use super::{choice::Choice, setup};
use crate::{
    ckpt::quirks::{self, Quirk, Situation},
    mpi::{self, Launch, LaunchRequest},
    render::{self, Template, shell_quote},
    run::{RANKS, RunContext, RunError, RunInput, SESSION, ScriptFailure, SiteContext, arguments},
    tracer::{Instrumentation, NODE},
    transport::Transport,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::source_file::SourceFile;
use cvc_core::app::template_values;
use cvc_core::campaign::StorageKind;
use cvc_core::io_settings::io_values;
use cvc_core::point::Point;
use cvc_probe::sentinel::{NewFile, SentinelRequest};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// File name, in the working directory, of the script that starts every rank.
pub(super) const RANK_SCRIPT: &str = ".cvc-rank.sh";
/// File name of the script that starts every rank when a program restarts from its own checkpoint.
pub(super) const RESTARTED_RANK_SCRIPT: &str = ".cvc-rank-restarted.sh";

/// Variables of the caller that are passed to a run.
#[derive(Clone, Debug)]
pub(super) struct Ambient {
    /// The minimal environment with which programs start.
    pub base: BTreeMap<String, String>,
    /// Variables by which launchers detect a Slurm job.
    pub slurm: BTreeMap<String, String>,
}

/// The plan of how a run is started.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub request: LaunchRequest,
    pub quirks: Vec<Quirk>,
    pub inputs: Vec<RunInput>,
    /// Input files that are copied into the working directory.
    pub copies: Vec<SourceFile>,
    /// Paths and contents of the scripts that start a rank: at the first start, and when the program restarts from its own checkpoint. Empty unless
    /// ranks must report their node.
    pub rank_scripts: Vec<(Utf8PathBuf, String)>,
    /// Whether the run is started by a script, because its checkpointer needs commands around the launcher or because the environment must be set up
    /// first.
    pub scripted: bool,
    /// Command that starts the run without a script.
    pub command: Vec<String>,
    /// Environment variables of the run.
    pub env: BTreeMap<String, String>,
    /// Template values for the scripts of the run and of its restart.
    pub values: Value,
    /// Number of processes that must be connected to the checkpointer before a checkpoint is useful.
    pub peers: u32,
}

impl LaunchPlan {
    /// Plans the launch of a run.
    ///
    /// # Errors
    /// A template of the descriptor cannot be rendered, or the name of an input file is invalid.
    pub fn of(choice: &Choice, context: &SiteContext, ambient: &Ambient) -> Result<Self, RunError> {
        let run = &choice.run;
        let mut request = request(choice, context);
        let quirks = quirks_of(choice, &request);
        // variables that avoid a hazard must also be set for the library's daemons
        request
            .export
            .extend(quirks.iter().flat_map(|q| q.env.keys().cloned()));
        // variables of the tracer, for ranks on other nodes
        request.export.extend(choice.traced.env.keys().cloned());
        // variables of the site's environment, which is set up here only
        request.export.extend(choice.set.keys().cloned());
        let mut launch = mpi::launch(&choice.install, &request);
        launch
            .argv
            .extend(quirks.iter().flat_map(|q| q.args.iter().cloned()));
        let (app, point) = (&run.app, &run.point);
        let values = template_values(
            app,
            point,
            run.program.as_str(),
            run.dir.as_str(),
            run.work.as_str(),
        );
        let env = environment(
            choice,
            &launch,
            &quirks,
            &values,
            request.transport,
            ambient,
            &context.run.locale,
        )?;
        let args = arguments(
            &format!("{}: command.args", app.name),
            &app.command.args,
            &values,
        )?;
        let mut prefix = choice.traced.words_here();
        let mut rank_scripts = Vec::new();
        let mut launcher = launch.argv.clone();
        let is_local = run.used.transport == Transport::Local;
        if is_local {
            let rank_env = choice.traced.rank_env.iter();
            launcher.extend(
                rank_env.flat_map(|(name, value)| choice.install.family.rank_env(name, value)),
            );
        }
        if reports_ranks(run) {
            // ranks report their node; if ranks run on nodes, each rank's script has the tracer's prefix, which otherwise follows the launcher
            rank_scripts.push(rank_script(run, RANK_SCRIPT, &choice.traced)?);
            if !is_local {
                prefix.clear();
                let traced = &choice.traced_restart;
                rank_scripts.push(rank_script(run, RESTARTED_RANK_SCRIPT, traced)?);
            }
            launcher.extend(["sh".to_owned(), run.work.join(RANK_SCRIPT).to_string()]);
        }
        let part = choice
            .checkpointer
            .launch(&choice.checkpointer_install, run)?;
        let scripted = part.is_some() || !choice.environment.is_empty();
        let part = part.unwrap_or_default();
        let mut inputs = inputs(run, &request, &launch, &values)?;
        inputs.extend(part.inputs);
        launcher.extend(part.rank);
        let app = context.apps.get(&run.point.app);
        let copies = app.map(|app| app.sources.clone()).unwrap_or_default();
        let command = wrap(&launcher, &run.program, &args);
        let values = json!({
            "run": run.id.as_str(),
            "campaign": context.campaign,
            "cvc": env!("CARGO_PKG_VERSION"),
            "factors": Point::FACTORS.iter().copied().chain(point.user.keys().map(String::as_str))
                .filter_map(|f| Some(json!({ "name": f, "value": point.factor(f)? }))).collect::<Vec<_>>(),
            "env": env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
            "work": run.work,
            "session": run.work.join(SESSION),
            "tmp": run.tmp,
            "inputs": inputs.iter()
                .map(|i| json!({ "stored": format!("inputs/{}", i.name), "target": run.work.join(&i.name) })).collect::<Vec<_>>(),
            "copies": copies.iter()
                .map(|c| json!({ "source": c.source, "target": run.work.join(&c.path), "directory": directory_of(c, &run.work) })).collect::<Vec<_>>(),
            "prefix": prefix,
            "restart_prefix": choice.traced_restart.prefix,
            "command": command,
            "exit": ScriptFailure::values(),
            "environment": setup::script_values(&choice.environment, &context.site, &context.base, &ambient.base),
            "before": part.before,
            "wrapper": part.wrapper,
            "after": part.after,
        });
        let peers = point.processes() + launch.launcher_processes;
        let command = prefix.into_iter().chain(command).collect();
        Ok(Self {
            request,
            quirks,
            inputs,
            copies,
            rank_scripts,
            scripted,
            command,
            env,
            values,
            peers,
        })
    }

    /// Returns the request for what the other nodes need before the run starts: directories, and the inputs unless storage is shared with this node.
    pub fn elsewhere(&self, choice: &Choice) -> SentinelRequest {
        let RunContext {
            work, tmp, used, ..
        } = &choice.run;
        let (mut remove, mut dirs, mut files) =
            (vec![tmp.into()], vec![(tmp.into(), 0o700)], Vec::new());
        if used.storage == StorageKind::NodeLocal {
            // a working directory with a checkpoint to continue from stays
            remove.push(match choice.resumes {
                true => work.join(RANKS).into(),
                false => work.into(),
            });
            dirs.push((work.into(), 0o755));
            dirs.push((work.join(RANKS).into(), 0o755));
            let traced = choice.traced.dirs.iter().chain(&choice.traced_restart.dirs);
            dirs.extend(traced.map(|dir| (dir.into(), 0o755)));
            let file = |path: &Utf8Path, content: &str| NewFile {
                path: path.into(),
                content: content.to_owned(),
                mode: 0o755,
            };
            files.extend(
                self.rank_scripts
                    .iter()
                    .map(|(path, text)| file(path, text)),
            );
            files.extend(
                self.inputs
                    .iter()
                    .map(|input| file(&work.join(&input.name), &input.content)),
            );
        }
        SentinelRequest::Make {
            remove,
            dirs,
            files,
        }
    }
}

/// Returns the path and the content of the script that starts a rank.
fn rank_script(
    run: &RunContext,
    name: &str,
    traced: &Instrumentation,
) -> Result<(Utf8PathBuf, String), RunError> {
    let mut prefix = String::new();
    if run.used.transport != Transport::Local {
        prefix = rank_prefix(&rank_words(traced));
    }
    let threads = run.point.threads().is_some();
    let values = json!({ "ranks": run.work.join(RANKS), "prefix": prefix, "threads": threads });
    let text = render::render(Template::RANK_SCRIPT, &values)?;
    Ok((run.work.join(name), text))
}

/// Returns the words in front of a rank's program. They set variables for the ranks alone, for which srun and other launchers have no option.
fn rank_words(traced: &Instrumentation) -> Vec<String> {
    let env = traced
        .rank_env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let env: Vec<String> = env.collect();
    let program = (!env.is_empty()).then(|| "env".to_owned());
    program
        .into_iter()
        .chain(env)
        .chain(traced.prefix.iter().cloned())
        .collect()
}

/// Returns the prefix of a rank in its script, in which `$host` is the name of the rank's node.
fn rank_prefix(words: &[String]) -> String {
    let word = |word: &String| {
        word.split(NODE)
            .map(|part| {
                if part.is_empty() {
                    String::new()
                } else {
                    shell_quote(part)
                }
            })
            .collect::<Vec<_>>()
            .join("\".$host\"")
    };
    words.iter().map(|of| if of.is_empty() { shell_quote(of) } else { word(of) } + " ").collect()
}

/// Returns whether every rank must report its node and, if it has threads, the cores that it may use.
pub(super) fn reports_ranks(run: &RunContext) -> bool {
    run.used.transport != Transport::Local || run.point.threads().is_some()
}

/// Returns the request to the launcher.
fn request(choice: &Choice, context: &SiteContext) -> LaunchRequest {
    let RunContext {
        app, point, used, ..
    } = &choice.run;
    let mut export: Vec<String> = ["CVC_RUN", "TMPDIR", "LC_ALL"].map(String::from).into();
    export.extend(app.command.env.keys().cloned());
    export.extend(
        mpi::THREAD_VARIABLES
            .iter()
            .filter(|_| point.threads().is_some())
            .map(|name| (*name).to_owned()),
    );
    LaunchRequest {
        mapping: point.mapping.clone(),
        hosts: used.ranks.iter().map(|n| n.among.clone()).collect(),
        cores_per_node: choice.cores,
        hardware_threads: choice.hardware_threads,
        aggregators: point.aggregators,
        cb_buffer: point.cb_buffer,
        io: io_values(point),
        collective_io: app.io.collective,
        run_dir: choice.run.work.clone(),
        tmp_dir: choice.run.tmp.clone(),
        transport: choice.checkpointer.transport(used.transport),
        interface: choice.interface.clone(),
        oversubscribe: context.site.oversubscribe,
        export,
        marker: used.marker.clone(),
    }
}

/// Returns the known hazards (quirks) that apply to a run.
fn quirks_of(choice: &Choice, request: &LaunchRequest) -> Vec<Quirk> {
    let point = &choice.run.point;
    quirks::apply(&Situation {
        checkpointer: point.checkpointer,
        family: choice.install.family,
        device: choice.install.device.clone(),
        version: choice.install.version.clone(),
        transport: request.transport,
        more_ranks_than_cores: point.mapping.oversubscribes(choice.cores),
        nodes: point.mapping.nodes(),
        checkpointer_version: choice.checkpointer_install.major_minor(),
    })
}

/// Returns the environment of a run: the caller's minimum, then variables of the launcher, the applied quirks, the descriptor and the tracer.
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
    // programs print numbers in the format of their locale
    env.insert("LC_ALL".into(), locale.to_owned());
    if let Transport::Slurm(_) = transport {
        env.extend(ambient.slurm.clone());
    }
    env.insert("TMPDIR".into(), choice.run.tmp.to_string());
    env.extend(launch.env.clone());
    // the launcher's settings for this run override the variables with which its library was found
    let is_free = |name: &String| launch.env.get(name) == choice.install.env.get(name);
    let set = choice.set.iter().filter(|(name, _)| is_free(name));
    env.extend(set.map(|(name, value)| (name.clone(), value.clone())));
    env.extend(
        quirks
            .iter()
            .flat_map(|q| q.env.iter().map(|(k, v)| (k.clone(), v.clone()))),
    );
    let app = &choice.run.app;
    for (name, template) in &app.command.env {
        let value = render::render_text(
            &format!("{}: command.env.{name}", app.name),
            template,
            values,
        )?;
        env.insert(name.clone(), value);
    }
    env.extend(choice.traced.env.clone());
    Ok(env)
}

/// Returns host files, hint files and the application's inputs.
fn inputs(
    run: &RunContext,
    request: &LaunchRequest,
    launch: &Launch,
    values: &Value,
) -> Result<Vec<RunInput>, RunError> {
    let launch_values = mpi::file_values(request);
    let mut inputs = Vec::new();
    for (name, template) in &launch.files {
        let content = render::render(*template, &launch_values)?;
        inputs.push(RunInput {
            name: (*name).to_owned(),
            content,
            executable: template.is_executable(),
        });
    }
    let app = &run.app;
    for file in &app.command.files {
        // a file that is copied is not a template
        let Some(content) = &file.content else {
            continue;
        };
        if !is_plain_name(&file.path) {
            return Err(RunError::Descriptor {
                app: app.name.clone(),
                problem: format!(
                    "input file `{}`: write a plain file name; it is put into the working directory",
                    file.path
                ),
            });
        }
        let content =
            render::render_text(&format!("{}: {}", app.name, file.path), content, values)?;
        inputs.push(RunInput {
            name: file.path.clone(),
            content,
            executable: false,
        });
    }
    Ok(inputs)
}

/// Returns the directory that a copied file needs below the working directory; `None` if the file is directly in the working directory.
fn directory_of(copy: &SourceFile, work: &Utf8Path) -> Option<Utf8PathBuf> {
    let parent = Utf8Path::new(&copy.path).parent()?;
    (!parent.as_str().is_empty()).then(|| work.join(parent))
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('/')
        && Utf8Path::new(name)
            .components()
            .all(|c| matches!(c, camino::Utf8Component::Normal(_)))
}

/// Returns the nested command: tracer, checkpointer, MPI launcher, program. The checkpointer's words are added in the script, which determines the
/// first program to start.
pub(super) fn wrap(launch: &[String], program: &Utf8Path, args: &[String]) -> Vec<String> {
    launch
        .iter()
        .cloned()
        .chain([program.to_string()])
        .chain(args.iter().cloned())
        .collect()
}
