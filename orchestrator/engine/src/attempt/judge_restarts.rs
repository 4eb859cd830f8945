//! Checks the restarts of a run: whether each restarted program continued where its checkpoint was taken, and whether the last restarted program
//! verified its result.

use super::{judge::Judge, outside::shepherd_killed, restarted::Restarted, setup::SetupTimes};
use crate::run::{Label, RestartNumber, RunError, own_words, text_until};
use cvc_core::campaign::SiteKind;
use cvc_core::outcome::Cause;
use cvc_core::record::{Source, Unit, names};
use cvc_probe::shepherd::EndedBy;

impl Judge<'_> {
    /// Checks all restarts, and records their times.
    pub(super) fn restarts(&mut self) -> Result<(), RunError> {
        let evidence = self.evidence;
        let before = self.findings.failure.is_some();
        for restarted in evidence.restarts {
            self.restart_records(restarted);
        }
        if let Some(restarted) = evidence.restarted() {
            self.last_restart(restarted, before)?;
        } else if let Some(wrong) = evidence
            .restarts
            .iter()
            .find_map(|r| r.continued.as_ref().err())
        {
            self.fail(wrong.cause, wrong.detail.clone());
        } else if let Some(failure) = &evidence.not_restarted {
            self.fail(failure.cause, failure.detail.clone());
        }
        Ok(())
    }

    /// Records when a restarted program computed again, the data read until then, and the steps around the checkpoint.
    fn restart_records(&mut self, restarted: &Restarted) {
        let which = restarted.which;
        let label = || -> Label { ("restart", which.number.to_string()) };
        let setup = self.setup_of(which);
        if let Some((after_s, sign)) = restarted.computed {
            self.record(
                names::RESTART_LATENCY_S,
                (after_s - setup.wall_s).max(0.0),
                Unit::Seconds,
                Source::Clock,
                Some(&which.file("stdout")),
                &[label(), ("until", sign.as_str().to_owned())],
            );
        }
        if let Some(bytes) = restarted.bytes {
            let bytes = bytes as f64;
            self.findings
                .bytes(names::RESTART_BYTES, bytes, Source::FileSize, &[label()]);
        }
        if let Ok(continued) = &restarted.continued {
            let gap = continued.from.zip(continued.first);
            let gap = gap.and_then(|(from, first)| first.checked_sub(from));
            let steps = [
                (names::RESTART_FROM_STEP, continued.from),
                (names::RESTART_FIRST_STEP, continued.first),
                (names::RESTART_STEP_GAP, gap),
            ];
            for (name, step) in steps {
                let Some(step) = step else { continue };
                let source = Source::ApplicationOutput;
                self.findings.count(name, step as f64, source, &[label()]);
            }
        }
    }

    /// Returns the times of the setup before a restart.
    fn setup_of(&self, which: RestartNumber) -> SetupTimes {
        SetupTimes::read(&self.evidence.prepared.run.dir, &which.file("sh"))
    }

    /// Checks the restart that runs to the program's end. `before` means that the run had failed before.
    fn last_restart(&mut self, restarted: &Restarted, before: bool) -> Result<(), RunError> {
        let which = restarted.which;
        match &restarted.exit {
            None if self.evidence.context.site.kind == SiteKind::Local => {
                self.findings.failure.get_or_insert(shepherd_killed());
            }
            None => self.fail(Cause::Restart, "the restart's shepherd left no exit status"),
            Some(exit) => {
                self.printed_too_early(restarted)?;
                if let Err(wrong) = &restarted.continued {
                    self.fail(wrong.cause, wrong.detail.clone());
                }
                if exit.ended_by == Some(EndedBy::Timeout) {
                    self.fail(
                        Cause::Restart,
                        format!(
                            "the restarted program did not end within {} s",
                            self.evidence.prepared.job.timeout_s
                        ),
                    );
                }
                // the restart script's own exit code is no evidence, unlike the program's verification
                self.verification(
                    (&restarted.stdout, &restarted.stderr),
                    Cause::Restart,
                    " after the restart",
                )?;
                let wall_s = (exit.wall_s - self.setup_of(which).wall_s).max(0.0);
                let mut times = vec![(names::RESTART_TO_END_S, wall_s)];
                if let Some((after_s, _)) = restarted.computed {
                    let rest_s = (exit.wall_s - after_s).max(0.0);
                    times.push((names::RESTART_REST_S, rest_s));
                }
                let artefact = which.file("exit.json");
                for (name, value) in times {
                    let (unit, source) = (Unit::Seconds, Source::Clock);
                    self.record(name, value, unit, source, Some(&artefact), &[]);
                }
            }
        }
        if let Some(failure) = &mut self.findings.failure
            && !before
            && failure.cause == Cause::Restart
        {
            // the lines after an assertion are its backtrace
            let why = restarted.explained.clone().or_else(|| {
                let is_from_stderr =
                    restarted.continued.is_ok() && !restarted.stderr.trim().is_empty();
                is_from_stderr.then(|| own_words(&restarted.stderr))
            });
            failure.detail.extend(why.map(|why| format!(" ({why})")));
        }
        let is_verified = !before && self.findings.failure.is_none();
        let (source, artefact) = (Source::ApplicationOutput, which.file("stdout"));
        self.record(
            names::RESTART_VERIFIED,
            f64::from(u8::from(is_verified)),
            Unit::Bool,
            source,
            Some(&artefact),
            &[],
        );
        if is_verified {
            self.findings
                .count(names::RESTARTS, f64::from(which.of), Source::Clock, &[]);
        }
        Ok(())
    }

    /// Returns the first `bytes` bytes of the output of the program before a restart.
    fn printed_until(&self, which: RestartNumber, bytes: u64) -> String {
        let before = RestartNumber {
            number: which.number.saturating_sub(1),
            ..which
        };
        let name = match before.number {
            0 => "stdout".to_owned(),
            _ => before.file("stdout"),
        };
        text_until(&self.evidence.prepared.run.dir.join(name), bytes)
    }

    /// Fails the run if the program printed its result before the checkpoint: a restarted program does not print that output again, so the restart
    /// verifies nothing. Output after the checkpoint does not count. A restart that shows another error does not fail for this reason. The message
    /// also mentions a restart that hung at its end.
    fn printed_too_early(&mut self, restarted: &Restarted) -> Result<(), RunError> {
        let evidence = self.evidence;
        let (None, Some(at)) = (&restarted.explained, evidence.session.continues_from()) else {
            return Ok(());
        };
        let success = &evidence.prepared.run.app.success;
        let pattern = self.regex(&success.pattern)?;
        let forbidden = match &success.forbid {
            Some(forbidden) => self.regex(forbidden)?.is_match(&restarted.stdout),
            None => false,
        };
        let before = self.printed_until(restarted.which, at.whole.stdout);
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
                    "the program had printed its result (`{pattern}`) before checkpoint {} was complete, so its restart{hung} has nothing to verify: choose an \
                     earlier moment, or a larger workload or more steps",
                    at.number
                ),
            );
        }
        Ok(())
    }
}
