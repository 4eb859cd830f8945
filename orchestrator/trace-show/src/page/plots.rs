//! The plots of a page: which there are, what they show, and what is said below them.

use super::{
    bins::{self, DEPTHS, draw, keys_of, rows_of},
    curves::{bandwidth, bursts},
    figure::{Figure, Scale, Time},
    grid::{Axis, Grid},
    heat::heat,
    sink::{Plots, RolePlot},
    text,
};
use crate::document::{ShownRates, TraceDocument};
use cvc_trace::Api;
use std::fmt::Write as _;

/// Most roles that get a plot.
const MOST_ROLES: usize = 12;

/// Most bytes that all drawings of bins take, and a single one.
const MOST_BYTES: usize = 2_400_000;
const MOST_OF_ONE: usize = 400_000;

/// All plots, and what is said of roles without one.
pub(super) fn figures(document: &TraceDocument, plots: &Plots) -> (Vec<Figure>, Option<String>) {
    let mut figures: Vec<Figure> = plots
        .heat
        .iter()
        .filter_map(|grid| heat(grid, document.trace.ranks))
        .collect();
    // without events there are the rates that Darshan's heat maps give
    let rates = || {
        let end_s = |rates: &ShownRates| rates.step_s * rates.bytes.len() as f64;
        let end_s = end_s(&document.write_rates).max(end_s(&document.read_rates));
        (end_s > 0.0).then_some((0, (end_s * 1e9) as u64))
    };
    let Some(time) = plots.range_ns.or_else(rates).map(Time::of) else {
        return (figures, None);
    };
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

/// What is common to plots of bins.
struct Binned {
    drawn: bins::Drawn,
    across: Axis,
    along: Axis,
    columns: usize,
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
            columns: cells.columns,
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

    /// What is drawn. In a view in which all of it is hardly a point, it is a larger one.
    fn drawing(&self, view: [f64; 4]) -> String {
        let is_tiny =
            (self.columns as f64) < view[2] / 300.0 && (self.rows as f64) < view[3] / 100.0;
        if is_tiny {
            format!("<g class=\"tiny\">{}</g>", self.drawn.paths)
        } else {
            self.drawn.paths.clone()
        }
    }

    fn bin_s(&self) -> f64 {
        self.across.step() as f64 / 1e9 * self.drawn.coarser as f64
    }

    fn bin_rows(&self) -> f64 {
        self.along.step() as f64 * self.drawn.coarser as f64
    }

    fn keys(&self) -> Vec<(&'static str, String)> {
        keys_of(self.drawn.has)
    }
}

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
    let view = binned.view(time, 0.0, to);
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
        view,
        drawing: binned.drawing(view),
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
            "Which process moves bytes when, from below in the order in which the trace tells of their bytes: {}",
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
        .filter(|f| f.role == role.role && f.reads.operations.max(f.writes.operations) > 0)
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
            " Not in the plot: {} whose place the trace does not tell.",
            text::of(role.placeless, "operation", "operations")
        );
    }
    let view = binned.view(time, from, top);
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
        view,
        drawing: binned.drawing(view),
        keys,
    })
}
