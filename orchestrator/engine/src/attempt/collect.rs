//! Turns what a run left into its outcome and its records. Evidence decides the outcome, never exit code 0 alone.

use super::{
    judge::{Evidence, Judge},
    noise,
    outside::shepherd_killed,
    restarted::Restarted,
};
use crate::{
    mpi::{self, IoEvidence},
    run::{
        Findings, RunContext, RunError, ScriptFailure, numbers, own_words, text, text_until,
        was_started,
    },
    transport::Transport,
};
use camino::Utf8Path;
use cvc_core::app::descriptor::{Figure, Take};
use cvc_core::campaign::{Credits, SiteKind};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_probe::sentinel::InstanceFacts;
use cvc_probe::shepherd::EndedBy;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    os::unix::fs::MetadataExt,
    sync::LazyLock,
};

/// Outcome, records and facts of a run.
pub(super) fn collect(evidence: &Evidence<'_>) -> Result<(Outcome, Vec<Record>, Value), RunError> {
    let run = &evidence.prepared.run;
    let findings = Findings::new(run.id.clone());
    let mut judge = Judge {
        evidence,
        stdout: text(&run.dir.join("stdout")),
        stderr: text(&run.dir.join("stderr")),
        findings,
    };
    // a restarted program continues its output: both parts together are its output
    let after = evidence
        .restarted
        .map(|r| (r.stdout.as_str(), r.stderr.as_str()))
        .unwrap_or_default();
    let (stdout, stderr) = (
        format!("{}\n{}", judge.stdout, after.0),
        format!("{}\n{}", judge.stderr, after.1),
    );
    let seen = mpi::check_io(
        &evidence.prepared.install,
        &evidence.prepared.request,
        &mpi::Output {
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
        // what a program writes itself is judged after its end
        judge.measure_checkpoints()?;
    }
    judge.io(&seen);
    judge.figures()?;
    judge.pages()?;
    judge.restart()?;
    if let Some(failure) = &evidence.not_evaluated {
        judge.fail(failure.cause, failure.detail.clone());
    }
    judge.noise();
    evidence.session.keep_logs();
    let mut facts = facts(evidence, &seen);
    let Findings {
        records,
        failure,
        notes,
        ..
    } = judge.findings;
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

    /// A full disk is the cause of whatever else went wrong; so is output without end.
    fn disk(&mut self) {
        let exits = || {
            self.evidence
                .exit
                .iter()
                .chain(self.evidence.restarted.and_then(|r| r.exit.as_ref()))
        };
        if exits().any(|exit| exit.disk_full) {
            let dir = self.evidence.prepared.run.dir.clone();
            self.fail(Cause::DiskFull, format!("no space left below {dir}, and its output had to make room: the end of it is cut off"));
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

    /// A run that could not begin is not a failure of the program or its checkpoint.
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
            None => {}
        }
    }

    /// The last words of the run: its errors, or its output if there are none.
    fn message(&self) -> String {
        own_words(if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        })
    }

    /// The time limit of the run, and its checkpoints.
    fn checkpoints(&mut self) -> Result<(), RunError> {
        if self.evidence.course.on_request {
            self.measure_checkpoints()?;
        }
        // what DMTCP says while the time limit ends a run follows from that
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
            // a program that failed by itself is the reason that there was no checkpoint
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

    /// Whether the run is killed for good after its checkpoint.
    fn killed_early(&self) -> bool {
        self.evidence.course.cut_short
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
        if self.verifies() {
            self.record(
                names::WALL_S,
                exit.wall_s,
                Unit::Seconds,
                Source::Clock,
                Some("exit.json"),
                &[],
            );
        }
        self.record(
            names::CPU_USER_S,
            exit.user_s,
            Unit::Seconds,
            Source::Kernel,
            Some("exit.json"),
            &[],
        );
        self.record(
            names::CPU_SYSTEM_S,
            exit.system_s,
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
            // killed after its checkpoint, on purpose; if it ended before by itself, there is no checkpoint and that is the failure
            return Ok(());
        }
        let app = &self.evidence.prepared.run.app;
        match exit.code {
            Some(code) if !app.success.exit_codes.contains(&code) => {
                // if the program printed nothing and the launcher does not say that it started it, the launcher failed
                let cause = if self.stdout.trim().is_empty() && !was_started(&self.stderr) {
                    Cause::Launch
                } else {
                    Cause::Application
                };
                let message = self.message();
                let meaning = match code {
                    137 => " (as after SIGKILL, by somebody or by the kernel for want of memory)",
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
        let stdout = self.stdout.clone();
        self.verification(&stdout, Cause::Application, "")
    }

    /// Checks what the application itself reports.
    fn verification(&mut self, output: &str, cause: Cause, where_: &str) -> Result<(), RunError> {
        let success = self.evidence.prepared.run.app.success.clone();
        if let Some(forbidden) = &success.forbid
            && let Some(found) = self.regex(forbidden)?.find(output)
        {
            self.fail(
                cause,
                format!("it printed `{}`{where_}", found.as_str().trim()),
            );
        }
        if !self.regex(&success.pattern)?.is_match(output) {
            let message = own_words(output);
            self.fail(
                cause,
                format!("its output{where_} lacks `{}`: {message}", success.pattern),
            );
        }
        Ok(())
    }

    /// Checks whether files hold what the program reports.
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
        // a program that was killed after its first step may not have opened a file yet: only then is silence no failure
        if !seen.unseen.is_empty() && !self.killed_early() {
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

    fn figures(&mut self) -> Result<(), RunError> {
        if !self.verifies() {
            return Ok(());
        }
        for figure in self.evidence.prepared.run.app.figures.clone() {
            let values = match numbers(&self.regex(&figure.pattern)?, &self.stdout) {
                Ok(values) => values,
                // a wrong number is worse than none, and none that nobody is told of is little better
                Err(cut) => {
                    self.findings
                        .fail_by_cut_number(&figure.name, &figure.pattern, &cut);
                    continue;
                }
            };
            match taken(&figure, &values).map(|value| value * figure.scale) {
                // NaN and infinity are not measurements, and JSON has no such numbers
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
                    Some("stdout"),
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

    /// What the program says of the pages that it wrote.
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

    fn restart(&mut self) -> Result<(), RunError> {
        let Some(restarted) = self.evidence.restarted else {
            if let Some(failure) = &self.evidence.not_restarted {
                self.fail(failure.cause, failure.detail.clone());
            }
            return Ok(());
        };
        let before = self.findings.failure.is_some();
        let output = restarted.stdout.clone();
        match &restarted.exit {
            None if self.evidence.context.site.kind == SiteKind::Local => {
                self.findings.failure.get_or_insert(shepherd_killed());
            }
            None => self.fail(Cause::Restart, "the restart's shepherd left no exit status"),
            Some(exit) => {
                self.printed_too_early(restarted)?;
                if exit.ended_by == Some(EndedBy::Timeout) {
                    self.fail(
                        Cause::Restart,
                        format!(
                            "the restarted program did not end within {} s",
                            self.evidence.prepared.job.timeout_s
                        ),
                    );
                }
                // the restart script's own exit code says little, unlike the program's verification
                self.verification(&output, Cause::Restart, " after the restart")?;
                self.record(
                    names::RESTART_TO_END_S,
                    exit.wall_s,
                    Unit::Seconds,
                    Source::Clock,
                    Some("restart.exit.json"),
                    &[],
                );
            }
        }
        if let Some(failure) = &mut self.findings.failure
            && !before
            && failure.cause == Cause::Restart
        {
            // the lines after an assertion are its backtrace
            let why = restarted.explained.clone().or_else(|| {
                (!restarted.stderr.trim().is_empty()).then(|| own_words(&restarted.stderr))
            });
            failure.detail.extend(why.map(|why| format!(" ({why})")));
        }
        let verified = if !before && self.findings.failure.is_none() {
            1.0
        } else {
            0.0
        };
        self.record(
            names::RESTART_VERIFIED,
            verified,
            Unit::Bool,
            Source::ApplicationOutput,
            Some("restart.stdout"),
            &[],
        );
        Ok(())
    }

    /// A program does not print again what it had printed before its checkpoint: if that was its result, a restart has nothing to verify. What
    /// it printed between its checkpoint and its end does not count, and a restart that failed visibly did so by itself. One that hangs at what is
    /// left, its end, is told beside.
    fn printed_too_early(&mut self, restarted: &Restarted) -> Result<(), RunError> {
        let evidence = self.evidence;
        let (None, Some((number, printed_bytes))) =
            (&restarted.explained, evidence.session.continues_from())
        else {
            return Ok(());
        };
        let success = &evidence.prepared.run.app.success;
        let pattern = self.regex(&success.pattern)?;
        let forbidden = match &success.forbid {
            Some(forbidden) => self.regex(forbidden)?.is_match(&restarted.stdout),
            None => false,
        };
        let before = text_until(&evidence.prepared.run.dir.join("stdout"), printed_bytes);
        if !forbidden && !pattern.is_match(&restarted.stdout) && pattern.is_match(&before) {
            let pattern = &success.pattern;
            let hung = restarted
                .exit
                .as_ref()
                .is_some_and(|exit| exit.ended_by == Some(EndedBy::Timeout));
            let hung = if hung {
                format!(
                    ", which did not end within {} s,",
                    evidence.prepared.job.timeout_s
                )
            } else {
                String::new()
            };
            self.fail(
                Cause::Checkpoint,
                format!(
                    "the program had printed its result (`{pattern}`) before checkpoint {number} was whole, so that its restart{hung} has nothing to \
                     verify: choose an earlier moment, or a larger workload or more steps"
                ),
            );
        }
        Ok(())
    }
}

/// The record of a key of a descriptor's `pages`.
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

/// The one of several values that a figure takes.
pub(super) fn taken(figure: &Figure, values: &[f64]) -> Option<f64> {
    match figure.take {
        Take::First => values.first().copied(),
        Take::Last => values.last().copied(),
        Take::Sum => (!values.is_empty()).then(|| values.iter().sum()),
        // max itself would pass over NaN
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

/// What the names of the application and its class stand for: arguments and variables, by `APP.CLASS`, so that campaigns in which equal names mean
/// different things can be told apart.
fn workload(run: &RunContext) -> Value {
    let (app, class) = (&run.app, &run.point.class);
    let mut of = serde_json::Map::new();
    of.insert("args".into(), json!(app.command.args.join(" ")));
    let vars = app.workloads.get(class).map(|w| &w.vars);
    for (name, value) in vars.into_iter().flatten() {
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

/// Facts of a run's cloud machines: equal values once, others in the order of the nodes.
fn instance_facts(instances: &[InstanceFacts], credits: Option<Credits>) -> Value {
    let told = |of: fn(&InstanceFacts) -> Option<&str>| {
        let mut values: Vec<&str> = instances
            .iter()
            .map(|i| of(i).unwrap_or("unknown"))
            .collect();
        values.dedup();
        values.join(" ")
    };
    let mut facts = json!({
        "type": told(|i| i.kind.as_deref()), "zone": told(|i| i.zone.as_deref()), "market": told(|i| i.market.as_deref()),
        "ids": told(|i| i.id.as_deref()),
    });
    if let Some(credits) = credits {
        facts["credits"] = json!(credits.as_str());
    }
    facts
}

/// What tells whether a file has changed: device, inode, size, and time of the last change with its nanoseconds.
type Version = (u64, u64, u64, i64, i64);

/// Digest of a program, read once for each version of the file: it may be large, and is the same in most runs.
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

/// Kernel, processor, memory of this machine, which do not change while this process lives.
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
