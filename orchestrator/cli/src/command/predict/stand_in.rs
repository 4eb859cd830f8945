//! `cvc predict --stand-in`: finds the small runs that represent a large one.

use super::{spread::number, storage::specs};
use crate::{args::PredictArgs, exit_status::ExitStatus, failure::Failure};
use cvc_prediction::predict::{KnownNames, Predictor, Question};
use cvc_prediction::stand_in::{LatencySource, StandIn, StandIns, stand_ins};
use cvc_show::{Blocks, Table, or_dash};

/// Maximum number of runs shown; JSON has all.
const SHOWN: usize = 6;

/// Returns an answer for each setting of `--stand-in`: the smaller runs that can represent it.
pub fn answers(
    args: &PredictArgs,
    predictor: &Predictor<'_>,
    known: KnownNames<'_>,
) -> Result<Vec<StandIns>, Failure> {
    let mut most_nodes = None;
    for (spec, _) in specs(args)? {
        let of_sites = spec.iter().flat_map(|spec| spec.sites.values());
        most_nodes = most_nodes.max(of_sites.filter_map(|site| site.known_nodes()).max());
    }
    let answer = |text: &String| {
        let target = Question::parse(text, known)?;
        let nodes = most_nodes.unwrap_or(u32::MAX);
        stand_ins(predictor, &target, known, nodes).map_err(|message| Failure::Other {
            status: ExitStatus::Model,
            message,
            hint: Some("give a run with equally many processes on each of several nodes, as in \"npb-bt.C 4Nx16P mpich-ch3\"".into()),
        })
    };
    args.stand_in.iter().map(answer).collect()
}

/// Prints the answers.
pub fn show(out: &mut Blocks, answers: &[StandIns]) {
    for of in answers {
        out.gap();
        out.line(format!(
            "{}: {} of data in each process",
            of.target,
            mib(of.data_mib)
        ));
        out.gap();
        if of.runs.is_empty() {
            out.say("no run on fewer nodes has equal data per process and equally many processes per node");
            show_runs(out, &of.unlike);
            continue;
        }
        show_runs(out, &of.runs);
        out.say(said(of));
    }
}

fn show_runs(out: &mut Blocks, runs: &[StandIn]) {
    if runs.is_empty() {
        return;
    }
    let change = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    out.table(Table::of(
        runs.iter().take(SHOWN),
        &[
            ("small run", &|run| run.label.clone()),
            ("data of\na process", &|run| mib(run.data_mib)),
            ("big run:\nits data", &|run| change(run.data_ratio)),
            ("file of\na rank", &|run| or_dash(run.file_ratio, change)),
            ("latency", &|run| {
                or_dash(run.latency_rise, |rise| change(rise + 1.0))
            }),
            ("part of\nstored data", &|run| {
                format!("{} %", number(100.0 * run.volume_share))
            }),
        ],
    ));
}

/// Describes the best representative run.
fn said(of: &StandIns) -> String {
    let Some(best) = of.runs.first() else {
        return String::new();
    };
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let published = percent(of.published_latency_rise);
    let latency = match (best.latency_from, best.holds, best.latency_rise) {
        (Some(source), Some(holds), Some(rise)) => format!(
            "The {} change of its latency, {:+.0} %, is {} the published {published}.",
            match source {
                LatencySource::Measured => "measured",
                LatencySource::Predicted => "predicted",
            },
            100.0 * rise,
            if holds { "within" } else { "beyond" },
        ),
        _ => {
            format!("In print, latency rose by at most {published} from 1 to 4 nodes (BT, SP, LU).")
        }
    };
    format!(
        "{} represents it: each node's files have the same size, and latency is the same with node-local storage. {latency} With shared storage its latency is not comparable: it stores {} of the big run's data; {:.0} such runs at once would store as much.",
        best.label,
        percent(best.volume_share),
        (1.0 / best.volume_share).round().max(1.0)
    )
}

fn mib(value: f64) -> String {
    format!("{} MiB", number(value))
}
