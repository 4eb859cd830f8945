//! Tests of `cvc install` on this machine: with the real ansible-playbook, the lock file that it writes, and runs that check this file.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Tool, require};
use serde_json::Value;
use std::fs;

/// Sets the path of Ansible from the set-up, and a separate directory for compiled kernels.
pub fn with_ansible(campaign: &mut Campaign) {
    let program = Tool::Ansible.find().expect("found before");
    let path = format!(
        "{}:{}",
        program.parent().expect("a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let home = campaign.dir().join("home");
    fs::create_dir_all(&home).expect("a home");
    campaign
        .env("PATH", &path)
        .env("HOME", &home.display().to_string());
}

fn steps(stdout: &str, step: &str) -> Vec<Value> {
    let lines = stdout
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    lines
        .filter(|e| e["event"] == "install" && e["step"] == step)
        .collect()
}

#[test]
fn what_was_installed_is_locked_and_runs_keep_to_it() {
    require!(Tool::Ansible, Tool::Mpich);
    let matrix = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\nrepeats = 1\n";
    let mut campaign = campaign("locked", &format!("{SITE}{matrix}"));
    with_ansible(&mut campaign);
    // leave out the role `base`, which would install a missing rsync on this machine
    let install = ["install", "local", "--tags", "mpi,kernels", "--json"];
    let first = campaign.cvc(&install).expect(0);
    let ended = steps(&first.stdout, "ended");
    assert_eq!(
        ended[0]["hosts"]["localhost"]["failed"], 0,
        "{}",
        first.stdout
    );
    assert!(
        ended[0]["hosts"]["localhost"]["changed"].as_u64() > Some(0),
        "the kernels are compiled: {}",
        first.stdout
    );
    assert!(
        campaign
            .dir()
            .join("home/.local/share/cvc/kernels/mpich/kernel-stencil")
            .is_file()
    );
    let second = campaign.cvc(&install).expect(0);
    assert_eq!(
        steps(&second.stdout, "ended")[0]["hosts"]["localhost"]["changed"],
        0,
        "{}",
        second.stdout
    );
    let file = campaign.root().join("cvc.lock");
    let lock = fs::read_to_string(&file).expect("a lock");
    assert!(
        lock.contains("[sites.local.components.\"mpi/mpich\"]")
            && lock.contains("[sites.local.components.\"kernels/mpich\"]"),
        "{lock}"
    );
    campaign.run().expect(0);

    // change the version, as an upgrade of the machine would
    let version = lock
        .split("\"mpi/mpich\"]\nversion = \"")
        .nth(1)
        .and_then(|l| l.split('"').next())
        .expect("a version")
        .to_owned();
    let older = lock.replace(&format!("version = \"{version}\""), "version = \"3.3.2\"");
    fs::write(&file, &older).expect("the lock");
    let refused = campaign.run().expect(5);
    let output = refused.stderr;
    assert!(
        output.contains("mpi/mpich: version 3.3.2 was installed, now version")
            && output.contains(&version),
        "{output}"
    );
    assert!(
        output.contains("--update-lock") && output.contains("cvc.lock"),
        "{output}"
    );
    let refused = campaign
        .cvc(&["install", "local", "--tags", "mpi"])
        .expect(5);
    assert!(
        refused.stderr.contains("version 3.3.2 was installed"),
        "{}",
        refused.stderr
    );
    campaign
        .cvc(&["run", "campaign.toml", "--update-lock"])
        .expect(0);
    assert!(
        !fs::read_to_string(&file)
            .expect("the lock")
            .contains("3.3.2")
    );

    fs::write(&file, "format = 7\n").expect("the lock");
    assert!(campaign.run().expect(7).stderr.contains("format 7"));
    fs::write(&file, "format = 1\nsites = 3\n").expect("the lock");
    assert!(
        campaign
            .run()
            .expect(7)
            .stderr
            .contains("cvc.lock is damaged, line 2")
    );
}

#[test]
fn a_library_that_is_not_where_the_campaign_says_fails_with_its_hint() {
    require!(Tool::Ansible);
    let text = "[sites.local]\nkind = \"local\"\n[sites.local.mpi.mine]\nfamily = \"mpich\"\nprefix = \"/no/such/{{ prefix }}\"\n\
        [matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n";
    let mut campaign = campaign("absent", text);
    with_ansible(&mut campaign);
    let failed = campaign
        .cvc(&["install", "local", "--tags", "mpi"])
        .expect(5);
    assert!(
        failed
            .stderr
            .contains("no /no/such/{{ prefix }}/bin/mpiexec"),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stderr.contains(
            "localhost: the task `component : Stop where something could not be had` failed"
        ),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stderr.contains("in roles/component/tasks/main.yml:")
            && failed.stderr.contains("give another prefix"),
        "{}",
        failed.stderr
    );
    assert!(!campaign.root().join("cvc.lock").exists());
}

#[test]
fn the_campaign_file_is_found_and_wrong_sites_are_refused() {
    let campaign = campaign(
        "which",
        &format!("{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n"),
    );
    campaign.put("Cargo.toml", "[package]\nname = \"x\"\n");
    let written = campaign
        .cvc(&["install", "local", "--inventory-only", "out"])
        .expect(0);
    assert!(
        written
            .stdout
            .contains("ansible-playbook -i out/inventory.yml --extra-vars @out/wanted.json"),
        "{}",
        written.stdout
    );
    assert!(
        campaign
            .cvc(&["install", "cluster"])
            .expect(2)
            .stderr
            .contains("its sites: local")
    );
    campaign.put(
        "other.toml",
        "schema = 1\nname = \"other\"\n[sites.local]\nkind = \"local\"\n",
    );
    assert!(
        campaign
            .cvc(&["install", "local"])
            .expect(2)
            .stderr
            .contains("campaign.toml, other.toml")
    );
}

#[test]
fn without_a_network_the_failed_installation_of_ansible_is_reported() {
    require!(Tool::Python);
    let mut campaign = campaign(
        "offline",
        &format!("{SITE}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n"),
    );
    // a PATH without Ansible, and a package index that does not exist
    let bin = campaign.dir().join("bin");
    fs::create_dir_all(&bin).expect("a directory");
    let python = Tool::Python.find().expect("found before");
    std::os::unix::fs::symlink(
        fs::canonicalize("/usr/bin/python3").unwrap_or(python),
        bin.join("python3"),
    )
    .expect("a link");
    let cache = campaign.dir().join("cache").display().to_string();
    campaign
        .env("PATH", &bin.display().to_string())
        .env("XDG_CACHE_HOME", &cache);
    campaign
        .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        .env("PIP_RETRIES", "0")
        .env("PIP_CONFIG_FILE", "/dev/null");
    let failed = campaign.cvc(&["install", "local"]).expect(5);
    assert!(
        failed.stderr.contains("ansible-playbook is not installed")
            && failed.stderr.contains("ansible-core"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("hint: "), "{}", failed.stderr);
    let left: Vec<_> = fs::read_dir(campaign.dir().join("cache/cvc"))
        .expect("the cache")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|n| n.to_string_lossy().starts_with("ansible-")
                && !n.to_string_lossy().ends_with(".lock")
                && campaign
                    .dir()
                    .join("cache/cvc")
                    .join(n)
                    .join("bin/ansible-playbook")
                    .exists()),
        "{left:?}"
    );
}

#[test]
fn nfs_is_exported_to_the_other_hosts_and_to_nobody_else() {
    require!(Tool::Ansible, Tool::Python);
    let dir = tempfile::tempdir().expect("a directory");
    let template = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../ansible/roles/storage/templates/exports.j2");
    let python = Tool::Python.find().expect("found before");
    let inventory = "all:\n  hosts:\n    n1: {ansible_host: 10.0.0.1}\n    n2: {ansible_host: 10.0.0.2}\n    n3: {}\n";
    let playbook = format!(
        "- hosts: n1\n  gather_facts: false\n  connection: local\n  tasks:\n    - ansible.builtin.template:\n        src: {}\n        dest: {}\n",
        template.display(),
        dir.path().join("exports").display()
    );
    let values = serde_json::json!({
        "ansible_python_interpreter": fs::canonicalize("/usr/bin/python3").unwrap_or(python),
        "ansible_facts": { "user_id": "ada" },
        "storage_nfs_server": "n1",
        "storage_nfs_exports": [{ "path": "/shared" }, { "path": "/more", "clients": "10.1.0.0/16 h", "options": "ro" }],
    });
    for (name, text) in [
        ("hosts.yml", inventory),
        ("play.yml", &playbook),
        ("values.json", &values.to_string()),
    ] {
        fs::write(dir.path().join(name), text).expect("writes");
    }
    let ansible = Tool::Ansible.find().expect("found before");
    let mut command = std::process::Command::new(ansible);
    command
        .args([
            "-i",
            "hosts.yml",
            "--extra-vars",
            "@values.json",
            "play.yml",
        ])
        .current_dir(dir.path());
    let output = command.output().expect("ansible-playbook");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let options = "(rw,sync,no_subtree_check)";
    assert_eq!(
        fs::read_to_string(dir.path().join("exports")).expect("exports"),
        format!("/shared 10.0.0.2{options} n3{options}\n/more 10.1.0.0/16(ro) h(ro)\n")
    );
}
