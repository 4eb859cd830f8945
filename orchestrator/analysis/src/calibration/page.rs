//! The result as a page of the documentation.

use super::{predictions::Coverage, shown::Calibrated};
use cvc_model::stats::{Claim, Simulated};
use std::fmt::Write;

/// A claim about repeats, in words.
pub fn claim_in_words(claim: Claim) -> &'static str {
    match claim {
        Claim::Mean => "mean of repeats",
        Claim::Median => "median of repeats",
        Claim::Variation => "coefficient of variation",
        Claim::Ratio => "ratio of independent repeats",
        Claim::PairedRatio => "ratio of pairs",
        Claim::PooledEffect => "effect pooled over three points",
        Claim::Share => "share of runs",
        Claim::FalseStar => "equal repeats called different",
        Claim::PairedFalseStar => "equal pairs called different",
    }
}

/// Renders the page in Markdown. Its picture is `img/calibration.svg`.
pub fn page(result: &Calibrated) -> String {
    let samples = result.repeats.first().map_or(0, |s| s.samples);
    let mut text = format!(
        "\
# How often intervals hold

Every interval that cvc prints says 95 %. This page shows what was measured of that; `cvc calibrate --page docs` made it, and anybody can make it again.
What is not in these tables is not called a 95 % interval: published bands (tier `published` of predictions) are the range of the works that they are
from, sizes with gzip have none, and what follows from a checkpoint's time for a schedule is as good as that time.

![Measured coverage of each interval of repeats, by number of repeats](img/calibration.svg)

## Repeats

By simulation: {samples} samples for each cell, with fixed seeds, of normal values whose standard deviation is 3 or 30 % of the mean, and of log-normal
values with the standard deviation of the logarithm. A cell is the part of the samples whose interval held the truth, in percent. The simulation's own
error is about ±{:.1} points.

",
        196.0 * (0.95 * 0.05 / samples.max(1) as f64).sqrt()
    );
    let stars = |s: &&Simulated| matches!(s.claim, Claim::FalseStar | Claim::PairedFalseStar);
    text.push_str(&by_repeats(&result.repeats.iter().filter(|s| !stars(s)).collect::<Vec<_>>()));
    text.push_str(
        "
Intervals of medians (order statistics) and of shares (Clopper and Pearson) cannot have every level: they have the next one above 95 %. Those of means
of log-normal values hold less often where repeats are few, because few values do not show the tail.

## Equal things called different

The same simulations, with two equal sides: the part of the comparisons, in percent, that are marked as different (p at most 0.05, before the table's
adjustment makes it less).

",
    );
    text.push_str(&by_repeats(&result.repeats.iter().filter(stars).collect::<Vec<_>>()));
    let p = &result.predictions;
    let _ = write!(
        text,
        "
For repeats of one's own machine, [`cvc compare --a-a`](compare.md) measures the same.

## Predictions

By leaving programs out: each of {}
is treated as a program that was never seen. Models are trained on one to four of its process counts, and their intervals, which rest on the errors made
with the *other* programs, are held against what was measured at the other counts and classes. Of {} cells, {} ({}) lay inside; {} had no interval. All are of one machine with 2 cores, DMTCP 4.2 and two MPI libraries: of other machines, this shows the
sizes, not the times.

",
        p.programs.join(", "),
        p.all.cells,
        p.all.inside,
        percent(p.all.inside, p.all.cells),
        p.all.without_interval
    );
    for (title, rows) in [("quantity", &p.by_quantity), ("reach", &p.by_reach), ("program left out", &p.by_program)] {
        text.push_str(&coverage(title, rows));
        text.push('\n');
    }
    text.push_str(
        "\
The table behind these intervals is carried in cvc: for each quantity, library, and kind of training it has the relative error that 95 of 100 trials
stayed below (conformal prediction). What no trial is like, such as launchers and times over several nodes, has an interval from stated bounds, or none
and the reason. Where repeats of one's own runs scatter by more, the interval is as wide as these say.
",
    );
    text
}

/// A table with a row for each claim and kind of data, and a column for each number of repeats.
fn by_repeats(simulated: &[&Simulated]) -> String {
    let mut repeats: Vec<usize> = simulated.iter().map(|s| s.repeats).collect();
    repeats.sort_unstable();
    repeats.dedup();
    let mut text = format!(
        "| | data | {} |\n| --- | --- | {} |\n",
        repeats.iter().map(|n| format!("n = {n}")).collect::<Vec<_>>().join(" | "),
        vec!["---:"; repeats.len()].join(" | ")
    );
    let mut rows: Vec<(Claim, &str)> = simulated.iter().map(|s| (s.claim, s.data)).collect();
    rows.dedup();
    for (claim, data) in rows {
        let cell = |n: &usize| {
            let found = simulated.iter().find(|s| (s.claim, s.data, s.repeats) == (claim, data, *n));
            found.map_or_else(String::new, |s| format!("{:.1}", 100.0 * s.measured()))
        };
        let cells: Vec<String> = repeats.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {data} | {} |", claim_in_words(claim), cells.join(" | "));
    }
    text
}

fn coverage(title: &str, rows: &[Coverage]) -> String {
    let mut text = format!(
        "| {title} | cells | inside | no interval | mean error | median half width |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} % | {:.2} % |",
            row.of,
            row.cells,
            percent(row.inside, row.cells),
            row.without_interval,
            row.mean_error_pct,
            row.half_width_pct
        );
    }
    text
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / of as f64) }
}
