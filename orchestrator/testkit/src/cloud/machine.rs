//! The properties of an instance that moto does not keep: its state, its node, and why it ended.

use std::{
    fs::File,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use xmltree::Element;

use super::{server::Serving, xml};
use crate::lab::Node;

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstancePhase {
    Pending,
    Running,
    ShuttingDown,
    Terminated,
    Stopped,
}

impl InstancePhase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopped => "stopped",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopped => 80,
        }
    }

    /// Returns the state as an element of this name, such as `instanceState`.
    pub(super) fn element(self, name: &str) -> Element {
        xml::node(
            name,
            [
                xml::leaf("code", &self.code().to_string()),
                xml::leaf("name", self.name()),
            ],
        )
    }
}

/// Reason why an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// A program called TerminateInstances.
    User,
    /// The instance switched itself off.
    Itself,
    /// The spot market reclaimed the instance.
    Spot,
}

impl EndReason {
    fn code(self) -> &'static str {
        match self {
            Self::User => "Client.UserInitiatedShutdown",
            Self::Itself => "Client.InstanceInitiatedShutdown",
            Self::Spot => "Server.SpotInstanceTermination",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::User => "User initiated shutdown",
            Self::Itself => "Instance initiated shutdown",
            Self::Spot => "Spot instance termination",
        }
    }
}

/// A disk that an instance will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedDisk {
    /// Device name below `/dev`.
    pub(super) device: String,
    /// Further names below `/dev`.
    pub(super) links: Vec<String>,
    pub(super) bytes: u64,
}

/// An instance, with the properties that moto does not keep.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) id: String,
    pub(super) region: String,
    pub(super) zone: String,
    pub(super) kind: String,
    pub(super) image: String,
    pub(super) address: Ipv4Addr,
    pub(super) key: String,
    /// Security groups of the instance, by identifier and by name.
    pub(super) groups: Vec<(String, String)>,
    pub(super) interfaces: Vec<String>,
    pub(super) placement: Option<String>,
    /// Identifier of the instance's spot request.
    pub(super) spot: Option<String>,
    pub(super) token: Option<String>,
    pub(super) vcpus: u32,
    pub(super) user_data: Option<Vec<u8>>,
    /// Whether the instance is terminated, and not only stopped, when it switches itself off.
    pub(super) ends_for_good: bool,
    phase: InstancePhase,
    /// Time at which the phase ends by itself, if it does.
    until: Option<Instant>,
    /// Time at which the phase began.
    pub(super) since: Instant,
    pub(super) reason: Option<(EndReason, Timestamp)>,
    /// Whether the instance's status checks fail.
    pub(super) impaired: bool,
    /// Whether the node never starts an sshd, as with a broken image.
    pub(super) unreachable: bool,
    /// Time at which the spot market reclaims the instance.
    pub(super) notice: Option<Timestamp>,
    pub(super) node: Option<Arc<Node>>,
    /// Disks of the instance except the root.
    pub(super) wanted_disks: Vec<PlannedDisk>,
    pub(super) disks: Vec<(PlannedDisk, File)>,
    /// Metadata service of the instance, with the boot of the node for which it runs.
    pub(super) metadata: Option<(i32, Serving)>,
}

impl Machine {
    /// Reads moto's description of a new instance.
    pub(super) fn read(item: &Element, region: &str) -> Option<Self> {
        let interfaces: Vec<&Element> = xml::items(item, "networkInterfaceSet").collect();
        let of_interfaces = interfaces.iter().flat_map(|i| xml::items(i, "groupSet"));
        let groups = xml::items(item, "groupSet").chain(of_interfaces);
        Some(Self {
            id: xml::text(item, "instanceId")?,
            region: region.to_owned(),
            zone: xml::text_at(item, &["placement", "availabilityZone"])?,
            kind: xml::text(item, "instanceType")?,
            image: xml::text(item, "imageId")?,
            address: xml::text(item, "privateIpAddress")?.parse().ok()?,
            key: xml::text(item, "keyName").unwrap_or_default(),
            groups: groups
                .filter_map(|g| Some((xml::text(g, "groupId")?, xml::text(g, "groupName")?)))
                .collect(),
            interfaces: interfaces
                .iter()
                .filter_map(|i| xml::text(i, "networkInterfaceId"))
                .collect(),
            placement: None,
            spot: None,
            token: xml::text(item, "clientToken"),
            vcpus: 0,
            user_data: None,
            ends_for_good: false,
            phase: InstancePhase::Pending,
            until: None,
            since: Instant::now(),
            reason: None,
            impaired: false,
            unreachable: false,
            notice: None,
            node: None,
            wanted_disks: Vec::new(),
            disks: Vec::new(),
            metadata: None,
        })
    }

    pub(super) fn phase(&self) -> InstancePhase {
        let is_over = self.until.is_some_and(|until| until <= Instant::now());
        match self.phase {
            InstancePhase::Pending if is_over => InstancePhase::Running,
            InstancePhase::ShuttingDown if is_over => InstancePhase::Terminated,
            phase => phase,
        }
    }

    /// Enters a phase, which ends by itself after `passes_after`, or does not end by itself if this is `None`.
    pub(super) fn enter(&mut self, phase: InstancePhase, passes_after: Option<Duration>) {
        self.phase = phase;
        self.since = Instant::now();
        self.until = passes_after.map(|after| self.since + after);
    }

    /// Returns whether the instance uses security groups and costs money.
    pub(super) fn is_alive(&self) -> bool {
        self.phase() != InstancePhase::Terminated
    }

    /// Replaces parts of moto's description by the properties of this instance.
    pub(super) fn overlay(&self, item: &mut Element) {
        let phase = self.phase();
        xml::put(item, phase.element("instanceState"));
        let address = self.address.to_string();
        if matches!(phase, InstancePhase::Pending | InstancePhase::Running) && self.node.is_some() {
            // the caller is on the same network, so use the private address as the public one too
            for interface in xml::items_mut(item, "networkInterfaceSet") {
                if let Some(association) = interface.get_mut_child("association") {
                    xml::set(association, "publicIp", &address);
                }
            }
            xml::set(item, "ipAddress", &address);
            xml::set(item, "dnsName", "");
        }
        if !matches!(phase, InstancePhase::Pending | InstancePhase::Running) {
            item.children
                .retain(|c| c.as_element().is_none_or(|e| e.name != "ipAddress"));
        }
        if xml::items(item, "groupSet").next().is_none() {
            let groups = self
                .groups
                .iter()
                .map(|(id, name)| vec![xml::leaf("groupId", id), xml::leaf("groupName", name)]);
            xml::put(item, xml::list("groupSet", groups));
        }
        if let (Some(group), Some(placement)) = (&self.placement, item.get_mut_child("placement")) {
            xml::set(placement, "groupName", group);
        }
        if let Some(request) = &self.spot {
            xml::set(item, "instanceLifecycle", "spot");
            xml::set(item, "spotInstanceRequestId", request);
        }
        if let Some((reason, when)) = self.reason {
            let message = format!("{}: {}", reason.code(), reason.message());
            xml::put(
                item,
                xml::node(
                    "stateReason",
                    [
                        xml::leaf("code", reason.code()),
                        xml::leaf("message", &message),
                    ],
                ),
            );
            xml::set(
                item,
                "reason",
                &format!(
                    "{} ({})",
                    reason.message(),
                    when.strftime("%Y-%m-%d %H:%M:%S GMT")
                ),
            );
        }
    }
}
