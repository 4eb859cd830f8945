//! Runs of today's versions: DMTCP 4.2, MPICH 4.0.2 (ch3:nemesis) and Open MPI 4.1.4, NPB 3.3 of classes A and B on one node (`dmtcp4.csv`).
//! Models are trained on 1, 4 and 9 processes and judged on 16 and 25.

use crate::models::data::summary;
use cvc_core::mapping::Mapping;
use cvc_model::Setting;
use cvc_model::{
    Choice, Estimate, HeldOut, Judged, Model, MpiKind, Sample, Training, choose, dtapp, error_pct,
    headers, library, nas::Problem, shmem, split,
};
use cvc_testkit::table::{Row, csv};
use std::collections::BTreeMap;

/// The parts of an image.
const ZONES: [&str; 4] = ["dtapp", "lb", "shmem", "headers"];

const ALL: [&str; 4] = ["npb-bt", "npb-sp", "npb-lu", "npb-cg"];

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

fn programs(wanted: &[&str]) -> Vec<Program> {
    let mut programs: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in csv("orchestrator/model/tests/data/models/dmtcp4.csv") {
        let taken = wanted.contains(&row.text("app")) && row.text("set") == "4.2";
        if taken && ["A", "B"].contains(&row.text("class")) {
            programs
                .entry(format!(
                    "{}.{} {}",
                    row.text("app"),
                    row.text("class"),
                    row.text("mpi")
                ))
                .or_default()
                .push(row);
        }
    }
    programs
        .into_iter()
        .map(|(name, rows)| Program { name, rows })
        .collect()
}

fn sample(row: &Row, zone: &str) -> Sample {
    let processes = row.count("processes");
    let (app, class) = (row.text("app").to_owned(), row.text("class").to_owned());
    let at = Setting {
        nas: Problem::of(&app, &class),
        size: None,
        app,
        class,
        mapping: Mapping::one_node(processes),
        per_node: processes,
        mpi: mpi_of(row.text("mpi")),
        output: Default::default(),
    };
    Sample {
        id: row.place().to_owned(),
        at,
        value: row.number(&format!("{zone}_MiB")),
    }
}

fn models_of(zone: &str) -> Vec<Box<dyn Model>> {
    match zone {
        "dtapp" => dtapp::models(),
        "lb" => library::models(),
        "shmem" => shmem::models()
            .into_iter()
            .filter(|m| m.info().id != "shmem-alone")
            .collect(),
        "headers" => headers::models(),
        other => panic!("no zone `{other}`"),
    }
}

/// Returns the chosen model of a zone, with its predictions for the larger runs of a program. Headers depend on more than the program, so they
/// are fitted on the small runs of all programs with the library.
fn judged(programs: &[Program], program: &Program, zone: &str) -> (&'static str, Vec<Judged>) {
    let library = program.rows[0].text("mpi");
    let others = programs.iter().filter(|p| {
        zone == "headers" && p.name != program.name && p.rows[0].text("mpi") == library
    });
    let others = others
        .flat_map(|p| &p.rows)
        .map(|row| sample(row, zone))
        .filter(|s| SMALL.contains(&s.at.processes()));
    let samples = program
        .rows
        .iter()
        .map(|row| sample(row, zone))
        .filter(|s| [&SMALL[..], &LARGE].concat().contains(&s.at.processes()));
    split(
        samples.chain(others),
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
fn small_runs_of_todays_versions_predict_larger_ones() {
    let (mut images, mut covered) = (BTreeMap::<&str, Vec<f64>>::new(), 0);
    let mut zones_covered = [0; 4];
    let programs = programs(&["npb-bt", "npb-sp", "npb-lu"]);
    assert_eq!(programs.len(), 12);
    for program in &programs {
        let zones = ZONES.map(|zone| judged(&programs, program, zone));
        let held_out = zones[0].1.len();
        for i in 0..held_out {
            let place = &zones[0].1[i].sample;
            let row = program
                .rows
                .iter()
                .find(|r| r.place() == place.id)
                .expect("the row");
            let predicted: Vec<Estimate> = zones
                .iter()
                .map(|(_, j)| j[i].predicted.clone().expect("a prediction"))
                .collect();
            let image = predicted
                .iter()
                .copied()
                .reduce(Estimate::plus)
                .expect("four zones");
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
                let (j, e) = (
                    &judged[i],
                    judged[i].predicted.as_ref().expect("a prediction"),
                );
                let inside = e.covers(j.sample.value) == Some(true);
                zones_covered[z] += usize::from(inside);
                print!(
                    " {id} {:.2} as {:.2}{}",
                    j.sample.value,
                    e.value,
                    if inside { "" } else { " (not covered)" }
                );
            }
            println!();
        }
    }
    let all: Vec<f64> = images.values().flatten().copied().collect();
    for (mpi, errors) in &images {
        let (mean, worst) = summary(errors);
        println!(
            "{mpi}: whole image {mean:.3} % (max {worst:.3}) in {} runs",
            errors.len()
        );
        let bound = if *mpi == "openmpi" { 0.25 } else { 0.15 };
        assert!(
            errors.len() == 12 && mean <= bound && worst <= 0.5,
            "{mpi}: {mean} (max {worst})"
        );
    }
    println!(
        "intervals cover {covered} of {} images; of {ZONES:?} {zones_covered:?}",
        all.len()
    );
    assert!(10 * covered >= 9 * all.len(), "{covered}");
    assert!(
        zones_covered.iter().all(|zone| 10 * zone >= 9 * all.len()),
        "{zones_covered:?}"
    );
}

/// Written pages need no run; the model of whole arrays is refused, because the runs contradict it.
#[test]
fn written_pages_are_predicted_without_any_run() {
    let samples: Vec<Sample> = programs(&ALL)
        .iter()
        .flat_map(|p| &p.rows)
        .map(|row| sample(row, "dtapp"))
        .collect();
    let of = samples.len();
    split(
        samples,
        |_| false,
        |training, held_out| {
            let written = crate::models::data::pick(dtapp::models(), "dtapp-written-arrays");
            let judged = training
                .fit(&*written)
                .expect("no run is needed")
                .judge(&held_out);
            let (covered, _) = crate::models::data::coverage(&judged);
            let (mean, worst) = crate::models::data::mean_and_max(&judged);
            println!(
                "written pages: {mean:.3} % (max {worst:.3}), intervals cover {covered} of {of}"
            );
            assert!(
                of >= 60 && 10 * covered >= 9 * of && mean <= 1.0,
                "{covered} of {of}, {mean} %"
            );
        },
    );
    for program in programs(&ALL) {
        let samples: Vec<Sample> = program
            .rows
            .iter()
            .map(|row| sample(row, "dtapp"))
            .filter(|s| SMALL.contains(&s.at.processes()))
            .collect();
        let whole = crate::models::data::pick(dtapp::models(), "dtapp-arrays");
        let refused = split(
            samples,
            |_| true,
            |training, _| training.fit(&*whole).is_err(),
        );
        assert!(refused, "{}", program.name);
    }
}
