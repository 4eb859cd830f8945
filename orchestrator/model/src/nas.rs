//! Problem sizes of the NAS Parallel Benchmarks (MPI, version 3.3), and the bytes of the arrays that their sources declare.

use super::{check::at_least_one, fit::FitError};
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

impl Benchmark {
    /// Returns the name as the suite writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bt => "BT",
            Self::Sp => "SP",
            Self::Lu => "LU",
            Self::Cg => "CG",
        }
    }
}

/// A benchmark with its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Problem {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// S, W, A, B, C, D, E, or F (version 3.4).
    pub class: char,
}

/// How the grid of a three-dimensional benchmark is divided, as the numbers in its array bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tiles {
    /// BT, SP: `q` cells for each of `q`² processes, with `m` points per edge.
    Cells {
        /// The square root of the number of processes.
        q: u64,
        /// Points of a cell's edge, rounded up: floor(N/q) + 1.
        m: u64,
    },
    /// LU: columns of `i` · `j` · `n` points.
    Columns {
        /// Points along x.
        i: u64,
        /// Points along y.
        j: u64,
        /// Points along z, which is not divided.
        n: u64,
    },
}

impl Problem {
    /// Returns the benchmark and class for an application name of cvc's own descriptors (BT-IO has the arrays of BT). Returns `None` if the
    /// program's arrays are unknown, or if the suite does not have the class.
    pub fn of(app: &str, class: &str) -> Option<Self> {
        let benchmark = match app {
            "npb-bt" | "btio-full" | "btio-simple" => Benchmark::Bt,
            "npb-sp" => Benchmark::Sp,
            "npb-lu" => Benchmark::Lu,
            "npb-cg" => Benchmark::Cg,
            _ => return None,
        };
        let mut letters = class.chars();
        let class = letters.next().filter(|c| "SWABCDEF".contains(*c))?;
        letters
            .next()
            .is_none()
            .then_some(Self { benchmark, class })
    }

    /// Returns N, the number of points along each of the three dimensions; `None` for CG, which has no grid.
    pub fn grid_points(&self) -> Option<u32> {
        let of_w = match self.benchmark {
            Benchmark::Bt => 24,
            Benchmark::Sp => 36,
            Benchmark::Lu => 33,
            Benchmark::Cg => return None,
        };
        match self.class {
            'S' => Some(12),
            'W' => Some(of_w),
            'A' => Some(64),
            'B' => Some(102),
            'C' => Some(162),
            'D' => Some(408),
            'E' => Some(1020),
            'F' => Some(2560),
            _ => None,
        }
    }

    /// Returns the order of CG's matrix and the number of nonzeros of a generating vector; `None` for other benchmarks.
    pub(super) fn matrix(self) -> Option<(u64, u64)> {
        match self.class {
            'S' => Some((1_400, 7)),
            'W' => Some((7_000, 8)),
            'A' => Some((14_000, 11)),
            'B' => Some((75_000, 13)),
            'C' => Some((150_000, 15)),
            'D' => Some((1_500_000, 21)),
            'E' => Some((9_000_000, 26)),
            'F' => Some((54_000_000, 31)),
            _ => None,
        }
    }

    /// Returns how the grid is divided among `processes`.
    pub(super) fn tiles(self, processes: u32) -> Result<Tiles, FitError> {
        at_least_one("the number of processes", processes)?;
        let unknown = || {
            FitError::OutOfDomain(format!(
                "{} has no grid of class {}",
                self.benchmark.name(),
                self.class
            ))
        };
        let n = u64::from(self.grid_points().ok_or_else(unknown)?);
        if self.benchmark == Benchmark::Lu {
            let (x, y) = near_square(processes).ok_or_else(|| {
                FitError::OutOfDomain(format!("LU runs on x times y processes with y <= x <= 2y; {processes} is not such a number"))
            })?;
            if u64::from(x) > n {
                return Err(FitError::OutOfDomain(format!(
                    "the grid of class {} is too small for {processes} processes: it has only {n} points along each dimension",
                    self.class
                )));
            }
            return Ok(Tiles::Columns {
                i: n.div_ceil(u64::from(x)),
                j: n.div_ceil(u64::from(y)),
                n,
            });
        }
        let q = u64::from(processes.isqrt());
        if q * q != u64::from(processes) {
            return Err(FitError::OutOfDomain(format!(
                "{} runs on a square number of processes; {processes} is not one",
                self.benchmark.name()
            )));
        }
        if q > n {
            return Err(FitError::OutOfDomain(format!(
                "the grid of class {} is too small for {processes} processes: it has only {n} points along each dimension",
                self.class
            )));
        }
        Ok(Tiles::Cells { q, m: n / q + 1 })
    }

    /// Returns the bytes of the arrays that the source declares, for each of `processes` processes:
    ///
    /// ```text
    /// BT: 8·[ q·(6(M+2)³ + 5M³ + 5(M+4)³ + 30(M+1)³ + 5(M+1)²) + 2·(60·M²·(q−1) + 1) ]     M = ⌊N/q⌋ + 1, q = √P
    /// SP: 8·[ q·(5(R+4)²(M+4) + 8(M+2)³ + 25·R²·M) + 2·(120·M²·(q−1) + 1) ]               R = 2⌊M/2⌋ + 1
    /// LU: 8·[ 15(i+4)(j+4)N + 5(i+2)(j+2)N + 100·i·j + 20·j·N ]                            i = ⌈N/x⌉, j = ⌈N/y⌉, x·y = P, y ≤ x ≤ 2y
    /// CG: 4·(3z + 3a + 2) + 8·(2z + a + 1 + 6·(⌊a/rows⌋ + 2))
    ///     z = ⌊a(k+1)/P⌋·(k+1) + k + ⌊a(k + 2 + ⌊P/256⌋)/cols⌋,   rows·cols = P, cols = rows or 2·rows
    /// ```
    ///
    /// N is the number of grid points along a dimension. CG's matrix has a rows with about k² nonzeros each. Source: the declarations of NPB
    /// 3.3-MPI. Compiled programs have 1 to 104 KiB more (work arrays for one line of cells), and LU on one or two processes up to 0.6 MiB more.
    ///
    /// # Errors
    /// The benchmark does not run on this number of processes.
    pub fn static_bytes(self, processes: u32) -> Result<u64, FitError> {
        if self.benchmark == Benchmark::Cg {
            return self.cg_bytes(processes);
        }
        let words = match (self.tiles(processes)?, self.benchmark) {
            (Tiles::Cells { q, m }, Benchmark::Sp) => {
                let r = 2 * (m / 2) + 1;
                q * (5 * (r + 4).pow(2) * (m + 4) + 8 * (m + 2).pow(3) + 25 * r * r * m)
                    + 2 * (120 * m * m * (q - 1) + 1)
            }
            (Tiles::Cells { q, m }, _) => {
                let cell = 6 * (m + 2).pow(3)
                    + 5 * m.pow(3)
                    + 5 * (m + 4).pow(3)
                    + 30 * (m + 1).pow(3)
                    + 5 * (m + 1).pow(2);
                q * cell + 2 * (60 * m * m * (q - 1) + 1)
            }
            (Tiles::Columns { i, j, n }, _) => {
                15 * (i + 4) * (j + 4) * n + 5 * (i + 2) * (j + 2) * n + 100 * i * j + 20 * j * n
            }
        };
        Ok(8 * words)
    }

    fn cg_bytes(self, processes: u32) -> Result<u64, FitError> {
        let (order, nonzeros, rows) = self.cg_blocks(processes)?;
        let p = u64::from(processes);
        let bound = order * (nonzeros + 1) / p * (nonzeros + 1)
            + nonzeros
            + order * (nonzeros + 2 + p / 256) / (p / rows);
        Ok(cg_bytes_of(order, rows, bound))
    }

    /// Returns the bytes of CG's arrays that a process writes. The matrix arrays are declared for an estimated number of elements. The actual
    /// elements are those of n outer products of vectors with k + 1 elements, and the diagonal: n·((k + 1)² + 1) over all processes.
    pub(super) fn cg_written_bytes(self, processes: u32) -> Result<u64, FitError> {
        let (order, nonzeros, rows) = self.cg_blocks(processes)?;
        Ok(cg_bytes_of(
            order,
            rows,
            order * ((nonzeros + 1).pow(2) + 1) / u64::from(processes),
        ))
    }

    /// Returns the order of the matrix, the number of nonzeros of a generating vector, and the number of rows of the process grid.
    fn cg_blocks(self, processes: u32) -> Result<(u64, u64, u64), FitError> {
        at_least_one("the number of processes", processes)?;
        let (order, nonzeros) = self
            .matrix()
            .ok_or_else(|| FitError::OutOfDomain(format!("CG has no class {}", self.class)))?;
        if !processes.is_power_of_two() {
            return Err(FitError::OutOfDomain(format!(
                "CG runs on a power of two of processes; {processes} is not one"
            )));
        }
        Ok((order, nonzeros, 1 << (processes.trailing_zeros() / 2)))
    }
}

/// Returns the bytes of CG's arrays for this number of matrix elements.
fn cg_bytes_of(order: u64, rows: u64, elements: u64) -> u64 {
    4 * (3 * elements + 3 * order + 2) + 8 * (2 * elements + order + 1 + 6 * (order / rows + 2))
}

/// Returns the factors x ≥ y of P that LU uses: x is the smallest divisor of P that is at least √P, if x ≤ 2y.
fn near_square(processes: u32) -> Option<(u32, u32)> {
    let root = processes.isqrt();
    let start = if root * root == processes {
        root
    } else {
        root + 1
    };
    (start..=processes)
        .map(|x| (x, processes / x))
        .take_while(|(x, y)| *x <= y.saturating_mul(2))
        .find(|(x, y)| x * y == processes)
}

#[cfg(test)]
mod tests {
    use super::{Benchmark, FitError, Problem, near_square};

    #[test]
    fn descriptors_are_known_by_their_names() {
        assert_eq!(
            Problem::of("btio-full", "C"),
            Some(Problem {
                benchmark: Benchmark::Bt,
                class: 'C'
            })
        );
        for (app, class) in [
            ("npb-bt", "X"),
            ("npb-bt", "AB"),
            ("npb-bt", ""),
            ("npb-ft", "A"),
            ("lulesh", "A"),
        ] {
            assert_eq!(Problem::of(app, class), None, "{app} {class}");
        }
        assert_eq!(
            Problem::of("npb-sp", "W").and_then(|p| p.grid_points()),
            Some(36)
        );
        assert_eq!(
            Problem::of("npb-cg", "W").and_then(|p| p.grid_points()),
            None
        );
    }

    /// Sizes of `.bss` of NPB 3.3 compiled with gfortran are slightly larger than the declared arrays.
    #[test]
    fn compiled_programs_hold_the_declared_arrays() {
        let compiled: [(&str, &str, u32, u64); 16] = [
            ("npb-bt", "S", 9, 371_360),
            ("npb-bt", "W", 25, 628_480),
            ("npb-bt", "A", 1, 107_803_552),
            ("npb-bt", "B", 16, 32_338_496),
            ("npb-bt", "C", 4, 433_441_568),
            ("npb-sp", "S", 4, 435_424),
            ("npb-sp", "W", 9, 3_209_888),
            ("npb-sp", "B", 25, 19_672_704),
            ("npb-lu", "A", 8, 7_835_968),
            ("npb-lu", "B", 9, 24_444_288),
            ("npb-lu", "W", 2, 4_580_128),
            ("npb-lu", "A", 25, 3_066_208),
            ("npb-cg", "A", 1, 62_497_792),
            ("npb-cg", "B", 32, 19_201_664),
            ("npb-cg", "W", 8, 2_784_192),
            ("npb-cg", "S", 2, 1_527_680),
        ];
        for (app, class, processes, bss) in compiled {
            let declared = Problem::of(app, class)
                .expect("a benchmark")
                .static_bytes(processes)
                .expect("a size");
            assert!(
                declared < bss && bss - declared < 110_000,
                "{app}.{class}.{processes}: {declared} against {bss}"
            );
        }
    }

    #[test]
    fn numbers_of_processes_that_a_benchmark_cannot_use_are_refused() {
        let of = |app, class| Problem::of(app, class).expect("a benchmark");
        assert!(matches!(
            of("npb-bt", "A").static_bytes(0),
            Err(FitError::BadValue { .. })
        ));
        assert!(matches!(
            of("npb-cg", "A").static_bytes(0),
            Err(FitError::BadValue { .. })
        ));
        for (app, processes) in [
            ("npb-bt", 8),
            ("npb-sp", 24),
            ("npb-lu", 7),
            ("npb-lu", 3),
            ("npb-cg", 9),
            ("npb-bt", 4_225),
        ] {
            assert!(
                matches!(
                    of(app, "A").static_bytes(processes),
                    Err(FitError::OutOfDomain(_))
                ),
                "{app} {processes}"
            );
        }
        assert!(of("npb-bt", "E").static_bytes(u32::from(u16::MAX)).is_err());
        assert!(of("npb-lu", "E").static_bytes(u32::MAX).is_err());
    }

    #[test]
    fn lu_takes_the_most_square_grid() {
        for (processes, grid) in [
            (1, (1, 1)),
            (2, (2, 1)),
            (6, (3, 2)),
            (8, (4, 2)),
            (25, (5, 5)),
            (12, (4, 3)),
            (18, (6, 3)),
        ] {
            assert_eq!(near_square(processes), Some(grid), "{processes}");
        }
        assert_eq!(near_square(5), None);
    }
}
