//! Classifies failed calls: the kind of the error, and whether the call may have had an effect.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_ec2::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use cvc_cloud::provider::{ErrorKind, ProviderError, SideEffect};
use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether a call changes anything in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEffect {
    /// The call is read-only.
    None,
    /// The call changes something.
    Some,
}

/// Records whether the answer to any attempt of a call was lost. If so, the answer to the last attempt does not show the result of the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostAnswer(Arc<AtomicBool>);

impl LostAnswer {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Converts an error of the SDK to cvc's. It contains nothing of the request, and only the code and the message of the answer.
pub(crate) fn failure<E>(
    what: &str,
    region: &str,
    effect: RequestEffect,
    doubt: &LostAnswer,
    error: &SdkError<E, HttpResponse>,
) -> ProviderError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let status = error.raw_response().map(|r| r.status().as_u16());
    let code = error
        .as_service_error()
        .and_then(|e| e.code())
        .map(str::to_owned);
    let message = error.as_service_error().and_then(|e| e.message());
    let (kind, message) = match error {
        SdkError::ServiceError(_) => {
            let kind = kind(code.as_deref(), message, status);
            (kind, answer(kind, code.as_deref(), message, status))
        }
        SdkError::ResponseError(_) => {
            let message = format!(
                "cannot read the answer (HTTP status {})",
                status.map_or_else(|| "-".into(), |s| s.to_string())
            );
            (
                if status.is_some_and(|s| s >= 500) {
                    ErrorKind::Transient
                } else {
                    ErrorKind::Other
                },
                message,
            )
        }
        SdkError::TimeoutError(_) => (ErrorKind::Unreachable, "no answer in time".into()),
        _ if has::<CredentialsError>(error) => (ErrorKind::Credentials, without_credentials(error)),
        SdkError::DispatchFailure(_) => (ErrorKind::Unreachable, chain(error)),
        _ => (ErrorKind::Other, chain(error)),
    };
    let left = if effect == RequestEffect::None
        || !(doubt.is_there() || is_lost(error, code.as_deref(), status))
    {
        SideEffect::Clear
    } else {
        SideEffect::Unknown
    };
    ProviderError {
        what: what.to_owned(),
        region: region.to_owned(),
        code,
        message,
        kind,
        left,
    }
}

/// Returns whether the failed call may have had an effect.
fn is_lost<E>(error: &SdkError<E, HttpResponse>, code: Option<&str>, status: Option<u16>) -> bool
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(_) => !refused(code, status),
        SdkError::DispatchFailure(_) => !(has::<CredentialsError>(error) || never_arrived(error)),
        _ => true,
    }
}

/// Returns whether the answer means that the call had no effect.
pub(crate) fn refused(code: Option<&str>, status: Option<u16>) -> bool {
    let of_code = kind(code, None, status);
    // insufficient capacity has status 500, although it has no effect; throttling and an unavailable service have 503
    status.is_none_or(|s| s < 500)
        || !matches!(of_code, ErrorKind::Transient | ErrorKind::Other)
        || is_turned_away(code)
}

/// Returns whether the code means that the call was rejected before it was processed.
fn is_turned_away(code: Option<&str>) -> bool {
    code.is_some_and(|c| is_throttling(c) || matches!(c, "Unavailable" | "ServiceUnavailable"))
}

/// Returns whether no connection to the cloud was made.
pub(crate) fn never_arrived(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<io::Error>() {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            if matches!(
                io.kind(),
                ConnectionRefused | HostUnreachable | NetworkUnreachable
            ) {
                return true;
            }
        }
        next = e.source();
    }
    false
}

fn is_throttling(code: &str) -> bool {
    code.starts_with("Throttl")
        || matches!(
            code,
            "RequestLimitExceeded"
                | "BandwidthLimitExceeded"
                | "EC2ThrottledException"
                | "RequestThrottled"
                | "RequestThrottledException"
                | "TooManyRequestsException"
                | "PriorRequestNotComplete"
                | "SlowDown"
                | "LimitExceededException"
        )
}

/// Returns the kind of error for a code of the cloud.
fn kind(code: Option<&str>, message: Option<&str>, status: Option<u16>) -> ErrorKind {
    let Some(code) = code else {
        return match status {
            Some(401) => ErrorKind::Credentials,
            Some(403) => ErrorKind::Denied,
            Some(429) => ErrorKind::Transient,
            Some(s) if s >= 500 => ErrorKind::Transient,
            _ => ErrorKind::Other,
        };
    };
    // older codes have a prefix that names the side at fault
    let code = code
        .strip_prefix("Client.")
        .or_else(|| code.strip_prefix("Server."))
        .unwrap_or(code);
    match code {
        "InsufficientFreeAddressesInSubnet" => ErrorKind::Capacity,
        c if c.starts_with("Insufficient") => ErrorKind::Capacity,
        "Unsupported" | "UnsupportedOperation"
            if message.is_some_and(|m| m.contains("Availability Zone")) =>
        {
            ErrorKind::Capacity
        }
        "SpotMaxPriceTooLow" => ErrorKind::SpotPrice,
        "MaxSpotInstanceCountExceeded" => ErrorKind::Quota,
        c if is_throttling(c) => ErrorKind::Transient,
        c if c.ends_with("LimitExceeded") || c == "ServiceQuotaExceededException" => {
            ErrorKind::Quota
        }
        "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "UnrecognizedClientException"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "InvalidSecurity" => ErrorKind::Credentials,
        "UnauthorizedOperation"
        | "UnauthorizedException"
        | "AccessDenied"
        | "AccessDeniedException"
        | "NotAuthorized"
        | "OperationNotPermitted" => ErrorKind::Denied,
        "OptInRequired" | "SubscriptionRequiredException" | "PendingVerification" | "Blocked" => {
            ErrorKind::Account
        }
        "Unavailable"
        | "ServiceUnavailable"
        | "ServiceUnavailableException"
        | "InternalError"
        | "InternalFailure"
        | "InternalServerError"
        | "InternalServiceErrorException"
        | "InternalErrorException"
        | "ServiceException"
        | "RequestTimeout"
        | "RequestTimeoutException" => ErrorKind::Transient,
        "IdempotentParameterMismatch" => ErrorKind::TokenMismatch,
        "IdempotentInstanceTerminated" => ErrorKind::NotFound,
        "DependencyViolation"
        | "VolumeInUse"
        | "IncorrectState"
        | "IncorrectInstanceState"
        | "ResourceInUseException" => ErrorKind::InUse,
        c if c.ends_with(".InUse") => ErrorKind::InUse,
        // the user names images and subnets, so this is an error of the settings
        c if c.starts_with("InvalidAMIID.") || c.starts_with("InvalidSubnetID.") => {
            ErrorKind::Invalid
        }
        "InvalidPlacementGroup.Unknown"
        | "ParameterNotFound"
        | "ParameterVersionNotFound"
        | "NoSuchResourceException"
        | "NotFoundException" => ErrorKind::NotFound,
        c if c.ends_with(".NotFound") => ErrorKind::NotFound,
        c if [
            "Invalid",
            "Missing",
            "Malformed",
            "Unknown",
            "Unsupported",
            "Validation",
            "VPCIdNotSpecified",
        ]
        .iter()
        .any(|p| c.starts_with(p)) =>
        {
            ErrorKind::Invalid
        }
        _ if status.is_some_and(|s| s >= 500) => ErrorKind::Transient,
        _ => ErrorKind::Other,
    }
}

/// Returns the cloud's message without secrets.
fn answer(
    kind: ErrorKind,
    code: Option<&str>,
    message: Option<&str>,
    status: Option<u16>,
) -> String {
    // some services quote the request as it would have been signed, which includes the session token
    if matches!(
        code,
        Some("SignatureDoesNotMatch" | "InvalidSignatureException")
    ) {
        return "the signature does not match these credentials: the secret key or this machine's clock is wrong".into();
    }
    match message.map(str::trim).filter(|m| !m.is_empty()) {
        // the message contains an encoded text of a thousand characters, which only an administrator can decode
        Some(m) => short(
            m.split("Encoded authorization failure message")
                .next()
                .unwrap_or(m),
        ),
        None if kind == ErrorKind::Transient => {
            format!(
                "the service has a problem (HTTP status {})",
                status.map_or_else(|| "-".into(), |s| s.to_string())
            )
        }
        None => format!(
            "no further message (HTTP status {})",
            status.map_or_else(|| "-".into(), |s| s.to_string())
        ),
    }
}

/// Returns why credentials are missing. Only the outermost message is used, because messages of credential programs or files may contain secrets.
fn without_credentials(error: &(dyn Error + 'static)) -> String {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(error) = e.downcast_ref::<CredentialsError>() {
            return match error {
                CredentialsError::CredentialsNotLoaded(_) => "no credentials are configured".into(),
                CredentialsError::ProviderTimedOut(_) => {
                    "the source of credentials did not answer in time".into()
                }
                CredentialsError::InvalidConfiguration(_) => {
                    "the configuration of credentials is invalid: see ~/.aws/config".into()
                }
                _ => "no credentials could be obtained: none are configured, or their source failed (an expired session?)"
                    .into(),
            };
        }
        next = e.source();
    }
    "no credentials".into()
}

fn has<T: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(e) = next {
        if e.is::<T>() {
            return true;
        }
        next = e.source();
    }
    false
}

/// Returns an error and its sources as text. Their display forms do not contain the request.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(e) = next {
        let text = e.to_string();
        if !parts.iter().any(|p| p.contains(&text)) {
            parts.push(text);
        }
        next = e.source();
    }
    short(&parts.join(": "))
}

/// Returns the text as one line of limited length.
fn short(text: &str) -> String {
    const MAX_LENGTH: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(['.', ' ']);
    if line.chars().count() <= MAX_LENGTH {
        line.to_owned()
    } else {
        format!("{}…", line.chars().take(MAX_LENGTH).collect::<String>())
    }
}
