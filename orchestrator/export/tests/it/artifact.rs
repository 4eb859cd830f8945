//! Artefacts: bags are valid and reproducible, and contain no names.

use crate::{
    common,
    made::Made,
    named::{NAMES, campaign_with_names, report},
};
use camino::Utf8Path;
use cvc_core::store::CampaignDir;
use cvc_export::{Artifact, ArtifactOptions, ExportError, export_artifact, export_tables};
use cvc_index::Index;
use cvc_testkit::{Tool, require, tool::skipped};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
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

/// Returns the files in a zip.
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

/// Checks a bag according to RFC 8493, and returns the names of its payload below `data/`.
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
    // each name occurs in the input; otherwise the search below could not fail
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
    let again =
        Index::in_temporary_file(&to.join("made-up/data")).expect("an index of the artefact");
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
        runs.into_iter()
            .map(|run| (run.id, run.state.to_string()))
            .collect()
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
    let failed = failed
        .iter()
        .filter(|run| run.state == cvc_index::RunOutcome::Failed)
        .count();
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
    assert!(md.contains("are missing, damaged or changed"), "{md}");
}

#[test]
fn a_full_disk_is_reported_and_leaves_no_half_file() {
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

#[test]
fn links_and_pipes_in_a_campaign_or_a_report_are_errors_at_once_and_never_published() {
    let made = Made::new(|dir| drop(common::campaign(dir)));
    let dir = report(&made);
    let secret = made.path("netrc");
    fs::write(&secret, "machine login SECRET-TEXT").expect("a file");
    let run = made
        .index
        .runs()
        .expect("runs")
        .into_iter()
        .find_map(|run| run.dir);
    let run = made.path("c").join(run.expect("a run"));
    let options = ArtifactOptions {
        report: Some(&dir),
        ..ArtifactOptions::default()
    };
    let of_campaign = ["campaign.toml", "plan.json", "journal.jsonl", "hosts.json"];
    let mut places: Vec<_> = of_campaign.map(|name| made.path("c").join(name)).into();
    places.extend(["facts.json", "records.jsonl"].map(|name| run.join(name)));
    places.extend([dir.join("csv/x.csv"), dir.join("new.json")]);
    for place in places {
        let kept = made.path("kept");
        let was_there = fs::rename(&place, &kept).is_ok();
        for is_link in [true, false] {
            if is_link {
                std::os::unix::fs::symlink(&secret, &place).expect("links");
            } else {
                let made = Command::new("mkfifo").arg(&place).status();
                assert!(made.expect("mkfifo").success());
            }
            let error = export(&made, options, "a.zip")
                .expect_err("not published")
                .to_string();
            assert!(error.contains(place.as_str()), "{error}");
            assert!(!made.path("a.zip").exists());
            fs::remove_file(&place).expect("removes");
        }
        if was_there {
            fs::rename(&kept, &place).expect("as it was");
        }
    }
    // a link to a directory in the path, too
    let aside = made.path("aside");
    fs::rename(&run, &aside).expect("renames");
    std::os::unix::fs::symlink(&aside, &run).expect("links");
    export(&made, options, "a.zip").expect_err("it lies behind a link");
    fs::remove_file(&run).expect("removes");
    fs::rename(&aside, &run).expect("as it was");
    export(&made, options, "a.zip").expect("nothing is left of them");
}

#[test]
fn names_of_files_break_no_list_of_a_bag() {
    let made = Made::new(|dir| drop(common::campaign(dir)));
    let dir = report(&made);
    fs::write(dir.join("50%.csv"), "a\n1\n").expect("a table");
    let options = ArtifactOptions {
        report: Some(&dir),
        replace: true,
        ..ArtifactOptions::default()
    };
    for _ in 0..2 {
        export(&made, options, "a.zip").expect("an artefact");
    }
    let files = unzipped(&made.path("a.zip"));
    let manifest = files
        .iter()
        .find(|(name, _)| name.ends_with("/manifest-sha256.txt"));
    let manifest = String::from_utf8_lossy(manifest.expect("a list").1);
    assert!(manifest.contains("data/report/50%25.csv\n"), "{manifest}");
    for name in ["a\nb.csv", "x\\..\\..\\evil.html", "a\u{7}.md"] {
        fs::write(dir.join(name), "x").expect("a file");
        let error = export(&made, options, "a.zip").expect_err(name);
        assert!(matches!(error, ExportError::Name { .. }), "{error}");
        fs::remove_file(dir.join(name)).expect("removes");
    }
}

#[test]
fn short_secrets_stay_out_of_every_file_of_an_artefact() {
    let made = Made::new(|dir| {
        campaign_with_names(dir);
        let path = dir.join("journal.jsonl");
        let journal = fs::read_to_string(&path).expect("a journal");
        let mut text = String::new();
        for line in journal.lines() {
            let mut entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
            entry.as_object_mut().expect("an entry").remove("sum");
            if entry["outcome"]["result"] == "failed" {
                let detail = r#"exit code 3: FAILURE {"password": "shrt1"} token=zw1xk Bearer q7q7 /home/josé"#;
                entry["outcome"]["detail"] = serde_json::json!(detail);
            }
            let json = serde_json::to_vec(&entry).expect("JSON");
            let line = cvc_core::store::line_file::with_sum(json).expect("a line");
            text.push_str(std::str::from_utf8(&line).expect("text"));
        }
        fs::write(path, text).expect("a journal");
    });
    let dir = report(&made);
    let html = "<td>{&quot;password&quot;: &quot;shrt1&quot;} token&#x3D;zw1xk Bearer q7q7</td><p>josé</p>";
    fs::write(dir.join("report.html"), html).expect("a report");
    let csv = "run,detail\r\n1,\"{\"\"password\"\": \"\"shrt1\"\"} token=zw1xk\"\r\n";
    fs::write(dir.join("csv/x.csv"), csv).expect("a table");
    let options = ArtifactOptions {
        report: Some(&dir),
        ..ArtifactOptions::default()
    };
    export(&made, options, "a.zip").expect("an artefact");
    let files = unzipped(&made.path("a.zip"));
    check_bag(&files);
    for (name, bytes) in &files {
        let text = String::from_utf8_lossy(bytes);
        for secret in ["shrt1", "zw1xk", "q7q7", "josé", "user-1é"] {
            assert!(!text.contains(secret), "{name}: {secret}");
        }
    }
    let journal = files
        .iter()
        .find(|(name, _)| name.ends_with("/journal.jsonl"));
    assert!(String::from_utf8_lossy(journal.expect("a journal").1).contains("exit code 3"));
}
