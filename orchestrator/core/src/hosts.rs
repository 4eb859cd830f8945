//! Hosts and how ssh reaches them.

use serde::{Deserialize, Serialize};

/// One machine as ssh is told it. What is `None` comes from the user's ssh configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Its name: in messages, host files and reports.
    pub name: String,
    /// Name or address that ssh connects to, if that is another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Name or address by which the other nodes reach it, if that is another again: inside a cloud's network, for example.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub internal: Option<String>,
    /// User there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// Port of its sshd.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// File with the private key; as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub identity_file: Option<String>,
}

impl HostEntry {
    /// A host of which only the name is given.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), address: None, internal: None, user: None, port: None, identity_file: None }
    }

    /// What the other nodes call it.
    pub fn among_nodes(&self) -> &str {
        self.internal.as_deref().or(self.address.as_deref()).unwrap_or(&self.name)
    }
}

/// How ssh is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshSettings {
    /// Configuration file instead of `~/.ssh/config`; as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<String>,
    /// File with the host keys of the site, besides `~/.ssh/known_hosts`; as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known_hosts: Option<String>,
    /// What becomes of a host whose key is not known.
    pub host_keys: HostKeys,
    /// File with the pinned keys, instead of the site's own below `~/.config/cvc`; nothing else then vouches for a key. Of machines that live
    /// no longer than a campaign.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pinned: Option<String>,
}

/// What becomes of a host whose key is not known. One whose key has changed is refused in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HostKeys {
    /// It is refused.
    #[default]
    Strict,
    /// Its key is believed and pinned at the first contact.
    AcceptNew,
}
