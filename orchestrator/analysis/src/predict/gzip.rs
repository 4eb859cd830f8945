//! What gzip makes of images, and how long it takes, from the gzip runs of the same program.

use super::{
    compose::sum,
    forecast::{Forecasts, Prediction},
    observation::Observation,
    predictor::{Answered, Predictor},
    question::Question,
};
use cvc_core::{point::Compression, quantity::Quantity};
use cvc_model::{Estimate, ModelInfo, Tier, stats};
use std::collections::{BTreeMap, BTreeSet};

/// What a file is made of.
const ZONES: [Quantity; 4] = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem, Quantity::Headers];

const BY_ZONE: ModelInfo = ModelInfo {
    id: "gzip-ratio-by-zone",
    title: "zones, each by its ratio at the nearest observed setting",
    formula: "Σ zone · (zone in file / zone)",
    source: "gzip runs of the program",
    tier: Tier::SmallRuns,
    parameters: 4,
};

const WHOLE: ModelInfo = ModelInfo {
    id: "nearest-gzip-ratio",
    title: "ratio of file to image at the nearest observed setting",
    formula: "image · (file / image)",
    source: "gzip runs of the program",
    tier: Tier::SmallRuns,
    parameters: 1,
};

const TIME: ModelInfo = ModelInfo {
    id: "gzip-rate",
    title: "uncompressed MiB by the rate of gzip on the cores in use",
    formula: "load · image / (rate · min(load, cores))",
    source: "gzip runs of the program; compression takes a core for each process",
    tier: Tier::SmallRuns,
    parameters: 1,
};

/// Predicts what was measured at `at` from the run `from`.
type Law = fn(from: &Observation, at: &Observation) -> Option<f64>;

fn image_mib(o: &Observation) -> Option<f64> {
    o.value(Quantity::Image).filter(|mib| *mib > 0.0)
}

fn ratio(o: &Observation) -> Option<f64> {
    Some(o.value(Quantity::File)? / image_mib(o)?)
}

fn by_whole(from: &Observation, at: &Observation) -> Option<f64> {
    Some(ratio(from)? * image_mib(at)?)
}

fn by_zone(from: &Observation, at: &Observation) -> Option<f64> {
    ZONES.iter().map(|zone| Some(from.zone_ratios.get(zone)? * at.value(*zone)?)).sum()
}

/// MiB that the busiest core of a node compresses.
fn core_mib(load: u32, cores: u32, image_mib: f64) -> f64 {
    f64::from(load) * image_mib / f64::from(load.min(cores).max(1))
}

/// The same of a run.
fn core_mib_of(o: &Observation) -> Option<f64> {
    Some(core_mib(o.load()?, o.cores?, image_mib(o)?))
}

fn by_rate(from: &Observation, at: &Observation) -> Option<f64> {
    Some(from.value(Quantity::Latency)? / core_mib_of(from)? * core_mib_of(at)?)
}

fn processes(o: &Observation) -> u32 {
    o.setting.mapping.processes()
}

/// The run whose process count is nearest, by its ratio; one of the same class before one of another.
fn nearest<'o>(runs: impl Iterator<Item = &'o Observation>, class: &str, count: u32) -> Option<&'o Observation> {
    let distance = |o: &Observation| (o.setting.class != class, (f64::from(processes(o)) / f64::from(count)).ln().abs());
    runs.min_by(|a, b| {
        let (a, b) = (distance(a), distance(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

/// Half of the interval of a law, as a part of the predicted number: each process count of the class is predicted from the nearest of the
/// others, and the errors, one for each count, are of mean 0, so that half is t(counts) · √(mean of squares). `None` with fewer than two counts.
fn left_out(runs: &[&Observation], class: &str, law: Law, measured: Quantity) -> Option<(f64, usize)> {
    let of_class: Vec<&Observation> = runs.iter().copied().filter(|o| o.setting.class == class).collect();
    let mut of_counts: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for at in &of_class {
        let from = nearest(of_class.iter().copied().filter(|o| processes(o) != processes(at)), class, processes(at))?;
        let predicted = law(from, at).filter(|p| *p > 0.0)?;
        of_counts.entry(processes(at)).or_default().push(at.value(measured)? / predicted - 1.0);
    }
    let squares: Vec<f64> = of_counts.values().filter_map(|e| stats::mean(&e.iter().map(|e| e * e).collect::<Vec<_>>())).collect();
    (squares.len() >= 2).then_some(())?;
    Some((stats::t_quantile(squares.len() as f64) * stats::mean(&squares)?.sqrt(), squares.len()))
}

/// Adds the error of a law to what follows from the sizes, and says where it is from.
fn with_error(estimate: Estimate, error: Option<(f64, usize)>, what: &str, class: &str) -> (Estimate, String, Option<String>) {
    match error {
        Some((half, counts)) => {
            let estimate = estimate.plus(Estimate::plus_minus(0.0, half * estimate.value)).not_negative();
            let said =
                format!("; its interval allows for {:.1} %, as {counts} left-out process counts of class {class} need it", 100.0 * half);
            (estimate, said, None)
        }
        None => {
            let warning =
                format!("gzip: the {what} has no interval: that takes gzip runs of class {class} with two process counts or more");
            (Estimate::bare(estimate.value), String::new(), Some(warning))
        }
    }
}

impl Predictor<'_> {
    /// Gzip runs of the program with the library that `hold`.
    fn gzip_runs(&self, question: &Question, hold: impl Fn(&Observation) -> bool) -> Vec<&Observation> {
        let library = self.library(question);
        let ours = |o: &&Observation| o.setting.compression == Compression::Gzip && o.setting.app == question.setting.app && library(o);
        self.training.items().iter().filter(ours).filter(|o| hold(o)).collect()
    }

    /// The file of a rank with gzip. `zones` are those of [`ZONES`] that are predicted.
    pub(super) fn gzip_file(&self, question: &Question, image: &Prediction, zones: &[(Quantity, &Prediction)]) -> Answered {
        let (class, count) = (question.setting.class.as_str(), question.setting.mapping.processes());
        let runs = self.gzip_runs(question, |o| ratio(o).is_some());
        let Some(from) = nearest(runs.iter().copied(), class, count) else {
            return Answered::none(format!(
                "no run of {} with gzip was observed: run one to predict sizes with gzip",
                question.setting.app
            ));
        };
        let of_zones: Option<Vec<(Quantity, f64, &Prediction)>> =
            ZONES.iter().map(|zone| Some((*zone, *from.zone_ratios.get(zone)?, zones.iter().find(|(of, _)| of == zone)?.1))).collect();
        let of_zones = of_zones.filter(|_| runs.iter().all(|o| by_zone(o, o).is_some()));
        let (model, law, size, reason): (_, Law, _, _) = match of_zones {
            Some(zones) => {
                let parts = zones.iter().map(|(_, ratio, zone)| zone.estimate.times(*ratio)).fold(Estimate::exact(0.0), Estimate::plus);
                // the image may be less certain than its parts seem to be
                let as_image = image.estimate.times(parts.value / image.estimate.value.max(f64::MIN_POSITIVE));
                let is_wider = as_image.half_width().is_none_or(|image| parts.half_width().is_some_and(|parts| image > parts));
                let size = if is_wider { as_image } else { parts };
                let ratios: Vec<String> = zones.iter().map(|(zone, ratio, _)| format!("{} {ratio:.3}", zone.title())).collect();
                (BY_ZONE, by_zone, size, format!("ratios at {}: {}", from.label, ratios.join(", ")))
            }
            None => {
                let factor = ratio(from).unwrap_or(1.0);
                (WHOLE, by_whole, image.estimate.times(factor), format!("file/image = {factor:.3} at {}", from.label))
            }
        };
        let error = left_out(&runs, class, law, Quantity::File);
        let (estimate, said, warning) = with_error(size, error, "size", class);
        let mut prediction = sum(model, estimate, &[image]);
        prediction.reason = reason + &said;
        prediction.training = vec![from.label.clone()];
        Answered::with(prediction, warning.into_iter().collect())
    }

    /// The time of a checkpoint with gzip: that of the node whose cores have most to compress.
    pub(super) fn gzip_time(&self, question: &Question, forecasts: &Forecasts) -> Answered {
        let (class, count) = (question.setting.class.as_str(), question.setting.mapping.processes());
        let runs = self.gzip_runs(question, |o| core_mib_of(o).is_some() && o.value(Quantity::Latency).is_some_and(|s| s > 0.0));
        let Some(from) = nearest(runs.iter().copied(), class, count) else {
            return Answered::none(format!(
                "no time of a checkpoint of {} with gzip on a known number of cores was observed: run one to predict times with gzip",
                question.setting.app
            ));
        };
        let cores: BTreeSet<Option<u32>> = runs.iter().map(|o| o.cores).collect();
        let (Some(Some(cores)), 1) = (cores.first().copied(), cores.len()) else {
            return Answered::none("the gzip runs are of nodes with different numbers of cores");
        };
        let (Some(seconds), Some(mib)) = (from.value(Quantity::Latency), core_mib_of(from)) else {
            return Answered::none("the gzip runs tell no rate");
        };
        let most = question.setting.mapping.node_loads().max().unwrap_or(1);
        let slowest =
            forecasts.of(Quantity::Image).filter_map(|line| core_mib_of_line(line, most, cores)).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, factor, image)) = slowest else { return Answered::none("the images are unknown") };
        let error = left_out(&runs, class, by_rate, Quantity::Latency);
        let (estimate, said, warning) = with_error(image.estimate.times(factor * seconds / mib), error, "time", class);
        let mut prediction = sum(TIME, estimate, &[image]);
        prediction.reason = format!("{:.1} MiB/s on each of {cores} cores at most, at {}{said}", mib / seconds, from.label);
        prediction.training = vec![from.label.clone()];
        Answered::with(prediction, warning.into_iter().collect())
    }
}

/// What a core of a node with this image compresses, MiB; that as a multiple of the image; and the image. `most` is the load where only one is asked for.
fn core_mib_of_line(line: &super::forecast::ForecastLine, most: u32, cores: u32) -> Option<(f64, f64, &Prediction)> {
    let image = line.forecast.prediction()?;
    let factor = core_mib(line.node_load.unwrap_or(most), cores, 1.0);
    Some((factor * image.estimate.value, factor, image))
}
