//! The result as a page of the documentation.

use super::repeats::{Claim, Simulated};
use super::{
    predictions::{Coverage, PredictionCoverage},
    shown::Calibrated,
};
use std::fmt::Write;

/// A claim about repeats, in words.
pub fn claim_in_words(claim: Claim) -> &'static str {
    match claim {
        Claim::Mean => "mean of repeats",
        Claim::MeanOfDays => "mean of repeats on five days",
        Claim::Median => "median of repeats",
        Claim::Variation => "coefficient of variation",
        Claim::Ratio => "ratio of independent repeats",
        Claim::PairedRatio => "ratio of pairs",
        Claim::PooledEffect => "effect pooled over three points",
        Claim::AdjustedEffect => "effect that is shown, of eight",
        Claim::Share => "share of runs",
        Claim::FalseStar => "equal repeats called different",
        Claim::PairedFalseStar => "equal pairs called different",
        Claim::Drift => "change over the time of a campaign",
        Claim::PooledMean => "mean of few repeats, by pooled scatter",
        Claim::UnequalPooledMean => "the same, unequal scatter",
        Claim::WidestPooledMean => "the same, the widest point",
        Claim::PooledMeanBesideBad => "the same, beside one bad repeat",
        Claim::DriftingPooledMean => "the same, 1.3 times as slow at the end",
        Claim::StoppedMean => "mean of stopped repeats",
        Claim::StoppedFalseStar => "equal sites of stopped repeats called different",
    }
}

/// Renders the page in Markdown. Its picture is `img/calibration.svg`.
pub fn page(result: &Calibrated) -> String {
    let samples = result.repeats.first().map_or(0, |s| s.samples);
    let mut text = format!(
        "\
# How often intervals hold

Intervals of cvc are made to hold 95 times in 100. This page shows how often they did, where they do not, and of what. `cargo xtask calibrate --page docs` made
it, and anybody can make it again. What is not in these tables is not called a 95 % interval, which a test checks against this page: published bands
(tier `published` of predictions) are the range of the works that they are from, sizes and times with gzip have intervals by the program's own runs alone, and what follows from a checkpoint's time
for a schedule is as good as that time.

![Measured coverage of each interval of repeats, by number of repeats](img/calibration.svg)

## Repeats

By simulation: {samples} samples for each cell, with fixed seeds. A cell is the part of the samples whose interval held the truth, in percent. The
simulation's own error is about ±{:.1} points. The data:

| data | what |
| --- | --- |
| normal, 3, 8 and 30 % | normal values with this standard deviation, in percent of the mean |
| log-normal, 0.2 and 0.5 | with this standard deviation of the logarithm |
| exponential; 1 + 0.1 exponential | a tail; a constant time and a tail |
| one in ten 1.5 times as slow | values that scatter by 1 %, but for one in ten |
| normal, 3 %, half as the one before | each deviation is half that of the run before and half new: neighbours are not independent |

",
        196.0 * (0.95 * 0.05 / samples.max(1) as f64).sqrt()
    );
    let of = |is_star: bool, is_stopped: bool| -> Vec<&Simulated> {
        result
            .repeats
            .iter()
            .filter(|s| s.claim.is_false_star() == is_star && s.claim.is_stopped() == is_stopped)
            .collect()
    };
    text.push_str(&by_repeats("n =", &of(false, false)));
    text.push_str(
        "
Intervals of medians (order statistics) and of shares (Clopper and Pearson) cannot have every level: they have the next one above 95 %. Means of
values with a tail hold less often where repeats are few, because few values do not show the tail; no method helps with values one in ten of which is
slow. **Repeats that are not independent hold far less often, however many there are**: reports warn of them, as of a drift. The intervals are for the
hours of the repeats: what differs from day to day is not in them.

Fewer than five repeats have an interval by the scatter of all points, here of eight. With unequal scatter, the last point scatters nine times as much
as the first: the interval of any of them holds nearly as often as said, that of the widest point less often, because two to four repeats often show
less of its scatter than there is. One repeat that took a thousand times as long leaves the intervals of the other points as they are; its own point has
none. A machine that becomes slower during an interleaved campaign makes all intervals wider, and they hold.
An interval wider than ten times its mean is not shown, and not counted here: alone, two repeats that scatter much hold less often where they have one.

Of eight effects, each of one point, four are none, and four are 5 to 30 %. Intervals are adjusted so that, over all tables, at most 5 % of those of
effects that are shown do not hold; a table that shows none has none that is wrong. It follows that where scatter hides nearly all effects, the few that
are shown are mostly overstated: with log-normal repeats of 0.2 and three of each, 8 % of the tables show an effect, and 45 % of these intervals hold.

### Repeats that end when their interval is narrow

From so many repeats on, to 20 at most, until the interval at 97 % reaches no further than 5 % to either side.

",
    );
    text.push_str(&by_repeats("from", &of(false, true)));
    text.push_str(
        "
Of values that are seldom slow, the runs that would show it may not have been made when the point ends.

## Equal things called different

The same simulations, with two equal sides: the part of the comparisons, in percent, that are marked as different (p at most 0.05, before the table's
adjustment makes it less).

",
    );
    text.push_str(&by_repeats("n =", &of(true, false)));
    text.push_str(
        "
Sites whose repeats ended when their interval was narrow are called different at 3 % from five repeats on, at 2 % of fewer:

",
    );
    text.push_str(&by_repeats("from", &of(true, true)));
    let p = &result.predictions;
    let _ = write!(
        text,
        "
For repeats of one's own machine, [`cvc aa-test CAMPAIGN`](aa-test.md) measures the same.

## Predictions

By leaving programs out: each of {}
is treated as a program that was never seen. Models are trained on one to four of its process counts, and their intervals, which rest on the errors made
with the *other* programs, are held against what was measured at the other counts and classes. Of {} cells, {} ({}) lay inside; {} had no interval. They
are predictions of {} measured numbers, each from many choices of runs. All are of one machine with 2 cores, DMTCP 4.2 and two MPI libraries: of other
machines, this shows the sizes, not the times.

These are measured shares, not a guarantee: of a program unlike these, nothing that rests on {} programs can promise more than {:.0} in 100. The score is
the mean of Winkler's: the width of an interval, and 40 times what lies beyond it, in percent of what was measured; less is better.

",
        p.programs.join(", "),
        p.all.cells,
        p.all.inside,
        percent(p.all.inside, p.all.cells),
        p.all.without_interval,
        p.measured_values,
        p.programs.len(),
        100.0 * p.programs.len() as f64 / (p.programs.len() + 1) as f64
    );
    for (title, rows) in [
        ("quantity", &p.by_quantity),
        ("reach", &p.by_reach),
        ("program left out", &p.by_program),
    ] {
        text.push_str(&coverage(title, rows));
        text.push('\n');
    }
    text.push_str(&by_program(p));
    let (lines, few) = p.lines;
    let _ = write!(
        text,
        "
The table behind these intervals is carried in cvc (normalised conformal prediction). It has three numbers for each quantity and kind of training: the
half width is q·(b + d)·reach^g, where b is the largest error of the program's own runs, each number of processes left out in turn, and reach how far the
prediction lies beyond the runs; without runs that can be left out it is q·reach^g. q is the error, in these terms, that 97 % of the trials stayed below,
every program weighing the same (with 95 %, programs that are left out have too few inside, because the others show too little of the tail); d and g
are those with the least score. {few} of its {lines} lines rest on fewer than three programs; `cvc predict --detail` tells how many stand behind a number.

Times are fitted with the proportions of the parts that the times of other programs have, which the table has, too; where a program is left out, so are
its times. Quantities without comparable trials get the widest interval of their kind; launchers and times over several nodes get stated bounds, too. The interval
of a size that follows from the scatter of one's own runs counts from four degrees of freedom on, where it is the wider one. Zones are by owner in
the runs of `experiments/owner-sizes.csv` (Open MPI, sizes alone), and by the structural rule in those of the other tables (both libraries, and the times);
each is predicted from runs of its own kind, and the table is made of both.
"
    );
    text
}

/// Coverage of each quantity for each program that was left out.
fn by_program(p: &PredictionCoverage) -> String {
    let mut text = format!(
        "Inside, percent, by program that was left out; then the mean over programs, and how much they differ (standard deviation):\n\n\
         | quantity | {} | mean | ± |\n| --- | {} | ---: | ---: |\n",
        p.programs.join(" | "),
        vec!["---:"; p.programs.len()].join(" | ")
    );
    for row in &p.by_quantity_and_program {
        let cells: Vec<String> = row
            .inside_pct
            .iter()
            .map(|pct| pct.map_or("-".to_owned(), |pct| format!("{pct:.1}")))
            .collect();
        let sd = row.sd_pct.map_or("-".to_owned(), |sd| format!("{sd:.1}"));
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {sd} |",
            row.of,
            cells.join(" | "),
            row.mean_pct
        );
    }
    text
}

/// A table with a row for each claim and kind of data, and a column for each number of repeats.
fn by_repeats(column: &str, simulated: &[&Simulated]) -> String {
    let mut repeats: Vec<usize> = simulated.iter().map(|s| s.repeats).collect();
    repeats.sort_unstable();
    repeats.dedup();
    let mut text = format!(
        "| | data | {} |\n| --- | --- | {} |\n",
        repeats
            .iter()
            .map(|n| format!("{column} {n}"))
            .collect::<Vec<_>>()
            .join(" | "),
        vec!["---:"; repeats.len()].join(" | ")
    );
    let mut rows: Vec<(Claim, &str)> = simulated.iter().map(|s| (s.claim, s.data)).collect();
    rows.dedup();
    for (claim, data) in rows {
        let cell = |n: &usize| {
            let found = simulated
                .iter()
                .find(|s| (s.claim, s.data, s.repeats) == (claim, data, *n));
            found.map_or_else(String::new, |s| format!("{:.1}", 100.0 * s.measured()))
        };
        let cells: Vec<String> = repeats.iter().map(cell).collect();
        let _ = writeln!(
            text,
            "| {} | {data} | {} |",
            claim_in_words(claim),
            cells.join(" | ")
        );
    }
    text
}

fn coverage(title: &str, rows: &[Coverage]) -> String {
    let mut text = format!(
        "| {title} | cells | inside | no interval | mean error | median half width | score |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} % | {:.2} % | {:.1} % |",
            row.of,
            row.cells,
            percent(row.inside, row.cells),
            row.without_interval,
            row.mean_error_pct,
            row.half_width_pct,
            row.score_pct
        );
    }
    text
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        "-".to_owned()
    } else {
        format!("{:.1} %", 100.0 * part as f64 / of as f64)
    }
}
