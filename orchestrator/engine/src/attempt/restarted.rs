//! A restart of a run, which tests whether its checkpoint can be restarted.

use super::noise::Noise;
use crate::run::{RestartNumber, RunFailure, Sign};
use cvc_core::record::{Record, Source, names};
use cvc_probe::shepherd::Exit;

/// The result of one restart.
#[derive(Debug)]
pub(super) struct Restarted {
    /// Number of the restart.
    pub which: RestartNumber,
    pub exit: Option<Exit>,
    /// Other activity on the nodes.
    pub noise: Noise,
    pub stdout: String,
    pub stderr: String,
    /// Why the restart failed, in terms of the checkpointer.
    pub explained: Option<String>,
    /// When the program computed again, in seconds after its start, and what showed it.
    pub computed: Option<(f64, Sign)>,
    /// Size of the checkpoint from which the restart began, bytes.
    pub bytes: Option<u64>,
    /// The last step before the checkpoint and the first step after it, if known; or why the program did not continue there.
    pub continued: Result<Continued, RunFailure>,
}

/// Where a restarted program continued: between the last step before the checkpoint and the first step after the restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Continued {
    /// The last step that was printed before the checkpoint.
    pub from: Option<u64>,
    /// The first step that was printed after the restart.
    pub first: Option<u64>,
}

/// Sets the size of a program's own checkpoint, as read by a restart, to the bytes in the restart's trace: a restart may skip some bytes or read some
/// twice.
pub(super) fn use_traced_bytes(records: &mut [Record]) {
    let read = records
        .iter()
        .find(|record| record.name == names::RESTART_READ_BYTES && record.value > 0.0)
        .map(|record| record.value);
    let of_restart = records.iter_mut().find(|r| r.name == names::RESTART_BYTES);
    if let Some((record, read)) = of_restart.zip(read) {
        record.value = read;
        record.source = Source::Trace;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Findings;
    use cvc_core::ids::RunId;

    #[test]
    fn a_restart_read_the_data_that_a_trace_saw() {
        let mut of_run = Findings::new(RunId::of(b"r"));
        let source = Source::FileSize;
        of_run.bytes(names::RESTART_BYTES, 10.0, source, &[]);
        use_traced_bytes(&mut of_run.records);
        assert_eq!(of_run.records[0].value, 10.0, "nothing was traced");
        of_run.bytes(names::RESTART_READ_BYTES, 12.0, Source::Trace, &[]);
        use_traced_bytes(&mut of_run.records);
        let record = &of_run.records[0];
        assert_eq!((record.value, record.source), (12.0, Source::Trace));
    }
}
