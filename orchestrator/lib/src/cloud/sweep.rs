//! What is left in a cloud, found by tags alone, and removed: whatever became of the journals that ordered it.

use super::{Account, Clouds, Provider, ProviderError, Resource};
use crate::{
    journal::{self, CampaignState},
    store::{CampaignDir, CampaignLock, StoreError},
};
use camino::Utf8Path;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How long removing may take in one region, seconds, if nothing is said.
const REMOVE_LIMIT_S: f64 = 900.0;

/// What is looked for, and where.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Profile and endpoint; its region is one of those that are looked at.
    pub account: Account,
    /// Further regions.
    pub regions: BTreeSet<String>,
    /// Every region that the account may use.
    pub all_regions: bool,
    /// Whose; `None` is anybody's.
    pub owner: Option<String>,
    /// Only what is older, seconds.
    pub older_than_s: Option<f64>,
    /// How long removing may take in one region, seconds; a quarter of an hour if nothing is said.
    pub wait_s: Option<f64>,
    /// Fleets that are left alone, and why.
    pub in_use: BTreeMap<String, String>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What.
    pub resource: Resource,
    /// Why it is left alone.
    pub left_alone: Option<String>,
}

/// What the campaigns of a directory say of their fleets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Fleets of campaigns that are under way now, and of those that are kept for a next one.
    pub in_use: BTreeMap<String, String>,
    /// Regions in which something was launched that is not known to be over.
    pub regions: BTreeSet<String>,
    /// Journals that cannot be read: what they say is not known.
    pub unreadable: Vec<String>,
}

impl Known {
    /// Reads the journals below a directory of campaigns. One that is not there is empty.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn read(campaigns: &Utf8Path) -> Result<Self, StoreError> {
        let mut known = Self::default();
        if !campaigns.is_dir() {
            return Ok(known);
        }
        for entry in campaigns.read_dir_utf8().map_err(StoreError::io("list", campaigns))?.flatten() {
            let dir = CampaignDir::at(entry.path());
            if !dir.journal().is_file() {
                continue;
            }
            let entries = match journal::read(&dir.journal()) {
                Ok(entries) => entries,
                Err(error) => {
                    known.unreadable.push(error.to_string());
                    continue;
                }
            };
            let state = CampaignState::of(&entries);
            let under_way = matches!(CampaignLock::take(&dir.lock()), Err(StoreError::Locked { .. }));
            let now = jiff::Timestamp::now();
            for lease in state.leases.iter().filter(|l| !l.released) {
                let Some(order) = &lease.order else { continue };
                known.regions.insert(order.region.clone());
                if under_way {
                    known.in_use.insert(order.tags.fleet.clone(), format!("the campaign {} is under way", order.tags.campaign));
                } else if let Some(until) =
                    lease.kept_until.filter(|until| *until > now && super::kept::on_shelf(dir.root(), &order.tags.fleet).exists())
                {
                    known
                        .in_use
                        .insert(order.tags.fleet.clone(), format!("kept until {until:.0}; `cvc down {}` ends it", order.tags.campaign));
                }
            }
        }
        Ok(known)
    }
}

impl Sweep {
    /// Looks in all regions that are meant. A region that does not answer is an error: what is there is not known.
    ///
    /// # Errors
    /// The first call that failed.
    pub async fn look(&self, clouds: &dyn Clouds, tell: &(dyn Fn(String) + Send + Sync)) -> Result<Vec<Found>, ProviderError> {
        let mut all = Vec::new();
        for provider in self.providers(clouds).await? {
            tell(format!("looking in {}", provider.region()));
            let there = provider.discover(self.owner.as_deref(), None).await?;
            let youngest = youngest(&there);
            all.extend(there.into_iter().filter_map(|resource| self.judge(resource, &youngest)));
        }
        Ok(all)
    }

    /// Removes what was found and is not to be left alone; what is still there then, with the reason.
    ///
    /// # Errors
    /// The first call that failed.
    pub async fn remove(
        &self,
        clouds: &dyn Clouds,
        found: &[Found],
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError> {
        let mut left = Vec::new();
        for provider in self.providers(clouds).await? {
            let here = found.iter().filter(|f| f.left_alone.is_none() && f.resource.region == provider.region());
            let here: Vec<Resource> = here.map(|f| f.resource.clone()).collect();
            if !here.is_empty() {
                left.extend(provider.remove(&here, self.wait_s.unwrap_or(REMOVE_LIMIT_S), tell).await?);
            }
        }
        Ok(left)
    }

    async fn providers(&self, clouds: &dyn Clouds) -> Result<Vec<Arc<dyn Provider>>, ProviderError> {
        let first = clouds.open(&self.account).await?;
        let mut regions: BTreeSet<String> = self.regions.clone();
        if self.all_regions {
            regions.extend(first.regions().await?);
        }
        regions.remove(first.region());
        let mut providers = vec![first];
        for region in regions {
            providers.push(clouds.open(&Account { region: Some(region), ..self.account.clone() }).await?);
        }
        Ok(providers)
    }

    fn judge(&self, resource: Resource, youngest: &BTreeMap<String, jiff::Timestamp>) -> Option<Found> {
        let young = |limit_s: f64| {
            // clouds do not say since when there is a group: it belongs to what is used beside it
            let since = resource.since.or_else(|| youngest.get(&resource.tags.fleet).copied()).or(resource.tags.expires);
            since.is_some_and(|since| jiff::Timestamp::now().duration_since(since).as_secs_f64() < limit_s)
        };
        if self.older_than_s.is_some_and(young) {
            return None;
        }
        let left_alone = self.in_use.get(&resource.tags.fleet).cloned();
        Some(Found { resource, left_alone })
    }
}

/// Since when there is the youngest thing of each fleet.
fn youngest(there: &[Resource]) -> BTreeMap<String, jiff::Timestamp> {
    let mut youngest = BTreeMap::new();
    for (fleet, since) in there.iter().filter_map(|r| Some((&r.tags.fleet, r.since?))) {
        youngest.entry(fleet.clone()).and_modify(|known| *known = since.max(*known)).or_insert(since);
    }
    youngest
}
