//! The software that a campaign needs on a site, as variables for the Ansible roles.

use super::spack::{self, SpackBuild};
use cvc_core::app::template_values;
use cvc_core::campaign::{Deployment, Ec2Settings, MpiSource, Site, Spec};
use cvc_core::plan::Plan;
use cvc_core::point::{Point, TracerKind};
use cvc_engine::{
    ckpt::{self, Software},
    kernels, mpi, render,
};
use cvc_journal::lease::LaunchOrder;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The packages of applications, from the role `apps`.
const KNOWN: &str = include_str!("../../../../ansible/roles/apps/vars/programs.json");

#[derive(Deserialize)]
struct KnownPrograms {
    apps_known: BTreeMap<String, Program>,
}

#[derive(Deserialize)]
struct Program {
    spack: Option<String>,
    /// Package names, by MPI family and distribution.
    #[serde(default)]
    packages: Value,
}

/// Software that a site needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedSoftware {
    /// The variables, for `--extra-vars @FILE`.
    pub vars: Value,
    /// The Spack environment for the user to read; the variables contain the same.
    pub spack: Value,
}

/// Collects the software that the points of a site need.
pub fn collect(
    spec: &Spec,
    plan: &Plan,
    name: &str,
    site: &Site,
    pins: &BTreeMap<String, String>,
) -> RequestedSoftware {
    let all = plan.points.iter().map(|p| &p.point);
    let points: Vec<&Point> = all.filter(|p| p.site == name).collect();
    let used: BTreeSet<&str> = points.iter().map(|p| p.mpi.as_str()).collect();
    let mut builds = Vec::new();
    let libraries = libraries(spec, site, &used, &mut builds);
    let checkpointers = checkpointers(spec, site, &points, &mut builds);
    let traced = points
        .iter()
        .any(|p| spec.trace.of(p) == TracerKind::Darshan);
    let (runtime, util) = (
        build_spec(site, "darshan-runtime", "darshan-runtime"),
        build_spec(site, "darshan-util", "darshan-util"),
    );
    if traced {
        let mpi = site
            .mpi
            .iter()
            .find(|(n, _)| used.contains(n.as_str()))
            .map(|(_, m)| mpi::launcher(m.family).name());
        builds.extend([SpackBuild::new(&runtime, mpi), SpackBuild::new(&util, None)]);
    }
    let programs = programs(spec, site, &points);
    builds.extend(
        programs
            .iter()
            .filter_map(|p| p["spack"].as_str())
            .filter(|s| !s.is_empty())
            .map(|s| SpackBuild::new(s, None)),
    );
    let has_kernels = points
        .iter()
        .any(|p| spec.trace.needs_kernels(&spec.apps, p));
    let environment = spack::environment(&builds);
    let mut vars = json!({
        "base_ssh_key": site.exchanges_keys(),
        "storage_areas": storage(spec, site, &points),
        "storage_file_systems": file_systems(site, |name| points.iter().any(|p| p.storage == name)),
        "storage_interface": interface(site),
        "mpi_libraries": libraries,
        "mpi_compilers": has_kernels,
        "darshan_wanted": traced,
        "darshan_runtime_spack": runtime,
        "darshan_util_spack": util,
        "apps_programs": programs,
        "apps_dirs": site.app_dirs.iter().map(|d| on_site(spec, site, d)).collect::<Vec<_>>(),
        "kernels_wanted": has_kernels,
        "kernels_digest": kernels::sources_digest(),
        "component_use_packages": site.installs_packages(),
        "component_use_spack": site.install.build,
        "component_pins": pins,
        "component_spack_prefix": site.install.spack.as_ref().map(|p| on_site(spec, site, p)).unwrap_or_default(),
        "component_spack_yaml": environment.to_string(),
    });
    if let Some(dir) = &site.install.spack_dir {
        vars["component_spack_dir"] = on_site(spec, site, dir).into();
    }
    if let Some(vars) = vars.as_object_mut() {
        vars.extend(checkpointers);
        vars.extend(site.ec2.iter().flat_map(|settings| disks(settings, site)));
    }
    RequestedSoftware {
        vars,
        spack: environment,
    }
}

/// Lists the software that the points of a site need and that only Spack provides, because no distribution has a package for it. Software that the
/// campaign file declares as present is omitted.
pub fn without_package(spec: &Spec, plan: &Plan, name: &str, site: &Site) -> Vec<String> {
    let all = plan.points.iter().map(|p| &p.point);
    let points: Vec<&Point> = all.filter(|p| p.site == name).collect();
    let known = known_programs();
    let mut names: Vec<String> = Vec::new();
    for point in &points {
        let is_known = known
            .get(&point.app)
            .is_some_and(|program| program.packages.is_null());
        if is_known && site.app_dirs.is_empty() && !names.contains(&point.app) {
            names.push(point.app.clone());
        }
    }
    for checkpointer in ckpt::all() {
        let wanted = (points.iter())
            .any(|p| ckpt::checkpointer(p.checkpointer).name() == checkpointer.name());
        let is_absent = |software| prefix_of(spec, site, software).is_empty();
        if wanted && checkpointer.software().is_some_and(is_absent) {
            names.push(checkpointer.title().to_owned());
        }
    }
    if points
        .iter()
        .any(|p| spec.trace.of(p) == TracerKind::Darshan)
    {
        names.push("Darshan".to_owned());
    }
    names
}

/// Returns the applications in the role `apps`.
fn known_programs() -> BTreeMap<String, Program> {
    serde_json::from_str::<KnownPrograms>(KNOWN)
        .map(|known| known.apps_known)
        .unwrap_or_default()
}

/// Returns the Spack spec of a component: the site's own, or else `usual`.
fn build_spec(site: &Site, key: &str, usual: &str) -> String {
    let own = site.install.specs.get(key);
    own.map_or_else(|| usual.to_owned(), Clone::clone)
}

/// Returns the MPI libraries that points use.
fn libraries(
    spec: &Spec,
    site: &Site,
    used: &BTreeSet<&str>,
    builds: &mut Vec<SpackBuild>,
) -> Vec<Value> {
    let mut libraries = Vec::new();
    for (library, entry) in site.mpi.iter().filter(|(n, _)| used.contains(n.as_str())) {
        let (source, value) = mpi_source(spec, site, &entry.source);
        let family = mpi::launcher(entry.family).name();
        let build = if entry.source == MpiSource::Path {
            build_spec(site, library, family)
        } else {
            String::new()
        };
        builds.extend((!build.is_empty()).then(|| SpackBuild::new(&build, None)));
        libraries.push(
            json!({ "name": library, "family": family, "source": source, "value": value, "spack": build }),
        );
    }
    libraries
}

/// Returns, for each checkpointer that cvc can install, whether points use it, and where its software comes from.
fn checkpointers(
    spec: &Spec,
    site: &Site,
    points: &[&Point],
    builds: &mut Vec<SpackBuild>,
) -> Map<String, Value> {
    let mut checkpointers = Map::new();
    for (name, software) in ckpt::all().filter_map(|c| Some((c.name(), c.software()?))) {
        let wanted = points
            .iter()
            .any(|p| ckpt::checkpointer(p.checkpointer).name() == name);
        let prefix = prefix_of(spec, site, software);
        let spack = if prefix.is_empty() {
            build_spec(site, name, name)
        } else {
            String::new()
        };
        builds.extend((wanted && prefix.is_empty()).then(|| SpackBuild::new(&spack, None)));
        let vars = [
            ("wanted", wanted.into()),
            ("prefix", prefix.into()),
            ("spack", spack.into()),
        ];
        checkpointers.extend(vars.map(|(key, value)| (format!("{name}_{key}"), value)));
    }
    checkpointers
}

/// Returns the source of an MPI library: its kind in the role's variables, and its path or name.
fn mpi_source(spec: &Spec, site: &Site, source: &MpiSource) -> (&'static str, String) {
    match source {
        MpiSource::Path => ("path", String::new()),
        MpiSource::Prefix(value) => ("prefix", on_site(spec, site, value)),
        MpiSource::Module(value) => ("module", literal(value)),
        MpiSource::Mpiexec(value) if value.contains('/') => ("mpiexec", on_site(spec, site, value)),
        MpiSource::Mpiexec(value) => ("mpiexec", literal(value)),
    }
}

/// Returns a path on the site's machines. If the site is this machine, resolves the path; for other machines Ansible resolves `~` and variables.
fn on_site(spec: &Spec, site: &Site, written: &str) -> String {
    let base = spec.directory();
    if site.cluster.is_none() {
        return literal(cvc_core::paths::expand_below(base, written).as_str());
    }
    remote(written)
}

/// Replaces `~` and `$NAME` by templates that Ansible resolves on each host, and quotes other text that Ansible would interpret as a template.
fn remote(written: &str) -> String {
    let mut out = String::new();
    let variable =
        |name: &str| format!("{{{{ ansible_facts['env']['{name}'] | default('${name}') }}}}");
    let mut rest = written;
    if rest == "~" || rest.starts_with("~/") {
        out += &variable("HOME");
        rest = &rest[1..];
    }
    while let Some(at) = rest.find('$') {
        out += &literal(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, used) = match after.strip_prefix('{').and_then(|a| a.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        out += &if plain {
            variable(name)
        } else {
            "$".to_owned()
        };
        rest = if plain { &after[used..] } else { after };
    }
    out + &literal(rest)
}

fn literal(text: &str) -> String {
    if ["{{", "{%", "{#"].iter().any(|m| text.contains(m)) {
        format!("{{% raw %}}{text}{{% endraw %}}")
    } else {
        text.to_owned()
    }
}

/// Returns the install prefix of a checkpointer: the site's or, on this machine, that in the environment.
fn prefix_of(spec: &Spec, site: &Site, software: Software) -> String {
    match (software.prefix)(site) {
        Some(prefix) => on_site(spec, site, prefix),
        None if site.cluster.is_none() => std::env::var(software.root).unwrap_or_default(),
        None => String::new(),
    }
}

/// Returns the storage areas into which points write. Areas without a path are directories of the runs and need no preparation.
fn storage(spec: &Spec, site: &Site, points: &[&Point]) -> Vec<Value> {
    let used: BTreeSet<&str> = points.iter().map(|p| p.storage.as_str()).collect();
    let areas = site
        .storage
        .iter()
        .filter(|(n, _)| used.contains(n.as_str()));
    areas
        .filter_map(|(name, area)| {
            Some(json!({ "name": name, "path": on_site(spec, site, area.path.as_ref()?) }))
        })
        .collect()
}

/// Returns the file systems that a site deploys for storage areas whose names satisfy `is_wanted`.
pub(super) fn file_systems(site: &Site, is_wanted: impl Fn(&str) -> bool) -> Vec<Value> {
    let areas = site.storage.iter().filter(|(name, _)| is_wanted(name));
    areas
        .filter_map(|(name, area)| {
            let deployment = area.deploy.as_ref()?;
            Some(json!({
                "name": name,
                "file_system": deployment.file_system.name(),
                "metadata": deployment.metadata,
                "data": deployment.data,
                "path": directory(area.path.as_ref()?),
                "directory": directory(&deployment.directory),
                "copies": deployment.copies,
                "stripe": deployment.stripe.map_or(0, |size| size.0),
                "count": area.count_operations,
                "volume": Deployment::volume(name),
            }))
        })
        .collect()
}

/// Returns the network interface of a site, or an empty string.
pub(super) fn interface(site: &Site) -> String {
    let named = site.cluster.as_ref().and_then(|of| of.interface.clone());
    named.unwrap_or_default()
}

/// Returns the variables for instances' disks, and for the directory that the first instance shares with the other instances.
fn disks(settings: &Ec2Settings, site: &Site) -> Map<String, Value> {
    let volumes = settings.instances.volumes.iter().enumerate().filter_map(|(i, volume)| {
        let device = LaunchOrder::device_of(i)?;
        Some(json!({ "device": device, "mount": directory(&volume.mount), "size_gib": volume.size_gib }))
    });
    let mut vars = Map::from_iter([("storage_volumes".to_owned(), volumes.collect())]);
    if let Some(path) = &settings.instance_store {
        vars.insert("storage_instance_store".into(), directory(path).into());
    }
    let hosts = site.cluster.as_ref().map_or(&[][..], |c| &c.hosts);
    if let (Some(path), [first, _, ..]) = (&settings.nfs, hosts) {
        vars.insert("storage_nfs_server".into(), first.name.clone().into());
        // the internal address: the security group does not admit other instances at the public one
        vars.insert("storage_nfs_address".into(), first.among_nodes().into());
        vars.insert(
            "storage_nfs_exports".into(),
            json!([{ "path": directory(path) }]),
        );
    }
    vars
}

/// Returns a path without a final slash, as in lists of mounts.
fn directory(path: &str) -> String {
    literal(path.trim_end_matches('/'))
}

/// Returns the programs of applications that are not part of cvc: one entry for each set of alternative names.
fn programs(spec: &Spec, site: &Site, points: &[&Point]) -> Vec<Value> {
    let known = known_programs();
    let mut found: IndexMap<(String, String, Vec<String>), ()> = IndexMap::new();
    for point in points {
        let Some(app) = spec.apps.get(&point.app).filter(|a| !a.descriptor.kernel) else {
            continue;
        };
        let values = template_values(&app.descriptor, point, "", "", "");
        let names = app
            .descriptor
            .program
            .names
            .iter()
            .filter_map(|n| render::render_text("program.names", n, &values).ok())
            .collect();
        found.insert((point.app.clone(), point.mpi.clone(), names), ());
    }
    let entries = found.into_keys().filter_map(|(app, mpi, names)| {
        let family = mpi::launcher(site.mpi.get(&mpi)?.family).name();
        let mine: Vec<&&Point> = points.iter().filter(|p| p.app == app && p.mpi == mpi).collect();
        let list = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(",");
        let words = json!({
            "classes": list(mine.iter().map(|p| p.class.clone()).collect()),
            "processes": mine.iter().map(|p| p.processes()).collect::<BTreeSet<_>>().into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(","),
        });
        let template = site.install.specs.get(&app).or_else(|| known.get(&app)?.spack.as_ref());
        let spec_text = template.and_then(|t| render::render_text("spack spec", t, &words).ok());
        let spack = spec_text.map(|s| SpackBuild::new(&s, Some(family)).spec).unwrap_or_default();
        let hint = spec.apps.get(&app).map(|a| literal(&a.descriptor.program.install)).unwrap_or_default();
        let names: Vec<String> = names.iter().map(|n| literal(n)).collect();
        Some(json!({ "app": app, "mpi": mpi, "family": family, "programs": names, "spack": spack, "hint": hint }))
    });
    entries.collect()
}
