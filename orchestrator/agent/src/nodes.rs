//! Sets up the nodes of a site: starts a sentinel on each, queries facts about them, and determines which storage areas they share.

use super::{
    error::{ReadyError, SpreadError},
    protocol::Orders,
    spot_interruption,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{Cluster, StorageKind};
use cvc_core::hosts::HostEntry;
use cvc_core::paths;
use cvc_core::units::counted;
use cvc_engine::{
    attempt::{Node, Nodes, SOON},
    crew::{self, Crew, CrewError, CrewSettings, Member},
    host::{output_within, tool},
    transport::Transport,
};
use cvc_probe::sentinel::InstanceFacts;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Time limit for nodes to see a file that another node has written; shared storage may show it late.
const SEEN_LIMIT: Duration = Duration::from_secs(3);
/// Delay between checks for the file.
const SEEN_TICK: Duration = Duration::from_millis(500);

/// Time limit for copying programs to a node.
const SPREAD_LIMIT: Duration = Duration::from_secs(300);

/// A node, and how cvc itself reaches it.
#[derive(Clone, Debug)]
pub(super) struct NodeAccess {
    pub node: Node,
    /// Command prefix that runs a command on the node; `None` for this machine.
    pub argv: Option<Vec<String>>,
}

/// Returns the ssh command, with options for long connections, from this machine to a node.
fn ssh(host: &HostEntry, lost_after_s: f64) -> Vec<String> {
    // heartbeats detect a lost node, and a busy node may be silent for long: this only ends connections that would otherwise never end
    let interval = (lost_after_s / 3.0).ceil().max(1.0);
    let mut argv: Vec<String> = [
        "ssh",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=15",
        "-o",
    ]
    .map(String::from)
    .into();
    argv.extend([
        format!("ServerAliveInterval={interval}"),
        "-o".into(),
        "ServerAliveCountMax=24".into(),
    ]);
    if let Some(user) = &host.user {
        argv.extend(["-l".into(), user.clone()]);
    }
    if let Some(port) = host.port {
        argv.extend(["-p".into(), port.to_string()]);
    }
    argv.push(host.among_nodes().to_owned());
    argv
}

/// Returns three values: all nodes, with this machine first; the transport of ranks; and the names of the nodes in the order in which mappings use
/// them.
fn list_nodes(cluster: &Cluster) -> Result<(Vec<NodeAccess>, Transport, Vec<String>), ReadyError> {
    let me = paths::host_name().unwrap_or_default();
    let node = |name: &str, among: &str| Node {
        name: name.to_owned(),
        among: among.to_owned(),
        hostname: String::new(),
    };
    let Some(slurm) = &cluster.slurm else {
        let Some(head) = cluster.head.as_ref().or(cluster.hosts.first()) else {
            return Err(ReadyError::Site("the site has no hosts".into()));
        };
        let mut accesses = vec![NodeAccess {
            node: node(&head.name, head.among_nodes()),
            argv: None,
        }];
        for host in cluster.hosts.iter().filter(|h| h.name != head.name) {
            accesses.push(NodeAccess {
                node: node(&host.name, host.among_nodes()),
                argv: Some(ssh(host, cluster.lost_after_s)),
            });
        }
        return Ok((
            accesses,
            Transport::Ssh,
            cluster.hosts.iter().map(|h| h.name.clone()).collect(),
        ));
    };
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        ReadyError::Site("not inside a Slurm job: SLURM_JOB_NODELIST is not set".into())
    })?;
    let names = cvc_core::nodelist::expand(&list).map_err(|e| ReadyError::Site(e.to_string()))?;
    let me = std::env::var("SLURMD_NODENAME").unwrap_or(me);
    let mut accesses = Vec::new();
    for name in names.iter().cloned() {
        let argv = [
            "srun",
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            "--cpu-bind=none",
            "--mpi=none",
            "--quiet",
            "--unbuffered",
            "-w",
        ];
        let argv = (name != me).then(|| {
            argv.iter()
                .map(|a| (*a).to_owned())
                .chain([name.clone()])
                .collect()
        });
        accesses.push(NodeAccess {
            node: node(&name, &name),
            argv,
        });
    }
    let Some(here) = accesses.iter().position(|w: &NodeAccess| w.argv.is_none()) else {
        return Err(ReadyError::Site(format!(
            "this machine, {me}, is not in the job's node list {list}"
        )));
    };
    let head = accesses.remove(here);
    accesses.insert(0, head);
    Ok((accesses, Transport::Slurm(slurm.launcher), names))
}

/// Starts the sentinels and queries facts about the nodes. Fails if a node does not answer, unless `may_lack` is set: the node then counts as lost.
pub(super) async fn gather(
    orders: &Orders,
    cluster: &Cluster,
    may_lack: bool,
    mut note: impl FnMut(String),
) -> Result<(Nodes, Vec<NodeAccess>), ReadyError> {
    let (mut accesses, transport, order) = list_nodes(cluster)?;
    note(format!("sentinels on {}", counted(accesses.len(), "node")));
    let settings = CrewSettings {
        lost_after_s: cluster.lost_after_s,
        ..CrewSettings::default()
    };
    let (crew, mut failed) = Crew::start_some(
        accesses
            .iter()
            .map(|a| member(a, &orders.program, &transport))
            .collect(),
        settings,
    )
    .await;
    let without: Vec<String> = failed
        .iter()
        .filter(|f| f.lacks_program())
        .map(|f| f.host.clone())
        .collect();
    if !without.is_empty() {
        // the program is missing on this node: copy it, and try once more
        for access in accesses.iter().filter(|w| without.contains(&w.node.name)) {
            note(format!("cvc-node to {}", access.node.name));
            spread_file(access, &orders.program).await?;
        }
        failed.retain(|f| !without.contains(&f.host));
        failed.extend(
            crew.revive_of(|name| without.iter().any(|w| w == name))
                .await
                .1,
        );
    }
    if !failed.is_empty() && !may_lack {
        crew.close().await;
        return Err(CrewError::Start(failed).into());
    }
    let names: Vec<String> = accesses
        .iter()
        .map(|w| w.node.name.clone())
        .filter(|name| failed.iter().all(|f| f.host != *name))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let facts = crew::whole(crew.facts(&names, &[], SOON).await)?;
    let facts: BTreeMap<_, _> = facts.into_iter().collect();
    for access in &mut accesses {
        access.node.hostname = facts
            .get(&access.node.name)
            .map(|f| f.host.clone())
            .unwrap_or_default();
    }
    let head = accesses[0].node.clone();
    let all = order
        .iter()
        .filter_map(|name| accesses.iter().find(|w| w.node.name == *name))
        .map(|w| w.node.clone())
        .collect();
    let instances = match orders.context.site.ec2 {
        Some(_) => ask_instances(&crew, &names, note).await,
        None => BTreeMap::new(),
    };
    Ok((
        Nodes {
            crew,
            head,
            all,
            transport,
            facts,
            instances,
            interface: cluster.interface.clone(),
        },
        accesses,
    ))
}

/// Returns the crew member for a node.
fn member(access: &NodeAccess, program: &Utf8Path, transport: &Transport) -> Member {
    // messages of a node are parsed here, so they must be in English: srun passes this process's environment on, ssh does not
    let english: &[&str] = match transport {
        Transport::Ssh => &["env", "LC_ALL=C"],
        _ => &[],
    };
    let command = english
        .iter()
        .map(|word| (*word).to_owned())
        .chain([program.to_string(), "sentinel".into()]);
    let argv = access.argv.clone();
    Member {
        name: access.node.name.clone(),
        argv: argv.map(|argv| argv.into_iter().chain(command).collect()),
    }
}

/// Queries the cloud instances of nodes.
async fn ask_instances(
    crew: &Crew,
    names: &[&str],
    mut note: impl FnMut(String),
) -> BTreeMap<String, InstanceFacts> {
    let service = spot_interruption::service();
    let answers = crew.instances(names, service.as_deref(), SOON).await;
    let known = answers
        .into_iter()
        .filter_map(|(node, answer)| match answer {
            Ok(facts) => Some((node, facts)),
            // a measurement on an unknown machine is better than none
            Err(error) => {
                note(format!("cannot ask {node} for its instance: {error}"));
                None
            }
        });
    known.collect()
}

/// Copies a file of this machine to the same path on a node.
pub(super) async fn spread_file(access: &NodeAccess, file: &Utf8Path) -> Result<(), ReadyError> {
    let Some(directory) = file.parent() else {
        return Ok(());
    };
    let script = format!(
        "mkdir -p {d} && cat >{f}.$$ && chmod 755 {f}.$$ && mv -f {f}.$$ {f}",
        d = quoted(directory),
        f = quoted(file)
    );
    let failed = |problem| ReadyError::Spread {
        node: access.node.name.clone(),
        path: file.to_owned(),
        problem,
    };
    let input = std::fs::File::open(file).map_err(|e| failed(SpreadError::Read(e)))?;
    through(access, &script, input.into()).await.map_err(failed)
}

/// Copies a directory of this machine to the same path on a node. Each file is replaced atomically, because ranks of another site may use the
/// directory.
pub(super) async fn spread_directory(
    access: &NodeAccess,
    directory: &Utf8Path,
) -> Result<(), ReadyError> {
    let failed = |problem| ReadyError::Spread {
        node: access.node.name.clone(),
        path: directory.to_owned(),
        problem,
    };
    let start = |source| {
        failed(SpreadError::Start {
            program: "tar".into(),
            source,
        })
    };
    let mut tar = tool("tar")
        .args(["-C", directory.as_str(), "-cf", "-", "."])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let stdout = tar
        .stdout
        .take()
        .ok_or_else(|| start(io::Error::other("it has no output")))?;
    let stdout: Stdio = stdout.try_into().map_err(start)?;
    let d = quoted(directory);
    let script = format!(
        "rm -rf {d}.$$ && mkdir -p {d}.$$ && tar -C {d}.$$ -xf - && cd {d}.$$ && find . -type d -exec mkdir -p {d}/{{}} \\; \
         && find . -type f -exec mv -f {{}} {d}/{{}} \\; && cd / && rm -rf {d}.$$"
    );
    through(access, &script, stdout).await.map_err(failed)
}

fn quoted(path: &Utf8Path) -> String {
    cvc_engine::render::shell_quote(path.as_str())
}

/// Runs a script on a node. Does nothing for this machine, which already has the files.
async fn through(access: &NodeAccess, script: &str, input: Stdio) -> Result<(), SpreadError> {
    let Some((program, args)) = access.argv.as_ref().and_then(|argv| argv.split_first()) else {
        return Ok(());
    };
    let mut command = tool(program);
    command.args(args);
    if program == "ssh" {
        command.arg(format!("LC_ALL=C; export LC_ALL; {script}"));
    } else {
        command.args(["sh", "-c", script]);
    }
    let ran = output_within(command.stdin(input), SPREAD_LIMIT).await;
    match ran {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(SpreadError::Refused(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
        Ok(Err(source)) => Err(SpreadError::Start {
            program: program.clone(),
            source,
        }),
        Err(_) => Err(SpreadError::Slow(SPREAD_LIMIT)),
    }
}

/// A directory that was created for a check. Dropping this value removes the directory if it is empty.
struct Made(Option<Utf8PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Determines whether a storage area is shared by all nodes or local to each. If only some nodes share it, the error names the nodes that see this
/// machine's files and the nodes that do not.
pub(super) async fn storage_kind(
    nodes: &Nodes,
    directory: &Utf8Path,
) -> Result<StorageKind, ReadyError> {
    let others = nodes.others();
    if others.is_empty() {
        return Ok(StorageKind::NodeLocal);
    }
    // dropped after the temporary file in it
    let _made = Made((!directory.exists()).then(|| directory.to_owned()));
    std::fs::create_dir_all(directory).map_err(|e| {
        ReadyError::Storage(format!(
            "cannot make {directory}: {e}; give a storage area where you may write"
        ))
    })?;
    let begin = Instant::now();
    let see = loop {
        let see = seeing(nodes, &others, directory).await?;
        // if this is a local disk of this machine, no other node will ever see it: do not wait
        if see.len() == others.len()
            || begin.elapsed() > SEEN_LIMIT
            || (see.is_empty() && on_own_disk(nodes, directory).await)
        {
            break see;
        }
        tokio::time::sleep(SEEN_TICK).await;
    };
    kind_by(directory, &others, &see)
}

/// Returns the kind of a storage area. `see` lists the other nodes that see this machine's files in it.
fn kind_by(
    directory: &Utf8Path,
    others: &[&str],
    see: &[String],
) -> Result<StorageKind, ReadyError> {
    if see.is_empty() {
        Ok(StorageKind::NodeLocal)
    } else if see.len() == others.len() {
        Ok(StorageKind::Shared)
    } else {
        let blind: Vec<&str> = others
            .iter()
            .filter(|n| see.iter().all(|s| s != *n))
            .copied()
            .collect();
        Err(ReadyError::Storage(format!(
            "{directory} is shared with {} but not with {}: mount it there, or choose another directory",
            see.join(", "),
            blind.join(", ")
        )))
    }
}

/// Returns whether a directory is on a file system that only one machine can mount.
async fn on_own_disk(nodes: &Nodes, directory: &Utf8Path) -> bool {
    const OWN: [&str; 8] = [
        "tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs",
    ];
    let found = nodes
        .crew
        .free(
            &[nodes.head.name.as_str()],
            &[directory.to_owned().into()],
            SOON,
        )
        .await;
    let spaces = found
        .into_iter()
        .next()
        .and_then(|(_, spaces)| spaces.ok())
        .unwrap_or_default();
    spaces
        .first()
        .is_some_and(|s| OWN.contains(&s.place.file_system.as_str()))
}

/// Creates a file in a directory of this machine, and returns the other nodes that see it. The file's name is unique, because file systems cache
/// directories and even missing entries.
async fn seeing(
    nodes: &Nodes,
    others: &[&str],
    directory: &Utf8Path,
) -> Result<Vec<String>, ReadyError> {
    let file = tempfile::Builder::new()
        .prefix(".cvc-shared-")
        .tempfile_in(directory)
        .map_err(|e| ReadyError::Storage(format!("cannot write in {directory}: {e}")))?;
    let found = nodes
        .crew
        .digest(others, &[file.path().to_owned()], SOON)
        .await;
    let found = crew::whole(found)?;
    Ok(found
        .into_iter()
        .filter(|(_, files)| files.iter().any(|f| f.found.is_some()))
        .map(|(node, _)| node)
        .collect())
}

/// Queries the nodes again for their facts, and for the file systems of these directories.
pub(super) async fn ask_places(
    nodes: &mut Nodes,
    directories: impl Iterator<Item = &Utf8PathBuf>,
) -> Result<(), ReadyError> {
    let paths: Vec<PathBuf> = directories.map(|d| d.clone().into_std_path_buf()).collect();
    let mut names = vec![nodes.head.name.as_str()];
    names.extend(nodes.others());
    nodes
        .facts
        .extend(crew::whole(nodes.crew.facts(&names, &paths, SOON).await)?);
    Ok(())
}

/// Returns the nodes that this machine cannot reach by ssh in the way MPI launchers do, with the reasons.
pub(super) async fn not_by_ssh(nodes: &Nodes) -> Vec<String> {
    let others = nodes.others();
    let mut asking = JoinSet::new();
    for node in nodes
        .all
        .iter()
        .filter(|n| others.contains(&n.name.as_str()))
    {
        let mut command = tool("ssh");
        command.args([
            "-n",
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=15",
            &node.among,
            "true",
        ]);
        let name = node.name.clone();
        asking.spawn(async move {
            match output_within(&mut command, SOON).await {
                Ok(Ok(output)) if output.status.success() => None,
                Ok(Ok(output)) => Some(format!(
                    "{name}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                )),
                Ok(Err(error)) => Some(format!("{name}: cannot start ssh: {error}")),
                Err(_) => Some(format!("{name}: no answer within {} s", SOON.as_secs())),
            }
        });
    }
    let mut problems: Vec<String> = asking.join_all().await.into_iter().flatten().collect();
    problems.sort();
    problems
}

/// Returns the directories of a site's storage areas, by area.
pub(super) fn areas(orders: &Orders, root: &Utf8Path) -> BTreeMap<String, Utf8PathBuf> {
    // as runs see them: relative paths start at the spool
    let areas = orders.context.site.storage.iter();
    areas
        .map(|(name, area)| {
            (
                name.clone(),
                area.path
                    .as_ref()
                    .map_or_else(|| root.to_owned(), |p| paths::expand_below(root, p)),
            )
        })
        .collect()
}

/// Returns the nodes on which one of these files of this machine is missing or different. Files in `only_there` must exist, but may be different.
pub(super) async fn differing(
    nodes: &Nodes,
    files: &[Utf8PathBuf],
    only_there: &BTreeSet<Utf8PathBuf>,
) -> Result<BTreeMap<Utf8PathBuf, Vec<(String, &'static str)>>, ReadyError> {
    let paths: Vec<PathBuf> = files
        .iter()
        .map(|f| f.clone().into_std_path_buf())
        .collect();
    let mut names = vec![nodes.head.name.as_str()];
    names.extend(nodes.others());
    let answers = crew::whole(nodes.crew.digest(&names, &paths, SPREAD_LIMIT).await)?;
    let Some(((_, here), others)) = answers.split_first() else {
        return Ok(BTreeMap::new());
    };
    let mut wrong: BTreeMap<Utf8PathBuf, Vec<(String, &'static str)>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        let mine = here.get(at).and_then(|d| d.found.as_ref());
        for (node, digests) in others {
            match digests.get(at).and_then(|d| d.found.as_ref()) {
                None => wrong
                    .entry(file.clone())
                    .or_default()
                    .push((node.clone(), "lacks it")),
                found if found != mine && !only_there.contains(file) => wrong
                    .entry(file.clone())
                    .or_default()
                    .push((node.clone(), "has another")),
                Some(_) => {}
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    #[test]
    fn storage_that_only_some_nodes_see_is_neither_shared_nor_local() {
        let (directory, others) = (Utf8Path::new("/data"), ["n2", "n3"]);
        let kind = |see: &[&str]| {
            let see: Vec<String> = see.iter().map(|node| (*node).to_owned()).collect();
            kind_by(directory, &others, &see)
        };
        assert!(matches!(kind(&[]), Ok(StorageKind::NodeLocal)));
        assert!(matches!(kind(&["n2", "n3"]), Ok(StorageKind::Shared)));
        let error = kind(&["n3"]).expect_err("not with all").to_string();
        let expected = "/data is shared with n3 but not with n2: mount it there";
        assert!(error.contains(expected), "{error}");
    }

    #[tokio::test]
    async fn files_that_another_site_uses_are_never_missing_while_copied_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let kernels = Utf8PathBuf::from_path_buf(dir.path().join("the kernels")).expect("UTF-8");
        fs::create_dir_all(kernels.join("src")).expect("makes");
        fs::write(kernels.join("kernel"), "content").expect("writes");
        fs::write(kernels.join("src/kernel.c"), "source").expect("writes");
        let access = NodeAccess {
            node: Node {
                name: "n1".into(),
                among: "n1".into(),
                hostname: String::new(),
            },
            // this machine a second time, at the same path
            argv: Some(vec!["env".into()]),
        };
        let done = Arc::new(AtomicBool::new(false));
        let looker = std::thread::spawn({
            let (done, kernels) = (done.clone(), kernels.clone());
            move || {
                let mut missed = 0;
                while !done.load(Ordering::Relaxed) {
                    missed += u32::from(
                        !kernels.join("kernel").exists() || !kernels.join("src/kernel.c").exists(),
                    );
                }
                missed
            }
        });
        for _ in 0..20 {
            spread_directory(&access, &kernels).await.expect("copies");
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(
            looker.join().expect("ends"),
            0,
            "times that it was not there"
        );
        assert_eq!(
            fs::read_to_string(kernels.join("src/kernel.c")).expect("is there"),
            "source"
        );
        let left: Vec<_> = fs::read_dir(dir.path())
            .expect("lists")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(left, ["the kernels"]);
    }
}
