//! A machine, how to reach it, and the machines on the way to it.

use super::pins;
use camino::Utf8PathBuf;
use cvc_core::hosts::{HostEntry, SshSettings};

/// A machine, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The site's name for it.
    pub name: String,
    /// Its settings for ssh.
    pub entry: HostEntry,
    /// How ssh is used; paths are resolved here.
    pub ssh: SshSettings,
    /// File with the pinned keys of the site: [`super::pinned_file`].
    pub pinned: Utf8PathBuf,
}

impl Target {
    /// A host of a site.
    pub fn new(site: &str, entry: &HostEntry, ssh: &SshSettings) -> Self {
        let pinned = ssh
            .pinned
            .as_ref()
            .map_or_else(|| pins::file_of(site), Utf8PathBuf::from);
        Self {
            name: entry.name.clone(),
            entry: entry.clone(),
            ssh: ssh.clone(),
            pinned,
        }
    }

    /// The destination for ssh.
    pub(super) fn destination(&self) -> &str {
        self.entry.address.as_deref().unwrap_or(&self.entry.name)
    }

    /// User, port, key and the inventory's options as arguments of ssh.
    pub(super) fn place(&self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(user) = &self.entry.user {
            args.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = self.entry.port {
            args.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(file) = &self.entry.identity_file {
            args.extend([
                "-i".to_owned(),
                cvc_core::paths::expand(file).to_string(),
                "-o".to_owned(),
                "IdentitiesOnly=yes".to_owned(),
            ]);
        }
        for option in &self.entry.ssh_options {
            args.extend(["-o".to_owned(), option.clone()]);
        }
        args
    }
}

/// One machine on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// As the command line or `ProxyJump` has it.
    pub written: String,
    /// Its name in known-hosts files.
    pub name: String,
    /// Name or address that is connected to.
    pub hostname: String,
    /// User there.
    pub user: String,
    /// The pinned file, if it has its key.
    pub pinned: Option<Utf8PathBuf>,
    /// The user's files that may have its key.
    pub vouching: Vec<Utf8PathBuf>,
    /// Whether the user's configuration has a command that gives keys.
    pub has_command: bool,
}
