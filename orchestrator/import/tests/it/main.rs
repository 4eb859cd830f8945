//! Imports tables of other programs as campaigns.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    point::{CheckpointerKind, UserValue},
    record::Unit,
};
use cvc_import::{ImportError, ImportOptions, ImportedRun, ReadFile, read, write_campaign};
use cvc_index::Index;
use std::fs;

/// A temporary directory with these files.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("a file");
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.0.path())
            .expect("UTF-8")
            .join(name)
    }

    fn runs(&self, name: &str) -> Vec<ImportedRun> {
        self.read(name).runs
    }

    fn read(&self, name: &str) -> ReadFile {
        read(&self.path(name), &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(&self, name: &str) -> String {
        match read(&self.path(name), &ImportOptions::default()) {
            Err(ImportError::Source(error)) => {
                let (line, column) = error.position().unwrap_or_default();
                format!(
                    "{line}:{column}: {}\n  hint: {}",
                    error.message,
                    error.hint.unwrap_or_default()
                )
            }
            Err(error) => format!("{error}\n  hint: {}", error.hint().unwrap_or_default()),
            Ok(_) => panic!("it was read"),
        }
    }
}

/// Returns the runs as text, one per line.
fn lines(runs: &[ImportedRun]) -> String {
    let line = |run: &ImportedRun| {
        let p = &run.point;
        let own: Vec<String> = p
            .user
            .iter()
            .map(|(name, level)| format!(" {name}={level}"))
            .collect();
        let values = run.values.iter();
        let values: Vec<String> = values
            .map(|v| format!("{}={} {:?}", v.name, v.value, v.unit))
            .collect();
        format!(
            "{}.{} {} {} {}{}: {}",
            p.app,
            p.class,
            p.site,
            p.mapping,
            p.mpi,
            own.concat(),
            values.join(", ")
        )
    };
    runs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the runs of a file in the tests' data, and the remarks about it.
fn data(name: &str) -> String {
    let file = Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    let file = read(&file, &ImportOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    [vec![lines(&file.runs)], file.remarks, file.left_out]
        .concat()
        .join("\n")
}

const TABLE: &str = "\
app,class,site,nodes,processes_per_node,checkpointer,cb_buffer,label,wall_s,ckpt_stored_mib
solver,L,a,4,2,none,default,x 1,812.5,
solver,L,a,4,2,dmtcp,4MiB,7,840.25,1920
";

#[test]
fn columns_named_like_factors_and_quantities_need_no_description() {
    let files = Files::new(&[("t.csv", TABLE)]);
    let runs = files.runs("t.csv");
    assert_eq!(runs.len(), 2);
    let point = &runs[1].point;
    assert_eq!(
        (
            point.app.as_str(),
            point.mapping.to_string().as_str(),
            point.checkpointer
        ),
        ("solver", "4Nx2P", CheckpointerKind::Dmtcp)
    );
    assert_eq!(point.cb_buffer.map(|size| size.0), Some(4 << 20));
    assert_eq!(point.user["label"], UserValue::Integer(7));
    assert_eq!(runs[0].point.user["label"], UserValue::Text("x 1".into()));
    let values: Vec<_> = runs[1]
        .values
        .iter()
        .map(|v| (v.name.as_str(), v.value, v.unit))
        .collect();
    assert_eq!(
        values,
        [
            ("wall_s", 840.25, Unit::Seconds),
            ("ckpt_stored_bytes", 1920.0 * 1_048_576.0, Unit::Bytes)
        ]
    );
    assert_eq!(runs[0].values.len(), 1, "an empty cell says nothing");
}

const DESCRIPTION: &str = r#"
schema = 1
name = "theirs"
source = "Table 7"
[factors]
app = "nas-bt"
[[table]]
file = "t.csv"
where = { clock = ["linux", "linux-ft"] }
[table.words.clock]
linux = "none"
linux-ft = "dmtcp"
[table.facts]
"instance.type" = "{type}"
[table.factors]
site = "{type}"
mapping = "{n}Nx{p}P"
checkpointer = "{clock}"
[[table.quantity]]
name = "wall_s"
unit = "ms"
columns = ["r1", "r2"]
printed_mean = "mean"
"#;

const DESCRIBED: &str = "\
type,n,p,clock,r1,r2,mean
c3,4,1,linux,1000,2000,1500
c3,4,1,linux-ft,3000,4000,3400
c3,4,1,inner,1,3,2
";

#[test]
fn a_description_chooses_rows_and_says_what_columns_are() {
    let files = Files::new(&[("d.toml", DESCRIPTION), ("t.csv", DESCRIBED)]);
    let file = files.read("d.toml");
    assert_eq!(file.name.as_deref(), Some("theirs"));
    let told: Vec<(String, f64)> = file
        .runs
        .iter()
        .map(|run| {
            let point = &run.point;
            let of = format!(
                "{} {} {} {:?}",
                point.app, point.site, point.mapping, point.checkpointer
            );
            (of, run.values[0].value)
        })
        .collect();
    let none = || "nas-bt c3 4Nx1P None".to_owned();
    let dmtcp = || "nas-bt c3 4Nx1P Dmtcp".to_owned();
    assert_eq!(
        told,
        [(none(), 1.0), (none(), 2.0), (dmtcp(), 3.0), (dmtcp(), 4.0)]
    );
    let facts = &file.runs[0].facts;
    assert_eq!(
        (
            facts["instance.type"].as_str(),
            facts["imported.from"].as_str()
        ),
        ("c3", "Table 7")
    );
    let told = file.remarks.join("\n").replace(files.path("").as_str(), "");
    insta::assert_snapshot!(told);
}

#[test]
fn rows_of_a_point_are_one_run_if_the_description_says_so() {
    let description = r#"
schema = 1
name = "files"
[[table]]
file = "t.csv"
merge_rows = true
[table.factors]
app = "bt"
mapping = "4Nx1P"
checkpointer = "dmtcp"
[[table.quantity]]
name = "ckpt_bytes"
unit = "MiB"
columns = ["size"]
times = "files"
labels = { ckpt = "1", kind = "{kind}" }
"#;
    let files = Files::new(&[
        ("d.toml", description),
        ("t.csv", "kind,files,size\nrank,4,100\nlauncher,2,10\n"),
    ]);
    let runs = files.runs("d.toml");
    assert_eq!(runs.len(), 1);
    let values: Vec<_> = runs[0]
        .values
        .iter()
        .map(|v| (v.labels["kind"].as_str(), v.value / 1_048_576.0))
        .collect();
    assert_eq!(values, [("rank", 400.0), ("launcher", 20.0)]);
}

#[test]
fn the_reports_of_reframe_are_read_in_both_forms() {
    let report = r#"{"session_info": {}, "runs": [{"testcases": [
        {"name": "stream", "result": "pass", "system": "daint", "partition": "gpu", "environ": "gnu", "num_tasks": 10,
         "num_tasks_per_node": 4, "time_run": 12.5, "perfvalues": {"daint:gpu:triad": [250.5, 0, null, null, "MiB/s"]},
         "job_nodelist": ["n1", "n2", "n3"]},
        {"name": "stream", "result": "fail", "system": "daint", "num_tasks": 1, "time_run": 1.0},
        {"name": "old", "result": "success", "system": "lab", "environment": "intel", "num_tasks": 2,
         "perfvars": [{"name": "copy", "value": 3.0, "unit": "GB/s", "reference": 0}]}
    ]}]}"#;
    let files = Files::new(&[("r.json", report)]);
    insta::assert_snapshot!(lines(&files.runs("r.json")));
}

#[test]
fn every_version_of_reframe_has_tasks_parameters_and_units() {
    for (version, expected) in [
        ("3.12", "reframe-3"),
        ("4.2", "reframe-3"),
        ("4.4", "reframe-3"),
        ("4.6", "reframe-3"),
        ("4.8", "reframe-4"),
        ("4.10", "reframe-4"),
    ] {
        let told = data(&format!("reframe-{version}.json"));
        insta::assert_snapshot!(expected, without_times(&told));
    }
}

/// Returns the text without the times of runs, which differ between versions.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive(' ');
    words
        .map(|word| {
            if word.starts_with("wall_s=") {
                "wall_s=T "
            } else {
                word
            }
        })
        .collect()
}

#[test]
fn the_results_of_other_programs_are_recognised_by_their_content() {
    for name in ["hpcadvisor.json", "ramble.json", "hyperfine.json"] {
        insta::assert_snapshot!(name, data(name));
    }
    let shown = ["jube-csv.dat", "jube-aligned.dat"].map(data);
    assert_eq!(shown[0], shown[1]);
    insta::assert_snapshot!("jube", format!("{}\n{}", data("jube-pretty.dat"), shown[0]));
}

#[test]
fn tables_are_read_by_any_separator_decimal_and_quoting() {
    let rows = [
        ["app", "nodes", "wall [ms]", "note"],
        ["x", "2", "812,5", "a"],
        ["x", "4", "1200,25", "b"],
    ];
    let expected = "x.- elsewhere 2Nx1P unknown note=a: wall_s=0.8125 Seconds\nx.- elsewhere 4Nx1P unknown note=b: wall_s=1.20025 Seconds";
    for separator in [",", ";", "\t"] {
        for decimal in [",", "."] {
            for (before, after) in [("", ""), ("\"", "\""), ("", " "), (" ", "")] {
                if (separator, decimal) == (",", ",") && before != "\"" {
                    continue;
                }
                let line = |row: &[&str; 4]| {
                    let field =
                        |text: &&str| format!("{before}{}{after}", text.replace(',', decimal));
                    row.iter().map(field).collect::<Vec<_>>().join(separator)
                };
                let text = rows.iter().map(line).collect::<Vec<_>>().join("\r\n");
                let files = Files::new(&[(
                    "t.csv",
                    &format!("\u{feff}# made by hand\r\n\r\n{text}\r\n"),
                )]);
                assert_eq!(lines(&files.runs("t.csv")), expected, "{text}");
            }
        }
    }
}

#[test]
fn each_column_has_a_role_and_each_row_a_reason() {
    let files = Files::new(&[(
        "t.csv",
        "Nodes,processes,total_s,rate_gb_s,odd [iter],temp,repeat,colour\n2,8,1.5,2,3,1.25,1,red\n2,8,,,,2.5,2,red\n,,,,,,,\n2,8,N/A,,7,3.75,3,red\n",
    )]);
    assert_eq!(
        files.error("t.csv").lines().next(),
        Some("5:5: `N/A` is not a number")
    );
    let options = ImportOptions {
        missing: vec!["common".into()],
        ..ImportOptions::default()
    };
    let file = read(&files.path("t.csv"), &options).expect("runs");
    insta::assert_snapshot!(
        [vec![lines(&file.runs)], file.remarks, file.left_out]
            .concat()
            .join("\n")
    );
}

#[test]
fn a_described_table_has_missing_words_and_a_decimal_comma() {
    let description = |extra: &str| {
        format!(
            "schema = 1\nname = \"d\"\n[[table]]\nfile = \"t.csv\"\n{extra}\n[table.factors]\napp = \"x\"\nmapping = \"1Nx{{p}}P\"\n\
         [[table.quantity]]\nname = \"wall_s\"\nunit = \"s\"\ncolumns = [\"time\"]\n"
        )
    };
    let files = Files::new(&[
        ("t.csv", "p;time;more\n2;1,234;x\n4;-;y\n"),
        ("none.toml", &description("decimal = \"comma\"")),
        ("unclear.toml", &description("missing = [\"-\"]")),
        ("strange.toml", &description("decimal = \",\"")),
        (
            "all.toml",
            &description("missing = [\"common\"]\ndecimal = \"comma\""),
        ),
    ]);
    let told = ["none.toml", "unclear.toml", "strange.toml"].map(|name| files.error(name));
    let file = files.read("all.toml");
    insta::assert_snapshot!(
        [
            told.to_vec(),
            vec![lines(&file.runs)],
            file.remarks,
            file.left_out
        ]
        .concat()
        .join("\n")
    );
}

#[test]
fn a_printed_mean_of_any_length_and_a_line_of_any_width_are_read() {
    let long = format!("0.{}", "3".repeat(70_000));
    let table = format!("type,n,p,clock,r1,r2,mean\nc3,4,1,linux,1,2,{long}\n");
    let heads: Vec<String> = (0..100_000).map(|n| format!("c{n}")).collect();
    let wide = format!(
        "{},wall_s\n{}1\n",
        heads.join(","),
        "x,".repeat(heads.len())
    );
    let files = Files::new(&[
        ("d.toml", DESCRIPTION),
        ("t.csv", &table),
        ("wide.csv", &wide),
    ]);
    let remark = files.read("d.toml").remarks.remove(0);
    assert!(
        remark.len() < 300 && remark.ends_with("2 values, 1.50000000000000000"),
        "{remark}"
    );
    let started = std::time::Instant::now();
    assert_eq!(files.runs("wide.csv").len(), 1);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn errors_are_reported_with_their_place_and_a_hint() {
    let files = Files::new(&[
        ("number.csv", "app,wall_s\nbt,fast\n"),
        ("mapping.csv", "app,mapping,wall_s\nbt,4x2,1\n"),
        ("level.csv", "app,checkpointer,wall_s\nbt,dmtpc,1\n"),
        ("none.csv", "app,colour\nbt,red\n"),
        ("t.csv", DESCRIBED),
        ("column.toml", &DESCRIPTION.replace("\"r2\"", "\"r3\"")),
        ("unit.toml", &DESCRIPTION.replace("\"ms\"", "\"msek\"")),
        ("brace.toml", &DESCRIPTION.replace("{n}Nx", "{nNx")),
        ("key.toml", &DESCRIPTION.replace("printed_mean", "printed")),
        (
            "schema.toml",
            &DESCRIPTION.replace("schema = 1", "schema = 2"),
        ),
        ("missing.toml", &DESCRIPTION.replace("t.csv", "u.csv")),
        ("wrong.json", "{\"runs\": 3}"),
        ("notes.txt", ""),
        ("wall.csv", "app,wall_time\nbt,1.5\n"),
        ("minutes.csv", "app,wall_min\nbt,1.5\n"),
        ("ranks.csv", "app,nprocs,wall_s\nbt,4,1.5\n"),
        ("blanks.csv", "app wall_s\nbt 1.5\n"),
        ("head.csv", "1,2\n3,4\n"),
        ("twice.csv", "app,wall_s, wall_s\nbt,1,2\n"),
        ("comma.csv", "app,wall_s\nbt,812,4\n"),
        ("thousand.csv", "app;wall_s\nbt;1,234\n"),
        ("thousands.csv", "app;wall_s\nbt;1.234,5\nbt;2,5\n"),
        ("word.csv", "app,wall_s\nbt,-\n"),
        (
            "count.csv",
            "processes,nodes,processes_per_node,wall_s\n9,2,4,1\n",
        ),
        ("zero.csv", "nodes,wall_s\n0,1\n"),
        ("huge.csv", "app,rate_gb_s\nbt,1e308\n"),
        ("cut.json", "{\"runs\": [\n{\"testcases\": [NaN"),
        ("list.json", "[1, 2]"),
        ("other.json", "{\"benchmarks\": []}"),
        ("empty.json", "{\"experiments\": []}"),
        (
            "failed.json",
            "{\"runs\": [{\"testcases\": [{\"name\": \"x\", \"result\": \"fail\"}]}]}",
        ),
        (
            "times.json",
            "{\"results\": [{\"command\": \"x\", \"mean\": 1}]}",
        ),
    ]);
    let told: Vec<String> = [
        "number.csv",
        "mapping.csv",
        "level.csv",
        "none.csv",
        "column.toml",
        "unit.toml",
        "brace.toml",
        "key.toml",
        "schema.toml",
        "missing.toml",
        "wrong.json",
        "notes.txt",
        "wall.csv",
        "minutes.csv",
        "ranks.csv",
        "blanks.csv",
        "head.csv",
        "twice.csv",
        "comma.csv",
        "thousand.csv",
        "thousands.csv",
        "word.csv",
        "count.csv",
        "zero.csv",
        "huge.csv",
        "cut.json",
        "list.json",
        "other.json",
        "empty.json",
        "failed.json",
        "times.json",
    ]
    .iter()
    .map(|name| {
        let dir = files.path("");
        let error = files.error(name).replace(dir.as_str(), "");
        format!("{name}\n{error}")
    })
    .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn an_imported_campaign_is_indexed_like_any_other_and_never_replaces_one() {
    let files = Files::new(&[("t.csv", TABLE)]);
    let file = files.path("t.csv");
    let campaigns = files.path("campaigns");
    let write = |name: &str, replace| {
        write_campaign(&campaigns, name, &file, &files.runs("t.csv"), replace)
    };
    let imported = write("theirs", false).expect("a campaign");
    assert_eq!((imported.points, imported.runs), (2, 2));
    let index = Index::in_temporary_file(&imported.dir).expect("an index");
    let summaries = index.summaries().expect("summaries");
    assert_eq!(
        summaries.iter().filter(|s| s.quantity == "wall_s").count(),
        2
    );
    assert!(
        index
            .runs()
            .expect("runs")
            .iter()
            .all(|run| run.records == cvc_index::RecordsState::Ok)
    );
    assert!(matches!(
        write("theirs", false),
        Err(ImportError::Exists { .. })
    ));
    write("theirs", true).expect("it takes the place of the import");
    let names: Vec<String> = fs::read_dir(&campaigns)
        .expect("campaigns")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(names, ["theirs"], "nothing is left beside it");
    // a command was killed between the two renames, on a file system that cannot exchange names
    fs::rename(campaigns.join("theirs"), campaigns.join(".replaced-theirs")).expect("renames");
    assert!(matches!(
        write("theirs", false),
        Err(ImportError::Exists { .. })
    ));
    assert!(campaigns.join("theirs").is_dir());
    // a command was killed before the first rename
    let own = cvc_core::store::own_prefix("import").expect("own times");
    let left = own.replace(&format!("-{}-", std::process::id()), "-4194305-");
    fs::create_dir(campaigns.join(format!("{left}x"))).expect("a directory");
    write("theirs", true).expect("it takes the place of the import");
    assert_eq!(fs::read_dir(&campaigns).expect("campaigns").count(), 1);
    fs::create_dir(campaigns.join("ours")).expect("a directory");
    assert!(matches!(
        write("ours", true),
        Err(ImportError::Exists { .. })
    ));
    assert!(matches!(
        write("../x", false),
        Err(ImportError::Name { .. })
    ));
}
