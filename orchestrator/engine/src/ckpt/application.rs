//! Checkpoints that the program writes when it wants to.

use super::{
    contract::{CheckpointRun, Checkpointer, Course, Halt, Install, Restart, SessionContext},
    own_series::OwnSeries,
};
use crate::run::{
    Findings, RunContext, RunError, RunFailure, arguments, compile, files, numbers, patterns,
};
use crate::stage::Stages;
use async_trait::async_trait;
use cvc_core::app::template_values;
use cvc_core::campaign::CheckpointSettings;
use cvc_core::outcome::Cause;
use cvc_core::record::{Source, Unit, names};
use cvc_probe::sentinel::FileFound;
use serde_json::Value;
use std::future::pending;

/// Leaves checkpoints to the program.
pub(super) struct ApplicationCheckpointer;

impl Checkpointer for ApplicationCheckpointer {
    fn name(&self) -> &'static str {
        "application"
    }

    fn title(&self) -> &'static str {
        "the program's own checkpoints"
    }

    fn course(&self, settings: &CheckpointSettings) -> Course {
        Course {
            restarted: settings.restart_check,
            ..Course::default()
        }
    }

    fn session<'r>(&self, _: &Install, context: SessionContext<'r>) -> Box<dyn CheckpointRun + 'r> {
        Box::new(OwnFiles {
            run: context.run,
            found: Vec::new(),
            series: None,
        })
    }
}

/// The files that the program of a run writes.
struct OwnFiles<'r> {
    run: &'r RunContext,
    /// With their nodes.
    found: Vec<(String, FileFound)>,
    /// What differs between checkpoints, if that is measured.
    series: Option<OwnSeries>,
}

#[async_trait]
impl CheckpointRun for OwnFiles<'_> {
    async fn accompany(&mut self, stages: &mut Stages<'_>) -> RunFailure {
        if stages.is_empty() {
            return pending().await;
        }
        let watched = match OwnSeries::new(self.run) {
            Ok(series) => self.series.insert(series).watch(self.run, stages).await,
            Err(error) => Err(error.into()),
        };
        match watched {
            Ok(()) => pending().await,
            Err(Halt::Failure(failure)) => failure,
            Err(Halt::Error(error)) => RunFailure::new(
                Cause::Checkpoint,
                format!("what changes between the program's checkpoints cannot be told: {error}"),
            ),
        }
    }

    async fn ended(&mut self, stages: &mut Stages<'_>) -> Result<(), Halt> {
        match &mut self.series {
            Some(series) => series.end(self.run, stages).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self) -> Result<(), Halt> {
        if let Some(own) = &self.run.app.checkpoint {
            self.found = files(self.run, &patterns(self.run, &own.files)?).await?;
        }
        Ok(())
    }

    fn restart(&self, _: &Value) -> Result<Option<Restart>, Halt> {
        let app = &self.run.app;
        let (Some(templates), true) = (
            &app.command.restart_args,
            app.checkpoint.as_ref().is_some_and(|c| c.restartable),
        ) else {
            let detail = "the descriptor does not say how the program restarts (checkpoint.restartable, command.restart_args)";
            return Err(RunFailure::new(Cause::Restart, detail).into());
        };
        let run = self.run;
        let values = template_values(
            app,
            &run.point,
            run.program.as_str(),
            run.dir.as_str(),
            run.work.as_str(),
        );
        let args = arguments(
            &format!("{}: command.restart_args", app.name),
            templates,
            &values,
        )?;
        Ok(Some(Restart::Program(args)))
    }

    fn measure(
        &self,
        output: &str,
        stages: &Stages<'_>,
        to: &mut Findings,
    ) -> Result<(), RunError> {
        let Some(own) = &self.run.app.checkpoint else {
            return Ok(());
        };
        let total: u64 = self.found.iter().map(|(_, file)| file.bytes).sum();
        if total == 0 {
            to.fail(
                Cause::Checkpoint,
                format!(
                    "the program wrote no checkpoint: no file {} below {}",
                    own.files.join(", "),
                    self.run.work
                ),
            );
            return Ok(());
        }
        let times = match &own.time_s {
            Some(pattern) => {
                numbers(&compile(&self.run.app, pattern)?, output).unwrap_or_else(|cut| {
                    to.fail_by_cut_number("time of a checkpoint", pattern, &cut);
                    Vec::new()
                })
            }
            None => Vec::new(),
        };
        for (number, seconds) in (1u32..).zip(&times) {
            let labels = [("ckpt", number.to_string())];
            to.record(
                names::CKPT_LATENCY_S,
                *seconds,
                Unit::Seconds,
                Source::ApplicationOutput,
                Some("stdout"),
                &labels,
            );
        }
        if let Some(series) = &self.series {
            series.record(times.len(), stages, to);
        }
        // a later checkpoint replaces an earlier one: the files are those of the last
        let ckpt = ("ckpt", times.len().max(1).to_string());
        let labels = [ckpt.clone(), ("kind", "application".to_owned())];
        to.count(
            names::CKPT_FILES,
            self.found.len() as f64,
            Source::FileSize,
            &labels,
        );
        to.bytes(names::CKPT_BYTES, total as f64, Source::FileSize, &labels);
        to.bytes(
            names::CKPT_STORED_BYTES,
            total as f64,
            Source::FileSize,
            &[ckpt],
        );
        Ok(())
    }
}
