//! Interface to a cloud, independent of any cloud's library.

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

/// Opens accounts of a cloud. The command line provides an implementation if it was built with a cloud.
#[async_trait]
pub trait Clouds: Send + Sync + fmt::Debug {
    /// Opens an account, without querying the cloud.
    async fn open(&self, account: &Account) -> Result<Arc<dyn Provider>, ProviderError>;
}

/// One region of one account. If it is safe, failed calls are repeated automatically (after throttling or 5xx errors), within the provider's limits.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// Returns the region that calls go to.
    fn region(&self) -> &str;

    /// Queries what the region offers for a site: facts of the site's instance types, their zones, the images, and the caller's address. Has no side
    /// effects.
    async fn describe_offer(&self, request: &FleetRequest) -> Result<Offer, ProviderError>;

    /// Queries the limit of running vCPUs for the family of this instance type, and how many are running. `None` if unknown: no permission, or an
    /// endpoint without quotas.
    async fn quota(
        &self,
        instance_type: &TypeFacts,
        spot: bool,
    ) -> Result<Option<Quota>, ProviderError>;

    /// Creates or finds the resources that a fleet's instances need: key pair, security group with its rules, placement group. Repeating the call is
    /// safe.
    async fn prepare(&self, order: &FleetOrder) -> Result<PreparedFleet, ProviderError>;

    /// Launches the instances of an order. The name of the lease is the client token, so that repeating the call returns the same instances.
    async fn launch(&self, order: &LaunchOrder) -> Result<Vec<Instance>, ProviderError>;

    /// Queries all instances with the tag of a fleet, including terminated ones that the cloud still shows. Makes one paged call.
    async fn observe(&self, fleet: &str) -> Result<Vec<Instance>, ProviderError>;

    /// Queries the cloud's status checks of the running instances of a fleet.
    async fn health(&self, fleet: &str) -> Result<Vec<(String, Health)>, ProviderError>;

    /// Terminates instances without waiting; ignores instances that have already ended.
    async fn terminate(&self, ids: &[String]) -> Result<(), ProviderError>;

    /// Records the end time of instances in their tags, so that it is visible from outside.
    async fn mark_expiry(&self, ids: &[String], expires: Timestamp) -> Result<(), ProviderError>;

    /// Finds all resources in this region that have cvc's tags, this owner (`None`: any owner) and this fleet (`None`: any fleet). Omits terminated
    /// and deleted resources. Refused queries are listed in the result.
    async fn discover(&self, owner: Option<&str>, fleet: Option<&str>) -> Discovery;

    /// Removes resources in the order of their dependencies: instances and spot requests, volumes, placement groups, security groups, key pairs.
    /// Retries to remove resources that are still in use. Waits until all have disappeared, at most `limit_s` seconds. Returns the resources that
    /// remain, each with the reason. Progress is passed to `report`.
    async fn remove(
        &self,
        resources: &[Resource],
        limit_s: f64,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError>;

    /// Queries the regions that this account may use.
    async fn regions(&self) -> Result<Vec<String>, ProviderError>;

    /// Queries the current prices of Linux instances in this region: on-demand prices, or with `spot` the spot market's prices in each zone, from
    /// their history.
    async fn prices(
        &self,
        instance_types: &[String],
        spot: bool,
    ) -> Result<Vec<Quote>, ProviderError>;
}

/// Result of a search by tags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// The resources with the tags.
    pub found: Vec<Resource>,
    /// Refused queries; the resources that they would have found are missing in `found`.
    pub refused: Vec<ProviderError>,
}

impl Discovery {
    /// Returns all resources, if no query was refused.
    ///
    /// # Errors
    /// The first query that was refused, because the result is then incomplete.
    pub fn all_shown(self) -> Result<Vec<Resource>, ProviderError> {
        self.refused.into_iter().next().map_or(Ok(self.found), Err)
    }
}

/// What a region offers for the request of a site: instance types, images for them, and the caller's address.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Facts of the site's instance types, in the order of the site.
    pub types: Vec<TypeFacts>,
    /// An image for each processor architecture that the types have.
    pub images: Vec<ImageFacts>,
    /// The caller's address as the cloud sees it, as in `203.0.113.7/32`. The security group allows ssh from this address, unless the site names
    /// others.
    pub caller: Option<String>,
}

impl Offer {
    /// Returns the image for an instance type, by its architecture.
    pub fn image_for(&self, facts: &TypeFacts) -> Option<&ImageFacts> {
        self.images
            .iter()
            .find(|i| i.architecture == facts.architecture)
    }
}

/// Facts of an instance type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeFacts {
    /// Name of the type, as in `c5.xlarge`.
    pub name: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Physical cores.
    pub cores: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Architecture: `x86_64` or `arm64`.
    pub architecture: String,
    /// Network performance, in the cloud's words.
    pub network: String,
    /// Total size of the machine's own disks, GiB.
    pub instance_store_gib: u64,
    /// Number of the machine's own disks.
    pub instance_store_disks: u32,
    /// Whether the type has the Elastic Fabric Adapter.
    pub efa: bool,
    /// Whether the type is allowed in a cluster placement group.
    pub cluster_placement: bool,
    /// Whether the type is available on the spot market.
    pub spot: bool,
    /// Zones of the region that offer the type, sorted.
    pub zones: Vec<String>,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Identifier, `ami-...`.
    pub id: String,
    /// Name of the image.
    pub name: String,
    /// Architecture: `x86_64` or `arm64`.
    pub architecture: String,
    /// Name of the root device, as in `/dev/xvda`.
    pub root_device: String,
    /// Smallest possible size of the root volume, GiB.
    pub root_gib: u32,
    /// User name for logins to instances with this image.
    pub user: String,
}

/// Limit of running vCPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// Maximum number of vCPUs that may run.
    pub limit: f64,
    /// Number of vCPUs that are running.
    pub used: f64,
}

/// Resources that a fleet needs in addition to its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetOrder {
    /// Tags of all resources; [`Tags::fleet`] is also the name of the key pair and the groups.
    pub tags: Tags,
    /// OpenSSH public key, one line.
    pub public_key: String,
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`.
    pub allow_from: String,
    /// Subnet of the instances; `None` for the default subnet of each zone.
    pub subnet: Option<String>,
    /// Whether to use a cluster placement group.
    pub placement_group: bool,
}

/// Resources created for a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedFleet {
    /// Name of the key pair.
    pub key_name: String,
    /// Identifier of the security group, `sg-...`.
    pub group_id: String,
    /// Name of the placement group.
    pub placement_group: Option<String>,
}

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Identifier, `i-...`.
    pub id: String,
    /// The lease of the instance.
    pub lease: LeaseId,
    /// State of the instance.
    pub state: InstanceState,
    /// Public name or address for ssh; the private address if there is no public one.
    pub address: Option<String>,
    /// Address that other instances use.
    pub internal: Option<String>,
    /// Zone of the instance.
    pub zone: String,
    /// Instance type.
    pub instance_type: String,
    /// Whether the instance is a spot instance.
    pub spot: bool,
    /// Time of the launch.
    pub launched: Option<Timestamp>,
    /// The cloud's reason for the instance's state, as in `Server.SpotInstanceTermination`.
    pub reason: Option<String>,
}

impl Instance {
    /// Returns whether the cloud reclaimed the instance.
    pub fn reclaimed(&self) -> bool {
        self.reason
            .as_deref()
            .is_some_and(|r| r.contains("SpotInstance"))
    }
}

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Being started; not billed yet.
    Pending,
    /// Running.
    Running,
    /// Being stopped or terminated.
    Ending,
    /// Stopped: its disks still cost.
    Stopped,
    /// Terminated and removed.
    Terminated,
}

impl InstanceState {
    /// Returns whether the instance exists or is being started.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// The result of the cloud's status checks of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The checks have not been made yet.
    Unknown,
    /// All checks pass.
    Ok,
    /// A check fails, in the cloud's words.
    Impaired(String),
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// An instance.
    Instance,
    /// A persistent request for spot instances.
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
    /// Kind of the resource.
    pub kind: ResourceKind,
    /// The cloud's identifier of the resource; for key pairs and placement groups, the name.
    pub id: String,
    /// Region.
    pub region: String,
    /// Tags of the resource.
    pub tags: Tags,
    /// State of the resource in the cloud's words; empty if it has none.
    pub state: String,
    /// Time at which the resource was created.
    pub since: Option<Timestamp>,
    /// Instance type; only for instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_type: Option<String>,
    /// Whether the resource is a spot instance.
    #[serde(default)]
    pub spot: bool,
    /// Size of a volume, GiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_gib: Option<u32>,
    /// Type of a volume, as in `gp3`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_type: Option<String>,
}
