//! The literal rule, which classifies by the order of the listing alone, and sums of classified regions by zone and sub-zone.

use super::{
    model::Region,
    zones::{RuleSums, SubZone, Zone, Zones},
};

/// Path prefixes of shared memory.
const SHARED_PATHS: [&[u8]; 6] = [
    b"/dev/shm/",
    b"/SYSV",
    b"/dev/zero",
    b"/dev/hugepages",
    b"/dev/infiniband",
    b"/memfd:",
];

/// Returns whether the region has the shared flag or a path of shared memory.
pub(super) fn is_shared_memory(region: &Region) -> bool {
    region.flags & super::area::MAP_SHARED != 0
        || SHARED_PATHS
            .iter()
            .any(|prefix| region.name.as_bytes().starts_with(prefix))
}

/// Returns whether the name is a file path, in contrast to names such as `[heap]`.
pub(super) fn is_path(region: &Region) -> bool {
    region.name.as_bytes().starts_with(b"/")
}

/// Applies the literal rule: everything up to `[heap]` is application data. Without `[heap]`, everything is. If the heap has several lines (runs,
/// in layouts A and B), the last line counts.
pub(super) fn classify_literal(regions: &mut [Region]) {
    let data_ends = regions
        .iter()
        .rposition(|region| region.name.as_bytes() == b"[heap]")
        .unwrap_or(regions.len());
    for (i, region) in regions.iter_mut().enumerate() {
        region.literal = if i <= data_ends {
            Zone::Dtapp
        } else if is_path(region) && !is_shared_memory(region) {
            Zone::Lb
        } else {
            Zone::Shmem
        };
    }
}

fn add_region(sums: &mut RuleSums, zone: Zone, region: &Region) {
    sums.r#virtual.add(zone, region.virtual_bytes());
    if region.is_accessible() {
        sums.accessible.add(zone, region.virtual_bytes());
    }
    sums.stored.add(zone, region.stored);
    sums.stored_with_headers
        .add(zone, region.stored + region.headers * super::PAGE as u64);
}

/// Returns the sums by zone over classified regions.
pub(super) fn sum(regions: &[Region]) -> Zones {
    let mut zones = Zones::default();
    for region in regions {
        add_region(&mut zones.literal, region.literal, region);
        add_region(&mut zones.structural, region.zone, region);
    }
    zones
}

/// Returns the sums by sub-zone over classified regions, in the order in which the sub-zones first occur.
pub(super) fn sub_zones(regions: &[Region]) -> Vec<SubZone> {
    let mut sums: Vec<SubZone> = Vec::new();
    for region in regions {
        let found = sums
            .iter()
            .position(|sum| sum.sub == region.sub)
            .unwrap_or_else(|| {
                sums.push(SubZone {
                    zone: region.zone,
                    sub: region.sub,
                    n: 0,
                    r#virtual: 0,
                    accessible: 0,
                    stored: 0,
                    headers: 0,
                });
                sums.len() - 1
            });
        let sum = &mut sums[found];
        sum.n += 1;
        sum.r#virtual = sum.r#virtual.saturating_add(region.virtual_bytes());
        if region.is_accessible() {
            sum.accessible = sum.accessible.saturating_add(region.virtual_bytes());
        }
        sum.stored += region.stored;
        sum.headers += region.headers;
    }
    sums
}
