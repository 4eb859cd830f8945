//! `cvc sweep`

use crate::{
    args::SweepArgs,
    display::duration,
    exit_status::ExitStatus,
    failure::Failure,
    machine::{clouds, runtime},
    output::{self, emit_json, note},
};
use cvc_cloud::cost::{self, DiskSize, PriceBook};
use cvc_cloud::provider::{Account, ErrorKind, ProviderError, Resource, ResourceKind};
use cvc_cloud::{CampaignFleets, FoundResource, Removed, Sweep, SweepFindings};
use cvc_core::units::{counted, dollars};
use cvc_journal::lease::owner;
use cvc_show::{Blocks, Table, or_dash};
use jiff::Timestamp;
use std::collections::BTreeSet;

pub fn sweep(args: &SweepArgs) -> Result<ExitStatus, Failure> {
    let Some(clouds) = clouds() else {
        return Err(Failure::Other {
            status: ExitStatus::Provider,
            message: "this cvc was built without EC2".into(),
            hint: Some("build it with the feature `ec2`".into()),
        });
    };
    let known = CampaignFleets::read(&args.place.campaigns)?;
    for problem in &known.unreadable {
        note(format_args!("warning: {problem}"));
    }
    let search = Sweep {
        accounts: accounts(args, known.accounts),
        all_regions: args.all_regions,
        owner: if args.any_owner {
            None
        } else {
            Some(args.owner.clone().unwrap_or_else(owner))
        },
        older_than_s: args.older_than,
        expired: args.expired,
        wait_s: args.wait,
        campaigns: (!args.in_use).then(|| args.place.campaigns.clone()),
    };
    let quiet = args.json;
    let report = move |what: String| {
        if !quiet {
            note(what);
        }
    };
    let book = PriceBook::open(&cost::cache_file());
    let now = Timestamp::now();
    let (findings, removed) = runtime()?.block_on(async {
        let mut findings = search.search_regions(clouds.as_ref(), &report).await?;
        if !args.json {
            show(&findings, &search, &book, now)?;
        }
        let removed = if args.dry_run {
            let removable = findings.found.iter().filter(|f| f.left_alone.is_none());
            let left = removable
                .map(|f| (f.resource.clone(), "not removed: --dry-run".to_owned()))
                .collect();
            Removed {
                left,
                ..Removed::default()
            }
        } else {
            search
                .remove(clouds.as_ref(), &mut findings.found, &report)
                .await?
        };
        Ok::<_, Failure>((findings, removed))
    })?;
    let Removed { left, refused } = &removed;
    if args.json {
        print_json(&findings, left, &book, now)?;
    } else if !args.dry_run {
        show_removed(&findings, left);
    }
    let refused: Vec<&ProviderError> = findings.refused.iter().chain(refused).collect();
    show_refused(&refused);
    show_other_owners(&findings, args.json);
    if args.dry_run {
        // a dry run only shows something, so output errors count
        output::check()?;
    }
    Ok(if left.is_empty() && refused.is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::Leftover
    })
}

fn print_json(
    findings: &SweepFindings,
    left: &[(Resource, String)],
    book: &PriceBook,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for found in &findings.found {
        let why = left.iter().find(|(r, _)| *r == found.resource);
        let why = why.map(|(_, why)| why);
        let spent = ResourceCost::of(book, &found.resource, now);
        all.push(serde_json::json!({
            "resource": found.resource, "left_alone": found.left_alone, "left": why, "usd": spent.usd, "usd_at_most": spent.at_most
        }));
    }
    let document = output::versioned(serde_json::json!({ "resources": all }));
    emit_json(serde_json::to_string_pretty(&document).map_err(std::io::Error::from)?);
    Ok(())
}

fn show_removed(findings: &SweepFindings, left: &[(Resource, String)]) {
    let mut out = Blocks::default();
    let removable = findings.found.iter().filter(|f| f.left_alone.is_none());
    let removed = removable.count().saturating_sub(left.len());
    out.line(format!("{removed} removed, {} left", left.len()));
    for (resource, why) in left {
        out.line(format!(
            "left: {} {} in {}: {why}",
            resource.kind, resource.id, resource.region
        ));
    }
    output::emit_blocks(&out);
}

fn show_refused(refused: &[&ProviderError]) {
    for error in refused {
        note(format_args!(
            "error: {error}; remaining resources there are unknown"
        ));
    }
    let hints: BTreeSet<String> = refused.iter().filter_map(|e| hint(e)).collect();
    for hint in hints {
        note(format_args!("hint: {hint}"));
    }
}

fn show_other_owners(findings: &SweepFindings, json: bool) {
    if findings.others.is_empty() {
        return;
    }
    let names: Vec<&str> = findings.others.keys().map(String::as_str).collect();
    let line = format!(
        "{} of other owners ({}); see --owner and --any-owner",
        counted(findings.others.values().sum::<usize>(), "resource"),
        names.join(", ")
    );
    // with --json, nothing else is printed
    if json {
        note(line);
    } else {
        output::emit(line);
    }
}

/// Returns a hint for a refused call to the provider. The hints of `cvc run` do not apply here.
fn hint(error: &ProviderError) -> Option<String> {
    match error.kind {
        ErrorKind::Denied => {
            Some("docs/ec2-permissions.md lists the permissions that cvc needs; --region limits the search to given regions".into())
        }
        ErrorKind::Credentials => {
            Some("give credentials as for the AWS command line: `aws configure`, `aws sso login`, AWS_PROFILE, or --profile".into())
        }
        ErrorKind::Transient | ErrorKind::Unreachable => Some("run `cvc sweep` again later".into()),
        ErrorKind::Account => error.hint(),
        _ => None,
    }
}

/// Returns the regions to search: the requested ones, otherwise those of the user's configuration and of earlier campaigns.
fn accounts(args: &SweepArgs, known: Vec<Account>) -> Vec<Account> {
    let of = |region: Option<&String>| Account {
        region: region.cloned(),
        profile: args.profile.clone(),
        endpoint: args.endpoint.clone(),
    };
    let mut all: Vec<Account> = if args.region.is_empty() {
        vec![of(None)]
    } else {
        args.region.iter().map(|r| of(Some(r))).collect()
    };
    let fits =
        |wanted: &Option<String>, there: &Option<String>| wanted.is_none() || wanted == there;
    all.extend(known.into_iter().filter(|a| {
        let region =
            args.region.is_empty() || a.region.as_ref().is_some_and(|r| args.region.contains(r));
        region && fits(&args.profile, &a.profile) && fits(&args.endpoint, &a.endpoint)
    }));
    all
}

/// The cost of a resource until now.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ResourceCost {
    /// US dollars; `None` if unknown.
    usd: Option<f64>,
    /// Whether the cost is an upper bound.
    at_most: bool,
}

impl ResourceCost {
    fn of(book: &PriceBook, resource: &Resource, now: Timestamp) -> Self {
        let region = resource.region.as_str();
        let price = match (
            resource.kind,
            &resource.instance_type,
            resource.size_gib,
            &resource.volume_type,
        ) {
            (ResourceKind::Instance, Some(kind), ..) if resource.spot => {
                book.spot(region, kind, &[], None).ok()
            }
            (ResourceKind::Instance, Some(kind), ..) => book.on_demand(region, kind).ok(),
            // these types charge extra for provisioned operations per second, whose number is not queried
            (ResourceKind::Volume, _, _, Some(kind)) if kind.starts_with("io") => None,
            (ResourceKind::Volume, _, Some(gib), Some(kind)) => book
                .disk(
                    region,
                    &DiskSize {
                        kind,
                        gib,
                        iops: None,
                        throughput_mib_s: None,
                    },
                )
                .ok(),
            (ResourceKind::Instance | ResourceKind::Volume, ..) => None,
            // requests, groups and keys are free
            _ => {
                return Self {
                    usd: Some(0.0),
                    at_most: false,
                };
            }
        };
        let (Some(price), Some(since)) = (price, resource.since) else {
            return Self {
                usd: None,
                at_most: false,
            };
        };
        let is_instance = resource.kind == ResourceKind::Instance;
        let seconds =
            now.duration_since(since)
                .as_secs_f64()
                .max(if is_instance { 60.0 } else { 0.0 });
        // it is unknown how long an instance has been stopped; and the spot price is the highest of the region's zones
        let at_most =
            price.at_most || is_instance && (resource.spot || resource.state != "running");
        Self {
            usd: Some(price.usd_per_hour * seconds / 3600.0),
            at_most,
        }
    }
}

/// Formats US dollars for people.
fn shown(spent: ResourceCost) -> String {
    match spent.usd {
        None => "?".to_owned(),
        Some(usd) if spent.at_most && usd > 0.0 => format!("at most {}", dollars(usd)),
        Some(usd) => dollars(usd),
    }
}

/// Returns the total cost.
fn total(all: &[ResourceCost]) -> String {
    let usd: f64 = all.iter().filter_map(|s| s.usd).sum();
    let unknown = all.iter().filter(|s| s.usd.is_none()).count();
    let known = shown(ResourceCost {
        usd: Some(usd),
        at_most: all.iter().any(|s| s.at_most),
    });
    match unknown {
        0 => known,
        n if n == all.len() => "?".to_owned(),
        n => format!("{known}, and unknown for {n}"),
    }
}

fn show(
    findings: &SweepFindings,
    search: &Sweep,
    book: &PriceBook,
    now: Timestamp,
) -> Result<(), Failure> {
    let found = &findings.found;
    let mut out = Blocks::default();
    let whose = search
        .owner
        .as_ref()
        .map_or_else(|| "all owners".to_owned(), Clone::clone);
    if found.is_empty() {
        if findings.refused.is_empty() {
            output::emit(format_args!("nothing of {whose} is left"));
        } else {
            output::emit(format_args!(
                "nothing of {whose} was found in the regions that answered"
            ));
        }
        return Ok(());
    }
    let mut rows = Table::plain([
        "item", "id", "region", "of", "site", "state", "age", "cost", "note",
    ])
    .wrap(&["note"]);
    let spent: Vec<ResourceCost> = found
        .iter()
        .map(|f| ResourceCost::of(book, &f.resource, now))
        .collect();
    for (
        FoundResource {
            resource,
            left_alone,
            ..
        },
        spent,
    ) in found.iter().zip(&spent)
    {
        let Resource {
            kind,
            id,
            region,
            tags,
            state,
            ..
        } = resource;
        let what = match (&resource.instance_type, resource.size_gib) {
            (Some(kind), _) => format!(
                "instance {kind}{}",
                if resource.spot { " (spot)" } else { "" }
            ),
            (None, Some(gib)) => format!("{kind} {gib} GiB"),
            (None, None) => kind.to_string(),
        };
        let age = or_dash(resource.since, |s| {
            duration(now.duration_since(s).as_secs_f64().max(0.0))
        });
        let note = left_alone
            .as_ref()
            .map(|why| format!("not removed: {why}"))
            .unwrap_or_default();
        rows.row([
            what.as_str(),
            id,
            region,
            &tags.campaign,
            tags.site.as_str(),
            state,
            &age,
            &shown(*spent),
            &note,
        ]);
    }
    out.table(rows);
    out.line(format!(
        "cost so far: {} (instances and GiB of volumes)",
        total(&spent)
    ));
    output::emit_blocks(&out);
    Ok(())
}
