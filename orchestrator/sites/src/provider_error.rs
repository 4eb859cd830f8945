//! Errors of a cloud, and what they leave behind.

/// What a failed call may have left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffect {
    /// Nothing: the cloud refused before it did anything.
    Clear,
    /// The answer was lost: it may have been done.
    #[default]
    Unknown,
}

/// The kind of an error, on which the hint depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such machines are available there now: another zone, type or market may have some.
    Capacity,
    /// The spot market's price is above the site's.
    SpotPrice,
    /// The quota of the account is exceeded.
    Quota,
    /// No credentials, or they are wrong or have expired.
    Credentials,
    /// The credentials may not do this.
    Denied,
    /// The account itself may not be used this way, whatever its permissions: new, blocked, or without this service or region.
    Account,
    /// Too many calls, or a problem in the cloud: it may work later.
    Transient,
    /// It cannot be reached.
    Unreachable,
    /// It does not exist.
    NotFound,
    /// Something else still depends on it.
    InUse,
    /// The same client token was used for another order.
    TokenMismatch,
    /// The call itself is wrong: a value of the campaign file that the cloud does not take.
    Invalid,
    /// Anything else.
    Other,
}

/// A call to a cloud that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {region}: {message}{}", code.as_ref().map(|c| format!(" ({c})")).unwrap_or_default())]
pub struct ProviderError {
    /// What was attempted, as in `launching 4 c5.xlarge`.
    pub what: String,
    /// Region.
    pub region: String,
    /// Its code, if the cloud answered.
    pub code: Option<String>,
    /// The message of the cloud or the network.
    pub message: String,
    /// What kind of error.
    pub kind: ErrorKind,
    /// What it may have left behind.
    pub left: SideEffect,
}

impl ProviderError {
    /// An error that was found before anything was done.
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

    /// Whether another zone, type or market may work.
    pub fn elsewhere(&self) -> bool {
        matches!(self.kind, ErrorKind::Capacity | ErrorKind::SpotPrice)
    }

    /// Whether the same call may work later.
    pub fn later(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Transient | ErrorKind::Unreachable | ErrorKind::InUse
        )
    }

    /// How to fix it.
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
                    "the account is new and its use of this region is being verified, which takes minutes to hours; nothing is wrong with permissions: wait, then repeat the command, or ask the cloud's support"
                }
                "Blocked" => {
                    "the cloud has blocked the account; nothing is wrong with permissions: see its messages to the account's owner, and ask its support"
                }
                _ => {
                    "the account has not enabled this service, region or image; nothing is wrong with permissions: enable the region in the console under Account, accept the terms of an image from the Marketplace, or complete the account's registration"
                }
            },
            ErrorKind::Transient | ErrorKind::Unreachable => {
                "try again; the journal has what was done, and `cvc run` continues from there"
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
