//! What gzip or pigz makes of images, and how long it takes, from the runs of the same program with it.

use super::compose::Part;
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

/// What a file is made of.
const ZONES: [Quantity; 4] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
];

/// The models of a program that compresses: what it makes of images, and how long it takes.
struct Models {
    /// The laws of a file, that of the fewest parameters first: where two of them err alike, it is taken.
    of_files: [(ModelInfo, Law); 3],
    /// The laws of a time, in the same order.
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

/// The models of each program that images are piped through.
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

/// A law of a file or a time, as it was fitted: a constant, and a multiple of each of some quantities of the setting.
struct Fitted {
    constant: f64,
    multiples: Vec<(Quantity, f64)>,
    /// The runs that it is from.
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

/// Fits a law to runs, for a class and a number of processes; `None` where they do not tell.
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

/// A line through the runs of the class that are nearest, to either side or two to one side. What is compressed to a constant, and what
/// falls with the processes, give one, whatever their ratios are.
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
    // images that differ by less than this say nothing of a slope
    let tells = (x.1 - x.0).abs() > 0.05 * x.0 && (0.0..=1.0).contains(&slope);
    let from = vec![first.label.clone(), second.label.clone()];
    tells.then(|| Fitted {
        constant: y.0 - slope * x.0,
        multiples: vec![(Quantity::Image, slope)],
        from,
    })
}

/// MiB that the busiest core of a node compresses.
fn core_mib(compression: Compression, load: u32, cores: u32, image_mib: f64) -> f64 {
    f64::from(load) * image_mib / f64::from(compression.busy_cores(load, cores).max(1))
}

/// The same of a run.
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

/// The run whose process count is nearest, by its ratio; one of the same class before one of another.
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

/// Relative errors of runs that were left out.
struct LeftOut {
    classes: BTreeSet<String>,
    settings: usize,
    mean_square: f64,
}

impl LeftOut {
    /// Predicts each process count of each class by `predicted(the other runs, the run)`, where others of the class are among them. `None`
    /// where there are fewer than two, or where one of them cannot be predicted.
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

    /// Half of the interval, as a part of the predicted number: t(settings) · √(mean of squares), as the errors are of mean 0.
    fn half(&self) -> f64 {
        stats::t_quantile(self.settings as f64) * self.mean_square.sqrt()
    }
}

/// The law of the size of a file that errs least where runs are left out; by the whole's ratio where none can be.
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

/// How fast a node's cores compress.
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

/// The line through all runs with the least squares of relative errors.
fn by_start_and_rate(runs: &[&Observation], _: &str, _: u32) -> Option<Speed> {
    // y = a + b x, divided by y: 1 = a u + b v
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for run in runs {
        let (x, y) = (core_mib_of(run)?, run.value(Quantity::Latency)?);
        let (u, v) = (1.0 / y, x / y);
        (uu, uv, vv, u1, v1) = (uu + u * u, uv + u * v, vv + v * v, u1 + u, v1 + v);
    }
    let det = uu * vv - uv * uv;
    // runs of one size, or nearly, say nothing of a start
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

/// The law of a time that errs least where runs are left out.
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

/// The law that errs least; of equals, the first.
fn least<T>(
    laws: impl Iterator<Item = (ModelInfo, T, Option<LeftOut>)>,
) -> Option<(ModelInfo, T, Option<LeftOut>)> {
    // errors of less than a thousandth are alike
    let square = |of: &Option<LeftOut>| {
        of.as_ref()
            .map_or(f64::INFINITY, |of| of.mean_square.max(1e-6))
    };
    laws.min_by(|a, b| square(&a.2).total_cmp(&square(&b.2)))
}

/// Adds the error of a law to what follows from the sizes, and says where it is from.
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
                "; its interval allows for {:.1} %, as {} runs that were left out in turn need it",
                100.0 * half,
                left_out.settings
            );
            (estimate, said, None)
        }
        None => {
            let warning = format!(
                "{program}: the {what} has no interval: that takes {program} runs of class {class} with two process counts or more"
            );
            (Estimate::bare(estimate.value), String::new(), Some(warning))
        }
    }
}

impl Predictor<'_> {
    /// Runs of the program with the library and with the question's compression that `hold`.
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

    /// The file of a rank that is compressed. `zones` are those of the image.
    pub(super) fn compressed_file(
        &self,
        question: &Question,
        image: &Prediction,
        zones: &[Part],
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
        // the image may be less certain than its parts seem to be
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

    /// The time of a checkpoint that is compressed: that of the node whose cores have most to compress.
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

/// What a core of a node with this image compresses, MiB; that as a multiple of the image; and the image. `most` is the load where only one is asked for.
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
