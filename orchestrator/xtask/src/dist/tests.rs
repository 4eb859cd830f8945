//! Tests of the packages. They are made with programs that replace the real ones, whose build takes a quarter of an hour.

use super::*;
use serde_json::Value;
use std::{collections::BTreeSet, os::unix::fs::PermissionsExt};

fn linked() -> Dependencies {
    Dependencies::of(&workspace::root().unwrap(), &PROGRAMS, TARGET, &[]).unwrap()
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
    // packages that only tests and build scripts use
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
fn the_packages_are_whole_checked_by_their_sums_and_the_same_twice() {
    let root = workspace::root().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("programs");
    fs::create_dir(&programs).unwrap();
    // any program of this machine that accepts all arguments replaces the real programs
    for program in PROGRAMS {
        fs::copy("/bin/true", programs.join(program)).unwrap();
    }
    let packed = pack(&root, &programs, &dir.path().join("one"), Build::Release).unwrap();
    let again = pack(&root, &programs, &dir.path().join("two"), Build::Release).unwrap();
    for (one, two) in packed.iter().zip(&again) {
        assert_eq!(fs::read(one).unwrap(), fs::read(two).unwrap(), "{one:?}");
    }
    let mut packed = packed.into_iter();
    let (tarball, wheel) = (packed.next().unwrap(), packed.next().unwrap());
    let deb = packed_deb(&dir.path().join("one"));

    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    output(
        Command::new("tar")
            .arg("-xzf")
            .arg(&tarball)
            .arg("-C")
            .arg(&there),
    )
    .unwrap();
    let inside = there.join(
        tarball
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
    // the parts that dpkg and Python read
    if let Some(deb) = deb {
        let listed = runs("dpkg-deb", &["--contents", &deb], dir.path());
        for file in [
            "./usr/bin/cvc-node",
            "./usr/share/doc/cvc/copyright",
            "./usr/share/zsh/vendor-completions/_cvc",
        ] {
            assert!(listed.contains(file), "{file}: {listed}");
        }
        let control = runs("dpkg-deb", &["--field", &deb], dir.path());
        assert!(!control.contains("Depends"), "{control}");
    }
    let check = "import base64, hashlib, sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1])\n\
        names = set(z.namelist())\n\
        record = [n for n in names if n.endswith('/RECORD')][0]\n\
        for line in z.read(record).decode().splitlines():\n\
        \x20   name, digest, size = line.rsplit(',', 2)\n\
        \x20   names.remove(name)\n\
        \x20   data = z.read(name)\n\
        \x20   found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()\n\
        \x20   assert name == record or (digest == 'sha256=' + found and int(size) == len(data)), name\n\
        assert not names, names\n\
        print(oct(z.getinfo([n for n in z.namelist() if n.endswith('scripts/cvc')][0]).external_attr >> 16))\n";
    let mode = runs(
        "python3",
        &["-c", check, wheel.to_str().unwrap()],
        dir.path(),
    );
    assert_eq!(mode.trim(), "0o100755");

    let mode = fs::metadata(inside.join("bin/cvc"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn the_spack_package_is_python_and_names_the_sources_with_their_sum() {
    let dir = tempfile::tempdir().unwrap();
    let sources = dir.path().join("cvc-source.tar.gz");
    fs::write(&sources, "content").unwrap();
    let package = recipes::spack(&sources, dir.path()).unwrap();
    let text = fs::read_to_string(&package).unwrap();
    let sum = runs("sha256sum", &["cvc-source.tar.gz"], dir.path());
    assert!(text.contains(sum.split(' ').next().unwrap()), "{text}");
    // the paths in which Spack searches
    let find = "import ast, os, sys; ast.parse(open(sys.argv[1]).read())\n\
        print(os.path.exists(os.path.join(os.path.dirname(sys.argv[1]), *['..'] * 3, 'cvc-source.tar.gz')))";
    let found = runs(
        "python3",
        &["-c", find, package.to_str().unwrap()],
        dir.path(),
    );
    assert_eq!(found.trim(), "True");
}

/// Runs a program in a directory, and returns its output.
fn runs(program: &str, arguments: &[&str], dir: &Path) -> String {
    let out = output(Command::new(program).args(arguments).current_dir(dir));
    String::from_utf8_lossy(&out.unwrap()).into_owned()
}

/// Returns the Debian package in a directory; `None` if this machine cannot make one.
fn packed_deb(dir: &Path) -> Option<String> {
    let mut files = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let deb = files.find(|path| path.extension().is_some_and(|e| e == "deb"));
    assert_eq!(deb.is_some(), packages::can_make_deb());
    Some(deb?.to_str().unwrap().to_owned())
}
