//! Tests of inventories with the real `ansible-inventory`.

use cvc_core::hosts::HostEntry;
use cvc_core::inventory::{InventoryError, inspect};
use cvc_sites::inventory::ask;
use cvc_testkit::{Tool, require};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn read(path: &Path, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    ask(&inspect(path, group)?)
}

/// Returns the hosts of an inventory text, as `NAME USER PORT ADDRESS OPTIONS`.
#[track_caller]
fn lines(dir: &Path, name: &str, text: &str, group: &str) -> Vec<String> {
    let path = dir.join(name);
    fs::write(&path, text).expect("writes");
    let hosts = read(&path, group).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let hosts = hosts.into_iter().map(|host| {
        format!(
            "{} {} {} {} {}",
            host.name,
            shown(host.user),
            shown(host.port.map(|p| p.to_string())),
            shown(host.address),
            host.ssh_options.join(" ")
        )
        .trim_end()
        .to_owned()
    });
    hosts.collect()
}

#[test]
fn texts_of_all_forms_give_the_hosts_of_a_group() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let ini = "[web]\nn1 ansible_host=10.0.0.1 ansible_user='ada' ansible_port=2222\nn[08:10]\n\
               [top:children]\nweb\n[web:vars]\nansible_user=b\n\
               [top:vars]\nansible_ssh_common_args='-o ProxyCommand=\"ssh -W %h:%p -q ubuntu@10.0.0.1\"'\n";
    let expected = [
        "n1 ada 2222 10.0.0.1 ProxyJump=ubuntu@10.0.0.1",
        "n08 b - - ProxyJump=ubuntu@10.0.0.1",
        "n09 b - - ProxyJump=ubuntu@10.0.0.1",
        "n10 b - - ProxyJump=ubuntu@10.0.0.1",
    ];
    assert_eq!(lines(dir, "hosts", ini, "top"), expected);
    assert_eq!(lines(dir, "hosts.ini", ini, "web"), expected);
    let yaml = "all:\n  vars:\n    ansible_ssh_private_key_file: keys/cluster\n  children:\n    compute:\n      hosts:\n        \
                compute[01:02]:\n          ansible_user: root\n          ansible_ssh_common_args: '-o ProxyJump=root@203.0.113.5'\n        \
                compute03:\n          ansible_host: 10.2.0.13\n";
    let expected = [
        "compute01 root - - ProxyJump=root@203.0.113.5",
        "compute02 root - - ProxyJump=root@203.0.113.5",
        "compute03 - - 10.2.0.13",
    ];
    assert_eq!(lines(dir, "hosts.yml", yaml, "compute"), expected);
    assert_eq!(lines(dir, "hosts-of-yaml", yaml, "all"), expected);
    let json = "{\"all\": {\"hosts\": {\"n1\": {\"ansible_port\": 2222}}, \"vars\": {\"ansible_user\": \"me\"}}}";
    assert_eq!(lines(dir, "hosts.json", json, "all"), ["n1 me 2222 -"]);
    let toml = "[web.hosts]\nn1 = { ansible_user = \"me\" }\n";
    assert_eq!(lines(dir, "hosts.toml", toml, "web"), ["n1 me - -"]);
    fs::create_dir_all(dir.join("group_vars")).expect("a directory");
    fs::write(
        dir.join("group_vars/web.yml"),
        "ansible_user: of-the-group\n",
    )
    .expect("writes");
    assert_eq!(
        lines(dir, "hosts", "[web]\nn1\n", "web"),
        ["n1 of-the-group - -"]
    );
}

#[test]
fn a_program_is_started_only_when_it_is_one() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("hosts.sh");
    let started = dir.path().join("started");
    let answer = "{\"web\": {\"hosts\": [\"p1\"]}, \"_meta\": {\"hostvars\": {\"p1\": {\"ansible_port\": 7}}}}";
    let text = format!("#!/bin/sh\ntouch {}\necho '{answer}'\n", started.display());
    fs::write(&program, &text).expect("writes");
    // a text file without permission to be executed
    read(&program, "all").expect_err("is no inventory");
    assert!(!started.exists());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let found = read(&program, "all").expect("reads");
    assert_eq!(
        found,
        [HostEntry {
            port: Some(7),
            ..HostEntry::named("p1")
        }]
    );
    assert!(started.exists());
    fs::write(&program, "#!/bin/sh\necho broken >&2; exit 3\n").expect("writes");
    let failed = read(&program, "all").expect_err("fails");
    assert!(
        matches!(&failed, InventoryError::Ansible { message, .. } if message.contains("hosts.sh")),
        "{failed}"
    );
}

/// A plugin or configuration file next to a text inventory is not used.
#[test]
fn a_text_starts_nothing_that_lies_next_to_it() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let started = dir.path().join("started");
    let plugin = format!("open({:?}, 'w')\n", started.display().to_string());
    for folder in ["inventory_plugins", "vars_plugins", "plugins/inventory"] {
        fs::create_dir_all(dir.path().join(folder)).expect("a directory");
        fs::write(dir.path().join(folder).join("evil.py"), &plugin).expect("writes");
    }
    let configuration = "[defaults]\ninventory_plugins = ./inventory_plugins\nvars_plugins = ./vars_plugins\n[inventory]\nenable_plugins = evil, ini\n";
    fs::write(dir.path().join("ansible.cfg"), configuration).expect("writes");
    assert_eq!(lines(dir.path(), "hosts", "n1\n", "all"), ["n1 - - -"]);
    // settings of a plugin, in a file whose name does not show that
    fs::write(dir.path().join("hosts.json"), "plugin: evil\n").expect("writes");
    read(&dir.path().join("hosts.json"), "all").expect_err("is no text with hosts");
    assert!(!started.exists());
}

#[test]
fn what_ansible_refuses_is_refused_and_nothing_of_a_foreign_file_is_shown() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let bad = [
        ("hosts", "n1\n[a]\nn[1:\n"),
        ("hosts", "[a:children]\nb\n"),
        ("hosts", "[a:children]\nb\n[b:children]\na\n"),
        ("hosts.yml", "all:\n  hosts: [n1]\n"),
        ("hosts.toml", "all = [\n"),
        ("secret", "root:$6$S3CRET$x.y/z:19000:0:99999:7:::\n"),
        ("secret", "machine S3CRET login me\n"),
        ("secret", "-----BEGIN S3CRET KEY-----\n"),
        ("secret", "{\"tokens\": [\"S3CRET\"]}\n"),
        ("secret", "[x:vars]\nS3CRET\n"),
        ("secret", "'S3CRET\n"),
    ];
    for (name, text) in bad {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("writes");
        let error = read(&path, "all").expect_err(text);
        let all = format!("{error} {} {error}", error.hint());
        assert!(
            !all.contains("S3CRET") && !all.contains("login"),
            "{text}: {all}"
        );
        assert!(
            all.contains("hosts") || all.contains("secret"),
            "{text}: {all}"
        );
    }
    let empty = dir.path().join("hosts");
    fs::write(&empty, "[a]\nn1\n[b]\n").expect("writes");
    assert!(matches!(
        read(&empty, "b"),
        Err(InventoryError::Empty { .. })
    ));
    assert!(matches!(
        read(&empty, "c"),
        Err(InventoryError::NoGroup { .. })
    ));
}
