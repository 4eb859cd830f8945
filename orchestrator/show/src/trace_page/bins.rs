//! Draws bins with few SVG paths: one path for each colour and depth, consisting of rectangles as large as possible.

use super::grid::{Cells, User};
use std::{collections::BTreeMap, fmt::Write as _};

/// Lower limits of the depths of colour, as fractions of the fullest bin's bytes. A bin has the depth of the largest limit that its bytes reach.
const SHARES: [f64; 3] = [0.0, 1.0 / 64.0, 1.0 / 8.0];

/// Number of groups into which processes are divided; each has its colour.
pub(super) const GROUPS: u64 = 6;

/// Style of a bin: number of the colour, and depth.
type Style = (u8, u8);

/// The content of a bin.
pub(super) trait Bin: Copy + PartialEq {
    /// CSS classes of the colours.
    const COLOURS: &'static [&'static str];

    /// Returns the content of two bins that are merged.
    fn join(self, other: Self) -> Self;

    /// Returns the number of bytes, which determines the depth of the colour.
    fn bytes(self) -> u64;

    /// Returns the number of the colour; `None` for an empty bin.
    fn colour(self) -> Option<u8>;
}

/// Bins of bytes read and written: the colour shows which of both.
impl Bin for (u64, u64) {
    const COLOURS: &'static [&'static str] = &["read", "write", "both"];

    fn join(self, other: Self) -> Self {
        (
            self.0.saturating_add(other.0),
            self.1.saturating_add(other.1),
        )
    }

    fn bytes(self) -> u64 {
        self.0.saturating_add(self.1)
    }

    fn colour(self) -> Option<u8> {
        match (self.0 > 0, self.1 > 0) {
            (false, false) => None,
            (true, false) => Some(0),
            (false, true) => Some(1),
            (true, true) => Some(2),
        }
    }
}

/// Bins of users: the colour shows the group of the process, a number below [`GROUPS`].
impl Bin for User {
    const COLOURS: &'static [&'static str] = &["p0", "p1", "p2", "p3", "p4", "p5", "several"];

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoProcess, one) | (one, Self::NoProcess) => one,
            (a, b) if a == b => a,
            _ => Self::Several,
        }
    }

    fn bytes(self) -> u64 {
        1
    }

    fn colour(self) -> Option<u8> {
        match self {
            Self::NoProcess => None,
            Self::One(group) => Some(group.min(GROUPS - 1) as u8),
            Self::Several => Some(GROUPS as u8),
        }
    }
}

/// A drawing of bins.
#[derive(Clone, Debug, Default)]
pub(super) struct DrawnBins {
    /// SVG paths; the unit is one bin, and the first row of bins is the lowest.
    pub(super) paths: String,
    /// Number of bins in each direction that are drawn as one.
    pub(super) coarser: usize,
    /// Which colours are used, by number.
    pub(super) has: [bool; GROUPS as usize + 1],
}

/// Draws bins. Merges neighbouring bins until the drawing has at most `most` bytes.
pub(super) fn draw<T: Bin>(cells: &Cells<T>, most: usize) -> DrawnBins {
    let mut coarser = 1;
    let mut current = cells.clone();
    loop {
        let mut drawn = paths(&current, coarser, rows_of(cells));
        if drawn.paths.len() <= most || current.bins.len() <= 1 {
            drawn.coarser = coarser;
            return drawn;
        }
        current = halved(&current);
        coarser *= 2;
    }
}

/// Returns the number of rows of bins.
pub(super) fn rows_of<T>(cells: &Cells<T>) -> usize {
    cells.bins.len() / cells.columns.max(1)
}

/// Merges two by two bins into one.
fn halved<T: Bin>(cells: &Cells<T>) -> Cells<T> {
    let (columns, rows) = (cells.columns.div_ceil(2), rows_of(cells).div_ceil(2));
    let mut bins: Vec<Option<T>> = vec![None; columns * rows];
    for (at, of) in cells.bins.iter().enumerate() {
        let (row, column) = (at / cells.columns / 2, at % cells.columns / 2);
        let sum = &mut bins[row * columns + column];
        *sum = Some(sum.map_or(*of, |sum| sum.join(*of)));
    }
    Cells {
        columns,
        bins: bins.into_iter().flatten().collect(),
    }
}

/// The path of one style. The position of each rectangle is relative to the previous one.
#[derive(Default)]
struct Path {
    text: String,
    at: (i64, i64),
}

impl Path {
    fn rectangle(&mut self, x: usize, y: usize, width: usize, height: usize) {
        let (x, y) = (x as i64, y as i64);
        // a blank between two numbers is only needed if the second has no sign
        let (dx, dy) = (x - self.at.0, y - self.at.1);
        let space = if dy < 0 { "" } else { " " };
        let _ = write!(self.text, "m{dx}{space}{dy}h{width}v{height}h-{width}z");
        self.at = (x, y);
    }
}

fn paths<T: Bin>(cells: &Cells<T>, scale: usize, all_rows: usize) -> DrawnBins {
    let fullest = cells.bins.iter().map(|bin| bin.bytes()).max();
    let fullest = fullest.unwrap_or(0) as f64;
    let style = |bin: &T| -> Option<Style> {
        let share = bin.bytes() as f64 / fullest;
        let depth = SHARES.iter().rposition(|least| share >= *least);
        Some((bin.colour()?, depth.unwrap_or(0) as u8))
    };
    let mut drawn: BTreeMap<Style, Path> = BTreeMap::new();
    // runs of bins in the previous row: first column, length, style, and the row in which the run began
    let mut open: BTreeMap<(usize, usize, Style), usize> = BTreeMap::new();
    let mut end = |runs: BTreeMap<(usize, usize, Style), usize>, row: usize| {
        for ((column, width, style), from) in runs {
            // SVG counts rows from the top, and the last merged row may be cut
            let top = all_rows as i64 - (row * scale) as i64;
            let path = drawn.entry(style).or_default();
            let (top, height) = (top.max(0) as usize, all_rows - from * scale);
            let height = height - top;
            path.rectangle(column * scale, top, width * scale, height);
        }
    };
    let mut rows = 0;
    for (row, of_row) in cells.bins.chunks(cells.columns.max(1)).enumerate() {
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
    let mut all = DrawnBins::default();
    for ((colour, depth), path) in drawn {
        all.has[usize::from(colour)] = true;
        let _ = write!(
            all.paths,
            "<path class=\"{} d{depth}\" d=\"{}\"/>",
            T::COLOURS[usize::from(colour)],
            path.text
        );
    }
    all
}

/// Returns the legend of a drawing: each used colour with its meaning.
pub(super) fn keys_of(has: [bool; GROUPS as usize + 1]) -> Vec<(&'static str, String)> {
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

pub(super) const DEPTHS: &str = "The deepest colour marks bins with at least an eighth of the fullest bin's bytes, the palest bins with less than a 64th.";

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes which bins the rectangles cover, by CSS class; fails if one is covered twice.
    fn covered(drawn: &DrawnBins, columns: usize, rows: usize) -> Vec<Option<&str>> {
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

    fn random(columns: usize, rows: usize) -> Cells<(u64, u64)> {
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
            bins: (0..columns * rows).map(|_| (next(), next())).collect(),
        }
    }

    #[test]
    fn each_bin_is_drawn_once_in_its_colour() {
        let cells = random(37, 11);
        let drawn = draw(&cells, usize::MAX);
        let expected: Vec<Option<&str>> = cells
            .bins
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
            bins: vec![(0, 10); 400],
        };
        let drawn = draw(&cells, usize::MAX);
        assert_eq!(
            drawn.paths,
            "<path class=\"write d2\" d=\"m0 0h40v10h-40z\"/>"
        );
        assert_eq!(drawn.has, [false, true, false, false, false, false, false]);
    }
}
