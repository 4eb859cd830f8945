//! The I/O phases of a traced program as an application that `kernel-replay` repeats: `app = "replay:FILE"` in a campaign file, where FILE is a model
//! that `cvc phases --write` wrote.

use super::{
    LoadedApp,
    descriptor::{Descriptor, Figure, InputFile, Workload},
    load,
};
use crate::{measured::Unit, point::UserValue, units::MIB};
use cvc_trace::phases::{IoModel, PhaseError, PhaseFamily, ReplayOptions, replay_program};
use indexmap::IndexMap;
use std::path::Path;

/// Prefix of the names of applications that are paths of models.
pub const PREFIX: &str = "replay:";
/// Maximum number of phases whose bandwidth is recorded as a figure. The longest phases are chosen.
const MAX_FIGURES: usize = 40;

/// The part of the descriptor that all replays have in common.
const DESCRIPTOR: &str = r#"
schema = 1
name = "replay"
title = "the I/O phases of a program, repeated without it"
kernel = true
[program]
names = ["kernel-replay"]
install = "part of cvc: compiled at the first run by the MPI library's mpicc"
[command]
args = ["--program", "{{class}}.txt", "--dir", "{{storage}}", "--repeats", "{{w.repeats}}"]
[workloads]
[success]
pattern = '^Verification = SUCCESSFUL'
[[figures]]
name = "replay_io_s"
pattern = '^I/O time in seconds = ([0-9.]+)'
unit = "s"
better = "lower"
required = true
take = "last"
"#;

/// A workload of a replay: which phases are repeated, and how often.
#[derive(Clone, Copy, Debug)]
pub struct ReplayWorkload {
    /// Name of the workload, the `class` in campaign files.
    pub name: &'static str,
    /// The phases that are repeated.
    pub options: ReplayOptions,
    /// Number of repetitions.
    pub repeats: u32,
    /// Whether written files are synced at the end of each phase.
    pub sync: bool,
    /// Whether direct writes and reads are measured first, without the page cache.
    pub device: bool,
}

impl ReplayWorkload {
    /// Returns the time of the traced run, summed over all processes, seconds.
    fn core_s(&self, model: &IoModel) -> f64 {
        let seconds = |family: &PhaseFamily| {
            let each = family.io_s + self.options.think * family.think_s;
            each * f64::from(self.options.phases_of(family))
        };
        let once: f64 = model.phases.iter().map(seconds).sum();
        once * f64::from(model.processes) * f64::from(self.repeats)
    }
}

/// The workloads of replays in campaigns.
const WORKLOADS: [(&str, ReplayOptions); 3] = [
    ("all", options(false, None, 0.0)),
    ("relevant", options(true, Some(5), 0.0)),
    ("paced", options(false, None, 1.0)),
];

const fn options(only_relevant: bool, most_phases: Option<u32>, think: f64) -> ReplayOptions {
    ReplayOptions {
        only_relevant,
        most_phases,
        think,
    }
}

/// Reads the model of an application `replay:FILE`; relative paths are relative to `directory`.
///
/// # Errors
/// The file cannot be read, is not a model, or has no phases that can be repeated.
pub fn load(name: &str, directory: &Path) -> Result<LoadedApp, PhaseError> {
    let file = name.strip_prefix(PREFIX).unwrap_or(name);
    let path = directory.join(crate::paths::expand(file));
    let model = IoModel::read(&path)?;
    let workloads = WORKLOADS.map(|(name, options)| ReplayWorkload {
        name,
        options,
        repeats: 1,
        sync: false,
        device: false,
    });
    let has_relevant = model.phases.iter().any(|family| family.is_relevant);
    let workloads: Vec<ReplayWorkload> = workloads
        .into_iter()
        .filter(|of| has_relevant || !of.options.only_relevant)
        .collect();
    of_model(name, &path, &model, &workloads)
}

/// Returns an application that repeats the phases of a model.
///
/// # Errors
/// A workload has no phase, or the model has a phase that cannot be repeated.
pub fn of_model(
    name: &str,
    path: &Path,
    model: &IoModel,
    workloads: &[ReplayWorkload],
) -> Result<LoadedApp, PhaseError> {
    let unusable = |error: &dyn std::fmt::Display| PhaseError::Unusable(error.to_string());
    let mut app: Descriptor = toml::from_str(DESCRIPTOR).map_err(|error| unusable(&error))?;
    app.name = name.to_owned();
    app.processes.min = model.processes;
    app.processes.max = Some(model.processes);
    app.io.collective = model.processes > 1 && model.files.iter().any(|file| file.is_shared);
    if workloads.iter().any(|of| of.sync) {
        app.command.args.push("--sync".to_owned());
    }
    if workloads.iter().any(|of| of.device) {
        app.command.args.push("--device".to_owned());
    }
    for of in workloads {
        app.command.files.push(InputFile {
            path: format!("{}.txt", of.name),
            content: Some(replay_program(model, of.options)?),
            source: None,
        });
        let repeats = UserValue::Integer(i64::from(of.repeats));
        let workload = Workload {
            title: title(of.options),
            vars: IndexMap::from([("repeats".to_owned(), repeats)]),
            core_s: Some(of.core_s(model)),
            data_mib: None,
            output_mib: Some(of.options.bytes(model) as f64 / MIB),
        };
        app.workloads.insert(of.name.to_owned(), workload);
    }
    app.figures.extend(figures(model));
    Ok(load::identify(app, path, Vec::new()))
}

fn title(of: ReplayOptions) -> String {
    let which = if of.only_relevant {
        "phases that take 1 % of the run or more"
    } else {
        "all phases"
    };
    let pace = if of.think > 0.0 {
        ", with the computation between them as pauses"
    } else {
        ""
    };
    format!("{which}{pace}")
}

/// Returns figures for the bandwidth of the longest phases, in the order of the phases.
fn figures(model: &IoModel) -> Vec<Figure> {
    let mut longest: Vec<(f64, u32)> = model
        .phases
        .iter()
        .map(|family| (family.io_s * f64::from(family.count), family.first))
        .collect();
    longest.sort_by(|a, b| b.0.total_cmp(&a.0));
    longest.truncate(MAX_FIGURES);
    longest.sort_by_key(|(_, first)| *first);
    let figure = |(_, first): (f64, u32)| Figure {
        name: format!("phase_{first}_mib_s"),
        pattern: format!(r"^Repetition \d+: phase {first}: .* bytes, ([0-9.]+) MiB/s$"),
        unit: Unit::MibPerSecond,
        better: crate::measured::Better::Higher,
        required: false,
        take: Default::default(),
        scale: 1.0,
    };
    longest.into_iter().map(figure).collect()
}
