//! What changed between any two states of a run, and what each method would store of them.

use crate::{
    diff::Parts,
    error::{DeltaError, DeltaErrorKind},
    partner::changed_bytes,
    signature::{Signature, Signed, sign_all},
    source::Source,
    taken::{self, TimeSource},
};
use cvc_delta_rules::{Addressing, BlockSize, Chains, Method, Threshold};
use std::path::{Path, PathBuf};

/// The states of a run, and what differs between any two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// When each was taken, seconds.
    pub taken_s: Vec<f64>,
    /// Where these times are from.
    pub times: TimeSource,
    /// Bytes of each.
    pub bytes: Vec<u64>,
    /// `changed[newer][older]`: bytes of blocks of the newer state that the older one does not have at the same place.
    changed: Vec<Vec<u64>>,
}

/// The processes of states that were read one after another.
#[derive(Debug, Default)]
struct Processes {
    last: Vec<String>,
    path: PathBuf,
}

impl Processes {
    /// Takes those of the next state.
    ///
    /// # Errors
    /// Where none of them is in the state before: they are checkpoints of two runs.
    fn add(
        &mut self,
        state: &Source,
        processes: impl Iterator<Item = String>,
    ) -> Result<(), DeltaError> {
        let found: Vec<String> = processes.collect();
        if found.is_empty() {
            return Ok(());
        }
        if !self.last.is_empty() && !found.iter().any(|f| self.last.contains(f)) {
            return Err(DeltaError::new(
                &state.path,
                DeltaErrorKind::NoCommonProcess {
                    older: self.path.clone(),
                },
            ));
        }
        (self.last, self.path) = (found, state.path.clone());
        Ok(())
    }
}

/// What a method stores of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The state against which it is stored, from 0; none: in full.
    pub base: Option<usize>,
    /// Whether later states are stored against it.
    pub becomes_base: bool,
    /// Bytes of blocks that are stored.
    pub bytes: u64,
    /// Files that restore it.
    pub files: u32,
}

impl Matrix {
    /// Reads states, each a directory or file, in the order in which they were taken. Their hashes are held in memory: 0.4 % of their bytes
    /// with pages. `progress` is told bytes that were read.
    ///
    /// # Errors
    /// What cannot be read; states of two runs.
    pub fn read(
        states: &[impl AsRef<Path>],
        addressing: Addressing,
        block: BlockSize,
        progress: &dyn Fn(u64),
    ) -> Result<Self, DeltaError> {
        Self::read_each(states, addressing, block, progress, &mut |_, _, _| ())
    }

    /// As [`Self::read`]. `each` gets each state with its parts and all states before it.
    ///
    /// # Errors
    /// What cannot be read; states of two runs.
    pub fn read_each(
        states: &[impl AsRef<Path>],
        addressing: Addressing,
        block: BlockSize,
        progress: &dyn Fn(u64),
        each: &mut dyn FnMut(&Signature, &Parts, &[Signature]),
    ) -> Result<Self, DeltaError> {
        let mut signatures: Vec<Signature> = Vec::new();
        let mut processes = Processes::default();
        let mut matrix = Self::new(Vec::new(), Vec::new(), Vec::new());
        let (mut files_s, mut scripts_s) = (Vec::new(), Vec::new());
        for state in states {
            let source = Source::list(state.as_ref())?;
            let Signed { signature, files } = sign_all(&source, addressing, block, progress)?;
            processes.add(&source, files.iter().filter_map(|f| f.unique_pid.clone()))?;
            each(&signature, &Parts::of(&source, files), &signatures);
            files_s.push(source.taken_s);
            scripts_s.push(taken::script_s(&source));
            matrix.bytes.push(signature.bytes());
            matrix.changed.push(
                signatures
                    .iter()
                    .map(|old| changed_bytes(&signature, old))
                    .collect(),
            );
            signatures.push(signature);
        }
        (matrix.taken_s, matrix.times) = taken::times(&files_s, &scripts_s);
        Ok(matrix)
    }

    /// From known differences: `changed[newer][older]` for all older ones.
    ///
    /// # Panics
    /// If there is not a row for each state with a number for each older one.
    #[must_use]
    pub fn new(taken_s: Vec<f64>, bytes: Vec<u64>, changed: Vec<Vec<u64>>) -> Self {
        assert!(
            taken_s.len() == bytes.len()
                && bytes.len() == changed.len()
                && changed.iter().enumerate().all(|(n, row)| row.len() == n),
            "a row for each state, with a number for each older one"
        );
        Self {
            taken_s,
            times: TimeSource::Given,
            bytes,
            changed,
        }
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of blocks of the newer state that the older one does not have.
    ///
    /// # Panics
    /// If `newer` is not after `older`.
    #[must_use]
    pub fn changed(&self, newer: usize, older: usize) -> u64 {
        self.changed[newer][older]
    }

    /// What a method stores of each state: the same that a series of it does.
    #[must_use]
    pub fn choices(&self, method: Method) -> Vec<Choice> {
        let mut chains = Chains::new(method);
        (0..self.len())
            .map(|t| {
                let stored = chains.add(|older| self.changed(t, older) as f64);
                Choice {
                    base: stored.base,
                    becomes_base: stored.becomes_base,
                    bytes: stored
                        .base
                        .map_or(self.bytes[t], |base| self.changed(t, base)),
                    files: stored.files,
                }
            })
            .collect()
    }

    /// The states, from 0, at which ADCA moves its base.
    #[must_use]
    pub fn switches(&self, threshold: Threshold) -> Vec<usize> {
        self.choices(Method::Adca { threshold })
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, choice)| choice.becomes_base)
            .map(|(t, _)| t)
            .collect()
    }

    /// The same for several ratios: number and moment of the switches against the threshold.
    #[must_use]
    pub fn switches_by_ratio(&self, ratios: &[f64]) -> Vec<(f64, Vec<usize>)> {
        ratios
            .iter()
            .map(|ratio| (*ratio, self.switches(Threshold::Ratio(*ratio))))
            .collect()
    }
}
