//! `cvc sweep`

use super::{clouds, runtime, table};
use crate::{args::SweepArgs, display::duration, failure::Failure};
use cvc_lib::{
    cloud::{Account, Found, Known, ProviderError, Resource, Sweep, owner},
    run::EngineError,
};
use std::io::Write;

/// Exit code while anything remains.
const LEFT: u8 = 9;

pub fn sweep(args: &SweepArgs) -> Result<u8, Failure> {
    let Some(clouds) = clouds() else {
        return Err(Failure::Other {
            code: 3,
            message: "this cvc was built without EC2".into(),
            help: Some("build it with the feature `ec2`".into()),
        });
    };
    let known = Known::read(&args.place.campaigns)?;
    for problem in &known.unreadable {
        eprintln!("warning: {problem}; which instances are its own is not known");
    }
    let mut regions = known.regions;
    regions.extend(args.region.iter().skip(1).cloned());
    let search = Sweep {
        account: Account { region: args.region.first().cloned(), profile: args.profile.clone(), endpoint: args.endpoint.clone() },
        regions,
        all_regions: args.all_regions,
        owner: if args.any_owner { None } else { Some(args.owner.clone().unwrap_or_else(owner)) },
        older_than_s: args.older_than,
        wait_s: args.wait,
        in_use: if args.in_use { Default::default() } else { known.in_use },
    };
    let quiet = args.json;
    let tell = move |what: String| {
        if !quiet {
            eprintln!("{what}");
        }
    };
    let (found, left) = runtime()?.block_on(async {
        let found = search.look(clouds.as_ref(), &tell).await.map_err(failed)?;
        if !args.json {
            show(&found, &search)?;
        }
        let removable = found.iter().filter(|f| f.left_alone.is_none());
        if args.dry_run {
            let left = removable.map(|f| (f.resource.clone(), "not removed: --dry-run".to_owned())).collect();
            return Ok::<_, Failure>((found, left));
        }
        let left = search.remove(clouds.as_ref(), &found, &tell).await.map_err(failed)?;
        Ok((found, left))
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<_> = found
            .iter()
            .map(|f| {
                let why = left.iter().find(|(r, _)| *r == f.resource).map(|(_, why)| why);
                serde_json::json!({ "resource": f.resource, "left_alone": f.left_alone, "left": why })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all).map_err(std::io::Error::from)?)?;
    } else if !args.dry_run {
        let removed = found.iter().filter(|f| f.left_alone.is_none()).count() - left.len();
        writeln!(out, "{removed} removed, {} left", left.len())?;
        for (resource, why) in &left {
            writeln!(out, "left: {} {} in {}: {why}", resource.kind, resource.id, resource.region)?;
        }
    }
    Ok(if left.is_empty() { 0 } else { LEFT })
}

fn failed(error: ProviderError) -> Failure {
    Failure::Engine(EngineError::Provider { site: "sweep".into(), error: Box::new(error) })
}

fn show(found: &[Found], search: &Sweep) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let whose = search.owner.as_ref().map_or_else(|| "anybody".to_owned(), Clone::clone);
    if found.is_empty() {
        writeln!(out, "nothing of {whose} is left")?;
        return Ok(());
    }
    let mut rows = table(["what", "id", "region", "of", "site", "state", "age", "note"], &["note"]);
    for Found { resource, left_alone } in found {
        let Resource { kind, id, region, tags, state, .. } = resource;
        let what = match (&resource.instance_type, resource.size_gib) {
            (Some(kind), _) => format!("instance {kind}{}", if resource.spot { " (spot)" } else { "" }),
            (None, Some(gib)) => format!("{kind} {gib} GiB"),
            (None, None) => kind.to_string(),
        };
        let age =
            resource.since.map_or_else(|| "-".to_owned(), |s| duration(jiff::Timestamp::now().duration_since(s).as_secs_f64().max(0.0)));
        let note = left_alone.as_ref().map(|why| format!("left alone: {why}")).unwrap_or_default();
        rows.add_row([what.as_str(), id, region, &tags.campaign, &tags.site, state, &age, &note]);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    Ok(())
}
