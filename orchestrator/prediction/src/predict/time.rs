//! The time of a checkpoint, and how often to take one.

use super::{
    compose::sum,
    forecast::{
        CandidateAnswer, ExpectedRun, Forecast, ForecastLine, Forecasts, Prediction,
        ScheduleBudget, Scheduled,
    },
    observation::Observation,
    predictor::{Answered, Predictor},
    question::Question,
};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_model::{
    Answer, Estimate, FitError, Model, ModelInfo, Output, Setting, Tier, latency, schedule, shmem,
    stats::Interval,
    time_shape::{self, TimePart, TimeShape},
    zone_time,
};
use std::collections::BTreeSet;

/// Maximum time of a run, as a multiple of that without failures; beyond it the run hardly ever ends.
const NEVER: f64 = 100.0;
/// Intervals that a program takes of which no time is known: so many that its end does not matter.
const LONG: f64 = 1e4;

/// A checkpoint and its interval above this part of the mean time between failures: too much is lost for the rules to hold.
const TOO_LONG: f64 = 0.25;

/// The least part of a checkpoint's time that its interval is taken to reach down to.
const SHORTEST: f64 = 0.01;

/// What a checkpoint's time is made of.
const PARTS: [Quantity; 2] = [Quantity::Coordination, Quantity::Storage];

const IN_PARTS: ModelInfo = ModelInfo {
    id: "coordination-and-storage",
    title: "sum of coordination and storage",
    formula: "coordination + storage",
    source: "DMTCP's coordinator; errors taken as independent",
    tier: Tier::NoRun,
    parameters: 0,
};

fn no_time(reason: impl Into<String>) -> Vec<(Quantity, Answered)> {
    vec![(Quantity::Latency, Answered::none(reason))]
}

/// The interval between checkpoints for the time of one and the mean time between failures, seconds.
type IntervalOf = fn(f64, f64) -> Result<f64, FitError>;

/// The files of a node.
struct OfNode {
    /// Processes on it.
    load: u32,
    /// MiB of all its files.
    mib: Estimate,
    /// MiB of them that are data of the program, if they are known.
    own_mib: Option<f64>,
}

/// The models of a time: that of the shape of other programs' times, if there is one, and those of the observed times alone.
fn models(quantity: Quantity, shape: Option<TimeShape>) -> Vec<Box<dyn Model>> {
    let (part, alone) = match quantity {
        Quantity::Coordination => (TimePart::Coordination, latency::coordination()),
        Quantity::Storage => (TimePart::Storage, latency::storage()),
        _ => (TimePart::Whole, latency::models()),
    };
    shape
        .map(|shape| time_shape::shaped(part, shape))
        .into_iter()
        .chain(alone)
        .collect()
}

impl Predictor<'_> {
    /// The time of one checkpoint, and of its parts where runs tell them apart: that of the node that takes longest.
    pub(super) fn latency(
        &self,
        question: &Question,
        forecasts: &Forecasts,
    ) -> Vec<(Quantity, Answered)> {
        if question.setting.compression != Compression::None {
            return vec![(Quantity::Latency, self.compressed_time(question, forecasts))];
        }
        let nodes = of_nodes(question, forecasts);
        let parts: Vec<&Prediction> = forecasts
            .of(Quantity::File)
            .filter_map(|line| line.forecast.prediction())
            .collect();
        if nodes.is_empty() || parts.is_empty() {
            return no_time("the files are unknown");
        }
        let most = nodes.iter().map(|n| n.load).max().unwrap_or(1);
        let library = self.library(question);
        let usable = |o: &Observation| {
            let size = o.model_setting().output.node_mib.is_some();
            size && o.setting.compression == Compression::None
                && o.value(Quantity::Latency).is_some_and(|s| s > 0.0)
        };
        if self.count(usable) == 0 {
            return vec![(
                Quantity::Latency,
                published(question, forecasts, &nodes, &parts),
            )];
        }
        let ours = |o: &Observation| usable(o) && library(o);
        if self.count(ours) == 0 {
            let name = &question.setting.mpi_name;
            return no_time(format!(
                "no time of a checkpoint with {name} was observed; run one with it"
            ));
        }
        let apart = |o: &Observation| {
            ours(o)
                && PARTS
                    .iter()
                    .all(|part| o.value(*part).is_some_and(|s| s > 0.0))
        };
        if self.count(apart) == 0 {
            let one = match self.time_of(Quantity::Latency, question, &nodes, &parts, ours) {
                Ok((prediction, warnings)) => Answered::with(prediction, warnings),
                Err(reason) => Answered::none(reason),
            };
            return vec![(
                Quantity::Latency,
                self.calibrated(Quantity::Latency, question, most, one),
            )];
        }
        // what runs tell apart is predicted apart: processes that take turns, and files that go to the storage
        let mut times = Vec::new();
        for part in PARTS {
            match self.time_of(part, question, &nodes, &parts, apart) {
                Ok(time) => times.push(time),
                Err(reason) => return no_time(reason),
            }
        }
        let total = times
            .iter()
            .map(|(t, _)| t.estimate)
            .fold(Estimate::exact(0.0), Estimate::plus);
        let whole = sum(
            IN_PARTS,
            total,
            &times.iter().map(|(t, _)| t).collect::<Vec<_>>(),
        );
        let whole = self.calibrated(Quantity::Latency, question, most, Answered::of(whole));
        let one = |(part, (time, warnings))| {
            (
                part,
                self.calibrated(part, question, most, Answered::with(time, warnings)),
            )
        };
        PARTS
            .into_iter()
            .zip(times)
            .map(one)
            .chain(std::iter::once((Quantity::Latency, whole)))
            .collect()
    }

    /// The time of a checkpoint, or of a part of it: that of the node that takes longest, by models fitted on what `holds`.
    ///
    /// # Errors
    /// Why there is none.
    fn time_of(
        &self,
        quantity: Quantity,
        question: &Question,
        nodes: &[OfNode],
        parts: &[&Prediction],
        holds: impl Fn(&Observation) -> bool + Copy,
    ) -> Result<(Prediction, Vec<String>), String> {
        let key = format!("{quantity} {}", question.setting.mpi_name);
        let samples = || self.samples(holds, |o| o.value(quantity), |o| o.id.clone());
        // the storage and the cores are those of the runs
        let cores: BTreeSet<Option<u32>> = self
            .training
            .items()
            .iter()
            .filter(|o| holds(o))
            .map(|o| o.cores)
            .collect();
        let cores = cores
            .first()
            .copied()
            .flatten()
            .filter(|_| cores.len() == 1);
        let shape = self.calibration.shape(quantity, question.setting.mpi);
        let ask = |node: &OfNode, mib: f64| {
            // an uncertain size is one of the data
            let own_mib = node
                .own_mib
                .map(|own| (own + mib - node.mib.value).max(0.0));
            self.ask(
                key.clone(),
                || models(quantity, shape),
                samples,
                &at(question, node.load, mib, own_mib, cores),
            )
        };
        let mut slowest: Option<(Prediction, Vec<String>, &OfNode)> = None;
        for node in nodes {
            let answered = ask(node, node.mib.value);
            match answered.forecast {
                Forecast::Predicted(one)
                    if slowest
                        .as_ref()
                        .is_none_or(|(s, ..)| one.estimate.value > s.estimate.value) =>
                {
                    slowest = Some((one, answered.warnings, node));
                }
                Forecast::Predicted(_) => {}
                Forecast::NoPrediction(reason) => return Err(reason),
            }
        }
        let Some((answer, mut warnings, node)) = slowest else {
            return Err("the files are unknown".into());
        };
        // the uncertain size moves the time along the curve; that error has nothing to do with the curve's own
        let at_size = |mib: f64| {
            ask(node, mib.max(0.0))
                .forecast
                .prediction()
                .map(|p| p.estimate.value - answer.estimate.value)
        };
        let moved = node.mib.interval.and_then(|i| {
            Some(Estimate::between(
                0.0,
                at_size(i.low)?.min(0.0),
                at_size(i.high)?.max(0.0),
            ))
        });
        // how far own times scatter is in the errors of those that are left out, by which the table of errors goes
        let own = if self.calibration.is_empty() {
            answer.estimate
        } else {
            Estimate::exact(answer.estimate.value)
        };
        let mut estimate = own
            .plus(moved.unwrap_or(Estimate::bare(0.0)))
            .not_negative();
        let many = question.setting.mapping.nodes();
        if many > 1
            && quantity != Quantity::Coordination
            && self.count(|o| holds(o) && o.setting.mapping.nodes() > 1) == 0
        {
            // no run tells whether the nodes share a storage: up to one for all of them
            let shared =
                at_size(node.mib.value * f64::from(many)).map_or(0.0, |more| more.max(0.0));
            let interval = estimate.interval.unwrap_or(Interval {
                low: estimate.value,
                high: estimate.value,
            });
            estimate = Estimate::between(estimate.value, interval.low, interval.high + shared);
            warnings.push(format!(
                "times were only observed on one node: the time is that of nodes with storage of their own, and its interval reaches up to one storage for all {many}; a run over two nodes tells which it is"
            ));
        }
        let model = sum(answer.model, estimate, parts).model;
        Ok((
            Prediction {
                estimate,
                model,
                ..answer
            },
            warnings,
        ))
    }

    /// The time of the program without checkpoints: as given, or as observed with as many processes.
    pub(super) fn app_time(
        &self,
        question: &Question,
        budget: &ScheduleBudget,
    ) -> Result<(f64, Vec<String>), String> {
        if let Some(given) = budget.app_s {
            return Ok((given, Vec::new()));
        }
        let library = self.library(question);
        let runs: Vec<&Observation> = self
            .training
            .items()
            .iter()
            .filter(|o| {
                o.setting.app == question.setting.app
                    && o.setting.class == question.setting.class
                    && library(o)
                    && o.value(Quantity::App).is_some()
            })
            .collect();
        let comparable: Vec<&&Observation> = runs
            .iter()
            .filter(|o| o.setting.mapping.processes() == question.setting.mapping.processes())
            .collect();
        if comparable.is_empty() {
            let what = format!(
                "{}.{} with {}",
                question.setting.app, question.setting.class, question.setting.mpi_name
            );
            let seen: BTreeSet<u32> = runs.iter().map(|o| o.setting.mapping.processes()).collect();
            let seen = seen
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            let elsewhere = if seen.is_empty() {
                String::new()
            } else {
                format!(", only on {seen}")
            };
            return Err(format!(
                "no run of {what} without checkpoint was observed on {} processes{elsewhere}; give the time of the program with --app-time",
                question.setting.mapping.processes()
            ));
        }
        let times: Vec<f64> = comparable
            .iter()
            .filter_map(|o| o.value(Quantity::App))
            .collect();
        Ok((
            times.iter().sum::<f64>() / times.len() as f64,
            comparable.iter().map(|o| o.label.clone()).collect(),
        ))
    }
}

/// The files of the node of each load that holds most: with the aggregators' surplus. Empty if they are not known.
fn of_nodes(question: &Question, forecasts: &Forecasts) -> Vec<OfNode> {
    let loads: BTreeSet<u32> = question.setting.mapping.node_loads().collect();
    let of = |load: u32| {
        let nodes = question
            .setting
            .mapping
            .node_loads()
            .filter(|l| *l == load)
            .count() as u32;
        let group = |aggregator: bool| {
            forecasts
                .files
                .iter()
                .find(move |g| g.node_load == load && g.aggregator == aggregator)
        };
        // aggregators go to nodes in turn
        let aggregators = group(true).map_or(0, |g| g.count.div_ceil(nodes.max(1)));
        let plain = load.saturating_sub(aggregators);
        let sum = |count: u32, aggregator: bool| match (count, group(aggregator)) {
            (0, _) => Some(Estimate::exact(0.0)),
            (count, group) => Some(group?.size.times(f64::from(count))),
        };
        let zone = |zone: Quantity| {
            let line = forecasts
                .of(zone)
                .find(|l| l.node_load.is_none_or(|of| of == load))?;
            line.forecast.prediction().map(|p| p.estimate.value)
        };
        let of_rank = zone(Quantity::Dtapp).zip(zone(Quantity::Shmem));
        let of_rank = of_rank
            .map(|(data, shared)| data + shmem::data_mib(&question.setting.on_node(load), shared));
        let mib = sum(plain, false)?.plus_together(sum(aggregators, true)?);
        Some(OfNode {
            load,
            mib,
            own_mib: of_rank.map(|own| own * f64::from(load)),
        })
    };
    loads
        .into_iter()
        .map(of)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// A node of the question.
fn at(
    question: &Question,
    load: u32,
    node_mib: f64,
    own_mib: Option<f64>,
    cores: Option<u32>,
) -> Setting {
    let output = Output {
        node_mib: Some(node_mib),
        own_mib,
        cores,
        ..Output::default()
    };
    Setting {
        output,
        ..question.setting.on_node(load)
    }
}

/// The published time, where no time was observed at all. The published lines of the zones stand beside it.
fn published(
    question: &Question,
    forecasts: &Forecasts,
    nodes: &[OfNode],
    parts: &[&Prediction],
) -> Answered {
    let model = latency::published();
    let mut slowest: Option<(Answer, &OfNode)> = None;
    for node in nodes {
        match model
            .fit(&[])
            .and_then(|curve| curve.predict(&at(question, node.load, node.mib.value, None, None)))
        {
            Ok(answer)
                if slowest
                    .as_ref()
                    .is_none_or(|(s, _)| answer.estimate.value > s.estimate.value) =>
            {
                slowest = Some((answer, node))
            }
            Ok(_) => {}
            Err(why) => {
                return Answered::none(format!("no time of a checkpoint was observed; {why}"));
            }
        }
    }
    let Some((answer, node)) = slowest else {
        return Answered::none("the files are unknown");
    };
    // the time is in proportion to the size
    let moved = node.mib.interval.filter(|_| node.mib.value > 0.0).map(|i| {
        let time = |mib: f64| answer.estimate.value * (mib / node.mib.value - 1.0);
        Estimate::between(0.0, time(i.low), time(i.high))
    });
    let estimate = answer
        .estimate
        .plus(moved.unwrap_or(Estimate::bare(0.0)))
        .not_negative();
    let zones = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem].map(|zone| {
        let of_load = |l: &&ForecastLine| l.node_load.is_none_or(|load| load == node.load);
        let line = forecasts
            .of(zone)
            .find(of_load)
            .and_then(|l| l.forecast.prediction());
        line.map(|p| p.estimate.value.max(0.0) * MIB)
            .ok_or_else(|| format!("{} is not known", zone.title()))
    });
    let by_zones = match zones {
        [Ok(data), Ok(libraries), Ok(shared)] => {
            zone_time::checkpoint_s(data, libraries, shared).map_err(|e| e.to_string())
        }
        [data, libraries, shared] => Err([data, libraries, shared]
            .into_iter()
            .filter_map(Result::err)
            .collect::<Vec<_>>()
            .join("; ")),
    };
    let candidate =
        |model: ModelInfo, chosen: bool, estimate: Result<Estimate, String>| CandidateAnswer {
            model,
            chosen,
            leave_one_out_pct: None,
            estimate: estimate.as_ref().ok().copied(),
            refused: estimate.err(),
            parameters: Vec::new(),
        };
    let mut prediction = sum(model.info(), estimate, parts);
    prediction.reason = format!(
        "no time was observed: that of {}",
        latency::PUBLISHED_STORAGE
    );
    prediction.training = Vec::new();
    prediction.candidates = vec![
        candidate(model.info(), true, Ok(answer.estimate)),
        candidate(zone_time::INFO, false, by_zones.map(Estimate::bare)),
    ];
    let mut warnings = vec![format!(
        "no time of a checkpoint was observed: the time is published for {}, and holds only for its storage",
        latency::PUBLISHED_STORAGE
    )];
    warnings.extend(answer.warnings);
    if question.setting.mapping.nodes() > 1 {
        warnings.push("the published time is of one node: assuming that each node writes to storage of its own, at the same time".into());
    }
    Answered::with(prediction, warnings)
}

/// Checkpoints for a budget and for a mean time between failures, with warnings. The interval for failures needs no time of the program.
///
/// # Errors
/// The reason why there is no schedule.
pub(super) fn schedules(
    app_s: Option<f64>,
    ckpt: Estimate,
    budget: &ScheduleBudget,
) -> Result<(Vec<Scheduled>, Vec<String>), String> {
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    let answer = |e: FitError| e.to_string();
    let ckpt_s = ckpt.value;
    // a checkpoint takes some time, however short its interval says it may be
    let ends = ckpt
        .interval
        .map(|i| (i.low.max(ckpt_s * SHORTEST), i.high));
    if ends.is_none() && (budget.overhead.is_some() || budget.mtbf_s.is_some()) {
        warnings.push("the time of a checkpoint has no interval, so what follows from it for a schedule has none either".to_owned());
    }
    if let (Some(overhead), Some(app_s)) = (budget.overhead, app_s) {
        let rules = |ckpt_s: f64| -> Result<_, FitError> {
            let (published, whole) = (
                schedule::published(app_s, ckpt_s, overhead)?,
                schedule::whole_budget(app_s, ckpt_s, overhead)?,
            );
            // the published interval is a part of the whole run, checkpoints included; ours are of the program's own time
            let spread = whole.interval_s.map(|own| own + ckpt_s);
            Ok([(published, published.interval_s), (whole, spread)])
        };
        let at_ends = ends.and_then(|(low, high)| Some((rules(low).ok()?, rules(high).ok()?)));
        // where the budget pays for none, the whole run is the interval
        let or_all = |interval_s: Option<f64>| Some(interval_s.unwrap_or(app_s));
        let names = [
            (
                "published rule",
                "thesis, section 5.3: leaves part of the budget unused",
            ),
            (
                "whole budget",
                "as many as the budget allows, evenly spread",
            ),
        ];
        for (which, ((rule, source), (s, interval_s))) in names
            .into_iter()
            .zip(rules(ckpt_s).map_err(answer)?)
            .enumerate()
        {
            let ranges = at_ends
                .as_ref()
                .filter(|(low, high)| low[which].1.or(high[which].1).is_some());
            let interval_range_s =
                ranges.and_then(|(low, high)| range(or_all(low[which].1), or_all(high[which].1)));
            let cost = |ckpt_s: f64| Some(s.count as f64 * ckpt_s / app_s);
            all.push(Scheduled {
                rule,
                source,
                checkpoints: Some(s.count),
                interval_s,
                interval_range_s,
                total_s: Some(s.total_s),
                overhead: cost(ckpt_s),
                overhead_range: ends.and_then(|(low, high)| range(cost(low), cost(high))),
                with_failures: None,
            });
        }
    }
    if let Some(mtbf_s) = budget.mtbf_s {
        let mut longest = 0.0_f64;
        let rules: [(_, _, IntervalOf); 2] = [
            (
                "Young",
                "J. W. Young 1974: least expected loss, first order",
                schedule::young_s,
            ),
            (
                "Daly",
                "J. T. Daly 2006: least expected loss, higher order",
                schedule::daly_s,
            ),
        ];
        for (rule, source, interval_of) in rules {
            let interval = interval_of(ckpt_s, mtbf_s).map_err(answer)?;
            let start_to_start = |ckpt_s: f64| {
                interval_of(ckpt_s, mtbf_s)
                    .ok()
                    .map(|interval| interval + ckpt_s)
            };
            // a checkpoint at the very end would save nothing
            let checkpoints = app_s.map(|app_s| ((app_s / interval).ceil() - 1.0).max(0.0));
            let is_any = checkpoints.is_none_or(|count| count > 0.0);
            // with the interval that was chosen, whatever a checkpoint then takes
            let run = |app_s: f64, ckpt_s: f64| {
                let interval_s = if is_any { interval } else { app_s };
                let restart_s = budget.restart_s.unwrap_or(ckpt_s);
                schedule::with_failures(app_s, ckpt_s, interval_s, mtbf_s, restart_s)
                    .ok()
                    .filter(|run| run.total_s.is_finite())
            };
            // of a program whose time is not known: of a long one
            let cost = |ckpt_s: f64| {
                let app_s = app_s.unwrap_or(LONG * interval);
                Some(run(app_s, ckpt_s)?.total_s / app_s - 1.0)
            };
            all.push(Scheduled {
                rule,
                source,
                checkpoints: checkpoints.map(|count| count as u64),
                interval_s: is_any.then_some(interval + ckpt_s),
                interval_range_s: ends
                    .filter(|_| is_any)
                    .and_then(|(low, high)| range(start_to_start(low), start_to_start(high))),
                total_s: app_s
                    .zip(checkpoints)
                    .map(|(app_s, count)| app_s + count * ckpt_s),
                overhead: cost(ckpt_s),
                overhead_range: ends.and_then(|(low, high)| range(cost(low), cost(high))),
                with_failures: app_s
                    .and_then(|app_s| run(app_s, ckpt_s))
                    .map(|run| ExpectedRun {
                        total_s: run.total_s,
                        failures: run.failures,
                        checkpoints_s: run.checkpoints_s,
                        rework_s: run.rework_s,
                        restarts_s: run.restarts_s,
                    }),
            });
            longest = longest.max(app_s.map_or(interval, |app_s| interval.min(app_s)));
        }
        if ckpt_s + longest > TOO_LONG * mtbf_s {
            let cost = match app_s {
                None => String::new(),
                Some(app_s) => {
                    let daly = schedule::daly_s(ckpt_s, mtbf_s).map_err(answer)?;
                    let restart_s = budget.restart_s.unwrap_or(ckpt_s);
                    let expected =
                        schedule::with_failures(app_s, ckpt_s, daly.min(app_s), mtbf_s, restart_s)
                            .map_err(answer)?
                            .total_s;
                    if expected > NEVER * app_s {
                        ": the run would hardly ever end".to_owned()
                    } else {
                        let times = expected / app_s;
                        format!(
                            ": with Daly's interval the run takes {times:.1} times as long as without any, on average"
                        )
                    }
                }
            };
            warnings.push(format!(
                "failures every {} s are frequent for a checkpoint of {ckpt_s:.3} s and an interval of {longest:.3} s{cost}",
                seconds(mtbf_s)
            ));
        }
    }
    Ok((all, warnings))
}

/// Seconds, with as many decimals as short ones need.
fn seconds(s: f64) -> String {
    if s >= 10.0 {
        format!("{s:.0}")
    } else {
        format!("{}", (s * 1e6).round() / 1e6)
    }
}

/// The range between two intervals, whichever is longer.
fn range(a: Option<f64>, b: Option<f64>) -> Option<Interval> {
    a.zip(b).map(|(a, b)| Interval {
        low: a.min(b),
        high: a.max(b),
    })
}

#[cfg(test)]
mod tests {
    use super::schedules;
    use crate::predict::ScheduleBudget;
    use cvc_model::Estimate;

    fn of(overhead: Option<f64>, mtbf_s: Option<f64>) -> (Vec<f64>, Vec<String>) {
        let budget = ScheduleBudget {
            overhead,
            mtbf_s,
            ..ScheduleBudget::default()
        };
        let (all, warnings) =
            schedules(Some(600.0), Estimate::between(2.0, 1.5, 3.0), &budget).expect("schedules");
        (all.iter().filter_map(|s| s.interval_s).collect(), warnings)
    }

    #[test]
    fn intervals_are_from_start_to_start() {
        // k = 6: (1 + 0.02)·600/6 as published; 600 s of the program in 7 parts, each with a checkpoint
        assert_eq!(of(Some(0.02), None).0, [102.0, 600.0 / 7.0 + 2.0]);
        assert_eq!(of(None, Some(2500.0)).0[0], 102.0);
    }

    #[test]
    fn an_interval_between_failures_needs_no_time_of_the_program_and_has_a_range() {
        let budget = ScheduleBudget {
            overhead: Some(0.3),
            mtbf_s: Some(5000.0),
            ..ScheduleBudget::default()
        };
        let (all, warnings) =
            schedules(None, Estimate::between(4.0, 1.0, 9.0), &budget).expect("schedules");
        let young = &all[0];
        // √(2·4·5000) = 200, √(2·1·5000) = 100, √(2·9·5000) = 300, and the checkpoint itself
        assert_eq!(
            (young.rule, young.checkpoints, young.total_s),
            ("Young", None, None)
        );
        assert_eq!(
            (
                young.interval_s,
                young.interval_range_s.map(|r| (r.low, r.high))
            ),
            (Some(204.0), Some((101.0, 309.0)))
        );
        assert_eq!((all.len(), warnings.len()), (2, 0));
        let (bare, warnings) = schedules(None, Estimate::bare(4.0), &budget).expect("schedules");
        assert!(
            bare[0].interval_range_s.is_none() && warnings[0].contains("no interval"),
            "{warnings:?}"
        );
    }

    #[test]
    fn frequent_failures_give_a_warning() {
        assert_eq!(of(None, Some(2500.0)).1, [""; 0]);
        let some = of(None, Some(60.0)).1.join("");
        // 1.3 times without restarts; each takes as long as a checkpoint
        assert!(some.contains("1.4 times"), "{some}");
        let (_, never) = of(None, Some(0.3));
        assert!(
            never[0].contains("hardly ever end") && never[0].contains("failures every 0.3 s"),
            "{never:?}"
        );
    }

    #[test]
    fn a_rule_keeps_its_range_if_one_end_affords_no_checkpoint_and_tells_what_the_ends_cost() {
        // 12 s for checkpoints: 6 of 2 s, one of 12 s, none of 20 s
        let budget = ScheduleBudget {
            overhead: Some(0.02),
            mtbf_s: Some(5000.0),
            ..ScheduleBudget::default()
        };
        let (all, _) =
            schedules(Some(600.0), Estimate::between(2.0, 2.0, 20.0), &budget).expect("schedules");
        assert_eq!(all[1].interval_range_s.map(|r| r.high), Some(600.0));
        let part = |of: Option<f64>| (of.expect("a cost") * 1e6).round() / 1e6;
        assert_eq!(
            (
                part(all[1].overhead),
                part(all[1].overhead_range.map(|r| r.high))
            ),
            (0.02, 0.2)
        );
        // Daly: τ = √20000·(1 + √0.0002/3 + 0.0002/9) − 2 = 140.09, so four stretches with a checkpoint and one of 39.635 s without:
        // 5000·e^(R/5000)·(4·(e^((140.09 + t)/5000) − 1) + e^(39.635/5000) − 1)/600 − 1 for R = t, which is 2 s and 20 s
        assert_eq!(
            (
                part(all[3].overhead),
                part(all[3].overhead_range.map(|r| r.high))
            ),
            (0.027595, 0.155478)
        );
        let run = all[3].with_failures.expect("an end");
        let lost = run.checkpoints_s + run.rework_s + run.restarts_s;
        assert!((run.total_s - 600.0 - lost).abs() < 1e-9, "{run:?}");
        assert_eq!(
            (run.checkpoints_s, part(Some(run.total_s / 600.0 - 1.0))),
            (8.0, 0.027595)
        );
        assert!(all[1].with_failures.is_none(), "a budget has no failures");
    }
}
