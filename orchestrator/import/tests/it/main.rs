//! Tables of others as campaigns.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    point::{CheckpointerKind, UserValue},
    record::Unit,
};
use cvc_import::{ImportError, ImportedRun, read, write_campaign};
use cvc_index::Index;
use std::fs;

/// A directory with these files.
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
        read(&self.path(name))
            .unwrap_or_else(|e| panic!("{e}"))
            .runs
    }

    fn error(&self, name: &str) -> String {
        match read(&self.path(name)) {
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
    let file = read(&files.path("d.toml")).expect("runs");
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
    let [remark] = file.remarks.as_slice() else {
        panic!("{:?}", file.remarks)
    };
    assert!(
        remark.ends_with("t.csv, line 3: the printed mean 3400 is not that of its 2 values, 3500"),
        "{remark}"
    );
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
    let runs = files.runs("r.json");
    let told: Vec<String> = runs
        .iter()
        .map(|run| {
            let values: Vec<String> = run
                .values
                .iter()
                .map(|v| format!("{}={} {:?}", v.name, v.value, v.unit))
                .collect();
            let p = &run.point;
            format!(
                "{} {} {} {}: {}",
                p.app,
                p.site,
                p.mapping,
                p.mpi,
                values.join(", ")
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_a_hint() {
    let files = Files::new(&[
        ("number.csv", "app,wall_s\nbt,fast\n"),
        ("mapping.csv", "app,mapping,wall_s\nbt,4x2,1\n"),
        ("level.csv", "app,checkpointer,wall_s\nbt,dmtpc,1\n"),
        ("none.csv", "app,colour\nbt,red\n"),
        ("t.csv", DESCRIBED),
        ("column.toml", &DESCRIPTION.replace("\"r2\"", "\"r3\"")),
        ("unit.toml", &DESCRIPTION.replace("\"ms\"", "\"msec\"")),
        ("brace.toml", &DESCRIPTION.replace("{n}Nx", "{nNx")),
        ("key.toml", &DESCRIPTION.replace("printed_mean", "printed")),
        (
            "schema.toml",
            &DESCRIPTION.replace("schema = 1", "schema = 2"),
        ),
        ("missing.toml", &DESCRIPTION.replace("t.csv", "u.csv")),
        ("wrong.json", "{\"runs\": 3}"),
        ("notes.txt", ""),
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
    let index = Index::apart(&imported.dir).expect("an index");
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
            .all(|run| run.records == "ok")
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
