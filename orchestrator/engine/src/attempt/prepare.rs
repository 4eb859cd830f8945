//! Writes everything that a run needs before it starts: scripts, host and hint files, inputs. [`Choice`] and [`LaunchPlan`] decide their content.

use super::{
    choice::Choice,
    launch_plan::{Ambient, LaunchPlan, RANK_SCRIPT, RESTARTED_RANK_SCRIPT, reports_ranks, wrap},
    site::ReadySite,
};
use crate::{
    ckpt::{self, CheckpointRun, Checkpointer, Course, SessionContext, quirks::Quirk},
    host::LocalHost,
    mpi::{self, LaunchRequest, MpiInstall},
    render::{self, Template},
    run::{
        DESCRIPTION, Nodes, RANKS, RestartNumber, RunContext, RunError, SHEPHERD, SiteContext,
        Task, begun_tmp_dir, check_area,
    },
};
use crate::{tracer::Instrumentation, transport::Transport};
use camino::Utf8Path;
use cvc_core::app::source_file::SourceFile;
use cvc_core::campaign::{RunEnvironment, RunSettings, SiteKind, TraceSettings};
use cvc_core::environment::{is_withheld, may_hold_secret};
use cvc_core::point::TracerKind;
use cvc_core::store::{CampaignDir, KeptCheckpoint, StoreError, remove_all};
use cvc_probe::sentinel::{InstanceFacts, SentinelRequest};
use cvc_probe::shepherd::Job;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
};

/// A run that is ready to start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub run: RunContext,
    pub job: Job,
    pub request: LaunchRequest,
    pub install: MpiInstall,
    pub checkpointer: &'static dyn Checkpointer,
    pub checkpointer_install: ckpt::Install,
    /// Number of processes that must be connected to the checkpointer before a checkpoint is useful.
    pub peers: u32,
    pub quirks: Vec<Quirk>,
    /// Template values of the run's script, also for the restart script.
    values: Value,
    /// What the tracer adds to a restart.
    traced_restart: Instrumentation,
    /// Names of the variables that the tracer adds to the run.
    traced_env: BTreeSet<String>,
    pub tracer: TracerKind,
    /// Commands that set up the environment before the launcher starts.
    pub environment: RunEnvironment,
    /// The request that creates files on the other nodes before the run starts.
    pub elsewhere: SentinelRequest,
    /// Input files copied into the working directory on this machine.
    pub copies: Vec<SourceFile>,
    /// Facts about the nodes of the run's ranks.
    pub node_facts: Vec<Value>,
    /// Cloud machines of the nodes of the run's ranks.
    pub instances: Vec<InstanceFacts>,
    /// Whether checkpoints are kept for the run's next attempt.
    pub keeps: bool,
    /// Whether the run's files are on shared storage that keeps them until the next attempt. Other storage may disappear with the nodes, or is
    /// cleared at the end of the nodes' Slurm job.
    pub outlives_agent: bool,
    /// The checkpoint of an earlier attempt from which the run continues.
    pub resume: Option<Box<KeptCheckpoint>>,
}

/// Prepares a run: chooses its components, plans its launch, and writes both into its new directory.
///
/// # Errors
/// The site lacks something, the descriptor cannot be used, or a file cannot be written.
pub(super) fn prepare(
    site: &ReadySite,
    nodes: &Nodes,
    campaign: &CampaignDir,
    task: &Task,
) -> Result<Prepared, RunError> {
    let context = &site.context;
    let choice = Choice::of(site, nodes, campaign, task)?;
    let ambient = Ambient {
        base: LocalHost::base_env(),
        slurm: of_slurm(std::env::vars()),
    };
    let plan = LaunchPlan::of(&choice, context, &ambient)?;
    make_directories(campaign, &choice, &plan, task.resume.is_some())?;
    if site
        .context
        .site
        .storage
        .get(&task.point.storage)
        .is_some_and(|area| area.path.is_some())
    {
        check_area(&choice.run.work)?;
    }
    if let Some(flushed) = &choice.run.flush_dir {
        check_area(flushed)?;
    }
    write_files(&choice, &plan, context, task)?;
    Ok(Prepared {
        job: job(&choice, &plan, &context.run),
        elsewhere: plan.elsewhere(&choice),
        copies: plan.copies,
        keeps: choice.keeps,
        outlives_agent: site.context.site.kind == SiteKind::Ssh,
        resume: task.resume.clone(),
        tracer: context.trace.of(&task.point),
        environment: choice.environment,
        run: choice.run,
        request: plan.request,
        install: choice.install,
        checkpointer: choice.checkpointer,
        checkpointer_install: choice.checkpointer_install,
        peers: plan.peers,
        quirks: plan.quirks,
        values: plan.values,
        traced_restart: choice.traced_restart,
        traced_env: choice.traced.env.into_keys().collect(),
        node_facts: choice.node_facts,
        instances: choice.instances,
    })
}

/// Selects the variables of a Slurm job that its steps need. They are stored with the run, so variables that may hold a secret, such as `SLURM_JWT`,
/// are excluded.
fn of_slurm(vars: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    vars.filter(|(name, _)| {
        name.starts_with("SLURM") && !may_hold_secret(name) && !is_withheld(name)
    })
    .collect()
}

/// Replaces the directories of an earlier attempt by new, empty ones. The working directory is kept if the run continues from a checkpoint.
fn make_directories(
    campaign: &CampaignDir,
    choice: &Choice,
    plan: &LaunchPlan,
    resumes: bool,
) -> Result<(), StoreError> {
    // the description with this directory's name is removed next; a directory of another user stays
    let _ = remove_all(&begun_tmp_dir(campaign, &choice.run.id));
    // only the reports of the earlier ranks' places are obsolete
    let in_work = match resumes {
        true => choice.run.work.join(RANKS),
        false => choice.run.work.clone(),
    };
    let flushed = choice.run.flush_dir.iter();
    for old in [&choice.run.dir, &in_work]
        .into_iter()
        .chain(flushed.clone().filter(|_| !resumes))
    {
        remove_all(old)?;
    }
    // do not create parents: if the campaign was moved meanwhile, nothing may appear at its old path
    fs::create_dir(&choice.run.dir).map_err(StoreError::io("make", &choice.run.dir))?;
    let ranks = plan
        .rank_scripts
        .first()
        .map(|_| choice.run.work.join(RANKS));
    let new = [choice.run.dir.join("inputs"), choice.run.work.clone()]
        .into_iter()
        .chain(choice.traced.dirs.iter().cloned())
        .chain(choice.traced_restart.dirs.iter().cloned())
        .chain(ranks)
        .chain(flushed.cloned());
    for new in new {
        fs::create_dir_all(&new).map_err(StoreError::io("make", &new))?;
    }
    Ok(())
}

/// Writes the scripts, the inputs, and the run's description.
fn write_files(
    choice: &Choice,
    plan: &LaunchPlan,
    context: &SiteContext,
    task: &Task,
) -> Result<(), RunError> {
    for (path, text) in &plan.rank_scripts {
        write(path, text)?;
    }
    for input in &plan.inputs {
        for place in [choice.run.dir.join("inputs"), choice.run.work.clone()] {
            let file = place.join(&input.name);
            write(&file, &input.content)?;
            if input.executable {
                fs::set_permissions(&file, PermissionsExt::from_mode(0o755))
                    .map_err(StoreError::io("make executable", &file))?;
            }
        }
    }
    // large inputs are not stored with every run, but their digests are
    for copy in &plan.copies {
        copy.copy_into(&choice.run.work)?;
    }
    write(
        &choice.run.dir.join(LAUNCH),
        render::render(Template::RUN_SCRIPT, &plan.values)?,
    )?;
    let mut description = json!({
        "run": choice.run.id.as_str(), "tmp": choice.run.tmp, "repeat": task.planned.repeat, "point": task.point, "descriptor": choice.run.app, "mpi": choice.install,
        "quirks": plan.quirks, "checkpoint": context.checkpoint.of(&task.point), "trace": TraceSettings { tracer: context.trace.of(&task.point) },
    });
    if let Some(kept) = &task.resume {
        description["resumed_from"] = json!(kept.attempt);
    }
    if !choice.environment.is_empty() {
        description["environment"] = json!(choice.environment);
    }
    if !plan.copies.is_empty() {
        description["sources"] = json!(plan.copies);
    }
    write(
        &choice.run.dir.join(DESCRIPTION),
        serde_json::to_vec_pretty(&description).unwrap_or_default(),
    )?;
    Ok(())
}

fn write(path: &Utf8Path, content: impl AsRef<[u8]>) -> Result<(), StoreError> {
    fs::write(path, content).map_err(StoreError::io("write", path))
}

/// Variable that tells a run's script that directories and inputs exist already.
const READY: &str = "CVC_READY";
/// File name of a run's script, in the run's directory.
pub(super) const LAUNCH: &str = "launch.sh";

/// Returns the job of a run's shepherd. The shepherd starts the launcher, or the run's script if the run needs one ([`LaunchPlan::scripted`]).
fn job(choice: &Choice, plan: &LaunchPlan, run: &RunSettings) -> Job {
    let dir = &choice.run.dir;
    let scripted = Job {
        argv: vec!["bash".into(), dir.join(LAUNCH).into_string()],
        env: script_env(&choice.run.used.marker)
            .into_iter()
            .chain([(READY.to_owned(), "1".to_owned())])
            .collect(),
        cwd: dir.clone().into(),
        private_dir: Some(choice.run.tmp.clone().into()),
        stdout: dir.join("stdout").into(),
        stderr: dir.join("stderr").into(),
        pid_file: dir.join(SHEPHERD).into(),
        exit_file: dir.join("exit.json").into(),
        timeout_s: run.timeout_s,
        max_output_bytes: run.max_output_mib << 20,
        ends_with_controller: true,
    };
    if plan.scripted {
        return scripted;
    }
    // without a shell, because its start would count as time of the run
    let own = [
        ("CVC_RUN".to_owned(), choice.run.used.marker.clone()),
        ("PWD".to_owned(), choice.run.work.to_string()),
    ];
    Job {
        argv: plan.command.clone(),
        env: plan.env.clone().into_iter().chain(own).collect(),
        cwd: choice.run.work.clone().into(),
        ..scripted
    }
}

/// Returns the environment of a run's script, with this marker.
fn script_env(marker: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("CVC_RUN".to_owned(), marker.to_owned()),
        // the environment is already minimal
        ("CVC_CLEAN".to_owned(), "1".to_owned()),
        (
            "PATH".to_owned(),
            std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into()),
        ),
    ])
}

impl Prepared {
    /// Returns the object that takes checkpoints in this run.
    pub fn session(&self) -> Box<dyn CheckpointRun + '_> {
        let context = SessionContext {
            run: &self.run,
            peers: self.peers,
            ssh_wrapper: self.request.ssh_wrapper(),
            keeps: self.keeps,
        };
        self.checkpointer
            .session(&self.checkpointer_install, context)
    }

    /// Returns the template values of the run's script.
    pub fn values(&self) -> &Value {
        &self.values
    }

    /// Returns the course of the run.
    pub fn course(&self) -> Course {
        let course = self.checkpointer.course(&self.run.plan);
        match self.resume {
            Some(_) => course.resumed(),
            None => course,
        }
    }

    /// Writes the script of a restart of the run, and returns its job.
    pub fn restart_job(&self, how: &ckpt::Restart, which: RestartNumber) -> Result<Job, RunError> {
        write(
            &self.run.dir.join(which.file("sh")),
            self.restart_script(how)?,
        )?;
        Ok(self.second_job(which))
    }

    /// Writes the script that continues the run of an earlier attempt, and returns its job. The script replaces the run's script under the same name,
    /// so that the run can be repeated manually from the checkpoint.
    pub fn resume_job(&self, how: &ckpt::Restart) -> Result<Job, RunError> {
        let script = self.run.dir.join(LAUNCH);
        write(&script, self.restart_script(how)?)?;
        Ok(Job {
            argv: vec!["bash".into(), script.to_string()],
            env: script_env(&self.run.used.marker),
            cwd: self.run.dir.clone().into(),
            // the script creates the private directory
            private_dir: None,
            ..self.job.clone()
        })
    }

    fn restart_script(&self, how: &ckpt::Restart) -> Result<String, RunError> {
        match how {
            ckpt::Restart::Script(text) => Ok(text.clone()),
            ckpt::Restart::Program(args) => self.program_again(args),
        }
    }

    /// Returns the script that restarts the program with these arguments.
    fn program_again(&self, args: &[String]) -> Result<String, RunError> {
        let mut launch = mpi::launch(&self.install, &self.request).argv;
        launch.extend(self.quirks.iter().flat_map(|q| q.args.iter().cloned()));
        if reports_ranks(&self.run) {
            let script = if self.run.used.transport == Transport::Local {
                RANK_SCRIPT
            } else {
                RESTARTED_RANK_SCRIPT
            };
            launch.extend(["sh".to_owned(), self.run.work.join(script).to_string()]);
        }
        let mut values = self.values.clone();
        let traced = &self.traced_restart;
        let (mut env, mut prefix) = (values["env"].take(), Vec::new());
        if let Some(entries) = env.as_array_mut() {
            // an untraced restart must not append to the run's trace
            entries.retain(|entry| {
                let name = entry["name"].as_str().unwrap_or_default();
                traced.env.contains_key(name) || !self.traced_env.contains(name)
            });
            for entry in entries {
                let name = entry["name"].as_str().unwrap_or_default();
                if let Some(value) = traced.env.get(name) {
                    entry["value"] = json!(value);
                }
            }
        }
        if self.run.used.transport == Transport::Local {
            prefix = traced.words_here();
            let rank_env = traced.rank_env.iter();
            launch.extend(
                rank_env.flat_map(|(name, value)| self.install.family.rank_env(name, value)),
            );
        }
        values["env"] = env;
        values["command"] = json!(wrap(&launch, &self.run.program, args));
        values["prefix"] = json!(prefix);
        Ok(render::render(Template::RUN_SCRIPT, &values)?)
    }

    /// Returns the job of a restart, whose script creates its directories itself.
    fn second_job(&self, which: RestartNumber) -> Job {
        let file = |suffix: &str| self.run.dir.join(which.file(suffix));
        Job {
            argv: vec!["bash".into(), file("sh").into_string()],
            env: script_env(&self.run.used.marker),
            cwd: self.run.dir.clone().into(),
            private_dir: None,
            stdout: file("stdout").into(),
            stderr: file("stderr").into(),
            pid_file: file("shepherd.json").into(),
            exit_file: file("exit.json").into(),
            ..self.job.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_slurm;

    #[test]
    fn no_secret_of_slurm_is_kept_with_a_run() {
        let vars = [
            "SLURM_JOB_ID",
            "SLURM_JWT",
            "SLURM_DB_PASSWORD",
            "SLURMD_TOKEN",
            "HOME",
        ]
        .map(|name| (name.to_owned(), "1".to_owned()));
        assert_eq!(
            of_slurm(vars.into_iter()).into_keys().collect::<Vec<_>>(),
            ["SLURM_JOB_ID"]
        );
    }
}
