//! A file system that cvc deploys on nodes of a site, as one of its storage areas.

use crate::units::ByteSize;
use serde::{Deserialize, Serialize};

/// A file system to deploy, with its servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Deploy"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table with `file_system` and `data`, as in { file_system = \"moosefs\", metadata = [\"n1\"], data = [\"n2\", \"n3\"] }"
)]
pub struct Deployment {
    /// Which file system.
    pub file_system: DeployedFileSystem,
    /// Hosts of the site with a metadata server. MooseFS needs one, GlusterFS has none.
    #[serde(default)]
    pub metadata: Vec<String>,
    /// Hosts of the site that store the data.
    pub data: Vec<String>,
    /// Directory of the servers on these hosts. Default: `/var/lib/cvc`.
    #[serde(default = "usual_directory")]
    pub directory: String,
    /// Copies of each file on different hosts. Default: 1.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 9)))]
    pub copies: u32,
    /// GlusterFS: files are divided among the hosts in pieces of this size. Default: each file is on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe: Option<ByteSize>,
}

fn usual_directory() -> String {
    "/var/lib/cvc".into()
}

fn one() -> u32 {
    1
}

/// A file system that cvc can deploy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeployedFileSystem {
    /// GlusterFS: a volume of bricks, without metadata servers.
    GlusterFs,
    /// MooseFS: a master, and chunk servers.
    MooseFs,
}

impl DeployedFileSystem {
    /// Returns the name in campaign files, roles and facts.
    pub fn name(self) -> &'static str {
        match self {
            Self::GlusterFs => "glusterfs",
            Self::MooseFs => "moosefs",
        }
    }

    /// Returns the name for display.
    pub fn title(self) -> &'static str {
        match self {
            Self::GlusterFs => "GlusterFS",
            Self::MooseFs => "MooseFS",
        }
    }

    /// Returns whether a mounted file system with this type and source is of this kind.
    pub fn is_mounted_as(self, mount_type: &str, source: &str) -> bool {
        match self {
            Self::GlusterFs => mount_type == "fuse.glusterfs",
            // without root privileges the kernel does not show the name
            Self::MooseFs => {
                mount_type == "fuse.mfs"
                    || mount_type.starts_with("fuse") && source.starts_with("mfs#")
            }
        }
    }
}

impl Deployment {
    /// Returns the name of the GlusterFS volume of a storage area.
    pub fn volume(area: &str) -> String {
        format!("cvc-{}", area.replace('.', "_"))
    }

    /// Returns the host that can report which data servers are active.
    pub fn informant(&self) -> Option<&str> {
        self.metadata
            .first()
            .or(self.data.first())
            .map(String::as_str)
    }
}
