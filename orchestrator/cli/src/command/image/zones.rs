//! Tables of zone sums, and the rule sets in tables of several images.

use crate::args::image::RuleSet;
use cvc_image::{OwnerSums, OwnerZone, Part, RuleSums, Zone, Zones};
use cvc_show::{Table, format};

/// Formats bytes in MiB.
pub fn mib(bytes: u64) -> String {
    format::mib(bytes as f64)
}

/// A table with a row for each zone, one for the file's header and end, and one for the sum.
struct ZoneTable(Table);

impl ZoneTable {
    fn new() -> Self {
        let header = ["zone", "virtual", "accessible", "stored", "with headers"];
        Self(Table::plain(header).right_from(1))
    }

    fn add(&mut self, name: impl Into<String>, bytes: [u64; 4]) {
        self.0.row([name.into()].into_iter().chain(bytes.map(mib)));
    }

    fn finish(mut self, fixed: u64, [of_virtual, accessible, stored, headers]: [u64; 4]) -> Table {
        let empty = String::new;
        let name = "file header, end".to_owned();
        self.0.row([name, empty(), empty(), empty(), mib(fixed)]);
        let headers = headers.saturating_add(fixed);
        self.add("sum", [of_virtual, accessible, stored, headers]);
        self.0
    }
}

/// Returns the table for the literal or the structural rules.
pub fn by_rules(sums: &RuleSums, fixed: u64) -> Table {
    let figures = [
        &sums.r#virtual,
        &sums.accessible,
        &sums.stored,
        &sums.stored_with_headers,
    ];
    let mut table = ZoneTable::new();
    for zone in Zone::ALL {
        table.add(zone.as_str(), figures.map(|bytes| bytes.get(zone)));
    }
    table.finish(fixed, figures.map(|bytes| bytes.sum()))
}

/// Returns the table for the owner rules, with the parts of each zone.
pub fn by_owner(sums: &OwnerSums, fixed: u64) -> Table {
    let figures = [
        &sums.r#virtual,
        &sums.accessible,
        &sums.stored,
        &sums.stored_with_headers,
    ];
    let mut table = ZoneTable::new();
    for zone in OwnerZone::ALL {
        table.add(zone.as_str(), figures.map(|bytes| bytes.zone(zone)));
        let parts = || Part::ALL.into_iter().filter(|part| part.zone() == zone);
        for part in parts().filter(|_| parts().count() > 1) {
            let name = format!("  {}", part.as_str());
            table.add(name, figures.map(|bytes| bytes.get(part)));
        }
    }
    table.finish(fixed, figures.map(|bytes| bytes.sum()))
}

/// A rule set by which images are divided into zones; each gets its own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTitle {
    Owner,
    Literal,
    Structural,
}

impl RuleTitle {
    /// Returns a table for each rule set that the option selects.
    pub fn of(rules: RuleSet) -> &'static [Self] {
        match rules {
            RuleSet::Owner => &[Self::Owner],
            RuleSet::Literal => &[Self::Literal],
            RuleSet::Structural => &[Self::Structural],
            RuleSet::Both => &[Self::Literal, Self::Structural],
        }
    }

    /// Returns the words for headings, such as `by the literal rules`.
    pub fn by(self) -> &'static str {
        match self {
            Self::Owner => "by owner",
            Self::Literal => "by the literal rules",
            Self::Structural => "by the structural rules",
        }
    }

    /// Returns the headings of the zone columns.
    pub fn headings(self) -> impl Iterator<Item = &'static str> {
        let rest = (self == Self::Owner).then_some(OwnerZone::Rest.as_str());
        Zone::ALL.into_iter().map(Zone::as_str).chain(rest)
    }

    /// Returns the stored bytes of each zone, in the order of [`Self::headings`].
    pub fn stored(self, zones: &Zones) -> Vec<u64> {
        match self {
            Self::Owner => OwnerZone::ALL
                .map(|zone| zones.owner.stored.zone(zone))
                .to_vec(),
            Self::Literal => Zone::ALL
                .map(|zone| zones.literal.stored.get(zone))
                .to_vec(),
            Self::Structural => Zone::ALL
                .map(|zone| zones.structural.stored.get(zone))
                .to_vec(),
        }
    }
}
