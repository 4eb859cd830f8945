//! Tests of processes with threads: the requested number, the number in the program, and the cores that the kernel allowed.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require};
use std::{os::unix::fs::PermissionsExt, path::Path};

const POINTS: &str = "[matrix]\napp = \"kernel-stencil-omp\"\nclass = \"S\"\nmpi = \"mpich\"\n";
/// A launcher that ignores the options for binding.
const UNBOUND: &str = "#!/bin/bash\nwords=()\nwhile [ $# -gt 0 ]; do\n  case $1 in -bind-to) shift 2 ;; *) words+=(\"$1\"); shift ;; esac\ndone\n\
    exec MPIEXEC \"${words[@]}\"\n";
const RUN: &str = "[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

/// Returns the compiler wrapper next to a launcher.
fn mpicc(mpiexec: &Path) -> String {
    let name = mpiexec.file_name().expect("a name").to_string_lossy();
    let name = match name.strip_prefix("mpiexec.") {
        Some(suffix) => format!("mpicc.{}", suffix.replace("hydra", "mpich")),
        None => "mpicc".to_owned(),
    };
    mpiexec.with_file_name(name).display().to_string()
}

/// Returns the value of a run's record.
fn value(c: &Campaign, run: &str, name: &str) -> Option<f64> {
    let records = c.records(run);
    records.iter().find(|r| r["name"] == name)?["value"].as_f64()
}

#[test]
fn threads_are_bound_to_cores_of_their_own_counted_and_shown() {
    require!(Tool::Mpich);
    let c = campaign(
        "threads",
        &format!("{SITE}{POINTS}mapping = [\"1Nx1Px2T\", \"1Nx2Px1T\", \"1Nx2P\"]\n{RUN}"),
    );
    let plan = c.cvc(&["plan"]).expect(0).stdout;
    assert!(
        plan.contains("1Nx1Px2T") && !plan.contains("threads ="),
        "{plan}"
    );
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return;
    }
    c.run().expect(0);
    let mut seen = Vec::new();
    for run in c.run_names() {
        let dir = c.run_dir(&run);
        let mapping = read_json(&dir.join("run.json"))["point"]["mapping"].clone();
        let got = ["threads_effective", "cores_allowed"].map(|name| value(&c, &run, name));
        let script = std::fs::read_to_string(dir.join("launch.sh")).expect("its script");
        let sets = |line: &str| script.contains(line);
        match mapping.as_str().expect("a text") {
            "1Nx1Px2T" => {
                assert_eq!(got, [Some(2.0), Some(2.0)], "{script}");
                assert!(sets("export OMP_NUM_THREADS='2'") || sets("export OMP_NUM_THREADS=2"));
                assert!(sets("-bind-to") && sets("OMP_PROC_BIND"), "{script}");
            }
            "1Nx2Px1T" => assert_eq!(got, [Some(1.0), Some(1.0)], "{script}"),
            // without a request nothing is set and nothing is verified
            _ => {
                assert_eq!(got, [None, None], "{script}");
                assert!(!sets("OMP_") && !sets("-bind-to"), "{script}");
            }
        }
        seen.push(mapping);
    }
    assert_eq!(seen.len(), 3);
    let report = c.dir().join("reports/threads/report.md");
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(report.contains("| threads |"), "{report}");
}

#[test]
fn a_program_with_other_threads_and_a_launcher_that_binds_nothing_fail() {
    require!(Tool::Mpich);
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return;
    }
    let points = format!("{POINTS}mapping = \"1Nx2Px1T\"\n{RUN}");
    let c = campaign("unbound", &format!("{SITE}{points}"));
    let mpich = Tool::Mpich.find().expect("the test requires it");
    let launcher = c.put(
        "mpiexec",
        &UNBOUND.replace("MPIEXEC", &mpich.display().to_string()),
    );
    std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755)).expect("a mode");
    let launcher = launcher.display();
    c.rewrite(&format!(
        "{SITE}mpi.mpich = {{ family = \"mpich\", mpiexec = \"{launcher}\" }}\n{points}"
    ));
    c.put(
        "mpicc",
        &format!("#!/bin/sh\nexec {} \"$@\"\n", mpicc(&mpich)),
    );
    std::fs::set_permissions(c.dir().join("mpicc"), PermissionsExt::from_mode(0o755))
        .expect("a mode");
    c.run().expect(10);
    let failures = c.failures();
    let (cause, detail) = &failures[0];
    assert_eq!(cause, "setting-ignored", "{detail}");
    assert!(detail.contains("ranks 0 and 1 share core"), "{detail}");

    let c = campaign(
        "other-threads",
        &format!(
            "{SITE}{}mapping = \"1Nx1Px2T\"\n{RUN}",
            POINTS.replace("kernel-stencil-omp", "stubborn")
        ),
    );
    let text = include_str!("../../../../experiments/apps/kernel-stencil-omp.toml");
    let text = text
        .replace("name = \"kernel-stencil-omp\"\n", "name = \"stubborn\"\n")
        .replace(
            "[command]\n",
            "[command]\nenv = { OMP_NUM_THREADS = \"1\" }\n",
        );
    c.put("apps/stubborn.toml", &text);
    c.run().expect(10);
    assert_eq!(
        c.failures(),
        [(
            "setting-ignored".to_owned(),
            "2 threads requested for each process, but the program had 1 thread".to_owned()
        )]
    );
}

#[test]
fn nodes_too_small_for_threads_are_refused_as_for_processes() {
    require!(Tool::Mpich);
    let site = format!("{SITE}oversubscribe = false\n");
    let c = campaign(
        "too-many-threads",
        &format!("{site}{POINTS}mapping = \"1Nx1P\"\nthreads = 4096\n{RUN}"),
    );
    let said = c.cvc(&["plan"]).expect(0);
    let said = said.stdout + &said.stderr;
    assert!(said.contains("1Nx1Px4096T puts"), "{said}");
    assert!(said.contains("threads on a node"), "{said}");
}
