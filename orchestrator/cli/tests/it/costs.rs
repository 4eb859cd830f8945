//! Tests of the costs that `cvc plan` predicts and that runs record.

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
    let output = c.cvc(&["plan", "campaign.toml"]).expect(15).stdout;
    for part in [
        "the budget of $0.0050 is NOT ENOUGH",
        "cloud: c5.large $0.085, root volume, gp3 of 8 GiB $0.0009, public IPv4 address $0.0050 an hour (shipped table of 2026-07-20; shipped table of 2025-11-03)",
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
        "unknown price of c9.large in us-east-1; with credentials, `cvc prices` queries the cloud's price list",
        "or c5.large, if the previous one is not available: $0.091 an hour",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
    let output = cloud("spot", "c5.large", "spot")
        .cvc(&["plan", "campaign.toml"])
        .expect(15)
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
    let quote = r#"{"schema": 1, "quotes": [{"instance_type": "c5.large", "region": "us-east-1", "spot": false, "usd_per_hour": 0.5, "at": "2026-09-01T00:00:00Z"}]}"#;
    fs::write(cache.join("prices.json"), quote).expect("written");
    let output = c.cvc(&["plan", "campaign.toml"]).expect(15).stdout;
    assert!(
        output.contains("c5.large $0.50") && output.contains("price list of 2026-09-01"),
        "{output}"
    );
    assert_eq!(
        c.cvc(&["plan", "campaign.toml", "--json"]).expect(0).stdout,
        json
    );
    fs::write(cache.join("prices.json"), "{").expect("written");
    let output = c.cvc(&["plan", "campaign.toml"]).expect(15).stdout;
    assert!(
        output.contains("c5.large $0.085") && output.contains("its prices are ignored"),
        "{output}"
    );
}

/// Returns a campaign on instances of EC2 with `ec2` as the settings.
fn on(name: &str, ec2: &str, rest: &str) -> cvc_testkit::Campaign {
    let mut c = campaign(
        name,
        &format!(
            "[sites.cloud]\nkind = \"ec2\"\nec2 = {{ region = \"us-east-1\", nodes = 2, {ec2} }}\n{rest}"
        ),
    );
    let cache = c.dir().join("cache");
    c.env("XDG_CACHE_HOME", &cache.to_string_lossy());
    c.env("SOURCE_DATE_EPOCH", "1785542400");
    c
}

#[test]
fn unknown_cores_are_told_and_not_taken_for_one() {
    let c = on(
        "strange",
        "instance_types = [\"m9z.large\"]",
        "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx4P\"\n",
    );
    let output = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    for part in [
        "cores of m9z.large (site cloud) are not known: time not estimated",
        "3 runs, for an unknown time",
        "unknown",
        "cloud: m9z.large: unknown type",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
    let output = c
        .cvc(&["plan", "campaign.toml", "--json", "--estimates"])
        .expect(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert!(
        json["expected"]["points"][0]["seconds"].is_null(),
        "{output}"
    );
    assert!(json["expected"]["seconds"].is_null(), "{output}");
}

#[test]
fn memory_and_disks_that_are_too_small_are_told_before_anything_is_paid() {
    let matrix = "[matrix]\napp = \"npb-bt\"\nclass = \"C\"\nmapping = \"1Nx4P\"\ncheckpointer = \"dmtcp\"\n[run]\ntimeout_s = 90000\n";
    let small = on(
        "small",
        "instance_types = [\"t3.nano\"], root = { size_gib = 1 }",
        &matrix.replace("[matrix]", "oversubscribe = true\n[matrix]"),
    );
    let output = small.cvc(&["plan", "campaign.toml"]).expect(15).stdout;
    for part in [
        "NOT ENOUGH MEMORY: 1 point of the site cloud needs up to ",
        "on a node, and t3.nano has 512 MiB",
        "NOT ENOUGH DISK: 1 point of the site cloud needs up to ",
        "the root volume (gp3) of t3.nano, without 3 GiB for system and software, has 0 MiB",
    ] {
        assert!(
            output.replace('\n', " ").contains(part),
            "no `{part}` in\n{output}"
        );
    }
    let output = small
        .cvc(&["plan", "campaign.toml", "--json", "--estimates"])
        .expect(15)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    let of: Vec<_> = json["expected"]["not_enough"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|n| n["of"].as_str())
        .collect();
    assert_eq!(of, ["memory", "disk"], "{output}");
    let large = on(
        "large",
        "instance_types = [\"c7i.xlarge\"], root = { size_gib = 30 }",
        matrix,
    );
    let output = large.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    assert!(!output.contains("NOT ENOUGH"), "{output}");
    // the volume limits the rate to 125 MiB/s, although the instance could move more
    assert!(
        output.contains("~: time for the disks of the fullest node"),
        "{output}"
    );
}

#[test]
fn a_checkpoint_after_the_end_of_the_program_is_refused_before_it_is_paid() {
    for (moment, write) in [
        ("{ at_s = 3600 }", "moment = { at_s = 32 } in [checkpoint]"),
        (
            "{ every_s = 3600, count = 2 }",
            "moment = { every_s = 16, count = 2 } in [checkpoint]",
        ),
    ] {
        let c = on(
            "late",
            "instance_types = [\"c7a.4xlarge\"], root = { size_gib = 30 }",
            &format!(
                "[matrix]\napp = \"npb-bt\"\nclass = \"C\"\nmapping = \"1Nx16P\"\ncheckpointer = \"dmtcp\"\n\
                 [checkpoint]\nmoment = {moment}\n[run]\ntimeout_s = 600\n"
            ),
        );
        let output = c.cvc(&["plan", "campaign.toml"]).expect(15).stdout;
        let text = output.replace('\n', " ");
        assert!(
            text.contains("NOT ENOUGH RUN TIME: ") && text.contains(write),
            "{output}"
        );
        let json = c
            .cvc(&["plan", "campaign.toml", "--json", "--estimates"])
            .expect(15)
            .stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            json["expected"]["not_enough"][0]["of"], "run time",
            "{json}"
        );
    }
}

#[test]
fn instance_types_are_compared_as_sites_and_the_cheapest_comes_first() {
    let c = on(
        "types",
        "compare_instance_types = [\"c7i.xlarge\", \"c7g.xlarge\", \"m5.xlarge\"]",
        "[matrix]\nsite = \"cloud\"\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"1Nx4P\"\n",
    );
    let output = c
        .cvc(&[
            "plan",
            "campaign.toml",
            "--json",
            "--estimates",
            "--sort",
            "cost",
        ])
        .expect(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    let sites: Vec<_> = json["expected"]["sites"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| (s["site"].as_str(), s["usd"]["high"].as_f64()))
        .collect();
    let names: Vec<_> = sites.iter().filter_map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["cloud-c7g-xlarge", "cloud-c7i-xlarge", "cloud-m5-xlarge"],
        "{output}"
    );
    assert!(sites.is_sorted_by(|(_, a), (_, b)| a <= b), "{output}");
    assert_eq!(
        json["expected"]["points"][0]["site"].as_str(),
        Some("cloud-c7g-xlarge")
    );
    let output = c.cvc(&["plan", "campaign.toml"]).expect(0).stdout;
    for part in [
        "cloud-c7g-xlarge: c7g.xlarge: arm64, 4 vCPUs, each a core",
        "arm64: build your own programs for it",
        "speed: every vCPU is assumed equally fast",
        "$0.15",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
}

#[test]
fn prices_that_are_more_than_a_year_old_are_told_with_the_remedy() {
    let mut c = on(
        "aged",
        "instance_types = [\"c5.large\"]",
        "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\n",
    );
    let told = |c: &cvc_testkit::Campaign| c.cvc(&["plan", "campaign.toml"]).expect(0).stderr;
    assert!(!told(&c).contains("a year old"));
    // 1 January 2028
    c.env("SOURCE_DATE_EPOCH", "1830297600");
    let late = told(&c).replace('\n', " ");
    assert!(
        late.contains("cvc's shipped prices are of 2026-07-20, more than a year old")
            && late.contains("`cvc prices campaign.toml` fetches current ones"),
        "{late}"
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
        page.contains("Cost by site") && page.contains("Time against dollars"),
        "no costs in the report"
    );
}
