//! Writes the input of `kernel-replay`: the calls of each phase, without descriptive fields.

use super::{
    log::PhaseError,
    model::{IoModel, PhaseFamily, PhaseOp},
};
use std::fmt::Write;

/// Selects the phases to repeat, and how to repeat them.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Whether to repeat only phases that take at least 1 % of the run's time.
    pub only_relevant: bool,
    /// Maximum number of phases of each family.
    pub most_phases: Option<u32>,
    /// Factor of the waiting time that replaces computation between phases; 0 means no waiting.
    pub think: f64,
}

impl ReplayOptions {
    /// Returns how many phases of a family are repeated.
    #[must_use]
    pub fn phases_of(self, family: &PhaseFamily) -> u32 {
        if self.only_relevant && !family.is_relevant {
            return 0;
        }
        family.count.min(self.most_phases.unwrap_or(u32::MAX))
    }

    /// Returns the maximum number of bytes that a replay writes, which is the space that it needs.
    #[must_use]
    pub fn bytes(self, model: &IoModel) -> u64 {
        let of = |f: &PhaseFamily| f.weight_bytes * u64::from(self.phases_of(f));
        model.phases.iter().map(of).sum()
    }
}

/// Returns the input for a replay. The format is described in `kernel-replay.c`.
///
/// # Errors
/// The model has no phases, or a view whose datatype is unknown.
pub fn replay_program(model: &IoModel, options: ReplayOptions) -> Result<String, PhaseError> {
    let mut text = format!("cvc-replay 1 {}\n", model.processes);
    for (i, file) in model.files.iter().enumerate() {
        let word = |is: bool, word: &'static str| if is { word } else { "-" };
        let _ = writeln!(
            text,
            "file {i} {} {} {}",
            if file.is_shared { "shared" } else { "own" },
            word(file.is_new_each_phase, "new"),
            file.interface
        );
        for (key, value) in &file.hints {
            // a brace would begin a placeholder in an application's descriptor
            let is_word =
                |t: &str| !t.is_empty() && !t.contains(|c: char| c.is_whitespace() || c == '{');
            if is_word(key) && is_word(value) {
                let _ = writeln!(text, "hint {i} {key} {value}");
            }
        }
    }
    for (i, view) in model.views.iter().enumerate() {
        if view.pieces.is_empty() {
            let problem =
                "a view has a datatype that the tracer could not follow, so it cannot be repeated";
            return Err(PhaseError::Unusable(problem.to_owned()));
        }
        let _ = writeln!(
            text,
            "view {} {} {} {} {}",
            i + 1,
            view.etype_bytes,
            view.filetype_bytes,
            view.extent,
            view.pieces.len()
        );
        for piece in &view.pieces {
            let _ = write!(
                text,
                "piece {} {} {}",
                piece.bytes,
                piece.at.first,
                piece.at.levels.len()
            );
            for level in &piece.at.levels {
                let _ = write!(text, " {} {}", level.count, level.step);
            }
            text.push('\n');
        }
    }
    let mut has_any = false;
    for family in &model.phases {
        let count = options.phases_of(family);
        if count == 0 {
            continue;
        }
        has_any = true;
        let think = family.think_s * options.think;
        let _ = writeln!(
            text,
            "phase {} {count} {} {think:.6} {}",
            family.first,
            family.count,
            family.loops.len()
        );
        for part in &family.loops {
            let _ = writeln!(text, "loop {} {}", part.rounds, part.ops.len());
            for op in &part.ops {
                write_op(&mut text, op, model.processes);
            }
        }
    }
    if !has_any {
        let text = "the model has no phase to repeat: there was no access, or none took 1 % of the run; try --all";
        return Err(PhaseError::Unusable(text.to_owned()));
    }
    text.push_str("end\n");
    Ok(text)
}

/// Writes a line for the call, and a line for each participating process: rank, bytes, view, data bytes within the view's pattern, position, and the
/// distances to the next round and to the next phase.
fn write_op(text: &mut String, op: &PhaseOp, processes: u32) {
    let ranks = op.ranks.list(processes);
    let place = if op.is_posix { "posix" } else { &op.pointer };
    let _ = write!(
        text,
        "op {} {} {place} {} {} {} {}",
        op.file,
        op.op,
        if op.is_collective { "all" } else { "one" },
        if op.is_blocking { "now" } else { "later" },
        ranks.len(),
        op.at.len()
    );
    for piece in &op.at {
        let _ = write!(text, " {} {}", piece.first, piece.levels.len());
        for level in &piece.levels {
            let _ = write!(text, " {} {}", level.count, level.step);
        }
    }
    text.push('\n');
    for (i, rank) in ranks.iter().enumerate() {
        let _ = writeln!(
            text,
            "{rank} {} {} {} {} {} {}",
            op.request_bytes.get(i),
            op.view.get(i),
            op.within.get(i),
            op.first.get(i),
            op.per_round.get(i),
            op.per_phase.get(i)
        );
    }
}
