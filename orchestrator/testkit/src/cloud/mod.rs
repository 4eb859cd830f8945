//! A cloud like EC2 on one machine, for real tests: programs use it through their real SDK, and reach its instances, which are nodes of a
//! [`Lab`], by ssh. It never contacts a real cloud.
//!
//! ```no_run
//! use cvc_testkit::{Cloud, Lab, cloud::Fault};
//!
//! # fn test() { // a #[test]
//! cvc_testkit::require!(cvc_testkit::Tool::Lab, cvc_testkit::Tool::Moto);
//! let lab = Lab::builder().nodes(0).build();
//! let cloud = Cloud::start(&lab);
//! cloud.fault(Fault::no_capacity().matching("Placement.AvailabilityZone", "us-east-1a"));
//! let mut cvc = lab.command("cvc");
//! cvc.args(["run", "campaign.toml"]).envs(cloud.environment());
//! assert!(cvc.status().expect("starts").success());
//! assert_eq!(cloud.count("RunInstances"), 2);
//! cloud.assert_nothing_left();
//! # }
//! ```
//!
//! - **moto** keeps images, types, instances, volumes, keys, security groups and tags. A **proxy** in front of it, at [`Cloud::endpoint`]
//!   (programs find it through [`Cloud::environment`]), records every call ([`Cloud::calls`]) and adds features that moto lacks: client tokens,
//!   placement groups, spot requests and prices, price list, quotas, status checks, console output, pages, errors for resources in use,
//!   state transitions that take time. It checks the dates of signatures, not the signatures.
//! - **Instances** of the chosen region ([`CloudBuilder::region`]) are nodes of the lab's image, `ip-10-77-0-132` and the like, with
//!   addresses of default subnets in three zones (10.77.0.96 and above; the lab's own nodes lie below). Their public address is their
//!   private one. They are `pending` until their sshd answers, have one user (`admin`; `ubuntu`, `ec2-user` on those images) with sudo
//!   and the key pair, no key of the lab, and an unknown host key (GetConsoleOutput shows it, as cloud-init does).
//!   User data that begin with `#!` run once as root. `poweroff` and `shutdown` on them terminate or stop the instance, as requested at
//!   launch. [`Cloud::node`] returns the node, for faults: one that a test switches off stays `running`, with failing status checks.
//! - **Volumes** and instance stores besides the root are real block devices of the node (loop devices over sparse files in memory, of the
//!   requested size, instance stores of at most 4 GB), as `/dev/nvme1n1` with the links that udev makes, or `/dev/xvdf`, depending on the
//!   type; for tests with `require!(Tool::LoopDevices)`. Volumes attached later exist on paper only.
//! - The **metadata service** (IMDSv2 only) answers inside each node at 169.254.169.254.
//! - **On paper**: [`Cloud::without_nodes`] needs neither a lab nor root, and has room for hundreds of instances. Instances in other regions
//!   of a cloud with a lab exist on paper too.
//! - **Faults**: [`Cloud::fault`], [`Cloud::expire_credentials`], [`Cloud::skew`], [`Cloud::never_reachable`], [`Cloud::impaired`],
//!   [`Cloud::interrupt`], [`Cloud::terminate`], [`Cloud::hold_group`]; [`CloudBuilder::quotas`] to exceed.
//! - **Leftovers**: [`Cloud::alive`], [`Cloud::assert_nothing_left`], in all regions that received any request.
//! - Not supported: stopping, starting and rebooting through the API, fleets, user data of launch templates.

mod boot;
mod call;
pub(crate) mod disks;
mod fault;
mod front;
mod images;
mod instances;
mod launch;
mod leftovers;
mod machine;
mod metadata;
mod moto;
mod page;
mod placement;
mod price_table;
mod prices;
mod query;
mod resources;
mod server;
mod spot;
mod tags;
mod world;
mod xml;
mod zones;

use std::{
    env,
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Runtime;

pub use call::ApiCall;
pub use fault::Fault;
pub use leftovers::{Instance, Leftovers};
pub(crate) use moto::python as moto;

use crate::{
    Lab,
    lab::{GuestPool, Node},
};
use machine::{EndReason, InstancePhase};
use server::Serving;
use world::{CloudSettings, World};

/// The access key of the cloud's only account. It is invented, so that tests can search for it where it must not occur.
pub const ACCESS_KEY: &str = "AKIACVCTESTKITMADEUP";

/// The secret of [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "cvcTestKitSecretThatMustBeNowhere+/0123456";

/// Configures a cloud. Made by [`Cloud::builder`].
#[derive(Clone, Debug)]
pub struct CloudBuilder(CloudSettings);

impl CloudBuilder {
    /// Sets the region whose instances are nodes of the lab, `us-east-1` by default. Instances in other regions exist on paper only.
    pub fn region(mut self, region: &str) -> Self {
        region.clone_into(&mut self.0.region);
        self
    }

    /// Sets the on-demand price of an instance type, dollars per hour; some common types already have prices.
    pub fn price(mut self, kind: &str, per_hour: f64) -> Self {
        self.0.prices.0.insert(kind.to_owned(), per_hour);
        self
    }

    /// Sets the maximum numbers of vCPUs of on-demand and of spot instances; 256 each by default.
    pub fn quotas(mut self, on_demand: u32, spot: u32) -> Self {
        self.0.quotas = [f64::from(on_demand), f64::from(spot)];
        self
    }

    /// Sets the time for which instances without a node are pending; zero by default. [`Cloud::finish_boots`] ends it early.
    pub fn boot(mut self, time: Duration) -> Self {
        self.0.boot = time;
        self
    }

    /// Sets the minimum time for which instances are shutting down; 200 ms by default.
    pub fn stopping(mut self, time: Duration) -> Self {
        self.0.stopping = time;
        self
    }

    /// Sets the time for which the status checks of a running instance are `initializing`; zero by default.
    pub fn checks(mut self, time: Duration) -> Self {
        self.0.checks = time;
        self
    }

    /// Starts the cloud next to a lab; its instances become nodes of the lab.
    pub fn start(self, lab: &Lab) -> Cloud {
        Cloud::new(self.0, Some(lab.guest_pool()))
    }

    /// Starts the cloud on this machine's loopback, with instances that exist on paper only.
    pub fn without_nodes(self) -> Cloud {
        Cloud::new(self.0, None)
    }
}

/// A cloud, as described for the module. Ends when it is dropped.
#[derive(Debug)]
pub struct Cloud {
    world: Arc<World>,
    serving: Option<Serving>,
    runtime: Option<Runtime>,
    moto: moto::Server,
}

impl Cloud {
    /// Returns a builder with the default settings.
    pub fn builder() -> CloudBuilder {
        CloudBuilder(CloudSettings {
            region: "us-east-1".into(),
            prices: price_table::PriceTable::default(),
            quotas: [256.0, 256.0],
            boot: Duration::ZERO,
            stopping: Duration::from_millis(200),
            checks: Duration::ZERO,
        })
    }

    /// Starts a cloud with the default settings next to a lab.
    pub fn start(lab: &Lab) -> Self {
        Self::builder().start(lab)
    }

    /// Starts a cloud with the default settings and without nodes.
    pub fn without_nodes() -> Self {
        Self::builder().without_nodes()
    }

    fn new(settings: CloudSettings, guest_pool: Option<GuestPool>) -> Self {
        let moto = match &guest_pool {
            Some(guest_pool) => moto::Server::start(guest_pool.directory(), |program| {
                guest_pool.command(program)
            }),
            None => moto::Server::start(&env::temp_dir(), |program| Command::new(program)),
        };
        let open = || {
            (
                server::runtime(),
                TcpListener::bind("127.0.0.1:0").expect("a port"),
            )
        };
        let (runtime, listener) = guest_pool
            .as_ref()
            .map_or_else(open, |guest_pool| guest_pool.on_network(open));
        let world = Arc::new(World::new(
            moto::Client::at(moto.port),
            settings,
            guest_pool,
            runtime.handle().clone(),
        ));
        world.on_network(|world| {
            world.moto.wait();
            if world.guest_pool.is_some() {
                world.prepare();
            }
        });
        boot::watch(&world);
        let front = Arc::clone(&world);
        let serving = server::serve(
            runtime.handle(),
            listener,
            Arc::new(move |request| front::answer(&front, &request)),
        );
        Self {
            world,
            serving: Some(serving.expect("a port")),
            runtime: Some(runtime),
            moto,
        }
    }

    fn address(&self) -> SocketAddr {
        self.serving.as_ref().expect("until it ends").address
    }

    /// Returns the cloud's URL: on the laptop's loopback or, without a lab, on this machine's.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns environment variables that direct a program to this cloud and to no other.
    pub fn environment(&self) -> Vec<(String, String)> {
        let all = [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_ENDPOINT_URL", &self.endpoint()),
            ("AWS_REGION", &self.world.settings.region),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ];
        all.into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns the newest Debian image for `x86_64` or `arm64`.
    pub fn image(&self, architecture: &str) -> String {
        images::find_debian(architecture)
    }

    /// Injects a fault, which occurs as often as it specifies.
    pub fn fault(&self, fault: Fault) {
        self.world.lock().faults.push(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.world.lock().faults.clear();
    }

    /// Returns whether all injected faults have occurred as often as specified.
    pub fn faults_are_over(&self) -> bool {
        self.world.lock().faults.is_empty()
    }

    /// Refuses every call because the credentials have expired.
    pub fn expire_credentials(&self) {
        self.world.lock().expired = true;
    }

    /// Makes the credentials valid again.
    pub fn restore_credentials(&self) {
        self.world.lock().expired = false;
    }

    /// Sets the cloud's clock ahead of the machine's, or behind it if negative: requests whose signature is more than five minutes off are refused,
    /// and the `Date` of answers is that of the cloud's clock.
    pub fn skew(&self, seconds: i64) {
        self.world.lock().clock = fault::CloudClock(SignedDuration::from_secs(seconds));
    }

    /// Makes pending instances without a node run at once.
    pub fn finish_boots(&self) {
        for machine in self
            .world
            .lock()
            .machines
            .iter_mut()
            .filter(|m| m.phase() == InstancePhase::Pending && m.node.is_none())
        {
            machine.enter(InstancePhase::Running, None);
        }
    }

    /// Makes the next `count` instances run without an sshd.
    pub fn never_reachable(&self, count: usize) {
        self.world.lock().never_reachable = count;
    }

    /// Makes the status checks of the next `count` instances fail.
    pub fn impaired(&self, count: usize) {
        self.world.lock().impaired = count;
    }

    /// Sets whether the status checks of an instance fail from now on.
    #[track_caller]
    pub fn impair(&self, instance: &str, is_impaired: bool) {
        self.world
            .lock()
            .machine_mut(instance)
            .unwrap_or_else(|| panic!("unknown instance {instance}"))
            .impaired = is_impaired;
    }

    /// Refuses the next `times` calls that delete a security group, as if the group were still in use.
    pub fn hold_group(&self, times: usize) {
        self.world.lock().held_groups = times;
    }

    /// Raises all spot prices to this multiple of their initial values.
    pub fn raise_spot_prices(&self, factor: f64) {
        self.world.lock().spot_rise = factor - 1.0;
    }

    /// Reclaims a spot instance. Its metadata service announces that at once, and after this time the instance loses power.
    #[track_caller]
    pub fn interrupt(&self, instance: &str, notice: Duration) {
        {
            let mut state = self.world.lock();
            let machine = state
                .machine_mut(instance)
                .unwrap_or_else(|| panic!("unknown instance {instance}"));
            assert!(machine.spot.is_some(), "{instance} is not a spot instance");
            machine.notice = Some(
                Timestamp::now()
                    .saturating_add(SignedDuration::try_from(notice).expect("a time"))
                    .expect("a time"),
            );
            let (region, request) = (machine.region.clone(), machine.spot.clone());
            if let Some(request) = state
                .requests
                .iter_mut()
                .find(|r| Some(&r.id) == request.as_ref() && r.region == region)
            {
                request.status = "marked-for-termination";
            }
        }
        self.end_after(instance, notice, EndReason::Spot);
    }

    /// Terminates an instance without the tested program's knowledge, as a user can in the console.
    #[track_caller]
    pub fn terminate(&self, instance: &str) {
        assert!(
            self.world.lock().machine(instance).is_some(),
            "unknown instance {instance}"
        );
        self.end_after(instance, Duration::ZERO, EndReason::User);
    }

    fn end_after(&self, instance: &str, time: Duration, reason: EndReason) {
        let (world, id) = (Arc::clone(&self.world), instance.to_owned());
        let end = move || {
            world.sleep(time);
            let region = world
                .lock()
                .machine(&id)
                .filter(|m| m.is_alive())
                .map(|m| m.region.clone());
            let Some(region) = region.filter(|_| !world.has_ended()) else {
                return;
            };
            boot::terminate(&world, std::slice::from_ref(&id), reason);
            if let Err(e) = world
                .moto
                .ask(&region, "TerminateInstances", &[("InstanceId.1", &id)])
            {
                world.record_error(e);
            }
        };
        self.world.spawn_on_network(end);
    }

    /// Lists all calls so far.
    pub fn calls(&self) -> Vec<ApiCall> {
        self.world.lock().calls.clone()
    }

    /// Counts the calls of an action.
    pub fn count(&self, action: &str) -> usize {
        self.world
            .lock()
            .calls
            .iter()
            .filter(|c| c.action == action)
            .count()
    }

    /// Lists all instances ever launched, in the order of their launches.
    pub fn instances(&self) -> Vec<Instance> {
        leftovers::list_instances(&self.world)
    }

    /// Returns the node of an instance.
    #[track_caller]
    pub fn node(&self, instance: &str) -> Arc<Node> {
        let state = self.world.lock();
        let machine = state
            .machine(instance)
            .unwrap_or_else(|| panic!("unknown instance {instance}"));
        machine
            .node
            .clone()
            .unwrap_or_else(|| panic!("{instance} has no node"))
    }

    /// Lists all resources that cost money or prevent later work, in all regions that received any request.
    pub fn alive(&self) -> Leftovers {
        leftovers::list_leftovers(&self.world)
    }

    /// Panics if any resource is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let left = self.alive();
        assert!(left.is_empty(), "the cloud still has:\n{left}");
        let errors = self.world.lock().errors.clone();
        assert!(
            errors.is_empty(),
            "errors of the cloud itself:\n{}",
            errors.join("\n")
        );
    }

    /// Returns the errors of the simulated cloud itself, to explain a failing test.
    pub fn troubles(&self) -> String {
        format!(
            "{}\n{}",
            self.world.lock().errors.join("\n"),
            self.moto.log()
        )
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.world.end();
        self.serving = None;
        let nodes: Vec<Arc<Node>> = {
            let mut state = self.world.lock();
            state.machines.iter_mut().for_each(|m| m.metadata = None);
            state
                .machines
                .iter_mut()
                .filter_map(|m| m.node.take())
                .collect()
        };
        for node in nodes {
            node.end();
        }
        self.world
            .lock()
            .machines
            .iter_mut()
            .for_each(|m| m.disks.clear());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}
