//! Artefacts: whole bags, the same bytes each time, and nobody's name in any of them.

use crate::{common, made::Made};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::CampaignDir;
use cvc_export::{Artifact, ArtifactOptions, ExportError, export_artifact, export_tables};
use cvc_index::Index;
use cvc_testkit::{Tool, require, tool::skipped};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    process::Command,
};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

fn export(made: &Made, options: ArtifactOptions<'_>, file: &str) -> Result<Artifact, ExportError> {
    export_artifact(
        &CampaignDir::at(&made.path("c")),
        &made.index,
        options,
        &made.path(file),
    )
}

/// The files of a zip.
fn unzipped(path: &Utf8Path) -> BTreeMap<String, Vec<u8>> {
    let mut zip = ZipArchive::new(File::open(path).expect("a file")).expect("a zip");
    let mut files = BTreeMap::new();
    for at in 0..zip.len() {
        let mut file = zip.by_index(at).expect("a file");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("its bytes");
        let name = file.name().expect("a name").into_owned();
        assert!(files.insert(name, bytes).is_none());
    }
    files
}

/// Checks a bag as RFC 8493 says, and returns the names of its payload below `data/`.
fn check_bag(files: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let bases: BTreeSet<&str> = files
        .keys()
        .map(|name| name.split_once('/').expect("a directory").0)
        .collect();
    assert_eq!(bases.len(), 1, "all lies in one directory");
    let base = bases.first().expect("a directory").to_string();
    let text = |name: &str| {
        let bytes = files.get(&format!("{base}/{name}")).expect(name).clone();
        String::from_utf8(bytes).expect("text")
    };
    assert_eq!(
        text("bagit.txt"),
        "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
    );
    let listed = |manifest: &str| {
        let mut listed = BTreeSet::new();
        for line in text(manifest).lines() {
            let (sum, name) = line.split_once("  ").expect("a sum and a name");
            let bytes = files.get(&format!("{base}/{name}")).expect(name);
            let found: String = Sha256::digest(bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(found, sum, "{name}");
            assert!(listed.insert(name.to_owned()), "{name} stands twice");
        }
        listed
    };
    let (payload, tags) = (
        listed("manifest-sha256.txt"),
        listed("tagmanifest-sha256.txt"),
    );
    let own = [
        "ARTIFACT.md",
        "bag-info.txt",
        "bagit.txt",
        "manifest-sha256.txt",
    ];
    assert_eq!(tags, own.map(str::to_owned).into());
    let mut all: BTreeSet<String> = payload.union(&tags).cloned().collect();
    all.insert("tagmanifest-sha256.txt".to_owned());
    let there: BTreeSet<String> = files
        .keys()
        .map(|name| name[base.len() + 1..].to_owned())
        .collect();
    assert_eq!(there, all, "every file is in a manifest");
    assert!(payload.iter().all(|name| name.starts_with("data/")));
    let bytes: usize = payload
        .iter()
        .map(|name| files[&format!("{base}/{name}")].len())
        .sum();
    let oxum = format!("Payload-Oxum: {bytes}.{}\n", payload.len());
    assert!(text("bag-info.txt").contains(&oxum), "{oxum}");
    payload
        .iter()
        .map(|name| name["data/".len()..].to_owned())
        .collect()
}

/// Names that nobody may find in an artefact.
const NAMES: [&str; 20] = [
    "graphene",
    "nancy",
    "grid-uni",
    "lovelace",
    "babbage",
    "hopper",
    "quenya",
    "10.77.3.",
    "2001:db8",
    "02:42:ac",
    "123456789012",
    "i-0a1b2c3d",
    "sg-0feedbee",
    "laptop-of-ada",
    "my-aws-profile",
    "my-ssh-key",
    "SeCrEt-VaLuE",
    "tok-98765-xyz",
    "hunter2hunter2",
    "PRIVATE KEY",
];

const CAMPAIGN: &str = r#"
[campaign]
name = "made-up"
# asked quenya@login.nancy.grid-uni.org for an account
[sites.made-up]
kind = "ssh"
user = "lovelace"
identity_file = "/home/lovelace/.ssh/id_ed25519"
hosts = ["graphene-1.nancy.grid-uni.org", { name = "graphene-2", address = "10.77.3.2" }]
head = { name = "graphene-1", user = "lovelace" }
storage.scratch.path = "/srv/lovelace/scratch"
[sites.made-up.mpi.mpich.env]
API_TOKEN = "tok-98765-xyz"
db_password = "hunter2hunter2"
"#;

/// A campaign that ran on a cluster and in a cloud, with names wherever they can stand.
fn campaign_with_names(dir: &Path) {
    let made = common::campaign(dir);
    fs::write(dir.join("campaign.toml"), CAMPAIGN).expect("a campaign file");
    fs::write(
        dir.join("cvc.lock"),
        "format = 1\n[sites.made-up]\nhosts = [\"graphene-1\", \"graphene-2\"]\n\
         [sites.made-up.components.dmtcp]\nversion = \"3.0\"\npath = \"/home/lovelace/dmtcp\"\n",
    )
    .expect("a lock");
    fs::write(
        dir.join("hosts.json"),
        json!([{ "name": "graphene-1", "user": "babbage" }]).to_string(),
    )
    .expect("hosts");
    // the journal again, with more between its first lines
    let old = fs::read_to_string(dir.join("journal.jsonl")).expect("a journal");
    let mut lines: Vec<Value> = old
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let more = [
        json!({ "event": "site-opened", "site": "made-up", "place": {
            "kind": "ssh", "base": "/home/lovelace/.cvc",
            "head": { "name": "graphene-1", "address": "graphene-1.nancy.grid-uni.org", "user": "lovelace" },
            "ssh": { "config": "/home/babbage/.ssh/config", "host_keys": "strict" } } }),
        json!({ "event": "lease-intended", "lease": "c5-1", "site": "c5", "nodes": 1, "order": {
            "tags": { "owner": "hopper@laptop-of-ada", "campaign": "made-up", "site": "c5", "fleet": "f" },
            "region": "us-east-1", "profile": "my-aws-profile", "instance_type": "c5.xlarge", "vcpus": 4, "count": 1, "spot": false,
            "usd_per_hour": 0.18, "image": "ami-1", "root_device": "/dev/xvda", "key_name": "my-ssh-key",
            "group_id": "sg-0feedbee0feedbee0", "efa": false, "root": {}, "volumes": [], "lifetime_s": 14400 } }),
        json!({ "event": "lease-acquired", "lease": "c5-1", "by": { "instances": ["i-0a1b2c3d4e5f60718"] } }),
        json!({ "event": "lease-lost", "lease": "c5-1", "instances": ["i-0a1b2c3d4e5f60718"],
            "why": "arn:aws:ec2:us-east-1:123456789012:instance/i-0a1b2c3d4e5f60718 at 10.77.3.9 and 2001:db8::17 is gone" }),
        json!({ "event": "lease-released", "lease": "c5-1", "how": "ec2-10-77-3-9 said: 02:42:ac:11:00:02" }),
    ];
    let at = lines[1]["at"].clone();
    for (n, mut entry) in more.into_iter().enumerate() {
        entry["at"] = at.clone();
        lines.insert(2 + n, entry);
    }
    let mut text = String::new();
    let mut named = false;
    for (n, line) in lines.iter_mut().enumerate() {
        line["seq"] = json!(n + 1);
        if line["event"] == "run-intended" {
            line["nodes"] = json!({ "set": 1 });
            if !std::mem::replace(&mut named, true) {
                line["nodes"]["names"] = json!("graphene-[1-2]");
            }
        }
        if line["outcome"]["result"] == "failed" {
            line["outcome"]["detail"] = json!(
                "ssh: lovelace@graphene-7: refused\nbabbage\nMY_SECRET=SeCrEt-VaLuE graphene-[1-2] GRAPHENE-2"
            );
        }
        let json = serde_json::to_vec(line).expect("JSON");
        let line = cvc_core::store::line_file::with_sum(json).expect("a line");
        text.push_str(std::str::from_utf8(&line).expect("text"));
    }
    fs::write(dir.join("journal.jsonl"), text).expect("a journal");
    for run in &made.plan.runs {
        let of_run = dir.join(format!("runs/{}", run.id));
        let Ok(text) = fs::read(of_run.join("facts.json")) else {
            continue;
        };
        let mut facts: Value = serde_json::from_slice(&text).expect("JSON");
        facts["node"] = json!({ "host": "laptop-of-ada", "cpu": "Made-Up 3000", "cores": 8, "memory": "64 GB" });
        facts["node_names"] = json!("graphene-1 graphene-2");
        facts["env"] = json!({ "API_TOKEN": "tok-98765-xyz", "HOME": "/home/lovelace" });
        facts["nodes"] = json!([{
            "name": "graphene-1", "host": "graphene-1.nancy.grid-uni.org", "cpu": "Xeon of Old", "cores": 16,
            "memory_bytes": 68_719_476_736_u64, "kernel": "5.10.0-23-amd64",
            "interfaces": ["eth0 10000 Mbit/s 10.77.3.1 2001:db8::1 02:42:ac:11:00:02"],
        }]);
        fs::write(of_run.join("facts.json"), facts.to_string()).expect("facts");
        fs::write(
            of_run.join("stderr.log"),
            "lovelace@graphene-1 hunter2hunter2",
        )
        .expect("a log");
        let records = fs::read_to_string(of_run.join("records.jsonl")).expect("records");
        let records = records.replace("\"stdout.log\"", "\"/home/lovelace/graphene-1/stdout.log\"");
        fs::write(of_run.join("records.jsonl"), records).expect("records");
    }
}

fn report(made: &Made) -> Utf8PathBuf {
    let dir = made.path("report");
    fs::create_dir_all(dir.join("csv")).expect("a directory");
    fs::write(dir.join("report.html"), "<p>on graphene-1, by lovelace</p>").expect("a report");
    fs::write(dir.join("csv/x.csv"), "host\r\nGraphene-2\r\n").expect("a table");
    fs::write(dir.join("core.dump"), "hopper").expect("something else");
    dir
}

#[test]
fn a_bag_is_whole_and_has_the_files_of_the_campaign() {
    let made = Made::new(campaign_with_names);
    let report = report(&made);
    let options = ArtifactOptions {
        report: Some(&report),
        ..ArtifactOptions::default()
    };
    let artifact = export(&made, options, "a.zip").expect("an artefact");
    let files = unzipped(&artifact.path);
    let payload = check_bag(&files);
    for name in [
        "campaign.toml",
        "cvc.lock",
        "plan.json",
        "journal.jsonl",
        "tables/runs.csv",
        "tables/datapackage.json",
        "report/report.html",
        "report/csv/x.csv",
    ] {
        assert!(payload.contains(name), "{name}");
    }
    assert!(!payload.contains("report/core.dump"));
    let of_runs = payload
        .iter()
        .filter(|name| name.ends_with("/records.jsonl"));
    assert!(of_runs.count() > 50);
    assert!(!payload.iter().any(|name| name.ends_with(".log")));
    let size = fs::metadata(&artifact.path).expect("a file").len();
    assert_eq!((artifact.bytes, artifact.files), (size, payload.len()));
    assert!(artifact.payload_bytes > artifact.bytes);
}

#[test]
fn no_name_and_no_secret_is_in_any_byte_of_an_artefact() {
    let made = Made::new(campaign_with_names);
    let report = report(&made);
    let mut options = ArtifactOptions {
        report: Some(&report),
        ..ArtifactOptions::default()
    };
    // each name is in what goes in, so that the search below can fail
    let mut before = String::new();
    let mut open = vec![made.path("c"), report.clone()];
    while let Some(dir) = open.pop() {
        for entry in dir.read_dir_utf8().expect("a directory").flatten() {
            if entry.path().is_dir() {
                open.push(entry.path().to_owned());
            } else {
                before += &fs::read_to_string(entry.path())
                    .expect("text")
                    .to_lowercase();
            }
        }
    }
    let has = |text: &str, name: &str| text.contains(&name.to_lowercase());
    for name in NAMES.iter().filter(|name| **name != "PRIVATE KEY") {
        assert!(has(&before, name), "{name} is nowhere");
    }
    export(&made, options, "a.zip").expect("an artefact");
    for (file, bytes) in unzipped(&made.path("a.zip")) {
        let text = String::from_utf8(bytes).expect("text").to_lowercase();
        for name in NAMES {
            let at = text.find(&name.to_lowercase());
            let around = at.map(|at| &text[at.saturating_sub(60)..(at + 60).min(text.len())]);
            assert!(
                at.is_none() && !has(&file, name),
                "{file}: {name}: {around:?}"
            );
        }
    }
    options.keep_names = true;
    export(&made, options, "named.zip").expect("an artefact");
    let files = unzipped(&made.path("named.zip"));
    check_bag(&files);
    let all: String = files
        .into_values()
        .map(|bytes| String::from_utf8(bytes).expect("text"))
        .collect();
    for name in [
        "graphene-1",
        "lovelace",
        "10.77.3.2",
        "hopper@laptop-of-ada",
    ] {
        assert!(all.contains(name), "{name}");
    }
    for secret in ["tok-98765-xyz", "hunter2hunter2", "SeCrEt-VaLuE"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[test]
fn cvc_reads_an_artefact_as_it_read_the_campaign() {
    let made = Made::new(campaign_with_names);
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    let to = made.path("unzipped");
    for (name, bytes) in unzipped(&made.path("a.zip")) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }
    let again = Index::apart(&to.join("made-up/data")).expect("an index of the artefact");
    let values = |index: &Index| {
        let mut values = Vec::new();
        index
            .each_run_value(|v| values.push((v.run, v.quantity, v.value.to_bits())))
            .expect("values");
        values
    };
    assert!(values(&again).len() > 100);
    assert_eq!(values(&again), values(&made.index));
    let states = |index: &Index| -> Vec<(String, String)> {
        let runs = index.runs().expect("runs");
        runs.into_iter().map(|run| (run.id, run.state)).collect()
    };
    assert_eq!(states(&again), states(&made.index));
    let journal = cvc_journal::read(&to.join("made-up/data/journal.jsonl")).expect("a journal");
    assert!(journal.len() > 100);
}

#[test]
fn the_description_says_what_the_record_says() {
    let made = Made::new(campaign_with_names);
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    let files = unzipped(&made.path("a.zip"));
    let text = String::from_utf8(files["made-up/ARTIFACT.md"].clone()).expect("text");
    let failed = made.index.runs().expect("runs");
    let failed = failed.iter().filter(|run| run.state == "failed").count();
    assert_eq!(failed, 1);
    for told in [
        "# Artefact: made-up",
        "52 runs of 12 points",
        "| mpi | mpich, openmpi |",
        "| failed | checkpoint | 1 |",
        "| succeeded |  | 51 |",
        "nodes: processor | Xeon of Old |",
        "nodes: memory | 64.0 GiB |",
        "nodes: kernel | 5.10.0-23-amd64 |",
        "head: processor | Made-Up 3000 |",
        "| DMTCP | 7.7.0 |",
        "| MPI library | 9.9.1 |",
        "53 attempts took",
        "of instances (1 of 1 order with a known price)",
        "`cvc report made-up`",
    ] {
        let told = told.trim_matches('`');
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn the_same_campaign_gives_the_same_bytes() {
    let made = Made::new(campaign_with_names);
    for name in ["one.zip", "two.zip"] {
        export(&made, ArtifactOptions::default(), name).expect("an artefact");
    }
    let bytes = |name: &str| fs::read(made.path(name)).expect("a file");
    assert!(bytes("one.zip") == bytes("two.zip"));
}

#[test]
fn only_an_artefact_is_replaced_and_only_if_asked_and_nothing_was_added_to_it() {
    let made = Made::new(common::campaign_with_costs);
    let replace = ArtifactOptions {
        replace: true,
        ..ArtifactOptions::default()
    };
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    assert!(matches!(
        export(&made, ArtifactOptions::default(), "a.zip"),
        Err(ExportError::Exists {
            is_export: true,
            ..
        })
    ));
    export(&made, replace, "a.zip").expect("replaced");
    let mut zip = ZipWriter::new_append(
        File::options()
            .read(true)
            .write(true)
            .open(made.path("a.zip"))
            .expect("a file"),
    )
    .expect("a zip");
    zip.start_file("costs/data/mine.txt", SimpleFileOptions::default())
        .expect("a file");
    zip.write_all(b"mine").expect("written");
    zip.finish().expect("a zip");
    let refused = export(&made, replace, "a.zip").expect_err("refused");
    assert!(
        matches!(&refused, ExportError::Foreign { file, .. } if file == "costs/data/mine.txt"),
        "{refused}"
    );
    fs::write(made.path("b.zip"), "mine").expect("a file");
    export_tables(&made.index, &made.path("tables"), false).expect("tables");
    for name in ["b.zip", "tables"] {
        let refused = export(&made, replace, name).expect_err("refused");
        assert!(
            matches!(refused, ExportError::NoArtifact { .. }),
            "{refused}"
        );
    }
    assert_eq!(fs::read(made.path("b.zip")).expect("kept"), b"mine");
    assert_nothing_is_left(&made);
}

fn assert_nothing_is_left(made: &Made) {
    let left = fs::read_dir(made.dir.path()).expect("read").flatten();
    let names: Vec<String> = left
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn damaged_campaigns_give_clear_errors_and_no_file() {
    let made = Made::new(campaign_with_names);
    let journal = made.path("c/journal.jsonl");
    let whole = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, whole.replacen("run-intended", "run-intendet", 1)).expect("damaged");
    let error = export(&made, ArtifactOptions::default(), "a.zip").expect_err("damaged");
    let text = error.to_string();
    assert!(
        text.contains("journal.jsonl") && text.contains("line"),
        "{text}"
    );
    fs::remove_file(&journal).expect("removed");
    let error = export(&made, ArtifactOptions::default(), "a.zip").expect_err("no journal");
    assert!(error.to_string().contains("journal.jsonl"), "{error}");
    assert!(!made.path("a.zip").exists());
    assert_nothing_is_left(&made);
}

#[test]
fn damaged_records_and_files_that_are_no_text_are_no_error() {
    let made = Made::new(|dir| {
        campaign_with_names(dir);
        let first = fs::read_dir(dir.join("runs")).expect("runs").flatten();
        let mut runs: Vec<_> = first.map(|entry| entry.path()).collect();
        runs.sort();
        fs::write(runs[0].join("facts.json"), b"\xff\xfe lovelace {").expect("damaged");
    });
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    let files = unzipped(&made.path("a.zip"));
    check_bag(&files);
    let md = String::from_utf8_lossy(&files["made-up/ARTIFACT.md"]).into_owned();
    assert!(
        md.contains("are missing, damaged or not what was sealed"),
        "{md}"
    );
}

#[test]
fn a_full_disk_leaves_the_old_artefact_and_no_half_file() {
    require!(Tool::Tmpfs);
    let made = Made::new(campaign_with_names);
    let disk = made.path("disk");
    fs::create_dir(&disk).expect("a directory");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "cvc-test"])
        .arg(&disk)
        .status();
    assert!(mount.expect("mount").success());
    let error = export(&made, ArtifactOptions::default(), "disk/a.zip");
    let left = fs::read_dir(&disk).expect("the disk").count();
    let unmounted = Command::new("umount").arg(&disk).status().expect("umount");
    assert!(unmounted.success());
    let error = error.expect_err("the disk is full");
    assert!(
        matches!(&error, ExportError::Store(store) if store.is_full_disk()),
        "{error:?}"
    );
    assert_eq!(left, 0);
}

#[test]
fn what_a_killed_export_left_is_removed_by_the_next() {
    let made = Made::new(common::campaign_with_costs);
    let own = cvc_core::store::own_prefix("artifact").expect("own times");
    let gone = own.replace(&format!("-{}-", std::process::id()), "-4194305-");
    assert_ne!(own, gone);
    fs::write(made.path(&format!("{gone}abc.zip")), "half").expect("a file");
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    assert_nothing_is_left(&made);
}

#[test]
fn the_library_of_others_takes_a_bag() {
    require!(Tool::Python);
    let python = Tool::Python.find().expect("it is there");
    let import = Command::new(&python).args(["-c", "import bagit"]).output();
    if !import.is_ok_and(|o| o.status.success()) {
        skipped(
            "it::artifact::the_library_of_others_takes_a_bag",
            "bagit of PyPI",
        );
        return;
    }
    let made = Made::new(campaign_with_names);
    export(&made, ArtifactOptions::default(), "a.zip").expect("an artefact");
    let checked = Command::new(&python)
        .args(["-c", "import bagit, sys, zipfile; zipfile.ZipFile('a.zip').extractall('bag'); bagit.Bag('bag/made-up').validate(); print('valid')"])
        .current_dir(made.dir.path())
        .output()
        .expect("python starts");
    assert_eq!(
        String::from_utf8_lossy(&checked.stdout),
        "valid\n",
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
