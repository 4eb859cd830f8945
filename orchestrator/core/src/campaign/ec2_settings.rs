//! Checks the settings of EC2, of prices and of the budget.

use super::{
    checker::{Checker, SpanLookup, path_text},
    cluster_settings::kind_name,
    ec2::{Budget, Credits, Ec2Settings, Image, InstanceSpec, PriceSettings},
    ec2_names::{REGIONS, SIZES, is_region, is_size},
    model::SiteKind,
    raw::{RawEc2, RawImage},
};
use crate::{
    names::is_mount_point,
    source::{Step, suggestion},
    units,
};

/// Images that cvc finds by their publisher and name.
pub const KNOWN_IMAGES: [&str; 5] = [
    "debian-12",
    "debian-13",
    "ubuntu-22.04",
    "ubuntu-24.04",
    "amazon-linux-2023",
];
/// Default lifetime of an instance, seconds. After it the instance terminates itself. It covers half a working day, but not a weekend.
const LIFETIME_S: f64 = 4.0 * 3600.0;
/// Default time from the order of an instance within which it must answer by ssh, seconds. A minute is usual.
const READY_LIMIT_S: f64 = 300.0;
/// Types of EBS volumes.
const DISKS: [&str; 7] = ["gp3", "gp2", "io1", "io2", "st1", "sc1", "standard"];

/// Checks the settings of instances; `None` for a site of another kind.
pub fn ec2(
    check: &mut Checker<'_>,
    kind: SiteKind,
    raw: Option<&RawEc2>,
    place: &SpanLookup<'_>,
) -> Option<Ec2Settings> {
    if kind != SiteKind::Ec2 {
        return None;
    }
    let Some(raw) = raw else {
        let hint = "add [sites.NAME.ec2] with `region`, `instance_types` and `nodes`";
        check.fail(
            place(&[]),
            "a site of kind `ec2` needs the table `ec2`",
            hint,
        );
        return None;
    };
    let at = |rest: &[Step<'_>]| place(&[&["ec2".into()], rest].concat());
    check_place(check, raw, &at);
    check_types(check, raw, &at);
    check_order(check, raw, &at);
    check_disks(check, raw, &at);
    let ready_limit_s = raw.ready_limit_s.unwrap_or(READY_LIMIT_S);
    check.seconds(
        "`ready_limit_s`",
        ready_limit_s,
        at(&["ready_limit_s".into()]),
    );
    let lifetime_s = raw
        .lifetime
        .as_ref()
        .map(|text| time(check, "lifetime", text, &at))
        .unwrap_or(LIFETIME_S);
    if lifetime_s < 300.0 {
        let hint = "an instance needs minutes to boot and set up: write at least 5m";
        check.fail(
            at(&["lifetime".into()]),
            "`lifetime` is shorter than five minutes",
            hint,
        );
    }
    Some(Ec2Settings {
        region: raw.region.clone(),
        profile: raw.profile.clone(),
        endpoint: raw.endpoint.clone(),
        instances: InstanceSpec {
            instance_types: raw.instance_types.clone(),
            nodes: check.whole("nodes", raw.nodes, 1, 10_000, &at) as u32,
            zones: raw.zones.clone(),
            subnet: raw.subnet.clone(),
            image: image(check, raw.image.as_ref(), &at),
            market: raw.market,
            max_price_usd: raw.max_price_usd,
            placement_group: raw.placement_group,
            efa: raw.efa,
            root: raw.root.clone(),
            volumes: raw.volumes.clone(),
            lifetime_s,
            ready_limit_s,
            allow_from: raw.allow_from.clone(),
            encrypted: raw.encrypted,
            credits: raw.credits,
        },
        instance_store: raw.instance_store.clone(),
        nfs: raw.nfs.clone(),
        keep_s: raw.keep.as_ref().map(|text| time(check, "keep", text, &at)),
        install: raw.install,
        on_interruption: raw.on_interruption,
    })
}

fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !text.is_empty() && text.chars().all(fits)
}

/// Checks region, zones and endpoint of the instances.
fn check_place(check: &mut Checker<'_>, raw: &RawEc2, at: &SpanLookup<'_>) {
    if !is_plain(&raw.region) {
        check.fail(
            at(&["region".into()]),
            format!("`{}` is not a valid region", raw.region),
            "write it as in `us-east-1`",
        );
    } else if raw.endpoint.is_none() && !is_region(&raw.region) {
        // clouds with their own endpoint have their own names of regions
        check.fail(
            at(&["region".into()]),
            format!("unknown region `{}`", raw.region),
            suggestion(&raw.region, "regions", REGIONS),
        );
    }
    for (i, zone) in raw.zones.iter().enumerate() {
        if !is_plain(zone) || !zone.starts_with(&raw.region) {
            let hint = format!("write it as in `{}a`", raw.region);
            check.fail(
                at(&["zones".into(), i.into()]),
                format!("`{zone}` is not a zone of {}", raw.region),
                hint,
            );
        }
    }
    if raw.subnet.is_some() && raw.zones.len() > 1 {
        check.fail(
            at(&["subnet".into()]),
            "`subnet` with several `zones`",
            "a subnet lies in one zone: remove `zones`",
        );
    }
    if let Some(endpoint) = &raw.endpoint
        && !endpoint.starts_with("http://")
        && !endpoint.starts_with("https://")
    {
        check.fail(
            at(&["endpoint".into()]),
            format!("`{endpoint}` is not a valid service address"),
            "begin with http:// or https://",
        );
    }
}

/// Checks the instance types.
fn check_types(check: &mut Checker<'_>, raw: &RawEc2, at: &SpanLookup<'_>) {
    // the site was already divided into one site for each compared type; all types are checked in the first of these sites
    let is_compared = !raw.compare_instance_types.is_empty();
    let (key, types) = if is_compared {
        ("compare_instance_types", &raw.compare_instance_types)
    } else {
        ("instance_types", &raw.instance_types)
    };
    if types.is_empty() {
        check.fail(
            at(&["instance_types".into()]),
            "the list of instance types is empty",
            "write at least one, as in [\"c5.xlarge\"]",
        );
    }
    for (i, name) in types.iter().enumerate() {
        if !is_plain(name) || !name.contains('.') {
            check.fail(
                at(&[key.into(), i.into()]),
                format!("unknown instance type `{name}`"),
                "write it as in `c5.xlarge`",
            );
        } else if let Some((family, size)) = name.split_once('.')
            && raw.endpoint.is_none()
            && !is_size(size)
        {
            let sizes = suggestion(size, "sizes", SIZES);
            check.fail(
                at(&[key.into(), i.into()]),
                format!("unknown instance type `{name}`: {family} has no size `{size}`"),
                format!("{sizes}, and multiples as in 4xlarge"),
            );
        }
    }
    if raw.credits.is_some()
        && raw
            .instance_types
            .iter()
            .all(|name| Credits::of(name, None).is_none())
    {
        let hint = "only t2, t3, t3a and t4g are burstable: remove it";
        check.fail(
            at(&["credits".into()]),
            "`credits` without a burstable instance type",
            hint,
        );
    }
}

/// Checks the maximum price, and the addresses that may use ssh.
fn check_order(check: &mut Checker<'_>, raw: &RawEc2, at: &SpanLookup<'_>) {
    if raw
        .max_price_usd
        .is_some_and(|usd| !(usd > 0.0 && usd.is_finite()))
    {
        check.fail(
            at(&["max_price_usd".into()]),
            "`max_price_usd` must be above zero",
            "write US dollars for an hour of one instance",
        );
    }
    if raw.max_price_usd.is_some() && raw.market == super::Market::OnDemand {
        check.fail(
            at(&["max_price_usd".into()]),
            "`max_price_usd` needs spot instances",
            "set `market = \"spot\"`, or remove it",
        );
    }
    if let Some(from) = &raw.allow_from
        && !is_network(from)
    {
        let hint = "write a network as in 203.0.113.7/32";
        check.fail(
            at(&["allow_from".into()]),
            format!("`{from}` is not a valid network"),
            hint,
        );
    }
}

/// Checks the disks and mount points.
fn check_disks(check: &mut Checker<'_>, raw: &RawEc2, at: &SpanLookup<'_>) {
    disk(
        check,
        "root",
        &raw.root.kind,
        raw.root.iops,
        raw.root.throughput_mib_s,
        &|rest| at(&[&["root".into()], rest].concat()),
    );
    for (i, volume) in raw.volumes.iter().enumerate() {
        let place = |rest: &[Step<'_>]| at(&[&["volumes".into(), i.into()], rest].concat());
        disk(
            check,
            "the volume",
            &volume.kind,
            volume.iops,
            volume.throughput_mib_s,
            &place,
        );
        mount(check, &volume.mount, &|| place(&["mount".into()]));
    }
    for (key, path) in [("instance_store", &raw.instance_store), ("nfs", &raw.nfs)] {
        if let Some(path) = path {
            mount(check, path, &|| at(&[key.into()]));
        }
    }
}

fn time(check: &mut Checker<'_>, key: &str, text: &str, at: &SpanLookup<'_>) -> f64 {
    match units::seconds(text) {
        Ok(seconds) => seconds,
        Err(wrong) => {
            check.fail(
                at(&[key.into()]),
                format!("`{key}`: {wrong}"),
                "as in \"30m\"",
            );
            LIFETIME_S
        }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u32>().is_ok_and(|b| b <= most)
}

fn mount(check: &mut Checker<'_>, path: &str, span: &dyn Fn() -> Option<crate::source::Span>) {
    path_text(check, path, span());
    if !is_mount_point(path) {
        let hint = "write an absolute path of letters, digits, `-`, `_` and `.` outside the system's own directories, as in \"/scratch\"";
        check.fail(span(), format!("`{path}` is not a valid mount point"), hint);
    }
}

fn disk(
    check: &mut Checker<'_>,
    what: &str,
    kind: &str,
    iops: Option<u32>,
    throughput: Option<u32>,
    place: &SpanLookup<'_>,
) {
    if !DISKS.contains(&kind) {
        check.fail(
            place(&["type".into()]),
            format!("unknown volume type `{kind}`"),
            suggestion(kind, "known types", DISKS),
        );
    }
    if iops.is_some() && !matches!(kind, "gp3" | "io1" | "io2") {
        check.fail(
            place(&["iops".into()]),
            format!("`iops` for {what} of the type {kind}"),
            "only gp3, io1 and io2 have this setting",
        );
    }
    if iops.is_none() && matches!(kind, "io1" | "io2") {
        check.fail(
            place(&["type".into()]),
            format!("{what} of the type {kind} needs `iops`"),
            "give the number of I/O operations per second",
        );
    }
    if throughput.is_some() && kind != "gp3" {
        check.fail(
            place(&["throughput_mib_s".into()]),
            format!("`throughput_mib_s` for {what} of the type {kind}"),
            "only gp3 has this setting",
        );
    }
}

fn image(check: &mut Checker<'_>, raw: Option<&RawImage>, at: &SpanLookup<'_>) -> Image {
    let known = || Image::Known(KNOWN_IMAGES[0].to_owned());
    match raw {
        None => known(),
        Some(RawImage::Name(name)) if name.starts_with("ami-") => Image::Id(name.clone()),
        Some(RawImage::Name(name)) => {
            if !KNOWN_IMAGES.contains(&name.as_str()) {
                let hint = format!(
                    "{}; or an id as in ami-0123, or a table",
                    suggestion(name, "known images", KNOWN_IMAGES)
                );
                check.fail(
                    at(&["image".into()]),
                    format!("unknown image `{name}`"),
                    hint,
                );
            }
            Image::Known(name.clone())
        }
        Some(RawImage::Table(table)) => match (&table.owner, &table.name, &table.ssm) {
            (Some(owner), Some(name), None) => Image::Named {
                owner: owner.clone(),
                name: name.clone(),
            },
            (None, None, Some(parameter)) => Image::Parameter(parameter.clone()),
            _ => {
                let hint = "write { owner = \"136693071363\", name = \"debian-12-amd64-*\" } or { ssm = \"/aws/service/...\" }";
                check.fail(
                    at(&["image".into()]),
                    "an image needs `owner` and `name`, or `ssm`",
                    hint,
                );
                known()
            }
        },
    }
}

/// Checks the user's price of a node or a core.
pub fn price(
    check: &mut Checker<'_>,
    kind: Option<SiteKind>,
    raw: PriceSettings,
    place: &SpanLookup<'_>,
) -> PriceSettings {
    for (key, usd) in [
        ("per_node_hour_usd", raw.per_node_hour_usd),
        ("per_core_hour_usd", raw.per_core_hour_usd),
    ] {
        let Some(usd) = usd else { continue };
        let at = place(&["price".into(), key.into()]);
        if !(usd >= 0.0 && usd.is_finite()) {
            check.fail(
                at.clone(),
                format!("`{key}` is {usd}"),
                "write US dollars, 0 or more",
            );
        }
        if kind == Some(SiteKind::Ec2) {
            check.fail(
                at,
                format!(
                    "`{key}` for a site of the kind `{}`",
                    kind_name(SiteKind::Ec2)
                ),
                "its prices come from the cloud: remove it",
            );
        }
    }
    if raw.per_node_hour_usd.is_some() && raw.per_core_hour_usd.is_some() {
        check.fail(
            place(&["price".into()]),
            "both `per_node_hour_usd` and `per_core_hour_usd`",
            "give the price once",
        );
    }
    raw
}

/// Checks the budget.
pub fn budget(check: &mut Checker<'_>, budget: Budget, place: &SpanLookup<'_>) -> Budget {
    if !(budget.usd > 0.0 && budget.usd.is_finite()) {
        check.fail(
            place(&["usd".into()]),
            format!("`usd` is {}", budget.usd),
            "write US dollars above zero, or remove the table",
        );
    }
    budget
}
