//! What the output of a run shows of its I/O settings.

/// What was seen of the I/O settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoEvidence {
    /// Aggregators that the library used, by its own word or by the writers that the program counted.
    pub aggregators: Option<u64>,
    /// Collective buffer that it used, bytes, by its own word.
    pub cb_buffer: Option<u64>,
    /// What the library selected, for the facts of the run.
    pub selected: Vec<String>,
    /// Settings that the library contradicted: the run fails.
    pub ignored: Vec<String>,
    /// Settings that the library did not report: the run fails if it ran to its end.
    pub unseen: Vec<String>,
    /// Settings that the library accepts and never reports, so that they cannot be verified.
    pub unobservable: Vec<String>,
}

/// The parts of a run's output about I/O.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error.
    pub stderr: &'a str,
    /// Number of ranks that wrote, if the program counts them.
    pub writers: Option<u64>,
}
