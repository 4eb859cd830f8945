//! The buffers through which ch3:nemesis copies large messages.

use crate::{
    curve::Setting,
    fit::FitError,
    nas::{Benchmark, Problem, Tiles},
};

/// MiB of the buffer between a process and one partner: 8 parts of 32 KiB.
pub(super) const COPY_MIB: f64 = 0.25;

/// Minimum size of a message, bytes, that uses such a buffer because it does not fit into a cell.
const LARGE: u64 = 65_536;

/// Returns the number of partners on its own node with which a process exchanges large messages: the mean over the processes.
///
/// With P processes, p of them on each node, the fraction (p − 1)/(P − 1) of a process's partners is taken to be on its node.
///
/// # Errors
/// The program's decomposition is unknown.
pub(super) fn partners_on_node(at: &Setting) -> Result<f64, FitError> {
    let unknown = || {
        FitError::OutOfDomain(format!(
            "the messages of {}.{} are not known",
            at.app, at.class
        ))
    };
    let problem = at.nas.ok_or_else(unknown)?;
    let processes = at.processes();
    if processes < 2 {
        return Ok(0.0);
    }
    let here = f64::from(at.per_node.saturating_sub(1)) / f64::from(processes - 1);
    Ok(partners(problem, processes)? * here.min(1.0))
}

/// Returns the number of partners with which a process exchanges large messages.
///
/// BT and SP divide the cube into diagonals. They have six neighbours (three on 2·2 processes), with faces of two layers of five values in all
/// cells but one; BT also sends the blocks of a line solver. LU has a grid of columns and sends two layers of five values to up to four neighbours.
/// CG sums in log₂(cols) steps along a row, and exchanges data with its transposed process.
fn partners(problem: Problem, processes: u32) -> Result<f64, FitError> {
    let grid = |n: Option<u32>| u64::from(n.unwrap_or(0));
    if problem.benchmark == Benchmark::Cg {
        let rows = 1_u32 << (processes.trailing_zeros() / 2);
        let length = problem
            .matrix()
            .map_or(0, |(order, _)| 8 * order / u64::from(rows));
        let steps = f64::from(processes / rows).log2();
        return Ok(if length >= LARGE {
            steps + 1.0 - 1.0 / f64::from(rows)
        } else {
            0.0
        });
    }
    Ok(match problem.tiles(processes)? {
        Tiles::Cells { q, m } => {
            let edge = grid(problem.grid_points()).div_ceil(q);
            let faces = 8 * 10 * edge * edge * (q - 1);
            let solver = if problem.benchmark == Benchmark::Bt {
                8 * 30 * m * m
            } else {
                0
            };
            let neighbours = if q == 2 { 3.0 } else { 6.0 };
            if faces.max(solver) >= LARGE {
                neighbours
            } else {
                0.0
            }
        }
        Tiles::Columns { i, j, n } => {
            let (x, y) = (n.div_ceil(i) as f64, n.div_ceil(j) as f64);
            let (along_x, along_y) = (8 * 10 * j * n, 8 * 10 * i * n);
            let mean = |cuts: f64, message: u64| {
                if message >= LARGE {
                    2.0 * (cuts - 1.0) / cuts
                } else {
                    0.0
                }
            };
            mean(x, along_x) + mean(y, along_y)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::partners;
    use crate::nas::Problem;

    /// Segment sizes of real runs (DMTCP 4.2, MPICH 4.0.2 ch3:nemesis) minus 4·p + p·(p − 1)/16 MiB, in units of 0.25 MiB.
    #[test]
    fn partners_as_the_segments_of_real_runs_show_them() {
        let seen = [
            ("npb-bt", "A", 4, 3.1),
            ("npb-bt", "A", 9, 6.1),
            ("npb-bt", "A", 16, 6.2),
            ("npb-bt", "A", 25, 0.2),
            ("npb-bt", "B", 25, 6.3),
            ("npb-sp", "A", 9, 6.1),
            ("npb-sp", "A", 16, 0.1),
            ("npb-sp", "B", 16, 6.2),
            ("npb-lu", "A", 4, 2.0),
            ("npb-lu", "A", 8, 2.6),
            ("npb-lu", "B", 16, 3.1),
            ("npb-cg", "A", 4, 0.0),
            ("npb-cg", "A", 16, 0.1),
            ("npb-cg", "B", 4, 1.5),
            ("npb-cg", "B", 8, 2.6),
            ("npb-cg", "B", 16, 2.9),
        ];
        for (app, class, processes, quarters) in seen {
            let ours = partners(Problem::of(app, class).expect("a benchmark"), processes)
                .expect("partners");
            assert!(
                (ours - quarters).abs() <= 0.3,
                "{app}.{class}.{processes}: {ours} against {quarters}"
            );
        }
    }
}
