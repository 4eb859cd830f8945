//! The state that all parts of the cloud share.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    call::ApiCall,
    fault::{CloudClock, Fault},
    machine::Machine,
    moto::{self, find},
    price_table::PriceTable,
    resources::{PlacementGroup, SpotRequest},
    xml,
};
use crate::lab::GuestPool;

/// The properties of a cloud.
#[derive(Clone, Debug)]
pub(super) struct CloudSettings {
    /// The region whose instances are nodes of the lab.
    pub(super) region: String,
    pub(super) prices: PriceTable,
    /// Maximum number of vCPUs, on demand and spot.
    pub(super) quotas: [f64; 2],
    /// Time for which an instance without a node is pending.
    pub(super) boot: Duration,
    /// Minimum time for which an instance is shutting down.
    pub(super) stopping: Duration,
    /// Time for which status checks are initializing.
    pub(super) checks: Duration,
}

/// The cloud itself.
#[derive(Debug)]
pub(super) struct World {
    pub(super) moto: moto::Client,
    pub(super) settings: CloudSettings,
    pub(super) guest_pool: Option<GuestPool>,
    pub(super) runtime: Handle,
    state: Mutex<CloudState>,
    /// Locked while instances are launched, so that only one of two simultaneous requests uses a client token.
    pub(super) launching: Mutex<()>,
    ended: Mutex<bool>,
    /// Notified when the cloud has ended.
    ending: Condvar,
}

/// The mutable state.
#[derive(Debug, Default)]
pub(super) struct CloudState {
    pub(super) calls: Vec<ApiCall>,
    pub(super) faults: Vec<Fault>,
    pub(super) clock: CloudClock,
    pub(super) expired: bool,
    /// Instances, in the order of their launches.
    pub(super) machines: Vec<Machine>,
    /// Earlier launches, by region and client token.
    pub(super) tokens: HashMap<(String, String), KnownLaunch>,
    pub(super) groups: Vec<PlacementGroup>,
    pub(super) requests: Vec<SpotRequest>,
    pub(super) never_reachable: usize,
    pub(super) impaired: usize,
    pub(super) held_groups: usize,
    /// Relative rise of spot prices since the start; 0 for none.
    pub(super) spot_rise: f64,
    /// Regions that received any request.
    pub(super) regions: BTreeSet<String>,
    /// vCPUs by instance type, cached from moto.
    vcpus: BTreeMap<String, u32>,
    /// Errors of the cloud itself.
    pub(super) errors: Vec<String>,
}

/// A launch identified by a client token.
#[derive(Clone, Debug)]
pub(super) struct KnownLaunch {
    pub(super) asked: String,
    pub(super) instances: Vec<String>,
    pub(super) answer: Vec<u8>,
}

impl CloudState {
    pub(super) fn machine(&self, id: &str) -> Option<&Machine> {
        self.machines.iter().find(|m| m.id == id)
    }

    pub(super) fn machine_mut(&mut self, id: &str) -> Option<&mut Machine> {
        self.machines.iter_mut().find(|m| m.id == id)
    }
}

impl World {
    pub(super) fn new(
        moto: moto::Client,
        settings: CloudSettings,
        guest_pool: Option<GuestPool>,
        runtime: Handle,
    ) -> Self {
        let state = CloudState {
            regions: [settings.region.clone()].into(),
            ..CloudState::default()
        };
        Self {
            moto,
            settings,
            guest_pool,
            runtime,
            state: Mutex::new(state),
            launching: Mutex::default(),
            ended: Mutex::default(),
            ending: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, CloudState> {
        self.state.lock()
    }

    /// Ends all waiting threads.
    pub(super) fn end(&self) {
        *self.ended.lock() = true;
        self.ending.notify_all();
    }

    /// Sleeps for this time, or until the cloud ends.
    pub(super) fn sleep(&self, time: Duration) {
        let mut ended = self.ended.lock();
        self.ending
            .wait_while_for(&mut ended, |ended| !*ended, time);
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.lock()
    }

    /// Records an error of the simulated cloud itself, which the test should show.
    pub(super) fn record_error(&self, what: String) {
        if !self.has_ended() {
            self.lock().errors.push(what);
        }
    }

    /// Returns the number of vCPUs of an instance type; `None` if it is unknown.
    pub(super) fn vcpus(&self, region: &str, kind: &str) -> Option<u32> {
        if let Some(known) = self.lock().vcpus.get(kind) {
            return Some(*known);
        }
        let answer = self
            .moto
            .ask(region, "DescribeInstanceTypes", &[("InstanceType.1", kind)])
            .ok()?;
        let vcpus = find(&answer, "defaultVCpus")?.parse().ok()?;
        self.lock().vcpus.insert(kind.to_owned(), vcpus);
        Some(vcpus)
    }

    /// Runs `piece` on the network of the cloud.
    pub(super) fn on_network<T: Send>(&self, piece: impl FnOnce(&Self) -> T + Send) -> T {
        match &self.guest_pool {
            Some(guest_pool) => guest_pool.on_network(|| piece(self)),
            None => piece(self),
        }
    }

    /// Runs `piece` in the background, on the network of the cloud.
    pub(super) fn spawn_on_network(&self, piece: impl FnOnce() + Send + 'static) {
        // a new thread inherits the namespaces of the thread that starts it, so start it from the runtime
        self.runtime
            .spawn(async { tokio::task::spawn_blocking(piece).await });
    }

    /// Moves the region's default network into the lab's: default subnets in three zones, with addresses that no node of the lab has.
    pub(super) fn prepare(&self) {
        let region = self.settings.region.as_str();
        let ask = |action: &str, parameters: &[(&str, &str)]| {
            self.moto
                .ask(region, action, parameters)
                .unwrap_or_else(|e| panic!("{e}"))
        };
        let there = ask("DescribeSubnets", &[]);
        let mut zones: Vec<String> = Vec::new();
        for subnet in xml::items(&there, "subnetSet") {
            zones.extend(xml::text(subnet, "availabilityZone"));
            ask(
                "DeleteSubnet",
                &[(
                    "SubnetId",
                    &xml::text(subnet, "subnetId").unwrap_or_default(),
                )],
            );
        }
        zones.sort();
        let network = find(
            &ask(
                "DescribeVpcs",
                &[
                    ("Filter.1.Name", "is-default"),
                    ("Filter.1.Value.1", "true"),
                ],
            ),
            "vpcId",
        );
        let network = network.expect("a region has a default network");
        ask(
            "AssociateVpcCidrBlock",
            &[("VpcId", &network), ("CidrBlock", "10.77.0.0/24")],
        );
        for (zone, block) in zones
            .iter()
            .zip(["10.77.0.128/26", "10.77.0.192/26", "10.77.0.96/27"])
        {
            ask(
                "CreateSubnet",
                &[
                    ("VpcId", &network),
                    ("CidrBlock", block),
                    ("AvailabilityZone", zone),
                ],
            );
        }
    }
}
