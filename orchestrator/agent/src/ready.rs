//! Everything before an agent's first run: sets up the nodes, determines the kind of storage areas, finds software, and checks which points can run.

use super::{
    error::ReadyError,
    nodes::{self, NodeAccess},
    protocol::{Event, Orders},
    spool::{EventLog, Spool},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{StorageArea, StorageKind};
use cvc_core::ids::PointId;
use cvc_core::point::{PlannedPoint, Point};
use cvc_engine::{
    attempt::{
        FoundComponents, LocalExecutor, Nodes, PendingCleanup, Readiness, ReadySite, Shepherds,
        SiteContext, Steps, UsedFileSystem,
    },
    ckpt::checkpointer,
    transport::Transport,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// An agent that can accept runs.
pub(super) struct ReadyAgent {
    pub executor: LocalExecutor,
    /// The event that reports nodes and software.
    pub ready: Event,
    /// Whether the other nodes share the spool; `None` without other nodes.
    pub spool_kind: Option<StorageKind>,
}

/// Sets up the nodes, and checks which points they can run.
///
/// # Errors
/// The nodes cannot be set up or queried, or the event log cannot be written.
pub(super) async fn get_ready(
    spool: &Spool,
    orders: &Orders,
    takes_over: bool,
    program: &Utf8Path,
    log: &mut EventLog,
) -> Result<ReadyAgent, ReadyError> {
    let cluster = orders
        .context
        .site
        .cluster
        .clone()
        .ok_or_else(|| ReadyError::Site("the site has no machines".into()))?;
    let mut noted = Vec::new();
    let gathered = nodes::gather(orders, &cluster, takes_over, |what| noted.push(what)).await;
    write_notes(&mut noted, log)?;
    let (mut gathered, accesses) = gathered?;
    let mut context = orders.context.clone();
    context.base = spool.root().to_owned();
    let areas = nodes::areas(orders, spool.root());
    nodes::ask_places(&mut gathered, areas.values()).await?;
    let spool_found = nodes::storage_kind(&gathered, spool.root()).await;
    let area_problems =
        find_area_kinds(&mut context, &gathered, areas, spool.root(), &spool_found).await;
    let spool_kind = spool_found.ok().filter(|_| !gathered.others().is_empty());
    let readiness = Readiness::for_points(
        &context.apps,
        &context.trace,
        orders.points.iter().map(|p| &p.point),
    );
    let mut site = ReadySite::ask(Arc::new(context), readiness, |what| noted.push(what)).await;
    write_notes(&mut noted, log)?;
    let smallest = gathered
        .all
        .iter()
        .filter_map(|n| gathered.facts.get(&n.name))
        .map(|f| f.cpu.usable)
        .min();
    site.cores = cluster.cores.or(smallest).unwrap_or(site.cores);
    for directory in site.kernels.values().filter_map(|k| k.as_ref().ok()) {
        spread_kernels(&gathered, &accesses, directory).await?;
    }
    let mut obstacles = obstacles(&site, &gathered, &orders.points, &area_problems).await?;
    if matches!(gathered.transport, Transport::Slurm(_)) {
        for (id, reason) in unreachable_by_ssh(&gathered, &orders.points).await {
            obstacles.entry(id).or_insert(reason);
        }
    }
    let names = gathered.all.iter().map(|n| n.name.clone()).collect();
    let ready = Event::Ready {
        nodes: names,
        cores: site.cores,
        obstacles,
        found: FoundComponents::of(&site),
    };
    let executor = LocalExecutor {
        site: Arc::new(site),
        nodes: Arc::new(gathered),
        dir: spool.campaign(),
        shepherds: Shepherds::new(vec![program.to_string(), "shepherd".into()]),
        pending_cleanup: PendingCleanup::default(),
        steps: Steps::default(),
    };
    Ok(ReadyAgent {
        executor,
        ready,
        spool_kind,
    })
}

/// Writes the collected notes as events, and clears them.
fn write_notes(noted: &mut Vec<String>, log: &mut EventLog) -> Result<(), ReadyError> {
    noted
        .drain(..)
        .try_for_each(|what| Ok(log.write(Event::Note { what })?))
}

/// Determines which storage areas all nodes share, and stores that in the context where the campaign file does not specify it. Returns the problem of
/// each unusable area.
async fn find_area_kinds(
    context: &mut SiteContext,
    nodes: &Nodes,
    areas: BTreeMap<String, Utf8PathBuf>,
    spool: &Utf8Path,
    spool_found: &Result<StorageKind, ReadyError>,
) -> BTreeMap<String, String> {
    let mut problems = BTreeMap::new();
    let alone = nodes.others().is_empty();
    for (name, directory) in areas {
        let asked;
        let found = if directory == spool {
            spool_found
        } else {
            asked = nodes::storage_kind(nodes, &directory).await;
            &asked
        };
        let Some(area) = context.site.storage.get_mut(&name) else {
            continue;
        };
        let of_file_system = file_system_problem(area, &name, &directory, nodes).await;
        let problem = match (of_file_system, found) {
            // this problem explains the difference between the nodes
            (Some(problem), _) => Some(problem),
            (None, Err(problem)) => Some(problem.to_string()),
            (None, Ok(found)) if !alone && *found != area.kind => {
                correct_kind(area, *found, &name, &directory)
            }
            (None, Ok(_)) => None,
        };
        problems.extend(problem.map(|problem| (name, problem)));
    }
    problems
}

/// Returns the problem of a file system that cvc has deployed: a node has mounted another file system, or servers are missing. `None` if there is no
/// problem.
async fn file_system_problem(
    area: &StorageArea,
    name: &str,
    directory: &Utf8Path,
    nodes: &Nodes,
) -> Option<String> {
    let deployed = area.deploy.as_ref()?.file_system;
    let others = nodes.facts.iter().filter_map(|(node, facts)| {
        let mut places = facts.places.iter();
        let place = places.find(|place| place.path == directory)?;
        let is_it = deployed.is_mounted_as(&place.file_system, &place.source)
            && place.mount_point == directory;
        (!is_it).then(|| format!("{node} has {} there", place.file_system))
    });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        return Some(format!(
            "storage area {name} ({directory}) is {}, but {}: deploy it with `cvc install`",
            deployed.title(),
            others.join(", ")
        ));
    }
    let file_system = UsedFileSystem::from_area(name, area, &nodes.facts)?;
    let problem = file_system.server_problem(&nodes.crew).await?;
    Some(format!("{problem}; `cvc install` starts it again"))
}

/// Stores the detected kind of a storage area if cvc has chosen its path. If the user has chosen the path, returns the problem that the detected kind
/// differs from the declared kind. Call this only if the two kinds differ.
fn correct_kind(
    area: &mut StorageArea,
    found: StorageKind,
    name: &str,
    directory: &Utf8Path,
) -> Option<String> {
    if area.path.is_none() {
        area.kind = found;
        return None;
    }
    let (called, is) = match area.kind {
        StorageKind::Shared => ("shared", "each node sees its own files there"),
        StorageKind::NodeLocal => ("node-local", "all nodes see the same files there"),
    };
    Some(format!(
        "storage area {name} ({directory}) is declared as {called}, but {is}: correct its `kind`"
    ))
}

/// Copies the kernels compiled here to the nodes that do not share them.
async fn spread_kernels(
    nodes: &Nodes,
    accesses: &[NodeAccess],
    directory: &Utf8Path,
) -> Result<(), ReadyError> {
    let programs: Vec<Utf8PathBuf> = directory
        .read_dir_utf8()
        .map(|d| {
            d.flatten()
                .map(|e| e.into_path())
                .filter(|p| p.is_file())
                .collect()
        })
        .unwrap_or_default();
    let differing = nodes::differing(nodes, &programs, &BTreeSet::new()).await?;
    let lacking: BTreeSet<&str> = differing
        .values()
        .flatten()
        .map(|(node, _)| node.as_str())
        .collect();
    for access in accesses
        .iter()
        .filter(|w| lacking.contains(w.node.name.as_str()))
    {
        nodes::spread_directory(access, directory).await?;
    }
    Ok(())
}

/// Returns the points that cannot run here, with the reasons: software is missing on this machine, or differs between nodes.
async fn obstacles(
    site: &ReadySite,
    nodes: &Nodes,
    points: &[PlannedPoint],
    area_problems: &BTreeMap<String, String>,
) -> Result<BTreeMap<PointId, String>, ReadyError> {
    let mut obstacles = BTreeMap::new();
    let mut needed: Vec<(PointId, Vec<Utf8PathBuf>)> = Vec::new();
    let mut files: BTreeSet<Utf8PathBuf> = BTreeSet::new();
    // any version can read the files of any other version
    let mut compressors: BTreeSet<Utf8PathBuf> = BTreeSet::new();
    for PlannedPoint { id, point, .. } in points {
        if let Some(reason) = site
            .obstacle(point)
            .or_else(|| area_problems.get(&point.storage).cloned())
        {
            obstacles.insert(id.clone(), reason);
        } else if point.mapping.nodes() as usize > nodes.all.len() {
            obstacles.insert(
                id.clone(),
                format!(
                    "{} needs {} nodes, and the site has {}",
                    point.mapping,
                    point.mapping.nodes(),
                    nodes.all.len()
                ),
            );
        } else {
            let mut of_point = programs(site, point);
            let compressor = compressor(point);
            compressors.extend(compressor.clone());
            of_point.extend(compressor);
            files.extend(of_point.iter().cloned());
            needed.push((id.clone(), of_point));
        }
    }
    let files: Vec<Utf8PathBuf> = files.into_iter().collect();
    let differing = nodes::differing(nodes, &files, &compressors).await?;
    for (id, of_point) in needed {
        let wrong: Vec<_> = of_point
            .iter()
            .filter_map(|file| Some((file, differing.get(file)?)))
            .collect();
        if !wrong.is_empty() {
            obstacles.insert(id, not_equal(&wrong, &compressors));
        }
    }
    Ok(obstacles)
}

/// Returns the points under DMTCP on several nodes that cannot run in a Slurm job because the nodes do not reach each other by ssh. Processes that
/// srun starts belong to Slurm, and cannot be restarted.
async fn unreachable_by_ssh(nodes: &Nodes, points: &[PlannedPoint]) -> BTreeMap<PointId, String> {
    let by_ssh = |p: &PlannedPoint| {
        checkpointer(p.point.checkpointer).transport(nodes.transport) == Transport::Ssh
    };
    let needs = |p: &&PlannedPoint| by_ssh(p) && p.point.mapping.nodes() > 1;
    if !points.iter().any(|p| needs(&p)) {
        return BTreeMap::new();
    }
    let problems = nodes::not_by_ssh(nodes).await;
    if problems.is_empty() {
        return BTreeMap::new();
    }
    let reason = format!(
        "DMTCP starts ranks on other nodes by ssh, not by srun, and ssh from {} does not work: {}; allow ssh between the nodes of a job (keys, \
         pam_slurm_adopt), or use one node",
        nodes.head.name,
        problems.join("; ")
    );
    points
        .iter()
        .filter(needs)
        .map(|p| (p.id.clone(), reason.clone()))
        .collect()
}

/// Returns the programs that every node must have for a point.
fn programs(site: &ReadySite, point: &Point) -> Vec<Utf8PathBuf> {
    let mut files = Vec::new();
    if let Some(app) = site.context.apps.get(&point.app)
        && let Ok(program) = site.program(&app.descriptor, point)
    {
        files.push(program);
    }
    if let Some(Ok(install)) = site.mpi.get(&point.mpi) {
        files.push(install.mpiexec.clone());
    }
    files.extend(
        site.checkpointer(point.checkpointer)
            .map(|install| checkpointer(point.checkpointer).node_programs(install))
            .unwrap_or_default(),
    );
    files
}

/// Returns the program that compresses a point's images; `None` without compression.
fn compressor(point: &Point) -> Option<Utf8PathBuf> {
    checkpointer(point.checkpointer)
        .compressor(point.compression)
        .ok()
        .flatten()
}

/// Describes why a point cannot run if programs are missing on nodes or are different there. The compressor of images is a system package, which cvc
/// does not install.
fn not_equal(
    wrong: &[(&Utf8PathBuf, &Vec<(String, &'static str)>)],
    compressors: &BTreeSet<Utf8PathBuf>,
) -> String {
    let (lacking, different): (Vec<_>, Vec<_>) = wrong
        .iter()
        .partition(|(file, _)| compressors.contains(*file));
    let mut problems: Vec<String> = different
        .iter()
        .map(|(file, nodes)| {
            let nodes: Vec<String> = nodes
                .iter()
                .map(|(node, what)| format!("{node} {what}"))
                .collect();
            format!("{file} is not the same on all nodes: {}", nodes.join(", "))
        })
        .collect();
    if let Some(last) = problems.last_mut() {
        last.push_str("; `cvc install` makes nodes equal");
    }
    problems.extend(lacking.iter().map(|(file, nodes)| {
        let nodes: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
        format!(
            "{file}, which compresses images, is not on {}: install the package {} there",
            nodes.join(", "),
            file.file_name().unwrap_or_default()
        )
    }));
    problems.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_of_images_are_packages_and_differing_files_are_installed_by_cvc() {
        let (program, pigz) = (
            Utf8PathBuf::from("/a/bt"),
            Utf8PathBuf::from("/usr/bin/pigz"),
        );
        let differs = vec![
            ("n1".to_owned(), "has another"),
            ("n2".to_owned(), "lacks it"),
        ];
        let lacks = vec![("n2".to_owned(), "lacks it")];
        let compressors = BTreeSet::from([pigz.clone()]);
        assert_eq!(
            not_equal(&[(&program, &differs), (&pigz, &lacks)], &compressors),
            "/a/bt is not the same on all nodes: n1 has another, n2 lacks it; `cvc install` makes nodes equal; \
             /usr/bin/pigz, which compresses images, is not on n2: install the package pigz there"
        );
        assert_eq!(
            not_equal(&[(&pigz, &lacks)], &compressors),
            "/usr/bin/pigz, which compresses images, is not on n2: install the package pigz there"
        );
    }
}
