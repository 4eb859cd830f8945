//! Clients of AWS's services, made from the user's configuration.

use aws_config::{
    AppName, BehaviorVersion, Region, SdkConfig, profile::ProfileFileCredentialsProvider,
    provider_config::ProviderConfig, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_types::service_config::ServiceConfigKey;
use cvc_cloud::provider::{Account, ErrorKind, ProviderError};
use std::{path::Path, time::Duration};

/// Maximum number of attempts of a call.
const ATTEMPTS: u32 = 6;
/// Delay before the second attempt; the delay doubles with each further one up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit of one attempt; launching many instances takes about ten seconds.
const ATTEMPT: Duration = Duration::from_secs(60);
/// Time limit of a call with all its attempts.
const CALL: Duration = Duration::from_secs(240);

/// Clients that share an identity (credentials). The identity is requested at the first call, and again before it expires if the expiry is known.
pub(crate) struct ClientSet {
    pub(crate) region: String,
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) pricing: aws_sdk_pricing::Client,
    pub(crate) quotas: aws_sdk_servicequotas::Client,
    /// Address of the EC2 service; `None` for AWS itself.
    pub(crate) endpoint: Option<String>,
}

impl ClientSet {
    /// Reads the user's environment and files. Makes at most one network call, to find the region (on instances).
    pub(crate) async fn load(
        account: &Account,
        profiles: Option<&Path>,
    ) -> Result<Self, ProviderError> {
        let retries = RetryConfig::standard()
            .with_max_attempts(ATTEMPTS)
            .with_initial_backoff(FIRST_PAUSE)
            .with_max_backoff(MAX_PAUSE);
        let limits = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .operation_timeout(CALL)
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .retry_config(retries)
            .timeout_config(limits);
        if let Ok(name) = AppName::new("cvc") {
            loader = loader.app_name(name);
        }
        if let Some(region) = &account.region {
            loader = loader.region(Region::new(region.clone()));
        }
        let files = profiles.map(|file| {
            EnvConfigFiles::builder()
                .with_file(EnvConfigFileKind::Config, file)
                .build()
        });
        if let Some(profile) = &account.profile {
            // A profile named by the site takes precedence over keys in the environment, which may belong to another account.
            let of_region = match &account.region {
                Some(region) => {
                    ProviderConfig::without_region().with_region(Some(Region::new(region.clone())))
                }
                None => ProviderConfig::with_default_region().await,
            };
            let mut provider = ProfileFileCredentialsProvider::builder()
                .configure(&of_region)
                .profile_name(profile);
            if let Some(files) = &files {
                provider = provider.profile_files(files.clone());
            }
            loader = loader
                .profile_name(profile)
                .credentials_provider(provider.build());
        }
        if let Some(files) = files {
            loader = loader.profile_files(files);
        }
        if let Some(endpoint) = &account.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let config = loader.load().await;
        let Some(region) = config.region().map(ToString::to_string) else {
            let message =
                "no region is given: set `region`, AWS_REGION, or the region of the profile";
            return Err(ProviderError::before(
                ErrorKind::Invalid,
                "looking for a region",
                "-",
                message,
            ));
        };
        // the price list is the same for all regions, but only few regions serve it
        let home_of_prices = if region.starts_with("cn-") {
            "cn-northwest-1"
        } else {
            "us-east-1"
        };
        let pricing = aws_sdk_pricing::config::Builder::from(&config)
            .region(Region::new(home_of_prices))
            .build();
        Ok(Self {
            region,
            ec2: aws_sdk_ec2::Client::new(&config),
            ssm: aws_sdk_ssm::Client::new(&config),
            pricing: aws_sdk_pricing::Client::from_conf(pricing),
            quotas: aws_sdk_servicequotas::Client::new(&config),
            endpoint: endpoint_of_ec2(&config),
        })
    }
}

/// Returns the endpoint from the site, AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL or the profile, in the SDK's order of precedence.
fn endpoint_of_ec2(config: &SdkConfig) -> Option<String> {
    let general = config.endpoint_url().map(str::to_owned);
    if config.get_origin("endpoint_url").is_client_config() {
        return general;
    }
    let key = ServiceConfigKey::builder()
        .service_id("EC2")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok();
    key.and_then(|k| config.service_config()?.load_config(k))
        .or(general)
}
