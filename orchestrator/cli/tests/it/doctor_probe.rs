//! Tests of `cvc doctor --probe`: a small checkpoint and its restart with each MPI library, and the messages if that fails.

use crate::common::{
    SITE, campaign,
    cluster::{OnLab, slurm_site_with, ssh_site_with},
};
use cvc_testkit::{Campaign, Finished, Lab, Running, Tool, require};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(400);
const COLUMNS: [&str; 5] = [
    "starts",
    "checkpoint_taken",
    "images_complete",
    "restarts",
    "result_verified",
];

/// Returns the prefix of a tool that is in the prefix's `bin`.
fn prefix(tool: Tool) -> PathBuf {
    tool.find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()))
        .expect("the test requires it")
}

/// Returns a campaign whose site has this DMTCP and these libraries, with a separate directory for temporary files.
fn site(name: &str, dmtcp: &Path, libraries: &str) -> Campaign {
    let text = format!(
        "{SITE}dmtcp.prefix = \"{}\"\n{libraries}\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\ncheckpointer = \"dmtcp\"\n",
        dmtcp.display()
    );
    let mut c = campaign(name, &text);
    let tmp = c.dir().join("tmp");
    fs::create_dir(&tmp).expect("makes");
    c.env("TMPDIR", tmp.to_str().expect("UTF-8"));
    c
}

/// Panics if a temporary directory, a campaign or a process of the probe is left.
fn assert_nothing_left(c: &Campaign) {
    let tmp: Vec<_> = fs::read_dir(c.dir().join("tmp"))
        .expect("lists")
        .flatten()
        .map(|e| e.path())
        .collect();
    assert!(tmp.is_empty(), "{tmp:?}");
    assert!(!c.dir().join("campaigns").exists());
    // A shepherd may still be ending after it has reported the end of its run.
    cvc_testkit::wait_until("the end of its processes", Duration::from_secs(10), || {
        cvc_testkit::process::of_directory(c.dir()).is_empty()
    });
}

/// Runs the probe to its end, with a time limit, because its processes may ignore SIGTERM.
fn probe(c: &Campaign, arguments: &[&str], code: i32) -> Finished {
    let finished =
        Running::start(c.command(&[&["doctor", "campaign.toml", "--probe"], arguments].concat()))
            .wait(LIMIT)
            .expect(code);
    assert_nothing_left(c);
    finished
}

fn rows(finished: &Finished) -> Vec<Value> {
    let json: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    json["probe"].as_array().expect("rows").clone()
}

fn results(row: &Value) -> Vec<&str> {
    COLUMNS
        .iter()
        .map(|column| {
            row["cells"][column]["result"]
                .as_str()
                .unwrap_or_else(|| panic!("{column} in {row}"))
        })
        .collect()
}

fn put_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
    fs::write(path, text).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn a_checkpoint_is_taken_and_restarted_with_open_mpi() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = site(
        "probe",
        &prefix(Tool::Dmtcp),
        "mpi.openmpi = { family = \"openmpi\" }",
    );
    let finished = probe(&c, &["--json"], 0);
    let rows = rows(&finished);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(results(&rows[0]), ["works"; 5], "{rows:?}");
    assert_eq!(
        (
            rows[0]["mpi"].as_str(),
            rows[0]["nodes"].as_u64(),
            &rows[0]["failure"]
        ),
        (Some("openmpi"), Some(1), &Value::Null)
    );
    for column in ["starts", "checkpoint_taken", "images_complete", "restarts"] {
        let seconds = rows[0]["cells"][column]["seconds"]
            .as_f64()
            .expect("seconds");
        assert!(seconds > 0.0 && seconds < 120.0, "{column}: {seconds}");
    }
    // progress is shown during the run
    assert!(
        finished
            .stderr
            .contains("openmpi on local, 1 node: checkpoint 1"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_restart_that_fails_is_told_with_its_log_and_a_hint() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let fake = tempfile::tempdir().expect("a directory");
    let bin = fake.path().join("bin");
    fs::create_dir(&bin).expect("makes");
    for entry in fs::read_dir(prefix(Tool::Dmtcp).join("bin"))
        .expect("DMTCP")
        .flatten()
    {
        if entry.file_name() != "dmtcp_coordinator" {
            symlink(entry.path(), bin.join(entry.file_name())).expect("links");
        }
    }
    let real = prefix(Tool::Dmtcp).join("bin/dmtcp_coordinator");
    let refuses =
        "case $* in *restart.port*) echo 'the images are from another world' >&2; exit 9 ;; esac";
    put_program(
        &bin.join("dmtcp_coordinator"),
        &format!("#!/bin/sh\n{refuses}\nexec {} \"$@\"\n", real.display()),
    );
    let c = site(
        "broken",
        fake.path(),
        "mpi.openmpi = { family = \"openmpi\" }",
    );
    let finished = probe(&c, &["--json"], 5);
    let rows = rows(&finished);
    assert_eq!(
        results(&rows[0]),
        ["works", "works", "works", "fails", "not-reached"],
        "{rows:?}"
    );
    let failure = &rows[0]["failure"];
    assert!(
        failure["what"]
            .as_str()
            .is_some_and(|w| w.starts_with("restart: ")),
        "{failure}"
    );
    assert_eq!(failure["log"]["file"], "restart.coordinator.out");
    let lines = failure["log"]["last_lines"].as_array().expect("lines");
    assert!(
        lines
            .iter()
            .any(|l| l == "the images are from another world"),
        "{failure}"
    );
    assert!(
        failure["hint"]
            .as_str()
            .is_some_and(|h| h.contains("size-only")),
        "{failure}"
    );
}

#[test]
fn a_library_that_hangs_is_ended_by_the_limit_and_the_others_are_tried() {
    require!(Tool::Dmtcp, Tool::Mpich, Tool::OpenMpi);
    let fake = tempfile::tempdir().expect("a directory");
    let real = Tool::Mpich.find().expect("found before");
    let hangs = format!(
        "#!/bin/sh\nfor a; do case $a in --version|-info) exec {} \"$@\" ;; esac; done\ntrap '' TERM\nexec sleep 3000\n",
        real.display()
    );
    put_program(&fake.path().join("bin/mpiexec"), &hangs);
    let compiler = real.with_file_name(
        real.file_name()
            .and_then(|n| n.to_str())
            .expect("UTF-8")
            .replace("mpiexec", "mpicc"),
    );
    symlink(compiler, fake.path().join("bin/mpicc")).expect("links");
    let libraries = format!(
        "mpi.stuck = {{ family = \"mpich\", prefix = \"{}\" }}\nmpi.openmpi = {{ family = \"openmpi\" }}\n\
         mpi.gone = {{ family = \"mpich\", prefix = \"/nonexistent/mpich\" }}",
        fake.path().display()
    );
    let c = site("stuck", &prefix(Tool::Dmtcp), &libraries);
    let text = fs::read_to_string(c.dir().join("campaign.toml")).expect("reads");
    fs::write(
        c.dir().join("campaign.toml"),
        text.replace(
            "checkpointer",
            "mpi = [\"stuck\", \"openmpi\", \"gone\"]\ncheckpointer",
        ),
    )
    .expect("writes");
    let finished = probe(&c, &[], 5);
    let line = |name: &str| {
        let found = finished
            .stdout
            .lines()
            .find(|l| l.starts_with("local") && l.contains(name));
        found
            .unwrap_or_else(|| panic!("{name}: {}", finished.stdout))
            .to_owned()
    };
    assert!(line("stuck").contains("-- "), "{}", line("stuck"));
    assert_eq!(
        line("openmpi").matches("ok ").count(),
        5,
        "{}",
        line("openmpi")
    );
    let seconds: f64 = line("stuck")
        .split("-- ")
        .nth(1)
        .and_then(|t| t.split_whitespace().next()?.parse().ok())
        .expect("the time of the cell");
    assert!(seconds < 120.0, "{seconds}");
    assert!(
        finished.stdout.contains("stuck on local, 1 node: ") && finished.stdout.contains("hint: "),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("not tried:") && finished.stdout.contains("/nonexistent/mpich"),
        "{}",
        finished.stdout
    );
}

#[test]
fn without_dmtcp_nothing_is_tried_and_the_hint_says_how_to_get_it() {
    require!(Tool::Mpich);
    let c = site(
        "none",
        Path::new("/nonexistent/dmtcp"),
        "mpi.mpich = { family = \"mpich\" }",
    );
    let told = probe(&c, &[], 5).stdout;
    assert!(
        told.starts_with("no checkpoint could be tested\n"),
        "{told}"
    );
    assert!(
        told.contains("DMTCP is not installed at /nonexistent/dmtcp")
            && told.contains("or correct `dmtcp.prefix` of the site")
            && !told.contains("give the site"),
        "{told}"
    );
}

#[test]
fn on_a_site_of_several_machines_it_is_tried_on_one_node_and_over_two() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let lab = Lab::builder().nodes(2).scratch_mib(512).build();
    let libraries = format!(
        "[sites.lab.dmtcp]\nprefix = \"{}\"\n[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n",
        prefix(Tool::Dmtcp).display()
    );
    let site = ssh_site_with(
        2,
        "storage.local = { path = \"/scratch-local\", kind = \"node-local\" }",
        &libraries,
    );
    let text = format!(
        "{site}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\ncheckpointer = \"dmtcp\"\n"
    );
    let on = OnLab::new(lab, "probed", &text);
    let finished = on
        .start(&[
            "doctor",
            "lab",
            "--file",
            "campaign.toml",
            "--probe",
            "--json",
        ])
        .wait(LIMIT)
        .expect(0);
    let rows = rows(&finished);
    assert_eq!(
        rows.iter().map(|r| r["nodes"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(2)],
        "{rows:?}"
    );
    for row in &rows {
        assert_eq!(results(row), ["works"; 5], "{row}");
    }
    assert!(
        finished.stderr.contains("openmpi on lab, 2 nodes: restart"),
        "{}",
        finished.stderr
    );
    on.assert_nothing_left(&["n1", "n2"]);
    assert!(!on.campaign.dir().join("campaigns").exists());
}

#[test]
fn with_slurm_it_is_tried_in_jobs() {
    require!(Tool::Lab, Tool::Slurm, Tool::Dmtcp, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).login(true).build();
    lab.slurm().wait_idle(4);
    let libraries = format!(
        "[sites.slurm.dmtcp]\nprefix = \"{}\"\n[sites.slurm.mpi.openmpi]\nfamily = \"openmpi\"\n",
        prefix(Tool::Dmtcp).display()
    );
    let site = slurm_site_with("", "", &libraries);
    let text = format!(
        "{site}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\ncheckpointer = \"dmtcp\"\n"
    );
    let on = OnLab::new(lab, "probed", &text);
    let finished = on
        .start(&[
            "doctor",
            "slurm",
            "--file",
            "campaign.toml",
            "--probe",
            "--json",
        ])
        .wait(LIMIT)
        .expect(0);
    let rows = rows(&finished);
    assert_eq!(
        rows.iter()
            .map(|r| (r["nodes"].as_u64(), results(r)))
            .collect::<Vec<_>>(),
        [(Some(1), vec!["works"; 5]), (Some(2), vec!["works"; 5])]
    );
    on.assert_nothing_left(&["n1", "n2", "n3", "n4"]);
}

#[test]
fn with_slurm_a_compute_node_is_looked_at_beside_the_login_node() {
    require!(Tool::Lab, Tool::Slurm, Tool::OpenMpi);
    let lab = Lab::builder().nodes(2).login(true).build();
    lab.slurm().wait_idle(2);
    let libraries = "[sites.slurm.mpi.openmpi]\nfamily = \"openmpi\"\n";
    let site = slurm_site_with("", "", libraries);
    let text =
        format!("{site}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\n");
    let on = OnLab::new(lab, "looked", &text);
    let finished = on
        .start(&["doctor", "slurm", "--file", "campaign.toml", "--json"])
        .wait(LIMIT)
        .expect(0);
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let checks = json["clusters"]["slurm"].as_array().expect("checks");
    let of = |what: &str| {
        checks
            .iter()
            .find(|c| c["what"] == what)
            .unwrap_or_else(|| panic!("no check `{what}`: {checks:#?}"))
    };
    assert_eq!(of("cvc-node")["state"], "good");
    let compute = of("compute node");
    assert_eq!(compute["state"], "good", "{checks:#?}");
    let node = compute["host"].as_str().expect("a node");
    assert!(["n1", "n2"].contains(&node), "{node}");
    let library = of("MPI library openmpi");
    assert_eq!(
        (library["state"].as_str(), library["host"].as_str()),
        (Some("good"), Some(node)),
        "{checks:#?}"
    );
    let free = of("free space: base");
    assert!(
        !free["found"].as_str().expect("text").contains("KiB"),
        "{free}"
    );
}

#[test]
fn with_slurm_a_wrong_partition_is_told_before_a_job_is_refused() {
    require!(Tool::Lab, Tool::Slurm);
    let lab = Lab::builder().nodes(2).login(true).build();
    lab.slurm().wait_idle(2);
    let site = slurm_site_with("", "partition = \"none\"", "");
    let text =
        format!("{site}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx1P\"\n");
    let on = OnLab::new(lab, "wrong", &text);
    let told = on
        .start(&["doctor", "slurm", "--file", "campaign.toml"])
        .wait(LIMIT)
        .expect(4)
        .stdout;
    assert!(
        told.contains("compute node") && told.contains("give a partition that exists"),
        "{told}"
    );
}

#[test]
fn an_interrupt_ends_the_trial_and_leaves_nothing() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let c = site(
        "stopped",
        &prefix(Tool::Dmtcp),
        "mpi.openmpi = { family = \"openmpi\" }",
    );
    let running = Running::start(c.command(&["doctor", "campaign.toml", "--probe"]));
    cvc_testkit::wait_until("the checkpoint", LIMIT, || {
        running.stderr_so_far().contains("checkpoint 1")
    });
    running.signal(nix::sys::signal::Signal::SIGINT);
    let told = running.wait(LIMIT).expect(130).stdout;
    assert!(told.starts_with("stopped: "), "{told}");
    assert_nothing_left(&c);
}
