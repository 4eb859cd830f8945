//! Tests of `cvc try`: the time and size of a checkpoint of one command, for small programs; and the error for each command that cannot be tried.

use crate::{common::campaign, predict::violations};
use cvc_testkit::{Campaign, Tool, require};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

/// A program that has 8 MiB in each rank, reads its number of steps from a file in a directory, and writes its own checkpoint every half second,
/// alternating between two files. With an argument, it fails.
const PROGRAM: &str = r#"#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, steps = 0, s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    FILE *in = fopen("data/steps.in", "r");
    if (!in || fscanf(in, "%d", &steps) != 1) {
        fprintf(stderr, "cannot read data/steps.in\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (argc > 1) {
        fprintf(stderr, "unknown option %s\n", argv[1]);
        MPI_Finalize();
        return 2;
    }
    size_t size = 8 << 20;
    char *data = malloc(size);
    memset(data, rank + 1, size);
    for (s = 1; s <= steps; s++) {
        usleep(50000);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!rank) { printf("step %d of %d\n", s, steps); fflush(stdout); }
        if (s % 10 == 0) {
            char name[40];
            snprintf(name, sizeof name, "state.%d.ckpt", rank);
            FILE *out = fopen(name, "w");
            fwrite(data, 1, 100000, out);
            fclose(out);
            if (!rank) { printf("checkpoint written\n"); fflush(stdout); }
        }
    }
    if (!rank) printf("result check: PASSED\n");
    MPI_Finalize();
    return 0;
}
"#;

/// Returns a directory with that program and its input, with which it runs for about three seconds.
fn with_program() -> Campaign {
    let c = campaign("unused", "");
    c.put("program.c", PROGRAM);
    c.put("data/steps.in", "60\n");
    let compiled = Command::new("mpicc.openmpi")
        .args(["-o", "program", "program.c"])
        .current_dir(c.dir())
        .output()
        .expect("mpicc.openmpi");
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{said}");
    c
}

fn with_dmtcp(c: &mut Campaign) {
    let program = Tool::Dmtcp.find().expect("the test requires it");
    let root = program.parent().and_then(Path::parent);
    c.env(
        "CVC_DMTCP_ROOT",
        root.and_then(Path::to_str).expect("a prefix"),
    );
}

/// Sets the path of DMTCP to an empty directory.
fn without_dmtcp(c: &mut Campaign) {
    let nowhere = c.dir().join("no-dmtcp");
    fs::create_dir_all(&nowhere).expect("made");
    c.env("CVC_DMTCP_ROOT", nowhere.to_str().expect("UTF-8"));
}

/// Returns the output of `--json`, after checking it by its schema.
fn json(c: &Campaign, args: &[&str]) -> Value {
    let all: Vec<&str> = ["try", "--json"].iter().chain(args).copied().collect();
    let printed = c.cvc(&all).expect(0).stdout;
    let value: Value = serde_json::from_str(&printed).expect("JSON");
    let schema = c.cvc(&["schema", "try"]).expect(0).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let mut found = Vec::new();
    violations(&schema, &schema, &value, "", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    value
}

fn number(value: &Value, way: &str) -> f64 {
    let found = value.pointer(way).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{way}: {value:#}"))
}

#[test]
fn a_command_that_cannot_be_tried_has_one_reason() {
    let c = campaign("unused", "");
    c.put("script.py", "print(1)\n");
    for (command, reason) in [
        (
            &["mpirun", "-np", "four", "true"][..],
            "`four` is not a number of processes",
        ),
        (
            &["mpirun", "-np", "2", "-host", "n1", "true"],
            "names other machines",
        ),
        (&["mpirun", "-np", "2"], "has no program to start"),
        (&["./nothing"], "no program ./nothing found"),
        (&["./script.py"], "is not executable"),
        (&["script.py"], "no program script.py found"),
        (
            &["time", "mpirun", "-np", "2", "true"],
            "is started by `time`",
        ),
    ] {
        let all: Vec<&str> = ["try", "--"].iter().chain(command).copied().collect();
        let refused = c.cvc(&all).expect(2);
        assert!(refused.stdout.is_empty(), "{command:?}");
        let errors = refused.stderr.matches("error:").count();
        assert_eq!(errors, 1, "{}", refused.stderr);
        assert!(
            refused.stderr.contains(reason) && refused.stderr.contains("hint:"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_program_for_another_library_than_the_launchers_is_refused() {
    require!(Tool::OpenMpi, Tool::Mpich);
    let c = with_program();
    let refused = c
        .cvc(&["try", "mpiexec.mpich", "-n", "2", "./program"])
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("is linked with Open MPI, and mpiexec.mpich is the launcher of MPICH"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_command_that_fails_is_told_with_what_it_printed() {
    require!(Tool::OpenMpi);
    let c = with_program();
    let failed = c.cvc(&["try", "mpirun.openmpi", "-np", "2", "./program", "--odd"]);
    let failed = failed.expect(10);
    assert!(
        failed.stderr.contains("unknown option --odd")
            && failed.stderr.contains("the command failed"),
        "{}",
        failed.stderr
    );
    assert!(failed.stdout.is_empty(), "{}", failed.stdout);
}

#[test]
fn without_dmtcp_the_programs_own_checkpoints_are_measured() {
    require!(Tool::OpenMpi);
    let mut c = with_program();
    without_dmtcp(&mut c);
    let file = c.dir().join("proper.toml");
    let printed = c
        .cvc(&[
            "try",
            "--repeats",
            "2",
            "--write",
            "proper.toml",
            "--",
            "mpirun.openmpi",
            "-np",
            "2",
            "./program",
        ])
        .expect(0);
    assert!(
        printed.stdout.contains("of the program's own checkpoints"),
        "{}",
        printed.stdout
    );
    let text = fs::read_to_string(&file).expect("the campaign file");
    assert!(text.contains("checkpointer = \"application\""), "{text}");
    c.cvc(&["plan", "proper.toml"]).expect(0);
    let value = json(
        &c,
        &[
            "--repeats",
            "2",
            "--",
            "mpirun.openmpi",
            "-np",
            "2",
            "./program",
        ],
    );
    let tried = &value["commands"][0];
    assert_eq!(tried["checkpointer"], "application", "{tried:#}");
    // each rank has one file
    assert_eq!(number(tried, "/stored_bytes/mean"), 200_000.0, "{tried:#}");
    assert_eq!(
        tried["own_checkpoint"]["files"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(
        number(tried, "/own_checkpoint/checkpoints"),
        6.0,
        "{tried:#}"
    );
    // nothing was written in the user's directory
    assert!(!c.dir().join("state.0.ckpt").exists());
}

#[test]
fn a_checkpoint_by_dmtcp_is_taken_restarted_and_foretold() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let mut c = with_program();
    with_dmtcp(&mut c);
    let value = json(
        &c,
        &[
            "--repeats",
            "2",
            "--mtbf",
            "1h",
            "--",
            "mpirun.openmpi",
            "-np",
            "2",
            "./program",
        ],
    );
    let tried = &value["commands"][0];
    assert_eq!(tried["checkpointer"], "dmtcp", "{tried:#}");
    assert_eq!(tried["restart"]["result"], "verified", "{tried:#}");
    assert_eq!(number(tried, "/runs/with_checkpoint"), 2.0, "{tried:#}");
    assert!(number(tried, "/stored_bytes/mean") > 16e6, "{tried:#}");
    assert!(number(tried, "/checkpoint_s/mean") > 0.0, "{tried:#}");
    let data = tried["zones"]
        .as_array()
        .expect("zones")
        .iter()
        .find(|zone| zone["name"] == "data");
    assert!(number(data.expect("data"), "/mib") >= 8.0, "{tried:#}");
    // 1 process was measured as well, from which 4 and 8 are predicted
    let rows = tried["forecasts"].as_array().expect("rows").iter();
    let rows: Vec<(f64, bool, bool)> = rows
        .map(|row| {
            (
                number(row, "/processes"),
                row["basis"] == "runs",
                row["stored_mib"].is_object(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (1.0, true, true),
            (2.0, true, true),
            (4.0, false, true),
            (8.0, false, true)
        ],
        "{tried:#}"
    );
    assert_eq!(tried["schedule"]["mtbf_is_assumed"], false, "{tried:#}");
    assert!(number(tried, "/schedule/interval_s") > 10.0, "{tried:#}");
}

#[test]
fn commands_are_compared_side_by_side() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let mut c = with_program();
    with_dmtcp(&mut c);
    let printed = c.cvc(&[
        "try",
        "--repeats",
        "2",
        "--compare",
        "mpirun.openmpi -np 2 ./program",
        "mpirun.openmpi -np 1 ./program",
    ]);
    let printed = printed.expect(0).stdout;
    assert!(printed.contains("a checkpoint of B is"), "{printed}");
    assert!(printed.contains("times smaller than A"), "{printed}");
}

#[test]
fn what_was_measured_is_shown_where_a_later_command_fails() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let mut c = with_program();
    with_dmtcp(&mut c);
    let (first, second) = (
        "mpirun.openmpi -np 1 ./program",
        "mpirun.openmpi -np 1 true",
    );
    let tried = c.cvc(&["try", "--repeats", "1", "--compare", first, second]);
    let tried = tried.expect(10);
    assert!(
        tried.stderr.contains(&format!("B: {second}")),
        "{}",
        tried.stderr
    );
    assert!(
        tried.stderr.contains("too short for a checkpoint"),
        "{}",
        tried.stderr
    );
    assert!(
        tried.stdout.starts_with(first) && tried.stdout.contains("its time"),
        "{}",
        tried.stdout
    );
}

#[test]
fn a_command_that_is_over_at_once_has_no_room_for_a_checkpoint() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let mut c = campaign("unused", "");
    with_dmtcp(&mut c);
    let over = c.cvc(&["try", "--", "true"]).expect(10);
    assert!(
        over.stderr.contains("too short for a checkpoint"),
        "{}",
        over.stderr
    );
}

#[test]
fn an_input_file_stays_below_the_working_directory() {
    let c = campaign("unused", "");
    c.put("mesh.dat", "1");
    let loaded = |path: &str| {
        let descriptor = format!(
            "schema = 1\nname = \"odd\"\ntitle = \"odd\"\n[program]\nnames = [\"true\"]\n[command]\n[[command.files]]\npath = \"{path}\"\nsource = \"../mesh.dat\"\n[workloads.any]\n[success]\npattern = 'x'\n"
        );
        c.put("apps/odd.toml", &descriptor);
        let args = ["init", "odd.toml", "--force", "--yes", "--app", "odd"];
        c.cvc(&[&args[..], &["--measure", "sizes", "--site", "local"]].concat())
    };
    loaded("data/mesh.dat").expect(0);
    for path in ["../mesh.dat", "/mesh.dat", "data/../../mesh.dat", ""] {
        let refused = loaded(path).expect(2).stderr;
        assert!(refused.contains("is not a path below"), "{path}: {refused}");
    }
}
