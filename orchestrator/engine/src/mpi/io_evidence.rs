//! I/O settings that the output of a run shows.

/// Observations of the I/O settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoEvidence {
    /// Number of aggregators used, as reported by the library or counted by the program as writers.
    pub aggregators: Option<u64>,
    /// Size of the collective buffer used, bytes, as reported by the library.
    pub cb_buffer: Option<u64>,
    /// Components that the library selected, for the facts of the run.
    pub selected: Vec<String>,
    /// Settings that the library contradicts: the run fails.
    pub ignored: Vec<String>,
    /// Settings that the library did not report. If there are any, a run that reached its end counts as failed.
    pub unseen: Vec<String>,
    /// Settings that the library accepts but never reports, so that they cannot be verified.
    pub unobservable: Vec<String>,
}

/// The parts of a run's output that show I/O settings.
#[derive(Clone, Copy, Debug)]
pub struct LaunchOutput<'a> {
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error.
    pub stderr: &'a str,
    /// Number of ranks that wrote, if the program counts them.
    pub writers: Option<u64>,
}
