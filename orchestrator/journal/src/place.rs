//! The place of a site, recorded when the site is opened. Leftovers of the site are found there even if the campaign file has changed.

use cvc_core::campaign::{Cluster, Site, SiteKind, SlurmSettings};

use camino::Utf8Path;
use cvc_core::hosts::{HostEntry, SshSettings};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of a site, and how it is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SitePlace {
    /// Kind of the site.
    pub kind: SiteKind,
    /// The node with cvc's files; `None` for this machine, and for a cloud, where the orders of the leases identify the instances.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub head: Option<HostEntry>,
    /// ssh settings; their paths refer to this machine.
    #[serde(skip_serializing_if = "is_default", default)]
    pub ssh: SshSettings,
    /// Directory for cvc's own files on the nodes, as written in the campaign file.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub base: String,
}

fn is_default(ssh: &SshSettings) -> bool {
    *ssh == SshSettings::default()
}

impl SitePlace {
    /// Returns the place of a site of a campaign file that is in `directory`.
    pub fn of(site: &Site, directory: &Utf8Path) -> Self {
        let cluster = site.cluster.as_ref().filter(|_| site.kind != SiteKind::Ec2);
        let head = cluster.and_then(|cluster| match site.kind {
            SiteKind::Slurm => cluster.head.as_ref(),
            SiteKind::Ssh | SiteKind::Local | SiteKind::Ec2 => {
                cluster.head.as_ref().or(cluster.hosts.first())
            }
        });
        Self {
            kind: site.kind,
            head: head.map(|head| head.below(directory)),
            ssh: cluster
                .map(|cluster| cluster.ssh.below(directory))
                .unwrap_or_default(),
            base: cluster
                .map(|cluster| cluster.base.clone())
                .unwrap_or_default(),
        }
    }

    /// Returns whether both values describe the same place. Differences in the ssh settings do not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        let host = |place: &Self| {
            let head = place.head.as_ref()?;
            Some((
                head.address.clone().unwrap_or_else(|| head.name.clone()),
                head.port,
                head.user.clone(),
            ))
        };
        self.kind == other.kind && host(self) == host(other) && self.base == other.base
    }

    /// Returns the machines that must be reached to end leftovers in this place; `None` for this machine and for a cloud.
    pub fn cluster(&self) -> Option<Cluster> {
        let slurm = match self.kind {
            SiteKind::Local | SiteKind::Ec2 => return None,
            SiteKind::Slurm => Some(SlurmSettings {
                nodes: 1,
                ..SlurmSettings::default()
            }),
            SiteKind::Ssh => None,
        };
        Some(Cluster {
            hosts: self
                .head
                .iter()
                .filter(|_| slurm.is_none())
                .cloned()
                .collect(),
            inventory: None,
            head: self.head.clone(),
            ssh: self.ssh.clone(),
            base: self.base.clone(),
            interface: None,
            cores: None,
            side_by_side: false,
            lost_after_s: 60.0,
            slurm,
        })
    }
}

/// Formats as `n1:~/.cvc by ssh`.
impl fmt::Display for SitePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head.as_ref().map_or("this machine", |head| &head.name);
        match self.kind {
            SiteKind::Local => f.write_str("this machine"),
            SiteKind::Ec2 => f.write_str("EC2"),
            SiteKind::Ssh => write!(f, "{head}:{} by ssh", self.base),
            SiteKind::Slurm => write!(f, "{head}:{} by Slurm", self.base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: SiteKind, head: &str) -> SitePlace {
        SitePlace {
            kind,
            head: Some(HostEntry::named(head)),
            ssh: SshSettings::default(),
            base: "~/.cvc".into(),
        }
    }

    #[test]
    fn another_head_base_or_kind_is_another_place_and_another_key_is_not() {
        let old = place(SiteKind::Ssh, "n1");
        assert!(old.is_same(&old.clone()));
        let mut key = old.clone();
        key.ssh.config = Some("/elsewhere/config".into());
        key.head.as_mut().expect("a head").identity_file = Some("/elsewhere/key".into());
        assert!(old.is_same(&key));
        assert!(!old.is_same(&place(SiteKind::Ssh, "n2")));
        assert!(!old.is_same(&place(SiteKind::Slurm, "n1")));
        assert!(!old.is_same(&SitePlace {
            base: "~/x".into(),
            ..old.clone()
        }));
        let port = HostEntry {
            port: Some(2222),
            ..HostEntry::named("n1")
        };
        assert!(!old.is_same(&SitePlace {
            head: Some(port),
            ..old.clone()
        }));
        let address = HostEntry {
            address: Some("n1".into()),
            ..HostEntry::named("renamed")
        };
        assert!(
            old.is_same(&SitePlace {
                head: Some(address),
                ..old.clone()
            }),
            "only its name here is another"
        );
    }

    #[test]
    fn the_written_place_suffices_to_get_there_again() {
        let old = place(SiteKind::Slurm, "login");
        let text = serde_json::to_string(&old).expect("JSON");
        assert_eq!(
            text,
            r#"{"kind":"slurm","head":{"name":"login"},"base":"~/.cvc"}"#
        );
        let read: SitePlace = serde_json::from_str(&text).expect("the same");
        let cluster = read.cluster().expect("a cluster");
        assert!(cluster.slurm.is_some() && cluster.head.is_some_and(|head| head.name == "login"));
        assert_eq!(old.to_string(), "login:~/.cvc by Slurm");
        assert_eq!(place(SiteKind::Ec2, "x").cluster(), None);
    }
}
