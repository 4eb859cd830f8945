//! Measures the time that cvc adds to each run: a campaign of 500 runs that do nothing, and for comparison the same launches without cvc in the same
//! minutes. Reports the median of rounds, because disks of rented machines are slow at times.
//!
//! The alternative for a user is a loop in bash that keeps each run's output. Such a loop has no journal, no cleanup and no resumption. Other
//! alternatives are ReFrame, Snakemake and JUBE, which are measured if they are on PATH, each with its default settings and one run at a time.
//! `CVC_BENCH_RUNS` changes the number of runs. Without `--bench` (cargo test) only a few runs show that the benchmark works.

#![expect(clippy::print_stdout, reason = "a benchmark tells what it measured")]
#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "a benchmark is not a library"
)]

use cvc_testkit::{Campaign, Tool};
use std::{
    fmt::{self, Display, Formatter},
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Launches in one round. The rounds of all alternatives are interleaved, so that a drift of the machine affects all of them.
const ROUND: usize = 25;

fn main() {
    let bench = std::env::args().any(|a| a == "--bench");
    let Some(mpiexec) = Tool::Mpich.find() else {
        cvc_testkit::tool::skipped("overhead", Tool::Mpich.name());
        return;
    };
    let given = std::env::var("CVC_BENCH_RUNS")
        .ok()
        .and_then(|n| n.parse().ok());
    let runs: usize = if bench { given.unwrap_or(500) } else { 3 };
    let dir = tempfile::tempdir().expect("a directory");
    let out = || File::create(dir.path().join("out")).expect("a file");

    let text = |n: usize| {
        format!(
            "[sites.local]\nkind = \"local\"\nmpi.mpich = {{ family = \"mpich\" }}\n[matrix]\napp = \"noop\"\nprocesses = 1\n[run]\nrepeats = {n}\n[report]\nformats = [\"json\"]\n"
        )
    };
    let c = Campaign::new(env!("CARGO_BIN_EXE_cvc"), "overhead", &text(1));
    c.script_app("noop", "echo SUCCESS\n", "");
    let script = c.dir().join("bin/noop.sh");
    let mut peers: Vec<(Peer, PathBuf, Rounds)> = Vec::new();
    for peer in PEERS {
        match on_path(peer.program) {
            Some(program) => peers.push((peer, program, Rounds::default())),
            None => cvc_testkit::tool::skipped("overhead", peer.program),
        }
    }
    let [mut plain, mut bash, mut cvc, mut whole] = [(); 4].map(|()| Rounds::default());
    let mut done = 0;
    while done < runs {
        let round = ROUND.min(runs - done);
        let begin = Instant::now();
        for _ in 0..round {
            let mut command = Command::new(&mpiexec);
            command
                .args(["-n", "1", "sh"])
                .arg(&script)
                .stdin(Stdio::null())
                .stdout(out())
                .stderr(out());
            assert!(command.status().expect("mpiexec").success());
        }
        plain.add(begin.elapsed(), round);

        let begin = Instant::now();
        let line = "for i in $(seq \"$1\"); do mkdir -p \"$2/$i\" && \"$3\" -n 1 sh \"$4\" >\"$2/$i/stdout\" 2>\"$2/$i/stderr\" </dev/null || exit 1; done";
        let status = Command::new("bash")
            .args(["-c", line, "loop", &round.to_string()])
            .arg(dir.path().join(format!("loop-{done}")))
            .arg(&mpiexec)
            .arg(&script)
            .status();
        assert!(status.is_ok_and(|s| s.success()), "the loop in bash");
        bash.add(begin.elapsed(), round);

        for (peer, program, took) in &mut peers {
            let place = dir.path().join(format!("{}-{done}", peer.program));
            std::fs::create_dir(&place).expect("makes");
            let text = peer
                .text
                .replace("RUNS", &round.to_string())
                .replace("MPIEXEC", utf8(&mpiexec))
                .replace("SCRIPT", utf8(&script));
            std::fs::write(place.join(peer.file), text).expect("writes");
            let begin = Instant::now();
            let output = Command::new(program)
                .args(peer.args)
                .current_dir(&place)
                .env("HOME", &place)
                .stdin(Stdio::null())
                .output();
            took.add(begin.elapsed(), round);
            let output = output.expect("starts");
            assert!(
                output.status.success(),
                "{}: {}",
                peer.program,
                String::from_utf8_lossy(&output.stderr)
            );
        }

        // increase the repeats of the same campaign, which then does only the new runs
        done += round;
        c.rewrite(&text(done));
        let before = c.journal().len();
        let finished = c
            .start(&["run", "campaign.toml"])
            .wait(Duration::from_secs(600))
            .expect(0);
        whole.add(finished.took, round);
        let times: Vec<Timestamp> = c.journal()[before..]
            .iter()
            .filter(|e| e["run"].is_string())
            .map(|e| timestamp(&e["at"]))
            .collect();
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            cvc.add(Duration::from_secs_f64((last - first).max(0.0)), round);
        }
    }
    assert_eq!(c.finishes().len(), runs);
    println!(
        "{runs} runs that do nothing, each started by {}; medians of rounds of {ROUND}",
        mpiexec.display()
    );
    println!("  mpiexec alone              {plain} a run");
    println!("  a loop in bash             {bash} a run");
    println!("  cvc, first to last run     {cvc} a run  (journal, records and directories synced)");
    println!(
        "  cvc, start to exit         {whole} a run  (with a start of cvc, a look for software and a report in each round)"
    );
    let over = |rounds: &Rounds| {
        Rounds(
            rounds
                .0
                .iter()
                .zip(&plain.0)
                .map(|(ours, alone)| ours - alone)
                .collect(),
        )
    };
    println!(
        "  overhead of cvc            {} a run over mpiexec alone in the same round",
        over(&cvc)
    );
    for (peer, _, took) in &peers {
        let times = over(took).median_ms() / over(&whole).median_ms();
        println!(
            "  {:<27}{took} a run, start to exit: {times:.1} times the overhead of cvc, start to exit",
            peer.program
        );
    }
}

/// Milliseconds per run, for each round.
#[derive(Default)]
struct Rounds(Vec<f64>);

impl Rounds {
    fn add(&mut self, took: Duration, runs: usize) {
        self.0.push(took.as_secs_f64() * 1e3 / runs as f64);
    }

    fn median_ms(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl Display for Rounds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        write!(f, "{:8.2} ms ({least:.1} to {most:.1})", self.median_ms())
    }
}

/// An alternative program that does the same runs, one after another.
struct Peer {
    program: &'static str,
    args: &'static [&'static str],
    file: &'static str,
    /// The alternative's input file, in which `RUNS`, `MPIEXEC` and `SCRIPT` are replaced.
    text: &'static str,
}

const PEERS: [Peer; 3] = [
    Peer {
        program: "snakemake",
        args: &["--cores", "1", "--quiet", "all"],
        file: "Snakefile",
        text: "rule all:\n    input: expand(\"out/{n}\", n=range(RUNS))\nrule one:\n    output: \"out/{n}\"\n    \
               shell: \"MPIEXEC -n 1 sh SCRIPT >{output} && grep -q SUCCESS {output}\"\n",
    },
    Peer {
        program: "reframe",
        args: &["--checkpath=noop.py", "-r", "--exec-policy=serial"],
        file: "noop.py",
        text: "import reframe as rfm\nimport reframe.utility.sanity as sn\n\n@rfm.simple_test\nclass Noop(rfm.RunOnlyRegressionTest):\n    \
               n = parameter(range(RUNS))\n    valid_systems = ['*']\n    valid_prog_environs = ['*']\n    executable = 'MPIEXEC'\n    \
               executable_opts = ['-n', '1', 'sh', 'SCRIPT']\n\n    @sanity_function\n    def ok(self):\n        \
               return sn.assert_found('SUCCESS', self.stdout)\n",
    },
    Peer {
        program: "jube",
        args: &["run", "noop.yaml"],
        file: "noop.yaml",
        text: "name: noop\noutpath: runs\nparameterset:\n  name: p\n  parameter: {name: n, type: int, mode: python, _: \"','.join(map(str, range(RUNS)))\"}\n\
               step:\n  name: run\n  use: p\n  do: MPIEXEC -n 1 sh SCRIPT\n",
    },
];

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Time of day, seconds; a benchmark that lasts over midnight is invalid.
type Timestamp = f64;

fn timestamp(value: &serde_json::Value) -> Timestamp {
    let text = value.as_str().expect("a time");
    let clock = text
        .split_once('T')
        .map_or("", |(_, t)| t.trim_end_matches('Z'));
    clock.split(':').fold(0.0, |sum, part| {
        sum * 60.0 + part.parse::<f64>().expect("a number")
    })
}
