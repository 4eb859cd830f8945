//! What a site of a cloud needs before its machines exist: the program for its nodes, credentials, what the cloud offers, a quota, and Ansible.

use super::{
    check::{Check, State},
    program,
};
use camino::Utf8Path;
use cvc_cloud::cost::machines;
use cvc_cloud::provider::{Account, Clouds, FleetRequest, Provider, ProviderError, TypeFacts};
use cvc_core::campaign::{Ec2Settings, Market};
use std::{sync::Arc, time::Duration};

/// Time limit for all that is asked of the cloud.
const LIMIT: Duration = Duration::from_secs(60);

/// Checks a site of a cloud; nothing is launched or made there.
pub async fn examine(
    ec2: &Ec2Settings,
    node_program: &Utf8Path,
    clouds: Option<&Arc<dyn Clouds>>,
    tell: &mut dyn FnMut(String),
) -> Vec<Check> {
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
        checks.push(Check::new(
            "EC2",
            State::Bad,
            "this cvc was built without EC2: it can plan for instances, but not launch them",
            "build it with the feature `ec2` (on by default)",
        ));
        return checks;
    };
    tell(format!("asking the cloud in {}", ec2.region));
    match tokio::time::timeout(LIMIT, ask(ec2, clouds.as_ref())).await {
        Ok(found) => checks.extend(found),
        Err(_) => checks.push(Check::new(
            "credentials",
            State::Bad,
            format!("{} did not answer within {} s", ec2.region, LIMIT.as_secs()),
            "look at the network, a proxy and `endpoint`",
        )),
    }
    checks
}

fn failed(what: &str, error: &ProviderError) -> Check {
    let hint = error.hint().unwrap_or_default();
    Check::new(what, State::Bad, error.to_string(), hint)
}

async fn ask(ec2: &Ec2Settings, clouds: &dyn Clouds) -> Vec<Check> {
    let provider = match clouds.open(&Account::of(ec2)).await {
        Ok(provider) => provider,
        Err(error) => return vec![failed("credentials", &error)],
    };
    let offer = match provider.describe_offer(&FleetRequest::of(ec2)).await {
        Ok(offer) => offer,
        Err(error) => return vec![failed("credentials, types and image", &error)],
    };
    let mut checks = vec![Check::good(
        "credentials",
        format!("{} answers", ec2.region),
    )];
    for facts in &offer.types {
        let image = offer.image_for(facts);
        checks.push(match image {
            Some(image) if !facts.zones.is_empty() => Check::good(
                facts.name.clone(),
                format!("in {}; image {}", facts.zones.join(", "), image.name),
            ),
            Some(_) => Check::new(
                facts.name.clone(),
                State::Bad,
                format!("no zone of {} has it", ec2.region),
                "choose another type or region",
            ),
            None => Check::new(
                facts.name.clone(),
                State::Bad,
                format!("the image has no version for {}", facts.architecture),
                "choose another `image`",
            ),
        });
        checks.push(quota(ec2, provider.as_ref(), facts).await);
    }
    checks
}

/// Whether the account may have as many instances as the site wants.
async fn quota(ec2: &Ec2Settings, provider: &dyn Provider, facts: &TypeFacts) -> Check {
    let what = format!("quota of {}", facts.name);
    let spot = ec2.instances.market != Market::OnDemand;
    let needed = f64::from(facts.vcpus) * f64::from(ec2.instances.nodes);
    match provider.quota(facts, spot).await {
        Ok(Some(quota)) if quota.used + needed <= quota.limit => Check::good(
            what,
            format!("{needed} vCPUs of {}, {} are in use", quota.limit, quota.used),
        ),
        Ok(Some(quota)) => Check::new(
            what,
            State::Bad,
            format!(
                "{} instances need {needed} vCPUs; the account may have {}, and {} are in use",
                ec2.instances.nodes, quota.limit, quota.used
            ),
            "ask for more vCPUs in the console under Service Quotas, or use fewer or smaller instances",
        ),
        Ok(None) => Check::new(what, State::Skipped, "the cloud does not tell it", ""),
        Err(error) => failed(&what, &error),
    }
}

/// Whether what campaigns need can be installed on fresh instances.
async fn ansible() -> Check {
    match cvc_sites::install::ansible::look().await {
        Ok(found) => Check::good("Ansible", found),
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            Check::new("Ansible", State::Bad, error.to_string(), hint)
        }
    }
}
