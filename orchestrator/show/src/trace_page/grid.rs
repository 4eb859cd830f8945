//! Sums of bytes in two-dimensional bins. The range of the bins grows as needed, while the memory does not depend on the number of events.

/// Maximum number of columns of a grid in use. Storage for one more is needed, because a difference is stored after the last column.
const MAX_COLUMNS: u64 = 400;

/// Maximum number of rows of a grid in use.
const MAX_ROWS: u64 = 120;

/// Number of columns in memory: a power of two above [`MAX_COLUMNS`].
const COLUMNS: usize = 512;

/// Number of rows in memory: a power of two above [`MAX_ROWS`].
const ROWS: usize = 128;

/// Maximum bytes counted for an operation, so that sums cannot overflow.
const MAX_BYTES: u64 = 1 << 36;

/// The bins along one axis: their width is `2^shift`, and `first` and `last` are the numbers of the bins in use. A bin's index in memory is its
/// number modulo the number of bins in memory, so that no bin moves when the range grows to either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    shift: u32,
    first: u64,
    last: u64,
}

impl Axis {
    /// Returns the amount by which `shift` must grow so that at most `most` bins cover both the present range and `from..=to`.
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

    /// Returns the number of bins in use.
    fn len(&self) -> usize {
        (self.last - self.first + 1) as usize
    }

    /// Returns the value at which the first bin starts.
    pub(super) fn start(&self) -> u64 {
        self.first << self.shift
    }

    /// Returns the width of a bin.
    pub(super) fn step(&self) -> u64 {
        1 << self.shift
    }
}

/// The kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GridKind {
    Read,
    Write,
}

/// Sums of bytes, stored as differences between neighbouring bins: an operation changes only four numbers, no matter how many bins it covers.
type Plane = Vec<u64>;

/// Bytes read and written, in bins of two axes.
#[derive(Clone, Debug, Default)]
pub(super) struct GridFigure {
    axes: Option<(Axis, Axis)>,
    reads: Plane,
    writes: Plane,
}

/// The contents of all bins of a grid, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells<T> {
    /// Number of bins in a row.
    pub(super) columns: usize,
    /// The content of each bin.
    pub(super) bins: Vec<T>,
}

/// Which processes used a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    NoProcess,
    /// One process, with its number.
    One(u64),
    Several,
}

/// The processes that used each bin. Three sums show whether a single process made all operations in a bin, and which one: the number of operations,
/// the sum of the processes' numbers, and the sum of the squares of these numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    /// Two of the sums in one grid: the grid's reads hold the number of operations, its writes hold the sum of the process numbers.
    numbers: GridFigure,
    squares: GridFigure,
}

/// Processes with this number or a higher one are not distinguished, so that sums of squares cannot overflow.
const MAX_NUMBER: u64 = 1 << 16;

impl Users {
    /// Adds an operation of a process.
    pub(super) fn add(&mut self, process: u64, x: (u64, u64), y: (u64, u64)) {
        let process = process.min(MAX_NUMBER);
        let (columns, rows) = self.numbers.cover(x, y);
        add_to(self.numbers.plane(GridKind::Read), columns, rows, 1);
        add_to(self.numbers.plane(GridKind::Write), columns, rows, process);
        let (columns, rows) = self.squares.cover(x, y);
        add_to(
            self.squares.plane(GridKind::Read),
            columns,
            rows,
            process * process,
        );
    }

    pub(super) fn axes(&self) -> Option<(Axis, Axis)> {
        self.numbers.axes()
    }

    /// Returns which processes used each bin.
    pub(super) fn cells(&self) -> Cells<User> {
        let (numbers, squares) = (self.numbers.cells(), self.squares.cells());
        let bins = numbers.bins.iter().zip(&squares.bins);
        let user = |((operations, sum), (square, _)): (&(u64, u64), &(u64, u64))| {
            let (n, sum, square) = (
                u128::from(*operations),
                u128::from(*sum),
                u128::from(*square),
            );
            match n {
                0 => User::NoProcess,
                // by the Cauchy-Schwarz inequality, the two sides are equal only if all numbers are
                n if n * square == sum * sum => User::One((sum / n) as u64),
                _ => User::Several,
            }
        };
        Cells {
            columns: numbers.columns,
            bins: bins.map(user).collect(),
        }
    }

    /// Returns how many numbers are stored in memory.
    pub(super) fn places(&self) -> usize {
        self.numbers.places() + self.squares.places()
    }
}

/// Returns the smallest shift with which at most `most` bins cover a range.
fn shift_of(from: u64, to: u64, most: u64) -> u32 {
    (0..u64::BITS)
        .find(|shift| (to >> shift) - (from >> shift) < most)
        .unwrap_or(u64::BITS - 1)
}

impl GridFigure {
    /// Adds an operation that covers the ranges `x` and `y`, both ends included. Its bytes are divided evenly among the bins, with at least one byte
    /// in each.
    pub(super) fn add(&mut self, kind: GridKind, x: (u64, u64), y: (u64, u64), bytes: u64) {
        let (columns, rows) = self.cover(x, y);
        let bins = (columns.1 - columns.0 + 1) * (rows.1 - rows.0 + 1);
        let each = bytes.min(MAX_BYTES).div_ceil(bins).max(1);
        add_to(self.plane(kind), columns, rows, each);
    }

    /// Makes the grid cover the ranges `x` and `y`, and returns the numbers of their bins.
    fn cover(&mut self, x: (u64, u64), y: (u64, u64)) -> ((u64, u64), (u64, u64)) {
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
            (axis(x, MAX_COLUMNS), axis(y, MAX_ROWS))
        });
        let more = (
            across.widening(x.0, x.1, MAX_COLUMNS),
            along.widening(y.0, y.1, MAX_ROWS),
        );
        if more != (0, 0) {
            self.widen(more);
            across.widen(more.0);
            along.widen(more.1);
        }
        let columns = across.extend(x.0, x.1);
        let rows = along.extend(y.0, y.1);
        self.axes = Some((across, along));
        (columns, rows)
    }

    fn plane(&mut self, kind: GridKind) -> &mut Plane {
        let plane = match kind {
            GridKind::Read => &mut self.reads,
            GridKind::Write => &mut self.writes,
        };
        if plane.is_empty() {
            plane.resize(COLUMNS * ROWS, 0);
        }
        plane
    }

    /// Merges `2^more` neighbouring bins into one, along each axis.
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

    /// Returns the axes of time and of the vertical quantity; `None` if nothing was added.
    pub(super) fn axes(&self) -> Option<(Axis, Axis)> {
        self.axes
    }

    /// Returns the bytes read and written in each bin.
    pub(super) fn cells(&self) -> Cells<(u64, u64)> {
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
            bins: of(&self.reads).into_iter().zip(of(&self.writes)).collect(),
        }
    }

    /// Returns how many numbers are stored in memory.
    pub(super) fn places(&self) -> usize {
        self.reads.len() + self.writes.len()
    }
}

fn place(column: u64, row: u64) -> usize {
    (row % ROWS as u64) as usize * COLUMNS + (column % COLUMNS as u64) as usize
}

/// Adds bytes to all bins of a rectangle; both ends of each range are included.
fn add_to(plane: &mut Plane, columns: (u64, u64), rows: (u64, u64), bytes: u64) {
    let mut change = |column, row, by: u64| {
        let at = &mut plane[place(column, row)];
        *at = at.wrapping_add(by);
    };
    let less = bytes.wrapping_neg();
    change(columns.0, rows.0, bytes);
    // a bin number after the largest integer wraps to 0, which gives the same index in memory
    let (right, top) = (columns.1.wrapping_add(1), rows.1.wrapping_add(1));
    change(right, rows.0, less);
    change(columns.0, top, less);
    change(right, top, bytes);
}

/// Returns the sums that the differences of a plane stand for, row by row.
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

    /// Kind, time range, offset range and bytes of an operation.
    type Operation = (GridKind, (u64, u64), (u64, u64), u64);

    /// Computes which bins the operations cover, bin by bin.
    fn by_hand(grid: &GridFigure, of: GridKind, all: &[Operation]) -> Vec<bool> {
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
        let kind = prop_oneof![Just(GridKind::Read), Just(GridKind::Write)];
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
            let mut grid = GridFigure::default();
            for (kind, x, y, bytes) in &all {
                grid.add(*kind, *x, *y, *bytes);
            }
            let cells = grid.cells();
            let reads: Vec<bool> = cells.bins.iter().map(|(read, _)| *read > 0).collect();
            let writes: Vec<bool> = cells.bins.iter().map(|(_, written)| *written > 0).collect();
            prop_assert_eq!(reads, by_hand(&grid, GridKind::Read, &all));
            prop_assert_eq!(writes, by_hand(&grid, GridKind::Write, &all));
            prop_assert!(cells.columns as u64 <= MAX_COLUMNS);
            prop_assert!(cells.bins.len() as u64 <= MAX_COLUMNS * MAX_ROWS);
        }
    }

    #[test]
    fn bins_know_whether_one_process_used_them() {
        let mut users = Users::default();
        for i in 0..2000u64 {
            let process = i / 500;
            users.add(process, (i * 10, i * 10), (i * 4096, i * 4096 + 4095));
        }
        let cells = users.cells();
        let of = |user: User| cells.bins.iter().filter(|bin| **bin == user).count();
        assert!((0..4).all(|process| of(User::One(process)) > 20));
        // bins at the borders between the four parts have several users
        assert!(of(User::Several) <= 3 && of(User::One(4)) == 0);
        users.add(1, (0, 20_000), (0, 4096 * 2000 - 1));
        let cells = users.cells();
        assert!(
            cells
                .bins
                .iter()
                .all(|bin| *bin == User::Several || *bin == User::One(1))
        );
    }

    #[test]
    fn bytes_in_bins_add_up_as_bins_widen() {
        let mut grid = GridFigure::default();
        for i in 0..10_000u64 {
            grid.add(
                GridKind::Write,
                (1_000_000 + i * 7, 1_000_000 + i * 7),
                (i * 4096, i * 4096),
                4096,
            );
        }
        let written: u64 = grid.cells().bins.iter().map(|(_, written)| written).sum();
        assert_eq!(written, 10_000 * 4096);
        let (across, _) = grid.axes().expect("something was added");
        assert!(across.start() > 900_000, "an empty time before is not kept");
    }

    #[test]
    fn the_largest_numbers_are_taken() {
        let mut grid = GridFigure::default();
        let all = [
            (GridKind::Write, (0, 0), (0, 0), u64::MAX),
            (
                GridKind::Write,
                (u64::MAX, u64::MAX),
                (u64::MAX, u64::MAX),
                u64::MAX,
            ),
            (GridKind::Read, (0, u64::MAX), (5, 9), u64::MAX),
        ];
        for (kind, x, y, bytes) in all {
            grid.add(kind, x, y, bytes);
        }
        let filled = |of: fn(&(u64, u64)) -> u64| {
            let cells = grid.cells();
            cells.bins.iter().filter(|c| of(c) > 0).count()
        };
        assert_eq!(filled(|c| c.1), 2);
        assert_eq!(filled(|c| c.0), grid.cells().columns);
    }

    #[test]
    fn memory_does_not_grow_with_operations() {
        let mut grid = GridFigure::default();
        for i in 0..100_000u64 {
            grid.add(
                GridKind::Read,
                (i * i, i * i + 50),
                (i * 31, i * 31 + 9),
                10,
            );
        }
        assert_eq!(grid.places(), COLUMNS * ROWS);
    }
}
