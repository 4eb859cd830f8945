//! The runs of `cvc try`: a pilot run, a campaign with and without checkpoints, one restart, and runs with fewer processes.

use super::{
    descriptor::{Descriptor, Pilot},
    prepare::{Prepared, refused},
    runs::Read,
};
use crate::{
    command::{init::own::TrialRecord, temporary},
    exit_status::ExitStatus,
    failure::Failure,
    output::note,
    text::paragraph,
};
use camino::Utf8Path;
use cvc_controller::runner::Options;
use cvc_core::app::learn::{learn, try_pattern};
use cvc_core::campaign::{CheckpointSettings, RunSettings, Site, SmallCampaign, Spec};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{self, Plan};
use cvc_core::point::{CheckpointerKind, Moment};
use cvc_core::stop::StopSignal;
use cvc_core::store::CampaignDir;
use cvc_core::units::counted;
use cvc_engine::attempt::{Readiness, ReadySite, read_exit};
use cvc_engine::ckpt::quirks::{self, Situation};
use cvc_engine::transport::Transport;
use cvc_session::own_files::{FileWatch, guess};
use cvc_session::{Scratch, Trial, ask_sites};
use indexmap::IndexMap;
use std::time::Duration;

/// Time limit of one checkpoint, seconds.
const CHECKPOINT_S: f64 = 60.0;
/// Minimum computing time of a program that leaves room for a checkpoint, seconds.
const SHORT_S: f64 = 0.5;
/// Time budget for all runs together, seconds.
const WANTED_S: f64 = 55.0;
/// Time that a run takes in addition to its program, seconds: start and end of the checkpointer, the checkpoint, and the analysis of the checkpoint.
const BESIDE_S: f64 = 2.0;
/// Number of pieces of output from which cvc assumes that a program prints its lines without buffering.
const OFTEN: usize = 5;
/// Maximum number of lines shown of a failed run.
const SHOWN_LINES: usize = 6;
/// Maximum fraction of the run that may pass before the program's first output. Above it, a shell prints a line before it starts the program, because
/// checkpoint times count from the first output.
const LATE: f64 = 0.3;

/// Name of the campaign with the restart.
const RESTART: &str = "restart";
/// Name of the site of all campaigns of `cvc try`.
pub const SITE: &str = "local";

/// Number of repeats, and time limit of the program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub repeats: Option<u32>,
    pub timeout_s: f64,
}

/// What takes the checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    Dmtcp,
    /// The program itself, and why DMTCP cannot.
    Application {
        missing: String,
    },
}

/// The campaigns of one command, each with its outcome.
#[derive(Debug)]
pub struct Measured {
    pub pilot: Pilot,
    pub by: By,
    /// Known problems of the MPI library with DMTCP.
    pub hazards: Vec<String>,
    pub descriptor: Descriptor,
    /// The campaign with and without checkpoints.
    pub main: CampaignDir,
    /// Whether the main campaign has runs without checkpoints.
    pub has_baseline: bool,
    /// The campaign with the restart, or the reason why there is none.
    pub restart: Result<CampaignDir, String>,
    /// The campaign with fewer processes and their number, or the reason why there is none.
    pub fewer: Result<(CampaignDir, u32), String>,
}

/// Runs commands in one temporary directory.
pub struct Trier<'a> {
    pub scratch: &'a Scratch,
    pub base: &'a Options,
    pub interrupted: &'a StopSignal,
    pub limits: Limits,
    /// Prefix of the campaigns' names.
    pub prefix: &'a str,
}

impl Trier<'_> {
    /// Runs everything for one command.
    ///
    /// # Errors
    /// The command fails, ends too early, or neither DMTCP nor the program can take a checkpoint.
    pub async fn measure(&self, prepared: &Prepared) -> Result<Measured, Failure> {
        let mut descriptor = Descriptor::new(prepared);
        let DmtcpState { missing, hazards } = self.ask(prepared, &descriptor).await?;
        let pilot = self.pilot(prepared, &mut descriptor).await?;
        let by = match (missing, &pilot.own_files) {
            (None, _) => By::Dmtcp,
            (Some(missing), Some(own)) => {
                descriptor.own_files = Some(own.clone());
                By::Application { missing }
            }
            (Some(missing), None) => return Err(no_checkpointer(&missing)),
        };
        if by != By::Dmtcp && !pilot.ended {
            return Err(too_long(prepared, self.limits.timeout_s));
        }
        let kind = match by {
            By::Dmtcp => CheckpointerKind::Dmtcp,
            By::Application { .. } => CheckpointerKind::Application,
        };
        let has_baseline = pilot.ended && by == By::Dmtcp;
        let kinds: &[CheckpointerKind] = match has_baseline {
            true => &[CheckpointerKind::None, kind],
            false => std::slice::from_ref(&kind),
        };
        let repeats = self.repeats(&pilot, kinds.len());
        let run = |name: &str,
                   processes: u32,
                   kinds: &[CheckpointerKind],
                   repeats: u32,
                   moment: &Moment| Kind {
            name: format!("{}{name}", self.prefix),
            processes,
            kinds: kinds.to_vec(),
            repeats,
            restarts: name == RESTART,
            moment: moment.clone(),
            timeout_s: match pilot.ended {
                true => pilot.wall_s.mul_add(5.0, 30.0).ceil(),
                false => self.limits.timeout_s + CHECKPOINT_S,
            },
        };
        let moments = match by {
            By::Dmtcp => descriptor.moments(&pilot)?,
            By::Application { .. } => vec![Moment::SizeOnly],
        };
        // a run may end earlier than the pilot run did: then an earlier moment is tried
        let mut found = None;
        for (attempt, moment) in moments.iter().enumerate() {
            let name = match attempt {
                0 => "try".to_owned(),
                attempt => format!("try-{}", attempt + 1),
            };
            let of = run(&name, prepared.processes, kinds, repeats, moment);
            let trial = self.carry_out(prepared, &descriptor, &of).await?;
            let failure = failure(&trial, prepared, &pilot, &hazards)?;
            match failure {
                None => {
                    found = Some((trial, moment));
                    break;
                }
                Some(failure) if attempt + 1 == moments.len() || !failure.ended_before => {
                    return Err(failure.failure);
                }
                Some(_) => {}
            }
        }
        let Some((main, moment)) = found else {
            return Err(too_long(prepared, self.limits.timeout_s));
        };
        let restart = match (&by, pilot.ended) {
            (By::Dmtcp, true) => {
                let of = run(RESTART, prepared.processes, &[kind], 1, moment);
                Ok(self
                    .carry_out(prepared, &descriptor, &of)
                    .await?
                    .campaign()
                    .clone())
            }
            (By::Dmtcp, false) => Err(format!(
                "not tested: the command takes longer than {:.0} s (--timeout)",
                self.limits.timeout_s
            )),
            (By::Application { .. }, _) => {
                Err("not tested: unknown how the program restarts from its files".into())
            }
        };
        let mut fewer = Err("the command has only one process".to_owned());
        let mut is_first = true;
        for count in fewer_counts(prepared) {
            let of = run(&format!("{count}-processes"), count, &[kind], 1, moment);
            let trial = self.carry_out(prepared, &descriptor, &of).await?;
            match trial.outcome() {
                Some(Outcome::Failed { detail, .. }) if is_first => {
                    fewer = Err(format!(
                        "with {} it fails: {detail}",
                        counted(count, "process")
                    ));
                }
                Some(Outcome::Succeeded) => {
                    fewer = Ok((trial.campaign().clone(), count));
                    break;
                }
                Some(Outcome::Failed { .. }) | None => {}
            }
            is_first = false;
        }
        Ok(Measured {
            pilot,
            by,
            hazards,
            main: main.campaign().clone(),
            has_baseline,
            restart,
            fewer,
            descriptor,
        })
    }

    /// Checks this machine for the software that the command needs.
    async fn ask(
        &self,
        prepared: &Prepared,
        descriptor: &Descriptor,
    ) -> Result<DmtcpState, Failure> {
        let (spec, _) = self.campaign(prepared, descriptor, &Kind::pilot(self, prepared))?;
        let sites: IndexMap<_, _> = ask_sites(&spec, |_| Readiness::Look, |_| ()).await;
        let Some(site) = sites.get(SITE) else {
            return Ok(DmtcpState::default());
        };
        if let Some(Err(missing)) = site.mpi.get(&prepared.mpi) {
            return Err(Failure::Other {
                status: ExitStatus::Installation,
                message: missing.what.clone(),
                hint: Some(missing.hint.clone()),
            });
        }
        Ok(DmtcpState {
            missing: site
                .missing_driven_checkpointer()
                .map(|missing| missing.what.clone()),
            hazards: hazards(site, prepared),
        })
    }

    /// Runs the command once without a checkpoint, and derives facts about it from the output.
    async fn pilot(
        &self,
        prepared: &Prepared,
        descriptor: &mut Descriptor,
    ) -> Result<Pilot, Failure> {
        let kind = Kind::pilot(self, prepared);
        let campaigns = self.scratch.path().join("campaigns");
        let watch = FileWatch::start(CampaignDir::new(&campaigns, &kind.name));
        let trial = self.carry_out(prepared, descriptor, &kind).await?;
        let seen = watch.finish();
        let is_late = match trial.outcome() {
            Some(Outcome::Failed {
                cause: Cause::Timeout,
                ..
            }) => true,
            Some(Outcome::Failed { detail, .. }) => {
                show_words(&trial);
                return Err(Failure::Other {
                    status: ExitStatus::RunsFailed,
                    // the remaining lines of the detail are printed above
                    message: format!(
                        "the command failed: {}",
                        detail.split(": ").next().unwrap_or_default()
                    ),
                    hint: Some("it must succeed without checkpoints first; it ran in its own directory, with copies of the files here (docs/try.md)".into()),
                });
            }
            Some(Outcome::Succeeded) | None => trial.late.is_some(),
        };
        let wall_s = read_exit(&trial.directory()).map_or(0.0, |exit| exit.wall_s);
        let mut learned = learn(&trial.text("stdout"));
        // output in the first half does not show the end, and a line that verifies no result adds nothing to the exit code
        learned.success = learned
            .success
            .filter(|line| line.verifies && is_printed_late(&line.pattern, &trial.text("stdout")));
        descriptor.learned = learned;
        descriptor.prints_often = seen.outputs >= OFTEN;
        descriptor.tried = Some(TrialRecord {
            processes: prepared.processes,
            mpi: prepared.mpi.clone(),
            wall_s,
            on: jiff::Zoned::now().strftime("%-d %B %Y").to_string(),
            ended: !is_late,
        });
        let silent_s = match (trial.began(), seen.first_output) {
            (Some(began), Some(first)) => first.saturating_duration_since(began).as_secs_f64(),
            _ => wall_s,
        };
        descriptor.is_announced = silent_s > LATE * wall_s && silent_s > SHORT_S;
        descriptor.computes_s = match descriptor.is_announced {
            true => wall_s,
            false => wall_s - silent_s,
        };
        if !is_late {
            descriptor.keep_read_files(&trial.work());
        }
        let is_input = |path: &Utf8Path| {
            path == "hosts" || prepared.sources.iter().any(|source| source.path == *path)
        };
        Ok(Pilot {
            wall_s,
            ended: !is_late,
            own_files: guess(&seen, &is_input),
        })
    }

    /// Returns the number of repeats: the requested one, otherwise three if all runs then fit into [`WANTED_S`], otherwise two. `kinds` is the number
    /// of kinds of runs that are repeated.
    fn repeats(&self, pilot: &Pilot, kinds: usize) -> u32 {
        let each = pilot.wall_s + BESIDE_S;
        // the pilot run, the restart, and the run with fewer processes, which may take twice as long
        let others = 4.0 * each;
        let fit = (WANTED_S - others) / (each * kinds as f64);
        self.limits
            .repeats
            .unwrap_or(if fit >= 3.0 { 3 } else { 2 })
    }

    /// Returns a campaign whose runs are all of one kind.
    fn campaign(
        &self,
        prepared: &Prepared,
        descriptor: &Descriptor,
        kind: &Kind,
    ) -> Result<(Spec, Plan), Failure> {
        let campaign = SmallCampaign {
            name: kind.name.clone(),
            path: self
                .scratch
                .path()
                .join(format!("{}.toml", kind.name))
                .into(),
            site_name: SITE.into(),
            site: Site {
                app_dirs: vec![descriptor.directory()],
                mpi: IndexMap::from([(prepared.mpi.clone(), prepared.library.clone())]),
                ..Site::local()
            },
            app: descriptor.load()?,
            class: None,
            mapping: Mapping::one_node(kind.processes),
            mpi: vec![prepared.mpi.clone()],
            checkpointers: kind.kinds.clone(),
        };
        let spec = campaign.into_spec(|run, checkpoint| kind.adjust(run, checkpoint))?;
        let plan = plan::build(&spec);
        match plan.excluded.first().filter(|_| plan.runs.is_empty()) {
            Some(excluded) => Err(refused(
                format!("the command cannot be tested: {}", excluded.reason),
                "change the command",
            )),
            None => Ok((spec, plan)),
        }
    }

    async fn carry_out(
        &self,
        prepared: &Prepared,
        descriptor: &Descriptor,
        kind: &Kind,
    ) -> Result<Trial, Failure> {
        let (spec, plan) = self.campaign(prepared, descriptor, kind)?;
        let name = kind.describe();
        let each = 2.0 * kind.timeout_s + CHECKPOINT_S + 15.0;
        let limit = Duration::from_secs_f64(each * plan.runs.len() as f64);
        let trial = temporary::carry_out(
            (&spec, &plan),
            self.scratch,
            &name,
            self.base,
            limit,
            self.interrupted,
        )
        .await;
        if trial.is_interrupted {
            return Err(Failure::Other {
                status: ExitStatus::Interrupted,
                message: "stopped: the run was ended".into(),
                hint: None,
            });
        }
        match &trial.problem {
            Some(problem) => Err(refused(
                format!("the command cannot be tested: {problem}"),
                "`cvc doctor` shows the software of this machine",
            )),
            None => Ok(trial),
        }
    }
}

/// Whether DMTCP can be used on this machine.
#[derive(Default)]
struct DmtcpState {
    /// Why DMTCP cannot be used; `None` if it can.
    missing: Option<String>,
    hazards: Vec<String>,
}

/// Returns the known problems that DMTCP has with this version or device of the MPI library.
fn hazards(site: &ReadySite, prepared: &Prepared) -> Vec<String> {
    let checkpointer = site.checkpointer(CheckpointerKind::Dmtcp);
    let (Some(Ok(install)), Ok(checkpointer)) = (site.mpi.get(&prepared.mpi), checkpointer) else {
        return Vec::new();
    };
    let known = quirks::apply(&Situation {
        checkpointer: CheckpointerKind::Dmtcp,
        family: install.family,
        device: install.device.clone(),
        version: install.version.clone(),
        transport: Transport::Local,
        more_ranks_than_cores: prepared.processes > site.cores,
        nodes: 1,
        checkpointer_version: checkpointer.major_minor(),
    });
    let of_library = known
        .into_iter()
        .filter(|quirk| quirk.when.device.is_some() || quirk.when.version.is_some());
    of_library.filter_map(|quirk| quirk.note).collect()
}

/// The settings of a campaign of one kind of run.
struct Kind {
    name: String,
    processes: u32,
    kinds: Vec<CheckpointerKind>,
    repeats: u32,
    restarts: bool,
    moment: Moment,
    timeout_s: f64,
}

impl Kind {
    fn pilot(trier: &Trier<'_>, prepared: &Prepared) -> Self {
        Self {
            name: format!("{}first", trier.prefix),
            processes: prepared.processes,
            kinds: vec![CheckpointerKind::None],
            repeats: 1,
            restarts: false,
            moment: Moment::SizeOnly,
            timeout_s: trier.limits.timeout_s,
        }
    }

    fn adjust(&self, run: &mut RunSettings, checkpoint: &mut CheckpointSettings) {
        run.repeats = self.repeats;
        run.retries = 0;
        run.timeout_s = self.timeout_s;
        run.keep_outputs = self.kinds == [CheckpointerKind::None];
        checkpoint.restart_check = self.restarts;
        checkpoint.timeout_s = CHECKPOINT_S;
        checkpoint.moment = self.moment.clone();
    }

    /// Describes the kind of run for progress messages.
    fn describe(&self) -> String {
        let processes = counted(self.processes, "process");
        match (self.kinds.as_slice(), self.restarts) {
            ([CheckpointerKind::None], _) => format!("first run, {processes}"),
            (_, true) => format!("restart, {processes}"),
            _ => processes,
        }
    }
}

/// Returns smaller numbers of processes to try, in this order: half, a quarter, an eighth, one.
fn fewer_counts(prepared: &Prepared) -> Vec<u32> {
    let mut counts = Vec::new();
    if prepared.can_change {
        for divisor in [2, 4, 8, prepared.processes] {
            let count = prepared.processes / divisor;
            if count > 0 && !counts.contains(&count) {
                counts.push(count);
            }
        }
    }
    counts
}

fn no_checkpointer(missing: &str) -> Failure {
    Failure::Other {
        status: ExitStatus::Installation,
        message: format!(
            "no checkpointer works for this command: {missing}, and no files look like its own checkpoints"
        ),
        hint: Some(
            "install DMTCP (docs/dmtcp.md), or switch the program's own checkpoints on".into(),
        ),
    }
}

fn too_long(prepared: &Prepared, timeout_s: f64) -> Failure {
    Failure::Other {
        status: ExitStatus::NotEnough,
        message: format!("{} was ended after {timeout_s:.0} s", prepared.own.file),
        hint: Some("give it fewer steps, or more time: --timeout 10m".into()),
    }
}

/// Prints the last output of a failed command.
fn show_words(trial: &Trial) {
    let (stdout, stderr) = (trial.text("stdout"), trial.text("stderr"));
    let text = if stderr.trim().is_empty() {
        stdout
    } else {
        stderr
    };
    // rules around launchers' messages and repeated lines of ranks are left out
    let mut shown: Vec<&str> = Vec::new();
    for line in text
        .lines()
        .filter(|line| line.chars().any(char::is_alphanumeric))
    {
        if !shown.contains(&line) && shown.len() < SHOWN_LINES {
            shown.push(line);
        }
    }
    for line in shown {
        note(paragraph("  | ", line));
    }
}

/// Returns whether a pattern matches in the second half of an output only.
fn is_printed_late(pattern: &str, output: &str) -> bool {
    let lines: Vec<&str> = output.lines().collect();
    let (before, after) = lines.split_at(lines.len() / 2);
    let is_in = |lines: &[&str]| try_pattern(pattern, false, &lines.join("\n")).is_ok();
    is_in(after) && !is_in(before)
}

/// Why the runs with checkpoints failed.
struct RunsFailed {
    /// Whether the program ended before its checkpoint.
    ended_before: bool,
    failure: Failure,
}

/// Returns why no run took a checkpoint; `None` if one did.
fn failure(
    trial: &Trial,
    prepared: &Prepared,
    pilot: &Pilot,
    hazards: &[String],
) -> Result<Option<RunsFailed>, Failure> {
    let runs = Read::campaign(trial.campaign())?;
    if runs.has_checkpoint()? {
        return Ok(None);
    }
    let failed = runs.failures()?;
    let (cause, detail) = failed.first().cloned().unwrap_or_default();
    // a crash before the checkpoint has another cause
    let ended_before = cause == "checkpoint" && detail.contains("ended before");
    let file = &prepared.own.file;
    let (message, hint) = match ended_before {
        true => (
            format!(
                "{file} ended before its checkpoint: the program takes {:.1} s",
                pilot.wall_s
            ),
            "give it more steps or a larger problem",
        ),
        false => (
            format!(
                "no checkpoint of {file} was complete ({}): {cause}: {detail}",
                counted(failed.len(), "run")
            ),
            hazards.first().map_or(
                "`cvc doctor --probe` shows whether DMTCP works with this MPI library (docs/dmtcp.md)",
                String::as_str,
            ),
        ),
    };
    Ok(Some(RunsFailed {
        ended_before,
        failure: Failure::Other {
            status: ExitStatus::RunsFailed,
            message,
            hint: Some(hint.into()),
        },
    }))
}
