//! Finds the layouts with the fewest operations for each range of a variable. The operations of a layout are a linear function of the variable.

use super::layout::Layout;
use serde::Serialize;

/// Operations or seconds of a layout at the ends of a range of whole numbers; values between the ends are linear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayoutLine {
    /// The layout.
    pub layout: Layout,
    /// Value at the first number.
    pub first: f64,
    /// Value at the last number.
    pub last: f64,
}

/// A part of the range, and the layouts with the fewest operations in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WinningRange {
    /// First number of the part.
    pub from: u64,
    /// Last number of the part.
    pub to: u64,
    /// The layouts; several if they are equal.
    pub layouts: Vec<Layout>,
}

/// Relative distance below which values are equal.
const EQUAL: f64 = 1e-9;

fn value(line: &LayoutLine, first: u64, last: u64, x: u64) -> f64 {
    if last == first {
        return line.first;
    }
    let part = (x - first) as f64 / (last - first) as f64;
    line.first + (line.last - line.first) * part
}

/// Divides the numbers from `first` to `last` into parts by the layouts with the fewest operations.
pub fn winning_ranges(lines: &[LayoutLine], first: u64, last: u64) -> Vec<WinningRange> {
    if lines.is_empty() || last < first {
        return Vec::new();
    }
    let mut points = vec![first, last];
    for (i, a) in lines.iter().enumerate() {
        for b in &lines[i + 1..] {
            let (begin, end) = (a.first - b.first, a.last - b.last);
            let part = begin / (begin - end);
            if part.is_finite() && (0.0..=1.0).contains(&part) {
                let x = first as f64 + part * (last - first) as f64;
                let near = x.floor() as u64;
                // the best layout changes at a crossing or next to it
                points.extend(
                    (near.saturating_sub(1)..=near.saturating_add(2))
                        .filter(|x| (first..=last).contains(x)),
                );
            }
        }
    }
    points.sort_unstable();
    points.dedup();
    let winners = |x: u64| {
        let of = |line: &LayoutLine| value(line, first, last, x);
        let least = lines.iter().map(of).fold(f64::INFINITY, f64::min);
        let slack = EQUAL * least.abs().max(1.0);
        (lines.iter())
            .filter(|line| of(line) <= least + slack)
            .map(|line| line.layout)
            .collect::<Vec<_>>()
    };
    let mut ranges: Vec<WinningRange> = Vec::new();
    let mut add = |from: u64, to: u64, layouts: Vec<Layout>| match ranges.last_mut() {
        Some(range) if range.layouts == layouts => range.to = to,
        _ => ranges.push(WinningRange { from, to, layouts }),
    };
    for (i, point) in points.iter().enumerate() {
        add(*point, *point, winners(*point));
        if let Some(next) = points.get(i + 1)
            && next - point > 1
        {
            add(point + 1, next - 1, winners(point + (next - point) / 2));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(layout: Layout, first: f64, last: f64) -> LayoutLine {
        LayoutLine {
            layout,
            first,
            last,
        }
    }

    #[test]
    fn ranges_meet_where_lines_cross() {
        // the lines 10 and 4·x
        let lines = [
            line(Layout::Delegated, 10.0, 10.0),
            line(Layout::PerProcess, 4.0, 400.0),
        ];
        let ranges = winning_ranges(&lines, 1, 100);
        let expected = [
            (1, 2, vec![Layout::PerProcess]),
            (3, 100, vec![Layout::Delegated]),
        ];
        let found: Vec<_> = ranges
            .into_iter()
            .map(|r| (r.from, r.to, r.layouts))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_layouts_share_a_number_and_a_span() {
        let lines = [
            line(Layout::Segmented, 5.0, 5.0),
            line(Layout::Strided, 5.0, 5.0),
            line(Layout::Delegated, 9.0, 1.0),
        ];
        let ranges = winning_ranges(&lines, 1, 9);
        let both = vec![Layout::Segmented, Layout::Strided];
        assert_eq!(ranges[0].layouts, both);
        assert_eq!((ranges[0].from, ranges[0].to), (1, 4));
        assert_eq!(
            (ranges[1].from, ranges[1].to, ranges[1].layouts.len()),
            (5, 5, 3)
        );
        assert_eq!((ranges[2].from, ranges[2].to), (6, 9));
        assert_eq!(ranges[2].layouts, [Layout::Delegated]);
    }

    #[test]
    fn every_number_is_in_one_range_and_its_winner_has_the_fewest() {
        let lines = [
            line(Layout::PerProcess, 3.0, 1203.0),
            line(Layout::Segmented, 100.0, 700.0),
            line(Layout::Delegated, 350.0, 351.0),
        ];
        let ranges = winning_ranges(&lines, 1, 400);
        let mut next = 1;
        for range in &ranges {
            assert_eq!(range.from, next);
            for x in range.from..=range.to {
                let of = |l: &LayoutLine| value(l, 1, 400, x);
                let least = lines.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
                assert!(
                    range.layouts.contains(&least.expect("a line").layout),
                    "{x}"
                );
            }
            next = range.to + 1;
        }
        assert_eq!(next, 401);
        assert_eq!(ranges.len(), 3);
    }

    #[test]
    fn an_empty_span_has_no_winner() {
        assert!(winning_ranges(&[], 1, 5).is_empty());
        assert!(winning_ranges(&[line(Layout::Strided, 1.0, 1.0)], 5, 1).is_empty());
        assert_eq!(
            winning_ranges(&[line(Layout::Strided, 1.0, 1.0)], 5, 5).len(),
            1
        );
    }
}
