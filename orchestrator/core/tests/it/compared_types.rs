//! Instance types of one site that are compared.

use cvc_core::campaign::{self, Spec};
use cvc_core::plan;
use std::path::Path;

fn load(sites: &str, rest: &str) -> Result<Spec, String> {
    let text = format!(
        "schema = 1\nname = 'x'\n{sites}\n[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = [1, 2]\n{rest}"
    );
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
    campaign::load_text(Path::new("x.toml"), &text, &[apps]).map_err(|e| e.to_string())
}

fn cloud(types: &str) -> String {
    format!(
        "[sites.cloud]\nkind = 'ec2'\n[sites.cloud.ec2]\nregion = 'us-east-1'\nnodes = 2\n{types}\n"
    )
}

const TWO: &str = "compare_instance_types = ['c7i.xlarge', 'c7g.xlarge']";

#[test]
fn each_type_becomes_a_site_that_has_it_alone() {
    let spec = load(&cloud(TWO), "").expect("a campaign");
    let types: Vec<(&str, &[String])> = spec
        .sites
        .iter()
        .map(|(name, site)| {
            let ec2 = site.ec2.as_ref().expect("settings");
            (name.as_str(), ec2.instances.instance_types.as_slice())
        })
        .collect();
    assert_eq!(
        types,
        [
            ("cloud-c7i-xlarge", &["c7i.xlarge".to_owned()][..]),
            ("cloud-c7g-xlarge", &["c7g.xlarge".to_owned()][..]),
        ]
    );
    assert!(spec.are_apart("cloud-c7i-xlarge", "cloud-c7g-xlarge"));
    assert_eq!(plan::build(&spec).points.len(), 4);
}

#[test]
fn the_site_that_was_divided_stands_for_all_of_them() {
    let local = format!("[sites.local]\nkind = 'local'\n{}", cloud(TWO));
    let points = |rest: &str| {
        let plan = plan::build(&load(&local, rest).expect("a campaign"));
        (plan.points.len(), plan.excluded.len())
    };
    assert_eq!(points(""), (6, 0));
    assert_eq!(points("site = 'cloud'"), (4, 0));
    assert_eq!(points("site = ['local', 'cloud']"), (6, 0));
    assert_eq!(points("site = 'cloud-c7g-xlarge'"), (2, 0));
    assert_eq!(
        points("[[exclude]]\nwhen = { site = 'cloud', processes = 2 }\nreason = 'too many'"),
        (4, 2)
    );
}

#[test]
fn the_same_sites_written_by_hand_are_the_same_campaign() {
    let by_hand: String = ["c7i.xlarge", "c7g.xlarge"]
        .map(|name| {
            cloud(&format!("instance_types = ['{name}']")).replace(
                "sites.cloud",
                &format!("sites.cloud-{}", name.replace('.', "-")),
            )
        })
        .concat();
    let points = |sites: &str| plan::build(&load(sites, "").expect("a campaign")).points;
    assert_eq!(points(&cloud(TWO)), points(&by_hand));
}

#[test]
fn wrong_comparisons_are_refused_once_with_their_place() {
    let error = |types: &str| load(&cloud(types), "").err().unwrap_or_default();
    for (types, part) in [
        (
            "instance_types = ['c5.large']\ncompare_instance_types = ['c7i.large']",
            "both `compare_instance_types` and `instance_types`",
        ),
        (
            "compare_instance_types = ['c7i.xlarge', 'c7i.xlarg']",
            "unknown instance type `c7i.xlarg`: c7i has no size `xlarg`",
        ),
        (
            "compare_instance_types = ['c7i.xlarge', 'c7i.xlarge']",
            "the site `cloud-c7i-xlarge` exists already",
        ),
    ] {
        let error = error(types);
        assert_eq!(error.matches(part).count(), 1, "{types}: {error}");
        assert!(error.contains("x.toml:"), "{error}");
    }
    assert!(error("").contains("the list of instance types is empty"));
}
