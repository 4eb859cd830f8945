//! Predictions of sizes and times with gzip, from made-up runs of a known law.

use crate::predict::{forecast, made_up};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_prediction::predict::{Observation, Prediction, ScheduleBudget};

/// What gzip leaves of each zone.
const LEFT: [(Quantity, f64); 4] = [
    (Quantity::Dtapp, 0.8),
    (Quantity::Lb, 0.3),
    (Quantity::Shmem, 0.1),
    (Quantity::Headers, 0.05),
];

/// Zones on so many processes, MiB.
type Zones = fn(u32) -> [f64; 4];

/// Data fall, all else stays: files are on a line over images.
fn falling(count: u32) -> [f64; 4] {
    [98.0 / f64::from(count), 50.0, 6.8, 1.5]
}

/// Shared memory grows beside them: no line.
fn crossing(count: u32) -> [f64; 4] {
    [98.0 / f64::from(count), 50.0, 6.8 * f64::from(count), 1.5]
}

fn image_mib(zones: [f64; 4]) -> f64 {
    zones.iter().sum()
}

fn file_mib(zones: [f64; 4]) -> f64 {
    zones
        .iter()
        .zip(LEFT)
        .map(|(mib, (_, left))| mib * left)
        .sum()
}

/// Two cores, each of which compresses 25 MiB/s.
fn time_s(count: u32) -> f64 {
    f64::from(count) * image_mib(falling(count)) / f64::from(count.min(2)) / 25.0
}

/// Plain and gzip runs on these process counts; the files and times of gzip are off by `off`, in turn up and down.
fn runs(zones: Zones, counts: &[u32], off: f64) -> Vec<Observation> {
    let mut table = "app,class,mapping,mpi,dtapp_mib,lb_mib,shmem_mib,headers_mib,image_mib,file_mib,compression,cores,latency_s,launchers_mib,aux_mib\n".to_owned();
    for (row, count) in counts.iter().enumerate() {
        let [dtapp, lb, shmem, headers] = zones(*count);
        let image = image_mib(zones(*count));
        let off = if row % 2 == 0 { 1.0 + off } else { 1.0 - off };
        let (file, time) = (file_mib(zones(*count)) * off, time_s(*count) * off);
        let setting =
            format!("npb-bt,A,1Nx{count}P,openmpi,{dtapp},{lb},{shmem},{headers},{image}");
        table += &format!(
            "{setting},{image},none,2,{},0,0\n{setting},{file},gzip,2,{time},0,0\n",
            image / 100.0
        );
    }
    made_up(&table)
}

/// The same, with the ratios of zones.
fn with_zones(zones: Zones, mut runs: Vec<Observation>) -> Vec<Observation> {
    for run in &mut runs {
        if run.value(Quantity::File) < run.value(Quantity::Image) {
            let off = run.value(Quantity::File).expect("a file")
                / file_mib(zones(run.setting.mapping.processes()));
            run.zone_ratios = LEFT
                .into_iter()
                .map(|(zone, left)| (zone, left * off))
                .collect();
        }
    }
    runs
}

fn file(runs: &[Observation], at: &str) -> Prediction {
    forecast(runs, at, ScheduleBudget::default())
        .first(Quantity::File)
        .expect("a size")
        .clone()
}

#[test]
fn the_law_that_errs_least_where_runs_are_left_out_is_taken() {
    let off = |of: &Prediction, zones: Zones| (of.estimate.value / file_mib(zones(25)) - 1.0).abs();
    let at = "npb-bt.A 25 openmpi gzip";
    let line = file(&runs(falling, &[2, 4, 8], 0.0), at);
    assert_eq!(line.model.id, "gzip-line");
    assert!(off(&line, falling) < 0.01, "{line:?}");
    let crossed = runs(crossing, &[1, 2, 4, 8], 0.0);
    let without = file(&crossed, at);
    let by_zone = file(&with_zones(crossing, crossed), at);
    assert_eq!(by_zone.model.id, "gzip-ratio-by-zone");
    assert!(
        off(&without, crossing) > 0.1,
        "neither the whole's ratio nor a line fits these: {without:?}"
    );
    assert!(off(&by_zone, crossing) < 0.02, "{by_zone:?}");
    assert_eq!(by_zone.estimate.covers(file_mib(crossing(25))), Some(true));
    // one count leaves nothing out: the ratio of the whole, without an interval
    let one = file(&with_zones(crossing, runs(crossing, &[4], 0.0)), at);
    assert_eq!(
        (one.model.id, one.estimate.interval),
        ("nearest-gzip-ratio", None)
    );
}

#[test]
fn what_left_out_counts_missed_is_in_the_interval() {
    let half = |off: f64| {
        let file = file(
            &with_zones(crossing, runs(crossing, &[1, 2, 4, 8], off)),
            "npb-bt.A 16 openmpi gzip",
        );
        assert_eq!(file.model.id, "gzip-ratio-by-zone");
        file.estimate.half_width().expect("an interval") / file.estimate.value
    };
    // neighbours are 4 % apart where one is 2 % above and the other 2 % below
    let more = (half(0.02).powi(2) - half(0.0).powi(2)).sqrt();
    assert!((more / (2.776 * 0.04) - 1.0).abs() < 0.1, "{more}");
}

#[test]
fn time_is_that_of_the_cores_in_use() {
    let f = forecast(
        &runs(falling, &[1, 2, 4], 0.0),
        "npb-bt.A 16 openmpi gzip",
        ScheduleBudget::default(),
    );
    let time = f.first(Quantity::Latency).expect("a time").clone();
    assert!(
        (time.estimate.value / time_s(16) - 1.0).abs() < 0.02,
        "{} {}",
        time.estimate.value,
        time_s(16)
    );
    assert_eq!(
        (time.model.id, time.estimate.covers(time_s(16))),
        ("gzip-rate", Some(true))
    );
    let one = forecast(
        &runs(falling, &[4], 0.0),
        "npb-bt.A 16 openmpi gzip",
        ScheduleBudget::default(),
    );
    assert_eq!(
        one.first(Quantity::Latency)
            .expect("a time")
            .estimate
            .interval,
        None
    );
    assert!(
        one.warnings
            .iter()
            .any(|w| w.starts_with("gzip: the time has no interval")),
        "{:?}",
        one.warnings
    );
}

#[test]
fn a_start_is_told_from_a_rate() {
    // the same two cores, and 2 s before they begin
    let mut started = runs(falling, &[1, 2, 4, 8], 0.0);
    for run in &mut started {
        if let Some(seconds) = run.quantities.get_mut(&Quantity::Latency) {
            *seconds += 2.0;
        }
    }
    let f = forecast(
        &started,
        "npb-bt.A 16 openmpi gzip",
        ScheduleBudget::default(),
    );
    let time = f.first(Quantity::Latency).expect("a time").clone();
    assert_eq!(
        (time.model.id, time.estimate.covers(time_s(16) + 2.0)),
        ("gzip-start-rate", Some(true))
    );
    assert!(
        (time.estimate.value / (time_s(16) + 2.0) - 1.0).abs() < 0.02,
        "{} {}",
        time.estimate.value,
        time_s(16) + 2.0
    );
}

#[test]
fn pigz_is_predicted_from_its_own_runs_and_takes_all_cores() {
    let at = "npb-bt.A 16 openmpi pigz";
    let gzip = runs(falling, &[1, 2, 4], 0.0);
    let f = forecast(&gzip, at, ScheduleBudget::default());
    for (quantity, missing) in [
        (Quantity::File, "no run of npb-bt with pigz was observed"),
        (
            Quantity::Latency,
            "no time of a checkpoint of npb-bt with pigz",
        ),
    ] {
        assert!(
            crate::predict::reason(&f, quantity).contains(missing),
            "{quantity:?}"
        );
    }
    // as the others, but the cores of one process are all that there are: one process on two cores takes half of gzip's time
    let of_all_cores = |count: u32| f64::from(count) * image_mib(falling(count)) / 2.0 / 25.0;
    let mut pigz = runs(falling, &[1, 2, 4], 0.0);
    for run in &mut pigz {
        if run.setting.compression == Compression::Gzip {
            run.setting.compression = Compression::Pigz;
            run.label = run.setting.label();
            let count = run.setting.mapping.processes();
            run.quantities
                .insert(Quantity::Latency, of_all_cores(count));
        }
    }
    let f = forecast(&pigz, at, ScheduleBudget::default());
    let line = f.first(Quantity::File).expect("a size").clone();
    assert_eq!(line.model.id, "pigz-line");
    assert!(line.training.iter().all(|of| of.ends_with(" pigz")));
    let time = f.first(Quantity::Latency).expect("a time").clone();
    assert_eq!(time.model.id, "pigz-rate");
    assert!(
        (time.estimate.value / of_all_cores(16) - 1.0).abs() < 0.02,
        "{} {}",
        time.estimate.value,
        of_all_cores(16)
    );
    // and a question about gzip does not see them
    let f = forecast(&pigz, "npb-bt.A 16 openmpi gzip", ScheduleBudget::default());
    assert!(crate::predict::reason(&f, Quantity::File).contains("gzip"));
}
