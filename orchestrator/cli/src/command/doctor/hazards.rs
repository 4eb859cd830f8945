//! The known hazards of MPI and DMTCP that a campaign's points meet, by the same rule that runs use.

use cvc_core::campaign::{Site, SiteKind, SlurmLauncher, Spec};

use cvc_core::plan::Plan;

use cvc_core::point::Point;
use cvc_engine::{
    attempt::ReadySite,
    ckpt::quirks::{self, Quirk, Situation},
    mpi::launcher,
    transport::Transport,
};
use indexmap::{IndexMap, IndexSet};

/// Possible devices of an MPICH whose installation was not examined: it may have the hazards of each.
const DEVICES: [&str; 3] = ["ch3:nemesis", "ch4:ucx", "ch4:ofi"];

/// Returns the hazards that at least one point of a plan meets, in the order of the table.
pub(super) fn of_campaign(
    spec: &Spec,
    plan: &Plan,
    sites: &IndexMap<String, ReadySite>,
) -> Vec<Quirk> {
    let mut met: IndexSet<String> = IndexSet::new();
    for planned in &plan.points {
        let Some(site) = spec.sites.get(&planned.point.site) else {
            continue;
        };
        for situation in situations(site, sites.get(&planned.point.site), &planned.point) {
            met.extend(quirks::apply(&situation).into_iter().map(|quirk| quirk.id));
        }
    }
    quirks::table()
        .into_iter()
        .filter(|quirk| met.contains(&quirk.id))
        .collect()
}

/// Returns the possible situations of a point's runs: one if the library was examined, otherwise one for each device that it may have.
fn situations(site: &Site, ready: Option<&ReadySite>, point: &Point) -> Vec<Situation> {
    let Some(library) = site.mpi.get(&point.mpi) else {
        return Vec::new();
    };
    let installed = ready.and_then(|ready| ready.mpi.get(&point.mpi)?.as_ref().ok());
    let of = |device: Option<String>, version: String| Situation {
        checkpointer: point.checkpointer,
        family: launcher(library.family),
        device,
        version,
        transport: transport(site),
        more_ranks_than_cores: ready
            .is_none_or(|ready| point.mapping.node_loads().any(|load| load > ready.cores)),
        nodes: point.mapping.nodes(),
        checkpointer_version: ready.map_or(Some((4, 2)), |ready| {
            ready.checkpointer(point.checkpointer).ok()?.major_minor()
        }),
    };
    match installed {
        Some(installed) => vec![of(installed.device.clone(), installed.version.clone())],
        None => DEVICES
            .iter()
            .map(|device| of(Some((*device).to_owned()), "4.0".to_owned()))
            .collect(),
    }
}

fn transport(site: &Site) -> Transport {
    let slurm = || {
        site.cluster
            .as_ref()
            .and_then(|cluster| cluster.slurm.as_ref())
    };
    match site.kind {
        SiteKind::Local => Transport::Local,
        SiteKind::Ssh | SiteKind::Ec2 => Transport::Ssh,
        SiteKind::Slurm => {
            Transport::Slurm(slurm().map_or(SlurmLauncher::default(), |slurm| slurm.launcher))
        }
    }
}
