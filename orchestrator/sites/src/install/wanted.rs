//! What a campaign needs on a site, as variables for the roles.

use super::spack::{self, Wanted as Build};
use cvc_core::app::template_values;
use cvc_core::campaign::{Ec2Settings, MpiSource, Site, Spec};
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
struct Known {
    apps_known: BTreeMap<String, Program>,
}

#[derive(Deserialize)]
struct Program {
    spack: Option<String>,
}

/// What a site needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// For `--extra-vars @FILE`.
    pub vars: Value,
    /// The Spack environment, for people; the same is in the variables.
    pub spack: Value,
}

/// Collects what the points of a site need.
pub fn of(
    spec: &Spec,
    plan: &Plan,
    name: &str,
    site: &Site,
    pins: &BTreeMap<String, String>,
) -> Wanted {
    let all = plan.points.iter().map(|p| &p.point);
    let points: Vec<&Point> = all.filter(|p| p.site == name).collect();
    let used: BTreeSet<&str> = points.iter().map(|p| p.mpi.as_str()).collect();
    let install = &site.install;
    let spec_of = |key: &str, usual: &str| match install.specs.get(key) {
        Some(spec) => spec.clone(),
        None => usual.to_owned(),
    };
    let mut builds = Vec::new();
    let mut libraries = Vec::new();
    for (library, entry) in site.mpi.iter().filter(|(n, _)| used.contains(n.as_str())) {
        let (source, value) = mpi_source(spec, site, &entry.source);
        let build = if entry.source == MpiSource::Path {
            spec_of(library, mpi::launcher(entry.family).name())
        } else {
            String::new()
        };
        builds.extend((!build.is_empty()).then(|| Build::new(&build, None)));
        libraries.push(
            json!({ "name": library, "family": mpi::launcher(entry.family).name(), "source": source, "value": value, "spack": build }),
        );
    }
    let mut checkpointers = Map::new();
    for (name, software) in ckpt::all().filter_map(|c| Some((c.name(), c.software()?))) {
        let wanted = points
            .iter()
            .any(|p| ckpt::checkpointer(p.checkpointer).name() == name);
        let prefix = prefix_of(spec, site, software);
        let spack = if prefix.is_empty() {
            spec_of(name, name)
        } else {
            String::new()
        };
        builds.extend((wanted && prefix.is_empty()).then(|| Build::new(&spack, None)));
        let vars = [
            ("wanted", wanted.into()),
            ("prefix", prefix.into()),
            ("spack", spack.into()),
        ];
        checkpointers.extend(vars.map(|(key, value)| (format!("{name}_{key}"), value)));
    }
    let traced = points
        .iter()
        .any(|p| spec.trace.of(p) == TracerKind::Darshan);
    let (runtime, util) = (
        spec_of("darshan-runtime", "darshan-runtime"),
        spec_of("darshan-util", "darshan-util"),
    );
    if traced {
        let mpi = site
            .mpi
            .iter()
            .find(|(n, _)| used.contains(n.as_str()))
            .map(|(_, m)| mpi::launcher(m.family).name());
        builds.extend([Build::new(&runtime, mpi), Build::new(&util, None)]);
    }
    let programs = programs(spec, site, &points);
    builds.extend(
        programs
            .iter()
            .filter_map(|p| p["spack"].as_str())
            .filter(|s| !s.is_empty())
            .map(|s| Build::new(s, None)),
    );
    let has_kernels = points
        .iter()
        .any(|p| spec.apps.get(&p.app).is_some_and(|a| a.descriptor.kernel));
    let environment = spack::environment(&builds);
    let mut vars = json!({
        "base_ssh_key": site.exchanges_keys(),
        "storage_areas": storage(spec, site, &points),
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
        "component_use_spack": install.build,
        "component_pins": pins,
        "component_spack_prefix": install.spack.as_ref().map(|p| on_site(spec, site, p)).unwrap_or_default(),
        "component_spack_yaml": environment.to_string(),
    });
    if let Some(dir) = &install.spack_dir {
        vars["component_spack_dir"] = on_site(spec, site, dir).into();
    }
    if let Some(vars) = vars.as_object_mut() {
        vars.extend(checkpointers);
        vars.extend(site.ec2.iter().flat_map(|settings| disks(settings, site)));
    }
    Wanted {
        vars,
        spack: environment,
    }
}

/// Where an MPI library comes from: its kind in the role's variables, and the path or name.
fn mpi_source(spec: &Spec, site: &Site, source: &MpiSource) -> (&'static str, String) {
    match source {
        MpiSource::Path => ("path", String::new()),
        MpiSource::Prefix(value) => ("prefix", on_site(spec, site, value)),
        MpiSource::Module(value) => ("module", literal(value)),
        MpiSource::Mpiexec(value) if value.contains('/') => ("mpiexec", on_site(spec, site, value)),
        MpiSource::Mpiexec(value) => ("mpiexec", literal(value)),
    }
}

/// A path on the site's machines: resolved here for this machine; on others Ansible's facts resolve `~` and variables.
fn on_site(spec: &Spec, site: &Site, written: &str) -> String {
    let base = spec.directory();
    if site.cluster.is_none() {
        return literal(cvc_core::paths::expand_below(base, written).as_str());
    }
    remote(written)
}

/// Replaces `~` and `$NAME` by templates that Ansible resolves on each host, and quotes anything else that it would take for a template.
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

/// Returns a checkpointer's prefix: the site's or, on this machine, the environment's.
fn prefix_of(spec: &Spec, site: &Site, software: Software) -> String {
    match (software.prefix)(site) {
        Some(prefix) => on_site(spec, site, prefix),
        None if site.cluster.is_none() => std::env::var(software.root).unwrap_or_default(),
        None => String::new(),
    }
}

/// The storage areas that points write into. Those without a path are the runs' own directories and need no preparation.
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

/// Disks of instances, and the directory that the first instance shares with the others.
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
        // not the outside address, which the instances' own group does not let in
        vars.insert("storage_nfs_address".into(), first.among_nodes().into());
        vars.insert(
            "storage_nfs_exports".into(),
            json!([{ "path": directory(path) }]),
        );
    }
    vars
}

/// A path without a slash at the end, as mounts are listed.
fn directory(path: &str) -> String {
    literal(path.trim_end_matches('/'))
}

/// Programs of the applications that do not come with cvc: one entry for each set of names that will do.
fn programs(spec: &Spec, site: &Site, points: &[&Point]) -> Vec<Value> {
    let known: BTreeMap<String, Program> = serde_json::from_str::<Known>(KNOWN)
        .map(|k| k.apps_known)
        .unwrap_or_default();
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
        let spack = spec_text.map(|s| Build::new(&s, Some(family)).spec).unwrap_or_default();
        let hint = spec.apps.get(&app).map(|a| literal(&a.descriptor.program.install)).unwrap_or_default();
        let names: Vec<String> = names.iter().map(|n| literal(n)).collect();
        Some(json!({ "app": app, "mpi": mpi, "family": family, "programs": names, "spack": spack, "hint": hint }))
    });
    entries.collect()
}
