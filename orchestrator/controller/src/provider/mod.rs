//! What a cloud must be able to do. No cloud's library occurs here.

mod account;
mod error;
mod quote;
mod request;

pub use account::Account;
pub use error::{ErrorKind, ProviderError, SideEffect};
pub use quote::Quote;
pub use request::FleetRequest;

use async_trait::async_trait;
use cvc_core::{
    ids::LeaseId,
    lease::{LaunchOrder, Tags},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Opens accounts. The command line gives one to the library, if it was built with a cloud.
#[async_trait]
pub trait Clouds: Send + Sync + fmt::Debug {
    /// A provider for an account; nothing is asked of the cloud yet.
    async fn open(&self, account: &Account) -> Result<Arc<dyn Provider>, ProviderError>;
}

/// One region of one account. All calls are repeated by themselves where that is safe (throttling, 5xx), within the provider's limits.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// The region that calls go to.
    fn region(&self) -> &str;

    /// What is on offer for a site: facts of its instance types, zones that have them, the image, the caller's address. Changes nothing.
    async fn look(&self, request: &FleetRequest) -> Result<Offer, ProviderError>;

    /// How many vCPUs of these instance types may still run, `None` where that cannot be told (no permission, an endpoint without quotas).
    async fn quota(&self, instance_type: &TypeFacts, spot: bool) -> Result<Option<Quota>, ProviderError>;

    /// Makes what instances of a fleet need, or finds it: key pair, security group with its rules, placement group. May be called again.
    async fn prepare(&self, order: &FleetOrder) -> Result<Prepared, ProviderError>;

    /// Launches the instances of a lease; the lease's name is the client token, so that asking again gives the same ones.
    async fn launch(&self, order: &LaunchOrder) -> Result<Vec<Instance>, ProviderError>;

    /// All instances that carry the tag of a fleet, also those that are terminated and still shown: one question, paged.
    async fn observe(&self, fleet: &str) -> Result<Vec<Instance>, ProviderError>;

    /// What the cloud's own checks say of the running instances of a fleet.
    async fn health(&self, fleet: &str) -> Result<Vec<(String, Health)>, ProviderError>;

    /// Asks for the end of instances; those that are gone already are ignored. Does not wait.
    async fn terminate(&self, ids: &[String]) -> Result<(), ProviderError>;

    /// Everything in this region that carries cvc's tags, of this owner (`None`: of any) and this fleet (`None`: of any); what is
    /// terminated or deleted is left out. Questions that were refused are part of the answer.
    async fn discover(&self, owner: Option<&str>, fleet: Option<&str>) -> Discovery;

    /// Removes resources in the order in which they depend on each other, and waits until they are gone, as long as `limit_s`: instances and
    /// spot requests, volumes, placement groups, security groups, key pairs. One that is still in use is tried again. Gives what is still
    /// there, with the reason. `tell` hears what is done.
    async fn remove(
        &self,
        resources: &[Resource],
        limit_s: f64,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError>;

    /// Regions that this account may use.
    async fn regions(&self) -> Result<Vec<String>, ProviderError>;

    /// Today's prices of Linux instances in this region, on demand, or by the spot market's history in each zone.
    async fn prices(&self, instance_types: &[String], spot: bool) -> Result<Vec<Quote>, ProviderError>;
}

/// What was found by tags alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// What carries the tags.
    pub found: Vec<Resource>,
    /// Questions that were refused: what they ask for may be there, too.
    pub refused: Vec<ProviderError>,
}

impl Discovery {
    /// Everything that there is.
    ///
    /// # Errors
    /// The first question that was refused: then it is not known what there is.
    pub fn whole(self) -> Result<Vec<Resource>, ProviderError> {
        self.refused.into_iter().next().map_or(Ok(self.found), Err)
    }
}

/// What a cloud has for a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The site's instance types, in its order; unknown ones are an error.
    pub types: Vec<TypeFacts>,
    /// An image for each processor architecture that the types have.
    pub images: Vec<ImageFacts>,
    /// The caller's address as the cloud sees it, as in `203.0.113.7/32`: what the security group lets in, unless the site says.
    pub caller: Option<String>,
}

impl Offer {
    /// The image for a type.
    pub fn image_for(&self, facts: &TypeFacts) -> Option<&ImageFacts> {
        self.images.iter().find(|i| i.architecture == facts.architecture)
    }
}

/// What the cloud says of an instance type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeFacts {
    /// Its name, as in `c5.xlarge`.
    pub name: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Cores.
    pub cores: u32,
    /// Memory.
    pub memory_mib: u64,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Network class, as the cloud words it.
    pub network: String,
    /// Disks of the machine itself, GiB in all.
    pub instance_store_gib: u64,
    /// How many those are.
    pub instance_store_disks: u32,
    /// Whether it has the Elastic Fabric Adapter.
    pub efa: bool,
    /// Whether it may be in a cluster placement group.
    pub cluster_placement: bool,
    /// Whether it can be had on the spot market.
    pub spot: bool,
    /// Zones of the region that offer it, sorted.
    pub zones: Vec<String>,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// `ami-...`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Name of its root device, as in `/dev/xvda`.
    pub root_device: String,
    /// Smallest root volume, GiB.
    pub root_gib: u32,
    /// The user who may log in.
    pub user: String,
}

/// vCPUs that may run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// Allowed in all.
    pub limit: f64,
    /// Running now.
    pub used: f64,
}

/// What a fleet needs besides its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetOrder {
    /// Tags of everything; [`Tags::fleet`] is also the name of key pair and groups.
    pub tags: Tags,
    /// OpenSSH public key, one line.
    pub public_key: String,
    /// Who may come by ssh, as in `203.0.113.7/32`.
    pub allow_from: String,
    /// Subnet of the instances; `None` is the default one of each zone.
    pub subnet: Option<String>,
    /// Whether there is to be a cluster placement group.
    pub placement_group: bool,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Name of the key pair.
    pub key_name: String,
    /// `sg-...`.
    pub group_id: String,
    /// Name of the placement group.
    pub placement_group: Option<String>,
}

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// `i-...`.
    pub id: String,
    /// The lease that it belongs to.
    pub lease: LeaseId,
    /// Where it stands.
    pub state: InstanceState,
    /// Where ssh reaches it from outside: its public name or address, else the private one.
    pub address: Option<String>,
    /// Where its neighbours reach it.
    pub internal: Option<String>,
    /// Zone.
    pub zone: String,
    /// Type.
    pub instance_type: String,
    /// Whether it is of the spot market.
    pub spot: bool,
    /// When it was launched.
    pub launched: Option<Timestamp>,
    /// Why it is in its state, as the cloud words it, as in `Server.SpotInstanceTermination`.
    pub reason: Option<String>,
}

impl Instance {
    /// Whether the cloud took it back.
    pub fn reclaimed(&self) -> bool {
        self.reason.as_deref().is_some_and(|r| r.contains("SpotInstance"))
    }
}

/// Where an instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Being started; costs nothing yet.
    Pending,
    /// At work.
    Running,
    /// On its way to being stopped or terminated.
    Ending,
    /// Stopped: its disks cost on.
    Stopped,
    /// Gone.
    Terminated,
}

impl InstanceState {
    /// Whether it is there, or will be.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// What the cloud's checks of an instance say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// They have not been made yet.
    Unknown,
    /// All is well.
    Ok,
    /// Something is wrong, in the cloud's words.
    Impaired(String),
}

/// A kind of thing that costs, or is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// A machine.
    Instance,
    /// A standing request for spot instances.
    SpotRequest,
    /// A disk.
    Volume,
    /// Nearness of instances.
    PlacementGroup,
    /// Rules for the network.
    SecurityGroup,
    /// A public key.
    KeyPair,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Instance => "instance",
            Self::SpotRequest => "spot request",
            Self::Volume => "volume",
            Self::PlacementGroup => "placement group",
            Self::SecurityGroup => "security group",
            Self::KeyPair => "key pair",
        })
    }
}

/// Something in a cloud that carries cvc's tags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// What it is.
    pub kind: ResourceKind,
    /// The cloud's identifier; of key pairs and placement groups the name.
    pub id: String,
    /// Region.
    pub region: String,
    /// Its tags.
    pub tags: Tags,
    /// Where it stands, in the cloud's words; empty where it has no states.
    pub state: String,
    /// Since when it is there.
    pub since: Option<Timestamp>,
    /// Of instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_type: Option<String>,
    /// Of instances: whether of the spot market.
    #[serde(default)]
    pub spot: bool,
    /// Of volumes: GiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_gib: Option<u32>,
    /// Of volumes: type, as in `gp3`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_type: Option<String>,
}
