//! Facts of each node, and whether all nodes agree.

use super::{
    check::{Check, State},
    node::{Facts, Node, PathFact, SHORT, script_by},
};
use cvc_core::campaign::{Cluster, MpiSource, Site, StorageKind};
use cvc_core::units::size;
use cvc_engine::{host::HostError, mpi};
use cvc_probe::sentinel::doubt;
use cvc_sites::ssh::SshHost;
use indexmap::IndexMap;

/// Free bytes below which a file system counts as nearly full.
const MIN_FREE: u64 = 1 << 30;

/// Lines `KEY<TAB>VALUE`. Arguments: of directories `dir KIND NAME PATH`, of libraries `mpi NAME SCRIPT`, of DMTCP `dmtcp LAUNCHER`.
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
    dmtcp)
        d=$(command -v "$2" 2>/dev/null) && say dmtcp "$d$t$("$d" --version 2>/dev/null | head -n 1)"
        shift 2 ;;
    esac
done
"#;

/// Asks a node; `starter` is what starts a command there from `host`, if it is another machine.
pub(super) async fn ask(
    host: &SshHost,
    starter: &[String],
    site: &Site,
    cluster: &Cluster,
) -> Result<Facts, HostError> {
    let mut args = Vec::new();
    let mut dir = |kind: &str, name: String, path: &str| {
        args.extend(["dir".to_owned(), kind.to_owned(), name, path.to_owned()])
    };
    dir("write", "base".into(), &cluster.base);
    // relative paths are on the campaign file's machine
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
    if let Some(prefix) = &site.dmtcp.prefix {
        dir("read", "dmtcp".into(), prefix);
    }
    for (name, library) in &site.mpi {
        args.extend([
            "mpi".to_owned(),
            name.clone(),
            locate(mpi::launcher(library.family), &library.source),
        ]);
    }
    let launch = match &site.dmtcp.prefix {
        Some(prefix) => host
            .expand(prefix)
            .await?
            .join("bin/dmtcp_launch")
            .into_string(),
        None => "dmtcp_launch".to_owned(),
    };
    args.extend(["dmtcp".to_owned(), launch]);
    Ok(read(&script_by(host, starter, SCRIPT, &args, SHORT).await?))
}

fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '~']) && !path.contains('$')
}

/// A shell command that prints the path of a library's launcher.
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

fn read(text: &str) -> Facts {
    let mut facts = Facts::default();
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
            _ if key == "dmtcp" => {
                facts.dmtcp = value
                    .split_once('\t')
                    .map(|(path, version)| (path.to_owned(), version.to_owned()))
            }
            _ => {}
        }
    }
    facts
}

/// Groups hosts by their answers; more than one entry is a difference.
fn by_value(nodes: &[Node], of: impl Fn(&Node) -> String) -> IndexMap<String, Vec<&str>> {
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

/// Paths and versions on all nodes.
pub(super) fn compare(nodes: &[Node], site: &Site) -> Vec<Check> {
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
            (1, None) => (State::Good, ""),
            (_, Some(hint)) => (State::Doubtful, hint),
            (_, None) => (
                State::Doubtful,
                "measure on equal nodes, or keep the difference in mind",
            ),
        };
        checks.push(Check::new(what.clone(), state, show(&groups), hint));
    }
    for (library, entry) in &site.mpi {
        let launcher = mpi::launcher(entry.family);
        let found = |n: &Node| {
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
    let found = |n: &Node| {
        let (path, version) = n.facts.dmtcp.as_ref()?;
        Some(format!("{version} at {path}"))
    };
    let skipped = match site.dmtcp.prefix {
        Some(_) => {
            "points with checkpointer = \"dmtcp\" are skipped: nothing is at the prefix that the site gives; correct it, or install DMTCP there (cvc install)"
        }
        None => "points with checkpointer = \"dmtcp\" are skipped; install it (cvc install)",
    };
    checks.push(compare_software(nodes, "DMTCP".into(), found, skipped));
    checks
}

/// Compares one path, and the space there.
fn compare_path(nodes: &[Node], name: &str) -> Vec<Check> {
    let fact = |n: &Node| n.facts.paths.get(name).cloned().unwrap_or_default();
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
            State::Bad,
            "make it on all nodes, writable for the user, or give another path",
        ),
        (false, 1) => (State::Good, ""),
        (false, _) => (State::Bad, "give a path that is the same on all nodes"),
    };
    let mut checks = vec![Check::new(
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
                State::Doubtful,
                "free some space there, or give another path",
            )
        } else {
            (State::Good, "")
        };
        checks.push(Check::new(
            format!("free space: {name}"),
            state,
            found,
            hint,
        ));
    }
    checks
}

/// Compares what is installed for all nodes; `skipped` is the hint if none has it.
fn compare_software(
    nodes: &[Node],
    what: String,
    found: impl Fn(&Node) -> Option<String>,
    skipped: &str,
) -> Check {
    let groups = by_value(nodes, |n| found(n).unwrap_or_else(|| "missing".into()));
    let (state, hint) = match (nodes.iter().any(|n| found(n).is_some()), groups.len()) {
        (true, 1) => (State::Good, ""),
        (true, _) => (
            State::Bad,
            "install the same version at the same place on all nodes (cvc install)",
        ),
        (false, _) => (State::Doubtful, skipped),
    };
    Check::new(what, state, show(&groups), hint)
}

/// The areas to check between nodes: name, whether shared, path as written.
pub(super) fn areas(site: &Site) -> impl Iterator<Item = (&str, bool, &str)> {
    site.storage.iter().filter_map(|(name, area)| {
        let path = area.path.as_deref().filter(|p| is_absolute(p))?;
        Some((name.as_str(), area.kind == StorageKind::Shared, path))
    })
}
