//! The result as a picture: measured coverage by claim and number of repeats.

use super::repeats::{Claim, Simulated};
use super::{page::claim_in_words, shown::Calibrated};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const ROW: f64 = 22.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 42.0;

/// Range of the axis, percent.
const AXIS: (f64, f64) = (88.0, 100.0);

/// Colours of the classes of numbers of repeats, from Okabe and Ito's palette.
const CLASSES: [(usize, &str, &str); 4] = [
    (3, "2 and 3 repeats", "#d55e00"),
    (6, "4 to 6", "#e69f00"),
    (10, "8 and 10", "#0072b2"),
    (usize::MAX, "more", "#009e73"),
];

/// Renders an SVG document that is legible on light and dark pages.
pub fn picture(result: &Calibrated) -> String {
    let shown: Vec<&Simulated> = result
        .repeats
        .iter()
        .filter(|s| !s.claim.is_false_star() && !s.claim.is_stopped())
        .collect();
    let mut rows: Vec<(Claim, &str)> = shown.iter().map(|s| (s.claim, s.data)).collect();
    rows.dedup();
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let x = |pct: f64| {
        LEFT + (pct.clamp(AXIS.0, AXIS.1) - AXIS.0) / (AXIS.1 - AXIS.0) * (WIDTH - LEFT - RIGHT)
    };
    let foot = height - BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Measured coverage of 95 % intervals of repeats</title>\n\
         <style>text {{ fill: #222 }} .axis {{ stroke: #999 }} @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} }}</style>\n"
    );
    let mut at = LEFT;
    for (_, name, colour) in CLASSES {
        let _ = writeln!(
            svg,
            "<circle cx=\"{at}\" cy=\"20\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" y=\"24\">{name}</text>",
            at + 10.0
        );
        at += 130.0;
    }
    // expected range of a correct simulation with this number of samples
    let samples = shown.first().map_or(1, |s| s.samples.max(1)) as f64;
    let error = 196.0 * (0.95 * 0.05 / samples).sqrt();
    let (low, high) = (x(95.0 - error), x(95.0 + error));
    let _ = writeln!(
        svg,
        "<rect x=\"{low:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#0072b2\" opacity=\"0.15\"/>",
        TOP - 8.0,
        high - low,
        foot - TOP + 8.0
    );
    for tick in [88, 90, 92, 94, 95, 96, 98, 100] {
        let at = x(f64::from(tick));
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{foot}\" opacity=\"0.4\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            TOP - 8.0,
            foot + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">measured coverage, % (band: 95 % and the simulation's own error)</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        foot + 34.0
    );
    for (i, (claim, data)) in rows.iter().enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} ({data})</text>",
            LEFT - 12.0,
            y + 4.0,
            claim_in_words(*claim)
        );
        for s in shown
            .iter()
            .filter(|s| (s.claim, s.data) == (*claim, *data))
        {
            let colour = CLASSES
                .iter()
                .find(|(most, ..)| s.repeats <= *most)
                .map_or("#222", |(_, _, colour)| colour);
            let measured = 100.0 * s.measured();
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\" opacity=\"0.85\"><title>{} repeats: {measured:.1} %</title></circle>",
                x(measured),
                s.repeats
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
