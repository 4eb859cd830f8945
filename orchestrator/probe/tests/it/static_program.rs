//! `cvc-node` is statically linked: it works in a root directory that contains no other file, not even a C library.

use super::common;
use cvc_probe::sentinel::{SentinelAnswer, SentinelMessage};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs `cvc-node` with this directory as its root.
fn run_in(root: &Path, args: &[&str], input: &str) -> Output {
    let mut command = if nix::unistd::geteuid().is_root() {
        Command::new("chroot")
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "chroot"]);
        command
    };
    command.arg(root).arg("/cvc-node").args(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn it_starts_answers_and_reads_images_in_a_root_without_a_c_library() {
    let root = tempfile::tempdir().unwrap();
    fs::copy(cvc_testkit::node_program(), root.path().join("cvc-node")).unwrap();
    let name = "mpich-btA-np4-rank0";
    fs::copy(common::fixture(name), root.path().join("ckpt_bt.dmtcp")).unwrap();
    let text = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };

    let version = text(run_in(root.path(), &["--version"], ""));
    assert_eq!(
        version.trim(),
        format!("cvc-node {}", env!("CARGO_PKG_VERSION"))
    );

    let listing = text(run_in(
        root.path(),
        &["image", "--listing", "/ckpt_bt.dmtcp"],
        "",
    ));
    assert_eq!(
        listing,
        fs::read_to_string(common::fixtures().join(format!("{name}.listing.txt"))).unwrap()
    );
    let missing = run_in(root.path(), &["image", "/missing.dmtcp"], "");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(
        missing.status.code() == Some(1)
            && said.starts_with("error: /missing.dmtcp: ")
            && said.contains("hint: "),
        "{missing:?}"
    );

    fs::write(root.path().join("ckpt_broken.dmtcp"), "oops").unwrap();
    let directory = run_in(root.path(), &["image", "/"], "");
    let said = String::from_utf8_lossy(&directory.stderr);
    assert!(
        directory.status.code() == Some(1) && said.contains("1 of 2 image(s) cannot be read"),
        "{directory:?}"
    );
    let printed: serde_json::Value = serde_json::from_slice(&directory.stdout).unwrap();
    assert_eq!(printed["images"][0]["program"], "bt.A.4");
    assert_eq!(printed["broken"][0]["file"], "ckpt_broken.dmtcp");

    let questions = "{\"id\":1,\"do\":\"clock\"}\n{\"id\":2,\"do\":\"digest\",\"files\":[\"/ckpt_bt.dmtcp\"]}\n";
    let finished = text(run_in(root.path(), &["sentinel"], questions));
    let finished: Vec<SentinelMessage> = finished
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answer = |id| {
        finished
            .iter()
            .find(|s| s.id == Some(id))
            .and_then(|s| s.ok.as_ref())
            .unwrap_or_else(|| panic!("{id}: {finished:?}"))
    };
    assert!(
        matches!(answer(1), SentinelAnswer::Clock { at_ns } if *at_ns > 1_700_000_000_000_000_000),
        "{finished:?}"
    );
    let expected = blake3::hash(&fs::read(common::fixture(name)).unwrap())
        .to_hex()
        .to_string();
    assert!(
        format!("{:?}", answer(2)).contains(&expected),
        "{finished:?}"
    );
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        3,
        "there was nothing else to use"
    );
}
