//! Queries how many virtual processors the account may use at the same time.

use crate::{Region, tags::filter};
use aws_sdk_ec2::types::InstanceLifecycleType;
use cvc_cloud::provider::{ErrorKind, ProviderError, Quota, TypeFacts};
use std::collections::{BTreeMap, BTreeSet};

/// Instance families that share a limit, and the codes of that limit for on-demand and for spot instances.
struct Class {
    families: &'static [&'static str],
    on_demand: &'static str,
    spot: Option<&'static str>,
}

/// The groups of families with a shared limit. A family is the letters at the beginning of a type's name: `c` of c5n.18xlarge, `hpc` of
/// hpc6a.48xlarge, `u` of u-6tb1.metal.
const CLASSES: [Class; 10] = [
    Class {
        families: &["a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"],
        on_demand: "L-1216C47A",
        spot: Some("L-34B43A08"),
    },
    Class {
        families: &["f"],
        on_demand: "L-74FC7D96",
        spot: Some("L-88CF9481"),
    },
    Class {
        families: &["g", "gr", "vt"],
        on_demand: "L-DB2E81BA",
        spot: Some("L-3819A6DF"),
    },
    Class {
        families: &["p"],
        on_demand: "L-417A185B",
        spot: Some("L-7212CCBC"),
    },
    Class {
        families: &["x"],
        on_demand: "L-7295265B",
        spot: Some("L-E3A00192"),
    },
    Class {
        families: &["inf"],
        on_demand: "L-1945791B",
        spot: Some("L-B5D1601B"),
    },
    Class {
        families: &["trn"],
        on_demand: "L-2C3B7624",
        spot: Some("L-6B0D517C"),
    },
    Class {
        families: &["dl"],
        on_demand: "L-6E869C2A",
        spot: Some("L-85EED4F7"),
    },
    Class {
        families: &["hpc"],
        on_demand: "L-F7808C92",
        spot: None,
    },
    Class {
        families: &["u"],
        on_demand: "L-43DA4232",
        spot: None,
    },
];

/// Returns the class of a type; `None` if the type has a separate limit.
fn class(instance_type: &str) -> Option<&'static Class> {
    let family = instance_type
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    CLASSES.iter().find(|c| c.families.contains(&family))
}

impl Region {
    pub(crate) async fn vcpus(
        &self,
        instance_type: &TypeFacts,
        spot: bool,
    ) -> Result<Option<Quota>, ProviderError> {
        let what = "asking for the account's limits";
        let Some(class) = class(&instance_type.name) else {
            return Ok(None);
        };
        let Some(code) = (if spot {
            class.spot
        } else {
            Some(class.on_demand)
        }) else {
            return Ok(None);
        };
        let limit = match self
            .ask(what, |s| {
                s.quotas
                    .get_service_quota()
                    .service_code("ec2")
                    .quota_code(code)
                    .send()
            })
            .await
        {
            Ok(answer) => answer.quota().and_then(|q| q.value()),
            Err(e) if e.kind == ErrorKind::Credentials => return Err(e),
            Err(_) => return Ok(None),
        };
        let Some(limit) = limit else { return Ok(None) };
        let used = match self.running_vcpus(what, class, spot).await {
            Ok(used) => used,
            Err(e) if matches!(e.kind, ErrorKind::Denied | ErrorKind::Account) => return Ok(None),
            Err(e) => return Err(e),
        };
        Ok(Some(Quota { limit, used }))
    }

    /// Returns the number of virtual processors of the class in use in the whole account, by cvc or not.
    async fn running_vcpus(
        &self,
        what: &str,
        wanted: &Class,
        spot: bool,
    ) -> Result<f64, ProviderError> {
        let alive = self
            .described(
                what,
                vec![filter("instance-state-name", ["pending", "running"])],
            )
            .await?;
        let mut used = 0.0;
        let mut of_type: BTreeMap<String, f64> = BTreeMap::new();
        for instance in &alive {
            let Some(name) = instance.instance_type().map(|t| t.as_str()) else {
                continue;
            };
            let of_spot = instance.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
            if of_spot != spot || class(name).is_none_or(|c| c.on_demand != wanted.on_demand) {
                continue;
            }
            let vcpus = instance
                .cpu_options()
                .and_then(|c| Some(f64::from(c.core_count()?) * f64::from(c.threads_per_core()?)));
            match vcpus {
                Some(vcpus) => used += vcpus,
                None => *of_type.entry(name.to_owned()).or_default() += 1.0,
            }
        }
        let names: BTreeSet<String> = of_type.keys().cloned().collect();
        if !names.is_empty() {
            for info in self
                .type_infos(&names.into_iter().collect::<Vec<_>>())
                .await?
            {
                let vcpus = info
                    .v_cpu_info()
                    .and_then(|v| v.default_v_cpus())
                    .map_or(0.0, f64::from);
                used += vcpus
                    * info
                        .instance_type()
                        .and_then(|t| of_type.get(t.as_str()))
                        .copied()
                        .unwrap_or(0.0);
            }
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_limits_of_their_families() {
        let of = |name: &str| class(name).map(|c| c.on_demand);
        assert_eq!(of("t2.micro"), Some("L-1216C47A"));
        assert_eq!(of("c5n.18xlarge"), Some("L-1216C47A"));
        assert_eq!(of("is4gen.large"), Some("L-1216C47A"));
        assert_eq!(of("gr6.4xlarge"), Some("L-DB2E81BA"));
        assert_eq!(of("hpc6a.48xlarge"), Some("L-F7808C92"));
        assert_eq!(of("u-6tb1.metal"), Some("L-43DA4232"));
        assert_eq!(of("p4d.24xlarge"), Some("L-417A185B"));
        assert_eq!(of("mac1.metal"), None);
        assert_eq!(of(""), None);
    }
}
