//! Writes everything that a run needs before anything is started: scripts, host and hint files, inputs. [`Choice`] and [`LaunchPlan`]
//! decide what.

use super::{
    choice::Choice,
    context::SiteContext,
    error::RunError,
    launch_plan::{Ambient, LaunchPlan, RANK_SCRIPT, arguments, wrap},
    nodes::{AllocatedNodes, Nodes},
    run_dirs::{DESCRIPTION, RANKS, SHEPHERD, begun_tmp_dir, check_area},
    site::ReadySite,
    task::Task,
};
use crate::{
    ckpt::{
        Checkpointer,
        dmtcp::{DmtcpInstall, DmtcpLayout},
        quirks::Quirk,
    },
    host::LocalHost,
    mpi::{self, LaunchRequest, MpiInstall},
    render::{self, Template},
    transport::Transport,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    app::{descriptor::Descriptor, template_values},
    campaign::{RunSettings, TraceSettings},
    environment::may_hold_secret,
    ids::RunId,
    point::Point,
    point::TracerKind,
    store::{CampaignDir, StoreError, remove_all},
};
use cvc_probe::{
    sentinel::{InstanceFacts, Request},
    shepherd::Job,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

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
    pub checkpointer: &'static dyn Checkpointer,
    pub dmtcp: Option<(DmtcpInstall, DmtcpLayout)>,
    /// Processes that DMTCP must see before a checkpoint makes sense.
    pub peers: u32,
    pub program: Utf8PathBuf,
    pub quirks: Vec<Quirk>,
    /// Values for the restart script.
    values: Value,
    pub tracer: TracerKind,
    /// What the other nodes need first.
    pub elsewhere: Request,
    /// Its nodes.
    pub used: AllocatedNodes,
    /// What those of its ranks are like.
    pub node_facts: Vec<Value>,
    /// Which machines of a cloud they are.
    pub instances: Vec<InstanceFacts>,
}

/// Prepares a run: chooses what it is made of, plans its launch, and writes both into its new directory.
///
/// # Errors
/// When the site lacks something, the descriptor cannot be used, or a file cannot be written.
pub(super) fn prepare(site: &ReadySite, nodes: &Nodes, campaign: &CampaignDir, task: &Task) -> Result<Prepared, RunError> {
    let context = &site.context;
    let choice = Choice::of(site, nodes, campaign, task)?;
    let ambient = Ambient { base: LocalHost::base_env(), slurm: of_slurm(std::env::vars()) };
    let plan = LaunchPlan::of(&choice, context, &task.point, &ambient)?;
    make_directories(campaign, &choice, &plan)?;
    if site.context.site.storage.get(&task.point.storage).is_some_and(|area| area.path.is_some()) {
        check_area(&choice.work).map_err(RunError::Area)?;
    }
    write_files(&choice, &plan, context, task)?;
    Ok(Prepared {
        job: job(&choice, &plan, &context.run),
        elsewhere: plan.elsewhere(&choice),
        point: task.point.clone(),
        tracer: context.trace.of(&task.point),
        run: choice.run,
        app: choice.app,
        dir: choice.dir,
        work: choice.work,
        request: plan.request,
        install: choice.install,
        checkpointer: choice.checkpointer,
        dmtcp: choice.dmtcp,
        peers: plan.peers,
        program: choice.program,
        quirks: plan.quirks,
        values: plan.values,
        used: choice.used,
        node_facts: choice.node_facts,
        instances: choice.instances,
    })
}

/// The variables of a Slurm job that its steps need. They are kept with the run, so that none that holds a secret, such as `SLURM_JWT`, is among
/// them.
fn of_slurm(vars: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    vars.filter(|(name, _)| name.starts_with("SLURM") && !may_hold_secret(name)).collect()
}

/// Replaces what an earlier attempt left by new, empty directories.
fn make_directories(campaign: &CampaignDir, choice: &Choice, plan: &LaunchPlan) -> Result<(), StoreError> {
    // before its name is forgotten; of another user there it is none of ours
    let _ = remove_all(&begun_tmp_dir(campaign, &choice.run));
    for old in [&choice.dir, &choice.work] {
        remove_all(old)?;
    }
    // not the directories above it: where the campaign was moved away meanwhile, nothing is made in its old place
    fs::create_dir(&choice.dir).map_err(StoreError::io("make", &choice.dir))?;
    let ranks = plan.rank_script.iter().map(|_| choice.work.join(RANKS));
    let new = [choice.dir.join("inputs"), choice.work.clone()].into_iter().chain(choice.traced.dirs.iter().cloned()).chain(ranks);
    for new in new {
        fs::create_dir_all(&new).map_err(StoreError::io("make", &new))?;
    }
    Ok(())
}

/// Writes the scripts, the inputs, and the description of the run.
fn write_files(choice: &Choice, plan: &LaunchPlan, context: &SiteContext, task: &Task) -> Result<(), RunError> {
    if let Some((path, text)) = &plan.rank_script {
        write(path, text)?;
    }
    for input in &plan.inputs {
        for place in [choice.dir.join("inputs"), choice.work.clone()] {
            let file = place.join(&input.name);
            write(&file, &input.content)?;
            if input.executable {
                fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).map_err(StoreError::io("make executable", &file))?;
            }
        }
    }
    write(&choice.dir.join(LAUNCH), render::render(Template::RUN_SCRIPT, &plan.values)?)?;
    let description = json!({
        "run": choice.run.as_str(), "tmp": choice.tmp, "repeat": task.planned.repeat, "point": task.point, "descriptor": choice.app, "mpi": choice.install,
        "quirks": plan.quirks, "checkpoint": context.checkpoint.of(&task.point), "trace": TraceSettings { tracer: context.trace.of(&task.point) },
    });
    write(&choice.dir.join(DESCRIPTION), serde_json::to_vec_pretty(&description).unwrap_or_default())?;
    Ok(())
}

fn write(path: &Utf8Path, content: impl AsRef<[u8]>) -> Result<(), StoreError> {
    fs::write(path, content).map_err(StoreError::io("write", path))
}

/// Tells the script of a run that directories and inputs are made already.
const READY: &str = "CVC_READY";
/// Name of the script of a run, in its directory.
const LAUNCH: &str = "launch.sh";

/// The job of a run's shepherd: its command, or the script that starts DMTCP's coordinator first.
fn job(choice: &Choice, plan: &LaunchPlan, run: &RunSettings) -> Job {
    let dir = &choice.dir;
    let scripted = Job {
        argv: vec!["bash".into(), dir.join(LAUNCH).into_string()],
        env: script_env(&choice.marker).into_iter().chain([(READY.to_owned(), "1".to_owned())]).collect(),
        cwd: dir.clone().into(),
        private_dir: Some(choice.tmp.clone().into()),
        stdout: dir.join("stdout").into(),
        stderr: dir.join("stderr").into(),
        pid_file: dir.join(SHEPHERD).into(),
        exit_file: dir.join("exit.json").into(),
        timeout_s: run.timeout_s,
        max_output_bytes: run.max_output_mib << 20,
        ends_with_controller: true,
    };
    if choice.dmtcp.is_some() {
        return scripted;
    }
    // without a shell, whose start would count as time of the run
    let own = [("CVC_RUN".to_owned(), choice.marker.clone()), ("PWD".to_owned(), choice.work.to_string())];
    Job { argv: plan.command.clone(), env: plan.env.clone().into_iter().chain(own).collect(), cwd: choice.work.clone().into(), ..scripted }
}

/// What a script of a run with this marker is started with.
fn script_env(marker: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("CVC_RUN".to_owned(), marker.to_owned()),
        // the environment is clean already
        ("CVC_CLEAN".to_owned(), "1".to_owned()),
        ("PATH".to_owned(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into())),
    ])
}

impl Prepared {
    /// The job of a restart check from DMTCP's images, with what is started on each node.
    pub fn dmtcp_restart_job(&self, nodes: Value) -> Result<Job, RunError> {
        let script = self.dir.join("restart.sh");
        let mut values = self.values.clone();
        values["several"] = json!(self.used.several());
        values["nodes"] = nodes;
        write(&script, render::render(Template::RESTART_SCRIPT, &values)?)?;
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
        write(&script, render::render(Template::RUN_SCRIPT, &script_values)?)?;
        Ok(Some(self.second_job(&script)))
    }

    /// The job of a script that makes its directories itself.
    fn second_job(&self, script: &Utf8Path) -> Job {
        Job {
            argv: vec!["bash".into(), script.to_string()],
            env: script_env(&self.used.marker),
            cwd: self.dir.clone().into(),
            private_dir: None,
            stdout: self.dir.join("restart.stdout").into(),
            stderr: self.dir.join("restart.stderr").into(),
            pid_file: self.dir.join("restart.shepherd.json").into(),
            exit_file: self.dir.join("restart.exit.json").into(),
            ..self.job.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_slurm;

    #[test]
    fn no_secret_of_slurm_is_kept_with_a_run() {
        let vars = ["SLURM_JOB_ID", "SLURM_JWT", "SLURM_DB_PASSWORD", "SLURMD_TOKEN", "HOME"].map(|name| (name.to_owned(), "1".to_owned()));
        assert_eq!(of_slurm(vars.into_iter()).into_keys().collect::<Vec<_>>(), ["SLURM_JOB_ID"]);
    }
}
