//! Finds all resources of cvc in a region by their tags alone.

use crate::{
    Region,
    observe::{self, PAGE},
    tags,
};
use aws_sdk_ec2::types::{
    InstanceLifecycleType, InstanceStateName, PlacementGroupState, SpotInstanceState, Tag,
};
use cvc_cloud::provider::{Discovery, ErrorKind, ProviderError, Resource, ResourceKind};

/// The kinds of resources in the order of the queries, most expensive first.
const KINDS: [ResourceKind; 6] = [
    ResourceKind::Instance,
    ResourceKind::SpotRequest,
    ResourceKind::Volume,
    ResourceKind::PlacementGroup,
    ResourceKind::SecurityGroup,
    ResourceKind::KeyPair,
];

impl Region {
    pub(crate) async fn everything_of(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Discovery {
        let mut all = Discovery::default();
        // query the most expensive kinds first
        for kind in KINDS {
            let found = match kind {
                ResourceKind::Instance => self.our_instances(owner, fleet).await,
                ResourceKind::SpotRequest => self.our_spot_requests(owner, fleet).await,
                ResourceKind::Volume => self.our_volumes(owner, fleet).await,
                ResourceKind::PlacementGroup => self.our_placement_groups(owner, fleet).await,
                ResourceKind::SecurityGroup => self.our_security_groups(owner, fleet).await,
                ResourceKind::KeyPair => self.our_key_pairs(owner, fleet).await,
            };
            match found {
                Ok(found) => all.found.extend(found),
                Err(error) => {
                    // the other queries would fail as well, each after its time limit
                    let no_query_can_succeed =
                        matches!(error.kind, ErrorKind::Credentials | ErrorKind::Unreachable);
                    all.refused.push(error);
                    if no_query_can_succeed {
                        break;
                    }
                }
            }
        }
        // resources with a fleet but no owner were not created by cvc; and a filter may match more than it should
        all.found.retain(|r| {
            owner.is_none_or(|o| r.tags.owner == o) && fleet.is_none_or(|f| r.tags.fleet == f)
        });
        all
    }

    fn resource(
        &self,
        kind: ResourceKind,
        id: Option<&str>,
        tags: &[Tag],
        state: &str,
    ) -> Option<Resource> {
        Some(Resource {
            kind,
            id: id?.to_owned(),
            region: self.name.clone(),
            tags: tags::read(tags)?,
            state: state.to_owned(),
            since: None,
            instance_type: None,
            spot: false,
            size_gib: None,
            volume_type: None,
        })
    }

    async fn our_instances(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let mut filters = tags::ours(owner, fleet);
        filters.push(tags::filter(
            "instance-state-name",
            ["pending", "running", "shutting-down", "stopping", "stopped"],
        ));
        let found = self.described("looking for instances", filters).await?;
        let there = found.iter().filter_map(|i| {
            let state = i.state().and_then(|s| s.name());
            if state == Some(&InstanceStateName::Terminated) {
                return None;
            }
            let mut one = self.resource(
                ResourceKind::Instance,
                i.instance_id(),
                i.tags(),
                state.map_or("", |s| s.as_str()),
            )?;
            one.since = observe::time(i.launch_time());
            one.instance_type = i.instance_type().map(|t| t.as_str().to_owned());
            one.spot = i.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
            Some(one)
        });
        Ok(there.collect())
    }

    async fn our_spot_requests(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let filters = tags::ours(owner, fleet);
        let found = self
            .ask("looking for spot requests", |s| {
                let call = s
                    .ec2
                    .describe_spot_instance_requests()
                    .set_filters(Some(filters.clone()));
                call.into_paginator()
                    .page_size(PAGE)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        let there = found.iter().filter_map(|r| {
            // a request in another state is only listed for a while, and can launch nothing
            if !matches!(
                r.state(),
                Some(
                    SpotInstanceState::Open
                        | SpotInstanceState::Active
                        | SpotInstanceState::Disabled
                )
            ) {
                return None;
            }
            let state = r.state().map_or("", |s| s.as_str());
            let mut one = self.resource(
                ResourceKind::SpotRequest,
                r.spot_instance_request_id(),
                r.tags(),
                state,
            )?;
            one.since = observe::time(r.create_time());
            Some(one)
        });
        Ok(there.collect())
    }

    async fn our_volumes(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let filters = tags::ours(owner, fleet);
        let found = self
            .ask("looking for volumes", |s| {
                s.ec2
                    .describe_volumes()
                    .set_filters(Some(filters.clone()))
                    .into_paginator()
                    .page_size(500)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        let there = found.iter().filter_map(|v| {
            let state = v.state().map_or("", |s| s.as_str());
            if matches!(state, "deleting" | "deleted") {
                return None;
            }
            let mut one = self.resource(ResourceKind::Volume, v.volume_id(), v.tags(), state)?;
            one.since = observe::time(v.create_time());
            one.size_gib = v.size().and_then(|s| u32::try_from(s).ok());
            one.volume_type = v.volume_type().map(|t| t.as_str().to_owned());
            Some(one)
        });
        Ok(there.collect())
    }

    async fn our_placement_groups(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let filters = tags::ours(owner, fleet);
        let what = "looking for placement groups";
        let found = self
            .ask(what, |s| {
                s.ec2
                    .describe_placement_groups()
                    .set_filters(Some(filters.clone()))
                    .send()
            })
            .await?;
        let there = found.placement_groups().iter().filter_map(|g| {
            let state = g.state().filter(|s| {
                !matches!(
                    s,
                    PlacementGroupState::Deleted | PlacementGroupState::Deleting
                )
            })?;
            self.resource(
                ResourceKind::PlacementGroup,
                g.group_name(),
                g.tags(),
                state.as_str(),
            )
        });
        Ok(there.collect())
    }

    async fn our_security_groups(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let filters = tags::ours(owner, fleet);
        let found = self
            .ask("looking for security groups", |s| {
                let call = s
                    .ec2
                    .describe_security_groups()
                    .set_filters(Some(filters.clone()));
                call.into_paginator()
                    .page_size(PAGE)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        let there = found
            .iter()
            .filter_map(|g| self.resource(ResourceKind::SecurityGroup, g.group_id(), g.tags(), ""));
        Ok(there.collect())
    }

    async fn our_key_pairs(
        &self,
        owner: Option<&str>,
        fleet: Option<&str>,
    ) -> Result<Vec<Resource>, ProviderError> {
        let filters = tags::ours(owner, fleet);
        let found = self
            .ask("looking for key pairs", |s| {
                s.ec2
                    .describe_key_pairs()
                    .set_filters(Some(filters.clone()))
                    .send()
            })
            .await?;
        let there = found.key_pairs().iter().filter_map(|k| {
            let mut one = self.resource(ResourceKind::KeyPair, k.key_name(), k.tags(), "")?;
            one.since = observe::time(k.create_time());
            Some(one)
        });
        Ok(there.collect())
    }
}
