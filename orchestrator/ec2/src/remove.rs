//! Removes resources in the order of their dependencies, and waits until they have disappeared or the time limit is reached.

use crate::{Region, observe::VALUES, session::ClientSet, tags};
use aws_sdk_ec2::types::VolumeState;
use cvc_cloud::provider::{ErrorKind, InstanceState, ProviderError, Resource, ResourceKind};
use cvc_sites::backoff::Delays;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Delay between the first two queries of resources that are being removed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum delay between queries.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Callback that receives progress messages.
type ProgressReport<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Delays between queries for resources that are being removed; short at first, because some resources disappear at once.
struct PollDelays {
    delays: Delays,
    until: Instant,
}

impl PollDelays {
    fn new(until: Instant) -> Self {
        Self {
            delays: Delays::doubling(FIRST_PAUSE, MAX_PAUSE),
            until,
        }
    }

    /// Waits until the next query is due; returns `false` if the time limit does not allow another one.
    async fn pass(&mut self) -> bool {
        let rest = self.until.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            sleep(self.delays.next_delay().min(rest)).await;
        }
        !rest.is_zero()
    }
}

impl Region {
    pub(crate) async fn remove_all(
        &self,
        resources: &[Resource],
        limit_s: f64,
        report: ProgressReport<'_>,
    ) -> Result<Vec<(Resource, String)>, ProviderError> {
        let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::from_secs(24 * 3600));
        let until = Instant::now() + limit;
        let (mine, others): (Vec<&Resource>, Vec<&Resource>) =
            resources.iter().partition(|r| r.region == self.name);
        let mut left: Vec<(Resource, String)> = others
            .into_iter()
            .map(|r| {
                (
                    r.clone(),
                    format!("it is in {}, not in {}", r.region, self.name),
                )
            })
            .collect();
        let of = |kind: ResourceKind| -> Vec<&Resource> {
            mine.iter().copied().filter(|r| r.kind == kind).collect()
        };
        // terminate first, since instances cost the most and later calls may be refused or slow; the result is checked below
        let instances: Vec<String> = mine
            .iter()
            .filter(|r| r.kind == ResourceKind::Instance)
            .map(|r| r.id.clone())
            .collect();
        let mut asked = false;
        if !instances.is_empty() {
            report(format!(
                "terminating {} instances in {}",
                instances.len(),
                self.name
            ));
            match self.end_instances(&instances).await {
                Ok(()) => asked = true,
                Err(e) => report(e.to_string()),
            }
        }
        // an open request could still launch an instance
        self.remove_each(&of(ResourceKind::SpotRequest), until, report, &mut left)
            .await;
        self.remove_instances(&of(ResourceKind::Instance), until, asked, &mut left)
            .await;
        let volumes = self.standing_volumes(of(ResourceKind::Volume)).await;
        self.remove_each(&volumes, until, report, &mut left).await;
        self.remove_each(&of(ResourceKind::PlacementGroup), until, report, &mut left)
            .await;
        let groups = of(ResourceKind::SecurityGroup);
        self.part(&groups, report).await;
        self.remove_each(&groups, until, report, &mut left).await;
        self.remove_each(&of(ResourceKind::KeyPair), until, report, &mut left)
            .await;
        Ok(left)
    }

    async fn remove_instances(
        &self,
        instances: &[&Resource],
        until: Instant,
        mut asked: bool,
        left: &mut Vec<(Resource, String)>,
    ) {
        let mut there: BTreeSet<String> = instances.iter().map(|r| r.id.clone()).collect();
        let mut looks = PollDelays::new(until);
        let mut reason = "it has not ended in time".to_owned();
        while !there.is_empty() {
            let ids: Vec<String> = there.iter().cloned().collect();
            let step = if asked {
                self.alive(&ids).await.map(|alive| there = alive)
            } else {
                self.end_instances(&ids).await.map(|()| asked = true)
            };
            if let Err(e) = step {
                reason = e.to_string();
                if !e.later() {
                    break;
                }
            }
            if !there.is_empty() && !looks.pass().await {
                break;
            }
        }
        left.extend(
            instances
                .iter()
                .filter(|r| there.contains(&r.id))
                .map(|r| ((*r).clone(), reason.clone())),
        );
    }

    /// Returns which of these instances have not terminated yet.
    async fn alive(&self, ids: &[String]) -> Result<BTreeSet<String>, ProviderError> {
        let mut alive = BTreeSet::new();
        for ids in ids.chunks(VALUES) {
            // query by a filter, so that a missing instance is not an error
            let seen = self
                .instances_with(
                    "waiting for instances to end",
                    vec![tags::filter("instance-id", ids)],
                )
                .await?;
            alive.extend(
                seen.into_iter()
                    .filter(|i| i.state != InstanceState::Terminated)
                    .map(|i| i.id),
            );
        }
        Ok(alive)
    }

    /// Returns the volumes that were not deleted together with their instances; all volumes if this is unknown.
    async fn standing_volumes<'r>(&self, volumes: Vec<&'r Resource>) -> Vec<&'r Resource> {
        let mut standing = BTreeSet::new();
        for some in volumes.chunks(VALUES) {
            let there = self
                .ask("looking for volumes", |s| {
                    let call = s.ec2.describe_volumes().filters(tags::filter(
                        "volume-id",
                        some.iter().map(|v| v.id.as_str()),
                    ));
                    call.into_paginator()
                        .page_size(500)
                        .items()
                        .send()
                        .try_collect()
                })
                .await;
            let Ok(there) = there else { return volumes };
            let there = there.into_iter().filter(|v| {
                !matches!(
                    v.state(),
                    Some(VolumeState::Deleting | VolumeState::Deleted)
                )
            });
            standing.extend(there.filter_map(|v| v.volume_id));
        }
        volumes
            .into_iter()
            .filter(|v| standing.contains(&v.id))
            .collect()
    }

    /// Removes resources of one kind, and retries resources that are still in use.
    async fn remove_each(
        &self,
        resources: &[&Resource],
        until: Instant,
        report: ProgressReport<'_>,
        left: &mut Vec<(Resource, String)>,
    ) {
        let mut looks = PollDelays::new(until);
        let mut rest: Vec<(&Resource, Option<ProviderError>)> =
            resources.iter().map(|r| (*r, None)).collect();
        loop {
            let mut again = Vec::new();
            for (resource, before) in rest {
                match self.remove_one(resource).await {
                    Ok(()) => report(format!(
                        "removed {} {} in {}",
                        resource.kind, resource.id, self.name
                    )),
                    Err(e) if e.later() => {
                        if before.is_none() {
                            report(format!(
                                "{} {} in {} cannot be removed yet: {}",
                                resource.kind, resource.id, self.name, e.message
                            ));
                        }
                        again.push((resource, Some(e)));
                    }
                    Err(e) => left.push((resource.clone(), e.to_string())),
                }
            }
            rest = again;
            if rest.is_empty() || !looks.pass().await {
                break;
            }
        }
        left.extend(
            rest.into_iter()
                .map(|(r, e)| (r.clone(), e.map_or_else(String::new, |e| e.to_string()))),
        );
    }

    async fn remove_one(&self, resource: &Resource) -> Result<(), ProviderError> {
        let (what, id) = (
            format!("removing {} {}", resource.kind, resource.id),
            resource.id.as_str(),
        );
        let answer = match resource.kind {
            ResourceKind::Instance => self.end_instances(&[id.to_owned()]).await,
            ResourceKind::SpotRequest => self
                .order(&what, |s| {
                    s.ec2
                        .cancel_spot_instance_requests()
                        .spot_instance_request_ids(id)
                        .send()
                })
                .await
                .map(drop),
            ResourceKind::Volume => self
                .order(&what, |s| s.ec2.delete_volume().volume_id(id).send())
                .await
                .map(drop),
            ResourceKind::PlacementGroup => self
                .order(&what, |s| {
                    s.ec2.delete_placement_group().group_name(id).send()
                })
                .await
                .map(drop),
            ResourceKind::SecurityGroup => self
                .order(&what, |s| s.ec2.delete_security_group().group_id(id).send())
                .await
                .map(drop),
            ResourceKind::KeyPair => self
                .order(&what, |s| s.ec2.delete_key_pair().key_name(id).send())
                .await
                .map(drop),
        };
        match answer {
            Err(e) if e.kind == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes the rules by which the groups refer to other groups, because two groups that refer to each other cannot be removed in any order.
    /// Errors are ignored here, since the removal of the groups reports them.
    async fn part(&self, groups: &[&Resource], report: ProgressReport<'_>) {
        for group in groups {
            let what = format!("looking for rules of {}", group.id);
            let rules = self
                .ask(&what, |s| {
                    let call = s
                        .ec2
                        .describe_security_group_rules()
                        .filters(tags::filter("group-id", [group.id.as_str()]));
                    call.into_paginator()
                        .page_size(1000)
                        .items()
                        .send()
                        .try_collect()
                })
                .await;
            let Ok(rules) = rules else { continue };
            let others = rules.iter().filter(|r| {
                r.referenced_group_info()
                    .and_then(|g| g.group_id())
                    .is_some_and(|g| g != group.id)
            });
            let (mut inward, mut outward) = (Vec::new(), Vec::new());
            for rule in others {
                let Some(id) = rule.security_group_rule_id().map(str::to_owned) else {
                    continue;
                };
                if rule.is_egress() == Some(true) {
                    outward.push(id)
                } else {
                    inward.push(id)
                }
            }
            let what = format!("removing rules of {}", group.id);
            let mut failed = Vec::new();
            if !inward.is_empty() {
                let call = |s: &ClientSet| {
                    s.ec2
                        .revoke_security_group_ingress()
                        .group_id(&group.id)
                        .set_security_group_rule_ids(Some(inward.clone()))
                        .send()
                };
                failed.extend(self.order(&what, call).await.err());
            }
            if !outward.is_empty() {
                let call = |s: &ClientSet| {
                    s.ec2
                        .revoke_security_group_egress()
                        .group_id(&group.id)
                        .set_security_group_rule_ids(Some(outward.clone()))
                        .send()
                };
                failed.extend(self.order(&what, call).await.err());
            }
            failed.into_iter().for_each(|e| report(e.to_string()));
        }
    }
}
