//! Recomputes every row of `model_scores.csv` with our fits and formulas.

use crate::models::{
    data::{
        dtapp, latencies, left_out, mean_and_max, pick, shmem, summary, surplus_model, surpluses,
        trained,
    },
    targets::{errors, fifteen},
};
use cvc_model::{
    Model, Sample,
    dtapp::{self as data_zone, published_power_law, static_arrays_mib},
    error_pct, latency, library, shmem as shared_memory,
    shmem::Algorithm2,
    zone_time,
};
use cvc_testkit::table::{Row, csv, printed};

/// Training runs of the data zone for each benchmark and class.
pub const SETS: &[(&str, &str, &[u32])] = &[
    ("BT", "B", &[4, 25, 36]),
    ("BT", "C", &[16, 25, 36]),
    ("BT", "D", &[16, 25, 36]),
    ("SP", "B", &[4, 16, 25]),
    ("SP", "C", &[16, 36, 64]),
    ("LU", "B", &[4, 9, 16]),
    ("LU", "C", &[16, 36, 64]),
];

/// Tolerance of scores printed to three decimals.
const PRINTED: f64 = 0.000_6;

/// Models whose printed scores we do not reproduce to the digit, the allowed difference in percentage points, and the reason.
const APART: &[(&str, f64, &str)] = &[
    (
        "bandwidth model a + b p",
        0.2,
        "the weighting behind the printed parameters is not stated; ours is 1/p, and its errors are as large",
    ),
    (
        "buffer model, c from p = 4/25/36",
        0.01,
        "which of the cells gave the printed c = 26.11 is not stated; the mean of BT's is 26.12",
    ),
    (
        "halo + buffer model, same training runs",
        0.01,
        "the same for the c of each table",
    ),
    (
        "static arrays + buffer model, heap and c from the training runs",
        0.02,
        "the same",
    ),
    (
        "constant 16 MiB (thesis)",
        0.04,
        "which plain files an aggregator is compared with is not stated; ours are all of nodes with two processes or more",
    ),
    ("min(16, V/Na) + k p", 0.01, "the same"),
];

fn model_named(name: &str) -> Option<Box<dyn Model>> {
    let id = match name {
        "power law, log-log OLS, rounded (thesis)" => return Some(published_power_law()),
        "a/p + b, relative LSQ" => "dtapp-volume-constant",
        "a/p + b/sqrt(p), relative LSQ" => "dtapp-volume-faces",
        "a/p + b/sqrt(p) + c, exact fit" => "dtapp-volume-faces-constant",
        "halo model, heap 0.5 MiB" => "dtapp-halo",
        "static arrays + 0.5 MiB" => "dtapp-arrays",
        _ => return None,
    };
    Some(pick(data_zone::models(), id))
}

fn numbers(text: &str) -> Vec<u32> {
    text.split('/')
        .map(|n| n.parse().expect("a number of processes"))
        .collect()
}

fn of_program(sample: &Sample, name: &str) -> bool {
    let (benchmark, class) = name.split_once('.').expect("benchmark.class");
    sample.at.app == format!("npb-{}", benchmark.to_lowercase()) && sample.at.class == class
}

/// Returns the mean and largest error of a row of the data zone: `BT.D train 16/25/36 test 49/64`, `train BT.B 4/25/36 test all BT.C`, or a
/// program alone.
fn of_dtapp(row: &Row) -> Option<(f64, f64)> {
    let (target, dataset) = (row.text("target"), row.text("dataset"));
    let samples = dtapp();
    let words: Vec<&str> = dataset.split(' ').collect();
    let judged = match (target, words.as_slice()) {
        ("DTAPP", [program, "train", from, "test", to]) => {
            let (from, to) = (numbers(from), numbers(to));
            let at =
                |s: &Sample, of: &[u32]| of_program(s, program) && of.contains(&s.at.processes());
            trained(
                &samples,
                &*model_named(row.text("model"))?,
                |s| at(s, &from),
                |s| at(s, &to),
            )
        }
        ("DTAPP cross-class", ["train", from, runs, "test", "all", to]) => {
            let runs = numbers(runs);
            let trains = |s: &Sample| of_program(s, from) && runs.contains(&s.at.processes());
            trained(&samples, &*model_named(row.text("model"))?, trains, |s| {
                of_program(s, to)
            })
        }
        ("DTAPP leave-one-out", [program]) => {
            let of: Vec<Sample> = samples
                .into_iter()
                .filter(|s| of_program(s, program))
                .collect();
            left_out(&of, &*model_named(row.text("model"))?)
        }
        ("DTAPP", _) if dataset.starts_with("all 53") => {
            assert_eq!(samples.len(), 53);
            trained(
                &samples,
                &*model_named(row.text("model"))?,
                |_| false,
                |_| true,
            )
        }
        ("DTAPP cross-class", _) if row.text("model") == "equal per-process load (thesis)" => {
            let benchmark = dataset.split('.').next()?;
            let rows = printed("t5-16")
                .into_iter()
                .filter(|r| r.text("benchmark") == benchmark);
            let pct = |r: Row| {
                error_pct(r.number("class_b_dtapp_MiB"), r.number("class_c_dtapp_MiB"))
                    .expect("a size")
            };
            return Some(summary(&rows.map(pct).collect::<Vec<_>>()));
        }
        ("DTAPP", _) if dataset.starts_with("15 held-out") => {
            let model = match row.text("model") {
                "thesis power law" => "dtapp-power-law-rounded",
                "halo model" => "dtapp-halo",
                "static arrays + heap" => "dtapp-arrays-heap",
                _ => return None,
            };
            let errors = errors(&fifteen(model, "shmem-buffers")).1;
            return Some(summary(&errors));
        }
        _ => return None,
    };
    Some(mean_and_max(&judged))
}

fn of_shmem(row: &Row) -> Option<(f64, f64)> {
    let model = row.text("model");
    let cells = shmem();
    let known = [4, 25, 36];
    let (app, test): (&str, &[u32]) = match row.text("dataset") {
        "LU at p = 25/36" => ("LU", &[25, 36]),
        "CG at p = 16/32" => ("CG", &[16, 32]),
        _ => ("BT SP", &[]),
    };
    let judges = |c: &&crate::models::data::Shmem| {
        app.contains(&c.app)
            && if test.is_empty() {
                !known.contains(&c.p) && !c.suspect
            } else {
                test.contains(&c.p)
            }
    };
    let formula: fn(u32) -> f64 = match model {
        "Algorithm 2, last branch extended to 64" => {
            |p| shared_memory::algorithm2_extended_mib(p, Algorithm2::default()).expect("a size")
        }
        "Algorithm 2, clamped at 63" => {
            |p| shared_memory::algorithm2_clamped_mib(p, Algorithm2::default()).expect("a size")
        }
        "Algorithm 2" => {
            |p| shared_memory::algorithm2_mib(p, Algorithm2::default()).expect("a size")
        }
        "eq 3.11" => |p| shared_memory::quadratic_mib(p).expect("a size"),
        "buffer model, c = 26.2" => |p| shared_memory::buffer_mib(p, 26.2).expect("a size"),
        _ => {
            // c comes from the cells at 4, 25 and 36 processes, or from the run with 4 processes
            let trains = |c: &&crate::models::data::Shmem| match test {
                [] => c.app == "BT" && known.contains(&c.p),
                _ => c.app == app && c.p == 4,
            };
            let ids: Vec<String> = cells
                .iter()
                .filter(trains)
                .map(|c| c.sample.id.clone())
                .collect();
            let held_out: Vec<String> = cells
                .iter()
                .filter(judges)
                .map(|c| c.sample.id.clone())
                .collect();
            let samples: Vec<Sample> = cells.iter().map(|c| c.sample.clone()).collect();
            let buffers = pick(shared_memory::models(), "shmem-buffers");
            let judged = trained(
                &samples,
                &*buffers,
                |s| ids.contains(&s.id),
                |s| held_out.contains(&s.id),
            );
            return Some(mean_and_max(&judged));
        }
    };
    let pct =
        |c: &crate::models::data::Shmem| error_pct(formula(c.p), c.sample.value).expect("a size");
    Some(summary(
        &cells.iter().filter(judges).map(pct).collect::<Vec<_>>(),
    ))
}

fn of_files(row: &Row) -> Option<(f64, f64)> {
    let no_run = |s: &Sample, p: u32| {
        let zones =
            static_arrays_mib(s.at.nas.expect("a benchmark"), s.at.processes()).expect("a size");
        zones
            + library::MPICH_MIB.value
            + shared_memory::buffer_mib(p, shared_memory::BUFFER_C_MIB).expect("a size")
    };
    let fifteen_rows = || fifteen("dtapp-halo", "shmem-buffers");
    let pct = |predicted, measured| error_pct(predicted, measured).expect("a size");
    Some(summary(&match (row.text("dataset"), row.text("model")) {
        (_, "thesis printed estimate") => fifteen_rows()
            .iter()
            .map(|(r, ..)| pct(r.printed_mib.expect("an estimate"), r.file_mib))
            .collect(),
        (_, "halo + buffer model, same training runs") => errors(&fifteen_rows()).0,
        (_, "static arrays + buffer model, heap and c from the training runs") => {
            errors(&fifteen("dtapp-arrays-heap", "shmem-buffers")).0
        }
        (_, "static arrays + 0.5, LB 2.45, buffer model c 26.2, no training run") => fifteen_rows()
            .iter()
            .map(|(r, ..)| pct(no_run(&r.dtapp, r.dtapp.at.per_node), r.file_mib))
            .collect(),
        ("13 MPICH file sizes of Table 5.1", model) => {
            let rows: Vec<Row> = printed("t5-1")
                .into_iter()
                .filter(|r| r.text("mpi") == "MPICH")
                .collect();
            assert_eq!(rows.len(), 13);
            let of = |r: &Row| {
                let p = r.count("processes");
                let at = crate::models::data::on_one_node(
                    r.text("benchmark"),
                    r.text("class"),
                    p,
                    cvc_model::MpiKind::Nemesis,
                );
                let sum = match model {
                    "sum of the measured zones" => {
                        r.number("dtapp_MiB") + r.number("lb_MiB") + r.number("shmem_MiB")
                    }
                    _ => no_run(
                        &Sample {
                            id: String::new(),
                            at,
                            value: 0.0,
                        },
                        p,
                    ),
                };
                pct(sum, r.number("file_MiB"))
            };
            rows.iter().map(of).collect()
        }
        _ => return None,
    }))
}

fn of_latency(row: &Row) -> Option<(f64, f64)> {
    let runs = latencies();
    let take = |open_mpi: bool, classes: &str| {
        runs.iter()
            .filter(|r| r.open_mpi == open_mpi && classes.contains(&r.class))
            .collect::<Vec<_>>()
    };
    if row.text("model") == "eq 5.1 + 5.2 + 5.3 (thesis)" {
        // the sizes of the zones are those of Table 5.1
        let zones = printed("t5-1");
        let of = |run: &&crate::models::data::Latency| {
            let mpi = if run.open_mpi { "OpenMPI" } else { "MPICH" };
            let p = run.sample.at.per_node;
            let zone = zones
                .iter()
                .find(|r| {
                    r.text("class") == run.class
                        && r.count("processes") == p
                        && r.text("mpi") == mpi
                })
                .expect("a row");
            let bytes = |name| zone.number(name) * 1_048_576.0;
            let seconds =
                zone_time::checkpoint_s(bytes("dtapp_MiB"), bytes("lb_MiB"), bytes("shmem_MiB"))
                    .expect("a time");
            error_pct(seconds, run.seconds).expect("a time")
        };
        let taken = match row.text("dataset") {
            "MPICH C and D (10 runs)" => take(false, "CD"),
            "MPICH C (5 runs)" => take(false, "C"),
            "MPICH D (5 runs)" => take(false, "D"),
            "Open MPI C and D (10 runs)" => take(true, "CD"),
            _ => return None,
        };
        return Some(summary(&taken.iter().map(of).collect::<Vec<_>>()));
    }
    let model = latency::bandwidth();
    let (from, to) = match row.text("dataset") {
        "train MPICH C test MPICH D" => (take(false, "C"), take(false, "D")),
        "train MPICH D test MPICH C" => (take(false, "D"), take(false, "C")),
        "train MPICH C and D test Open MPI C and D" => (take(false, "CD"), take(true, "CD")),
        "leave-one-out MPICH C and D" => {
            let samples: Vec<Sample> = take(false, "CD").iter().map(|r| r.sample.clone()).collect();
            return Some(mean_and_max(&left_out(&samples, &*model)));
        }
        _ => return None,
    };
    let ids: Vec<String> = from.iter().map(|r| r.sample.id.clone()).collect();
    let samples: Vec<Sample> = from.iter().chain(&to).map(|r| r.sample.clone()).collect();
    Some(mean_and_max(&trained(
        &samples,
        &*model,
        |s| ids.contains(&s.id),
        |s| !ids.contains(&s.id),
    )))
}

fn of_surplus(row: &Row) -> Option<(f64, f64)> {
    let samples = surpluses();
    let judged = match row.text("model") {
        "constant 16 MiB (thesis)" => trained(
            &samples,
            &*surplus_model("surplus-constant"),
            |_| false,
            |_| true,
        ),
        "min(16, V/Na) + k p" => left_out(&samples, &*surplus_model("surplus-buffer-growth")),
        _ => return None,
    };
    Some(mean_and_max(&judged))
}

#[test]
fn every_score_of_our_models_is_reproduced() {
    let rows = csv("orchestrator/model/tests/data/models/model_scores.csv");
    let (mut exact, mut close, mut wrong) = (0, 0, Vec::new());
    for row in &rows {
        let (target, model) = (row.text("target"), row.text("model"));
        let ours = match target.split(' ').next().expect("a target") {
            "DTAPP" => of_dtapp(row),
            "SHMEM" => of_shmem(row),
            "aggregator" => of_surplus(row),
            _ if target == "checkpoint file" => of_files(row),
            _ => of_latency(row),
        };
        let (mean, worst) =
            ours.unwrap_or_else(|| panic!("{}: nothing computes {target}, {model}", row.place()));
        let (printed_mean, printed_worst) = (
            row.number("mean_abs_error_pct"),
            row.number("max_abs_error_pct"),
        );
        let apart = (mean - printed_mean)
            .abs()
            .max((worst - printed_worst).abs());
        let allowed = APART
            .iter()
            .find(|(name, ..)| *name == model)
            .map_or(PRINTED, |(_, allowed, _)| *allowed);
        match () {
            () if apart <= PRINTED => exact += 1,
            () if apart <= allowed => {
                println!("{}: {mean:.4} (max {worst:.4}), printed {printed_mean} (max {printed_worst})", row.place());
                close += 1;
            }
            () => wrong.push(format!(
                "{} {target}, {}, {model}: {mean:.4} (max {worst:.4}), printed {printed_mean} (max {printed_worst})",
                row.place(),
                row.text("dataset")
            )),
        }
    }
    println!(
        "{} scores: {exact} to the printed digit, {close} close",
        rows.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((rows.len(), exact, close), (118, 109, 9));
}
