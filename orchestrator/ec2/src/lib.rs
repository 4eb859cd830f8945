//! EC2 instances as a site of cvc. Only this crate calls AWS. It implements
//! [`cvc_cloud::provider::Provider`].

mod call;
mod caller;
mod discover;
mod error;
mod expiry;
mod images;
mod launch;
mod observe;
mod offer;
mod prepare;
mod prices;
mod quota;
mod remove;
mod session;
mod tags;

use async_trait::async_trait;
use cvc_cloud::provider::{
    Account, Clouds, Discovery, FleetOrder, FleetRequest, Health, Instance, Offer, PreparedFleet,
    Provider, ProviderError, Quota, Quote, Resource, TypeFacts,
};
use cvc_journal::lease::LaunchOrder;
use jiff::Timestamp;
use parking_lot::RwLock;
use std::{fmt, path::PathBuf, sync::Arc};

use session::ClientSet;

/// Opens accounts of AWS or a compatible cloud, with the same credentials that the AWS command line would use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ec2 {
    profiles: Option<PathBuf>,
}

impl Ec2 {
    /// Returns the same value as [`Ec2::default`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the file from which profiles are read, in the format of `~/.aws/config`, in place of `~/.aws/config` and `~/.aws/credentials`.
    pub fn with_profiles(file: impl Into<PathBuf>) -> Self {
        Self {
            profiles: Some(file.into()),
        }
    }

    async fn region(&self, account: &Account) -> Result<Region, ProviderError> {
        let session = ClientSet::load(account, self.profiles.as_deref()).await?;
        let (account, profiles, name) = (
            account.clone(),
            self.profiles.clone(),
            session.region.clone(),
        );
        Ok(Region {
            account,
            profiles,
            name,
            session: RwLock::new(Arc::new(session)),
        })
    }
}

#[async_trait]
impl Clouds for Ec2 {
    async fn open(&self, account: &Account) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(self.region(account).await?))
    }
}

/// A region of an account.
pub(crate) struct Region {
    account: Account,
    profiles: Option<PathBuf>,
    name: String,
    /// The clients with their identity (credentials); replaced when the identity expires.
    session: RwLock<Arc<ClientSet>>,
}

impl fmt::Debug for Region {
    /// Prints where calls are sent, but never credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.name)
            .field("endpoint", &self.account.endpoint)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for Region {
    fn region(&self) -> &str {
        &self.name
    }

    async fn describe_offer(&self, request: &FleetRequest) -> Result<Offer, ProviderError> {
        self.offer(request).await
    }

    async fn quota(
        &self,
        instance_type: &TypeFacts,
        spot: bool,
    ) -> Result<Option<Quota>, ProviderError> {
        self.vcpus(instance_type, spot).await
    }

    async fn prepare(&self, order: &FleetOrder) -> Result<PreparedFleet, ProviderError> {
        self.prepare_fleet(order).await
    }

    async fn launch(&self, order: &LaunchOrder) -> Result<Vec<Instance>, ProviderError> {
        self.run_instances(order).await
    }

    async fn observe(&self, fleet: &str) -> Result<Vec<Instance>, ProviderError> {
        self.instances_of(fleet).await
    }

    async fn health(&self, fleet: &str) -> Result<Vec<(String, Health)>, ProviderError> {
        self.checks_of(fleet).await
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), ProviderError> {
        self.end_instances(ids).await
    }

    async fn mark_expiry(&self, ids: &[String], expires: Timestamp) -> Result<(), ProviderError> {
        self.write_expiry(ids, expires).await
    }

    async fn discover(&self, owner: Option<&str>, fleet: Option<&str>) -> Discovery {
        self.everything_of(owner, fleet).await
    }

    async fn remove(
        &self,
        resources: &[Resource],
        limit_s: f64,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError> {
        self.remove_all(resources, limit_s, report).await
    }

    async fn regions(&self) -> Result<Vec<String>, ProviderError> {
        self.enabled_regions().await
    }

    async fn prices(
        &self,
        instance_types: &[String],
        spot: bool,
    ) -> Result<Vec<Quote>, ProviderError> {
        if spot {
            self.spot_prices(instance_types).await
        } else {
            self.list_prices(instance_types).await
        }
    }
}
