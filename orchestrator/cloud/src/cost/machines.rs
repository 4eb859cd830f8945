//! Facts about instance types and volumes, as Amazon publishes them, for plans without an account and without a network.

use cvc_core::campaign::Ec2Settings;
use cvc_core::units::{counted, size};
use indexmap::IndexMap;
use jiff::civil::Date;
use serde::Deserialize;
use std::sync::LazyLock;

/// Size of the root volume, GiB, if neither the campaign file nor the image gives it: the size in the images that cvc supports by name.
pub const ROOT_GIB: u32 = 8;
/// Part of a root volume that system and software use, GiB. On the images that cvc supports by name, the system uses 1 to 2 GiB, and compilers and
/// MPI libraries with their dependencies use 0.7 GiB (the sum of Installed-Size of their packages in Debian 12, November 2026).
pub const SYSTEM_GIB: u32 = 3;
/// Bytes per second in 1 Mbit/s.
const BYTES_OF_MBIT: f64 = 1e6 / 8.0;
/// Bytes in 1 MiB.
const MIB: f64 = cvc_core::units::MIB;

/// The shipped table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BilledMachines {
    /// Date of the facts in the table.
    pub date: Date,
    /// EBS volumes, by type.
    pub volumes: IndexMap<String, VolumeFacts>,
    /// Instances, by type.
    pub types: IndexMap<String, MachineFacts>,
}

/// Facts about an instance type.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFacts {
    /// Architecture: `x86_64` or `arm64`.
    pub architecture: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Physical cores.
    pub cores: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Sustained network bandwidth, 10^9 bits per second.
    pub network_gbit_s: Option<f64>,
    /// Network bandwidth that is possible for some minutes, 10^9 bits per second; `None` if it is not higher than the sustained one.
    pub network_burst_gbit_s: Option<f64>,
    /// Sustained bandwidth to EBS, 10^6 bits per second.
    pub ebs_mbit_s: Option<u32>,
    /// Bandwidth to EBS that is possible for some minutes, 10^6 bits per second; `None` if it is not higher than the sustained one.
    pub ebs_burst_mbit_s: Option<u32>,
    /// Total size of the machine's own disks, 10^9 bytes.
    pub local_gb: Option<u64>,
    /// Share of each vCPU that the price of a burstable type covers. `None` if use beyond such a share is not billed.
    pub baseline: Option<f64>,
}

impl MachineFacts {
    /// Returns whether programs that were built for x86-64 have to be rebuilt for this type.
    pub fn is_arm(&self) -> bool {
        self.architecture == "arm64"
    }

    /// Describes the facts as text.
    pub fn describe(&self) -> String {
        let with_burst = |base: String, burst: Option<String>| match burst {
            Some(burst) => format!("{base} (in bursts {burst})"),
            None => base,
        };
        let mut parts = vec![
            self.architecture.clone(),
            if self.cores == self.vcpus {
                counted(self.vcpus, "vCPU") + ", each a core"
            } else {
                format!(
                    "{} on {}",
                    counted(self.vcpus, "vCPU"),
                    counted(self.cores, "core")
                )
            },
            size(self.memory_mib as f64 * MIB),
        ];
        parts.extend(self.network_gbit_s.map(|base| {
            let burst = self.network_burst_gbit_s.map(|b| b.to_string());
            format!("network {} Gbit/s", with_burst(base.to_string(), burst))
        }));
        parts.extend(self.ebs_mbit_s.map(|base| {
            let burst = self.ebs_burst_mbit_s.map(|b| b.to_string());
            format!("EBS {} Mbit/s", with_burst(base.to_string(), burst))
        }));
        parts.extend(self.local_gb.map(|gb| format!("local disks {gb} GB")));
        parts.join(", ")
    }

    /// Returns the maximum bandwidth to EBS, MiB per second: for some minutes if there is a higher one, otherwise sustained. `None` if unknown.
    pub fn ebs_mib_s(&self) -> Option<f64> {
        let mbit_s = self.ebs_burst_mbit_s.or(self.ebs_mbit_s)?;
        Some(f64::from(mbit_s) * BYTES_OF_MBIT / MIB)
    }
}

/// Maximum rates of an EBS volume type.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeFacts {
    mib_s: f64,
    mib_s_of_iops: Option<f64>,
    mib_s_of_tib: Option<f64>,
    small_gib: Option<u32>,
    small_mib_s: Option<f64>,
}

/// Returns the shipped table, which is parsed once.
pub fn shipped() -> &'static BilledMachines {
    // the file is compiled into the program, and a test parses it
    static TABLE: LazyLock<BilledMachines> = LazyLock::new(|| {
        toml::from_str(include_str!("machines.toml")).expect("the shipped table of instances")
    });
    &TABLE
}

/// Where a directory of an instance is stored: a volume, or the machine's own disks.
#[derive(Clone, Debug, PartialEq)]
pub struct StoragePlace {
    /// Size, GiB; `None` if the image determines it.
    pub size_gib: Option<u64>,
    /// Maximum write bandwidth, MiB per second; `None` if unknown.
    pub mib_s: Option<f64>,
    /// Name of the place, as in `root volume (gp3)`.
    pub what: String,
    /// Whether the place is the root volume.
    pub is_root: bool,
}

/// Returns where a directory of an instance is stored: on the volume or the machine's own disks that are mounted at or above the directory, otherwise
/// on the root volume. A directory that the first node exports by NFS is stored in the same way on that node.
pub fn place_of(ec2: &Ec2Settings, instance_type: &str, directory: &str) -> StoragePlace {
    let table = shipped();
    let facts = table.types.get(instance_type);
    let is_below = |mount: &str| {
        directory
            .strip_prefix(mount.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let volume = ec2
        .instances
        .volumes
        .iter()
        .filter(|v| is_below(&v.mount))
        .max_by_key(|v| v.mount.len());
    let local = ec2
        .instance_store
        .as_deref()
        .filter(|mount| is_below(mount))
        .filter(|mount| volume.is_none_or(|v| v.mount.len() < mount.len()));
    if local.is_some() {
        return StoragePlace {
            size_gib: facts
                .and_then(|f| f.local_gb)
                .map(|gb| (gb as f64 * 1e9 / (1u64 << 30) as f64) as u64),
            mib_s: None,
            what: "disks of the machine".to_owned(),
            is_root: false,
        };
    }
    let root = &ec2.instances.root;
    let (kind, gib, iops, throughput, what) = match volume {
        Some(v) => (
            &v.kind,
            Some(v.size_gib),
            v.iops,
            v.throughput_mib_s,
            format!("volume {} ({})", v.mount, v.kind),
        ),
        None => (
            &root.kind,
            root.size_gib,
            root.iops,
            root.throughput_mib_s,
            format!("root volume ({})", root.kind),
        ),
    };
    let of_volume = volume_mib_s(kind, gib, iops, throughput);
    let of_machine = facts.and_then(MachineFacts::ebs_mib_s);
    StoragePlace {
        size_gib: gib.map(u64::from),
        mib_s: match (of_volume, of_machine) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        },
        what,
        is_root: volume.is_none(),
    }
}

/// Returns the maximum bandwidth of a volume, MiB per second; `None` if unknown.
fn volume_mib_s(
    kind: &str,
    gib: Option<u32>,
    iops: Option<u32>,
    throughput_mib_s: Option<u32>,
) -> Option<f64> {
    let of = shipped().volumes.get(kind)?;
    if let Some(asked) = throughput_mib_s {
        return Some(f64::from(asked));
    }
    let gib = gib.unwrap_or(ROOT_GIB);
    if let (Some(small_gib), Some(small)) = (of.small_gib, of.small_mib_s)
        && gib <= small_gib
    {
        return Some(small);
    }
    let of_iops = of
        .mib_s_of_iops
        .zip(iops)
        .map(|(each, iops)| each * f64::from(iops));
    let of_tib = of.mib_s_of_tib.map(|each| each * f64::from(gib) / 1024.0);
    Some(
        [of_iops, of_tib]
            .into_iter()
            .flatten()
            .fold(of.mib_s, f64::min),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_instances_fit_each_other() {
        let table = shipped();
        assert!(table.types.len() > 250, "{}", table.types.len());
        for (name, of) in &table.types {
            assert!(
                of.cores > 0
                    && matches!(of.vcpus / of.cores, 1 | 2)
                    && of.vcpus.is_multiple_of(of.cores),
                "{name}: {of:?}"
            );
            assert!(of.memory_mib >= 512, "{name}: {of:?}");
            assert!(
                ["x86_64", "arm64"].contains(&of.architecture.as_str()),
                "{name}: {of:?}"
            );
            assert!(!of.is_arm() || of.vcpus == of.cores, "{name}: {of:?}");
            assert!(
                of.network_burst_gbit_s
                    .is_none_or(|burst| of.network_gbit_s.is_some_and(|base| base < burst)),
                "{name}: {of:?}"
            );
            assert!(
                of.ebs_burst_mbit_s
                    .is_none_or(|burst| of.ebs_mbit_s.is_some_and(|base| base < burst)),
                "{name}: {of:?}"
            );
        }
    }

    #[test]
    fn a_larger_size_of_a_family_has_no_less_of_anything() {
        let table = shipped();
        let family = |name: &str| name.split('.').next().map(str::to_owned);
        for (name, of) in &table.types {
            for (other, larger) in table
                .types
                .iter()
                .filter(|(n, t)| family(n) == family(name) && t.vcpus > of.vcpus)
            {
                assert!(
                    larger.memory_mib >= of.memory_mib,
                    "{other} has less memory than {name}"
                );
                let less = |a: Option<f64>, b: Option<f64>| a.zip(b).is_some_and(|(a, b)| b < a);
                assert!(
                    !less(of.network_gbit_s, larger.network_gbit_s)
                        && !less(of.ebs_mib_s(), larger.ebs_mib_s()),
                    "{other} is slower than {name}"
                );
            }
        }
    }

    #[test]
    fn published_figures_are_those_of_the_table() {
        let of = |name: &str| shipped().types[name].clone();
        let c7i = of("c7i.xlarge");
        assert_eq!(
            (
                c7i.vcpus,
                c7i.cores,
                c7i.memory_mib,
                c7i.ebs_mbit_s,
                c7i.network_gbit_s
            ),
            (4, 2, 8192, Some(1250), Some(1.562))
        );
        assert_eq!(of("c7a.xlarge").cores, 4);
        assert_eq!(of("hpc7a.96xlarge").network_gbit_s, Some(300.0));
        assert_eq!(of("hpc6id.32xlarge").local_gb, Some(15_200));
        assert_eq!(
            of("c3.xlarge").network_gbit_s,
            None,
            "published as moderate"
        );
    }

    #[test]
    fn volumes_move_what_is_published_or_what_is_asked_for() {
        assert_eq!(volume_mib_s("gp3", Some(100), None, None), Some(125.0));
        assert_eq!(volume_mib_s("gp3", Some(100), None, Some(500)), Some(500.0));
        assert_eq!(volume_mib_s("gp2", Some(8), None, None), Some(128.0));
        assert_eq!(volume_mib_s("gp2", Some(500), None, None), Some(250.0));
        assert_eq!(
            volume_mib_s("io1", Some(100), Some(1000), None),
            Some(250.0)
        );
        assert_eq!(
            volume_mib_s("io2", Some(100), Some(64_000), None),
            Some(4000.0)
        );
        assert_eq!(volume_mib_s("st1", Some(512), None, None), Some(125.0));
        assert_eq!(volume_mib_s("tape", Some(512), None, None), None);
    }
}
