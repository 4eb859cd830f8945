//! Tests of `cvc compare`, `cvc advise` and `cvc import` as users type them: with real runs, baselines, histories, exit codes. They take about ten
//! seconds.

use crate::common::campaign;
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{fs, path::Path};

const SITES: &str = "[sites.one]\nkind = \"local\"\noversubscribe = true\n[sites.two]\nkind = \"local\"\noversubscribe = true\n";
const RUN: &str = "app = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 4\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_slower_program_is_told_from_its_baseline_with_exit_codes_and_in_a_history() {
    require!(Tool::Mpich);
    let c = campaign("slower", &format!("{SITES}[matrix]\nsite = \"one\"\n{RUN}"));
    c.script_app("script", "sleep 0.05\necho SUCCESS", "");
    c.run().expect(0);
    let saved = c
        .cvc(&["compare", "campaign.toml", "--save", "before"])
        .expect(0);
    assert!(
        saved.stdout.contains("saved as @before"),
        "{}",
        saved.stdout
    );

    // a campaign does not differ from itself
    let itself = [
        "compare",
        "@before",
        "campaign.toml",
        "--quantity",
        "wall_s",
        "--margin",
        "1000%",
        "--gate",
    ];
    c.cvc(&itself).expect(0);

    // run the same campaign again, as if weeks later
    fs::remove_dir_all(c.dir().join("campaigns/slower")).expect("the campaign");
    c.script_app("script", "sleep 0.6\necho SUCCESS", "");
    c.run().expect(0);
    let sides = ["compare", "@before", "campaign.toml"];
    let shown = c.cvc(&sides).expect(0).stdout;
    assert!(
        shown.contains("campaign.toml against @before") || shown.contains("slower against @before"),
        "{shown}"
    );
    for gate in ["--gate", "--gate=worse"] {
        let gated = [&sides[..], &["--quantity", "wall_s", gate]].concat();
        c.cvc(&gated).expect(13);
    }
    // in the other order the change is an improvement
    let better = [
        "compare",
        "campaign.toml",
        "@before",
        "--quantity",
        "wall_s",
        "--gate=worse",
    ];
    c.cvc(&better).expect(0);

    let printed = json(&c.cvc(&[&sides[..], &["--json"]].concat()).expect(0).stdout);
    let rows = printed["comparisons"][0]["rows"].as_array().expect("rows");
    let wall = rows
        .iter()
        .find(|row| row["quantity"] == "wall_s")
        .expect("wall time");
    assert_eq!(wall["verdict"], "larger", "{wall}");
    assert!(
        wall["change_pct"].as_f64().is_some_and(|pct| pct > 100.0),
        "{wall}"
    );
    assert_eq!(
        (&wall["first"]["n"], &wall["second"]["n"]),
        (&4.into(), &4.into())
    );

    let history = c
        .cvc(&["compare", "--history", "@before", "campaign.toml", "--json"])
        .expect(0);
    let steps = json(&history.stdout)["steps"].clone();
    let step = steps
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["quantity"] == "wall_s")
        .expect("a step");
    assert!(
        step["date"]
            .as_str()
            .is_some_and(|date| date.starts_with("20")),
        "{step}"
    );
    assert!(step["changed"].is_array(), "{step}");

    let unknown = c.cvc(&["compare", "@before", "@march"]).expect(2).stderr;
    assert!(
        unknown.contains("there is no baseline @march") && unknown.contains("@before"),
        "{unknown}"
    );
    let unknown = c
        .cvc(&[&sides[..], &["--quantity", "wall"]].concat())
        .expect(2)
        .stderr;
    assert!(
        unknown.contains("`wall` is not measured") && unknown.contains("wall_s"),
        "{unknown}"
    );
}

#[test]
fn the_sites_of_a_campaign_are_compared_advised_upon_and_reported() {
    require!(Tool::Mpich);
    let c = campaign(
        "sites",
        &format!("{SITES}[matrix]\nsite = [\"one\", \"two\"]\n{RUN}"),
    );
    c.script_app("script", "sleep 0.05\necho SUCCESS", "");
    c.run().expect(0);
    let shown = c
        .cvc(&["compare", "campaign.toml", "--to", "sides", "--detail"])
        .expect(0)
        .stdout;
    assert!(shown.contains("two against one: 1 equal points"), "{shown}");
    assert!(c.dir().join("sides/report.html").is_file());
    let one = [
        "compare",
        "campaign.toml:one",
        "campaign.toml:two",
        "--json",
    ];
    assert_eq!(
        json(&c.cvc(&one).expect(0).stdout)["comparisons"][0]["pairs"],
        1
    );
    let advice = c
        .cvc(&[
            "advise",
            "campaign.toml",
            "--price",
            "one=0.5",
            "--price",
            "two=50",
            "--json",
        ])
        .expect(0);
    let advice = json(&advice.stdout);
    let cheap = advice["advice"][0]["candidates"]
        .as_array()
        .expect("candidates")
        .iter()
        .find(|candidate| candidate["label"] == "one")
        .expect("the cheap site");
    assert_eq!(cheap["standing"], "front", "nothing is cheaper: {advice}");
    let misspelt = c
        .cvc(&["advise", "campaign.toml", "--price", "onee=1"])
        .expect(2)
        .stderr;
    assert!(misspelt.contains("did you mean `one`?"), "{misspelt}");
    let priceless = c
        .cvc(&["advise", "campaign.toml", "--budget", "20"])
        .expect(2)
        .stderr;
    assert!(priceless.contains("--price one=USD"), "{priceless}");
    c.cvc(&["advise", "campaign.toml", "--checkpointed"])
        .expect(8);
    let late = c
        .cvc(&["advise", "campaign.toml", "--deadline", "1ms"])
        .expect(0)
        .stdout;
    assert!(
        late.contains("none of 2 candidates satisfies the constraints"),
        "{late}"
    );
    // four runs have an interval, which is below each time
    assert!(
        late.contains("95 % interval") && late.contains(" … "),
        "{late}"
    );
    let missing = c
        .cvc(&["advise", "campaign.toml", "--app", "solver"])
        .expect(2)
        .stderr;
    assert!(missing.contains("measured are: script"), "{missing}");
    let alone = c.cvc(&["compare", "campaign.toml:one"]).expect(2).stderr;
    assert!(alone.contains("has results of one site only"), "{alone}");
    let strange = c.cvc(&["compare", "campaign.toml:three"]).expect(2).stderr;
    assert!(strange.contains("its sites: one, two"), "{strange}");
}

#[test]
fn an_imported_table_passes_fsck_and_is_reported_like_any_campaign() {
    let c = campaign("unused", SITES);
    fs::write(
        c.dir().join("theirs.csv"),
        "app,site,mapping,wall_s\nbt,x,1Nx4P,10\nbt,x,1Nx4P,11\nbt,y,1Nx4P,20\nbt,y,1Nx4P,21\n",
    )
    .expect("a table");
    let told = c.cvc(&["import", "theirs.csv"]).expect(0).stdout;
    assert!(told.contains("4 runs of 2 points"), "{told}");

    c.put(
        "cloud.toml",
        "schema = 1\nname = \"theirs\"\n[sites.cloud]\nkind = \"ec2\"\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
         instance_types = [\"c5.xlarge\"]\nnodes = 1\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\n",
    );
    let import = |option: &[&str]| {
        let args = [&["import", "theirs.csv"], option].concat();
        c.cvc(&args).expect(0).stderr
    };
    let named = import(&["--replace"]);
    assert!(
        named.contains("cloud.toml has the same name and launches instances"),
        "{named}"
    );
    let other = import(&["--as", "others"]);
    assert!(!other.contains("instances"), "{other}");
    let checked = c.cvc(&["fsck", "theirs"]).expect(0);
    assert!(
        checked.stdout.contains("nothing is damaged"),
        "{}",
        checked.stdout
    );
    c.cvc(&["report", "theirs", "--to", "r"]).expect(0);
    let status = c.cvc(&["status", "theirs"]).expect(0).stdout;
    assert!(status.contains('4'), "{status}");
    let compared = c
        .cvc(&["compare", "theirs", "--quantity", "wall_s", "--gate"])
        .expect(13);
    assert!(
        compared.stdout.contains("y against x"),
        "{}",
        compared.stdout
    );
    // a program with that name is not taken for a campaign file
    fs::write(c.dir().join("theirs"), [0x7f, b'E', b'L', b'F', 0xff]).expect("a program");
    c.cvc(&["compare", "theirs", "--quantity", "wall_s"])
        .expect(0);
    c.cvc(&["status", "theirs"]).expect(0);
    fs::write(
        c.dir().join("lost.csv"),
        "app,nodes,wall_s\nbt,1,10\nbt,2,\n",
    )
    .expect("a table");
    let lost = c.cvc(&["import", "lost.csv"]).expect(16).stderr;
    assert!(
        lost.contains("1 row has no value of a quantity: line 3"),
        "{lost}"
    );
    let left = c.cvc(&["import", "lost.csv", "--skip"]).expect(0);
    assert!(left.stdout.contains("1 run of 1 point"), "{}", left.stdout);
    let twice = c.cvc(&["import", "theirs.csv"]).expect(2).stderr;
    assert!(
        twice.contains("exists") && twice.contains("--replace"),
        "{twice}"
    );
}

#[test]
fn the_gallery_shows_what_is_written_today() {
    let c = campaign("unused", SITES);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for side in ["cluster", "cloud"] {
        let description = root.join(format!("experiments/papers/thesis/import/{side}.toml"));
        c.cvc(&["import", description.to_str().expect("a path")])
            .expect(0);
    }
    let formats = ["--format", "html,markdown", "--to"];
    let sides = ["compare", "thesis-cluster", "thesis-cloud:c3.2xlarge"];
    c.cvc(&[&sides[..], &formats, &["cluster-against-cloud"]].concat())
        .expect(0);
    let prices = [
        "advise",
        "thesis-cloud",
        "--price",
        "t2.micro=0.012",
        "--price",
        "c3.xlarge=0.21",
        "--price",
        "c3.2xlarge=0.42",
    ];
    c.cvc(&[&prices[..], &formats, &["advice"]].concat())
        .expect(0);
    for page in ["cluster-against-cloud", "advice"] {
        for file in ["report.html", "report.md"] {
            let kept = root.join("reports/gallery").join(page).join(file);
            let [made, kept] = [c.dir().join(page).join(file), kept].map(|path| {
                fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
            });
            assert!(
                made == kept,
                "reports/gallery/{page}/{file} is not current: docs/compare.md and docs/advise.md have the commands; add --to reports/gallery/{page} \
                 --format html,markdown"
            );
        }
    }
}
