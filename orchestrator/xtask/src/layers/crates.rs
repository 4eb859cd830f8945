//! The layers: which crates of the workspace may depend on which.

use crate::workspace::Package;

/// Path of this file, for messages.
const TABLE: &str = "orchestrator/xtask/src/layers/crates.rs";

/// Crate that every other crate may use in its tests, and only there.
const TESTKIT: &str = "cvc-testkit";

/// Each crate with the crates that it may depend on, lowest layer first.
const ALLOWED: &[(&str, &[&str])] = &[
    ("cvc-os", &[]),
    ("cvc-image", &[]),
    ("cvc-delta-rules", &[]),
    ("cvc-delta", &["cvc-image", "cvc-os", "cvc-delta-rules"]),
    ("cvc-trace", &["cvc-image"]),
    ("cvc-probe", &["cvc-os", "cvc-image", "cvc-delta"]),
    ("cvc-core", &["cvc-os", "cvc-delta-rules", "cvc-trace"]),
    ("cvc-journal", &["cvc-core", "cvc-os"]),
    ("cvc-model", &["cvc-core", "cvc-delta-rules"]),
    ("cvc-show", &["cvc-core", "cvc-model", "cvc-trace"]),
    (
        "cvc-engine",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-os",
            "cvc-image",
            "cvc-delta",
            "cvc-delta-rules",
            "cvc-probe",
            "cvc-trace",
        ],
    ),
    (
        "cvc-agent",
        &["cvc-core", "cvc-os", "cvc-probe", "cvc-engine"],
    ),
    (
        "cvc-sites",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-engine",
            "cvc-agent",
            "cvc-os",
        ],
    ),
    (
        "cvc-cloud",
        &["cvc-core", "cvc-journal", "cvc-engine", "cvc-sites"],
    ),
    (
        "cvc-controller",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-model",
            "cvc-engine",
            "cvc-probe",
            "cvc-sites",
            "cvc-cloud",
            "cvc-os",
        ],
    ),
    ("cvc-index", &["cvc-core", "cvc-journal", "cvc-model"]),
    ("cvc-import", &["cvc-core", "cvc-journal", "cvc-index"]),
    (
        "cvc-export",
        &["cvc-core", "cvc-os", "cvc-journal", "cvc-index"],
    ),
    (
        "cvc-prediction",
        &[
            "cvc-core",
            "cvc-delta",
            "cvc-image",
            "cvc-journal",
            "cvc-model",
            "cvc-index",
        ],
    ),
    (
        "cvc-analysis",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-model",
            "cvc-index",
            "cvc-prediction",
            "cvc-show",
        ],
    ),
    (
        "cvc-paper",
        &[
            "cvc-core",
            "cvc-delta",
            "cvc-model",
            "cvc-index",
            "cvc-prediction",
            "cvc-analysis",
            "cvc-show",
        ],
    ),
    (
        "cvc-session",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-engine",
            "cvc-os",
            "cvc-sites",
            "cvc-cloud",
            "cvc-controller",
            "cvc-prediction",
        ],
    ),
    ("cvc-serve", &["cvc-core", "cvc-journal", "cvc-session"]),
    (
        "cvc-ec2",
        &["cvc-core", "cvc-journal", "cvc-sites", "cvc-cloud"],
    ),
    (
        "cvc-node",
        &["cvc-core", "cvc-agent", "cvc-os", "cvc-image", "cvc-probe"],
    ),
    (
        "cvc",
        &[
            "cvc-core",
            "cvc-delta-rules",
            "cvc-journal",
            "cvc-model",
            "cvc-engine",
            "cvc-agent",
            "cvc-sites",
            "cvc-cloud",
            "cvc-controller",
            "cvc-index",
            "cvc-import",
            "cvc-export",
            "cvc-prediction",
            "cvc-analysis",
            "cvc-paper",
            "cvc-session",
            "cvc-serve",
            "cvc-ec2",
            "cvc-os",
            "cvc-delta",
            "cvc-image",
            "cvc-probe",
            "cvc-show",
            "cvc-trace",
        ],
    ),
    // uses the readers of other crates; no crate depends on it
    (
        "cvc-fuzz",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-engine",
            "cvc-agent",
            "cvc-sites",
            "cvc-import",
            "cvc-index",
            "cvc-prediction",
            "cvc-delta",
            "cvc-image",
            "cvc-probe",
            "cvc-trace",
            "cvc-show",
        ],
    ),
    (
        "cvc-simulation",
        &[
            "cvc-core",
            "cvc-journal",
            "cvc-engine",
            "cvc-agent",
            "cvc-sites",
            "cvc-controller",
            "cvc-model",
            "cvc-os",
            "cvc-prediction",
        ],
    ),
    (TESTKIT, &[]),
    ("xtask", &[]),
];

/// Returns a message for each dependency that the layers do not allow.
pub fn violations(packages: &[Package]) -> Vec<String> {
    violations_of(packages, ALLOWED)
}

fn violations_of(packages: &[Package], table: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let manifest = package.dir.join("Cargo.toml");
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == package.name) else {
            wrong.push(format!(
                "{}: crate `{}` is not assigned to a layer; hint: list the crates that it may depend on in {TABLE}",
                manifest.display(),
                package.name
            ));
            continue;
        };
        for need in &package.needs {
            let name = need.package.as_str();
            if allowed.contains(&name) || need.dev && (name == TESTKIT || name == package.name) {
                continue;
            }
            let hint = if name == TESTKIT {
                "make it a dev-dependency".to_owned()
            } else {
                format!(
                    "move the shared code to a crate below both, or the code that needs `{name}` to a crate above it (layers: {TABLE})"
                )
            };
            wrong.push(format!(
                "{}: `{}` must not depend on `{name}`; hint: {hint}",
                manifest.display(),
                package.name
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Need;

    fn package(name: &str, needs: &[(&str, bool)]) -> Package {
        let needs = needs
            .iter()
            .map(|(package, dev)| Need {
                package: (*package).to_owned(),
                dev: *dev,
            })
            .collect();
        Package {
            name: name.into(),
            dir: name.into(),
            targets: Vec::new(),
            needs,
        }
    }

    const TABLE: &[(&str, &[&str])] = &[("low", &[]), ("left", &["low"]), ("right", &["low"])];

    #[test]
    fn dependencies_on_lower_layers_and_the_test_kit_in_tests_are_allowed() {
        let packages = [
            package("low", &[(TESTKIT, true)]),
            package("left", &[("low", false), ("low", true)]),
        ];
        assert_eq!(violations_of(&packages, TABLE), Vec::<String>::new());
    }

    #[test]
    fn forbidden_dependencies_and_unknown_crates_are_reported_with_a_hint() {
        let packages = [
            package("low", &[("left", false), (TESTKIT, false)]),
            package("right", &[("left", true)]),
            package("new", &[]),
        ];
        let wrong = violations_of(&packages, TABLE);
        assert_eq!(wrong.len(), 4, "{wrong:#?}");
        assert!(
            wrong[0].starts_with("low/Cargo.toml: `low` must not depend on `left`; hint: move"),
            "{wrong:#?}"
        );
        assert!(wrong[1].ends_with("make it a dev-dependency"), "{wrong:#?}");
        assert!(
            wrong[2].starts_with("right/Cargo.toml: `right` must not depend on `left`"),
            "{wrong:#?}"
        );
        assert!(
            wrong[3].contains("`new` is not assigned to a layer"),
            "{wrong:#?}"
        );
    }

    #[test]
    fn the_table_lists_lower_layers_first() {
        for (at, (name, allowed)) in ALLOWED.iter().enumerate() {
            for other in *allowed {
                let place = ALLOWED.iter().position(|(n, _)| n == other);
                assert!(
                    place.is_some_and(|p| p < at),
                    "`{name}` depends on `{other}`, which is not below it"
                );
            }
        }
        let allowed = |name: &str| ALLOWED.iter().find(|(n, _)| *n == name).expect("a row").1;
        assert!(
            !allowed("cvc-analysis").contains(&"cvc-controller")
                && !allowed("cvc-controller").contains(&"cvc-analysis")
        );
    }
}
