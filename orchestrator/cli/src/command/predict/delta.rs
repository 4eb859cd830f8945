//! `cvc predict --delta`: the best method to store checkpoints as deltas, and the best interval.

use super::delta_input::{read, usage};
use crate::{
    args::{Objective, PredictArgs},
    display::duration,
    exit_status::ExitStatus,
    failure::Failure,
    output,
};
use camino::Utf8PathBuf;
use cvc_core::units::counted;
use cvc_delta::TimeSource;
use cvc_delta_rules::Method;
use cvc_model::delta::{ChangedVolume, DeltaCosts, DeltaObjective, Packing, Prices, VolumeForm};
use cvc_prediction::delta::{
    DeltaAnswer, DeltaQuestion, Evidence, MethodAnswer, ZoneAnswer, answer,
};
use cvc_show::{Blocks, Table, format::percent};
use serde::Serialize;

/// The answer as JSON.
#[derive(Serialize)]
struct DeltaOutput<'a> {
    schema: u32,
    /// Bytes of a block; null for a table of pairs.
    block_bytes: Option<u64>,
    /// Lost time with other block sizes, as fractions of the expected time.
    blocks: Vec<BlockLoss>,
    /// Lost time with each codec and block size.
    codecs: Vec<CodecLoss>,
    #[serde(flatten)]
    answer: &'a DeltaAnswer,
}

#[derive(Clone, Copy, Serialize)]
struct BlockLoss {
    block_bytes: u64,
    lost: f64,
}

/// Lost time with a codec and the best method, as a fraction of the expected time.
#[derive(Clone, Serialize)]
struct CodecLoss {
    #[serde(skip_serializing_if = "Option::is_none")]
    codec: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_bytes: Option<u64>,
    lost: f64,
}

const OF_FILES: &str = "times come from the files: if these were copied without `cp -p`, all results are wrong; give the interval with --every";

pub fn predict_delta(args: &PredictArgs, states: &[Utf8PathBuf]) -> Result<ExitStatus, Failure> {
    let stored = &args.stored;
    let (Some(app_s), Some(mtbf_s), Some(write_mib_s)) =
        (args.app_time, args.mtbf, stored.bandwidth)
    else {
        return Err(usage(
            "--delta needs --app-time, --mtbf and --bandwidth".into(),
            Some("as in --app-time 10h --mtbf 24h --bandwidth 200MiB"),
        ));
    };
    let question = DeltaQuestion {
        app_s,
        mtbf_s,
        costs: DeltaCosts {
            start_s: stored.start_time,
            write_mib_s,
            search_mib_s: stored.search_bandwidth,
            restart_s: args.restart_time.unwrap_or(stored.start_time),
            read_mib_s: stored.read_bandwidth.unwrap_or(write_mib_s),
            file_s: stored.file_time,
            packing: Packing::NONE,
        },
        prices: Prices {
            dollars_per_hour: stored.dollars_per_hour.unwrap_or(0.0),
            dollars_per_gib_month: stored.dollars_per_gib_month.unwrap_or(0.0),
        },
        aim: match stored.least {
            Objective::Time => DeltaObjective::Time,
            Objective::Cost => DeltaObjective::Cost,
        },
    };
    if stored.least == Objective::Cost
        && stored.dollars_per_hour.is_none()
        && stored.dollars_per_gib_month.is_none()
    {
        return Err(usage(
            "--least cost: no price is given".into(),
            Some("add --dollars-per-hour and --dollars-per-gib-month"),
        ));
    }
    let mut answers: Vec<(Option<u64>, DeltaAnswer)> = Vec::new();
    for input in read(args, states)? {
        let codecs = input.codecs.iter().map(Some);
        let plain = input.codecs.is_empty().then_some(None);
        for codec in codecs.chain(plain) {
            let evidence = Evidence {
                pairs: &input.pairs,
                zones: &input.zones,
                codec,
            };
            let mut found = answer(evidence, question)?;
            if input.times == TimeSource::Files {
                found.warnings.insert(0, OF_FILES.to_owned());
            }
            answers.push((input.block_bytes, found));
        }
    }
    let value = |a: &DeltaAnswer| {
        a.best()
            .map_or(f64::INFINITY, |best| question.aim.of(&best.run))
    };
    let tried = losses(&answers);
    // of block sizes with equal results, the larger one, with fewer hashes; of such codecs, the one tried first, because the sort is stable
    answers.sort_by(|a, b| value(&a.1).total_cmp(&value(&b.1)).then(b.0.cmp(&a.0)));
    let Some((block_bytes, best)) = answers.first() else {
        return Err(usage("no states".into(), None));
    };
    let mut blocks: Vec<BlockLoss> = Vec::new();
    for (block, lost) in tried.iter().filter_map(|t| Some((t.block_bytes?, t.lost))) {
        match blocks.iter_mut().find(|b| b.block_bytes == block) {
            Some(known) => known.lost = known.lost.min(lost),
            None => blocks.push(BlockLoss {
                block_bytes: block,
                lost,
            }),
        }
    }
    let codecs: Vec<CodecLoss> = tried.into_iter().filter(|t| t.codec.is_some()).collect();
    let answer = DeltaOutput {
        schema: 1,
        block_bytes: *block_bytes,
        blocks,
        codecs,
        answer: best,
    };
    output::answer(args.json, &answer, |out| show(out, &answer))?;
    Ok(ExitStatus::Done)
}

/// Returns the lost time with the best method, for each block size and codec.
fn losses(answers: &[(Option<u64>, DeltaAnswer)]) -> Vec<CodecLoss> {
    let of = |(block_bytes, a): &(Option<u64>, DeltaAnswer)| {
        Some(CodecLoss {
            codec: a.codec.as_ref().map(|c| c.codec.clone()),
            block_bytes: *block_bytes,
            lost: a.best()?.run.lost,
        })
    };
    answers.iter().filter_map(of).collect()
}

/// Formats the time from the start of one checkpoint to the start of the next.
fn every(method: &MethodAnswer) -> String {
    if method.run.checkpoints == 0 {
        "never".to_owned()
    } else {
        duration(method.run.interval_s + method.run.ckpt_s)
    }
}

/// Formats a volume with three digits.
fn volume(mib: f64) -> String {
    match mib {
        m if m >= 1024.0 * 1024.0 => format!("{:.1} TiB", m / (1024.0 * 1024.0)),
        m if m >= 10_240.0 => format!("{:.1} GiB", m / 1024.0),
        m if m >= 10.0 => format!("{m:.0} MiB"),
        m => format!("{m:.2} MiB"),
    }
}

/// Returns the name of a method with its settings and the codec.
fn name(method: Method, answer: &DeltaAnswer) -> String {
    match &answer.codec {
        Some(codec) if codec.codec != "none" => {
            format!("{} with {}", method.describe(), codec.codec)
        }
        Some(_) | None => method.describe(),
    }
}

fn sentence(answer: &DeltaAnswer) -> String {
    let Some(best) = answer.best() else {
        return String::new();
    };
    if best.run.checkpoints == 0 {
        return format!(
            "best without checkpoints: {} of the time is lost; any checkpoints lose more",
            percent(best.run.lost)
        );
    }
    let lost = percent(best.run.lost);
    let other = |method: &MethodAnswer| {
        if method.run.checkpoints == 0 {
            "without checkpoints".to_owned()
        } else {
            format!("with full checkpoints every {}", every(method))
        }
    };
    match (
        best.run.method,
        answer.method("full"),
        answer.methods.get(1),
    ) {
        (Method::Full, _, Some(next)) => format!(
            "{}, every {}: {lost} of the time is lost, {} with {}",
            name(Method::Full, answer).replacen("full", "full checkpoints", 1),
            every(best),
            percent(next.run.lost),
            next.run.method.describe()
        ),
        (method, Some(full), _) => format!(
            "{}, every {}: {lost} of the time is lost instead of {} {}",
            name(method, answer),
            every(best),
            percent(full.run.lost),
            other(full)
        ),
        (method, None, _) => format!(
            "{}, every {}: {lost} of the time is lost",
            name(method, answer),
            every(best)
        ),
    }
}

fn show(out: &mut Blocks, of: &DeltaOutput<'_>) {
    let answer = of.answer;
    let (first, warnings): (Vec<&String>, Vec<&String>) =
        answer.warnings.iter().partition(|w| *w == OF_FILES);
    for warning in first {
        out.say(format!("warning: {warning}"));
    }
    out.say(sentence(answer));
    out.gap();
    out.table(methods(answer));
    out.gap();
    let prices = answer.question.prices;
    if prices.dollars_per_hour > 0.0 || prices.dollars_per_gib_month > 0.0 {
        for method in &answer.methods {
            let text = format!(
                "{}: ${:.2} for machines, ${:.2} a month for all {}",
                method.run.method.describe(),
                method.run.run_dollars,
                method.run.dollars_per_month,
                counted(method.run.checkpoints, "checkpoint")
            );
            out.say(text);
        }
    }
    out.say(fitted(answer, of.block_bytes));
    if let Some(why) = answer.volume.simpler.as_ref().filter(|_| !answer.by_zone) {
        out.say(why);
    }
    if of.blocks.len() > 1 {
        let lost: Vec<String> = of
            .blocks
            .iter()
            .map(|b| format!("{} with {} KiB", percent(b.lost), b.block_bytes >> 10))
            .collect();
        out.say(format!("lost by block size: {}", lost.join(", ")));
    }
    show_zones(out, answer);
    show_codecs(out, answer, &of.codecs);
    out.say(format!(
        "for full checkpoints, Young 1974 gives one every {}, Daly 2006 every {} (end to start)",
        duration(answer.young_full_s),
        duration(answer.daly_full_s)
    ));
    let costs = answer.question.costs;
    let search = costs.search_mib_s.map_or_else(
        || "the program does not wait for the search for changes".to_owned(),
        |rate| format!("the search for changes reads {} each second", volume(rate)),
    );
    out.say(format!(
            "assumed: {} plus its bytes per checkpoint, {} plus the bytes of its chain per restart, {} per file of the chain; {search}",
            duration(costs.start_s),
            duration(costs.restart_s),
            milliseconds(costs.file_s)
        ));
    for warning in warnings {
        out.say(format!("warning: {warning}"));
    }
}

/// Returns the table of methods, each with its best interval and cost.
fn methods(answer: &DeltaAnswer) -> Table {
    let mut rows = Table::plain([
        "method",
        "every\n(start to\nstart)",
        "a check-\npoint",
        "stored\nper hour",
        "a restart\nat most",
        "expected\ntotal time",
        "lost",
    ]);
    for method in &answer.methods {
        let run = &method.run;
        let settings = run.method.describe().replace(", ", "\n");
        let settings = settings.replace("bounded to ", "bounded\n");
        rows.row([
            settings,
            every(method),
            if run.checkpoints == 0 {
                "-".to_owned()
            } else {
                format!("{}\n{}", volume(run.ckpt_mib), duration(run.ckpt_s))
            },
            volume(run.stored_mib_per_hour),
            format!(
                "{}\n{}",
                duration(run.restart_s),
                counted(run.files, "file")
            ),
            format!(
                "{}\n{} …\n{}",
                duration(run.total_s),
                duration(method.total_s.low),
                duration(method.total_s.high)
            ),
            percent(run.lost),
        ]);
    }
    rows
}

/// Prints the fitted curve of each zone's changes. If the recommended method takes checkpoints, also prints the zone's share of all changes between
/// two of them.
fn show_zones(out: &mut Blocks, answer: &DeltaAnswer) {
    let has_checkpoints = answer.best().is_some_and(|best| best.run.checkpoints > 0);
    let all: f64 = answer.zones.iter().map(|z| z.changed_mib).sum();
    let is_there = |zone: &&ZoneAnswer| {
        if has_checkpoints {
            zone.changed_mib > 0.0
        } else {
            zone.volume.curve.at(zone.volume.longest_s) > 0.0
        }
    };
    for zone in answer.zones.iter().filter(is_there) {
        let mut text = format!("in zone {}: {}", zone.zone, formula(&zone.volume));
        if has_checkpoints {
            text.push_str(&format!(
                "; {} of what changes between two of these checkpoints",
                percent(zone.changed_mib / all)
            ));
        }
        if zone.volume.pairs < answer.volume.pairs {
            text.push_str(&format!(
                " (from {} of {})",
                zone.volume.pairs,
                counted(answer.volume.pairs, "pair")
            ));
        }
        out.say(text);
    }
}

/// Prints the effect of the codec on blocks, and the lost time with other codecs.
fn show_codecs(out: &mut Blocks, answer: &DeltaAnswer, codecs: &[CodecLoss]) {
    let Some(found) = &answer.codec else {
        return;
    };
    let packing = found.packing;
    let rate = |rate: Option<f64>, what: &str| {
        rate.map_or_else(String::new, |r| format!(", {what} at {}/s", volume(r)))
    };
    let left_out = found.left_out_pct.map_or_else(String::new, |pct| {
        format!("; the error for a file left out of the fit is {pct:.1} %")
    });
    let text = format!(
        "codec {}: leaves {} of a state in full and {} of blocks that changed ({} to {}, from {}){}{}{left_out}",
        found.codec,
        percent(packing.full_ratio),
        percent(packing.delta_ratio),
        percent(found.delta_ratio.low),
        percent(found.delta_ratio.high),
        counted(found.states, "file"),
        rate(packing.pack_mib_s, "compresses"),
        rate(packing.unpack_mib_s, "uncompresses")
    );
    out.say(text);
    if codecs.len() > 1 {
        let each = codecs.iter().filter_map(|c| {
            let block = c
                .block_bytes
                .map_or_else(String::new, |b| format!(", {} KiB", b >> 10));
            Some(format!(
                "{} with {}{block}",
                percent(c.lost),
                c.codec.as_ref()?
            ))
        });
        let each: Vec<String> = each.collect();
        let text = format!("lost by codec: {}", each.join("; "));
        out.say(text);
    }
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", 1000.0 * seconds)
    } else {
        duration(seconds)
    }
}

/// Formats a fitted curve as a formula.
fn formula(found: &ChangedVolume) -> String {
    let curve = &found.curve;
    let repeated = volume(curve.repeated_mib);
    let growth = format!("{:.3} MiB/s · τ", curve.rate_mib_s);
    let part = format!("(1 − e^(−τ/{}))", duration(curve.time_s));
    match found.form {
        VolumeForm::Constant => repeated,
        VolumeForm::Proportional => growth,
        VolumeForm::Line => format!("{repeated} + {growth}"),
        VolumeForm::Saturating => format!("{repeated} · {part}"),
        VolumeForm::Complete => format!("{repeated} · {part} + {growth}"),
    }
}

/// Describes the fitted curve in a sentence.
fn fitted(answer: &DeltaAnswer, block_bytes: Option<u64>) -> String {
    let found = &answer.volume;
    let block = block_bytes.map_or_else(String::new, |b| format!(", blocks of {} KiB", b >> 10));
    let what = if answer.by_zone {
        "the sum of its zones".to_owned()
    } else {
        formula(found)
    };
    format!(
        "changed between two checkpoints τ apart: {}, of {} (from {} of {}, {} to {} apart{block})",
        what,
        volume(found.curve.full_mib),
        counted(found.pairs, "pair"),
        counted(found.checkpoints, "checkpoint"),
        duration(found.shortest_s),
        duration(found.longest_s)
    )
}
