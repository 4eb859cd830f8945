//! Predictions of sizes and times with gzip, from made-up runs of a known law.

use crate::predict::{forecast, made_up};
use cvc_analysis::predict::{Observation, ScheduleBudget};
use cvc_core::quantity::Quantity;

/// What gzip leaves of each zone.
const LEFT: [(Quantity, f64); 4] = [(Quantity::Dtapp, 0.8), (Quantity::Lb, 0.3), (Quantity::Shmem, 0.1), (Quantity::Headers, 0.05)];

/// Zones on so many processes, MiB.
fn zones(count: u32) -> [f64; 4] {
    [98.0 / f64::from(count), 50.0, 6.8, 1.5]
}

fn image_mib(count: u32) -> f64 {
    zones(count).iter().sum()
}

fn file_mib(count: u32) -> f64 {
    zones(count).iter().zip(LEFT).map(|(mib, (_, left))| mib * left).sum()
}

/// Two cores, each of which compresses 25 MiB/s.
fn time_s(count: u32) -> f64 {
    f64::from(count) * image_mib(count) / f64::from(count.min(2)) / 25.0
}

/// Plain and gzip runs on these process counts; the files and times of gzip are off by `off`, in turn up and down.
fn runs(counts: &[u32], off: f64) -> Vec<Observation> {
    let mut table = "app,class,mapping,mpi,dtapp_mib,lb_mib,shmem_mib,headers_mib,image_mib,file_mib,compression,cores,latency_s,launchers_mib,aux_mib\n".to_owned();
    for (row, count) in counts.iter().enumerate() {
        let [dtapp, lb, shmem, headers] = zones(*count);
        let image = image_mib(*count);
        let off = if row % 2 == 0 { 1.0 + off } else { 1.0 - off };
        let (file, time) = (file_mib(*count) * off, time_s(*count) * off);
        let zones = format!("npb-bt,A,1Nx{count}P,openmpi,{dtapp},{lb},{shmem},{headers},{image}");
        table += &format!("{zones},{image},none,2,{},0,0\n{zones},{file},gzip,2,{time},0,0\n", image / 100.0);
    }
    made_up(&table)
}

/// The same, with the ratios of zones.
fn with_zones(mut runs: Vec<Observation>) -> Vec<Observation> {
    for run in &mut runs {
        if run.value(Quantity::File) < run.value(Quantity::Image) {
            let off = run.value(Quantity::File).expect("a file") / file_mib(run.setting.mapping.processes());
            run.zone_ratios = LEFT.into_iter().map(|(zone, left)| (zone, left * off)).collect();
        }
    }
    runs
}

#[test]
fn ratios_of_zones_follow_the_shares_of_zones() {
    let plain = runs(&[2, 4, 8], 0.0);
    let truth = file_mib(25);
    let by_whole = forecast(&plain, "npb-bt.A 25 openmpi gzip", ScheduleBudget::default());
    let by_whole = by_whole.first(Quantity::File).expect("a size").clone();
    let by_zone = forecast(&with_zones(plain), "npb-bt.A 25 openmpi gzip", ScheduleBudget::default());
    let by_zone = by_zone.first(Quantity::File).expect("a size").clone();
    assert_eq!((by_whole.model.id, by_zone.model.id), ("nearest-gzip-ratio", "gzip-ratio-by-zone"));
    assert!((by_zone.estimate.value / truth - 1.0).abs() < 0.01, "{} {truth}", by_zone.estimate.value);
    assert!((by_whole.estimate.value / truth - 1.0).abs() > 0.1, "data shrink least, and are fewer here than in the runs");
    assert_eq!((by_whole.estimate.covers(truth), by_zone.estimate.covers(truth)), (Some(true), Some(true)));
    assert!(by_zone.estimate.half_width() < by_whole.estimate.half_width());
}

#[test]
fn what_left_out_counts_missed_is_in_the_interval() {
    let half = |off: f64| {
        let f = forecast(&with_zones(runs(&[2, 4, 8], off)), "npb-bt.A 16 openmpi gzip", ScheduleBudget::default());
        let file = f.first(Quantity::File).expect("a size").estimate;
        file.half_width().expect("an interval") / file.value
    };
    // neighbours are 4 % apart where one is 2 % above and the other 2 % below
    let more = (half(0.02).powi(2) - half(0.0).powi(2)).sqrt();
    assert!((more / (3.182 * 0.04) - 1.0).abs() < 0.1, "{more}");
}

#[test]
fn time_is_that_of_the_cores_in_use() {
    let f = forecast(&runs(&[1, 2, 4], 0.0), "npb-bt.A 16 openmpi gzip", ScheduleBudget::default());
    let time = f.first(Quantity::Latency).expect("a time").clone();
    assert!((time.estimate.value / time_s(16) - 1.0).abs() < 0.02, "{} {}", time.estimate.value, time_s(16));
    assert_eq!((time.model.id, time.estimate.covers(time_s(16))), ("gzip-rate", Some(true)));
    let one = forecast(&runs(&[4], 0.0), "npb-bt.A 16 openmpi gzip", ScheduleBudget::default());
    assert_eq!(one.first(Quantity::Latency).expect("a time").estimate.interval, None);
    assert!(one.warnings.iter().any(|w| w.starts_with("gzip: the time has no interval")), "{:?}", one.warnings);
}
