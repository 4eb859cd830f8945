//! Targets for Ansible inventories.

use cvc_core::hosts::HostEntry;

use cvc_core::inventory::{self, InventoryError};
use std::{collections::BTreeSet, path::Path};

/// Groups that occur in the seeds.
const GROUPS: [&str; 3] = ["all", "compute", "ungrouped"];

pub(crate) const ANSWER_WORDS: &[&str] = &[
    "\"_meta\":",
    "\"hostvars\":",
    "\"hosts\":",
    "\"children\":",
    "\"all\":",
    "\"compute\":",
    "\"ansible_port\": 70000",
    "\"ansible_user\": \"-oProxyCommand=x\"",
    "\"ansible_ssh_common_args\": \"-J a@b:c -o X=y 'z\"",
    "{{ x }}",
    "null",
    "[[[[",
];

/// Checks the parser of `ansible-inventory --list`.
pub(crate) fn answer(data: &[u8]) {
    each_group(|group| {
        inventory::parse_answer(
            Path::new("inventory"),
            &String::from_utf8_lossy(data),
            group,
        )
    });
}

fn each_group(read: impl Fn(&str) -> Result<Vec<HostEntry>, InventoryError>) {
    let mut all: Option<BTreeSet<String>> = None;
    for group in GROUPS {
        match read(group) {
            Ok(hosts) => {
                hosts.iter().for_each(sound);
                let names: BTreeSet<String> = hosts.iter().map(|host| host.name.clone()).collect();
                assert_eq!(names.len(), hosts.len(), "a host is there twice");
                assert!(!names.is_empty() && names.len() <= 100_000);
                assert!(
                    all.as_ref().is_none_or(|all| names.is_subset(all)),
                    "a host that is not of `all`"
                );
                all.get_or_insert(names);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                // a problem of the whole file affects all its groups
                if group == "all" && !matches!(error, InventoryError::Empty { .. }) {
                    return;
                }
            }
        }
    }
}

/// Checks that arguments for ssh can be neither an option nor shell code.
fn sound(host: &HostEntry) {
    for word in [Some(&host.name), host.address.as_ref(), host.user.as_ref()]
        .into_iter()
        .flatten()
    {
        assert!(!word.is_empty() && !word.starts_with('-'), "{host:?}");
        assert!(
            word.chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c)),
            "{host:?}"
        );
    }
    assert!(host.port != Some(0));
    assert!(
        host.identity_file
            .as_ref()
            .is_none_or(|file| !file.chars().any(char::is_control))
    );
}
