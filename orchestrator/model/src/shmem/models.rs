//! The models of shared memory.

use super::{
    Algorithm2, BUFFER_C_MIB, algorithm2_clamped_mib, buffer_mib,
    copies::{COPY_MIB, partners_on_node},
    growth_mib, open_mpi_mib,
    partners::Partners,
    quadratic_mib,
    with_data::library_mib,
};
use crate::{
    check::at_least_one,
    curve::{Answer, Fitted, Model, ModelInfo, MpiKind, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
    growth::Growth,
    linear::{Fixed, Linear, always},
    scope::{Along, Common},
};

/// Half-width of the interval of the published models, and minimum half-width for fitted models, MiB. It covers all measured cells of BT and SP.
const BAND_MIB: f64 = 0.7;

/// Minimum half-width, MiB, for models in which each process has a known number of partners.
const COPIES_BAND_MIB: f64 = 0.35;

/// Minimum half-width, MiB, for runs with one process on the node. The library's heap grows in steps of 128 KiB.
const ALONE_BAND_MIB: f64 = 0.125;

/// Minimum half-width, MiB, for models in which memory grows by some KiB for each peer.
const CONSTANT_BAND_MIB: f64 = 0.25;

/// Largest number of processes on a node for which the published curves were measured.
const MEASURED: u32 = 64;

/// Returns the models of shared memory. Fitted models come first, because the published ones are valid only for the versions used in the thesis.
///
/// With one process on the node, MPICH 4 has no segment and Open MPI has less memory of every kind, so these runs have a separate model.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![
        alone(),
        copies(),
        Box::new(Partners),
        buffer(),
        Box::new(Constant),
        Box::new(Growth::on_node(
            "shmem-growth",
            "MiB = shared(p) + two of c + s·p + r·p², none negative",
            library_mib,
            several,
        )),
        straight(),
        quadratic(),
        published_buffer(),
        published_quadratic(),
        published_algorithm2(),
        published_open_mpi(),
    ]
}

fn p_of(at: &Setting) -> Result<f64, FitError> {
    at_least_one("the number of processes on the node", at.per_node)
}

/// Returns the model for settings with one process on the node.
fn alone() -> Box<dyn Model> {
    Box::new(Linear {
        least_band: ALONE_BAND_MIB,
        common: &[Common::Mpi],
        along: Along::PerNode,
        admits: |at| match at.per_node {
            1 => Ok(()),
            p => Err(FitError::OutOfDomain(format!(
                "{p} processes share memory; the model covers only one process"
            ))),
        },
        ..Linear::of(ModelInfo {
            id: "shmem-alone",
            title: "one process on the node",
            formula: "MiB = c",
            source: "MPICH 4 makes no segment for one process",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

/// Returns an error for settings that do not share memory through ch3:nemesis.
fn of_nemesis(at: &Setting) -> Result<(), FitError> {
    if at.mpi != MpiKind::Nemesis {
        return Err(FitError::OutOfDomain(
            "only MPICH with ch3:nemesis has this segment in every image".into(),
        ));
    }
    several(at)
}

/// Returns an error for settings whose shared memory is part of the images.
fn outside_images(at: &Setting) -> Result<(), FitError> {
    if at.mpi == MpiKind::Nemesis {
        return Err(FitError::OutOfDomain(
            "the images of ch3:nemesis hold the segment, which grows with the processes".into(),
        ));
    }
    several(at)
}

fn several(at: &Setting) -> Result<(), FitError> {
    if at.per_node < 2 {
        return Err(FitError::OutOfDomain(
            "one process alone shares no memory: runs with several processes do not show its size"
                .into(),
        ));
    }
    Ok(())
}

fn copies() -> Box<dyn Model> {
    Box::new(Linear {
        offset: |at| Ok(growth_mib(p_of(at)?) + COPY_MIB * partners_on_node(at)?),
        least_band: COPIES_BAND_MIB,
        common: &[Common::Mpi, Common::Benchmark],
        along: Along::PerNode,
        admits: of_nemesis,
        ..Linear::of(ModelInfo {
            id: "shmem-buffers-copies",
            title: "buffers of the processes and of large messages",
            formula: "MiB = 4·p + p·(p − 1)/16 + n/4 + c, n = partners on the node with messages of 64 KiB or more",
            source: "layout of ch3:nemesis; the partners follow from the benchmark's decomposition",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn buffer() -> Box<dyn Model> {
    Box::new(Linear {
        offset: |at| Ok(growth_mib(p_of(at)?)),
        least_band: BAND_MIB,
        common: &[Common::Mpi],
        along: Along::PerNode,
        admits: of_nemesis,
        ..Linear::of(ModelInfo {
            id: "shmem-buffers",
            title: "buffers of the processes",
            formula: "MiB = 4·p + p·(p − 1)/16 + c",
            source: "layout of ch3:nemesis: 64 cells of 64 KiB for each process, a fast box of 64 KiB for each ordered pair",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

/// Memory in Open MPI's images for each process on the node, MiB. Runs of seven programs on 2 to 25 processes have 0.008 to 0.024 MiB.
const OPEN_MPI_PEER_MIB: f64 = 10.5 / 1024.0;

/// Minimum size of a zone of shared memory, MiB, for which the zone is assumed to include the part that grows with the number of processes. If zones
/// are assigned by owner, that part belongs to the zone of libraries, and the zone of shared memory has only 0.2 MiB.
const MIN_WITH_PEERS_MIB: f64 = 3.0;

/// A constant and, with Open MPI, a part that grows with the number of processes if the zone includes it.
#[derive(Debug)]
struct Constant;

impl Constant {
    fn linear(offset: fn(&Setting) -> Result<f64, FitError>) -> Linear {
        Linear {
            offset,
            least_band: CONSTANT_BAND_MIB,
            common: &[Common::Mpi],
            along: Along::PerNode,
            admits: outside_images,
            ..Linear::of(ModelInfo {
                id: "shmem-constant",
                title: "constant",
                formula: "MiB = c; with Open MPI and c of 3 MiB or more, c + 0.01025·p",
                source: "Open MPI 4 and MPICH ch4 keep the segment next to the images; Open MPI keeps 10.5 KiB for each process",
                tier: Tier::SmallRuns,
                parameters: 1,
            })
        }
    }
}

impl Model for Constant {
    fn info(&self) -> ModelInfo {
        Self::linear(|_| Ok(0.0)).info
    }

    fn form_error(&self, value: f64) -> f64 {
        Self::linear(|_| Ok(0.0)).form_error(value)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let of = samples
            .iter()
            .filter(|s| s.at.mpi == MpiKind::OpenMpi && s.at.per_node > 1);
        if of.clone().count() > 0 && of.clone().all(|s| s.value >= MIN_WITH_PEERS_MIB) {
            return Self::linear(|at| Ok(OPEN_MPI_PEER_MIB * p_of(at)?)).fit(samples);
        }
        Self::linear(|_| Ok(0.0)).fit(samples)
    }
}

fn straight() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["c", "s"],
        terms: |at| Ok(vec![1.0, p_of(at)?]),
        least_band: ALONE_BAND_MIB,
        common: &[Common::Mpi],
        along: Along::PerNode,
        admits: several,
        ..Linear::of(ModelInfo {
            id: "shmem-line",
            title: "constant and growth for each process",
            formula: "MiB = c + s·p",
            source: "Open MPI 4 and MPICH ch4 keep the segment next to the images; a few KiB for each peer stay",
            tier: Tier::SmallRuns,
            parameters: 2,
        })
    })
}

fn quadratic() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["a", "b", "c"],
        terms: |at| p_of(at).map(|p| vec![p * p, p, 1.0]),
        common: &[Common::Mpi],
        along: Along::PerNode,
        admits: several,
        ..Linear::of(ModelInfo {
            id: "shmem-quadratic",
            title: "parabola",
            formula: "MiB = a·p² + b·p + c",
            source: "form of the thesis's equation 3.11, fitted",
            tier: Tier::SmallRuns,
            parameters: 3,
        })
    })
}

/// Makes the model of a published formula.
fn published(
    id: &'static str,
    title: &'static str,
    formula: &'static str,
    source: &'static str,
    answer: fn(&Setting) -> Result<Answer, FitError>,
) -> Fixed {
    let info = ModelInfo {
        id,
        title,
        formula,
        source,
        tier: Tier::Published,
        parameters: 0,
    };
    Fixed {
        info,
        answer,
        believes: always,
    }
}

/// Returns the result `value` of a published formula for ch3:nemesis. The interval covers the measured cells; settings beyond these cells get a
/// warning instead.
fn banded(at: &Setting, value: Result<f64, FitError>) -> Result<Answer, FitError> {
    if at.mpi != MpiKind::Nemesis {
        return Err(FitError::OutOfDomain(
            "published for MPICH with ch3:nemesis only".into(),
        ));
    }
    let mut answer = Answer::from(Estimate::plus_minus(value?, BAND_MIB));
    if at.per_node > MEASURED {
        answer = beyond_measured(answer, at);
    }
    Ok(answer)
}

/// Replaces the interval by a warning if the setting is beyond the measured cells, for which the interval is not valid.
fn beyond_measured(mut answer: Answer, at: &Setting) -> Answer {
    answer.estimate.interval = None;
    answer.warnings.push(format!(
        "{} processes on a node are more than the {MEASURED} that were measured: no interval",
        at.per_node
    ));
    answer
}

/// Returns an error if the intervals of a published formula miss more than half of the runs. Images of other versions of DMTCP and MPI contain
/// other memory areas, for which the formula is not valid.
fn agrees(
    samples: &[&Sample],
    of: fn(&Setting) -> Result<Answer, FitError>,
) -> Result<(), FitError> {
    let mut far = 0;
    for sample in samples {
        far += usize::from(of(&sample.at)?.estimate.covers(sample.value) == Some(false));
    }
    if 2 * far > samples.len() {
        return Err(FitError::OutOfDomain(format!(
            "{far} of {} training runs contradict it: it was published for other versions of DMTCP and MPI",
            samples.len()
        )));
    }
    Ok(())
}

fn buffer_answer(at: &Setting) -> Result<Answer, FitError> {
    banded(at, buffer_mib(at.per_node, BUFFER_C_MIB))
}

fn quadratic_answer(at: &Setting) -> Result<Answer, FitError> {
    banded(at, quadratic_mib(at.per_node))
}

fn algorithm2_answer(at: &Setting) -> Result<Answer, FitError> {
    let mut answer = banded(
        at,
        algorithm2_clamped_mib(at.per_node, Algorithm2::default()),
    )?;
    // the formula exceeds the measurements by up to 2.3 %, growing with p
    if at.per_node <= MEASURED {
        answer.estimate = Estimate::between(
            answer.estimate.value,
            answer.estimate.value * 0.975,
            answer.estimate.value + BAND_MIB,
        );
    }
    if at.per_node > 63 {
        answer.warnings.push(format!(
            "Algorithm 2 ends at 63 processes on a node; its value there is used for {}",
            at.per_node
        ));
    }
    Ok(answer)
}

fn open_mpi_answer(at: &Setting) -> Result<Answer, FitError> {
    if at.mpi != MpiKind::OpenMpi {
        return Err(FitError::OutOfDomain("published for Open MPI only".into()));
    }
    let mut answer = Answer::from(open_mpi_mib(at.per_node)?);
    if at.per_node > MEASURED {
        answer = beyond_measured(answer, at);
    }
    Ok(answer)
}

fn published_buffer() -> Box<dyn Model> {
    let formula = "MiB = 4·p + p·(p − 1)/16 + 26.2";
    let source = "layout of ch3:nemesis; the constant of BT and SP with MPICH 3 and DMTCP 2";
    let model = published(
        "shmem-buffers-published",
        "buffers of the processes, MPICH 3",
        formula,
        source,
        buffer_answer,
    );
    Box::new(Fixed {
        believes: |samples| agrees(samples, buffer_answer),
        ..model
    })
}

fn published_quadratic() -> Box<dyn Model> {
    let formula = "MiB = 0.0617·p² + 3.9983·p + 25.47";
    let model = published(
        "shmem-quadratic-published",
        "published parabola",
        formula,
        "thesis, equation 3.11",
        quadratic_answer,
    );
    Box::new(Fixed {
        believes: |samples| agrees(samples, quadratic_answer),
        ..model
    })
}

fn published_algorithm2() -> Box<dyn Model> {
    let formula = "Algorithm 2 with c1 + c2 = 93, b = 5";
    let model = published(
        "shmem-algorithm2",
        "Algorithm 2",
        formula,
        "thesis, Algorithm 2 as corrected; 63 processes at most",
        algorithm2_answer,
    );
    Box::new(Fixed {
        believes: |samples| agrees(samples, algorithm2_answer),
        ..model
    })
}

fn published_open_mpi() -> Box<dyn Model> {
    let formula = "MiB = 90.5; 98.3 from 64 processes on";
    let model = published(
        "shmem-open-mpi",
        "Open MPI as measured",
        formula,
        "thesis, Table 5.1",
        open_mpi_answer,
    );
    Box::new(Fixed {
        believes: |samples| agrees(samples, open_mpi_answer),
        ..model
    })
}

#[cfg(test)]
mod tests {
    use super::{Constant, MEASURED, models};
    use crate::{Model, MpiKind, Sample, Setting, Tier};
    use cvc_core::mapping::Mapping;

    /// FT with Open MPI 4.1.4 on 2 and 8 processes, with zones assigned by owner and by the structural rule.
    #[test]
    fn memory_that_open_mpi_keeps_for_each_process_is_reported_where_the_zone_holds_it() {
        let at = |p: u32| Setting {
            app: "ft".into(),
            class: "A".into(),
            nas: None,
            size: None,
            mapping: Mapping::one_node(p),
            per_node: p,
            mpi: MpiKind::OpenMpi,
            output: Default::default(),
        };
        for (two, sixteen) in [(0.203, 0.203), (6.4, 6.4 + 14.0 * 10.5 / 1024.0)] {
            let run = Sample {
                id: "2".into(),
                at: at(2),
                value: two,
            };
            let value = Constant
                .fit(&[&run])
                .and_then(|curve| curve.predict(&at(16)))
                .expect("an answer")
                .estimate
                .value;
            assert!((value - sixteen).abs() < 1e-9, "{value} for {sixteen}");
        }
    }

    #[test]
    fn published_models_have_no_interval_beyond_the_measured_range() {
        for mpi in [MpiKind::Nemesis, MpiKind::OpenMpi] {
            for (p, known) in [(MEASURED, true), (MEASURED + 1, false), (65_536, false)] {
                let at = Setting {
                    app: "npb-bt".into(),
                    class: "D".into(),
                    nas: None,
                    size: None,
                    mapping: Mapping::one_node(p),
                    per_node: p,
                    mpi,
                    output: Default::default(),
                };
                let published: Vec<_> = models()
                    .into_iter()
                    .filter(|m| m.info().tier == Tier::Published)
                    .collect();
                let answers: Vec<_> = published
                    .iter()
                    .filter_map(|m| m.fit(&[]).ok()?.predict(&at).ok())
                    .collect();
                assert!(!answers.is_empty());
                for answer in answers {
                    assert_eq!(answer.estimate.interval.is_some(), known, "{mpi:?} {p}");
                    assert_eq!(
                        answer.warnings.iter().any(|w| w.contains("no interval")),
                        !known
                    );
                }
            }
        }
    }
}
