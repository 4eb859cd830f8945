//! Observes instances and their status, and terminates instances.

use crate::{Region, tags};
use aws_sdk_ec2::{
    primitives::DateTime,
    types::{
        self, Filter, InstanceLifecycleType, InstanceStateName, InstanceStatusSummary,
        SummaryStatus,
    },
};
use cvc_cloud::provider::{ErrorKind, Health, Instance, InstanceState, ProviderError};
use cvc_core::ids::LeaseId;
use jiff::Timestamp;

/// Maximum number of entries in one answer of the cloud.
pub(crate) const PAGE: i32 = 1000;
/// Maximum number of instances that a call may name.
const NAMED: usize = 100;
/// Maximum number of values in a filter.
pub(crate) const VALUES: usize = 200;

impl Region {
    pub(crate) async fn instances_of(&self, fleet: &str) -> Result<Vec<Instance>, ProviderError> {
        self.instances_with("looking for instances", tags::ours(None, Some(fleet)))
            .await
    }

    /// Returns the instances that match the filters.
    pub(crate) async fn instances_with(
        &self,
        what: &str,
        filters: Vec<Filter>,
    ) -> Result<Vec<Instance>, ProviderError> {
        let found = self.described(what, filters).await?;
        Ok(found.iter().filter_map(|i| instance(i, None)).collect())
    }

    /// Returns the instances that match the filters, in the SDK's form.
    pub(crate) async fn described(
        &self,
        what: &str,
        filters: Vec<Filter>,
    ) -> Result<Vec<types::Instance>, ProviderError> {
        self.described_by(what, filters, PAGE).await
    }

    async fn described_by(
        &self,
        what: &str,
        filters: Vec<Filter>,
        page: i32,
    ) -> Result<Vec<types::Instance>, ProviderError> {
        let reservations = self
            .ask(what, |s| {
                s.ec2
                    .describe_instances()
                    .set_filters(Some(filters.clone()))
                    .into_paginator()
                    .page_size(page)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        Ok(reservations
            .into_iter()
            .flat_map(|r| r.instances.unwrap_or_default())
            .collect())
    }

    pub(crate) async fn checks_of(
        &self,
        fleet: &str,
    ) -> Result<Vec<(String, Health)>, ProviderError> {
        let instances = self.instances_of(fleet).await?;
        let running: Vec<String> = instances
            .into_iter()
            .filter(|i| i.state == InstanceState::Running)
            .map(|i| i.id)
            .collect();
        let mut all = Vec::new();
        for ids in running.chunks(NAMED) {
            // query by a filter, because a call that names a missing instance would fail
            let answer = self
                .ask("asking for the cloud's checks", |s| {
                    s.ec2
                        .describe_instance_status()
                        .set_instance_ids(Some(ids.to_vec()))
                        .include_all_instances(true)
                        .send()
                })
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(e) if e.kind == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            for status in answer.instance_statuses() {
                let Some(id) = status.instance_id() else {
                    continue;
                };
                let checks = [
                    ("instance", status.instance_status()),
                    ("system", status.system_status()),
                ];
                all.push((id.to_owned(), health(&checks)));
            }
        }
        Ok(all)
    }

    pub(crate) async fn end_instances(&self, ids: &[String]) -> Result<(), ProviderError> {
        let what = format!("terminating {} instances", ids.len());
        for ids in ids.chunks(VALUES) {
            match self
                .order(&what, |s| {
                    s.ec2
                        .terminate_instances()
                        .set_instance_ids(Some(ids.to_vec()))
                        .send()
                })
                .await
            {
                Ok(_) => {}
                // one unknown instance fails the whole call, so search the existing ones first
                Err(e) if e.kind == ErrorKind::NotFound => {
                    let there = self
                        .instances_with(&what, vec![tags::filter("instance-id", ids)])
                        .await?;
                    let there: Vec<String> = there
                        .into_iter()
                        .filter(|i| i.state != InstanceState::Terminated)
                        .map(|i| i.id)
                        .collect();
                    if !there.is_empty() {
                        self.order(&what, |s| {
                            s.ec2
                                .terminate_instances()
                                .set_instance_ids(Some(there.clone()))
                                .send()
                        })
                        .await?;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Converts an instance. `lease` is used if the answer does not contain the tags yet.
pub(crate) fn instance(seen: &types::Instance, lease: Option<&str>) -> Option<Instance> {
    let given = |text: Option<&str>| text.filter(|t| !t.is_empty()).map(str::to_owned);
    let internal = given(seen.private_ip_address());
    let reason = given(seen.state_reason().and_then(|r| r.code()))
        .or_else(|| given(seen.state_transition_reason()));
    Some(Instance {
        id: seen.instance_id()?.to_owned(),
        lease: tags::read(seen.tags())
            .and_then(|t| t.lease)
            .or_else(|| lease.map(LeaseId::from))
            .unwrap_or_default(),
        state: state(seen.state().and_then(|s| s.name())),
        address: given(seen.public_ip_address())
            .or_else(|| given(seen.public_dns_name()))
            .or_else(|| internal.clone()),
        internal,
        zone: seen
            .placement()
            .and_then(|p| p.availability_zone())
            .unwrap_or_default()
            .to_owned(),
        instance_type: seen
            .instance_type()
            .map(|t| t.as_str().to_owned())
            .unwrap_or_default(),
        spot: seen.instance_lifecycle() == Some(&InstanceLifecycleType::Spot),
        launched: time(seen.launch_time()),
        reason,
    })
}

fn state(name: Option<&InstanceStateName>) -> InstanceState {
    match name {
        Some(InstanceStateName::Running) => InstanceState::Running,
        Some(InstanceStateName::ShuttingDown | InstanceStateName::Stopping) => {
            InstanceState::Ending
        }
        Some(InstanceStateName::Stopped) => InstanceState::Stopped,
        Some(InstanceStateName::Terminated) => InstanceState::Terminated,
        _ => InstanceState::Pending,
    }
}

/// Returns the problem that the cloud's checks of the instance and its host report, if any.
fn health(checks: &[(&str, Option<&InstanceStatusSummary>)]) -> Health {
    let message = |s: &InstanceStatusSummary| {
        let failed = s
            .details()
            .iter()
            .filter(|d| d.status().is_some_and(|s| s.as_str() == "failed"));
        let failed: Vec<&str> = failed
            .filter_map(|d| d.name().map(|n| n.as_str()))
            .collect();
        if failed.is_empty() {
            "impaired".to_owned()
        } else {
            format!("{} failed", failed.join(", "))
        }
    };
    let impaired: Vec<String> = checks
        .iter()
        .filter_map(|(name, summary)| {
            let summary = summary.filter(|s| s.status() == Some(&SummaryStatus::Impaired))?;
            Some(format!("{name} status check: {}", message(summary)))
        })
        .collect();
    if !impaired.is_empty() {
        return Health::Impaired(impaired.join("; "));
    }
    let fine = |s: &Option<&InstanceStatusSummary>| {
        s.and_then(|s| s.status())
            .is_some_and(|s| matches!(s, SummaryStatus::Ok | SummaryStatus::NotApplicable))
    };
    if checks.iter().all(|(_, s)| fine(s)) {
        Health::Ok
    } else {
        Health::Unknown
    }
}

/// Converts a time of the SDK.
pub(crate) fn time(at: Option<&DateTime>) -> Option<Timestamp> {
    at.and_then(|t| Timestamp::from_second(t.secs()).ok())
}

#[cfg(test)]
mod tests {
    use crate::Ec2;
    use aws_sdk_ec2::types::InstanceType;
    use cvc_cloud::provider::Account;
    use cvc_testkit::{
        Cloud, Tool,
        cloud::{ACCESS_KEY, SECRET_KEY},
        require,
    };

    #[test]
    fn instances_are_asked_for_page_by_page() {
        require!(Tool::Moto);
        let cloud = Cloud::without_nodes();
        let directory = tempfile::tempdir().expect("a directory");
        let profiles = directory.path().join("config");
        let profile = format!(
            "[profile test]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        );
        std::fs::write(&profiles, profile).expect("a profile");
        let account = Account {
            region: Some("us-east-1".into()),
            profile: Some("test".into()),
            endpoint: Some(cloud.endpoint()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (found, asked) = runtime.block_on(async {
            let region = Ec2::with_profiles(&profiles)
                .region(&account)
                .await
                .expect("a region");
            let call = region
                .session()
                .ec2
                .run_instances()
                .image_id(cloud.image("x86_64"))
                .instance_type(InstanceType::T3Micro);
            call.min_count(12)
                .max_count(12)
                .send()
                .await
                .expect("instances");
            (
                region
                    .described_by("testing", Vec::new(), 5)
                    .await
                    .expect("an answer"),
                cloud.count("DescribeInstances"),
            )
        });
        assert_eq!((found.len(), asked), (12, 3));
    }
}
