//! Tests on nodes of a lab: the storage that a job needs, the number of processes beyond which more do not pay, and the small run that represents a
//! large one.

use crate::common::cluster::{LIMIT, OnLab, ssh_site_with};
use cvc_model::turning_point::{
    TimesAt, by_processes, measured_turning, predicted_turning, scaling_law,
};
use cvc_testkit::{Lab, Tool, campaign::read_json, require};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Descriptor of the built-in stencil with some MiB of data. All nodes of a lab share one machine's cores, so waiting ranks yield their core.
const STENCIL: &str = "schema = 1\nname = \"stencil\"\ntitle = \"the stencil kernel\"\nkernel = true\n\
    [program]\nnames = [\"kernel-stencil\"]\ninstall = \"part of cvc\"\n\
    [command]\nargs = [\"--size\", \"{{w.size}}\", \"--steps\", \"60\", \"--work\", \"{{w.work}}\", \"--ckpt-every\", \"0\"]\n\
    env = { OMPI_MCA_mpi_yield_when_idle = \"1\", MPIR_CVAR_POLLS_BEFORE_YIELD = \"1\" }\n\
    [workloads.fixed]\nvars = { size = 96, work = 60 }\n[workloads.short]\nvars = { size = 96, work = 20 }\n[workloads.small]\nvars = { size = 48, work = 20 }\n[workloads.large]\nvars = { size = 152, work = 60 }\n\
    [success]\npattern = '^Verification = SUCCESSFUL'\nforbid = '^Verification = FAILED'\n[progress]\nstep = '^Time step (\\d+)'\n";

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Returns a site of four nodes with node-local storage.
fn site() -> String {
    let prefix = Tool::Dmtcp
        .find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()))
        .expect("the test requires it");
    ssh_site_with(
        4,
        "storage.local = { path = \"/scratch-local\", kind = \"node-local\" }",
        &format!(
            "[sites.lab.dmtcp]\nprefix = \"{}\"\n[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n",
            prefix.display()
        ),
    )
}

fn lab() -> Lab {
    Lab::builder().nodes(4).scratch_mib(2048).build()
}

/// Returns the bytes of the files below a directory, as allocated on the disk.
fn on_disk(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() => on_disk(&path),
        Ok(meta) => meta.blocks() * 512,
        // a temporary file that was renamed meanwhile
        Err(_) => 0,
    };
    entries.flatten().map(|entry| of(entry.path())).sum()
}

#[test]
fn what_lies_on_each_node_at_its_peak_is_what_was_forecast() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let campaign = |mapping: &str, moment: &str| {
        format!(
            "{}[matrix]\napp = \"stencil\"\nclass = \"short\"\ncheckpointer = \"dmtcp\"\nmpi = \"openmpi\"\nmapping = {mapping}\n\
             [run]\nretries = 0\nrepeats = 1\ntimeout_s = 600\n[checkpoint]\ntimeout_s = 300\n{moment}\n",
            site()
        )
    };
    let small = campaign(
        "[\"1Nx2P\", \"2Nx2P\", \"1Nx4P\", \"2Nx1P\", \"3Nx2P\"]",
        "moment = { size_only_after_step = 20 }",
    );
    let on = OnLab::new(lab(), "small", &small);
    on.campaign.put("apps/stencil.toml", STENCIL);
    on.run().expect(0);
    let asked = [
        "--at",
        "stencil.short 4Nx2P openmpi",
        "--storage",
        "--interval",
        "1s",
        "--for",
        "4s",
    ];
    let said = on
        .campaign
        .cvc(
            &[
                &["predict", "--from", "campaign.toml", "--json"],
                &asked[..],
            ]
            .concat(),
        )
        .expect(0);
    let said: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let need = &said["storage"][0];
    assert_eq!(need["checkpoints"], 3);
    let area = &need["areas"][0];
    assert_eq!(
        (&area["site"], &area["storage"], &area["kind"]),
        (&"lab".into(), &"local".into(), &"node-local".into())
    );

    let path = on.campaign.put(
        "big.toml",
        &format!(
            "schema = 1\nname = \"big\"\n{}",
            campaign(
                "\"4Nx2P\"",
                "moment = { every_s = 1.0, count = 3, compare = false }",
            )
        ),
    );
    let places: Vec<PathBuf> = NODES
        .iter()
        .map(|name| on.lab.node(name).path("/scratch-local"))
        .collect();
    let is_over = AtomicBool::new(false);
    let peaks = thread::scope(|scope| {
        let watch = |place: &PathBuf| {
            let mut peak = 0;
            while !is_over.load(Ordering::Relaxed) {
                peak = on_disk(place).max(peak);
                thread::sleep(Duration::from_millis(2));
            }
            peak
        };
        let watches: Vec<_> = places
            .iter()
            .map(|place| scope.spawn(move || watch(place)))
            .collect();
        let ran = on
            .start(&["run", path.to_str().expect("UTF-8")])
            .wait(LIMIT);
        is_over.store(true, Ordering::Relaxed);
        ran.expect(0);
        let peaks = watches
            .into_iter()
            .map(|of| of.join().expect("a peak") as f64);
        peaks.collect::<Vec<_>>()
    });
    let mut errors = Vec::new();
    for node in need["nodes"].as_array().expect("nodes") {
        let forecast = node["peak_mib"]["value"].as_f64().expect("a number");
        for number in node["nodes"].as_array().expect("numbers") {
            let place = number.as_u64().expect("a number") as usize - 1;
            let measured = peaks[place] / 1_048_576.0;
            eprintln!("node {number}: {forecast:.2} MiB forecast, {measured:.2} MiB at the peak");
            errors.push((forecast / measured - 1.0).abs());
        }
    }
    assert_eq!(errors.len(), 4);
    let worst = errors.iter().copied().fold(0.0, f64::max);
    assert!(worst < 0.02, "{errors:?}");
    on.assert_nothing_left(&NODES);
}

/// Measures wall times of a fixed problem on a lab's processes, with and without checkpoints. Every second number of processes predicts the others.
#[test]
fn the_turning_point_of_a_fixed_problem_is_predicted_from_half_of_its_runs() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let text = format!(
        "{}[matrix]\napp = \"stencil\"\nclass = \"small\"\nmpi = \"openmpi\"\n\
         mapping = [\"1Nx1P\", \"2Nx1P\", \"1Nx2P+1Nx1P\", \"2Nx2P\", \"1Nx3P+1Nx2P\", \"2Nx3P\", \"1Nx4P+1Nx3P\", \"2Nx4P\"]\n\
         checkpointer = [\"none\", \"dmtcp\"]\n[run]\nretries = 0\nrepeats = 2\ntimeout_s = 600\n\
         [checkpoint]\ntimeout_s = 300\nmoment = {{ after_step = 20 }}\n",
        site()
    );
    let on = OnLab::new(lab(), "scaling", &text);
    on.campaign.put("apps/stencil.toml", STENCIL);
    on.run().expect(0);
    on.campaign
        .cvc(&["report", "campaign.toml", "--format", "json"])
        .expect(0);
    let report = read_json(&on.campaign.root().join("report/report.json"));
    let table = |id: &str| -> Value {
        let sections = report["sections"].as_array().expect("sections");
        let mut blocks = sections
            .iter()
            .flat_map(|s| s["blocks"].as_array().expect("blocks"));
        blocks
            .find(|b| b["id"] == id)
            .unwrap_or_else(|| panic!("{id}"))
            .clone()
    };
    for checkpoints in ["none", "dmtcp"] {
        let mut times = Vec::new();
        for row in table("speed-up")["rows"].as_array().expect("rows") {
            if row[1]["text"] != checkpoints {
                continue;
            }
            let number = |cell: &Value, key: &str| cell[key].as_f64().expect("a number");
            let summary = &row[4]["summary"];
            let (mean, sd) = (number(summary, "mean"), number(summary, "sd"));
            times.push(TimesAt {
                processes: number(&row[2], "value") as u32,
                // two repeats with this mean and standard deviation
                seconds: vec![mean - sd / 2f64.sqrt(), mean + sd / 2f64.sqrt()],
            });
        }
        let all = by_processes(times);
        assert_eq!(all.len(), 8);
        let half: Vec<TimesAt> = all
            .iter()
            .filter(|t| [1, 2, 4, 8].contains(&t.processes))
            .cloned()
            .collect();
        let law = scaling_law(&half).expect("a law");
        let (measured, said) = (
            measured_turning(&all).expect("one"),
            predicted_turning(&law, &half),
        );
        eprintln!(
            "{checkpoints}: {law:?}\n  measured {measured:?}\n  predicted from 1, 2, 4, 8 {said:?}"
        );
        for at in &all {
            let mean = at.seconds.iter().sum::<f64>() / 2.0;
            let of = law.seconds(f64::from(at.processes));
            eprintln!(
                "  {} processes: {mean:.2} s, {of:.2} s by the law",
                at.processes
            );
        }
        let (low, high) = (said.low.unwrap_or(u32::MAX), said.high.unwrap_or(u32::MAX));
        let (from, to) = (measured.low.unwrap_or(1), measured.high.unwrap_or(u32::MAX));
        assert!(low <= to && from <= high, "{measured:?} {said:?}");
    }
}

/// Nodes of a lab share cores and disk. So the latency of a run on all of them differs from that of a run on one node, which the answer must say.
#[test]
fn a_small_run_tells_the_files_of_a_big_one_and_whether_its_latency_holds() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let text = format!(
        "{}[matrix]\napp = \"stencil\"\nmpi = \"openmpi\"\ncheckpointer = \"dmtcp\"\nclass = [\"fixed\", \"large\"]\n\
         mapping = [\"1Nx2P\", \"4Nx2P\"]\n[run]\nretries = 0\nrepeats = 2\ntimeout_s = 600\n[checkpoint]\ntimeout_s = 300\nmoment = \"size-only\"\n",
        site()
    );
    let on = OnLab::new(lab(), "small", &text);
    on.campaign.put("apps/stencil.toml", STENCIL);
    on.run().expect(0);
    let said = on
        .campaign
        .cvc(&[
            "predict",
            "--from",
            "small",
            "--stand-in",
            "stencil.large 4Nx2P openmpi",
            "--json",
        ])
        .expect(0);
    let said: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let best = &said["stand_ins"][0]["runs"][0];
    eprintln!("{best:#}");
    assert_eq!(best["label"], "stencil.fixed 1Nx2P openmpi");
    assert_eq!(best["latency_from"], "measured");
    let number = |key: &str| best[key].as_f64().expect("a number");
    assert!((number("file_ratio") - 1.0).abs() < 0.02);
    assert!((number("volume_share") - 0.25).abs() < 0.01);
    assert_eq!(best["holds"], number("latency_rise").abs() <= 0.2);
}

/// Each node traces its own processes, in the run and in the restart. The checkpoint is the program's own: under DMTCP, which starts the ranks, strace
/// cannot trace on several nodes.
#[test]
fn a_traced_restart_on_two_nodes_reads_on_each_node_what_was_written_there() {
    require!(Tool::Lab, Tool::OpenMpi, Tool::Strace);
    let shared = ssh_site_with(
        2,
        "storage.shared = { path = \"/shared/work\", kind = \"shared\" }",
        "[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n",
    );
    let text = format!(
        "{shared}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmpi = \"openmpi\"\nmapping = \"2Nx1P\"\ncheckpointer = \"application\"\n\
         [run]\nretries = 0\nrepeats = 1\ntimeout_s = 600\n[checkpoint]\nrestart_check = true\n[trace]\ntracer = \"strace\"\n"
    );
    let on = OnLab::new(Lab::builder().nodes(2).build(), "traced", &text);
    on.run().expect(0);
    let run = on.campaign.run_names().pop_first().expect("a run");
    let records = on.campaign.records(&run);
    let value = |name: &str| {
        let found = records.iter().find(|record| record["name"] == name);
        found
            .and_then(|record| record["value"].as_f64())
            .unwrap_or_else(|| panic!("no {name}: {records:?}"))
    };
    assert_eq!(value("restart_verified"), 1.0);
    let ratio = value("ckpt_io_read_bytes") / value("ckpt_io_written_bytes");
    eprintln!(
        "{} checkpoint files, {ratio:.3} of the written bytes read",
        value("ckpt_io_files")
    );
    // Open MPI reads stretches with holes as a whole: each of the two nodes reads at most the file
    assert!((0.95..=2.05).contains(&ratio), "{ratio}");
    for trace in ["trace", "restart-trace"] {
        let names: Vec<String> = fs::read_dir(on.campaign.run_dir(&run).join(trace))
            .expect("traces")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        for node in ["n1", "n2"] {
            let start = format!("strace.{node}.");
            assert!(
                names.iter().any(|name| name.starts_with(&start)),
                "{names:?}"
            );
        }
    }
    on.assert_nothing_left(&NODES[..2]);
}
