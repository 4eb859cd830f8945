//! Stand-ins: small runs that represent a large one, and how much each shows about it.

use crate::predict::{Forecasts, KnownNames, Predictor, Question};
use cvc_core::{app::embedded, mapping::Mapping, quantity::Quantity};
use cvc_model::{
    Estimate,
    stand_in::{PUBLISHED_LATENCY_RISE, is_alike},
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Runs that represent a target run, the most similar first.
#[derive(Clone, Debug, Serialize)]
pub struct StandIns {
    /// The target run.
    pub target: String,
    /// Number of nodes of the target.
    pub nodes: u32,
    /// Processes on each node of the target.
    pub processes_per_node: u32,
    /// MiB of data in each process of the target.
    pub data_mib: f64,
    /// Seconds of the target's checkpoint, if it can be predicted.
    pub latency_s: Option<Estimate>,
    /// Published maximum of the target's latency relative to that of a stand-in, minus 1: 0.2 for 20 %.
    pub published_latency_rise: f64,
    /// The stand-ins.
    pub runs: Vec<StandIn>,
    /// Runs with the same number of processes on a node but different data, the most similar first; only if there is no stand-in.
    pub unlike: Vec<StandIn>,
}

/// A run, compared with the target.
#[derive(Clone, Debug, Serialize)]
pub struct StandIn {
    /// The run: `npb-bt.B 1Nx16P mpich-ch3`.
    pub label: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of processes.
    pub processes: u32,
    /// MiB of data in each process.
    pub data_mib: f64,
    /// Ratio of the data of a target's process to the data of a process of this run.
    pub data_ratio: f64,
    /// Ratio of the target's rank file to that of this run; null if it cannot be predicted.
    pub file_ratio: Option<f64>,
    /// Bytes that this run stores relative to the target, which is its relative load on a shared file system.
    pub volume_share: f64,
    /// Target's latency relative to the latency of this run, minus 1: 0.2 for 20 %; null if unknown.
    pub latency_rise: Option<f64>,
    /// Source of `latency_rise`.
    pub latency_from: Option<LatencySource>,
    /// Whether `latency_rise` is at most the published maximum.
    pub holds: Option<bool>,
}

/// Source of a ratio of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencySource {
    /// Both latencies were measured.
    Measured,
    /// Both latencies are predicted.
    Predicted,
}

/// Returns the runs on at most `most_nodes` nodes that represent a target.
///
/// # Errors
/// The target cannot be represented: its mapping is uneven, it has a single node, or its data are unknown.
pub fn stand_ins(
    predictor: &Predictor<'_>,
    target: &Question,
    known: KnownNames<'_>,
    most_nodes: u32,
) -> Result<StandIns, String> {
    let label = target.label();
    let load = target
        .load()
        .ok_or_else(|| format!("{label}: nodes have different numbers of processes"))?;
    let nodes = target.setting.mapping.nodes();
    if nodes == 1 {
        return Err(format!("{label} is on one node: no run has fewer"));
    }
    let forecasts = predictor.forecast(target);
    let data_mib = data(target, &forecasts)
        .ok_or_else(|| format!("{label}: the data of a process are unknown"))?;
    let mut found: Vec<StandIn> = Vec::new();
    for class in classes(target, known) {
        for on in 1..nodes.min(most_nodes.saturating_add(1)) {
            let Some(small) = smaller(target, &class, on, load, known) else {
                continue;
            };
            let of_small = predictor.forecast(&small);
            if let Some(small_mib) = data(&small, &of_small) {
                found.push(compare(
                    &small, &of_small, small_mib, target, &forecasts, data_mib,
                ));
            }
        }
    }
    // differences below 5 % do not matter: the run on fewer nodes is preferred
    found.sort_by(|a, b| {
        let off = |of: &StandIn| (20.0 * of.data_ratio.ln().abs()).floor();
        off(a).total_cmp(&off(b)).then(a.nodes.cmp(&b.nodes))
    });
    let (runs, mut unlike): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|of| is_alike(of.data_ratio));
    if !runs.is_empty() {
        unlike.clear();
    }
    Ok(StandIns {
        target: label,
        nodes,
        processes_per_node: load,
        data_mib,
        latency_s: forecasts.first(Quantity::Latency).map(|p| p.estimate),
        published_latency_rise: PUBLISHED_LATENCY_RISE,
        runs,
        unlike,
    })
}

/// Returns the classes of the program: those of its descriptor and the observed ones.
fn classes(target: &Question, known: KnownNames<'_>) -> BTreeSet<String> {
    let declared = embedded::descriptor(&target.setting.app)
        .map_or_else(Vec::new, |d| d.workloads.keys().cloned().collect());
    let observed = known
        .observations
        .iter()
        .filter(|o| o.setting.app == target.setting.app)
        .map(|o| o.setting.class.clone());
    declared.into_iter().chain(observed).collect()
}

/// Returns the question about another class on fewer nodes; `None` if the program does not run with that number of processes.
fn smaller(
    target: &Question,
    class: &str,
    nodes: u32,
    load: u32,
    known: KnownNames<'_>,
) -> Option<Question> {
    let setting = &target.setting;
    let mapping = Mapping::even(nodes, load);
    let text = format!("{}.{class} {mapping} {}", setting.app, setting.mpi_name);
    let mut question = Question::parse(&text, known).ok()?;
    question.setting.compression = setting.compression;
    question.setting.cb_buffer = setting.cb_buffer;
    question.setting.aggregators = setting
        .aggregators
        .map(|all| (all * nodes).div_ceil(setting.mapping.nodes()));
    Some(question)
}

/// Returns the MiB of data in a process: predicted, or its part of the data that the descriptor declares.
fn data(question: &Question, forecasts: &Forecasts) -> Option<f64> {
    let declared = || {
        let descriptor = embedded::descriptor(&question.setting.app)?;
        let all_mib = descriptor
            .workloads
            .get(&question.setting.class)?
            .data_mib?;
        Some(all_mib / f64::from(question.setting.mapping.processes()))
    };
    let predicted = forecasts.first(Quantity::Dtapp);
    predicted.map(|p| p.estimate.value).or_else(declared)
}

fn compare(
    small: &Question,
    of_small: &Forecasts,
    small_mib: f64,
    target: &Question,
    of_target: &Forecasts,
    target_mib: f64,
) -> StandIn {
    let ratio = |value: &dyn Fn(&Forecasts) -> Option<f64>| {
        let ratio = value(of_target)? / value(of_small)?;
        ratio.is_finite().then_some(ratio)
    };
    let predicted =
        |quantity: Quantity| ratio(&|of: &Forecasts| of.first(quantity).map(|p| p.estimate.value));
    let measured = ratio(&|of: &Forecasts| {
        let line = of.of(Quantity::Latency).next()?;
        Some(line.observed?.0)
    });
    let (latency, latency_from) = match measured {
        Some(ratio) => (Some(ratio), Some(LatencySource::Measured)),
        None => match predicted(Quantity::Latency) {
            Some(ratio) => (Some(ratio), Some(LatencySource::Predicted)),
            None => (None, None),
        },
    };
    let latency_rise = latency.map(|ratio| ratio - 1.0);
    let (processes, of_all) = (
        small.setting.mapping.processes(),
        target.setting.mapping.processes(),
    );
    StandIn {
        label: small.label(),
        nodes: small.setting.mapping.nodes(),
        processes,
        data_mib: small_mib,
        data_ratio: target_mib / small_mib,
        file_ratio: predicted(Quantity::File),
        volume_share: match predicted(Quantity::Ranks) {
            Some(ratio) => 1.0 / ratio,
            None => f64::from(processes) * small_mib / (f64::from(of_all) * target_mib),
        },
        latency_rise,
        latency_from,
        holds: latency_rise.map(|rise| rise.abs() <= PUBLISHED_LATENCY_RISE),
    }
}
