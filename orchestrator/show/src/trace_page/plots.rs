//! The plots of a trace's page: which plots exist, their content, and the text below them.

use super::{
    bins::{self, Bin, DEPTHS, GROUPS, draw, keys_of, rows_of},
    curves::{bandwidth, bursts},
    figure::{FigureScale, TimeAxis, TraceFigure},
    grid::{Axis, Cells, GridFigure, User},
    heat::heat,
    order,
    sink::{Plots, RolePlot},
    text,
};
use cvc_trace::Api;
use cvc_trace::document::{ShownRates, TraceDocument};
use std::fmt::Write as _;

/// Maximum number of roles (groups of similar files) that get a plot.
const MAX_ROLES: usize = 12;

/// Maximum size of all drawings of bins together, bytes. The next constant is the maximum size of one drawing.
const MAX_BYTES: usize = 2_400_000;
const MAX_OF_ONE: usize = 400_000;

/// Returns all plots, and a remark about roles without a plot.
pub(super) fn figures(
    document: &TraceDocument,
    plots: &Plots,
) -> (Vec<TraceFigure>, Option<String>) {
    let mut figures: Vec<TraceFigure> = plots
        .heat
        .iter()
        .filter_map(|grid| heat(grid, document.trace.ranks))
        .collect();
    // without events, the rates come from Darshan's heat maps
    let rates = || {
        let end_s = |rates: &ShownRates| rates.step_s * rates.bytes.len() as f64;
        let end_s = end_s(&document.write_rates).max(end_s(&document.read_rates));
        (end_s > 0.0).then_some((0, (end_s * 1e9) as u64))
    };
    let Some(time) = plots.range_ns.or_else(rates).map(TimeAxis::of) else {
        return (figures, None);
    };
    figures.extend(bandwidth(document, time));
    figures.extend(bursts(document, time));
    let shown = shown_roles(plots);
    let processes = plots
        .most_rank
        .map_or(plots.other_names.len() as u64, |most| u64::from(most) + 1);
    let whose = |role: &str| files_of(document, role);
    figures.extend(roles_of(plots, time, processes, &whose));
    figures.extend(order::figures(&document.orders));
    let is_shown = |role: &&RolePlot| !shown.iter().any(|other| std::ptr::eq(*other, *role));
    let rest: Vec<&RolePlot> = plots.roles.iter().filter(is_shown).collect();
    (figures, rest_of(&rest))
}

/// Describes the roles that have no plot; `None` if all have one.
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
        "Files without a plot, because others moved more bytes or the trace has no offsets for them: {}.",
        text::list(&names)
    ))
}

/// The bins of a plot, with their axes and their drawing.
struct Binned {
    drawn: bins::DrawnBins,
    across: Axis,
    along: Axis,
    columns: usize,
    rows: usize,
}

impl Binned {
    fn of(grid: &GridFigure, most: usize) -> Option<Self> {
        Some(Self::drawn(grid.axes()?, &grid.cells(), most))
    }

    fn drawn<T: Bin>((across, along): (Axis, Axis), cells: &Cells<T>, most: usize) -> Self {
        Self {
            drawn: draw(cells, most),
            across,
            along,
            columns: cells.columns,
            rows: rows_of(cells),
        }
    }

    /// Returns the end of the last row, in the unit of the vertical axis.
    fn end(&self) -> f64 {
        self.along.start() as f64 + self.rows as f64 * self.along.step() as f64
    }

    /// Returns the visible rectangle of the drawing between two values of the vertical axis.
    fn view(&self, time: TimeAxis, from: f64, to: f64) -> [f64; 4] {
        let step_s = self.across.step() as f64 / 1e9;
        let step = self.along.step() as f64;
        [
            (time.from_s - self.across.start() as f64 / 1e9) / step_s,
            self.rows as f64 - (to - self.along.start() as f64) / step,
            time.span_s() / step_s,
            (to - from) / step,
        ]
    }

    /// Returns the drawing; enlarged if it would be hardly larger than a point.
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

/// Plots the bytes of each process over time, with rows from 0 to `all` - 1. `names` belong to the first rows.
fn rows(
    binned: &Binned,
    time: TimeAxis,
    all: f64,
    (one, many): (&str, &str),
    names: &[String],
) -> TraceFigure {
    let grouped = binned.bin_rows();
    let to = all.max(binned.end());
    let seen_rows = to / grouped;
    let view = binned.view(time, 0.0, to);
    TraceFigure {
        x: time.scale(),
        y: FigureScale {
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
        ..TraceFigure::default()
    }
}

/// Describes what a row of a plot means, and the width of its bins.
fn of_rows(binned: &Binned, (one, many): (&str, &str)) -> String {
    let row = match binned.bin_rows() as u64 {
        1 => format!("each {one} has a row"),
        n => format!("a row has {n} neighbouring {many}"),
    };
    format!(
        "{row}, and a bin is {} wide. {DEPTHS}",
        text::time(binned.bin_s())
    )
}

fn ranks(plots: &Plots, time: TimeAxis, most: usize) -> Option<TraceFigure> {
    const NAMES: (&str, &str) = ("rank", "ranks");
    let binned = Binned::of(&plots.ranks, most)?;
    let all = plots.most_rank.map_or(0.0, |most| f64::from(most) + 1.0);
    let figure = rows(&binned, time, all, NAMES, &[]);
    Some(TraceFigure {
        title: "Ranks over time".into(),
        caption: format!("Bytes of each rank over time: {}", of_rows(&binned, NAMES)),
        alt: format!(
            "Ranks over time: of {all} ranks, bytes are moved by ranks {} to {}.",
            binned.along.start(),
            binned.end().min(all) - 1.0
        ),
        ..figure
    })
}

fn others(plots: &Plots, time: TimeAxis, most: usize) -> Option<TraceFigure> {
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
    Some(TraceFigure {
        title: if plots.ranks.axes().is_some() {
            "Processes without a rank over time".into()
        } else {
            "Processes over time".into()
        },
        caption: format!(
            "Bytes of each process over time, from below in the order of their first bytes in the trace: {}",
            of_rows(&binned, NAMES)
        ),
        alt: format!("{} over time.", text::of(n, NAMES.0, NAMES.1)),
        ..figure
    })
}

/// Plots which processes used each offset of shared files, with the axes of the plot of bytes.
fn users(
    role: &RolePlot,
    places: &TraceFigure,
    (time, processes): (TimeAxis, u64),
    most: usize,
) -> Option<TraceFigure> {
    let per_group = processes.div_ceil(GROUPS).max(1);
    let axes = role.users.axes().filter(|_| role.is_shared)?;
    let mut cells = role.users.cells();
    for bin in &mut cells.bins {
        if let User::One(process) = bin {
            *process /= per_group;
        }
    }
    let binned = Binned::drawn(axes, &cells, most);
    let (unit, bytes) = (places.y.ends, text::unit_of(binned.end()).1);
    let view = binned.view(time, unit.0 * bytes, unit.1 * bytes);
    let group = |at: u64| {
        let (first, last) = (at * per_group, ((at + 1) * per_group).min(processes) - 1);
        if first == last {
            format!("process {first}")
        } else {
            format!("processes {first} to {last}")
        }
    };
    let name = |(at, class): (usize, &&'static str)| match at as u64 {
        GROUPS => (*class, "several".to_owned()),
        at => (*class, group(at)),
    };
    let keys = User::COLOURS
        .iter()
        .enumerate()
        .filter(|(at, _)| binned.drawn.has[*at]);
    let keys: Vec<_> = keys.map(name).collect();
    Some(TraceFigure {
        title: format!("Processes by offset in {}", role.role),
        caption: format!(
            "The same offsets by process, in the order of ranks or of their first bytes. A bin is {} wide and {} high.",
            text::time(binned.bin_s()),
            text::size(binned.bin_rows())
        ),
        alt: format!(
            "Offsets in {} by process: {}.",
            role.role,
            text::of(keys.len() as u64, "colour", "colours")
        ),
        x: places.x.clone(),
        y: places.y.clone(),
        height: places.height,
        view,
        drawing: binned.drawing(view),
        keys,
    })
}

/// Returns the name of an interface for sentences.
fn interface(api: Api) -> &'static str {
    match api {
        Api::Posix => "POSIX",
        Api::MpiIo => "MPI-IO",
        Api::Stdio => "streams of the C library",
        Api::Other => "another interface",
    }
}

/// Returns the name of a role's file, or the number of its files.
fn files_of(document: &TraceDocument, role: &str) -> String {
    let files = document.files.iter();
    let of_role = files.filter(|f| f.role == role);
    let moved = of_role.filter(|f| f.reads.operations.max(f.writes.operations) > 0);
    let files: Vec<&str> = moved.map(|f| f.path.as_str()).collect();
    match files[..] {
        [one] => format!("file {one}"),
        _ => format!("{} files of role {role}", text::count(files.len() as u64)),
    }
}

/// Returns the roles that get a plot.
fn shown_roles(plots: &Plots) -> Vec<&RolePlot> {
    let with_bins = |role: &&RolePlot| role.grid.as_ref().is_some_and(|g| g.axes().is_some());
    plots
        .roles
        .iter()
        .filter(with_bins)
        .take(MAX_ROLES)
        .collect()
}

/// Plots the bins of ranks, of processes without a rank, and of the roles that moved the most bytes.
pub(super) fn roles_of(
    plots: &Plots,
    time: TimeAxis,
    processes: u64,
    whose: &dyn Fn(&str) -> String,
) -> Vec<TraceFigure> {
    let shown = shown_roles(plots);
    let most = (MAX_BYTES / (shown.len() + 2)).min(MAX_OF_ONE);
    let bytes = shown.iter().flat_map(|role| {
        let places = places(role, &whose(&role.role), time, most);
        let users = places
            .as_ref()
            .and_then(|of| users(role, of, (time, processes), most));
        places.into_iter().chain(users)
    });
    let ranks = ranks(plots, time, most).into_iter();
    ranks
        .chain(others(plots, time, most))
        .chain(bytes)
        .collect()
}

/// Plots the offsets of reads and writes in the files of a role over time.
fn places(role: &RolePlot, whose: &str, time: TimeAxis, most: usize) -> Option<TraceFigure> {
    let binned = Binned::of(role.grid.as_ref()?, most)?;
    let (start, to) = (binned.along.start() as f64, binned.end());
    // start at offset 0 if that takes little space, or if the marks of the axis would need many digits otherwise
    let from = if start <= to * 0.2 || to - start < to * 1e-3 {
        0.0
    } else {
        start
    };
    let (unit, bytes) = text::unit_of(to);
    // leave space above the highest offset
    let top = to + (to - from) * 0.02;
    let mut caption = format!(
        "Offsets of reads and writes in {whose} over time: {} through {}. A bin is {} wide and {} high. {DEPTHS}",
        text::size(role.bytes as f64),
        role.api.map_or("unknown means", interface),
        text::time(binned.bin_s()),
        text::size(binned.bin_rows())
    );
    if role.unseen_bytes > 0 {
        let _ = write!(
            caption,
            " Not plotted: the first {}, because other files moved more at that time.",
            text::size(role.unseen_bytes as f64)
        );
    }
    if role.placeless > 0 {
        let _ = write!(
            caption,
            " Not plotted: {} without an offset in the trace.",
            text::of(role.placeless, "operation", "operations")
        );
    }
    let view = binned.view(time, from, top);
    let keys = binned.keys();
    let did: Vec<String> = keys.iter().map(|(_, words)| words.clone()).collect();
    Some(TraceFigure {
        title: format!("Offsets in {}", role.role),
        alt: format!(
            "Offsets in {whose} over time, from {} to {}: {}.",
            text::size(start),
            text::size(to),
            text::list(&did)
        ),
        caption,
        x: time.scale(),
        y: FigureScale {
            title: format!("offset in the file ({unit})"),
            ends: (from / bytes, top / bytes),
            ..FigureScale::default()
        },
        height: 280,
        view,
        drawing: binned.drawing(view),
        keys,
    })
}
