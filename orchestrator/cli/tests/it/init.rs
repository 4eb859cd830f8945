//! Tests of `cvc init`: every file that it writes can be planned, wrong answers are reported, and nothing is written incompletely.

use crate::common::campaign;
use cvc_testkit::{Campaign, Tool, require};
use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

const MEASURES: [&str; 6] = [
    "sizes",
    "restart",
    "overhead",
    "compression",
    "aggregators",
    "scaling",
];
const SITES: [&[&str]; 5] = [
    &["--site", "local"],
    &["--site", "ssh", "--hosts", "n1,n2,n3"],
    &["--site", "slurm", "--nodes", "4", "--partition", "short"],
    &["--site", "slurm", "--nodes", "1", "--login", "login"],
    &[
        "--site",
        "ec2",
        "--region",
        "us-east-1",
        "--instance-types",
        "c5.xlarge,c5a.xlarge",
        "--nodes",
        "2",
    ],
];

/// Returns a directory for new campaigns.
fn place() -> Campaign {
    campaign("unused", "")
}

/// Writes a campaign file with `cvc init`, plans it, and returns the plan and the file's text.
fn planned(c: &Campaign, args: &[&str]) -> (serde_json::Value, String) {
    let all: Vec<&str> = ["init", "new.toml", "--force"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    c.cvc(&all).expect(0);
    let plan = c.cvc(&["plan", "--json", "new.toml"]).expect(0);
    let warned = plan.stderr;
    assert!(warned.is_empty(), "{args:?}: {warned}");
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
    assert!(
        !plan["points"].as_array().expect("points").is_empty(),
        "{args:?}: {plan}"
    );
    (
        plan,
        fs::read_to_string(c.dir().join("new.toml")).expect("a campaign file"),
    )
}

/// Returns the levels of a factor in a plan.
fn values(plan: &serde_json::Value, factor: &str) -> Vec<String> {
    let points = plan["points"].as_array().expect("points").iter();
    let mut values: Vec<String> = points
        .map(|p| p["point"][factor].to_string().replace('"', ""))
        .collect();
    values.sort();
    values.dedup();
    values
}

#[test]
fn every_choice_of_measures_plans_on_every_site() {
    let c = place();
    for chosen in 1u32..1 << MEASURES.len() {
        let measures: Vec<&str> = (0..MEASURES.len())
            .filter(|bit| chosen >> bit & 1 == 1)
            .map(|bit| MEASURES[bit])
            .collect();
        let measure = measures.join(",");
        // try each site with every fifth combination of choices, and each combination with one site
        let site = SITES[chosen as usize % SITES.len()];
        let args: Vec<&str> = [
            &["--measure", &measure, "--app", "kernel-stencil"][..],
            site,
        ]
        .concat();
        let measured = |what: &str| measures.contains(&what);
        if measured("aggregators") && measured("compression") {
            // refused: the kernel's only collective I/O is its own checkpoint, but only DMTCP's checkpoints can be compressed
            let refused = c
                .cvc(&[&["init", "refused.toml"][..], &args].concat())
                .expect(2)
                .stderr;
            assert!(refused.contains("write two campaigns"), "{refused}");
            continue;
        }
        let (plan, text) = planned(&c, &args);
        assert_eq!(
            values(&plan, "compression").len(),
            1 + usize::from(measured("compression")),
            "{text}"
        );
        let set: Vec<String> = values(&plan, "aggregators")
            .into_iter()
            .filter(|v| v != "null")
            .collect();
        assert_eq!(
            set,
            if measured("aggregators") {
                vec!["1", "2"]
            } else {
                Vec::new()
            },
            "{text}"
        );
        // without a checkpoint, aggregators would have no effect
        let points = plan["points"]
            .as_array()
            .expect("points")
            .iter()
            .map(|p| &p["point"]);
        let idle = points
            .filter(|p| p["checkpointer"] != "application" && !p["aggregators"].is_null())
            .count();
        assert_eq!(idle, 0, "{text}");
        assert_eq!(
            values(&plan, "mapping").len() > 1,
            measured("scaling"),
            "{text}"
        );
        assert_eq!(
            values(&plan, "checkpointer").contains(&"none".to_owned()),
            measured("overhead"),
            "{text}"
        );
        let restarted = |wanted: bool| {
            let all = plan["points"]
                .as_array()
                .expect("points")
                .iter()
                .map(|p| &p["point"]);
            all.filter(|p| p["checkpointer"] != "none" && (p["restart_check"] == true) == wanted)
                .count()
        };
        let all_restart = text.contains("restart_check = true");
        assert_eq!(
            all_restart || restarted(true) > 0,
            measured("restart"),
            "{text}"
        );
        // a run restarted under DMTCP ends at its checkpoint, so measurements that need a whole run have separate points
        if measured("restart") && measured("overhead") && text.contains("dmtcp") {
            assert!(
                !all_restart && restarted(false) == restarted(true),
                "{text}"
            );
        }
    }
}

#[test]
fn every_application_plans() {
    let c = place();
    let listed = c.cvc(&["init", "--app", "list"]).expect(0).stdout;
    let apps: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|app| *app != "command")
        .collect();
    assert!(apps.len() >= 14 && apps.contains(&"lammps"), "{apps:?}");
    // programs that track their own pages cannot continue from images of DMTCP, which the written file uses
    let (watching, apps): (Vec<&str>, Vec<&str>) =
        apps.iter().partition(|app| app.ends_with("-track"));
    assert_eq!(watching, ["kernel-front-track", "kernel-stencil-track"]);
    for app in watching {
        let args = ["--measure", "sizes", "--site", "local", "--app", app];
        let all = ["init", "new.toml", "--force"].iter().chain(&args);
        let ended = c.cvc(&all.copied().collect::<Vec<_>>());
        let file = c.dir().join("new.toml");
        if ended.code == Some(0) {
            // this machine has no DMTCP
            let text = fs::read_to_string(&file).expect("a campaign file");
            assert!(!text.contains("\"dmtcp\""), "{text}");
            fs::remove_file(&file).expect("removes");
        } else {
            let reason = "tracks its pages, and a restart by DMTCP loses this";
            assert!(ended.stderr.contains(reason), "{}", ended.stderr);
            assert!(!file.exists());
        }
    }
    for app in &apps {
        for measure in ["sizes,scaling", "restart,overhead,compression"] {
            let (plan, text) = planned(
                &c,
                &[
                    "--measure",
                    measure,
                    "--site",
                    "local",
                    "--app",
                    app,
                    "--mpi",
                    "openmpi",
                ],
            );
            assert_eq!(values(&plan, "app"), [*app], "{text}");
        }
    }
    let both = [
        "--measure",
        "aggregators",
        "--site",
        "local",
        "--app",
        "btio-full,btio-simple",
        "--mpi",
        "openmpi",
        "--class",
        "W",
    ];
    let (plan, text) = planned(&c, &both);
    assert_eq!(values(&plan, "app"), ["btio-full", "btio-simple"], "{text}");
    assert_eq!(plan["points"].as_array().map(Vec::len), Some(3), "{text}");
}

#[test]
fn a_program_of_ones_own_gets_a_descriptor_and_runs() {
    require!(Tool::Mpich);
    let c = place();
    let program = c.put("bin/My Solver", "#!/bin/sh\nsleep 0.2; echo solved\n");
    let mut mode = fs::metadata(&program).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode).expect("sets the mode");
    let args = [
        "init",
        "own.toml",
        "--measure",
        "overhead",
        "--site",
        "local",
        "--mpi",
        "mpich",
        "--processes",
        "1",
    ];
    let told = c
        .cvc(&[&args[..], &["--program", "bin/My Solver"]].concat())
        .expect(0)
        .stdout;
    assert!(
        told.contains("wrote apps/own-my-solver.toml") && told.contains("next: cvc plan own.toml"),
        "{told}"
    );
    c.cvc(&["run", "--only", "checkpointer=none", "own.toml"])
        .expect(0);
    let refused = c
        .cvc(&["init", "other.toml", "--yes", "--program", "bin/My Solver"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("apps/own-my-solver.toml exists") && !c.dir().join("other.toml").exists(),
        "{refused}"
    );
    let refused = c
        .cvc(&["init", "other.toml", "--yes", "--program", "gone"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("--program: gone does not exist"),
        "{refused}"
    );
}

#[test]
fn wrong_answers_are_told_as_options_and_nothing_is_written() {
    let c = place();
    for (args, what, hint) in [
        (
            &["--app", "npb-bt", "--processes", "4,6"][..],
            "--processes: npb-bt does not run with 6 processes",
            "a square: 1, 4, 9",
        ),
        (
            &["--app", "npb-b"],
            "--app: unknown application `npb-b`",
            "did you mean `npb-bt`?",
        ),
        (
            &["--class", "w"],
            "--class: unknown workload `w`",
            "did you mean `W`?",
        ),
        (
            &["--mpi", "openmp"],
            "--mpi: unknown library `openmp`",
            "did you mean `openmpi`?",
        ),
        (
            &["--app", "npb-bt", "--measure", "aggregators"],
            "--measure aggregators: no collective I/O in npb-bt",
            "btio-full",
        ),
        (
            &["--measure", "aggregators", "--processes", "1"],
            "--measure aggregators needs at least 2 processes",
            "2 or more",
        ),
        (
            &["--site", "ssh"],
            "missing information for a campaign: --hosts",
            "no default",
        ),
        (
            &["--site", "ec2"],
            "--region, --instance-types",
            "no default",
        ),
        (
            &["--hosts", "n1"],
            "--hosts is for the site ssh",
            "leave --hosts out",
        ),
        (
            &["--app", "command"],
            "--app command needs a command line",
            "--program PATH",
        ),
    ] {
        let refused = c
            .cvc(&[&["init", "new.toml", "--yes"], args].concat())
            .expect(2)
            .stderr;
        assert!(
            refused.contains(what) && refused.contains(hint),
            "{args:?}: {refused}"
        );
        assert!(!c.dir().join("new.toml").exists(), "{args:?}");
    }
    let refused = c.cvc(&["init", "Ü.toml", "--yes"]).expect(2).stderr;
    assert!(
        refused.contains("`ü` is not a valid campaign name"),
        "{refused}"
    );
}

#[test]
fn without_a_terminal_the_missing_options_are_named_and_files_are_kept() {
    let c = place();
    let refused = c.cvc(&["init", "new.toml"]).expect(2).stderr;
    assert!(
        refused.contains("--measure, --site, --app or --program") && refused.contains("--yes"),
        "{refused}"
    );
    c.cvc(&["init", "new.toml", "--yes"]).expect(0);
    let written = fs::read_to_string(c.dir().join("new.toml")).expect("reads");
    let refused = c
        .cvc(&["init", "new.toml", "--yes", "--measure", "scaling"])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("new.toml exists") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(
        fs::read_to_string(c.dir().join("new.toml")).expect("reads"),
        written
    );
    c.cvc(&[
        "init",
        "new.toml",
        "--yes",
        "--measure",
        "scaling",
        "--force",
    ])
    .expect(0);
    assert_ne!(
        fs::read_to_string(c.dir().join("new.toml")).expect("reads"),
        written
    );
}

/// Runs `cvc init new.toml` on a terminal, with these keys typed.
fn typed(c: &Campaign, keys: &str) -> Output {
    let cvc = c.command(&[]);
    let mut command = Command::new("script");
    let line = format!(
        "{} init new.toml",
        cvc.get_program().to_str().expect("UTF-8")
    );
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(c.dir());
    command.envs(
        cvc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("script starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(keys.as_bytes())
        .expect("types");
    child.wait_with_output().expect("ends")
}

#[test]
fn on_a_terminal_it_asks_and_asks_again() {
    let c = place();
    let output = typed(
        &c,
        "sizes,scalin\nsizes,scaling\n\nnpb-bt\nQ\nS\n3\n4,9\nmpich\n",
    );
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("What to measure?") && shown.contains("did you mean `scaling`?"),
        "{shown}"
    );
    assert!(
        shown.contains("unknown workload `Q`")
            && shown.contains("npb-bt does not run with 3 processes"),
        "{shown}"
    );
    let text = fs::read_to_string(c.dir().join("new.toml")).expect("a campaign file");
    for line in [
        "app = \"npb-bt\"",
        "class = \"S\"",
        "processes = [4, 9]",
        "mpi = \"mpich\"",
        "kind = \"local\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    c.cvc(&["plan", "new.toml"]).expect(0);
}

#[test]
fn the_end_of_the_answers_and_ctrl_c_write_nothing() {
    let c = place();
    let ended = typed(&c, "sizes\n\u{4}");
    let shown = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.code() == Some(130) && shown.contains("nothing was written"),
        "{:?}: {shown}",
        ended.status
    );
    assert!(!typed(&c, "sizes\nlocal\n\u{3}").status.success());
    assert!(!c.dir().join("new.toml").exists());
}

#[test]
fn aggregators_are_measured_where_they_act_and_overhead_without_them() {
    require!(Tool::Mpich);
    let c = place();
    let measure = [
        "--measure",
        "sizes,overhead,aggregators",
        "--site",
        "local",
        "--app",
        "kernel-stencil",
        "--class",
        "S",
    ];
    let (plan, text) = planned(
        &c,
        &[&measure[..], &["--processes", "2", "--mpi", "mpich"]].concat(),
    );
    assert_eq!(plan["points"].as_array().map(Vec::len), Some(3), "{text}");
    c.cvc(&["run", "new.toml"]).expect(0);
    let report = fs::read_to_string(c.dir().join("reports/new/report.md")).expect("a report");
    let overhead = report
        .split("### Overhead of checkpoints")
        .nth(1)
        .unwrap_or_else(|| panic!("{report}"));
    assert!(
        overhead.contains("| 1 aggregator |") && overhead.contains("| 2 aggregators |"),
        "{overhead}"
    );
}

/// A program with an input like a namelist, steps, a time, and a verification.
const OWN: &str = r#"#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, steps, s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    FILE *in = fopen("steps.in", "r");
    if (!in || fscanf(in, "%d", &steps) != 1) {
        fprintf(stderr, "cannot open steps.in\n");
        MPI_Finalize();
        return 3;
    }
    double begin = MPI_Wtime();
    for (s = 1; s <= steps; s++) {
        usleep(10000);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!rank) { printf("cycle %d of %d\n", s, steps); fflush(stdout); }
    }
    if (!rank) printf("elapsed time: %.3f s\nresult check: PASSED (%s)\n", MPI_Wtime() - begin, argc > 1 ? argv[1] : "-");
    MPI_Finalize();
    return 0;
}
"#;

/// Returns a directory with that program, compiled for Open MPI, and its input.
fn with_own_program() -> Campaign {
    let c = place();
    c.put("own.c", OWN);
    c.put("steps.in", "40\n");
    let compiled = Command::new("mpicc.openmpi")
        .args(["-o", "relax", "own.c"])
        .current_dir(c.dir())
        .output()
        .expect("mpicc.openmpi");
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{said}");
    c
}

#[test]
fn a_program_is_tried_with_the_library_that_it_is_linked_with() {
    require!(Tool::Mpich, Tool::OpenMpi);
    let c = with_own_program();
    let init = |mpi: &str| {
        let args = "init --force --yes --measure overhead --site local --program ./relax --input steps.in --processes 2 --try --mpi";
        let args: Vec<&str> = args.split(' ').chain([mpi]).collect();
        c.cvc(&args)
    };
    init("mpich,openmpi").expect(0);
    let descriptor = fs::read_to_string(c.dir().join("apps/own-relax.toml")).expect("written");
    assert!(
        descriptor.contains("with 2 processes and Open MPI"),
        "{descriptor}"
    );
    let refused = init("mpich").expect(2).stderr;
    assert!(
        refused.contains("relax is linked with openmpi, which --mpi does not name"),
        "{refused}"
    );
}

#[test]
fn a_program_for_each_library_is_found_by_both_and_a_missing_one_is_named_with_its_place() {
    require!(Tool::Mpich, Tool::OpenMpi);
    let c = with_own_program();
    let init = |program: &str| {
        let args = "init --force --yes --measure overhead --site local --input steps.in --processes 2 --no-try --mpi mpich,openmpi --program";
        let args: Vec<&str> = args.split(' ').chain([program]).collect();
        let said = c.cvc(&args).expect(0).stderr;
        let file = fs::read_to_string(c.dir().join("campaign.toml")).expect("written");
        (said.replace(c.dir().to_str().expect("UTF-8"), "HERE"), file)
    };
    let (said, _) = init("./relax");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("compile it with mpich too, as HERE/mpich/relax")
            && words.contains("(app_dirs = [\"HERE\"])"),
        "{said}"
    );

    for library in ["mpich", "openmpi"] {
        fs::create_dir(c.dir().join(library)).expect("a directory");
        let compiled = Command::new(format!("mpicc.{library}"))
            .args(["-o", &format!("{library}/relax"), "own.c"])
            .current_dir(c.dir())
            .status()
            .expect("a compiler");
        assert!(compiled.success());
    }
    let (said, file) = init("./mpich/relax");
    assert!(said.contains("each library has its own relax"), "{said}");
    let app_dirs = format!("app_dirs = [\"{}\"]", c.dir().display());
    assert!(file.contains(&app_dirs), "{file}");
    // without DMTCP, only the points without checkpoints run
    c.cvc(&["run", "campaign.toml"]);
    let runs: Vec<String> = fs::read_dir(c.dir().join("campaigns/relax/runs"))
        .expect("runs")
        .flatten()
        .map(|run| run.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(
        runs.len() >= 2 && !runs.iter().any(|run| run.contains("failed")),
        "{runs:?}"
    );
}

#[test]
fn one_run_of_a_program_tells_what_its_descriptor_needs() {
    require!(Tool::OpenMpi);
    let c = with_own_program();
    let told = c
        .cvc(&[
            "init",
            "--force",
            "--yes",
            "--measure",
            "overhead",
            "--site",
            "local",
            "--program",
            "./relax",
            "--args",
            "'-a b'",
            "--input",
            "steps.in",
            "--processes",
            "2",
            "--try",
        ])
        .expect(0);
    assert!(
        told.stderr
            .contains("relax is linked with Open MPI (libmpi.so.40)"),
        "{}",
        told.stderr
    );
    let descriptor = fs::read_to_string(c.dir().join("apps/own-relax.toml")).expect("written");
    for line in [
        "args = [\"-a b\"]",
        "path = \"steps.in\"\nsource = \"../steps.in\"",
        "with 2 processes and Open MPI: `result check: PASSED (-a b)`.",
        r"pattern = '^\s*result\s+check:\s+PASSED'",
        r"step = '^\s*cycle\s*(\d+)\b'",
        "name = \"elapsed_time_s\"",
    ] {
        assert!(descriptor.contains(line), "{line}: {descriptor}");
    }
    let file = fs::read_to_string(c.dir().join("campaign.toml")).expect("written");
    assert!(
        file.contains("name = \"relax\"")
            && file.contains("mpi = \"openmpi\"")
            && file.contains("after_step = 20"),
        "{file}"
    );
    // runs use the same program and a copy of the same input as the trial run
    c.cvc(&["run", "campaign.toml", "--only", "checkpointer=none"])
        .expect(0);
    let runs = c.dir().join("campaigns/relax/runs");
    let run = fs::read_dir(&runs)
        .expect("runs")
        .flatten()
        .next()
        .expect("a run")
        .path();
    let description = cvc_testkit::campaign::read_json(&run.join("run.json"));
    assert_eq!(description["sources"][0]["path"], "steps.in");
    assert_eq!(description["sources"][0]["bytes"], 3);
    let records = fs::read_to_string(run.join("records.jsonl")).expect("records");
    assert!(records.contains("elapsed_time_s"), "{records}");
    let points = || {
        let plan = c.cvc(&["plan", "--json", "campaign.toml"]).expect(0);
        let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
        values_of(&plan, "id")
    };
    // another input gives other points; a missing input is an error
    let before = points();
    c.put("steps.in", "50\n");
    let after = points();
    assert!(
        before.iter().all(|point| !after.contains(point)),
        "{before:?} {after:?}"
    );
    fs::remove_file(c.dir().join("steps.in")).expect("removed");
    let refused = c.cvc(&["plan", "campaign.toml"]).expect(2).stderr;
    assert!(
        refused.contains("apps/own-relax.toml")
            && refused.contains("cannot read the input file `../steps.in`"),
        "{refused}"
    );
}

/// A program that prints only to standard error, writes its own checkpoint every 20 steps, and ends with a verdict after numbers.
const STDERR: &str = r#"#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char state[1 << 16];
int main(int argc, char **argv) {
    int rank, s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!rank) fprintf(stderr, "input check: ok\n");
    for (s = 1; s <= 60; s++) {
        usleep(30000);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank) continue;
        fprintf(stderr, "step %d\n", s);
        if (s % 20) continue;
        memset(state, s, sizeof state);
        FILE *out = fopen("heat.sav", "w");
        fwrite(state, 1, sizeof state, out);
        fclose(out);
        fprintf(stderr, "checkpoint after step %d: 0.02 s\n", s);
    }
    if (!rank) fprintf(stderr, "sum %.1f, exact 1830.0: CORRECT\n", 1830.0);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn the_standard_error_and_own_checkpoints_are_learned_and_used() {
    require!(Tool::OpenMpi);
    let c = place();
    c.put("heat.c", STDERR);
    let compiled = Command::new("mpicc.openmpi")
        .args(["-o", "heat", "heat.c"])
        .current_dir(c.dir())
        .output()
        .expect("mpicc.openmpi");
    assert!(compiled.status.success(), "{compiled:?}");
    let args = [
        "init",
        "--force",
        "--yes",
        "--measure",
        "overhead",
        "--site",
        "local",
        "--program",
        "./heat",
        "--args",
        "-P 2 1 1",
        "--try",
    ];
    let told = c.cvc(&args).expect(0).stderr;
    assert!(
        told.contains("own checkpoint: `heat.sav`, 64.0 KiB"),
        "{told}"
    );
    let descriptor = fs::read_to_string(c.dir().join("apps/own-heat.toml")).expect("written");
    for line in [
        "min = 2\nmax = 2",
        r"pattern = '^\s*sum\s*[-+.\deEdD]+,\s+exact\s*[-+.\deEdD]+:\s+CORRECT'",
        r"step = '^\s*step\s*(\d+)\b'",
        "files = [\"heat.sav\"]",
        "at steps 20 to 60",
        r"time_s = '^\s*checkpoint\s+after\s+step\s*",
    ] {
        assert!(descriptor.contains(line), "{line}: {descriptor}");
    }
    // a run finds the success pattern, which was learned from standard error, in standard error
    c.cvc(&["run", "campaign.toml", "--only", "checkpointer=none"])
        .expect(0);
}

#[test]
fn interpreters_keep_their_links_and_scripts_need_one() {
    let c = place();
    let directory = c.dir().join("venv/bin");
    fs::create_dir_all(&directory).expect("made");
    std::os::unix::fs::symlink("/bin/true", directory.join("python")).expect("a link");
    c.put("solve.py", "print(1)\n");
    let base = [
        "init",
        "new.toml",
        "--yes",
        "--site",
        "local",
        "--measure",
        "sizes",
        "--no-try",
    ];
    let interpreted = ["--program", "venv/bin/python", "--args", "solve.py"];
    c.cvc(&[&base[..], &interpreted].concat()).expect(0);
    let descriptor = fs::read_to_string(c.dir().join("apps/own-solve.toml")).expect("written");
    assert!(
        descriptor.contains("names = [\"python\"]")
            && descriptor.contains("source = \"../solve.py\""),
        "{descriptor}"
    );
    let campaign = fs::read_to_string(c.dir().join("new.toml")).expect("written");
    assert!(campaign.contains("/venv/bin\"]"), "{campaign}");
    let refused = c
        .cvc(
            &[
                &base[..2],
                &["--force"],
                &base[2..],
                &["--program", "./solve.py"],
            ]
            .concat(),
        )
        .expect(2)
        .stderr;
    assert!(
        refused.contains("a script without `#!`")
            && refused.contains("--program python3 --args ./solve.py"),
        "{refused}"
    );
}

/// Returns the values of a key in all points of a plan.
fn values_of(plan: &serde_json::Value, key: &str) -> Vec<String> {
    let points = plan["points"].as_array().expect("points").iter();
    points
        .map(|p| p[key].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn the_wizard_takes_a_path_asks_for_inputs_and_tries_again() {
    require!(Tool::OpenMpi);
    let c = with_own_program();
    // Answers: measure, where, program, no arguments, no inputs, processes, run it. The run fails without its input, and is repeated with the input
    // that the message names. Then success, steps and figures are accepted as proposed.
    let output = typed(&c, "overhead\nlocal\n./relax\n\n\n2\nyes\nyes\n\n\n\n\n\n");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("cannot open steps.in")
            && shown.contains("It printed `result check: PASSED (-)`"),
        "{shown}"
    );
    // no question is broken within a word
    assert!(
        shown.contains("What to measure?") && shown.contains("aggregators"),
        "{shown}"
    );
    let descriptor = fs::read_to_string(c.dir().join("apps/own-relax.toml")).expect("written");
    assert!(
        descriptor.contains("source = \"../steps.in\"") && descriptor.contains("PASSED'"),
        "{descriptor}"
    );
    c.cvc(&["plan", "new.toml"]).expect(0);
}

#[test]
fn programs_that_cannot_be_started_are_refused_and_options_that_do_not_fit() {
    let c = place();
    c.put("solver", "no program");
    let base = [
        "init",
        "own.toml",
        "--yes",
        "--site",
        "local",
        "--measure",
        "sizes",
    ];
    for (args, part) in [
        (
            &["--program", "./solver"][..],
            "./solver is not executable\n  hint: chmod +x ./solver",
        ),
        (&["--program", "."], "is a directory"),
        (
            &["--program", "/bin/true", "--input", "no.dat"],
            "no.dat is not a file",
        ),
        (
            &["--program", "/bin/true", "--args", "'a"],
            "a quote is not closed",
        ),
        (&["--app", "kernel-stencil", "--try"], "--program"),
    ] {
        let refused = c.cvc(&[&base, args].concat()).expect(2).stderr;
        assert!(refused.contains(part), "{args:?}: {refused}");
        assert!(!c.dir().join("own.toml").exists(), "{args:?}");
    }
    c.cvc(
        &[
            &["init", "solver.toml"][..],
            &base[2..],
            &["--program", "/bin/true", "--no-try"],
        ]
        .concat(),
    )
    .expect(0);
    // the descriptor's program exists, and must not be started
    let descriptor = c.dir().join("apps/own-true.toml");
    let text = fs::read_to_string(&descriptor).expect("written");
    let path = c.dir().join("solver");
    fs::write(
        &descriptor,
        text.replace(
            "names = [\"true\"]",
            &format!("names = [\"{}\"]", path.display()),
        ),
    )
    .expect("written");
    let plan = c.cvc(&["plan", "solver.toml"]).expect(0).stdout;
    assert!(
        plan.contains("is not executable") && plan.contains("chmod +x"),
        "{plan}"
    );
}

#[test]
fn a_campaign_without_a_name_is_called_after_its_directory() {
    let c = place();
    let directory = c.dir().join("My Study");
    fs::create_dir(&directory).expect("made");
    c.cvc(&["init", "--yes", "My Study/campaign.toml"])
        .expect(0);
    let text = fs::read_to_string(directory.join("campaign.toml")).expect("written");
    assert!(text.contains("name = \"my-study\""), "{text}");
}
