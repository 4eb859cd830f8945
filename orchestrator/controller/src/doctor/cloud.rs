//! Checks the requirements of a site in a cloud before its machines exist: the program for its nodes, credentials, the cloud's offer, a quota, and
//! Ansible.

use super::{
    check::{CheckState, DoctorCheck},
    program,
};
use camino::Utf8Path;
use cvc_cloud::cost::machines;
use cvc_cloud::provider::{Account, Clouds, FleetRequest, Provider, ProviderError, TypeFacts};
use cvc_core::campaign::{Ec2Settings, Market};
use std::{sync::Arc, time::Duration};

/// Time limit for all queries of the cloud.
const LIMIT: Duration = Duration::from_secs(60);

/// Checks a site in a cloud, without launching or creating anything there.
pub async fn examine(
    ec2: &Ec2Settings,
    node_program: &Utf8Path,
    clouds: Option<&Arc<dyn Clouds>>,
    report: &mut dyn FnMut(String),
) -> Vec<DoctorCheck> {
    let types = &machines::shipped().types;
    let needed = ec2.instances.instance_types.iter().filter_map(|name| {
        let facts = types.get(name)?;
        Some((name.as_str(), facts.architecture.as_str()))
    });
    let mut checks = vec![program::examine(node_program, needed)];
    if ec2.install {
        checks.push(ansible().await);
    }
    let Some(clouds) = clouds else {
        checks.push(DoctorCheck::new(
            "EC2",
            CheckState::Bad,
            "this cvc was built without EC2: it can plan for instances, but not launch them",
            "build it with the feature `ec2` (on by default)",
        ));
        return checks;
    };
    report(format!("querying the cloud in {}", ec2.region));
    match tokio::time::timeout(LIMIT, ask(ec2, clouds.as_ref())).await {
        Ok(found) => checks.extend(found),
        Err(_) => checks.push(DoctorCheck::new(
            "credentials",
            CheckState::Bad,
            format!("{} did not answer within {} s", ec2.region, LIMIT.as_secs()),
            "check the network, the proxy and `endpoint`",
        )),
    }
    checks
}

fn failed(what: &str, error: &ProviderError) -> DoctorCheck {
    let hint = error.hint().unwrap_or_default();
    DoctorCheck::new(what, CheckState::Bad, error.to_string(), hint)
}

async fn ask(ec2: &Ec2Settings, clouds: &dyn Clouds) -> Vec<DoctorCheck> {
    let provider = match clouds.open(&Account::of(ec2)).await {
        Ok(provider) => provider,
        Err(error) => return vec![failed("credentials", &error)],
    };
    let offer = match provider.describe_offer(&FleetRequest::of(ec2)).await {
        Ok(offer) => offer,
        Err(error) => return vec![failed("credentials, types and image", &error)],
    };
    let mut checks = vec![DoctorCheck::good(
        "credentials",
        format!("{} answers", ec2.region),
    )];
    for facts in &offer.types {
        let image = offer.image_for(facts);
        checks.push(match image {
            Some(image) if !facts.zones.is_empty() => DoctorCheck::good(
                facts.name.clone(),
                format!("in {}; image {}", facts.zones.join(", "), image.name),
            ),
            Some(_) => DoctorCheck::new(
                facts.name.clone(),
                CheckState::Bad,
                format!("no zone of {} offers it", ec2.region),
                "choose another type or region",
            ),
            None => DoctorCheck::new(
                facts.name.clone(),
                CheckState::Bad,
                format!("the image has no version for {}", facts.architecture),
                "choose another `image`",
            ),
        });
        checks.push(quota(ec2, provider.as_ref(), facts).await);
    }
    checks
}

/// Checks whether the account may have the number of instances that the site requests.
async fn quota(ec2: &Ec2Settings, provider: &dyn Provider, facts: &TypeFacts) -> DoctorCheck {
    let what = format!("quota of {}", facts.name);
    let spot = ec2.instances.market != Market::OnDemand;
    let needed = f64::from(facts.vcpus) * f64::from(ec2.instances.nodes);
    match provider.quota(facts, spot).await {
        Ok(Some(quota)) if quota.used + needed <= quota.limit => DoctorCheck::good(
            what,
            format!(
                "{needed} vCPUs of {}, {} are in use",
                quota.limit, quota.used
            ),
        ),
        Ok(Some(quota)) => DoctorCheck::new(
            what,
            CheckState::Bad,
            format!(
                "{} instances need {needed} vCPUs; the account's limit is {}, and {} are in use",
                ec2.instances.nodes, quota.limit, quota.used
            ),
            "request more vCPUs in the console under Service Quotas, or use fewer or smaller instances",
        ),
        Ok(None) => DoctorCheck::new(
            what,
            CheckState::Skipped,
            "the cloud does not report it",
            "",
        ),
        Err(error) => failed(&what, &error),
    }
}

/// Checks whether the software of campaigns can be installed on fresh instances, which needs Ansible.
async fn ansible() -> DoctorCheck {
    match cvc_sites::install::ansible::look().await {
        Ok(found) => DoctorCheck::good("Ansible", found),
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            DoctorCheck::new("Ansible", CheckState::Bad, error.to_string(), hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use cvc_cloud::provider::{
        Discovery, FleetOrder, Health, ImageFacts, Instance, Offer, PreparedFleet, Quota, Quote,
        Resource,
    };
    use cvc_journal::lease::LaunchOrder;
    use cvc_sites::provider_error::ErrorKind;
    use jiff::Timestamp;

    /// A cloud with one instance type that answers queries and refuses everything else.
    #[derive(Clone, Debug)]
    struct Asked {
        limit: f64,
        has_credentials: bool,
    }

    fn refused(kind: ErrorKind) -> ProviderError {
        ProviderError::before(kind, "asking", "us-east-1", "no credentials are configured")
    }

    fn never<T>() -> Result<T, ProviderError> {
        Err(refused(ErrorKind::Other))
    }

    #[async_trait]
    impl Clouds for Asked {
        async fn open(&self, _: &Account) -> Result<Arc<dyn Provider>, ProviderError> {
            Ok(Arc::new(self.clone()))
        }
    }

    #[async_trait]
    impl Provider for Asked {
        fn region(&self) -> &str {
            "us-east-1"
        }

        async fn describe_offer(&self, _: &FleetRequest) -> Result<Offer, ProviderError> {
            if !self.has_credentials {
                return Err(refused(ErrorKind::Credentials));
            }
            let facts = TypeFacts {
                name: "c7i.large".into(),
                vcpus: 2,
                cores: 1,
                memory_mib: 4096,
                architecture: "x86_64".into(),
                network: String::new(),
                instance_store_gib: 0,
                instance_store_disks: 0,
                efa: false,
                cluster_placement: true,
                spot: true,
                zones: vec!["us-east-1a".into()],
            };
            let image: ImageFacts = serde_json::from_value(serde_json::json!({
                "id": "ami-1", "name": "debian", "architecture": "x86_64", "user": "admin",
                "root_device": "/dev/xvda", "root_gib": 8
            }))
            .expect("an image");
            Ok(Offer {
                types: vec![facts],
                images: vec![image],
                caller: None,
            })
        }

        async fn quota(&self, _: &TypeFacts, _: bool) -> Result<Option<Quota>, ProviderError> {
            Ok(Some(Quota {
                limit: self.limit,
                used: 3.0,
            }))
        }

        async fn prepare(&self, _: &FleetOrder) -> Result<PreparedFleet, ProviderError> {
            never()
        }

        async fn launch(&self, _: &LaunchOrder) -> Result<Vec<Instance>, ProviderError> {
            never()
        }

        async fn observe(&self, _: &str) -> Result<Vec<Instance>, ProviderError> {
            never()
        }

        async fn health(&self, _: &str) -> Result<Vec<(String, Health)>, ProviderError> {
            never()
        }

        async fn terminate(&self, _: &[String]) -> Result<(), ProviderError> {
            never()
        }

        async fn mark_expiry(&self, _: &[String], _: Timestamp) -> Result<(), ProviderError> {
            never()
        }

        async fn discover(&self, _: Option<&str>, _: Option<&str>) -> Discovery {
            Discovery {
                found: Vec::new(),
                refused: vec![refused(ErrorKind::Other)],
            }
        }

        async fn remove(
            &self,
            _: &[Resource],
            _: f64,
            _: &(dyn Fn(String) + Send + Sync),
        ) -> Result<Vec<(Resource, String)>, ProviderError> {
            never()
        }

        async fn regions(&self) -> Result<Vec<String>, ProviderError> {
            never()
        }

        async fn prices(&self, _: &[String], _: bool) -> Result<Vec<Quote>, ProviderError> {
            never()
        }
    }

    async fn states(cloud: &Asked) -> Vec<(String, CheckState, String)> {
        let text = "schema = 1\nname = 'x'\n[sites.cloud]\nkind = 'ec2'\n\
            ec2 = { region = 'us-east-1', instance_types = ['c7i.large'], nodes = 2 }\n\
            [matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 1\n";
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
        let spec = cvc_core::campaign::load_text(std::path::Path::new("x.toml"), text, &[apps])
            .unwrap_or_else(|e| panic!("{e}"));
        let ec2 = spec.sites["cloud"].ec2.as_ref().expect("settings");
        ask(ec2, cloud)
            .await
            .into_iter()
            .map(|check| (check.what, check.state, check.hint))
            .collect()
    }

    #[tokio::test]
    async fn credentials_types_and_quotas_are_queried_and_nothing_is_launched() {
        let good = states(&Asked {
            limit: 8.0,
            has_credentials: true,
        })
        .await;
        let names: Vec<&str> = good.iter().map(|(what, ..)| what.as_str()).collect();
        assert_eq!(names, ["credentials", "c7i.large", "quota of c7i.large"]);
        assert!(
            good.iter().all(|(_, state, _)| *state == CheckState::Good),
            "{good:?}"
        );
        // two instances of two vCPUs in addition to three that are in use
        let short = states(&Asked {
            limit: 6.0,
            has_credentials: true,
        })
        .await;
        assert_eq!(short[2].1, CheckState::Bad);
        assert!(short[2].2.contains("Service Quotas"), "{short:?}");
        let none = states(&Asked {
            limit: 8.0,
            has_credentials: false,
        })
        .await;
        assert_eq!((none.len(), none[0].1), (1, CheckState::Bad));
        assert!(none[0].2.contains("aws configure"), "{none:?}");
    }
}
