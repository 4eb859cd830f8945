//! Predictions for people: one table for each setting, and below it files, schedules, the runs used, and warnings.

use super::{
    cost::{RuleCost, show_costs},
    output::{FurtherRuns, PredictOutput},
    spread::{number, show_spread},
    stand_in,
};
use crate::text::terminal_width;
use cvc_core::{quantity::Quantity, units::counted};
use cvc_model::{Estimate, Parameter, Tier};
use cvc_prediction::holdout::HeldOutForecast;
use cvc_prediction::predict::WITH_KNOWN_COVERAGE;
use cvc_prediction::predict::{
    CandidateAnswer, Forecast, ForecastLine, Forecasts, NextRun, Prediction, ScheduleBudget,
};
use cvc_show::{Blocks, Table, or_dash};
use std::collections::BTreeMap;

/// Quantities in the output without `--detail`.
const SHORT: [Quantity; 7] = [
    Quantity::File,
    Quantity::Stored,
    Quantity::Application,
    Quantity::OwnWrites,
    Quantity::OwnReads,
    Quantity::Latency,
    Quantity::RestartLatency,
];
/// Number of columns without `--detail`.
const SHORT_COLUMNS: usize = 4;
/// Maximum number of labels shown for the runs that a prediction uses; JSON has all.
const LABELS: usize = 12;

pub fn show(out: &mut Blocks, output: &PredictOutput<'_>, detail: bool) {
    match (output.trained_on.len(), output.held_out) {
        (0, _) => out.line("without observations: only results that need no run or were published"),
        (n, 0) => out.line(format!("trained on {}", counted(n, "observation"))),
        (n, held_out) => out.line(format!(
            "trained on {}, {held_out} held out",
            counted(n, "observation")
        )),
    }
    for warning in &output.warnings {
        out.say(format!("warning: {warning}"));
    }
    for (i, forecasts) in output.forecasts.iter().enumerate() {
        out.gap();
        let costs = output.costs.get(i).map_or(&[][..], Vec::as_slice);
        show_forecast(out, forecasts, &output.budget, costs, detail);
    }
    stand_in::show(out, &output.stand_ins);
    for further in output.next.iter().flatten() {
        out.gap();
        show_next(out, further);
    }
    if !detail && !output.forecasts.is_empty() {
        out.heading(
            "--detail shows image zones, files, all models and the runs behind each number",
        );
    }
    if let Some(judged) = &output.judged {
        out.gap();
        show_judged(out, judged);
    }
}

/// Maximum number of proposed runs shown; JSON has all.
const PROPOSED: usize = 5;

fn show_next(out: &mut Blocks, further: &FurtherRuns) {
    let Some(best) = further.runs.first() else {
        return out.line(format!(
            "{}: no further run would narrow these intervals",
            further.label
        ));
    };
    out.say(format!(
        "run next: {}, which makes the intervals for {} {:.0} % narrower",
        best.label, further.label, best.narrower_pct
    ));
    let half = |run: &NextRun, quantity: Quantity| {
        or_dash(run.half_width_pct.get(&quantity), |pct| {
            format!("±{} %", number(*pct))
        })
    };
    let rows = Table::of(
        further.runs.iter().take(PROPOSED),
        &[
            ("one further run", &|run| run.label.clone()),
            ("narrower", &|run| format!("{:.0} %", run.narrower_pct)),
            ("file", &|run| half(run, Quantity::File)),
            ("stored", &|run| half(run, Quantity::Stored)),
            ("time", &|run| half(run, Quantity::Latency)),
            ("it stores, MiB", &|run| or_dash(run.stored_mib, number)),
            ("in, s", &|run| or_dash(run.latency_s, number)),
        ],
    );
    out.gap();
    let wrapped = [
        "narrower",
        "file",
        "stored",
        "time",
        "it stores, MiB",
        "in, s",
    ];
    out.table(rows.wrap(&wrapped));
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::NoRun => "no run",
        Tier::SmallRuns => "runs",
        Tier::Published => "published",
    }
}

fn interval(estimate: &Estimate) -> String {
    or_dash(estimate.interval, |i| {
        format!("{} … {}", number(i.low), number(i.high))
    })
}

fn name(line: &ForecastLine) -> String {
    let title = line.quantity.title();
    let unit = if line.unit.is_empty() {
        String::new()
    } else {
        format!(", {}", line.unit)
    };
    let load = line
        .node_load
        .map(|l| format!(" ({l} on node)"))
        .unwrap_or_default();
    format!("{title}{load}{unit}")
}

/// The predicted lines that are shown for one setting.
struct ShownForecasts<'a> {
    lines: Vec<&'a ForecastLine>,
    detail: bool,
}

impl<'a> ShownForecasts<'a> {
    fn of(forecasts: &'a Forecasts, detail: bool) -> Self {
        // the size of the ranks' files is shown only if the size of all stored files is not predicted
        let stores_more = forecasts.first(Quantity::Stored).is_some();
        let is_answer = |line: &&ForecastLine| {
            let prediction = line.forecast.prediction();
            let is_of_ranks = line.quantity == Quantity::Ranks && !stores_more;
            detail
                || SHORT.contains(&line.quantity)
                || is_of_ranks && prediction.is_some_and(Prediction::is_of_totals)
        };
        let lines = || forecasts.lines.iter();
        let is_missing = |line: &&ForecastLine| line.forecast.prediction().is_none();
        // quantities without a prediction are shown only if an answer lacks its prediction
        let lacks = lines().filter(is_answer).any(|line| is_missing(&line));
        Self {
            lines: lines()
                .filter(|line| is_answer(line) || lacks && is_missing(line))
                .collect(),
            detail,
        }
    }

    fn predictions(&self) -> impl Iterator<Item = &'a Prediction> {
        self.lines.iter().filter_map(|l| l.forecast.prediction())
    }

    /// Returns the heading of the interval column. It contains 95 % only if all intervals are calibrated: not those of published models, of fits to
    /// totals, or of quantities outside [`WITH_KNOWN_COVERAGE`].
    fn interval_heading(&self) -> &'static str {
        let is_calibrated = |line: &&ForecastLine| {
            line.forecast.prediction().is_none_or(|p| {
                p.estimate.interval.is_none()
                    || WITH_KNOWN_COVERAGE.contains(&line.quantity)
                        && !is_published(p)
                        && !p.is_of_totals()
            })
        };
        match self.lines.iter().all(is_calibrated) {
            true => "95 % interval",
            false => "interval",
        }
    }

    /// Returns the table of predictions.
    fn table(&self, notes: &mut Notes<'a>) -> Table {
        let said = self.interval_heading();
        let header = ["quantity", "predicted", said, "tier", "model", "runs"];
        let columns = if self.detail {
            header.len()
        } else {
            SHORT_COLUMNS
        };
        let mut rows = Table::plain(header.into_iter().take(columns)).wrap(&["quantity"]);
        let room = terminal_width().map_or(usize::MAX, |w| {
            w.saturating_sub(BESIDE_MODEL).max(NARROWEST)
        });
        for line in &self.lines {
            let Some(p) = line.forecast.prediction() else {
                continue;
            };
            let mut row = vec![
                name(line),
                number(p.estimate.value),
                interval(&p.estimate),
                tier(p.model.tier).to_owned(),
            ];
            if self.detail {
                row.extend([hyphenated(p.model.id, room), notes.of(&p.training)]);
            }
            rows.row(row);
        }
        rows
    }

    fn refused(&self) -> Vec<(String, &'a str)> {
        let lines = self.lines.iter();
        let refused = lines.filter_map(|line| match &line.forecast {
            Forecast::NoPrediction(reason) => Some((name(line), reason.as_str())),
            Forecast::Predicted(_) => None,
        });
        refused.collect()
    }
}

fn is_published(p: &Prediction) -> bool {
    p.model.tier == Tier::Published && p.estimate.interval.is_some()
}

fn show_forecast(
    out: &mut Blocks,
    forecasts: &Forecasts,
    budget: &ScheduleBudget,
    costs: &[RuleCost],
    detail: bool,
) {
    let mapping = &forecasts.question.setting.mapping;
    let processes = counted(mapping.processes(), "process");
    let nodes = counted(mapping.nodes(), "node");
    out.line(format!("{}: {processes} on {nodes}", forecasts.label));
    let shown = ShownForecasts::of(forecasts, detail);
    let mut notes = Notes::default();
    let rows = shown.table(&mut notes);
    if !rows.rows.is_empty() {
        out.gap();
        out.table(rows);
    }
    if shown.predictions().any(is_published) {
        out.line("intervals of published numbers are the range of the published runs, not calibrated at 95 %");
    }
    if shown.predictions().any(Prediction::is_of_totals) {
        out.say("the observations have no image zones: each number is a linear fit of the observed totals; intervals (from four runs) are those of the fit, not calibrated");
    }
    let says_something = forecasts.says_something_of_the_program();
    if !detail && !says_something {
        return show_nothing(out, forecasts);
    }
    for (what, reason) in together_by_reason(shown.refused()) {
        out.say(format!("{what}: no prediction: {reason}"));
    }
    if !says_something {
        out.say(nothing_of(forecasts));
    }
    show_observed(out, shown.lines.into_iter());
    for (letter, labels) in notes.lines() {
        out.say(format!("({letter}) {labels}"));
    }
    if detail {
        show_files(out, forecasts);
    }
    if let Some(reason) = &forecasts.no_schedules {
        out.gap();
        out.say(format!("no number of checkpoints: {reason}"));
    }
    let restart_s = forecasts.restart_s();
    show_spread(
        out,
        &forecasts.schedules,
        mapping.nodes(),
        budget,
        restart_s,
    );
    show_costs(out, costs);
    if detail {
        show_detail(out, forecasts);
    }
    for warning in &forecasts.warnings {
        out.say(format!("warning: {warning}"));
    }
}

fn show_observed<'a>(out: &mut Blocks, lines: impl Iterator<Item = &'a ForecastLine>) {
    let observed = lines.filter_map(|l| Some(format!("{} {}", name(l), number(l.observed?.0))));
    let observed: Vec<String> = observed.collect();
    if !observed.is_empty() {
        out.say(format!("observed at this setting: {}", observed.join("; ")));
    }
}

fn nothing_of(forecasts: &Forecasts) -> String {
    let setting = &forecasts.question.setting;
    format!(
        "no quantity of {}.{} itself could be predicted (exit code 8)",
        setting.app, setting.class
    )
}

/// Prints only the first reason if there is no data to predict from, because all quantities then lack a prediction for the same cause.
fn show_nothing(out: &mut Blocks, forecasts: &Forecasts) {
    let mut lines = forecasts.lines.iter();
    let reason = lines.find_map(|line| match &line.forecast {
        Forecast::NoPrediction(reason) => Some(reason.as_str()),
        Forecast::Predicted(_) => None,
    });
    let reason = reason.unwrap_or("the reason is unknown");
    out.say(format!("{}: {reason}", nothing_of(forecasts)));
    show_observed(out, forecasts.lines.iter());
    if let Some(reason) = &forecasts.no_schedules {
        out.say(format!("no number of checkpoints: {reason}"));
    }
}

/// Groups quantities that have no prediction for the same reason.
fn together_by_reason(refused: Vec<(String, &str)>) -> Vec<(String, &str)> {
    let mut together: Vec<(String, &str)> = Vec::new();
    for (what, reason) in refused {
        match together.iter_mut().find(|(_, other)| *other == reason) {
            Some((all, _)) => *all += &format!("; {what}"),
            None => together.push((what, reason)),
        }
    }
    together
}

/// Sets of training runs, each printed once below the table and cited by a letter.
#[derive(Default)]
struct Notes<'a> {
    sets: Vec<&'a [String]>,
}

impl<'a> Notes<'a> {
    fn of(&mut self, training: &'a [String]) -> String {
        if training.is_empty() {
            return "-".to_owned();
        }
        let place = self
            .sets
            .iter()
            .position(|s| *s == training)
            .unwrap_or_else(|| {
                self.sets.push(training);
                self.sets.len() - 1
            });
        format!("({})", letter(place))
    }

    fn lines(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.sets.iter().enumerate().map(|(place, labels)| {
            let more = if labels.len() > LABELS {
                format!("; and {} more", labels.len() - LABELS)
            } else {
                String::new()
            };
            let count = if labels.len() == 1 {
                String::new()
            } else {
                format!("{}: ", labels.len())
            };
            (
                letter(place),
                format!(
                    "{count}{}{more}",
                    together(&labels[..labels.len().min(LABELS)])
                ),
            )
        })
    }
}

/// Shortens labels by grouping the mappings of one program, class and library: `npb-bt.A 1Nx1P, 1Nx4P mpich-ch3`.
fn together(labels: &[String]) -> String {
    let mut groups: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for label in labels {
        let mut words = label.splitn(3, ' ');
        let (program, mapping, library) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        match groups
            .iter_mut()
            .find(|(p, l, _)| (*p, *l) == (program, library))
        {
            Some((_, _, mappings)) => mappings.push(mapping),
            None => groups.push((program, library, vec![mapping])),
        }
    }
    groups
        .iter()
        .map(|(p, l, m)| format!("{p} {} {l}", m.join(", ")))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Width of all columns of the main table except the column of the model, characters.
const BESIDE_MODEL: usize = 66;
/// Minimum width of the model's column, characters.
const NARROWEST: usize = 14;

/// Breaks a name into lines of at most `room` characters, only after hyphens.
fn hyphenated(name: &str, room: usize) -> String {
    let mut lines = vec![String::new()];
    for part in name.split_inclusive('-') {
        match lines.last_mut() {
            Some(line)
                if line.is_empty() || line.chars().count() + part.chars().count() <= room =>
            {
                line.push_str(part)
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines.join("\n")
}

fn letter(place: usize) -> String {
    u8::try_from(place).ok().filter(|p| *p < 26).map_or_else(
        || (place + 1).to_string(),
        |p| char::from(b'a' + p).to_string(),
    )
}

fn show_files(out: &mut Blocks, forecasts: &Forecasts) {
    if forecasts.files.is_empty() {
        return;
    }
    let rows = Table::of(
        &forecasts.files,
        &[
            ("files of the ranks", &|f| f.count.to_string()),
            ("MiB each", &|f| number(f.size.value)),
            ("95 % interval", &|f| interval(&f.size)),
            ("processes on node", &|f| f.node_load.to_string()),
            ("", &|f| match f.aggregator {
                true => "aggregators".to_owned(),
                false => String::new(),
            }),
        ],
    );
    out.gap();
    out.table(rows);
}

/// Prints every model that was tried for each quantity, with its tier: the data that the model needs.
fn show_detail(out: &mut Blocks, forecasts: &Forecasts) {
    for line in &forecasts.lines {
        let p = match &line.forecast {
            Forecast::Predicted(p) => p,
            Forecast::NoPrediction(_) if line.refused.is_empty() => continue,
            Forecast::NoPrediction(_) => {
                out.heading(format!("{}: no model gives a number", name(line)));
                for why in &line.refused {
                    out.item(1, why);
                }
                continue;
            }
        };
        out.gap();
        out.say(format!("{}: {} ({})", name(line), p.model.title, p.reason));
        out.item(1, format!("{}; {}", p.model.formula, p.model.source));
        if p.candidates.is_empty() {
            continue;
        }
        let mut rows = Table::plain([
            "model",
            "tier",
            "predicted",
            "own interval",
            "left out",
            "parameters, or reason for none",
        ])
        .wrap(&["parameters, or reason for none"]);
        let mut ordered: Vec<&CandidateAnswer> = p.candidates.iter().collect();
        ordered.sort_by_key(|c| (c.model.tier, !c.chosen));
        for c in ordered {
            rows.row([
                format!("{}{}", if c.chosen { "> " } else { "  " }, c.model.id),
                tier(c.model.tier).to_owned(),
                or_dash(c.estimate, |e| number(e.value)),
                or_dash(c.estimate.as_ref(), interval),
                or_dash(c.leave_one_out_pct, |e| format!("{e:.2} %")),
                c.refused
                    .clone()
                    .unwrap_or_else(|| parameters(&c.parameters)),
            ]);
        }
        out.table(rows);
    }
}

fn parameters(all: &[Parameter]) -> String {
    let one = |p: &Parameter| {
        let error = p
            .standard_error
            .map(|e| format!(" ± {}", significant(e)))
            .unwrap_or_default();
        format!("{} = {}{error}", p.name, significant(p.value))
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Formats a number with four significant digits.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let exponent = value.abs().log10().floor() as i32;
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(3 - exponent).unwrap_or(0);
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
    }
}

/// Compares predictions with measurements: for each quantity the number of points, the errors, and how often the interval contains the measured
/// value.
fn show_judged(out: &mut Blocks, judged: &[HeldOutForecast]) {
    if judged.is_empty() {
        return out.line("no observations were held out: --train selects those to train on; the others are predicted");
    }
    let mut by: BTreeMap<Quantity, Vec<&HeldOutForecast>> = BTreeMap::new();
    for j in judged {
        by.entry(j.quantity).or_default().push(j);
    }
    out.line("predicted against measured, held-out observations only");
    let mut rows = Table::plain([
        "quantity",
        "n",
        "mean error",
        "largest",
        "at",
        "covered",
        "not predicted",
    ])
    .wrap(&["at"]);
    for (quantity, all) in by {
        let mut errors: Vec<(f64, &str)> = all
            .iter()
            .filter_map(|j| Some((j.error_pct?, j.label.as_str())))
            .collect();
        errors.sort_by(|a, b| b.0.total_cmp(&a.0));
        let covered: Vec<bool> = all.iter().filter_map(|j| j.covered).collect();
        let mean = errors.iter().map(|(e, _)| e).sum::<f64>() / errors.len().max(1) as f64;
        let percent = |e: f64| {
            if errors.is_empty() {
                "-".to_owned()
            } else {
                format!("{e:.2} %")
            }
        };
        rows.row([
            quantity.title().to_owned(),
            all.len().to_string(),
            percent(mean),
            percent(errors.first().map_or(0.0, |(e, _)| *e)),
            errors.first().map_or("-", |(_, label)| label).to_owned(),
            format!(
                "{} of {}",
                covered.iter().filter(|c| **c).count(),
                covered.len()
            ),
            all.iter()
                .filter(|j| j.forecast.prediction().is_none())
                .count()
                .to_string(),
        ]);
    }
    out.gap();
    out.table(rows);
}
