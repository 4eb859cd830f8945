//! Tests of `cvc aa-test CAMPAIGN`: compares equal repeats and equal sites.

use crate::common::campaign;
use cvc_testkit::{Tool, require};
use serde_json::Value;

const SITES: &str = "[sites.one]\nkind = \"local\"\noversubscribe = true\n[sites.two]\nkind = \"local\"\noversubscribe = true\n";

#[test]
fn repeats_and_sites_of_a_real_campaign_are_compared() {
    require!(Tool::Mpich);
    let matrix = "[matrix]\nsite = [\"one\", \"two\"]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 8\n";
    let c = campaign("equal", &format!("{SITES}{matrix}"));
    c.script_app("script", "sleep 0.05\necho SUCCESS", "");
    c.run().expect(0);
    let told = c.cvc(&["aa-test", "campaign.toml"]).expect(0).stdout;
    assert!(
        told.contains("A/A test, odd against even repeats: ") && told.contains("A/A test, sites: "),
        "{told}"
    );
    let json = c
        .cvc(&["aa-test", "campaign.toml", "--json"])
        .expect(0)
        .stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let walls: Vec<&Value> = json["comparisons"]
        .as_array()
        .expect("comparisons")
        .iter()
        .filter(|found| found["quantity"] == "wall_s")
        .collect();
    // each point with itself, and one site with the other
    assert_eq!(walls.len(), 3, "{walls:?}");
    assert!(
        walls.iter().all(|found| found["comparison"]["p_value"]
            .as_f64()
            .is_some_and(|p| (0.0..=1.0).contains(&p))),
        "{walls:?}"
    );
    assert!(
        json["repeats"]["compared"].as_u64() >= json["repeats"]["differ_alone"].as_u64(),
        "{json}"
    );
}

#[test]
fn too_few_repeats_are_told_with_what_to_do() {
    require!(Tool::Mpich);
    let matrix = "[matrix]\nsite = \"one\"\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 2\n";
    let c = campaign("equal", &format!("{SITES}{matrix}"));
    c.script_app("script", "echo SUCCESS", "");
    c.run().expect(0);
    let told = c.cvc(&["aa-test", "campaign.toml"]).expect(8).stderr;
    assert!(
        told.contains("nothing could be compared") && told.contains("repeats = 8"),
        "{told}"
    );
}
