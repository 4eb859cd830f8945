//! Draws bins as few paths: one for each colour and depth of it, of rectangles as large as possible.

use super::grid::Cells;
use std::{collections::BTreeMap, fmt::Write as _};

/// Classes of the colours: what was done in a bin.
const COLOURS: [&str; 3] = ["read", "write", "both"];

/// Depths of a colour: a bin is of the deepest whose share of the fullest bin's bytes it reaches.
const SHARES: [f64; 3] = [0.0, 1.0 / 64.0, 1.0 / 8.0];

/// Style of a bin: colour and depth.
type Style = (u8, u8);

/// A drawing of bins.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawn {
    /// Paths of SVG; one unit is one bin, the first row is lowest.
    pub(super) paths: String,
    /// How many bins of each side were drawn as one.
    pub(super) coarser: usize,
    /// Which colours there are: reads, writes, both in one bin.
    pub(super) has: [bool; 3],
}

/// Draws bins, several as one if it would take more bytes than `most`.
pub(super) fn draw(cells: &Cells, most: usize) -> Drawn {
    let mut coarser = 1;
    let mut current = cells.clone();
    loop {
        let mut drawn = paths(&current, coarser, rows_of(cells));
        if drawn.paths.len() <= most || current.bytes.len() <= 1 {
            drawn.coarser = coarser;
            return drawn;
        }
        current = halved(&current);
        coarser *= 2;
    }
}

/// How many rows there are.
pub(super) fn rows_of(cells: &Cells) -> usize {
    cells.bytes.len() / cells.columns.max(1)
}

/// Makes one bin of two by two.
fn halved(cells: &Cells) -> Cells {
    let (columns, rows) = (cells.columns.div_ceil(2), rows_of(cells).div_ceil(2));
    let mut bytes = vec![(0u64, 0u64); columns * rows];
    for (at, of) in cells.bytes.iter().enumerate() {
        let (row, column) = (at / cells.columns / 2, at % cells.columns / 2);
        let sum = &mut bytes[row * columns + column];
        *sum = (sum.0.saturating_add(of.0), sum.1.saturating_add(of.1));
    }
    Cells { columns, bytes }
}

/// Rectangles of one style, each relative to the one before.
#[derive(Default)]
struct Path {
    text: String,
    at: (i64, i64),
}

impl Path {
    fn rectangle(&mut self, x: usize, y: usize, width: usize, height: usize) {
        let (x, y) = (x as i64, y as i64);
        // one command has a sign or a letter between its numbers
        let (dx, dy) = (x - self.at.0, y - self.at.1);
        let space = if dy < 0 { "" } else { " " };
        let _ = write!(self.text, "m{dx}{space}{dy}h{width}v{height}h-{width}z");
        self.at = (x, y);
    }
}

fn paths(cells: &Cells, scale: usize, all_rows: usize) -> Drawn {
    let fullest = cells.bytes.iter().map(|(r, w)| r.saturating_add(*w)).max();
    let fullest = fullest.unwrap_or(0) as f64;
    let style = |&(read, written): &(u64, u64)| -> Option<Style> {
        let colour = match (read > 0, written > 0) {
            (false, false) => return None,
            (true, false) => 0,
            (false, true) => 1,
            (true, true) => 2,
        };
        let share = read.saturating_add(written) as f64 / fullest;
        let depth = SHARES
            .iter()
            .rposition(|least| share >= *least)
            .unwrap_or(0);
        Some((colour, depth as u8))
    };
    let mut drawn: BTreeMap<Style, Path> = BTreeMap::new();
    // runs of the row before: first column, how many, style, and the row where they began
    let mut open: BTreeMap<(usize, usize, Style), usize> = BTreeMap::new();
    let mut end = |runs: BTreeMap<(usize, usize, Style), usize>, row: usize| {
        for ((column, width, style), from) in runs {
            // the drawing's rows count from its top, and may be cut at the last one
            let top = all_rows as i64 - (row * scale) as i64;
            let path = drawn.entry(style).or_default();
            let (top, height) = (top.max(0) as usize, all_rows - from * scale);
            let height = height - top;
            path.rectangle(column * scale, top, width * scale, height);
        }
    };
    let mut rows = 0;
    for (row, of_row) in cells.bytes.chunks(cells.columns.max(1)).enumerate() {
        let mut runs = BTreeMap::new();
        let mut column = 0;
        for run in of_row.chunk_by(|a, b| style(a) == style(b)) {
            if let Some(style) = style(&run[0]) {
                let key = (column, run.len(), style);
                let from = open.remove(&key).unwrap_or(row);
                runs.insert(key, from);
            }
            column += run.len();
        }
        end(std::mem::replace(&mut open, runs), row);
        rows = row + 1;
    }
    end(open, rows);
    let mut all = Drawn::default();
    for ((colour, depth), path) in drawn {
        all.has[usize::from(colour)] = true;
        let _ = write!(
            all.paths,
            "<path class=\"{} d{depth}\" d=\"{}\"/>",
            COLOURS[usize::from(colour)],
            path.text
        );
    }
    all
}

/// The colours that a drawing has, and what they mean.
pub(super) fn keys_of(has: [bool; 3]) -> Vec<(&'static str, String)> {
    [
        ("write", 1, "writes"),
        ("read", 0, "reads"),
        ("both", 2, "writes and reads"),
    ]
    .into_iter()
    .filter(|(_, at, _)| has[*at])
    .map(|(class, _, words)| (class, words.to_owned()))
    .collect()
}

pub(super) const DEPTHS: &str = "The deepest colour is of bins with at least an eighth of the fullest bin's bytes, the palest of those with less than a 64th.";

#[cfg(test)]
mod tests {
    use super::*;

    /// Which bins the rectangles of paths cover, by class; none may be covered twice.
    fn covered(drawn: &Drawn, columns: usize, rows: usize) -> Vec<Option<&str>> {
        let mut all = vec![None; columns * rows];
        for path in drawn.paths.split("<path ").skip(1) {
            let class = path.split('"').nth(1).and_then(|c| c.split(' ').next());
            let text = path.split('"').nth(3).expect("what is drawn");
            let (mut x, mut y) = (0i64, 0i64);
            for rectangle in text.split('m').skip(1) {
                let spaced = rectangle.replace('-', " -").replace(['h', 'v', 'z'], " ");
                let n: Vec<i64> = spaced
                    .split_whitespace()
                    .map(|n| n.parse().expect("a number"))
                    .collect();
                (x, y) = (x + n[0], y + n[1]);
                for row in y..y + n[3] {
                    for column in x..x + n[2] {
                        let at = (rows as i64 - 1 - row) * columns as i64 + column;
                        let cell = all.get_mut(at as usize).expect("within the drawing");
                        assert_eq!(*cell, None, "drawn twice");
                        *cell = class;
                    }
                }
            }
        }
        all
    }

    fn random(columns: usize, rows: usize) -> Cells {
        let mut state = 1u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let n = state >> 40;
            if n.is_multiple_of(3) { n % 5000 } else { 0 }
        };
        Cells {
            columns,
            bytes: (0..columns * rows).map(|_| (next(), next())).collect(),
        }
    }

    #[test]
    fn each_bin_is_drawn_once_in_its_colour() {
        let cells = random(37, 11);
        let drawn = draw(&cells, usize::MAX);
        let expected: Vec<Option<&str>> = cells
            .bytes
            .iter()
            .map(|bytes| match bytes {
                (0, 0) => None,
                (_, 0) => Some("read"),
                (0, _) => Some("write"),
                _ => Some("both"),
            })
            .collect();
        assert_eq!(covered(&drawn, 37, 11), expected);
        assert_eq!(drawn.coarser, 1);
    }

    #[test]
    fn a_drawing_that_is_too_long_becomes_coarser() {
        let cells = random(400, 120);
        let whole = draw(&cells, usize::MAX).paths.len();
        let drawn = draw(&cells, 50_000);
        assert!(whole > 200_000 && drawn.paths.len() <= 50_000);
        assert!(drawn.coarser > 1 && drawn.paths.len() > 1000);
    }

    #[test]
    fn bins_of_equal_bytes_are_one_rectangle() {
        let cells = Cells {
            columns: 40,
            bytes: vec![(0, 10); 400],
        };
        let drawn = draw(&cells, usize::MAX);
        assert_eq!(
            drawn.paths,
            "<path class=\"write d2\" d=\"m0 0h40v10h-40z\"/>"
        );
        assert_eq!(drawn.has, [false, true, false]);
    }
}
