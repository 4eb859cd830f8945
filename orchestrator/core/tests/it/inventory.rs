//! Inventories: what `ansible-inventory --list` answers, and what an inventory is without asking it.

use cvc_core::hosts::HostEntry;
use cvc_core::inventory::{self, InventoryError, InventoryKind, parse_answer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn parse(answer: &Value, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    parse_answer(Path::new("hosts"), &answer.to_string(), group)
}

#[track_caller]
fn names(answer: &Value, group: &str) -> Vec<String> {
    let hosts = parse(answer, group).unwrap_or_else(|e| panic!("{e}"));
    hosts.into_iter().map(|host| host.name).collect()
}

/// One host `n1` with these variables.
fn with_vars(vars: &Value) -> Value {
    json!({ "_meta": { "hostvars": { "n1": vars } }, "all": { "hosts": ["n1"] } })
}

#[test]
fn hosts_behind_a_bastion_are_those_of_the_group_in_its_order() {
    let vars = |address: &str| {
        json!({
            "ansible_host": address,
            "ansible_ssh_common_args": "-o ProxyCommand=\"ssh -W %h:%p -q ubuntu@10.0.0.1\"",
            "ansible_user": "ubuntu"
        })
    };
    let answer = json!({
        "_meta": {
            "hostvars": { "gpu01": vars("10.0.2.1"), "gpu02": vars("10.0.2.2"), "login01": vars("10.0.1.1") },
            "profile": "inventory_legacy"
        },
        "all": { "children": ["ungrouped", "k8s-cluster", "slurm-cluster"] },
        "k8s-cluster": { "children": ["kube-master", "kube-node"] },
        "kube-node": { "hosts": ["gpu01", "gpu02"] },
        "slurm-cluster": { "children": ["slurm-master", "slurm-node"] },
        "slurm-master": { "hosts": ["login01"] },
        "slurm-node": { "hosts": ["gpu01", "gpu02"] }
    });
    let hosts = parse(&answer, "slurm-cluster").expect("hosts");
    let expected = |name: &str, address: &str| HostEntry {
        address: Some(address.into()),
        user: Some("ubuntu".into()),
        ssh_options: vec!["ProxyJump=ubuntu@10.0.0.1".into()],
        ..HostEntry::named(name)
    };
    assert_eq!(
        hosts,
        [
            expected("login01", "10.0.1.1"),
            expected("gpu01", "10.0.2.1"),
            expected("gpu02", "10.0.2.2")
        ]
    );
    assert_eq!(names(&answer, "all"), ["gpu01", "gpu02", "login01"]);
    // groups without hosts are there only as children
    assert!(matches!(
        parse(&answer, "kube-master"),
        Err(InventoryError::Empty { .. })
    ));
    let unknown = parse(&answer, "gpu").expect_err("is not there");
    assert!(
        matches!(&unknown, InventoryError::NoGroup { .. })
            && unknown
                .hint()
                .contains("all, ungrouped, k8s-cluster, slurm-cluster, kube-master"),
        "{}",
        unknown.hint()
    );
}

#[test]
fn variables_of_both_names_become_settings_of_ssh() {
    let hosts = parse(
        &with_vars(&json!({
            "ansible_host": "n1", "ansible_ssh_user": "ada", "ansible_user": "old", "ansible_port": 2222,
            "ansible_ssh_private_key_file": "~/my keys/k", "ansible_connection": "ansible.builtin.ssh", "facts": [1],
            "ansible_ssh_args": "-C -o ControlMaster=auto", "ansible_ssh_extra_args": "-J gate"
        })),
        "all",
    );
    let expected = HostEntry {
        user: Some("ada".into()),
        port: Some(2222),
        identity_file: Some("~/my keys/k".into()),
        ssh_options: vec!["ProxyJump=gate".into()],
        ..HostEntry::named("n1")
    };
    assert_eq!(hosts.expect("a host"), [expected]);
    assert_eq!(
        parse(&with_vars(&json!({ "ansible_port": "22" })), "all").expect("a host")[0].port,
        Some(22)
    );
}

#[test]
fn groups_that_are_part_of_themselves_are_read_without_the_circle() {
    let answer = json!({
        "all": { "children": ["a"] }, "a": { "hosts": ["n1"], "children": ["b", "a"] },
        "b": { "hosts": ["n2"], "children": ["a"] }
    });
    assert_eq!(names(&answer, "a"), ["n1", "n2"]);
}

#[test]
fn what_cvc_cannot_do_with_a_host_is_refused_by_name() {
    let bad = [
        (
            json!({ "ansible_port": 0 }),
            "ansible_port `0` is not a valid port",
        ),
        (json!({ "ansible_port": 70000 }), "is not a valid port"),
        (json!({ "ansible_host": "{{ address }}" }), "is a template"),
        (
            json!({ "ansible_ssh_common_args": "-J {{ gate }}" }),
            "is a template",
        ),
        (
            json!({ "ansible_user": "-oProxyCommand=x" }),
            "usable by ssh",
        ),
        (
            json!({ "ansible_user": { "__ansible_vault": "x" } }),
            "ansible_user is encrypted",
        ),
        (
            json!({ "ansible_private_key_file": " " }),
            "is not a valid path",
        ),
        (
            json!({ "ansible_connection": "local" }),
            "a site of kind `local`",
        ),
        (
            json!({ "ansible_connection": "winrm" }),
            "`winrm` is not ssh",
        ),
        (
            json!({ "ansible_ssh_args": "-L 80:a:80" }),
            "ansible_ssh_args `-L 80:a:80`: ssh's option `-L` cannot be passed on",
        ),
    ];
    for (vars, problem) in bad {
        let error = parse(&with_vars(&vars), "all").expect_err(problem);
        assert!(
            error
                .to_string()
                .starts_with("the inventory hosts: host `n1`: ")
                && error.to_string().contains(problem)
                && !error.hint().is_empty(),
            "{error}"
        );
    }
    for name in ["-oProxyCommand=sh", "root:$6$S3CRET", "{{S3CRET}}"] {
        let error = parse(&json!({ "all": { "hosts": [name] } }), "all").expect_err(name);
        assert!(error.to_string().contains("not usable by ssh"), "{error}");
        assert!(!error.to_string().contains("S3CRET"), "{error}");
    }
    for answer in ["", "[]", "{", "null"] {
        let error = parse_answer(Path::new("hosts"), answer, "all").expect_err(answer);
        assert!(error.to_string().contains("its answer is not"), "{error}");
    }
    let many: Vec<String> = (0..100_001).map(|i| format!("n{i}")).collect();
    let error = parse(&json!({ "all": { "hosts": many } }), "all").expect_err("too many");
    assert!(error.to_string().contains("more than 100000 hosts"));
}

#[test]
fn an_inventory_is_classified_without_starting_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let cases = [
        ("hosts", "n1\n", false, InventoryKind::Text),
        (
            "hosts.yml",
            "all:\n  hosts: {n1: }\n",
            false,
            InventoryKind::Text,
        ),
        (
            "aws.yml",
            "---\nplugin: amazon.aws.aws_ec2\n",
            false,
            InventoryKind::Plugin,
        ),
        ("list.sh", "#!/bin/sh\n", true, InventoryKind::Program),
        ("plain.sh", "#!/bin/sh\n", false, InventoryKind::Text),
        // on shared folders of other systems all files are executable
        ("all.ini", "n1\n", true, InventoryKind::Text),
    ];
    for (name, text, executable, kind) in cases {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("writes");
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let inventory = inventory::inspect(&path, "all").expect("an inventory");
        assert_eq!(inventory.kind, kind, "{name}");
        assert!(!inventory.hint().is_empty() && !inventory.why_unknown().is_empty());
    }
    let directory = inventory::inspect(dir.path(), "all").expect("a directory");
    assert_eq!(directory.kind, InventoryKind::Directory);
    assert!(matches!(
        inventory::inspect(&dir.path().join("none"), "all"),
        Err(InventoryError::Read { .. })
    ));
}

proptest! {
    /// Any answer is read, or refused with a reason.
    #[test]
    fn no_answer_makes_it_panic(text in "(\\{?\"?[a-z_0-9:\\[\\]{}\", ]{0,12}\n){0,8}") {
        let _ = parse_answer(Path::new("hosts"), &text, "all");
    }
}
