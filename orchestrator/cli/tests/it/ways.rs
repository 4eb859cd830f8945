//! Tests of the ways in which kernels write their checkpoints: all ways write the same file, from which any number of processes restarts, and the
//! program stops for as long as it reports.

use crate::common::{SITE, campaign};
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A library that simulates a slow disk: syncing a file takes 300 ms.
const SLOW: &str = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    int fsync(int fd) { usleep(300000); return (int)syscall(SYS_fsync, fd); }\n";
const SLOW_S: f64 = 0.3;

/// A library that simulates a disk on which syncing a file waits until the file named by `DISK_READY` exists, but a minute at most.
const HELD: &str = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    int fsync(int fd) {\n\
    for (int i = 0; i < 6000 && access(getenv(\"DISK_READY\"), F_OK); i++) usleep(10000);\n\
    return (int)syscall(SYS_fsync, fd); }\n";

/// A launcher with this suffix, and the kernels compiled for it.
pub struct Kernels {
    pub dir: tempfile::TempDir,
    pub mpiexec: PathBuf,
    pub is_open_mpi: bool,
}

impl Kernels {
    pub fn compile(tool: Tool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mpiexec = tool.find().expect("the test requires it");
        let name = mpiexec.file_name().expect("a name").to_string_lossy();
        let mpicc = ["mpiexec.hydra", "mpiexec", "mpirun"]
            .iter()
            .find_map(|start| Some(format!("mpicc{}", name.strip_prefix(start)?)))
            .expect("a launcher");
        let sources =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible/roles/kernels/files");
        let made = Command::new("make")
            .arg("-C")
            .arg(sources)
            .arg(format!("MPICC={}", mpiexec.with_file_name(mpicc).display()))
            .arg(format!("BINDIR={}", dir.path().display()))
            .output()
            .expect("make");
        assert!(made.status.success(), "{made:?}");
        fs::create_dir(dir.path().join("own")).expect("makes");
        let is_open_mpi = matches!(tool, Tool::OpenMpi);
        Self {
            dir,
            mpiexec,
            is_open_mpi,
        }
    }

    /// Runs a kernel by `command`, which may be empty; checkpoints are written below `own`.
    pub fn start(&self, command: Command, processes: u32, kernel: &str, args: &str) -> Output {
        self.command(command, processes, kernel, args)
            .output()
            .expect("a launcher")
    }

    fn command(&self, mut command: Command, processes: u32, kernel: &str, args: &str) -> Command {
        if self.is_open_mpi {
            command.args(["--oversubscribe", "--allow-run-as-root"]);
        }
        command.args(["-n", &processes.to_string()]);
        command.arg(self.dir.path().join(kernel));
        command.args(args.split_whitespace());
        command.current_dir(&self.dir);
        command
    }

    pub fn run(&self, processes: u32, kernel: &str, args: &str) -> Output {
        self.start(Command::new(&self.mpiexec), processes, kernel, args)
    }

    /// Runs a kernel on the slow disk.
    fn run_slowly(&self, processes: u32, kernel: &str, args: &str) -> Output {
        self.start(self.launcher_on_disk(SLOW), processes, kernel, args)
    }

    /// Runs a kernel on a disk that syncs no file before the program has printed a line that contains `event`.
    fn run_held_until(&self, event: &str, processes: u32, kernel: &str, args: &str) -> String {
        let ready = self.dir.path().join("ready");
        let mut launcher = self.launcher_on_disk(HELD);
        launcher.env("DISK_READY", &ready).stdout(Stdio::piped());
        let mut child = self
            .command(launcher, processes, kernel, args)
            .spawn()
            .expect("a launcher");
        let mut text = String::new();
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("UTF-8");
            if line.contains(event) {
                fs::write(&ready, "").expect("writes");
            }
            text.push_str(&line);
            text.push('\n');
        }
        assert!(child.wait().expect("ends").success(), "{text}");
        fs::remove_file(&ready).unwrap_or_else(|e| panic!("no {event}: {e}: {text}"));
        text
    }

    /// Returns a launcher whose processes have a library compiled from this source preloaded.
    fn launcher_on_disk(&self, source_text: &str) -> Command {
        let (source, library) = (
            self.dir.path().join("disk.c"),
            self.dir.path().join("disk.so"),
        );
        fs::write(&source, source_text).expect("writes");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source);
        assert!(cc.status().expect("a C compiler").success());
        let mut command = Command::new(&self.mpiexec);
        // the launcher passes the variable to all processes on this machine
        command.env("LD_PRELOAD", &library);
        command
    }

    fn file(&self, kernel: &str) -> PathBuf {
        self.dir.path().join(format!("own/{kernel}.ckpt"))
    }

    pub fn succeeds(&self, processes: u32, kernel: &str, args: &str) -> String {
        text(&self.run(processes, kernel, args))
    }
}

/// Returns the output of a run that verified its result.
pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Verification = SUCCESSFUL"), "{text}");
    text
}

/// Returns the numbers between two parts of lines.
fn numbers(text: &str, before: &str, after: &str) -> Vec<f64> {
    let of = |line: &str| line.split_once(before)?.1.split_once(after)?.0.parse().ok();
    text.lines().filter_map(of).collect()
}

pub fn line<'t>(text: &'t str, start: &str) -> &'t str {
    let found = text.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start}: {text}"))
}

const STOPPED: (&str, &str) = (" stopped the program for ", " s");
const SAFE: (&str, &str) = (" bytes in ", " s (step");

/// Checks that all ways of a kernel write the same as `sync`.
fn all_ways(kernels: &Kernels, kernel: &str, args: &str, ways: &[&str]) {
    let args = format!("{args} --ckpt-every 15 --ckpt-dir own");
    let sync = kernels.succeeds(2, kernel, &args);
    let wanted = fs::read(kernels.file(kernel)).expect("a checkpoint");
    // with more processes than cores, MPICH's processes spin
    let numbers_of_processes: &[u32] = if kernels.is_open_mpi { &[2, 4] } else { &[2] };
    for (way, processes) in ways
        .iter()
        .flat_map(|way| numbers_of_processes.iter().map(move |n| (way, *n)))
    {
        fs::remove_file(kernels.file(kernel)).expect("removed");
        let text = kernels.succeeds(processes, kernel, &format!("{args} --ckpt-way {way}"));
        assert_eq!(
            line(&text, "Checksum = "),
            line(&sync, "Checksum = "),
            "{way}"
        );
        let (stops, safe) = (
            numbers(&text, STOPPED.0, STOPPED.1),
            numbers(&text, SAFE.0, SAFE.1),
        );
        assert_eq!((stops.len(), safe.len()), (3, 3), "{way}: {text}");
        assert_eq!(
            line(&text, "Checkpoints skipped"),
            "Checkpoints skipped = 0"
        );
        let writers = if way.contains("node") { 1 } else { processes };
        assert_eq!(
            line(&text, "Writers = "),
            format!("Writers = {writers}"),
            "{way}"
        );
        let written = fs::read(kernels.file(kernel)).expect("a checkpoint");
        assert!(written == wanted, "{way}: another file than that of sync");
        let temporary = kernels.file(kernel).with_extension("ckpt.tmp");
        assert!(!temporary.exists(), "{way}");
        let again = kernels.succeeds(1, kernel, &format!("{args} --restart own"));
        assert!(again.contains("Restarted from own/"), "{way}: {again}");
        assert_eq!(
            line(&again, "Checksum = "),
            line(&sync, "Checksum = "),
            "{way}"
        );
    }
}

fn all_ways_of(tool: Tool) {
    let kernels = Kernels::compile(tool);
    let ways = [
        "thread",
        "thread --ckpt-writers node",
        "staggered --ckpt-turns 2",
        "staggered --ckpt-writers node",
        "swap",
        "iwrite",
    ];
    all_ways(&kernels, "kernel-stencil", "--size 32 --steps 50", &ways);
    let ways = ["thread --ckpt-pin 0", "staggered", "iwrite"];
    all_ways(&kernels, "kernel-front", "--size 32 --steps 50", &ways);
}

#[test]
fn all_ways_write_the_file_of_sync_with_mpich() {
    require!(Tool::Mpich);
    all_ways_of(Tool::Mpich);
}

#[test]
fn all_ways_write_the_file_of_sync_with_open_mpi() {
    require!(Tool::OpenMpi);
    all_ways_of(Tool::OpenMpi);
}

#[test]
fn the_program_goes_on_while_a_slow_disk_takes_the_checkpoint() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let args = "--size 96 --steps 80 --ckpt-every 16 --ckpt-dir own --ckpt-late skip";
    for way in ["thread", "swap"] {
        // the next checkpoint is due, which shows that the program continued
        let text = kernels.run_held_until(
            "Checkpoint skipped: the last one is not safe yet (step 32)",
            2,
            "kernel-stencil",
            &format!("{args} --ckpt-way {way}"),
        );
        assert!(text.contains("Verification = SUCCESSFUL"), "{way}: {text}");
        let stops = numbers(&text, STOPPED.0, STOPPED.1);
        let safe = numbers(&text, SAFE.0, SAFE.1);
        assert!(stops[0] < safe[0], "{way}: {text}");
    }
}

#[test]
fn writers_in_turn_wait_for_each_other_and_not_the_program_for_them() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let args = "--size 16 --steps 1 --ckpt-every 1 --ckpt-dir own --ckpt-way";
    let safe_s = |way: &str| {
        let text = text(&kernels.run_slowly(3, "kernel-stencil", &format!("{args} {way}")));
        numbers(&text, SAFE.0, SAFE.1)[0]
    };
    // each turn syncs the file, and the last step the directory
    for turns in [1, 3] {
        let found = safe_s(&format!("staggered --ckpt-turns {turns}"));
        assert!(found >= f64::from(turns + 1) * SLOW_S, "{turns}: {found}");
    }
    // the disk holds the first turn of the first checkpoint until the second checkpoint is due
    let text = kernels.run_held_until(
        "Checkpoint skipped: the last one is not safe yet (step 4)",
        3,
        "kernel-stencil",
        "--size 16 --steps 5 --ckpt-every 2 --ckpt-dir own --ckpt-late skip --ckpt-way staggered --ckpt-turns 3",
    );
    assert!(text.contains("Verification = SUCCESSFUL"), "{text}");
    assert!(text.contains("Checkpoint 1 written"), "{text}");
}

#[test]
fn a_checkpoint_that_is_due_too_early_waits_or_is_skipped() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    // the disk holds the first checkpoint until the last is due
    let args = "--size 16 --steps 7 --ckpt-every 1 --ckpt-dir own --ckpt-way thread";
    let skipped = kernels.run_held_until(
        "Checkpoint skipped: the last one is not safe yet (step 7)",
        2,
        "kernel-stencil",
        &format!("{args} --ckpt-late skip"),
    );
    assert!(skipped.contains("Verification = SUCCESSFUL"), "{skipped}");
    let safe = numbers(&skipped, SAFE.0, SAFE.1).len();
    let left_out = skipped.matches("Checkpoint skipped: ").count();
    assert_eq!((safe, left_out), (1, 6), "{skipped}");
    assert_eq!(
        line(&skipped, "Checkpoints skipped"),
        format!("Checkpoints skipped = {left_out}")
    );
    let restarted = kernels.succeeds(1, "kernel-stencil", &format!("{args} --restart own"));
    assert_eq!(
        line(&restarted, "Checksum = "),
        line(&skipped, "Checksum = ")
    );

    let waited =
        text(&kernels.run_slowly(2, "kernel-stencil", &format!("{args} --ckpt-late wait")));
    let safe = numbers(&waited, SAFE.0, SAFE.1);
    assert_eq!(safe.len(), 7, "{waited}");
    // a sync of the file and one of the directory
    assert!(safe.iter().all(|s| *s >= 2.0 * SLOW_S), "{waited}");
    assert_eq!(
        line(&waited, "Checkpoints skipped"),
        "Checkpoints skipped = 0"
    );
    // each checkpoint waits for the previous one, and the program waits for the last one at its end
    let stopped: f64 = numbers(&waited, STOPPED.0, STOPPED.1).iter().sum();
    assert!(stopped > 6.0 * 2.0 * SLOW_S, "{waited}");
    assert_eq!(line(&waited, "Checksum = "), line(&skipped, "Checksum = "));
}

#[test]
fn ways_that_are_not_possible_are_refused_with_the_reason() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let args = "--size 16 --steps 2 --ckpt-every 1 --ckpt-dir own";
    for (kernel, way, why) in [
        (
            "kernel-stencil",
            "thread --ckpt-turns 2",
            "--ckpt-turns is for --ckpt-way staggered",
        ),
        (
            "kernel-stencil",
            "staggered --ckpt-turns 9",
            "--ckpt-turns 9: only 2 processes write; use --ckpt-turns 2 or fewer",
        ),
        (
            "kernel-front",
            "swap",
            "--ckpt-way swap: this program does not compute from one grid into another; use thread",
        ),
        (
            "kernel-stencil",
            "swap --track",
            "--ckpt-way swap: a third grid cannot be tracked; use thread, or leave out --track",
        ),
        (
            "kernel-stencil",
            "thread --ckpt-pin 99999",
            "--ckpt-pin 99999: process 0 cannot use this core: Invalid argument",
        ),
        (
            "kernel-stencil",
            "iwrite --ckpt-writers node",
            "--ckpt-writers node is for --ckpt-way thread",
        ),
        (
            "kernel-stencil",
            "fork",
            "--ckpt-way: 'fork' is none of sync, thread, swap, iwrite",
        ),
    ] {
        let output = kernels.run(2, kernel, &format!("{args} --ckpt-way {way}"));
        assert_eq!(output.status.code(), Some(2), "{way}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said = format!("{kernel}: {why}");
        assert_eq!(stderr.matches(&said).count(), 1, "{way}: {stderr}");
    }
}

#[test]
fn copies_that_do_not_fit_into_memory_are_refused_with_both_sizes() {
    require!(Tool::Mpich, Tool::Tmpfs);
    let kernels = Kernels::compile(Tool::Mpich);
    let meminfo = kernels.dir.path().join("meminfo");
    fs::write(&meminfo, "MemTotal:  16384 kB\nMemAvailable:  1000 kB\n").expect("writes");
    for (way, bytes) in [
        // 5 variables of 32^3 points of 8 bytes; with its halo, a grid of each of the two processes has 18 x 34 x 34 points
        ("thread", 5 * 32 * 32 * 32 * 8),
        ("swap", 2 * 5 * 18 * 34 * 34 * 8),
    ] {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$0\" /proc/meminfo && exec \"$@\"",
        ]);
        command.arg(&meminfo).arg(&kernels.mpiexec);
        let args = format!("--size 32 --steps 2 --ckpt-every 1 --ckpt-dir own --ckpt-way {way}");
        let output = kernels.start(command, 2, "kernel-stencil", &args);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said =
            format!("need {bytes} bytes, and 1024000 bytes of memory are available on the node");
        assert!(stderr.contains(&said), "{stderr}");
    }
}

#[test]
fn one_process_of_each_socket_writes_and_unknown_sockets_are_refused() {
    require!(Tool::Mpich, Tool::Tmpfs);
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return;
    }
    let kernels = Kernels::compile(Tool::Mpich);
    let said = |name: &str, text: &str| {
        let path = kernels.dir.path().join(name);
        fs::write(&path, text).expect("writes");
        path
    };
    let (first, second, unknown) = (said("0", "0\n"), said("1", "1\n"), said("none", ""));
    // bind each process to the core with the number of its rank
    let script = "at=/sys/devices/system/cpu; id=topology/physical_package_id\n\
                  mount --bind \"$0\" $at/cpu0/$id && mount --bind \"$1\" $at/cpu1/$id || exit 90\n\
                  shift; launcher=$1; shift 3; exec \"$launcher\" -n 2 sh -c 'exec taskset -c \"$PMI_RANK\" \"$@\"' x \"$@\"";
    let run = |other: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.arg(&first).arg(other).arg(&kernels.mpiexec);
        let args = "--size 16 --steps 4 --ckpt-every 2 --ckpt-dir own --ckpt-way thread --ckpt-writers socket";
        kernels.start(command, 2, "kernel-stencil", args)
    };
    assert_eq!(line(&text(&run(&second)), "Writers = "), "Writers = 2");
    assert_eq!(line(&text(&run(&first)), "Writers = "), "Writers = 1");
    let refused = run(&unknown);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("process 1 may run on several sockets"),
        "{stderr}"
    );
}

#[test]
fn strategies_are_measured_restarted_reported_and_advised_upon() {
    require!(Tool::Mpich);
    let c = campaign(
        "ways",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx2P\"\nmpi = \"mpich\"\ncheckpointer = \"application\"\n\
             strategy = [\"sync\", \"thread\", \"staggered\", \"swap\", \"iwrite\"]\n[checkpoint]\nrestart_check = true\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n"
        ),
    );
    let plan = c.cvc(&["plan"]).expect(0).stdout;
    assert!(
        plan.contains("1 point with strategy = \"iwrite\""),
        "{plan}"
    );
    assert!(plan.contains("--overlap` measures it"), "{plan}");
    c.run().expect(0);
    let mut seen = Vec::new();
    for run in c.run_names() {
        let dir = c.run_dir(&run);
        let description = fs::read_to_string(dir.join("run.json")).expect("a description");
        let description: Value = serde_json::from_str(&description).expect("JSON");
        let strategy = description["point"]["strategy"].as_str().unwrap_or("sync");
        let records = c.records(&run);
        let values = |name: &str| -> Vec<f64> {
            let found = records.iter().filter(|r| r["name"] == name);
            found.filter_map(|r| r["value"].as_f64()).collect()
        };
        let (stops, safe) = (values("ckpt_stop_s"), values("ckpt_latency_s"));
        assert_eq!((stops.len(), safe.len()), (3, 3), "{strategy}: {records:?}");
        assert_eq!(stops == safe, strategy == "sync", "{strategy}: {records:?}");
        let skipped = if strategy == "sync" {
            vec![]
        } else {
            vec![0.0]
        };
        assert_eq!(values("ckpt_skipped"), skipped, "{strategy}");
        assert_eq!(values("restart_verified"), [1.0], "{strategy}");
        seen.push(strategy.to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["iwrite", "staggered", "swap", "sync", "thread"]);
    let report = fs::read_to_string(c.dir().join("reports/ways/report.md")).expect("a report");
    assert!(
        report.contains("\n## Stop and latency of checkpoints\n"),
        "{report}"
    );

    let asked = [
        "strategy", "--nodes", "1", "--mtbf", "1h", "--from", "ways", "--json",
    ];
    let found: Value = serde_json::from_str(&c.cvc(&asked).expect(0).stdout).expect("JSON");
    let mut ways: Vec<&str> = found["ways"]
        .as_array()
        .expect("ways")
        .iter()
        .filter_map(|way| way["way"].as_str())
        .collect();
    ways.sort_unstable();
    let measured = ["iwrite", "staggered", "swap", "sync", "thread"];
    assert_eq!(ways, measured, "{found}");
    assert!(found["restart_s"].as_f64() > Some(0.0), "{found}");
    let at = [&asked[..], &["--at", "kernel-stencil.W 1Nx2P mpich run"]].concat();
    let refused = c.cvc(&at).expect(8).stderr;
    assert!(
        refused.contains("choose one by --at: kernel-stencil.S 1Nx2P mpich"),
        "{refused}"
    );
}

#[test]
fn doctor_measures_overlap_and_a_call_that_crashes_is_a_result() {
    require!(Tool::Mpich);
    let c = campaign("overlap", "");
    let mpich = Tool::Mpich.find().expect("the test requires it");
    let executable = |name: &str, text: &str| {
        let path = c.put(name, text);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
        path
    };
    let real = mpich.display();
    let launcher = executable(
        "mpiexec",
        &format!(
            "#!/bin/sh\ncase \" $* \" in *' iwrite_all '*) echo 'Segmentation fault' >&2; exit 139 ;; esac\nexec {real} \"$@\"\n"
        ),
    );
    let mpicc = real
        .to_string()
        .replace("mpiexec.hydra", "mpicc")
        .replace("mpiexec", "mpicc");
    executable("mpicc", &format!("#!/bin/sh\nexec {mpicc} \"$@\"\n"));
    c.rewrite(&format!(
        "{SITE}mpi.mpich = {{ family = \"mpich\", mpiexec = \"{}\" }}\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n",
        launcher.display()
    ));
    let file = c.dir().join("campaign.toml").display().to_string();
    let asked = ["doctor", &file, "--overlap", "--collective", "--json"];
    let found: Value = serde_json::from_str(&c.cvc(&asked).expect(0).stdout).expect("JSON");
    let rows = found["overlap"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{found}");
    let (measured, crashed) = (&rows[0], &rows[1]);
    assert_eq!(
        (&measured["call"], &measured["result"]),
        (&"iwrite_at".into(), &"measured".into())
    );
    let number = |key: &str| measured[key].as_f64().expect("a number");
    let [io, calc, both] = ["io_s", "calc_s", "both_s"].map(number);
    let overlap = (io + calc - both) / io.min(calc);
    assert!((number("overlap") - overlap).abs() < 1e-2, "{found}");
    assert_eq!(
        (&crashed["call"], &crashed["result"]),
        (&"iwrite_all".into(), &"fails".into())
    );
    assert!(
        crashed["what"]
            .as_str()
            .is_some_and(|what| what.contains("Segmentation fault")),
        "{found}"
    );
    assert!(
        measured["library"]
            .as_str()
            .is_some_and(|of| of.starts_with("MPICH ")),
        "{found}"
    );
}
