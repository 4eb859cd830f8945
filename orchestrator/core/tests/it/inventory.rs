//! Inventories: what Ansible itself makes of them is what cvc makes of them.

use cvc_core::hosts::HostEntry;

use cvc_core::inventory::{self, Inventory, InventoryError};
use cvc_testkit::{Tool, require};
use proptest::{prelude::*, sample::Index, strategy::ValueTree};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// What ansible-inventory says of a file: for each group its hosts, for each host its variables.
fn ansible(file: &Path) -> Result<(BTreeMap<String, BTreeSet<String>>, Value), String> {
    let program = Tool::Ansible
        .find()
        .expect("found before")
        .with_file_name("ansible-inventory");
    let mut command = Command::new(program);
    command
        .arg("-i")
        .arg(file)
        .arg("--list")
        .env("ANSIBLE_INVENTORY_ENABLED", "ini,yaml")
        .env("ANSIBLE_INVENTORY_UNPARSED_FAILED", "true");
    let finished = command
        .env("LC_ALL", "C.UTF-8")
        .env_remove("ANSIBLE_CONFIG")
        .output()
        .expect("starts");
    if !finished.status.success() {
        return Err(String::from_utf8_lossy(&finished.stderr).into_owned());
    }
    let value: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    fn hosts(value: &Value, group: &str) -> BTreeSet<String> {
        let of = |key: &str| {
            value[group][key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        of("hosts")
            .into_iter()
            .chain(of("children").iter().flat_map(|c| hosts(value, c)))
            .collect()
    }
    let names = value
        .as_object()
        .expect("an object")
        .keys()
        .filter(|k| *k != "_meta");
    Ok((
        names.map(|n| (n.clone(), hosts(&value, n))).collect(),
        value["_meta"]["hostvars"].clone(),
    ))
}

/// The hosts, whatever has to be started for them.
fn read(path: &Path, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    match inventory::read(path, group)? {
        Inventory::Hosts(hosts) => Ok(hosts),
        Inventory::Program(program) => program.ask(),
    }
}

/// A host as Ansible's variables have it.
fn entry(name: &str, vars: &Value) -> HostEntry {
    let of = |keys: [&str; 2]| {
        keys.iter().rev().find_map(|k| match &vars[name][*k] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        })
    };
    HostEntry {
        address: of(["ansible_host", "ansible_ssh_host"]).filter(|a| a != name),
        user: of(["ansible_user", "ansible_ssh_user"]),
        port: of(["ansible_port", "ansible_ssh_port"]).map(|p| p.parse().expect("a port")),
        identity_file: of(["ansible_private_key_file", "ansible_ssh_private_key_file"]),
        ..HostEntry::named(name)
    }
}

#[track_caller]
fn same(file: &Path) {
    let text = fs::read_to_string(file).expect("a file");
    let (groups, vars) =
        ansible(file).unwrap_or_else(|e| panic!("ansible-inventory refuses it: {e}\n{text}"));
    for (group, hosts) in groups.iter().filter(|(_, hosts)| !hosts.is_empty()) {
        let read = read(file, group).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let found: BTreeMap<&str, &HostEntry> = read.iter().map(|h| (h.name.as_str(), h)).collect();
        assert_eq!(found.len(), read.len(), "twice\n{text}");
        assert_eq!(
            found
                .keys()
                .map(|n| (*n).to_owned())
                .collect::<BTreeSet<_>>(),
            *hosts,
            "group {group}\n{text}"
        );
        for (name, found) in found {
            assert_eq!(*found, entry(name, &vars), "group {group}\n{text}");
        }
    }
}

/// A group: its hosts (pattern and variables), variables, and groups below it.
#[derive(Clone, Debug)]
struct Group {
    hosts: Vec<(String, Vec<(String, String)>)>,
    vars: Vec<(String, String)>,
    children: Vec<Index>,
}

type Vars = Vec<(String, String)>;

fn vars() -> impl Strategy<Value = Vars> {
    let of = |keys: &'static [&'static str], value: &'static str| {
        (
            proptest::sample::select(keys).prop_map(str::to_owned),
            value,
        )
    };
    let one = prop_oneof![
        of(&["ansible_user", "ansible_ssh_user"], "[a-z][a-z0-9]{0,4}"),
        of(&["ansible_port", "ansible_ssh_port"], "[1-9][0-9]{0,3}"),
        of(&["ansible_host", "ansible_ssh_host"], "10\\.0\\.0\\.[1-9]"),
        of(
            &["ansible_private_key_file", "ansible_ssh_private_key_file"],
            "(~/|/k/)[a-z]{1,4}( [a-z])?"
        ),
        of(&["rack", "note"], "[a-z0-9]{1,3}( [a-z]{1,3})?"),
    ];
    proptest::collection::vec(one, 0..4).prop_map(|pairs| {
        pairs
            .into_iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect()
    })
}

fn group() -> impl Strategy<Value = Group> {
    let pattern = prop_oneof![
        "n[1-6]",
        "n\\[[1-2]:[3-4]\\]",
        "m\\[0[1-2]:0[3-5]\\]",
        "r\\[a:[b-c]\\]-\\[1:3:2\\]",
        "n[1-6]:22[0-9]{2}",
        "x\\.y-[0-9]"
    ];
    let hosts = proptest::collection::vec((pattern, vars()), 0..4);
    (
        hosts,
        vars(),
        proptest::collection::vec(any::<Index>(), 0..2),
    )
        .prop_map(|(hosts, vars, children)| Group {
            hosts,
            vars,
            children,
        })
}

/// Groups whose children come after them, so that none is part of itself.
fn children(groups: &[Group], i: usize) -> BTreeSet<usize> {
    let after = groups.len() - i - 1;
    groups[i]
        .children
        .iter()
        .filter(|_| after > 0)
        .map(|c| i + 1 + c.index(after))
        .collect()
}

fn ini(groups: &[Group], style: u8) -> String {
    let quote = |value: &str| match style % 3 {
        0 => format!("\"{value}\""),
        1 => format!("'{value}'"),
        _ => value.replace(' ', "\\ "),
    };
    let mut out = String::from("; an inventory\n\nalone ansible_user=me # a comment\n");
    for (i, group) in groups.iter().enumerate() {
        out += &format!("[g{i}]{}\n", if i % 2 == 0 { "" } else { "  # a comment" });
        for (pattern, vars) in &group.hosts {
            let vars: String = vars
                .iter()
                .map(|(k, v)| format!("  {k}={}", quote(v)))
                .collect();
            out += &format!("{pattern}{vars}\n");
        }
        if !group.vars.is_empty() {
            out += &format!("[g{i}:vars]\n");
            out.extend(group.vars.iter().map(|(k, v)| {
                if style.is_multiple_of(2) {
                    format!("{k} = {v}\n")
                } else {
                    format!("{k}=\"{v}\"\n")
                }
            }));
        }
        let children = children(groups, i);
        if !children.is_empty() {
            out += &format!("[g{i}:children]\n");
            out.extend(children.iter().map(|c| format!("  g{c}\n")));
        }
    }
    out + "[all:vars]\nansible_user=everybody\n"
}

fn yaml(groups: &[Group]) -> String {
    let table = |vars: &Vars, indent: &str| -> String {
        vars.iter()
            .map(|(k, v)| {
                format!(
                    "{indent}{k}: {}\n",
                    if v.parse::<u16>().is_ok() {
                        v.clone()
                    } else {
                        format!("'{v}'")
                    }
                )
            })
            .collect()
    };
    let mut out = String::from(
        "---\nall:\n  hosts:\n    alone:\n      ansible_user: me\n  vars: {ansible_user: everybody}\n",
    );
    for (i, group) in groups.iter().enumerate() {
        out += &format!("g{i}:\n");
        // a key twice is not YAML
        let hosts: BTreeMap<&String, &Vars> = group.hosts.iter().map(|(p, v)| (p, v)).collect();
        out += if hosts.is_empty() { "" } else { "  hosts:\n" };
        out.extend(
            hosts
                .iter()
                .map(|(pattern, vars)| format!("    '{pattern}':\n{}", table(vars, "      "))),
        );
        out += if group.vars.is_empty() {
            ""
        } else {
            "  vars:\n"
        };
        out += &table(&group.vars, "    ");
        let children = children(groups, i);
        out += if children.is_empty() {
            ""
        } else {
            "  children:\n"
        };
        out.extend(children.iter().map(|c| format!("    g{c}:\n")));
    }
    out
}

#[test]
fn groups_ranges_and_variables_are_those_of_ansible() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let groups = proptest::collection::vec(group(), 1..5);
    for case in 0..16u8 {
        let groups = groups.new_tree(&mut runner).expect("groups").current();
        let file = dir
            .path()
            .join(if case % 3 == 2 { "hosts.yml" } else { "hosts" });
        fs::write(
            &file,
            if case % 3 == 2 {
                yaml(&groups)
            } else {
                ini(&groups, case)
            },
        )
        .expect("writes");
        same(&file);
    }
}

#[test]
fn what_people_write_is_read_as_ansible_reads_it() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let cases = [
        (
            "ini",
            "[web]\nn1 ansible_host=10.0.0.1 ansible_user='ada' ansible_port=2222\nn2\tansible_ssh_private_key_file=\"~/my keys/k\"#x\n",
        ),
        (
            "ini",
            "[a]\nn1\n[b]\nn1\n[b:vars]\nansible_user=b\nnote=x # no comment for Ansible\n[a:vars]\nansible_port=22 # a comment, since it is Python\n",
        ),
        (
            "ini",
            "[z]\nn1\n[a]\nn1\n[z:vars]\nansible_user=z\nansible_group_priority=10\n[a:vars]\nansible_user=a\n",
        ),
        (
            "ini",
            "n1:2201 ansible_user=x\n[top:children]\nmid\n[mid:children]\nlow\n[low]\nn[08:10]\n[top:vars]\nansible_user=top\n[low:vars]\nansible_user=low\n",
        ),
        (
            "yml",
            "all:\n  children:\n    web:\n      hosts:\n        n[1:3]: {ansible_port: 2222}\n        n2:\n          ansible_host: 10.0.0.2\n    db: &db\n      hosts: {n9: }\n",
        ),
        (
            "json",
            "{\"all\": {\"hosts\": {\"n1\": {\"ansible_port\": 2222, \"facts\": [1]}}, \"vars\": {\"ansible_user\": \"me\"}}}",
        ),
    ];
    for (ending, text) in cases {
        let file = dir.path().join(format!("hosts.{ending}"));
        fs::write(&file, text).expect("writes");
        same(&file);
    }
}

#[test]
fn what_only_ansible_reads_is_asked_of_it() {
    require!(Tool::Ansible);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("hosts");
    fs::write(&file, "[web]\nn1\nn2\n").expect("writes");
    fs::create_dir_all(dir.path().join("group_vars")).expect("a directory");
    fs::write(
        dir.path().join("group_vars/web.yml"),
        "ansible_user: of-the-group\n",
    )
    .expect("writes");
    let found = read(&file, "web").expect("reads");
    assert_eq!(
        found
            .iter()
            .map(|h| (h.name.as_str(), h.user.as_deref()))
            .collect::<Vec<_>>(),
        [("n1", Some("of-the-group")), ("n2", Some("of-the-group"))]
    );
    let program = dir.path().join("hosts.sh");
    fs::write(&program, "#!/bin/sh\necho '{\"web\": {\"hosts\": [\"p1\"]}, \"_meta\": {\"hostvars\": {\"p1\": {\"ansible_port\": 7}}}}'\n")
        .expect("writes");
    let mut permissions = fs::metadata(&program).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&program, permissions).expect("a program");
    let found = read(&program, "all").expect("reads");
    assert_eq!(
        found
            .iter()
            .map(|h| (h.name.as_str(), h.port))
            .collect::<Vec<_>>(),
        [("p1", Some(7))]
    );
    fs::write(&program, "#!/bin/sh\necho broken >&2; exit 3\n").expect("writes");
    let failed = read(&program, "all").expect_err("fails");
    assert!(
        matches!(&failed, InventoryError::Ansible { message, .. } if message.contains("hosts.sh")),
        "{failed}"
    );
}

#[test]
fn errors_say_the_line_and_ansible_refuses_it_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let bad = [
        ("hosts", "n1\n[a]\nn[1:\n", 3, "without its `]`"),
        ("hosts", "[a]\nn1 port\n", 2, "word 2 is not a variable"),
        ("hosts", "[a]\nn1 x='y\n", 2, "quote is not closed"),
        ("hosts", "[a:children]\nb\n", 2, "the file has no [b]"),
        ("hosts", "n1\n[b:vars]\nx=1\n", 2, "the file has no [b]"),
        ("hosts", "[a:kids]\n", 1, "unknown kind of section"),
        ("hosts", "[a b]\nn1\n", 1, "without spaces"),
        (
            "hosts",
            "[a:children]\nb\n[b:children]\na\n",
            4,
            "part of itself",
        ),
        ("hosts.yml", "all:\n  hosts: [n1]\n", 2, "not a mapping"),
        (
            "hosts.yml",
            "all:\n  hosts:\n    n1: {\n",
            4,
            "cannot parse YAML",
        ),
    ];
    let its_own = [
        ("hosts", "n1 ansible_port=0\n", 1, "is not a valid port"),
        (
            "hosts",
            "n1\nn2 ansible_host=\"{{ address }}\"\n",
            2,
            "is a template",
        ),
        ("hosts", "-oProxyCommand=sh\n", 1, "ssh cannot take"),
        (
            "hosts.yml",
            "all:\n  host:\n    n1:\n",
            2,
            "expected `hosts`",
        ),
    ];
    for (i, (name, text, line, words)) in bad.iter().chain(&its_own).enumerate() {
        let file = dir.path().join(name);
        fs::write(&file, text).expect("writes");
        let error = read(&file, "all").expect_err(text);
        assert!(
            matches!(&error, InventoryError::Line { line: at, .. } if at == line),
            "{text}: {error}"
        );
        assert!(
            error.to_string().contains(words) && !error.hint().is_empty(),
            "{text}: {error}"
        );
        if Tool::Ansible.find().is_some() && i < bad.len() {
            assert!(ansible(&file).is_err(), "Ansible takes it:\n{text}");
        }
    }
    let file = dir.path().join("hosts");
    fs::write(&file, "[a]\nn1\n[b]\n").expect("writes");
    assert!(
        read(&file, "b")
            .expect_err("is empty")
            .to_string()
            .contains("no host in the group `b`")
    );
    let unknown = read(&file, "c").expect_err("is not there");
    assert!(unknown.hint().contains("all, a, b"), "{}", unknown.hint());
    assert!(matches!(
        read(&dir.path().join("none"), "all"),
        Err(InventoryError::Read { .. })
    ));
}

/// A campaign file of somebody else names any file, and messages get around.
#[test]
fn errors_show_nothing_of_a_file_that_is_no_inventory() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("secret");
    for text in [
        "root:$6$S3CRET$x.y/z:19000:0:99999:7:::\n",
        "machine S3CRET login me\n",
        "-----BEGIN S3CRET KEY-----\n",
        "[S3CRET key]\n",
        "{\"tokens\": [\"S3CRET\"]}\n",
        "[\"S3CRET:1\"]\nx",
        "x[S3CRET\n",
        "[x:vars]\nS3CRET\n",
        "[x:children]\nS3CRET two\n",
        "{{S3CRET}}\n",
        "'S3CRET\n",
    ] {
        fs::write(&file, text).expect("writes");
        let error = inventory::read(&file, "all").expect_err(text);
        let all = format!("{error} {} {error:?}", error.hint());
        assert!(
            !all.contains("S3CRET") && !all.contains("login"),
            "{text}: {all}"
        );
    }
}

proptest! {
    /// Whatever it is given, it reads it or says why not.
    #[test]
    fn no_text_makes_it_panic(text in "(\\[?[a-z0-9:=\"'\\\\#\\]\\[{}, -]{0,12}\n){0,8}", yaml in any::<bool>()) {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(if yaml { "hosts.yml" } else { "hosts" });
        fs::write(&file, text).expect("writes");
        let _ = read(&file, "all");
    }
}
