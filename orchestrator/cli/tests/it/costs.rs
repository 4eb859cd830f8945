//! Money, through the program: what a plan says, what a run records.

use crate::common::{campaign, scripted};
use cvc_testkit::{Tool, require};
use std::fs;

const CLOUD: &str = "[sites.cloud]\nkind = \"ec2\"\nec2 = { region = \"us-east-1\", instance_types = [\"TYPE\", \"c5.large\"], nodes = 4, market = \"MARKET\" }\n\
                     [budget]\nusd = 0.005\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"2Nx1P\", \"1Nx4P\"]\n[run]\nrepeats = 3\n";

fn cloud(name: &str, instance_type: &str, market: &str) -> cvc_testkit::Campaign {
    let mut c = campaign(
        name,
        &CLOUD
            .replace("TYPE", instance_type)
            .replace("MARKET", market),
    );
    let cache = c.dir().join("cache");
    c.env("XDG_CACHE_HOME", &cache.to_string_lossy());
    c
}

#[test]
fn a_plan_says_dollars_sources_and_whether_the_budget_is_enough() {
    let c = cloud("dollars", "c5.large", "on-demand");
    let output = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    for part in [
        "the budget of $0.0050 is NOT ENOUGH",
        "cloud: c5.large $0.085, root volume, gp3 of 8 GiB $0.0009, public IPv4 address $0.0050 an hour (shipped table of 2025-11-03)",
        "1Nx4P puts more processes on a node than the 2 vCPUs of c5.large; set oversubscribe = true for the site to allow it",
        "this includes 3 min 00 s for each site to boot and set up",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
}

#[test]
fn an_unknown_price_is_reported_with_its_hint_and_the_spot_price_is_not_guessed() {
    let output = cloud("unknown", "c9.large", "on-demand")
        .cvc(&["plan", "campaign.toml"])
        .expect(0)
        .stdout;
    for part in [
        "total unknown; the known part is $0; budget $0.0050",
        "unknown price of c9.large in us-east-1; with credentials, `cvc prices` asks the cloud's price list",
        "or c5.large, if the one before is not available: $0.091 an hour",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
    let output = cloud("spot", "c5.large", "spot")
        .cvc(&["plan", "campaign.toml"])
        .expect(0)
        .stdout;
    assert!(
        output.contains("c5.large (spot)")
            && output.contains("≤$0.091")
            && output.contains("the spot price is unknown"),
        "{output}"
    );
}

#[test]
fn prices_of_the_cloud_are_kept_and_no_plan_file_depends_on_them() {
    let c = cloud("kept", "c5.large", "on-demand");
    let json = c.cvc(&["plan", "campaign.toml", "--json"]).expect(0).stdout;
    let cache = c.dir().join("cache/cvc");
    fs::create_dir_all(&cache).expect("a directory");
    let quote = r#"{"schema": 1, "quotes": [{"instance_type": "c5.large", "region": "us-east-1", "spot": false, "usd_per_hour": 0.5, "at": "2026-03-01T00:00:00Z"}]}"#;
    fs::write(cache.join("prices.json"), quote).expect("written");
    let output = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(
        output.contains("c5.large $0.50") && output.contains("price list of 2026-03-01"),
        "{output}"
    );
    assert_eq!(
        c.cvc(&["plan", "campaign.toml", "--json"]).expect(0).stdout,
        json
    );
    fs::write(cache.join("prices.json"), "{").expect("written");
    let output = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(
        output.contains("c5.large $0.085") && output.contains("its prices are ignored"),
        "{output}"
    );
}

#[test]
fn each_run_records_what_its_nodes_cost() {
    require!(Tool::Mpich);
    let c = scripted("priced", "sleep 1; echo SUCCESS", "repeats = 2\n");
    let text = fs::read_to_string(c.dir().join("campaign.toml")).expect("the campaign");
    let text = text.replace(
        "kind = \"local\"\n",
        "kind = \"local\"\nprice = { per_node_hour_usd = 36.0 }\n",
    );
    fs::write(c.dir().join("campaign.toml"), text).expect("written");
    c.run().expect(0);
    c.assert_whole(2);
    for run in c.run_names() {
        let records = c.records(&run);
        let cost = records
            .iter()
            .find(|r| r["name"] == "cost_usd")
            .unwrap_or_else(|| panic!("{run} has no cost"));
        let seconds: f64 = cost["labels"]["seconds"]
            .as_str()
            .and_then(|s| s.parse().ok())
            .expect("seconds");
        assert!(seconds >= 1.0, "{cost}");
        assert!(
            cost["value"]
                .as_f64()
                .is_some_and(|usd| (usd - 0.01 * seconds).abs() < 1e-4),
            "{cost}"
        );
        assert_eq!(
            (cost["unit"].as_str(), cost["source"].as_str()),
            (Some("USD"), Some("price")),
            "{cost}"
        );
        assert_eq!(
            (
                cost["labels"]["nodes"].as_str(),
                cost["labels"]["price"].as_str()
            ),
            (Some("1"), Some("campaign file")),
            "{cost}"
        );
    }
    let page = fs::read_to_string(c.dir().join("reports/priced/report.html")).expect("a report");
    assert!(
        page.contains("What sites cost") && page.contains("Time against dollars"),
        "no costs in the report"
    );
}
