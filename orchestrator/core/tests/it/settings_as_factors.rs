//! `restart_check`, `moment` and `tracer` as factors: some points have them.

use cvc_core::campaign;

use cvc_core::plan::{self, Plan};

use cvc_core::point::{CheckpointerKind, Moment, PlannedPoint};
use rstest::rstest;
use std::path::Path;

fn load(text: &str) -> Result<campaign::Spec, String> {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
    let text = format!("schema = 1\nname = \"test\"\n[sites.local]\nkind = \"local\"\n{text}");
    campaign::load_text(Path::new("test.toml"), &text, &[apps]).map_err(|e| e.to_string())
}

fn read(text: &str) -> Result<Plan, String> {
    load(text).map(|spec| plan::build(&spec))
}

fn plan(text: &str) -> Plan {
    read(text).unwrap_or_else(|e| panic!("{e}"))
}

const MATRIX: &str = "[matrix]\napp = 'cube'\nprocesses = 1\n";

fn shown(plan: &Plan) -> Vec<String> {
    let of = |p: &plan::PlannedRun| {
        let point = &plan
            .points
            .iter()
            .find(|of| of.id == p.point)
            .expect("a point")
            .point;
        ["checkpointer", "restart_check", "moment", "tracer"]
            .map(|f| point.factor(f).unwrap_or_else(|| "-".into()))
            .join("|")
    };
    let mut all: Vec<String> = plan.runs.iter().map(of).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn only_the_points_that_a_setting_concerns_are_told_apart_by_it() {
    let made = plan(&format!(
        "{MATRIX}checkpointer = ['none', 'dmtcp']\nrestart_check = [true, false]\nmoment = ['size-only', {{ at_s = [1, 2] }}]\ntracer = ['none', 'strace']\n"
    ));
    let expected = ["none", "strace"].iter().flat_map(|tracer| {
        let dmtcp = ["false", "true"].iter().flat_map(move |check| {
            ["at 1 and 2 s", "size-only"].map(|moment| format!("dmtcp|{check}|{moment}|{tracer}"))
        });
        dmtcp.chain([format!("none|-|-|{tracer}")])
    });
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    assert_eq!(shown(&made), expected);
    // the eight combinations without a checkpointer are two points
    assert_eq!(made.excluded.len(), 6);
    for excluded in &made.excluded {
        assert_eq!(excluded.point.checkpointer, CheckpointerKind::None);
        assert!(
            excluded
                .reason
                .to_string()
                .contains("has no effect without"),
            "{}",
            excluded.reason
        );
    }
}

#[test]
fn a_setting_gives_the_same_points_as_a_section_and_as_a_factor() {
    let section = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\n[checkpoint]\nrestart_check = true\nmoment = 'size-only'\n[trace]\ntracer = 'strace'\n"
    ));
    let factor = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\nrestart_check = true\nmoment = 'size-only'\ntracer = 'strace'\n"
    ));
    assert_eq!(section, factor);
    let over = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\nrestart_check = true\n[checkpoint]\nrestart_check = false\nmoment = 'size-only'\n"
    ));
    assert_eq!(over.points[0].point.restart_check, Some(true));
    assert_eq!(over.points[0].point.moment, Some(Moment::SizeOnly));
}

#[test]
fn settings_vary_together_with_other_factors_and_can_be_excluded() {
    let zipped = plan(&format!(
        "{MATRIX}[[zip]]\ncheckpointer = ['none', 'dmtcp', 'dmtcp']\nrestart_check = [false, true, false]\nmoment = [{{ after_step = 1 }}, {{ after_step = 1 }}, 'size-only']\n"
    ));
    assert_eq!(
        shown(&zipped),
        [
            "dmtcp|false|size-only|none",
            "dmtcp|true|after step 1|none",
            "none|-|-|none"
        ]
    );
    let ruled = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\nrestart_check = [true, false]\nmpi = ['mpich', 'openmpi']\n\
         [[exclude]]\nwhen = {{ restart_check = true, mpi = 'openmpi' }}\nreason = 'not needed'\n"
    ));
    assert_eq!((ruled.points.len(), ruled.excluded.len()), (3, 1));
    assert_eq!(ruled.excluded[0].reason.to_string(), "not needed");
}

#[test]
fn one_point_stands_for_all_that_differ_only_in_what_has_no_effect() {
    // zipped with each other, two settings without effect are one point
    let zipped = plan(&format!(
        "{MATRIX}checkpointer = 'none'\n[[zip]]\ncompression = ['gzip', 'none']\nrestart_check = [true, false]\n"
    ));
    assert_eq!((zipped.points.len(), zipped.excluded.len()), (1, 1));
    let darshan = plan(&format!(
        "{MATRIX}checkpointer = ['none', 'dmtcp']\ntracer = ['none', 'darshan']\n"
    ));
    assert_eq!(
        shown(&darshan),
        [
            "dmtcp|false|after step 1|none",
            "none|-|-|darshan",
            "none|-|-|none"
        ]
    );
}

#[test]
fn a_series_is_a_moment_and_needs_dmtcp_and_one_place_for_its_images() {
    let series = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\nmoment = [{{ every_s = 60, count = 8 }}, {{ at_s = 5 }}]\n"
    ));
    let moments: Vec<Option<Moment>> = series
        .points
        .iter()
        .map(|p| p.point.moment.clone())
        .collect();
    let every = Moment::Series {
        every_s: 60.0,
        count: 8,
        compare: true,
    };
    assert!(moments.contains(&Some(every.clone())), "{moments:?}");
    assert_eq!(every.to_string(), "every 60 s, 8 times");
    assert_eq!("every 60 s, 8 times".parse(), Ok(every));
    let under_checkpoint = plan(
        "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\ncheckpointer = ['dmtcp', 'application', 'none']\n[checkpoint]\nmoment = { count = 3, every_s = 0.5 }\n",
    );
    assert_eq!(under_checkpoint.points.len(), 2);
    let reasons: Vec<String> = under_checkpoint
        .excluded
        .iter()
        .map(|e| e.reason.to_string())
        .collect();
    assert_eq!(
        reasons,
        [
            "DMTCP takes series at the campaign's moments; `own_series = true` uses the program's own checkpoints as a series"
        ]
    );
}

#[test]
fn a_series_that_is_not_compared_is_a_moment_of_its_own_and_needs_no_one_place() {
    let both = plan(&format!(
        "{MATRIX}checkpointer = 'dmtcp'\nmoment = [{{ every_s = 5, count = 4 }}, {{ every_s = 5, count = 4, compare = false }}]\n"
    ));
    let shown: Vec<String> = both
        .points
        .iter()
        .filter_map(|p| p.point.moment.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(
        shown,
        ["every 5 s, 4 times", "every 5 s, 4 times, not compared"]
    );
    for moment in both.points.iter().filter_map(|p| p.point.moment.as_ref()) {
        assert_eq!(moment.to_string().parse().as_ref(), Ok(moment));
        assert!(moment.is_series());
    }
    // what is compared is written as it always was, so that its points keep their names
    let written = serde_json::to_string(&both.points[0].point.moment).expect("plain data");
    assert_eq!(written, r#"{"series":{"every_s":5.0,"count":4}}"#);
}

/// A campaign with this in `[checkpoint]`.
fn with_checkpoint(moment: &str, deltas: &str) -> String {
    format!("{MATRIX}checkpointer = 'dmtcp'\n[checkpoint]\nmoment = {moment}\ndeltas = {deltas}\n")
}

#[test]
fn deltas_have_defaults_and_every_combination_of_their_lists() {
    let series = "{ every_s = 5, count = 4 }";
    let ways = |deltas: &str| -> Vec<String> {
        let spec = load(&with_checkpoint(series, deltas)).expect("sound");
        let deltas = spec.checkpoint.deltas.expect("given");
        let ways = deltas.ways().map(|w| {
            let (method, codec) = (w.method.as_str(), w.codec.as_str());
            format!("{method} {codec} {}", w.block)
        });
        ways.collect()
    };
    assert_eq!(ways("{}"), ["incremental zstd 4KiB"]);
    assert_eq!(
        ways("{ methods = ['adca', 'full'], codecs = ['lz4', 'none'], blocks = ['4KiB', 65536] }"),
        [
            "adca lz4 4KiB",
            "adca lz4 64KiB",
            "adca none 4KiB",
            "adca none 64KiB",
            "full lz4 4KiB",
            "full lz4 64KiB",
            "full none 4KiB",
            "full none 64KiB"
        ]
    );
}

#[rstest]
#[case::codec("{ every_s = 5, count = 4 }", "{ codecs = ['xz'] }", &["unknown value `xz`", "zstd"])]
#[case::method("{ every_s = 5, count = 4 }", "{ methods = ['incremantal'] }", &["incremantal", "incremental"])]
#[case::power("{ every_s = 5, count = 4 }", "{ blocks = ['4KiB', '5KiB'] }", &["a block of 5KiB", "a power of two from \"4KiB\", a page, to \"1MiB\""])]
#[case::zero("{ every_s = 5, count = 4 }", "{ blocks = [0] }", &["a block of 0", "a power of two"])]
#[case::large("{ every_s = 5, count = 4 }", "{ blocks = ['2MiB'] }", &["a block of 2MiB"])]
#[case::twice("{ every_s = 5, count = 4 }", "{ codecs = ['zstd', 'zstd'] }", &["it is given twice in `codecs`"])]
#[case::empty("{ every_s = 5, count = 4 }", "{ methods = [] }", &["the list `methods` is empty"])]
#[case::key("{ every_s = 5, count = 4 }", "{ method = 'adca' }", &["unknown", "method", "methods"])]
#[case::flag("{ every_s = 5, count = 4 }", "true", &["a table that says how deltas are made"])]
#[case::single("{ at_s = 5 }", "{}", &["`deltas` without a series of checkpoints", "{ every_s = 60, count = 8 }"])]
#[case::apart("{ every_s = 5, count = 4, compare = false }", "{}", &["`deltas` without a series of checkpoints"])]
fn wrong_deltas_are_one_error_with_its_place(
    #[case] moment: &str,
    #[case] deltas: &str,
    #[case] parts: &[&str],
) {
    let told = read(&with_checkpoint(moment, deltas)).expect_err("refused");
    for part in parts {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert_eq!(told.matches("test.toml:").count(), 1, "{told}");
    assert!(told.contains("test.toml:11"), "{told}");
}

#[test]
fn own_checkpoints_are_a_series_where_the_file_says_so_and_their_points_are_others() {
    let of = |checkpoint: &str| {
        plan(&format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\ncheckpointer = ['dmtcp', 'application', 'none']\n[checkpoint]\nmoment = {{ count = 3, every_s = 0.5 }}\n{checkpoint}\n"
        ))
    };
    let (without, with) = (of("own_series = false"), of("own_series = true"));
    assert_eq!((without.points.len(), with.points.len()), (2, 3));
    assert!(with.excluded.is_empty(), "{:?}", with.excluded);
    // what the setting does not concern keeps its runs
    let kept = |p: &&PlannedPoint| with.points.iter().any(|o| o.id == p.id);
    assert_eq!(without.points.iter().filter(kept).count(), 2);
    // with the default moment both plans have all points, and one of them is another
    let of = |own: bool| {
        plan(&format!(
            "{MATRIX}checkpointer = ['application', 'none']\n[checkpoint]\nown_series = {own}\n"
        ))
    };
    let (without, with) = (of(false), of(true));
    let same = |p: &&PlannedPoint| with.points.iter().any(|o| o.id == p.id);
    let same: Vec<CheckpointerKind> = without
        .points
        .iter()
        .filter(same)
        .map(|p| p.point.checkpointer)
        .collect();
    assert_eq!(same, [CheckpointerKind::None]);
}

#[test]
fn how_a_series_is_stored_is_a_part_of_its_point_and_of_no_other() {
    let ids = |deltas: &str| -> Vec<String> {
        let plan = plan(&format!(
            "{MATRIX}checkpointer = ['none', 'dmtcp']\nmoment = [{{ every_s = 5, count = 4 }}, {{ every_s = 5, count = 4, compare = false }}]\n\
             [checkpoint]\n{deltas}\n"
        ));
        plan.points.iter().map(|p| p.id.to_string()).collect()
    };
    let without = ids("");
    assert_eq!(without.len(), 3);
    let given = [
        "deltas = {}",
        "deltas = { methods = ['full'] }",
        "deltas = { codecs = ['lz4'] }",
        "deltas = { codecs = ['lz4', 'zstd'] }",
        // the first one is made while the program runs
        "deltas = { codecs = ['zstd', 'lz4'] }",
        "deltas = { blocks = ['64KiB'] }",
    ];
    let mut all = without.clone();
    for deltas in given {
        let with = ids(deltas);
        let new: Vec<String> = with
            .into_iter()
            .filter(|id| !without.contains(id))
            .collect();
        assert_eq!(new.len(), 1, "only the series that is compared: {deltas}");
        assert!(!all.contains(&new[0]), "{deltas}");
        all.extend(new);
    }
    // that of checkpoints that the program writes itself, too
    let own = |deltas: &str| {
        let text = format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\ncheckpointer = ['none', 'application']\n[checkpoint]\nown_series = true\n{deltas}\n"
        );
        plan(&text)
            .points
            .into_iter()
            .map(|p| p.id)
            .collect::<Vec<_>>()
    };
    let (plain, stored) = (own(""), own("deltas = {}"));
    assert_eq!((plain.len(), plain[0] == stored[0]), (2, true));
    assert_ne!(plain[1], stored[1]);
    // what is kept changes no result, and what is the default is no other way
    assert_eq!(ids("deltas = { keep = true }"), ids("deltas = {}"));
    assert_eq!(
        ids("deltas = { methods = ['incremental'] }"),
        ids("deltas = {}")
    );
}

#[rstest]
#[case::flag("restart_check = 'yes'", &["expected true or false, found a text"])]
#[case::moment("moment = 'sizeonly'", &["sizeonly", "size-only", "{ at_s = 5 }"])]
#[case::step("moment = { after_step = 0 }", &["`after_step` is 0", "steps are counted from 1"])]
#[case::order("moment = { at_s = [5, 2] }", &["the checkpoint moment 2 is not after the previous one"])]
#[case::none("moment = { at_s = [] }", &["the list of checkpoint moments is empty"])]
#[case::negative("moment = [{ at_s = -1 }]", &["a checkpoint moment is -1 seconds"])]
#[case::every("moment = { every_s = 0, count = 8 }", &["the time between checkpoints is 0 seconds"])]
#[case::count("moment = { every_s = 60, count = 1 }", &["a series of 1 checkpoint is impossible", "from 2 to 1000"])]
#[case::half("moment = { every_s = 60 }", &["the key `count` is missing", "{ every_s = 60, count = 8 }"])]
#[case::both("moment = { at_s = 5, every_s = 60 }", &["more than one form of a setting"])]
#[case::more("moment = { count = 8, every_s = 60, at_s = 5 }", &["unknown", "at_s"])]
#[case::twice("moment = ['size-only', 'size-only']", &["given twice for `moment`"])]
#[case::tracer("tracer = 'starce'", &["unknown tracer `starce`", "did you mean `strace`?"])]
fn wrong_values_are_told_with_their_place(#[case] line: &str, #[case] parts: &[&str]) {
    let told = read(&format!("{MATRIX}checkpointer = 'dmtcp'\n{line}\n")).expect_err("refused");
    for part in parts {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert!(told.contains("test.toml:9"), "{told}");
}

#[test]
fn a_program_that_watches_its_pages_is_left_out_under_dmtcp() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    let text = "schema = 1\nname = 'test'\n[sites.local]\nkind = 'local'\n[matrix]\napp = ['kernel-front', 'kernel-front-track']\nclass = 'S'\nprocesses = 1\ncheckpointer = ['none', 'dmtcp', 'application']\n";
    let spec = campaign::load_text(Path::new("test.toml"), text, &[apps]);
    let plan = plan::build(&spec.unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(plan.points.len(), 5);
    let reasons: Vec<String> = plan.excluded.iter().map(|e| e.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "kernel-front-track tracks its pages, and a restart by DMTCP loses this: use its own checkpoints, or none"
        ]
    );
}
