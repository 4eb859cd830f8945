//! Programs of every shape in one table: constant, growing with the processes or their square, falling, with files of their own, with shared
//! memory. Each is predicted at twice the processes, alone and beside the others.

use crate::predict::{forecast, made_up};
use cvc_core::quantity::Quantity;
use cvc_model::Estimate;
use cvc_prediction::predict::{Observation, ScheduleBudget};

/// A program: its name, the place of its own memory or files, and their MiB for a process (files: for the node) on P processes.
struct Shape {
    name: &'static str,
    place: Place,
    mib: fn(f64, f64) -> f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Heap,
    Shared,
    Files,
}

/// The first number of a law is 1 for class A and 1.75 for class B.
const SHAPES: [Shape; 7] = [
    Shape {
        name: "constant",
        place: Place::Heap,
        mib: |c, _| 20.0 * c,
    },
    Shape {
        name: "linear",
        place: Place::Heap,
        mib: |c, p| 6.0 + 4.0 * c * p,
    },
    Shape {
        name: "inverse",
        place: Place::Heap,
        mib: |c, p| 6.0 + 64.0 * c / p,
    },
    Shape {
        name: "square",
        place: Place::Heap,
        mib: |c, p| 6.0 + 0.5 * c * p * p,
    },
    Shape {
        name: "shared",
        place: Place::Shared,
        mib: |c, p| 6.0 * c + 4.0 * c * p,
    },
    Shape {
        name: "files",
        place: Place::Files,
        mib: |c, p| p * (4.0 + 2.0 * c * p),
    },
    Shape {
        name: "posix",
        place: Place::Files,
        mib: |c, p| 6.0 * c + 4.0 * c * p,
    },
];

/// Pages more or less, of up to this many MiB: a generator with a seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self, mib: f64) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let part = (self.0 >> 33) as f64 / f64::from(1_u32 << 31);
        ((2.0 * part - 1.0) * mib * 256.0).round() / 256.0
    }
}

/// Sizes as Open MPI 4.1.4 and DMTCP 4.2.0 have them, zones by owner.
fn table(noise: &mut Noise) -> Vec<Observation> {
    let mut text = String::from(
        "app,class,mapping,mpi,dmtcp,zones,dtapp_mib,lb_mib,shmem_mib,headers_mib,image_mib,file_mib,launchers_mib,aux_mib,stored_mib\n",
    );
    for shape in &SHAPES {
        for (class, c) in [("A", 1.0), ("B", 1.75)] {
            for processes in [2, 4, 8, 16] {
                let p = f64::from(processes);
                let own = (shape.mib)(c, p);
                let at = |place: Place| if shape.place == place { own } else { 0.0 };
                let (data, lb) = (
                    0.3 + at(Place::Heap) + noise.next(0.02),
                    55.9 + noise.next(0.03),
                );
                let (shared, headers) = (0.2031 + at(Place::Shared), 10.08 + noise.next(0.02));
                let image = data + lb + shared + headers;
                let launchers = 64.55 + 0.01 * p + noise.next(0.02);
                let aux = 8.0165 + 4.0 * p + at(Place::Files);
                let stored = p * image + launchers + aux;
                text.push_str(&format!(
                    "{},{class},1Nx{processes}P,openmpi,4.2.0,owner,{data},{lb},{shared},{headers},{image},{image},{launchers},{aux},{stored}\n",
                    shape.name
                ));
            }
        }
    }
    made_up(&text)
}

const JUDGED: [Quantity; 8] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
    Quantity::Image,
    Quantity::Launchers,
    Quantity::Aux,
    Quantity::Stored,
];

/// What is predicted for a program and class on `asked` processes from runs on fewer, beside what was measured.
fn predictions(
    all: &[Observation],
    trains: impl Fn(&Observation) -> bool,
    measured: &Observation,
) -> Vec<(Quantity, Estimate, f64)> {
    let asked = measured.setting.mapping.processes();
    let few: Vec<Observation> = all
        .iter()
        .filter(|o| o.setting.mapping.processes() < asked && trains(o))
        .cloned()
        .collect();
    let question = format!(
        "{}.{} {asked} openmpi",
        measured.setting.app, measured.setting.class
    );
    let forecasts = forecast(&few, &question, ScheduleBudget::default());
    let of = |quantity: Quantity| {
        let prediction = forecasts
            .first(quantity)
            .unwrap_or_else(|| panic!("{question}: no {quantity}"));
        let value = measured.value(quantity).expect("a value");
        (quantity, prediction.estimate, value)
    };
    JUDGED.map(of).into()
}

#[test]
fn each_shape_is_inside_at_twice_the_processes_alone_and_together() {
    let (mut all_cells, mut outside) = (0, Vec::new());
    for seed in 1..=3 {
        let all = table(&mut Noise(seed));
        for measured in all.iter().filter(|o| o.setting.mapping.processes() >= 8) {
            let app = |o: &Observation| o.setting.app == measured.setting.app;
            let class = |o: &Observation| app(o) && o.setting.class == measured.setting.class;
            let pools: [(&str, &dyn Fn(&Observation) -> bool); 3] = [
                ("alone", &class),
                ("classes", &app),
                ("together", &|_| true),
            ];
            for (pool, trains) in pools {
                for (quantity, estimate, value) in predictions(&all, trains, measured) {
                    all_cells += 1;
                    show(measured, pool, quantity, estimate, value);
                    if estimate.covers(value) != Some(true) {
                        outside.push(format!(
                            "{} {pool} {quantity}: {estimate:?} {value}",
                            measured.label
                        ));
                    }
                }
            }
        }
    }
    assert!(
        all_cells > 1900 && 50 * outside.len() <= all_cells,
        "{} of {all_cells} outside:\n{}",
        outside.len(),
        outside.join("\n")
    );
}

#[test]
fn shared_memory_that_grows_is_a_line_and_classes_that_differ_are_not_pooled() {
    let all = table(&mut Noise(1));
    let of = |class: &str, together: bool| {
        let is = |o: &Observation| o.setting.app == "shared" && o.setting.class == class;
        let measured = all
            .iter()
            .find(|o| is(o) && o.setting.mapping.processes() == 8)
            .expect("a run");
        let all_of = |o: &Observation| o.setting.app == "shared";
        let trains: &dyn Fn(&Observation) -> bool = if together { &all_of } else { &is };
        predictions(&all, trains, measured)
            .into_iter()
            .find(|(quantity, ..)| *quantity == Quantity::Shmem)
            .expect("shared memory")
    };
    for (class, together) in [("A", false), ("B", false), ("A", true), ("B", true)] {
        let (_, estimate, value) = of(class, together);
        assert!(
            (estimate.value / value - 1.0).abs() < 0.001,
            "{class}: {estimate:?} {value}"
        );
        assert!(
            estimate
                .half_width()
                .is_some_and(|half| half < 0.35 * value),
            "{class}: {estimate:?}"
        );
    }
}

/// Real runs of seven small programs on 2, 4, 8 and, of class A, 16 processes (Open MPI 4.1.4, DMTCP 4.2.0).
#[test]
fn real_programs_of_each_shape_are_inside_at_8_and_16_processes_alone_and_together() {
    let all = made_up(include_str!("../data/predict/shapes.csv"));
    let (mut cells, mut outside) = (0, Vec::new());
    for measured in all.iter().filter(|o| o.setting.mapping.processes() >= 8) {
        let app = |o: &Observation| o.setting.app == measured.setting.app;
        let class = |o: &Observation| app(o) && o.setting.class == measured.setting.class;
        let pools: [(&str, &dyn Fn(&Observation) -> bool); 3] = [
            ("alone", &class),
            ("classes", &app),
            ("together", &|_| true),
        ];
        for (pool, trains) in pools {
            for (quantity, estimate, value) in predictions(&all, trains, measured) {
                cells += 1;
                show(measured, pool, quantity, estimate, value);
                if estimate.covers(value) != Some(true) {
                    outside.push(format!(
                        "{} {pool} {quantity}: {estimate:?} {value}",
                        measured.label
                    ));
                }
            }
        }
    }
    assert_eq!(cells, (7 * 2 + 7) * 3 * JUDGED.len());
    // on 16: launchers of one class, which grow by 0.2 MiB, and 0.2 MiB of data
    assert!(
        outside.iter().all(|o| o.contains("1Nx16P")) && 50 * outside.len() <= cells,
        "{}",
        outside.join("\n")
    );
}

/// Real runs of ten more programs, none of which the table of errors has seen: from 1, 2 and 4 processes to 8, and from 1 and 4 to 9.
#[test]
fn programs_that_the_table_has_not_seen_are_inside_at_twice_the_processes() {
    let all = made_up(include_str!("../data/predict/unseen.csv"));
    let (mut cells, mut outside) = (0, Vec::new());
    for measured in all.iter().filter(|o| o.setting.mapping.processes() >= 8) {
        let class = |o: &Observation| {
            o.setting.app == measured.setting.app && o.setting.class == measured.setting.class
        };
        for (quantity, estimate, value) in predictions(&all, class, measured) {
            cells += 1;
            show(measured, "unseen", quantity, estimate, value);
            if estimate.covers(value) != Some(true) {
                outside.push(format!(
                    "{} {quantity}: {estimate:?} {value}",
                    measured.label
                ));
            }
            if quantity == Quantity::Image {
                let half = estimate.half_width().expect("an interval") / value;
                assert!(half < 0.4, "{}: {estimate:?}", measured.label);
            }
        }
    }
    assert_eq!(cells, 10 * 2 * JUDGED.len());
    // launchers of other runs differ by up to 0.1 MiB of 65
    assert!(
        outside.iter().all(|o| o.contains("launchers")) && 10 * outside.len() <= cells,
        "{}",
        outside.join("\n")
    );
}

/// With SHOW_SHAPES set, and `--nocapture`, prints each prediction.
fn show(measured: &Observation, pool: &str, quantity: Quantity, estimate: Estimate, value: f64) {
    if std::env::var_os("SHOW_SHAPES").is_some() {
        let i = estimate.interval.expect("an interval");
        println!(
            "{} {pool} {}: {:.2} [{:.2}, {:.2}] {value:.2}",
            measured.label,
            quantity.name(),
            estimate.value,
            i.low,
            i.high
        );
    }
}
