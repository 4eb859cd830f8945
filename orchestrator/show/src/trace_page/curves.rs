//! Plots over time: bandwidth and bursts.

use super::{
    figure::{FigureScale, TimeAxis, TraceFigure},
    text,
};
use cvc_trace::document::{BurstKind, ShownBurst, ShownRates, TraceDocument};
use std::fmt::Write as _;

/// Number of columns into which time is divided to draw bursts.
const BURST_COLUMNS: f64 = 4000.0;

const MIB: f64 = 1_048_576.0;

/// Height of the drawing of rates, units.
const RATE_UNITS: f64 = 1000.0;

/// Draws a curve of rates as the area below its steps; the rate is 0 where nothing moved.
fn area(rates: &ShownRates, highest: f64) -> String {
    let mut path = String::new();
    let height = |bytes: f64| (bytes / highest * RATE_UNITS).round().max(1.0);
    let mut before = 0.0;
    for (step, bytes) in rates.bytes.iter().chain([&0.0]).enumerate() {
        let now = if *bytes > 0.0 { height(*bytes) } else { 0.0 };
        if now == before {
            continue;
        }
        if before == 0.0 {
            let _ = write!(path, "M{step} {RATE_UNITS}");
        } else {
            let _ = write!(path, "H{step}");
        }
        let _ = write!(path, "V{}", RATE_UNITS - now);
        if now == 0.0 {
            path.push('z');
        }
        before = now;
    }
    path
}

pub(super) fn bandwidth(document: &TraceDocument, time: TimeAxis) -> Option<TraceFigure> {
    let of = |rates: &ShownRates| -> f64 { rates.bytes.iter().copied().fold(0.0, f64::max) };
    let (writes, reads) = (&document.write_rates, &document.read_rates);
    let rate = |rates: &ShownRates| of(rates) / rates.step_s / MIB;
    let (write_peak, read_peak) = (rate(writes), rate(reads));
    let peak = [write_peak, read_peak]
        .into_iter()
        .filter(|p| p.is_finite())
        .fold(0.0, f64::max);
    if peak <= 0.0 {
        return None;
    }
    let top = peak * 1.05;
    // the curves may have different steps: the drawing has the step of the writes, if there are any
    let step_s = if of(writes) > 0.0 {
        writes.step_s
    } else {
        reads.step_s
    };
    let mut figure = TraceFigure {
        title: "Bandwidth over time".into(),
        x: time.scale(),
        y: FigureScale {
            title: "bandwidth (MiB/s)".into(),
            ends: (0.0, top),
            ..FigureScale::default()
        },
        height: 220,
        view: [
            time.from_s / step_s,
            0.0,
            time.span_s() / step_s,
            RATE_UNITS,
        ],
        ..TraceFigure::default()
    };
    let mut said = Vec::new();
    for (class, name, rates, peak) in [
        ("write", "writes", writes, write_peak),
        ("read", "reads", reads, read_peak),
    ] {
        let of_step = top * rates.step_s * MIB;
        if of(rates) <= 0.0 {
            continue;
        }
        let _ = write!(
            figure.drawing,
            "<path class=\"{class} curve\" transform=\"scale({} 1)\" d=\"{}\"/>",
            rates.step_s / step_s,
            area(rates, of_step)
        );
        figure.keys.push((class, name.into()));
        said.push(format!(
            "{name} reach {} MiB/s, averaged over {}",
            text::rate(Some(peak)),
            text::time(rates.step_s)
        ));
    }
    figure.alt = format!("Bandwidth over time: {}.", text::list(&said));
    figure.caption = format!(
        "Bytes of all processes over time, as they reached the file system; the bytes of an operation are spread evenly over its duration. The {}.",
        text::list(&said)
    );
    Some(figure)
}

pub(super) fn bursts(document: &TraceDocument, time: TimeAxis) -> Option<TraceFigure> {
    let lanes = [
        (
            BurstKind::Metadata,
            "other",
            "metadata",
            "operations that move no bytes",
        ),
        (BurstKind::Read, "reads", "read", "reads"),
        (BurstKind::Write, "writes", "write", "writes"),
    ];
    if document.bursts.is_empty() {
        return None;
    }
    let mut figure = TraceFigure {
        title: "Bursts over time".into(),
        x: time.scale(),
        y: FigureScale {
            title: "kind of operation".into(),
            ends: (0.0, lanes.len() as f64),
            is_whole: true,
            names: lanes
                .iter()
                .map(|(_, name, ..)| (*name).to_owned())
                .collect(),
        },
        height: 110,
        view: [0.0, 0.0, BURST_COLUMNS, (10 * lanes.len()) as f64],
        ..TraceFigure::default()
    };
    let mut said = Vec::new();
    for (row, (kind, _, class, words)) in lanes.iter().enumerate().rev() {
        let of: Vec<&ShownBurst> = document.bursts.iter().filter(|b| b.kind == *kind).collect();
        if of.is_empty() {
            continue;
        }
        let top = 10 * (lanes.len() - 1 - row) + 1;
        let mut path = String::new();
        for (from, to) in columns(&of, time) {
            let width = to - from;
            let _ = write!(path, "M{from} {top}h{width}v8h-{width}z");
        }
        let _ = write!(figure.drawing, "<path class=\"{class}\" d=\"{path}\"/>");
        figure.keys.push((class, (*words).to_owned()));
        said.push(format!(
            "{} of {words}",
            text::of(of.len() as u64, "burst", "bursts")
        ));
    }
    figure.alt = format!("Timeline with {}.", text::list(&said));
    figure.caption = format!(
        "Times of writes, reads, and operations that move no bytes. A burst ends with a pause longer than {}; the trace has {}.",
        text::time(document.gap_s),
        text::list(&said)
    );
    Some(figure)
}

/// Returns the ranges of columns that the bursts cover, each at least one column wide. Adjacent ranges are joined.
fn columns(bursts: &[&ShownBurst], time: TimeAxis) -> Vec<(u32, u32)> {
    let at = |s: f64| ((s - time.from_s) / time.span_s() * BURST_COLUMNS).clamp(0.0, BURST_COLUMNS);
    let mut all: Vec<(u32, u32)> = Vec::new();
    for burst in bursts {
        let from = at(burst.start_s).floor().min(BURST_COLUMNS - 1.0) as u32;
        let to = (at(burst.end_s).ceil() as u32).max(from + 1);
        match all.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}
