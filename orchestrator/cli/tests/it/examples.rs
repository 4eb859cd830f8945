//! Tests of the files in `examples/`: each file plans with each of its variants, and its variant `quick` runs if its tools are installed.

use crate::common::campaign;
use cvc_testkit::{Campaign, Finished, Tool, campaign::read_json, require};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .canonicalize()
        .expect("examples/")
}

/// Returns the campaign files.
fn files() -> Vec<PathBuf> {
    let toml_in = |directory: PathBuf| {
        let entries = fs::read_dir(directory)
            .expect("a directory")
            .map(|e| e.expect("an entry").path());
        entries
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
            .collect::<Vec<_>>()
    };
    [
        toml_in(examples()),
        toml_in(examples().join("own-program")),
        toml_in(examples().join("training")),
    ]
    .concat()
}

/// Returns a campaign directory with copies of an example's files.
fn copied(name: &str, parts: &[&str]) -> Campaign {
    let c = campaign(name, "");
    for part in parts {
        c.put(
            part,
            &fs::read_to_string(examples().join(part)).expect("a part of an example"),
        );
    }
    c
}

/// Runs the variant `quick`, in which every planned run must succeed.
fn run_quick(c: &Campaign, name: &str, file: &str) -> Finished {
    let ran = c.cvc(&["run", "--variant", "quick", file]).expect(0);
    assert!(
        ran.stderr.contains(" 0 failed, 0 skipped, 0 left"),
        "{}",
        ran.stderr
    );
    assert!(
        c.dir()
            .join(format!("reports/{name}-quick/report.html"))
            .is_file()
    );
    ran
}

#[test]
fn every_example_plans_with_every_variant_and_has_a_quick_one() {
    let c = campaign("unused", "");
    let readme = fs::read_to_string(examples().join("README.md")).expect("a page");
    let all = files();
    assert!(all.len() >= 4, "{all:?}");
    for file in all {
        let path = file.to_str().expect("UTF-8");
        let text = fs::read_to_string(&file).expect("reads");
        let heads = text
            .lines()
            .filter_map(|l| l.strip_prefix("[variants.")?.split(['.', ']']).next());
        let mut variants: Vec<&str> = heads.collect();
        variants.dedup();
        assert!(variants.contains(&"quick"), "{path}: {variants:?}");
        for variant in [None].into_iter().chain(variants.into_iter().map(Some)) {
            let mut args = vec!["plan", path, "--json"];
            args.extend(variant.into_iter().flat_map(|v| ["--variant", v]));
            let plan = c.cvc(&args).expect(0);
            assert!(
                plan.stderr.is_empty(),
                "{path} {variant:?}: {}",
                plan.stderr
            );
            let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
            assert!(
                !plan["points"].as_array().expect("points").is_empty(),
                "{path} {variant:?}"
            );
        }
        let named = file
            .strip_prefix(examples())
            .expect("below")
            .display()
            .to_string();
        assert!(
            readme.contains(&format!("({named})")) && readme.contains(&format!("examples/{named}")),
            "README.md lacks {named}"
        );
    }
}

/// Returns the example of an own program, compiled for Open MPI as its campaign file describes.
pub fn own_program() -> Campaign {
    let c = copied(
        "own",
        &[
            "own-program/heat.c",
            "own-program/heat.toml",
            "own-program/apps/heat.toml",
        ],
    );
    let wrappers = ["mpicc.openmpi", "mpicc"].into_iter();
    let mut compiled = wrappers.filter_map(|mpicc| {
        let here = c.dir().join("own-program");
        Command::new(mpicc)
            .args(["-O2", "-Wall", "-Werror", "-o", "heat", "heat.c", "-lm"])
            .current_dir(here)
            .output()
            .ok()
    });
    let compiled = compiled.next().expect("Open MPI's mpicc");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    c
}

#[test]
fn the_own_program_runs_and_verifies() {
    require!(Tool::OpenMpi);
    let c = own_program();
    run_quick(&c, "heat", "own-program/heat.toml");
    let runs = c.dir().join("campaigns/heat-quick/runs");
    let outcomes: Vec<_> = fs::read_dir(runs)
        .expect("runs")
        .flatten()
        .map(|e| read_json(&e.path().join("outcome.json")))
        .collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
}

#[test]
fn the_own_program_is_restarted_from_a_checkpoint() {
    require!(Tool::OpenMpi, Tool::Dmtcp);
    let c = own_program();
    let file = c.dir().join("own-program/heat.toml");
    let text = fs::read_to_string(&file)
        .expect("reads")
        .replace("repeats = 3", "repeats = 1\nretries = 0");
    fs::write(&file, text).expect("writes");
    c.cvc(&[
        "run",
        "--only",
        "checkpointer=dmtcp processes=2",
        "own-program/heat.toml",
    ])
    .expect(0);
    let runs = c.dir().join("campaigns/heat/runs");
    let run = fs::read_dir(runs)
        .expect("runs")
        .flatten()
        .next()
        .expect("a run")
        .path();
    let records = fs::read_to_string(run.join("records.jsonl")).expect("records");
    let verified = records
        .lines()
        .find(|l| l.contains("restart_verified"))
        .expect("a record of the restart");
    let verified: serde_json::Value = serde_json::from_str(verified).expect("JSON");
    assert_eq!(verified["value"].as_f64(), Some(1.0), "{verified}");
}

/// Returns the example of a training, with its script executable as in the repository.
fn training() -> Campaign {
    let parts = [
        "training.toml",
        "train.py",
        "apps/training.toml",
        "apps/training-torch.toml",
        "apps/training-sharded.toml",
        "apps/training-best.toml",
        "train_keras.py",
        "apps/training-keras-sharded.toml",
        "apps/training-keras-best.toml",
    ];
    let parts = parts.map(|part| format!("training/{part}"));
    let c = copied("training", &parts.each_ref().map(String::as_str));
    for script in ["train.py", "train_keras.py"] {
        let script = c.dir().join("training").join(script);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    c
}

#[test]
fn a_training_that_is_restarted_ends_with_the_same_loss() {
    require!(Tool::OpenMpi, Tool::Training);
    let c = training();
    run_quick(&c, "training", "training/training.toml");
    let runs = c.dir().join("campaigns/training-quick/runs");
    let restarts: Vec<String> = fs::read_dir(runs)
        .expect("runs")
        .flatten()
        .filter_map(|run| fs::read_to_string(run.path().join("restart.stdout")).ok())
        .collect();
    assert_eq!(restarts.len(), 1, "{restarts:?}");
    let value = |key: &str| {
        let lines = restarts[0].lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        found
            .next()
            .unwrap_or_else(|| panic!("no {key}: {}", restarts[0]))
    };
    assert!(restarts[0].contains(": epoch 9"), "{}", restarts[0]);
    assert_eq!(value("Loss"), value("Loss of the whole run"));
}

#[test]
fn sharded_and_best_checkpoints_of_the_training_restart_and_have_the_size_of_their_parameters() {
    require!(Tool::OpenMpi, Tool::Training);
    let c = training();
    c.cvc(&["run", "--variant", "kept", "training/training.toml"])
        .expect(0);
    let restarts = outputs(&c, "training-kept", "restart.stdout");
    assert_eq!(restarts.len(), 6, "three programs on one and two processes");
    for output in &restarts {
        assert_eq!(
            behind(output, "Loss"),
            behind(output, "Loss of the whole run")
        );
    }
    let best = restarts
        .iter()
        .filter(|output| output.contains(": epoch 7"));
    assert_eq!(
        best.count(),
        2,
        "the last two epochs are not better: {restarts:?}"
    );
}

/// Returns the outputs of a variant's runs, from files whose names end with `stdout` or `restart.stdout`.
fn outputs(c: &Campaign, campaign: &str, name: &str) -> Vec<String> {
    fs::read_dir(c.dir().join(format!("campaigns/{campaign}/runs")))
        .expect("runs")
        .flatten()
        .filter_map(|run| fs::read_to_string(run.path().join(name)).ok())
        .collect()
}

/// Returns the text after the last `KEY =` in an output.
fn behind(output: &str, key: &str) -> String {
    let mut found = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix(key)?.trim().strip_prefix('='));
    found
        .next_back()
        .unwrap_or_else(|| panic!("no {key}: {output}"))
        .trim()
        .to_owned()
}

#[test]
fn a_training_by_pytorch_that_is_restarted_ends_with_the_same_loss() {
    require!(Tool::OpenMpi, Tool::TrainingWithTorch);
    let c = training();
    c.cvc(&["run", "--variant", "torch", "training/training.toml"])
        .expect(0);
    let restarts = outputs(&c, "training-torch", "restart.stdout");
    assert_eq!(restarts.len(), 1, "{restarts:?}");
    assert!(restarts[0].contains(": epoch 9"), "{}", restarts[0]);
    assert_eq!(
        behind(&restarts[0], "Loss"),
        behind(&restarts[0], "Loss of the whole run")
    );
}

#[test]
fn a_training_by_keras_restarts_from_several_files_and_from_the_best_to_the_same_loss() {
    require!(Tool::OpenMpi, Tool::Keras);
    let c = training();
    c.cvc(&["run", "--variant", "keras", "training/training.toml"])
        .expect(0);
    let restarts = outputs(&c, "training-keras", "restart.stdout");
    assert_eq!(restarts.len(), 2, "{restarts:?}");
    for output in &restarts {
        assert!(output.contains("Restarted from"), "{output}");
        assert_eq!(
            behind(output, "Loss"),
            behind(output, "Loss of the whole run")
        );
    }
    let runs = outputs(&c, "training-keras", "stdout");
    let skipped = runs
        .iter()
        .filter(|output| output.contains("No checkpoint:"));
    assert_eq!(skipped.count(), 1, "only the run that keeps the best");
}

#[test]
fn a_training_that_dmtcp_restarts_ends_with_the_loss_of_one_without_checkpoints() {
    require!(Tool::OpenMpi, Tool::Training, Tool::Dmtcp);
    let c = training();
    c.cvc(&["run", "--variant", "dmtcp", "training/training.toml"])
        .expect(0);
    let restarts = outputs(&c, "training-dmtcp", "restart.stdout");
    assert_eq!(restarts.len(), 1, "{restarts:?}");
    let whole = outputs(&c, "training-dmtcp", "stdout");
    let whole = whole
        .iter()
        .find(|output| output.contains("Loss ="))
        .expect("a run without checkpoints");
    assert_eq!(behind(&restarts[0], "Loss"), behind(whole, "Loss"));
    assert!(!restarts[0].contains("Epoch 1 "), "it began anew");
}

#[test]
fn process_0_alone_writes_the_checkpoint_and_returns_to_holes_that_it_left() {
    require!(Tool::OpenMpi, Tool::Training, Tool::Strace);
    let c = training();
    let file = c.dir().join("training/training.toml");
    let text = fs::read_to_string(&file).expect("reads");
    let traced = text
        .replace("[run]\n", "[trace]\ntracer = \"strace\"\n\n[run]\n")
        .replace("restart_check = true", "restart_check = false");
    assert_ne!(text, traced);
    fs::write(&file, traced).expect("writes");
    c.cvc(&[
        "run",
        "--variant",
        "quick",
        "--only",
        "checkpointer=application",
        "training/training.toml",
    ])
    .expect(0);
    let run = fs::read_dir(c.dir().join("campaigns/training-quick/runs"))
        .expect("runs")
        .flatten()
        .next()
        .expect("a run")
        .path();
    let events = c
        .cvc(&["trace", run.to_str().expect("UTF-8"), "--csv", "-"])
        .expect(0)
        .stdout;
    let of_file: Vec<Vec<&str>> = events
        .lines()
        .filter(|line| line.ends_with("/training.h5.tmp"))
        .map(|line| line.split(',').collect())
        .collect();
    let writers: std::collections::BTreeSet<&str> = of_file
        .iter()
        .filter(|event| event[5] == "write")
        .map(|event| event[1])
        .collect();
    assert_eq!(writers.len(), 1, "{writers:?}");
    // a file is renamed when it is complete: all writes between two closes of a writer are one checkpoint
    let (mut checkpoints, mut writes) = (Vec::new(), Vec::new());
    for event in of_file {
        match event[5] {
            "write" => writes.push(
                [6, 7].map(|at: usize| event[at].parse::<u64>().expect("an offset and a length")),
            ),
            "close" if !writes.is_empty() => checkpoints.push(std::mem::take(&mut writes)),
            _ => {}
        }
    }
    assert_eq!(checkpoints.len(), 9);
    for writes in checkpoints {
        // the data with holes; then the writer returns twice to fill the holes
        let returns = writes
            .windows(2)
            .filter(|two| two[1][0] < two[0][0])
            .count();
        assert!(returns >= 2, "{writes:?}");
        let (mut end, mut holes) = (0, Vec::new());
        for [offset, bytes] in &writes {
            if *offset > end {
                holes.push(end..*offset);
            }
            end = end.max(offset + bytes);
        }
        let filled = holes
            .iter()
            .filter(|hole| writes.iter().any(|[offset, _]| hole.contains(offset)))
            .count();
        assert!(filled >= 3, "{writes:?}");
        let sizes: std::collections::BTreeSet<u64> = writes.iter().map(|of| of[1]).collect();
        assert!(sizes.len() >= 8, "{sizes:?}");
    }
}

#[test]
fn lulesh_that_dmtcp_restarts_ends_with_the_energy_of_a_run_without() {
    require!(Tool::OpenMpi, Tool::Dmtcp, Tool::Lulesh);
    let c = copied("lulesh", &["lulesh.toml"]);
    let file = c.dir().join("lulesh.toml");
    let dir = std::env::var("CVC_LULESH_DIR").expect("its directory");
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(&file, text.replace("~/apps/lulesh", &dir)).expect("writes");
    run_quick(&c, "lulesh", "lulesh.toml");
    let restarts = outputs(&c, "lulesh-quick", "restart.stdout");
    assert_eq!(restarts.len(), 1, "{restarts:?}");
    let whole = outputs(&c, "lulesh-quick", "stdout");
    let whole = whole
        .iter()
        .find(|output| output.contains("Run completed"))
        .expect("a run without checkpoints");
    let energy = |output: &str| behind(output, "Final Origin Energy");
    assert_eq!(energy(&restarts[0]), energy(whole));
}

#[test]
fn a_training_whose_loss_is_another_after_its_restart_fails() {
    require!(Tool::OpenMpi, Tool::Training);
    let c = training();
    let script = c.dir().join("training/train.py");
    // without the restored momenta, the last epoch gives another result
    let text = fs::read_to_string(&script).expect("reads");
    let forgets = text.replace(
        "momenta[name][...] = file[\"momenta/\" + name][...]",
        "pass",
    );
    assert_ne!(text, forgets);
    fs::write(&script, forgets).expect("writes");
    let args = [
        "run",
        "--variant",
        "quick",
        "--only",
        "checkpointer=application",
    ];
    c.cvc(&[&args[..], &["training/training.toml"]].concat())
        .expect(10);
}

#[test]
fn lammps_restarts_from_its_own_files() {
    require!(Tool::OpenMpi, Tool::Lammps);
    run_quick(&copied("lammps", &["lammps.toml"]), "lammps", "lammps.toml");
}

#[test]
fn nas_benchmarks_run_on_this_machine() {
    require!(Tool::OpenMpi, Tool::Npb);
    run_quick(
        &copied("nas", &["nas-mappings.toml"]),
        "nas-mappings",
        "nas-mappings.toml",
    );
}

#[test]
fn bt_io_restarts_with_aggregators() {
    require!(Tool::OpenMpi, Tool::Npb, Tool::Dmtcp);
    run_quick(
        &copied("btio", &["btio-aggregators.toml"]),
        "btio-aggregators",
        "btio-aggregators.toml",
    );
}
