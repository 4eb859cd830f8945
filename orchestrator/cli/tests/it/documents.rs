//! Tests that the JSON that commands print conforms to `cvc schema`. They take about five seconds.

use crate::{common::campaign, predict::violations};
use cvc_testkit::{Campaign, Tool, require};
use serde_json::Value;

const TEXT: &str = "[sites.one]\nkind = \"local\"\noversubscribe = true\n[matrix]\napp = \"script\"\nmpi = \"mpich\"\nprocesses = [1, 2, 3]\n\
                    [[exclude]]\nwhen = { processes = 3 }\nreason = \"three is a crowd\"\n\
                    [[expect_failure]]\nwhen = { processes = 2 }\nreason = \"two have no mesh\"\n\
                    [run]\nrepeats = 2\n";

/// Checks that a command prints a document that conforms to this schema, has its version, and has no keys that the schema does not describe.
#[track_caller]
pub fn conforms(c: &Campaign, name: &str, command: &[&str]) -> Value {
    let schema: Value =
        serde_json::from_str(&c.cvc(&["schema", name]).expect(0).stdout).expect("JSON");
    let finished = c.cvc(&[command, &["--json"]].concat());
    let document: Value = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|e| panic!("{command:?}: {e}: {} {}", finished.stdout, finished.stderr));
    assert!(document["schema"].is_u64(), "{command:?}: {document}");
    let mut found = Vec::new();
    violations(&schema, &schema, &document, "", &mut found);
    assert!(found.is_empty(), "{command:?}: {found:#?}");
    let forms: Vec<&Value> = match schema["$defs"].as_object() {
        Some(defs) if schema["anyOf"].is_array() => defs.values().collect(),
        _ => vec![&schema],
    };
    let keys = document.as_object().expect("an object").keys();
    let missing = |form: &Value| -> Vec<String> {
        keys.clone()
            .filter(|key| form["properties"][key].is_null())
            .cloned()
            .collect()
    };
    let fewest = forms.iter().map(|form| missing(form)).min_by_key(Vec::len);
    assert_eq!(fewest, Some(Vec::new()), "{command:?} describes all keys");
    document
}

#[test]
fn documents_of_a_campaign_are_what_their_schemas_say() {
    require!(Tool::Mpich);
    let c = campaign("documents", TEXT);
    c.script_app(
        "script",
        "[ \"$CVC_PROCESSES\" != 2 ] && [ \"${PMI_SIZE:-1}\" != 2 ] || { echo 'mesh.dat: no such mesh' >&2; exit 3; }\necho SUCCESS",
        "",
    );
    conforms(&c, "plan", &["plan"]);
    conforms(&c, "plan", &["plan", "campaign.toml", "--estimates"]);
    let ran = c.cvc(&["run", "--junit", "runs.xml", "--summary", "runs.md"]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("2 runs failed as expected"),
        "{}",
        ran.stdout
    );
    let read = |name: &str| std::fs::read_to_string(c.dir().join(name)).expect(name);
    let xml = read("runs.xml");
    assert!(
        xml.contains("tests=\"4\"") && xml.contains("failures=\"0\""),
        "{xml}"
    );
    assert!(read("runs.md").contains("4 passed, 0 failed, 0 skipped"));

    let status = conforms(&c, "status", &["status"]);
    let runs = status["runs"].as_array().expect("runs");
    let succeeded = runs.iter().find(|run| run["state"] == "succeeded");
    let run = succeeded.expect("one has")["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    conforms(&c, "explain", &["explain", "campaign.toml", &run]);
    conforms(&c, "explain", &["explain", "campaign.toml", "processes=3"]);
    conforms(&c, "explain", &["explain", "campaign.toml", "processes=2"]);
    conforms(&c, "fsck", &["fsck"]);
    conforms(&c, "aa-test", &["aa-test"]);
    conforms(&c, "doctor", &["doctor", "campaign.toml"]);
    conforms(&c, "doctor", &["doctor"]);
    let of = [
        "strategy", "--nodes", "4", "--stored", "4GiB", "--mtbf", "12h",
    ];
    conforms(
        &c,
        "strategy",
        &[&of[..], &["--shared", "1GiB", "--overhead=30%"]].concat(),
    );
    let here = c.dir().display().to_string();
    let small = ["--writers", "1", "--size", "4MiB", "--time", "50ms"];
    let measured = ["bandwidth", "--storage", &here];
    conforms(&c, "bandwidth", &[&measured[..], &small].concat());
    let runs = c.dir().join("campaigns/documents/runs").join(&run);
    std::fs::write(runs.join("records.jsonl"), "x").expect("writes");
    conforms(&c, "fsck", &["fsck"]);
    conforms(&c, "fsck", &["fsck", "--repair"]);
}

#[test]
fn documents_of_images_and_traces_are_what_their_schemas_say() {
    let c = campaign("files", TEXT);
    let import = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/papers/thesis/import/cloud.toml"
    );
    c.cvc(&["import", import]).expect(0);
    let priced = ["advise", "thesis-cloud", "--price", "c3.xlarge=0.21"];
    let asked = ["--work", "24h", "--every", "1h", "--budget", "20"];
    conforms(&c, "advise", &priced[..2]);
    conforms(&c, "advise", &[&priced[..], &asked].concat());
    let strict = [
        "--deadline",
        "3min",
        "--overhead",
        "5%",
        "--walltime",
        "1h",
        "--notice",
        "2min",
        "--mtbf",
        "3h",
        "--restart-time",
        "1min",
        "--dollars-per-gib-month",
        "0.1",
    ];
    conforms(&c, "advise", &[&priced[..], &strict].concat());
    for file in ["thesis-cloud.toml", "quickstart.toml"] {
        let file = format!("{}/../../experiments/{file}", env!("CARGO_MANIFEST_DIR"));
        conforms(&c, "plan", &["plan", &file, "--estimates"]);
    }
    conforms(&c, "compare", &["compare", "thesis-cloud"]);
    conforms(
        &c,
        "compare",
        &[
            "compare",
            "thesis-cloud:c3.xlarge",
            "thesis-cloud:c3.2xlarge",
        ],
    );
    let reproduced = conforms(&c, "reproduce", &["reproduce", "thesis", "--format", "csv"]);
    let counts = &reproduced["claim_counts"];
    assert!(
        counts["holds"].as_u64() > Some(20) && counts["contradicted_by_print"].as_u64() > Some(10),
        "{counts}"
    );
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/fixtures/dmtcp");
    let image = format!("{images}/mpich-btA-np16-rank0.dmtcp.gz");
    conforms(&c, "image", &["image", &image]);
    conforms(&c, "image", &["image", images]);
    conforms(&c, "image", &["image", &image, "--estimate", "gzip"]);
    let trace = c.dir().join("strace.1");
    std::fs::write(
        &trace,
        "1 1700000000.000000 openat(AT_FDCWD, \"/data/x\", O_WRONLY|O_CREAT, 0644) = 3</data/x> <0.000010>\n\
         1 1700000000.100000 pwrite64(3</data/x>, \"\"..., 4096, 0) = 4096 <0.000100>\n\
         1 1700000000.200000 close(3</data/x>) = 0 <0.000010>\n",
    )
    .expect("writes");
    conforms(&c, "trace", &["trace", trace.to_str().expect("UTF-8")]);
    let trace = trace.to_str().expect("UTF-8");
    conforms(&c, "metadata", &["metadata", trace]);
    conforms(&c, "metadata", &["metadata", trace, trace]);
    let layout = "predict --layout --file-system pvfs2 --processes 64 --per-node 8 --size 1GiB --bandwidth 1GiB --metadata-rate 100 --stripe 1MiB \
                  --interval 1h --for 5h --dmtcp";
    conforms(
        &c,
        "predict",
        &layout.split_whitespace().collect::<Vec<_>>(),
    );
    let export = c.dir().join("jobs.txt");
    std::fs::write(
        &export,
        "JobID|JobName|State|AllocNodes|AllocCPUS|ReqMem|ElapsedRaw|Start\n\
         1|bt|COMPLETED|1|4|4Gn|7200|2026-03-01T10:00:00\n\
         2|huge|COMPLETED|1|4000|4Gn|3600|2026-03-01T10:00:00\n",
    )
    .expect("writes");
    conforms(&c, "jobs", &["jobs", export.to_str().expect("UTF-8")]);
    let pairs = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/delta-pairs.csv"
    );
    let question = ["--app-time", "10h", "--mtbf", "1h", "--bandwidth", "100MiB"];
    let asked = [&["predict", "--delta", pairs][..], &question].concat();
    conforms(&c, "predict", &asked);
    conforms(
        &c,
        "predict",
        &[
            "predict",
            "--checkpoint-time",
            "3m",
            "--nodes",
            "100",
            "--mtbf-node",
            "12h",
        ],
    );
}

/// A schema derived from a document in which a value was missing would refuse all documents with that value.
#[test]
fn no_schema_describes_a_value_that_is_always_null() {
    fn always_null(schema: &Value, way: &str, found: &mut Vec<String>) {
        for (key, value) in schema.as_object().into_iter().flatten() {
            let way = format!("{way}/{key}");
            if value["type"] == "null" {
                found.push(way.clone());
            }
            always_null(value, &way, found);
        }
    }
    let c = campaign("schemas", TEXT);
    let refused = c.cvc(&["schema", "nothing"]).expect(2).stderr;
    let names = refused.split_once("possible values: ").expect("a list").1;
    let names = names.split_once(']').expect("a list").0;
    let mut found = Vec::new();
    for name in names.split(", ") {
        let schema = c.cvc(&["schema", name]).expect(0).stdout;
        always_null(
            &serde_json::from_str(&schema).expect("JSON"),
            name,
            &mut found,
        );
    }
    assert!(names.contains("plan") && found.is_empty(), "{found:#?}");
}
