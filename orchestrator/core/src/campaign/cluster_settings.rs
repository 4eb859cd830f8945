//! Checks the settings of a site's machines.

use super::{
    checker::{Checker, SpanLookup, path_text},
    cluster::{Cluster, Gpus, InventorySource, SlurmSettings},
    model::SiteKind,
    raw::{RawHost, RawSite},
};
use crate::{
    hosts::{HostEntry, SshSettings},
    inventory,
    names::is_host_or_login,
    nodelist,
    source::{Span, Step},
};
use std::path::Path;

/// Default silence after which a node counts as lost, seconds. It is longer than pauses of a busy machine, and short enough to wait for.
const LOST_AFTER_S: f64 = 15.0;

/// Returns the machines of a site; `None` for a local site.
pub fn cluster(
    check: &mut Checker<'_>,
    kind: SiteKind,
    name: &str,
    raw: &RawSite,
    place: &SpanLookup<'_>,
) -> Option<Cluster> {
    check_keys(check, kind, raw, place);
    if kind == SiteKind::Local {
        return None;
    }
    if let Some(user) = &raw.user {
        login_name(check, user, place(&["user".into()]));
    }
    for (key, path) in [
        ("config", &raw.ssh.config),
        ("known_hosts", &raw.ssh.known_hosts),
    ] {
        if let Some(path) = path {
            path_text(check, path, place(&["ssh".into(), key.into()]));
        }
    }
    for (key, path) in [("base", &raw.base), ("interface", &raw.interface)] {
        if let Some(path) = path {
            path_text(check, path, place(&[key.into()]));
        }
    }
    let lost_after_s = raw.lost_after_s.unwrap_or(LOST_AFTER_S);
    check.seconds(
        "`lost_after_s`",
        lost_after_s,
        place(&["lost_after_s".into()]),
    );
    // the hosts of an ec2 site are known when its instances exist
    let (hosts, inventory) = if kind == SiteKind::Ssh {
        hosts(check, name, raw, place)
    } else {
        (Vec::new(), None)
    };
    let slurm = if kind == SiteKind::Slurm {
        slurm(check, raw.slurm.as_ref(), place)
    } else {
        None
    };
    let (key, head) = if kind == SiteKind::Ssh {
        ("head", &raw.head)
    } else {
        ("login", &raw.login)
    };
    Some(Cluster {
        hosts,
        inventory,
        head: head.as_ref().map(|h| {
            host(check, h, raw.user.as_deref(), &|rest| {
                place(&[&[key.into()], rest].concat())
            })
        }),
        ssh: SshSettings {
            config: raw.ssh.config.clone(),
            known_hosts: raw.ssh.known_hosts.clone(),
            host_keys: raw.ssh.host_keys,
            pinned: None,
        },
        base: raw.base.clone().unwrap_or_else(|| "~/.cvc".into()),
        interface: raw.interface.clone(),
        cores: raw
            .cores
            .map(|c| check.whole("cores", c, 1, 100_000, place) as u32),
        side_by_side: raw.side_by_side,
        lost_after_s,
        slurm,
    })
}

/// Reports keys that belong to sites of other kinds.
fn check_keys(check: &mut Checker<'_>, kind: SiteKind, raw: &RawSite, place: &SpanLookup<'_>) {
    use SiteKind::{Ec2, Slurm, Ssh};
    let elsewhere: &[SiteKind] = &[Ssh, Slurm, Ec2];
    let given: [(&str, bool, &[SiteKind]); 14] = [
        ("hosts", !raw.hosts.is_empty(), &[Ssh]),
        ("inventory", raw.inventory.is_some(), &[Ssh]),
        ("group", raw.group.is_some(), &[Ssh]),
        ("head", raw.head.is_some(), &[Ssh]),
        ("login", raw.login.is_some(), &[Slurm]),
        ("slurm", raw.slurm.is_some(), &[Slurm]),
        ("ec2", raw.ec2.is_some(), &[Ec2]),
        ("user", raw.user.is_some(), elsewhere),
        (
            "ssh",
            raw.ssh.config.is_some() || raw.ssh.known_hosts.is_some(),
            &[Ssh, Slurm],
        ),
        ("base", raw.base.is_some(), elsewhere),
        ("interface", raw.interface.is_some(), elsewhere),
        ("cores", raw.cores.is_some(), elsewhere),
        ("side_by_side", raw.side_by_side, elsewhere),
        ("lost_after_s", raw.lost_after_s.is_some(), elsewhere),
    ];
    for (key, given, kinds) in given {
        if given && !kinds.contains(&kind) {
            let names: Vec<String> = kinds
                .iter()
                .map(|k| format!("`{}`", kind_name(*k)))
                .collect();
            let hint = format!(
                "remove it; it belongs to sites of the kind {}",
                names.join(" and ")
            );
            check.fail(
                place(&[key.into()]),
                format!(
                    "`{key}` has no meaning for a site of the kind `{}`",
                    kind_name(kind)
                ),
                hint,
            );
        }
    }
}

pub(super) fn kind_name(kind: SiteKind) -> &'static str {
    match kind {
        SiteKind::Local => "local",
        SiteKind::Ssh => "ssh",
        SiteKind::Slurm => "slurm",
        SiteKind::Ec2 => "ec2",
    }
}

/// Returns the nodes of an ssh site, and the source of its inventory.
fn hosts(
    check: &mut Checker<'_>,
    site: &str,
    raw: &RawSite,
    place: &SpanLookup<'_>,
) -> (Vec<HostEntry>, Option<InventorySource>) {
    let mut hosts = Vec::new();
    let mut source = None;
    match (&raw.inventory, raw.hosts.is_empty()) {
        (Some(_), false) => {
            check.fail(
                place(&["inventory".into()]),
                "both `inventory` and `hosts`",
                "keep one of them",
            );
        }
        (Some(text), true) => {
            let at = place(&["inventory".into()]);
            path_text(check, text, at.clone());
            let base = check
                .source
                .path
                .parent()
                .unwrap_or(Path::new(""))
                .to_owned();
            let path = crate::paths::expand_path(text, &base, crate::paths::variable)
                .unwrap_or_else(|_| base.join(text));
            let inspected;
            let failed = match check.hosts.get(site) {
                Some(Ok(known)) if !known.is_empty() => {
                    (hosts, source) = (known.clone(), Some(InventorySource::Asked));
                    None
                }
                Some(Err(error)) => Some(error),
                Some(Ok(_)) | None => {
                    inspected = inventory::inspect(&path, raw.group.as_deref().unwrap_or("all"));
                    source = inspected
                        .as_ref()
                        .ok()
                        .cloned()
                        .map(InventorySource::Unasked);
                    inspected.as_ref().err()
                }
            };
            if let Some(error) = failed {
                check.fail(at, error.to_string(), error.hint());
            }
            for host in &mut hosts {
                host.user = host.user.take().or_else(|| raw.user.clone());
            }
        }
        (None, true) => {
            let hint = "add `hosts = [\"NAME\", ...]`, or `inventory = \"FILE\"`";
            check.fail(place(&[]), "a site of the kind `ssh` without hosts", hint);
        }
        (None, false) => {
            for (i, raw_host) in raw.hosts.iter().enumerate() {
                let way: Vec<Step<'_>> = vec!["hosts".into(), i.into()];
                hosts.push(host(check, raw_host, raw.user.as_deref(), &|rest| {
                    place(&[&way, rest].concat())
                }));
            }
        }
    }
    for (i, host) in hosts.iter().enumerate() {
        if hosts[..i].iter().any(|h| h.name == host.name) {
            let at = if raw.hosts.is_empty() {
                place(&["inventory".into()])
            } else {
                place(&["hosts".into(), i.into()])
            };
            check.fail(
                at,
                format!("the host `{}` is given twice", host.name),
                "remove one",
            );
        }
    }
    // these hosts come from a file that anybody may have written
    for host in hosts
        .iter()
        .filter(|_| source == Some(InventorySource::Asked))
    {
        entry_names(check, host, || place(&["inventory".into()]));
    }
    (hosts, source)
}

fn host(
    check: &mut Checker<'_>,
    raw: &RawHost,
    user: Option<&str>,
    place: &SpanLookup<'_>,
) -> HostEntry {
    let mut entry = match raw {
        RawHost::Name(name) => HostEntry::named(name),
        RawHost::Table(table) => HostEntry {
            name: table.name.clone(),
            address: table.address.clone(),
            internal: table.internal.clone(),
            user: table.user.clone(),
            port: table.port,
            identity_file: table.identity_file.clone(),
            ssh_options: Vec::new(),
        },
    };
    entry_names(check, &entry, || place(&[]));
    entry.user = entry.user.take().or_else(|| user.map(str::to_owned));
    entry
}

/// Checks names that become parts of ssh's command line.
fn entry_names(check: &mut Checker<'_>, entry: &HostEntry, place: impl Fn() -> Option<Span>) {
    for text in [
        Some(&entry.name),
        entry.address.as_ref(),
        entry.internal.as_ref(),
    ]
    .into_iter()
    .flatten()
    {
        if !is_host_or_login(text) {
            check.fail(
                place(),
                format!("`{text}` is not a valid host name"),
                "write only its name or address; use the keys `user` and `port` for these",
            );
        }
    }
    if let Some(user) = &entry.user {
        login_name(check, user, place());
    }
    if let Some(file) = &entry.identity_file {
        path_text(check, file, place());
    }
    for option in &entry.ssh_options {
        if let Err(problem) = inventory::checked_ssh_option(option) {
            check.fail(place(), problem.to_string(), "remove it from the inventory");
        }
    }
}

fn login_name(check: &mut Checker<'_>, user: &str, span: Option<Span>) {
    if !is_host_or_login(user) {
        check.fail(
            span,
            format!("`{user}` is not a valid user name"),
            "write the login name",
        );
    }
}

/// Checks the lists of nodes that a job must have or must not have. A path is refused, because sbatch would read it as a file of names.
fn named_nodes(check: &mut Checker<'_>, slurm: &SlurmSettings, place: &SpanLookup<'_>) {
    let hint = "write names as in \"n1,n[4-7]\"; `sinfo -N` lists them";
    let mut names = |key: &str, text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.trim().is_empty());
        let names = text.map(|text| match nodelist::expand(text) {
            Ok(names) if !text.contains(|c: char| c == '/' || c.is_whitespace()) => names,
            _ => {
                let problem = format!("`{text}` is not a list of nodes");
                check.fail(place(&[key.into()]), problem, hint);
                Vec::new()
            }
        });
        names.unwrap_or_default()
    };
    let (wanted, excluded) = (
        names("nodelist", &slurm.nodelist),
        names("exclude", &slurm.exclude),
    );
    if let Some(both) = wanted.iter().find(|name| excluded.contains(name)) {
        check.fail(
            place(&["exclude".into()]),
            format!("`{both}` is in `nodelist` as well"),
            "remove it from one of them",
        );
    }
    let most = slurm.nodes as usize;
    if wanted.len() > most {
        check.fail(
            place(&["nodelist".into()]),
            format!(
                "`nodelist` has {} nodes, but a job has at most {most} (`nodes`)",
                wanted.len()
            ),
            "list fewer nodes, or raise `nodes`",
        );
    }
}

/// Checks the GPUs of a node: a number above 0, or a type and a number.
fn gpus(check: &mut Checker<'_>, gpus: Option<&Gpus>, place: &SpanLookup<'_>) {
    let is_sound = match gpus {
        None => true,
        Some(Gpus::Number(number)) => *number > 0,
        Some(Gpus::Typed(text)) => {
            let (kind, number) = text.split_once(':').unwrap_or(("any", text));
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            !kind.is_empty()
                && kind.chars().all(is_plain)
                && number.parse::<u32>().is_ok_and(|n| n > 0)
        }
    };
    if !is_sound {
        check.fail(
            place(&["gpus_per_node".into()]),
            "`gpus_per_node` is not a number of GPUs",
            "write a number above 0, or a type and a number, as in \"a100:2\"; `sinfo -o '%N %G'` lists what nodes have",
        );
    }
}

fn slurm(
    check: &mut Checker<'_>,
    given: Option<&SlurmSettings>,
    place: &SpanLookup<'_>,
) -> Option<SlurmSettings> {
    let Some(slurm) = given else {
        check.fail(
            place(&[]),
            "a site of the kind `slurm` without the table `slurm`",
            "add [sites.NAME.slurm] with `nodes = 4`",
        );
        return None;
    };
    let at = |rest: &[Step<'_>]| place(&[&["slurm".into()], rest].concat());
    check.whole("nodes", slurm.nodes.into(), 1, 100_000, &at);
    check.seconds(
        "`time_limit_s`",
        slurm.time_limit_s,
        at(&["time_limit_s".into()]),
    );
    if let Some(limit) = slurm.queue_limit_s {
        check.seconds("`queue_limit_s`", limit, at(&["queue_limit_s".into()]));
    }
    let words = [
        ("partition", &slurm.partition),
        ("account", &slurm.account),
        ("constraint", &slurm.constraint),
        ("nodelist", &slurm.nodelist),
        ("exclude", &slurm.exclude),
        ("licenses", &slurm.licenses),
        ("qos", &slurm.qos),
        ("reservation", &slurm.reservation),
    ];
    for (key, word) in words {
        if word
            .as_ref()
            .is_some_and(|w| w.trim().is_empty() || w.contains(char::is_control))
        {
            check.fail(
                at(&[key.into()]),
                format!("`{key}` is empty or has line feeds"),
                "write it in sbatch's format, or remove the key",
            );
        }
    }
    named_nodes(check, slurm, &at);
    gpus(check, slurm.gpus_per_node.as_ref(), &at);
    for (i, arg) in slurm.sbatch_args.iter().enumerate() {
        if !arg.starts_with('-') || arg.contains(char::is_control) {
            check.fail(
                at(&["sbatch_args".into(), i.into()]),
                format!("`{arg}` is not an option of sbatch"),
                "write options as in `--mem=0`",
            );
        }
    }
    Some(slurm.clone())
}
