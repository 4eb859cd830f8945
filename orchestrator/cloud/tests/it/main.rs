//! What a campaign is expected to cost.

use cvc_cloud::cost::{self, Expected, PriceBook, SETUP_S};
use cvc_core::campaign;
use cvc_core::plan::{self, Estimates, Machines};
use std::{collections::HashMap, path::Path};

/// What the sites of this campaign are expected to cost; an application of the tests computes 1 core-second.
fn expected(sites: &str, rest: &str) -> (Expected, Estimates) {
    let text = format!(
        "schema = 1\nname = \"c\"\n{sites}\n[matrix]\napp = \"demo\"\nclass = \"S\"\nmapping = [\"1Nx2P\", \"2Nx1P\"]\n[run]\nrepeats = 2\n{rest}"
    );
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
    let spec =
        campaign::load_text(Path::new("c.toml"), &text, &[apps]).unwrap_or_else(|e| panic!("{e}"));
    let plan = plan::build(&spec);
    let estimates = plan::estimate(
        &spec,
        &plan,
        &Machines {
            cores: spec.sites.keys().map(|site| (site.clone(), 2)).collect(),
            ..Machines::default()
        },
        &HashMap::new(),
    );
    let expected = cost::expected(
        &spec,
        &plan,
        &estimates,
        &PriceBook::shipped(),
        |_| None,
        |_| true,
    );
    (expected, estimates)
}

fn ec2(name: &str, instance_type: &str, more: &str) -> String {
    format!(
        "[sites.{name}]\nkind = \"ec2\"\n{more}\nec2 = {{ region = \"us-east-1\", instance_types = [\"{instance_type}\"], nodes = 4 }}\n"
    )
}

fn near(a: Option<f64>, b: f64) {
    assert!(a.is_some_and(|a| (a - b).abs() < 1e-9), "{a:?} is not {b}");
}

#[test]
fn instances_cost_until_the_last_run_of_their_site() {
    let (expected, estimates) = expected(&ec2("a", "c5.large", ""), "");
    let hour = 0.085 + 8.0 * 0.08 / 730.0 + 0.005;
    let site = &expected.sites[0];
    let runs_s: f64 = estimates.points.iter().map(|p| 2.0 * p.seconds).sum();
    assert_eq!(site.instances, 2, "no more than a mapping needs");
    assert!((site.there_s - SETUP_S - runs_s).abs() < 1e-9);
    near(site.usd, hour * 2.0 * (SETUP_S + runs_s) / 3600.0);
    let used: f64 = estimates
        .points
        .iter()
        .zip([1.0, 2.0])
        .map(|(p, nodes)| hour * nodes * 2.0 * p.seconds / 3600.0)
        .sum();
    near(site.runs_usd, used);
    near(expected.usd, hour * 2.0 * (SETUP_S + runs_s) / 3600.0);
}

#[test]
fn sites_wait_for_each_other_only_if_they_share_machines_or_are_to() {
    let there = |more: &str, run: &str| {
        let sites = format!(
            "{}{}",
            ec2("a", "c5.large", more),
            ec2("b", "c5.large", more)
        );
        let (expected, estimates) = expected(&sites, &format!("order = \"as-written\"\n{run}"));
        (
            expected.in_turn,
            expected
                .sites
                .iter()
                .map(|s| s.there_s - SETUP_S)
                .collect::<Vec<_>>(),
            estimates.points[0].seconds,
        )
    };
    let (in_turn, waiting, run_s) = there("", "sites_in_turn = true");
    assert!(in_turn && waiting[1] > 7.9 * run_s, "{waiting:?}");
    let (in_turn, apart, run_s) = there("", "");
    assert!(
        !in_turn && apart.iter().all(|s| *s < 4.2 * run_s),
        "{apart:?} of {run_s}"
    );
    let (in_turn, beside, run_s) = there("side_by_side = true", "");
    // two of one node at a time on each of 4 nodes, then two of two nodes at a time
    assert!(
        !in_turn && beside.iter().all(|s| *s < 2.2 * run_s),
        "{beside:?} of {run_s}"
    );
}

#[test]
fn clusters_are_priced_by_what_runs_use_and_what_nobody_prices_is_unknown() {
    let ssh = "[sites.lab]\nkind = \"ssh\"\nhosts = [\"n1\", \"n2\"]\ncores = 8\nprice = { per_core_hour_usd = 0.01 }\n";
    let local = "[sites.local]\nkind = \"local\"\n";
    let (expected, estimates) = expected(&format!("{ssh}{local}"), "");
    // sites are the innermost axis
    let of_lab: f64 = estimates
        .points
        .iter()
        .step_by(2)
        .zip([1.0, 2.0])
        .map(|(p, nodes)| 0.08 * nodes * 2.0 * p.seconds / 3600.0)
        .sum();
    near(expected.usd, of_lab);
    assert!(expected.has_price() && !expected.sites[1].has_price());
    let (unknown, _) = self::expected(&format!("{ssh}{}", ec2("a", "c9.large", "")), "");
    assert_eq!(unknown.usd, None);
    assert!(
        unknown.sites[1]
            .rate
            .as_ref()
            .is_err_and(|e| e.to_string() == "unknown price of c9.large in us-east-1")
    );
    assert_eq!(
        unknown
            .points
            .iter()
            .map(Option::is_some)
            .collect::<Vec<_>>(),
        [true, false, true, false]
    );
    // by the core, of nodes of which nobody says how many they have
    let (unknown, _) = self::expected(&ssh.replace("cores = 8\n", ""), "");
    assert_eq!(unknown.usd, None);
}
