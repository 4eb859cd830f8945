//! Sizes that were not run, against real runs at them: `experiments/sizes.csv`.

use camino::Utf8Path;
use cvc_core::quantity::Quantity;
use cvc_model::split;
use cvc_prediction::holdout::judge;
use cvc_prediction::predict::{
    Forecast, KnownNames, Observation, Predictor, Question, from_csv, parse,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn observations() -> Vec<Observation> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/sizes.csv");
    from_csv(Utf8Path::new(path)).expect("a table")
}

fn count(o: &Observation) -> f64 {
    o.setting.size.as_ref().expect("a size").count
}

/// The second and fourth size, and the second and fourth number of processes, of each program.
fn left_out(all: &[Observation]) -> BTreeSet<String> {
    let mut of_programs: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
    for o in all {
        of_programs.entry(&o.setting.app).or_default().push(o);
    }
    let mut out = BTreeSet::new();
    for of in of_programs.into_values() {
        let mut sizes: Vec<f64> = of.iter().map(|o| count(o)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let processes: BTreeSet<u32> = of.iter().map(|o| o.setting.mapping.processes()).collect();
        let processes: Vec<u32> = processes.into_iter().collect();
        for o in of {
            let size = sizes.iter().position(|s| *s == count(o));
            let place = processes
                .iter()
                .position(|p| *p == o.setting.mapping.processes());
            if matches!(size, Some(1 | 3)) || matches!(place, Some(1 | 3)) {
                out.insert(o.id.clone());
            }
        }
    }
    out
}

#[test]
fn sizes_and_processes_that_are_left_out_are_within_two_percent() {
    let all = observations();
    let out = left_out(&all);
    let of_sizes: BTreeSet<String> = all
        .iter()
        .filter(|o| out.contains(&o.id))
        .map(|o| o.id.clone())
        .collect();
    split(
        all,
        |o| !out.contains(&o.id),
        |training, held_out| {
            let predictor = Predictor::train(&training).expect("a predictor");
            let apps: BTreeMap<String, String> = held_out
                .items()
                .iter()
                .map(|o| (o.id.clone(), o.setting.app.clone()))
                .collect();
            let (mut errors, mut inside, mut cells) = (BTreeMap::<String, Vec<f64>>::new(), 0, 0);
            for judged in judge(&predictor, &held_out) {
                if judged.quantity != Quantity::Dtapp || !of_sizes.contains(&judged.id) {
                    continue;
                }
                let app = apps[&judged.id].clone();
                errors
                    .entry(app)
                    .or_default()
                    .push(judged.error_pct.unwrap_or_else(|| panic!("{judged:?}")));
                cells += 1;
                inside += usize::from(judged.covered == Some(true));
            }
            for (app, of) in &errors {
                let mean = of.iter().sum::<f64>() / of.len() as f64;
                let most = of.iter().copied().fold(0.0, f64::max);
                println!(
                    "{app}: mean {mean:.2} %, at most {most:.2} % of {}",
                    of.len()
                );
            }
            println!("{inside} of {cells} inside");
            for (app, of) in &errors {
                let mean = of.iter().sum::<f64>() / of.len() as f64;
                assert!(mean < 2.0, "{app}: {mean:.2} %");
            }
            assert!(
                errors.len() >= 2 && inside * 10 >= cells * 9,
                "{inside} of {cells}"
            );
        },
    );
}

fn ask(text: &str) -> (Forecast, Vec<String>) {
    let apps = [PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/apps"
    ))];
    let mut all = observations();
    all.retain(|o| o.setting.app == "kernel-stencil");
    let known = KnownNames {
        apps: &apps,
        observations: &all,
    };
    let question = Question::parse(text, known).unwrap_or_else(|e| panic!("{e} {:?}", e.hint()));
    split(
        all,
        |_| true,
        |training, _| {
            let forecasts = Predictor::train(&training)
                .expect("a predictor")
                .forecast(&question);
            let data = forecasts.of(Quantity::Dtapp).next().expect("a line");
            (data.forecast.clone(), forecasts.warnings)
        },
    )
}

#[test]
fn ten_times_outside_of_the_observed_sizes_nothing_is_predicted() {
    let half = |text: &str| {
        let (data, warnings) = ask(text);
        let data = data
            .prediction()
            .unwrap_or_else(|| panic!("{data:?}"))
            .clone();
        let half = data.estimate.half_width().expect("an interval") / data.estimate.value;
        (half, warnings.iter().any(|w| w.contains("times outside")))
    };
    let (near, far) = (
        half("kernel-stencil.n=90 4 openmpi"),
        half("kernel-stencil.n=180 4 openmpi"),
    );
    assert!(!near.1 && far.1 && far.0 > near.0, "{near:?} {far:?}");
    for text in [
        "kernel-stencil.n=220 4 openmpi",
        "kernel-stencil.n=12 4 openmpi",
    ] {
        let (data, _) = ask(text);
        let refused = data.estimate().expect_err(text).to_owned();
        assert!(refused.contains("more than 10 times outside"), "{refused}");
    }
}

#[test]
fn own_checkpoints_follow_from_what_is_declared_and_the_buffers() {
    let apps = [PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/apps"
    ))];
    let known = KnownNames {
        apps: &apps,
        observations: &[],
    };
    let of = |text: &str| {
        let question = Question::parse(text, known).unwrap_or_else(|e| panic!("{e}"));
        split(
            Vec::new(),
            |_: &Observation| true,
            |training, _| {
                let forecasts = Predictor::train(&training)
                    .expect("a predictor")
                    .forecast(&question);
                [
                    Quantity::Application,
                    Quantity::OwnWrites,
                    Quantity::OwnReads,
                ]
                .map(|q| forecasts.first(q).map(|p| p.estimate.value))
            },
        )
    };
    // 5 variables of 100^3 values and 4 of them more written than read, in ⌈7.63/4⌉ rounds
    assert_eq!(
        of("minighost.S,nx=100,ny=100,nz=100 4 mpich aggregators=1 cb=4MiB")
            .map(|v| v.map(f64::round)),
        [Some(38.0), Some(10.0), Some(2.0)]
    );
    assert_eq!(
        of("kernel-stencil.A 2Nx2P mpich")[1],
        Some(4.0),
        "33.75 MiB by two aggregators with 16 MiB each"
    );
    assert_eq!(of("npb-bt.A 4 mpich-ch3"), [None; 3]);
    // as strace counted them with MPICH 4.0.2, for each of 3 checkpoints, without the write of the header
    for (aggregators, buffer, writes) in [
        (1, 1, 10.0),
        (1, 4, 3.0),
        (1, 16, 1.0),
        (2, 1, 10.0),
        (2, 4, 4.0),
        (2, 16, 2.0),
    ] {
        let asked = format!("kernel-stencil.W 2 mpich aggregators={aggregators} cb={buffer}MiB");
        assert_eq!(of(&asked)[1], Some(writes), "{asked}");
    }
}

/// Bytes that MiniGhost wrote, built with its MPI-IO checkpoints, with Open MPI 4.1.4: 5 variables of n^3 points on processes.
const WRITTEN: [(u32, u32, u32); 8] = [
    (32, 2, 1_313_264),
    (32, 8, 1_314_392),
    (40, 1, 2_562_356),
    (40, 4, 2_562_920),
    (48, 2, 4_426_224),
    (56, 1, 7_026_996),
    (56, 2, 7_027_184),
    (64, 8, 10_489_432),
];

#[test]
fn own_checkpoints_of_sizes_that_are_left_out_are_hit() {
    let row = |(n, p, bytes): (u32, u32, u32)| {
        let class = if n == 32 {
            "S".to_owned()
        } else {
            format!("\"S,nx={n},ny={n},nz={n}\"")
        };
        let mib = f64::from(bytes) / 1_048_576.0;
        format!("minighost,{class},1Nx{p}P,openmpi,{mib:.9}\n")
    };
    let rows: String = WRITTEN.into_iter().map(row).collect();
    let table = format!("app,class,mapping,mpi,application_mib\n{rows}");
    let all = parse(Utf8Path::new("t.csv"), &table).expect("a table");
    let is_left_out =
        |o: &Observation| o.setting.class.contains("40") || o.setting.class.contains("56");
    split(
        all,
        |o| !is_left_out(o),
        |training, held_out| {
            let predictor = Predictor::train(&training).expect("a predictor");
            let judged = judge(&predictor, &held_out);
            assert_eq!(judged.len(), 4);
            for judged in judged {
                assert!(
                    judged.error_pct.is_some_and(|e| e < 0.01) && judged.covered == Some(true),
                    "{judged:?}"
                );
            }
        },
    );
}
