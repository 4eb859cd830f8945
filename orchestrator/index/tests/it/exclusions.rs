//! Points that do not run, are skipped, or need no further run.

use crate::made::{Made, runs};
use cvc_core::ids::PointId;
use cvc_core::point::{Excluded, ExcludedBy, PlannedPoint, Point};
use cvc_core::record::Unit;
use cvc_index::Index;
use cvc_journal::Event;

fn points(index: &Index) -> Vec<String> {
    let points = index.points().expect("points").into_iter();
    points.map(|point| point.id.to_string()).collect()
}

fn skip(made: &mut Made, points: &[&str]) {
    made.push(Event::PointsSkipped {
        points: points.iter().map(|p| PointId::from_written(p)).collect(),
        reason: "no mpich: install it".into(),
    });
}

#[test]
fn points_come_back_as_they_were_planned() {
    let made = Made::new(3, 1);
    let index = made.index();
    let indexed = index.points().expect("points");
    let back: Vec<(&PointId, &Point)> = indexed.iter().map(|p| (&p.id, &p.point)).collect();
    let planned: Vec<(&PointId, &Point)> =
        made.plan.points.iter().map(|p| (&p.id, &p.point)).collect();
    assert_eq!(back, planned);
}

#[test]
fn the_smallest_program_is_no_point_of_tables() {
    let mut made = Made::new(2, 1);
    made.plan.points[0].baseline = true;
    let index = made.index();
    assert_eq!(points(&index), ["p1"]);
    let all = index.points_and_baselines().expect("points");
    assert_eq!(all.len(), 2);
}

#[test]
fn skipped_points_stand_behind_the_excluded_ones_and_their_runs_are_none() {
    let mut made = Made::new(3, 2);
    let point = made.plan.points[1].point.clone();
    made.plan.excluded.push(Excluded {
        point: Point {
            app: "other".into(),
            ..point
        },
        by: ExcludedBy::Rule,
        reason: "too large".to_owned().into(),
    });
    // one run of this point was carried out elsewhere
    made.succeed("p2-1", &[]);
    skip(&mut made, &["p1", "p2"]);
    let index = made.index();
    assert_eq!(points(&index), ["p0", "p2"]);
    let excluded = index.excluded().expect("excluded");
    let of: Vec<(&str, &str, &str)> = excluded
        .iter()
        .map(|e| (e.point.app.as_str(), e.by.as_str(), e.reason.as_str()))
        .collect();
    assert_eq!(
        of,
        [
            ("other", "rule", "too large"),
            ("heat", "missing", "no mpich: install it")
        ]
    );
    assert_eq!(excluded[1].point, made.plan.points[1].point);
    let runs = runs(&index);
    assert!(runs.keys().all(|run| !run.starts_with("p1")));
    assert_eq!(runs.len(), 6);
}

#[test]
fn a_decided_point_keeps_the_runs_that_it_had() {
    let mut made = Made::new(2, 4);
    for run in ["p0-w1", "p0-1", "p0-2"] {
        made.succeed(run, &[("wall_s", 2.0, Unit::Seconds, &[])]);
    }
    made.push(Event::PointDecided {
        point: PointId::from_written("p0"),
        repeats: 2,
        is_narrow: true,
        reason: "wall_s ±1.0 % after 2 repeats".into(),
    });
    let index = made.index();
    let runs = runs(&index);
    let of_point: Vec<&str> = runs.keys().map(String::as_str).take(3).collect();
    assert_eq!(of_point, ["p0-1", "p0-2", "p0-w1"]);
    assert_eq!(runs.len(), 3 + 5);
    let decisions = index.decisions().expect("decisions");
    assert_eq!(decisions.len(), 1);
    let decision = &decisions[0];
    assert_eq!(
        (
            decision.point.as_str(),
            decision.repeats,
            decision.is_narrow
        ),
        ("p0", 2, true)
    );
    assert_eq!(decision.reason, "wall_s ±1.0 % after 2 repeats");
}

#[test]
fn the_same_point_is_indexed_once() {
    let mut made = Made::new(1, 1);
    let again: PlannedPoint = made.plan.points[0].clone();
    made.plan.points.push(again);
    assert_eq!(points(&made.index()), ["p0"]);
}
