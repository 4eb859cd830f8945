//! Queries what the cloud offers for a site, before any resource is created.

use crate::{
    Region,
    observe::VALUES,
    tags::{filter, literal},
};
use aws_sdk_ec2::types::{
    ArchitectureType, InstanceTypeInfo, LocationType, PlacementGroupStrategy, UsageClassType,
};
use cvc_cloud::provider::{ErrorKind, FleetRequest, Offer, ProviderError, TypeFacts};
use cvc_core::campaign::Market;
use std::collections::{BTreeMap, BTreeSet};

impl Region {
    pub(crate) async fn offer(&self, request: &FleetRequest) -> Result<Offer, ProviderError> {
        let refuse = |message: String| {
            ProviderError::before(ErrorKind::Invalid, "checking the site", &self.name, message)
        };
        let mut types = self.types(&request.instances.instance_types).await?;
        let usable = self
            .usable_zones(request.instances.subnet.as_deref())
            .await?;
        if let Some(unknown) = request
            .instances
            .zones
            .iter()
            .find(|z| !usable.contains(z.as_str()))
        {
            let known = usable
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(refuse(match &request.instances.subnet {
                Some(subnet) => {
                    format!("the subnet {subnet} is not in the zone {unknown}, it is in {known}")
                }
                None => format!(
                    "unknown zone {unknown}, or it has no default subnet; known are {known}"
                ),
            }));
        }
        for facts in &mut types {
            facts.zones.retain(|z| usable.contains(z));
            if request.instances.efa && !facts.efa {
                return Err(refuse(format!(
                    "{} has no Elastic Fabric Adapter",
                    facts.name
                )));
            }
            if request.instances.placement_group == Some(true) && !facts.cluster_placement {
                return Err(refuse(format!(
                    "{} cannot be in a cluster placement group; remove it, or `placement_group = true`",
                    facts.name
                )));
            }
            if request.instances.market == Market::Spot && !facts.spot {
                return Err(refuse(format!(
                    "{} is not available on the spot market",
                    facts.name
                )));
            }
        }
        let architectures: BTreeSet<String> =
            types.iter().map(|t| t.architecture.clone()).collect();
        let images = self
            .images(
                &request.instances.image,
                &architectures.into_iter().collect::<Vec<_>>(),
            )
            .await?;
        if let (Some(size), Some(image)) = (
            request.instances.root.size_gib,
            images.iter().max_by_key(|i| i.root_gib),
        ) && size < image.root_gib
        {
            return Err(refuse(format!(
                "a root volume of {size} GiB is too small: {} needs {} GiB",
                image.name, image.root_gib
            )));
        }
        let caller = if request.instances.allow_from.is_some() {
            None
        } else {
            Some(self.caller().await?)
        };
        Ok(Offer {
            types,
            images,
            caller,
        })
    }

    /// Returns facts about instance types, in the order of the names.
    pub(crate) async fn types(&self, names: &[String]) -> Result<Vec<TypeFacts>, ProviderError> {
        let infos = self.type_infos(names).await?;
        let offered = self.zones_of(names).await?;
        let mut types = Vec::new();
        for name in names {
            let Some(info) = infos
                .iter()
                .find(|i| i.instance_type().is_some_and(|t| t.as_str() == name))
            else {
                let near = self.family(name).await?;
                let near = if near.is_empty() {
                    String::new()
                } else {
                    format!("; its family has {}", near.join(", "))
                };
                let message = format!("unknown instance type {name}{near}");
                return Err(ProviderError::before(
                    ErrorKind::Invalid,
                    "looking for instance types",
                    &self.name,
                    message,
                ));
            };
            let mut facts = facts(info).ok_or_else(|| {
                ProviderError::before(
                    ErrorKind::Invalid,
                    "looking for instance types",
                    &self.name,
                    format!("{name} has no processor that runs Linux"),
                )
            })?;
            facts.zones = offered
                .get(name)
                .map(|z| z.iter().cloned().collect())
                .unwrap_or_default();
            types.push(facts);
        }
        Ok(types)
    }

    /// Returns the cloud's descriptions of instance types; unknown types are left out.
    pub(crate) async fn type_infos(
        &self,
        names: &[String],
    ) -> Result<Vec<InstanceTypeInfo>, ProviderError> {
        let mut infos = Vec::new();
        for names in names.chunks(VALUES) {
            // query by a filter, because a call with an unknown name would fail as a whole
            let values: Vec<String> = names.iter().map(|n| literal(n)).collect();
            let found = self
                .ask("looking for instance types", |s| {
                    let call = s
                        .ec2
                        .describe_instance_types()
                        .filters(filter("instance-type", &values));
                    call.into_paginator()
                        .page_size(100)
                        .items()
                        .send()
                        .try_collect()
                })
                .await?;
            infos.extend(found);
        }
        Ok(infos)
    }

    /// Returns the types of a family, ordered by size, as suggestions.
    async fn family(&self, name: &str) -> Result<Vec<String>, ProviderError> {
        let family = name.split('.').next().unwrap_or_default();
        if family.is_empty()
            || !family
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Ok(Vec::new());
        }
        let like = format!("{family}.*");
        let found = self
            .ask("looking for instance types", |s| {
                let call = s
                    .ec2
                    .describe_instance_types()
                    .filters(filter("instance-type", [like.as_str()]));
                call.into_paginator()
                    .page_size(100)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        let mut known: Vec<(i32, String)> = found
            .iter()
            .filter_map(|i| {
                Some((
                    i.v_cpu_info().and_then(|v| v.default_v_cpus()).unwrap_or(0),
                    i.instance_type()?.as_str().to_owned(),
                ))
            })
            .collect();
        known.sort();
        Ok(known.into_iter().map(|(_, name)| name).take(12).collect())
    }

    /// Returns the zones that offer each type.
    async fn zones_of(
        &self,
        names: &[String],
    ) -> Result<BTreeMap<String, BTreeSet<String>>, ProviderError> {
        let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for names in names.chunks(VALUES) {
            let values: Vec<String> = names.iter().map(|n| literal(n)).collect();
            let found = self
                .ask("looking for zones", |s| {
                    let call = s
                        .ec2
                        .describe_instance_type_offerings()
                        .location_type(LocationType::AvailabilityZone);
                    call.filters(filter("instance-type", &values))
                        .into_paginator()
                        .page_size(PAGE_OF_OFFERS)
                        .items()
                        .send()
                        .try_collect()
                })
                .await?;
            for offer in &found {
                if let (Some(name), Some(zone)) = (offer.instance_type(), offer.location()) {
                    zones
                        .entry(name.as_str().to_owned())
                        .or_default()
                        .insert(zone.to_owned());
                }
            }
        }
        Ok(zones)
    }

    /// Returns the zones in which instances can be launched: the subnet's, or all zones with a default subnet.
    async fn usable_zones(&self, subnet: Option<&str>) -> Result<BTreeSet<String>, ProviderError> {
        let found = self
            .ask("looking for subnets", |s| {
                let call = s.ec2.describe_subnets();
                let call = match subnet {
                    Some(subnet) => call.filters(filter("subnet-id", [subnet])),
                    None => call.filters(filter("default-for-az", ["true"])),
                };
                call.into_paginator().items().send().try_collect()
            })
            .await?;
        let zones: BTreeSet<String> = found
            .iter()
            .filter_map(|s| s.availability_zone().map(str::to_owned))
            .collect();
        if zones.is_empty() {
            let message = match subnet {
                Some(subnet) => format!("unknown subnet {subnet}"),
                None => "the account has no default subnets here: set `subnet`".into(),
            };
            return Err(ProviderError::before(
                ErrorKind::Invalid,
                "looking for subnets",
                &self.name,
                message,
            ));
        }
        Ok(zones)
    }

    pub(crate) async fn enabled_regions(&self) -> Result<Vec<String>, ProviderError> {
        let usable = filter("opt-in-status", ["opt-in-not-required", "opted-in"]);
        let answer = self
            .ask("looking for regions", |s| {
                s.ec2.describe_regions().filters(usable.clone()).send()
            })
            .await?;
        let mut names: Vec<String> = answer
            .regions()
            .iter()
            .filter_map(|r| r.region_name().map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Maximum number of offers in an answer.
const PAGE_OF_OFFERS: i32 = 1000;

/// Converts the description of a type; the zones are not filled in.
pub(crate) fn facts(info: &InstanceTypeInfo) -> Option<TypeFacts> {
    let number = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
    let architectures = info
        .processor_info()
        .map(|p| p.supported_architectures())
        .unwrap_or_default();
    let architecture = if architectures.contains(&ArchitectureType::X8664) {
        "x86_64"
    } else if architectures.contains(&ArchitectureType::Arm64) {
        "arm64"
    } else {
        return None;
    };
    let processors = info.v_cpu_info();
    let vcpus = number(processors.and_then(|v| v.default_v_cpus()))?;
    let store = info.instance_storage_info();
    // the cloud returns this size in GB
    let gigabytes = store
        .and_then(|s| s.total_size_in_gb())
        .and_then(|g| u64::try_from(g).ok())
        .unwrap_or(0);
    let network = info.network_info();
    Some(TypeFacts {
        name: info.instance_type()?.as_str().to_owned(),
        vcpus,
        // some old types lack this number
        cores: number(processors.and_then(|v| v.default_cores()))
            .filter(|c| *c > 0)
            .unwrap_or(vcpus),
        memory_mib: info
            .memory_info()
            .and_then(|m| m.size_in_mib())
            .and_then(|m| u64::try_from(m).ok())
            .unwrap_or(0),
        architecture: architecture.into(),
        network: network
            .and_then(|n| n.network_performance())
            .unwrap_or_default()
            .to_owned(),
        instance_store_gib: gigabytes * 1_000_000_000 / (1 << 30),
        instance_store_disks: store
            .map(|s| s.disks().iter().filter_map(|d| number(d.count())).sum())
            .unwrap_or(0),
        efa: network.and_then(|n| n.efa_supported()).unwrap_or(false),
        cluster_placement: info.placement_group_info().is_some_and(|p| {
            p.supported_strategies()
                .contains(&PlacementGroupStrategy::Cluster)
        }),
        spot: info
            .supported_usage_classes()
            .contains(&UsageClassType::Spot),
        zones: Vec::new(),
    })
}
