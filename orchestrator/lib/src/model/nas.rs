//! Problem sizes of the NAS Parallel Benchmarks.

use serde::Serialize;

/// A benchmark whose arrays are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Benchmark {
    /// Block tridiagonal solver; also BT-IO.
    Bt,
    /// Scalar pentadiagonal solver.
    Sp,
    /// LU: symmetric successive over-relaxation.
    Lu,
    /// Conjugate gradient.
    Cg,
}

/// A benchmark of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Problem {
    /// Which.
    pub benchmark: Benchmark,
    /// S, W, A, B, C or D.
    pub class: char,
}
