//! Tests of built-in kernels that count the pages that they write, and of series of their own checkpoints.

use crate::common::{SITE, campaign};
use cvc_testkit::{Tool, require, tool::skipped};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The kernels, compiled for MPICH.
struct Kernels {
    dir: tempfile::TempDir,
    mpiexec: PathBuf,
}

impl Kernels {
    fn compile() -> Self {
        Self::compile_with("-O2")
    }

    /// Compiles the kernels with these options of the C compiler.
    fn compile_with(options: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mpiexec = Tool::Mpich.find().expect("the test requires it");
        let mpicc = mpiexec.with_file_name(
            mpiexec
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .replace("mpiexec.hydra", "mpicc")
                .replace("mpiexec", "mpicc"),
        );
        let sources =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible/roles/kernels/files");
        let made = Command::new("make")
            .arg("-C")
            .arg(sources)
            .arg(format!("MPICC={}", mpicc.display()))
            .arg(format!("CFLAGS={options}"))
            .arg(format!("BINDIR={}", dir.path().display()))
            .output()
            .expect("make");
        assert!(made.status.success(), "{made:?}");
        Self { dir, mpiexec }
    }

    fn run(&self, wrapper: Option<&Path>, kernel: &str, args: &[&str]) -> Output {
        let mut command = Command::new(&self.mpiexec);
        command.args(["-n", "4"]).args(wrapper);
        command.arg(self.dir.path().join(kernel)).args(args);
        command.current_dir(&self.dir).output().expect("mpiexec")
    }
}

/// One line of a kernel's output about its pages.
#[derive(Debug)]
struct Tracked {
    written: u64,
    all: u64,
    changed: u64,
    changed_bytes: u64,
}

fn tracked(output: &Output) -> Vec<Tracked> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with("Tracked "));
    let numbers = lines.map(|line| -> Vec<u64> {
        let numbers = line.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|n| n.parse().ok()).collect()
    });
    numbers
        .map(|n| Tracked {
            written: n[1],
            all: n[2],
            changed: n[3],
            changed_bytes: n[4],
        })
        .collect()
}

fn line<'o>(output: &'o Output, start: &str) -> &'o str {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let line = text.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no {start}: {output:?}"))
}

/// Returns whether the machine can report which pages were written; otherwise records that the test was skipped.
fn is_told_here(output: &Output, test: &str) -> bool {
    if output.status.code() != Some(5) {
        return true;
    }
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        why.contains("--track: the system does not tell which pages were written: userfaultfd: "),
        "{why}"
    );
    skipped(test, "a Linux kernel that tells which pages were written");
    false
}

#[test]
fn pages_that_changed_were_written_and_counting_them_changes_no_result() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile();
    let front = ["--size", "32", "--steps", "60", "--ckpt-every", "20"];
    let stencil = ["--size", "32", "--steps", "6", "--ckpt-every", "2"];
    let block = ["--size", "24", "--steps", "6", "--write-every", "2"];
    for (kernel, args) in [
        ("kernel-front", front),
        ("kernel-stencil", stencil),
        ("kernel-block", block),
    ] {
        let plain = kernels.run(None, kernel, &args);
        let watched: Vec<&str> = args.iter().copied().chain(["--track"]).collect();
        let watched = kernels.run(None, kernel, &watched);
        let test = "kernels::pages_that_changed_were_written_and_counting_them_changes_no_result";
        if !is_told_here(&watched, test) {
            return;
        }
        assert!(plain.status.success(), "{kernel}: {plain:?}");
        assert!(watched.status.success(), "{kernel}: {watched:?}");
        assert!(tracked(&plain).is_empty(), "{plain:?}");
        assert_eq!(line(&plain, "Checksum = "), line(&watched, "Checksum = "));
        let counts = tracked(&watched);
        assert_eq!(counts.len(), 3, "{watched:?}");
        for c in &counts {
            let in_order = c.changed <= c.written && c.written <= c.all && c.changed > 0;
            assert!(in_order, "{kernel}: {c:?}");
            let fits = c.changed <= c.changed_bytes && c.changed_bytes <= c.changed * 4096;
            assert!(fits, "{kernel}: {c:?}");
        }
        let sum: u64 = counts.iter().map(|c| c.written).sum();
        assert_eq!(
            line(&watched, "Pages written = "),
            format!("Pages written = {sum}")
        );
    }
}

#[test]
fn pages_that_are_written_with_equal_bytes_do_not_change() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile();
    // with pace 1000 the front stays in the first plane: in each step the ages of all other planes (three pages of each process, twice) are set to 0
    let args = ["--size", "64", "--steps", "40", "--pace", "1000", "--track"];
    let output = kernels.run(None, "kernel-front", &args);
    let test = "kernels::pages_that_are_written_with_equal_bytes_do_not_change";
    if !is_told_here(&output, test) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    // without checkpoints, pages are counted every 10 steps
    let counts = tracked(&output);
    assert_eq!(counts.len(), 4, "{output:?}");
    assert!(
        counts.iter().all(|c| c.written > c.changed + 10),
        "{counts:?}"
    );
    // all other pages are not written
    assert!(counts.iter().all(|c| c.written < c.all / 4), "{counts:?}");
}

#[test]
fn a_kernel_goes_on_from_its_own_checkpoint_out_of_a_chain_of_deltas() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile();
    let c = campaign(
        "chain",
        &format!("{SITE}[matrix]\napp = \"kernel-front\"\n"),
    );
    let at = |name: &str| kernels.dir.path().join(name).display().to_string();
    let run = |args: &[&str]| {
        let size = ["--size", "32", "--ckpt-dir", &at("own")];
        let args: Vec<&str> = size.into_iter().chain(args.iter().copied()).collect();
        let output = kernels.run(None, "kernel-front", &args);
        assert!(output.status.success(), "{output:?}");
        line(&output, "Checksum = ").to_owned()
    };
    fs::create_dir(at("own")).expect("makes");
    let file = at("own/kernel-front.ckpt");
    let mut states = Vec::new();
    for (state, steps) in ["10", "20", "30", "40"].into_iter().enumerate() {
        let from = at(&format!("state-{state}"));
        let args = ["--steps", steps, "--ckpt-every", "10", "--restart", &from];
        run(&args[..if state == 0 { 4 } else { 6 }]);
        let to = at(&format!("state-{}", state + 1));
        fs::copy(&file, &to).expect("copies");
        // matching by index requires that a file has the same name in all states
        let dir = at(&format!("dir-{}", state + 1));
        fs::create_dir(&dir).expect("makes");
        fs::copy(&file, format!("{dir}/kernel-front.ckpt")).expect("copies");
        states.push(dir);
    }
    let chain = at("chain");
    let options = ["--by", "index", "--method", "incremental"];
    let states: Vec<&str> = states.iter().map(String::as_str).collect();
    let make: Vec<&str> = ["delta", "make", &chain]
        .into_iter()
        .chain(states)
        .chain(options)
        .collect();
    c.cvc(&make).expect(0);
    let end = run(&["--steps", "50", "--restart", &at("state-4")]);
    for state in ["1", "2", "3", "4"] {
        let to = at(&format!("restored-{state}"));
        c.cvc(&["delta", "restore", &chain, state, &to]).expect(0);
        let restored = fs::read(format!("{to}/kernel-front.ckpt")).expect("restored");
        let original = fs::read(at(&format!("state-{state}"))).expect("the original");
        assert!(restored == original, "state {state}");
        assert_eq!(run(&["--steps", "50", "--restart", &to]), end, "{state}");
    }
    // the file is not stored four times in full
    let stored: u64 = fs::read_dir(&chain)
        .expect("the chain")
        .map(|entry| entry.expect("an entry").metadata().expect("a length").len())
        .sum();
    let whole = fs::metadata(&file).expect("the file").len();
    assert!(stored < 2 * whole, "{stored} {whole}");
}

/// Runs a command in which the system call userfaultfd fails, as in containers.
const FORBID: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stddef.h>\n\
    #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv)\n{\n    struct sock_filter rules[] = {\n\
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};\n\
    struct sock_fprog all = {.len = 4, .filter = rules};\n\
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))\n        return 99;\n\
    execv(argv[1], argv + 1);\n    return 98;\n}\n";

#[test]
fn where_the_system_does_not_tell_pages_a_kernel_ends_with_the_reason() {
    require!(Tool::Mpich);
    let kernels = Kernels::compile();
    let source = kernels.dir.path().join("forbid.c");
    fs::write(&source, FORBID).expect("writes");
    let forbid = kernels.dir.path().join("forbid");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&forbid).arg(&source);
    assert!(cc.status().expect("a C compiler").success());
    let args = ["--size", "16", "--steps", "20", "--track"];
    let by = |how: &str| -> Vec<String> {
        let by = ["--track-by".to_owned(), how.to_owned()];
        args.iter().map(|arg| (*arg).to_owned()).chain(by).collect()
    };
    let run = |how: &str| {
        let args = by(how);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        kernels.run(Some(&forbid), "kernel-front", &args)
    };
    let refused = run("userfaultfd");
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr);
    let told = "kernel-front: --track: the system does not tell which pages were written: userfaultfd: the system call: Operation not permitted (a \
                sandbox or container forbids it)";
    assert_eq!(why.matches(told).count(), 1, "{why}");
    assert!(!String::from_utf8_lossy(&refused.stdout).contains("Time step"));
    // the second way to count pages works, or the kernel prints why it cannot be used
    let other = run("auto");
    if other.status.success() {
        assert!(
            line(&other, "Tracking = ").contains("soft-dirty"),
            "{other:?}"
        );
        assert!(tracked(&other).iter().all(|c| c.changed <= c.written));
    } else {
        assert_eq!(other.status.code(), Some(5), "{other:?}");
        let why = String::from_utf8_lossy(&other.stderr);
        assert!(why.contains("forbids it); soft-dirty bits: "), "{why}");
    }
    let unknown = run("guessing");
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("none of auto, userfaultfd, soft-dirty")
    );
}

#[test]
fn kernels_compile_where_the_headers_do_not_know_how_pages_are_told() {
    require!(Tool::Mpich);
    let headers = tempfile::tempdir().expect("a directory");
    let put = |path: &str, text: &str| {
        let path = headers.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
        fs::write(path, text).expect("writes");
    };
    let without_call = "#include_next <sys/syscall.h>\n#undef SYS_userfaultfd\n";
    put("call/sys/syscall.h", without_call);
    // behave like Linux before 5.7, which has no write protection
    let without_protection =
        "#include_next <linux/userfaultfd.h>\n#undef UFFDIO_REGISTER_MODE_WP\n";
    put("old/linux/userfaultfd.h", without_protection);
    put("none/linux/userfaultfd.h", "");
    for of in ["call", "old", "none"] {
        let dir = headers.path().join(of);
        let kernels = Kernels::compile_with(&format!("-O1 -Werror -isystem {}", dir.display()));
        let args = ["--size", "16", "--steps", "20"];
        let plain = kernels.run(None, "kernel-front", &args);
        assert!(plain.status.success(), "{of}: {plain:?}");
        let by = ["--track", "--track-by", "userfaultfd"];
        let watched: Vec<&str> = args.into_iter().chain(by).collect();
        let refused = kernels.run(None, "kernel-front", &watched);
        assert_eq!(refused.status.code(), Some(5), "{of}: {refused:?}");
        let why = String::from_utf8_lossy(&refused.stderr);
        let told =
            "userfaultfd: the headers of the system that compiled this program do not know it";
        assert_eq!(why.matches(told).count(), 1, "{of}: {why}");
    }
}

/// Returns an installed descriptor.
fn descriptor(name: &str) -> toml::Table {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../experiments/apps/{name}.toml"));
    let text = fs::read_to_string(path).expect("the descriptor");
    text.parse().expect("TOML")
}

#[test]
fn kernels_that_count_pages_are_those_that_do_not_in_all_else() {
    for name in ["kernel-front", "kernel-stencil"] {
        let (mut plain, mut tracked) = (descriptor(name), descriptor(&format!("{name}-track")));
        // the sizes of the data differ, because tracking keeps a copy; the variables are the same
        let vars = |of: &toml::Table| -> Vec<(String, toml::Value)> {
            let workloads = of["workloads"].as_table().expect("workloads");
            workloads
                .iter()
                .map(|(class, of)| (class.clone(), of["vars"].clone()))
                .collect()
        };
        assert_eq!(vars(&plain), vars(&tracked), "{name}");
        let more = [
            toml::Value::from("--track"),
            "--track-every".into(),
            "{{w.every}}".into(),
        ];
        for args in ["args", "restart_args"] {
            let of = |of: &toml::Table| of["command"][args].as_array().expect("a list").clone();
            // tracking kernels write their checkpoints in one way only, into one file
            let is_way = |word: &toml::Value| {
                let ways = [
                    "--ckpt-layout",
                    "--ckpt-way",
                    "--ckpt-writers",
                    "--ckpt-late",
                ];
                word.as_str().is_some_and(|word| ways.contains(&word))
            };
            let all = of(&plain);
            let mut expected: Vec<toml::Value> = Vec::new();
            let mut words = all.into_iter();
            while let Some(word) = words.next() {
                if is_way(&word) {
                    words.next();
                } else {
                    expected.push(word);
                }
            }
            expected.extend(more.clone());
            assert_eq!(expected, of(&tracked), "{name}: {args}");
        }
        assert!(tracked.remove("pages").is_some());
        for own in ["name", "title", "workloads", "command"] {
            plain.remove(own);
            tracked.remove(own);
        }
        for of in [&mut plain, &mut tracked] {
            let checkpoint = of["checkpoint"].as_table_mut().expect("a table");
            for key in [
                "files",
                "per_process",
                "layouts",
                "size",
                "ways",
                "stop_s",
                "skipped",
                "signal",
            ] {
                checkpoint.remove(key);
            }
        }
        assert_eq!(plain, tracked, "{name}");
    }
}

/// Descriptor of the moving front, with steps that take the same time on every machine, and six own checkpoints; `{args}` and `{more}` are inserted.
fn front(args: &str, more: &str) -> String {
    format!(
        "schema = 1\nname = \"front\"\ntitle = \"the front, in steps of the same time\"\nkernel = true\n\
         [program]\nnames = [\"kernel-front\"]\ninstall = \"part of cvc\"\n\
         [command]\nargs = [\"--size\", \"64\", \"--steps\", \"210\", \"--pause\", \"15\", \"--ckpt-every\", \"30\", \"--ckpt-dir\", \"{{{{storage}}}}\"{args}]\n\
         [workloads.S]\n[success]\npattern = '^Verification = SUCCESSFUL'\n[progress]\nstep = '^Time step (\\d+)'\n\
         [checkpoint]\nfiles = [\"{{{{storage}}}}/kernel-front.ckpt\"]\n{more}"
    )
}

const TIME: &str = "time_s = '^Checkpoint \\d+ written: \\d+ bytes in ([0-9.]+) s'\n";

fn values(records: &[Value], name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
    let of = records
        .iter()
        .filter(|r| r["name"] == name && labels.iter().all(|(k, v)| r["labels"][*k] == *v));
    of.filter_map(|r| r["value"].as_f64()).collect()
}

/// Returns the values of a label in all records of a name, in the order of the records.
fn labels(records: &[Value], name: &str, label: &str) -> Vec<u64> {
    let of = records.iter().filter(|r| r["name"] == name);
    of.filter_map(|r| r["labels"][label].as_str()?.parse().ok())
        .collect()
}

/// Runs a campaign with one run of the front, whose own checkpoints are stored as a series.
fn series(name: &str, descriptor: &str) -> (cvc_testkit::Campaign, Vec<Value>) {
    series_with(name, descriptor, "")
}

/// Runs such a campaign with further keys in `[checkpoint]`.
fn series_with(
    name: &str,
    descriptor: &str,
    checkpoint: &str,
) -> (cvc_testkit::Campaign, Vec<Value>) {
    let c = campaign(
        name,
        &format!(
            "{SITE}mpi.mpich = {{ family = \"mpich\" }}\n[matrix]\napp = \"front\"\nclass = \"S\"\nmapping = \"1Nx2P\"\n\
             checkpointer = \"application\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n[checkpoint]\nown_series = true\n{checkpoint}"
        ),
    );
    c.put("apps/front.toml", descriptor);
    c.run().expect(0);
    c.assert_whole(1);
    let records = c.records(c.run_names().first().expect("a run"));
    (c, records)
}

#[test]
fn own_checkpoints_are_a_series_by_places_in_their_file() {
    require!(Tool::Mpich);
    let (c, records) = series("own-series", &front("", TIME));
    let of = |name: &str, labels: &[(&str, &str)]| values(&records, name, labels);
    // on a busy machine some checkpoints are overwritten before they are read, but not the last one
    let taken = of("series_checkpoints", &[("planned", "7")])[0];
    assert!((1.0..=7.0).contains(&taken), "{taken}");
    let numbers: Vec<u64> = labels(&records, "series_bytes", "ckpt");
    assert_eq!(numbers.len() as f64, taken);
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&7), "the last one stays");
    // header, 5 variables, and ages
    let bytes = f64::from(4096 + 64 * 64 * (5 * 64 + 1) * 8);
    let all = of("series_bytes", &[]);
    assert_eq!(all.len() as f64, taken);
    assert!(all.iter().all(|b| *b == bytes), "{all:?}");
    assert_eq!(
        of("series_total_bytes", &[("method", "full")]),
        [taken * bytes]
    );
    let first = numbers[0].to_string();
    let since_first = of("series_changed_bytes", &[("since", &first)]);
    assert_eq!(since_first.len() + 1, all.len());
    assert!(
        since_first.is_sorted_by(|a, b| a < b),
        "behind the front: {since_first:?}"
    );
    let stored = |method: &str| of("series_total_bytes", &[("method", method)])[0];
    // for two checkpoints, all methods that store differences store the same
    if taken > 2.0 {
        assert!(stored("incremental") < stored("differential"));
    }
    if taken > 1.0 {
        assert!(stored("differential") < stored("full"));
    }
    // missing checkpoints are reported
    let run = c.run_names().into_iter().next().expect("a run");
    let facts = fs::read_to_string(c.run_dir(&run).join("facts.json")).expect("facts");
    assert_eq!(facts.contains("series_gaps"), taken < 7.0, "{facts}");
    assert!(of("series_zone_changed_bytes", &[]).is_empty(), "no zones");
    assert!(of("series_at_s", &[]).is_sorted_by(|a, b| a < b));
    let path = c.dir().join("reports/own-series/report.md");
    let report = fs::read_to_string(path).expect("a report");
    assert!(
        report.contains("\n## Similarity of checkpoints\n"),
        "{report}"
    );
}

#[test]
fn a_program_is_restarted_from_what_was_restored_from_the_deltas_of_its_own_checkpoints() {
    require!(Tool::Mpich);
    // slow enough to copy each checkpoint before the next one
    let restart = "\"--pause\", \"30\"]\nrestart_args = [\"--size\", \"64\", \"--steps\", \"210\", \"--ckpt-every\", \"30\", \
                   \"--ckpt-dir\", \"{{storage}}\", \"--restart\", \"{{storage}}\"";
    let (c, records) = series_with(
        "own-deltas",
        &front(
            &format!(", {restart}"),
            &format!("{TIME}restartable = true\n"),
        ),
        "restart_check = true\ndeltas = { methods = [\"incremental\", \"full\"], codecs = [\"lz4\"], keep = true }\n",
    );
    let of = |name: &str, labels: &[(&str, &str)]| values(&records, name, labels);
    assert_eq!(of("restart_verified", &[]), [1.0]);
    let taken = of("series_checkpoints", &[("planned", "7")])[0];
    assert!((2.0..=7.0).contains(&taken), "{taken}");
    let numbers = labels(&records, "series_bytes", "ckpt");
    for method in ["incremental", "full"] {
        let labels = [("method", method), ("codec", "lz4"), ("block", "4096")];
        for name in ["series_file_bytes", "series_store_s", "series_restore_s"] {
            let values = of(name, &labels);
            assert_eq!(values.len() as f64, taken, "{name} {labels:?} {records:?}");
            assert!(values.iter().all(|v| *v > 0.0), "{name}: {values:?}");
        }
    }
    // records of stored bytes have the same checkpoint numbers as records of comparisons
    let stored = records.iter().filter(|r| r["name"] == "series_file_bytes");
    let stored: Vec<u64> = stored
        .filter(|r| r["labels"]["method"] == "incremental")
        .filter_map(|r| r["labels"]["ckpt"].as_str()?.parse().ok())
        .collect();
    assert_eq!(stored, numbers);
    let files = |method: &str| of("series_file_bytes", &[("method", method)]);
    let (deltas, full) = (files("incremental"), files("full"));
    assert!(deltas[1] < full[1], "{deltas:?} {full:?}");
    // the file of the last checkpoint was restored and compared with the original
    let bytes = f64::from(4096 + 64 * 64 * (5 * 64 + 1) * 8);
    assert_eq!(of("series_restarted_bytes", &[("ckpt", "7")]), [bytes]);
    let run = c.run_names().pop_first().expect("a run");
    let series = cvc_delta::Series::open(&c.run_dir(&run).join("deltas")).expect("the series");
    assert_eq!(series.states().len() as f64, taken);
    for state in series.states() {
        assert_eq!(state.content_bytes as f64, bytes);
        series.verify(state.state, None, &|_| {}).expect("whole");
    }
    c.assert_nothing_left();
}

#[test]
fn checkpoints_of_programs_that_tell_nothing_are_measured_when_their_files_rest() {
    require!(Tool::Mpich);
    let (_, records) = series("own-quiet", &front(", \"--pause\", \"40\"", ""));
    // 30 steps take 1.2 s, and a file is complete when it was unchanged for half a second
    assert!(values(&records, "series_checkpoints", &[])[0] >= 2.0);
    let changed = values(
        &records,
        "series_changed_bytes",
        &[("ckpt", "2"), ("since", "1")],
    );
    assert!(changed[0] > 0.0, "{changed:?}");
}

#[test]
fn pages_that_a_kernel_counts_stand_in_the_report_beside_what_its_files_say() {
    require!(Tool::Mpich);
    let pages = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../experiments/apps/kernel-front-track.toml"),
    )
    .expect("the descriptor");
    let pages = pages
        .split("[pages]")
        .nth(1)
        .and_then(|rest| rest.split("[io]").next())
        .expect("patterns");
    let probe = Kernels::compile().run(None, "kernel-front", &["--steps", "10", "--track"]);
    let test = "kernels::pages_that_a_kernel_counts_stand_in_the_report_beside_what_its_files_say";
    if !is_told_here(&probe, test) {
        return;
    }
    let (c, records) = series(
        "tracked",
        &front(", \"--track\"", &format!("{TIME}[pages]{pages}")),
    );
    let of = |name: &str| values(&records, name, &[]);
    let (all, written, changed) = (
        of("pages_tracked"),
        of("pages_written"),
        of("pages_changed"),
    );
    assert_eq!((all.len(), written.len(), changed.len()), (7, 7, 7));
    for i in 0..7 {
        assert!(
            0.0 < changed[i] && changed[i] <= written[i] && written[i] < all[i],
            "{records:?}"
        );
    }
    assert!(of("pages_changed_bytes").iter().all(|bytes| *bytes > 0.0));
    assert_eq!(of("pages_scan_s").len() + of("pages_compare_s").len(), 14);
    let path = c.dir().join("reports/tracked/report.md");
    let report = fs::read_to_string(path).expect("a report");
    let section = report
        .split("\n## ")
        .find(|section| section.starts_with("Pages written and changed\n"))
        .expect("a section");
    for heading in [
        "written",
        "changed, of written",
        "time to list written",
        "by hash",
    ] {
        assert!(section.contains(heading), "{heading}: {section}");
    }
}
