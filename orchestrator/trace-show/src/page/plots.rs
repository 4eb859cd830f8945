//! The plots of a page: which there are, what they show, and what is said below them.

use super::{
    bins::{self, draw, rows_of},
    figure::{Figure, Scale},
    grid::{Axis, Grid},
    sink::{Plots, RolePlot},
    text,
};
use crate::document::{BurstKind, ShownBurst, ShownRates, TraceDocument};
use cvc_trace::Api;
use std::fmt::Write as _;

/// Most roles that get a plot.
const MOST_ROLES: usize = 12;

/// Most bytes that all drawings of bins take, and a single one.
const MOST_BYTES: usize = 2_400_000;
const MOST_OF_ONE: usize = 400_000;

/// Columns that bursts are drawn in.
const BURST_COLUMNS: f64 = 4000.0;

const MIB: f64 = 1_048_576.0;

/// Height of the plane that rates are drawn in.
const RATE_UNITS: f64 = 1000.0;

/// The time that all plots show.
#[derive(Clone, Copy, Debug)]
struct Time {
    from_s: f64,
    to_s: f64,
}

impl Time {
    fn of(plots: &Plots) -> Option<Self> {
        let (from_ns, to_ns) = plots.range_ns?;
        let (from_s, to_s) = (from_ns as f64 / 1e9, to_ns as f64 / 1e9);
        // the start of the trace is seen where that costs little room
        let from_s = if from_s <= to_s * 0.2 { 0.0 } else { from_s };
        Some(Self {
            from_s,
            to_s: to_s.max(from_s + 1e-6),
        })
    }

    fn span_s(self) -> f64 {
        self.to_s - self.from_s
    }

    fn scale(self) -> Scale {
        let (unit, seconds) = text::unit_of_time(self.to_s);
        Scale {
            title: format!("time since the start of the trace ({unit})"),
            ends: (self.from_s / seconds, self.to_s / seconds),
            ..Scale::default()
        }
    }
}

/// All plots, and what is said of roles without one.
pub(super) fn figures(document: &TraceDocument, plots: &Plots) -> (Vec<Figure>, Option<String>) {
    let Some(time) = Time::of(plots) else {
        return (Vec::new(), None);
    };
    let mut figures = Vec::new();
    figures.extend(bandwidth(document, time));
    figures.extend(bursts(document, time));
    let with_bins = |role: &&RolePlot| role.grid.as_ref().is_some_and(|g| g.axes().is_some());
    let shown: Vec<&RolePlot> = plots
        .roles
        .iter()
        .filter(with_bins)
        .take(MOST_ROLES)
        .collect();
    let grids = shown.len() + 2;
    let most = (MOST_BYTES / grids).min(MOST_OF_ONE);
    figures.extend(ranks(plots, time, most));
    figures.extend(others(plots, time, most));
    figures.extend(
        shown
            .iter()
            .filter_map(|role| places(document, role, time, most)),
    );
    let is_shown = |role: &&RolePlot| !shown.iter().any(|other| std::ptr::eq(*other, *role));
    let rest: Vec<&RolePlot> = plots.roles.iter().filter(is_shown).collect();
    (figures, rest_of(&rest))
}

/// What is said of roles without a plot.
fn rest_of(rest: &[&RolePlot]) -> Option<String> {
    const NAMED: usize = 30;
    if rest.is_empty() {
        return None;
    }
    let named = |role: &&RolePlot| format!("{} ({})", role.role, text::size(role.bytes as f64));
    let mut names: Vec<String> = rest.iter().take(NAMED).map(named).collect();
    if rest.len() > NAMED {
        let others = (rest.len() - NAMED) as u64;
        names.push(text::of(others, "other role", "other roles"));
    }
    Some(format!(
        "Files without a plot of their own, because others moved more bytes or the trace does not tell places in them: {}.",
        text::list(&names)
    ))
}

/// The steps of a curve as an area; zero where nothing moved.
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

fn bandwidth(document: &TraceDocument, time: Time) -> Option<Figure> {
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
    // steps of both curves may differ: one plane of the wider ones
    let step_s = if of(writes) > 0.0 {
        writes.step_s
    } else {
        reads.step_s
    };
    let mut figure = Figure {
        title: "Bandwidth over time".into(),
        x: time.scale(),
        y: Scale {
            title: "bandwidth (MiB/s)".into(),
            ends: (0.0, top),
            ..Scale::default()
        },
        height: 220,
        view: [
            time.from_s / step_s,
            0.0,
            time.span_s() / step_s,
            RATE_UNITS,
        ],
        ..Figure::default()
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
        "Bytes of all processes together over time, as they reached the file system; the bytes of an operation spread evenly over its time. The {}.",
        text::list(&said)
    );
    Some(figure)
}

fn bursts(document: &TraceDocument, time: Time) -> Option<Figure> {
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
    let mut figure = Figure {
        title: "Bursts over time".into(),
        x: time.scale(),
        y: Scale {
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
        ..Figure::default()
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
        "Times in which files were written, read, or used without moving bytes. A burst ends with a pause longer than {}: there are {}.",
        text::time(document.gap_s),
        text::list(&said)
    );
    Some(figure)
}

/// The columns that bursts cover, at least one each; those that touch are one.
fn columns(bursts: &[&ShownBurst], time: Time) -> Vec<(u32, u32)> {
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

/// What is common to plots of bins.
struct Binned {
    drawn: bins::Drawn,
    across: Axis,
    along: Axis,
    rows: usize,
}

impl Binned {
    fn of(grid: &Grid, most: usize) -> Option<Self> {
        let (across, along) = grid.axes()?;
        let cells = grid.cells();
        Some(Self {
            drawn: draw(&cells, most),
            across,
            along,
            rows: rows_of(&cells),
        })
    }

    /// The end of the last row, in what rows count.
    fn end(&self) -> f64 {
        self.along.start() as f64 + self.rows as f64 * self.along.step() as f64
    }

    /// What is seen between two values of the rows.
    fn view(&self, time: Time, from: f64, to: f64) -> [f64; 4] {
        let step_s = self.across.step() as f64 / 1e9;
        let step = self.along.step() as f64;
        [
            (time.from_s - self.across.start() as f64 / 1e9) / step_s,
            self.rows as f64 - (to - self.along.start() as f64) / step,
            time.span_s() / step_s,
            (to - from) / step,
        ]
    }

    fn bin_s(&self) -> f64 {
        self.across.step() as f64 / 1e9 * self.drawn.coarser as f64
    }

    fn bin_rows(&self) -> f64 {
        self.along.step() as f64 * self.drawn.coarser as f64
    }

    fn keys(&self) -> Vec<(&'static str, String)> {
        [
            ("write", 1, "writes"),
            ("read", 0, "reads"),
            ("both", 2, "writes and reads"),
        ]
        .into_iter()
        .filter(|(_, at, _)| self.drawn.has[*at])
        .map(|(class, _, words)| (class, words.to_owned()))
        .collect()
    }
}

const DEPTHS: &str = "The deepest colour is of bins with at least an eighth of the fullest bin's bytes, the palest of those with less than a 64th.";

/// Who moves bytes when. Rows are numbered from 0 to below `all`; the first ones may have names.
fn rows(
    binned: &Binned,
    time: Time,
    all: f64,
    (one, many): (&str, &str),
    names: &[String],
) -> Figure {
    let grouped = binned.bin_rows();
    let to = all.max(binned.end());
    let seen_rows = to / grouped;
    Figure {
        x: time.scale(),
        y: Scale {
            title: if grouped > 1.0 {
                format!("{one} ({grouped} {many} in a row)")
            } else {
                one.to_owned()
            },
            ends: (0.0, to),
            is_whole: true,
            names: names.to_vec(),
        },
        height: ((seen_rows * 14.0) as u32).clamp(90, 300),
        view: binned.view(time, 0.0, to),
        drawing: binned.drawn.paths.clone(),
        keys: binned.keys(),
        ..Figure::default()
    }
}

/// What a row of a plot is, and how wide its bins are.
fn of_rows(binned: &Binned, (one, many): (&str, &str)) -> String {
    let row = match binned.bin_rows() as u64 {
        1 => format!("each {one} has a row"),
        n => format!("a row is of {n} neighbouring {many}"),
    };
    format!(
        "{row}, and a bin is {} wide. {DEPTHS}",
        text::time(binned.bin_s())
    )
}

fn ranks(plots: &Plots, time: Time, most: usize) -> Option<Figure> {
    const NAMES: (&str, &str) = ("rank", "ranks");
    let binned = Binned::of(&plots.ranks, most)?;
    let all = plots.most_rank.map_or(0.0, |most| f64::from(most) + 1.0);
    let figure = rows(&binned, time, all, NAMES, &[]);
    Some(Figure {
        title: "Ranks over time".into(),
        caption: format!("Which rank moves bytes when: {}", of_rows(&binned, NAMES)),
        alt: format!(
            "Ranks over time: of {all} ranks, bytes are moved by ranks {} to {}.",
            binned.along.start(),
            binned.end().min(all) - 1.0
        ),
        ..figure
    })
}

fn others(plots: &Plots, time: Time, most: usize) -> Option<Figure> {
    const NAMES: (&str, &str) = ("process", "processes");
    let names = &plots.other_names;
    let binned = Binned::of(&plots.others, most)?;
    let n = names.len() as u64;
    let shown = if binned.bin_rows() > 1.0 {
        &[][..]
    } else {
        names
    };
    let figure = rows(&binned, time, n as f64, NAMES, shown);
    Some(Figure {
        title: if plots.ranks.axes().is_some() {
            "Processes without a rank over time".into()
        } else {
            "Processes over time".into()
        },
        caption: format!(
            "Which process moves bytes when, in the order in which they first did: {}",
            of_rows(&binned, NAMES)
        ),
        alt: format!("{} over time.", text::of(n, NAMES.0, NAMES.1)),
        ..figure
    })
}

/// The name of an interface in a sentence.
fn interface(api: Api) -> &'static str {
    match api {
        Api::Posix => "POSIX",
        Api::MpiIo => "MPI-IO",
        Api::Stdio => "streams of the C library",
        Api::Other => "another interface",
    }
}

/// Where in the files of a role bytes are moved, and when.
fn places(document: &TraceDocument, role: &RolePlot, time: Time, most: usize) -> Option<Figure> {
    let binned = Binned::of(role.grid.as_ref()?, most)?;
    let (start, to) = (binned.along.start() as f64, binned.end());
    // from the start of the file where that costs little room, or where marks would need many digits
    let from = if start <= to * 0.2 || to - start < to * 1e-3 {
        0.0
    } else {
        start
    };
    let (unit, bytes) = text::unit_of(to);
    // what lies highest is not at the edge
    let top = to + (to - from) * 0.02;
    let files: Vec<&str> = document
        .files
        .iter()
        .filter(|f| f.role == role.role && f.reads.operations + f.writes.operations > 0)
        .map(|f| f.path.as_str())
        .collect();
    let whose = match files[..] {
        [one] => format!("file {one}"),
        _ => format!(
            "{} files of role {}",
            text::count(files.len() as u64),
            role.role
        ),
    };
    let mut caption = format!(
        "Places of reads and writes in {whose} over time: {} through {}. A bin is {} wide and {} high. {DEPTHS}",
        text::size(role.bytes as f64),
        role.api.map_or("unknown means", interface),
        text::time(binned.bin_s()),
        text::size(binned.bin_rows())
    );
    if role.unseen_bytes > 0 {
        let _ = write!(
            caption,
            " The first {} are not in the plot, because other files moved more at that time.",
            text::size(role.unseen_bytes as f64)
        );
    }
    if role.placeless > 0 {
        let _ = write!(
            caption,
            " The trace does not tell the place of {}, which are not in the plot.",
            text::of(role.placeless, "operation", "operations")
        );
    }
    let keys = binned.keys();
    let did: Vec<String> = keys.iter().map(|(_, words)| words.clone()).collect();
    Some(Figure {
        title: format!("Places in {}", role.role),
        alt: format!(
            "Places in {whose} over time, from {} to {}: {}.",
            text::size(start),
            text::size(to),
            text::list(&did)
        ),
        caption,
        x: time.scale(),
        y: Scale {
            title: format!("offset in the file ({unit})"),
            ends: (from / bytes, top / bytes),
            ..Scale::default()
        },
        height: 280,
        view: binned.view(time, from, top),
        drawing: binned.drawn.paths.clone(),
        keys,
    })
}
