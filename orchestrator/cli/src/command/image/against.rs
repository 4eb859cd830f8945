//! `cvc image A --against B`: two images side by side, and the memory areas that only one of them has.

use super::zones::mib;
use cvc_image::{Image, OwnerZone, Part};
use cvc_show::{Blocks, Table};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// Maximum number of areas in the text; JSON has all.
const MAX_AREAS: usize = 20;

/// The comparison of two images, by zone and by area.
#[derive(Serialize)]
pub struct SideBySide<'a> {
    first: Side<'a>,
    second: Side<'a>,
    zones: Vec<ZonePair>,
    areas: Vec<AreaPair>,
}

#[derive(Serialize)]
struct Side<'a> {
    path: &'a Path,
    uncompressed_bytes: u64,
    data_bytes: u64,
}

/// Stored bytes of a zone (by owner) in each image.
#[derive(Serialize)]
struct ZonePair {
    zone: &'static str,
    stored: [u64; 2],
}

/// The regions with the same name and part in each image.
#[derive(Serialize)]
struct AreaPair {
    /// Name of the mapped file without its directory, `[heap]`, or `(no name)`.
    area: String,
    /// Part of the zones by owner that the regions belong to. Private anonymous memory is one part here and not divided further.
    part: &'static str,
    regions: [u64; 2],
    stored: [u64; 2],
}

impl AreaPair {
    fn difference(&self) -> u64 {
        self.stored[0].abs_diff(self.stored[1])
    }

    fn is_in_one(&self) -> bool {
        self.regions.contains(&0)
    }
}

impl<'a> SideBySide<'a> {
    pub fn new(first: &'a Image, second: &'a Image) -> Self {
        let images = [first, second];
        let side = |image: &'a Image| Side {
            path: &image.path,
            uncompressed_bytes: image.uncompressed_bytes,
            data_bytes: image.data_bytes,
        };
        let zone = |zone: OwnerZone| ZonePair {
            zone: zone.as_str(),
            stored: images.map(|image| image.zones.owner.stored.zone(zone)),
        };
        let mut areas: BTreeMap<(Part, String), AreaPair> = BTreeMap::new();
        for (of, image) in images.into_iter().enumerate() {
            for region in &image.regions {
                let area = name(&region.name.to_string());
                let pair = areas.entry((region.part, area.clone()));
                let pair = pair.or_insert(AreaPair {
                    area,
                    part: region.part.as_str(),
                    regions: [0; 2],
                    stored: [0; 2],
                });
                pair.regions[of] += 1;
                pair.stored[of] += region.stored;
            }
        }
        let mut areas: Vec<AreaPair> = areas.into_values().collect();
        areas.sort_by_key(|area| std::cmp::Reverse(area.difference()));
        Self {
            first: side(first),
            second: side(second),
            zones: OwnerZone::ALL.map(zone).into(),
            areas,
        }
    }

    pub fn show(&self, out: &mut Blocks) {
        out.pairs([
            ("first", self.first.path.display().to_string()),
            ("second", self.second.path.display().to_string()),
        ]);
        out.heading("stored data by owner, MiB");
        let mut zones = Table::plain(["zone", "first", "second", "difference"]).right_from(1);
        for pair in &self.zones {
            zones.row([pair.zone.to_owned()].into_iter().chain(cells(pair.stored)));
        }
        let data = [self.first.data_bytes, self.second.data_bytes];
        zones.row(["sum".to_owned()].into_iter().chain(cells(data)));
        out.table(zones);
        let stored = |area: &&AreaPair| area.stored != [0; 2];
        let in_one = |area: &&AreaPair| area.is_in_one();
        self.list(out, "only in one of them, MiB", &|area| {
            stored(&area) && in_one(&area)
        });
        self.list(out, "in both with different sizes, MiB", &|area| {
            !in_one(&area) && area.difference() > 0
        });
    }

    fn list(&self, out: &mut Blocks, heading: &str, which: &dyn Fn(&AreaPair) -> bool) {
        let all: Vec<&AreaPair> = self.areas.iter().filter(|area| which(area)).collect();
        if all.is_empty() {
            return;
        }
        out.heading(heading);
        let header = ["area", "part", "first", "second", "difference"];
        let mut rows = Table::plain(header)
            .right_from(2)
            .narrow("area", cvc_show::Narrow::Shorten);
        let (shown, rest) = all.split_at(all.len().min(MAX_AREAS));
        for area in shown {
            let names = [area.area.clone(), area.part.to_owned()];
            rows.row(names.into_iter().chain(cells(area.stored)));
        }
        if !rest.is_empty() {
            let sum = |of: usize| rest.iter().map(|area| area.stored[of]).sum();
            let names = [format!("{} more", rest.len()), String::new()];
            rows.row(names.into_iter().chain(cells([sum(0), sum(1)])));
        }
        out.table(rows);
    }
}

/// Formats both volumes in MiB, and their difference (second minus first).
fn cells(stored: [u64; 2]) -> [String; 3] {
    let sign = if stored[1] < stored[0] { "-" } else { "+" };
    let difference = mib(stored[0].abs_diff(stored[1]));
    [
        mib(stored[0]),
        mib(stored[1]),
        format!("{sign}{difference}"),
    ]
}

/// Returns a path without its directory: libraries may have other directories on other machines.
fn name(region: &str) -> String {
    let own = region.rsplit('/').next().unwrap_or_default();
    if own.is_empty() {
        "(no name)".to_owned()
    } else {
        own.to_owned()
    }
}
