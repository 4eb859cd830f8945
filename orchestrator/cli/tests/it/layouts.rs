//! Tests of the layouts of kernels' checkpoints: all restart bit by bit, and a delegated checkpoint is complete after a crash at any moment.

use crate::{
    common::{SITE, campaign},
    ways::{Kernels, line, text},
};
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const KERNEL: &str = "kernel-stencil";
/// Arguments for three checkpoints; the last checkpoint is not at the last step.
const ARGS: &str = "--size 24 --steps 20 --ckpt-every 6 --ckpt-dir own";

fn own_files(kernels: &Kernels) -> Vec<String> {
    let entries = fs::read_dir(kernels.dir.path().join("own")).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("text")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn remove_own_files(kernels: &Kernels) {
    for name in own_files(kernels) {
        fs::remove_file(kernels.dir.path().join("own").join(name)).expect("removed");
    }
}

/// Runs with each layout, counts files and writers, and restarts.
fn all_layouts_of(tool: Tool, processes: u32) {
    let kernels = Kernels::compile(tool);
    let strided = kernels.succeeds(processes, KERNEL, ARGS);
    let one = ["kernel-stencil.ckpt"].as_slice();
    let of_node = ["kernel-stencil.ckpt.node0"].as_slice();
    let of_each: Vec<String> = (0..processes)
        .map(|rank| format!("kernel-stencil.ckpt.{rank}"))
        .collect();
    let of_each: Vec<&str> = of_each.iter().map(String::as_str).collect();
    let of_each = of_each.as_slice();
    for (layout, files, writers) in [
        ("strided --ckpt-keep-open", one, 0),
        ("strided --ckpt-io posix", one, processes),
        (
            "strided --ckpt-collective no --ckpt-stripe-factor 4 --ckpt-stripe-unit 65536",
            one,
            processes,
        ),
        ("segmented", one, processes),
        (
            "segmented --ckpt-collective yes --ckpt-align 65536 --ckpt-keep-open",
            one,
            0,
        ),
        ("segmented --ckpt-io posix", one, processes),
        ("delegated", one, processes),
        ("delegated --ckpt-collective yes --ckpt-keep-open", one, 0),
        (
            "delegated --ckpt-io posix --ckpt-align 4096",
            one,
            processes,
        ),
        ("per-node", of_node, 1),
        (
            "per-node --ckpt-io mpi-io --ckpt-align 4096 --ckpt-keep-open",
            of_node,
            1,
        ),
        ("per-process", of_each, processes),
        (
            "per-process --ckpt-io mpi-io --ckpt-keep-open",
            of_each,
            processes,
        ),
        ("log", of_each, processes),
        ("log --ckpt-io mpi-io --ckpt-keep-open", of_each, processes),
    ] {
        remove_own_files(&kernels);
        let args = format!("{ARGS} --ckpt-layout {layout}");
        let first = kernels.succeeds(processes, KERNEL, &args);
        assert_eq!(
            line(&first, "Checksum = "),
            line(&strided, "Checksum = "),
            "{layout}"
        );
        assert_eq!(own_files(&kernels), files, "{layout}");
        let is_hinted = layout.contains("stripe");
        let ignored = "Without effect: striping_factor, striping_unit: the file system of own ";
        assert_eq!(first.contains(ignored), is_hinted, "{layout}: {first}");
        // the library decides which processes write in collective calls
        if writers > 0 {
            assert_eq!(
                line(&first, "Writers = "),
                format!("Writers = {writers}"),
                "{layout}"
            );
        }
        let again = kernels.succeeds(processes, KERNEL, &format!("{args} --restart own"));
        assert!(
            line(&again, "Restarted from own/").contains(": step 18, "),
            "{layout}: {again}"
        );
        assert!(!again.contains("Time step 18\n"), "{layout}: {again}");
        assert_eq!(
            line(&again, "Checksum = "),
            line(&strided, "Checksum = "),
            "{layout}"
        );
    }
}

#[test]
fn all_layouts_restart_bit_for_bit_with_mpich() {
    require!(Tool::Mpich);
    // with more processes than cores, MPICH's processes spin
    all_layouts_of(Tool::Mpich, 2);
}

#[test]
fn all_layouts_restart_bit_for_bit_with_open_mpi() {
    require!(Tool::OpenMpi);
    all_layouts_of(Tool::OpenMpi, 3);
}

/// Returns the only line that the kernel wrote to standard error, after a run with this exit code.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = stderr
        .lines()
        .filter_map(|l| l.strip_prefix("kernel-stencil: "))
        .collect();
    assert_eq!(said.len(), 1, "{stderr}");
    said[0].to_owned()
}

#[test]
fn one_process_of_each_node_writes_the_file_of_the_node() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    // MPICH can treat the processes of one machine as if they were on several nodes
    let run = |nodes: u32, more: &str| {
        let mut command = Command::new(&kernels.mpiexec);
        command.env("MPIR_CVAR_NUM_CLIQUES", nodes.to_string());
        kernels.start(
            command,
            4,
            KERNEL,
            &format!("{ARGS} --ckpt-layout per-node {more}"),
        )
    };
    let first = text(&run(2, ""));
    assert_eq!(
        own_files(&kernels),
        ["kernel-stencil.ckpt.node0", "kernel-stencil.ckpt.node1"]
    );
    assert_eq!(line(&first, "Writers = "), "Writers = 2");
    let again = text(&run(2, "--restart own"));
    assert_eq!(line(&again, "Checksum = "), line(&first, "Checksum = "));
    let elsewhere = refused(&run(1, "--restart own"), 3);
    assert_eq!(
        elsewhere,
        "cannot restart from own/kernel-stencil.ckpt.node0: of 2 processes on a node, this node has 4; --ckpt-layout per-node restarts with the same \
         processes on the same nodes"
    );
}

#[test]
fn a_restart_with_other_processes_or_another_layout_is_refused_by_name() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let of_three = "of process 0 of 3, this is process 0 of 2; --ckpt-layout";
    for (written, read, processes, why) in [
        (
            "segmented",
            "segmented",
            2,
            format!("{of_three} segmented restarts with the same number of processes"),
        ),
        (
            "per-node",
            "per-node",
            2,
            format!("{of_three} per-node restarts with the same processes on the same nodes"),
        ),
        (
            "per-process",
            "per-process",
            2,
            format!("{of_three} per-process restarts with the same processes on the same nodes"),
        ),
        (
            "delegated",
            "delegated",
            2,
            "own/kernel-stencil.ckpt is of 3 processes, not 2; only the same number can read it"
                .into(),
        ),
        (
            "segmented",
            "strided",
            3,
            "written with --ckpt-layout segmented, not strided".into(),
        ),
        (
            "delegated",
            "strided",
            3,
            "written with --ckpt-layout delegated, not strided".into(),
        ),
        (
            "strided",
            "segmented",
            3,
            "written with --ckpt-layout strided, not segmented".into(),
        ),
        (
            "segmented",
            "delegated",
            3,
            "written with --ckpt-layout segmented, not delegated".into(),
        ),
    ] {
        remove_own_files(&kernels);
        kernels.succeeds(3, KERNEL, &format!("{ARGS} --ckpt-layout {written}"));
        let args = format!("{ARGS} --ckpt-layout {read} --restart own");
        let said = refused(&kernels.run(processes, KERNEL, &args), 3);
        assert!(
            said.starts_with("cannot restart from own/kernel-stencil.ckpt"),
            "{said}"
        );
        assert!(said.ends_with(&why), "{said}");
    }
}

#[test]
fn a_run_that_is_stopped_while_files_get_their_names_restarts_from_the_last_checkpoint() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let own = kernels.dir.path().join("own");
    let args = "--size 16 --ckpt-every 6 --ckpt-dir own --ckpt-layout per-process --steps";
    let whole = kernels.succeeds(2, KERNEL, &format!("{args} 20"));
    kernels.succeeds(2, KERNEL, &format!("{args} 10"));
    for rank in ["0", "1"] {
        let file = own.join(format!("kernel-stencil.ckpt.{rank}"));
        fs::copy(&file, kernels.dir.path().join(rank)).expect("copies");
    }
    kernels.succeeds(2, KERNEL, &format!("{args} 16"));
    // process 0 has written the checkpoint of step 12, process 1 has not
    let last = |rank: &str, name: &str| {
        fs::copy(kernels.dir.path().join(rank), own.join(name)).expect("copies");
    };
    last("1", "kernel-stencil.ckpt.1");
    let refused = refused(
        &kernels.run(2, KERNEL, &format!("{args} 20 --restart own")),
        3,
    );
    assert!(
        refused.contains("kernel-stencil.ckpt.previous.0: No such file"),
        "{refused}"
    );
    last("0", "kernel-stencil.ckpt.previous.0");
    let again = kernels.succeeds(2, KERNEL, &format!("{args} 20 --restart own"));
    assert!(
        line(&again, "Restarted from own/").contains(": step 6, "),
        "{again}"
    );
    assert_eq!(line(&again, "Checksum = "), line(&whole, "Checksum = "));
    assert_eq!(
        own_files(&kernels),
        ["kernel-stencil.ckpt.0", "kernel-stencil.ckpt.1"]
    );
}

#[test]
fn a_damaged_part_is_refused_in_every_layout() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    for (layout, file) in [
        ("strided --ckpt-io posix", "kernel-stencil.ckpt"),
        ("segmented", "kernel-stencil.ckpt"),
        ("per-node", "kernel-stencil.ckpt.node0"),
        ("per-process", "kernel-stencil.ckpt.1"),
    ] {
        remove_own_files(&kernels);
        let args = format!("{ARGS} --ckpt-layout {layout}");
        kernels.succeeds(2, KERNEL, &args);
        let path = kernels.dir.path().join("own").join(file);
        let mut bytes = fs::read(&path).expect("a checkpoint");
        let last = bytes.len() - 9;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).expect("writes");
        let said = refused(&kernels.run(2, KERNEL, &format!("{args} --restart own")), 3);
        assert!(
            said.contains("corrupt: the checksum of the data is"),
            "{layout}: {said}"
        );
        fs::write(&path, &bytes[..last]).expect("writes");
        let said = refused(&kernels.run(2, KERNEL, &format!("{args} --restart own")), 3);
        assert!(said.contains("truncated: "), "{layout}: {said}");
    }
}

#[test]
fn logs_are_read_by_any_number_of_processes_and_refused_where_they_are_damaged() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let (own, kept) = (
        kernels.dir.path().join("own"),
        kernels.dir.path().join("kept"),
    );
    let args = "--size 16 --ckpt-every 6 --ckpt-dir own --ckpt-layout log --steps";
    let whole = kernels.succeeds(1, KERNEL, &format!("{args} 20"));
    remove_own_files(&kernels);
    kernels.succeeds(3, KERNEL, &format!("{args} 12"));
    fs::rename(&own, &kept).expect("renames");
    let put_back = || {
        _ = fs::remove_dir_all(&own);
        fs::create_dir(&own).expect("a directory");
        for name in ["0", "1", "2"].map(|of| format!("kernel-stencil.ckpt.{of}")) {
            fs::copy(kept.join(&name), own.join(&name)).expect("copies");
        }
    };
    for processes in [1, 2, 4] {
        put_back();
        let again = kernels.succeeds(processes, KERNEL, &format!("{args} 20 --restart own"));
        assert!(
            line(&again, "Restarted from own/").contains(": step 12, "),
            "{again}"
        );
        assert_eq!(line(&again, "Checksum = "), line(&whole, "Checksum = "));
    }
    let log = own.join("kernel-stencil.ckpt.1");
    for (damage, why) in [
        (
            (|bytes| bytes.truncate(bytes.len() - 8)) as fn(&mut Vec<u8>),
            "truncated: its index is not whole",
        ),
        (
            |bytes| *bytes.last_mut().expect("bytes") ^= 1,
            "corrupt: its index does not fit its data",
        ),
        (
            |bytes| bytes[4096 + 100] ^= 1,
            "corrupt: the checksum of the data is",
        ),
        (|bytes| bytes.clear(), "kernel-stencil.ckpt.1: truncated"),
    ] {
        put_back();
        let mut bytes = fs::read(&log).expect("a log");
        damage(&mut bytes);
        fs::write(&log, bytes).expect("writes");
        let said = refused(
            &kernels.run(2, KERNEL, &format!("{args} 20 --restart own")),
            3,
        );
        assert!(said.contains(why), "{why}: {said}");
    }
    put_back();
    fs::copy(
        own.join("kernel-stencil.ckpt.1"),
        own.join("kernel-stencil.ckpt.2"),
    )
    .expect("copies");
    let said = refused(
        &kernels.run(2, KERNEL, &format!("{args} 20 --restart own")),
        3,
    );
    assert!(
        said.contains("log 1 of 3 where log 2 of 3 should be"),
        "{said}"
    );
}

#[test]
fn layouts_and_calls_that_do_not_go_together_are_refused_with_the_reason() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    for (options, why) in [
        (
            "--ckpt-layout shared",
            "--ckpt-layout: 'shared' is none of strided, segmented, delegated, per-node, per-process, log",
        ),
        (
            "--ckpt-layout segmented --ckpt-way thread",
            "--ckpt-layout segmented needs --ckpt-way sync: other ways write the strided file",
        ),
        (
            "--ckpt-keep-open --ckpt-way iwrite",
            "--ckpt-keep-open needs --ckpt-way sync: other ways have calls of their own",
        ),
        ("--ckpt-io aio", "--ckpt-io: 'aio' is none of posix, mpi-io"),
        (
            "--ckpt-io posix --ckpt-collective yes",
            "--ckpt-collective yes needs --ckpt-io mpi-io: POSIX has no collective calls",
        ),
        (
            "--ckpt-layout per-node --ckpt-io mpi-io --ckpt-collective yes",
            "--ckpt-collective yes: each file of --ckpt-layout per-node has one writer; use strided, segmented or delegated",
        ),
        (
            "--ckpt-layout per-process --ckpt-stripe-factor 4",
            "--ckpt-stripe-factor is a hint of MPI-IO: add --ckpt-io mpi-io",
        ),
        (
            "--ckpt-io posix --ckpt-stripe-unit 65536",
            "--ckpt-stripe-unit is a hint of MPI-IO: add --ckpt-io mpi-io",
        ),
        (
            "--ckpt-align 4096",
            "--ckpt-align: files of --ckpt-layout strided have no parts to align; use segmented, delegated or per-node",
        ),
    ] {
        let output = kernels.run(2, KERNEL, &format!("{ARGS} {options}"));
        assert_eq!(refused(&output, 2), why, "{options}");
    }
    assert_eq!(own_files(&kernels), Vec::<String>::new());
}

/// Compiles a library for LD_PRELOAD.
fn library(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (from, to) = (
        dir.join(format!("{name}.c")),
        dir.join(format!("{name}.so")),
    );
    fs::write(&from, source).expect("writes");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&to).arg(&from);
    assert!(cc.status().expect("a C compiler").success());
    to
}

#[test]
fn files_are_opened_for_each_checkpoint_or_kept_open() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile(Tool::Mpich);
    let counts = library(kernels.dir.path(), "opens", include_str!("layouts/opens.c"));
    let noted = kernels.dir.path().join("opens");
    let opens = |options: &str| {
        remove_own_files(&kernels);
        let mut command = Command::new(&kernels.mpiexec);
        command.env("LD_PRELOAD", &counts).env("OPENS", &noted);
        let args = format!(
            "--size 16 --steps 13 --ckpt-every 2 --ckpt-dir own --ckpt-io posix --ckpt-layout {options}"
        );
        text(&kernels.start(command, 2, KERNEL, &args));
        let count = fs::read_to_string(&noted).expect("notes").lines().count();
        fs::remove_file(&noted).expect("removed");
        count
    };
    // two processes write six checkpoints, alternating between two files
    for layout in ["strided", "segmented", "per-process"] {
        assert_eq!(opens(layout), 12, "{layout}");
        assert_eq!(opens(&format!("{layout} --ckpt-keep-open")), 4, "{layout}");
    }
    // a delegated file is created by process 0, which also opens the file's table
    assert_eq!(opens("delegated"), 1 + 6 * 3);
    assert_eq!(opens("delegated --ckpt-keep-open"), 1 + 2);
}

// ---- delegation by a program of its own ----

struct Delegation {
    dir: tempfile::TempDir,
    mpiexec: PathBuf,
    is_open_mpi: bool,
    crash: PathBuf,
}

/// A crash: in which process, at which operation, and which unsynced writes a loss of power discards.
struct Crash {
    rank: u32,
    at: usize,
    loses: &'static str,
}

/// The operations on the file at which crashes are tried.
#[derive(Clone, Copy)]
enum Operations {
    All,
    /// Operations of the second half, when the file has its final name.
    OfRevisions,
    EveryFourth,
}

impl Delegation {
    fn compile(tool: Tool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mpiexec = tool.find().expect("the test requires it");
        let name = mpiexec
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let mpicc = ["mpiexec.hydra", "mpiexec", "mpirun"]
            .iter()
            .find_map(|start| Some(format!("mpicc{}", name.strip_prefix(start)?)))
            .expect("a launcher");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kernels = here.join("../../ansible/roles/kernels/files");
        let made = Command::new(mpiexec.with_file_name(mpicc))
            .args([
                "-std=c99",
                "-D_POSIX_C_SOURCE=200809L",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O2",
                "-I",
            ])
            .arg(&kernels)
            .arg("-o")
            .arg(dir.path().join("delegate"))
            .arg(here.join("tests/it/layouts/delegate.c"))
            .arg(kernels.join("kernel-delegate.c"))
            .output()
            .expect("a compiler");
        assert!(made.status.success(), "{made:?}");
        let crash = library(dir.path(), "crash", include_str!("layouts/crash.c"));
        Self {
            dir,
            mpiexec,
            is_open_mpi: matches!(tool, Tool::OpenMpi),
            crash,
        }
    }

    /// Runs the program; a single process is started without a launcher.
    fn run(&self, processes: u32, args: &str, crash: Option<&Crash>) -> Output {
        let program = self.dir.path().join("delegate");
        let mut command = if processes == 1 {
            Command::new(program)
        } else {
            let mut command = Command::new(&self.mpiexec);
            if self.is_open_mpi {
                command.args(["--oversubscribe", "--allow-run-as-root"]);
            }
            command.args(["-n", &processes.to_string()]).arg(program);
            command
        };
        if let Some(crash) = crash {
            command.env("LD_PRELOAD", &self.crash);
            command.env("CRASH_RANK", crash.rank.to_string());
            command.env("CRASH_AT", crash.at.to_string());
            command.env("CRASH_LOSES", crash.loses);
            command.env("CRASH_COUNTS", self.dir.path().join("counts"));
        }
        command.args(args.split_whitespace());
        command.current_dir(&self.dir).output().expect("a program")
    }

    fn prints(&self, processes: u32, args: &str) -> String {
        String::from_utf8_lossy(&self.run(processes, args, None).stdout).into_owned()
    }

    /// Returns the last revision that the program completed; 0 if there is none.
    fn completed(&self) -> u64 {
        let text =
            fs::read_to_string(self.dir.path().join("x.delegated.completed")).unwrap_or_default();
        text.lines()
            .last()
            .map_or(0, |last| last.parse().expect("a number"))
    }

    fn remove_files(&self) {
        for name in [
            "x.delegated",
            "x.delegated.tmp",
            "x.delegated.completed",
            "counts",
        ] {
            let _ = fs::remove_file(self.dir.path().join(name));
        }
    }

    /// Returns the number of operations of a process in a run without a crash.
    fn operations(&self, processes: u32, how: &str, rank: u32) -> usize {
        self.remove_files();
        let none = Crash {
            rank: 0,
            at: 0,
            loses: "",
        };
        let output = self.run(processes, &format!("{how} new 3 x.delegated"), Some(&none));
        assert!(output.status.success(), "{output:?}");
        let counts = fs::read_to_string(self.dir.path().join("counts")).expect("counts");
        let of = |line: &str| line.strip_prefix(&format!("{rank} "))?.parse().ok();
        counts.lines().find_map(of).expect("a count")
    }

    /// Crashes at every `stride`-th operation of a process, and reads the file that is left.
    fn crash_everywhere(
        &self,
        processes: u32,
        how: &str,
        rank: u32,
        loses: &'static str,
        operations_to_crash_at: Operations,
    ) {
        let operations = self.operations(processes, how, rank);
        assert!(operations >= 6, "{operations}");
        let mut seen = [false; 4];
        let (first, stride) = match operations_to_crash_at {
            Operations::All => (1, 1),
            Operations::OfRevisions => (operations / 2, 1),
            Operations::EveryFourth => (1, 4),
        };
        for at in (first..=operations).step_by(stride) {
            self.remove_files();
            let crash = Crash { rank, at, loses };
            let output = self.run(processes, &format!("{how} new 3 x.delegated"), Some(&crash));
            assert!(!output.status.success(), "{at}: {output:?}");
            let completed = self.completed();
            seen[usize::try_from(completed).expect("small")] = true;
            let found = self.prints(processes, &format!("{how} continue x.delegated"));
            let what = format!(
                "process {rank} of {processes}, {how}, {loses}: operation {at}, {completed} completed: {found}"
            );
            let whole = |newest: u64| {
                let (next, last) = (newest + 1, newest + 2);
                format!("read {newest}\nread {last}\nread {next}\n")
            };
            // the revision that was being written may already be complete
            let is_well = found == whole(completed + 1)
                || if completed == 0 {
                    found.starts_with("error 1: cannot open x.delegated: No such file or directory")
                } else {
                    found == whole(completed)
                };
            assert!(is_well, "{what}");
        }
        assert!(
            seen[1] && seen[2],
            "crashes after the first and after the second revision"
        );
    }
}

#[test]
fn a_delegated_checkpoint_is_whole_after_a_loss_of_power_at_any_operation() {
    require!(Tool::Mpich);
    let delegation = Delegation::compile(Tool::Mpich);
    delegation.crash_everywhere(1, "posix", 0, "all", Operations::All);
    for loses in ["even", "odd"] {
        delegation.crash_everywhere(1, "posix", 0, loses, Operations::OfRevisions);
    }
    delegation.crash_everywhere(1, "mpi-io+open", 0, "all", Operations::OfRevisions);
}

#[test]
fn a_delegated_checkpoint_is_whole_after_the_end_of_any_process_with_mpich() {
    require!(Tool::Mpich);
    let delegation = Delegation::compile(Tool::Mpich);
    delegation.crash_everywhere(2, "posix", 0, "", Operations::OfRevisions);
    delegation.crash_everywhere(2, "posix", 1, "", Operations::All);
    delegation.crash_everywhere(2, "collective+open", 1, "", Operations::All);
}

#[test]
fn a_delegated_checkpoint_is_whole_after_the_end_of_any_process_with_open_mpi() {
    require!(Tool::OpenMpi);
    let delegation = Delegation::compile(Tool::OpenMpi);
    // only every fourth operation, because each run takes seconds
    delegation.crash_everywhere(2, "mpi-io", 0, "", Operations::EveryFourth);
    delegation.crash_everywhere(2, "mpi-io+open", 1, "", Operations::OfRevisions);
}

/// Returns the bytes that a process of the program writes in a revision.
fn content(rank: usize, revision: usize) -> Vec<u8> {
    (0..2000 * (rank + 1) + 8 * revision)
        .map(|at| (revision * 131 + rank * 17 + at * (revision + 3)) as u8)
        .collect()
}

#[test]
fn damaged_revisions_and_tables_are_noticed_and_the_newest_whole_one_is_kept() {
    require!(Tool::Mpich);
    let delegation = Delegation::compile(Tool::Mpich);
    let path = delegation.dir.path().join("x.delegated");
    let read = |args: &str| delegation.prints(2, &format!("posix {args} x.delegated"));
    assert_eq!(read("new 5"), "");
    assert_eq!(
        (read("read 0"), read("read 4")),
        ("read 5\n".into(), "read 4\n".into())
    );
    for absent in [3, 6] {
        assert_eq!(
            read(&format!("read {absent}")),
            format!("error 5: x.delegated does not have revision {absent}\n")
        );
    }
    let written = fs::read(&path).expect("a file");
    let place = |rank, revision| {
        let wanted = content(rank, revision);
        let mut windows = written.windows(wanted.len());
        windows.position(|part| part == wanted).expect("the data")
    };
    let flip = |bytes: &[u8], places: &[usize]| {
        let mut bytes = bytes.to_vec();
        places.iter().for_each(|place| bytes[*place] ^= 16);
        fs::write(&path, bytes).expect("writes");
    };

    // the two copies of the table follow two blocks with the file's header
    let copies = [2 * 4096 + 8, 3 * 4096 + 8];
    for place in copies {
        flip(&written, &[place]);
        assert_eq!(read("read 0"), "read 5\n");
    }
    flip(&written, &copies);
    assert_eq!(
        read("read 0"),
        "error 2: both copies of the table of x.delegated are damaged\n"
    );
    flip(&written, &[0]);
    assert_eq!(read("read 0"), "read 5\n");
    flip(&written, &[0, 4096]);
    assert_eq!(
        read("read 0"),
        "error 2: x.delegated is no delegated checkpoint, or its first blocks are damaged\n"
    );

    let damaged = "revision 5 of x.delegated is damaged: the checksum of process 1 does not fit";
    flip(&written, &[place(1, 5) + 1000]);
    assert_eq!(read("read 0"), format!("read 4: {damaged}\n"));
    assert_eq!(read("read 5"), format!("error 5: {damaged}\n"));
    // the next revision overwrites the damaged one
    let continued = read("continue 6");
    assert_eq!(continued, format!("read 4: {damaged}\nread 7\nread 6\n"));
    flip(&written, &[place(1, 5), place(0, 4)]);
    assert_eq!(
        read("read 0"),
        "error 5: x.delegated has no revision that is whole\n"
    );
}

#[test]
fn layouts_are_a_factor_of_campaigns_that_reports_compare() {
    require!(Tool::Mpich);
    let c = campaign(
        "layouts",
        &format!(
            "{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx2P\"\nmpi = \"mpich\"\ncheckpointer = \"application\"\n\
             layout = [\"strided\", \"segmented\", \"delegated\", \"per-node\", \"per-process\", \"log\"]\n[checkpoint]\nrestart_check = true\n\
             [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n"
        ),
    );
    c.run().expect(0);
    let mut seen = Vec::new();
    for run in c.run_names() {
        let description =
            fs::read_to_string(c.run_dir(&run).join("run.json")).expect("a description");
        let description: Value = serde_json::from_str(&description).expect("JSON");
        let layout = description["point"]["layout"].as_str().unwrap_or("strided");
        let records = c.records(&run);
        let values = |name: &str| -> Vec<f64> {
            let found = records.iter().filter(|r| r["name"] == name);
            found.filter_map(|r| r["value"].as_f64()).collect()
        };
        assert_eq!(values("restart_verified"), [1.0], "{layout}");
        assert_eq!(values("ckpt_latency_s").len(), 3, "{layout}: {records:?}");
        // 5 variables of 32^3 points, plus one header (strided) or one for each process
        let data = 5.0 * 8.0 * 32.0f64.powi(3);
        let stored: f64 = values("ckpt_stored_bytes").iter().sum();
        match layout {
            "strided" => assert_eq!(stored, data + 4096.0),
            // space for two checkpoints, and the table about them
            "delegated" => assert!(stored > 2.0 * data && stored < 2.2 * data, "{stored}"),
            // an entry of 16 bytes for each row that is completely in a process and not adjacent to the previous row
            "log" => assert!(
                stored > data + 2.0 * 4096.0 && stored < 1.1 * data,
                "{stored}"
            ),
            _ => assert_eq!(stored, data + 2.0 * 4096.0, "{layout}"),
        }
        let headers = if layout == "strided" { 1.0 } else { 2.0 };
        let written = if layout == "log" {
            stored
        } else {
            data + headers * 4096.0
        };
        assert_eq!(values("ckpt_bytes"), [written], "{layout}");
        seen.push(layout.to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen,
        [
            "delegated",
            "log",
            "per-node",
            "per-process",
            "segmented",
            "strided"
        ]
    );
    let report = fs::read_to_string(c.dir().join("reports/layouts/report.md")).expect("a report");
    for said in ["checkpoint layout", "layout segmented"] {
        assert!(report.contains(said), "{said}: {report}");
    }
}
