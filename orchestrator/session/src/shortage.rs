//! Compares memory and disks of instances with the needs of a plan's points, before anything is launched and paid for.

use cvc_cloud::cost::{PriceBook, machines, machines::StoragePlace};
use cvc_core::campaign::{Ec2Settings, Image, Site, Spec};
use cvc_core::ids::PointId;
use cvc_core::plan::{PointEstimate, fullest_share};
use cvc_core::point::Point;
use cvc_core::units::{counted, size};
use cvc_prediction::space::CheckpointSpace;
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::HashMap;

const GIB: f64 = (1u64 << 30) as f64;

/// A resource that an instance may not have enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShortResource {
    /// Main memory.
    Memory,
    /// Space on the disk where runs store their files.
    Disk,
}

/// The instances of a site do not have enough of a resource for some points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shortage {
    /// The resource.
    pub resource: ShortResource,
    /// The site.
    pub site: String,
    /// Instance type, or name of the disk, that does not have enough.
    pub of: String,
    /// Number of points that need more than there is.
    pub points: usize,
    /// Need of the largest of these points on one node, bytes: the upper end of the estimate.
    pub needed_bytes: u64,
    /// Amount that one node has, bytes.
    pub there_bytes: u64,
}

impl Shortage {
    /// Describes the shortage and the remedy.
    pub fn describe(&self) -> String {
        let Self {
            site,
            of,
            points,
            needed_bytes,
            there_bytes,
            ..
        } = self;
        let need = if *points == 1 { "needs" } else { "need" };
        let (what, hint) = match self.resource {
            ShortResource::Memory => (
                "MEMORY",
                "a larger instance type, fewer processes on a node, or a smaller class".to_owned(),
            ),
            ShortResource::Disk => {
                // leaves room for the system, its programs and the uncertainty of the estimate
                let gib = (1.25 * *needed_bytes as f64 / GIB).ceil() + 4.0;
                (
                    "DISK",
                    format!("a disk of {gib:.0} GiB for the site (`size_gib`), or a smaller class"),
                )
            }
        };
        format!(
            "NOT ENOUGH {what}: {} of the site {site} {need} up to {} on a node, and {of} has {}; hint: {hint}",
            counted(*points, "point"),
            size(*needed_bytes as f64),
            size(*there_bytes as f64)
        )
    }
}

/// Returns where the runs of a point store their files on an instance of this type. The second value tells whether this place has the files of all
/// nodes, because one node exports it by NFS.
pub(crate) fn place(
    site: &Site,
    ec2: &Ec2Settings,
    instance_type: &str,
    storage: &str,
) -> (StoragePlace, bool) {
    let base = site.cluster.as_ref().map_or("", |c| c.base.as_str());
    let directory = site
        .storage
        .get(storage)
        .and_then(|area| area.path.as_deref())
        .unwrap_or(base);
    // home directories are below /home on all images that cvc supports by name
    let directory = &directory
        .strip_prefix('~')
        .map_or_else(|| directory.to_owned(), |rest| format!("/home/user{rest}"));
    let is_exported = ec2.nfs.as_deref().is_some_and(|nfs| {
        directory
            .strip_prefix(nfs.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let mut place = machines::place_of(ec2, instance_type, directory);
    if place.size_gib.is_none() && place.is_root && matches!(ec2.instances.image, Image::Known(_)) {
        place.size_gib = Some(u64::from(machines::ROOT_GIB));
    }
    (place, is_exported)
}

/// Returns the resources that the instances of each site do not have enough of. `memory` has, by point, the memory that all processes of the point
/// need together.
pub(crate) fn find<'p>(
    spec: &Spec,
    prices: &PriceBook,
    points: impl Iterator<Item = (&'p PointId, &'p Point, &'p PointEstimate)>,
    memory: &HashMap<PointId, CheckpointSpace>,
) -> Vec<Shortage> {
    let mut found: IndexMap<(ShortResource, String, String), Shortage> = IndexMap::new();
    for (id, point, estimate) in points {
        let Some((site, ec2)) = spec
            .sites
            .get(&point.site)
            .and_then(|site| Some((site, site.ec2.as_ref()?)))
        else {
            continue;
        };
        // the cloud may launch any of these types
        for name in &ec2.instances.instance_types {
            let share = fullest_share(point);
            let needed = memory.get(id).map(|space| space.bytes as f64 * share);
            let there = prices.facts(name).map(|facts| facts.memory_mib << 20);
            let mut add = |resource, of: String, needed: f64, there: u64| {
                if needed <= there as f64 {
                    return;
                }
                let known = found
                    .entry((resource, point.site.clone(), of.clone()))
                    .or_insert(Shortage {
                        resource,
                        site: point.site.clone(),
                        of,
                        points: 0,
                        needed_bytes: 0,
                        there_bytes: there,
                    });
                known.points += 1;
                known.needed_bytes = known.needed_bytes.max(needed.ceil() as u64);
            };
            if let (Some(needed), Some(there)) = (needed, there) {
                add(ShortResource::Memory, name.clone(), needed, there);
            }
            let (place, is_exported) = place(site, ec2, name, &point.storage);
            if let Some(gib) = place.size_gib {
                let share = if is_exported { 1.0 } else { share };
                let taken = if place.is_root {
                    u64::from(machines::SYSTEM_GIB)
                } else {
                    0
                };
                let of = match taken {
                    0 => format!("the {} of {name}", place.what),
                    taken => format!(
                        "the {} of {name}, without {taken} GiB for system and software,",
                        place.what
                    ),
                };
                add(
                    ShortResource::Disk,
                    of,
                    estimate.peak_bytes as f64 * share,
                    gib.saturating_sub(taken) << 30,
                );
            }
        }
    }
    found.into_values().collect()
}
