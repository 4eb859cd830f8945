//! Checks the file systems that a site deploys.

use super::{
    checker::{Checker, SpanLookup},
    cluster::Cluster,
    deployment::{DeployedFileSystem, Deployment},
    model::{SiteKind, StorageArea, StorageKind},
};
use crate::source::Step;
use indexmap::IndexMap;
use std::collections::BTreeSet;

/// Maximum number of copies of each file.
const MAX_COPIES: u32 = 9;
/// Minimum stripe size of GlusterFS, bytes.
const MIN_STRIPE: u64 = 4 << 20;

/// Checks the file systems that a site deploys; `place` returns positions below the site's table.
pub fn check(
    check: &mut Checker<'_>,
    kind: Option<SiteKind>,
    cluster: Option<&Cluster>,
    storage: &IndexMap<String, StorageArea>,
    place: &SpanLookup<'_>,
) {
    let mut seen: Vec<(DeployedFileSystem, &str)> = Vec::new();
    for (name, area) in storage {
        let Some(deployment) = &area.deploy else {
            continue;
        };
        let at = |rest: &[Step<'_>]| {
            let mut way: Vec<Step<'_>> = vec!["storage".into(), name.as_str().into()];
            way.extend(rest);
            place(&way)
        };
        if kind.is_some_and(|kind| kind != SiteKind::Ssh) {
            check.fail(
                at(&["deploy".into()]),
                "`deploy` names hosts, which only sites of kind `ssh` have",
                "remove it, and give the `path` of a file system that is mounted already",
            );
            continue;
        }
        if let Some((_, other)) = seen.iter().find(|(of, _)| *of == deployment.file_system) {
            check.fail(
                at(&["deploy".into(), "file_system".into()]),
                format!(
                    "the storage area `{other}` deploys {} already",
                    deployment.file_system.title()
                ),
                "a site has one of each: use two directories of it as two storage areas",
            );
        }
        seen.push((deployment.file_system, name));
        area_keys(check, area, &at);
        let at = |rest: &[Step<'_>]| at(&[&["deploy".into()], rest].concat());
        servers(check, deployment, cluster, &at);
        layout(check, deployment, &at);
    }
}

/// Checks that the file system has a mount point, and is shared by all nodes.
fn area_keys(check: &mut Checker<'_>, area: &StorageArea, at: &SpanLookup<'_>) {
    if !area.path.as_ref().is_some_and(|path| path.starts_with('/')) {
        check.fail(
            at(&["path".into()]),
            "`deploy` needs an absolute `path`, where the file system is mounted on all nodes",
            "write it, as in path = \"/mnt/checkpoints\"",
        );
    }
    if area.kind != StorageKind::Shared {
        check.fail(
            at(&["kind".into()]),
            "all nodes see the same files in a file system that is deployed",
            "write kind = \"shared\"",
        );
    }
    let directory = area.deploy.as_ref().map(|of| of.directory.as_str());
    if directory.is_some_and(|path| !path.starts_with('/') || path.contains(char::is_control)) {
        check.fail(
            at(&["deploy".into(), "directory".into()]),
            format!("`directory` is {:?}", directory.unwrap_or_default()),
            "write an absolute path on the servers, as in \"/scratch-local/cvc\"",
        );
    }
}

fn servers(
    check: &mut Checker<'_>,
    deployment: &Deployment,
    cluster: Option<&Cluster>,
    at: &SpanLookup<'_>,
) {
    let title = deployment.file_system.title();
    match (deployment.file_system, deployment.metadata.len()) {
        (DeployedFileSystem::MooseFs, 1) | (DeployedFileSystem::GlusterFs, 0) => {}
        (DeployedFileSystem::MooseFs, _) => check.fail(
            at(&["metadata".into()]),
            format!("{title} has one metadata server"),
            "name its host, as in metadata = [\"n1\"]",
        ),
        (DeployedFileSystem::GlusterFs, _) => check.fail(
            at(&["metadata".into()]),
            format!("{title} has no metadata servers"),
            "remove `metadata`: the hosts of `data` store both",
        ),
    }
    if deployment.data.is_empty() {
        check.fail(
            at(&["data".into()]),
            "`data` names no host",
            "name the hosts that store the data, as in data = [\"n2\", \"n3\"]",
        );
    }
    let known: Option<BTreeSet<&str>> = cluster
        .filter(|cluster| cluster.unknown_hosts().is_none())
        .map(|cluster| {
            let all = cluster.hosts.iter().chain(&cluster.head);
            all.map(|host| host.name.as_str()).collect()
        });
    for (key, hosts) in [
        ("metadata", &deployment.metadata),
        ("data", &deployment.data),
    ] {
        for (i, host) in hosts.iter().enumerate() {
            let here = || at(&[key.into(), i.into()]);
            if known
                .as_ref()
                .is_some_and(|all| !all.contains(host.as_str()))
            {
                check.fail(
                    here(),
                    format!("`{host}` is no host of the site"),
                    "write a name from `hosts`, or the `head`",
                );
            } else if hosts[..i].contains(host) {
                check.fail(here(), format!("`{host}` is given twice"), "remove one");
            }
        }
    }
}

/// Checks the number of copies and the stripe size.
fn layout(check: &mut Checker<'_>, deployment: &Deployment, at: &SpanLookup<'_>) {
    let (copies, hosts) = (deployment.copies, deployment.data.len());
    let title = deployment.file_system.title();
    let copied = || at(&["copies".into()]);
    if !(1..=MAX_COPIES).contains(&copies) {
        check.fail(
            copied(),
            format!("`copies` is {copies}"),
            format!("write a whole number from 1 to {MAX_COPIES}"),
        );
    } else if copies as usize > hosts {
        check.fail(
            copied(),
            format!("{copies} copies need {copies} hosts, and `data` names {hosts}"),
            "name more hosts, or write fewer copies",
        );
    } else if deployment.file_system == DeployedFileSystem::GlusterFs
        && !hosts.is_multiple_of(copies as usize)
    {
        check.fail(
            copied(),
            format!("{title} groups hosts by copies, and {hosts} is not a multiple of {copies}"),
            "name more or fewer hosts in `data`",
        );
    }
    let Some(stripe) = deployment.stripe else {
        return;
    };
    let here = || at(&["stripe".into()]);
    if deployment.file_system == DeployedFileSystem::MooseFs {
        check.fail(
            here(),
            format!("{title} has no stripes to set: it divides files into chunks of 64MiB"),
            "remove `stripe`",
        );
    } else if stripe.0 < MIN_STRIPE || !stripe.0.is_multiple_of(512) {
        check.fail(
            here(),
            format!("a stripe of {stripe}"),
            "write a multiple of 512 from 4MiB, as in \"64MiB\"",
        );
    }
}
