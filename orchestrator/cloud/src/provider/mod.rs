//! What a cloud must be able to do, independent of any cloud's library.

mod account;
mod quote;
mod request;

pub use account::Account;
pub use cvc_sites::provider_error::{ErrorKind, ProviderError, SideEffect};
pub use quote::Quote;
pub use request::FleetRequest;

use async_trait::async_trait;
use cvc_core::ids::LeaseId;
use cvc_journal::lease::{LaunchOrder, Tags};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Opens accounts. The command line passes one to the library if it was built with a cloud.
#[async_trait]
pub trait Clouds: Send + Sync + fmt::Debug {
    /// Opens an account, without asking the cloud.
    async fn open(&self, account: &Account) -> Result<Arc<dyn Provider>, ProviderError>;
}

/// One region of one account. Calls are retried automatically where that is safe (throttling, 5xx), within the provider's limits.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// The region that calls go to.
    fn region(&self) -> &str;

    /// Queries what is on offer for a site: facts of its instance types, zones that have them, the image, the caller's address. Read-only.
    async fn describe_offer(&self, request: &FleetRequest) -> Result<Offer, ProviderError>;

    /// Queries how many vCPUs of these instance types may still run; `None` if unknown (no permission, an endpoint without quotas).
    async fn quota(
        &self,
        instance_type: &TypeFacts,
        spot: bool,
    ) -> Result<Option<Quota>, ProviderError>;

    /// Makes or finds what the instances of a fleet need: key pair, security group with its rules, placement group. May be called again.
    async fn prepare(&self, order: &FleetOrder) -> Result<Prepared, ProviderError>;

    /// Launches the instances of a lease; the lease's name is the client token, so that repeating the call gives the same ones.
    async fn launch(&self, order: &LaunchOrder) -> Result<Vec<Instance>, ProviderError>;

    /// Queries all instances with the tag of a fleet, including terminated ones that are still shown: one call, paged.
    async fn observe(&self, fleet: &str) -> Result<Vec<Instance>, ProviderError>;

    /// Queries the cloud's status checks of the running instances of a fleet.
    async fn health(&self, fleet: &str) -> Result<Vec<(String, Health)>, ProviderError>;

    /// Terminates instances without waiting; those that are already gone are ignored.
    async fn terminate(&self, ids: &[String]) -> Result<(), ProviderError>;

    /// Writes down in the tags of instances when they end, so that what is left can be told from outside.
    async fn mark_expiry(&self, ids: &[String], expires: Timestamp) -> Result<(), ProviderError>;

    /// Finds everything in this region with cvc's tags, of this owner (`None`: any) and this fleet (`None`: any), except terminated and
    /// deleted resources. Refused queries are part of the answer.
    async fn discover(&self, owner: Option<&str>, fleet: Option<&str>) -> Discovery;

    /// Removes resources in the order in which they depend on each other, and waits until they are gone, as long as `limit_s`: instances
    /// and spot requests, volumes, placement groups, security groups, key pairs. Retries resources that are still in use. Returns what is
    /// still there, with the reason. `tell` is called with the progress.
    async fn remove(
        &self,
        resources: &[Resource],
        limit_s: f64,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError>;

    /// Queries the regions that this account may use.
    async fn regions(&self) -> Result<Vec<String>, ProviderError>;

    /// Queries today's prices of Linux instances in this region, on demand, or from the spot market's history in each zone.
    async fn prices(
        &self,
        instance_types: &[String],
        spot: bool,
    ) -> Result<Vec<Quote>, ProviderError>;
}

/// What a search by tags found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// The resources with the tags.
    pub found: Vec<Resource>,
    /// Queries that were refused: what they ask for may exist, too.
    pub refused: Vec<ProviderError>,
}

impl Discovery {
    /// Returns all resources, if nothing was refused.
    ///
    /// # Errors
    /// The first query that was refused, because the result is then incomplete.
    pub fn all_shown(self) -> Result<Vec<Resource>, ProviderError> {
        self.refused.into_iter().next().map_or(Ok(self.found), Err)
    }
}

/// What a cloud offers for a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Facts of the site's instance types, in its order; unknown ones are an error.
    pub types: Vec<TypeFacts>,
    /// An image for each processor architecture that the types have.
    pub images: Vec<ImageFacts>,
    /// The caller's address as the cloud sees it, as in `203.0.113.7/32`: what the security group lets in, unless the site says.
    pub caller: Option<String>,
}

impl Offer {
    /// The image for a type.
    pub fn image_for(&self, facts: &TypeFacts) -> Option<&ImageFacts> {
        self.images
            .iter()
            .find(|i| i.architecture == facts.architecture)
    }
}

/// Facts of an instance type.
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
    /// Network class, in the cloud's words.
    pub network: String,
    /// Total size of the machine's own disks, GiB.
    pub instance_store_gib: u64,
    /// Number of those disks.
    pub instance_store_disks: u32,
    /// Whether it has the Elastic Fabric Adapter.
    pub efa: bool,
    /// Whether it may be in a cluster placement group.
    pub cluster_placement: bool,
    /// Whether it is available on the spot market.
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
    /// Total that may run.
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
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`.
    pub allow_from: String,
    /// Subnet of the instances; `None` is the default one of each zone.
    pub subnet: Option<String>,
    /// Whether there is to be a cluster placement group.
    pub placement_group: bool,
}

/// What was made for a fleet.
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
    /// Its state.
    pub state: InstanceState,
    /// Public name or address for ssh, else the private one.
    pub address: Option<String>,
    /// Address for its neighbours.
    pub internal: Option<String>,
    /// Zone.
    pub zone: String,
    /// Type.
    pub instance_type: String,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// When it was launched.
    pub launched: Option<Timestamp>,
    /// The cloud's reason for its state, as in `Server.SpotInstanceTermination`.
    pub reason: Option<String>,
}

impl Instance {
    /// Whether the cloud reclaimed it.
    pub fn reclaimed(&self) -> bool {
        self.reason
            .as_deref()
            .is_some_and(|r| r.contains("SpotInstance"))
    }
}

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Being started; costs nothing yet.
    Pending,
    /// Running.
    Running,
    /// On its way to being stopped or terminated.
    Ending,
    /// Stopped: its disks still cost.
    Stopped,
    /// Gone.
    Terminated,
}

impl InstanceState {
    /// Whether it exists, or will.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// The result of the cloud's status checks of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// They have not been made yet.
    Unknown,
    /// All is well.
    Ok,
    /// Something is wrong, in the cloud's words.
    Impaired(String),
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// An instance.
    Instance,
    /// A standing request for spot instances.
    SpotRequest,
    /// A volume.
    Volume,
    /// A placement group.
    PlacementGroup,
    /// A security group.
    SecurityGroup,
    /// A key pair.
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

/// A resource in a cloud with cvc's tags.
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
    /// Its state in the cloud's words; empty if it has none.
    pub state: String,
    /// Time of its creation.
    pub since: Option<Timestamp>,
    /// Of instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_type: Option<String>,
    /// Of instances: whether it is a spot instance.
    #[serde(default)]
    pub spot: bool,
    /// Of volumes: GiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_gib: Option<u32>,
    /// Of volumes: type, as in `gp3`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_type: Option<String>,
}
