//! Tests of phases of MPI-IO: traced from real programs, as a model, replayed without the program, and measured on storage.

use crate::{
    common::{SITE, campaign},
    documents::conforms,
    ways::Kernels,
};
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The kernels with the tracer.
struct Traced(Kernels);

impl Traced {
    fn with(tool: Tool) -> Self {
        Self(Kernels::compile(tool))
    }

    fn path(&self, name: &str) -> String {
        self.0.dir.path().join(name).display().to_string()
    }

    fn run(&self, processes: u32, trace: Option<&str>, program: &str, args: &str) -> Output {
        let mut command = Command::new(&self.0.mpiexec);
        if let Some(trace) = trace {
            let (library, logs) = (self.path("libtrace-mpi-io.so"), self.path(trace));
            fs::create_dir(&logs).expect("makes");
            for (key, value) in [("LD_PRELOAD", library), ("CVC_MPI_IO_TRACE", logs)] {
                if self.0.is_open_mpi {
                    command.args(["-x", &format!("{key}={value}")]);
                } else {
                    command.args(["-env", key, &value]);
                }
            }
        }
        self.0.start(command, processes, program, args)
    }

    fn succeeds(&self, processes: u32, trace: Option<&str>, program: &str, args: &str) -> String {
        let output = self.run(processes, trace, program, args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn model(&self, args: &[&str]) -> Value {
        let c = campaign("phases", "");
        conforms(&c, "phases", &[&["phases"], args].concat())
    }
}

/// Returns the parts of a model that a program and its replay must have in common: phases, calls, sizes, offsets.
fn essence(model: &Value) -> Vec<Value> {
    let phases = model["phases"].as_array().expect("phases");
    let of = |phase: &Value| {
        let mut phase = phase.clone();
        for key in ["start_s", "think_s", "io_s", "is_relevant"] {
            phase[key] = Value::Null;
        }
        for part in phase["loops"].as_array_mut().expect("loops") {
            for op in part["ops"].as_array_mut().expect("calls") {
                // file names and numbers of patterns differ
                op["file"] = Value::Null;
            }
        }
        phase
    };
    phases.iter().map(of).collect()
}

fn block_with(tool: Tool) {
    let traced = Traced::with(tool);
    let args = "--size 24 --steps 40 --write-every 5 --file block.out";
    traced.succeeds(4, Some("four"), "kernel-block", args);
    let (model_file, replay) = (traced.path("four.json"), traced.path("four.txt"));
    let four = traced.path("four");
    let model = traced.model(&[
        &four,
        "--write",
        &model_file,
        "--replay",
        &replay,
        "--all",
        "--most",
        "1000",
    ]);
    // eight solutions are written with computation between them, and then read with one reduction after each
    let phases = model["phases"].as_array().expect("phases");
    let (writes, reads) = (&phases[0], &phases[1]);
    assert_eq!(
        (&writes["count"], &reads["count"]),
        (&8.into(), &1.into()),
        "{model}"
    );
    assert_eq!(model["phases_without_ticks"], 16);
    let op = &writes["loops"][0]["ops"][0];
    let volume = 24_u64.pow(3) * 40;
    assert_eq!(writes["weight_bytes"], volume);
    assert_eq!(op["request_bytes"], volume / 4);
    assert_eq!(op["per_phase"], volume);
    assert_eq!(op["formula"], "first(idP) + rs*np*(ph - 1)");
    assert_eq!(
        reads["loops"][0]["ops"][0]["at"][0]["levels"][0]["count"],
        8
    );
    let file = &model["files"][0];
    let facts = [
        "access",
        "interface",
        "is_shared",
        "is_collective",
        "is_blocking",
    ];
    assert_eq!(
        facts.map(|key| file[key].to_string()).join(" "),
        "\"strided\" \"mpi-io\" true true true"
    );
    assert!(fs::metadata(&model_file).expect("a model").len() < 10_000);

    // the replay, traced itself, equals the program
    let printed = traced.succeeds(
        4,
        Some("again"),
        "kernel-replay",
        &format!("--program {replay} --dir {}", traced.0.dir.path().display()),
    );
    assert!(printed.contains("I/O time in seconds = "), "{printed}");
    let again = traced.model(&[&traced.path("again")]);
    assert_eq!(essence(&model), essence(&again));
    assert!(!traced.0.dir.path().join("replay-0").exists());

    // models at two numbers of processes give the sizes at any number
    traced.succeeds(9, Some("nine"), "kernel-block", args);
    let at = traced.model(&[&four, &traced.path("nine"), "--ticks", "20", "--at", "36"]);
    assert_eq!(at["processes"], 36);
    let bytes = at["phases"][0]["weight_bytes"].as_u64().expect("bytes");
    assert!(bytes.abs_diff(volume) * 50 < volume, "{bytes} of {volume}");
}

#[test]
fn phases_of_a_kernel_are_a_model_and_its_replay_is_the_program_with_mpich() {
    require!(Tool::Mpich);
    block_with(Tool::Mpich);
}

#[test]
fn phases_of_a_kernel_are_a_model_and_its_replay_is_the_program_with_open_mpi() {
    require!(Tool::OpenMpi);
    block_with(Tool::OpenMpi);
}

#[test]
fn a_campaign_replays_a_model_and_records_the_bandwidth_of_its_phases() {
    require!(Tool::OpenMpi);
    let traced = Traced::with(Tool::OpenMpi);
    let args = "--size 16 --steps 10 --write-every 5 --file block.out";
    traced.succeeds(4, Some("logs"), "kernel-block", args);
    let c = campaign("replayed", "");
    fs::create_dir(c.dir().join("models")).expect("makes");
    let model = c.dir().join("models/block.json").display().to_string();
    c.cvc(&["phases", &traced.path("logs"), "--write", &model])
        .expect(0);
    c.rewrite(&format!(
        "{SITE}[matrix]\napp = \"replay:models/block.json\"\nclass = [\"all\", \"paced\"]\nprocesses = 4\nmpi = \"openmpi\"\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 200\n"
    ));
    c.run().expect(0);
    let runs = c.run_names();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let records = c.records(run);
        let names: Vec<&str> = records.iter().filter_map(|r| r["name"].as_str()).collect();
        for wanted in ["replay_io_s", "phase_1_mib_s", "phase_3_mib_s"] {
            assert!(names.contains(&wanted), "{wanted}: {names:?}");
        }
    }
    // another model gives other runs
    let points = || {
        let plan = c.cvc(&["plan", "campaign.toml", "--json"]).expect(0).stdout;
        let plan: Value = serde_json::from_str(&plan).expect("JSON");
        let points = plan["points"].as_array().expect("points").iter();
        points.map(|p| p["id"].clone()).collect::<Vec<_>>()
    };
    let before = points();
    let text = fs::read_to_string(&model).expect("a model");
    fs::write(&model, text.replace("\"think_s\": ", "\"think_s\": 1")).expect("writes");
    assert!(points().iter().all(|id| !before.contains(id)), "{before:?}");
    fs::write(&model, "{}").expect("writes");
    let refused = c.cvc(&["plan", "campaign.toml"]).expect(2).stderr;
    assert!(
        refused.contains("not a model") && refused.contains("campaign.toml:"),
        "{refused}"
    );
}

#[test]
fn phases_of_a_trace_without_communication_are_separated_by_pauses() {
    require!(Tool::Strace);
    let c = campaign("pauses", "");
    const SCRIPT: &str =
        "exec 3>out.dat; printf aaaa >&3; printf bbbb >&3; sleep 1; printf cccc >&3";
    let logs = c.dir().join("strace");
    fs::create_dir(&logs).expect("makes");
    let traced = Command::new("strace")
        .args(["-ff", "-ttt", "-T", "-y", "-s", "0", "-e"])
        .arg("trace=openat,read,write,lseek,fcntl,dup2,close,execve,clone,fork,vfork")
        .arg("-o")
        .arg(logs.join("trace"))
        .args(["sh", "-c", SCRIPT])
        .current_dir(c.dir())
        .status();
    assert!(traced.expect("strace").success());
    let logs = logs.display().to_string();
    let bytes = |gap: &str| -> Vec<u64> {
        let model = conforms(&c, "phases", &["phases", &logs, "--gap", gap]);
        assert_eq!(model["marks"]["by"], "gaps", "{model}");
        let phases = model["phases"].as_array().expect("phases").iter();
        let bytes = phases.map(|phase| phase["weight_bytes"].as_u64().expect("bytes"));
        bytes.collect()
    };
    assert_eq!(bytes("0.5s"), [8, 4]);
    assert_eq!(bytes("10s"), [12]);
    let shown = c.cvc(&["phases", &logs, "--ticks", "3"]).expect(0);
    assert!(
        shown.stdout.contains("separate phases (--gap)")
            && shown
                .stdout
                .contains("note: the trace has no communication"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stderr.contains("--ticks has no effect"),
        "{}",
        shown.stderr
    );
}

#[test]
fn wrong_traces_models_and_replays_are_refused_with_the_reason() {
    require!(Tool::OpenMpi);
    let traced = Traced::with(Tool::OpenMpi);
    let c = campaign("phases", "");
    let args = "--size 16 --steps 10 --write-every 5 --file block.out";
    traced.succeeds(4, Some("logs"), "kernel-block", args);
    let (logs, replay, model) = (
        traced.path("logs"),
        traced.path("r.txt"),
        traced.path("m.json"),
    );
    let written = [
        "phases", &logs, "--all", "--replay", &replay, "--write", &model,
    ];
    c.cvc(&written).expect(0);

    // fewer processes and less space than the replay needs
    let refused = traced.run(2, None, "kernel-replay", &format!("--program {replay}"));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("is for 4 processes, not for 2"), "{stderr}");
    let large = fs::read_to_string(&replay).expect("a program");
    let large = large.replacen("phase 1 2 2 ", "phase 1 200000000000 200000000000 ", 1);
    fs::write(traced.path("large.txt"), large).expect("writes");
    let args = format!("--program {}", traced.path("large.txt"));
    let refused = traced.run(4, None, "kernel-replay", &args);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        stderr.contains("the replay writes ") && stderr.contains("are free in"),
        "{stderr}"
    );

    // a truncated log gives all that it contains
    let log = traced.0.dir.path().join("logs/3.mpi-io");
    let whole = fs::read(&log).expect("a log");
    fs::write(&log, &whole[..whole.len() - 30]).expect("writes");
    let cut = c.cvc(&["phases", &logs]).expect(0).stdout;
    assert!(cut.contains("note: process 3: the log is cut off"), "{cut}");
    fs::remove_file(&log).expect("removes");
    let refused = |args: &[&str], code: i32, wanted: &str| {
        let stderr = c.cvc(args).expect(code).stderr;
        assert!(stderr.contains(wanted), "{stderr}");
    };
    refused(
        &["phases", &logs],
        6,
        "logs of 3 of 4 processes are there; missing: rank 3",
    );
    let text = fs::read_to_string(&model).expect("a model");
    fs::write(&model, text.replace("\"schema\": 1", "\"schema\": 2")).expect("writes");
    refused(
        &["phases", &model],
        6,
        "a model of version 2; this program reads version 1",
    );
    fs::write(&model, "{}").expect("writes");
    refused(&["estimate", &model], 6, "not a model");
    fs::write(&model, &text).expect("writes");
    refused(
        &["phases", &model, "--at", "9"],
        6,
        "one model at 4 processes",
    );
    refused(&["phases", &model, &model], 2, "without a process count");
    refused(
        &["estimate", &model, "--mapping", "1Nx2P"],
        2,
        "the model has 4 processes",
    );
    let empty = traced.path("empty");
    fs::create_dir(&empty).expect("makes");
    refused(&["phases", &empty], 6, "no logs of trace-mpi-io");
}

#[test]
fn an_estimate_repeats_the_phases_with_each_library_of_a_site() {
    require!(Tool::OpenMpi);
    let traced = Traced::with(Tool::OpenMpi);
    traced.succeeds(
        2,
        Some("logs"),
        "kernel-stencil",
        "--size 32 --steps 20 --ckpt-every 10 --ckpt-dir .",
    );
    let (logs, model) = (traced.path("logs"), traced.path("m.json"));
    let c = campaign("estimate", "");
    c.cvc(&["phases", &logs, "--write", &model]).expect(0);
    let args = [
        "estimate",
        &model,
        "--mpi",
        "openmpi",
        "--repeats",
        "3",
        "--all",
    ];
    let found = conforms(&c, "estimate", &args);
    let row = &found["rows"][0];
    let seconds = |key: &str| row["io"][key].as_f64().unwrap_or_else(|| panic!("{found}"));
    assert!(
        0.0 < seconds("low_s").max(1e-9) && seconds("low_s") <= seconds("mean_s"),
        "{found}"
    );
    let phases = row["phases"].as_array().expect("phases");
    let traced_bytes: u64 = phases
        .iter()
        .map(|p| p["bytes"].as_u64().expect("bytes") * p["count"].as_u64().expect("a count"))
        .sum();
    // two checkpoints of five arrays and a header
    assert_eq!(traced_bytes, 2 * (4096 + 5 * 8 * 32_u64.pow(3)), "{found}");
    assert!(
        found["sentence"]
            .as_str()
            .is_some_and(|s| s.starts_with("All I/O takes "))
    );
    // either the file system has direct I/O, and each phase has its share of it, or the output says that it has none
    let device = (
        row["device"]["write_mib_s"].as_f64(),
        &row["device_problem"],
    );
    assert!((device.0 > Some(0.0)) != device.1.is_string(), "{found}");
    if let Some(rate) = device.0 {
        let phase = &phases[0];
        let share = phase["device_pct"].as_f64().expect("a share");
        let expected = 100.0 * phase["mib_s"].as_f64().expect("a rate") / rate;
        assert!((share / expected - 1.0).abs() < 1e-9, "{found}");
    }
    // either IOR is installed, or the output says that it is missing
    let ior = (&row["ior_s"], &row["ior_problem"]);
    assert!(ior.0.is_f64() != ior.1.is_string(), "{found}");
}

#[test]
fn an_estimate_of_several_places_chooses_with_a_probability_and_costs() {
    require!(Tool::OpenMpi);
    let traced = Traced::with(Tool::OpenMpi);
    let args = "--size 16 --steps 10 --write-every 5 --file block.out";
    traced.succeeds(4, Some("logs"), "kernel-block", args);
    let (logs, model) = (traced.path("logs"), traced.path("m.json"));
    let sites = "[sites.one]\nkind = \"local\"\nprice = { per_node_hour_usd = 2.0 }\n\
                 [sites.two]\nkind = \"local\"\n[matrix]\napp = \"kernel-block\"\nclass = \"S\"\n\
                 processes = 1\nmpi = \"openmpi\"\n";
    let c = campaign("places", sites);
    c.cvc(&["phases", &logs, "--write", &model]).expect(0);
    let base = [
        "estimate",
        &model,
        "campaign.toml",
        "--mpi",
        "openmpi",
        "--all",
    ];
    let options = ["--repeats", "4", "--compute", "two=3"];
    let found = conforms(&c, "estimate", &[&base[..], &options].concat());
    let rows = found["rows"].as_array().expect("rows");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{found}"));
    // the whole run: I/O as replayed, and the traced computation, three times as long on `two`
    let computing = number(&found["traced_run_s"]) - number(&found["traced_io_s"]);
    for (row, factor) in rows.iter().zip([1.0, 3.0]) {
        let rest = number(&row["run"]["mean_s"]) - number(&row["io"]["mean_s"]);
        assert!((rest - factor * computing).abs() < 1e-6, "{found}");
        assert_eq!(row["repeats_s"].as_array().map(Vec::len), Some(4));
    }
    let usd = number(&rows[0]["usd"]) * 3600.0 / number(&rows[0]["run"]["mean_s"]);
    assert!((usd - 2.0).abs() < 1e-9, "{found}");
    assert_eq!(
        (&rows[1]["usd"], &rows[0]["price"]),
        (&Value::Null, &"campaign file".into())
    );
    let choices = found["choices"].as_array().expect("choices");
    assert_eq!((choices.len(), &choices[0]["by"]), (1, &"run-time".into()));
    let sure = number(&choices[0]["probability"]);
    let verdict = if sure >= 0.95 {
        "best"
    } else {
        "indistinguishable"
    };
    assert_eq!(choices[0]["verdict"], verdict, "{found}");

    // one repeat has no scatter, and a price for all sites makes a second choice
    let options = ["--repeats", "1", "--dollars-per-hour", "7.2"];
    let found = conforms(&c, "estimate", &[&base[..], &options].concat());
    let choices = found["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 2, "{found}");
    assert_eq!(choices[1]["by"], "dollars");
    assert!(choices.iter().all(|of| of["verdict"] == "unknown-scatter"));
    let usd = |i: usize| number(&found["rows"][i]["usd"]);
    let cheaper = if usd(0) < usd(1) { "one" } else { "two" };
    assert_eq!(choices[1]["site"], cheaper, "{found}");
    let sentence = found["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("Indistinguishable: "), "{sentence}");
    let wrong = [&base[..], &["--price", "three=1"]].concat();
    let refused = c.cvc(&wrong).expect(2).stderr;
    assert!(
        refused.contains("--price: there is no site `three`"),
        "{refused}"
    );
    assert!(refused.contains("sites: one, two"), "{refused}");
}

#[test]
fn a_predicted_checkpoint_is_a_model_that_is_replayed() {
    require!(Tool::OpenMpi);
    let c = campaign("predicted", "");
    let images = c.dir().join("images");
    fs::create_dir(&images).expect("makes");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures/dmtcp");
    for name in [
        "mpich-btA-np4-rank0.dmtcp.gz",
        "mpich-btA-np16-rank0.dmtcp.gz",
    ] {
        fs::copy(fixtures.join(name), images.join(name)).expect("copies");
    }
    let setting = "npb-bt.A 9 mpich-ch3";
    let args = [
        "phases",
        "--predict",
        setting,
        "images",
        "--write",
        "m.json",
    ];
    let model = conforms(&c, "phases", &args);
    assert_eq!(
        (&model["processes"], &model["marks"]["by"]),
        (&9.into(), &"image".into())
    );
    let weight = model["phases"][0]["weight_bytes"].as_f64().expect("bytes");
    let predicted = ["predict", "--from", "images", "--at", setting, "--json"];
    let predicted: Value = serde_json::from_str(&c.cvc(&predicted).expect(0).stdout).expect("JSON");
    let file = &predicted["forecasts"][0]["files"][0]["size"]["value"];
    let file = file.as_f64().unwrap_or_else(|| panic!("{predicted}"));
    let ratio = weight / (9.0 * file * f64::from(1 << 20));
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    let shown = c.cvc(&["phases", "m.json"]).expect(0).stdout;
    assert!(
        shown.contains("note: predicted: npb-bt.A 1Nx9P mpich-ch3"),
        "{shown}"
    );
    let base = [
        "estimate",
        "m.json",
        "--mpi",
        "openmpi",
        "--repeats",
        "1",
        "--all",
    ];
    let found = conforms(&c, "estimate", &base);
    assert_eq!(
        (&found["rows"][0]["run"], &found["choices"]),
        (&Value::Null, &Value::Array(Vec::new()))
    );
    assert!(
        found["rows"][0]["io"]["mean_s"].as_f64() > Some(0.0),
        "{found}"
    );
    assert!(
        found["assumptions"][0]
            .as_str()
            .is_some_and(|a| a.contains("only I/O"))
    );

    let refused = c.cvc(&["phases", "--predict", "kernel-stencil.S 4 mpich", "images"]);
    let refused = refused.expect(8).stderr;
    assert!(refused.contains("are not predicted: "), "{refused}");
    let refused = c
        .cvc(&["phases", "--predict", "npb-bt.A", "images"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("expected a program, a mapping and an MPI library"),
        "{refused}"
    );
}

#[test]
fn a_traced_run_of_a_campaign_is_chosen_by_the_beginning_of_its_identifier() {
    require!(Tool::OpenMpi);
    let text = format!(
        "{SITE}oversubscribe = true\n[matrix]\napp = \"kernel-block\"\nclass = \"S\"\nprocesses = [1, 4]\nmpi = \"openmpi\"\n\
         tracer = \"mpi-io\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 200\n"
    );
    let c = campaign("traced", &text);
    c.run().expect(0);
    let runs = c.run_names();
    assert_eq!(runs.len(), 2);
    let several = c.cvc(&["phases", "campaign.toml"]).expect(2).stderr;
    assert!(several.contains("has 2 traced runs"), "{several}");
    assert!(
        runs.iter().all(|run| several.contains(run.as_str())),
        "{several}"
    );
    let processes: Vec<u64> = runs
        .iter()
        .map(|run| {
            let args = ["phases", "campaign.toml", "--run", run.as_str()];
            let model = conforms(&c, "phases", &args);
            model["processes"].as_u64().expect("a number")
        })
        .collect();
    assert!(
        processes.contains(&1) && processes.contains(&4),
        "{processes:?}"
    );
    let none = c
        .cvc(&["phases", "campaign.toml", "--run", "zzz"])
        .expect(2)
        .stderr;
    assert!(
        none.contains("0 traced runs whose identifier begins with `zzz`"),
        "{none}"
    );
}

#[test]
fn measured_storage_answers_later_estimates_without_a_run() {
    require!(Tool::OpenMpi);
    let traced = Traced::with(Tool::OpenMpi);
    let args = "--size 16 --steps 10 --write-every 5 --file block.out";
    traced.succeeds(4, Some("logs"), "kernel-block", args);
    let c = campaign("measured", "");
    let model = traced.path("m.json");
    c.cvc(&[
        "phases",
        &traced.path("logs"),
        "--write",
        &model,
        "--html",
        "m.html",
    ])
    .expect(0);
    let page = fs::read_to_string(c.dir().join("m.html")).expect("a page");
    assert!(page.contains("Offsets in block.out"), "offsets over time");
    let from = ["estimate", &model, "--from", "storage.json", "--all"];
    let refused = c.cvc(&from).expect(2).stderr;
    assert!(
        refused.contains("no measured storage that fits"),
        "{refused}"
    );
    c.cvc(&[
        "estimate",
        "--measure",
        "storage.json",
        "--mpi",
        "openmpi",
        "--repeats",
        "1",
    ])
    .expect(0);
    let measured: Value =
        serde_json::from_str(&fs::read_to_string(c.dir().join("storage.json")).expect("a file"))
            .expect("JSON");
    // five ways of access, four request sizes, written and read
    let rates = measured["measured"][0]["rates"].as_array().expect("rates");
    assert_eq!(rates.len(), 5 * 4 * 2, "{measured}");
    assert!(rates.iter().all(|r| r["mib_s"].as_f64() > Some(0.0)));
    let found = conforms(&c, "estimate", &from);
    let row = &found["rows"][0];
    assert_eq!(row["measured_on"], measured["measured"][0]["date"]);
    assert_eq!(
        (&row["replay_s"], &row["io"]["low_s"]),
        (&Value::Null, &Value::Null)
    );
    assert!(row["io"]["mean_s"].as_f64() > Some(0.0), "{found}");
    let missing = ["estimate", &model, "--by-size", "nowhere.json"];
    let refused = c.cvc(&missing).expect(2).stderr;
    assert!(
        refused.contains("nowhere.json has no measured storage"),
        "{refused}"
    );
    // the line of the calls' size is next to the interpolation, and a replay judges it
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}: {found}"));
    let line = number(&row["by_size_s"]) / number(&row["io"]["mean_s"]);
    assert!(line.is_finite() && line > 0.0, "{found}");
    let laws = row["laws"].as_array().expect("laws");
    assert!(
        !laws.is_empty() && laws.iter().all(|law| law["processes"] == 4),
        "{found}"
    );
    assert_eq!(row["by_size_error_pct"], Value::Null);
    let replayed = [
        "estimate",
        &model,
        "--mpi",
        "openmpi",
        "--repeats",
        "2",
        "--all",
        "--by-size",
        "storage.json",
    ];
    let judged = conforms(&c, "estimate", &replayed);
    let row = &judged["rows"][0];
    let (line, mean) = (number(&row["by_size_s"]), number(&row["io"]["mean_s"]));
    let error = number(&row["by_size_error_pct"]);
    assert!(
        (error - 100.0 * (line - mean).abs() / mean).abs() < 1e-6,
        "{judged}"
    );
    let shown = c.cvc(&from).expect(0).stdout;
    assert!(
        shown.contains("interpolated from measurements of "),
        "{shown}"
    );
}
