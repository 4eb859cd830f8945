//! The shipped price table, for plans without an account and without a network.

use indexmap::IndexMap;
use jiff::civil::Date;
use serde::Deserialize;
use std::sync::LazyLock;

/// The shipped table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Date of its figures.
    pub date: Date,
    /// A public IPv4 address, US dollars for an hour.
    pub address_hour: f64,
    /// An hour of one vCPU above the baseline of a burstable type without limit.
    pub credits_vcpu_hour: f64,
    /// From a region to the internet, for 2^30 bytes.
    pub transfer_gb: IndexMap<String, f64>,
    /// Disks of a region, by type.
    pub disks: IndexMap<String, IndexMap<String, DiskPrice>>,
    /// Instances.
    pub types: IndexMap<String, TypePrice>,
}

/// Prices of an EBS volume type.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPrice {
    /// For a GiB and month.
    pub gib_month: f64,
    /// For an operation per second and month.
    pub iops_month: Option<f64>,
    /// Operations per second without charge.
    #[serde(default)]
    pub iops_free: u32,
    /// Number beyond which the price changes.
    pub iops_most: Option<u32>,
    /// For a MiB per second and month.
    pub throughput_month: Option<f64>,
    /// MiB per second without charge.
    #[serde(default)]
    pub throughput_free: u32,
}

/// An instance type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypePrice {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory.
    pub memory_mib: u64,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Share of each vCPU that the price of a burstable type covers, where more is billed.
    pub baseline: Option<f64>,
    /// US dollars for an hour, by region.
    pub usd: IndexMap<String, f64>,
}

/// The table, read once.
pub fn shipped() -> &'static Table {
    // the file is part of the program, and a test reads it
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        toml::from_str(include_str!("prices.toml")).expect("the shipped price table")
    });
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_holds_what_the_thesis_used() {
        let table = shipped();
        for (name, of) in &table.types {
            assert!(
                of.vcpus > 0 && of.memory_mib > 0 && !of.usd.is_empty(),
                "{name}"
            );
            assert!(
                ["x86_64", "arm64"].contains(&of.architecture.as_str()),
                "{name}"
            );
            for (region, usd) in &of.usd {
                assert!((0.001..100.0).contains(usd), "{name} in {region}: {usd}");
                assert!(
                    table.disks.contains_key(region) && table.transfer_gb.contains_key(region),
                    "{region}"
                );
            }
        }
        let usd = |name: &str| table.types[name].usd["us-east-1"];
        assert_eq!(
            (usd("t2.micro"), usd("c3.xlarge"), usd("c3.2xlarge")),
            (0.0116, 0.21, 0.42)
        );
    }

    #[test]
    fn a_larger_type_of_a_family_never_costs_less() {
        let table = shipped();
        for (name, of) in &table.types {
            let family = name.split('.').next().expect("a family");
            for (other, than) in table
                .types
                .iter()
                .filter(|(n, t)| n.starts_with(&format!("{family}.")) && t.vcpus > of.vcpus)
            {
                for (region, usd) in &of.usd {
                    assert!(
                        than.usd.get(region).is_none_or(|larger| larger >= usd),
                        "{other} costs less than {name} in {region}"
                    );
                }
            }
        }
    }
}
