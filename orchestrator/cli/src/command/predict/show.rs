//! Predictions as people read them: one table for each setting, and below it files, schedules, the runs behind the numbers, and warnings.

use super::output::{FurtherRuns, PredictOutput};
use crate::{display::duration, text::terminal_width};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Parameter, Tier};
use cvc_prediction::holdout::HeldOutForecast;
use cvc_prediction::predict::WITH_KNOWN_COVERAGE;
use cvc_prediction::predict::{
    CandidateAnswer, ExpectedRun, Forecast, ForecastLine, Forecasts, NextRun, Prediction,
    ScheduleBudget,
};
use cvc_show::{Blocks, Table};
use std::collections::BTreeMap;

/// What is shown without details.
const SHORT: [Quantity; 4] = [
    Quantity::File,
    Quantity::Stored,
    Quantity::Application,
    Quantity::Latency,
];
/// Number of columns shown without details.
const SHORT_COLUMNS: usize = 4;
/// Maximum number of labels shown for the runs behind a number; JSON has all of them.
const LABELS: usize = 12;

pub fn show(out: &mut Blocks, output: &PredictOutput<'_>, detail: bool) {
    match (output.trained_on.len(), output.held_out) {
        (0, _) => out.line("without observations: only what needs no run or was published"),
        (n, 0) => out.line(format!("trained on {}", observations(n))),
        (n, held_out) => out.line(format!(
            "trained on {}, {held_out} held out",
            observations(n)
        )),
    }
    for warning in &output.warnings {
        out.say(format!("warning: {warning}"));
    }
    for forecasts in &output.forecasts {
        out.gap();
        show_forecast(out, forecasts, &output.budget, detail);
    }
    for further in output.next.iter().flatten() {
        out.gap();
        show_next(out, further);
    }
    if !detail && !output.forecasts.is_empty() {
        out.heading("--detail shows the zones of an image, the files, every model and the runs behind each number");
    }
    if let Some(judged) = &output.judged {
        out.gap();
        show_judged(out, judged);
    }
}

/// Further runs that are shown; JSON has all.
const PROPOSED: usize = 5;

fn show_next(out: &mut Blocks, further: &FurtherRuns) {
    let Some(best) = further.runs.first() else {
        return out.line(format!(
            "{}: no other run would make these intervals narrower",
            further.label
        ));
    };
    let half = |run: &NextRun, quantity: Quantity| {
        run.half_width_pct
            .get(&quantity)
            .map_or_else(|| "-".to_owned(), |pct| format!("±{} %", number(*pct)))
    };
    let told = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    out.say(format!(
        "run next: {}, which makes the intervals for {} {:.0} % narrower",
        best.label, further.label, best.narrower_pct
    ));
    let header = [
        "one further run",
        "narrower",
        "file",
        "stored",
        "time",
        "it stores, MiB",
        "in, s",
    ];
    let mut rows = Table::plain(header).wrap(&header[1..]);
    for run in further.runs.iter().take(PROPOSED) {
        rows.row([
            run.label.clone(),
            format!("{:.0} %", run.narrower_pct),
            half(run, Quantity::File),
            half(run, Quantity::Stored),
            half(run, Quantity::Latency),
            told(run.stored_mib),
            told(run.latency_s),
        ]);
    }
    out.gap();
    out.table(rows);
}

fn observations(n: usize) -> String {
    if n == 1 {
        "1 observation".to_owned()
    } else {
        format!("{n} observations")
    }
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::NoRun => "no run",
        Tier::SmallRuns => "runs",
        Tier::Published => "published",
    }
}

/// Rounds to four significant digits, and at most two decimals.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

fn interval(estimate: &Estimate) -> String {
    estimate.interval.map_or_else(
        || "-".to_owned(),
        |i| format!("{} … {}", number(i.low), number(i.high)),
    )
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

fn show_forecast(out: &mut Blocks, forecasts: &Forecasts, budget: &ScheduleBudget, detail: bool) {
    let mapping = &forecasts.question.setting.mapping;
    let nodes = if mapping.nodes() == 1 {
        "1 node".to_owned()
    } else {
        format!("{} nodes", mapping.nodes())
    };
    let processes = if mapping.processes() == 1 {
        "1 process".to_owned()
    } else {
        format!("{} processes", mapping.processes())
    };
    out.line(format!("{}: {processes} on {nodes}", forecasts.label));
    let is_published =
        |p: &Prediction| p.model.tier == Tier::Published && p.estimate.interval.is_some();
    // files of the ranks alone, where nothing tells what is stored beside them
    let stores_more = forecasts.first(Quantity::Stored).is_some();
    let is_answer = |line: &&ForecastLine| {
        detail
            || SHORT.contains(&line.quantity)
            || line.quantity == Quantity::Ranks
                && !stores_more
                && line
                    .forecast
                    .prediction()
                    .is_some_and(Prediction::is_of_totals)
    };
    // what is missing for an answer is told with it
    let lacks = forecasts
        .lines
        .iter()
        .filter(is_answer)
        .any(|line| line.forecast.prediction().is_none());
    let is_shown =
        |line: &&ForecastLine| is_answer(line) || lacks && line.forecast.prediction().is_none();
    // 95 % is said of what the calibration page has, and of nothing else
    let is_calibrated = |line: &ForecastLine| match line.forecast.prediction() {
        Some(p) => {
            p.estimate.interval.is_none()
                || WITH_KNOWN_COVERAGE.contains(&line.quantity)
                    && !is_published(p)
                    && !p.is_of_totals()
        }
        None => true,
    };
    let said = if forecasts.lines.iter().filter(is_shown).all(is_calibrated) {
        "95 % interval"
    } else {
        "interval"
    };
    let header = ["quantity", "predicted", said, "tier", "model", "runs"];
    let mut rows =
        Table::plain(
            header
                .into_iter()
                .take(if detail { header.len() } else { SHORT_COLUMNS }),
        )
        .wrap(&["quantity"]);
    let room = terminal_width().map_or(usize::MAX, |w| {
        w.saturating_sub(BESIDE_MODEL).max(NARROWEST)
    });
    let mut notes = Notes::default();
    let mut refused: Vec<(String, &str)> = Vec::new();
    for line in forecasts.lines.iter().filter(is_shown) {
        match &line.forecast {
            Forecast::Predicted(p) => {
                let mut row = vec![
                    name(line),
                    number(p.estimate.value),
                    interval(&p.estimate),
                    tier(p.model.tier).to_owned(),
                ];
                if detail {
                    row.extend([hyphenated(p.model.id, room), notes.of(&p.training)]);
                }
                rows.row(row);
            }
            Forecast::NoPrediction(reason) => refused.push((name(line), reason)),
        }
    }
    if !rows.rows.is_empty() {
        out.gap();
        out.table(rows);
    }
    let bands = forecasts
        .lines
        .iter()
        .filter(is_shown)
        .filter_map(|l| l.forecast.prediction());
    if bands.clone().any(is_published) {
        out.line("intervals of published numbers are the range of the published runs, not calibrated at 95 %");
    }
    if bands.clone().any(Prediction::is_of_totals) {
        let text = "the observations have no zones of images: each number is a line through the observed totals; intervals, from four runs on, are those of the line, not calibrated";
        out.say(text);
    }
    if !detail && !forecasts.says_something_of_the_program() {
        return show_nothing(out, forecasts);
    }
    for (what, reason) in together_by_reason(refused) {
        out.say(format!("{what}: no prediction: {reason}"));
    }
    if !forecasts.says_something_of_the_program() {
        out.say(nothing_of(forecasts));
    }
    let observed: Vec<String> = forecasts
        .lines
        .iter()
        .filter(is_shown)
        .filter_map(|l| Some(format!("{} {}", name(l), number(l.observed?.0))))
        .collect();
    if !observed.is_empty() {
        out.say(format!("observed at this setting: {}", observed.join("; ")));
    }
    for (letter, labels) in notes.lines() {
        out.say(format!("({letter}) {labels}"));
    }
    if detail {
        show_files(out, forecasts);
    }
    show_schedules(out, forecasts);
    show_failures(out, forecasts, budget);
    if detail {
        show_detail(out, forecasts);
    }
    for warning in &forecasts.warnings {
        out.say(format!("warning: {warning}"));
    }
}

fn nothing_of(forecasts: &Forecasts) -> String {
    let setting = &forecasts.question.setting;
    format!(
        "nothing of {}.{} itself could be predicted (exit code 8)",
        setting.app, setting.class
    )
}

/// One sentence where there is nothing to predict from: the first reason is what the others follow from.
fn show_nothing(out: &mut Blocks, forecasts: &Forecasts) {
    let reason = forecasts
        .lines
        .iter()
        .find_map(|line| match &line.forecast {
            Forecast::NoPrediction(reason) => Some(reason.as_str()),
            Forecast::Predicted(_) => None,
        });
    let text = format!(
        "{}: {}",
        nothing_of(forecasts),
        reason.unwrap_or("no reason is known")
    );
    out.say(text);
    let observed: Vec<String> = forecasts
        .lines
        .iter()
        .filter_map(|l| Some(format!("{} {}", name(l), number(l.observed?.0))))
        .collect();
    if !observed.is_empty() {
        let text = format!("observed at this setting: {}", observed.join("; "));
        out.say(text);
    }
    if let Some(reason) = &forecasts.no_schedules {
        let text = format!("no number of checkpoints: {reason}");
        out.say(text);
    }
}

/// What has the same reason is said once.
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

/// Sets of runs, each with a letter.
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

/// Labels with the mappings of one program, class and library together: `npb-bt.A 1Nx1P, 1Nx4P mpich-ch3`.
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

/// Width that the other columns of the main table take.
const BESIDE_MODEL: usize = 66;
/// Minimum width of the model's column.
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
    let mut rows = Table::plain([
        "files of the ranks",
        "MiB each",
        "95 % interval",
        "processes on node",
        "",
    ]);
    for group in &forecasts.files {
        rows.row([
            group.count.to_string(),
            number(group.size.value),
            interval(&group.size),
            group.node_load.to_string(),
            if group.aggregator {
                "aggregators".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    out.gap();
    out.table(rows);
}

fn show_schedules(out: &mut Blocks, forecasts: &Forecasts) {
    if let Some(reason) = &forecasts.no_schedules {
        out.gap();
        out.say(format!("no number of checkpoints: {reason}"));
    }
    if forecasts.schedules.is_empty() {
        return;
    }
    // what belongs together stands below each other, and sources are notes: the table fits a terminal of 80 columns
    let header = [
        "rule",
        "every\n(start to start)",
        "check-\npoints",
        "time without\nfailures",
        "overhead",
    ];
    let percent = |part: f64| {
        if part < 10.0 {
            format!("{} %", number(100.0 * part))
        } else {
            format!("{:.0} times", part + 1.0)
        }
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let with_range = |value: Option<String>, range: Option<[String; 2]>| match range {
        Some([low, high]) => format!("{}\n{low} …\n{high}", or_none(value)),
        None => or_none(value),
    };
    let mut rows = Table::plain(header);
    for (note, s) in (1..).zip(&forecasts.schedules) {
        let every = s
            .interval_range_s
            .map(|range| [duration(range.low), duration(range.high)]);
        let overhead = s
            .overhead_range
            .map(|range| [percent(range.low), percent(range.high)]);
        rows.row([
            format!("{} [{note}]", s.rule),
            with_range(s.interval_s.map(duration), every),
            or_none(s.checkpoints.map(|count| count.to_string())),
            or_none(s.total_s.map(duration)),
            with_range(s.overhead.map(percent), overhead),
        ]);
    }
    out.gap();
    out.table(rows);
    for (note, s) in (1..).zip(&forecasts.schedules) {
        out.say(format!("[{note}] {}", s.source));
    }
}

/// What the run takes on average with failures, and what is lost to what: below the schedules, whose times are without any.
fn show_failures(out: &mut Blocks, forecasts: &Forecasts, budget: &ScheduleBudget) {
    let expected: Vec<(&str, &ExpectedRun)> = forecasts
        .schedules
        .iter()
        .filter_map(|s| Some((s.rule, s.with_failures.as_ref()?)))
        .collect();
    let nodes = forecasts.question.setting.mapping.nodes();
    let whose = match (budget.mtbf_s, budget.mtbf_node_s) {
        (Some(job_s), _) => format!(
            "{} between failures of the whole job, whatever its nodes (--mtbf)",
            long_duration(job_s)
        ),
        (None, Some(node_s)) if nodes > 1 => format!(
            "{} between failures of a node (--mtbf-node), which is {} between those of the job on {nodes} nodes",
            long_duration(node_s),
            long_duration(node_s / f64::from(nodes))
        ),
        (None, Some(node_s)) => format!(
            "{} between failures of a node (--mtbf-node), and so of the job on 1 node",
            long_duration(node_s)
        ),
        (None, None) => return,
    };
    if forecasts.schedules.is_empty() {
        return;
    }
    let mut text = format!("on average {whose}");
    if let Some((_, run)) = expected.last() {
        text += &format!(": {} during the run", failures(run.failures));
    }
    out.gap();
    out.say(text);
    if expected.is_empty() {
        return;
    }
    let mut rows = Table::plain([
        "with failures",
        "expected\ntotal time",
        "lost",
        "of it to\ncheckpoints",
        "rework",
        "restarts",
    ]);
    for (rule, run) in expected {
        let lost = run.checkpoints_s + run.rework_s + run.restarts_s;
        rows.row([
            rule.to_owned(),
            duration(run.total_s),
            format!("{:.1} %", 100.0 * lost / run.total_s),
            duration(run.checkpoints_s),
            duration(run.rework_s),
            duration(run.restarts_s),
        ]);
    }
    out.gap();
    out.table(rows);
    let restart = match budget.restart_s {
        Some(restart_s) => format!("a restart takes {} (--restart-time)", duration(restart_s)),
        None => "a restart is assumed to take as long as a checkpoint (--restart-time)".to_owned(),
    };
    out.say(format!(
                "expected time: J. T. Daly 2006, failures at random, also during checkpoints and restarts; {restart}"
            ));
}

/// A number of failures on average.
fn failures(count: f64) -> String {
    if (count - 1.0).abs() < 0.005 {
        "1 failure".to_owned()
    } else if count < 0.01 {
        format!("{count:.1e} failures")
    } else {
        format!("{} failures", number(count))
    }
}

/// A duration that may be years.
fn long_duration(seconds: f64) -> String {
    const DAY_S: f64 = 86_400.0;
    const YEAR_S: f64 = 365.25 * DAY_S;
    match seconds {
        s if s >= 2.0 * YEAR_S => format!("{:.1} years", s / YEAR_S),
        s if s >= 3.0 * DAY_S => format!("{:.1} days", s / DAY_S),
        s => duration(s),
    }
}

/// Every model that was tried for each quantity, by tier.
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
            "parameters, or why not",
        ])
        .wrap(&["parameters, or why not"]);
        let mut ordered: Vec<&CandidateAnswer> = p.candidates.iter().collect();
        ordered.sort_by_key(|c| (c.model.tier, !c.chosen));
        for c in ordered {
            rows.row([
                format!("{}{}", if c.chosen { "> " } else { "  " }, c.model.id),
                tier(c.model.tier).to_owned(),
                c.estimate
                    .map_or_else(|| "-".to_owned(), |e| number(e.value)),
                c.estimate.as_ref().map_or_else(|| "-".to_owned(), interval),
                c.leave_one_out_pct
                    .map_or_else(|| "-".to_owned(), |e| format!("{e:.2} %")),
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

/// Four significant digits.
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

/// Compares predictions with measurements: for each quantity the count, the errors, and how often the interval covers the measured value.
fn show_judged(out: &mut Blocks, judged: &[HeldOutForecast]) {
    if judged.is_empty() {
        return out.line("nothing was held out: --train selects the observations to train on, and the others are predicted");
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
