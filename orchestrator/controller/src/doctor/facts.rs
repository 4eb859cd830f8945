//! Reads facts about each node, and compares them between nodes.

use super::{
    check::{CheckState, DoctorCheck},
    node::{DoctorFacts, DoctorNode, PathFact, SHORT, script_by},
};
use cvc_core::campaign::{Cluster, MpiSource, RunEnvironment, Site, StorageKind};
use cvc_core::point::CheckpointerKind;
use cvc_core::units::size;
use cvc_engine::{attempt::environment_commands, ckpt, host::HostError, mpi};
use cvc_probe::sentinel::doubt;
use cvc_sites::ssh::SshHost;
use indexmap::IndexMap;

/// Free bytes below which a file system counts as nearly full.
const MIN_FREE: u64 = 1 << 30;

/// Shell script that prints lines `KEY<TAB>VALUE`. Its arguments: `dir KIND NAME PATH` for each directory, `mpi NAME SCRIPT` for each library,
/// `checkpointer WORD LAUNCHER` for each checkpointer.
const SCRIPT: &str = r#"
t=$(printf '\t')
say() { printf '%s\t%s\n' "$1" "$2"; }
say node "$(uname -n)"
say 'same kernel' "$(uname -sr) $(uname -m)"
say 'same libc' "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"
say 'same processor' "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
say 'same cores' "$(getconf _NPROCESSORS_ONLN)"
say 'same memory' "$(awk '/^MemTotal/ {printf "%.1f GiB", $2 / 1048576}' /proc/meminfo)"
setting() { [ -r "$2" ] && say "same $1" "$(cat "$2")"; }
setting 'clock source' /sys/devices/system/clocksource/clocksource0/current_clocksource
setting governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
[ -r /sys/kernel/mm/transparent_hugepage/enabled ] &&
    say 'same transparent huge pages' "$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)"
while [ $# -gt 0 ]; do
    case $1 in
    dir)
        p=$4
        case $p in '~') p=$HOME ;; '~/'*) p=$HOME/${p#??} ;; esac
        d=$p
        while [ ! -e "$d" ] && [ "$d" != / ] && [ "$d" != . ]; do d=$(dirname "$d"); done
        state=ok
        if [ "$2" = read ]; then [ -d "$p" ] || state=missing
        elif [ ! -d "$d" ]; then state=missing
        elif [ ! -w "$d" ]; then state=read-only
        fi
        say "dir $3" "$state$t$(df -Pk "$d" 2>/dev/null | awk 'NR == 2 {print $4}')$t$p"
        shift 4 ;;
    mpi)
        m=$(eval "$3" 2>/dev/null) && [ -n "$m" ] && {
            say "mpi $2" "$m"
            "$m" --version 2>&1 | head -n 40 | while read -r l; do say "said $2" "$l"; done
        }
        shift 3 ;;
    checkpointer)
        d=$(command -v "$3" 2>/dev/null) && say "checkpointer $2" "$d$t$("$d" --version 2>/dev/null | head -n 1)"
        shift 3 ;;
    esac
done
"#;

/// Returns the prefix of a checkpointer's installation that a site's settings give; `None` if they give none.
fn prefix_of(site: &Site, kind: CheckpointerKind) -> Option<&str> {
    let software = ckpt::checkpointer(kind).software()?;
    (software.prefix)(site)
}

/// Queries the facts of a node. `starter` is the command by which `host` starts a command on the node; it is empty if `host` is the node.
pub(super) async fn ask(
    host: &SshHost,
    starter: &[String],
    site: &Site,
    cluster: &Cluster,
) -> Result<DoctorFacts, HostError> {
    let mut args = Vec::new();
    let mut dir = |kind: &str, name: String, path: &str| {
        args.extend(["dir".to_owned(), kind.to_owned(), name, path.to_owned()])
    };
    dir("write", "base".into(), &cluster.base);
    // relative paths refer to the machine of the campaign file
    for path in site.app_dirs.iter().filter(|p| is_absolute(p)) {
        dir("read", format!("app_dirs {path}"), path);
    }
    for (name, area) in &site.storage {
        if let Some(path) = area.path.as_ref().filter(|p| is_absolute(p)) {
            dir("write", format!("storage {name}"), path);
        }
    }
    for (name, library) in &site.mpi {
        if let MpiSource::Prefix(prefix) = &library.source {
            dir("read", format!("mpi {name}"), prefix);
        }
    }
    for (kind, _) in CheckpointerKind::all_driven() {
        if let Some(prefix) = prefix_of(site, kind) {
            dir("read", kind.to_string(), prefix);
        }
    }
    for (name, library) in &site.mpi {
        args.extend([
            "mpi".to_owned(),
            name.clone(),
            located_in(
                &site.run_environment(name, None),
                mpi::launcher(library.family),
                &library.source,
            ),
        ]);
    }
    for (kind, driven) in CheckpointerKind::all_driven() {
        let launcher = match prefix_of(site, kind) {
            Some(prefix) => host
                .expand(prefix)
                .await?
                .join("bin")
                .join(driven.launcher)
                .into_string(),
            None => driven.launcher.to_owned(),
        };
        args.extend(["checkpointer".to_owned(), kind.to_string(), launcher]);
    }
    Ok(read(&script_by(host, starter, SCRIPT, &args, SHORT).await?))
}

fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '~']) && !path.contains('$')
}

/// Returns a shell command that sets up this environment, and then prints the path of a library's launcher.
fn located_in(
    environment: &RunEnvironment,
    family: &dyn mpi::Launcher,
    source: &MpiSource,
) -> String {
    if environment.is_empty() {
        return locate(family, source);
    }
    let source = match source {
        // the environment already loads the module
        MpiSource::Module(_) => &MpiSource::Path,
        other => other,
    };
    let script = format!("{}\n{}", set_up(environment), locate(family, source));
    format!("bash -lc {}", cvc_engine::render::shell_quote(&script))
}

/// Returns the lines of a bash script that set up an environment, or exit if that fails.
pub(super) fn set_up(environment: &RunEnvironment) -> String {
    let commands = environment_commands(environment).join("\n");
    format!("set -e\n{{\n{commands}\n}} >/dev/null\nset +e")
}

/// Returns a shell command that prints the path of a library's launcher.
fn locate(family: &dyn mpi::Launcher, source: &MpiSource) -> String {
    let quote = cvc_engine::render::shell_quote;
    let home = |path: &str| {
        path.strip_prefix("~/")
            .map_or_else(|| quote(path), |rest| format!("\"$HOME\"/{}", quote(rest)))
    };
    match source {
        MpiSource::Path => {
            let (names, marks) = (
                family.programs().join(" "),
                quote(&family.marks().join("|")),
            );
            format!(
                "for n in {names}; do command -v $n && exit; done; m=$(command -v mpiexec) && \"$m\" --version 2>&1 | grep -qE {marks} && echo \"$m\""
            )
        }
        MpiSource::Prefix(prefix) => {
            let prefix = home(prefix);
            format!(
                "for n in mpiexec mpirun; do [ -x {prefix}/bin/$n ] && echo {prefix}/bin/$n && exit; done"
            )
        }
        MpiSource::Module(module) => {
            format!(
                "bash -lc {}",
                quote(&format!(
                    "module load {} >/dev/null && command -v mpiexec",
                    quote(module)
                ))
            )
        }
        MpiSource::Mpiexec(program) => format!("command -v {}", home(program)),
    }
}

fn read(text: &str) -> DoctorFacts {
    let mut facts = DoctorFacts::default();
    for (key, value) in text.lines().filter_map(|l| l.split_once('\t')) {
        let value = value.trim_end();
        match key.split_once(' ') {
            Some(("same", what)) => {
                facts.same.insert(what.to_owned(), value.to_owned());
            }
            Some(("dir", name)) => {
                let mut parts = value.splitn(3, '\t');
                let state = parts.next().unwrap_or_default().to_owned();
                let free_bytes = parts
                    .next()
                    .and_then(|f| f.parse::<u64>().ok())
                    .map(|k| k.saturating_mul(1024));
                facts.paths.insert(
                    name.to_owned(),
                    PathFact {
                        path: parts.next().unwrap_or_default().to_owned(),
                        state,
                        free_bytes,
                    },
                );
            }
            Some(("mpi", name)) => {
                facts
                    .mpi
                    .insert(name.to_owned(), (value.to_owned(), String::new()));
            }
            Some(("said", name)) => {
                if let Some((_, message)) = facts.mpi.get_mut(name) {
                    message.push_str(value);
                    message.push('\n');
                }
            }
            _ if key == "node" => facts.node = value.to_owned(),
            Some(("checkpointer", word)) => {
                if let Some((path, version)) = value.split_once('\t') {
                    let found = (path.to_owned(), version.to_owned());
                    facts.checkpointers.insert(word.to_owned(), found);
                }
            }
            _ => {}
        }
    }
    facts
}

/// Groups nodes by the value that `of` returns. If there is more than one group, the nodes differ.
fn by_value(
    nodes: &[DoctorNode],
    of: impl Fn(&DoctorNode) -> String,
) -> IndexMap<String, Vec<&str>> {
    let mut groups: IndexMap<String, Vec<&str>> = IndexMap::new();
    for node in nodes {
        groups.entry(of(node)).or_default().push(node.name());
    }
    groups
}

fn show(groups: &IndexMap<String, Vec<&str>>) -> String {
    match groups.first() {
        Some((value, _)) if groups.len() == 1 => value.clone(),
        _ => groups
            .iter()
            .map(|(value, hosts)| format!("{}: {value}", hosts.join(", ")))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Compares paths and versions on all nodes.
pub(super) fn compare(nodes: &[DoctorNode], site: &Site) -> Vec<DoctorCheck> {
    let Some(first) = nodes.first() else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for name in first.facts.paths.keys() {
        checks.extend(compare_path(nodes, name));
    }
    for what in first.facts.same.keys() {
        let groups = by_value(nodes, |n| {
            n.facts.same.get(what).cloned().unwrap_or_default()
        });
        let doubt = groups.iter().find_map(|(value, _)| doubt(what, value));
        let (state, hint) = match (groups.len(), doubt) {
            (1, None) => (CheckState::Good, ""),
            (_, Some(hint)) => (CheckState::Doubtful, hint),
            (_, None) => (
                CheckState::Doubtful,
                "measure on equal nodes, or keep the difference in mind",
            ),
        };
        checks.push(DoctorCheck::new(what.clone(), state, show(&groups), hint));
    }
    for (library, entry) in &site.mpi {
        let launcher = mpi::launcher(entry.family);
        let found = |n: &DoctorNode| {
            let (path, message) = n.facts.mpi.get(library)?;
            Some(format!(
                "{} at {path}",
                launcher.version_or_unknown(message)
            ))
        };
        let skipped =
            format!("its points are skipped; install it (cvc install), or remove `{library}`");
        checks.push(compare_software(
            nodes,
            format!("MPI library {library}"),
            found,
            &skipped,
        ));
    }
    for (kind, driven) in CheckpointerKind::all_driven() {
        let (word, title) = (kind.word(), driven.title);
        let found = |n: &DoctorNode| {
            let (path, version) = n.facts.checkpointers.get(word)?;
            Some(format!("{version} at {path}"))
        };
        let remedy = match prefix_of(site, kind) {
            Some(_) => format!(
                ": nothing is at the prefix that the site gives; correct it, or install {title} there (cvc install)"
            ),
            None => "; install it (cvc install)".to_owned(),
        };
        let skipped = format!("points with checkpointer = \"{word}\" are skipped{remedy}");
        checks.push(compare_software(nodes, title.into(), found, &skipped));
    }
    checks
}

/// Compares one directory between all nodes: its path, its state, and the free space in it.
fn compare_path(nodes: &[DoctorNode], name: &str) -> Vec<DoctorCheck> {
    let fact = |n: &DoctorNode| n.facts.paths.get(name).cloned().unwrap_or_default();
    let groups = by_value(nodes, |n| {
        let fact = fact(n);
        if fact.state == "ok" {
            fact.path
        } else {
            format!("{} is {}", fact.path, fact.state)
        }
    });
    let broken = nodes.iter().any(|n| fact(n).state != "ok");
    let (state, hint) = match (broken, groups.len()) {
        (true, _) => (
            CheckState::Bad,
            "create it on all nodes, writable for the user, or give another path",
        ),
        (false, 1) => (CheckState::Good, ""),
        (false, _) => (CheckState::Bad, "give a path that is the same on all nodes"),
    };
    let mut checks = vec![DoctorCheck::new(
        format!("path: {name}"),
        state,
        show(&groups),
        hint,
    )];
    let needs_space = !broken && (name == "base" || name.starts_with("storage "));
    let free = nodes.iter().filter(|_| needs_space);
    let free = free.filter_map(|n| fact(n).free_bytes.map(|f| (n.name(), f)));
    if let Some((host, least)) = free.min_by_key(|(_, f)| *f) {
        let found = format!("at least {} ({host})", size(least as f64));
        let (state, hint) = if least < MIN_FREE {
            (
                CheckState::Doubtful,
                "free some space there, or give another path",
            )
        } else {
            (CheckState::Good, "")
        };
        checks.push(DoctorCheck::new(
            format!("free space: {name}"),
            state,
            found,
            hint,
        ));
    }
    checks
}

/// Compares one kind of software between all nodes. `found` returns the software of a node; `skipped` is the hint if no node has it.
fn compare_software(
    nodes: &[DoctorNode],
    what: String,
    found: impl Fn(&DoctorNode) -> Option<String>,
    skipped: &str,
) -> DoctorCheck {
    let groups = by_value(nodes, |n| found(n).unwrap_or_else(|| "missing".into()));
    let (state, hint) = match (nodes.iter().any(|n| found(n).is_some()), groups.len()) {
        (true, 1) => (CheckState::Good, ""),
        (true, _) => (
            CheckState::Bad,
            "install the same version at the same place on all nodes (cvc install)",
        ),
        (false, _) => (CheckState::Doubtful, skipped),
    };
    DoctorCheck::new(what, state, show(&groups), hint)
}

/// Returns the storage areas to check between nodes: name, whether it is declared as shared, path as written.
pub(super) fn areas(site: &Site) -> impl Iterator<Item = (&str, bool, &str)> {
    site.storage.iter().filter_map(|(name, area)| {
        let path = area.path.as_deref().filter(|p| is_absolute(p))?;
        Some((name.as_str(), area.kind == StorageKind::Shared, path))
    })
}
