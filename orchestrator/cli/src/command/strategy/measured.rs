//! Costs of checkpoints and restarts that a campaign measured, for `cvc strategy --from`.

use crate::{
    args::{KnownCost, StrategyArgs},
    command::records::warn_of_index,
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::Utf8Path;
use cvc_core::point::Point;
use cvc_core::record::names;
use cvc_core::units::counted;
use cvc_index::Index;
use cvc_model::strategy::{CheckpointCost, Way};
use cvc_session::campaigns::campaign_dir;
use std::collections::BTreeMap;

/// Measured costs of strategies ("ways"), and their source.
pub struct MeasuredCosts {
    pub costs: Vec<KnownCost>,
    pub source: String,
    /// Mean time of a restart until its first new step, seconds, if the campaign measured restarts.
    pub restart_s: Option<f64>,
}

/// Measurements for one program, mapping and library.
#[derive(Default)]
struct Setting {
    ways: BTreeMap<Way, Sum>,
    restarts_s: f64,
    restarts: usize,
}

/// Measurements of a strategy: sums over points, each weighted by its number of runs.
#[derive(Default)]
struct Sum {
    stop_s: f64,
    latency_s: f64,
    runs: usize,
    /// Largest half-width of an interval of the time for which a checkpoint stops the program, as a fraction of the mean.
    spread: f64,
}

/// Reads the costs of each strategy from the results of a campaign. If it has several programs or mappings, `--at` selects one.
pub fn measured_costs(args: &StrategyArgs, campaign: &Utf8Path) -> Result<MeasuredCosts, Failure> {
    let dir = campaign_dir(
        campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    // the index is temporary, because the campaign may be running
    let index = Index::in_temporary_file(dir.root())?;
    warn_of_index(dir.root(), &index)?;
    let mut groups = groups(&index)?;
    let labels: Vec<String> = groups.keys().cloned().collect();
    let refuse = |message: String, hint: String| Failure::Other {
        status: ExitStatus::Model,
        message,
        hint: Some(hint),
    };
    if let Some(at) = &args.at {
        groups.retain(|label, _| label == at);
    }
    let list = labels.join("; ");
    match (groups.pop_first(), groups.is_empty()) {
        (Some((label, setting)), true) => Ok(setting.costs(campaign, &label)),
        (Some(_), false) => Err(refuse(
            format!("{campaign} measured checkpoints of several settings"),
            format!("choose one by --at: {list}"),
        )),
        (None, _) if labels.is_empty() => Err(refuse(
            format!("{campaign} has no measured waiting time of a checkpoint"),
            "run a campaign with checkpointer = \"application\" and strategy = [\"sync\", \"thread\"] of a program that prints it, such as \
             kernel-stencil"
                .to_owned(),
        )),
        (None, _) => Err(refuse(
            format!("{campaign} measured no checkpoints at this setting"),
            format!("choose one by --at: {list}"),
        )),
    }
}

/// Returns the strategy of a point.
fn way_of(point: &Point) -> Option<Way> {
    Way::ALL
        .into_iter()
        .find(|way| way.word() == point.strategy.word())
}

/// Returns measurements grouped by the points' labels without the strategy.
fn groups(index: &Index) -> Result<BTreeMap<String, Setting>, Failure> {
    let mut stops = BTreeMap::new();
    let mut latencies = BTreeMap::new();
    let mut restarts = BTreeMap::new();
    for of in index.summaries()? {
        match of.quantity.as_str() {
            names::CKPT_STOP_S => stops.insert(of.point, of.summary),
            names::CKPT_LATENCY_S => latencies.insert(of.point, of.summary),
            names::RESTART_LATENCY_S => restarts.insert(of.point, of.summary),
            _ => None,
        };
    }
    let mut groups: BTreeMap<String, Setting> = BTreeMap::new();
    for of in index.points()? {
        let id = of.id.as_str();
        if let (Some(stop), Some(latency), Some(way)) =
            (stops.get(id), latencies.get(id), way_of(&of.point))
        {
            let label = format!("{} {}", of.point.label(), of.point.storage);
            let setting = groups.entry(label).or_default();
            if let Some(restart) = restarts.get(id) {
                setting.restarts_s += restart.mean * restart.n as f64;
                setting.restarts += restart.n;
            }
            let sum = setting.ways.entry(way).or_default();
            let weight = stop.n as f64;
            sum.stop_s += stop.mean * weight;
            sum.latency_s += latency.mean * weight;
            sum.runs += stop.n;
            let spread = stop
                .interval
                .map(|ends| (ends.high - ends.low) / 2.0 / stop.mean);
            sum.spread = spread.unwrap_or(0.0).max(sum.spread);
        }
    }
    Ok(groups)
}

impl Setting {
    fn costs(self, campaign: &Utf8Path, label: &str) -> MeasuredCosts {
        let counted = |n: usize, what| counted(u32::try_from(n).unwrap_or(u32::MAX), what);
        let runs = self.ways.values().map(|sum| sum.runs).sum();
        let mut source = format!(
            "waiting time and latency measured by {campaign}: means of {} of {label}",
            counted(runs, "run")
        );
        let restart_s = (self.restarts > 0).then(|| self.restarts_s / self.restarts as f64);
        if restart_s.is_some() {
            let restarts = counted(self.restarts, "restart");
            source.push_str(&format!("; time for restarts: mean of {restarts}"));
        }
        let ways = self.ways.into_iter();
        MeasuredCosts {
            costs: ways.map(|(way, sum)| sum.cost(way)).collect(),
            source,
            restart_s,
        }
    }
}

impl Sum {
    fn cost(&self, way: Way) -> KnownCost {
        let runs = self.runs as f64;
        let overhead_s = self.stop_s / runs;
        // the slowest process sets the overhead, but the first process sets the latency, which cannot be shorter
        let latency_s = (self.latency_s / runs).max(overhead_s);
        KnownCost {
            way,
            cost: CheckpointCost {
                overhead_s,
                latency_s,
            },
            // an interval that reaches 0 gives no bound
            spread: Some(self.spread).filter(|of| *of < 1.0).unwrap_or(0.0),
        }
    }
}
