//! Measures the time that cvc adds to each run on four nodes: a campaign of runs that do nothing on an ssh site, and for comparison `ssh HEAD
//! mpiexec`, in the same minutes and on the same lab.
//!
//! `CVC_BENCH_RUNS` changes the number of runs. Without `--bench` (cargo test) only a few runs show that the benchmark works.

#![expect(clippy::print_stdout, reason = "a benchmark tells what it measured")]
#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "a benchmark is not a library"
)]

#[path = "../tests/it/common/cluster.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod cluster;

use cluster::{OnLab, ssh_site};
use cvc_testkit::{Lab, Tool};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

/// Runs in one round. The rounds of both alternatives are interleaved, so that a drift of the machine affects both.
const ROUND: usize = 10;

const NOOP: &str = "schema = 1\nname = \"noop\"\ntitle = \"a program of a benchmark\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n\
                    [command]\nargs = [\"-c\", \"echo SUCCESS\"]\n[workloads.any]\n[success]\npattern = '^SUCCESS'\n";

fn main() {
    let bench = std::env::args().any(|a| a == "--bench");
    for tool in [Tool::Lab, Tool::Mpich5, Tool::OpenMpi] {
        if tool.find().is_none() {
            cvc_testkit::tool::skipped("cluster", tool.name());
            return;
        }
    }
    let given = std::env::var("CVC_BENCH_RUNS")
        .ok()
        .and_then(|n| n.parse().ok());
    let runs: usize = if bench { given.unwrap_or(30) } else { 2 };
    let mpich = Tool::Mpich5
        .find()
        .expect("it is there")
        .display()
        .to_string();
    let openmpi = Tool::OpenMpi
        .find()
        .expect("it is there")
        .display()
        .to_string();
    let mpich_line = format!(
        "{mpich} -launcher ssh -iface eth0 -hosts n1,n2,n3,n4 -ppn 1 -n 4 sh -c 'echo SUCCESS'"
    );
    let openmpi_line = format!(
        "{openmpi} --allow-run-as-root --host n1,n2,n3,n4 --map-by ppr:1:node --bind-to none --mca btl_tcp_if_include eth0 \
         --mca oob_tcp_if_include eth0 -n 4 sh -c 'echo SUCCESS'"
    );
    println!("{runs} runs over 4 nodes that do nothing, 1 process on each");
    for (library, line) in [("mpich5", mpich_line), ("openmpi", openmpi_line)] {
        let text = |n: usize| {
            format!(
                "{}[matrix]\napp = \"noop\"\nmapping = \"4Nx1P\"\nmpi = \"{library}\"\n[run]\nrepeats = {n}\nretries = 0\n[report]\nformats = [\"json\"]\n",
                ssh_site(4, "")
            )
        };
        let on = OnLab::new(Lab::builder().nodes(4).build(), "overhead", &text(1));
        on.campaign.put("apps/noop.toml", NOOP);
        let (mut plain, mut cvc, mut whole) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let mut done = 0;
        while done < runs {
            let round = ROUND.min(runs - done);
            let begin = Instant::now();
            for _ in 0..round {
                let mut command = on.lab.command("ssh");
                command
                    .args(["n1", &line])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                assert!(command.status().expect("ssh").success(), "{line}");
            }
            plain += begin.elapsed();

            // increase the repeats of the same campaign, which then does only the new runs
            done += round;
            on.campaign.rewrite(&text(done));
            let before = on.campaign.journal().len();
            let finished = on.run().expect(0);
            whole += finished.took;
            let of_runs: Vec<_> = on.campaign.journal()[before..]
                .iter()
                .filter(|e| e["run"].is_string())
                .cloned()
                .collect();
            if let (Some(first), Some(last)) = (of_runs.first(), of_runs.last()) {
                cvc += Duration::from_secs_f64(
                    (timestamp(&last["at"]) - timestamp(&first["at"])).max(0.0),
                );
            }
        }
        assert_eq!(on.campaign.finishes().len(), runs);
        let ms = |d: Duration| d.as_secs_f64() * 1e3 / runs as f64;
        println!("  {library}");
        println!("    ssh HEAD mpiexec           {:8.0} ms a run", ms(plain));
        println!(
            "    cvc, first to last run     {:8.0} ms a run  (verified, placed, fetched, journal and directories synced)",
            ms(cvc)
        );
        let launcher: f64 = on
            .campaign
            .finishes()
            .keys()
            .map(|run| wall_s(&on.campaign.run_dir(run)))
            .sum();
        println!(
            "      of it launcher and program {:6.0} ms a run",
            launcher * 1e3 / runs as f64
        );
        println!(
            "    overhead                   {:8.0} ms a run,  ratio {:.2}",
            ms(cvc) - ms(plain),
            ms(cvc) / ms(plain)
        );
        println!(
            "    cvc, start to exit         {:8.0} ms a run  ({} times connecting, agent, sentinels, looking for software, report)",
            ms(whole),
            runs.div_ceil(ROUND)
        );
    }
}

/// Returns the time of a run's launcher, seconds.
fn wall_s(run: &std::path::Path) -> f64 {
    cvc_testkit::campaign::read_json(&run.join("outcome.json"))["wall_s"]
        .as_f64()
        .expect("a time")
}

/// Returns the time of day, seconds; a benchmark that lasts over midnight is invalid.
fn timestamp(value: &serde_json::Value) -> f64 {
    let text = value.as_str().expect("a time");
    let clock = text
        .split_once('T')
        .map_or("", |(_, t)| t.trim_end_matches('Z'));
    clock.split(':').fold(0.0, |sum, part| {
        sum * 60.0 + part.parse::<f64>().expect("a number")
    })
}
