//! Hosts, and the ssh settings for them.

use crate::paths::expand_below;
use camino::Utf8Path;
use serde::{Deserialize, Serialize};

/// A machine and its settings for ssh. `None` leaves a setting to the user's ssh configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Name in messages, host files and reports.
    pub name: String,
    /// Name or address that ssh connects to; `None` if it is `name`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Name or address that other nodes use, for example in a cloud's network; `None` if it is `address` or `name`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub internal: Option<String>,
    /// User name on the host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// Port of the host's sshd.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// File with the private key, as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub identity_file: Option<String>,
    /// Further options of ssh from an inventory, `Key=Value` each, such as `ProxyJump=gate`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ssh_options: Vec<String>,
}

impl HostEntry {
    /// Returns a host that has only a name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: None,
            internal: None,
            user: None,
            port: None,
            identity_file: None,
            ssh_options: Vec::new(),
        }
    }

    /// Returns the host with the path of its key on this machine; a relative path is relative to `base`.
    pub fn below(&self, base: &Utf8Path) -> Self {
        Self {
            identity_file: self.identity_file.as_ref().map(|f| absolute_below(base, f)),
            ..self.clone()
        }
    }

    /// Returns the name or address that other nodes use.
    pub fn among_nodes(&self) -> &str {
        self.internal
            .as_deref()
            .or(self.address.as_deref())
            .unwrap_or(&self.name)
    }
}

/// ssh settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshSettings {
    /// Configuration file instead of `~/.ssh/config`, as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<String>,
    /// File with the site's host keys, in addition to `~/.ssh/known_hosts`, as written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known_hosts: Option<String>,
    /// Policy for a host with an unknown key.
    pub host_keys: HostKeys,
    /// File with the pinned keys, instead of the site's file below `~/.config/cvc`; no other file is then used. For machines that exist only during a
    /// campaign.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pinned: Option<String>,
}

impl SshSettings {
    /// Returns the settings with their paths resolved on this machine. Relative paths are relative to `base`, the directory of the campaign file.
    pub fn below(&self, base: &Utf8Path) -> Self {
        let resolve = |path: &Option<String>| path.as_ref().map(|p| absolute_below(base, p));
        Self {
            config: resolve(&self.config),
            known_hosts: resolve(&self.known_hosts),
            ..self.clone()
        }
    }
}

/// Policy for hosts with unknown keys. Changed keys are always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HostKeys {
    /// Refuse.
    #[default]
    Strict,
    /// Accept and pin the key at the first contact.
    AcceptNew,
}

/// Returns an absolute path. A relative path would be interpreted by ssh: in its configuration, included files are relative to `~/.ssh`.
fn absolute_below(base: &Utf8Path, path: &str) -> String {
    let path = expand_below(base, path);
    camino::absolute_utf8(&path).unwrap_or(path).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_files_of_ssh_lie_below_the_campaign_file() {
        let base = Utf8Path::new("/campaigns");
        let ssh = SshSettings {
            config: Some("ssh/config".into()),
            known_hosts: Some("/etc/keys".into()),
            ..SshSettings::default()
        };
        let below = ssh.below(base);
        assert_eq!(
            (below.config.as_deref(), below.known_hosts.as_deref()),
            (Some("/campaigns/ssh/config"), Some("/etc/keys"))
        );
        let host = HostEntry {
            identity_file: Some("key".into()),
            ..HostEntry::named("n1")
        };
        assert_eq!(
            host.below(base).identity_file.as_deref(),
            Some("/campaigns/key")
        );
        assert_eq!(HostEntry::named("n1").below(base), HostEntry::named("n1"));
        let of_here = ssh.below(Utf8Path::new("")).config.expect("a file");
        assert!(
            of_here.ends_with("/ssh/config") && Utf8Path::new(&of_here).is_absolute(),
            "{of_here}"
        );
    }
}
