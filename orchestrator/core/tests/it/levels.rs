//! `strategy = "local"`, `"partner"` and `"xor"`: which points nodes can keep the checkpoints of, and what is wrong in `levels`.

use cvc_core::{
    campaign,
    plan::{self, Plan},
};
use rstest::rstest;
use std::path::Path;

/// A site of so many nodes with storage of their own and shared storage.
fn read(nodes: usize, text: &str) -> Result<Plan, String> {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
    let hosts: Vec<String> = (1..=nodes).map(|n| format!("'n{n}'")).collect();
    let text = format!(
        "schema = 1\nname = 'test'\n[sites.c]\nkind = 'ssh'\nhosts = [{}]\n\
         [sites.c.storage]\nlocal = {{ path = '/scratch', kind = 'node-local' }}\nshared = {{ path = '/shared', kind = 'shared' }}\n\
         [sites.c.mpi.openmpi]\nfamily = 'openmpi'\n{text}",
        hosts.join(", ")
    );
    let spec = campaign::load_text(Path::new("test.toml"), &text, &[apps]);
    spec.map(|spec| plan::build(&spec))
        .map_err(|e| e.to_string())
}

fn matrix(strategy: &str, mapping: &str, storage: &str) -> String {
    format!(
        "[matrix]\napp = 'demo'\nclass = 'S'\ncheckpointer = 'dmtcp'\nstrategy = '{strategy}'\nmapping = '{mapping}'\nstorage = '{storage}'\n"
    )
}

/// The reason why the only point is left out; none if it runs.
fn excluded(nodes: usize, matrix: &str, checkpoint: &str) -> Option<String> {
    let made = read(nodes, &format!("{matrix}[checkpoint]\n{checkpoint}\n"));
    let made = made.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(made.points.len() + made.excluded.len(), 1);
    made.excluded.first().map(|of| of.reason.to_string())
}

#[rstest]
#[case::partner("partner", "2Nx1P", "local", "")]
#[case::one_node("local", "1Nx2P", "local", "")]
#[case::group("xor", "4Nx1P", "local", "")]
#[case::rest("xor", "6Nx1P", "local", "")]
#[case::small_group("xor", "2Nx1P", "local", "levels = { group = 2 }")]
#[case::flushed(
    "partner",
    "2Nx1P",
    "local",
    "levels = { flush_every = 2, flush = 'behind', flush_to = 'shared' }"
)]
fn points_that_make_sense_run(
    #[case] strategy: &str,
    #[case] mapping: &str,
    #[case] storage: &str,
    #[case] checkpoint: &str,
) {
    assert_eq!(
        excluded(8, &matrix(strategy, mapping, storage), checkpoint),
        None
    );
}

#[rstest]
#[case::partner("partner", "1Nx2P", "local", "", "is on one node: a partner")]
#[case::group(
    "xor",
    "2Nx1P",
    "local",
    "",
    "2Nx1P has 2 nodes: a parity group needs 4"
)]
#[case::alone("xor", "5Nx1P", "local", "", "groups of 4 leave one of the 5 nodes")]
#[case::shared("local", "2Nx1P", "shared", "", "the storage area `shared` is shared")]
#[case::lose(
    "partner",
    "2Nx1P",
    "local",
    "levels = { lose = [3] }",
    "`lose` contains node 3, but 2Nx1P has 2 nodes"
)]
#[case::deltas(
    "partner",
    "2Nx1P",
    "local",
    "deltas = {}\nmoment = { every_s = 1, count = 2 }",
    "both keep the checkpoints of a series"
)]
fn points_without_sense_are_left_out_with_the_reason(
    #[case] strategy: &str,
    #[case] mapping: &str,
    #[case] storage: &str,
    #[case] checkpoint: &str,
    #[case] part: &str,
) {
    let reason = excluded(8, &matrix(strategy, mapping, storage), checkpoint).expect("left out");
    assert!(reason.contains(part), "{reason}");
}

#[rstest]
#[case::not_shared("levels = { flush_every = 1, flush_to = 'local' }", &["`local` of the site `c` is not shared", "kind = \"shared\""])]
#[case::unknown("levels = { flush_every = 1, flush_to = 'share' }", &["no storage area `share`", "did you mean `shared`?"])]
#[case::nowhere("levels = { flush_every = 1 }", &["`flush_every` without `flush_to`"])]
#[case::never("levels = { flush_to = 'shared' }", &["`flush_to` without `flush_every`"])]
#[case::behind("levels = { flush = 'behind' }", &["`flush` without `flush_every`"])]
#[case::keep("levels = { keep = 0 }", &["`keep` is 0, expected 1 to 1000"])]
#[case::group("levels = { group = 1 }", &["`group` is 1, expected 2 to 1000"])]
#[case::zero("levels = { lose = [0] }", &["nodes are numbered from 1"])]
#[case::twice("levels = { lose = [2, 2] }", &["node 2 is given twice"])]
#[case::key("levels = { groups = 4 }", &["groups", "group"])]
fn wrong_settings_are_one_error_with_a_hint(#[case] line: &str, #[case] parts: &[&str]) {
    let text = format!(
        "{}[checkpoint]\n{line}\n",
        matrix("partner", "2Nx1P", "local")
    );
    let told = read(4, &text).expect_err("refused");
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(told.matches("error:").count().max(1), 1, "{told}");
}

#[test]
fn identifiers_of_other_points_stay_and_levels_are_a_part_of_those_that_have_them() {
    let ids = |strategy: &str, checkpoint: &str| -> Vec<String> {
        let text = format!(
            "{}[checkpoint]\n{checkpoint}\n",
            matrix(strategy, "2Nx1P", "local")
        );
        let made = read(4, &text).unwrap_or_else(|e| panic!("{e}"));
        made.points
            .iter()
            .map(|point| point.id.to_string())
            .collect()
    };
    assert_eq!(ids("sync", ""), ids("sync", "levels = { keep = 2 }"));
    assert_ne!(ids("partner", ""), ids("partner", "levels = { keep = 2 }"));
    assert_eq!(ids("partner", ""), ids("partner", "levels = {}"));
    assert_ne!(ids("local", ""), ids("partner", ""));
}
