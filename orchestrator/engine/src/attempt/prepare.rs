//! Writes everything that a run needs before anything is started: scripts, host and hint files, inputs. [`Choice`] and [`LaunchPlan`]
//! decide what.

use super::{
    choice::Choice,
    launch_plan::{Ambient, LaunchPlan, RANK_SCRIPT, wrap},
    site::ReadySite,
};
use crate::{
    ckpt::{self, CheckpointRun, Checkpointer, SessionContext, quirks::Quirk},
    host::LocalHost,
    mpi::{self, LaunchRequest, MpiInstall},
    render::{self, Template},
    run::{
        DESCRIPTION, Nodes, RANKS, RunContext, RunError, SHEPHERD, SiteContext, Task,
        begun_tmp_dir, check_area,
    },
    transport::Transport,
};
use camino::Utf8Path;
use cvc_core::campaign::{RunSettings, TraceSettings};
use cvc_core::environment::{is_withheld, may_hold_secret};
use cvc_core::point::TracerKind;
use cvc_core::store::{CampaignDir, StoreError, remove_all};
use cvc_probe::sentinel::{InstanceFacts, Request};
use cvc_probe::shepherd::Job;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

/// A run that is ready to start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub run: RunContext,
    pub job: Job,
    pub request: LaunchRequest,
    pub install: MpiInstall,
    pub checkpointer: &'static dyn Checkpointer,
    pub checkpointer_install: ckpt::Install,
    /// Processes that its checkpointer must see before a checkpoint makes sense.
    pub peers: u32,
    pub quirks: Vec<Quirk>,
    /// Values for the restart script.
    values: Value,
    pub tracer: TracerKind,
    /// What the other nodes need first.
    pub elsewhere: Request,
    /// What the nodes of its ranks are like.
    pub node_facts: Vec<Value>,
    /// Which machines of a cloud they are.
    pub instances: Vec<InstanceFacts>,
}

/// Prepares a run: chooses what it is made of, plans its launch, and writes both into its new directory.
///
/// # Errors
/// When the site lacks something, the descriptor cannot be used, or a file cannot be written.
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
    make_directories(campaign, &choice, &plan)?;
    if site
        .context
        .site
        .storage
        .get(&task.point.storage)
        .is_some_and(|area| area.path.is_some())
    {
        check_area(&choice.run.work).map_err(RunError::Area)?;
    }
    write_files(&choice, &plan, context, task)?;
    Ok(Prepared {
        job: job(&choice, &plan, &context.run),
        elsewhere: plan.elsewhere(&choice),
        tracer: context.trace.of(&task.point),
        run: choice.run,
        request: plan.request,
        install: choice.install,
        checkpointer: choice.checkpointer,
        checkpointer_install: choice.checkpointer_install,
        peers: plan.peers,
        quirks: plan.quirks,
        values: plan.values,
        node_facts: choice.node_facts,
        instances: choice.instances,
    })
}

/// The variables of a Slurm job that its steps need. They are kept with the run, so that none that holds a secret, such as `SLURM_JWT`, is among
/// them.
fn of_slurm(vars: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    vars.filter(|(name, _)| {
        name.starts_with("SLURM") && !may_hold_secret(name) && !is_withheld(name)
    })
    .collect()
}

/// Replaces what an earlier attempt left by new, empty directories.
fn make_directories(
    campaign: &CampaignDir,
    choice: &Choice,
    plan: &LaunchPlan,
) -> Result<(), StoreError> {
    // before its name is forgotten; of another user there it is none of ours
    let _ = remove_all(&begun_tmp_dir(campaign, &choice.run.id));
    for old in [&choice.run.dir, &choice.run.work] {
        remove_all(old)?;
    }
    // not the directories above it: where the campaign was moved away meanwhile, nothing is made in its old place
    fs::create_dir(&choice.run.dir).map_err(StoreError::io("make", &choice.run.dir))?;
    let ranks = plan.rank_script.iter().map(|_| choice.run.work.join(RANKS));
    let new = [choice.run.dir.join("inputs"), choice.run.work.clone()]
        .into_iter()
        .chain(choice.traced.dirs.iter().cloned())
        .chain(ranks);
    for new in new {
        fs::create_dir_all(&new).map_err(StoreError::io("make", &new))?;
    }
    Ok(())
}

/// Writes the scripts, the inputs, and the description of the run.
fn write_files(
    choice: &Choice,
    plan: &LaunchPlan,
    context: &SiteContext,
    task: &Task,
) -> Result<(), RunError> {
    if let Some((path, text)) = &plan.rank_script {
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
    // what may be large is not kept with every run: its digest is
    for copy in &plan.copies {
        copy.copy_into(&choice.run.work)?;
    }
    write(
        &choice.run.dir.join(LAUNCH),
        render::render(Template::RUN_SCRIPT, &plan.values)?,
    )?;
    let mut description = json!({
        "run": choice.run.id.as_str(), "tmp": choice.run.tmp, "repeat": task.planned.repeat, "point": task.point, "descriptor": choice.run.app, "mpi": choice.install,
        "quirks": plan.quirks, "checkpoint": choice.run.checkpoint, "trace": TraceSettings { tracer: context.trace.of(&task.point) },
    });
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

/// Tells the script of a run that directories and inputs are made already.
const READY: &str = "CVC_READY";
/// Name of the script of a run, in its directory.
const LAUNCH: &str = "launch.sh";

/// The job of a run's shepherd: its command, or the script that does its checkpointer's part.
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
    // without a shell, whose start would count as time of the run
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

/// What a script of a run with this marker is started with.
fn script_env(marker: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("CVC_RUN".to_owned(), marker.to_owned()),
        // the environment is clean already
        ("CVC_CLEAN".to_owned(), "1".to_owned()),
        (
            "PATH".to_owned(),
            std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into()),
        ),
    ])
}

impl Prepared {
    /// Returns its checkpointer's part in it.
    pub fn session(&self) -> Box<dyn CheckpointRun + '_> {
        let context = SessionContext {
            run: &self.run,
            peers: self.peers,
            ssh_wrapper: self.request.ssh_wrapper(),
        };
        self.checkpointer
            .session(&self.checkpointer_install, context)
    }

    /// Returns the values of its script.
    pub fn values(&self) -> &Value {
        &self.values
    }

    /// Returns the job of its restart.
    pub fn restart_job(&self, how: &ckpt::Restart) -> Result<Job, RunError> {
        let text = match how {
            ckpt::Restart::Script(text) => text.clone(),
            ckpt::Restart::Program(args) => self.program_again(args)?,
        };
        let script = self.run.dir.join("restart.sh");
        write(&script, text)?;
        Ok(self.second_job(&script))
    }

    /// Returns the script that starts the program again, with these arguments.
    fn program_again(&self, args: &[String]) -> Result<String, RunError> {
        let mut launch = mpi::launch(&self.install, &self.request).argv;
        launch.extend(self.quirks.iter().flat_map(|q| q.args.iter().cloned()));
        if self.run.used.transport != Transport::Local {
            launch.extend(["sh".to_owned(), self.run.work.join(RANK_SCRIPT).to_string()]);
        }
        let mut values = self.values.clone();
        values["command"] = json!(wrap(&launch, &self.run.program, args));
        values["prefix"] = json!([]);
        Ok(render::render(Template::RUN_SCRIPT, &values)?)
    }

    /// The job of a script that makes its directories itself.
    fn second_job(&self, script: &Utf8Path) -> Job {
        Job {
            argv: vec!["bash".into(), script.to_string()],
            env: script_env(&self.run.used.marker),
            cwd: self.run.dir.clone().into(),
            private_dir: None,
            stdout: self.run.dir.join("restart.stdout").into(),
            stderr: self.run.dir.join("restart.stderr").into(),
            pid_file: self.run.dir.join("restart.shepherd.json").into(),
            exit_file: self.run.dir.join("restart.exit.json").into(),
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
