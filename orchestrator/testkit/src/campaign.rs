//! Real campaigns in temporary directories, run by the real program with a time limit.

use crate::process;
use camino::Utf8Path;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Default time limit of one command.
pub const LIMIT: Duration = Duration::from_secs(900);

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall-clock duration.
    pub took: Duration,
}

impl Finished {
    /// Panics with the command's output unless the exit code is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// A running command, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    begin: Instant,
    stdout: PathBuf,
    stderr: PathBuf,
    _output: tempfile::TempDir,
}

impl Running {
    /// Starts a command with its output in files, so that no pipe fills up or is held open by its background processes.
    pub fn start(mut command: Command) -> Self {
        let output = tempfile::tempdir().expect("a directory for the output");
        let (stdout, stderr) = (output.path().join("stdout"), output.path().join("stderr"));
        let create =
            |path: &Path| File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        command
            .stdin(Stdio::null())
            .stdout(create(&stdout))
            .stderr(create(&stderr));
        let begin = Instant::now();
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Self {
            child,
            begin,
            stdout,
            stderr,
            _output: output,
        }
    }

    /// Returns the process id of the command.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Returns whether the command is still running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the standard output until now.
    pub fn stdout_so_far(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// Returns the standard error until now.
    pub fn stderr_so_far(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Kills the command without notice, as a power loss would.
    pub fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// Waits until the command ends; panics if that takes longer than the limit.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Finished {
        let status = loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                break status;
            }
            if self.begin.elapsed() > limit {
                self.signal(Signal::SIGKILL);
                panic!(
                    "not finished within {limit:?}; standard error: {}",
                    self.stderr_so_far()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.begin.elapsed();
        let text =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Finished {
            code: status.code(),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
            took,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // a command that was not waited for means that the test has failed
        if std::thread::panicking() {
            eprintln!(
                "standard error of a command that was not waited for:\n{}",
                self.stderr_so_far()
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// First line of scripts. If a rank ends before MPICH's Hydra has sent it all data, Hydra fails in about one of a hundred cases, and exits with 141
/// or 255.
const HYDRAS_TIME: &str = "sleep 0.05\n";

/// A campaign in a temporary directory. Dropping it ends all processes that still use the directory.
#[derive(Debug)]
pub struct Campaign {
    dir: tempfile::TempDir,
    cvc: PathBuf,
    name: String,
    env: BTreeMap<String, String>,
}

impl Campaign {
    /// Writes a campaign file with this text, and adds `schema` and `name` to it. `cvc` is the path of the program that runs the campaign.
    pub fn new(cvc: &str, name: &str, text: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cvc-test-")
            .tempdir()
            .expect("a directory");
        let campaign = Self {
            dir,
            cvc: cvc.into(),
            name: name.into(),
            env: BTreeMap::new(),
        };
        campaign.rewrite(text);
        campaign
    }

    /// Replaces the campaign file.
    pub fn rewrite(&self, text: &str) {
        let written = self.put(
            ".campaign.toml",
            &format!("schema = 1\nname = \"{}\"\n{text}", self.name),
        );
        // rename, so that a `cvc` that is reading the file gets either the old or the new content
        fs::rename(&written, self.dir().join("campaign.toml"))
            .unwrap_or_else(|e| panic!("{}: {e}", written.display()));
    }

    /// Sets a variable for every command.
    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Returns the temporary directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the campaign's own directory.
    pub fn root(&self) -> PathBuf {
        self.dir().join("campaigns").join(&self.name)
    }

    /// Returns a path below `runs/`.
    pub fn run_dir(&self, name: &str) -> PathBuf {
        self.root().join("runs").join(name)
    }

    /// Writes a file below the temporary directory.
    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        let parent = path.parent().expect("a parent");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// Adds an application whose program is a shell script: `SUCCESS` is its success pattern, `Time step N` its progress. `extra` is
    /// appended to the descriptor.
    pub fn script_app(&self, name: &str, script: &str, extra: &str) -> &Self {
        // sh reads this file: a file that another thread's child still has open for writing could not be executed
        let path = self.put(&format!("bin/{name}.sh"), &format!("{HYDRAS_TIME}{script}"));
        self.put(
            &format!("apps/{name}.toml"),
            &format!(
                "schema = 1\nname = \"{name}\"\ntitle = \"a script of a test\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n\
                 [command]\nargs = [\"{}\"]\n[workloads.any]\n[success]\npattern = '^SUCCESS'\nforbid = '^FAILURE'\n\
                 [progress]\nstep = '^Time step (\\d+)'\n{extra}",
                path.display()
            ),
        );
        self
    }

    /// Creates a `cvc` command in this directory. All tests share its cache, so that kernels are compiled once.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.cvc);
        command
            .args(args)
            .current_dir(self.dir())
            .env("XDG_CACHE_HOME", cache())
            .env("XDG_STATE_HOME", cache().join("state"))
            .env_remove("CVC_CAMPAIGNS")
            // do not wait for other tests that measure at the same time
            .env("CVC_MEASURING_DIR", self.dir())
            .envs(&self.env);
        command
    }

    /// Runs `cvc` to its end.
    #[track_caller]
    pub fn cvc(&self, args: &[&str]) -> Finished {
        self.start(args).wait(LIMIT)
    }

    /// Runs `cvc run` of this campaign to its end.
    #[track_caller]
    pub fn run(&self) -> Finished {
        self.cvc(&["run", "campaign.toml"])
    }

    /// Starts `cvc`.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Returns the journal's lines.
    pub fn journal(&self) -> Vec<Value> {
        json_lines(&self.root().join("journal.jsonl"))
    }

    /// Returns the journal's lines of one kind.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.journal()
            .into_iter()
            .filter(|e| e["event"] == kind)
            .collect()
    }

    /// Returns the number of times that each run finished, by identifier of the run.
    pub fn finishes(&self) -> BTreeMap<String, usize> {
        let mut finishes = BTreeMap::new();
        for event in self.events("run-finished") {
            *finishes
                .entry(event["run"].as_str().expect("a run").to_owned())
                .or_default() += 1;
        }
        finishes
    }

    /// Returns the causes and details of failed attempts, in order.
    pub fn failures(&self) -> Vec<(String, String)> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        self.events("run-finished")
            .iter()
            .filter(|e| e["outcome"]["result"] == "failed")
            .map(|e| (text(&e["outcome"]["cause"]), text(&e["outcome"]["detail"])))
            .collect()
    }

    /// Returns the names below `runs/`.
    pub fn run_names(&self) -> BTreeSet<String> {
        let Ok(entries) = fs::read_dir(self.root().join("runs")) else {
            return BTreeSet::new();
        };
        entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the records of a run directory.
    pub fn records(&self, run: &str) -> Vec<Value> {
        json_lines(&self.run_dir(run).join("records.jsonl"))
    }

    /// Lists the living processes of this campaign.
    pub fn processes(&self) -> Vec<(i32, String)> {
        process::of_directory(self.dir())
    }

    /// Lists the private temporary directories of this campaign's runs that still exist.
    pub fn private_dirs(&self) -> Vec<String> {
        let mut left = Vec::new();
        for run in self.run_names() {
            let script =
                fs::read_to_string(self.run_dir(&run).join("launch.sh")).unwrap_or_default();
            let tmp = script
                .lines()
                .find_map(|l| l.strip_prefix("export TMPDIR="))
                .map(|t| t.trim_matches('\'').to_owned());
            left.extend(tmp.filter(|t| Path::new(t).exists()));
        }
        left
    }

    /// Panics if a campaign that is not running left processes, private directories, partial run directories or working directories behind.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        // A shepherd that has reported the end of its run, or that was never used, may still be exiting.
        crate::wait_until("the end of its processes", Duration::from_secs(10), || {
            self.processes().is_empty()
        });
        assert_eq!(
            self.private_dirs(),
            Vec::<String>::new(),
            "private directories are left"
        );
        let partial: Vec<String> = self
            .run_names()
            .into_iter()
            .filter(|n| n.ends_with(".partial"))
            .collect();
        assert_eq!(
            partial,
            Vec::<String>::new(),
            "partial run directories are left"
        );
        let work = fs::read_dir(self.root().join("work"))
            .map(|d| d.flatten().map(|e| e.path()).collect::<Vec<_>>())
            .unwrap_or_default();
        assert_eq!(work, Vec::<PathBuf>::new(), "working directories are left");
    }

    /// Panics unless exactly `runs` runs succeeded, each finished once, and the run directories agree with the journal.
    #[track_caller]
    pub fn assert_whole(&self, runs: usize) {
        let finishes = self.finishes();
        assert_eq!(finishes.len(), runs, "runs that finished: {finishes:?}");
        assert!(
            finishes.values().all(|n| *n == 1),
            "each exactly once: {finishes:?}; failures: {:?}",
            self.failures()
        );
        for event in self.events("run-finished") {
            let run = event["run"].as_str().expect("a run");
            assert_eq!(event["outcome"]["result"], "succeeded", "{event}");
            let outcome: Value = read_json(&self.run_dir(run).join("outcome.json"));
            assert_eq!(
                outcome["records"], event["records"],
                "run {run}: directory and journal"
            );
            assert!(!self.records(run).is_empty(), "run {run} has records");
            assert!(self.run_dir(run).join("launch.sh").is_file());
        }
        assert_eq!(self.run_names().len(), runs, "{:?}", self.run_names());
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        // kill even after a panic; use SIGKILL, because programs under DMTCP ignore SIGTERM
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for (pid, _) in left {
                process::signal(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for dir in self.private_dirs() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Returns the directory of the kernels that tests compile: next to the build directory, separate for each user.
pub fn cache() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // target/debug/deps/TEST
    let target = test
        .ancestors()
        .nth(3)
        .map_or_else(std::env::temp_dir, Path::to_owned);
    let dir = target
        .join("tmp")
        .join(format!("cvc-test-cache-{}", nix::unistd::geteuid()));
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

/// Converts a path to UTF-8; panics if that is impossible.
pub fn utf8(path: &Path) -> &Utf8Path {
    Utf8Path::from_path(path).unwrap_or_else(|| panic!("{} is not UTF-8", path.display()))
}

/// Reads a JSON file.
pub fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Reads a file with a JSON object on each line; an incomplete last line is ignored.
pub fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{}: {e}: {l}", path.display())))
        .collect()
}
