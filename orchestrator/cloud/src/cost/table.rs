//! The shipped price table, for plans without an account and without a network.

use indexmap::IndexMap;
use jiff::civil::Date;
use serde::Deserialize;
use std::sync::LazyLock;

/// Hourly prices of instances, US dollars, by region and type.
type PriceList = IndexMap<String, IndexMap<String, f64>>;

/// The shipped table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSheet {
    /// Date of all prices in the table except those of instances.
    pub date: Date,
    /// Price of a public IPv4 address for an hour, US dollars.
    pub address_hour: f64,
    /// Price of a vCPU hour that an unlimited burstable type uses above its baseline, US dollars, by family of types.
    pub credits_vcpu_hour: IndexMap<String, f64>,
    /// Price of a transfer of 2^30 bytes from a region to the internet, US dollars.
    pub transfer_gb: IndexMap<String, f64>,
    /// Prices of EBS volumes, by region and type.
    pub disks: IndexMap<String, IndexMap<String, DiskPrice>>,
    /// Prices of instances, by the date of the price list.
    pub lists: IndexMap<Date, PriceList>,
}

impl PriceSheet {
    /// Returns the newest price of an instance type in a region, US dollars for an hour, and its date.
    pub fn instance(&self, region: &str, instance_type: &str) -> Option<(f64, Date)> {
        self.lists
            .iter()
            .filter_map(|(date, list)| Some((*list.get(region)?.get(instance_type)?, *date)))
            .max_by_key(|(_, date)| *date)
    }

    /// Returns the regions in which the price of an instance type is known.
    pub fn regions_with(&self, instance_type: &str) -> Vec<&str> {
        let mut regions: Vec<&str> = self
            .lists
            .values()
            .flatten()
            .filter(|(_, types)| types.contains_key(instance_type))
            .map(|(region, _)| region.as_str())
            .collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }
}

/// Prices of an EBS volume type, US dollars.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPrice {
    /// Price of 1 GiB for a month.
    pub gib_month: f64,
    /// Monthly price of one I/O operation per second beyond those included.
    pub iops_month: Option<f64>,
    /// Number of I/O operations per second that are included in the price of the volume.
    #[serde(default)]
    pub iops_free: u32,
    /// Number of I/O operations per second beyond which another price applies, which the table does not have.
    pub iops_most: Option<u32>,
    /// Monthly price of 1 MiB per second beyond the included throughput.
    pub throughput_month: Option<f64>,
    /// Throughput that is included in the price of the volume, MiB per second.
    #[serde(default)]
    pub throughput_free: u32,
}

/// Returns the shipped table, which is parsed once.
pub fn shipped() -> &'static PriceSheet {
    // the file is compiled into the program, and a test parses it
    static TABLE: LazyLock<PriceSheet> = LazyLock::new(|| {
        toml::from_str(include_str!("prices.toml")).expect("the shipped price table")
    });
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::machines;

    #[test]
    fn the_table_is_whole_and_holds_what_the_thesis_used() {
        let table = shipped();
        for (date, list) in &table.lists {
            for (region, types) in list {
                assert!(
                    table.disks.contains_key(region) && table.transfer_gb.contains_key(region),
                    "{region}"
                );
                for (name, usd) in types {
                    assert!((0.001..200.0).contains(usd), "{name} in {region}: {usd}");
                    assert!(
                        machines::shipped().types.contains_key(name),
                        "{date}: nothing is known of {name}"
                    );
                }
            }
        }
        let usd = |name: &str| table.instance("us-east-1", name).expect("a price").0;
        assert_eq!(
            (usd("t2.micro"), usd("c3.xlarge"), usd("c3.2xlarge")),
            (0.0116, 0.21, 0.42)
        );
    }

    #[test]
    fn a_larger_type_of_a_family_never_costs_less() {
        let vcpus = |name: &str| machines::shipped().types[name].vcpus;
        for (region, types) in shipped().lists.values().flatten() {
            for (name, usd) in types {
                let family = name.split('.').next().expect("a family");
                for (other, larger) in types
                    .iter()
                    .filter(|(n, _)| n.starts_with(&format!("{family}.")) && vcpus(n) > vcpus(name))
                {
                    assert!(larger >= usd, "{other} costs less than {name} in {region}");
                }
            }
        }
    }

    #[test]
    fn the_newest_list_that_has_a_type_counts() {
        let table = shipped();
        let date = |region: &str| {
            table
                .instance(region, "c7i.xlarge")
                .map(|(_, date)| date.to_string())
        };
        assert_eq!(date("us-east-1").as_deref(), Some("2026-07-20"));
        assert_eq!(date("eu-west-1").as_deref(), Some("2025-11-03"));
        assert_eq!(date("mars-north-1"), None);
        assert_eq!(
            table.regions_with("hpc7a.96xlarge"),
            ["eu-north-1", "eu-west-1", "us-east-2"]
        );
    }
}
