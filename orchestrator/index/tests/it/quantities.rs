//! Computes the quantities of runs and the summaries of points from records.

use crate::made::{Made, Value, values};
use cvc_core::ids::PointId;
use cvc_core::record::Unit::{self, Bytes, Count, Seconds, Usd};
use cvc_index::Index;
use cvc_journal::Event;
use cvc_model::stats::{Scale, Summary};

/// Returns the quantities of a run with these records.
fn of(records: &[Value<'_>]) -> std::collections::BTreeMap<String, (f64, String)> {
    let mut made = Made::new(1, 1);
    made.succeed("p0-1", records);
    values(&made.index(), "p0-1")
}

fn value(records: &[Value<'_>], quantity: &str) -> Option<f64> {
    of(records).get(quantity).map(|(value, _)| *value)
}

#[test]
fn a_quantity_is_the_mean_over_the_checkpoints() {
    let records: [Value<'_>; 4] = [
        ("ckpt_latency_s", 1.0, Seconds, &[("ckpt", "1")]),
        ("ckpt_latency_s", 4.0, Seconds, &[("ckpt", "2")]),
        ("wall_s", 9.5, Seconds, &[]),
        ("rate", 3.0, Unit::MopPerSecond, &[]),
    ];
    let all = of(&records);
    assert_eq!(all["ckpt_latency_s"], (2.5, "s".into()));
    assert_eq!(all["wall_s"], (9.5, "s".into()));
    assert_eq!(all["rate"], (3.0, "Mop/s".into()), "a figure of merit");
    assert_eq!(all.len(), 3);
}

#[test]
fn times_rates_and_costs_of_a_run_that_continued_are_left_out_and_sizes_stay() {
    let records: [Value<'_>; 5] = [
        ("wall_s", 9.5, Seconds, &[]),
        ("rate", 3.0, Unit::MopPerSecond, &[]),
        ("cost_usd", 0.5, Usd, &[]),
        ("ckpt_stored_bytes", 7.0, Bytes, &[("ckpt", "1")]),
        ("notice_ckpt_s", 2.0, Seconds, &[]),
    ];
    assert_eq!(of(&records).len(), 5);
    let resumed: Vec<Value<'_>> = records
        .into_iter()
        .chain([("resumed_from", 1.0, Count, &[][..])])
        .collect();
    let left: Vec<String> = of(&resumed).into_keys().collect();
    assert_eq!(left, ["ckpt_stored_bytes", "notice_ckpt_s", "resumed_from"]);
}

#[test]
fn files_are_added_up_by_checkpoint_and_kind() {
    let records: [Value<'_>; 5] = [
        (
            "ckpt_bytes",
            10.0,
            Bytes,
            &[("ckpt", "1"), ("kind", "rank")],
        ),
        ("ckpt_bytes", 2.0, Bytes, &[("ckpt", "1"), ("kind", "aux")]),
        (
            "ckpt_bytes",
            20.0,
            Bytes,
            &[("ckpt", "2"), ("kind", "rank")],
        ),
        ("ckpt_bytes", 4.0, Bytes, &[("ckpt", "2"), ("kind", "aux")]),
        ("ckpt_files", 7.0, Count, &[("ckpt", "1"), ("kind", "rank")]),
    ];
    let all = of(&records);
    assert_eq!(all["ckpt_bytes"], (18.0, "bytes".into()));
    assert_eq!(all["ckpt_bytes_rank"].0, 15.0);
    assert_eq!(all["ckpt_bytes_aux"].0, 3.0);
    assert_eq!(all["ckpt_files"], (7.0, "count".into()));
}

#[test]
fn images_of_ranks_are_averaged_and_those_of_others_left_out() {
    let of_rank = |rank: &'static str| [("ckpt", "1"), ("rank", rank)];
    let (zero, one) = (of_rank("0"), of_rank("1"));
    let launcher = [("ckpt", "1"), ("role", "launcher")];
    let records: [Value<'_>; 3] = [
        ("image_bytes", 10.0, Bytes, &zero),
        ("image_bytes", 30.0, Bytes, &one),
        ("image_bytes", 1000.0, Bytes, &launcher),
    ];
    assert_eq!(value(&records, "image_bytes_per_rank"), Some(20.0));
    assert_eq!(value(&records, "image_bytes"), None);
}

#[test]
fn zones_are_added_up_and_divided_by_the_ranks() {
    let label = |rank: &'static str, rule: &'static str| {
        [
            ("ckpt", "1"),
            ("rank", rank),
            ("zone", "LB"),
            ("rule", rule),
        ]
    };
    let [zero, one, literal] =
        [("0", "owner"), ("1", "owner"), ("0", "literal")].map(|(rank, rule)| label(rank, rule));
    // a rank may have several images; their values are added
    let records: [Value<'_>; 4] = [
        ("zone_bytes", 6.0, Bytes, &zero),
        ("zone_bytes", 4.0, Bytes, &zero),
        ("zone_bytes", 2.0, Bytes, &one),
        ("zone_bytes", 50.0, Bytes, &literal),
    ];
    assert_eq!(value(&records, "zone_bytes_LB_owner"), Some(6.0));
    assert_eq!(value(&records, "zone_bytes_LB_literal"), Some(50.0));
    // earlier versions had a single rule, without a name
    let without = [("ckpt", "1"), ("rank", "0"), ("zone", "LB")];
    let old: [Value<'_>; 1] = [("zone_bytes", 3.0, Bytes, &without)];
    assert_eq!(value(&old, "zone_bytes_LB"), Some(3.0));
}

#[test]
fn shared_memory_is_that_of_two_zones_by_owner() {
    let label = |zone: &'static str, rule: &'static str| {
        [("ckpt", "1"), ("rank", "0"), ("zone", zone), ("rule", rule)]
    };
    let [shmem, rest, other, literal] = [
        label("SHMEM", "owner"),
        label("REST", "owner"),
        label("LB", "owner"),
        label("SHMEM", "literal"),
    ];
    let records: [Value<'_>; 4] = [
        ("zone_bytes", 3.0, Bytes, &shmem),
        ("zone_bytes", 4.0, Bytes, &rest),
        ("zone_bytes", 100.0, Bytes, &other),
        ("zone_bytes", 1000.0, Bytes, &literal),
    ];
    assert_eq!(value(&records, "shared_with_stacks_bytes"), Some(7.0));
}

#[test]
fn processor_time_needs_both_of_its_parts() {
    let user: Value<'_> = ("cpu_user_s", 3.0, Seconds, &[]);
    let system: Value<'_> = ("cpu_system_s", 0.5, Seconds, &[]);
    assert_eq!(value(&[user, system], "cpu_s"), Some(3.5));
    assert_eq!(value(&[user], "cpu_s"), None);
}

#[test]
fn a_checkpoint_costs_the_nodes_of_the_run_while_it_is_taken() {
    let price = [("nodes", "4"), ("usd_per_node_hour", "1.5")];
    let records: [Value<'_>; 2] = [
        ("ckpt_latency_s", 60.0, Seconds, &[("ckpt", "1")]),
        ("cost_usd", 0.7, Usd, &price),
    ];
    let all = of(&records);
    // four nodes for a minute
    assert_eq!(all["ckpt_cost_usd"], (0.1, "USD".into()));
    assert_eq!(all["cost_usd"].0, 0.7);
}

#[test]
fn of_a_busy_machine_the_worst_counts() {
    let records: [Value<'_>; 2] = [
        ("steal_share", 0.1, Unit::One, &[("node", "n1")]),
        ("steal_share", 0.3, Unit::One, &[("node", "n2")]),
    ];
    assert_eq!(value(&records, "steal_share"), Some(0.3));
}

#[test]
fn changes_count_since_the_checkpoint_before_alone() {
    let label = |ckpt: &'static str, since: &'static str| [("ckpt", ckpt), ("since", since)];
    let [second, third, over_two] = [label("2", "1"), label("3", "2"), label("3", "1")];
    let records: [Value<'_>; 3] = [
        ("series_changed_bytes", 10.0, Bytes, &second),
        ("series_changed_bytes", 30.0, Bytes, &third),
        ("series_changed_bytes", 1000.0, Bytes, &over_two),
    ];
    assert_eq!(value(&records, "series_changed_bytes"), Some(20.0));
}

#[test]
fn records_without_a_quantity_make_none() {
    let records: [Value<'_>; 1] = [("series_at_s", 1.0, Seconds, &[("ckpt", "1")])];
    assert_eq!(of(&records).len(), 0);
}

fn summary(index: &Index, point: &str) -> Summary {
    let summaries = index.summaries().expect("summaries");
    let mut of_point = summaries
        .into_iter()
        .filter(|of| of.point == point && of.quantity == "wall_s");
    of_point.next().expect("a summary").summary
}

fn wall(made: &mut Made, run: &str, value: f64) {
    made.succeed(run, &[("wall_s", value, Seconds, &[])]);
}

#[test]
fn summaries_are_of_counted_runs_that_succeeded() {
    let mut made = Made::new(2, 4);
    wall(&mut made, "p0-w1", 1000.0);
    for (run, value) in [("p0-1", 1.0), ("p0-2", 2.0), ("p0-3", 6.0), ("p1-1", 5.0)] {
        wall(&mut made, run, value);
    }
    made.fail("p0-4", 1, "no image");
    let index = made.index();
    let of = summary(&index, "p0");
    assert_eq!((of.n, of.mean, of.median), (3, 3.0, 2.0));
    assert_eq!((of.min, of.max), (1.0, 6.0));
    assert_eq!(summary(&index, "p1").n, 1);
    let failed: u32 = index
        .connection()
        .query_row(
            "SELECT failed FROM v_point_summary WHERE point = 'p0' AND quantity = 'wall_s'",
            [],
            |row| row.get(0),
        )
        .expect("a row");
    assert_eq!(failed, 1);
}

#[test]
fn the_interval_of_a_point_that_was_decided_is_its_own() {
    let repeats = [10.0, 10.1, 9.9];
    let mut made = Made::new(8, 3);
    for point in 0..8 {
        for (n, value) in (1..).zip(repeats) {
            wall(
                &mut made,
                &format!("p{point}-{n}"),
                value * f64::from(point + 1),
            );
        }
    }
    let pooled = summary(&made.index(), "p0");
    assert_eq!(pooled.interval_of, Some(Scale::Pooled));
    made.push(Event::PointDecided {
        point: PointId::from_written("p0"),
        repeats: 3,
        is_narrow: true,
        reason: "narrow".into(),
    });
    let index = made.index();
    let own = summary(&index, "p0");
    let expected = Summary::of_stopped(&repeats).expect("a summary");
    assert_eq!(
        own.interval.map(|i| (i.low, i.high)),
        expected.interval.map(|i| (i.low, i.high))
    );
    assert_ne!(own.interval_of, Some(Scale::Pooled));
    // neither is its scatter, which is too small, used for other points
    assert_eq!(summary(&index, "p1").n, 3);
}

#[test]
fn what_differs_between_blocks_is_in_the_interval() {
    use cvc_core::campaign::{Block, BlockKind};
    let mut made = Made::new(1, 6);
    for (n, run) in (0..).zip(made.plan.runs.iter_mut().skip(1)) {
        let (of, number) = (BlockKind::Days, n / 2 + 1);
        run.block = Some(Block { of, number });
    }
    let repeats = [10.0, 10.2, 11.0, 11.2, 12.0, 12.2];
    for (n, value) in (1..).zip(repeats) {
        wall(&mut made, &format!("p0-{n}"), value);
    }
    let of = summary(&made.index(), "p0");
    let blocks: Vec<(u32, f64)> = [1, 1, 2, 2, 3, 3].into_iter().zip(repeats).collect();
    let expected = Summary::of_blocks(&blocks).expect("a summary");
    assert_eq!((of.n, of.mean), (6, expected.mean));
    let width = |of: &Summary| of.interval.map(|i| i.high - i.low).expect("an interval");
    let of_all = Summary::of(&repeats).expect("a summary");
    assert_eq!(width(&of), width(&expected));
    assert!(width(&of) > width(&of_all));
}

#[test]
fn each_run_is_a_row_with_a_column_for_each_quantity() {
    use cvc_core::point::UserValue;
    let mut made = Made::new(1, 2);
    made.plan.points[0].point.user = [
        ("steps".to_owned(), UserValue::Integer(20)),
        ("it's".to_owned(), UserValue::Text("x".into())),
    ]
    .into_iter()
    .collect();
    let records: [Value<'_>; 3] = [
        ("wall_s", 2.0, Seconds, &[]),
        // figures with the same name as a column
        ("state", 5.0, Count, &[]),
        ("User_Steps", 6.0, Count, &[]),
    ];
    made.succeed("p0-1", &records);
    let index = made.index();
    let row = |columns: &str| {
        let sql = format!("SELECT {columns} FROM v_run_values WHERE run = 'p0-1'");
        let read = |row: &rusqlite::Row<'_>| {
            Ok((
                row.get::<_, f64>(0)?,
                row.get::<_, f64>(1)?,
                row.get::<_, f64>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, String>(4)?,
                row.get::<_, String>(5)?,
            ))
        };
        index.connection().query_row(&sql, [], read).expect("a row")
    };
    assert_eq!(
        row("wall_s, state_2, \"User_Steps_2\", user_steps, \"user_it's\", state"),
        (2.0, 5.0, 6.0, 20, "x".into(), "succeeded".into())
    );
    let runs: u32 = index
        .connection()
        .query_row(
            "SELECT count(*) FROM v_run_values WHERE wall_s IS NULL",
            [],
            |row| row.get(0),
        )
        .expect("a number");
    assert_eq!(runs, 2, "also runs without values");
}

#[test]
fn memory_moves_between_program_and_libraries_by_the_smallest_program() {
    let label = |kind: &'static str| [("ckpt", "1"), ("rank", "0"), ("kind", kind)];
    let (allocated, library) = (label("allocated"), label("library-memory"));
    let memory = |a: f64, l: f64| -> [Value<'_>; 2] {
        [
            ("part_bytes", a, Bytes, &allocated),
            ("part_bytes", l, Bytes, &library),
        ]
    };
    let mut made = Made::new(2, 1);
    made.plan.points[0].baseline = true;
    made.plan.points[0].point.mapping = made.plan.points[1].point.mapping.clone();
    // the built-in baseline was 20; the smallest program measured here has 26
    made.succeed("p0-1", &memory(6.0, 20.0));
    made.succeed("p1-1", &memory(100.0, 20.0));
    made.succeed("p1-w1", &memory(4.0, 20.0));
    let index = made.index();
    let baselines = index.baselines().expect("baselines");
    assert_eq!(baselines.len(), 1);
    let of = &baselines[0];
    assert_eq!(
        (
            of.site.as_str(),
            of.mpi.as_str(),
            of.mapping.as_str(),
            of.bytes
        ),
        ("here", "mpich", "2Nx2P", 26.0)
    );
    let parts = |run: &str| {
        let all = values(&index, run);
        (
            all["part_bytes_allocated"].0,
            all["part_bytes_library-memory"].0,
        )
    };
    assert_eq!(parts("p1-1"), (94.0, 26.0));
    assert_eq!(parts("p1-w1"), (0.0, 24.0), "never more than there is");
    assert_eq!(parts("p0-1"), (6.0, 20.0), "its own stay");
}
