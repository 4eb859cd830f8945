//! Launches instances with one call, which launches either all or none. Its client token is derived from the lease, so that a repeated call launches
//! no second set.

use crate::{
    Region,
    error::{LostAnswer, RequestEffect, never_arrived, refused},
    observe, tags,
};
use aws_sdk_ec2::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::ProvideErrorMetadata,
    operation::run_instances::{RunInstancesError, builders::RunInstancesFluentBuilder},
    types::{
        BlockDeviceMapping, CreditSpecificationRequest, EbsBlockDevice, HttpTokensState,
        InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceMetadataEndpointState,
        InstanceMetadataOptionsRequest, InstanceNetworkInterfaceSpecification, InstanceType,
        MarketType, Placement, ResourceType, RunInstancesMonitoringEnabled, ShutdownBehavior,
        SpotInstanceType, SpotMarketOptions, VolumeType,
    },
};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{context::InterceptorContext, dyn_dispatch_hint},
        retries::classifiers::{ClassifyRetry, RetryAction},
    },
};
use cvc_cloud::provider::{ErrorKind, Instance, ProviderError, SideEffect};
use cvc_journal::lease::LaunchOrder;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Pauses between attempts, until a new resource is visible everywhere in the cloud.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Older instance families, whose local disks must be requested. Those of all newer families are NVMe disks and always attached.
const ASK_FOR_DISKS: [&str; 15] = [
    "c1", "c3", "cc2", "cr1", "d2", "g2", "hi1", "hs1", "i2", "m1", "m2", "m3", "r3", "x1", "x1e",
];

impl Region {
    pub(crate) async fn run_instances(
        &self,
        order: &LaunchOrder,
    ) -> Result<Vec<Instance>, ProviderError> {
        let what = format!("launching {} {}", order.count, order.instance_type);
        let refuse = |message: String| {
            ProviderError::before(ErrorKind::Invalid, what.clone(), &self.name, message)
        };
        if order.lease().is_empty() {
            return Err(refuse(
                "internal error (please report): the order has no lease".into(),
            ));
        }
        if order.region != self.name {
            return Err(refuse(format!(
                "internal error (please report): the order is for {}",
                order.region
            )));
        }
        let disks = disks(order).map_err(|error| refuse(error.to_string()))?;
        let doubt = LostAnswer::default();
        let mut pauses = PAUSES.iter();
        loop {
            let answer = self
                .call(&what, RequestEffect::Some, &doubt, |session| {
                    let call =
                        request(session.ec2.run_instances(), order, disks.clone()).customize();
                    let of_this = aws_sdk_ec2::config::Config::builder().retry_classifier(NotThere);
                    call.config_override(of_this)
                        .interceptor(Watch::new(&doubt))
                        .send()
                })
                .await;
            match answer {
                Ok(answer) => {
                    let made = answer.instances().iter();
                    return Ok(made
                        .filter_map(|i| observe::instance(i, Some(order.lease())))
                        .collect());
                }
                Err(e) if e.code.as_deref() == Some("IdempotentInstanceTerminated") => {
                    // instances with the token exist, so this order launched them, and they have terminated since
                    let theirs = tags::filter("client-token", [token(order.lease())]);
                    let there = self.instances_with(&what, vec![theirs]).await?;
                    return if there.is_empty() { Err(e) } else { Ok(there) };
                }
                Err(e) if e.kind == ErrorKind::NotFound && e.left == SideEffect::Clear => {
                    match pauses.next() {
                        Some(pause) => tokio::time::sleep(*pause).await,
                        None => return Err(e),
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// Returns the client token of a lease: its name, or a hash of the name if that is too long for a token.
fn token(lease: &str) -> String {
    const MAX_LENGTH: usize = 64;
    if lease.len() <= MAX_LENGTH && lease.is_ascii() {
        return lease.to_owned();
    }
    blake3::hash(lease.as_bytes()).to_hex().to_string()
}

/// Returns the call that launches the instances of a launch order. The same order always gives an identical call, so that a repeated launch is
/// recognized.
fn request(
    call: RunInstancesFluentBuilder,
    order: &LaunchOrder,
    disks: Vec<BlockDeviceMapping>,
) -> RunInstancesFluentBuilder {
    let count = i32::try_from(order.count).unwrap_or(i32::MAX);
    let mut kinds = vec![
        ResourceType::Instance,
        ResourceType::Volume,
        ResourceType::NetworkInterface,
    ];
    if order.spot {
        kinds.push(ResourceType::SpotInstancesRequest);
    }
    let metadata = InstanceMetadataOptionsRequest::builder()
        .http_endpoint(InstanceMetadataEndpointState::Enabled)
        .http_tokens(HttpTokensState::Required)
        .http_put_response_hop_limit(2)
        .build();
    let call = call
        .client_token(token(order.lease()))
        .min_count(count)
        .max_count(count)
        .instance_type(InstanceType::from(order.instance_type.as_str()))
        .image_id(&order.image)
        .key_name(&order.key_name)
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .metadata_options(metadata)
        .monitoring(
            RunInstancesMonitoringEnabled::builder()
                .enabled(false)
                .build(),
        )
        .user_data(aws_smithy_types::base64::encode(order.user_data()))
        .set_block_device_mappings(Some(disks))
        .set_tag_specifications(Some(
            kinds
                .into_iter()
                .map(|k| tags::of_new(k, &order.tags))
                .collect(),
        ))
        .set_credit_specification(order.credits.map(|c| {
            CreditSpecificationRequest::builder()
                .cpu_credits(c.as_str())
                .build()
        }))
        .set_placement(placement(order))
        .set_instance_market_options(market(order));
    if order.efa {
        // an EFA is requested as a network interface, which then has the security group and the subnet
        let adapter = InstanceNetworkInterfaceSpecification::builder()
            .device_index(0)
            .interface_type("efa")
            .groups(&order.group_id)
            .set_subnet_id(order.subnet.clone())
            .delete_on_termination(true)
            .build();
        call.network_interfaces(adapter)
    } else {
        call.security_group_ids(&order.group_id)
            .set_subnet_id(order.subnet.clone())
    }
}

fn placement(order: &LaunchOrder) -> Option<Placement> {
    (order.zone.is_some() || order.placement_group.is_some()).then(|| {
        Placement::builder()
            .set_availability_zone(order.zone.clone())
            .set_group_name(order.placement_group.clone())
            .build()
    })
}

fn market(order: &LaunchOrder) -> Option<InstanceMarketOptionsRequest> {
    order.spot.then(|| {
        let options = SpotMarketOptions::builder()
            .spot_instance_type(SpotInstanceType::OneTime)
            .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
            .set_max_price(order.max_price_usd.map(|p| p.to_string()))
            .build();
        InstanceMarketOptionsRequest::builder()
            .market_type(MarketType::Spot)
            .spot_options(options)
            .build()
    })
}

/// The launch order has more volumes than there are device names.
#[derive(Debug, thiserror::Error)]
#[error("{volumes} further volumes are too many: at most {most} have device names")]
struct TooManyVolumes {
    volumes: usize,
    most: usize,
}

/// Returns the root volume and the further volumes. All are deleted together with their instance.
fn disks(order: &LaunchOrder) -> Result<Vec<BlockDeviceMapping>, TooManyVolumes> {
    let number = |n: Option<u32>| n.and_then(|n| i32::try_from(n).ok());
    let ebs = |kind: &str, size: Option<u32>, iops: Option<u32>, throughput: Option<u32>| {
        EbsBlockDevice::builder()
            .volume_type(VolumeType::from(kind))
            .set_volume_size(number(size))
            .set_iops(number(iops))
            .set_throughput(number(throughput))
            .delete_on_termination(true)
            .set_encrypted(order.encrypted.then_some(true))
            .build()
    };
    let root = &order.root;
    let mut disks = vec![
        BlockDeviceMapping::builder()
            .device_name(&order.root_device)
            .ebs(ebs(
                &root.kind,
                root.size_gib,
                root.iops,
                root.throughput_mib_s,
            ))
            .build(),
    ];
    for (index, volume) in order.volumes.iter().enumerate() {
        let name = LaunchOrder::device_of(index).ok_or(TooManyVolumes {
            volumes: order.volumes.len(),
            most: index,
        })?;
        let ebs = ebs(
            &volume.kind,
            Some(volume.size_gib),
            volume.iops,
            volume.throughput_mib_s,
        );
        disks.push(
            BlockDeviceMapping::builder()
                .device_name(name)
                .ebs(ebs)
                .build(),
        );
    }
    let family = order.instance_type.split('.').next().unwrap_or_default();
    if ASK_FOR_DISKS.contains(&family) {
        // the cloud ignores disks that the type does not have
        let own = ('b'..='e').enumerate();
        disks.extend(own.map(|(n, letter)| {
            BlockDeviceMapping::builder()
                .device_name(format!("/dev/sd{letter}"))
                .virtual_name(format!("ephemeral{n}"))
                .build()
        }));
    }
    Ok(disks)
}

/// Makes the SDK treat insufficient capacity as final. The cloud reports it with status 500, which the SDK would retry, but a retry in the same zone
/// only costs time, while another zone may have capacity.
#[derive(Debug)]
struct NotThere;

impl ClassifyRetry for NotThere {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context
            .output_or_error()
            .and_then(Result::err)
            .and_then(|e| e.as_operation_error());
        let code = error
            .and_then(|e| e.downcast_ref::<RunInstancesError>())
            .and_then(|e| e.code());
        if code.is_some_and(|c| c.starts_with("Insufficient")) {
            RetryAction::RetryForbidden
        } else {
            RetryAction::NoActionIndicated
        }
    }

    fn name(&self) -> &'static str {
        "NotThere"
    }
}

/// Observes every attempt of a launch, including retries by the SDK: an attempt whose answer was lost may have launched instances, whatever the
/// answers to later attempts are.
#[derive(Debug)]
struct Watch {
    doubt: LostAnswer,
    /// Whether an attempt was sent. Before that, a call can only fail without effect, for example because credentials are missing.
    under_way: AtomicBool,
}

impl Watch {
    fn new(doubt: &LostAnswer) -> Self {
        Self {
            doubt: doubt.clone(),
            under_way: AtomicBool::new(false),
        }
    }
}

#[dyn_dispatch_hint]
impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "Watch"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.under_way.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let under_way = self.under_way.swap(false, Ordering::Relaxed);
        let Some(Err(error)) = context.output_or_error() else {
            return Ok(());
        };
        let lost = match context.response() {
            Some(response) => {
                let answer = error
                    .as_operation_error()
                    .and_then(|e| e.downcast_ref::<RunInstancesError>());
                !refused(
                    answer.and_then(|e| e.code()),
                    Some(response.status().as_u16()),
                )
            }
            None => under_way && !error.as_connector_error().is_some_and(|e| never_arrived(e)),
        };
        if lost {
            self.doubt.raise();
        }
        Ok(())
    }
}
