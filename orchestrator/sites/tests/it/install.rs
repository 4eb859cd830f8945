//! Tests of the files that cvc writes for Ansible, with the real Ansible.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{self, Spec};
use cvc_core::plan;
use cvc_core::store::CampaignDir;
use cvc_sites::install::{self, InstallRequest, Lock, ansible};
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{path::Path, process::Command};

fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize_utf8()
        .expect("the repository")
}

fn load(directory: &Path, text: &str) -> Spec {
    let text = format!("schema = 1\nname = \"t\"\n{text}");
    campaign::load_text(
        &directory.join("t.toml"),
        &text,
        &[root().join("experiments/apps").into_std_path_buf()],
    )
    .unwrap_or_else(|e| panic!("{e:?}"))
}

/// Writes and returns the inventory and the variables of the site `s`.
fn written(directory: &Path, text: &str) -> (install::InstalledFiles, Value) {
    let spec = load(directory, text);
    let plan = plan::build(&spec);
    let directory = Utf8Path::from_path(directory).expect("a path");
    let dir = CampaignDir::at(&directory.join("campaign"));
    let request = InstallRequest {
        spec: &spec,
        plan: &plan,
        site: "s",
        dir: &dir,
        check: false,
        tags: &[],
        only: None,
        update_lock: false,
        limit: install::LIMIT,
    };
    let files = install::write(
        &request,
        &spec.sites["s"],
        &Lock::default(),
        &directory.join("out"),
    )
    .expect("is written");
    let vars = serde_json::from_str(&std::fs::read_to_string(&files.vars).expect("variables"))
        .expect("JSON");
    (files, vars)
}

/// Returns the inventory as ansible-inventory parses it.
fn listed(inventory: &Utf8Path) -> Value {
    let program = Tool::Ansible
        .find()
        .expect("found before")
        .with_file_name("ansible-inventory");
    let finished = Command::new(program)
        .args(["--list", "-i", inventory.as_str()])
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("ansible-inventory");
    assert!(
        finished.status.success(),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    serde_json::from_slice(&finished.stdout).expect("JSON")
}

const MATRIX: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\n";

#[test]
fn ansible_reads_the_inventory_back_as_it_was_meant() {
    require!(Tool::Ansible);
    let directory = tempfile::tempdir().expect("a directory");
    let site = "[sites.s]\nkind = \"ssh\"\nuser = \"ada\"\nhead = \"head_node\"\n\
        hosts = [\"n1\", { name = \"n2\", address = \"10.1.2.3\", port = 2222, user = \"eva\", identity_file = \"my keys/{{ id }}\" }]\n\
        ssh = { config = \"ssh config\", known_hosts = \"known 100%\", host_keys = \"accept-new\" }\n";
    let (files, _) = written(directory.path(), &format!("{site}{MATRIX}"));
    let list = listed(&files.inventory);
    assert_eq!(list["head"]["hosts"], serde_json::json!(["head_node"]));
    assert_eq!(list["nodes"]["hosts"], serde_json::json!(["n1", "n2"]));
    let n2 = &list["_meta"]["hostvars"]["n2"];
    assert_eq!(
        (
            n2["ansible_host"].as_str(),
            n2["ansible_port"].as_i64(),
            n2["ansible_user"].as_str()
        ),
        (Some("10.1.2.3"), Some(2222), Some("eva"))
    );
    // text that looks like an Ansible template is marked as plain text
    let key = directory
        .path()
        .join("my keys/{{ id }}")
        .display()
        .to_string();
    let given = &n2["ansible_ssh_private_key_file"];
    assert!(
        given == key.as_str() || given["__ansible_unsafe"] == key.as_str(),
        "{given}"
    );
    assert_eq!(list["_meta"]["hostvars"]["n1"]["ansible_user"], "ada");
    let args = list["_meta"]["hostvars"]["n1"]["ansible_ssh_common_args"]
        .as_str()
        .expect("arguments");
    // check the configuration with ssh itself
    let config = directory.path().join("ssh config");
    std::fs::write(&config, "Host n1\n  HostName n1.example\n").expect("a file");
    let finished = Command::new("bash")
        .args(["-c", &format!("exec ssh {args} -G n1")])
        .output()
        .expect("ssh");
    let finished = format!(
        "{}{}",
        String::from_utf8_lossy(&finished.stdout),
        String::from_utf8_lossy(&finished.stderr)
    );
    assert!(
        finished.contains("hostname n1.example\n")
            && finished.contains("stricthostkeychecking accept-new\n"),
        "{finished}"
    );
    assert!(
        finished
            .lines()
            .any(|l| l.starts_with("userknownhostsfile ") && l.contains("known 100%")),
        "{finished}"
    );
}

#[test]
fn a_local_site_and_slurm_without_a_login_node_are_this_machine() {
    require!(Tool::Ansible);
    let directory = tempfile::tempdir().expect("a directory");
    for (kind, matrix) in [
        (
            "kind = \"local\"\n",
            "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n",
        ),
        ("kind = \"slurm\"\nslurm = { nodes = 4 }\n", MATRIX),
    ] {
        let (files, vars) = written(directory.path(), &format!("[sites.s]\n{kind}{matrix}"));
        let list = listed(&files.inventory);
        assert_eq!(
            list["head"]["hosts"],
            serde_json::json!(["localhost"]),
            "{kind}"
        );
        assert_eq!(
            list["_meta"]["hostvars"]["localhost"]["ansible_connection"],
            "local"
        );
        // users are not root on a cluster with a batch system
        assert_eq!(vars["component_use_packages"], kind.contains("local"));
    }
}

#[test]
fn only_what_the_points_need_is_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "[sites.s]\nkind = \"ssh\"\nhosts = [\"n1\", \"n2\"]\napp_dirs = [\"~/apps\"]\n\
        [sites.s.mpi.mpich]\nfamily = \"mpich\"\n[sites.s.mpi.ompi]\nfamily = \"openmpi\"\n[sites.s.mpi.other]\nfamily = \"mpich\"\nprefix = \"/opt/other\"\n\
        [sites.s.install]\nspecs = { ompi = \"openmpi@4.1.6\", dmtcp = \"dmtcp@3.0.0\" }\n\
        [sites.s.storage.scratch]\npath = \"$SCRATCH/runs\"\n\
        [matrix]\napp = [\"npb-bt\", \"minighost\"]\nmpi = [\"mpich\", \"ompi\"]\nmapping = [\"1Nx4P\", \"2Nx2P\"]\nclass = \"A\"\ncheckpointer = \"dmtcp\"\n";
    let (files, vars) = written(directory.path(), text);
    let names: Vec<&str> = vars["mpi_libraries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|l| l["name"].as_str())
        .collect();
    assert_eq!(names, ["mpich", "ompi"]);
    assert_eq!(
        (
            vars["dmtcp_wanted"].as_bool(),
            vars["darshan_wanted"].as_bool(),
            vars["kernels_wanted"].as_bool()
        ),
        (Some(true), Some(false), Some(false))
    );
    assert_eq!(
        vars["storage_areas"][0]["path"],
        "{{ ansible_facts['env']['SCRATCH'] | default('$SCRATCH') }}/runs"
    );
    let spack: Value =
        serde_json::from_str(&std::fs::read_to_string(&files.spack).expect("spack.yaml"))
            .expect("JSON");
    let specs: Vec<&str> = spack["spack"]["specs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let expected = [
        "mpich",
        "openmpi@4.1.6",
        "dmtcp@3.0.0",
        "npb implementation=mpi names=bt classes=A nprocs=4 ^mpich",
        "npb implementation=mpi names=bt classes=A nprocs=4 ^openmpi",
        "minighost ^mpich",
        "minighost ^openmpi",
    ];
    let mut sorted = specs.clone();
    sorted.sort_unstable();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
}

#[test]
fn ansible_lint_finds_nothing_at_the_production_profile() {
    require!(Tool::AnsibleLint);
    // use a copy, because the run leaves a directory there
    let directory = tempfile::tempdir().expect("a directory");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(root().join("ansible"))
        .arg(directory.path())
        .status()
        .expect("cp");
    assert!(copied.success());
    let program = Tool::AnsibleLint.find().expect("found before");
    let path = format!(
        "{}:{}",
        program.parent().expect("a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let finished = Command::new(&program)
        .args(["--offline", "--nocolor", "--profile", "production", "."])
        .current_dir(directory.path().join("ansible"))
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("ansible-lint");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&finished.stdout),
        String::from_utf8_lossy(&finished.stderr)
    );
    assert!(
        finished.status.success() && text.contains("Passed: 0 failure(s), 0 warning(s)"),
        "{text}"
    );
}

#[test]
fn the_set_up_brings_the_versions_that_cvc_would() {
    let script =
        std::fs::read_to_string(root().join("orchestrator/xtask/setup.sh")).expect("the script");
    for ansible::PinnedAnsible { version, .. } in ansible::PINNED {
        assert!(script.contains(&format!("version={version}")), "{version}");
    }
}

#[test]
fn everything_that_ansible_needs_is_pinned_with_digests() {
    for ansible::PinnedAnsible {
        version,
        requirements,
        ..
    } in ansible::PINNED
    {
        let lines: Vec<&str> = requirements
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        let (digests, packages): (Vec<&str>, Vec<&str>) = lines
            .iter()
            .partition(|line| line.starts_with("    --hash=sha256:"));
        assert!(
            packages.len() > 8 && digests.len() > 10 * packages.len(),
            "{version}: {packages:?}"
        );
        assert!(
            packages
                .iter()
                .all(|line| line.contains("==") && line.ends_with(" \\")),
            "{version}: {packages:?}"
        );
        assert!(
            packages[0].starts_with(&format!("ansible-core=={version} ")),
            "{packages:?}"
        );
    }
}
