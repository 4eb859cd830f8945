//! Expansion, rules, order and identifiers, as a user of the library sees them.

use cvc_core::campaign::{self, Spec};

use cvc_core::mapping::Mapping;

use cvc_core::plan::{self, CheckpointBytes, Machines, Plan};

use cvc_core::point::{CheckpointerKind, Compression, ExcludedBy, Repeat};
use proptest::prelude::*;
use rstest::rstest;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps")
}

fn spec(rest: &str) -> Spec {
    let text = format!("schema = 1\nname = \"test\"\n[sites.local]\nkind = \"local\"\n{rest}");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
    campaign::load_text(Path::new("test.toml"), &text, &[apps(), ours])
        .unwrap_or_else(|e| panic!("{e}"))
}

fn plan(rest: &str) -> Plan {
    plan::build(&spec(rest))
}

/// What is wrong with such a campaign file.
fn refused(rest: &str) -> String {
    let text = format!("schema = 1\nname = 'test'\n[sites.local]\nkind = 'local'\n{rest}\n");
    campaign::load_text(Path::new("refused.toml"), &text, &[apps()])
        .expect_err("it is wrong")
        .to_string()
}

/// The only excluded point's reason.
fn reason(rest: &str) -> (ExcludedBy, String) {
    let plan = plan(rest);
    assert_eq!(
        (plan.points.len(), plan.excluded.len()),
        (0, 1),
        "{plan:#?}"
    );
    (plan.excluded[0].by, plan.excluded[0].reason.to_string())
}

#[rstest]
#[case::square(
    "app = 'square'\nprocesses = 8",
    ExcludedBy::Application,
    "square needs a square number (1, 4, 9, 16, ...) of processes, not 8"
)]
#[case::power(
    "app = 'two'\nprocesses = 6",
    ExcludedBy::Application,
    "two needs a power of two (1, 2, 4, 8, ...) of processes, not 6"
)]
#[case::cube(
    "app = 'cube'\nprocesses = 9",
    ExcludedBy::Application,
    "cube needs a cube number (1, 8, 27, ...) of processes, not 9"
)]
#[case::fewest(
    "app = 'two'\nprocesses = 1",
    ExcludedBy::Application,
    "two needs at least 2 processes, not 1"
)]
#[case::most(
    "app = 'two'\nprocesses = 32",
    ExcludedBy::Application,
    "two runs on at most 16 processes, not 32"
)]
#[case::nodes(
    "app = 'cube'\nmapping = '2Nx4P'",
    ExcludedBy::Site,
    "2Nx4P needs 2 nodes; the site `local` has 1"
)]
#[case::both(
    "app = 'cube'\nmapping = '1Nx8P'\nprocesses = 1",
    ExcludedBy::Combination,
    "1 processes, but the mapping 1Nx8P has 8"
)]
#[case::many_aggregators(
    "app = 'demo'\nclass = 'S'\nprocesses = 1\naggregators = 2",
    ExcludedBy::Combination,
    "2 aggregators, but only 1 process"
)]
#[case::no_collective(
    "app = 'cube'\nprocesses = 1\naggregators = 1",
    ExcludedBy::Combination,
    "cube does no collective I/O: aggregators have no effect on it"
)]
#[case::no_buffer(
    "app = 'cube'\nprocesses = 1\ncb_buffer = '1MiB'",
    ExcludedBy::Combination,
    "cube does no collective I/O: the collective buffer has no effect on it"
)]
#[case::threads(
    "app = 'cube'\nmapping = '1Nx8Px2T'\nthreads = 4",
    ExcludedBy::Combination,
    "4 threads, but the mapping 1Nx8Px2T has 2"
)]
#[case::other_layer(
    "app = 'demo'\nclass = 'S'\nprocesses = 2\nmpi = 'openmpi'\nromio_ds_write = 'disable'",
    ExcludedBy::Combination,
    "romio_ds_write is a setting of ROMIO, and `openmpi` uses OMPIO"
)]
#[case::other_layer_of_mpich(
    "app = 'demo'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\nfcoll = 'vulcan'",
    ExcludedBy::Combination,
    "fcoll is a setting of OMPIO, and `mpich` uses ROMIO"
)]
#[case::no_collective_buffering(
    "app = 'cube'\nprocesses = 1\nmpi = 'mpich'\nromio_cb_write = 'disable'",
    ExcludedBy::Combination,
    "cube does no collective I/O: romio_cb_write has no effect on it"
)]
#[case::buffering_off(
    "app = 'demo'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\nromio_cb_write = 'disable'\naggregators = 1",
    ExcludedBy::Combination,
    "aggregators and cb_buffer need romio_cb_write = \"enable\", not \"disable\""
)]
#[case::no_own(
    "app = 'cube'\nprocesses = 1\ncheckpointer = 'application'",
    ExcludedBy::Combination,
    "cube writes no checkpoints of its own"
)]
#[case::no_such_way(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'application'\nstrategy = 'swap'",
    ExcludedBy::Combination,
    "kernel-front does not write its checkpoints with strategy = \"swap\"; it has sync, thread, staggered, iwrite"
)]
#[case::no_way(
    "app = 'kernel-amr'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'application'\nstrategy = 'thread'",
    ExcludedBy::Combination,
    "kernel-amr does not write its checkpoints with strategy = \"thread\"; it has sync"
)]
#[case::way_of_images(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'dmtcp'\nstrategy = 'thread'",
    ExcludedBy::Combination,
    "DMTCP writes its images itself: strategy = \"thread\" is for checkpoints that the program writes (checkpointer = \"application\")"
)]
#[case::forked_is_of_dmtcp(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'application'\nstrategy = 'forked'",
    ExcludedBy::Combination,
    "strategy = \"forked\" is a way of DMTCP: use checkpointer = \"dmtcp\""
)]
#[case::forked_without_a_restart(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'dmtcp'\nstrategy = 'forked'",
    ExcludedBy::Combination,
    "strategy = \"forked\" needs a restart that verifies the result: add restart_check = true"
)]
#[case::no_aggregators_of_a_thread(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'application'\nstrategy = 'iwrite'\naggregators = 1",
    ExcludedBy::Combination,
    "strategy = \"iwrite\" does not write by collective MPI-IO: aggregators has no effect on it"
)]
#[case::no_hints_of_a_thread(
    "app = 'kernel-front'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\ncheckpointer = 'application'\nstrategy = 'thread'\nromio_ds_write = 'disable'",
    ExcludedBy::Combination,
    "strategy = \"thread\" does not write by MPI-IO: romio_ds_write has no effect on it"
)]
#[case::no_steps(
    "app = 'cube'\nprocesses = 1\ncheckpointer = 'dmtcp'\n[checkpoint]\nmoment = { after_step = 2 }",
    ExcludedBy::Combination,
    "the output of cube does not show its steps, so cvc cannot wait for step 2; use at_s"
)]
#[case::user(
    "app = 'cube'\nprocesses = 8\n[[exclude]]\nwhen = { processes = [8, 27] }\nreason = 'too many'",
    ExcludedBy::Rule,
    "too many"
)]
fn what_cannot_run_is_excluded_with_its_reason(
    #[case] matrix: &str,
    #[case] by: ExcludedBy,
    #[case] text: &str,
) {
    assert_eq!(
        reason(&format!("[matrix]\n{matrix}")),
        (by, text.to_owned())
    );
}

#[test]
fn restarts_in_a_row_are_of_points_that_are_restarted_and_enter_their_identifiers() {
    let of = |checkpoint: &str| {
        plan(&format!(
            "[matrix]\napp = 'kernel-front'\nclass = 'S'\nprocesses = 2\ncheckpointer = 'dmtcp'\nstrategy = 'forked'\n[checkpoint]\n{checkpoint}"
        ))
    };
    let id = |checkpoint: &str| of(checkpoint).points[0].id.clone();
    let once = id("restart_check = true");
    assert_eq!(once, id("restart_check = true\nrestarts = 1"));
    assert_ne!(once, id("restart_check = true\nrestarts = 2"));
}

#[test]
fn a_workload_that_only_some_applications_have_leaves_the_others_out() {
    let plan = plan("[matrix]\napp = ['demo', 'cube']\nclass = 'W'\nprocesses = 1");
    assert_eq!((plan.points.len(), plan.excluded.len()), (1, 1));
    assert_eq!(
        (plan.excluded[0].by, plan.excluded[0].reason.to_string()),
        (
            ExcludedBy::Application,
            "cube has no class `W`; did you mean `S`? its classes: S".to_owned()
        )
    );
}

#[test]
fn tracers_that_fail_with_dmtcp_are_a_hazard_and_without_it_are_none() {
    for (tracer, reason) in [
        ("darshan", "dup2"),
        ("dftracer", "restarts with DFTracer in it hangs"),
    ] {
        let plan = plan(&format!(
            "[matrix]\napp = 'cube'\nprocesses = 1\ncheckpointer = ['none', 'dmtcp']\n[trace]\ntracer = '{tracer}'"
        ));
        assert_eq!(plan.points.len(), 1);
        assert_eq!(plan.points[0].point.checkpointer, CheckpointerKind::None);
        assert_eq!(plan.excluded[0].by, ExcludedBy::Hazard);
        assert!(
            plan.excluded[0].reason.to_string().contains(reason),
            "{}",
            plan.excluded[0].reason
        );
    }
}

#[test]
fn compression_without_dmtcp_leaves_one_point() {
    // Whether `none` is in the list or not, and wherever it stands.
    for list in ["['none', 'gzip']", "['gzip', 'none']", "'gzip'"] {
        let plan = plan(&format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\ncheckpointer = ['none', 'application', 'dmtcp']\ncompression = {list}"
        ));
        let of = |kind| {
            plan.points
                .iter()
                .filter(|p| p.point.checkpointer == kind)
                .map(|p| p.point.compression)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(CheckpointerKind::None), [Compression::None], "{list}");
        assert_eq!(
            of(CheckpointerKind::Application),
            [Compression::None],
            "{list}"
        );
        assert_eq!(
            of(CheckpointerKind::Dmtcp).len(),
            if list.contains("none") { 2 } else { 1 },
            "{list}"
        );
    }
}

#[test]
fn pigz_is_another_point_than_gzip_and_zstd_is_refused_with_the_reason() {
    let text = |list: &str| {
        format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\ncheckpointer = 'dmtcp'\ncompression = {list}"
        )
    };
    let of = |list: &str| {
        plan(&text(list))
            .points
            .iter()
            .map(|p| (p.id.to_string(), p.point.compression))
            .collect::<Vec<_>>()
    };
    let three = of("['none', 'gzip', 'pigz']");
    assert_eq!(
        three.iter().map(|p| p.1).collect::<Vec<_>>(),
        Compression::ALL
    );
    let ids: std::collections::BTreeSet<&String> = three.iter().map(|p| &p.0).collect();
    assert_eq!(ids.len(), 3);
    // what was measured with gzip before keeps its identity
    assert_eq!(of("'gzip'")[0], three[1]);
    for list in ["'zstd'", "['gzip', 'zstd']"] {
        let told = refused(&text(list));
        assert!(
            told.contains("DMTCP cannot restart zstd-compressed images")
                && told.contains("pigz")
                && told.contains("cvc delta make --codec zstd"),
            "{told}"
        );
    }
}

#[test]
fn a_zipped_compression_that_differs_in_more_than_itself_stays() {
    let plan = plan(
        "[matrix]\napp = 'demo'\nclass = 'S'\n[[zip]]\ncompression = ['none', 'gzip', 'gzip']\nprocesses = [1, 2, 1]",
    );
    let kept: Vec<u32> = plan.points.iter().map(|p| p.point.processes()).collect();
    assert_eq!(kept, [1, 2]);
    assert!(
        plan.points
            .iter()
            .all(|p| p.point.compression == Compression::None)
    );
}

#[test]
fn defaults_are_filled_in_and_extra_points_inherit_single_values() {
    let plan = plan(
        "[sites.local.storage.fast]\npath = '/fast'\n[sites.local.storage.slow]\npath = '/slow'\n\
         [matrix]\napp = 'demo'\nclass = 'W'\nprocesses = [1, 2]\nmpi = ['openmpi', 'mpich']\n[matrix.user]\nwork = 3\n\
         [[points]]\nmapping = '1Nx9P'\nclass = 'S'\n[[points]]\nprocesses = 2\nmpi = 'mpich'\n",
    );
    assert_eq!(plan.points.len(), 5);
    let first = &plan.points[0].point;
    assert_eq!(
        (
            first.site.as_str(),
            first.storage.as_str(),
            first.mpi.as_str()
        ),
        ("local", "fast", "openmpi")
    );
    assert_eq!(
        (first.aggregators, first.cb_buffer, first.checkpointer),
        (None, None, CheckpointerKind::None)
    );
    let extra = &plan.points[4].point;
    assert_eq!(
        (
            extra.class.as_str(),
            extra.mpi.as_str(),
            extra.mapping.to_string().as_str()
        ),
        ("S", "mpich", "1Nx9P")
    );
    assert_eq!(extra.factor("work").as_deref(), Some("3"));
    assert_eq!(
        plan.excluded.len(),
        1,
        "the second extra point is in the matrix already"
    );
    assert_eq!(
        plan.excluded[0].reason.to_string(),
        "an earlier point is the same"
    );
}

#[test]
fn only_another_locale_than_the_default_changes_identifiers() {
    let ids = |run: &str| {
        let plan = plan(&format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\n{run}"
        ));
        plan.points
            .iter()
            .map(|point| point.id.clone())
            .collect::<Vec<_>>()
    };
    let default = ids("");
    assert_eq!(ids("[run]\nlocale = 'C.UTF-8'"), default);
    assert_ne!(ids("[run]\nlocale = 'de_DE.UTF-8'"), default);
}

#[test]
fn rules_match_free_factors_by_either_name_and_derived_factors() {
    for when in [
        "{ work = [1, 2] }",
        "{ user.work = [1.0, 2] }",
        "{ mapping = ['1Nx4P', '1Nx8P'] }",
        "{ class = 'S', mpi = 'mpich' }",
    ] {
        let plan = plan(&format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = [4, 8]\n[matrix.user]\nwork = [1, 2]\n[[exclude]]\nwhen = {when}\nreason = 'r'\n"
        ));
        assert_eq!((plan.points.len(), plan.excluded.len()), (0, 4), "{when}");
    }
}

const ORDERED: &str = "[matrix]\napp = 'demo'\nclass = ['S', 'W']\nprocesses = [1, 2, 4, 8]\n[run]\nrepeats = 3\nwarmups = 2\n";

#[test]
fn interleaved_runs_go_block_by_block_with_a_different_shuffle_in_each() {
    let plan = plan(ORDERED);
    assert_eq!(plan.runs.len(), 8 * 5);
    let blocks: Vec<_> = plan.runs.chunks(8).collect();
    let wanted = [
        Repeat::Warmup(1),
        Repeat::Warmup(2),
        Repeat::Measured(1),
        Repeat::Measured(2),
        Repeat::Measured(3),
    ];
    let mut orders = HashSet::new();
    for (block, repeat) in blocks.iter().zip(wanted) {
        assert!(block.iter().all(|r| r.repeat == repeat));
        assert_eq!(
            block.iter().map(|r| &r.point).collect::<HashSet<_>>().len(),
            8
        );
        orders.insert(block.iter().map(|r| r.point.clone()).collect::<Vec<_>>());
    }
    assert_eq!(orders.len(), 5);
}

#[rstest]
#[case("interleaved")]
#[case("random")]
#[case("as-written")]
fn every_order_has_every_run_once_and_warmups_first(#[case] order: &str) {
    let plan = plan(&format!("{ORDERED}order = '{order}'"));
    assert_eq!(
        plan.runs
            .iter()
            .map(|r| &r.id)
            .collect::<HashSet<_>>()
            .len(),
        40
    );
    let mut seen: HashMap<&str, Vec<Repeat>> = HashMap::new();
    for run in &plan.runs {
        seen.entry(run.point.as_str()).or_default().push(run.repeat);
    }
    for repeats in seen.values() {
        assert_eq!(repeats[..2], [Repeat::Warmup(1), Repeat::Warmup(2)]);
        assert_eq!(repeats.len(), 5);
    }
    if order == "as-written" {
        assert!(
            plan.runs
                .chunks(5)
                .zip(&plan.points)
                .all(|(runs, p)| runs.iter().all(|r| r.point == p.id))
        );
    }
}

#[test]
fn another_seed_gives_another_order_of_the_same_runs() {
    let [a, b] = ["seed = 1", "seed = 2"].map(|seed| {
        plan(&format!("{ORDERED}{seed}"))
            .runs
            .into_iter()
            .map(|r| r.id)
            .collect::<Vec<_>>()
    });
    assert_ne!(a, b);
    assert_eq!(
        a.into_iter().collect::<HashSet<_>>(),
        b.into_iter().collect::<HashSet<_>>()
    );
}

#[test]
fn identifiers_depend_on_what_affects_results_and_on_nothing_else() {
    let base = "[sites.local.mpi.a]\nfamily = 'mpich'\nprefix = '/a'\n[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\n";
    let id = |text: &str| plan(text).points[0].id.clone();
    let same = [
        format!("{base}[run]\nrepeats = 9\ntimeout_s = 5\nkeep_images = true\n"),
        format!("# a comment\n{base}[report]\ntitle = 't'\n"),
        format!("{base}[checkpoint]\nmoment = 'size-only'\n"),
        base.replace(
            "[matrix]",
            "[sites.local.mpi.b]\nfamily = 'mpich'\n[sites.local.dmtcp]\nprefix = '/d'\n[matrix]",
        ),
    ];
    for text in same {
        assert_eq!(id(&text), id(base), "{text}");
    }
    let other = [
        base.replace("'/a'", "'/b'"),
        base.replace("prefix = '/a'", "prefix = '/a'\nenv = { X = '1' }"),
        base.replace("'S'", "'W'"),
        format!("{base}[trace]\ntracer = 'strace'\n"),
        base.replace("processes = 1", "processes = 1\n[matrix.user]\nwork = 1"),
        base.replace(
            "[sites.local.mpi",
            "[sites.local.storage.x]\npath = '/x'\n[sites.local.mpi",
        ),
    ];
    for text in &other {
        assert_ne!(id(text), id(base), "{text}");
    }
    let dmtcp = base.replace("processes = 1", "processes = 1\ncheckpointer = 'dmtcp'");
    assert_ne!(
        id(&dmtcp),
        id(&format!("{dmtcp}[checkpoint]\nmoment = 'size-only'\n"))
    );
}

#[test]
fn threads_and_settings_of_mpi_io_make_other_points_and_their_defaults_none() {
    let of = |factors: &str| {
        plan(&format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nmpi = 'mpich'\n{factors}\n"
        ))
    };
    let id = |factors: &str| of(factors).points[0].id.clone();
    let plain = id("processes = 2");
    assert_eq!(id("mapping = '1Nx2P'"), plain);
    assert_eq!(
        id("processes = 2\nthreads = 3"),
        id("mapping = '1Nx2Px3T'"),
        "both ways to write threads"
    );
    let crossed = of("mapping = ['1Nx1P', '1Nx2P']\nthreads = [1, 6]");
    let labels: Vec<String> = crossed
        .points
        .iter()
        .map(|p| p.point.mapping.to_string())
        .collect();
    assert_eq!(labels, ["1Nx1Px1T", "1Nx1Px6T", "1Nx2Px1T", "1Nx2Px6T"]);
    let ruled =
        of("mapping = ['1Nx2P', '1Nx2Px6T']\n[[exclude]]\nwhen = { threads = 6 }\nreason = 'x'");
    assert_eq!((ruled.points.len(), ruled.excluded.len()), (1, 1));
    let mut ids = vec![
        plain.clone(),
        id("mapping = '1Nx2Px1T'"),
        id("mapping = '1Nx2Px3T'"),
    ];
    for setting in [
        "romio_ds_write = 'disable'",
        "romio_ds_write = 'automatic'",
        "romio_cb_write = 'disable'",
        "ind_wr_buffer_size = '1MiB'",
    ] {
        let name = setting.split(' ').next().unwrap_or_default();
        let default = format!("processes = 2\n{name} = 'default'");
        assert_eq!(id(&default), plain, "{name}: identifiers are older than it");
        ids.push(id(&format!("processes = 2\n{setting}")));
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn strategies_make_other_points_and_their_settings_only_where_they_have_them() {
    let of = |factors: &str| {
        plan(&format!(
            "[matrix]\napp = 'kernel-stencil'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\n{factors}\n"
        ))
    };
    let id = |factors: &str| of(factors).points[0].id.clone();
    let own = "checkpointer = 'application'";
    assert_eq!(id(own), id(&format!("{own}\nstrategy = 'sync'")));
    assert_ne!(id(own), id(&format!("{own}\nstrategy = 'thread'")));
    // nothing of them enters points without checkpoints
    assert_eq!(id(""), id("strategy = 'thread'\nwriters = 'node'"));
    assert_eq!(id(own), id(&format!("{own}\nwhen_late = 'skip'")));

    let crossed = of(
        "checkpointer = ['none', 'application']\nstrategy = ['sync', 'thread', 'swap', 'iwrite']\nwriters = ['process', 'node']\nwhen_late = ['wait', 'skip']",
    );
    let mut shown: Vec<String> = crossed
        .points
        .iter()
        .map(|p| {
            let of = |name| p.point.factor(name).unwrap_or_default();
            let names = ["checkpointer", "strategy", "writers", "when_late"];
            names.map(of).join(" ")
        })
        .collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "application iwrite process skip",
            "application iwrite process wait",
            "application swap process skip",
            "application swap process wait",
            "application sync process wait",
            "application thread node skip",
            "application thread node wait",
            "application thread process skip",
            "application thread process wait",
            "none sync process wait",
        ]
    );
    let reasons: HashSet<String> = crossed
        .excluded
        .iter()
        .map(|of| of.reason.cause())
        .collect();
    for reason in [
        "writers has no effect with strategy = \"swap\"; see the otherwise equal point",
        "when_late has no effect with strategy = \"sync\"; see the otherwise equal point",
        "strategy has no effect without checkpoints by DMTCP or the program",
    ] {
        assert!(reasons.contains(reason), "{reasons:#?}");
    }

    let zipped = of(
        "checkpointer = 'application'\n[[zip]]\nstrategy = ['thread', 'sync']\nwriters = ['node', 'socket']",
    );
    assert_eq!((zipped.points.len(), zipped.excluded.len()), (2, 0));
}

/// The plan of a fixed file, so that a change of what enters an identifier is noticed: it orphans every finished run.
#[test]
fn identifiers_do_not_change_unnoticed() {
    let plan = plan(
        "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = [1, 2]\ncheckpointer = 'dmtcp'\naggregators = 1\ncb_buffer = '1MiB'\n",
    );
    insta::assert_json_snapshot!(plan);
}

/// A checkpoint of some MiB, of which later ones do not replace `left`.
fn stored_mib(all: u64, left: u64) -> CheckpointBytes {
    CheckpointBytes {
        all: all << 20,
        left: left << 20,
    }
}

fn machines(cores: u32) -> Machines {
    Machines {
        cores: HashMap::from([("local".to_owned(), cores)]),
        ..Machines::default()
    }
}

#[test]
fn unknown_cores_are_no_single_core_and_slow_storage_bounds_a_checkpoint() {
    let spec = spec("[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 4\ncheckpointer = 'dmtcp'\n");
    let plan = plan::build(&spec);
    let Some(point) = plan.points.first() else {
        panic!("{:?}", plan.excluded)
    };
    let stored = HashMap::from([(point.id.clone(), stored_mib(400, 0))]);
    let with = |machines: &Machines| {
        plan::estimate(&spec, &plan, machines, &stored)
            .points
            .remove(0)
    };
    let unknown = with(&Machines::default());
    assert!(unknown.known && !unknown.is_timed());
    assert_eq!(with(&machines(4)).known_cores, Some(4));
    assert_eq!((unknown.checkpoint_s, unknown.storage_s), (Some(2.0), None));
    let slow = Machines {
        storage_mib_s: HashMap::from([(("local".to_owned(), point.point.storage.clone()), 50.0)]),
        ..machines(4)
    };
    let bounded = with(&slow);
    assert_eq!(
        (bounded.checkpoint_s, bounded.storage_s),
        (Some(8.0), Some(8.0))
    );
    let quick = with(&machines(4)).needed_s;
    assert!((bounded.needed_s - quick - 6.0).abs() < 1e-9);
    let uneven = cvc_core::point::Point {
        mapping: "n1:3,n2:1".parse().unwrap_or_else(|_| Mapping::one_node(4)),
        ..point.point.clone()
    };
    assert!(plan::fullest_share(&uneven) >= 0.75);
}

/// BT, class C, on 16 cores: 65.6 s. Texts about checkpoints that are too late for it, each of which takes a second.
fn too_short(moment: &str, cores: u32) -> Vec<String> {
    let spec = spec(&format!(
        "[matrix]\napp = 'npb-bt'\nclass = 'C'\nmapping = ['1Nx16P', '1Nx9P']\ncheckpointer = 'dmtcp'\n[checkpoint]\nmoment = {moment}\n"
    ));
    let plan = plan::build(&spec);
    let stored = plan
        .points
        .iter()
        .map(|p| (p.id.clone(), stored_mib(200, 0)));
    let machines = if cores == 0 {
        Machines::default()
    } else {
        machines(cores)
    };
    plan::estimate(&spec, &plan, &machines, &stored.collect()).too_short()
}

#[rstest]
#[case::one(
    "{ at_s = 3600 }",
    "2 points is due 1 h 00 min after",
    "after 1 min 06 s: such a run would fail",
    "{ at_s = 32 }"
)]
#[case::series(
    "{ every_s = 3600, count = 2 }",
    "2 points is due 1 h 00 min",
    "none of 2 would be taken, and such a run would fail",
    "{ every_s = 16, count = 2 }"
)]
// 65.6 s, and one second for each of the six checkpoints before: the seventh at 70 s is in time, the eighth is not
#[case::end_of_a_series(
    "{ every_s = 10, count = 8 }",
    "1 point is due 1 min 20 s",
    "7 of 8 would be taken",
    "{ every_s = 4.1, count = 8 }"
)]
#[case::several(
    "{ at_s = [10, 20, 4000] }",
    "2 points is due 1 h 07 min",
    "2 of 3 would be taken",
    "{ at_s = [10, 20, 30] }"
)]
fn a_checkpoint_after_the_end_is_reported_with_the_moment_to_write(
    #[case] moment: &str,
    #[case] due: &str,
    #[case] taken: &str,
    #[case] write: &str,
) {
    let texts = too_short(moment, 16);
    let [text] = texts.as_slice() else {
        panic!("{texts:?}")
    };
    assert!(text.starts_with("NOT ENOUGH RUN TIME: "), "{text}");
    for part in [due, taken, &format!("moment = {write} in")] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    // what is advised is enough, and nothing is said where the cores are not known
    assert_eq!(too_short(write, 16), Vec::<String>::new());
    assert_eq!(too_short(moment, 0), Vec::<String>::new());
}

#[test]
fn checkpoints_in_time_and_by_steps_are_not_too_late() {
    for moment in [
        "{ at_s = 60 }",
        "{ every_s = 10, count = 7 }",
        "{ after_step = 100000 }",
        "'size-only'",
    ] {
        assert_eq!(too_short(moment, 16), Vec::<String>::new(), "{moment}");
    }
}

/// Bytes at most and kept of a run whose checkpoint has 100 MiB, in MiB without its output of 2 MiB.
fn series_space(compression: &str, deltas: &str) -> (u64, u64) {
    let spec = spec(&format!(
        "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 4\ncheckpointer = 'dmtcp'\ncompression = '{compression}'\n\
         [checkpoint]\nmoment = {{ every_s = 1, count = 8 }}\n{deltas}\n"
    ));
    let plan = plan::build(&spec);
    let stored = HashMap::from([(plan.points[0].id.clone(), stored_mib(100, 0))]);
    let of = plan::estimate(&spec, &plan, &machines(4), &stored).points;
    ((of[0].peak_bytes >> 20) - 2, of[0].kept_bytes >> 20)
}

#[rstest]
#[case::none("none", "", (200, 0))]
// images of two checkpoints, two states of the series, a restored state
#[case::one_way("none", "deltas = {}", (500, 0))]
#[case::two_ways("none", "deltas = { codecs = ['lz4', 'zstd'] }", (700, 0))]
// all eight states, as they are
#[case::in_full("none", "deltas = { methods = ['full'], codecs = ['none'] }", (1100, 0))]
#[case::other_in_full("none", "deltas = { methods = ['adca', 'full'], codecs = ['none'] }", (1300, 0))]
#[case::kept("none", "deltas = { methods = ['full', 'adca'], codecs = ['none'], keep = true }", (1300, 800))]
// their content is larger than the files
#[case::compressed("gzip", "deltas = { keep = true }", (1100, 600))]
fn a_series_that_is_stored_takes_more_room(
    #[case] compression: &str,
    #[case] deltas: &str,
    #[case] peak_and_kept_mib: (u64, u64),
) {
    assert_eq!(series_space(compression, deltas), peak_and_kept_mib);
}

#[rstest]
// two sets of images, and the files of shared memory of each checkpoint
#[case::series("moment = { every_s = 1, count = 8 }", 2 * 90 + 8 * 10)]
#[case::one("moment = { at_s = 1 }", 100)]
// the second and the third restart begin from checkpoints of the restarted program
#[case::restarts("moment = { at_s = 1 }\nrestart_check = true\nrestarts = 3", 2 * 90 + 3 * 10)]
fn files_of_shared_memory_of_all_checkpoints_take_space(
    #[case] checkpoint: &str,
    #[case] mib: u64,
) {
    let spec = spec(&format!(
        "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 4\ncheckpointer = 'dmtcp'\n[checkpoint]\n{checkpoint}\n"
    ));
    let plan = plan::build(&spec);
    let stored = HashMap::from([(plan.points[0].id.clone(), stored_mib(100, 10))]);
    let of = plan::estimate(&spec, &plan, &machines(4), &stored).points;
    // the program's output has 2 MiB
    assert_eq!((of[0].peak_bytes >> 20) - 2, mib);
}

/// MiB at most and kept, and seconds, of a run of a program that writes its own checkpoints.
fn own_series(checkpoint: &str) -> (u64, u64, f64) {
    let spec = spec(&format!(
        "[matrix]\napp = 'kernel-stencil'\nclass = 'A'\nprocesses = 4\ncheckpointer = 'application'\n[checkpoint]\n{checkpoint}\n"
    ));
    let plan = plan::build(&spec);
    let of = plan::estimate(&spec, &plan, &machines(4), &HashMap::new()).points;
    (
        of[0].peak_bytes >> 20,
        of[0].kept_bytes >> 20,
        of[0].seconds,
    )
}

#[test]
fn own_checkpoints_that_are_stored_as_deltas_take_room_and_time() {
    let output_mib = 135;
    let (peak, kept, seconds) = own_series("own_series = true");
    assert_eq!((peak, kept), (output_mib, 0));
    // two states of the series, a copy of a checkpoint, a restored state; each state is read, stored and restored
    let stored = own_series("own_series = true\ndeltas = { keep = true }");
    assert_eq!((stored.0, stored.1), (5 * output_mib, 2 * output_mib));
    assert!((stored.2 - seconds - 6.0 * 135.0 / 200.0).abs() < 1e-9);
}

#[test]
fn estimates_follow_the_descriptor_and_the_machine() {
    let spec = spec(
        "[matrix]\napp = 'demo'\nclass = ['S', 'W']\nprocesses = 4\ncheckpointer = ['none', 'dmtcp']\n[run]\nrepeats = 2",
    );
    let plan = plan::build(&spec);
    let stored = plan
        .points
        .iter()
        .filter(|p| p.point.class == "S")
        .map(|p| (p.id.clone(), stored_mib(170, 0)))
        .collect();
    let on = |cores| plan::estimate(&spec, &plan, &machines(cores), &stored);
    let (two, four) = (on(2), on(4));
    assert!(four.total_s < two.total_s);
    assert_eq!(two.unknown, 0);
    assert!((two.total_s - 2.0 * two.points.iter().map(|p| p.seconds).sum::<f64>()).abs() < 1e-9);
    // class S under DMTCP: its checkpoint, and 2 MiB of output
    let dmtcp = plan
        .points
        .iter()
        .position(|p| p.point.checkpointer == CheckpointerKind::Dmtcp)
        .expect("a point");
    assert_eq!(two.points[dmtcp].peak_bytes, 172 << 20);
    assert_eq!(two.disk.len(), 1);
    assert_eq!(
        two.disk[0].bytes,
        two.points
            .iter()
            .map(|p| p.peak_bytes)
            .max()
            .expect("points")
    );
}

/// Loads every campaign of the repository whose descriptors are there.
#[test]
fn committed_campaigns_load() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for entry in std::fs::read_dir(&experiments).expect("experiments") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            if !experiments.join("apps").is_dir() {
                cvc_testkit::tool::skipped(
                    &format!("plan::committed_campaigns_load {}", path.display()),
                    "experiments/apps",
                );
                continue;
            }
            let spec = campaign::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
            assert!(!plan::build(&spec).runs.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn expansion_is_the_product_without_loss_or_duplicates(
        processes in prop::collection::hash_set(1u32..40, 1..6),
        mpi in prop::sample::subsequence(vec!["mpich", "openmpi"], 1..=2),
        checkpointer in prop::sample::subsequence(vec!["none", "application", "dmtcp"], 1..=3),
        compression in prop::sample::subsequence(vec!["none", "gzip"], 1..=2),
        aggregators in prop::collection::hash_set(1u32..9, 1..4),
        app in prop::sample::subsequence(vec!["demo", "square", "two"], 1..=3),
        work in prop::collection::hash_set(-5i64..5, 1..4),
        cut in 1u32..40,
        order in prop::sample::select(vec!["interleaved", "random", "as-written"]),
    ) {
        let text = format!(
            "[matrix]\napp = {app:?}\nclass = 'S'\nprocesses = {:?}\nmpi = {mpi:?}\ncheckpointer = {checkpointer:?}\ncompression = {compression:?}\n\
             aggregators = {:?}\n[matrix.user]\nwork = {:?}\n[[exclude]]\nwhen = {{ processes = {cut} }}\nreason = 'cut'\n\
             [run]\norder = '{order}'\nrepeats = 2\n",
            processes.iter().collect::<Vec<_>>(), aggregators.iter().collect::<Vec<_>>(), work.iter().collect::<Vec<_>>(),
        );
        let (spec, again) = (spec(&text), spec(&text));
        let product = app.len() * processes.len() * mpi.len() * checkpointer.len() * compression.len() * aggregators.len() * work.len();
        let plan = plan::build(&spec);
        prop_assert_eq!(spec.combinations(), product);
        prop_assert_eq!(plan.points.len() + plan.excluded.len(), product);
        let ids: HashSet<_> = plan.points.iter().map(|p| &p.id).collect();
        prop_assert_eq!(ids.len(), plan.points.len());
        prop_assert_eq!(plan.runs.len(), plan.points.len() * 2);
        prop_assert!(plan.points.iter().all(|p| p.point.processes() != cut));
        let byte_for_byte = serde_json::to_string(&plan).expect("JSON") == serde_json::to_string(&plan::build(&again)).expect("JSON");
        prop_assert!(byte_for_byte);
    }

    #[test]
    fn mappings_read_back_as_written(groups in prop::collection::vec((1u32..100, 1u32..100), 1..5)) {
        let text = groups.iter().map(|(n, p)| format!("{n}Nx{p}P")).collect::<Vec<_>>().join("+");
        let mapping: Mapping = text.parse().expect("a mapping");
        prop_assert_eq!(mapping.to_string(), text);
        prop_assert_eq!(mapping.processes(), groups.iter().map(|(n, p)| n * p).sum::<u32>());
        prop_assert_eq!(mapping.node_loads().sum::<u32>(), mapping.processes());
    }

    #[test]
    fn no_text_is_too_strange_for_a_mapping(text in "[0-9NxP+ -]{0,12}|.{0,12}") {
        if let Ok(mapping) = text.parse::<Mapping>() {
            prop_assert_eq!(mapping.to_string().parse::<Mapping>(), Ok(mapping));
        }
    }

    #[test]
    fn a_damaged_file_gives_errors_with_places_and_never_panics(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[\\PC\n\"\\[\\]{}=.,#]{0,6}"), 1..5)
    ) {
        let mut text = WHOLE.to_owned();
        for (at, length, insert) in edits {
            let chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len() + 1).min(chars.len());
            let end = (at + length).min(chars.len());
            text = chars[..at].iter().collect::<String>() + &insert + &chars[end..].iter().collect::<String>();
        }
        match campaign::load_text(Path::new("damaged.toml"), &text, &[apps()]) {
            Ok(spec) if spec.combinations() < 10_000 => { plan::build(&spec); }
            Ok(_) => {}
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                for error in &errors.0 {
                    prop_assert!(error.position().is_some_and(|(line, column)| line >= 1 && column >= 1), "{error:?}");
                    prop_assert!(error.hint.is_some(), "{error:?}");
                    prop_assert!(error.message.lines().count() == 1, "{error:?}");
                }
            }
        }
    }
}

/// A file with every section.
const WHOLE: &str = r#"schema = 1
name = "whole"
description = "every section"

[sites.local]
kind = "local"
app_dirs = ["/opt/npb"]
oversubscribe = true
[sites.local.storage.scratch]
path = "~/.cache/cvc"
kind = "node-local"
[sites.local.mpi.mpich]
family = "mpich"
prefix = "/opt/mpich"
env = { X = "1" }
[sites.local.mpi.openmpi]
family = "openmpi"
args = ["--mca", "x", "y"]
io = "ompio"
[sites.local.dmtcp]
prefix = "/opt/dmtcp"

[matrix]
app = ["demo", "square"]
class = ["S"]
mapping = ["1Nx1P", "1Nx4P"]
mpi = ["mpich", "openmpi"]
checkpointer = ["none", "dmtcp"]
aggregators = [1, "default"]
cb_buffer = ["16MiB", "default"]
[matrix.user]
work = [1, 2]

[[zip]]
compression = ["none", "gzip"]
storage = ["scratch", "scratch"]

[[exclude]]
when = { mpi = "openmpi", work = 2 }
reason = "too slow"

[[points]]
app = "free"
mapping = "1Nx9P"
user = { size = 3 }

[run]
repeats = 3
warmups = 1
order = "random"

[checkpoint]
moment = { at_s = [5, 10] }

[trace]
tracer = "strace"

[report]
formats = ["html", "csv"]
"#;

#[test]
fn the_file_with_every_section_is_sound() {
    let spec = campaign::load_text(Path::new("whole.toml"), WHOLE, &[apps()])
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.combinations(), 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 + 1);
}

/// The two numbers that the quickstart promises, where its descriptor is there.
#[test]
fn the_quickstart_is_as_large_as_promised_and_short() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    if !experiments.join("apps/kernel-stencil.toml").is_file() {
        cvc_testkit::tool::skipped(
            "plan::the_quickstart_is_as_large_as_promised_and_short",
            "experiments/apps/kernel-stencil.toml",
        );
        return;
    }
    let spec =
        campaign::load(&experiments.join("quickstart.toml"), &[]).unwrap_or_else(|e| panic!("{e}"));
    let plan = plan::build(&spec);
    let own = plan
        .points
        .iter()
        .filter(|p| p.point.checkpointer == CheckpointerKind::Application)
        .count();
    assert_eq!(
        (own, plan.points.len(), plan.runs.len(), plan.excluded.len()),
        (12, 14, 42, 0)
    );
    let estimates = plan::estimate(&spec, &plan, &machines(2), &HashMap::new());
    assert_eq!(estimates.unknown, 0);
    assert!(estimates.total_s < 240.0, "{} s", estimates.total_s);
}

#[test]
fn strange_sizes_and_depths_neither_hang_nor_panic() {
    let head = "schema = 1\nname = 'x'\n[sites.local]\nkind = 'local'\n[matrix]\napp = 'demo'\nclass = 'S'\n";
    let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let deep = format!(
        "{head}processes = {}1{}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let nested = format!(
        "{head}processes = 1\n[matrix.user]\nx = {}1{}",
        "{a=".repeat(10_000),
        "}".repeat(10_000)
    );
    let dotted = format!("{head}processes = 1\n[{}]\n", vec!["a"; 20_000].join("."));
    for text in [
        deep,
        nested,
        dotted,
        "\u{feff}".to_owned(),
        "=".repeat(10_000),
        "'".repeat(9_999),
    ] {
        let errors = campaign::load_text(Path::new("strange.toml"), &text, &[apps()])
            .expect_err("no campaign");
        assert!(
            errors.0.iter().all(|e| e.position().is_some()),
            "{:?}",
            errors.0[0].message
        );
    }
    let gzip = vec!["'gzip'"; 100_000].join(", ");
    let long = format!(
        "{head}processes = 1\n[[zip]]\ncompression = [{gzip}]\nuser = {{ x = [{}] }}",
        list(100_000)
    );
    assert_eq!(
        campaign::load_text(Path::new("long.toml"), &long, &[apps()])
            .unwrap_or_else(|e| panic!("{e}"))
            .combinations(),
        100_000
    );
}

#[test]
fn the_smallest_program_runs_once_for_each_library_and_mapping_under_dmtcp_if_it_is_asked_for() {
    let rest = |baseline: bool| {
        format!(
            "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = [1, 2]\nmpi = ['mpich', 'openmpi']\ncheckpointer = ['none', 'dmtcp']\n\
             compression = ['none', 'gzip']\n[checkpoint]\nbaseline = {baseline}\n[run]\nrepeats = 4\nwarmups = 1\ndays = 2\n"
        )
    };
    let (with, without) = (plan(&rest(true)), plan(&rest(false)));
    let (baselines, points): (Vec<_>, Vec<_>) = with.points.iter().partition(|p| p.baseline);
    assert_eq!(points.len(), without.points.len());
    let labels: HashSet<String> = baselines.iter().map(|p| p.point.label()).collect();
    let wanted = [
        "1Nx1P mpich",
        "1Nx2P mpich",
        "1Nx1P openmpi",
        "1Nx2P openmpi",
    ]
    .map(|rest| format!("kernel-idle.S {rest}"));
    assert_eq!(labels, HashSet::from(wanted));
    // before all others, on the first day, once
    let ids: HashSet<_> = baselines.iter().map(|p| &p.id).collect();
    let first: Vec<_> = with.runs.iter().take(4).collect();
    assert!(first.iter().all(|r| ids.contains(&r.point)
        && r.repeat == Repeat::Measured(1)
        && r.block.is_some_and(|b| b.number == 1)));
    assert_eq!(
        with.runs[4..],
        without.runs,
        "the runs of the campaign are as they were"
    );
}

#[test]
fn days_come_one_after_another_and_each_has_its_warm_ups() {
    let plan = plan(
        "[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = [1, 2]\n[run]\nrepeats = 4\nwarmups = 1\ndays = 2\n",
    );
    let blocks: Vec<u32> = plan
        .runs
        .iter()
        .filter_map(|r| r.block)
        .map(|b| b.number)
        .collect();
    let per_day = plan.points.len() * 3;
    assert_eq!(blocks, [vec![1; per_day], vec![2; per_day]].concat());
    let of = |day: u32| -> HashSet<Repeat> {
        plan.runs
            .iter()
            .filter(|r| r.block.is_some_and(|b| b.number == day))
            .map(|r| r.repeat)
            .collect()
    };
    assert_eq!(
        of(1),
        HashSet::from([Repeat::Warmup(1), Repeat::Measured(1), Repeat::Measured(2)])
    );
    assert_eq!(
        of(2),
        HashSet::from([Repeat::Warmup(2), Repeat::Measured(3), Repeat::Measured(4)])
    );
}

#[test]
fn layouts_make_other_points_only_for_checkpoints_that_the_program_writes_in_them() {
    let of = |factors: &str| {
        plan(&format!(
            "[matrix]\napp = 'kernel-stencil'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\n{factors}\n"
        ))
    };
    let id = |factors: &str| of(factors).points[0].id.clone();
    let own = "checkpointer = 'application'";
    assert_eq!(id(own), id(&format!("{own}\nlayout = 'strided'")));
    assert_ne!(id(own), id(&format!("{own}\nlayout = 'segmented'")));
    assert_eq!(id(""), id("layout = 'segmented'"));

    let layouts = "layout = ['strided', 'segmented', 'delegated', 'per-node', 'per-process']";
    assert_eq!(of(&format!("{own}\n{layouts}")).points.len(), 5);
    for (factors, reason) in [
        (
            "checkpointer = 'dmtcp'\nlayout = ['strided', 'segmented']",
            "DMTCP writes its images itself: layout = \"segmented\" is for checkpoints that the program writes (checkpointer = \"application\")",
        ),
        (
            "checkpointer = 'application'\nstrategy = 'thread'\nlayout = ['strided', 'delegated']",
            "strategy = \"thread\" writes the strided file: layout = \"delegated\" needs strategy = \"sync\"",
        ),
        (
            "checkpointer = 'application'\nlayout = ['strided', 'per-process']\nromio_ds_write = 'disable'",
            "layout = \"per-process\" does not write by MPI-IO: romio_ds_write has no effect on it",
        ),
        (
            "checkpointer = 'application'\nlayout = ['strided', 'segmented']\naggregators = 1",
            "layout = \"segmented\" does not write by collective MPI-IO: aggregators has no effect on it",
        ),
        (
            "checkpointer = 'application'\nlayout = ['strided', 'delegated']\n[checkpoint]\nown_series = true",
            "layout = \"delegated\" overwrites its file, which `own_series = true` cannot copy: remove one of them",
        ),
    ] {
        let plan = of(factors);
        assert_eq!(plan.points.len(), 1, "{factors}");
        let reasons: Vec<String> = plan.excluded.iter().map(|of| of.reason.cause()).collect();
        assert_eq!(reasons, [reason], "{factors}");
    }
    let amr = plan(
        "[matrix]\napp = 'kernel-amr'\nclass = 'S'\nprocesses = 2\nmpi = 'mpich'\ncheckpointer = 'application'\nlayout = ['strided', 'per-process']\n",
    );
    let reasons: Vec<String> = amr.excluded.iter().map(|of| of.reason.cause()).collect();
    assert_eq!(
        reasons,
        ["kernel-amr does not write its checkpoints with layout = \"per-process\"; it has strided"]
    );
}
