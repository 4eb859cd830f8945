//! `cvc doctor --app NAME`: runs the smallest workload of a descriptor with each MPI library, and reports which parts of the descriptor fit.

use crate::command::temporary::{self, name_of};
use crate::{
    args::{DoctorArgs, Where},
    exit_status::ExitStatus,
    failure::Failure,
    machine::machine,
    text::paragraph,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::runner::Options;
use cvc_core::app::{
    LoadedApp,
    descriptor::{Descriptor, illegal_count},
    load,
};
use cvc_core::campaign::{CheckpointSettings, Site, SiteKind, SmallCampaign, Spec};
use cvc_core::checkpointer::Driven;
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::paths::make_absolute;
use cvc_core::plan::{self, Plan};
use cvc_core::point::{CheckpointerKind, Moment};
use cvc_core::record::names;
use cvc_core::stop::StopSignal;
use cvc_core::units::counted;
use cvc_engine::attempt::{Fit, FitItem, ReadySite, check_fit, read_exit};
use cvc_probe::shepherd::Exit;
use cvc_session::{Scratch, Trial};
use cvc_show::Table;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::{io::Write, time::Duration};

/// Time limit of the program, and separately of its restart, seconds.
const RUN_S: u32 = 300;
/// Time limit of a checkpoint, seconds.
const CHECKPOINT_S: u32 = 60;
/// Time limit of a run with its restart.
const LIMIT: Duration = Duration::from_secs(2 * RUN_S as u64 + CHECKPOINT_S as u64 + 15);
/// Upper bound of the search for the smallest number of processes that the descriptor allows.
const MAX_PROCESSES: u32 = 64;
/// Minimum time on one core, seconds, of the workload for trials with a checkpoint. If all workloads are shorter, the longest one is used.
const LONG_S: f64 = 3.0;

/// Variables that make ranks yield their core while they wait for a message: for Open MPI and for MPICH.
const YIELD: [(&str, &str); 2] = [
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"),
];

/// A descriptor, and the file that it was read from.
pub(super) struct Subject {
    app: LoadedApp,
    /// Path of the descriptor; `None` if the command line does not name its file.
    file: Option<Utf8PathBuf>,
}

impl Subject {
    /// Finds the descriptor that the command line names: by its file, or by its name among the descriptors in `apps/` and those that cvc includes.
    /// The directory `apps/` is next to the campaign file, or in the current directory if no campaign file is given.
    ///
    /// # Errors
    /// The descriptor does not exist or is invalid.
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
        let is_file = file.extension() == Some("toml") && file.is_file();
        Ok(Self {
            app: load::load(&path)?,
            file: is_file.then(|| file.to_owned()),
        })
    }

    /// Returns directories to search for the program, in addition to the site's: the descriptor's directory, and its parent if the descriptor is in
    /// `apps/`. Returns none if the command line does not name the descriptor's file.
    pub(super) fn directories(&self) -> Vec<Utf8PathBuf> {
        let Some(parent) = self.file.as_deref().and_then(Utf8Path::parent) else {
            return Vec::new();
        };
        let own = make_absolute(parent.to_owned());
        let above = own.parent().filter(|_| own.file_name() == Some("apps"));
        above
            .map(Utf8Path::to_owned)
            .into_iter()
            .chain([own.clone()])
            .collect()
    }

    fn descriptor(&self) -> &Descriptor {
        &self.app.descriptor
    }
}

/// Workload class and number of processes of the trial.
#[derive(Clone, Copy)]
struct Size<'a> {
    class: &'a str,
    processes: u32,
}

/// Returns the requested workload, by default the smallest one.
fn smallest<'a>(app: &'a Descriptor, args: &'a DoctorArgs) -> Result<Size<'a>, Failure> {
    let wrong = |message: String, hint: String| Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: Some(hint),
    };
    let class = match &args.class {
        Some(class) => {
            let known = app.workload(class);
            known.map_err(|why| wrong(why.message, why.hint.unwrap_or_default()))?;
            class.as_str()
        }
        None => by_length(app)
            .first()
            .map(|(class, _)| *class)
            .unwrap_or_default(),
    };
    let processes = match args.processes {
        Some(processes) => processes,
        // more than one process, if the descriptor allows it
        None => (2..=MAX_PROCESSES)
            .chain([1])
            .find(|n| illegal_count(&app.name, &app.processes, *n).is_none())
            .unwrap_or(app.processes.min),
    };
    match illegal_count(&app.name, &app.processes, processes) {
        Some(problem) => Err(wrong(
            problem,
            "give another number with --processes".into(),
        )),
        None => Ok(Size { class, processes }),
    }
}

/// Returns the workloads with their time on one core in seconds, shortest first. A workload without a time comes last, with infinity.
fn by_length(app: &Descriptor) -> Vec<(&str, f64)> {
    let mut all: Vec<(&str, f64)> = app
        .workloads
        .iter()
        .map(|(name, w)| (name.as_str(), w.core_s.unwrap_or(f64::INFINITY)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// Results with one MPI library.
struct LibraryFit {
    site: String,
    mpi: String,
    class: String,
    processes: u32,
    items: Vec<FitItem>,
    hint: Option<String>,
}

/// Results of all trials, and combinations that could not be tried.
#[derive(Default)]
pub(super) struct AppReport {
    app: String,
    path: String,
    examined: Vec<LibraryFit>,
    not_tried: Vec<(String, String)>,
    is_interrupted: bool,
}

/// Runs the descriptor's smallest workload with each MPI library of each site on this machine.
///
/// # Errors
/// The command line requests a part that the descriptor lacks, or cvc cannot find its own program.
pub(super) async fn fit(
    args: &DoctorArgs,
    subject: &Subject,
    spec: &Spec,
    sites: &IndexMap<String, ReadySite>,
) -> Result<AppReport, Failure> {
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let app = subject.descriptor();
    let size = smallest(app, args)?;
    let interrupted = temporary::listen();
    let mut fitted = AppReport {
        app: app.name.clone(),
        path: subject.app.path.display().to_string(),
        ..AppReport::default()
    };
    for (site, settings) in &spec.sites {
        let Some(ready) = sites.get(site).filter(|_| settings.kind == SiteKind::Local) else {
            fitted.not_tried.push((
                format!("site {site}"),
                "only sites on this machine can be tried; run a campaign of one point there".into(),
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
                format!("the site {site} has no library of this name"),
            ));
        }
    }
    Ok(fitted)
}

/// A trial of the descriptor with one MPI library.
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
    /// Checks every part of the descriptor. Returns `None` if the user stopped the trial.
    async fn examine(&self, interrupted: &StopSignal) -> Result<Option<LibraryFit>, Failure> {
        let Size { class, processes } = self.size;
        let app = self.subject.descriptor();
        let mut examined = LibraryFit {
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
                    // the missing output of a program that did not start does not show an error of its descriptor
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
            for (kind, driven) in CheckpointerKind::all_driven() {
                match self.driven(kind, driven, interrupted).await? {
                    Some(items) => examined.items.extend(items),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(examined))
    }

    /// Runs the program under a checkpointer, takes a checkpoint, and restarts the program from it. Returns `None` if the user stopped the trial.
    async fn driven(
        &self,
        kind: CheckpointerKind,
        driven: Driven,
        interrupted: &StopSignal,
    ) -> Result<Option<Vec<FitItem>>, Failure> {
        let item = |part: &str, fit, found: &str| FitItem::new(format!("{kind}{part}"), fit, found);
        let app = self.subject.descriptor();
        if let Err(missing) = self.ready.checkpointer(kind) {
            return Ok(Some(vec![item("", Fit::Unknown, &missing.what)]));
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
        let (spec, plan) = self.campaign(class, kind, |checkpoint| {
            checkpoint.restart_check = true;
            checkpoint.moment = moment;
            checkpoint.timeout_s = f64::from(CHECKPOINT_S);
        })?;
        let title = driven.title;
        let name = format!("{} with {} and {title}, class {class}", app.name, self.mpi);
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
            (Some((bytes, seconds)), _) => item(
                ".checkpoint",
                Fit::Fits,
                &format!("class {class}: {bytes} bytes in {seconds:.2} s"),
            ),
            // the program ended before its checkpoint, which does not show an error of the checkpointer
            (None, Some(failed)) if ended_by_itself(&trial) => {
                item(".checkpoint", Fit::Doubtful, failed)
            }
            (None, failed) => item(
                ".checkpoint",
                Fit::Fails,
                failed.as_deref().unwrap_or("no checkpoint was recorded"),
            ),
        }];
        items.push(match (value(names::RESTART_VERIFIED), failed) {
            (Some(verified), None) if verified > 0.0 => {
                let seconds = value(names::RESTART_TO_END_S).unwrap_or_default();
                item(
                    ".restart",
                    Fit::Fits,
                    &format!("verified, {seconds:.1} s to the end"),
                )
            }
            (_, Some(failed)) if stored.is_some() => item(".restart", Fit::Fails, &failed),
            _ => item(".restart", Fit::Unknown, "not reached"),
        });
        scratch.close()?;
        Ok(Some(items))
    }

    /// Returns a campaign of one run: with the site's programs and libraries, and a separate storage area.
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
        // no times are measured here, so ranks that wait may yield their core
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

/// Reports whether the program started.
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

/// Returns whether the run has no checkpoint because its program ended without an error before the checkpoint was taken.
fn ended_by_itself(trial: &Trial) -> bool {
    let cause = match trial.outcome() {
        Some(Outcome::Failed { cause, .. }) => Some(*cause),
        Some(Outcome::Succeeded) | None => None,
    };
    is_too_short(cause, read_exit(&trial.directory()).as_ref())
}

/// Returns whether a checkpoint failed although the program exited with code 0 and was not killed.
fn is_too_short(cause: Option<Cause>, exit: Option<&Exit>) -> bool {
    cause == Some(Cause::Checkpoint)
        && exit.is_some_and(|exit| exit.code == Some(0) && exit.ended_by.is_none())
}

/// Reports whether the program restarted from its own checkpoint. Returns `None` if the descriptor describes no checkpoint of the program.
fn own_restart(app: &Descriptor, trial: &Trial) -> Option<FitItem> {
    let own = app.checkpoint.as_ref()?;
    if !own.restartable {
        let found = "the descriptor gives no restart command (checkpoint.restartable, command.restart_args)";
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

/// Reports the outcome of the whole run.
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

/// Returns the checkpointer that an item is about; `None` for an item about the program.
fn driven_of(item: &FitItem) -> Option<Driven> {
    CheckpointerKind::driven_of_word(item.key.split('.').next()?)
}

impl LibraryFit {
    /// Returns whether the descriptor fits. Failures of checkpointers do not count.
    fn fits(&self) -> bool {
        self.items
            .iter()
            .all(|item| item.fit != Fit::Fails || driven_of(item).is_some())
    }

    /// Returns the first checkpointer that fails with the program.
    fn failing(&self) -> Option<Driven> {
        let failing = self.items.iter().filter(|item| item.fit == Fit::Fails);
        failing.filter_map(driven_of).next()
    }

    /// Returns the title of the trial: program, library, site, class, processes.
    fn title(&self, app: &str) -> String {
        let processes = counted(self.processes, "process");
        format!(
            "{app} with {} on {}, class {}, {processes}",
            self.mpi, self.site, self.class
        )
    }
}

impl AppReport {
    /// Returns the exit code of the command.
    pub(super) fn status(&self) -> ExitStatus {
        let lacks = |e: &LibraryFit| {
            e.items
                .iter()
                .any(|i| i.key == "program.names" && i.fit == Fit::Fails)
        };
        if self.is_interrupted {
            ExitStatus::Interrupted
        } else if self
            .examined
            .iter()
            .any(|e| (!e.fits() && !lacks(e)) || e.failing().is_some())
        {
            ExitStatus::RunsFailed
        } else if self.examined.is_empty() || self.examined.iter().any(lacks) {
            ExitStatus::Installation
        } else {
            ExitStatus::Done
        }
    }

    /// Prints a table for each library.
    pub(super) fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        for (number, examined) in self.examined.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let verdict = match (examined.fits(), examined.failing()) {
                (true, None) => "the descriptor fits".to_owned(),
                (true, Some(of)) => format!("the descriptor fits, but {} fails", of.title),
                (false, _) => "the descriptor does not fit".to_owned(),
            };
            writeln!(out, "{}: {verdict}\n", examined.title(&self.app))?;
            let mut lines = Table::plain(["", "item", "found"]).wrap(&["found"]);
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
            writeln!(out, "stopped: the current run was ended and removed")?;
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

    /// Returns the same results as JSON.
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
