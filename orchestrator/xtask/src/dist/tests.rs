//! The tarball is packed with programs that stand for the real ones, whose build takes a quarter of an hour.

use super::*;
use serde_json::Value;
use std::{collections::BTreeSet, os::unix::fs::PermissionsExt};

fn linked() -> Dependencies {
    Dependencies::of(&workspace::root().unwrap(), &PROGRAMS, TARGET).unwrap()
}

#[test]
fn each_linked_package_has_a_licence_and_nearly_all_have_its_text() {
    let dependencies = linked();
    let others: Vec<_> = dependencies.0.values().filter(|p| !p.own).collect();
    assert!(others.len() > 200, "{}", others.len());
    let mut without = BTreeSet::new();
    for package in &others {
        assert!(!package.licence.is_empty(), "{}", package.name);
        assert!(package.sha256.is_some(), "{}", package.name);
        if licences::texts(&package.dir).unwrap().is_empty() {
            without.insert(package.name.as_str());
        }
    }
    assert!(without.len() * 10 < others.len(), "{without:?}");
    let names: BTreeSet<&str> = dependencies.0.values().map(|p| p.name.as_str()).collect();
    assert!(names.contains("aws-sdk-ec2") && names.contains("tokio"));
    // of tests and of build scripts
    assert!(!names.contains("trycmd") && !names.contains("cc"));
}

#[test]
fn the_bill_names_each_package_once_and_points_only_to_what_it_names() {
    let dependencies = linked();
    let bill: Value = serde_json::from_str(&sbom::cyclonedx(&dependencies, "0").unwrap()).unwrap();
    assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
    let named: BTreeSet<&str> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["bom-ref"].as_str().unwrap())
        .collect();
    assert_eq!(named.len(), dependencies.0.len());
    for needs in bill["dependencies"].as_array().unwrap() {
        assert!(named.contains(needs["ref"].as_str().unwrap()));
        for on in needs["dependsOn"].as_array().unwrap() {
            assert!(named.contains(on.as_str().unwrap()), "{on}");
        }
    }
}

#[test]
fn the_tarball_is_whole_checked_by_its_sums_and_the_same_twice() {
    let root = workspace::root().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("programs");
    fs::create_dir(&programs).unwrap();
    // a real program of this machine, which answers whatever it is asked
    for program in PROGRAMS {
        fs::copy("/bin/true", programs.join(program)).unwrap();
    }
    let packed = pack(&root, &programs, &dir.path().join("one")).unwrap();
    let again = pack(&root, &programs, &dir.path().join("two")).unwrap();
    assert_eq!(fs::read(&packed).unwrap(), fs::read(again).unwrap());

    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    output(
        Command::new("tar")
            .arg("-xzf")
            .arg(&packed)
            .arg("-C")
            .arg(&there),
    )
    .unwrap();
    let inside = there.join(
        packed
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".tar.gz"),
    );
    output(
        Command::new("sha256sum")
            .args(["--check", "--quiet", "SHA256SUMS"])
            .current_dir(&inside),
    )
    .unwrap();
    for file in [
        "bin/cvc-node",
        "experiments/quickstart.toml",
        "docs/first-hour.md",
        "licences/README.md",
        "share/zsh/site-functions/_cvc",
        "sbom.cdx.json",
    ] {
        assert!(inside.join(file).is_file(), "{file}");
    }
    let mode = fs::metadata(inside.join("bin/cvc"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
}
