//! Derives a run's outcome and records from its files. The outcome depends on evidence, never on exit code 0 alone.

use super::{
    judge::{Evidence, Judge},
    noise,
    prepare::LAUNCH,
    setup::{SetupTimes, environment_commands},
};
use crate::{
    mpi::{self, IoEvidence},
    run::{
        Findings, RunContext, RunError, ScriptFailure, UsedFileSystem, numbers, own_words,
        stream_with, text, was_started,
    },
    transport::Transport,
};
use camino::Utf8Path;
use cvc_core::app::descriptor::{Figure, Take};
use cvc_core::campaign::Credits;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_core::units::counted;
use cvc_probe::sentinel::InstanceFacts;
use cvc_probe::shepherd::EndedBy;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    os::unix::fs::MetadataExt,
    sync::LazyLock,
};

/// Derives the outcome, the records and the facts of a run.
pub(super) fn collect(evidence: &Evidence<'_>) -> Result<(Outcome, Vec<Record>, Value), RunError> {
    let run = &evidence.prepared.run;
    let findings = Findings::new(run.id.clone());
    let mut judge = Judge {
        evidence,
        stdout: text(&run.dir.join("stdout")),
        stderr: text(&run.dir.join("stderr")),
        findings,
    };
    // a restarted program continues its output: join both parts
    let after = evidence
        .restarted()
        .map(|r| (r.stdout.as_str(), r.stderr.as_str()))
        .unwrap_or_default();
    let (stdout, stderr) = (
        format!("{}\n{}", judge.stdout, after.0),
        format!("{}\n{}", judge.stderr, after.1),
    );
    let seen = mpi::check_io(
        &evidence.prepared.install,
        &evidence.prepared.request,
        &mpi::LaunchOutput {
            stdout: &stdout,
            stderr: &stderr,
            writers: judge.writers(&stdout)?,
        },
    );
    if let Some(failure) = &evidence.cut_off {
        judge.fail(failure.cause, failure.detail.clone());
    }
    judge.disk();
    judge.script();
    judge.outside()?;
    judge.checkpoints()?;
    judge.end()?;
    judge.outputs()?;
    if !evidence.course.on_request {
        // files that a program writes by itself are measured after its end
        judge.measure_checkpoints()?;
    }
    judge.io(&seen);
    judge.ignored(&stdout)?;
    judge.threads(&stdout)?;
    judge.figures()?;
    judge.pages()?;
    judge.restarts()?;
    if let Some(failure) = &evidence.not_evaluated {
        judge.fail(failure.cause, failure.detail.clone());
    }
    judge.noise();
    judge.operations();
    let unknown_operations = judge.unknown_operations();
    evidence.session.keep_logs();
    let mut facts = facts(evidence, &seen);
    let Findings {
        records,
        failure,
        notes,
        ..
    } = judge.findings;
    if let Some(why) = unknown_operations {
        facts["operations_unknown"] = why.into();
    }
    if !notes.is_empty() {
        facts["series_gaps"] = notes.join("\n").into();
    }
    Ok((
        failure.map_or(Outcome::Succeeded, Outcome::from),
        records,
        facts,
    ))
}

impl Judge<'_> {
    fn writers(&self, stdout: &str) -> Result<Option<u64>, RunError> {
        let Some(pattern) = &self.evidence.prepared.run.app.io.writers else {
            return Ok(None);
        };
        let found = self
            .regex(pattern)?
            .captures_iter(stdout)
            .filter_map(|c| c.get(1)?.as_str().parse().ok())
            .last();
        Ok(found)
    }

    /// Checks for a full disk and for unlimited output, which explain every other failure.
    fn disk(&mut self) {
        let exits = || {
            self.evidence.exit.iter().chain(
                self.evidence
                    .restarts
                    .iter()
                    .filter_map(|r| r.exit.as_ref()),
            )
        };
        if exits().any(|exit| exit.disk_full) {
            let dir = self.evidence.prepared.run.dir.clone();
            self.fail(
                Cause::DiskFull,
                format!(
                    "no space left below {dir}: the end of its output was cut off to make room"
                ),
            );
        } else if exits().any(|exit| exit.ended_by == Some(EndedBy::Output)) {
            let mib = self.evidence.prepared.job.max_output_bytes >> 20;
            let detail = format!(
                "it wrote more than {mib} MiB to its standard output and error (run.max_output_mib); the rest is cut off"
            );
            self.fail(Cause::Output, detail);
        }
        let full = |text: &str| text.contains("No space left on device");
        if full(&self.stderr) || full(&self.stdout) {
            let (stderr, work) = (
                own_words(&self.stderr),
                self.evidence.prepared.run.work.clone(),
            );
            self.fail(
                Cause::DiskFull,
                format!("no space left below {work}: {stderr}"),
            );
        }
    }

    /// Checks whether the run's script failed before the program started: that is no failure of the program or its checkpoint.
    fn script(&mut self) {
        let dir = &self.evidence.prepared.run.dir;
        let code = self.evidence.exit.as_ref().and_then(|exit| exit.code);
        match ScriptFailure::find(dir, code) {
            Some(ScriptFailure::Setup) => {
                self.fail(
                    Cause::Launch,
                    format!(
                        "the run's directory could not be set up: {}",
                        self.message()
                    ),
                );
            }
            Some(ScriptFailure::Checkpointer) => {
                self.fail(Cause::Launch, self.evidence.session.start_failure())
            }
            Some(ScriptFailure::Environment) => {
                let message = self.message();
                let detail = format!("the environment could not be set up: {message}");
                self.fail(Cause::Launch, detail);
            }
            None => {}
        }
    }

    /// Returns the last lines of the run's errors, or of its output if there are no errors.
    fn message(&self) -> String {
        own_words(if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        })
    }

    /// Checks the time limit of the run, and its checkpoints.
    fn checkpoints(&mut self) -> Result<(), RunError> {
        if self.evidence.course.on_request {
            self.measure_checkpoints()?;
        }
        // if the run reached its time limit, messages of DMTCP are a consequence of that
        if self
            .evidence
            .exit
            .as_ref()
            .is_some_and(|exit| exit.ended_by == Some(EndedBy::Timeout))
        {
            let limit = self.evidence.prepared.job.timeout_s;
            self.fail(
                Cause::Timeout,
                format!("it did not end within {limit} s (run.timeout_s)"),
            );
        }
        if let Some(failure) = &self.evidence.halted {
            // if the program failed by itself, that is the reason why there was no checkpoint
            let own_end = self
                .evidence
                .exit
                .as_ref()
                .filter(|e| e.ended_by.is_none() && e.code != Some(0));
            match own_end {
                Some(exit) => {
                    let how = exit.code.map_or_else(
                        || exit.signal.clone().unwrap_or_default(),
                        |code| format!("exit code {code}"),
                    );
                    let message = own_words(&self.stderr);
                    self.fail(
                        Cause::Application,
                        format!("it ended before its checkpoint, {how}: {message}"),
                    );
                }
                None => self.fail(failure.cause, failure.detail.clone()),
            }
        }
        if self.evidence.course.on_request && self.evidence.session.taken() == 0 {
            self.fail(Cause::Checkpoint, "no checkpoint was taken");
        }
        Ok(())
    }

    fn measure_checkpoints(&mut self) -> Result<(), RunError> {
        let (session, stages) = (self.evidence.session, self.evidence.stages);
        session.measure(&self.stdout, stages, &mut self.findings)
    }

    /// Returns whether the run is ended on purpose after its checkpoint, without a restart.
    fn killed_early(&self) -> bool {
        self.evidence.course.cut_short
    }

    /// Returns whether the program's first output may be missing: because the program was ended early, or printed it in an earlier attempt.
    fn may_be_silent(&self) -> bool {
        self.killed_early() || self.evidence.prepared.resume.is_some()
    }

    fn end(&mut self) -> Result<(), RunError> {
        let Some(exit) = self.evidence.exit.clone() else {
            self.fail(
                Cause::NodeLost,
                "the process that supervises the run (its shepherd) was killed and left no exit status",
            );
            return Ok(());
        };
        if let Some(error) = &exit.start_error {
            self.fail(Cause::Launch, error.clone());
        }
        let setup = SetupTimes::read(&self.evidence.prepared.run.dir, LAUNCH);
        let earlier_s = self.resumed();
        if self.verifies() {
            self.record(
                names::WALL_S,
                earlier_s + (exit.wall_s - setup.wall_s).max(0.0),
                Unit::Seconds,
                Source::Clock,
                Some("exit.json"),
                &[],
            );
        }
        self.record(
            names::CPU_USER_S,
            (exit.user_s - setup.user_s).max(0.0),
            Unit::Seconds,
            Source::Kernel,
            Some("exit.json"),
            &[],
        );
        self.record(
            names::CPU_SYSTEM_S,
            (exit.system_s - setup.system_s).max(0.0),
            Unit::Seconds,
            Source::Kernel,
            Some("exit.json"),
            &[],
        );
        self.record(
            names::MAX_RSS_BYTES,
            exit.max_rss_kib as f64 * 1024.0,
            Unit::Bytes,
            Source::Kernel,
            Some("exit.json"),
            &[],
        );
        if !self.verifies() {
            // the program was ended on purpose after its checkpoint; had it ended by itself before, the missing checkpoint would be the failure
            return Ok(());
        }
        let evidence = self.evidence;
        let app = &evidence.prepared.run.app;
        match exit.code {
            // the exit code of a script that restarts images is no evidence, unlike the program's verification
            Some(_) if evidence.course.on_request && evidence.prepared.resume.is_some() => {}
            Some(code) if !app.success.exit_codes.contains(&code) => {
                // if the program printed nothing, and the launcher does not report having started it, the launch failed
                let cause = if self.stdout.trim().is_empty() && !was_started(&self.stderr) {
                    Cause::Launch
                } else {
                    Cause::Application
                };
                let message = self.message();
                let meaning = match code {
                    137 => {
                        " (as after SIGKILL, sent by a user, or by the kernel for lack of memory)"
                    }
                    143 => " (as after SIGTERM)",
                    _ => "",
                };
                self.fail(cause, format!("exit code {code}{meaning}: {message}"));
            }
            None => {
                let signal = exit.signal.as_deref().unwrap_or("a signal");
                let message = self.message();
                self.fail(Cause::Application, format!("ended by {signal}: {message}"));
            }
            Some(_) => {}
        }
        let (stdout, stderr) = (self.stdout.clone(), self.stderr.clone());
        self.verification((&stdout, &stderr), Cause::Application, "")
    }

    /// Records from which attempt the run continued. Returns the wall-clock time of its earlier parts, seconds.
    fn resumed(&mut self) -> f64 {
        let Some(kept) = &self.evidence.prepared.resume else {
            return 0.0;
        };
        let earlier_s = kept.wall_s;
        let labels = [
            ("earlier_s", format!("{earlier_s:.3}")),
            ("kept_bytes", kept.bytes.to_string()),
        ];
        let attempt = f64::from(kept.attempt);
        self.record(
            names::RESUMED_FROM,
            attempt,
            Unit::Count,
            Source::Clock,
            None,
            &labels,
        );
        if let Some(notice) = &kept.notice {
            let left = notice
                .left_s
                .map(|left_s| ("left_s", format!("{left_s:.1}")));
            let labels: Vec<_> = left.into_iter().collect();
            self.record(
                names::NOTICE_CKPT_S,
                notice.took_s,
                Unit::Seconds,
                Source::Clock,
                None,
                &labels,
            );
        }
        earlier_s
    }

    /// Checks the program's own verification, in its standard output or else in its standard error.
    pub(super) fn verification(
        &mut self,
        (output, stderr): (&str, &str),
        cause: Cause,
        where_: &str,
    ) -> Result<(), RunError> {
        let success = self.evidence.prepared.run.app.success.clone();
        if let Some(forbidden) = &success.forbid
            && let Some(found) = self.regex(forbidden)?.find(output)
        {
            self.fail(
                cause,
                format!("it printed `{}`{where_}", found.as_str().trim()),
            );
        }
        let pattern = self.regex(&success.pattern)?;
        if !pattern.is_match(stream_with(&pattern, (output, stderr))) {
            let message = own_words(output);
            self.fail(
                cause,
                format!("its output{where_} lacks `{}`: {message}", success.pattern),
            );
        }
        Ok(())
    }

    /// Checks whether files have the sizes that the program reports.
    fn outputs(&mut self) -> Result<(), RunError> {
        if !self.verifies() {
            return Ok(());
        }
        let evidence = self.evidence;
        for outputs in &evidence.outputs {
            let pattern = self.regex(&outputs.claim.size)?;
            let stdout = std::mem::take(&mut self.stdout);
            let message: Vec<&str> = pattern
                .captures_iter(&stdout)
                .filter_map(|c| Some(c.get(1)?.as_str()))
                .collect();
            let wrong = outputs.judge(&message);
            self.stdout = stdout;
            if let Some(name) = &outputs.claim.name {
                self.findings
                    .bytes(name, outputs.bytes() as f64, Source::FileSize, &[]);
            }
            if let Some(wrong) = wrong {
                self.fail(wrong.cause, wrong.detail);
            }
        }
        Ok(())
    }

    fn io(&mut self, seen: &IoEvidence) {
        if !seen.ignored.is_empty() {
            self.fail(Cause::SettingIgnored, seen.ignored.join("; "));
        }
        // a program that was ended after its first step may not have opened a file yet: only then is a missing report no failure
        if !seen.unseen.is_empty() && !self.may_be_silent() {
            self.fail(Cause::SettingIgnored, seen.unseen.join("; "));
        }
        if let Some(aggregators) = seen.aggregators {
            self.record(
                names::AGGREGATORS_EFFECTIVE,
                aggregators as f64,
                Unit::Count,
                Source::ApplicationOutput,
                Some("stdout"),
                &[],
            );
        }
        if let Some(bytes) = seen.cb_buffer {
            self.record(
                names::CB_BUFFER_EFFECTIVE,
                bytes as f64,
                Unit::Bytes,
                Source::ApplicationOutput,
                Some("stdout"),
                &[],
            );
        }
    }

    /// Checks whether the program says that a setting had no effect.
    fn ignored(&mut self, stdout: &str) -> Result<(), RunError> {
        let Some(pattern) = self.evidence.prepared.run.app.io.ignored.clone() else {
            return Ok(());
        };
        let pattern = self.regex(&pattern)?;
        if let Some(setting) = pattern.captures(stdout).and_then(|found| found.get(1)) {
            self.fail(Cause::SettingIgnored, setting.as_str().to_owned());
        }
        Ok(())
    }

    /// Checks the number of threads of each process, as the program reports it, and the cores that they may use.
    fn threads(&mut self, stdout: &str) -> Result<(), RunError> {
        let run = &self.evidence.prepared.run;
        let Some(requested) = run.point.threads() else {
            return Ok(());
        };
        if let Some(cores) = self.evidence.allowed_cores {
            let (unit, source) = (Unit::Count, Source::Kernel);
            self.record(names::CORES_ALLOWED, cores.into(), unit, source, None, &[]);
        }
        let Some(pattern) = run.app.processes.threads.clone() else {
            return Ok(());
        };
        let counts: Vec<u32> = self
            .regex(&pattern)?
            .captures_iter(stdout)
            .filter_map(|c| c.get(1)?.as_str().parse().ok())
            .collect();
        if let Some(wrong) = counts.iter().find(|count| **count != requested) {
            let had = counted(*wrong, "thread");
            self.fail(
                Cause::SettingIgnored,
                format!(
                    "{requested} threads requested for each process, but the program had {had}"
                ),
            );
        }
        match counts.last() {
            Some(count) => {
                let (unit, source) = (Unit::Count, Source::ApplicationOutput);
                let file = Some("stdout");
                self.record(names::THREADS_EFFECTIVE, (*count).into(), unit, source, file, &[]);
            }
            None if self.may_be_silent() => {}
            None => self.fail(
                Cause::SettingIgnored,
                format!("{requested} threads requested for each process, but the program does not report its threads (`{pattern}`)"),
            ),
        }
        Ok(())
    }

    fn figures(&mut self) -> Result<(), RunError> {
        if !self.verifies() {
            return Ok(());
        }
        for figure in self.evidence.prepared.run.app.figures.clone() {
            let pattern = self.regex(&figure.pattern)?;
            let stream = stream_with(&pattern, (&self.stdout, &self.stderr));
            let file = match std::ptr::eq(stream, self.stderr.as_str()) {
                true => "stderr",
                false => "stdout",
            };
            let values = match numbers(&pattern, stream) {
                Ok(values) => values,
                // no value is better than a wrong one, and a missing value must be reported
                Err(cut) => {
                    self.findings
                        .fail_by_cut_number(&figure.name, &figure.pattern, &cut);
                    continue;
                }
            };
            match taken(&figure, &values).map(|value| value * figure.scale) {
                // NaN and infinity are not measurements, and JSON cannot represent them
                Some(value) if !value.is_finite() && figure.required => {
                    self.fail(
                        Cause::Application,
                        format!(
                            "its output has no finite {}, but {value} (`{}`)",
                            figure.name, figure.pattern
                        ),
                    );
                }
                Some(value) if !value.is_finite() => {}
                Some(value) => self.record(
                    &figure.name,
                    value,
                    figure.unit,
                    Source::ApplicationOutput,
                    Some(file),
                    &[],
                ),
                None if figure.required => self.fail(
                    Cause::Application,
                    format!("its output has no {} (`{}`)", figure.name, figure.pattern),
                ),
                None => {}
            }
        }
        Ok(())
    }

    /// Records the program's report of the memory pages that it wrote.
    fn pages(&mut self) -> Result<(), RunError> {
        let Some(pages) = self.evidence.prepared.run.app.pages.clone() else {
            return Ok(());
        };
        if !self.verifies() {
            return Ok(());
        }
        for (key, pattern) in pages.patterns() {
            let (name, unit) = page_record(key);
            match numbers(&self.regex(pattern)?, &self.stdout) {
                Ok(values) => {
                    for (number, value) in (1u32..).zip(values) {
                        let labels = [("ckpt", number.to_string())];
                        let source = Source::ApplicationOutput;
                        self.record(name, value, unit, source, Some("stdout"), &labels);
                    }
                }
                Err(cut) => self.findings.fail_by_cut_number(name, pattern, &cut),
            }
        }
        Ok(())
    }
}

/// Returns the record's name and unit for a key of a descriptor's `pages`.
fn page_record(key: &str) -> (&'static str, Unit) {
    match key {
        "tracked" => (names::PAGES_TRACKED, Unit::Count),
        "written" => (names::PAGES_WRITTEN, Unit::Count),
        "changed" => (names::PAGES_CHANGED, Unit::Count),
        "changed_bytes" => (names::PAGES_CHANGED_BYTES, Unit::Bytes),
        "scan_s" => (names::PAGES_SCAN_S, Unit::Seconds),
        _ => (names::PAGES_COMPARE_S, Unit::Seconds),
    }
}

/// Selects one of several values, by the figure's `take`.
pub(super) fn taken(figure: &Figure, values: &[f64]) -> Option<f64> {
    match figure.take {
        Take::First => values.first().copied(),
        Take::Last => values.last().copied(),
        Take::Sum => (!values.is_empty()).then(|| values.iter().sum()),
        // `f64::max` would skip NaN
        Take::Max => values.iter().copied().reduce(|a, b| {
            if a.is_nan() {
                a
            } else if b.is_nan() {
                b
            } else {
                a.max(b)
            }
        }),
    }
}

/// Returns the arguments and variables of the run's application and class, by `APP.CLASS`. With these facts, results of campaigns that use the same
/// names for different arguments can be distinguished.
fn workload(run: &RunContext) -> Value {
    let (app, class) = (&run.app, &run.point.class);
    let mut of = serde_json::Map::new();
    of.insert("args".into(), json!(app.command.args.join(" ")));
    let workload = app.workload(class);
    for (name, value) in workload.iter().flat_map(|w| &w.vars) {
        of.insert(name.clone(), json!(value));
    }
    json!({ format!("{}.{class}", run.point.app): of })
}

fn facts(evidence: &Evidence<'_>, seen: &IoEvidence) -> Value {
    let prepared = evidence.prepared;
    let digest = program_digest(&prepared.run.program);
    let mut notes: Vec<&str> = prepared
        .quirks
        .iter()
        .filter_map(|q| q.note.as_deref())
        .collect();
    if evidence
        .context
        .site
        .cluster
        .as_ref()
        .is_some_and(|c| c.side_by_side)
    {
        notes.push("other points ran at the same time on the site (side_by_side = true), which may affect its times");
    }
    let wanted = evidence
        .context
        .site
        .ec2
        .as_ref()
        .and_then(|ec2| ec2.instances.credits);
    let credits = prepared
        .instances
        .iter()
        .find_map(|i| Credits::of(i.kind.as_deref()?, wanted));
    notes.extend(credits.map(Credits::remark));
    let mut facts = BTreeMap::from([
        ("cvc".to_owned(), json!(env!("CARGO_PKG_VERSION"))),
        ("mpi".into(), json!(prepared.install.describe())),
        ("mpiexec".into(), json!(prepared.install.mpiexec)),
        ("program".into(), json!(prepared.run.program)),
        ("program_digest".into(), json!(digest)),
        (
            "quirks".into(),
            json!(
                prepared
                    .quirks
                    .iter()
                    .map(|q| q.id.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        ),
        ("tracer".into(), json!(prepared.tracer)),
        ("workload".into(), workload(&prepared.run)),
    ]);
    let on_nodes = prepared
        .checkpointer
        .remark_on_nodes(&prepared.checkpointer_install)
        .filter(|_| prepared.run.used.several());
    notes.extend(on_nodes.as_ref().map(|(remark, _)| remark.as_str()));
    if !notes.is_empty() {
        facts.insert("notes".into(), json!(notes.join("\n")));
    }
    if let Some(kept) = &prepared.resume {
        facts.insert("resumed_from".into(), json!(kept.attempt));
    }
    if !prepared.environment.is_empty() {
        let commands = environment_commands(&prepared.environment).join("\n");
        facts.insert("environment".into(), json!(commands));
    }
    if !seen.unseen.is_empty() {
        facts.insert("io_not_seen".into(), json!(seen.unseen.join("; ")));
    }
    if !seen.unobservable.is_empty() {
        facts.insert(
            "io_not_observable".into(),
            json!(seen.unobservable.join("; ")),
        );
    }
    if !seen.selected.is_empty() {
        facts.insert("io_selected".into(), json!(seen.selected.join(", ")));
    }
    if let Some(version) = &prepared.checkpointer_install.version {
        facts.insert(prepared.checkpointer.name().into(), json!(version));
    }
    if !prepared.instances.is_empty() {
        facts.insert(
            "instance".into(),
            instance_facts(&prepared.instances, credits),
        );
    }
    facts.extend(
        noise::settings(evidence.noise, &prepared.run.used.ranks)
            .map(|settings| ("settings".to_owned(), settings)),
    );
    let file_system = prepared.run.used.file_system.as_ref();
    facts.extend(
        file_system
            .and_then(UsedFileSystem::facts)
            .map(|of| ("file_system".to_owned(), of)),
    );
    facts.insert("node".into(), node_facts());
    if prepared.run.used.transport != Transport::Local {
        facts.insert(
            "node_names".into(),
            json!(
                prepared
                    .run
                    .used
                    .ranks
                    .iter()
                    .map(|n| n.name.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        );
        facts.insert("nodes".into(), json!(prepared.node_facts));
    }
    json!(facts)
}

/// Returns facts about a run's cloud machines: a value that all machines share is listed once, other values in the order of the nodes.
fn instance_facts(instances: &[InstanceFacts], credits: Option<Credits>) -> Value {
    let values_of = |of: fn(&InstanceFacts) -> Option<&str>| {
        let mut values: Vec<&str> = instances
            .iter()
            .map(|i| of(i).unwrap_or("unknown"))
            .collect();
        values.dedup();
        values.join(" ")
    };
    let mut facts = json!({
        "type": values_of(|i| i.kind.as_deref()), "zone": values_of(|i| i.zone.as_deref()), "market": values_of(|i| i.market.as_deref()),
        "ids": values_of(|i| i.id.as_deref()),
    });
    if let Some(credits) = credits {
        facts["credits"] = json!(credits.as_str());
    }
    facts
}

/// Identifies the version of a file: device, inode, size, and time of the last change in seconds and nanoseconds.
type Version = (u64, u64, u64, i64, i64);

/// Returns the digest of a program. The digest is computed once for each version of the file: programs may be large, and most runs use the same one.
fn program_digest(program: &Utf8Path) -> String {
    static SEEN: LazyLock<Mutex<HashMap<Version, String>>> = LazyLock::new(Default::default);
    let Ok(of) = std::fs::metadata(program) else {
        return String::new();
    };
    let version = (of.dev(), of.ino(), of.len(), of.ctime(), of.ctime_nsec());
    if let Some(digest) = SEEN.lock().get(&version) {
        return digest.clone();
    }
    let Ok(content) = std::fs::read(program) else {
        return String::new();
    };
    let digest = cvc_core::ids::short_digest(&content);
    SEEN.lock().insert(version, digest.clone());
    digest
}

/// Returns facts about this machine, its kernel, processor and memory, which do not change while this process runs.
fn node_facts() -> Value {
    static FACTS: LazyLock<Value> = LazyLock::new(read_node_facts);
    FACTS.clone()
}

fn read_node_facts() -> Value {
    let first = |path: &str, key: &str| {
        std::fs::read_to_string(path).ok().and_then(|t| {
            t.lines().find_map(|l| {
                l.strip_prefix(key).map(|v| {
                    v.trim_matches(|c: char| c == ':' || c.is_whitespace() || c == '"' || c == '=')
                        .to_owned()
                })
            })
        })
    };
    json!({
        "host": cvc_core::paths::host_name(),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "cpu": first("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map(|n| n.get()).unwrap_or(0),
        "memory": first("/proc/meminfo", "MemTotal"),
        "os": first("/etc/os-release", "PRETTY_NAME"),
    })
}
