//! Plots the sizes of operations in their order: a plot for each role and each group of processes with the same operations.

use super::{
    figure::{FigureScale, TraceFigure},
    text,
};
use cvc_trace::{OperationOrder, Step};
use std::{collections::BTreeSet, fmt::Write as _};

/// Maximum number of groups that get a plot.
const MAX_PLOTS: usize = 6;

/// Maximum number of operations along the horizontal axis.
const MAX_OPERATIONS: u64 = 2000;

/// Maximum number of sizes that each get a row. If there are more sizes, there is a row for each power of two.
const MAX_ROWS: usize = 12;

/// Maximum number of processes that a caption names.
const MAX_NAMED: usize = 8;

/// Plots each sequence of more than one operation; the sequence with the most bytes comes first.
pub(super) fn figures(orders: &[OperationOrder]) -> Vec<TraceFigure> {
    let several = orders.iter().filter(|of| of.operations > 1);
    several.take(MAX_PLOTS).map(figure).collect()
}

/// Returns the names of the rows for the sizes of these steps, smallest first: exact sizes, or powers of two. Also returns a function from a size to
/// the index of its row.
fn rows(steps: &[Step]) -> (Vec<String>, impl Fn(u64) -> usize) {
    let exact: BTreeSet<u64> = steps.iter().map(|step| step.bytes).collect();
    let is_exact = exact.len() <= MAX_ROWS;
    let class = move |bytes: u64| {
        if is_exact {
            bytes
        } else {
            1 << bytes.max(1).ilog2()
        }
    };
    let all: Vec<u64> = exact
        .into_iter()
        .map(class)
        .collect::<BTreeSet<u64>>()
        .into_iter()
        .collect();
    let name = |bytes: &u64| {
        let size = text::size(*bytes as f64);
        if is_exact { size } else { format!("{size} +") }
    };
    let names = all.iter().map(name).collect();
    (names, move |bytes| {
        all.binary_search(&class(bytes)).unwrap_or_default()
    })
}

fn figure(of: &OperationOrder) -> TraceFigure {
    let (names, row_of) = rows(&of.steps);
    let shown = of
        .steps
        .iter()
        .map(|step| step.count)
        .sum::<u64>()
        .min(MAX_OPERATIONS);
    let height = names.len() as f64;
    let mut figure = TraceFigure {
        title: format!("Order of operations: {}", of.role),
        x: FigureScale {
            title: "operation of a process".into(),
            ends: (0.0, shown as f64),
            ..FigureScale::default()
        },
        y: FigureScale {
            title: "size".into(),
            ends: (0.0, height),
            is_whole: true,
            names,
        },
        height: 60 + 20 * height as u32,
        view: [0.0, 0.0, shown as f64, height * 10.0],
        ..TraceFigure::default()
    };
    for (class, operation, words) in [("write", "write", "writes"), ("read", "read", "reads")] {
        let mut path = String::new();
        let mut at = 0;
        for step in &of.steps {
            let width = step.count.min(MAX_OPERATIONS.saturating_sub(at));
            if width > 0 && step.operation == operation {
                let top = height * 10.0 - row_of(step.bytes) as f64 * 10.0 - 9.0;
                let _ = write!(path, "M{at} {top}h{width}v8h-{width}z");
            }
            at += step.count;
        }
        if !path.is_empty() {
            let _ = write!(figure.drawing, "<path class=\"{class}\" d=\"{path}\"/>");
            figure.keys.push((class, words.to_owned()));
        }
    }
    let named: Vec<String> = of.processes.iter().take(MAX_NAMED).cloned().collect();
    let others = of.processes.len().saturating_sub(MAX_NAMED);
    let more = if others > 0 {
        format!(" and {others} more")
    } else {
        String::new()
    };
    let cut = if shown < of.operations {
        format!(
            " The first {shown} of {} operations.",
            text::count(of.operations)
        )
    } else {
        String::new()
    };
    figure.alt = format!("Sizes of operations in order: {}.", of.words);
    figure.caption = format!(
        "Operations of each of {}{more}, through {}: {}.{cut}",
        named.join(", "),
        of.interface,
        of.words
    );
    figure
}
