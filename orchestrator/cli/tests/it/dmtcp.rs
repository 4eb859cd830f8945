//! Tests of campaigns with the real DMTCP.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require, wait_until};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Descriptor of the built-in stencil, with a size that computes for a few seconds.
const STENCIL: &str = "schema = 1\nname = \"stencil\"\ntitle = \"the stencil kernel, a few seconds long\"\nkernel = true\n\
    [program]\nnames = [\"kernel-stencil\"]\ninstall = \"part of cvc\"\n\
    [command]\nargs = [\"--size\", \"32\", \"--steps\", \"60\", \"--work\", \"{{w.work}}\", \"--ckpt-every\", \"60\", \"--ckpt-dir\", \"{{storage}}\"]\n\
    [workloads.short]\nvars = { work = 120 }\n[workloads.middle]\nvars = { work = 900 }\n[workloads.long]\nvars = { work = 20000 }\n\
    [success]\npattern = '^Verification = SUCCESSFUL'\nforbid = '^Verification = FAILED'\n[progress]\nstep = '^Time step (\\d+)'\n";

/// Returns a campaign that runs the stencil under DMTCP.
fn stencil(name: &str, factors: &str, run: &str, checkpoint: &str) -> Campaign {
    // of two versions of MPICH, use the one that DMTCP restarts more reliably
    let mpich = Tool::MpichForRestart.find().or_else(|| Tool::Mpich.find());
    let mpich = mpich
        .map(|p| {
            format!(
                "mpi.mpich = {{ family = \"mpich\", mpiexec = \"{}\" }}\n",
                p.display()
            )
        })
        .unwrap_or_default();
    let c = campaign(
        name,
        &format!(
            "{SITE}{mpich}mpi.openmpi = {{ family = \"openmpi\" }}\n[matrix]\napp = \"stencil\"\nmapping = \"1Nx2P\"\ncheckpointer = \"dmtcp\"\n{factors}\n[run]\nretries = 0\ntimeout_s = 300\n{run}\n[checkpoint]\ntimeout_s = 200\n{checkpoint}\n"
        ),
    );
    c.put("apps/stencil.toml", STENCIL);
    c
}

fn value(records: &[Value], name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
    records
        .iter()
        .filter(|r| r["name"] == name && labels.iter().all(|(k, v)| r["labels"][*k] == *v))
        .filter_map(|r| r["value"].as_f64())
        .collect()
}

fn images(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut images: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "dmtcp"))
        .collect();
    images.sort();
    images
}

/// Writes the uncompressed image, as DMTCP's own tool reads it, and returns its size.
fn plain(image: &Path, to: &Path) -> u64 {
    let raw = fs::read(image).unwrap_or_else(|e| panic!("{}: {e}", image.display()));
    if raw.starts_with(&[0x1f, 0x8b]) {
        let out = fs::File::create(to).expect("a file");
        let status = Command::new("gzip")
            .arg("-dc")
            .arg(image)
            .stdout(out)
            .status()
            .expect("gzip");
        assert!(status.success());
    } else {
        fs::write(to, raw).expect("writes");
    }
    fs::metadata(to).expect("a file").len()
}

#[test]
fn sizes_alone_take_seconds_and_every_image_is_listed_as_dmtcp_lists_it() {
    require!(Tool::Dmtcp, Tool::Mpich, Tool::OpenMpi);
    // a complete run of this workload would take minutes
    let c = stencil(
        "sizes",
        "class = \"long\"\nmpi = [\"mpich\", \"openmpi\"]\ncompression = [\"none\", \"gzip\"]",
        "repeats = 1\nkeep_images = true",
        "moment = \"size-only\"",
    );
    c.run().expect(0);
    c.assert_whole(4);
    assert_eq!((c.processes(), c.private_dirs()), (vec![], vec![]));
    let bin = Tool::Dmtcp.find().expect("DMTCP");
    let mut sizes = Vec::new();
    for run in c.run_names() {
        let records = c.records(&run);
        let dir = c.root().join("work").join(&run).join("ckpt");
        let found = images(&dir);
        let gzip = read_json(&c.run_dir(&run).join("run.json"))["point"]["compression"] == "gzip";
        let one =
            |name: &str, labels: &[(&str, &str)]| value(&records, name, labels).iter().sum::<f64>();
        assert_eq!(one("ckpt_files", &[("kind", "rank")]), 2.0);
        assert_eq!(
            one("ckpt_files", &[("kind", "rank")]) + one("ckpt_files", &[("kind", "launcher")]),
            found.len() as f64,
            "{run}"
        );
        // stored bytes equal those in the directory, and the parts of the latency add up to it
        let du: u64 = found
            .iter()
            .map(|i| fs::metadata(i).expect("an image").len())
            .sum();
        assert_eq!(
            one("ckpt_bytes", &[("kind", "rank")]) + one("ckpt_bytes", &[("kind", "launcher")]),
            du as f64,
            "{run}"
        );
        let (latency, parts) = (
            one("ckpt_latency_s", &[]),
            one("ckpt_coordination_s", &[]) + one("ckpt_storage_s", &[]),
        );
        assert!(
            latency > 0.0 && (latency - parts).abs() < 1e-6,
            "{run}: {latency} {parts}"
        );
        sizes.push((gzip, one("ckpt_stored_bytes", &[])));
        let finished = c
            .cvc(&["image", dir.to_str().expect("UTF-8"), "--json"])
            .expect(0);
        let listed: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        assert_eq!(
            listed["totals"]["stored_bytes"].as_f64(),
            Some(one("ckpt_stored_bytes", &[])),
            "{run}"
        );
        for image in found {
            let path = image.to_str().expect("UTF-8");
            let finished = c.cvc(&["image", path, "--json"]).expect(0);
            let json: Value = serde_json::from_str(&finished.stdout).expect("JSON");
            let n = |key: &str| {
                json[key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{key} in {json}"))
            };
            let file = c.dir().join("plain.dmtcp");
            assert_eq!(plain(&image, &file), n("uncompressed_bytes"), "{path}");
            assert_eq!(
                n("fixed_overhead_bytes") + n("data_bytes") + 4096 * n("area_headers"),
                n("uncompressed_bytes"),
                "{path}"
            );
            assert_eq!(json["gzip"], gzip, "{path}");
            let theirs = Command::new("timeout")
                .args(["-s", "KILL", "30"])
                .arg(bin.with_file_name("mtcp_restart"))
                .arg("--simulate")
                .arg(&file)
                .stdin(Stdio::null())
                .output()
                .expect("mtcp_restart");
            let theirs = theirs
                .stderr
                .splitn(2, |b| *b == b'\n')
                .nth(1)
                .unwrap_or_default()
                .to_vec();
            let ours = c.cvc(&["image", path, "--listing"]).expect(0).stdout;
            assert!(
                !ours.is_empty() && ours == String::from_utf8_lossy(&theirs),
                "{path}"
            );
        }
    }
    let stored = |gzip: bool| {
        sizes
            .iter()
            .filter(|s| s.0 == gzip)
            .map(|s| s.1)
            .sum::<f64>()
    };
    assert!(stored(true) < stored(false) / 2.0, "{sizes:?}");
}

/// Compares images of the same program compressed by gzip and by pigz: both restart, and DMTCP really calls pigz.
#[test]
fn images_through_pigz_restart_as_those_through_gzip() {
    require!(Tool::Dmtcp, Tool::OpenMpi, Tool::Pigz);
    let mut c = stencil(
        "pigz",
        "class = \"short\"\nmpi = \"openmpi\"\ncompression = [\"gzip\", \"pigz\"]",
        "repeats = 1",
        "moment = { at_s = [0.2] }\nrestart_check = true",
    );
    // a wrapper of pigz that records its arguments
    let pigz = Tool::Pigz.find().expect("pigz");
    let calls = c.dir().join("calls");
    let first = c.put(
        "first/pigz",
        &format!(
            "#!/bin/sh\necho \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
            calls.display(),
            pigz.display()
        ),
    );
    fs::set_permissions(&first, fs::Permissions::from_mode(0o755)).expect("permissions");
    let path = format!(
        "{}:{}",
        first.parent().expect("a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    c.env("PATH", &path);
    c.run().expect(0);
    c.assert_whole(2);
    c.assert_nothing_left();
    let mut sizes = HashMap::new();
    for run in c.run_names() {
        let records = c.records(&run);
        assert_eq!(value(&records, "restart_verified", &[]), [1.0], "{run}");
        let by = read_json(&c.run_dir(&run).join("run.json"))["point"]["compression"].clone();
        let sum = |name: &str| value(&records, name, &[]).iter().sum::<f64>();
        sizes.insert(
            by.as_str().expect("a word").to_owned(),
            ["ckpt_stored_bytes", "image_bytes", "ckpt_latency_s"].map(sum),
        );
    }
    // both compress with level 1, and the memory is the same except for small differences between runs
    let [stored, image, _] = sizes["pigz"];
    assert!(
        (stored / sizes["gzip"][0] - 1.0).abs() < 0.1 && stored < image / 2.0,
        "{sizes:?}"
    );
    // two ranks and their launchers; restarts decompress with gzip
    let calls = fs::read_to_string(&calls).expect("pigz was called");
    assert!(
        calls.lines().count() >= 3 && calls.lines().all(|call| call == "-1 -"),
        "{calls}"
    );
}

fn restart(mpi: &str) {
    let c = stencil(
        "restart",
        &format!("class = \"short\"\nmpi = \"{mpi}\""),
        "repeats = 1",
        "moment = { at_s = [0.2, 0.7] }\nrestart_check = true",
    );
    c.run().expect(0);
    c.assert_whole(1);
    c.assert_nothing_left();
    let run = c.run_names().pop_first().expect("a run");
    let records = c.records(&run);
    assert_eq!(value(&records, "restart_verified", &[]), [1.0]);
    for ckpt in ["1", "2"] {
        assert_eq!(
            value(&records, "ckpt_stored_bytes", &[("ckpt", ckpt)]).len(),
            1,
            "checkpoint {ckpt}"
        );
    }
    let restarted = fs::read_to_string(c.run_dir(&run).join("restart.stdout")).expect("its output");
    assert!(
        restarted.contains("Verification = SUCCESSFUL") && !restarted.contains("Time step 1\n"),
        "{restarted}"
    );
}

#[test]
fn a_restart_from_the_last_of_several_checkpoints_verifies_with_mpich() {
    require!(Tool::Dmtcp, Tool::MpichForRestart);
    restart("mpich");
}

#[test]
fn a_restart_from_the_last_of_several_checkpoints_verifies_with_open_mpi() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    restart("openmpi");
}

/// A program on one rank that prints its result and then continues computing without output. It takes 6 s.
const EARLY: &str = "#include <mpi.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(int argc, char **argv) {\n  MPI_Init(&argc, &argv);\n\
    puts(\"step 1\\nresult check: PASSED\");\n  fflush(stdout);\n  for (int i = 0; i < 60; i++) usleep(50000);\n  MPI_Finalize();\n}\n";

#[test]
fn a_result_that_was_printed_before_the_checkpoint_is_a_checkpoint_too_late() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "late",
        "class = \"short\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "moment = { after_step = 1 }\nrestart_check = true",
    );
    let file = fs::read_to_string(c.dir().join("campaign.toml")).expect("its file");
    let file = file
        .replace("\"stencil\"", "\"early\"")
        .replace("1Nx2P", "1Nx1P")
        .replace("kind = \"local\"", "kind = \"local\"\napp_dirs = [\".\"]");
    fs::write(c.dir().join("campaign.toml"), file).expect("writes");
    let app = STENCIL
        .replace("kernel = true\n", "")
        .replace("kernel-stencil", "early")
        .replace("\"stencil\"", "\"early\"");
    let app = app
        .replace("^Verification = SUCCESSFUL", "result check: PASSED")
        .replace("^Time step", "^step");
    c.put("apps/early.toml", &app);
    c.put("early.c", EARLY);
    let compiled = Command::new("mpicc.openmpi")
        .args(["-o", "early", "early.c"])
        .current_dir(c.dir())
        .status()
        .expect("mpicc");
    assert!(compiled.success());
    c.run().expect(10);
    let run = c.run_names().pop_first().expect("a run");
    let outcome = &read_json(&c.run_dir(&run).join("outcome.json"))["outcome"];
    assert_eq!(outcome["cause"], "checkpoint", "{outcome}");
    assert!(
        outcome["detail"]
            .as_str()
            .is_some_and(|d| d.contains("before checkpoint 1 was complete")),
        "{outcome}"
    );
}

#[test]
fn a_run_that_the_time_limit_ends_before_it_computes_is_told_as_that() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "silent",
        "class = \"long\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "moment = { after_step = 1 }",
    );
    let file = fs::read_to_string(c.dir().join("campaign.toml"))
        .expect("its file")
        .replace("timeout_s = 300", "timeout_s = 6");
    fs::write(c.dir().join("campaign.toml"), file).expect("writes");
    // a step that is never reached
    c.put(
        "apps/stencil.toml",
        &STENCIL.replace("^Time step", "^no such step"),
    );
    c.run().expect(10);
    let run = c.run_names().pop_first().expect("a run");
    let outcome = &read_json(&c.run_dir(&run).join("outcome.json"))["outcome"];
    assert_eq!(outcome["cause"], "timeout", "{outcome}");
}

#[test]
fn some_points_of_a_campaign_are_restarted_and_the_report_says_how_it_ended() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let factors = "class = \"short\"\nmpi = \"openmpi\"\nrestart_check = [true, false]\nmoment = [{ after_step = 20 }]";
    let c = stencil("some", factors, "repeats = 1\norder = \"as-written\"", "");
    let file = fs::read_to_string(c.dir().join("campaign.toml")).expect("its file");
    let rest = file
        .splitn(3, '\n')
        .nth(2)
        .expect("more than schema and name");
    c.rewrite(&rest.replace(
        "checkpointer = \"dmtcp\"",
        "checkpointer = [\"dmtcp\", \"none\"]",
    ));
    let told = c.run().expect(0).stderr;
    c.assert_whole(3);
    c.assert_nothing_left();
    let restarts = |run: &String| value(&c.records(run), "restart_to_end_s", &[]);
    let restarted: Vec<f64> = c.run_names().iter().flat_map(restarts).collect();
    assert_eq!(restarted.len(), 1, "{told}");
    // the message about the restarted run contains the times of both parts
    let line = told
        .lines()
        .find(|line| line.contains("restart_check=true") && line.contains("ok, "))
        .unwrap_or_else(|| panic!("{told}"));
    let seconds: f64 = line
        .rsplit("ok, ")
        .next()
        .and_then(|t| t.split(' ').next())
        .and_then(|t| t.parse().ok())
        .unwrap_or_else(|| panic!("{line}"));
    assert!(
        seconds >= restarted[0],
        "{line}: the restart took {} s",
        restarted[0]
    );
    let report =
        fs::read_to_string(c.root().join("../../reports/some/report.md")).expect("a report");
    assert!(
        report.contains("- restarted and verified: 1 of 1"),
        "{report}"
    );
    // the restarted run ends at its checkpoint and has no wall time; the other run is compared with the run without checkpoints
    let overhead = report
        .split("### Overhead of checkpoints")
        .nth(1)
        .and_then(|t| t.split("\n### ").next())
        .unwrap_or_else(|| panic!("{report}"));
    assert_eq!(
        overhead
            .lines()
            .filter(|line| line.starts_with("| not restarted"))
            .count(),
        1,
        "{overhead}"
    );
    assert!(!overhead.contains("| restarted"), "{overhead}");
}

#[test]
fn a_checkpoint_after_a_step_lets_the_program_go_on_to_its_end() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "step",
        "class = \"short\"\nmpi = \"openmpi\"\ncompression = \"gzip\"",
        "repeats = 1",
        "moment = { after_step = 15 }",
    );
    c.run().expect(0);
    c.assert_whole(1);
    c.assert_nothing_left();
    let run = c.run_names().pop_first().expect("a run");
    let records = c.records(&run);
    assert_eq!(value(&records, "ckpt_latency_s", &[]).len(), 1);
    assert!(value(&records, "wall_s", &[])[0] > 0.0);
    let out = fs::read_to_string(c.run_dir(&run).join("stdout")).expect("its output");
    assert!(out.contains("Verification = SUCCESSFUL"), "{out}");
}

#[test]
fn a_program_that_ends_before_its_checkpoint_fails_with_the_hint() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "late",
        "class = \"short\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "moment = { at_s = 60 }",
    );
    c.run().expect(10);
    c.assert_nothing_left();
    let (cause, detail) = &c.failures()[0];
    assert!(
        cause == "checkpoint" && detail.contains("earlier moment"),
        "{cause}: {detail}"
    );
}

#[test]
fn killed_under_dmtcp_it_resumes_and_no_coordinator_is_left() {
    require!(Tool::Dmtcp, Tool::Mpich, Tool::OpenMpi);
    let c = stencil(
        "killed",
        "class = \"long\"\nmpi = [\"mpich\", \"openmpi\"]",
        "repeats = 2",
        "moment = \"size-only\"",
    );
    // during the start, the computation, and the checkpoint; a run interrupted by four deaths of the controller counts as failed
    for (i, delay_ms) in [60, 700, 1500].into_iter().enumerate() {
        let started = c.events("run-started").len();
        let controller = c.start(&["run", "campaign.toml"]);
        wait_until("a run", Duration::from_secs(30), || {
            c.events("run-started").len() > started || c.finishes().len() == 4
        });
        std::thread::sleep(Duration::from_millis(delay_ms));
        if i % 2 == 0 {
            // kill the shepherd as well, so that it cannot clean up
            if let Some(shepherd) = c
                .events("run-started")
                .last()
                .and_then(|e| e["pid"].as_i64())
            {
                cvc_testkit::process::signal(shepherd as i32, nix::sys::signal::Signal::SIGKILL);
            }
        }
        controller.kill();
    }
    assert!(!c.events("run-started").is_empty());
    c.run().expect(0);
    c.assert_whole(4);
    c.assert_nothing_left();
    let coordinators = Command::new("pgrep")
        .args(["-fa", &format!("dmtcp_coordinator.*{}", c.dir().display())])
        .output();
    assert!(coordinators.is_ok_and(|o| o.stdout.is_empty()));
}

/// Returns the volumes that a method stores for the checkpoints after the first.
fn stored(records: &[Value], method: &str) -> Vec<f64> {
    value(records, "series_stored_bytes", &[("method", method)]).split_off(1)
}

#[test]
fn three_checkpoints_of_the_stencil_are_compared_while_it_runs() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "series",
        "class = \"middle\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "restart_check = true\nmoment = { every_s = 0.5, count = 3 }",
    );
    c.run().expect(0);
    c.assert_whole(1);
    let records = c.records(c.run_names().first().expect("a run"));
    assert_eq!(
        value(&records, "series_checkpoints", &[("planned", "3")]),
        [3.0]
    );
    let bytes = value(&records, "series_bytes", &[]);
    assert_eq!(bytes.len(), 3, "{records:?}");
    let full = value(&records, "series_total_bytes", &[("method", "full")]);
    assert_eq!(full, [bytes.iter().sum::<f64>()]);
    // libraries do not change, while the field does; the sums over zones nearly equal the total
    for (ckpt, since) in [("2", "1"), ("3", "2"), ("3", "1")] {
        let labels = [("ckpt", ckpt), ("since", since)];
        let changed = value(&records, "series_changed_bytes", &labels)[0];
        assert!(
            changed > 0.0 && changed < bytes[0] / 2.0,
            "{changed} of {bytes:?}"
        );
        let zones = value(&records, "series_zone_changed_bytes", &labels);
        // files next to the images belong to no zone
        let sum = zones.iter().sum::<f64>();
        assert!(
            sum <= changed && sum > changed * 0.8,
            "{zones:?} of {changed}"
        );
    }
    let incremental = value(&records, "series_total_bytes", &[("method", "incremental")]);
    assert!(
        incremental[0] < full[0] * 0.7,
        "{incremental:?} of {full:?}"
    );
}

#[test]
fn a_program_is_restarted_from_what_was_restored_from_its_deltas() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "deltas",
        "class = \"middle\"\nmpi = \"openmpi\"\ncompression = [\"none\", \"gzip\"]",
        "repeats = 1",
        "restart_check = true\nmoment = { every_s = 0.5, count = 3 }\n\
         deltas = { methods = [\"incremental\", \"full\"], codecs = [\"lz4\"], keep = true }",
    );
    c.run().expect(0);
    c.assert_whole(2);
    for run in c.run_names() {
        let records = c.records(&run);
        assert_eq!(value(&records, "restart_verified", &[]), [1.0]);
        let live = [
            ("method", "incremental"),
            ("codec", "lz4"),
            ("block", "4096"),
        ];
        let restarted = value(&records, "series_restarted_bytes", &live);
        // both methods store and restore three states
        for method in ["incremental", "full"] {
            let labels = [("method", method), ("codec", "lz4"), ("block", "4096")];
            let of = |name: &str| value(&records, name, &labels);
            for name in ["series_file_bytes", "series_store_s", "series_restore_s"] {
                let values = of(name);
                assert_eq!(values.len(), 3, "{name} {labels:?} {records:?}");
                assert!(values.iter().all(|v| *v > 0.0), "{name}: {values:?}");
            }
            // peak memory is recorded only if the kernel allows to reset it; a process that maps a window of an image needs more than 16 MiB
            let memory = of("series_memory_bytes");
            assert!(
                memory.iter().all(|bytes| *bytes > f64::from(16 << 20)),
                "{memory:?}"
            );
        }
        let files = |method: &str| value(&records, "series_file_bytes", &[("method", method)]);
        let (deltas, full) = (files("incremental"), files("full"));
        assert!(deltas[1] < full[1] * 0.7, "{deltas:?} {full:?}");
        assert!(full[0] < restarted[0], "{full:?} of {restarted:?}");
        // only the series is kept, and its last state is as large as the restarted images
        let kept = c.run_dir(&run).join("deltas");
        let series = cvc_delta::Series::open(&kept).expect("the series");
        assert_eq!(series.states().len(), 3);
        let last = series.states()[2].content_bytes as f64;
        assert_eq!(restarted, [last]);
        for state in 1..=3 {
            series.verify(state, None, &|_| {}).expect("whole");
        }
        let parts = value(
            &records,
            "series_part_changed_bytes",
            &[("ckpt", "3"), ("since", "1")],
        );
        let zones = value(
            &records,
            "series_zone_changed_bytes",
            &[("ckpt", "3"), ("since", "1")],
        );
        assert_eq!(parts.iter().sum::<f64>(), zones.iter().sum::<f64>());
    }
    c.assert_nothing_left();
}

#[test]
fn a_series_that_is_not_compared_takes_its_checkpoints_and_reads_none() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "apart",
        "class = \"middle\"\nmpi = \"openmpi\"\nmoment = [{ every_s = 0.5, count = 3 }, { every_s = 0.5, count = 3, compare = false }]",
        "repeats = 1",
        "deltas = {}",
    );
    c.run().expect(0);
    c.assert_whole(2);
    let mut stored = Vec::new();
    for run in c.run_names() {
        let records = c.records(&run);
        assert_eq!(
            value(&records, "series_checkpoints", &[("planned", "3")]),
            [3.0]
        );
        stored.push(value(&records, "series_file_bytes", &[]).len());
        assert!(!c.run_dir(&run).join("deltas").exists());
    }
    stored.sort_unstable();
    assert_eq!(stored, [0, 3]);
    let report = fs::read_to_string(c.dir().join("reports/apart/report.md")).expect("a report");
    for moment in ["every 0.5 s, 3 times", "every 0.5 s, 3 times, not compared"] {
        assert!(report.contains(moment), "{report}");
    }
    c.assert_nothing_left();
}

/// The program ends soon after its first checkpoint. That a series cannot be longer than its program must not hide that a checkpoint was not stored.
#[test]
fn a_checkpoint_that_cannot_be_stored_is_a_failure_though_the_program_ends_at_once() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "unstored",
        "class = \"short\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "moment = { every_s = 0.05, count = 9 }\ndeltas = {}",
    );
    let work = c.root().join("work");
    let block = std::thread::spawn(move || {
        // occupy the path of the series before the first checkpoint
        wait_until("the run's directory", Duration::from_secs(120), || {
            let run = fs::read_dir(&work).ok().and_then(|mut all| all.next());
            run.and_then(Result::ok)
                .is_some_and(|run| fs::write(run.path().join(".cvc-deltas"), "").is_ok())
        });
    });
    c.run().expect(10);
    block.join().expect("it was there");
    let run = c.run_names().pop_first().expect("a run");
    let outcome = &read_json(&c.run_dir(&run).join("outcome.json"))["outcome"];
    assert_eq!(outcome["cause"], "checkpoint", "{outcome}");
    let detail = outcome["detail"].as_str().expect("a reason");
    let beginning = "checkpoint 1 cannot be stored as a delta";
    assert!(detail.starts_with(beginning), "{detail}");
    c.assert_nothing_left();
}

#[test]
fn behind_a_front_a_differential_grows_and_an_incremental_does_not() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = campaign(
        "front",
        &format!(
            "{SITE}mpi.openmpi = {{ family = \"openmpi\" }}\n[matrix]\napp = \"front\"\nclass = \"S\"\nmapping = \"1Nx2P\"\n\
             checkpointer = \"dmtcp\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n\
             [checkpoint]\ntimeout_s = 200\nmoment = {{ every_s = 1, count = 6 }}\n"
        ),
    );
    // 50 steps take a second on any machine; the front rises by 12 of 96 planes
    c.put(
        "apps/front.toml",
        "schema = 1\nname = \"front\"\ntitle = \"the front, in steps of the same time\"\nkernel = true\n\
         [program]\nnames = [\"kernel-front\"]\ninstall = \"part of cvc\"\n\
         [command]\nargs = [\"--size\", \"96\", \"--steps\", \"480\", \"--pause\", \"20\"]\n\
         [workloads.S]\n[success]\npattern = '^Verification = SUCCESSFUL'\n[progress]\nstep = '^Time step (\\d+)'\n",
    );
    c.run().expect(0);
    c.assert_whole(1);
    let records = c.records(c.run_names().first().expect("a run"));
    let (incremental, differential) = (
        stored(&records, "incremental"),
        stored(&records, "differential"),
    );
    assert!(differential.len() >= 4, "{records:?}");
    assert!(
        differential.is_sorted_by(|a, b| a < b),
        "it grows: {differential:?}"
    );
    let (first, last) = (differential[0], differential[differential.len() - 1]);
    let most = incremental.iter().copied().fold(0.0, f64::max);
    assert!(last > 1.5 * first, "{differential:?}");
    assert!(most < 0.8 * last, "{incremental:?} {differential:?}");
}

/// Takes a few seconds: the smallest program is killed after its checkpoint.
#[test]
fn the_campaigns_own_smallest_program_divides_memory_and_is_in_no_table() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = stencil(
        "baseline",
        "class = \"short\"\nmpi = \"openmpi\"",
        "repeats = 1",
        "moment = \"size-only\"\nbaseline = true",
    );
    c.run().expect(0);
    c.assert_whole(2);
    let report = fs::read_to_string(c.dir().join("reports/baseline/report.md")).expect("a report");
    let line = report
        .lines()
        .find(|line| line.contains("memory of libraries in each process, by the smallest program"))
        .expect("the line");
    assert!(line.contains("openmpi 1Nx2P: "), "{line}");
    assert!(!report.contains("kernel-idle"), "{report}");
    let csv = fs::read_to_string(c.dir().join("reports/baseline/csv/statistics.csv"))
        .expect("statistics");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let column = |name: &str| header.iter().position(|c| *c == name).expect("a column");
    let values: HashMap<&str, f64> = rows
        .filter_map(|row| {
            Some((
                *row.get(column("quantity"))?,
                row.get(column("mean"))?.parse().ok()?,
            ))
        })
        .collect();
    // the measured value, in MiB with two decimals, is the size of the current libraries; for Open MPI it is slightly larger than the constant
    let measured: f64 = line
        .rsplit(": ")
        .next()
        .and_then(|text| text.split(' ').next())
        .and_then(|mib| mib.parse().ok())
        .expect("MiB");
    let library = values["part_bytes_library-memory"] / f64::from(1 << 20);
    assert!(library >= measured - 0.01, "{library} of {measured}");
    let of = |zone: &str| values[format!("zone_bytes_{zone}_owner").as_str()];
    let parts = |names: &[&str]| -> f64 {
        names
            .iter()
            .filter_map(|name| values.get(format!("part_bytes_{name}").as_str()))
            .sum()
    };
    assert!(
        (of("DTAPP") - parts(&["static", "heap", "allocated"])).abs() < 1.0,
        "{values:?}"
    );
    assert!(
        (of("LB") - parts(&["files", "library-memory"])).abs() < 1.0,
        "{values:?}"
    );
}
