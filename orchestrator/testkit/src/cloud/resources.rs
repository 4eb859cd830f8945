//! Resources that moto lacks: placement groups and spot requests.

use jiff::Timestamp;
use xmltree::Element;

use super::{
    machine::EndReason,
    query,
    xml::{self, leaf},
};

/// A placement group.
#[derive(Clone, Debug)]
pub(super) struct PlacementGroup {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) region: String,
    pub(super) strategy: String,
    pub(super) tags: Vec<(String, String)>,
}

impl PlacementGroup {
    pub(super) fn element(&self) -> Vec<Element> {
        let arn = format!(
            "arn:aws:ec2:{}:123456789012:placement-group/{}",
            self.region, self.name
        );
        vec![
            leaf("groupName", &self.name),
            leaf("strategy", &self.strategy),
            leaf("state", "available"),
            leaf("groupId", &self.id),
            leaf("groupArn", &arn),
            xml::tags(&self.tags),
        ]
    }

    pub(super) fn passes(&self, name: &str, values: &[String]) -> bool {
        query::by_tags(&self.tags, name, values).unwrap_or_else(|| match name {
            "group-name" => query::is_any(values, &self.name),
            "strategy" => query::is_any(values, &self.strategy),
            "state" => query::is_any(values, "available"),
            _ => false,
        })
    }
}

/// The spot request of an instance.
#[derive(Clone, Debug)]
pub(super) struct SpotRequest {
    pub(super) id: String,
    pub(super) region: String,
    pub(super) instance: String,
    pub(super) is_persistent: bool,
    pub(super) price: String,
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) state: &'static str,
    pub(super) status: &'static str,
    pub(super) created: Timestamp,
    pub(super) tags: Vec<(String, String)>,
}

impl SpotRequest {
    /// Returns whether the request may still start instances.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, "open" | "active")
    }

    pub(super) fn element(&self) -> Vec<Element> {
        let created = self.created.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string();
        let status = [
            leaf("code", self.status),
            leaf("updateTime", &created),
            leaf("message", self.status),
        ];
        vec![
            leaf("spotInstanceRequestId", &self.id),
            leaf("spotPrice", &self.price),
            leaf(
                "type",
                if self.is_persistent {
                    "persistent"
                } else {
                    "one-time"
                },
            ),
            leaf("state", self.state),
            xml::node("status", status),
            leaf("instanceId", &self.instance),
            leaf("createTime", &created),
            leaf("productDescription", "Linux/UNIX"),
            leaf("launchedAvailabilityZone", &self.zone),
            xml::node("launchSpecification", [leaf("instanceType", &self.kind)]),
            leaf("instanceInterruptionBehavior", "terminate"),
            xml::tags(&self.tags),
        ]
    }

    pub(super) fn passes(&self, name: &str, values: &[String]) -> bool {
        query::by_tags(&self.tags, name, values).unwrap_or_else(|| match name {
            "state" => query::is_any(values, self.state),
            "status-code" => query::is_any(values, self.status),
            "spot-instance-request-id" => query::is_any(values, &self.id),
            "instance-id" => query::is_any(values, &self.instance),
            _ => false,
        })
    }

    /// Sets the state of the request when its instance ends.
    pub(super) fn settle(&mut self, reason: EndReason) {
        self.status = match reason {
            EndReason::User | EndReason::Itself => "instance-terminated-by-user",
            EndReason::Spot => "instance-terminated-no-capacity",
        };
        if self.is_open() {
            // a persistent request would start another instance, so it stays open until it is cancelled
            self.state = if self.is_persistent { "open" } else { "closed" };
        }
    }
}
