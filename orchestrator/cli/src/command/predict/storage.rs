//! `cvc predict --storage`: the space that a job's checkpoints need, by node and by storage area.

use super::{cost::JobPrices, spread::number};
use crate::{
    args::{PredictArgs, StorageArgs},
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::Utf8Path;
use cvc_core::{
    campaign::{Spec, StorageKind},
    store::CampaignDir,
    units::{MIB, counted, dollars, duration, size},
};
use cvc_index::Index;
use cvc_model::{Estimate, node_files::LauncherKind};
use cvc_prediction::predict::{Forecasts, Predictor};
use cvc_prediction::storage::{Space, StorageNeed, observed_launchers, storage_need};
use cvc_session::{
    SessionError,
    campaigns::{campaign_dir, load, load_stored},
};
use cvc_show::{Blocks, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// The space that a job needs, the storage areas that provide it, and the price per month.
#[derive(Serialize)]
pub struct StorageAnswer {
    #[serde(flatten)]
    pub need: StorageNeed,
    /// Storage areas of the sites in the campaigns that the prediction uses.
    pub areas: Vec<AreaNeed>,
    /// Price per month, US dollars; null if no price is given.
    pub month: Option<MonthPrice>,
}

/// Peak space that a job needs in a storage area of a site.
#[derive(Serialize)]
pub struct AreaNeed {
    pub site: String,
    pub storage: String,
    pub kind: StorageKind,
    /// Space on the fullest node for a node-local area, on all nodes together for a shared one.
    pub peak_mib: Estimate,
}

/// Price of storage per month, US dollars.
#[derive(Serialize)]
pub struct MonthPrice {
    pub usd_per_gib_month: f64,
    /// Where the price comes from.
    pub source: String,
    /// Price of the volume that is kept between checkpoints.
    pub kept_usd: f64,
    /// Price of the peak volume, which the storage must hold.
    pub peak_usd: f64,
}

/// Checks that `--interval` is given together with the job's time, so that the number of checkpoints is known.
pub fn check(args: &StorageArgs) -> Result<(), Failure> {
    if args.storage && args.interval.is_some() && args.job_s.is_none() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: "--interval: the job's time is missing".to_owned(),
            hint: Some("add --for, as in --for 24h".into()),
        });
    }
    Ok(())
}

/// Returns an answer for each forecast.
pub fn answers(
    args: &PredictArgs,
    predictor: &Predictor<'_>,
    forecasts: &[Forecasts],
) -> Result<Vec<StorageAnswer>, Failure> {
    if args.kept.interval == Some(0.0) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: "--interval: no time between checkpoints".to_owned(),
            hint: Some("give the interval, as in 1h".into()),
        });
    }
    let price = JobPrices::of_storage(args)?;
    let answer = |of: &Forecasts| {
        let mut need = storage_need(
            predictor,
            of,
            &launchers(args, of)?,
            args.kept.retention(),
            args.kept.checkpoints(),
        )
        .map_err(|reason| Failure::Other {
            status: ExitStatus::Model,
            message: format!("{}: unknown storage: {reason}", of.label),
            hint: None,
        })?;
        let usd = |mib: f64, usd_per_gib_month: f64| mib / 1024.0 * usd_per_gib_month;
        let (areas, unread) = areas(args, &need)?;
        need.warnings.extend(unread);
        Ok(StorageAnswer {
            areas,
            month: price.as_ref().map(|of| MonthPrice {
                usd_per_gib_month: of.usd_per_gib_month,
                source: of.source.clone(),
                kept_usd: usd(need.all.kept_mib.value, of.usd_per_gib_month),
                peak_usd: usd(need.all.peak_mib.value, of.usd_per_gib_month),
            }),
            need,
        })
    };
    forecasts.iter().map(answer).collect()
}

/// Returns the campaigns that the prediction uses, each with the path that names it.
fn campaigns(args: &PredictArgs) -> Result<Vec<(&Utf8Path, CampaignDir)>, Failure> {
    let is_campaign = |from: &&camino::Utf8PathBuf| {
        from.extension() != Some("csv") && !(from.is_dir() && !from.join("journal.jsonl").exists())
    };
    let mut found = Vec::new();
    for from in args.from.iter().filter(is_campaign) {
        found.push((
            from.as_path(),
            campaign_dir(from, None, &args.place.campaigns)?,
        ));
    }
    Ok(found)
}

/// Returns the specification of each campaign with its directory: from the campaign file, or from its copy of the last run.
pub(super) fn specs(
    args: &PredictArgs,
) -> Result<Vec<(Result<Spec, SessionError>, CampaignDir)>, Failure> {
    let spec = |(from, dir): (&Utf8Path, CampaignDir)| match from.is_file() {
        true => (load(from, None), dir),
        false => (load_stored(&dir), dir),
    };
    Ok(campaigns(args)?.into_iter().map(spec).collect())
}

/// Returns the kinds of launcher processes in checkpoints. They come from the last campaign of the command line that observed any; empty if none did.
fn launchers(args: &PredictArgs, of: &Forecasts) -> Result<Vec<LauncherKind>, Failure> {
    let mut found = Vec::new();
    for (_, dir) in campaigns(args)? {
        let observed = observed_launchers(&Index::open(dir.root())?, &of.question)?;
        if !observed.is_empty() {
            found = observed;
        }
    }
    Ok(found)
}

/// Returns the space needed in each storage area of the campaigns' sites, and warnings about campaigns that cannot be read.
fn areas(args: &PredictArgs, need: &StorageNeed) -> Result<(Vec<AreaNeed>, Vec<String>), Failure> {
    let fullest = need
        .nodes
        .iter()
        .map(|node| node.space.peak_mib)
        .max_by(|a, b| a.value.total_cmp(&b.value))
        .unwrap_or(need.all.peak_mib);
    let (mut areas, mut unread) = (BTreeMap::new(), Vec::new());
    for (spec, dir) in specs(args)? {
        let spec = match spec {
            Ok(spec) => spec,
            Err(_) => {
                let file = dir.campaign_file();
                unread.push(format!("storage areas are unknown: {file} cannot be read on its own; give the campaign file with --from"));
                continue;
            }
        };
        for (site, of) in &spec.sites {
            for (storage, area) in &of.storage {
                areas.insert((site.clone(), storage.clone()), area.kind);
            }
        }
    }
    let areas = areas
        .into_iter()
        .map(|((site, storage), kind)| AreaNeed {
            site,
            storage,
            kind,
            peak_mib: match kind {
                StorageKind::NodeLocal => fullest,
                StorageKind::Shared => need.all.peak_mib,
            },
        })
        .collect();
    Ok((areas, unread))
}

/// Prints each answer on one screen.
pub fn show(out: &mut Blocks, answers: &[StorageAnswer], args: &StorageArgs) {
    for (i, answer) in answers.iter().enumerate() {
        if i > 0 {
            out.gap();
        }
        show_answer(out, answer, args);
    }
}

fn show_answer(out: &mut Blocks, answer: &StorageAnswer, args: &StorageArgs) {
    let need = &answer.need;
    out.say(format!("{}: {}", need.label, policy(need, args)));
    out.gap();
    let mut files = Table::plain(["one checkpoint on", "file", "number", "MiB each", "MiB"]);
    for node in &need.nodes {
        let mut whose = nodes(&node.group.nodes);
        for file in &node.group.files {
            files.row([
                std::mem::take(&mut whose),
                file.kind.clone(),
                file.files.map_or_else(|| "-".to_owned(), count),
                file.files
                    .map_or_else(|| "-".to_owned(), |n| number(file.mib.value / n)),
                number(file.mib.value),
            ]);
        }
    }
    out.table(files);
    out.gap();
    let mut spaces = Table::plain(["storage", "one", "kept", "peak", "interval of the peak"]);
    let mut row = |whose: String, space: &Space| {
        let of = |estimate: Estimate| size(estimate.value * MIB);
        let interval = space.peak_mib.interval;
        spaces.row([
            whose,
            of(space.checkpoint_mib),
            of(space.kept_mib),
            of(space.peak_mib),
            interval.map_or_else(
                || "-".to_owned(),
                |ends| format!("{} … {}", size(ends.low * MIB), size(ends.high * MIB)),
            ),
        ]);
    };
    for node in &need.nodes {
        let each = if node.group.nodes.len() > 1 {
            ", each"
        } else {
            ""
        };
        row(
            format!("of {}{each}", nodes(&node.group.nodes)),
            &node.space,
        );
    }
    row("shared by all nodes".to_owned(), &need.all);
    out.table(spaces);
    for area in &answer.areas {
        let whose = match area.kind {
            StorageKind::NodeLocal => "on the fullest node",
            StorageKind::Shared => "for all nodes",
        };
        out.say(format!(
            "site {}, storage `{}`: {} {whose}",
            area.site,
            area.storage,
            size(area.peak_mib.value * MIB)
        ));
    }
    if let Some(written) = need.written_mib {
        out.say(format!(
            "written by all checkpoints: {}",
            size(written.value * MIB)
        ));
    }
    if let Some(month) = &answer.month {
        out.say(format!(
            "a month of the peak: {}, of kept data: {} ({} a GiB-month, {})",
            dollars(month.peak_usd),
            dollars(month.kept_usd),
            dollars(month.usd_per_gib_month),
            month.source
        ));
    }
    for warning in &need.warnings {
        out.say(format!("warning: {warning}"));
    }
}

/// Describes which checkpoints are kept.
fn policy(need: &StorageNeed, args: &StorageArgs) -> String {
    let mut text = match need.retention.keep {
        1 => "each checkpoint replaces the previous one".to_owned(),
        keep => format!("the last {keep} checkpoints are kept"),
    };
    if let Some(chain) = need.retention.deltas {
        text += &format!(
            ", in chains of {} with {} % changes",
            counted(chain.files, "file"),
            number(100.0 * chain.changed)
        );
    }
    if need.retention.copies > 1 {
        text += &format!(", in {} copies", need.retention.copies);
    }
    if let (Some(count), Some(interval_s), Some(job_s)) =
        (need.checkpoints, args.interval, args.job_s)
    {
        text += &format!(
            "; one every {} for {}: {}",
            duration(interval_s),
            duration(job_s),
            counted(count, "checkpoint")
        );
    }
    text
}

fn count(files: f64) -> String {
    match files.fract() == 0.0 {
        true => format!("{files:.0}"),
        false => format!("{files:.1}"),
    }
}

/// Formats numbers of nodes: `node 1`, `nodes 2 to 4`, `nodes 2, 5`.
fn nodes(numbers: &[u32]) -> String {
    let (first, last) = (numbers.first(), numbers.last());
    match (first, last) {
        (Some(first), Some(last)) if first == last => format!("node {first}"),
        (Some(first), Some(last)) if last - first + 1 == numbers.len() as u32 => {
            format!("nodes {first} to {last}")
        }
        _ => {
            let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("nodes {}", all.join(", "))
        }
    }
}
