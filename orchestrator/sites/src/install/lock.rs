//! `cvc.lock`: the software found or installed on the sites of a campaign. It is a TOML file in the campaign's directory.

use super::{InstallError, difference::VersionDifference, report::InstallReport};
use camino::Utf8PathBuf;
use cvc_core::campaign::Site;
use cvc_core::store::{CampaignDir, StoreError};
use cvc_engine::attempt::{FoundComponent, FoundComponents};
use cvc_engine::{
    ckpt::{self, Checkpointer},
    mpi,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
const FORMAT: u32 = 1;

/// The installed software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Version of the format.
    pub format: u32,
    /// Sites by name.
    #[serde(default)]
    pub sites: BTreeMap<String, SiteLock>,
}

/// The software installed on a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteLock {
    /// The hosts, which all have the same software.
    pub hosts: Vec<String>,
    /// Components by name: `mpi/NAME`, `dmtcp`, `darshan/runtime`, `app/NAME/MPI/PROGRAM`, `kernels/MPI`.
    #[serde(default)]
    pub components: BTreeMap<String, Component>,
}

/// A component of the software of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Version that the software reports; empty if it reports none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where the software comes from: `given` (a prefix or path of the campaign), `module`, `path`, `package`, `spack`, `kernels`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Path of the software.
    pub path: String,
    /// Distribution package that contains the software.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// Version of this package, in the package manager's form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package_version: String,
    /// Digest of the sources, for the kernels that are part of cvc.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl SiteLock {
    /// Returns the differences between this lock and the software found on the site. Components that were not checked or are not locked are omitted.
    pub fn compare(&self, found: &FoundComponents) -> Vec<VersionDifference> {
        let mut differences = Vec::new();
        for (name, locked) in &self.components {
            let Some(now) = found.0.get(name) else {
                continue;
            };
            let mut differ = |locked: &str, found: &str| {
                differences.push(VersionDifference {
                    component: name.clone(),
                    locked: locked.to_owned(),
                    found: found.to_owned(),
                });
            };
            let Some(now) = now else {
                differ(
                    &format!("{} at {}", locked.version, locked.path),
                    "not there",
                );
                continue;
            };
            match &now.version {
                Some(version) if !locked.version.is_empty() && *version != locked.version => {
                    differ(
                        &format!("version {}", locked.version),
                        &format!("version {version}"),
                    );
                    continue;
                }
                Some(_) | None => {}
            }
            if let Some(path) = now
                .path
                .as_ref()
                .filter(|p| plain(p) != plain(&locked.path))
            {
                differ(&format!("at {}", locked.path), &format!("at {path}"));
            }
            if let Some(digest) = now
                .digest
                .as_ref()
                .filter(|d| !locked.digest.is_empty() && **d != locked.digest)
            {
                differ(
                    &format!("digest {}", locked.digest),
                    &format!("digest {digest}"),
                );
            }
        }
        differences
    }
}

/// Replaces `/bin` by `/usr/bin`, because both are the same directory on nearly all systems.
fn plain(path: &str) -> &str {
    path.strip_prefix("/usr").unwrap_or(path)
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            format: FORMAT,
            sites: BTreeMap::new(),
        }
    }
}

impl Lock {
    /// Returns the path of a campaign's lock.
    pub fn file(dir: &CampaignDir) -> Utf8PathBuf {
        dir.root().join("cvc.lock")
    }

    /// Reads the lock of a campaign. Returns an empty lock if nothing was installed yet.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or was written by a newer cvc.
    pub fn read(dir: &CampaignDir) -> Result<Self, StoreError> {
        let file = Self::file(dir);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(StoreError::io("read", &file)(e)),
        };
        let lock: Self = toml::from_str(&text).map_err(|e| {
            let line = e
                .span()
                .map_or(0, |s| text[..s.start].matches('\n').count() + 1);
            StoreError::damaged(&file, line, e.message().to_owned())
        })?;
        if lock.format > FORMAT {
            return Err(StoreError::newer(&file, lock.format, FORMAT));
        }
        Ok(lock)
    }

    /// Writes the lock atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, dir: &CampaignDir) -> Result<(), StoreError> {
        let file = Self::file(dir);
        std::fs::create_dir_all(dir.root()).map_err(StoreError::io("make", dir.root()))?;
        let body =
            toml::to_string(self).map_err(|e| StoreError::damaged(&file, 0, e.to_string()))?;
        let text = format!(
            "# The software installed for this campaign. `cvc install` writes this file; `cvc run` stops if a site has other software.\n{body}"
        );
        cvc_core::store::write_whole(&file, text.as_bytes())
    }

    /// Records the current software of a site in the file. The file is read again first, because another site may have been recorded meanwhile.
    ///
    /// # Errors
    /// The file cannot be read or written, or the software differs from the lock and `update` is not set.
    pub fn record(
        dir: &CampaignDir,
        site: &str,
        now: SiteLock,
        update: bool,
    ) -> Result<(), InstallError> {
        let mut lock = Self::read(dir)?;
        lock.take(dir, site, now, update)?;
        Ok(lock.write(dir)?)
    }

    /// Returns the locked versions of a site's distribution packages, for the Ansible roles.
    pub fn pins(&self, site: &str) -> BTreeMap<String, String> {
        let components = self
            .sites
            .get(site)
            .into_iter()
            .flat_map(|s| s.components.values());
        let pinned = components.filter(|c| {
            c.source == "package" && !c.package.is_empty() && !c.package_version.is_empty()
        });
        pinned
            .map(|c| (c.package.clone(), c.package_version.clone()))
            .collect()
    }

    /// Returns the path of a component on a site.
    pub fn path(&self, site: &str, component: &str) -> Option<&str> {
        Some(
            self.sites
                .get(site)?
                .components
                .get(component)?
                .path
                .as_str(),
        )
    }

    /// Compares a site's software with the campaign's lock or, with `update`, changes the lock to the site's software. Components that are not locked
    /// are ignored. Without `update`, runs use the same software as earlier runs, or are refused.
    ///
    /// # Errors
    /// The lock cannot be read or written, or the site's software differs from the lock and `update` is not set.
    pub fn keep(
        dir: &CampaignDir,
        site: &str,
        found: &FoundComponents,
        update: bool,
    ) -> Result<(), InstallError> {
        let mut lock = Self::read(dir)?;
        if !update {
            return lock.check(dir, site, found);
        }
        let before = lock.clone();
        lock.accept(site, found);
        if lock != before {
            lock.write(dir)?;
        }
        Ok(())
    }

    /// Checks that a site has the locked software.
    ///
    /// # Errors
    /// Lists every difference.
    pub fn check(
        &self,
        dir: &CampaignDir,
        site: &str,
        found: &FoundComponents,
    ) -> Result<(), InstallError> {
        let differences = self
            .sites
            .get(site)
            .map(|s| s.compare(found))
            .unwrap_or_default();
        if differences.is_empty() {
            Ok(())
        } else {
            Err(InstallError::Changed {
                site: site.to_owned(),
                file: Self::file(dir),
                differences,
            })
        }
    }

    /// Records the software that an installation found. New components are added to the lock. Locked components must be unchanged, unless `update` is
    /// set.
    ///
    /// # Errors
    /// Lists every difference.
    pub fn take(
        &mut self,
        dir: &CampaignDir,
        site: &str,
        now: SiteLock,
        update: bool,
    ) -> Result<(), InstallError> {
        if !update {
            let found = now.components.iter().map(|(name, c)| {
                let one = FoundComponent {
                    version: Some(c.version.clone()),
                    path: Some(c.path.clone()),
                    digest: Some(c.digest.clone()),
                };
                (name.clone(), Some(one))
            });
            self.check(dir, site, &FoundComponents(found.collect()))?;
        }
        let locked = self.sites.entry(site.to_owned()).or_default();
        if now.hosts.len() >= locked.hosts.len() {
            locked.hosts = now.hosts;
        }
        locked.components.extend(now.components);
        Ok(())
    }

    /// Replaces version, path and digest of a site's locked components by those found on the site.
    pub fn accept(&mut self, site: &str, found: &FoundComponents) {
        for (name, locked) in self
            .sites
            .get_mut(site)
            .into_iter()
            .flat_map(|s| &mut s.components)
        {
            let Some(Some(now)) = found.0.get(name) else {
                continue;
            };
            if let Some(version) = &now.version {
                if *version != locked.version {
                    // the version of the package is unknown: the package manager was not queried
                    locked.package_version.clear();
                }
                locked.version.clone_from(version);
            }
            if let Some(path) = now
                .path
                .as_ref()
                .filter(|p| plain(p) != plain(&locked.path))
            {
                locked.path.clone_from(path);
            }
            if let Some(digest) = &now.digest {
                locked.digest.clone_from(digest);
            }
        }
    }
}

/// Returns the lock of a site from the report of its installation. All hosts must have the same software.
///
/// # Errors
/// Hosts differ.
pub fn of(name: &str, site: &Site, report: &InstallReport) -> Result<SiteLock, InstallError> {
    let mut by_host: BTreeMap<&str, Vec<(&str, Component)>> = BTreeMap::new();
    for (host, components) in &report.installed {
        for (component, found) in components {
            let version = match component.split_once('/') {
                Some(("mpi", library)) => site
                    .mpi
                    .get(library)
                    .map(|l| mpi::launcher(l.family).version_or_unknown(&found.version_output))
                    .unwrap_or_default(),
                Some(_) => String::new(),
                None => ckpt::all()
                    .find(|c| c.name() == component)
                    .and_then(Checkpointer::software)
                    .and_then(|software| (software.version)(&found.version_output))
                    .unwrap_or_default(),
            };
            let one = Component {
                version,
                source: found.source.clone(),
                path: found.path.clone(),
                package: found.package.clone(),
                package_version: found.package_version.clone(),
                digest: found.digest.clone(),
            };
            by_host.entry(component).or_default().push((host, one));
        }
    }
    let mut components = BTreeMap::new();
    for (component, mut found) in by_host {
        if found.iter().any(|(_, c)| c != &found[0].1) {
            let show = |c: &Component| {
                [&c.version, &c.package_version, &c.path]
                    .into_iter()
                    .filter(|t| !t.is_empty())
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let values = found
                .iter()
                .map(|(host, c)| ((*host).to_owned(), show(c)))
                .collect();
            return Err(InstallError::Differ {
                site: name.to_owned(),
                component: component.to_owned(),
                values,
            });
        }
        components.insert(component.to_owned(), found.swap_remove(0).1);
    }
    Ok(SiteLock {
        hosts: report.hosts.keys().cloned().collect(),
        components,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(version: &str, path: &str, digest: &str) -> Component {
        Component {
            version: version.into(),
            path: path.into(),
            digest: digest.into(),
            ..Component::default()
        }
    }

    fn site() -> SiteLock {
        let components = [
            (
                "mpi/mpich".to_owned(),
                locked("4.0.2", "/usr/bin/mpiexec.mpich", ""),
            ),
            (
                "dmtcp".to_owned(),
                locked("4.2.0", "/opt/dmtcp/bin/dmtcp_launch", ""),
            ),
            (
                "kernels/mpich".to_owned(),
                locked("", "/home/a/kernels", "abc"),
            ),
        ];
        SiteLock {
            hosts: vec!["n1".into()],
            components: components.into(),
        }
    }

    fn found(name: &str, version: &str, path: &str, digest: Option<&str>) -> FoundComponents {
        let one = FoundComponent {
            version: Some(version.into()),
            path: Some(path.into()),
            digest: digest.map(str::to_owned),
        };
        FoundComponents([(name.to_owned(), Some(one))].into())
    }

    #[test]
    fn the_same_is_no_difference_and_what_was_not_looked_for_neither() {
        assert_eq!(site().compare(&FoundComponents::default()), []);
        assert_eq!(
            site().compare(&found("mpi/mpich", "4.0.2", "/bin/mpiexec.mpich", None)),
            []
        );
        assert_eq!(site().compare(&found("mpi/new", "1", "/x", None)), []);
        assert_eq!(
            site().compare(&found("kernels/mpich", "", "/home/a/kernels", Some("abc"))),
            []
        );
    }

    #[test]
    fn every_kind_of_difference_has_both_values() {
        let differences = |found: &FoundComponents| {
            site()
                .compare(found)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            differences(&found("mpi/mpich", "5.0.0", "/x", None)),
            ["mpi/mpich: version 4.0.2 was installed, now version 5.0.0"]
        );
        assert_eq!(
            differences(&found(
                "dmtcp",
                "4.2.0",
                "/usr/local/bin/dmtcp_launch",
                None
            )),
            [
                "dmtcp: at /opt/dmtcp/bin/dmtcp_launch was installed, now at /usr/local/bin/dmtcp_launch"
            ]
        );
        assert_eq!(
            differences(&found("kernels/mpich", "", "/home/a/kernels", Some("def"))),
            ["kernels/mpich: digest abc was installed, now digest def"]
        );
        let gone = FoundComponents([("dmtcp".to_owned(), None)].into());
        assert_eq!(
            differences(&gone),
            ["dmtcp: 4.2.0 at /opt/dmtcp/bin/dmtcp_launch was installed, now not there"]
        );
    }

    #[test]
    fn hosts_that_differ_are_named_with_what_they_have() {
        let mut report = InstallReport {
            site: "s".into(),
            ..InstallReport::default()
        };
        for (host, version) in [("n1", "4.2.0"), ("n2", "3.2.0")] {
            let one = crate::install::Installed {
                path: "/p".into(),
                version_output: format!("dmtcp_launch (DMTCP) {version}"),
                ..Default::default()
            };
            report
                .installed
                .entry(host.into())
                .or_default()
                .insert("dmtcp".into(), one);
        }
        let text = "schema = 1\nname = \"t\"\n[sites.s]\nkind = \"local\"\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n";
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let spec = cvc_core::campaign::load_text(std::path::Path::new("t.toml"), text, &[apps])
            .expect("a campaign");
        let error = of("s", &spec.sites["s"], &report)
            .expect_err("they differ")
            .to_string();
        assert!(
            error.contains("the hosts differ in dmtcp: n1 has 4.2.0 /p, n2 has 3.2.0 /p"),
            "{error}"
        );
        report.installed.shift_remove("n2");
        let lock = of("s", &spec.sites["s"], &report).expect("one host");
        assert_eq!(lock.components["dmtcp"].version, "4.2.0");
    }
}
