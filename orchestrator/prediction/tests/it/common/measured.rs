//! A finished campaign directory made from what real runs measured (`tests/data/predict/nas-runs.csv`), for tests of predictions. Tests of the
//! library and of the program share it.

use cvc_core::ids::RunId;

use cvc_journal::event::Event;

use cvc_core::outcome::{Cause, Outcome};

use cvc_core::plan::{self, Plan};

use cvc_core::point::{Point, Repeat};

use cvc_core::record::{Record, Source, Unit, names};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

const RUNS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../prediction/tests/data/predict/nas-runs.csv"
);

/// The campaign that the runs are of, without its `[predict]`.
pub const CAMPAIGN: &str = "\
schema = 1
name = \"measured\"

[sites.local]
kind = \"local\"
mpi.mpich-ch3 = { family = \"mpich\" }
mpi.openmpi = { family = \"openmpi\" }

[matrix]
app = [\"npb-bt\", \"npb-sp\"]
class = \"A\"
processes = [1, 4, 9, 16, 25]
mpi = [\"mpich-ch3\", \"openmpi\"]
checkpointer = \"dmtcp\"

[run]
repeats = 2

[checkpoint]
moment = \"size-only\"
";

/// Writes the directory of the campaign with this file; runs for which `fails` says so have failed.
pub fn campaign(dir: &Path, text: &str, fails: impl Fn(&Point) -> bool) -> Plan {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    let spec = cvc_core::campaign::load_text(Path::new("campaign.toml"), text, &[apps])
        .unwrap_or_else(|e| panic!("{e}"));
    let plan = plan::build(&spec);
    let rows = rows();
    fs::create_dir_all(dir.join("runs")).expect("a directory");
    fs::write(dir.join("campaign.toml"), text).expect("campaign.toml");
    fs::write(
        dir.join("plan.json"),
        serde_json::to_string_pretty(&plan).expect("json"),
    )
    .expect("plan.json");
    let mut events = vec![
        Event::Opened {
            format: 1,
            campaign: plan.campaign.clone(),
            cvc: "0.1.0".to_owned(),
            lineage: None,
        },
        Event::Started {
            plan: "0123456789abcdef".to_owned(),
            runs: plan.runs.len() as u64,
            pid: 4242,
            cvc: String::new(),
        },
    ];
    for run in &plan.runs {
        let point = &plan
            .points
            .iter()
            .find(|p| p.id == run.point)
            .expect("a point")
            .point;
        let Repeat::Measured(repeat) = run.repeat else {
            panic!("no warm-ups")
        };
        events.push(Event::RunIntended {
            run: run.id.clone(),
            attempt: 1,
            nodes: Default::default(),
        });
        let outcome = if fails(point) {
            Outcome::Failed {
                cause: Cause::Checkpoint,
                detail: "as the test wants it".to_owned(),
            }
        } else {
            let key = [
                &point.app,
                &point.class,
                &point.mapping.to_string(),
                &point.mpi,
                &repeat.to_string(),
            ]
            .map(|s| s.clone())
            .join(",");
            let row = rows.get(&key).unwrap_or_else(|| panic!("no run {key}"));
            write_run(&dir.join("runs").join(run.id.as_str()), &run.id, point, row);
            Outcome::Succeeded
        };
        events.push(Event::RunFinished {
            run: run.id.clone(),
            attempt: 1,
            outcome,
            records: None,
            manifest: None,
            not_again: None,
        });
    }
    let mut journal = String::new();
    for (seq, event) in (1u64..).zip(events) {
        let mut line = serde_json::to_value(event).expect("json");
        line["seq"] = seq.into();
        line["at"] = format!("2030-01-01T00:{:02}:{:02}Z", seq / 60, seq % 60).into();
        journal += &format!("{line}\n");
    }
    fs::write(dir.join("journal.jsonl"), journal).expect("journal");
    plan
}

#[allow(
    dead_code,
    clippy::allow_attributes,
    reason = "tests of the program do not need it"
)]
/// Makes the runs of some points runs that nobody has started: takes what the journal says of them out of it.
pub fn forget(dir: &Path, plan: &Plan, is_forgotten: impl Fn(&Point) -> bool) {
    let of = |run: &RunId| {
        let run = plan.runs.iter().find(|r| r.id == *run).expect("a run");
        let point = plan.points.iter().find(|p| p.id == run.point);
        &point.expect("a point").point
    };
    let journal = dir.join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    let kept = text.lines().filter(|line| {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event");
        let run = event["run"].as_str().map(RunId::from_written);
        run.is_none_or(|run| !is_forgotten(of(&run)))
    });
    let mut renumbered = String::new();
    for (seq, line) in (1u64..).zip(kept) {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("an event");
        line["seq"] = seq.into();
        renumbered += &format!("{line}\n");
    }
    fs::write(journal, renumbered).expect("the journal");
}

type Row = HashMap<String, f64>;

/// Values of each run by its factors.
fn rows() -> HashMap<String, Row> {
    let text = fs::read_to_string(PathBuf::from(RUNS)).expect("the measured runs");
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let values = names
            .iter()
            .zip(&fields)
            .skip(5)
            .filter_map(|(n, v)| Some(((*n).to_owned(), v.parse().ok()?)))
            .collect();
        (fields[..5].join(","), values)
    };
    lines.map(row).collect()
}

/// Writes the files of a run. The means over the ranks stand as one rank's.
fn write_run(dir: &Path, run: &RunId, point: &Point, row: &Row) {
    let mut text = String::new();
    let mut add =
        |name: &str, column: &str, unit: Unit, source: Source, labels: &[(&str, &str)]| {
            let Some(&value) = row.get(column) else {
                return;
            };
            let labels: BTreeMap<String, String> = [("ckpt", "1")]
                .iter()
                .chain(labels)
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            let record = Record {
                run: run.clone(),
                name: name.to_owned(),
                value,
                unit,
                source,
                artefact: None,
                labels,
            };
            text += &serde_json::to_string(&record).expect("json");
            text.push('\n');
        };
    let rank = ("rank", "0");
    add(
        "area_headers",
        "area_headers",
        Unit::Count,
        Source::Image,
        &[rank],
    );
    add(
        names::IMAGE_BYTES,
        "image_bytes",
        Unit::Bytes,
        Source::Image,
        &[rank],
    );
    add(
        names::FILE_BYTES,
        "file_bytes",
        Unit::Bytes,
        Source::FileSize,
        &[rank],
    );
    for (zone, column) in [
        ("DTAPP", "dtapp_bytes"),
        ("LB", "lb_bytes"),
        ("SHMEM", "shmem_bytes"),
    ] {
        add(
            names::ZONE_BYTES,
            column,
            Unit::Bytes,
            Source::Image,
            &[rank, ("zone", zone), ("rule", "structural")],
        );
    }
    for kind in ["rank", "launcher", "aux"] {
        add(
            names::CKPT_BYTES,
            &format!("bytes_{kind}"),
            Unit::Bytes,
            Source::FileSize,
            &[("kind", kind)],
        );
        add(
            names::CKPT_FILES,
            &format!("files_{kind}"),
            Unit::Count,
            Source::FileSize,
            &[("kind", kind)],
        );
    }
    add(
        names::CKPT_STORED_BYTES,
        "stored_bytes",
        Unit::Bytes,
        Source::FileSize,
        &[],
    );
    add(
        names::CKPT_LATENCY_S,
        "latency_s",
        Unit::Seconds,
        Source::CheckpointerLog,
        &[],
    );
    fs::create_dir_all(dir).expect("a directory");
    fs::write(dir.join("records.jsonl"), &text).expect("records");
    let mpi = if point.mpi == "openmpi" {
        "Open MPI 4.1.4, OMPIO"
    } else {
        "MPICH 4.0.2 (ch3:nemesis), ROMIO"
    };
    fs::write(
        dir.join("facts.json"),
        json!({ "mpi": mpi, "dmtcp": "4.2.0" }).to_string(),
    )
    .expect("facts");
    fs::write(
        dir.join("run.json"),
        json!({ "descriptor": {} }).to_string(),
    )
    .expect("run.json");
}
