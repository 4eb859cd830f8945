//! Samples from the committed tables.

use cvc_core::mapping::Mapping;
use cvc_model::{
    HeldOut, Judged, Model, MpiKind, Output, Sample, Setting, Training, nas::Problem, split,
    surplus,
};
use cvc_testkit::table::{Row, csv, printed};
use std::collections::BTreeMap;

/// Returns the model of this name.
pub fn pick(models: Vec<Box<dyn Model>>, id: &str) -> Box<dyn Model> {
    models
        .into_iter()
        .find(|m| m.info().id == id)
        .unwrap_or_else(|| panic!("no model {id}"))
}

/// Makes the setting of a program on `mapping`, seen from a node with `per_node` processes. Benchmarks have the thesis's names: `BT`.
pub fn setting(
    benchmark: &str,
    class: &str,
    mapping: Mapping,
    per_node: u32,
    mpi: MpiKind,
) -> Setting {
    let app = match benchmark {
        "BT" | "SP" | "LU" | "CG" => format!("npb-{}", benchmark.to_lowercase()),
        other => other.to_lowercase(),
    };
    Setting {
        nas: Problem::of(&app, class),
        size: None,
        app,
        class: class.to_owned(),
        mapping,
        per_node,
        mpi,
        output: Default::default(),
    }
}

/// Makes the same with all processes on one node.
pub fn on_one_node(benchmark: &str, class: &str, processes: u32, mpi: MpiKind) -> Setting {
    setting(
        benchmark,
        class,
        Mapping::one_node(processes),
        processes,
        mpi,
    )
}

/// Returns the mean and the largest error, in percent, of points that all have a prediction.
pub fn mean_and_max(judged: &[Judged]) -> (f64, f64) {
    let errors: Vec<f64> = judged
        .iter()
        .map(|j| j.error_pct.unwrap_or_else(|| panic!("{:?}", j.predicted)))
        .collect();
    summary(&errors)
}

/// Returns the mean and the largest error.
pub fn summary(errors: &[f64]) -> (f64, f64) {
    assert!(!errors.is_empty(), "nothing was judged");
    (
        errors.iter().sum::<f64>() / errors.len() as f64,
        errors.iter().copied().fold(0.0, f64::max),
    )
}

/// Returns the number of points whose interval covers the measurement, and of those with an interval.
pub fn coverage(judged: &[Judged]) -> (usize, usize) {
    let covered: Vec<bool> = judged
        .iter()
        .filter_map(|j| j.predicted.as_ref().ok()?.covers(j.sample.value))
        .collect();
    (covered.iter().filter(|c| **c).count(), covered.len())
}

/// Fits on the samples that `trains` accepts, and judges on the others that `judges` accepts.
pub fn trained(
    samples: &[Sample],
    model: &dyn Model,
    trains: impl Fn(&Sample) -> bool,
    judges: impl Fn(&Sample) -> bool,
) -> Vec<Judged> {
    let chosen = samples.iter().filter(|s| trains(s) || judges(s)).cloned();
    split(
        chosen,
        &trains,
        |training: Training<'_>, held_out: HeldOut<'_>| {
            training.fit(model).expect("a fit").judge(&held_out)
        },
    )
}

/// Leaves each sample out in turn, and it alone, as the committed scores do: runs of another class on as many processes stay among the
/// others.
pub fn left_out(samples: &[Sample], model: &dyn Model) -> Vec<Judged> {
    samples
        .iter()
        .flat_map(|left| trained(samples, model, |s| s.id != left.id, |s| s.id == left.id))
        .collect()
}

/// Returns the data zones of the thesis: BT, SP, LU and CG.
pub fn dtapp() -> Vec<Sample> {
    let of = |row: &Row| {
        let (benchmark, class, processes) = (
            row.text("benchmark"),
            row.text("class"),
            row.count("processes"),
        );
        Sample {
            id: format!("{benchmark}.{class}.{processes}"),
            at: on_one_node(benchmark, class, processes, MpiKind::Nemesis),
            value: row.number("measured_MiB"),
        }
    };
    csv("orchestrator/model/tests/data/models/dtapp.csv")
        .iter()
        .map(of)
        .collect()
}

/// A cell of shared memory.
pub struct Shmem {
    pub sample: Sample,
    /// The benchmark.
    pub app: String,
    /// Processes on the node.
    pub p: u32,
    /// Whether it is printed as measured but equals equation 3.11 or Algorithm 2 to the digit.
    pub suspect: bool,
}

/// Returns all cells of shared memory. The tables of mappings over several nodes give the total number of processes.
pub fn shmem() -> Vec<Shmem> {
    let mappings: BTreeMap<u32, Row> = printed("t4-3")
        .into_iter()
        .map(|row| (row.count("processes_per_node"), row))
        .collect();
    let of = |row: &Row| {
        let (app, p, table) = (
            row.text("app"),
            row.count("processes_per_node"),
            row.text("source_table"),
        );
        let mapping: Mapping = match table {
            "4.3" => {
                let total = mappings[&p].count("processes");
                let nodes = total / p;
                match total - nodes * p {
                    0 => format!("{nodes}Nx{p}P"),
                    rest => format!("{nodes}Nx{p}P+1Nx{rest}P"),
                }
                .parse()
                .expect("a mapping")
            }
            "4.5" => format!("2Nx{p}P").parse().expect("a mapping"),
            _ => Mapping::one_node(p),
        };
        // the class determines the size of the messages; if the cell does not name it, D will do, because messages of B and D are both large
        let class = if table == "5.2" || app == "SP" {
            "B"
        } else {
            "D"
        };
        Shmem {
            sample: Sample {
                id: row.place().to_owned(),
                at: setting(app, class, mapping, p, MpiKind::Nemesis),
                value: row.number("printed_measured_MiB"),
            },
            app: app.to_owned(),
            p,
            suspect: row.count("coincides_with_eq_3_11") == 1
                || row.text("printed_measured_MiB") == row.text("algorithm2_MiB"),
        }
    };
    csv("orchestrator/model/tests/data/models/shmem.csv")
        .iter()
        .map(of)
        .collect()
}

/// A checkpoint of Tables 5.3 to 5.6 without compression.
pub struct Latency {
    pub sample: Sample,
    pub open_mpi: bool,
    pub class: String,
    pub seconds: f64,
}

/// Returns the ten runs with MPICH and the ten with Open MPI; the samples' values are seconds.
pub fn latencies() -> Vec<Latency> {
    let of = |row: &Row| {
        let (class, p) = (row.text("class"), row.count("processes"));
        let open_mpi = row.text("mpi") == "OpenMPI";
        let (file_mib, seconds) = (row.number("file_MiB"), row.number("measured_latency_s"));
        let mpi = if open_mpi {
            MpiKind::OpenMpi
        } else {
            MpiKind::Nemesis
        };
        Latency {
            sample: Sample {
                id: row.place().to_owned(),
                at: Setting {
                    output: Output {
                        node_mib: Some(f64::from(p) * file_mib),
                        ..Output::default()
                    },
                    ..on_one_node("BT", class, p, mpi)
                },
                value: seconds,
            },
            open_mpi,
            class: class.to_owned(),
            seconds,
        }
    };
    csv("orchestrator/model/tests/data/models/ckpt_latency.csv")
        .iter()
        .map(of)
        .collect()
}

/// Returns the aggregators' surplus in the eight configurations of Table 5.8: their mean file minus the mean plain file. Aggregators that are
/// alone on their node are left out, because they have no plain file beside them.
pub fn surpluses() -> Vec<Sample> {
    let mut files: BTreeMap<(String, u32), Vec<Row>> = BTreeMap::new();
    for row in printed("t5-8") {
        files
            .entry((row.text("class").to_owned(), row.count("processes")))
            .or_default()
            .push(row);
    }
    let mean = |sizes: Vec<f64>| sizes.iter().sum::<f64>() / sizes.len() as f64;
    let of = |((class, processes), rows): (&(String, u32), &Vec<Row>)| {
        // a node begins with its aggregator; the mapping printed for class C on 9 processes does not match the files
        let starts: Vec<u32> = rows
            .iter()
            .filter(|r| r.count("is_aggregator") == 1)
            .map(|r| r.count("file_index"))
            .collect();
        let ends = starts.iter().skip(1).copied().chain([*processes]);
        let loads: Vec<u32> = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| end - start)
            .collect();
        let mapping: Vec<String> = loads.iter().map(|load| format!("1Nx{load}P")).collect();
        let alone = |row: &&Row| {
            starts
                .iter()
                .zip(&loads)
                .any(|(start, load)| *load == 1 && *start == row.count("file_index"))
        };
        let sizes = |aggregator: u32| {
            let of_kind = rows
                .iter()
                .filter(|r| !alone(r) && r.count("is_aggregator") == aggregator);
            mean(of_kind.map(|r| r.number("file_MiB")).collect())
        };
        Sample {
            id: format!("BT.{class}.{processes}"),
            at: setting(
                "BT",
                class,
                mapping.join("+").parse().expect("a mapping"),
                loads[0],
                MpiKind::Nemesis,
            ),
            value: sizes(1) - sizes(0),
        }
    };
    files.iter().map(of).collect()
}

/// Returns the model of an aggregator's surplus with this name.
pub fn surplus_model(id: &str) -> Box<dyn Model> {
    pick(surplus::models(), id)
}
