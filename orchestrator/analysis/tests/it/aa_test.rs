//! Tests of how often a difference between equal things is reported: a point's repeats, and sites that are one machine.

use crate::common::{MadeRepeat, campaign_measured};
use camino::Utf8Path;
use cvc_analysis::aa_test::{AaTest, aa_test};
use cvc_core::point::{Point, TracerKind};
use cvc_core::record::Unit;
use cvc_prediction::holdout::rebuild_index;
use std::path::Path;

fn point(site: &str, app: &str) -> Point {
    Point {
        site: site.to_owned(),
        app: app.to_owned(),
        class: "W".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: "mpich".to_owned(),
        storage: "run".to_owned(),
        tracer: Some(TracerKind::None),
        ..Point::default()
    }
}

/// Returns pseudo-random times with this mean, from a linear congruential generator with this seed.
fn times(seed: u64, count: usize, mean_s: f64) -> Vec<MadeRepeat> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    // the sum of twelve uniform numbers is nearly normal
    let mut time = || mean_s * (1.0 + 0.05 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0));
    (0..count)
        .map(|_| {
            Ok(vec![
                ("wall_s", time(), Unit::Seconds),
                ("ckpt_stored_bytes", 4e8, Unit::Bytes),
            ])
        })
        .collect()
}

fn judged(dir: &Path, made: Vec<(Point, Vec<MadeRepeat>)>) -> AaTest {
    campaign_measured(dir, made);
    aa_test(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a result")
}

#[test]
fn equal_repeats_and_sites_are_seldom_called_different() {
    let dir = tempfile::tempdir().expect("a directory");
    let apps: Vec<String> = (0..100).map(|i| format!("app-{i:03}")).collect();
    let of = |site: usize, app: usize| {
        (
            point(["a", "b"][site], &apps[app]),
            times((site * 1000 + app) as u64, 16, 10.0),
        )
    };
    let result = judged(
        dir.path(),
        (0..100).flat_map(|app| [of(0, app), of(1, app)]).collect(),
    );
    // values without scatter are compared, but cannot be a false positive
    assert_eq!(
        (result.repeats.compared, result.sites.map(|s| s.compared)),
        (200, Some(100))
    );
    assert_eq!(result.comparisons.len(), 600);
    for alarms in [Some(result.repeats), result.sites].into_iter().flatten() {
        let interval = alarms.share_interval.expect("an interval");
        assert!(interval.low <= 0.06 && interval.high >= 0.01, "{alarms:?}");
        assert!(
            alarms.differ <= 1 && alarms.differ <= alarms.differ_alone,
            "{alarms:?}"
        );
    }
}

#[test]
fn what_is_not_equal_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = judged(
        dir.path(),
        vec![
            (point("a", "x"), times(1, 10, 10.0)),
            (point("b", "x"), times(2, 10, 12.0)),
        ],
    );
    let sites = result.sites.expect("two sites");
    assert_eq!(
        (sites.compared, sites.differ_alone, sites.differ),
        (1, 1, 1)
    );
    let found = result
        .comparisons
        .iter()
        .find(|c| c.compared == "a with b" && c.quantity == "wall_s")
        .expect("a comparison");
    assert!(
        (found.comparison.ratio - 10.0 / 12.0).abs() < 0.05,
        "{found:?}"
    );
}

#[test]
fn few_repeats_are_not_compared() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = judged(dir.path(), vec![(point("a", "x"), times(1, 7, 10.0))]);
    assert_eq!(
        (
            result.comparisons.len(),
            result.points_with_too_few_repeats,
            result.sites
        ),
        (0, 1, None)
    );
}
