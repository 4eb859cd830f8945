//! `cvc strategy`: the costs of checkpoint strategies ("ways") under failures, and which one is best.

mod measured;
mod rows;

use crate::{
    args::StrategyArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, versioned},
};
use cvc_core::units::{MIB, dollars, duration, size};
use cvc_model::strategy::{Failures, Reach, Way};
use cvc_show::{Blocks, Table, format::percent, or_dash};
use measured::{MeasuredCosts, measured_costs};
use rows::{Rates, Risks, ShownWay, StrategyRequest, TrafficSource};
use serde::Serialize;
use std::cmp::Ordering;

/// The output of `--json`.
#[derive(Serialize)]
struct StrategyOutput {
    nodes: u32,
    stored_mib: Option<f64>,
    mtbf_s: f64,
    restart_s: f64,
    work_s: f64,
    /// Bytes of memory traffic for each byte that a thread writes.
    traffic: f64,
    traffic_source: TrafficSource,
    /// The strategy with the minimum expected time.
    best: Option<&'static str>,
    sentence: String,
    ways: Vec<ShownWay>,
    left_out: Vec<LeftOut>,
    assumptions: Vec<String>,
}

/// A strategy without enough data to evaluate it.
#[derive(Serialize)]
struct LeftOut {
    way: &'static str,
    reason: String,
}

pub fn strategy(args: &StrategyArgs) -> Result<ExitStatus, Failure> {
    let measured = args.from.as_deref();
    let measured = measured.map(|campaign| measured_costs(args, campaign));
    let found = StrategyOutput::of(args, measured.transpose()?.as_ref())?;
    output::answer(args.json, &versioned(&found), |out| found.show(out))?;
    Ok(if found.ways.is_empty() {
        ExitStatus::Model
    } else {
        ExitStatus::Done
    })
}

impl StrategyOutput {
    fn of(args: &StrategyArgs, measured: Option<&MeasuredCosts>) -> Result<Self, Failure> {
        let of_node = args.mtbf_node.map(|mtbf_s| mtbf_s / f64::from(args.nodes));
        let mtbf_s = args.mtbf.or(of_node).unwrap_or_default();
        let restart_s = args
            .restart_time
            .or(measured.and_then(|of| of.restart_s))
            .unwrap_or_default();
        let (of_processes, of_a_node) = (
            args.of_processes.unwrap_or(0.0),
            args.of_a_node.unwrap_or(0.0),
        );
        let wrong = |message: String, hint: &str| Failure::Other {
            status: ExitStatus::Usage,
            message,
            hint: Some(hint.to_owned()),
        };
        if of_processes > 1.0 || of_a_node > 1.0 {
            return Err(wrong(
                "a share of failures is above 100 %".to_owned(),
                "write it as in --of-a-node 85%",
            ));
        }
        if args.at_once.is_some_and(|share| share > 1.0) {
            return Err(wrong(
                "more than 100 % of the nodes cannot write at once".to_owned(),
                "write it as in --at-once 25%",
            ));
        }
        if args.of_a_node.is_some() && of_processes > of_a_node {
            let text = format!(
                "the share of process failures ({}) exceeds that of at most one node ({}), which includes it",
                percent(of_processes),
                percent(of_a_node)
            );
            return Err(wrong(text, "raise --of-a-node, or lower --of-processes"));
        }
        let failures = Failures { mtbf_s, restart_s };
        let rates = Rates::of(args)?;
        let measured_costs = measured.iter().flat_map(|of| &of.costs);
        let asked = StrategyRequest {
            args,
            // options of the command line override measurements
            costs: measured_costs.chain(&args.cost).copied().collect(),
            rates,
            risks: Risks {
                failures,
                reach: Reach {
                    of_processes,
                    of_a_node,
                },
            },
        };
        let (mut ways, mut left_out) = (Vec::new(), Vec::new());
        let is_known = |way: Way| asked.costs.iter().any(|of| of.way == way);
        for way in Way::ALL
            .into_iter()
            .filter(|way| is_known(*way) || asked.can_judge(*way))
        {
            match asked.rows(way) {
                Ok(rows) => ways.extend(rows),
                Err(reason) => left_out.push(LeftOut {
                    way: way.word(),
                    reason: reason.to_string(),
                }),
            }
        }
        ways.sort_by(|a, b| {
            (!a.in_time, a.waste)
                .partial_cmp(&(!b.in_time, b.waste))
                .unwrap_or(Ordering::Equal)
        });
        let sentence = sentence(&ways, args.work);
        Ok(Self {
            nodes: args.nodes,
            stored_mib: args.stored,
            mtbf_s,
            restart_s,
            work_s: args.work,
            traffic: rates.traffic,
            traffic_source: rates.traffic_source,
            best: ways.first().map(|best| best.way),
            sentence,
            ways,
            left_out,
            assumptions: assumptions(args, rates, failures, measured),
        })
    }

    fn show(&self, out: &mut Blocks) {
        out.say(self.sentence.clone());
        out.gap();
        let mut head = vec![
            "way",
            "flush",
            "waits",
            "safe after",
            "every",
            "to shared",
            "waste",
        ];
        let has = |of: fn(&ShownWay) -> bool| self.ways.iter().any(of);
        let affordable = has(|way| way.affordable.is_some());
        let (usd, spot) = (has(|way| way.usd.is_some()), has(|way| way.spot.is_some()));
        if affordable {
            head.extend(["by rule", "one every", "waste so"]);
        }
        head.extend(usd.then_some("USD"));
        head.extend(spot.then_some("on spot"));
        head.extend(
            has(|way| way.spot.as_ref().is_some_and(|spot| spot.usd.is_some()))
                .then_some("USD on spot"),
        );
        let mut rows = Table::plain(head).right_from(2);
        for way in &self.ways {
            let mut row = vec![
                way.way.to_owned(),
                way.flush.unwrap_or_default().to_owned(),
                short(way.overhead_s),
                short(way.latency_s),
                duration(way.interval_s),
                or_dash(way.shared_interval_s, duration),
                waste(way),
            ];
            if affordable {
                let by_rule = way.by_rule.as_ref();
                row.extend([
                    by_rule.map_or(0, |rule| rule.count).to_string(),
                    or_dash(by_rule.map(|rule| rule.interval_s), duration),
                    or_dash(by_rule.and_then(|rule| rule.waste), percent),
                ]);
            }
            row.extend(way.usd.map(dollars));
            row.extend(way.spot.as_ref().map(|spot| duration(spot.expected_s)));
            row.extend(way.spot.as_ref().and_then(|spot| spot.usd).map(dollars));
            rows.row(row);
        }
        if !self.ways.is_empty() {
            out.table(rows);
        }
        let mut lines: Vec<String> = self.ways.iter().flat_map(ShownWay::lines).collect();
        let on_shared = self.ways.iter().find_map(|way| way.peak_on_shared_mib);
        lines.extend(on_shared.map(|mib| {
            let size = size(mib * MIB);
            format!("{size} on shared storage while a checkpoint is written there")
        }));
        if !lines.is_empty() {
            out.gap();
        }
        for line in lines {
            out.say(line);
        }
        out.gap();
        for of in &self.left_out {
            out.say(format!("left out: {}: {}", of.way, of.reason));
        }
        for text in &self.assumptions {
            out.say(format!("assumed: {text}"));
        }
    }
}

/// Formats a time in seconds, below one in milliseconds.
fn short(seconds: f64) -> String {
    match seconds {
        0.0..0.9995 => format!("{:.0} ms", 1e3 * seconds),
        _ => duration(seconds),
    }
}

/// Formats the waste, with its interval if known.
fn waste(way: &ShownWay) -> String {
    match (way.waste_low, way.waste_high) {
        (Some(low), Some(high)) => format!(
            "{} ({} to {})",
            percent(way.waste),
            percent(low),
            percent(high)
        ),
        _ => percent(way.waste),
    }
}

/// Describes the best strategy, those indistinguishable from it, and the cost of the synchronous one.
fn sentence(ways: &[ShownWay], work_s: f64) -> String {
    let Some(best) = ways.first() else {
        return "No way can be judged; see the excluded ones.".to_owned();
    };
    let flush = match best.flush {
        Some("behind") => ", flushed to shared storage in the background",
        Some(_) => ", flushed to shared storage while the program waits",
        None => "",
    };
    let mut text = match best.in_time {
        true => String::new(),
        false => "No way is expected to end before the deadline. ".to_owned(),
    };
    text.push_str(&format!(
        "Take {} checkpoints{flush}, one every {}: {} of computing take {} ({} more).",
        best.way,
        duration(best.interval_s),
        duration(work_s),
        duration(best.expected_s),
        percent(best.waste)
    ));
    let others = ways.iter().skip(1).filter(|of| of.in_time == best.in_time);
    let alike: Vec<&ShownWay> = others
        .filter(|of| of.way != best.way && of.bounds().0 < best.bounds().1)
        .collect();
    if let Some(other) = alike.first() {
        let width = |of: &ShownWay| of.bounds().1 - of.bounds().0;
        let widest = if width(other) > width(best) {
            *other
        } else {
            best
        };
        text.push_str(&format!(
            " It is indistinguishable from {}: measure the cost of {} more often.",
            other.way, widest.way
        ));
    }
    let sync = Way::Synchronous.word();
    if let Some(sync) = ways.iter().find(|of| of.way == sync && best.way != sync) {
        text.push_str(&format!(
            " Synchronous checkpoints take {} more.",
            percent(sync.waste)
        ));
    }
    text
}

fn assumptions(
    args: &StrategyArgs,
    rates: Rates,
    failures: Failures,
    measured: Option<&MeasuredCosts>,
) -> Vec<String> {
    let restart = match failures.restart_s {
        0.0 => "no time for restarts".to_owned(),
        seconds => format!("{} for each restart", duration(seconds)),
    };
    let mut all = vec![format!(
        "failures at random, one in {} on average; {restart}",
        duration(failures.mtbf_s)
    )];
    all.extend(measured.map(|of| of.source.clone()));
    if let Some(rate) = args.reclaims_per_hour {
        all.push(format!(
            "{rate} reclaims of each node per hour on the spot market, with {} notice; a replacement arrives within the time of a restart",
            duration(args.notice)
        ));
    }
    if args.dollars_per_hour.is_none() && args.spot_dollars_per_hour.is_none() {
        all.push("no costs, since no price is given (--dollars-per-hour)".to_owned());
    }
    if args.of_a_node.is_some() || args.of_processes.is_some() {
        all.push("waste and intervals of two levels are to first order (Benoit and others 2017), of one level exact (Vaidya 1997)".to_owned());
    }
    if rates.memory_mib_s.is_some() {
        let source = match rates.traffic_source {
            TrafficSource::Given => "given",
            TrafficSource::Counted => "counted",
            TrafficSource::Inferred => "inferred from lost bandwidth, not counted",
            TrafficSource::Published => "published, not measured here",
        };
        all.push(format!(
            "{:.1} bytes of memory traffic for each byte that a thread writes ({source})",
            rates.traffic
        ));
    }
    all
}
