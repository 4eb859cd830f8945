//! Bytes in two-dimensional bins whose ranges grow as needed, in memory that does not depend on the number of events.

/// Most columns of a grid that are used; one position more closes the last.
const MOST_COLUMNS: u64 = 400;

/// Most rows of a grid that are used.
const MOST_ROWS: u64 = 120;

/// Places for columns, a power of two above [`MOST_COLUMNS`].
const COLUMNS: usize = 512;

/// Places for rows, a power of two above [`MOST_ROWS`].
const ROWS: usize = 128;

/// Most bytes of an operation that a bin counts: sums stay far from the largest number whatever a trace claims.
const MOST_BYTES: u64 = 1 << 36;

/// Bins along one axis: they are `2^shift` wide, and the first and the last one in use are known. A bin's place in memory is its number modulo the
/// number of places, so that nothing moves when the range grows to either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    shift: u32,
    first: u64,
    last: u64,
}

impl Axis {
    /// By how much bins must widen to hold `from..=to` too.
    fn widening(&self, from: u64, to: u64, most: u64) -> u32 {
        let (first, last) = (
            self.first.min(from >> self.shift),
            self.last.max(to >> self.shift),
        );
        (0..u64::BITS)
            .find(|more| (last >> more) - (first >> more) < most)
            .unwrap_or(u64::BITS - 1)
    }

    fn extend(&mut self, from: u64, to: u64) -> (u64, u64) {
        let (from, to) = (from >> self.shift, to >> self.shift);
        self.first = self.first.min(from);
        self.last = self.last.max(to);
        (from, to)
    }

    fn widen(&mut self, more: u32) {
        self.shift += more;
        self.first >>= more;
        self.last >>= more;
    }

    /// How many bins are in use.
    fn len(&self) -> usize {
        (self.last - self.first + 1) as usize
    }

    /// Where the first bin begins.
    pub(super) fn start(&self) -> u64 {
        self.first << self.shift
    }

    /// Width of a bin.
    pub(super) fn step(&self) -> u64 {
        1 << self.shift
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// Sums of bytes that are kept as differences to their neighbours: an operation changes four of them, however many bins it covers.
type Plane = Vec<u64>;

/// Reads and writes in bins of two axes.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    axes: Option<(Axis, Axis)>,
    reads: Plane,
    writes: Plane,
}

/// What lies in the bins of a grid, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    /// How many bins a row has.
    pub(super) columns: usize,
    /// Bytes read and written; 0 where nothing was.
    pub(super) bytes: Vec<(u64, u64)>,
}

/// The smallest shift by which a range fits into so many bins.
fn shift_of(from: u64, to: u64, most: u64) -> u32 {
    (0..u64::BITS)
        .find(|shift| (to >> shift) - (from >> shift) < most)
        .unwrap_or(u64::BITS - 1)
}

impl Grid {
    /// Adds an operation that covers `x` and `y`, each from the first to the last value. Its bytes spread evenly over the bins, at least one in each.
    pub(super) fn add(&mut self, kind: Kind, x: (u64, u64), y: (u64, u64), bytes: u64) {
        let x = (x.0, x.1.max(x.0));
        let y = (y.0, y.1.max(y.0));
        let (mut across, mut along) = self.axes.unwrap_or_else(|| {
            let axis = |(from, to): (u64, u64), most| {
                let shift = shift_of(from, to, most);
                Axis {
                    shift,
                    first: from >> shift,
                    last: from >> shift,
                }
            };
            (axis(x, MOST_COLUMNS), axis(y, MOST_ROWS))
        });
        let more = (
            across.widening(x.0, x.1, MOST_COLUMNS),
            along.widening(y.0, y.1, MOST_ROWS),
        );
        if more != (0, 0) {
            self.widen(more);
            across.widen(more.0);
            along.widen(more.1);
        }
        let columns = across.extend(x.0, x.1);
        let rows = along.extend(y.0, y.1);
        self.axes = Some((across, along));
        let bins = (columns.1 - columns.0 + 1) * (rows.1 - rows.0 + 1);
        let each = bytes.min(MOST_BYTES).div_ceil(bins).max(1);
        add_to(self.plane(kind), columns, rows, each);
    }

    fn plane(&mut self, kind: Kind) -> &mut Plane {
        let plane = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        };
        if plane.is_empty() {
            plane.resize(COLUMNS * ROWS, 0);
        }
        plane
    }

    /// Makes one bin of `2^more` of them along each axis.
    fn widen(&mut self, more: (u32, u32)) {
        let Some((across, along)) = self.axes else {
            return;
        };
        for plane in [&mut self.reads, &mut self.writes] {
            if plane.is_empty() {
                continue;
            }
            let old = sums(plane, &across, &along);
            plane.fill(0);
            for (at, bytes) in old.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
                let column = (across.first + (at % across.len()) as u64) >> more.0;
                let row = (along.first + (at / across.len()) as u64) >> more.1;
                add_to(plane, (column, column), (row, row), *bytes);
            }
        }
    }

    /// The axes, of time and of what stands above it; `None` while nothing was added.
    pub(super) fn axes(&self) -> Option<(Axis, Axis)> {
        self.axes
    }

    /// What lies in the bins.
    pub(super) fn cells(&self) -> Cells {
        let Some((across, along)) = self.axes else {
            return Cells::default();
        };
        let of = |plane: &Plane| {
            if plane.is_empty() {
                vec![0; across.len() * along.len()]
            } else {
                sums(plane, &across, &along)
            }
        };
        Cells {
            columns: across.len(),
            bytes: of(&self.reads).into_iter().zip(of(&self.writes)).collect(),
        }
    }

    /// How many numbers it keeps.
    pub(super) fn places(&self) -> usize {
        self.reads.len() + self.writes.len()
    }
}

fn place(column: u64, row: u64) -> usize {
    (row % ROWS as u64) as usize * COLUMNS + (column % COLUMNS as u64) as usize
}

/// Adds to all bins of a rectangle, both ends included.
fn add_to(plane: &mut Plane, columns: (u64, u64), rows: (u64, u64), bytes: u64) {
    let mut change = |column, row, by: u64| {
        let at = &mut plane[place(column, row)];
        *at = at.wrapping_add(by);
    };
    let less = bytes.wrapping_neg();
    change(columns.0, rows.0, bytes);
    // behind the last number is the first: only its place in memory matters
    let (right, top) = (columns.1.wrapping_add(1), rows.1.wrapping_add(1));
    change(right, rows.0, less);
    change(columns.0, top, less);
    change(right, top, bytes);
}

/// The sums that a plane's differences stand for, row by row.
fn sums(plane: &Plane, across: &Axis, along: &Axis) -> Vec<u64> {
    let mut all = Vec::with_capacity(across.len() * along.len());
    let mut above = vec![0u64; across.len()];
    for row in along.first..=along.last {
        let mut left = 0u64;
        for (column, above) in above.iter_mut().enumerate() {
            left = left.wrapping_add(plane[place(across.first + column as u64, row)]);
            *above = above.wrapping_add(left);
            all.push(*above);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was done, when, where, and how many bytes.
    type Operation = (Kind, (u64, u64), (u64, u64), u64);

    /// Which bins operations cover, one by one.
    fn by_hand(grid: &Grid, of: Kind, all: &[Operation]) -> Vec<bool> {
        let (across, along) = grid.axes().expect("something was added");
        let mut filled = Vec::new();
        for row in 0..along.len() as u64 {
            for column in 0..across.len() as u64 {
                let left = across.start() + column * across.step();
                let low = along.start() + row * along.step();
                filled.push(all.iter().any(|(kind, x, y, _)| {
                    *kind == of
                        && x.0 <= left + (across.step() - 1)
                        && x.1 >= left
                        && y.0 <= low + (along.step() - 1)
                        && y.1 >= low
                }));
            }
        }
        filled
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write)];
        let range = |exponent: u32| {
            (0..=exponent, 0..=exponent, any::<u64>(), any::<u64>()).prop_map(|(a, b, x, y)| {
                let from = x % (1 << a);
                (from, from + y % (1 << b))
            })
        };
        (kind, range(40), range(34), 0u64..1 << 30)
    }

    proptest! {
        #[test]
        fn the_bins_that_operations_cover_are_filled_and_no_others(
            all in prop::collection::vec(operation(), 1..40)
        ) {
            let mut grid = Grid::default();
            for (kind, x, y, bytes) in &all {
                grid.add(*kind, *x, *y, *bytes);
            }
            let cells = grid.cells();
            let reads: Vec<bool> = cells.bytes.iter().map(|(read, _)| *read > 0).collect();
            let writes: Vec<bool> = cells.bytes.iter().map(|(_, written)| *written > 0).collect();
            prop_assert_eq!(reads, by_hand(&grid, Kind::Read, &all));
            prop_assert_eq!(writes, by_hand(&grid, Kind::Write, &all));
            prop_assert!(cells.columns as u64 <= MOST_COLUMNS);
            prop_assert!(cells.bytes.len() as u64 <= MOST_COLUMNS * MOST_ROWS);
        }
    }

    #[test]
    fn bytes_in_bins_add_up_as_bins_widen() {
        let mut grid = Grid::default();
        for i in 0..10_000u64 {
            grid.add(
                Kind::Write,
                (1_000_000 + i * 7, 1_000_000 + i * 7),
                (i * 4096, i * 4096),
                4096,
            );
        }
        let written: u64 = grid.cells().bytes.iter().map(|(_, written)| written).sum();
        assert_eq!(written, 10_000 * 4096);
        let (across, _) = grid.axes().expect("something was added");
        assert!(across.start() > 900_000, "an empty time before is not kept");
    }

    #[test]
    fn the_largest_numbers_are_taken() {
        let mut grid = Grid::default();
        let all = [
            (Kind::Write, (0, 0), (0, 0), u64::MAX),
            (
                Kind::Write,
                (u64::MAX, u64::MAX),
                (u64::MAX, u64::MAX),
                u64::MAX,
            ),
            (Kind::Read, (0, u64::MAX), (5, 9), u64::MAX),
        ];
        for (kind, x, y, bytes) in all {
            grid.add(kind, x, y, bytes);
        }
        let filled = |of: fn(&(u64, u64)) -> u64| {
            let cells = grid.cells();
            cells.bytes.iter().filter(|c| of(c) > 0).count()
        };
        assert_eq!(filled(|c| c.1), 2);
        assert_eq!(filled(|c| c.0), grid.cells().columns);
    }

    #[test]
    fn memory_does_not_grow_with_operations() {
        let mut grid = Grid::default();
        for i in 0..100_000u64 {
            grid.add(Kind::Read, (i * i, i * i + 50), (i * 31, i * 31 + 9), 10);
        }
        assert_eq!(grid.places(), COLUMNS * ROWS);
    }
}
