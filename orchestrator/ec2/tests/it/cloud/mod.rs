//! Tests of the provider with the real SDK, against moto behind the test kit's proxy: all calls are sent over the network, but none to a real cloud.

mod credentials;
mod facts;
mod faults;
mod launches;
mod removal;

use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region};
use cvc_cloud::provider::{
    Account, Clouds, FleetOrder, Instance, InstanceState, PreparedFleet, Provider, ProviderError,
};
use cvc_core::campaign::{Disk, Ec2Settings, Image, InstanceSpec, Market, OnInterruption, Volume};
use cvc_ec2::Ec2;
use cvc_journal::lease::{LaunchOrder, Tags};
use cvc_testkit::{
    Cloud,
    cloud::{ACCESS_KEY, SECRET_KEY},
};
use std::{fs, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN33SLmG1/nNTBd0EeHsuXoZLGa0th5RMVL6bZUptKxZ cvc";
const OTHER_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0lQKLkZfbUTSa7Yx0bLJ4Cdmm1kSJpOSWYKJ7QyUNx cvc";

/// A simulated cloud and a provider for it.
struct Site {
    runtime: Runtime,
    provider: Arc<dyn Provider>,
    cloud: Cloud,
    profiles: PathBuf,
    _directory: TempDir,
}

impl Site {
    fn new(cloud: Cloud) -> Self {
        Self::with(
            cloud,
            &format!("aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"),
        )
    }

    /// Returns a site whose credentials come from this profile.
    fn with(cloud: Cloud, profile: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let profiles = directory.path().join("config");
        fs::write(&profiles, format!("[profile test]\n{profile}")).expect("a profile");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let account = Account {
            region: Some("us-east-1".into()),
            profile: Some("test".into()),
            endpoint: Some(cloud.endpoint()),
        };
        let provider = runtime
            .block_on(Ec2::with_profiles(&profiles).open(&account))
            .expect("an account");
        Self {
            runtime,
            provider,
            cloud,
            profiles,
            _directory: directory,
        }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    #[track_caller]
    fn prepare(&self, order: &FleetOrder) -> PreparedFleet {
        self.wait(self.provider.prepare(order))
            .unwrap_or_else(|e| panic!("{e}\n{}", self.cloud.troubles()))
    }

    /// Returns the error of a launch that must fail.
    #[track_caller]
    fn refused(&self, order: &LaunchOrder) -> ProviderError {
        self.wait(self.provider.launch(order))
            .expect_err("a refusal")
    }

    #[track_caller]
    fn launch(&self, order: &LaunchOrder) -> Vec<Instance> {
        self.wait(self.provider.launch(order))
            .unwrap_or_else(|e| panic!("{e}\n{}", self.cloud.troubles()))
    }

    /// Returns the instances of a fleet that have not terminated.
    #[track_caller]
    fn alive(&self, fleet: &str) -> Vec<Instance> {
        let all = self.wait(self.provider.observe(fleet)).expect("an answer");
        all.into_iter().filter(|i| i.state.is_alive()).collect()
    }

    /// Waits until `count` instances of a fleet are running, and returns them.
    fn running(&self, fleet: &str, count: usize) -> Vec<Instance> {
        let running = || {
            self.alive(fleet)
                .into_iter()
                .filter(|i| i.state == InstanceState::Running)
                .collect::<Vec<_>>()
        };
        cvc_testkit::wait_until("running instances", Duration::from_secs(60), || {
            running().len() == count
        });
        running()
    }

    /// Returns a client of another user of the same account, who does not use cvc.
    fn stranger(&self) -> aws_sdk_ec2::Client {
        let config = aws_sdk_ec2::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url(self.cloud.endpoint())
            .credentials_provider(Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "test"));
        aws_sdk_ec2::Client::from_conf(config.build())
    }

    /// Removes all resources of a fleet, or of all fleets; returns what is left.
    #[track_caller]
    fn remove_all(&self, fleet: Option<&str>, limit_s: f64) -> Vec<String> {
        let found = self
            .wait(self.provider.discover(None, fleet))
            .all_shown()
            .expect("what there is");
        let left = self
            .wait(
                self.provider
                    .remove(&found, limit_s, &|output| eprintln!("{output}")),
            )
            .expect("an answer");
        left.into_iter()
            .map(|(r, why)| format!("{} {}: {why}", r.kind, r.id))
            .collect()
    }
}

fn tags(fleet: &str) -> Tags {
    Tags {
        owner: "ada@laptop".into(),
        campaign: "c".into(),
        site: "s".into(),
        fleet: fleet.into(),
        lease: None,
        expires: None,
    }
}

fn fleet(name: &str) -> FleetOrder {
    FleetOrder {
        tags: tags(name),
        public_key: KEY.into(),
        allow_from: "203.0.113.7/32".into(),
        subnet: None,
        placement_group: true,
    }
}

/// Returns an order for instances in a fleet that was prepared.
fn order(site: &Site, fleet: &str, number: u32, count: u32, made: &PreparedFleet) -> LaunchOrder {
    let mut tags = tags(fleet);
    tags.lease = Some(format!("{fleet}-{number}").into());
    tags.expires = Some("2030-01-02T03:04:05Z".parse().expect("a time"));
    LaunchOrder {
        tags,
        region: "us-east-1".into(),
        profile: None,
        endpoint: None,
        zone: Some("us-east-1a".into()),
        instance_type: "c5.large".into(),
        vcpus: 2,
        count,
        spot: false,
        max_price_usd: None,
        usd_per_hour: None,
        rate: None,
        image: site.cloud.image("x86_64"),
        root_device: "/dev/xvda".into(),
        key_name: made.key_name.clone(),
        group_id: made.group_id.clone(),
        subnet: None,
        placement_group: made.placement_group.clone(),
        efa: false,
        root: Disk {
            size_gib: Some(20),
            ..Disk::default()
        },
        volumes: vec![Volume {
            mount: "/data".into(),
            kind: "gp3".into(),
            size_gib: 50,
            iops: Some(4000),
            throughput_mib_s: Some(250),
        }],
        config_digest: None,
        encrypted: false,
        credits: None,
        lifetime_s: 3600,
    }
}

fn settings(types: &[&str]) -> Ec2Settings {
    Ec2Settings {
        region: "us-east-1".into(),
        profile: None,
        endpoint: None,
        instances: InstanceSpec {
            instance_types: types.iter().map(|t| (*t).to_owned()).collect(),
            nodes: 2,
            zones: Vec::new(),
            subnet: None,
            image: Image::Known("debian-12".into()),
            market: Market::OnDemand,
            max_price_usd: None,
            placement_group: None,
            efa: false,
            root: Disk::default(),
            volumes: Vec::new(),
            lifetime_s: 3600.0,
            ready_limit_s: 60.0,
            allow_from: None,
            encrypted: false,
            credits: None,
        },
        instance_store: None,
        nfs: None,
        keep_s: None,
        install: true,
        on_interruption: OnInterruption::default(),
    }
}
