//! Size and time of compression by gzip or pigz, predicted from runs of the same program with compression.

use super::compose::ImagePart;
use crate::predict::{
    forecast::{Answered, ForecastLine, Forecasts, Prediction},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Tier, stats};
use std::collections::{BTreeMap, BTreeSet};

/// The zones of an image whose compression ratios are known.
const ZONES: [Quantity; 4] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
];

/// The models for a compression program: the size of compressed files, and the time.
struct Models {
    /// Laws of the file size, the law with the fewest parameters first. Among laws with equal errors, the first is used.
    of_files: [(ModelInfo, Law); 3],
    /// Laws of the time, the law with the fewest parameters first.
    of_times: [(ModelInfo, SpeedLaw); 2],
}

macro_rules! models {
    ($name:literal, $cores:literal, $load:literal) => {
        Models {
            of_files: [
                (
                    ModelInfo {
                        id: concat!("nearest-", $name, "-ratio"),
                        title: "ratio of file to image at the nearest observed setting",
                        formula: "image · (file / image)",
                        source: concat!($name, " runs of the program"),
                        tier: Tier::SmallRuns,
                        parameters: 1,
                    },
                    by_whole,
                ),
                (
                    ModelInfo {
                        id: concat!($name, "-line"),
                        title: "line of file over image through the two nearest settings",
                        formula: "a + b · image",
                        source: concat!($name, " runs of the program"),
                        tier: Tier::SmallRuns,
                        parameters: 2,
                    },
                    by_line,
                ),
                (
                    ModelInfo {
                        id: concat!($name, "-ratio-by-zone"),
                        title: "zones, each by its ratio at the nearest observed setting",
                        formula: "Σ zone · (zone in file / zone)",
                        source: concat!($name, " runs of the program"),
                        tier: Tier::SmallRuns,
                        parameters: 4,
                    },
                    by_zone,
                ),
            ],
            of_times: [
                (
                    ModelInfo {
                        id: concat!($name, "-rate"),
                        title: concat!(
                            "uncompressed MiB by the rate of ",
                            $name,
                            " on the cores in use"
                        ),
                        formula: concat!("load · image / (rate · ", $cores, ")"),
                        source: concat!($name, " runs of the program; ", $load),
                        tier: Tier::SmallRuns,
                        parameters: 1,
                    },
                    by_rate,
                ),
                (
                    ModelInfo {
                        id: concat!($name, "-start-rate"),
                        title: concat!(
                            "a start, and uncompressed MiB by the rate of ",
                            $name,
                            " on the cores in use"
                        ),
                        formula: concat!("a + load · image / (rate · ", $cores, ")"),
                        source: concat!($name, " runs of the program; ", $load),
                        tier: Tier::SmallRuns,
                        parameters: 2,
                    },
                    by_start_and_rate,
                ),
            ],
        }
    };
}

/// The models for each compression program.
static MODELS: [(Compression, Models); 2] = [
    (
        Compression::Gzip,
        models!(
            "gzip",
            "min(load, cores)",
            "compression takes a core for each process"
        ),
    ),
    (
        Compression::Pigz,
        models!("pigz", "cores", "compression takes all cores of the node"),
    ),
];

fn models(compression: Compression) -> Option<&'static Models> {
    let of = MODELS.iter().find(|(of, _)| *of == compression);
    of.map(|(_, models)| models)
}

/// A fitted law of a file size or a time: a constant, plus multiples of some quantities of the setting.
struct Fitted {
    constant: f64,
    multiples: Vec<(Quantity, f64)>,
    /// Labels of the runs that it was fitted to.
    from: Vec<String>,
}

impl Fitted {
    fn at(&self, o: &Observation) -> Option<f64> {
        let parts: Option<f64> = self
            .multiples
            .iter()
            .map(|(of, times)| Some(times * o.value(*of)?))
            .sum();
        Some(self.constant + parts?)
    }
}

/// Fits a law to runs for a class and a number of processes; returns `None` if the runs do not determine it.
type Law = fn(runs: &[&Observation], class: &str, count: u32) -> Option<Fitted>;

fn image_mib(o: &Observation) -> Option<f64> {
    o.value(Quantity::Image).filter(|mib| *mib > 0.0)
}

fn ratio(o: &Observation) -> Option<f64> {
    Some(o.value(Quantity::File)? / image_mib(o)?)
}

fn by_whole(runs: &[&Observation], class: &str, count: u32) -> Option<Fitted> {
    let from = nearest(runs.iter().copied(), class, count)?;
    Some(Fitted {
        constant: 0.0,
        multiples: vec![(Quantity::Image, ratio(from)?)],
        from: vec![from.label.clone()],
    })
}

fn by_zone(runs: &[&Observation], class: &str, count: u32) -> Option<Fitted> {
    let from = nearest(runs.iter().copied(), class, count)?;
    let multiples = ZONES
        .iter()
        .map(|zone| Some((*zone, *from.zone_ratios.get(zone)?)))
        .collect::<Option<Vec<_>>>()?;
    Some(Fitted {
        constant: 0.0,
        multiples,
        from: vec![from.label.clone()],
    })
}

/// Returns a line through two runs of the class, nearest to `count`: one with fewer and one with more processes, or else two on the same side. Such
/// a line fits both data that compress to a constant size and data that shrink with the number of processes.
fn by_line(runs: &[&Observation], class: &str, count: u32) -> Option<Fitted> {
    let of_class = || runs.iter().copied().filter(|o| o.setting.class == class);
    let first = nearest(of_class(), class, count)?;
    let beyond = |o: &&Observation| (processes(o) < count) != (processes(first) < count);
    let other = |o: &&Observation| processes(o) != processes(first);
    let second = nearest(of_class().filter(other).filter(beyond), class, count)
        .or_else(|| nearest(of_class().filter(other), class, count))?;
    let (x, y) = (
        (image_mib(first)?, image_mib(second)?),
        (first.value(Quantity::File)?, second.value(Quantity::File)?),
    );
    let slope = (y.1 - y.0) / (x.1 - x.0);
    // images of more similar sizes do not determine a slope
    let tells = (x.1 - x.0).abs() > 0.05 * x.0 && (0.0..=1.0).contains(&slope);
    let from = vec![first.label.clone(), second.label.clone()];
    tells.then(|| Fitted {
        constant: y.0 - slope * x.0,
        multiples: vec![(Quantity::Image, slope)],
        from,
    })
}

/// Returns the MiB that the busiest core of a node compresses.
fn core_mib(compression: Compression, load: u32, cores: u32, image_mib: f64) -> f64 {
    f64::from(load) * image_mib / f64::from(compression.busy_cores(load, cores).max(1))
}

/// Returns the MiB that the busiest core of a node compresses in a run.
fn core_mib_of(o: &Observation) -> Option<f64> {
    Some(core_mib(
        o.setting.compression,
        o.load()?,
        o.cores?,
        image_mib(o)?,
    ))
}

fn processes(o: &Observation) -> u32 {
    o.setting.mapping.processes()
}

/// Returns the run with the nearest number of processes, by ratio. Runs of the same class are preferred.
fn nearest<'o>(
    runs: impl Iterator<Item = &'o Observation>,
    class: &str,
    count: u32,
) -> Option<&'o Observation> {
    let distance = |o: &Observation| {
        (
            o.setting.class != class,
            (f64::from(processes(o)) / f64::from(count)).ln().abs(),
        )
    };
    runs.min_by(|a, b| {
        let (a, b) = (distance(a), distance(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

/// Relative errors of predictions for runs that were left out.
struct LeftOut {
    classes: BTreeSet<String>,
    settings: usize,
    mean_square: f64,
}

impl LeftOut {
    /// Leaves out the runs of each class on each number of processes, and predicts them by `predicted(the other runs, the run)`. Runs are not left
    /// out if no others of their class remain. Returns `None` if fewer than two settings could be left out, or if one of them cannot be predicted.
    fn of(
        runs: &[&Observation],
        measured: Quantity,
        predicted: impl Fn(&[&Observation], &Observation) -> Option<f64>,
    ) -> Option<Self> {
        let mut squares: BTreeMap<(&str, u32), Vec<f64>> = BTreeMap::new();
        for at in runs {
            let is_of_class = |o: &Observation| o.setting.class == at.setting.class;
            let others: Vec<&Observation> = runs
                .iter()
                .copied()
                .filter(|o| !is_of_class(o) || processes(o) != processes(at))
                .collect();
            if !others.iter().any(|o| is_of_class(o)) {
                continue;
            }
            let error = at.value(measured)? / predicted(&others, at).filter(|p| *p > 0.0)? - 1.0;
            squares
                .entry((at.setting.class.as_str(), processes(at)))
                .or_default()
                .push(error * error);
        }
        let means: Vec<f64> = squares.values().filter_map(|of| stats::mean(of)).collect();
        let classes = squares.keys().map(|of| of.0.to_owned()).collect();
        (means.len() >= 2).then_some(Self {
            classes,
            settings: means.len(),
            mean_square: stats::mean(&means)?,
        })
    }

    /// Returns the half-width of the interval relative to the prediction: t(settings) · √(mean of squares), because the errors have a mean of 0.
    fn half(&self) -> f64 {
        stats::t_quantile(self.settings as f64) * self.mean_square.sqrt()
    }
}

/// Returns the law of the file size with the smallest error for left-out runs. If no run can be left out, returns the first law that the runs
/// determine.
fn law_of_files(
    models: &Models,
    runs: &[&Observation],
    class: &str,
    count: u32,
) -> Option<(ModelInfo, Fitted, Option<LeftOut>)> {
    least(models.of_files.iter().cloned().filter_map(|(model, law)| {
        let predicted = |others: &[&Observation], at: &Observation| {
            law(others, &at.setting.class, processes(at))?.at(at)
        };
        Some((
            model,
            law(runs, class, count)?,
            LeftOut::of(runs, Quantity::File, predicted),
        ))
    }))
}

/// Speed of compression on a node's cores.
struct Speed {
    start_s: f64,
    mib_per_s: f64,
    from: Vec<String>,
}

impl Speed {
    fn seconds(&self, core_mib: f64) -> f64 {
        self.start_s + core_mib / self.mib_per_s
    }
}

type SpeedLaw = fn(runs: &[&Observation], class: &str, count: u32) -> Option<Speed>;

fn by_rate(runs: &[&Observation], class: &str, count: u32) -> Option<Speed> {
    let from = nearest(runs.iter().copied(), class, count)?;
    let mib_per_s = core_mib_of(from)? / from.value(Quantity::Latency)?;
    Some(Speed {
        start_s: 0.0,
        mib_per_s,
        from: vec![from.label.clone()],
    })
}

/// Returns the line through all runs that minimises the squares of relative errors.
fn by_start_and_rate(runs: &[&Observation], _: &str, _: u32) -> Option<Speed> {
    // y = a + b x, divided by y: 1 = a u + b v
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for run in runs {
        let (x, y) = (core_mib_of(run)?, run.value(Quantity::Latency)?);
        let (u, v) = (1.0 / y, x / y);
        (uu, uv, vv, u1, v1) = (uu + u * u, uv + u * v, vv + v * v, u1 + u, v1 + v);
    }
    let det = uu * vv - uv * uv;
    // runs of about the same size do not determine the constant part
    if det <= 1e-3 * uu * vv {
        return None;
    }
    let (start_s, s_per_mib) = ((u1 * vv - v1 * uv) / det, (v1 * uu - u1 * uv) / det);
    let from = runs.iter().map(|o| o.label.clone()).collect();
    (start_s > 0.0 && s_per_mib > 0.0).then(|| Speed {
        start_s,
        mib_per_s: 1.0 / s_per_mib,
        from,
    })
}

/// Returns the law of the time with the smallest error for left-out runs.
fn law_of_times(
    models: &Models,
    runs: &[&Observation],
    class: &str,
    count: u32,
) -> Option<(ModelInfo, Speed, Option<LeftOut>)> {
    least(models.of_times.iter().cloned().filter_map(|(model, law)| {
        let predicted = |others: &[&Observation], at: &Observation| {
            Some(law(others, &at.setting.class, processes(at))?.seconds(core_mib_of(at)?))
        };
        Some((
            model,
            law(runs, class, count)?,
            LeftOut::of(runs, Quantity::Latency, predicted),
        ))
    }))
}

/// Returns the law with the smallest error; among laws with equal errors, the first.
fn least<T>(
    laws: impl Iterator<Item = (ModelInfo, T, Option<LeftOut>)>,
) -> Option<(ModelInfo, T, Option<LeftOut>)> {
    // errors that differ by less than a thousandth count as equal
    let square = |of: &Option<LeftOut>| {
        of.as_ref()
            .map_or(f64::INFINITY, |of| of.mean_square.max(1e-6))
    };
    laws.min_by(|a, b| square(&a.2).total_cmp(&square(&b.2)))
}

/// Adds the error of a law to an estimate that follows from the sizes, and states how it was derived.
fn with_error(
    estimate: Estimate,
    error: Option<&LeftOut>,
    (program, what): (&str, &str),
    class: &str,
) -> (Estimate, String, Option<String>) {
    match error.filter(|of| of.classes.contains(class)) {
        Some(left_out) => {
            let half = left_out.half();
            let estimate = estimate
                .plus(Estimate::plus_minus(0.0, half * estimate.value))
                .not_negative();
            let said = format!(
                "; its interval allows for {:.1} %, the error of {} runs left out in turn",
                100.0 * half,
                left_out.settings
            );
            (estimate, said, None)
        }
        None => {
            let warning = format!(
                "{program}: the {what} has no interval: it needs {program} runs of class {class} with two or more process counts"
            );
            (Estimate::bare(estimate.value), String::new(), Some(warning))
        }
    }
}

impl Predictor<'_> {
    /// Returns the runs of the program with the question's library and compression for which `hold` is true.
    fn compressed_runs(
        &self,
        question: &Question,
        hold: impl Fn(&Observation) -> bool,
    ) -> Vec<&Observation> {
        let library = self.library(question);
        let ours = |o: &&Observation| {
            o.setting.compression == question.setting.compression
                && o.setting.app == question.setting.app
                && library(o)
        };
        self.training
            .items()
            .iter()
            .filter(ours)
            .filter(|o| hold(o))
            .collect()
    }

    /// Returns the compressed file of a rank. `zones` are the zones of its image.
    pub(super) fn compressed_file(
        &self,
        question: &Question,
        image: &Prediction,
        zones: &[ImagePart],
    ) -> Answered {
        let (class, count) = (
            question.setting.class.as_str(),
            question.setting.mapping.processes(),
        );
        let compression = question.setting.compression;
        let program = compression.program().unwrap_or("none");
        let runs = self.compressed_runs(question, |o| ratio(o).is_some());
        let Some((model, fitted, left_out)) =
            models(compression).and_then(|of| law_of_files(of, &runs, class, count))
        else {
            return Answered::none(format!(
                "no run of {} with {program} was observed: run one to predict sizes with {program}",
                question.setting.app
            ));
        };
        let estimate_of = |quantity: Quantity| match quantity {
            Quantity::Image => Some(image.estimate),
            _ => {
                let (_, zone) = zones.iter().find(|(of, _)| *of == quantity)?;
                zone.estimate().ok()
            }
        };
        let parts: Option<Vec<Estimate>> = fitted
            .multiples
            .iter()
            .map(|(of, times)| Some(estimate_of(*of)?.times(*times)))
            .collect();
        let Some(parts) = parts else {
            return Answered::none("a zone of the image is unknown");
        };
        let size = parts
            .into_iter()
            .fold(Estimate::exact(fitted.constant), Estimate::plus);
        // the interval of the image may be wider than those of its zones imply
        let as_image = image
            .estimate
            .times(size.value / image.estimate.value.max(f64::MIN_POSITIVE));
        let is_zones = fitted.multiples.len() > 1;
        let is_wider = as_image
            .half_width()
            .is_none_or(|image| size.half_width().is_some_and(|parts| image > parts));
        let size = if is_zones && is_wider { as_image } else { size };
        let multiples: Vec<String> = fitted
            .multiples
            .iter()
            .map(|(of, times)| format!("{times:.3} · {}", of.title()))
            .collect();
        let constant = if fitted.constant == 0.0 {
            String::new()
        } else {
            format!("{:.1} MiB + ", fitted.constant)
        };
        let (estimate, said, warning) =
            with_error(size, left_out.as_ref(), (program, "size"), class);
        let mut prediction = Prediction::made_of(model, estimate, &[image]);
        prediction.reason = format!(
            "{constant}{}, from {}{said}",
            multiples.join(" + "),
            fitted.from.join(" and ")
        );
        prediction.training = fitted.from;
        Answered::with(prediction, warning.into_iter().collect())
    }

    /// Returns the time of a compressed checkpoint: the time of the node whose busiest core compresses the most data.
    pub(crate) fn compressed_time(&self, question: &Question, forecasts: &Forecasts) -> Answered {
        let (class, count) = (
            question.setting.class.as_str(),
            question.setting.mapping.processes(),
        );
        let compression = question.setting.compression;
        let program = compression.program().unwrap_or("none");
        let runs = self.compressed_runs(question, |o| {
            core_mib_of(o).is_some() && o.value(Quantity::Latency).is_some_and(|s| s > 0.0)
        });
        let Some((model, speed, left_out)) =
            models(compression).and_then(|of| law_of_times(of, &runs, class, count))
        else {
            return Answered::none(format!(
                "no time of a checkpoint of {} with {program} on a known number of cores was observed: run one to predict times with {program}",
                question.setting.app
            ));
        };
        let cores: BTreeSet<Option<u32>> = runs.iter().map(|o| o.cores).collect();
        let (Some(Some(cores)), 1) = (cores.first().copied(), cores.len()) else {
            return Answered::none(format!(
                "the {program} runs are of nodes with different numbers of cores"
            ));
        };
        let most = question.setting.mapping.node_loads().max().unwrap_or(1);
        let slowest = forecasts
            .of(Quantity::Image)
            .filter_map(|line| core_mib_of_line(compression, line, most, cores))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, factor, image)) = slowest else {
            return Answered::none("the images are unknown");
        };
        let seconds = image
            .estimate
            .times(factor / speed.mib_per_s)
            .plus(Estimate::exact(speed.start_s));
        let (estimate, said, warning) =
            with_error(seconds, left_out.as_ref(), (program, "time"), class);
        let mut prediction = Prediction::made_of(model, estimate, &[image]);
        let start = if speed.start_s > 0.0 {
            format!("{:.1} s, and ", speed.start_s)
        } else {
            String::new()
        };
        let from = speed.from.join(", ");
        prediction.reason = format!(
            "{start}{:.1} MiB/s on each of {cores} cores at most, from {from}{said}",
            speed.mib_per_s
        );
        prediction.training = speed.from;
        Answered::with(prediction, warning.into_iter().collect())
    }
}

/// Returns the MiB that a core of the node with this image compresses, the ratio of these MiB to the image, and the predicted image. `most` is the
/// number of processes on the node, used if the line does not have this number.
fn core_mib_of_line(
    compression: Compression,
    line: &ForecastLine,
    most: u32,
    cores: u32,
) -> Option<(f64, f64, &Prediction)> {
    let image = line.forecast.prediction()?;
    let factor = core_mib(compression, line.node_load.unwrap_or(most), cores, 1.0);
    Some((factor * image.estimate.value, factor, image))
}
