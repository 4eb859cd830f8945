//! Tests of `cvc image` on images below a campaign's directory.

use crate::common::{SITE, campaign};
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../image/tests/fixtures/dmtcp")
        .join(name)
}

#[test]
fn images_of_a_campaign_are_summed_by_run_and_by_point() {
    require!(Tool::Mpich);
    let text = format!(
        "{SITE}[matrix]\napp = \"script\"\nprocesses = [1, 2]\nmpi = \"mpich\"\n[run]\nrepeats = 2\n"
    );
    let c = campaign("images", &text);
    c.script_app("script", "sleep 0.1\necho SUCCESS", "");
    c.run().expect(0);
    let runs: Vec<String> = c.run_names().into_iter().collect();
    assert_eq!(runs.len(), 4);
    let none = c
        .cvc(&["image", c.root().to_str().expect("UTF-8")])
        .expect(6)
        .stderr;
    assert!(
        none.contains("no images") && none.contains("keep_images = true"),
        "{none}"
    );
    let image = fixture("mpich-btA-np4-rank0-from-gzip.dmtcp.gz");
    let bytes = fs::metadata(&image).expect("a fixture").len();
    let place = |below: &str| {
        let dir = c.root().join(below);
        fs::create_dir_all(&dir).expect("makes");
        fs::copy(&image, dir.join("ckpt_bt.A.4_98ff-42000-2f1307f1a2b.dmtcp")).expect("copies");
    };
    for run in &runs {
        place(&format!("work/{run}/ckpt"));
    }
    // add a second checkpoint of the first run, and a checkpoint of a run that the plan does not contain
    place(&format!("work/{}/ckpt/ckpt_98ff-40000-1_00002", runs[0]));
    place("work/0123456789abcdef/ckpt");
    let root = c.root().display().to_string();
    let json: Value =
        serde_json::from_str(&c.cvc(&["image", "--json", &root]).expect(0).stdout).expect("JSON");
    let sums = |key: &str, by: &str| -> Vec<(Option<String>, u64, u64)> {
        let of = |g: &Value| {
            (
                g[by].as_str().map(str::to_owned),
                g["images"].as_u64().expect("images"),
                g["stored_bytes"].as_u64().expect("bytes"),
            )
        };
        json[key]
            .as_array()
            .expect("groups")
            .iter()
            .map(of)
            .collect()
    };
    let by_run = sums("runs", "run");
    assert_eq!(by_run[0], (Some(runs[0].clone()), 2, 2 * bytes));
    assert!(
        by_run.len() == 5
            && by_run[1..]
                .iter()
                .all(|(_, images, stored)| (*images, *stored) == (1, bytes)),
        "{by_run:?}"
    );
    let by_point = sums("points", "point");
    // the group of the run that is not in the plan comes last, without a name
    assert_eq!(by_point.iter().map(|p| p.1).collect::<Vec<_>>(), [3, 2, 1]);
    assert!(by_point[0].0.is_some() && by_point[2].0.is_none());
    assert_eq!(json["totals"]["stored_bytes"], 6 * bytes);
    let planned: Value =
        serde_json::from_str(&fs::read_to_string(c.root().join("plan.json")).expect("a plan"))
            .expect("JSON");
    let of_first = planned["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .find(|r| r["id"] == runs[0].as_str())
        .expect("the run")["point"]
        .clone();
    assert_eq!(by_point[0].0.as_deref(), of_first.as_str());
    // labels are the factors that differ, in the text as well
    let text = c.cvc(&["image", "--top", "2", &root]).expect(0).stdout;
    for expected in [
        "1Nx1P",
        "1Nx2P",
        "not in the plan",
        "on disk by point",
        "and 4 more",
        "(no point)",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(!text.contains("on disk by directory"), "{text}");
    // a directory within the campaign belongs to it as well
    let part = c
        .cvc(&[
            "image",
            "--json",
            "--recursive",
            &format!("{root}/work/{}", runs[1]),
        ])
        .expect(0)
        .stdout;
    let part: Value = serde_json::from_str(&part).expect("JSON");
    assert_eq!(
        (
            part["runs"][0]["run"].as_str(),
            part["points"][0]["images"].as_u64()
        ),
        (Some(runs[1].as_str()), Some(1))
    );
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    let dir = tempfile::tempdir().expect("a directory");
    let images = dir.path().join("images");
    fs::create_dir(&images).expect("makes");
    fs::write(images.join("ckpt_a_1-2-3.dmtcp"), "oops").expect("writes");
    let image = fixture("mpich-btW-np1-rank0.dmtcp.gz");
    let image = image.to_str().expect("UTF-8");
    let code = |args: &[&str], output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cvc"));
        // the directory in PATH contains no compression program
        command
            .current_dir(dir.path())
            .env("PATH", dir.path())
            .arg("image")
            .args(args);
        command
            .stdout(output)
            .stderr(Stdio::null())
            .status()
            .expect("starts")
            .code()
    };
    assert_eq!(code(&[image], Stdio::null()), Some(0));
    assert_eq!(code(&["images", "--listing"], Stdio::null()), Some(2));
    assert_eq!(code(&[image, "--estimate", "zstd"], Stdio::null()), Some(5));
    for unreadable in [
        &["missing.dmtcp"][..],
        &["images"],
        &["images", "--recursive"],
    ] {
        assert_eq!(code(unreadable, Stdio::null()), Some(6), "{unreadable:?}");
    }
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    assert_eq!(code(&[image], full.into()), Some(7));
}
