//! How a run is started: scripts, environment and files as data. Pure: reads and writes nothing.

use super::choice::Choice;
use crate::{
    ckpt::quirks::{self, Quirk, Situation},
    mpi::{self, Launch, LaunchRequest},
    render::{self, Template, shell_quote},
    run::{Input, RANKS, RunContext, RunError, SESSION, ScriptFailure, SiteContext, arguments},
    tracer::{Instrumentation, NODE},
    transport::Transport,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::source_file::SourceFile;
use cvc_core::app::template_values;
use cvc_core::campaign::StorageKind;
use cvc_core::point::Point;
use cvc_probe::sentinel::{NewFile, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the script that starts every rank, in the working directory.
pub(super) const RANK_SCRIPT: &str = ".cvc-rank.sh";

/// Variables of the caller that are passed on to a run.
#[derive(Clone, Debug)]
pub(super) struct Ambient {
    /// The minimal environment that programs start from.
    pub base: BTreeMap<String, String>,
    /// What tells launchers that they are inside a job of Slurm.
    pub slurm: BTreeMap<String, String>,
}

/// How a run is started.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub request: LaunchRequest,
    pub quirks: Vec<Quirk>,
    pub inputs: Vec<Input>,
    /// Files that are copied into the working directory.
    pub copies: Vec<SourceFile>,
    /// What is started for every rank, where ranks must tell on which node they are.
    pub rank_script: Option<(Utf8PathBuf, String)>,
    /// Whether the run is started by its script, which does its checkpointer's part.
    pub scripted: bool,
    /// What is started else.
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
    pub fn of(choice: &Choice, context: &SiteContext, ambient: &Ambient) -> Result<Self, RunError> {
        let run = &choice.run;
        let mut request = request(choice, context);
        let quirks = quirks_of(choice, &request);
        // remedies for a hazard must reach the library's daemons as well
        request
            .export
            .extend(quirks.iter().flat_map(|q| q.env.keys().cloned()));
        // what ranks on other nodes are traced by
        request.export.extend(choice.traced.env.keys().cloned());
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
        let words = choice.traced.prefix.iter();
        let mut prefix: Vec<String> = words.map(|word| word.replace(NODE, "")).collect();
        let mut rank_script = None;
        let mut launcher = launch.argv.clone();
        if run.used.transport == Transport::Local {
            let rank_env = choice.traced.rank_env.iter();
            launcher.extend(
                rank_env.flat_map(|(name, value)| choice.install.family.rank_env(name, value)),
            );
        } else {
            // ranks tell where they are, and what would follow the launcher is put before each of them
            let text = render::render(
                Template::RANK_SCRIPT,
                &json!({ "ranks": run.work.join(RANKS), "prefix": rank_prefix(&rank_words(&choice.traced)) }),
            )?;
            prefix.clear();
            let path = run.work.join(RANK_SCRIPT);
            launcher.extend(["sh".to_owned(), path.to_string()]);
            rank_script = Some((path, text));
        }
        let part = choice
            .checkpointer
            .launch(&choice.checkpointer_install, run)?;
        let scripted = part.is_some();
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
                .map(|c| json!({ "source": c.source, "target": run.work.join(&c.path) })).collect::<Vec<_>>(),
            "prefix": prefix,
            "command": command,
            "exit": ScriptFailure::values(),
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
            rank_script,
            scripted,
            command,
            env,
            values,
            peers,
        })
    }

    /// Returns what the other nodes must have before the run starts: directories, and where they see other files than this one, the inputs
    /// as well.
    pub fn elsewhere(&self, choice: &Choice) -> Request {
        let RunContext {
            work, tmp, used, ..
        } = &choice.run;
        let (mut remove, mut dirs, mut files) =
            (vec![tmp.into()], vec![(tmp.into(), 0o700)], Vec::new());
        if used.storage == StorageKind::NodeLocal {
            remove.push(work.into());
            dirs.push((work.into(), 0o755));
            dirs.push((work.join(RANKS).into(), 0o755));
            dirs.extend(choice.traced.dirs.iter().map(|dir| (dir.into(), 0o755)));
            let file = |path: &Utf8Path, content: &str| NewFile {
                path: path.into(),
                content: content.to_owned(),
                mode: 0o755,
            };
            files.extend(self.rank_script.iter().map(|(path, text)| file(path, text)));
            files.extend(
                self.inputs
                    .iter()
                    .map(|input| file(&work.join(&input.name), &input.content)),
            );
        }
        Request::Make {
            remove,
            dirs,
            files,
        }
    }
}

/// The words before a rank: srun and other launchers have no option for the environment of the ranks alone.
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

/// What is put before a rank in its script, which knows the name of its node as `$host`.
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

/// The request to the launcher.
fn request(choice: &Choice, context: &SiteContext) -> LaunchRequest {
    let RunContext {
        app, point, used, ..
    } = &choice.run;
    let mut export: Vec<String> = ["CVC_RUN", "TMPDIR", "LC_ALL"].map(String::from).into();
    export.extend(app.command.env.keys().cloned());
    LaunchRequest {
        mapping: point.mapping.clone(),
        hosts: used.ranks.iter().map(|n| n.among.clone()).collect(),
        cores_per_node: choice.cores,
        aggregators: point.aggregators,
        cb_buffer: point.cb_buffer,
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

/// The hazards that a run meets.
fn quirks_of(choice: &Choice, request: &LaunchRequest) -> Vec<Quirk> {
    let point = &choice.run.point;
    quirks::apply(&Situation {
        checkpointer: point.checkpointer,
        family: choice.install.family,
        device: choice.install.device.clone(),
        version: choice.install.version.clone(),
        transport: request.transport,
        more_ranks_than_cores: point.mapping.node_loads().any(|l| l > choice.cores),
        nodes: point.mapping.nodes(),
        checkpointer_version: choice.checkpointer_install.major_minor(),
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
    env.insert("TMPDIR".into(), choice.run.tmp.to_string());
    env.extend(launch.env.clone());
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

/// Host files, hint files and the application's inputs.
fn inputs(
    run: &RunContext,
    request: &LaunchRequest,
    launch: &Launch,
    values: &Value,
) -> Result<Vec<Input>, RunError> {
    let launch_values = mpi::file_values(request);
    let mut inputs = Vec::new();
    for (name, template) in &launch.files {
        let content = render::render(*template, &launch_values)?;
        inputs.push(Input {
            name: (*name).to_owned(),
            content,
            executable: template.is_executable(),
        });
    }
    let app = &run.app;
    for file in &app.command.files {
        if !is_plain_name(&file.path) {
            return Err(RunError::Descriptor {
                app: app.name.clone(),
                problem: format!(
                    "input file `{}`: write a plain file name; it is put into the working directory",
                    file.path
                ),
            });
        }
        // what is copied is not a template
        let Some(content) = &file.content else {
            continue;
        };
        let content =
            render::render_text(&format!("{}: {}", app.name, file.path), content, values)?;
        inputs.push(Input {
            name: file.path.clone(),
            content,
            executable: false,
        });
    }
    Ok(inputs)
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('/')
        && Utf8Path::new(name)
            .components()
            .all(|c| matches!(c, camino::Utf8Component::Normal(_)))
}

/// The order in which things wrap each other: tracer, checkpointer, MPI launcher, program. The checkpointer's part is in the script, where what it
/// starts first is known.
pub(super) fn wrap(launch: &[String], program: &Utf8Path, args: &[String]) -> Vec<String> {
    launch
        .iter()
        .cloned()
        .chain([program.to_string()])
        .chain(args.iter().cloned())
        .collect()
}
