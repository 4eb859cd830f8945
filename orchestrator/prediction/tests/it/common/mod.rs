//! A small campaign directory with made-up values, for tests of the index and of reports. No number in it was ever measured.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses a part of it"
)]

pub mod measured;

use cvc_core::ids::{PointId, RunId};

use cvc_journal::event::{Acquired, Entry, Event};

use cvc_core::outcome::{Cause, Outcome};

use cvc_core::plan::{Plan, PlannedRun};

use cvc_core::point::{
    CheckpointerKind, Compression, Excluded, ExcludedBy, PlannedPoint, Point, Repeat, UserValue,
};

use cvc_core::record::{Record, Source, Unit, names};
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path};

/// What a user may write into names and what a program may print.
pub const HOSTILE: &str = "<script>alert('x')</script> \"quoted\", a|b";

/// What the made-up campaign has.
pub struct Made {
    pub plan: Plan,
    pub failed: RunId,
    pub damaged: RunId,
}

/// Numbers that look like noise and are always the same.
struct Noise(u64);

impl Noise {
    /// Within one part in a hundred of 1.
    fn factor(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1.0 + ((self.0 >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 0.02
    }
}

/// Writes a campaign of 2 MPI libraries x 3 mappings x 2 aggregator settings x 3 repeats (one point has 7, with an outlier), a warm-up each,
/// one failed run, one with damaged records, one that succeeded at the second attempt, and one excluded point.
pub fn campaign(dir: &Path) -> Made {
    let mut points = Vec::new();
    for mpi in ["mpich", "openmpi"] {
        for mapping in ["1Nx4P", "1Nx9P", "2Nx8P"] {
            for aggregators in [1, 2] {
                let point = Point {
                    site: "made-up".to_owned(),
                    app: "kernel-solver".to_owned(),
                    class: "S".to_owned(),
                    mapping: mapping.parse().expect("a mapping"),
                    mpi: mpi.to_owned(),
                    checkpointer: CheckpointerKind::Dmtcp,
                    aggregators: Some(aggregators),
                    cb_buffer: Some("4MiB".parse().expect("a size")),
                    storage: "scratch".to_owned(),
                    user: [("steps".to_owned(), UserValue::Integer(20))]
                        .into_iter()
                        .collect(),
                    ..Point::default()
                };
                points.push(PlannedPoint {
                    id: PointId::of(&serde_json::to_vec(&point).expect("json")),
                    point,
                    baseline: false,
                    expected_failure: None,
                });
            }
        }
    }
    let mut excluded = points[0].point.clone();
    excluded.mapping = "1Nx8P".parse().expect("a mapping");
    let excluded = Excluded {
        point: excluded,
        by: ExcludedBy::Application,
        reason: format!("8 is not a square {HOSTILE}").into(),
    };
    let mut runs = Vec::new();
    let repeats = std::iter::once(Repeat::Warmup(1)).chain((1..=7).map(Repeat::Measured));
    for repeat in repeats {
        for (i, p) in points.iter().enumerate() {
            if i == 0 || !matches!(repeat, Repeat::Measured(n) if n > 3) {
                let id = RunId::of(format!("{} {repeat:?}", p.id).as_bytes());
                runs.push(PlannedRun {
                    id,
                    point: p.id.clone(),
                    repeat,
                    block: None,
                });
            }
        }
    }
    let plan = Plan {
        schema: 1,
        campaign: "made-up".to_owned(),
        seed: 7,
        points,
        runs,
        excluded: vec![excluded],
        predict: None,
    };
    fs::write(
        dir.join("plan.json"),
        serde_json::to_string_pretty(&plan).expect("json"),
    )
    .expect("plan.json");

    let run_of = |point: usize, repeat: Repeat| {
        let run = plan
            .runs
            .iter()
            .find(|r| r.point == plan.points[point].id && r.repeat == repeat);
        run.expect("a run").id.clone()
    };
    let (failed, damaged, retried) = (
        run_of(3, Repeat::Measured(2)),
        run_of(8, Repeat::Measured(3)),
        run_of(5, Repeat::Measured(1)),
    );
    let mut journal = Journal::default();
    journal.push(Event::Opened {
        format: 1,
        campaign: plan.campaign.clone(),
        cvc: "0.1.0".to_owned(),
        lineage: None,
    });
    journal.push(Event::Started {
        plan: "0123456789abcdef".to_owned(),
        runs: plan.runs.len() as u64,
        pid: 4242,
        cvc: String::new(),
    });
    let mut noise = Noise(11);
    for run in &plan.runs {
        let at = plan
            .points
            .iter()
            .position(|p| p.id == run.point)
            .expect("a point");
        let point = &plan.points[at].point;
        let mut attempt = 1;
        journal.push(Event::RunIntended {
            run: run.id.clone(),
            attempt,
            nodes: Default::default(),
        });
        if run.id == failed || run.id == retried {
            let detail = format!("1 of 9 images is not complete {HOSTILE}");
            let outcome = Outcome::Failed {
                cause: Cause::Checkpoint,
                detail,
            };
            journal.push(Event::RunFinished {
                run: run.id.clone(),
                attempt,
                outcome,
                records: None,
                manifest: None,
                not_again: None,
            });
            write_run(&dir.join(format!("runs/{}.failed-1", run.id)), point, &[]);
            if run.id == failed {
                continue;
            }
            attempt = 2;
            journal.push(Event::RunIntended {
                run: run.id.clone(),
                attempt,
                nodes: Default::default(),
            });
        }
        let slow = match run.repeat {
            Repeat::Warmup(_) => 50.0,
            Repeat::Measured(7) => 3.0,
            Repeat::Measured(_) => 1.0,
        };
        let records = records(&run.id, point, slow, &mut noise);
        let run_dir = dir.join(format!("runs/{}", run.id));
        let digest = write_run(&run_dir, point, &records);
        if run.id == damaged {
            let whole = fs::read(run_dir.join("records.jsonl")).expect("records");
            fs::write(run_dir.join("records.jsonl"), &whole[..whole.len() - 40]).expect("records");
        }
        journal.push(Event::RunFinished {
            run: run.id.clone(),
            attempt,
            outcome: Outcome::Succeeded,
            records: Some(digest),
            manifest: None,
            not_again: None,
        });
    }
    journal.push(Event::Completed {
        succeeded: plan.runs.len() as u64 - 1,
        failed: 1,
    });
    // What a power cut leaves of the last line.
    fs::write(
        dir.join("journal.jsonl"),
        journal.text + "{\"seq\":99,\"at\":\"2026-",
    )
    .expect("journal");
    Made {
        plan,
        failed,
        damaged,
    }
}

/// Writes a campaign of these points, one run each, which all succeed; points without a checkpointer have no checkpoint records.
pub fn campaign_of(dir: &Path, points: Vec<Point>) {
    let points: Vec<PlannedPoint> = points
        .into_iter()
        .map(|point| PlannedPoint {
            id: PointId::of(&serde_json::to_vec(&point).expect("json")),
            point,
            baseline: false,
            expected_failure: None,
        })
        .collect();
    let repeat = Repeat::Measured(1);
    let runs = points
        .iter()
        .map(|p| PlannedRun {
            id: RunId::of(p.id.as_str().as_bytes()),
            point: p.id.clone(),
            repeat,
            block: None,
        })
        .collect();
    let plan = Plan {
        schema: 1,
        campaign: format!("other shapes {HOSTILE}"),
        seed: 7,
        points,
        runs,
        excluded: vec![],
        predict: None,
    };
    fs::write(
        dir.join("plan.json"),
        serde_json::to_string(&plan).expect("json"),
    )
    .expect("plan.json");
    let mut journal = Journal::default();
    let mut noise = Noise(5);
    for (run, planned) in plan.runs.iter().zip(&plan.points) {
        let mut records = records(&run.id, &planned.point, 1.0, &mut noise);
        if planned.point.checkpointer == CheckpointerKind::None {
            records.retain(|r| r.labels.is_empty() && !r.name.starts_with("ckpt"));
        }
        write_run(
            &dir.join(format!("runs/{}", run.id)),
            &planned.point,
            &records,
        );
        journal.push_at_once(Event::RunIntended {
            run: run.id.clone(),
            attempt: 1,
            nodes: Default::default(),
        });
        journal.push(Event::RunFinished {
            run: run.id.clone(),
            attempt: 1,
            outcome: Outcome::Succeeded,
            records: None,
            manifest: None,
            not_again: None,
        });
    }
    fs::write(dir.join("journal.jsonl"), journal.text).expect("journal");
}

/// What a repeat of a point measured, or why it failed.
pub type MadeRepeat = Result<Vec<(&'static str, f64, Unit)>, Cause>;

/// Writes a campaign of these points, whose repeats are given.
pub fn campaign_measured(dir: &Path, made: Vec<(Point, Vec<MadeRepeat>)>) {
    let id = |point: &Point| PointId::of(&serde_json::to_vec(point).expect("json"));
    let points: Vec<PlannedPoint> = made
        .iter()
        .map(|(point, _)| PlannedPoint {
            id: id(point),
            point: point.clone(),
            baseline: false,
            expected_failure: None,
        })
        .collect();
    let run = |point: &PointId, repeat| PlannedRun {
        id: RunId::of(format!("{point} {repeat}").as_bytes()),
        point: point.clone(),
        repeat: Repeat::Measured(repeat),
        block: None,
    };
    let runs = made
        .iter()
        .flat_map(|(point, repeats)| (1..).zip(repeats).map(move |(n, _)| run(&id(point), n)))
        .collect();
    let plan = Plan {
        schema: 1,
        campaign: "measured".to_owned(),
        seed: 7,
        points,
        runs,
        excluded: vec![],
        predict: None,
    };
    fs::write(
        dir.join("plan.json"),
        serde_json::to_string(&plan).expect("json"),
    )
    .expect("plan.json");
    let mut journal = Journal::default();
    let repeats = made
        .iter()
        .flat_map(|(point, repeats)| repeats.iter().map(move |repeat| (point, repeat)));
    for (run, (point, repeat)) in plan.runs.iter().zip(repeats) {
        journal.push(Event::RunIntended {
            run: run.id.clone(),
            attempt: 1,
            nodes: Default::default(),
        });
        let record = |(name, value, unit): &(&str, f64, Unit)| Record {
            run: run.id.clone(),
            name: (*name).to_owned(),
            value: *value,
            unit: *unit,
            source: Source::Clock,
            artefact: None,
            labels: BTreeMap::new(),
        };
        let (place, outcome, records): (_, _, Vec<Record>) = match repeat {
            Ok(values) => (
                format!("runs/{}", run.id),
                Outcome::Succeeded,
                values.iter().map(record).collect(),
            ),
            Err(cause) => (
                format!("runs/{}.failed-1", run.id),
                Outcome::Failed {
                    cause: *cause,
                    detail: "made up".to_owned(),
                },
                Vec::new(),
            ),
        };
        write_run(&dir.join(place), point, &records);
        journal.push(Event::RunFinished {
            run: run.id.clone(),
            attempt: 1,
            outcome,
            records: None,
            manifest: None,
            not_again: None,
        });
    }
    fs::write(dir.join("journal.jsonl"), journal.text).expect("journal");
}

/// Writes a campaign on a cluster with a price, on two kinds of instances and on a laptop that nobody has given a price; two leases, one of
/// which has not ended and one of whose prices nobody knows.
pub fn campaign_with_costs(dir: &Path) {
    let mut points = Vec::new();
    for site in ["cluster", "c5", "spot", "laptop"] {
        for mapping in ["1Nx4P", "2Nx2P", "4Nx1P"] {
            let point = Point {
                site: site.to_owned(),
                app: "kernel-solver".to_owned(),
                class: "S".to_owned(),
                mapping: mapping.parse().expect("a mapping"),
                mpi: "mpich".to_owned(),
                storage: "run".to_owned(),
                ..Point::default()
            };
            if site != "laptop" || point.mapping.nodes() == 1 {
                points.push(PlannedPoint {
                    id: PointId::of(&serde_json::to_vec(&point).expect("json")),
                    point,
                    baseline: false,
                    expected_failure: None,
                });
            }
        }
    }
    let run = |repeat, p: &PlannedPoint| PlannedRun {
        id: RunId::of(format!("{} {repeat}", p.id).as_bytes()),
        point: p.id.clone(),
        repeat: Repeat::Measured(repeat),
        block: None,
    };
    let runs: Vec<PlannedRun> = (1..=5)
        .flat_map(|repeat| points.iter().map(move |p| run(repeat, p)))
        .collect();
    let plan = Plan {
        schema: 1,
        campaign: "costs".to_owned(),
        seed: 7,
        points,
        runs,
        excluded: vec![],
        predict: None,
    };
    fs::write(
        dir.join("plan.json"),
        serde_json::to_string(&plan).expect("json"),
    )
    .expect("plan.json");
    let mut journal = Journal::default();
    let order = |instance_type: &str, spot, usd_per_hour| {
        let order = json!({
            "tags": { "owner": "ada", "campaign": "costs", "site": "c5", "fleet": "f" },
            "region": "us-east-1", "instance_type": instance_type, "vcpus": 4, "count": 4, "spot": spot, "usd_per_hour": usd_per_hour,
            "image": "ami-1", "root_device": "/dev/xvda", "key_name": "k", "group_id": "sg-1", "efa": false,
            "root": {}, "volumes": [], "lifetime_s": 14400,
        });
        serde_json::from_value(order).expect("an order")
    };
    journal.push(Event::LeaseIntended {
        lease: "c5-1".into(),
        site: "c5".into(),
        nodes: 4,
        order: Some(Box::new(order("c5.xlarge", false, Some(0.18)))),
    });
    journal.push(Event::LeaseAcquired {
        lease: "c5-1".into(),
        by: Acquired::instances(["i-1", "i-2", "i-3", "i-4"]),
    });
    journal.push(Event::LeaseIntended {
        lease: "spot-1".into(),
        site: "spot".into(),
        nodes: 4,
        order: Some(Box::new(order("c9.xlarge", true, None))),
    });
    journal.push(Event::LeaseAcquired {
        lease: "spot-1".into(),
        by: Acquired::instances(["i-5", "i-6", "i-7", "i-8"]),
    });
    let mut noise = Noise(3);
    for run in &plan.runs {
        let point = &plan
            .points
            .iter()
            .find(|p| p.id == run.point)
            .expect("a point")
            .point;
        let mut records = records(&run.id, point, 1.0, &mut noise);
        records.retain(|r| r.labels.is_empty() && !r.name.starts_with("ckpt"));
        let price = match point.site.as_str() {
            "cluster" => Some((0.64, "campaign file")),
            "c5" => Some((0.18, "price list of 2026-03-01")),
            _ => None,
        };
        if let Some((usd, price)) = price {
            let (nodes, seconds) = (point.mapping.nodes(), records[0].value + 1.5);
            let labels = [
                ("nodes", nodes.to_string()),
                ("seconds", seconds.to_string()),
                ("usd_per_node_hour", usd.to_string()),
                ("price", price.to_owned()),
            ];
            records.push(Record {
                run: run.id.clone(),
                name: names::COST_USD.to_owned(),
                value: usd * seconds / 3600.0 * f64::from(nodes),
                unit: Unit::Usd,
                source: Source::Price,
                artefact: None,
                labels: labels.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            });
        }
        write_run(&dir.join(format!("runs/{}", run.id)), point, &records);
        journal.push_at_once(Event::RunIntended {
            run: run.id.clone(),
            attempt: 1,
            nodes: Default::default(),
        });
        journal.push(Event::RunFinished {
            run: run.id.clone(),
            attempt: 1,
            outcome: Outcome::Succeeded,
            records: None,
            manifest: None,
            not_again: None,
        });
    }
    journal.push(Event::LeaseReleased {
        lease: "c5-1".into(),
        how: "done".into(),
    });
    fs::write(dir.join("journal.jsonl"), journal.text).expect("journal");
}

/// Points of many applications, mappings, libraries and settings, with names that nobody should give.
pub fn many_points() -> Vec<Point> {
    let mut points = Vec::new();
    for app in ["nas-bt", "nas-lu", HOSTILE] {
        for mapping in ["1Nx1P", "1Nx4P", "1Nx16P", "1Nx9P", "6Nx4P+1Nx1P"] {
            for mpi in ["mpich-4.0.2-nemesis", "mpich-5.0.2-ofi", "openmpi-4.1.4"] {
                for (checkpointer, compression) in [
                    (CheckpointerKind::None, Compression::None),
                    (CheckpointerKind::Dmtcp, Compression::None),
                    (CheckpointerKind::Dmtcp, Compression::Gzip),
                ] {
                    for aggregators in [None, Some(2)] {
                        points.push(Point {
                            site: "made-up".to_owned(),
                            app: app.to_owned(),
                            class: "B".to_owned(),
                            mapping: mapping.parse().expect("a mapping"),
                            mpi: mpi.to_owned(),
                            checkpointer,
                            compression,
                            aggregators,
                            storage: "scratch".to_owned(),
                            user: [
                                ("State".to_owned(), UserValue::Text(HOSTILE.to_owned())),
                                ("a\"b".to_owned(), UserValue::Float(0.5)),
                            ]
                            .into_iter()
                            .collect(),
                            ..Point::default()
                        });
                    }
                }
            }
        }
    }
    points
}

#[derive(Default)]
struct Journal {
    text: String,
    seq: u64,
    ticks: i64,
}

impl Journal {
    fn push(&mut self, event: Event) {
        self.ticks += 1;
        self.push_at_once(event);
    }

    /// Appends an event at the time of the one before it.
    fn push_at_once(&mut self, event: Event) {
        self.seq += 1;
        let at = jiff::Timestamp::from_second(1_900_000_000 + self.ticks * 5).expect("a time");
        self.text += &serde_json::to_string(&Entry {
            seq: self.seq,
            at,
            event,
        })
        .expect("json");
        self.text.push('\n');
    }
}

/// Writes the files of a run; the digest is of its records.
fn write_run(dir: &Path, point: &Point, records: &[Record]) -> String {
    fs::create_dir_all(dir).expect("a directory");
    let text: String = records
        .iter()
        .map(|r| serde_json::to_string(r).expect("json") + "\n")
        .collect();
    fs::write(dir.join("records.jsonl"), &text).expect("records");
    let version = if point.mpi == "mpich" {
        "9.9.1"
    } else {
        "8.8.2"
    };
    let facts = json!({
        "mpi": { "version": version, "io_layer": if point.mpi == "mpich" { "ROMIO" } else { "OMPIO" } },
        "dmtcp": { "version": "7.7.0" },
        "kernel": "made-up 1.2.3",
        "quirks": ["HWLOC_COMPONENTS=-linuxio"],
        "ckptdir": dir.file_name().map(|n| n.to_string_lossy()),
    });
    fs::write(dir.join("facts.json"), facts.to_string()).expect("facts");
    let figures = json!([
        { "name": "io_time_s", "unit": "s", "better": "lower" },
        { "name": "mops", "unit": "Mop/s", "better": "higher" },
        { "name": "residual", "unit": "1", "better": "neither" },
    ]);
    fs::write(
        dir.join("run.json"),
        json!({ "descriptor": { "figures": figures } }).to_string(),
    )
    .expect("run.json");
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn records(run: &RunId, point: &Point, slow: f64, noise: &mut Noise) -> Vec<Record> {
    let n = f64::from(point.processes());
    let openmpi = point.mpi == "openmpi";
    let mut all = Vec::new();
    let mut add = |name: &str, value: f64, unit: Unit, source: Source, labels: &[(&str, &str)]| {
        let labels: BTreeMap<String, String> = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        all.push(Record {
            run: run.clone(),
            name: name.to_owned(),
            value,
            unit,
            source,
            artefact: Some("stdout.log".to_owned()),
            labels,
        });
    };
    let wall = (2.0 + 40.0 / n + if openmpi { 0.4 } else { 0.0 }) * slow * noise.factor();
    add(names::WALL_S, wall, Unit::Seconds, Source::Clock, &[]);
    let io =
        0.6 / f64::from(point.aggregators.unwrap_or(1)).sqrt() * (1.0 + n / 20.0) * noise.factor();
    add(
        "io_time_s",
        io,
        Unit::Seconds,
        Source::ApplicationOutput,
        &[],
    );
    add("residual", 1e-9, Unit::One, Source::ApplicationOutput, &[]);
    add("cpu_user_s", wall * 0.9, Unit::Seconds, Source::Kernel, &[]);
    add(
        "mops",
        900.0 * n.sqrt() * noise.factor(),
        Unit::MopPerSecond,
        Source::ApplicationOutput,
        &[],
    );
    let (coordination, storage) = (
        (0.02 + 0.004 * n) * noise.factor(),
        (0.1 + 0.03 * n) * noise.factor(),
    );
    let ckpt = ("ckpt", "1");
    add(
        names::CKPT_COORDINATION_S,
        coordination,
        Unit::Seconds,
        Source::CheckpointerLog,
        &[ckpt],
    );
    add(
        names::CKPT_STORAGE_S,
        storage,
        Unit::Seconds,
        Source::CheckpointerLog,
        &[ckpt],
    );
    add(
        names::CKPT_LATENCY_S,
        coordination + storage + 0.01,
        Unit::Seconds,
        Source::CheckpointerLog,
        &[ckpt],
    );
    let mib = 1_048_576.0;
    let zones = [
        ("DTAPP", 160.0 / n),
        ("LB", if openmpi { 18.0 } else { 11.0 }),
        ("SHMEM", 14.0 + 0.5 * n),
    ];
    let image: f64 = zones.iter().map(|z| z.1 * mib).sum::<f64>().round() + 65536.0;
    for rank in 0..point.processes() {
        let rank = rank.to_string();
        for rule in ["literal", "structural"] {
            for (zone, size) in zones {
                let labels = [ckpt, ("rank", &rank), ("zone", zone), ("rule", rule)];
                add(
                    names::ZONE_BYTES,
                    (size * mib).round(),
                    Unit::Bytes,
                    Source::Image,
                    &labels,
                );
            }
        }
        add(
            names::IMAGE_BYTES,
            image,
            Unit::Bytes,
            Source::Image,
            &[ckpt, ("rank", &rank)],
        );
    }
    add(
        names::CKPT_FILES,
        n,
        Unit::Count,
        Source::FileSize,
        &[ckpt, ("kind", "rank")],
    );
    add(
        names::CKPT_FILES,
        2.0,
        Unit::Count,
        Source::FileSize,
        &[ckpt, ("kind", "launcher")],
    );
    add(
        names::CKPT_BYTES,
        n * image,
        Unit::Bytes,
        Source::FileSize,
        &[ckpt, ("kind", "rank")],
    );
    add(
        names::CKPT_BYTES,
        6.0 * mib,
        Unit::Bytes,
        Source::FileSize,
        &[ckpt, ("kind", "launcher")],
    );
    add(
        names::CKPT_STORED_BYTES,
        n * image + 6.0 * mib,
        Unit::Bytes,
        Source::FileSize,
        &[ckpt],
    );
    all
}
