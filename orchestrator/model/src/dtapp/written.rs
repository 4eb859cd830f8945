//! The data zone under a checkpointer that omits empty pages: the pages of the declared arrays that a benchmark writes.
//!
//! All cells have the same array bounds, which are rounded up. A smaller cell leaves its last rows and planes unwritten; if these are longer than a
//! page, pages stay empty. SP's message buffers are twice as large as its messages, and CG's matrix has fewer elements than its arrays. The code
//! traverses the arrays in the order in which the program does, without computing values.

use crate::{
    curve::{Model, ModelInfo, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
    linear::{Fixed, Linear},
    nas::{Benchmark, Problem, Tiles},
    scope::Common,
};
use cvc_core::units::MIB;

/// Bytes per page.
const PAGE: u64 = 4096;

/// Text, heap and work arrays in addition to the written pages, MiB: the mean over NPB 3.3 under DMTCP 4.2.
const REST_MIB: f64 = 0.3;

/// Half-width of the interval, MiB. It covers all runs of BT, SP, LU and CG, classes A and B.
const BAND_MIB: f64 = 0.45;

/// Half-width of the interval, MiB, if the constant is fitted.
const FITTED_BAND_MIB: f64 = 0.3;

/// Returns the model with the written pages and the constant `REST_MIB`.
pub(super) fn written() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "dtapp-written-arrays",
            title: "written pages of the arrays",
            formula: "MiB = pages of the declared arrays that the program writes·4096/2^20 + 0.3",
            source: "declarations and loops of NPB 3.3-MPI; DMTCP 4 leaves out the others",
            tier: Tier::NoRun,
            parameters: 0,
        },
        answer: |at| Ok(Estimate::plus_minus(written_of(at)? + REST_MIB, BAND_MIB).into()),
        believes: empty_pages_are_left_out,
    })
}

/// Returns the model with the written pages and a fitted constant.
pub(super) fn with_rest() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["h"],
        offset: written_of,
        least_band: FITTED_BAND_MIB,
        common: &[Common::Benchmark],
        ..Linear::of(ModelInfo {
            id: "dtapp-written-arrays-rest",
            title: "written pages of the arrays and a measured rest",
            formula: "MiB = pages of the declared arrays that the program writes·4096/2^20 + h",
            source: "as dtapp-written-arrays, with the rest of runs",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn written_of(at: &Setting) -> Result<f64, FitError> {
    let unknown = || {
        FitError::OutOfDomain(format!(
            "which pages {}.{} writes is not known",
            at.app, at.class
        ))
    };
    written_mib(at.nas.ok_or_else(unknown)?, at.processes())
}

fn empty_pages_are_left_out(samples: &[&Sample]) -> Result<(), FitError> {
    let mut outside = 0;
    for sample in samples {
        outside +=
            usize::from((sample.value - written_of(&sample.at)? - REST_MIB).abs() > BAND_MIB);
    }
    if 2 * outside > samples.len() {
        return Err(FitError::OutOfDomain(format!(
            "{outside} of {} training runs are not within {BAND_MIB} MiB of the written pages",
            samples.len()
        )));
    }
    Ok(())
}

/// Returns the MiB of array pages that a process writes: the mean over the first, a middle and the last process.
///
/// # Errors
/// The benchmark does not run on this number of processes.
pub fn written_mib(problem: Problem, processes: u32) -> Result<f64, FitError> {
    Ok(traced(problem, processes)?.0 * PAGE as f64 / MIB)
}

/// Returns the number of sequences of consecutive written pages, which empty pages separate: the mean over the first, a middle and the last
/// process.
///
/// # Errors
/// See [`written_mib`].
pub fn written_runs(problem: Problem, processes: u32) -> Result<f64, FitError> {
    Ok(traced(problem, processes)?.1)
}

/// Returns the mean number of written pages, and of sequences of consecutive written pages.
fn traced(problem: Problem, processes: u32) -> Result<(f64, f64), FitError> {
    if problem.benchmark == Benchmark::Cg {
        // each of the matrix's five arrays has an empty end
        return Ok((
            problem.cg_written_bytes(processes)? as f64 / PAGE as f64,
            6.0,
        ));
    }
    let tiles = problem.tiles(processes)?;
    let points = u64::from(problem.grid_points().unwrap_or(0));
    let mut ranks = vec![0, processes / 2, processes - 1];
    ranks.dedup();
    let (mut pages, mut runs) = (0, 0);
    for rank in &ranks {
        let rank = u64::from(*rank);
        let of = match (tiles, problem.benchmark) {
            (Tiles::Cells { q, m }, Benchmark::Sp) => sp(q, m, &cells(points, q, rank)),
            (Tiles::Cells { q, m }, _) => bt(q, m, &cells(points, q, rank)),
            (Tiles::Columns { i, j, n }, _) => lu(i, j, n, rank),
        };
        pages += of.count;
        runs += of.runs;
    }
    let mean = |sum: u64| sum as f64 / ranks.len() as f64;
    Ok((mean(pages), mean(runs)))
}

/// Returns the number of points along each edge of a process's cells, which lie on a diagonal of the cube.
fn cells(points: u64, q: u64, rank: u64) -> Vec<[u64; 3]> {
    let size = |at: u64| points / q + u64::from(at < points % q);
    (0..q)
        .map(|c| {
            [
                size((rank % q + c) % q),
                size((rank / q + q - c % q) % q),
                size(c),
            ]
        })
        .collect()
}

/// Counts written pages of arrays that follow each other in memory.
#[derive(Default)]
struct Pages {
    /// Bytes before the current array.
    base: u64,
    /// The first page after the pages counted so far.
    next: u64,
    count: u64,
    runs: u64,
}

/// An array that stores `parts` sub-arrays for each cell of a process.
struct Array {
    /// Bytes of an element.
    bytes: u64,
    /// Declared points along each dimension.
    edges: [u64; 3],
    parts: u64,
}

/// Written points along each dimension as (first, end), where the end is excluded; 0 is the first declared point.
type Span = [(u64, u64); 3];

impl Pages {
    /// Counts the bytes of the current array from `start` to just before `end`. Calls must be in the order of `start`.
    fn write(&mut self, start: u64, end: u64) {
        if end > start {
            let (first, after) = ((self.base + start) / PAGE, (self.base + end).div_ceil(PAGE));
            self.runs += u64::from(self.count == 0 || first > self.next);
            self.count += after.saturating_sub(first.max(self.next));
            self.next = self.next.max(after);
        }
    }

    /// Counts a whole array whose first `used` bytes are written.
    fn front(&mut self, bytes: u64, used: u64) {
        self.write(0, used.min(bytes));
        self.base += bytes;
    }

    /// Counts the written planes of an array for all cells. Gaps between the rows of a plane are shorter than a page and count as written.
    fn planes(&mut self, array: &Array, spans: &[Span]) {
        let [ei, ej, ek] = array.edges;
        let plane = ei * ej * array.bytes;
        for span in spans {
            let [(i0, i1), (j0, j1), (k0, k1)] = *span;
            for _ in 0..array.parts {
                for k in k0..k1 {
                    self.write(
                        k * plane + (j0 * ei + i0) * array.bytes,
                        k * plane + ((j1 - 1) * ei + i1) * array.bytes,
                    );
                }
                self.base += ek * plane;
            }
        }
    }
}

/// Returns the written points of each cell, extended by `below` and `above` points. `first` is the position of the cell's first point in its array.
fn around(cells: &[[u64; 3]], first: u64, below: u64, above: u64) -> Vec<Span> {
    cells
        .iter()
        .map(|cell| cell.map(|edge| (first - below, first + edge + above)))
        .collect()
}

/// Returns the used bytes of a message buffer: the faces exchanged at one time, with two layers of five values in each direction.
fn sent(cells: &[[u64; 3]]) -> u64 {
    let faces = |[x, y, z]: &[u64; 3]| x * y + y * z + x * z;
    cells
        .iter()
        .take(cells.len() - 1)
        .map(|cell| 2 * 10 * 8 * faces(cell))
        .sum()
}

fn bt(q: u64, m: u64, cells: &[[u64; 3]]) -> Pages {
    let mut pages = Pages::default();
    let whole = vec![[(1, m + 3); 3]; cells.len()];
    // the solver stores data received from the preceding cell in the first row and plane
    let received = u64::from(q > 1);
    pages.planes(
        &Array {
            bytes: 40,
            edges: [m + 4; 3],
            parts: 1,
        },
        &whole,
    );
    for _ in 0..6 {
        pages.planes(
            &Array {
                bytes: 8,
                edges: [m + 2; 3],
                parts: 1,
            },
            &around(cells, 1, 1, 1),
        );
    }
    pages.planes(
        &Array {
            bytes: 40,
            edges: [m + 1; 3],
            parts: 1,
        },
        &around(cells, 1, received, 0),
    );
    pages.planes(
        &Array {
            bytes: 40,
            edges: [m; 3],
            parts: 1,
        },
        &around(cells, 0, 0, 0),
    );
    pages.planes(
        &Array {
            bytes: 200,
            edges: [m + 1; 3],
            parts: 1,
        },
        &around(cells, 1, received, 0),
    );
    let buffer = 8 * (60 * m * m * (q - 1) + 1);
    pages.front(buffer, sent(cells));
    pages.front(buffer, sent(cells));
    let carried = 40 * (m + 1).pow(2) * q;
    pages.front(carried, carried);
    pages
}

fn sp(q: u64, m: u64, cells: &[[u64; 3]]) -> Pages {
    let mut pages = Pages::default();
    let r = 2 * (m / 2) + 1;
    let whole = vec![[(1, r + 2), (1, r + 2), (1, m + 3)]; cells.len()];
    pages.planes(
        &Array {
            bytes: 8,
            edges: [r + 4, r + 4, m + 4],
            parts: 5,
        },
        &whole,
    );
    for _ in 0..8 {
        pages.planes(
            &Array {
                bytes: 8,
                edges: [m + 2; 3],
                parts: 1,
            },
            &around(cells, 1, 1, 1),
        );
    }
    for parts in [5, 5, 15] {
        pages.planes(
            &Array {
                bytes: 8,
                edges: [r, r, m],
                parts,
            },
            &around(cells, 0, 0, 0),
        );
    }
    let buffer = 8 * (120 * m * m * (q - 1) + 1);
    pages.front(buffer, sent(cells));
    pages.front(buffer, sent(cells));
    pages
}

fn lu(i: u64, j: u64, n: u64, rank: u64) -> Pages {
    let mut pages = Pages::default();
    let (x, y) = (n.div_ceil(i), n.div_ceil(j));
    let size = |at: u64, of: u64| n / of + u64::from(at < n % of);
    let (at_x, at_y) = (rank % x, (rank / x).min(y - 1));
    let (nx, ny) = (size(at_x, x), size(at_y, y));
    // ghost layers exist only towards neighbours
    let span = |at: u64, of: u64, points: u64, layers: u64| {
        (
            if at == 0 { layers } else { 0 },
            layers + points + if at + 1 == of { 0 } else { layers },
        )
    };
    for _ in 0..3 {
        pages.planes(
            &Array {
                bytes: 40,
                edges: [i + 4, j + 4, n],
                parts: 1,
            },
            &[[span(at_x, x, nx, 2), span(at_y, y, ny, 2), (0, n)]],
        );
    }
    pages.planes(
        &Array {
            bytes: 40,
            edges: [i + 2, j + 2, n],
            parts: 1,
        },
        &[[span(at_x, x, nx, 1), span(at_y, y, ny, 1), (0, n)]],
    );
    for _ in 0..4 {
        pages.front(200 * i * j, 200 * i * ny);
    }
    for _ in 0..2 {
        let longest = if x * y > 1 { 80 * nx.max(ny) * n } else { 0 };
        pages.front(80 * j * n, longest);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages, cells, written_mib};
    use crate::{FitError, dtapp::static_arrays_mib, nas::Problem};

    #[test]
    fn pages_are_counted_once() {
        let mut pages = Pages::default();
        pages.write(0, 1);
        pages.write(10, PAGE);
        pages.write(PAGE, PAGE + 1);
        pages.write(5 * PAGE - 1, 5 * PAGE + 1);
        pages.write(7, 7);
        assert_eq!((pages.count, pages.runs), (4, 2));
        pages.front(10 * PAGE, 6 * PAGE);
        pages.front(PAGE, PAGE);
        // pages up to the sixth are already counted; the next array begins after four empty pages
        assert_eq!((pages.count, pages.runs, pages.base), (5, 3, 11 * PAGE));
    }

    #[test]
    fn the_cells_of_a_process_lie_on_a_diagonal() {
        assert_eq!(cells(10, 3, 0), [[4, 4, 4], [3, 3, 3], [3, 3, 3]]);
        assert_eq!(cells(10, 3, 4), [[3, 3, 4], [3, 4, 3], [4, 3, 3]]);
        assert_eq!(cells(12, 1, 0), [[12, 12, 12]]);
    }

    #[test]
    fn no_more_is_written_than_is_declared() {
        for (app, processes) in [
            ("npb-bt", [1, 16, 324]),
            ("npb-sp", [4, 25, 256]),
            ("npb-lu", [1, 8, 100]),
        ] {
            for class in ["S", "A", "D"] {
                let problem = Problem::of(app, class).expect("a benchmark");
                for processes in processes {
                    let Ok(declared) = static_arrays_mib(problem, processes) else {
                        continue;
                    };
                    let written = written_mib(problem, processes).expect("a size");
                    assert!(
                        written > 0.5 * (declared - 0.5) && written <= declared,
                        "{app}.{class}.{processes}: {written} of {declared}"
                    );
                }
            }
        }
        let cg = Problem::of("npb-cg", "A").expect("a benchmark");
        assert!(matches!(written_mib(cg, 9), Err(FitError::OutOfDomain(_))));
        assert!(written_mib(Problem::of("npb-bt", "A").expect("a benchmark"), 0).is_err());
    }
}
