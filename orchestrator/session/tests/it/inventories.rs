//! Inventories of Ansible: who may start their programs, and what is known without asking them.

use crate::bench::{Bench, TWO_POINTS};
use cvc_core::store::CampaignDir;
use cvc_session::campaigns::{load, load_of_site, load_with_kept_hosts, unknown_hosts};
use std::{cell::RefCell, fs, os::unix::fs::PermissionsExt};

/// Two sites whose inventories are programs that leave a mark.
fn with_programs() -> Bench {
    let site = |name: &str| format!("[sites.{name}]\nkind = 'ssh'\ninventory = '{name}.sh'\n");
    let bench = Bench::new(&format!("{}{}", site("a"), site("b")), TWO_POINTS, "");
    for name in ["a", "b"] {
        let mark = bench.path(&format!("{name}.was-asked"));
        let answer = "{\"all\": {\"hosts\": [\"n1\"]}, \"_meta\": {\"hostvars\": {}}}";
        let file = format!("{name}.sh");
        bench.write(&file, &format!("#!/bin/sh\n: >{mark}\necho '{answer}'\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bench.path(&file), mode).expect("sets");
    }
    bench
}

fn were_asked(bench: &Bench) -> [bool; 2] {
    ["a", "b"].map(|name| bench.path(&format!("{name}.was-asked")).exists())
}

#[test]
fn looking_at_a_campaign_starts_no_program() {
    let bench = with_programs();
    let session = bench.look();
    let unknown: Vec<&str> = unknown_hosts(&session.spec).map(|(name, _)| name).collect();
    assert_eq!(unknown, ["a", "b"]);
    assert_eq!(were_asked(&bench), [false, false]);
}

#[test]
fn kept_hosts_are_enough_to_look_at_a_campaign() {
    let bench = with_programs();
    let dir = CampaignDir::new(&bench.campaigns(), "c");
    let spec = load_with_kept_hosts(&bench.file(), None, &dir).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(unknown_hosts(&spec).count(), 2, "none are kept yet");
    assert_eq!(were_asked(&bench), [false, false]);
}

/// With Ansible the program is started; without it the error says so. In both cases no other inventory is asked.
#[test]
fn the_inventory_of_one_site_is_queried_and_reported() {
    let bench = with_programs();
    let messages = RefCell::new(Vec::new());
    let report = |what: &str| messages.borrow_mut().push(what.to_owned());
    let loaded = load_of_site("b", Some(&bench.file()), None, &report);
    let messages = messages.into_inner();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].starts_with("running the inventory program "),
        "{messages:?}"
    );
    assert!(messages[0].contains("b.sh"), "{messages:?}");
    match loaded {
        Ok(spec) => {
            assert_eq!(were_asked(&bench), [false, true]);
            let unknown: Vec<&str> = unknown_hosts(&spec).map(|(name, _)| name).collect();
            assert_eq!(unknown, ["a"]);
            let cluster = spec.sites["b"].cluster.as_ref().expect("a cluster");
            assert_eq!(cluster.hosts[0].name, "n1");
        }
        Err(error) => {
            assert!(error.to_string().contains("ansible"), "{error}");
            assert_eq!(were_asked(&bench), [false, false]);
        }
    }
}

#[test]
fn hosts_of_the_file_itself_are_known() {
    let sites = "[sites.a]\nkind = 'ssh'\nhosts = ['n1', 'n2']\n";
    let bench = Bench::new(sites, TWO_POINTS, "");
    let spec = load(&bench.file(), None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(unknown_hosts(&spec).count(), 0);
}
