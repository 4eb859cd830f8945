//! A simulated laptop with a lab of nodes, for tests that reach the nodes by ssh.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses another part"
)]

use camino::Utf8PathBuf;
use cvc_core::hosts::{HostEntry, HostKeys, SshSettings};
use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::{HostNotice, SshHost, SshTarget};
use cvc_testkit::Lab;
use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Time limit for expected events, long enough for a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

pub type Notices = Arc<Mutex<Vec<HostNotice>>>;

/// A lab and a user of it, whose ssh configuration and known hosts are files of the test.
pub struct Site {
    pub lab: Lab,
    pub dir: Utf8PathBuf,
}

impl Site {
    pub fn new(nodes: u8, login: bool) -> Self {
        Self::of(Lab::builder().nodes(nodes).login(login).build())
    }

    /// Creates a site with the test's own lab.
    pub fn of(lab: Lab) -> Self {
        let dir = Utf8PathBuf::from_path_buf(lab.home()).expect("text");
        let site = Self { lab, dir };
        site.configure("");
        site
    }

    /// Adds lines to the user's ssh configuration.
    pub fn configure(&self, more: &str) {
        let known = self.dir.join(".ssh/known_hosts");
        let key = self.dir.join(".ssh/id_ed25519");
        let names: String = std::iter::once("login".to_owned())
            .chain((1..=4).map(|n| format!("n{n}")))
            .zip(10..)
            .map(|(name, last)| format!("Host {name}\n    HostName 10.77.0.{last}\n"))
            .collect();
        let all = format!(
            "Host *\n    User root\n    IdentityFile {key}\n    IdentitiesOnly yes\n    UserKnownHostsFile {known}\n    GlobalKnownHostsFile none\n"
        );
        fs::write(self.config(), format!("{more}\n{names}{all}")).expect("writes");
    }

    pub fn config(&self) -> Utf8PathBuf {
        self.dir.join(".ssh/config")
    }

    pub fn pinned(&self) -> Utf8PathBuf {
        self.dir.join("pinned/site")
    }

    pub fn target(&self, name: &str, host_keys: HostKeys) -> SshTarget {
        let ssh = SshSettings {
            config: Some(self.config().into_string()),
            known_hosts: None,
            host_keys,
            pinned: None,
        };
        SshTarget {
            name: name.to_owned(),
            entry: HostEntry::named(name),
            ssh,
            pinned: self.pinned(),
        }
    }

    pub fn host(&self, name: &str) -> (SshHost, Notices) {
        listened(self.target(name, HostKeys::Strict))
    }

    /// Runs a future in the laptop's network namespace.
    pub fn run<T: Send, F: Future<Output = T>>(&self, piece: impl FnOnce() -> F + Send) -> T {
        self.lab.on_network(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                tokio::time::timeout(Duration::from_secs(300), piece())
                    .await
                    .expect("ends within 300 s")
            })
        })
    }
}

pub fn listened(target: SshTarget) -> (SshHost, Notices) {
    let heard: Notices = Arc::default();
    let to = Arc::clone(&heard);
    (
        SshHost::with_listener(
            target,
            Arc::new(move |notice| to.lock().expect("no panic").push(notice)),
        ),
        heard,
    )
}

/// Waits until a condition holds, while the connections of this thread continue. At the time limit, panics with `what`.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "waited {SOON:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

pub async fn sh(host: &SshHost, script: &str) -> Result<String, HostError> {
    let out = host
        .run(
            &argv(&["sh", "-c", script]),
            &BTreeMap::new(),
            Duration::from_secs(20),
        )
        .await?;
    Ok(format!(
        "{}{}{}",
        out.stdout,
        out.stderr,
        out.code
            .map_or_else(|| "signal".to_owned(), |c| c.to_string())
    ))
}
