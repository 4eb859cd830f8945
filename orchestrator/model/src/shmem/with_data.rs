//! Zones that contain both shared memory and data of the program: large allocations of a program are between the mappings of shared memory.

use super::growth_mib;
use crate::{
    check::at_least_one,
    curve::{Model, ModelInfo, MpiKind, Setting, Tier},
    fit::FitError,
    linear::{Linear, Weights},
    scope::{Along, Common},
};

/// Minimum half-width of an interval, MiB, as for shared memory alone.
const BAND_MIB: f64 = 0.25;

/// Returns the models of a zone that also contains the program's own data.
pub fn models_with_data() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(Linear {
            names: &["c", "D"],
            terms: |at| Ok(vec![1.0, 1.0 / f64::from(at.processes())]),
            ..with_data(
                "shmem-and-data",
                "shared memory, and data that the processes divide",
                "MiB = shared(p) + c + D/P",
                2,
            )
        }),
        Box::new(Linear {
            names: &["D"],
            terms: |at| Ok(vec![1.0 / f64::from(at.processes())]),
            offset: |at| Ok(library_mib(at)? + LIBRARY_C_MIB),
            ..with_data(
                "shmem-and-data-of-one",
                "shared memory, and data that the processes divide",
                "MiB = shared(p) + 8 + D/P",
                1,
            )
        }),
    ]
}

/// Memory of libraries in this zone outside the segment, MiB: 6 to 10 with Open MPI 4.1 and MPICH 4.0.
const LIBRARY_C_MIB: f64 = 8.0;

/// Returns the size of the segment of ch3:nemesis in the image of a rank, MiB; 0 for other libraries, which store their segments next to the
/// images.
pub(crate) fn library_mib(at: &Setting) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", at.per_node)?;
    Ok(if at.mpi == MpiKind::Nemesis && at.per_node > 1 {
        growth_mib(p)
    } else {
        0.0
    })
}

/// Returns the MiB in the zone that are assumed to be the program's data: all except the segment and the other memory of libraries.
pub fn data_mib(at: &Setting, mib: f64) -> f64 {
    library_mib(at).map_or(0.0, |library| (mib - library - LIBRARY_C_MIB).max(0.0))
}

fn with_data(
    id: &'static str,
    title: &'static str,
    formula: &'static str,
    parameters: usize,
) -> Linear {
    Linear {
        offset: library_mib,
        weights: Weights::Relative,
        least_band: BAND_MIB,
        common: &[Common::Mpi, Common::Program],
        along: Along::Processes,
        ..Linear::of(ModelInfo {
            id,
            title,
            formula,
            source: "cvc: arrays divided among the processes; shared(p) = 4·p + p·(p − 1)/16 with ch3:nemesis and p > 1, else 0",
            tier: Tier::SmallRuns,
            parameters,
        })
    }
}

/// Returns whether the zone contains data of the program. It does if the memory in addition to the library's falls with the number of processes,
/// which no library's memory does, or if it is far larger than any library's. The samples are of one program and class.
pub fn holds_data(samples: &[(Setting, f64)]) -> bool {
    let own = |(at, mib): &(Setting, f64)| library_mib(at).map_or(0.0, |library| mib - library);
    let falls = |a: &(Setting, f64), b: &(Setting, f64)| {
        a.0.processes() < b.0.processes() && own(a) > own(b) + FALL_MIB
    };
    let pairs = |holds: &dyn Fn(&(Setting, f64), &(Setting, f64)) -> bool| {
        samples.iter().any(|a| samples.iter().any(|b| holds(a, b)))
    };
    // memory that grows with the number of processes is shared memory
    let grows = |a: &(Setting, f64), b: &(Setting, f64)| {
        a.0.processes() < b.0.processes() && own(b) > own(a) + FALL_MIB
    };
    pairs(&falls) || !pairs(&grows) && samples.iter().any(|a| own(a) > MAX_OF_A_LIBRARY_MIB)
}

/// Decrease that no library causes, MiB. With ch3:nemesis, BT and SP decrease by up to 1.6 MiB, because fewer partners exchange large messages.
const FALL_MIB: f64 = 2.0;

/// Upper bound of any library's memory in this zone outside its segment, MiB.
const MAX_OF_A_LIBRARY_MIB: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::{holds_data, models_with_data};
    use crate::{MpiKind, Output, Sample, Setting};
    use cvc_core::mapping::Mapping;

    fn at(p: u32, mpi: MpiKind) -> Setting {
        let (app, class, mapping) = ("program".to_owned(), "B".to_owned(), Mapping::one_node(p));
        Setting {
            app,
            class,
            nas: None,
            size: None,
            mapping,
            per_node: p,
            mpi,
            output: Output::default(),
        }
    }

    /// Measured with DMTCP 4.2.0, MPICH 4.0.2 and Open MPI 4.1.4, MiB: on 1, 2, 4, 8 and 16 processes.
    const MINIGHOST_CH3: [f64; 5] = [1339.4, 707.1, 395.6, 254.2, 217.7];
    const MINIGHOST_OPEN_MPI: [f64; 5] = [1335.9, 695.4, 375.2, 215.1, 135.1];
    const LAMMPS: [f64; 5] = [18.5, 13.3, 10.9, 9.0, 8.4];
    const IS_CH3: [f64; 5] = [9.9, 18.0, 27.2, 48.0, 93.6];
    const IS_OPEN_MPI: [f64; 5] = [6.3, 6.4, 6.4, 6.7, 6.7];

    fn samples(mib: [f64; 5], mpi: MpiKind) -> Vec<(Setting, f64)> {
        [1, 2, 4, 8, 16]
            .into_iter()
            .zip(mib)
            .map(|(p, mib)| (at(p, mpi), mib))
            .collect()
    }

    #[test]
    fn data_next_to_shared_memory_are_detected_by_their_fall() {
        for (mib, mpi, holds) in [
            (MINIGHOST_CH3, MpiKind::Nemesis, true),
            (MINIGHOST_OPEN_MPI, MpiKind::OpenMpi, true),
            (LAMMPS, MpiKind::OpenMpi, true),
            (IS_CH3, MpiKind::Nemesis, false),
            (IS_OPEN_MPI, MpiKind::OpenMpi, false),
        ] {
            assert_eq!(holds_data(&samples(mib, mpi)), holds, "{mib:?}");
        }
        // memory that the program shares grows, even if it is large
        let shared = samples([10.0, 14.2, 70.2, 262.2, 1030.2], MpiKind::OpenMpi);
        assert!(!holds_data(&shared[1..3]));
        // runs on one number of processes decide only if the memory is larger than any library's
        assert!(holds_data(&samples(MINIGHOST_CH3, MpiKind::Nemesis)[2..3]));
        assert!(!holds_data(&samples(LAMMPS, MpiKind::OpenMpi)[2..3]));
    }

    #[test]
    fn three_small_runs_predict_larger_ones() {
        let model = &models_with_data()[0];
        for (mib, mpi, within) in [
            (MINIGHOST_CH3, MpiKind::Nemesis, 0.001),
            (MINIGHOST_OPEN_MPI, MpiKind::OpenMpi, 0.002),
            (LAMMPS, MpiKind::OpenMpi, 0.07),
        ] {
            let all: Vec<Sample> = samples(mib, mpi)
                .into_iter()
                .map(|(at, value)| Sample {
                    id: at.processes().to_string(),
                    at,
                    value,
                })
                .collect();
            let curve = model
                .fit(&all[..3].iter().collect::<Vec<_>>())
                .expect("a fit");
            for held_out in &all[3..] {
                let predicted = curve
                    .predict(&held_out.at)
                    .expect("an answer")
                    .estimate
                    .value;
                assert!(
                    (predicted / held_out.value - 1.0).abs() < within,
                    "{held_out:?}: {predicted}"
                );
            }
        }
    }
}
