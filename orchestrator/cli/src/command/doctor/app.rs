//! `cvc doctor --app NAME`: runs the smallest workload of a descriptor with each MPI library, and says of each of its parts whether it fits.

use crate::command::temporary::{self, name_of};
use crate::{
    args::{DoctorArgs, Where},
    exit_status::ExitStatus,
    failure::Failure,
    machine::machine,
    text::paragraph,
};
use camino::Utf8Path;
use cvc_controller::runner::Options;
use cvc_core::app::{
    LoadedApp,
    descriptor::{Descriptor, illegal_count},
    load,
};
use cvc_core::campaign::{CheckpointSettings, Site, SiteKind, SmallCampaign, Spec};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{self, Plan};
use cvc_core::point::{CheckpointerKind, Moment};
use cvc_core::record::names;
use cvc_core::stop::StopSignal;
use cvc_engine::attempt::{Fit, FitItem, ReadySite, check_fit, read_exit};
use cvc_probe::shepherd::Exit;
use cvc_session::{Scratch, Trial};
use cvc_show::Table;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::{io::Write, time::Duration};

/// Time limit of the program, and again of its restart, seconds.
const RUN_S: u32 = 300;
/// Time limit of a checkpoint, seconds.
const CHECKPOINT_S: u32 = 60;
/// Time limit of a run with its restart.
const LIMIT: Duration = Duration::from_secs(2 * RUN_S as u64 + CHECKPOINT_S as u64 + 15);
/// The most processes that are looked through for the smallest legal number.
const MOST: u32 = 64;
/// A workload that takes at least this long on one core is long enough for a checkpoint in the middle, seconds.
const LONG_S: f64 = 3.0;

/// What keys of DMTCP's items begin with.
const DMTCP: &str = "dmtcp";

/// With these variables ranks that wait for a message give up their core, with Open MPI and with MPICH.
const YIELD: [(&str, &str); 2] = [
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"),
];

/// A descriptor, and where it came from.
pub(super) struct Subject {
    app: LoadedApp,
}

impl Subject {
    /// Finds the descriptor that the command line names: a file, or a name in `apps/` beside the campaign file (here, without one) and among
    /// those of cvc.
    ///
    /// # Errors
    /// When there is none, or it is wrong.
    pub(super) fn find(args: &DoctorArgs, name: &str) -> Result<Self, Failure> {
        let file = Utf8Path::new(name);
        let beside = args
            .file
            .as_deref()
            .or(args.target.as_deref().filter(|t| t.is_file()))
            .and_then(Utf8Path::parent);
        let beside = beside.unwrap_or(Utf8Path::new("")).join("apps");
        let embedded = cvc_core::app::embedded::directory()?;
        let (stem, dirs) = match (file.extension(), file.file_stem(), file.parent()) {
            (Some("toml"), Some(stem), Some(parent)) => {
                let parent = if parent.as_str().is_empty() {
                    Utf8Path::new(".")
                } else {
                    parent
                };
                (stem, vec![parent.into(), beside.into(), embedded])
            }
            _ => (name, vec![beside.into(), embedded]),
        };
        let Some(path) = load::find(stem, &dirs) else {
            let known = load::known(&dirs).join(", ");
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("there is no descriptor `{name}`"),
                hint: Some(format!(
                    "give its file, as in apps/{stem}.toml, or one of: {known}"
                )),
            });
        };
        Ok(Self {
            app: load::load(&path)?,
        })
    }

    fn descriptor(&self) -> &Descriptor {
        &self.app.descriptor
    }
}

/// What is run of it.
#[derive(Clone, Copy)]
struct Size<'a> {
    class: &'a str,
    processes: u32,
}

/// The smallest workload, or the one that was asked for.
fn smallest<'a>(app: &'a Descriptor, args: &'a DoctorArgs) -> Result<Size<'a>, Failure> {
    let wrong = |message: String, hint: String| Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: Some(hint),
    };
    let class = match &args.class {
        Some(class) if app.workloads.contains_key(class) => class.as_str(),
        Some(class) => {
            let known: Vec<&str> = app.workloads.keys().map(String::as_str).collect();
            return Err(wrong(
                format!("{} has no class `{class}`", app.name),
                format!("its classes: {}", known.join(", ")),
            ));
        }
        None => by_length(app)
            .first()
            .map(|(class, _)| *class)
            .unwrap_or_default(),
    };
    let processes = match args.processes {
        Some(processes) => processes,
        // more than one, as far as there is a choice
        None => (2..=MOST)
            .chain([1])
            .find(|n| illegal_count(&app.name, &app.processes, *n).is_none())
            .unwrap_or(app.processes.min),
    };
    match illegal_count(&app.name, &app.processes, processes) {
        Some(problem) => Err(wrong(problem, "give another number: --processes".into())),
        None => Ok(Size { class, processes }),
    }
}

/// Its workloads, with the seconds that they take on one core, the shortest first; those that do not tell come last.
fn by_length(app: &Descriptor) -> Vec<(&str, f64)> {
    let mut all: Vec<(&str, f64)> = app
        .workloads
        .iter()
        .map(|(name, w)| (name.as_str(), w.core_s.unwrap_or(f64::INFINITY)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// What was found with one library.
struct Examined {
    site: String,
    mpi: String,
    class: String,
    processes: u32,
    items: Vec<FitItem>,
    hint: Option<String>,
}

/// What was tried, and what could not be.
#[derive(Default)]
pub(super) struct Fitted {
    app: String,
    path: String,
    examined: Vec<Examined>,
    not_tried: Vec<(String, String)>,
    is_interrupted: bool,
}

/// Runs a descriptor's smallest workload with each library of each site of this machine.
///
/// # Errors
/// When the command line asks for what the descriptor does not have, or cvc does not find its own program.
pub(super) async fn fit(
    args: &DoctorArgs,
    subject: &Subject,
    spec: &Spec,
    sites: &IndexMap<String, ReadySite>,
) -> Result<Fitted, Failure> {
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let app = subject.descriptor();
    let size = smallest(app, args)?;
    let interrupted = temporary::listen();
    let mut fitted = Fitted {
        app: app.name.clone(),
        path: subject.app.path.display().to_string(),
        ..Fitted::default()
    };
    for (site, settings) in &spec.sites {
        let Some(ready) = sites.get(site).filter(|_| settings.kind == SiteKind::Local) else {
            fitted.not_tried.push((
                format!("site {site}"),
                "only sites of this machine are tried: run a campaign of one point there".into(),
            ));
            continue;
        };
        for (mpi, found) in ready
            .mpi
            .iter()
            .filter(|(mpi, _)| args.mpi.is_empty() || args.mpi.contains(mpi))
        {
            if let Err(missing) = found {
                fitted
                    .not_tried
                    .push((format!("MPI library {mpi}"), missing.to_string()));
                continue;
            }
            let try_one = Try {
                args,
                subject,
                spec,
                ready,
                site,
                settings,
                mpi,
                size,
                base: &base,
            };
            let Some(examined) = try_one.examine(&interrupted).await? else {
                fitted.is_interrupted = true;
                return Ok(fitted);
            };
            fitted.examined.push(examined);
        }
        for unknown in args.mpi.iter().filter(|mpi| !ready.mpi.contains_key(*mpi)) {
            fitted.not_tried.push((
                format!("MPI library {unknown}"),
                format!("the site {site} has none of this name"),
            ));
        }
    }
    Ok(fitted)
}

/// One library that is tried.
struct Try<'a> {
    args: &'a DoctorArgs,
    subject: &'a Subject,
    spec: &'a Spec,
    ready: &'a ReadySite,
    site: &'a str,
    settings: &'a Site,
    mpi: &'a str,
    size: Size<'a>,
    base: &'a Options,
}

impl Try<'_> {
    /// Every part of the descriptor; `None` if the user stopped it.
    async fn examine(&self, interrupted: &StopSignal) -> Result<Option<Examined>, Failure> {
        let Size { class, processes } = self.size;
        let app = self.subject.descriptor();
        let mut examined = Examined {
            site: self.site.to_owned(),
            mpi: self.mpi.to_owned(),
            class: class.to_owned(),
            processes,
            items: Vec::new(),
            hint: None,
        };
        let own = match app.checkpoint {
            Some(_) => CheckpointerKind::Application,
            None => CheckpointerKind::None,
        };
        let restarts = app.checkpoint.as_ref().is_some_and(|c| c.restartable);
        let (spec, plan) =
            self.campaign(class, own, |checkpoint| checkpoint.restart_check = restarts)?;
        let Some(planned) = plan.points.first() else {
            let reason = plan
                .excluded
                .first()
                .map(|excluded| excluded.reason.to_string())
                .unwrap_or_default();
            examined
                .items
                .push(FitItem::new("plan", Fit::Fails, reason));
            return Ok(Some(examined));
        };
        let point = &planned.point;
        let program = match self.ready.program(app, point) {
            Ok(program) => FitItem::new("program.names", Fit::Fits, program.to_string()),
            Err(missing) => {
                examined.hint = Some(missing.hint);
                examined
                    .items
                    .push(FitItem::new("program.names", Fit::Fails, missing.what));
                return Ok(Some(examined));
            }
        };
        examined.items.push(program);
        let name = format!("{} with {}, class {class}", app.name, self.mpi);
        let scratch = Scratch::new("cvc-doctor-")?;
        let campaign = (&spec, &plan);
        let trial =
            temporary::carry_out(campaign, &scratch, &name, self.base, LIMIT, interrupted).await;
        if trial.is_interrupted {
            return Ok(None);
        }
        let items = match &trial.problem {
            Some(problem) => vec![FitItem::new("start", Fit::Fails, problem)],
            None => {
                let mut items = vec![start(&trial)];
                let is_started = items[0].fit == Fit::Fits;
                let fits = check_fit(app, point, &trial.directory(), &trial.work());
                items.extend(fits.unwrap_or_else(|error| {
                    vec![FitItem::new("descriptor", Fit::Fails, error.to_string())]
                }));
                if !is_started {
                    // what a program that did not start did not print says nothing of its descriptor
                    items.truncate(1);
                }
                items.extend(own_restart(app, &trial));
                items.push(judged(&trial));
                items
            }
        };
        examined.items.extend(items);
        scratch.close()?;
        if examined.items.iter().all(|item| item.fit != Fit::Fails) {
            match self.dmtcp(interrupted).await? {
                Some(items) => examined.items.extend(items),
                None => return Ok(None),
            }
        }
        Ok(Some(examined))
    }

    /// A checkpoint by DMTCP and its restart; `None` if the user stopped it.
    async fn dmtcp(&self, interrupted: &StopSignal) -> Result<Option<Vec<FitItem>>, Failure> {
        let app = self.subject.descriptor();
        if let Some(missing) = self.ready.missing_driven_checkpointer() {
            return Ok(Some(vec![FitItem::new(
                "dmtcp",
                Fit::Unknown,
                missing.what.clone(),
            )]));
        }
        let longer = by_length(app)
            .into_iter()
            .find(|(_, seconds)| *seconds >= LONG_S)
            .or(by_length(app).last().copied());
        let class = match (&self.args.class, longer) {
            (Some(_), _) | (None, None) => self.size.class,
            (None, Some((class, _))) => class,
        };
        let moment = match app.progress {
            Some(_) => Moment::AfterStep(1),
            None => Moment::AtS(vec![0.2]),
        };
        let (spec, plan) = self.campaign(class, CheckpointerKind::Dmtcp, |checkpoint| {
            checkpoint.restart_check = true;
            checkpoint.moment = moment;
            checkpoint.timeout_s = f64::from(CHECKPOINT_S);
        })?;
        let name = format!("{} with {} and DMTCP, class {class}", app.name, self.mpi);
        let scratch = Scratch::new("cvc-doctor-")?;
        let campaign = (&spec, &plan);
        let trial =
            temporary::carry_out(campaign, &scratch, &name, self.base, LIMIT, interrupted).await;
        if trial.is_interrupted {
            return Ok(None);
        }
        let records = trial.records();
        let value = |name: &str| records.value(name);
        let failed = match (trial.outcome(), &trial.problem) {
            (Some(Outcome::Failed { cause, detail }), _) => {
                Some(format!("class {class}: {}: {detail}", name_of(*cause)))
            }
            (_, Some(problem)) => Some(problem.clone()),
            _ => trial.late.clone(),
        };
        let stored = value(names::CKPT_STORED_BYTES).zip(value(names::CKPT_LATENCY_S));
        let mut items = vec![match (stored, &failed) {
            (Some((bytes, seconds)), _) => FitItem::new(
                "dmtcp.checkpoint",
                Fit::Fits,
                format!("class {class}: {bytes} bytes in {seconds:.2} s"),
            ),
            // it was over before: what is too short says nothing of DMTCP
            (None, Some(failed)) if ended_by_itself(&trial) => {
                FitItem::new("dmtcp.checkpoint", Fit::Doubtful, failed)
            }
            (None, failed) => FitItem::new(
                "dmtcp.checkpoint",
                Fit::Fails,
                failed.as_deref().unwrap_or("no checkpoint was recorded"),
            ),
        }];
        items.push(match (value(names::RESTART_VERIFIED), failed) {
            (Some(verified), None) if verified > 0.0 => {
                let seconds = value(names::RESTART_TO_END_S).unwrap_or_default();
                FitItem::new(
                    "dmtcp.restart",
                    Fit::Fits,
                    format!("verified, {seconds:.1} s to the end"),
                )
            }
            (_, Some(failed)) if stored.is_some() => {
                FitItem::new("dmtcp.restart", Fit::Fails, failed)
            }
            _ => FitItem::new("dmtcp.restart", Fit::Unknown, "not reached"),
        });
        scratch.close()?;
        Ok(Some(items))
    }

    /// The campaign of one run: the site's programs and libraries, and a storage area of its own.
    fn campaign(
        &self,
        class: &str,
        checkpointer: CheckpointerKind,
        adjust: impl FnOnce(&mut CheckpointSettings),
    ) -> Result<(Spec, Plan), Failure> {
        let mut site = Site {
            storage: Site::local().storage,
            oversubscribe: true,
            ..self.settings.clone()
        };
        site.mpi.retain(|name, _| name == self.mpi);
        // no times are measured, and ranks that wait give up their core
        for library in site.mpi.values_mut() {
            for (name, value) in YIELD {
                library
                    .env
                    .entry(name.to_owned())
                    .or_insert_with(|| value.to_owned());
            }
        }
        let campaign = SmallCampaign {
            name: "doctor-app".into(),
            path: self.spec.path.clone(),
            site_name: self.site.to_owned(),
            site,
            app: self.subject.app.clone(),
            class: Some(class.to_owned()),
            mapping: Mapping::one_node(self.size.processes),
            mpi: vec![self.mpi.to_owned()],
            checkpointers: vec![checkpointer],
        };
        let spec = campaign.into_spec(|run, checkpoint| {
            run.repeats = 1;
            run.retries = 0;
            run.timeout_s = f64::from(RUN_S);
            run.keep_outputs = true;
            adjust(checkpoint);
        })?;
        let plan = plan::build(&spec);
        Ok((spec, plan))
    }
}

/// Whether the program started at all.
fn start(trial: &Trial) -> FitItem {
    match trial.ended() {
        Some((
            _,
            Outcome::Failed {
                cause: Cause::Launch,
                detail,
            },
        )) => FitItem::new("start", Fit::Fails, detail),
        Some((at, _)) => {
            let seconds = trial.began().map_or(0.0, |began| {
                at.saturating_duration_since(began).as_secs_f64()
            });
            FitItem::new("start", Fit::Fits, format!("the run took {seconds:.1} s"))
        }
        None => FitItem::new(
            "start",
            Fit::Fails,
            trial.late.as_deref().unwrap_or("the run has no end"),
        ),
    }
}

/// Whether the program of a run without a checkpoint ended by itself, without an error.
fn ended_by_itself(trial: &Trial) -> bool {
    let cause = match trial.outcome() {
        Some(Outcome::Failed { cause, .. }) => Some(*cause),
        Some(Outcome::Succeeded) | None => None,
    };
    is_too_short(cause, read_exit(&trial.directory()).as_ref())
}

/// Whether there is no checkpoint only because the program had ended well before.
fn is_too_short(cause: Option<Cause>, exit: Option<&Exit>) -> bool {
    cause == Some(Cause::Checkpoint)
        && exit.is_some_and(|exit| exit.code == Some(0) && exit.ended_by.is_none())
}

/// Whether it restarted from its own checkpoint, if the descriptor has one.
fn own_restart(app: &Descriptor, trial: &Trial) -> Option<FitItem> {
    let own = app.checkpoint.as_ref()?;
    if !own.restartable {
        let found =
            "the descriptor does not say how (checkpoint.restartable, command.restart_args)";
        return Some(FitItem::new("checkpoint.restartable", Fit::Unknown, found));
    }
    let records = trial.records();
    let value = |name: &str| records.value(name);
    Some(match value(names::RESTART_VERIFIED) {
        Some(verified) if verified > 0.0 => {
            let seconds = value(names::RESTART_TO_END_S).unwrap_or_default();
            FitItem::new(
                "checkpoint.restartable",
                Fit::Fits,
                format!("restarted and verified, {seconds:.1} s to the end"),
            )
        }
        Some(_) => FitItem::new(
            "checkpoint.restartable",
            Fit::Fails,
            "the restart was not verified",
        ),
        None => FitItem::new("checkpoint.restartable", Fit::Unknown, "not reached"),
    })
}

/// How cvc judges the run as a whole.
fn judged(trial: &Trial) -> FitItem {
    match trial.outcome() {
        Some(Outcome::Succeeded) => FitItem::new("run", Fit::Fits, "succeeded"),
        Some(Outcome::Failed { cause, detail }) => {
            FitItem::new("run", Fit::Fails, format!("{}: {detail}", name_of(*cause)))
        }
        None => FitItem::new(
            "run",
            Fit::Fails,
            trial.late.as_deref().unwrap_or("the run has no end"),
        ),
    }
}

impl Examined {
    /// Whether the descriptor fits.
    fn fits(&self) -> bool {
        self.items
            .iter()
            .all(|item| item.fit != Fit::Fails || item.key.starts_with(DMTCP))
    }

    /// Whether DMTCP does not work with the program.
    fn dmtcp_fails(&self) -> bool {
        self.items
            .iter()
            .any(|item| item.fit == Fit::Fails && item.key.starts_with(DMTCP))
    }

    /// What was run.
    fn title(&self, app: &str) -> String {
        let processes = if self.processes == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", self.processes)
        };
        format!(
            "{app} with {} on {}, class {}, {processes}",
            self.mpi, self.site, self.class
        )
    }
}

impl Fitted {
    /// The exit code.
    pub(super) fn status(&self) -> ExitStatus {
        let lacks = |e: &Examined| {
            e.items
                .iter()
                .any(|i| i.key == "program.names" && i.fit == Fit::Fails)
        };
        if self.is_interrupted {
            ExitStatus::Interrupted
        } else if self
            .examined
            .iter()
            .any(|e| (!e.fits() && !lacks(e)) || e.dmtcp_fails())
        {
            ExitStatus::RunsFailed
        } else if self.examined.is_empty() || self.examined.iter().any(lacks) {
            ExitStatus::Installation
        } else {
            ExitStatus::Done
        }
    }

    /// Shows a table for each library.
    pub(super) fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        for (number, examined) in self.examined.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let verdict = match (examined.fits(), examined.dmtcp_fails()) {
                (true, false) => "the descriptor fits",
                (true, true) => "the descriptor fits, but DMTCP fails",
                (false, _) => "the descriptor does not fit",
            };
            writeln!(out, "{}: {verdict}\n", examined.title(&self.app))?;
            let mut lines = Table::plain(["", "what", "found"]).wrap(&["found"]);
            for item in &examined.items {
                let mark = match item.fit {
                    Fit::Fits => "ok",
                    Fit::Doubtful => "??",
                    Fit::Fails => "--",
                    Fit::Unknown => "..",
                };
                lines.row([mark, &item.key, &item.found]);
            }
            writeln!(out, "{}", lines)?;
            if let Some(hint) = &examined.hint {
                writeln!(out, "{}", paragraph("  ", &format!("hint: {hint}")))?;
            }
        }
        if self.is_interrupted {
            writeln!(
                out,
                "stopped: the run under way was ended, and nothing of it is left"
            )?;
        }
        if !self.not_tried.is_empty() {
            writeln!(
                out,
                "{}not tried:",
                if self.examined.is_empty() { "" } else { "\n" }
            )?;
        }
        for (what, reason) in &self.not_tried {
            writeln!(out, "{}", paragraph("  ", &format!("{what}: {reason}")))?;
        }
        Ok(())
    }

    /// The same for scripts.
    pub(super) fn to_json(&self) -> Value {
        let tried = self.examined.iter().map(|e| {
            json!({ "site": e.site, "mpi": e.mpi, "class": e.class, "processes": e.processes, "fits": e.fits(), "items": e.items, "hint": e.hint })
        });
        let not_tried = self
            .not_tried
            .iter()
            .map(|(what, reason)| json!({ "what": what, "reason": reason }));
        json!({
            "app": self.app, "descriptor": self.path, "tried": tried.collect::<Vec<_>>(), "not_tried": not_tried.collect::<Vec<_>>(),
            "interrupted": self.is_interrupted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_too_short;
    use cvc_core::outcome::Cause;
    use cvc_probe::shepherd::Exit;

    #[test]
    fn only_a_program_that_ended_well_is_too_short_for_a_checkpoint() {
        let exit = |code: &str, ended_by: &str| -> Exit {
            let text = format!(
                r#"{{"code": {code}, "signal": null, "ended_by": {ended_by}, "wall_s": 1.0, "user_s": 1.0, "system_s": 1.0, "max_rss_kib": 1, "leftovers": 0}}"#
            );
            serde_json::from_str(&text).expect("an exit")
        };
        assert!(is_too_short(
            Some(Cause::Checkpoint),
            Some(&exit("0", "null"))
        ));
        assert!(
            !is_too_short(Some(Cause::Checkpoint), Some(&exit("139", "null"))),
            "it crashed under DMTCP"
        );
        assert!(
            !is_too_short(Some(Cause::Checkpoint), Some(&exit("null", "\"timeout\""))),
            "it hung under DMTCP"
        );
        assert!(!is_too_short(
            Some(Cause::Restart),
            Some(&exit("0", "null"))
        ));
        assert!(!is_too_short(Some(Cause::Checkpoint), None));
    }
}
