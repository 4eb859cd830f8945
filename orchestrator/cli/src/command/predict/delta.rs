//! `cvc predict --delta`: by which method to store checkpoints, and how often.

use crate::{
    args::{Least, PredictArgs},
    display::duration,
    exit_status::ExitStatus,
    failure::Failure,
    output::{bar, shown_as},
    text::{paragraph, table},
};
use camino::Utf8PathBuf;
use cvc_core::units::{ByteSize, counted};
use cvc_delta::{Addressing, BlockSize, DeltaError, DeltaErrorKind, Matrix};
use cvc_model::delta::{Aim, ChangedPair, DeltaCosts, Prices, Storing, VolumeForm};
use cvc_prediction::delta::{
    DeltaAnswer, DeltaQuestion, MethodAnswer, answer, pairs_from_csv, pairs_of,
};
use serde::Serialize;
use std::io::Write;

/// The answer as JSON.
#[derive(Serialize)]
struct DeltaOutput<'a> {
    schema: u32,
    /// Bytes of a block; null for a table of pairs.
    block_bytes: Option<u64>,
    /// What other sizes of blocks lose, as parts of the expected time.
    blocks: Vec<BlockLoss>,
    #[serde(flatten)]
    answer: &'a DeltaAnswer,
}

#[derive(Clone, Copy, Serialize)]
struct BlockLoss {
    block_bytes: u64,
    lost: f64,
}

pub fn predict_delta(args: &PredictArgs) -> Result<ExitStatus, Failure> {
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
        },
        prices: Prices {
            dollars_per_hour: stored.dollars_per_hour.unwrap_or(0.0),
            dollars_per_gib_month: stored.dollars_per_gib_month.unwrap_or(0.0),
        },
        aim: match stored.least {
            Least::Time => Aim::Time,
            Least::Cost => Aim::Cost,
        },
    };
    if stored.least == Least::Cost
        && stored.dollars_per_hour.is_none()
        && stored.dollars_per_gib_month.is_none()
    {
        return Err(usage(
            "--least cost: nothing has a price".into(),
            Some("add --dollars-per-hour and --dollars-per-gib-month"),
        ));
    }
    let mut answers: Vec<(Option<u64>, DeltaAnswer)> = Vec::new();
    for (block_bytes, pairs) in pairs(args)? {
        answers.push((block_bytes, answer(&pairs, question)?));
    }
    let value = |a: &DeltaAnswer| {
        a.best()
            .map_or(f64::INFINITY, |best| question.aim.of(&best.run))
    };
    let blocks: Vec<BlockLoss> = answers
        .iter()
        .filter_map(|(block, a)| {
            Some(BlockLoss {
                block_bytes: (*block)?,
                lost: a.best()?.run.lost,
            })
        })
        .collect();
    // of sizes that are alike, the larger: fewer hashes
    answers.sort_by(|a, b| value(&a.1).total_cmp(&value(&b.1)).then(b.0.cmp(&a.0)));
    let Some((block_bytes, best)) = answers.first() else {
        return Err(usage("no states".into(), None));
    };
    let mut out = std::io::BufWriter::new(shown_as(args.json));
    if args.json {
        let output = DeltaOutput {
            schema: 1,
            block_bytes: *block_bytes,
            blocks,
            answer: best,
        };
        serde_json::to_writer_pretty(&mut out, &output).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        show(&mut out, best, *block_bytes, &blocks)?;
    }
    out.flush()?;
    Ok(ExitStatus::Done)
}

fn usage(message: String, hint: Option<&str>) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: hint.map(str::to_owned),
    }
}

/// The pairs for each size of blocks.
fn pairs(args: &PredictArgs) -> Result<Vec<(Option<u64>, Vec<ChangedPair>)>, Failure> {
    let stored = &args.stored;
    let is_table = |path: &Utf8PathBuf| path.extension() == Some("csv");
    if let Some(path) = stored.delta.iter().find(|p| is_table(p)) {
        if stored.delta.len() > 1 {
            return Err(usage(
                format!("{path}: a table of pairs beside other states"),
                Some("give one table, or directories of checkpoints"),
            ));
        }
        if !stored.block.is_empty() {
            return Err(usage(
                format!("{path}: --block: a table is of one size of blocks"),
                Some("give the directories of the checkpoints"),
            ));
        }
        return Ok(vec![(None, pairs_from_csv(path)?)]);
    }
    if stored.delta.len() < 2 {
        return Err(usage(
            "--delta: one state only: what changes between checkpoints needs two of a run".into(),
            Some("name the directories of consecutive checkpoints, the oldest first"),
        ));
    }
    let mut sizes = stored.block.clone();
    if sizes.is_empty() {
        sizes.push(ByteSize(BlockSize::PAGE.bytes()));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::new();
    for size in sizes {
        let block = BlockSize::new(size.0).map_err(|kind: DeltaErrorKind| {
            usage(
                format!("--block: {kind}"),
                Some("a page, 4KiB, is the smallest that can differ"),
            )
        })?;
        let progress = bar();
        progress.set_message("reading states");
        let states = Matrix::read(&stored.delta, Addressing::Address, block, &|bytes| {
            progress.advance(bytes);
        })
        .map_err(unreadable)?;
        progress.finish_and_clear();
        all.push((Some(block.bytes()), pairs_of(&states)?));
    }
    Ok(all)
}

fn unreadable(error: DeltaError) -> Failure {
    Failure::Other {
        status: ExitStatus::Unreadable,
        hint: error.hint().map(str::to_owned),
        message: error.to_string(),
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// From the start of a checkpoint to the start of the next.
fn every(method: &MethodAnswer) -> String {
    if method.run.checkpoints == 0 {
        "never".to_owned()
    } else {
        duration(method.run.interval_s + method.run.ckpt_s)
    }
}

/// A volume in three digits.
fn volume(mib: f64) -> String {
    match mib {
        m if m >= 1024.0 * 1024.0 => format!("{:.1} TiB", m / (1024.0 * 1024.0)),
        m if m >= 10_240.0 => format!("{:.1} GiB", m / 1024.0),
        m if m >= 10.0 => format!("{m:.0} MiB"),
        m => format!("{m:.2} MiB"),
    }
}

/// A method with its settings.
fn name(storing: Storing) -> String {
    match storing {
        Storing::Full | Storing::Incremental | Storing::Differential => storing.name().to_owned(),
        Storing::Adca { ratio } => format!("ADCA, ratio {ratio}"),
        Storing::Bounded { ratio, files } if ratio < 1.0 => {
            format!("bounded to {files} files")
        }
        Storing::Bounded { ratio, files } => format!("bounded to {files} files, ratio {ratio}"),
    }
}

fn sentence(answer: &DeltaAnswer) -> String {
    let Some(best) = answer.best() else {
        return String::new();
    };
    if best.run.checkpoints == 0 {
        return format!(
            "best without checkpoints: {} of the time is lost, and more with any",
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
        best.run.storing,
        answer.method("full"),
        answer.methods.get(1),
    ) {
        (Storing::Full, _, Some(next)) => format!(
            "full checkpoints, every {}: {lost} of the time is lost, {} with {}",
            every(best),
            percent(next.run.lost),
            name(next.run.storing)
        ),
        (storing, Some(full), _) => format!(
            "{}, every {}: {lost} of the time is lost instead of {} {}",
            name(storing),
            every(best),
            percent(full.run.lost),
            other(full)
        ),
        (storing, None, _) => format!(
            "{}, every {}: {lost} of the time is lost",
            name(storing),
            every(best)
        ),
    }
}

fn show(
    out: &mut impl Write,
    answer: &DeltaAnswer,
    block_bytes: Option<u64>,
    blocks: &[BlockLoss],
) -> std::io::Result<()> {
    let line = |out: &mut dyn Write, text: &str| writeln!(out, "{}", paragraph("", text));
    line(out, &sentence(answer))?;
    let mut rows = table(
        [
            "method",
            "every\n(start to\nstart)",
            "a check-\npoint",
            "stored\nper hour",
            "a restart\nat most",
            "expected\ntotal time",
            "lost",
        ],
        &[],
    );
    for method in &answer.methods {
        let run = &method.run;
        let settings = match run.storing {
            Storing::Full | Storing::Incremental | Storing::Differential => {
                run.storing.name().to_owned()
            }
            Storing::Adca { ratio } => format!("ADCA\nratio {ratio}"),
            Storing::Bounded { ratio, files } if ratio < 1.0 => format!("bounded\n{files} files"),
            Storing::Bounded { ratio, files } => {
                format!("bounded\n{files} files\nratio {ratio}")
            }
        };
        rows.add_row([
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
    writeln!(out, "\n{}\n", rows.trim_fmt())?;
    let prices = answer.question.prices;
    if prices.dollars_per_hour > 0.0 || prices.dollars_per_gib_month > 0.0 {
        for method in &answer.methods {
            let text = format!(
                "{}: ${:.2} for machines, ${:.2} a month for all {}",
                name(method.run.storing),
                method.run.run_dollars,
                method.run.dollars_per_month,
                counted(method.run.checkpoints, "checkpoint")
            );
            line(out, &text)?;
        }
    }
    line(out, &fitted(answer, block_bytes))?;
    if let Some(why) = &answer.volume.simpler {
        line(out, why)?;
    }
    if blocks.len() > 1 {
        let lost: Vec<String> = blocks
            .iter()
            .map(|b| format!("{} with {} KiB", percent(b.lost), b.block_bytes >> 10))
            .collect();
        line(out, &format!("lost by size of blocks: {}", lost.join(", ")))?;
    }
    line(
        out,
        &format!(
            "for full checkpoints, Young 1974 has one every {}, Daly 2006 every {} (from end to start)",
            duration(answer.young_full_s),
            duration(answer.daly_full_s)
        ),
    )?;
    let costs = answer.question.costs;
    let search = costs.search_mib_s.map_or_else(
        || "the program does not wait for the search for changes".to_owned(),
        |rate| format!("the search for changes reads {} each second", volume(rate)),
    );
    line(
        out,
        &format!(
            "assumed: {} and its bytes for a checkpoint, {} and the bytes of its chain for a restart, {} for each file of it; {search}",
            duration(costs.start_s),
            duration(costs.restart_s),
            milliseconds(costs.file_s)
        ),
    )?;
    for warning in &answer.warnings {
        line(out, &format!("warning: {warning}"))?;
    }
    Ok(())
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", 1000.0 * seconds)
    } else {
        duration(seconds)
    }
}

/// The fitted curve in a sentence.
fn fitted(answer: &DeltaAnswer, block_bytes: Option<u64>) -> String {
    let found = &answer.volume;
    let curve = &found.curve;
    let repeated = volume(curve.repeated_mib);
    let growth = format!("{:.3} MiB/s · τ", curve.rate_mib_s);
    let part = format!("(1 − e^(−τ/{}))", duration(curve.time_s));
    let formula = match found.form {
        VolumeForm::Constant => repeated,
        VolumeForm::Proportional => growth,
        VolumeForm::Line => format!("{repeated} + {growth}"),
        VolumeForm::Saturating => format!("{repeated} · {part}"),
        VolumeForm::Complete => format!("{repeated} · {part} + {growth}"),
    };
    let block = block_bytes.map_or_else(String::new, |b| format!(", blocks of {} KiB", b >> 10));
    format!(
        "changed between two checkpoints τ apart: {formula}, of {} (from {} of {}, {} to {} apart{block})",
        volume(curve.full_mib),
        counted(found.pairs, "pair"),
        counted(found.checkpoints, "checkpoint"),
        duration(found.shortest_s),
        duration(found.longest_s)
    )
}
