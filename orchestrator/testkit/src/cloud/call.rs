//! The record of a call.

use std::{collections::BTreeMap, time::SystemTime};

use super::query::Parameters;

/// A call that the cloud received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// Time of receipt.
    pub at: SystemTime,
    /// Name of the action, such as `RunInstances`.
    pub action: String,
    /// Region of the call.
    pub region: String,
    /// Parameters of the call. User data are replaced by their length; for services that use JSON, the parameter `Body` has the request.
    pub parameters: BTreeMap<String, String>,
}

impl ApiCall {
    pub(super) fn new(
        at: SystemTime,
        action: &str,
        region: &str,
        body: Option<&[u8]>,
        parameters: &Parameters,
    ) -> Self {
        let mut parameters = parameters.0.clone();
        if let Some(data) = parameters.get_mut("UserData") {
            *data = format!("{} characters", data.len());
        }
        if let Some(body) = body {
            parameters.insert("Body".into(), String::from_utf8_lossy(body).into_owned());
        }
        Self {
            at,
            action: action.to_owned(),
            region: region.to_owned(),
            parameters,
        }
    }
}
