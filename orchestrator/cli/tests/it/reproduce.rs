//! Tests of `cvc reproduce` as users type it.

use assert_cmd::Command;
use cvc_testkit::{Tool, require};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

/// Returns `cvc` in the directory, with a separate cache: only the papers that cvc includes are available.
fn cvc(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cvc"));
    command
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .arg("reproduce");
    command
}

fn finished(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_paper_is_reproduced_away_from_the_repository_and_in_seconds() {
    let dir = tempfile::tempdir().expect("a directory");
    // limit the processor time, which does not depend on other load of the machine
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -t 20; exec \"$0\" reproduce thesis",
        env!("CARGO_BIN_EXE_cvc"),
    ]);
    let done = command
        .current_dir(dir.path())
        .env("XDG_CACHE_HOME", dir.path().join("cache"))
        .assert()
        .success();
    let text = finished(&done.get_output().stdout);
    assert!(text.lines().any(|l| l.starts_with("4.1 ")), "{text}");
    let report = dir.path().join("reports/papers/thesis");
    for file in [
        "report.html",
        "report.md",
        "report.tex",
        "report.json",
        "csv/table-5-1.csv",
        "csv/summary.csv",
    ] {
        assert!(report.join(file).is_file(), "{file}");
    }
    let markdown = fs::read_to_string(report.join("report.md")).expect("the report");
    // without runs, no value is shown as a measurement
    assert!(!markdown.contains("; here "), "a measurement without runs");
}

#[test]
fn tables_forms_and_places_can_be_chosen() {
    let dir = tempfile::tempdir().expect("a directory");
    cvc(dir.path())
        .args([
            "thesis",
            "--table",
            "5.1",
            "--table",
            "thesis-4.2",
            "--to",
            "out",
            "--format",
            "csv,latex",
        ])
        .assert()
        .success();
    let files: Vec<String> = fs::read_dir(dir.path().join("out/csv"))
        .expect("tables")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(
        files.contains(&"table-5-1.csv".to_owned()) && files.contains(&"table-4-2.csv".to_owned()),
        "{files:?}"
    );
    assert!(!files.contains(&"table-5-2.csv".to_owned()), "{files:?}");
    assert!(
        dir.path().join("out/report.tex").is_file() && !dir.path().join("out/report.html").exists()
    );
    // LaTeX contains only the requested tables
    let mut latex: Vec<String> = fs::read_dir(dir.path().join("out/tables"))
        .expect("tables")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    latex.sort();
    assert_eq!(latex, ["table-4-2.tex", "table-5-1.tex"]);
}

#[test]
fn misprints_are_listed_on_the_terminal_and_fit_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let done = cvc(dir.path())
        .args(["thesis", "--to", "out", "--format", "csv"])
        .assert()
        .success();
    let text = finished(&done.get_output().stdout);
    let line = text
        .lines()
        .find(|l| l.starts_with("5.3 ") && l.contains("47.02"))
        .unwrap_or_else(|| panic!("{text}"));
    for part in ["125", "61.42", "high"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(text.contains("40 cells wrong in print"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // claims that hold are counted, all others are listed
    assert!(
        text.contains("59 claims: 34 hold, 18 contradicted by print, 7 undecided")
            && text.contains("7.121")
            && !text.contains("doubles with the number of processes"),
        "{text}"
    );
    // empty columns are omitted, and the others are explained
    assert!(
        !text.contains("explained") && text.contains("  fitted: "),
        "{text}"
    );
}

#[test]
fn a_paper_without_tables_says_so_and_what_is_wrong_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let done = cvc(dir.path()).arg("delta").assert().success();
    let text = finished(&done.get_output().stdout);
    assert!(
        text.contains("delta has no table here; 2 places wrong or doubtful")
            && text.contains("PaComp"),
        "{text}"
    );
    let listed = cvc(dir.path()).args(["delta", "--list"]).assert().success();
    assert!(finished(&listed.get_output().stdout).contains("no tables here"));
}

#[test]
fn what_cannot_be_measured_is_told_in_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = cvc(dir.path());
    for name in ["CVC_NPB_DIR", "CVC_MPICH_CH3", "CVC_APPS"] {
        command.env_remove(name);
    }
    let failed = command
        .env("PATH", "/nonexistent")
        .args(["thesis", "--table", "5.1", "--measure", "--format", "csv"])
        .assert()
        .code(10);
    let output = failed.get_output();
    let told = finished(&output.stderr);
    let skipped: Vec<&str> = told.lines().filter(|l| l.contains(" skipped: ")).collect();
    let [line] = skipped[..] else {
        panic!("{told}")
    };
    for part in ["48 runs skipped", "npb-bt", "--variant kernels"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(line.matches("npb-bt").count(), 1, "{line}");
    let text = finished(&output.stdout);
    assert!(
        text.contains("nothing was measured") && !text.contains("measured by"),
        "{text}"
    );
}

#[test]
fn series_that_cannot_be_measured_say_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let failed = cvc(dir.path())
        .env_remove("CVC_DMTCP_ROOT")
        .env("PATH", "/nonexistent")
        .args(["delta", "--measure", "--format", "markdown"])
        .assert()
        .code(10);
    let output = failed.get_output();
    let told = finished(&output.stderr);
    assert!(told.contains("2 runs skipped: missing are "), "{told}");
    let text = finished(&output.stdout);
    let told: Vec<&str> = text
        .lines()
        .filter(|l| l.contains(": not measured: "))
        .collect();
    assert_eq!(told.len(), 2, "{text}");
    assert!(text.contains("nothing was measured"), "{text}");
    let report = std::fs::read_to_string(dir.path().join("reports/papers/delta/report.md"));
    let report = report.expect("a report");
    assert!(
        report.contains("LAMMPS, a melt: not measured: ") && !report.contains("volume-front"),
        "{report}"
    );
}

#[test]
fn a_series_of_a_real_run_is_measured_for_a_paper() {
    require!(Tool::Dmtcp, Tool::OpenMpi);
    let dir = tempfile::tempdir().expect("a directory");
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers/delta");
    let folder = dir.path().join("delta");
    copy(&papers, &folder);
    // make a small variant of the first campaign
    let path = folder.join("measured.toml");
    let text = std::fs::read_to_string(&path).expect("measured.toml");
    let from = text.find("[[campaigns]]").expect("campaigns");
    let to = text.find("[[series]]").expect("series");
    let campaign = "[[campaigns]]\nfile = \"campaigns/front.toml\"\nvariant = \"small\"\n\n";
    let text = format!("{}{campaign}{}", &text[..from], &text[to..]);
    std::fs::write(&path, text).expect("written");
    let done = cvc(dir.path())
        .args(["delta", "--measure", "--format", "markdown,csv"])
        .assert()
        .code(0);
    let text = finished(&done.get_output().stdout);
    assert!(
        text.contains("measured by campaigns/delta-front-small"),
        "{text}"
    );
    // six checkpoints differ from the paper's 25, and the claims about them cannot all hold
    let line = text
        .lines()
        .find(|l| l.starts_with("A front crosses a domain at rest: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains("checkpoint") && !line.contains("not measured"),
        "{text}"
    );
    let to = dir.path().join("reports/papers/delta/csv");
    let volumes = std::fs::read_to_string(to.join("volumes-front.csv")).expect("a table");
    assert!(volumes.lines().count() >= 3, "{volumes}");
    let switches = std::fs::read_to_string(to.join("switches-front.csv")).expect("a table");
    let last = switches.lines().last().unwrap_or_default();
    // with the highest threshold the base never changes
    assert!(last.contains("∞,0,"), "{switches}");
}

#[test]
fn what_there_is_can_be_listed() {
    let dir = tempfile::tempdir().expect("a directory");
    let papers = finished(
        &cvc(dir.path())
            .arg("--list")
            .assert()
            .success()
            .get_output()
            .stdout,
    );
    for paper in ["async-io", "delta", "pas2p-io", "pfs-delegation", "thesis"] {
        assert!(papers.contains(paper), "{papers}");
    }
    let tables = finished(
        &cvc(dir.path())
            .args(["thesis", "--list"])
            .assert()
            .success()
            .get_output()
            .stdout,
    );
    assert_eq!(tables.lines().count(), 2 + 39, "{tables}");
    assert!(!dir.path().join("reports").exists(), "nothing is written");
}

#[test]
fn unknown_names_are_answered_with_those_that_there_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |args: &[&str], words: [&str; 2]| {
        let failed = cvc(dir.path()).args(args).assert().code(2);
        let text = finished(&failed.get_output().stderr);
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
    };
    refused(&["thesys"], ["unknown paper `thesys`", "thesis"]);
    refused(
        &["thesis", "--table", "9.9"],
        ["thesis has no table `9.9`", "5.24"],
    );
    refused(
        &["thesis", "--papers", "nowhere"],
        ["unknown directory nowhere", "--papers"],
    );
    refused(&["../thesis"], ["unknown paper `../thesis`", "thesis"]);
    refused(
        &["thesis", "--measure", "--variant", "desktop"],
        ["no campaign of thesis has a variant `desktop`", "laptop"],
    );
    let listed = cvc(dir.path()).assert().success();
    assert!(finished(&listed.get_output().stdout).contains("pas2p-io"));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), &target).map(drop).expect("copied")
        }
    }
}

#[test]
fn a_folder_of_ones_own_comes_first_and_its_mistakes_are_shown_with_their_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("mine/async-io");
    copy(&root().join("experiments/papers/async-io"), &own);
    let table = own.join("tables/model.csv");
    let text = fs::read_to_string(&table).expect("the table");
    fs::write(&table, text.replace(",6.25,", ",-6.25,")).expect("written");
    let failed = cvc(dir.path())
        .args(["async-io", "--papers", "mine"])
        .assert()
        .code(2);
    let error = finished(&failed.get_output().stderr);
    assert!(
        error.contains("mine/async-io/tables/model.csv:3:") && error.contains("is negative"),
        "{error}"
    );
    // without the option, the papers that cvc includes
    cvc(dir.path()).args(["async-io"]).assert().success();
    // a folder given by its path
    fs::write(&table, text.replace(",2.6,", ",2.7,")).expect("written");
    cvc(dir.path())
        .args(["mine/async-io", "--to", "own", "--format", "markdown"])
        .assert()
        .success();
    assert!(
        fs::read_to_string(dir.path().join("own/report.md"))
            .expect("the report")
            .contains("2.7")
    );
}

#[test]
fn an_unwritable_target_and_a_directory_without_a_campaign_are_refused_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("a file");
    let failed = cvc(dir.path())
        .args(["thesis", "--to", "file/out"])
        .assert()
        .code(7);
    let output = failed.get_output();
    assert!(output.stdout.is_empty(), "{}", finished(&output.stdout));
    assert!(
        finished(&output.stderr).contains("cannot create file/out")
            && finished(&output.stderr).contains("hint:"),
        "{}",
        finished(&output.stderr)
    );
    let failed = cvc(dir.path())
        .args(["thesis", "--from", "nodir"])
        .assert()
        .code(2);
    let text = finished(&failed.get_output().stderr);
    assert!(
        text.contains("nodir is not a campaign") && text.contains("hint: --from"),
        "{text}"
    );
}

/// Returns every file below a directory with its content.
fn content(dir: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    for entry in fs::read_dir(dir)
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
    {
        if entry.is_dir() {
            all.extend(content(&entry));
        } else {
            all.insert(entry.clone(), fs::read(&entry).expect("a file"));
        }
    }
    all
}

#[test]
fn a_campaign_that_is_read_is_not_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let campaign = dir.path().join("archive");
    copy(
        &root().join("orchestrator/paper/tests/data/rerun/sizes"),
        &campaign,
    );
    let before = content(&campaign);
    let done = cvc(dir.path())
        .args([
            "thesis", "--table", "5.1", "--from", "archive", "--format", "csv",
        ])
        .assert()
        .success();
    let text = finished(&done.get_output().stdout);
    assert!(text.contains(" cells measured by archive"), "{text}");
    assert_eq!(before, content(&campaign));
}

/// Runs of a program are no measurements for tables about another program.
#[test]
fn a_campaign_that_measured_no_cell_of_the_tables_is_not_named_as_their_source() {
    let dir = tempfile::tempdir().expect("a directory");
    copy(
        &root().join("orchestrator/paper/tests/data/rerun/sizes"),
        &dir.path().join("archive"),
    );
    let tables = [
        "thesis", "--table", "4.7", "--table", "4.8", "--format", "csv",
    ];
    let done = cvc(dir.path())
        .args(tables)
        .args(["--from", "archive"])
        .assert()
        .code(14);
    let text = finished(&done.get_output().stdout).replace('\n', " ");
    assert!(
        text.contains("0 of 66 cells measured: archive has npb-bt")
            && text.contains("these tables are about minighost-mpiio")
            && !text.contains("measured by"),
        "{text}"
    );
    let cells = fs::read_to_string(dir.path().join("reports/papers/thesis/csv/cells.csv"));
    assert!(cells.expect("cells").lines().count() > 66);
    // without a request for measurements
    let done = cvc(dir.path()).args(tables).assert().success();
    let text = finished(&done.get_output().stdout);
    assert!(!text.contains("measured"), "{text}");
}

#[test]
fn a_reader_that_has_gone_ends_it_quietly_as_it_ends_other_programs() {
    use std::process::Stdio;
    let dir = tempfile::tempdir().expect("a directory");
    // close the reading end of the pipe before anything is written
    let closed = || {
        let mut reader = std::process::Command::new("true")
            .stdin(Stdio::piped())
            .spawn()
            .expect("starts");
        let pipe = reader.stdin.take().expect("a pipe");
        reader.wait().expect("ends");
        Stdio::from(pipe)
    };
    let run = |args: &[&str], out: Stdio, err: Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cvc"));
        command
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .arg("reproduce")
            .args(args);
        command.stdout(out).stderr(err).output().expect("starts")
    };
    let listed = run(&["--list"], closed(), Stdio::piped());
    assert_eq!(
        (listed.status.code(), finished(&listed.stderr)),
        (Some(141), String::new())
    );
    assert_eq!(
        run(&["thesys"], Stdio::null(), closed()).status.code(),
        Some(2)
    );
}
