//! The cloud's resources, as tests use them.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr};

use xmltree::Element;

use super::{world::World, xml};

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Identifier: `i-...`.
    pub id: String,
    /// Address for the laptop and for other instances.
    pub address: Ipv4Addr,
    /// Instance type.
    pub kind: String,
    /// Identifier of the image.
    pub image: String,
    /// Region of the instance.
    pub region: String,
    /// Availability zone of the instance.
    pub zone: String,
    /// State: `pending`, `running`, `shutting-down`, `terminated`, `stopped`.
    pub state: String,
    /// Whether it is a spot instance.
    pub is_spot: bool,
    /// Placement group of the instance.
    pub placement_group: Option<String>,
    /// Client token of the launch.
    pub client_token: Option<String>,
    /// User data of the instance.
    pub user_data: Option<Vec<u8>>,
    /// Tags of the instance.
    pub tags: BTreeMap<String, String>,
}

/// All resources left in the cloud that cost money or prevent later work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Instances that are not terminated.
    pub instances: Vec<String>,
    /// Volumes.
    pub volumes: Vec<String>,
    /// Security groups besides the default ones, by name.
    pub security_groups: Vec<String>,
    /// Key pairs, by name.
    pub key_pairs: Vec<String>,
    /// Placement groups, by name.
    pub placement_groups: Vec<String>,
    /// Spot requests that are open or active.
    pub spot_requests: Vec<String>,
    /// Network interfaces, launch templates and addresses.
    pub others: Vec<String>,
}

impl Leftovers {
    fn parts(&self) -> [(&'static str, &[String]); 7] {
        [
            ("instances", &self.instances),
            ("volumes", &self.volumes),
            ("security groups", &self.security_groups),
            ("key pairs", &self.key_pairs),
            ("placement groups", &self.placement_groups),
            ("spot requests", &self.spot_requests),
            ("others", &self.others),
        ]
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|(_, list)| list.is_empty())
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let shortened = |list: &[String]| match list.len() {
            0..=8 => list.join(", "),
            more => format!("{} and {} more", list[..8].join(", "), more - 8),
        };
        let some: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}: {}", shortened(list)))
            .collect();
        f.write_str(
            if some.is_empty() {
                "nothing".to_owned()
            } else {
                some.join("\n")
            }
            .as_str(),
        )
    }
}

/// Lists moto's resources of one kind in a region.
fn listed(world: &World, region: &str, action: &str, list: &str, name: &str) -> Vec<String> {
    match world.moto.ask(region, action, &[]) {
        Ok(answer) => xml::items(&answer, list)
            .filter_map(|item| xml::text(item, name))
            .collect(),
        Err(e) => vec![format!("(unknown: {e})")],
    }
}

/// Lists everything left in all regions that received any request.
pub(super) fn list_leftovers(world: &World) -> Leftovers {
    world.on_network(|world| {
        let mut left = Leftovers::default();
        let regions = {
            let state = world.lock();
            left.instances.extend(
                state
                    .machines
                    .iter()
                    .filter(|m| m.is_alive())
                    .map(|m| m.id.clone()),
            );
            left.placement_groups
                .extend(state.groups.iter().map(|g| g.name.clone()));
            left.spot_requests.extend(
                state
                    .requests
                    .iter()
                    .filter(|r| r.is_open())
                    .map(|r| r.id.clone()),
            );
            state.regions.clone()
        };
        for region in &regions {
            let of =
                |action: &str, list: &str, name: &str| listed(world, region, action, list, name);
            left.volumes
                .extend(of("DescribeVolumes", "volumeSet", "volumeId"));
            left.key_pairs
                .extend(of("DescribeKeyPairs", "keySet", "keyName"));
            left.security_groups.extend(
                of("DescribeSecurityGroups", "securityGroupInfo", "groupName")
                    .into_iter()
                    .filter(|g| g != "default"),
            );
            left.others.extend(of(
                "DescribeNetworkInterfaces",
                "networkInterfaceSet",
                "networkInterfaceId",
            ));
            left.others.extend(of(
                "DescribeLaunchTemplates",
                "launchTemplates",
                "launchTemplateName",
            ));
            left.others
                .extend(of("DescribeAddresses", "addressesSet", "publicIp"));
        }
        left
    })
}

/// Lists all instances ever launched, in the order of their launches.
pub(super) fn list_instances(world: &World) -> Vec<Instance> {
    let regions: Vec<String> = world.lock().regions.iter().cloned().collect();
    let ask = |world: &World| -> Vec<Element> {
        regions
            .iter()
            .filter_map(|r| {
                world
                    .moto
                    .ask(r, "DescribeInstances", &[("MaxResults", "100000")])
                    .ok()
            })
            .collect()
    };
    let answers = world.on_network(ask);
    let mut tags: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for item in answers
        .iter()
        .flat_map(|a| xml::items(a, "reservationSet"))
        .flat_map(|r| xml::items(r, "instancesSet"))
    {
        if let Some(id) = xml::text(item, "instanceId") {
            tags.insert(id, xml::tags_of(item).into_iter().collect());
        }
    }
    let state = world.lock();
    let all = state.machines.iter().map(|m| Instance {
        id: m.id.clone(),
        address: m.address,
        kind: m.kind.clone(),
        image: m.image.clone(),
        region: m.region.clone(),
        zone: m.zone.clone(),
        state: m.phase().name().to_owned(),
        is_spot: m.spot.is_some(),
        placement_group: m.placement.clone(),
        client_token: m.token.clone(),
        user_data: m.user_data.clone(),
        tags: tags.remove(&m.id).unwrap_or_default(),
    });
    all.collect()
}
