//! Changes between any two states of a run, and the bytes that each method would store for each state.

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

/// The states of a run, and the volume of changes between any two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Time at which each state was taken, seconds.
    pub taken_s: Vec<f64>,
    /// Source of the times.
    pub times: TimeSource,
    /// Size of each state, bytes.
    pub bytes: Vec<u64>,
    /// `changed[newer][older]`: bytes of blocks of the newer state that the older one does not have at the same place.
    changed: Vec<Vec<u64>>,
}

/// The processes in the images of the last state that has images, and the path of that state.
#[derive(Debug, Default)]
struct Processes {
    last: Vec<String>,
    path: PathBuf,
}

impl Processes {
    /// Records the processes of the next state.
    ///
    /// # Errors
    /// The previous state contains none of these processes: the checkpoints are of two runs.
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

/// The decision of a method for one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixChoice {
    /// Index of the base, from 0; `None`: the state is stored in full.
    pub base: Option<usize>,
    /// Whether later states are stored against this one.
    pub becomes_base: bool,
    /// Bytes of the stored blocks.
    pub bytes: u64,
    /// Number of files needed to restore the state.
    pub files: u32,
}

impl Matrix {
    /// Reads states, each a directory or file, in the order in which they were taken. Holds their hashes in memory: 0.4 % of their size, if blocks
    /// are pages. `progress` receives the number of bytes read.
    ///
    /// # Errors
    /// A file cannot be read, or the states are of two runs.
    pub fn read(
        states: &[impl AsRef<Path>],
        addressing: Addressing,
        block: BlockSize,
        progress: &dyn Fn(u64),
    ) -> Result<Self, DeltaError> {
        Self::read_each(states, addressing, block, progress, &mut |_, _, _| ())
    }

    /// Reads states as [`Self::read`] does. Calls `each` with each state, its parts, and all earlier states.
    ///
    /// # Errors
    /// A file cannot be read, or the states are of two runs.
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

    /// Creates a matrix from known volumes: `changed[newer][older]` for all older states.
    ///
    /// # Panics
    /// Panics unless there is a row for each state, with a number for each older state.
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

    /// Returns the number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no states.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes of blocks of the newer state that the older state does not have at the same place.
    ///
    /// # Panics
    /// Panics if `newer` is not after `older`.
    #[must_use]
    pub fn changed(&self, newer: usize, older: usize) -> u64 {
        self.changed[newer][older]
    }

    /// Returns the decisions of a method for all states; they are the same as in a series with this method.
    #[must_use]
    pub fn choices(&self, method: Method) -> Vec<MatrixChoice> {
        let mut chains = Chains::new(method);
        (0..self.len())
            .map(|t| {
                let stored = chains.add(|older| self.changed(t, older) as f64);
                MatrixChoice {
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

    /// Returns the indices, from 0, of the states at which ADCA changes its base.
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

    /// Returns each threshold ratio with the indices of the states at which ADCA with this ratio changes its base.
    #[must_use]
    pub fn switches_by_ratio(&self, ratios: &[f64]) -> Vec<(f64, Vec<usize>)> {
        ratios
            .iter()
            .map(|ratio| (*ratio, self.switches(Threshold::Ratio(*ratio))))
            .collect()
    }
}
