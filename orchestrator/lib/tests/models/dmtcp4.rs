//! Runs of today's versions: DMTCP 4.2, MPICH 4.0.2 (ch3:nemesis) and Open MPI 4.1.4, NPB 3.3 of classes A and B on one node (`dmtcp4.csv`). Trained on 1, 4 and 9
//! processes, judged on 16 and 25.

use crate::data::summary;
use cvc_lib::model::{
    Choice, Estimate, HeldOut, Judged, Model, MpiKind, Sample, Training, choose, dtapp, error_pct, headers, library, nas::Problem, shmem,
    split,
};
use cvc_lib::{mapping::Mapping, model::Setting};
use cvc_testkit::table::{Row, csv};
use std::collections::BTreeMap;

/// The parts of an image.
const ZONES: [&str; 4] = ["dtapp", "lb", "shmem", "headers"];

const SMALL: [u32; 3] = [1, 4, 9];
const LARGE: [u32; 2] = [16, 25];

/// Runs of one program with one MPI library.
struct Program {
    name: String,
    rows: Vec<Row>,
}

fn mpi_of(name: &str) -> MpiKind {
    match name {
        "mpich-ch3" => MpiKind::Nemesis,
        "openmpi" => MpiKind::OpenMpi,
        other => panic!("no MPI library `{other}`"),
    }
}

fn programs() -> Vec<Program> {
    let mut programs: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in csv("orchestrator/lib/tests/data/models/dmtcp4.csv") {
        let wanted = ["npb-bt", "npb-sp", "npb-lu"].contains(&row.text("app")) && row.text("set") == "4.2";
        if wanted && ["A", "B"].contains(&row.text("class")) {
            programs.entry(format!("{}.{} {}", row.text("app"), row.text("class"), row.text("mpi"))).or_default().push(row);
        }
    }
    programs.into_iter().map(|(name, rows)| Program { name, rows }).collect()
}

fn sample(row: &Row, zone: &str) -> Sample {
    let processes = row.count("processes");
    let (app, class) = (row.text("app").to_owned(), row.text("class").to_owned());
    let at = Setting {
        nas: Problem::of(&app, &class),
        app,
        class,
        mapping: Mapping::one_node(processes),
        per_node: processes,
        mpi: mpi_of(row.text("mpi")),
    };
    Sample { id: row.place().to_owned(), at, value: row.number(&format!("{zone}_MiB")) }
}

fn models_of(zone: &str) -> Vec<Box<dyn Model>> {
    match zone {
        "dtapp" => dtapp::models(),
        "lb" => library::models(),
        "shmem" => shmem::models().into_iter().filter(|m| m.info().id != "shmem-alone").collect(),
        "headers" => headers::models(),
        other => panic!("no zone `{other}`"),
    }
}

/// The chosen model of a zone, with what it says of the larger runs.
fn judged(program: &Program, zone: &str) -> (&'static str, Vec<Judged>) {
    let samples = program.rows.iter().map(|row| sample(row, zone)).filter(|s| [&SMALL[..], &LARGE].concat().contains(&s.at.processes()));
    split(
        samples,
        |s| SMALL.contains(&s.at.processes()),
        |training: Training<'_>, held_out: HeldOut<'_>| {
            let models = models_of(zone);
            let models: Vec<&dyn Model> = models.iter().map(|m| &**m).collect();
            let Choice { chosen, .. } = choose(&models, &training).expect("a model");
            (chosen.info.id, chosen.judge(&held_out))
        },
    )
}

#[test]
fn larger_runs_of_todays_versions_from_small_ones() {
    let (mut images, mut covered) = (BTreeMap::<&str, Vec<f64>>::new(), 0);
    let mut zones_covered = [0; 4];
    let programs = programs();
    assert_eq!(programs.len(), 12);
    for program in &programs {
        let zones = ZONES.map(|zone| judged(program, zone));
        let held = zones[0].1.len();
        for i in 0..held {
            let place = &zones[0].1[i].sample;
            let row = program.rows.iter().find(|r| r.place() == place.id).expect("the row");
            let predicted: Vec<Estimate> = zones.iter().map(|(_, j)| j[i].predicted.clone().expect("a prediction")).collect();
            let image = predicted.iter().copied().reduce(Estimate::plus).expect("four zones");
            let measured = row.number("image_MiB");
            let error = error_pct(image.value, measured).expect("a size");
            images.entry(row.text("mpi")).or_default().push(error);
            covered += usize::from(image.covers(measured) == Some(true));
            print!(
                "{} {}: {measured:.2} MiB, predicted {:.2} ± {:.2}, {error:.3} %;",
                program.name,
                place.at.processes(),
                image.value,
                image.half_width().unwrap_or(f64::NAN)
            );
            for (z, (id, judged)) in zones.iter().enumerate() {
                let (j, e) = (&judged[i], judged[i].predicted.as_ref().expect("a prediction"));
                let inside = e.covers(j.sample.value) == Some(true);
                zones_covered[z] += usize::from(inside);
                print!(" {id} {:.2} as {:.2}{}", j.sample.value, e.value, if inside { "" } else { " (not covered)" });
            }
            println!();
        }
    }
    let all: Vec<f64> = images.values().flatten().copied().collect();
    for (mpi, errors) in &images {
        let (mean, worst) = summary(errors);
        println!("{mpi}: whole image {mean:.3} % (max {worst:.3}) in {} runs", errors.len());
        assert!(errors.len() == 12 && mean <= 0.5 && worst <= 1.0, "{mpi}: {mean} (max {worst})");
    }
    println!("intervals cover {covered} of {} images; of {ZONES:?} {zones_covered:?}", all.len());
    assert!(10 * covered >= 9 * all.len(), "{covered}");
    assert!(zones_covered.iter().all(|zone| 10 * zone >= 9 * all.len()), "{zones_covered:?}");
}
