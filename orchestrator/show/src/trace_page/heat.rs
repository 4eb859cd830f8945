//! Plots Darshan's heat maps: bytes of ranks over time, even for logs without single operations.

use super::{
    bins::{DEPTHS, draw, keys_of},
    figure::{FigureScale, TimeAxis, TraceFigure},
    grid::Cells,
    text,
};
use cvc_trace::HeatGrid;

/// Maximum size of a drawing, bytes.
const MAX_BYTES: usize = 300_000;

/// Plots the bytes that ranks moved through one interface; `None` if no bytes were moved. `ranks` is the number of ranks of the job, if the log
/// records it.
pub(super) fn heat(grid: &HeatGrid, ranks: Option<u64>) -> Option<TraceFigure> {
    let per_row = grid.ranks_per_row.max(1);
    let rows = usize::try_from(grid.rows.keys().next_back()? / per_row + 1).ok()?;
    let mut bytes = vec![(0, 0); rows * grid.bins];
    for (rank, [read, written]) in &grid.rows {
        let begin = usize::try_from(rank / per_row).ok()? * grid.bins;
        for (at, bin) in bytes[begin..begin + grid.bins].iter_mut().enumerate() {
            *bin = (read[at], written[at]);
        }
    }
    let cells = Cells {
        columns: grid.bins,
        bins: bytes,
    };
    let drawn = draw(&cells, MAX_BYTES);
    let seen_rows = ranks.map_or(rows as f64, |all| {
        (all as f64 / per_row as f64).max(rows as f64)
    });
    let coarser = drawn.coarser as u64;
    let row = match per_row * coarser {
        1 => "Each rank has a row".to_owned(),
        n => format!("A row has {n} neighbouring ranks"),
    };
    let [read, written] = grid.totals().map(|bytes| text::size(bytes as f64));
    let bin = text::time(grid.bin_s * drawn.coarser as f64);
    Some(TraceFigure {
        title: format!("Ranks over time: {}", grid.module),
        caption: format!(
            "Bytes of each rank through {}, from Darshan's heat map: {read} read, {written} written. {row}, and a bin is {bin} wide. {DEPTHS}",
            grid.module
        ),
        alt: format!(
            "Ranks over time through {}: {read} read, {written} written.",
            grid.module
        ),
        x: TimeAxis::of((0, (grid.bin_s * grid.bins as f64 * 1e9) as u64)).scale(),
        y: FigureScale {
            title: "rank".to_owned(),
            ends: (0.0, seen_rows * per_row as f64),
            is_whole: true,
            names: Vec::new(),
        },
        height: ((seen_rows * 14.0) as u32).clamp(90, 300),
        view: [0.0, rows as f64 - seen_rows, grid.bins as f64, seen_rows],
        keys: keys_of(drawn.has),
        drawing: drawn.paths,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_bytes_where_they_moved_them() {
        let mut grid = HeatGrid::default();
        grid.module = "POSIX".into();
        (grid.bin_s, grid.bins, grid.ranks_per_row) = (0.5, 4, 1);
        grid.rows.insert(2, [vec![0, 0, 0, 0], vec![0, 9, 9, 0]]);
        let figure = heat(&grid, Some(8)).unwrap();
        // SVG counts rows from the top: of three rows, the third rank has the highest
        assert_eq!(
            figure.drawing,
            "<path class=\"write d2\" d=\"m1 0h2v1h-2z\"/>"
        );
        assert_eq!(figure.view, [0.0, -5.0, 4.0, 8.0]);
        assert_eq!((figure.x.ends, figure.y.ends), ((0.0, 2.0), (0.0, 8.0)));
        assert!(
            figure.caption.contains("18 bytes written") || figure.caption.contains("18 B written"),
            "{}",
            figure.caption
        );
        assert!(heat(&HeatGrid::default(), None).is_none());
    }
}
