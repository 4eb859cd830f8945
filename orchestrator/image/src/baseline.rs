//! The baseline: the private anonymous memory that belongs to libraries. In an image it is indistinguishable from allocations of the program, so
//! its size is taken from measurements of the smallest MPI program.

use serde::{Deserialize, Serialize};

/// MPI libraries, distinguished only if their own memory differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MpiFlavour {
    /// No MPI library is mapped: the program does not use MPI, or the library is linked statically.
    #[default]
    None,
    /// MPICH with the device ch4:ucx.
    MpichCh4Ucx,
    /// MPICH with the device ch4:ofi.
    MpichCh4Ofi,
    /// MPICH with the device ch3:nemesis.
    MpichCh3,
    /// Open MPI.
    OpenMpi,
}

impl MpiFlavour {
    /// Returns the name for tables and JSON.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "no MPI library",
            Self::MpichCh4Ucx => "MPICH (ch4:ucx)",
            Self::MpichCh4Ofi => "MPICH (ch4:ofi)",
            Self::MpichCh3 => "MPICH (ch3:nemesis)",
            Self::OpenMpi => "Open MPI",
        }
    }

    /// Returns the program on which the built-in value was measured; empty for the smallest MPI program.
    fn measured_on(self) -> &'static str {
        match self {
            Self::None | Self::MpichCh4Ucx | Self::OpenMpi => "",
            Self::MpichCh4Ofi => "one image of another program, ",
            Self::MpichCh3 => "images of NAS LU and BT, ",
        }
    }

    /// Returns the number of MPI processes, given the number of peers in DMTCP's computation on one node; launchers are peers too.
    pub(super) fn processes(self, peers: u32) -> u32 {
        let launchers = match self {
            Self::None => 0,
            Self::MpichCh4Ucx | Self::MpichCh4Ofi | Self::MpichCh3 => 2,
            Self::OpenMpi => 1,
        };
        peers.saturating_sub(launchers).max(1)
    }
}

/// The release of DMTCP that wrote an image. DMTCP's own memory is part of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// DMTCP 3.x, which stores memory in whole steps of 1 MiB.
    V3,
    /// DMTCP 4.x, which stores only pages that were touched.
    V4,
}

/// The private anonymous memory of libraries in each process, measured with the smallest program: static data that are not in the libraries' files,
/// allocations of the libraries, and memory of DMTCP. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The MPI library.
    pub library: MpiFlavour,
    /// Number of processes for which the values hold. `None` if the image does not record it; the values are then those of one process.
    pub processes: Option<u32>,
    /// Stored data, mean.
    pub stored_bytes: u64,
    /// Stored data, minimum.
    pub stored_low_bytes: u64,
    /// Stored data, maximum.
    pub stored_high_bytes: u64,
    /// Length of the accessible address ranges.
    pub accessible_bytes: u64,
    /// Number of area headers.
    pub headers: u64,
    /// Where the values come from.
    pub source: String,
}

/// A measured value: stored data (mean, minimum, maximum) and address ranges in KiB, and the number of headers.
struct Measured {
    processes: u32,
    stored_kib: [u64; 3],
    accessible_kib: u64,
    headers: u64,
}

/// Returns the memory of DMTCP and the C library, measured with a program without MPI that only waits.
///
/// 4.x: DMTCP 4.2.0, glibc 2.36, five runs, 2026-11-25. 3.x: the image of 3.2.0 among this repository's tests (`v3-single-process`) without the
/// 64 MiB and 4 KiB that its program allocates.
const fn own(writer: Writer) -> Measured {
    match writer {
        Writer::V3 => Measured {
            processes: 1,
            stored_kib: [16_660, 16_660, 16_660],
            accessible_kib: 16_660,
            headers: 18,
        },
        Writer::V4 => Measured {
            processes: 1,
            stored_kib: [4_368, 4_368, 4_372],
            accessible_kib: 16_664,
            headers: 2_050,
        },
    }
}

/// Returns measured values of the smallest MPI program (start, barrier, wait), including the memory of [`own`], as DMTCP 4.2.0 stores it: with
/// Debian's MPICH 4.0.2 (ch4:ucx) and Open MPI 4.1.4 (ob1; self, vader, tcp) as cvc starts them, on one node, five runs (two on 8 processes), every
/// rank; 2026-11-25.
///
/// MPICH with ch3:nemesis (4.0.2): minimum and maximum of six images among this repository's tests, NAS LU and BT, whose arrays are static. MPICH
/// with ch4:ofi (5.0.2): one image there, without the 32 MiB that its program allocates. That program may allocate more in MPI_Allreduce, so the
/// minimum is that of ch4:ucx.
const fn measured(library: MpiFlavour) -> &'static [Measured] {
    match library {
        MpiFlavour::None => &[],
        MpiFlavour::MpichCh4Ucx => &[
            Measured {
                processes: 1,
                stored_kib: [5_538, 5_536, 5_548],
                accessible_kib: 18_788,
                headers: 2_104,
            },
            Measured {
                processes: 2,
                stored_kib: [5_613, 5_604, 5_624],
                accessible_kib: 19_803,
                headers: 2_132,
            },
            Measured {
                processes: 4,
                stored_kib: [5_626, 5_620, 5_644],
                accessible_kib: 19_809,
                headers: 2_131,
            },
            Measured {
                processes: 8,
                stored_kib: [5_645, 5_636, 5_684],
                accessible_kib: 19_816,
                headers: 2_129,
            },
        ],
        MpiFlavour::MpichCh4Ofi => &[Measured {
            processes: 4,
            stored_kib: [6_556, 5_536, 6_560],
            accessible_kib: 43_372,
            headers: 2_238,
        }],
        MpiFlavour::MpichCh3 => &[Measured {
            processes: 4,
            stored_kib: [9_696, 9_696, 11_584],
            accessible_kib: 22_512,
            headers: 2_075,
        }],
        MpiFlavour::OpenMpi => &[
            Measured {
                processes: 1,
                stored_kib: [6_221, 6_220, 6_228],
                accessible_kib: 20_372,
                headers: 2_124,
            },
            Measured {
                processes: 2,
                stored_kib: [6_272, 6_268, 6_272],
                accessible_kib: 20_375,
                headers: 2_121,
            },
            Measured {
                processes: 4,
                stored_kib: [6_360, 6_356, 6_360],
                accessible_kib: 20_496,
                headers: 2_126,
            },
            Measured {
                processes: 8,
                stored_kib: [6_393, 6_392, 6_400],
                accessible_kib: 20_496,
                headers: 2_125,
            },
        ],
    }
}

/// Returns the values for a number of processes, interpolated linearly between the measured numbers of processes. Beyond the largest number, its
/// values apply, but the maximum of the stored data grows as much per process as the mean grows between the two largest. `None` if `rows` is empty.
fn at(rows: &[Measured], processes: u32) -> Option<Measured> {
    let copy = |row: &Measured, processes| Measured { processes, ..*row };
    let after = rows.iter().position(|row| row.processes >= processes);
    match (after, rows) {
        (_, []) => None,
        (Some(0), [first, ..]) => Some(copy(first, processes)),
        (Some(i), _) => {
            let (below, above) = (&rows[i - 1], &rows[i]);
            let (part, whole) = (
                u64::from(processes - below.processes),
                u64::from(above.processes - below.processes),
            );
            let line = |a: u64, b: u64| (a * (whole - part) + b * part) / whole;
            let stored = |i: usize| line(below.stored_kib[i], above.stored_kib[i]);
            Some(Measured {
                processes,
                stored_kib: [stored(0), stored(1), stored(2)],
                accessible_kib: line(below.accessible_kib, above.accessible_kib),
                headers: line(below.headers, above.headers),
            })
        }
        (None, [.., before, last]) => {
            let mut row = copy(last, processes);
            let growth = last.stored_kib[0].saturating_sub(before.stored_kib[0])
                * u64::from(processes - last.processes);
            row.stored_kib[2] += growth / u64::from(last.processes - before.processes);
            Some(row)
        }
        (None, [only]) => Some(copy(only, processes)),
    }
}

impl Baseline {
    /// Returns the baseline that is built into cvc, which was measured once on another machine.
    pub(super) fn carried(writer: Writer, library: MpiFlavour, processes: Option<u32>) -> Self {
        const OWN_V4: Measured = own(Writer::V4);
        let own = own(writer);
        let row = at(measured(library), processes.unwrap_or(1)).unwrap_or(OWN_V4);
        let more = |value: u64, of_own: u64| value.saturating_sub(of_own);
        let ([stored, low, high], headers, how) = match writer {
            Writer::V4 => (
                row.stored_kib,
                row.headers,
                "DMTCP 4.2.0 on x86-64, 2026-11-25",
            ),
            Writer::V3 => {
                // the same memory, but DMTCP 3 stores a whole MiB wherever one page is in use
                let touched = own.stored_kib[0] + more(row.stored_kib[0], OWN_V4.stored_kib[0]);
                let all = own.stored_kib[0] + more(row.accessible_kib, OWN_V4.accessible_kib);
                (
                    [all.max(touched), touched, all.max(touched)],
                    own.headers + more(row.headers, OWN_V4.headers) / 2,
                    "derived from DMTCP 4.2.0",
                )
            }
        };
        Self {
            library,
            processes,
            stored_bytes: stored << 10,
            stored_low_bytes: low << 10,
            stored_high_bytes: high << 10,
            accessible_bytes: (own.accessible_kib
                + more(row.accessible_kib, OWN_V4.accessible_kib))
                << 10,
            headers,
            source: format!("carried by cvc: {}{how}", library.measured_on()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_measured_between_rows_on_a_line_and_uncertain_beyond() {
        let kib = |library, processes| {
            let b = Baseline::carried(Writer::V4, library, Some(processes));
            [b.stored_low_bytes, b.stored_bytes, b.stored_high_bytes].map(|bytes| bytes >> 10)
        };
        assert_eq!(kib(MpiFlavour::OpenMpi, 2), [6_268, 6_272, 6_272]);
        assert_eq!(kib(MpiFlavour::OpenMpi, 3), [6_312, 6_316, 6_316]);
        let [low, value, high] = kib(MpiFlavour::OpenMpi, 64);
        assert!(
            low == 6_392 && value == 6_393 && high > 6_800,
            "{low} {value} {high}"
        );
        assert_eq!(kib(MpiFlavour::MpichCh3, 1), [9_696, 9_696, 11_584]);
        assert_eq!(kib(MpiFlavour::None, 1), [4_368, 4_368, 4_372]);
    }

    #[test]
    fn dmtcp_3_stores_whole_steps() {
        let own = Baseline::carried(Writer::V3, MpiFlavour::None, None);
        assert_eq!((own.stored_bytes >> 10, own.processes), (16_660, None));
        let mpich = Baseline::carried(Writer::V3, MpiFlavour::MpichCh4Ucx, None);
        assert!(
            mpich.stored_low_bytes > own.stored_bytes
                && mpich.stored_high_bytes <= mpich.accessible_bytes
        );
    }

    #[test]
    fn every_row_is_in_its_interval_and_rows_rise() {
        for library in [
            MpiFlavour::None,
            MpiFlavour::MpichCh4Ucx,
            MpiFlavour::MpichCh4Ofi,
            MpiFlavour::MpichCh3,
            MpiFlavour::OpenMpi,
        ] {
            let rows = measured(library);
            assert!(rows.iter().all(|row| row.stored_kib[1] <= row.stored_kib[0]
                && row.stored_kib[0] <= row.stored_kib[2]));
            assert!(rows.is_sorted_by_key(|row| row.processes));
            assert!(
                rows.iter()
                    .all(|row| row.stored_kib[0] <= row.accessible_kib)
            );
        }
    }
}
