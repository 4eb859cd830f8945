//! Everything before an agent's first run: gathers the nodes, classifies storage areas, finds software, and checks which points can run.

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
        Found, LocalExecutor, Nodes, PendingCleanup, Readiness, ReadySite, Shepherds, SiteContext,
        Steps,
    },
    ckpt::checkpointer,
    transport::Transport,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// An agent that can take runs.
pub(super) struct ReadyAgent {
    pub executor: LocalExecutor,
    /// The event that reports nodes and software.
    pub ready: Event,
    /// Whether the other nodes see the spool, if there are any.
    pub spool_kind: Option<StorageKind>,
}

/// Gathers the nodes and checks what they can run.
///
/// # Errors
/// When nodes cannot be gathered or asked, or the event log cannot be written.
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
    let spool_found = nodes::storage_kind(&gathered, spool.root())
        .await
        .map_err(|e| e.to_string());
    let area_problems =
        find_area_kinds(&mut context, &gathered, areas, spool.root(), &spool_found).await;
    let spool_kind = spool_found.ok().filter(|_| !gathered.others().is_empty());
    let readiness = Readiness::for_points(&context.apps, orders.points.iter().map(|p| &p.point));
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
        found: Found::of(&site),
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

/// Logs the notes so far as events.
fn write_notes(noted: &mut Vec<String>, log: &mut EventLog) -> Result<(), ReadyError> {
    noted
        .drain(..)
        .try_for_each(|what| Ok(log.write(Event::Note { what })?))
}

/// Finds out which storage areas all nodes see, and completes the context where the user did not say. Returns the problem of each of the
/// others.
async fn find_area_kinds(
    context: &mut SiteContext,
    nodes: &Nodes,
    areas: BTreeMap<String, Utf8PathBuf>,
    spool: &Utf8Path,
    spool_found: &Result<StorageKind, String>,
) -> BTreeMap<String, String> {
    let mut problems = BTreeMap::new();
    let alone = nodes.others().is_empty();
    for (name, directory) in areas {
        let found = if directory == spool {
            spool_found.clone()
        } else {
            nodes::storage_kind(nodes, &directory)
                .await
                .map_err(|e| e.to_string())
        };
        let Some(area) = context.site.storage.get_mut(&name) else {
            continue;
        };
        let problem = match found {
            Err(problem) => Some(problem),
            Ok(found) if !alone && found != area.kind => {
                correct_kind(area, found, &name, &directory)
            }
            Ok(_) => None,
        };
        problems.extend(problem.map(|problem| (name, problem)));
    }
    problems
}

/// Records the kind of a storage area; an area whose path the user gave must be of the declared kind.
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
        StorageKind::Shared => ("shared", "each node sees files of its own there"),
        StorageKind::NodeLocal => ("node-local", "all nodes see the same files there"),
    };
    Some(format!(
        "storage area {name} ({directory}) is declared as {called}, but {is}: correct its `kind`"
    ))
}

/// Copies the kernels that were compiled here to the nodes that do not see them.
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

/// Finds the points that cannot run here, with the reason: something is missing on this machine or differs between nodes.
async fn obstacles(
    site: &ReadySite,
    nodes: &Nodes,
    points: &[PlannedPoint],
    area_problems: &BTreeMap<String, String>,
) -> Result<BTreeMap<PointId, String>, ReadyError> {
    let mut obstacles = BTreeMap::new();
    let mut needed: Vec<(PointId, Vec<Utf8PathBuf>)> = Vec::new();
    let mut files: BTreeSet<Utf8PathBuf> = BTreeSet::new();
    // what one version of them writes, every other one reads
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

/// Finds points under DMTCP on several nodes of a Slurm job whose nodes do not reach each other by ssh: what srun starts belongs to Slurm
/// and cannot be restarted.
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
        "under DMTCP the ranks of other nodes are started by ssh, not by srun, and from {} that does not work: {}; let the nodes of a job reach \
         each other by ssh (keys, pam_slurm_adopt), or keep to one node",
        nodes.head.name,
        problems.join("; ")
    );
    points
        .iter()
        .filter(needs)
        .map(|p| (p.id.clone(), reason.clone()))
        .collect()
}

/// Programs that every node must have for a point.
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

/// The program that compresses images of a point, if there is one.
fn compressor(point: &Point) -> Option<Utf8PathBuf> {
    checkpointer(point.checkpointer)
        .compressor(point.compression)
        .ok()
        .flatten()
}

/// Why a point cannot run where nodes lack programs or have other ones. What compresses images is a package of the system, which cvc does not install.
fn not_equal(
    wrong: &[(&Utf8PathBuf, &Vec<(String, &'static str)>)],
    compressors: &BTreeSet<Utf8PathBuf>,
) -> String {
    let (lacking, different): (Vec<_>, Vec<_>) = wrong
        .iter()
        .partition(|(file, _)| compressors.contains(*file));
    let mut told: Vec<String> = different
        .iter()
        .map(|(file, nodes)| {
            let nodes: Vec<String> = nodes
                .iter()
                .map(|(node, what)| format!("{node} {what}"))
                .collect();
            format!("{file} is not the same on all nodes: {}", nodes.join(", "))
        })
        .collect();
    if let Some(last) = told.last_mut() {
        last.push_str("; `cvc install` makes nodes equal");
    }
    told.extend(lacking.iter().map(|(file, nodes)| {
        let nodes: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
        format!(
            "{file}, which compresses images, is not on {}: install the package {} there",
            nodes.join(", "),
            file.file_name().unwrap_or_default()
        )
    }));
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compresses_images_is_a_package_and_what_differs_is_installed_by_cvc() {
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
