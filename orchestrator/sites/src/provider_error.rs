//! Errors of a cloud, and their side effects.

/// What a failed call may have changed in the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffect {
    /// Nothing: the cloud refused the call before doing anything.
    Clear,
    /// Unknown: the answer was lost, so the call may have been carried out.
    #[default]
    Unknown,
}

/// The kind of an error, on which the hint depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The zone has no machines of the requested type now. Another zone, type or market may have some.
    Capacity,
    /// The current spot price is above the site's maximum.
    SpotPrice,
    /// The quota of the account is exceeded.
    Quota,
    /// The credentials are missing, wrong or expired.
    Credentials,
    /// The credentials do not permit this call.
    Denied,
    /// The account cannot be used for this call, regardless of its permissions: the account is new, blocked, or lacks this service or region.
    Account,
    /// Too many calls, or a problem in the cloud; a retry may succeed.
    Transient,
    /// The cloud cannot be reached.
    Unreachable,
    /// The requested object does not exist.
    NotFound,
    /// Another object still depends on this one.
    InUse,
    /// The client token was used before, for a request with other parameters.
    TokenMismatch,
    /// The call itself is wrong: the cloud does not accept a value of the campaign file.
    Invalid,
    /// Anything else.
    Other,
}

/// A call to a cloud that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {region}: {message}{}", code.as_ref().map(|c| format!(" ({c})")).unwrap_or_default())]
pub struct ProviderError {
    /// The action attempted, as in `launching 4 c5.xlarge`.
    pub what: String,
    /// Region.
    pub region: String,
    /// Error code, if the cloud answered.
    pub code: Option<String>,
    /// The message of the cloud or the network.
    pub message: String,
    /// The kind of error.
    pub kind: ErrorKind,
    /// What the call may have changed.
    pub left: SideEffect,
}

impl ProviderError {
    /// Creates the error of a call that had no effect.
    pub fn before(
        kind: ErrorKind,
        what: impl Into<String>,
        region: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            region: region.to_owned(),
            code: None,
            message: message.into(),
            kind,
            left: SideEffect::Clear,
        }
    }

    /// Returns whether a launch in another zone, with another type or in another market may succeed.
    pub fn elsewhere(&self) -> bool {
        matches!(self.kind, ErrorKind::Capacity | ErrorKind::SpotPrice)
    }

    /// Returns whether the same call may succeed later.
    pub fn later(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Transient | ErrorKind::Unreachable | ErrorKind::InUse
        )
    }

    /// Returns the remedy.
    pub fn hint(&self) -> Option<String> {
        let text = match self.kind {
            ErrorKind::Capacity => "give further `instance_types` or `zones`, or try later",
            ErrorKind::SpotPrice => {
                "raise `max_price_usd`, or set `market = \"spot-then-on-demand\"`"
            }
            ErrorKind::Quota => {
                "ask for more vCPUs in the console under Service Quotas (EC2, \"Running On-Demand ...\" or \"All ... Spot Instance \
                 Requests\"), or use fewer or smaller instances"
            }
            ErrorKind::Credentials => {
                "give credentials as for the AWS command line: `aws configure`, `aws sso login`, AWS_PROFILE, or `profile` of the site; then repeat the command (`cvc run` continues where it was)"
            }
            ErrorKind::Denied => "docs/ec2-permissions.md lists the permissions that cvc needs",
            ErrorKind::Account => match self.code.as_deref().unwrap_or_default() {
                "PendingVerification" => {
                    "the account is new and its use of this region is being verified, which takes minutes to hours; permissions are not the cause: wait, then repeat the command, or ask the cloud's support"
                }
                "Blocked" => {
                    "the cloud has blocked the account; permissions are not the cause: see its messages to the account's owner, and ask its support"
                }
                _ => {
                    "the account has not enabled this service, region or image; permissions are not the cause: enable the region in the console under Account, accept the terms of an image from the Marketplace, or complete the account's registration"
                }
            },
            ErrorKind::Transient | ErrorKind::Unreachable => {
                "try again; the journal records the completed steps, and `cvc run` continues from there"
            }
            ErrorKind::InUse => "`cvc sweep` removes it once nothing depends on it any more",
            ErrorKind::NotFound
            | ErrorKind::Invalid
            | ErrorKind::TokenMismatch
            | ErrorKind::Other => return None,
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_may_not_be_used_is_no_matter_of_permissions() {
        for (code, words) in [
            ("PendingVerification", "wait"),
            ("Blocked", "support"),
            ("OptInRequired", "enable the region"),
        ] {
            let mut error = ProviderError::before(ErrorKind::Account, "launching", "r", "no");
            error.code = Some(code.into());
            let hint = error.hint().expect("a hint");
            assert!(
                hint.contains(words) && !hint.contains("docs/ec2-permissions"),
                "{hint}"
            );
        }
    }
}
