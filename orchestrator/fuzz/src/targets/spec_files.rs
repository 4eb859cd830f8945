//! Targets for campaign files and descriptors, which other people may have written.

use super::scratch::with_dir;
use cvc_core::app;
use cvc_core::campaign;
use cvc_core::names::{is_host_or_login, is_mount_point, wrong_variable};
use cvc_core::plan;
use cvc_core::source::SourceErrors;
use std::path::{Path, PathBuf};

pub(crate) const CAMPAIGN_WORDS: &[&str] = &[
    "schema = 1\n",
    "[sites.lab]\n",
    "kind = \"ssh\"\n",
    "kind = \"ec2\"\n",
    "hosts = [\"n1\", \"-oProxyCommand=x\"]\n",
    "inventory = \"/dev/zero\"\n",
    "user = \"x;y\"\n",
    "mount = \"/a/../etc\"",
    "env = { \"X; y\" = \"1\" }\n",
    "[matrix]\n",
    "[matrix.user]\n",
    "[[zip]]\n",
    "[[points]]\n",
    "[[exclude]]\n",
    "[variants.v]\n",
    "variant = \"v\"\n",
    "mapping = [\"1Nx4P\", \"4294967295Nx4294967295P\"]\n",
    "9223372036854775808",
    "nan",
    "[[[[[[",
    "\"",
    "é",
    "\u{feff}",
];

/// Maximum number of points for which a plan is built.
const MAX_POINTS: usize = 5_000;

/// Checks the reader of campaign files.
pub(crate) fn campaign_file(data: &[u8]) {
    let apps = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds/descriptor"));
    let spec = match campaign::load_text(
        Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/seeds/campaign-file/fuzzed.toml"
        )),
        &String::from_utf8_lossy(data),
        &[apps],
    ) {
        Ok(spec) => spec,
        Err(errors) => return told(&errors),
    };
    for site in spec.sites.values() {
        let cluster = site.cluster.iter();
        for host in cluster.flat_map(|c| c.hosts.iter().chain(&c.head)) {
            let names = [
                Some(&host.name),
                host.address.as_ref(),
                host.internal.as_ref(),
                host.user.as_ref(),
            ];
            assert!(
                names
                    .into_iter()
                    .flatten()
                    .all(|name| is_host_or_login(name)),
                "{host:?}"
            );
        }
        assert!(
            site.login.iter().all(|user| is_host_or_login(user)),
            "{site:?}"
        );
        assert!(
            site.mpi
                .values()
                .flat_map(|library| &library.env)
                .all(|(name, value)| wrong_variable(name, value).is_none()),
            "{site:?}"
        );
        if let Some(ec2) = &site.ec2 {
            let mounts = ec2
                .instances
                .volumes
                .iter()
                .map(|v| &v.mount)
                .chain(&ec2.instance_store)
                .chain(&ec2.nfs);
            assert!(
                mounts.into_iter().all(|mount| is_mount_point(mount)),
                "{ec2:?}"
            );
        }
    }
    if spec.combinations() <= MAX_POINTS {
        plan::build(&spec);
    }
}

pub(crate) const DESCRIPTOR_WORDS: &[&str] = &[
    "schema = 1\n",
    "name = \"fuzzed\"\n",
    "[program]\n",
    "[command]\n",
    "[[figures]]\n",
    "[workloads.S]\n",
    "env = { \"X; y\" = \"1\" }\n",
    "{{#if own_checkpoint}}",
    "{{#unless w.on}}",
    "{{else}}",
    "{{else if w.n}}",
    "{{^}}",
    "{{/if}}",
    "{{#each w}}",
    "{{> x}}",
    "{{#*inline \"x\"}}",
    "{{/inline}}",
    "{{{{raw}}}}",
    "{{!-- --}}",
    "{{len (len (len w))}}",
    "{{user.x}}",
    "'((a*)*)*b'",
    "(x{1000}){1000}",
    "\\{{",
];

/// Checks the reader of application descriptors.
pub(crate) fn descriptor(data: &[u8]) {
    with_dir(|dir| {
        let path = dir.join("fuzzed.toml");
        std::fs::write(&path, data).expect("writes");
        match app::load::load(path.as_std_path()) {
            Ok(app) => {
                let descriptor = &app.descriptor;
                assert!(
                    descriptor.name == "fuzzed" && !descriptor.workloads.is_empty(),
                    "{descriptor:?}"
                );
                assert!(
                    descriptor
                        .command
                        .env
                        .iter()
                        .all(|(name, value)| wrong_variable(name, value).is_none()),
                    "{descriptor:?}"
                );
                // with a campaign that has other factors of its own, the only possible error is about these factors
                for (_, message) in app::load::template_errors(descriptor, Some(&["x"])) {
                    assert!(message.contains("fails for the workload"), "{message}");
                }
            }
            Err(errors) => told(&errors),
        }
    });
}

/// Checks that every error has a message of one line and a hint.
fn told(errors: &SourceErrors) {
    assert!(!errors.0.is_empty());
    for error in &errors.0 {
        assert!(
            error.message.lines().count() == 1 && error.hint.is_some(),
            "{error:?}"
        );
    }
}
