//! The space of checkpoints, against what real runs stored.

use crate::common::measured;
use camino::Utf8Path;
use cvc_core::campaign;
use cvc_core::plan;
use cvc_core::plan::Plan;
use cvc_core::point::Point;
use cvc_core::units::MIB;
use cvc_prediction::space::{SpaceBasis, of_plan};
use cvc_testkit::utf8;
use std::{collections::HashMap, path::Path};

/// More than this times what is stored would keep campaigns from running that fit.
const MOST: f64 = 1.5;

fn spec(text: &str) -> campaign::Spec {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    campaign::load_text(Path::new("campaign.toml"), text, &[apps]).unwrap_or_else(|e| panic!("{e}"))
}

/// The stored MiB of the rows of a table, by program, class, processes and library; the largest of several.
fn stored(path: &str, unit_mib: f64, column: &str) -> HashMap<(String, String, u32, String), f64> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let mut all = HashMap::new();
    for line in lines {
        let row: HashMap<&str, &str> = names.iter().copied().zip(line.split(',')).collect();
        let processes = row["mapping"]
            .trim_start_matches("1Nx")
            .trim_end_matches('P')
            .parse()
            .expect("a mapping of one node");
        let key = (
            row["app"].to_owned(),
            row["class"].to_owned(),
            processes,
            row["mpi"].to_owned(),
        );
        let mib = row[column].parse::<f64>().expect("a number") * unit_mib;
        let most: &mut f64 = all.entry(key).or_default();
        *most = most.max(mib);
    }
    all
}

fn key(point: &Point) -> (String, String, u32, String) {
    (
        point.app.clone(),
        point.class.clone(),
        point.processes(),
        point.mpi.clone(),
    )
}

/// Each point is given at least what it stores, and not much more.
fn check(
    spec: &campaign::Spec,
    plan: &Plan,
    dir: &Utf8Path,
    stored: &HashMap<(String, String, u32, String), f64>,
    basis: impl Fn(&Point) -> SpaceBasis,
) {
    let spaces = of_plan(spec, plan, dir);
    for planned in &plan.points {
        let (space, really) = (spaces[&planned.id], stored[&key(&planned.point)]);
        let ratio = space.bytes as f64 / MIB / really;
        assert!(
            (1.0..=MOST).contains(&ratio),
            "{:?}: {ratio:.2} times {really:.0} MiB, {:?}",
            key(&planned.point),
            space.basis
        );
        assert_eq!(
            (space.basis, space.is_whole),
            (basis(&planned.point), true),
            "{:?}",
            key(&planned.point)
        );
    }
}

#[test]
fn runs_of_a_point_tell_its_space_and_those_of_others_predict_it() {
    let measured_bytes = stored("tests/data/predict/nas-runs.csv", 1.0 / MIB, "stored_bytes");
    let spec = spec(measured::CAMPAIGN);
    for largest_run in [25, 16, 9] {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = measured::campaign(dir.path(), measured::CAMPAIGN, |point| {
            point.processes() > largest_run
        });
        let basis = |point: &Point| {
            if point.processes() > largest_run {
                SpaceBasis::Campaign
            } else {
                SpaceBasis::OwnRuns
            }
        };
        check(&spec, &plan, utf8(dir.path()), &measured_bytes, basis);
    }
}

#[test]
fn of_several_environments_the_one_that_stores_most_counts() {
    let spec = spec(measured::CAMPAIGN);
    let is_left = |point: &Point| point.processes() > 16;
    let made = |fails: &dyn Fn(&Point) -> bool| {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = measured::campaign(dir.path(), measured::CAMPAIGN, fails);
        (dir, plan)
    };
    // class B under another DMTCP
    let (both, plan) = made(&is_left);
    for run in &plan.runs {
        let of_b = plan
            .points
            .iter()
            .any(|p| p.id == run.point && p.point.class == "B" && !is_left(&p.point));
        if of_b {
            let path = both
                .path()
                .join("runs")
                .join(run.id.as_str())
                .join("facts.json");
            let facts = std::fs::read_to_string(&path)
                .expect("facts")
                .replace("4.2.0", "5.0");
            std::fs::write(&path, facts).expect("facts");
        }
    }
    let (only_a, _) = made(&|point| is_left(point) || point.class == "B");
    let (only_b, _) = made(&|point| is_left(point) || point.class != "B");
    let [both, only_a, only_b] =
        [&both, &only_a, &only_b].map(|dir| of_plan(&spec, &plan, utf8(dir.path())));
    let mut compared = 0;
    for planned in plan.points.iter().filter(|p| is_left(&p.point)) {
        let alone = [only_a[&planned.id], only_b[&planned.id]]
            .into_iter()
            .filter(|space| space.basis == SpaceBasis::Campaign);
        if let Some(most) = alone.map(|space| space.bytes).max() {
            assert_eq!(
                (both[&planned.id].bytes, both[&planned.id].basis),
                (most, SpaceBasis::Campaign),
                "{:?}",
                key(&planned.point)
            );
            compared += 1;
        }
    }
    assert!(compared > 0);
}

/// Without runs of the campaign, the space of these points follows from the table.
fn check_without_runs(table: &str, matrix: &str) {
    let measured_mib = stored(table, 1.0, "stored_mib");
    let spec = spec(&format!(
        "schema = 1\nname = \"measured\"\n[sites.local]\nkind = \"local\"\nmpi.mpich-ch3 = {{ family = \"mpich\" }}\n\
         mpi.openmpi = {{ family = \"openmpi\" }}\n[matrix]\nmpi = [\"mpich-ch3\", \"openmpi\"]\ncheckpointer = \"dmtcp\"\n{matrix}"
    ));
    let mut plan = plan::build(&spec);
    plan.points
        .retain(|p| measured_mib.contains_key(&key(&p.point)));
    assert_eq!((plan.points.len(), measured_mib.len()), (30, 30));
    check(
        &spec,
        &plan,
        Utf8Path::new("nowhere"),
        &measured_mib,
        |_| SpaceBasis::Table,
    );
}

#[test]
fn without_runs_of_the_campaign_other_programs_runs_and_declared_data_give_an_upper_end() {
    let matrix = "app = [\"kernel-stencil\", \"kernel-block\", \"kernel-amr\"]\nclass = [\"W\", \"A\"]\nprocesses = [4, 9, 16]\n";
    check_without_runs("tests/data/space/kernels.csv", matrix);
}

#[test]
fn without_runs_the_benchmarks_have_the_sizes_of_todays_dmtcp() {
    let matrix = "app = [\"npb-bt\", \"npb-sp\", \"npb-lu\", \"btio-full\", \"btio-simple\"]\nclass = \"W\"\nprocesses = [4, 8, 9, 16]\n";
    check_without_runs("tests/data/space/nas-w.csv", matrix);
}

/// DMTCP saves the shared memory of Open MPI next to the images, about 8 MiB for each process; MPICH has only scripts there.
#[test]
fn shared_memory_next_to_images_is_not_replaced() {
    let spec = spec(
        "schema = 1\nname = \"left\"\n[sites.local]\nkind = \"local\"\nmpi.mpich-ch3 = { family = \"mpich\" }\n\
         mpi.openmpi = { family = \"openmpi\" }\n[matrix]\napp = \"npb-bt\"\nclass = \"W\"\nprocesses = [4, 16]\n\
         mpi = [\"mpich-ch3\", \"openmpi\"]\ncheckpointer = \"dmtcp\"\n",
    );
    let plan = plan::build(&spec);
    let spaces = of_plan(&spec, &plan, Utf8Path::new("nowhere"));
    for planned in &plan.points {
        let left_mib = spaces[&planned.id].left_bytes as f64 / MIB;
        let expected = match planned.point.mpi.as_str() {
            "openmpi" => {
                let processes = f64::from(planned.point.processes());
                4.0 * processes..=12.0 * processes
            }
            _ => 0.0..=0.0,
        };
        assert!(
            expected.contains(&left_mib),
            "{}: {left_mib}",
            planned.point.mpi
        );
    }
}

#[test]
fn data_that_nobody_declares_are_missing_and_a_program_without_checkpoints_by_dmtcp_needs_nothing()
{
    let spec = spec(
        "schema = 1\nname = \"own\"\n[sites.local]\nkind = \"local\"\nmpi.openmpi = { family = \"openmpi\" }\n[matrix]\napp = \"command\"\n\
         processes = 4\nmpi = \"openmpi\"\ncheckpointer = [\"none\", \"dmtcp\"]\n[matrix.user]\ncommand = \"sleep 1\"\n",
    );
    let plan = plan::build(&spec);
    let spaces = of_plan(&spec, &plan, Utf8Path::new("nowhere"));
    let [space] = &spaces.values().collect::<Vec<_>>()[..] else {
        panic!("{spaces:?}")
    };
    assert!(
        !space.is_whole && space.bytes as f64 > 300.0 * MIB,
        "{space:?}"
    );
}

#[test]
fn checkpoints_that_a_program_writes_itself_have_the_bytes_that_it_declares() {
    let spec = spec(
        "schema = 1\nname = \"own\"\n[sites.local]\nkind = \"local\"\nmpi.openmpi = { family = \"openmpi\" }\n[matrix]\napp = \"kernel-stencil\"\n\
         class = [\"n=48\", \"n=80\"]\nprocesses = 4\nmpi = \"openmpi\"\ncheckpointer = [\"none\", \"application\"]\n",
    );
    let plan = plan::build(&spec);
    let spaces = of_plan(&spec, &plan, Utf8Path::new("nowhere"));
    assert_eq!(spaces.len(), 2, "{spaces:?}");
    for planned in plan.points.iter().filter(|p| spaces.contains_key(&p.id)) {
        let points = if planned.point.class == "n=48" {
            48_u64
        } else {
            80
        }
        .pow(3);
        // 5 variables of 8 bytes, and a header of 4096 bytes
        let (space, written) = (spaces[&planned.id], 40 * points + 4096);
        assert_eq!((space.basis, space.is_whole), (SpaceBasis::Declared, true));
        assert!(
            (written..written * 11 / 10).contains(&space.bytes),
            "{space:?}, {written}"
        );
    }
}
