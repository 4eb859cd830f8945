//! What a cloud refuses, and what that leaves behind.

/// What is left of a call that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffect {
    /// Nothing: the cloud refused before it did anything.
    Clear,
    /// The answer was lost: it may have been done.
    #[default]
    Unknown,
}

/// What kind of error it is, which says what can be done about it.
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
    /// Too many calls, or the cloud is unwell: later it may go.
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
#[error("{what} in {region}: {said}{}", code.as_ref().map(|c| format!(" ({c})")).unwrap_or_default())]
pub struct ProviderError {
    /// What was wanted, as in `launching 4 c5.xlarge`.
    pub what: String,
    /// Region.
    pub region: String,
    /// Its code, if the cloud answered.
    pub code: Option<String>,
    /// What the cloud or the network said.
    pub said: String,
    /// What kind of error.
    pub kind: ErrorKind,
    /// What it leaves.
    pub left: SideEffect,
}

impl ProviderError {
    /// Something that was found out before anything was done.
    pub fn before(kind: ErrorKind, what: impl Into<String>, region: &str, said: impl Into<String>) -> Self {
        Self { what: what.into(), region: region.to_owned(), code: None, said: said.into(), kind, left: SideEffect::Clear }
    }

    /// Whether another zone, type or market may have what was wanted.
    pub fn elsewhere(&self) -> bool {
        matches!(self.kind, ErrorKind::Capacity | ErrorKind::SpotPrice)
    }

    /// Whether the same may go later.
    pub fn later(&self) -> bool {
        matches!(self.kind, ErrorKind::Transient | ErrorKind::Unreachable | ErrorKind::InUse)
    }

    /// How to fix it.
    pub fn hint(&self) -> Option<String> {
        let text = match self.kind {
            ErrorKind::Capacity => "give further `instance_types` or `zones`, or try later",
            ErrorKind::SpotPrice => "raise `max_price_usd`, or set `market = \"spot-then-on-demand\"`",
            ErrorKind::Quota => {
                "ask for more vCPUs in the console under Service Quotas (EC2, \"Running On-Demand ...\" or \"All ... Spot Instance \
                 Requests\"), or use fewer or smaller instances"
            }
            ErrorKind::Credentials => {
                "give credentials as for the AWS command line: `aws configure`, `aws sso login`, AWS_PROFILE, or `profile` of the site; \
                 then `cvc run` goes on"
            }
            ErrorKind::Denied => "docs/ec2-permissions.md lists the permissions that cvc needs",
            ErrorKind::Transient | ErrorKind::Unreachable => "try again; what was done is in the journal, and `cvc run` goes on with it",
            ErrorKind::InUse => "it is removed by `cvc sweep` once nothing depends on it any more",
            ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::TokenMismatch | ErrorKind::Other => return None,
        };
        Some(text.into())
    }
}
