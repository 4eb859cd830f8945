//! Measured values joined to printed tables: records of real runs (DMTCP 4.2, MPICH 4.0 ch3:nemesis, NPB 3.3), cut down to what is asked for.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::copy_tree;
use cvc_paper::paper::{self, Agreement, Paper};
use cvc_paper::rerun::{self, CampaignMeasurements, Joined};
use cvc_prediction::holdout::rebuild_index;
use std::{fs, path::Path};

fn here() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A paper of three tables with the printed numbers of the thesis.
fn folder(dir: &Path, measured: &str, anomalies: &str) -> Paper {
    let folder = dir.join("small");
    fs::create_dir_all(folder.join("tables")).expect("a folder");
    let column = |id: &str, kind: &str| {
        format!("{{ id = \"{id}\", heading = \"{id}\", kind = \"{kind}\", optional = true }},\n")
    };
    let zones = [
        ("benchmark", "label"),
        ("class", "label"),
        ("processes", "setting"),
        ("dtapp", "measured"),
        ("lb", "measured"),
        ("shmem", "measured"),
    ];
    let files = [
        ("mapping", "label"),
        ("is_aggregator", "setting"),
        ("file", "measured"),
    ];
    let table = |id: &str, columns: &[(&str, &str)]| {
        let columns: String = columns.iter().map(|(id, kind)| column(id, kind)).collect();
        format!(
            "[[tables]]\nid = \"{id}\"\ntitle = \"Table {id}\"\nfile = \"tables/{id}.csv\"\ncaption = \"small\"\ncolumns = [\n{columns}]\n"
        )
    };
    let toml = format!(
        "schema = 1\nid = \"small\"\ntitle = \"A small paper\"\nauthors = [\"A\"]\nyear = 2022\n{}{}",
        table("1", &zones),
        table("2", &files)
    );
    fs::write(folder.join("paper.toml"), toml + anomalies).expect("paper.toml");
    let one = "benchmark,class,processes,dtapp,lb,shmem\n\
               BT,B,4,109.94,2.45,42.45\nBT,C,16,112.09,2.45,105.01\nBT,C,25,75.91,2.45,163.57\nBT,C,36,57.61,2.45,248.91\n\
               LU,B,4,49.55,2.45,41.07\nSP,B,4,94.3,2.45,42.45\nFT,B,4,1,1,1\nBT,D,16,1626.72,2.45,105.01\n";
    fs::write(folder.join("tables/1.csv"), one).expect("a table");
    let two = "mapping,is_aggregator,file\n1N x 4P,1,182.1\n1N x 4P,0,165.6\n1N x 4P,0,166.63\n2n x 4p + 1n x 1p,1,122.11\n";
    fs::write(folder.join("tables/2.csv"), two).expect("a table");
    fs::write(folder.join("measured.toml"), measured).expect("measured.toml");
    if !anomalies.is_empty() {
        let list = "id,table,cell,printed,likely,why,confidence\nA1,1,shmem,42.45,49,a slip,high\n";
        fs::write(folder.join("anomalies.csv"), list).expect("anomalies");
    }
    paper::load(&folder).unwrap_or_else(|e| panic!("{e}"))
}

const MEASURED: &str = r#"
schema = 1
campaigns = [{ file = "sizes.toml", variant = "here" }]

[[tables]]
table = "1"
point = { app = { column = "benchmark", values = { BT = "npb-bt", LU = "npb-lu", SP = "npb-sp" } }, class = "{class}", mapping = "1Nx{processes}P", mpi = "mpich-ch3" }
columns = [
  { column = "dtapp", value = { record = "zone_range_bytes", zones = ["DTAPP"] }, tolerance_pct = 1 },
  { column = "lb", rows = { benchmark = "BT" }, value = { record = "zone_range_bytes", zones = ["LB"] }, tolerance_pct = 1, because = "today's libraries", explains = [45.5, 51.5] },
  { column = "shmem", value = { record = "zone_range_bytes", zones = ["SHMEM"] }, tolerance_pct = 1, because = "other areas", explains = [6.8, 10] },
]
not_measured = [{ rows = { class = "D" }, because = "class D needs more memory" }]

[[tables]]
table = "2"
point = { app = "btio-full", class = "B", mapping = "{mapping}", aggregators = "default" }
columns = [
  { column = "file", value = { record = "file_bytes", images = { column = "is_aggregator", values = { "1" = "largest aggregators", "0" = "but-largest aggregators" } } }, tolerance_pct = 30 },
]

[[differences]]
id = "growth"
title = "Growth"
caption = "SHMEM(p2) - SHMEM(p1)."
table = "1"
column = "shmem"
series = ["{benchmark}"]
along = "{processes}"
value = { record = "zone_range_bytes", zones = ["SHMEM"] }
tolerance_pct = 1

[[differences]]
id = "buffer"
title = "Buffer"
caption = "What an aggregator stores more."
table = "2"
column = "file"
series = ["{mapping}"]
along = "{is_aggregator}"
value = { record = "zone_bytes", images = { column = "is_aggregator", values = { "1" = "largest aggregators", "0" = "but-largest aggregators" } } }
tolerance_pct = 5
"#;

/// The joined paper, or the errors of `measured.toml`.
fn join(measured: &str) -> Result<(Paper, Joined), String> {
    join_with(measured, "")
}

/// The same with misprints in the paper.
fn join_with(measured: &str, anomalies: &str) -> Result<(Paper, Joined), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let paper = folder(dir.path(), measured, anomalies);
    let definition = rerun::load(&dir.path().join("small"))
        .map_err(|e| e.to_string())?
        .expect("it is there");
    // the index is written beside the data
    let campaign = Utf8PathBuf::from_path_buf(dir.path().join("campaign")).expect("text");
    copy_tree(&here().join("tests/data/rerun/sizes"), &campaign).expect("copied");
    let mut all = CampaignMeasurements::default();
    all.add(&rebuild_index(&campaign).expect("an index"))
        .expect("its records");
    let joined = rerun::join(&paper, &definition, &all);
    Ok((paper, joined))
}

#[test]
fn measured_zones_stand_beside_print_with_verdict_and_cause() {
    let (_, joined) = join(MEASURED).expect("joined");
    assert_eq!(joined.mistakes, Vec::<String>::new());
    let cells: Vec<String> = joined.tables[0]
        .cells
        .iter()
        .map(|c| {
            format!(
                "{} {} {} {:.2} n={} {:?}",
                c.key.row, c.key.column, c.printed, c.measured.value, c.measured.n, c.agreement
            )
        })
        .collect();
    // the distance 6.58 of shared memory on 4 processes is outside what the reason explains
    insta::assert_snapshot!(cells.join("\n"), @"
    0 dtapp 109.94 109.70 n=1 WithPrint
    0 lb 2.45 50.93 n=1 Explained
    0 shmem 42.45 49.03 n=1 Differs
    1 dtapp 112.09 112.00 n=1 WithPrint
    1 lb 2.45 50.93 n=1 Explained
    1 shmem 105.01 111.92 n=1 Explained
    4 dtapp 49.55 49.35 n=1 WithPrint
    4 shmem 41.07 48.06 n=1 Explained
    ");
    let first = &joined.tables[0].cells[0];
    assert!(
        first.measured.from.starts_with("sizes ") && first.measured.sd.is_none(),
        "{first:?}"
    );
    assert_eq!(joined.measurements()[&first.key], first.measured);
    let lb = joined.tables[0]
        .cells
        .iter()
        .find(|c| c.key.column == "lb")
        .expect("libraries");
    assert_eq!(
        lb.measured.reason.as_ref().map(|r| r.because.as_str()),
        Some("today's libraries")
    );
}

#[test]
fn rows_without_runs_say_why() {
    let (_, joined) = join(MEASURED).expect("joined");
    let missing: Vec<String> = joined
        .tables
        .iter()
        .flat_map(|t| {
            t.missing
                .iter()
                .map(|m| format!("{} {}: {}", t.table, m.row, m.because))
        })
        .collect();
    assert_eq!(
        missing,
        [
            "1 2: its run failed (disk-full): no space left",
            "1 3: npb-bt is not installed: no bt.C.36 or bt.C.x in npb, PATH",
            "1 5: it has not been run yet",
            "1 6: no campaign runs `FT`",
            "1 7: class D needs more memory",
            "2 3: it needs 3 nodes",
        ]
    );
}

#[test]
fn a_warm_up_is_not_measured() {
    let dir = tempfile::tempdir().expect("a directory");
    let paper = folder(dir.path(), MEASURED, "");
    let definition = rerun::load(&dir.path().join("small"))
        .expect("it can be read")
        .expect("it is there");
    let campaign = Utf8PathBuf::from_path_buf(dir.path().join("campaign")).expect("text");
    copy_tree(&here().join("tests/data/rerun/sizes"), &campaign).expect("copied");
    let file = campaign.join("plan.json");
    let mut plan: cvc_core::plan::Plan =
        serde_json::from_str(&fs::read_to_string(&file).expect("a plan")).expect("a plan");
    // the only run of the first row
    plan.runs[0].repeat = cvc_core::point::Repeat::Warmup(1);
    fs::write(&file, serde_json::to_string(&plan).expect("JSON")).expect("a plan");
    let mut all = CampaignMeasurements::default();
    all.add(&rebuild_index(&campaign).expect("an index"))
        .expect("its records");
    let joined = rerun::join(&paper, &definition, &all);
    let rows: Vec<usize> = joined.tables[0].cells.iter().map(|c| c.key.row).collect();
    assert!(!rows.contains(&0) && rows.contains(&1), "{rows:?}");
}

#[test]
fn growth_is_compared_where_levels_differ() {
    let (_, joined) = join(MEASURED).expect("joined");
    let [growth, buffer] = &joined.differences[..] else {
        panic!("{:?}", joined.differences)
    };
    // 16 processes against 4: 62.56 MiB in print
    let [step] = &growth.steps[..] else {
        panic!("{:?}", growth.steps)
    };
    assert_eq!((step.from, step.to), (4.0, 16.0));
    assert!(
        (step.printed - 62.56).abs() < 1e-9 && (step.measured - 62.89).abs() < 0.005,
        "{step:?}"
    );
    assert_eq!(step.agreement, Some(Agreement::WithPrint));
    // the aggregator's buffer: the printed plain files enter with their mean
    let [step] = &buffer.steps[..] else {
        panic!("{:?}", buffer.steps)
    };
    assert!(
        (step.printed - (182.1 - (165.6 + 166.63) / 2.0)).abs() < 1e-9,
        "{step:?}"
    );
    assert!((15.0..20.0).contains(&step.measured), "{step:?}");
    assert_eq!(step.agreement, Some(Agreement::Differs));
}

/// A printed number that is known to be wrong is held against as what was meant, in both sections of a report alike; differences say so, and leave
/// out rows of which nothing was meant.
#[test]
fn misprints_are_read_as_what_was_meant() {
    let (paper, plain) = join(MEASURED).expect("joined");
    let step = |joined: &Joined| {
        joined.differences[0]
            .steps
            .first()
            .map(|s| (s.printed, s.agreement))
    };
    assert_eq!(step(&plain).map(|s| s.1), Some(Some(Agreement::WithPrint)));
    let with = |likely: &str| {
        let anomalies = format!(
            "[[anomaly_cells]]\nid = \"A1\"\ntable = \"1\"\nrows = {{ class = \"B\", benchmark = \"BT\" }}\ncolumns = [\"shmem\", \"lb\"]\neffect = \"wrong\"\n{likely}"
        );
        let (paper, joined) = join_with(MEASURED, &anomalies).expect("joined");
        let cell = joined.tables[0]
            .cells
            .iter()
            .find(|c| c.key.row == 0 && c.key.column == "shmem")
            .expect("measured")
            .clone();
        // the other section of the report says the same
        let judged = paper::judge(&paper, &[], &joined.measurements());
        let column = paper.tables[0].column("shmem").expect("a column");
        assert_eq!(
            judged.tables[0].rows[0][column]
                .measured
                .as_ref()
                .map(|m| m.agreement),
            Some(cell.agreement)
        );
        let text = serde_json::to_string(&rerun::sections(&paper, &joined, None).expect("drawn"))
            .expect("JSON");
        (cell, step(&joined), text)
    };
    let (cell, difference, text) = with("likely = 49.0\n");
    assert_eq!(
        (cell.agreement, cell.likely),
        (Agreement::WithLikely, Some(49.0))
    );
    let (printed, agreement) = difference.expect("a step");
    assert!(
        (printed - (105.01 - 49.0)).abs() < 1e-9 && agreement == Some(Agreement::Differs),
        "{printed} {agreement:?}"
    );
    assert!(
        text.contains("of the probable value: 49")
            && text.contains("Misprints (A1) are replaced by the probable values"),
        "{text}"
    );
    let (cell, difference, text) = with("");
    assert_eq!((cell.agreement, difference), (Agreement::Differs, None));
    assert!(
        !text.contains("Growth") || text.contains("are left out (A1)"),
        "{text}"
    );
    assert_eq!(paper.anomalies.len(), 0);
}

#[test]
fn images_of_aggregators_and_of_others_are_distinguished() {
    let (_, joined) = join(MEASURED).expect("joined");
    let files: Vec<f64> = joined.tables[1]
        .cells
        .iter()
        .map(|c| c.measured.value)
        .collect();
    let [aggregator, plain, other] = files[..] else {
        panic!("{files:?}")
    };
    assert!(aggregator > plain + 10.0 && plain == other, "{files:?}");
}

#[test]
fn the_sections_show_every_cell_with_the_digits_of_print() {
    let (paper, joined) = join(MEASURED).expect("joined");
    let sections = rerun::sections(&paper, &joined, Some("a note")).expect("drawn");
    assert_eq!(
        sections.iter().map(|s| s.id).collect::<Vec<_>>(),
        ["measured", "differences"]
    );
    let text = serde_json::to_string(&sections).expect("JSON");
    for wanted in [
        "109.94",
        "109.70",
        "a note",
        "differs: today's libraries",
        "npb-bt is not installed",
        "-0.22",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_place() {
    for (from, to, wanted) in [
        (
            "table = \"2\"\npoint",
            "table = \"9\"\npoint",
            "the paper has no table `9`",
        ),
        (
            "column = \"dtapp\"",
            "column = \"dtap\"",
            "table 1 has no column `dtap`",
        ),
        (
            "column = \"lb\"",
            "column = \"class\"",
            "the column `class` of table 1 has no numbers",
        ),
        (
            "\"largest aggregators\", \"0\"",
            "\"largest ones\", \"0\"",
            "unknown images `largest ones`",
        ),
        (
            "1Nx{processes}P",
            "1Nx{ranks}P",
            "the table has no column `ranks`",
        ),
    ] {
        let (_, joined) = join(&MEASURED.replacen(from, to, 1)).expect("it is read");
        let output: Vec<String> = joined
            .mistakes
            .iter()
            .cloned()
            .chain(
                joined
                    .tables
                    .iter()
                    .flat_map(|t| t.missing.iter().map(|m| m.because.clone())),
            )
            .collect();
        assert!(
            output.iter().any(|s| s.contains(wanted)),
            "{wanted}: {output:?}"
        );
    }
    for (from, to, wanted) in [
        (
            "schema = 1",
            "schema = 2",
            "unknown format 2 of measured tables",
        ),
        (
            "mpi = \"mpich-ch3\"",
            "mip = \"mpich-ch3\"",
            "unknown factor `mip`",
        ),
        (
            "column = \"benchmark\", values",
            "column = \"benchmark\", pattern = '(a)(b)', values",
            "must have one group",
        ),
        (
            "tolerance_pct = 30",
            "tolerance = 30",
            "unknown key `tolerance`",
        ),
        ("campaigns = [", "campagins = [", "unknown key `campagins`"),
        (
            ", explains = [45.5, 51.5]",
            "",
            "table 1, `lb`: `because` without `explains`",
        ),
        (
            "because = \"today's libraries\", ",
            "",
            "table 1, `lb`: `explains` without `because`",
        ),
        (
            "explains = [45.5, 51.5]",
            "explains = [51.5, 45.5]",
            "table 1, `lb`: [51.5, 45.5] is not a range",
        ),
    ] {
        let output = join(&MEASURED.replacen(from, to, 1)).expect_err(wanted);
        assert!(
            output.contains(wanted) && output.contains("measured.toml:"),
            "{output}"
        );
    }
}

/// What the thesis's own file says fits its tables, and its campaigns are there with the variants that it names.
#[test]
fn the_committed_files_fit_their_papers() {
    let papers = here().join("../../experiments/papers");
    let mut files = 0;
    for entry in papers.read_dir_utf8().expect("papers").flatten() {
        let Some(definition) =
            rerun::load(entry.path().as_std_path()).unwrap_or_else(|e| panic!("{e}"))
        else {
            continue;
        };
        files += 1;
        let paper = paper::load(entry.path().as_std_path()).unwrap_or_else(|e| panic!("{e}"));
        let joined = rerun::join(&paper, &definition, &CampaignMeasurements::default());
        assert_eq!(joined.mistakes, Vec::<String>::new());
        assert!(
            joined
                .tables
                .iter()
                .all(|t| !t.missing.is_empty() && t.cells.is_empty())
        );
        // a reason that explains any distance is none: a few MiB, and less than what it stands for
        let columns = definition.tables.iter().flat_map(|t| {
            t.columns
                .iter()
                .map(|c| (&c.column, c.reason(), c.value.unit.size()))
        });
        let differences = definition
            .differences
            .iter()
            .map(|d| (&d.id, d.reason(), d.value.unit.size()));
        for (name, reason, unit) in columns.chain(differences) {
            let Some(paper::UnmeasuredReason {
                because,
                explains: [low, high],
            }) = reason
            else {
                continue;
            };
            let mib = (high - low) * unit / (1024.0 * 1024.0);
            assert!(mib <= 6.0, "{name}: {because}: {low} to {high}");
            assert!(
                !(low < 0.0 && high > 0.0),
                "{name}: {because}: {low} to {high} is in both directions"
            );
        }
        for campaign in &definition.campaigns {
            let file = entry.path().join(&campaign.file);
            let apps = [here().join("../../experiments/apps").into_std_path_buf()];
            let spec = cvc_core::campaign::load_variant(
                file.as_std_path(),
                Some(&campaign.variant),
                &apps,
            )
            .unwrap_or_else(|e| panic!("{e}"));
            assert!(spec.combinations() > 0);
        }
    }
    assert!(files >= 1);
}

/// The small paper with further entries of `measured.toml` and a claim, joined with the same runs.
fn join_claims(measured: &str) -> Result<(Paper, Joined, Vec<paper::ClaimOutcome>), String> {
    let dir = tempfile::tempdir().expect("a directory");
    folder(dir.path(), &format!("{MEASURED}{measured}"), "");
    let small = dir.path().join("small");
    let claims = "schema = 1\n[[claims]]\nid = \"grows\"\nsection = \"1\"\nsays = \"shared memory grows with the processes\"\n";
    fs::write(small.join("claims.toml"), claims).expect("written");
    let paper = paper::load(&small).unwrap_or_else(|e| panic!("{e}"));
    let definition = rerun::load(&small).map_err(|e| e.to_string())?;
    let definition = definition.expect("it is there");
    let campaign = Utf8PathBuf::from_path_buf(dir.path().join("campaign")).expect("text");
    copy_tree(&here().join("tests/data/rerun/sizes"), &campaign).expect("copied");
    let mut all = CampaignMeasurements::default();
    all.add(&rebuild_index(&campaign).expect("an index"))
        .expect("its records");
    let joined = rerun::join(&paper, &definition, &all);
    let claims = rerun::claims(&paper, &definition, &all);
    Ok((paper, joined, claims))
}

/// A level that was measured with other software can agree in order and in ratio.
#[test]
fn rows_and_columns_are_compared_as_ratios_and_orders() {
    let difference = |how: &str| {
        let text = format!(
            "\n[[differences]]\nid = \"x\"\ntitle = \"X\"\ncaption = \"x.\"\ntable = \"1\"\nrows = {{ benchmark = \"BT\" }}\nseries = [\"{{benchmark}}\"]\n\
             value = {{ record = \"zone_range_bytes\", zones = [\"SHMEM\"] }}\n{how}\n"
        );
        let (_, joined, _) = join_claims(&text).expect("joined");
        assert_eq!(joined.mistakes, Vec::<String>::new());
        joined.differences.last().expect("one").clone()
    };
    let rows = "column = \"shmem\"\nalong = \"{processes}\"\n";
    let ratio = difference(&format!("{rows}compare = \"ratio\"\ntolerance_pct = 10"));
    let step = &ratio.steps[0];
    assert!(
        (step.printed - 105.01 / 42.45).abs() < 1e-9 && (step.measured - 2.283).abs() < 1e-3,
        "{step:?}"
    );
    assert_eq!(
        (step.agreement, ratio.unit),
        (Some(Agreement::WithPrint), None)
    );
    let narrow = difference(&format!("{rows}compare = \"ratio\"\ntolerance_pct = 1"));
    assert_eq!(narrow.steps[0].agreement, Some(Agreement::Differs));
    let order = difference(&format!("{rows}compare = \"order\""));
    assert_eq!(order.steps[0].agreement, Some(Agreement::WithPrint));
    // columns of one row, each with its own runs
    let with = |first: &str, second: &str| {
        let c = "point = { class = \"C\", mapping = \"1Nx16P\" }";
        difference(&format!(
            "compare = \"order\"\nbetween = [{{ column = \"{first}\" }}, {{ column = \"{second}\", {c} }}]"
        ))
    };
    let rises = with("lb", "shmem");
    assert_eq!(rises.between, ["lb", "shmem"]);
    assert_eq!(rises.steps[0].agreement, Some(Agreement::WithPrint));
    assert_eq!(
        with("shmem", "lb").steps[0].agreement,
        Some(Agreement::Differs)
    );
    assert_eq!(
        with("lb", "lb").steps[0].agreement,
        None,
        "equal in print: there is no order"
    );
}

#[test]
fn runs_judge_claims_that_print_does_not() {
    use paper::ClaimVerdict::{ContradictedHere, Holds, Undecided};
    let judged = |test: &str| {
        let text = format!(
            "\n[[claims]]\nclaim = \"grows\"\ntests = [{{ each = {{ point = {{ app = \"npb-bt\" }}, value = {{ record = \"zone_range_bytes\", zones = [\"SHMEM\"] }} }}, {test} }}]\n"
        );
        join_claims(&text).map(|(_, _, claims)| claims[0].clone())
    };
    let of = |test: &str| judged(test).unwrap_or_else(|e| panic!("{e}"));
    let along = "along = \"processes\", within = [\"app\"]";
    let rises = of(&format!("{along}, above = 1"));
    let here = rises.here.as_ref().map(|h| h.describe());
    assert_eq!(
        (rises.verdict, here.as_deref()),
        (Holds, Some("1 of 1: 2.283"))
    );
    let falls = of(&format!("{along}, below = 1"));
    assert_eq!(falls.verdict, ContradictedHere);
    assert!(
        falls
            .why()
            .contains("npb-bt.C 1Nx16P mpich-ch3: 111.9 against 49.03"),
        "{}",
        falls.why()
    );
    // every point has a group of its own
    let alone = of("along = \"processes\", within = [\"app\", \"class\"], above = 1");
    assert_eq!((alone.verdict, alone.here), (Undecided, None));
    let e = judged("above = 1, below = 2").expect_err("two bounds");
    assert!(
        e.contains("claim `grows`") && e.contains("one bound"),
        "{e}"
    );
    let (_, joined, _) =
        join_claims("\n[[claims]]\nclaim = \"grow\"\ntests = []\n").expect("joined");
    assert_eq!(joined.mistakes, ["the paper has no claim `grow`"]);
}
