//! Compares series of checkpoints with a paper's claims: how much each method stores, and when ADCA moves its base.

use super::{
    definition::{PrintedSwitch, SeriesClaim, SeriesDefinition},
    measured::MeasuredSeries,
    runs::{CampaignMeasurements, has},
};
use cvc_core::units::{counted, size};
use cvc_delta::{Matrix, MatrixChoice, Method, Threshold};
use cvc_index::{SeriesStored, error::AnalysisError};
use cvc_show::{Block, Cell, Column, LinePlot, Table};
use serde::Serialize;

/// A range of thresholds (ratios) of the method ADCA. With every threshold in the range, the base moves at the same checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchRange {
    /// The minimum of the range.
    pub from: f64,
    /// The end of the range, exclusive; `None` if unlimited.
    pub below: Option<f64>,
    /// Checkpoints at which the base moves, counted from 1.
    pub switches: Vec<usize>,
    /// Maximum number of files needed to restore a checkpoint.
    pub files: u32,
    /// Total bytes of blocks stored for all checkpoints.
    pub bytes: u64,
}

impl SwitchRange {
    /// Returns a threshold inside the range and far from both ends.
    fn middle(&self) -> f64 {
        self.below
            .map_or(self.from + 1.0, |below| f64::midpoint(self.from, below))
    }
}

/// Returns all thresholds from 1 on, divided into ranges in which the base moves at the same checkpoints. Ranges can only end at ratios of two
/// volumes.
pub fn switch_ranges(matrix: &Matrix) -> Vec<SwitchRange> {
    let mut ratios = vec![1.0];
    for newer in 1..matrix.len() {
        let previous = matrix.changed(newer, newer - 1) as f64;
        if previous > 0.0 {
            let of = (0..newer).map(|older| matrix.changed(newer, older) as f64 / previous);
            ratios.extend(of.filter(|ratio| *ratio > 1.0));
        }
    }
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    let mut ranges: Vec<SwitchRange> = Vec::new();
    for (ratio, switches) in matrix.switches_by_ratio(&ratios) {
        let switches: Vec<usize> = switches.iter().map(|t| t + 1).collect();
        if let Some(last) = ranges.last_mut() {
            if last.switches == switches {
                continue;
            }
            last.below = Some(ratio);
        }
        let choices = adca(matrix, ratio);
        ranges.push(SwitchRange {
            from: ratio,
            below: None,
            switches,
            files: choices.iter().map(|c| c.files).max().unwrap_or(0),
            bytes: choices.iter().map(|c| c.bytes).sum(),
        });
    }
    ranges
}

fn adca(matrix: &Matrix, ratio: f64) -> Vec<MatrixChoice> {
    matrix.choices(Method::Adca {
        threshold: Threshold::Ratio(ratio),
    })
}

/// A claim of a paper, with the result measured here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: String,
    /// The result measured here.
    pub found: String,
    /// Whether the result agrees with the claim; `None` if undecided.
    pub holds: Option<bool>,
}

/// A measured series with a paper's claims about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedSeries {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Caption: what the section shows.
    pub caption: String,
    /// Name of the campaign; `None` if nothing was measured.
    pub campaign: Option<String>,
    /// Number of checkpoints.
    pub checkpoints: usize,
    /// Time of each checkpoint, seconds.
    pub at_s: Vec<f64>,
    /// For each method, its name and the bytes of blocks stored for each checkpoint.
    pub volumes: Vec<(String, Vec<u64>)>,
    /// Ranges of ADCA's thresholds, with the checkpoints at which the base moves.
    pub ranges: Vec<SwitchRange>,
    /// The paper's claims.
    pub claims: Vec<JudgedClaim>,
    /// Sizes and times of the stored files.
    pub files: Vec<StoredFiles>,
    /// The reason why nothing was measured.
    pub missing: Option<String>,
}

/// The files of a series that were stored with the same method, codec and block size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredFiles {
    /// The method.
    pub method: String,
    /// The codec.
    pub codec: String,
    /// Bytes of a block.
    pub block: u32,
    /// Number of files.
    pub files: usize,
    /// Total bytes of the files.
    pub bytes: f64,
    /// Whether they were stored while the program ran and used the cores, so that their times are not comparable.
    pub is_live: bool,
    /// Mean seconds to store a file, without the first file, which is a full checkpoint.
    pub store_s: Option<f64>,
    /// Mean seconds to restore a checkpoint.
    pub restore_s: Option<f64>,
}

/// Joins the series in a paper's definition with the measurements.
pub(super) fn join(
    wanted: &[SeriesDefinition],
    measured: &CampaignMeasurements,
) -> Vec<JoinedSeries> {
    wanted.iter().map(|w| one(w, measured)).collect()
}

fn one(wanted: &SeriesDefinition, measured: &CampaignMeasurements) -> JoinedSeries {
    let mut joined = JoinedSeries {
        id: wanted.id.clone(),
        title: wanted.title.clone(),
        caption: wanted.caption.clone(),
        campaign: None,
        checkpoints: 0,
        at_s: Vec::new(),
        volumes: Vec::new(),
        ranges: Vec::new(),
        claims: Vec::new(),
        files: Vec::new(),
        missing: None,
    };
    let fitting = measured
        .series
        .iter()
        .filter(|s| has(&s.factors, &wanted.point));
    // the longest series; among equally long ones, that of the first campaign
    let mut found: Option<&MeasuredSeries> = None;
    for series in fitting {
        if found.is_none_or(|f| f.matrix.len() < series.matrix.len()) {
            found = Some(series);
        }
    }
    let Some(found) = found.filter(|f| f.matrix.len() > 1) else {
        joined.missing = Some(why_not(wanted, measured));
        return joined;
    };
    let matrix = &found.matrix;
    joined.campaign = Some(found.campaign.clone());
    joined.checkpoints = matrix.len();
    joined.at_s.clone_from(&matrix.taken_s);
    joined.ranges = switch_ranges(matrix);
    let of = |method: Method| -> Vec<u64> {
        let choices = matrix.choices(method);
        choices.iter().map(|c| c.bytes).collect()
    };
    joined.volumes = vec![
        ("differential".to_owned(), of(Method::Differential)),
        ("incremental".to_owned(), of(Method::Incremental)),
        ("ADCA, threshold 2".to_owned(), volumes(matrix, 2.0)),
    ];
    let once = once(&joined.ranges, wanted.printed.as_ref());
    if let Some(range) = once {
        let name = format!("ADCA, threshold {:.2}", range.middle());
        joined.volumes.push((name, volumes(matrix, range.middle())));
    }
    let once = once.cloned();
    joined.claims = wanted
        .claims
        .iter()
        .map(|claim| judge(*claim, wanted, matrix, once.as_ref(), &joined.ranges))
        .collect();
    joined.files = stored(found);
    joined
}

fn volumes(matrix: &Matrix, ratio: f64) -> Vec<u64> {
    adca(matrix, ratio).iter().map(|c| c.bytes).collect()
}

/// Returns a range of thresholds for which the base moves once: the range in which it moves at the printed checkpoint or, if there is none, the
/// widest range.
fn once<'r>(ranges: &'r [SwitchRange], printed: Option<&PrintedSwitch>) -> Option<&'r SwitchRange> {
    let of = || ranges.iter().filter(|r| r.switches.len() == 1);
    let as_printed = printed.and_then(|p| of().find(|r| r.switches == [p.switch as usize]));
    let width = |r: &SwitchRange| r.below.map_or(f64::INFINITY, |below| below - r.from);
    as_printed.or_else(|| of().max_by(|a, b| width(a).total_cmp(&width(b))))
}

fn why_not(wanted: &SeriesDefinition, measured: &CampaignMeasurements) -> String {
    let left_out = measured
        .left_out
        .iter()
        .find(|p| has(&p.factors, &wanted.point));
    if let Some(point) = left_out {
        return point.reason.clone();
    }
    let problem = measured
        .points
        .iter()
        .filter(|p| has(&p.factors, &wanted.point))
        .find_map(|p| p.problem.clone());
    problem.unwrap_or_else(|| {
        if measured.points.is_empty() && measured.left_out.is_empty() {
            "no campaign has been run".to_owned()
        } else {
            "no run of a campaign has a series of such a program".to_owned()
        }
    })
}

/// A stored volume counts as constant if its mean over the last third of the checkpoints is at most this multiple of its value at the second
/// checkpoint.
const STAYS: f64 = 1.5;
/// Minimum difference of two volumes, relative to the smaller one, for deciding which of them a third volume is closer to.
const MIN_DIFFERENCE: f64 = 0.1;

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

/// Returns the bytes stored for the second checkpoint, and the mean bytes over the last third of the checkpoints.
fn ends(volumes: &[u64]) -> (f64, f64) {
    let deltas = volumes.get(1..).unwrap_or_default();
    let third = (deltas.len() / 3).max(1).min(deltas.len());
    let first = deltas.first().map_or(0.0, |v| *v as f64);
    (first, mean(&deltas[deltas.len() - third..]))
}

/// Returns the growth of a volume as a ratio and as text. There is no ratio if nothing was stored for the second checkpoint.
fn growth(volumes: &[u64]) -> (Option<f64>, String) {
    let (first, last) = ends(volumes);
    let times = (first > 0.0).then(|| last / first);
    let multiple = times.map_or_else(
        || "no ratio, because nothing was stored for the second checkpoint".to_owned(),
        |times| format!("× {times:.2}"),
    );
    let text = format!(
        "{} of the second checkpoint, {} of each in the last third: {multiple}",
        size(first),
        size(last)
    );
    (times, text)
}

fn list(switches: &[usize]) -> String {
    let all: Vec<String> = switches.iter().map(usize::to_string).collect();
    all.join(", ")
}

fn span(range: &SwitchRange) -> String {
    range.below.map_or_else(
        || format!("from {:.3} on", range.from),
        |below| format!("from {:.3} to less than {below:.3}", range.from),
    )
}

fn judge(
    claim: SeriesClaim,
    wanted: &SeriesDefinition,
    matrix: &Matrix,
    once: Option<&SwitchRange>,
    ranges: &[SwitchRange],
) -> JudgedClaim {
    let bytes = |method: Method| -> Vec<u64> {
        let choices = matrix.choices(method);
        choices.iter().map(|c| c.bytes).collect()
    };
    let (claim, found, holds) = match claim {
        SeriesClaim::DifferentialGrows => {
            let (times, found) = growth(&bytes(Method::Differential));
            let claim = "the volume of a differential checkpoint grows";
            (claim.to_owned(), found, times.map(|t| t > STAYS))
        }
        SeriesClaim::IncrementalStays => {
            let (times, found) = growth(&bytes(Method::Incremental));
            let claim = "the volume of an incremental checkpoint does not";
            (claim.to_owned(), found, times.map(|t| t <= STAYS))
        }
        SeriesClaim::AdcaNearIncremental => {
            let total = |volumes: &[u64]| mean(volumes.get(1..).unwrap_or_default());
            let ratio = once.map_or(2.0, SwitchRange::middle);
            let (adca, incremental, differential) = (
                total(&volumes(matrix, ratio)),
                total(&bytes(Method::Incremental)),
                total(&bytes(Method::Differential)),
            );
            let mut found = format!(
                "with the threshold {ratio:.2}, ADCA stores {} of a checkpoint on average, incremental {}, differential {}",
                size(adca),
                size(incremental),
                size(differential)
            );
            let nearest = incremental.min(differential);
            let is_distinct =
                (differential - incremental).abs() >= MIN_DIFFERENCE * nearest && nearest > 0.0;
            if !is_distinct {
                found.push_str(&format!(
                    "; the last two differ by less than {:.0} %, so it is undecided which one ADCA is nearer to",
                    100.0 * MIN_DIFFERENCE
                ));
            }
            let holds =
                is_distinct.then(|| (adca - incremental).abs() <= (differential - adca).abs());
            (
                "ADCA is nearer to incremental than to differential".to_owned(),
                found,
                holds,
            )
        }
        SeriesClaim::OneSwitch => {
            let (claim, found, holds) = one_switch(wanted.printed.as_ref(), matrix, ranges);
            (claim, found, Some(holds))
        }
        SeriesClaim::FilesToRestore => {
            let (claim, found, holds) = files(wanted.printed.as_ref(), matrix, once);
            (claim, found, Some(holds))
        }
    };
    JudgedClaim {
        claim,
        found,
        holds,
    }
}

fn one_switch(
    printed: Option<&PrintedSwitch>,
    matrix: &Matrix,
    ranges: &[SwitchRange],
) -> (String, String, bool) {
    let of: Vec<&SwitchRange> = ranges.iter().filter(|r| r.switches.len() == 1).collect();
    let each: Vec<String> = of
        .iter()
        .map(|r| format!("at t = {} {}", list(&r.switches), span(r)))
        .collect();
    let found = if each.is_empty() {
        "no threshold moves it once".to_owned()
    } else {
        format!(
            "of {}, once with these thresholds: {}",
            counted(matrix.len(), "checkpoint"),
            each.join("; ")
        )
    };
    match printed {
        Some(p) => (
            format!(
                "of {} checkpoints, the base moves once, at t = {}, with a threshold that is not printed",
                p.checkpoints, p.switch
            ),
            found,
            of.iter().any(|r| r.switches == [p.switch as usize])
                && matrix.len() == p.checkpoints as usize,
        ),
        None => (
            "there is a threshold with which the base moves once".to_owned(),
            found,
            !of.is_empty(),
        ),
    }
}

fn files(
    printed: Option<&PrintedSwitch>,
    matrix: &Matrix,
    once: Option<&SwitchRange>,
) -> (String, String, bool) {
    let (before, after) = printed.map_or((2, 3), |p| (p.files_before, p.files_after));
    let claim = format!("{before} files restore a checkpoint up to the switch, {after} afterwards");
    let Some(range) = once else {
        return (claim, "no threshold moves the base once".to_owned(), false);
    };
    let choices = adca(matrix, range.middle());
    let switch = range.switches.first().copied().unwrap_or(1);
    let most = |of: &[MatrixChoice]| of.iter().map(|c| c.files).max().unwrap_or(0);
    let (until, then) = choices.split_at(switch.min(choices.len()));
    let found = format!(
        "with the threshold {:.2}: at most {} up to t = {switch}, at most {} afterwards",
        range.middle(),
        counted(most(until), "file"),
        most(then)
    );
    (
        claim,
        found,
        most(until) == before && (then.is_empty() || most(then) == after),
    )
}

fn stored(of: &MeasuredSeries) -> Vec<StoredFiles> {
    let [bytes, store_s, restore_s] = &of.files;
    let mut all: Vec<StoredFiles> = Vec::new();
    for record in bytes {
        let is_same = |f: &StoredFiles| {
            f.method == record.method && f.codec == record.codec && f.block == record.block
        };
        if let Some(known) = all.iter_mut().find(|f| is_same(f)) {
            known.files += 1;
            known.bytes += record.value;
            continue;
        }
        let same = |records: &'_ [SeriesStored]| -> Vec<(u32, bool, f64)> {
            records
                .iter()
                .filter(|r| {
                    r.method == record.method && r.codec == record.codec && r.block == record.block
                })
                .map(|r| (r.ckpt, r.is_live, r.value))
                .collect()
        };
        let mean_of = |records: &[SeriesStored], first: u32| {
            let values: Vec<f64> = same(records)
                .into_iter()
                .filter(|(ckpt, ..)| *ckpt >= first)
                .map(|(.., value)| value)
                .collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        all.push(StoredFiles {
            method: record.method.clone(),
            codec: record.codec.clone(),
            block: record.block,
            files: 1,
            bytes: record.value,
            is_live: same(store_s).iter().any(|(_, is_live, _)| *is_live),
            store_s: mean_of(store_s, 2),
            restore_s: mean_of(restore_s, 1),
        });
    }
    all
}

/// Returns one sentence about the result, for a terminal.
#[must_use]
pub fn describe_series(series: &JoinedSeries) -> String {
    if let Some(why) = &series.missing {
        return format!("{}: not measured: {why}", series.title);
    }
    let holding = series.claims.iter().filter(|c| c.holds == Some(true));
    let holding = holding.count();
    let mut text = format!(
        "{}: {}",
        series.title,
        counted(series.checkpoints, "checkpoint")
    );
    if !series.claims.is_empty() {
        text.push_str(&format!(
            "; {holding} of {} hold",
            counted(series.claims.len(), "statement")
        ));
    }
    for claim in &series.claims {
        let how = match claim.holds {
            Some(true) => continue,
            Some(false) => "not that",
            None => "undecided whether",
        };
        text.push_str(&format!("; {how} {}: {}", claim.claim, claim.found));
    }
    text
}

/// Number of thresholds in the plot of base moves over thresholds.
const THRESHOLDS: usize = 61;
/// Maximum number of ranges that a report shows without folding.
const MAX_SHOWN: usize = 24;

/// Returns the blocks of a report about a series.
pub(super) fn blocks(series: &JoinedSeries) -> Result<Vec<Block>, AnalysisError> {
    let mut blocks = Vec::new();
    if let Some(why) = &series.missing {
        let text = format!("{}: not measured: {why}.", series.title);
        return Ok(vec![Block::Warning { text }]);
    }
    blocks.push(Block::Text {
        text: format!(
            "{}. {} Measured by the campaign {}.",
            series.title,
            series.caption,
            series.campaign.as_deref().unwrap_or_default()
        ),
    });
    if !series.claims.is_empty() {
        blocks.push(Block::Table(claims(series)));
    }
    let numbers = (2..=series.checkpoints).map(|t| t.to_string());
    let lines = series.volumes.iter().map(|(name, volumes)| {
        let later = volumes.iter().skip(1).map(|v| Some(*v as f64));
        (name.clone(), later.collect())
    });
    let volume = LinePlot {
        id: format!("volume-{}", series.id),
        title: format!("Volume of each checkpoint: {}", series.title),
        caption: "Blocks (pages) that each method stores of a checkpoint, uncompressed. All methods store the first checkpoint in full; it is not drawn."
            .to_owned(),
        along: "checkpoint".to_owned(),
        categories: numbers.collect(),
        axis: "stored".to_owned(),
        unit: Some("bytes"),
        series: lines.collect(),
    };
    blocks.push(Block::Plot(volume.draw()?));
    blocks.push(Block::Plot(curve(series).draw()?));
    blocks.push(Block::Table(switches(series)));
    blocks.push(Block::Table(volume_table(series)));
    if !series.files.is_empty() {
        blocks.push(Block::Table(files_table(series)));
    }
    Ok(blocks)
}

fn claims(series: &JoinedSeries) -> Table {
    let mut table = Table::new(
        &format!("claims-{}", series.id),
        &format!("Statements of the paper: {}", series.title),
        "Statements of the paper's text, whose numbers are not in a table, with the results here.",
        vec![
            Column::plain("claim", "statement"),
            Column::plain("found", "result here"),
            Column::plain("holds", "agrees"),
        ],
    );
    table.rows = series
        .claims
        .iter()
        .map(|c| {
            let holds = match c.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "undecided",
            };
            vec![
                Cell::text(c.claim.clone()),
                Cell::text(c.found.clone()),
                Cell::text(holds),
            ]
        })
        .collect();
    table
}

/// Returns the plot of the number of base moves over the threshold.
fn curve(series: &JoinedSeries) -> LinePlot {
    // beyond the last range the number is constant
    let last = series.ranges.last().map_or(1.0, |r| r.from);
    let step = (last * 1.1 - 1.0).max(0.1) / (THRESHOLDS - 1) as f64;
    let thresholds: Vec<f64> = (0..THRESHOLDS).map(|i| 1.0 + step * i as f64).collect();
    let at = |threshold: &f64| {
        let range = series.ranges.iter().rev().find(|r| r.from <= *threshold);
        range.map(|r| r.switches.len() as f64)
    };
    LinePlot {
        id: format!("switches-{}", series.id),
        title: format!("How often ADCA moves its base: {}", series.title),
        caption: "Number of switches over the threshold, S(delta to base) / S(delta to previous). Below 1 the base moves with every checkpoint. The \
                  table has their moments."
            .to_owned(),
        along: "threshold".to_owned(),
        categories: thresholds.iter().map(|t| format!("{t:.2}")).collect(),
        axis: "switches".to_owned(),
        unit: None,
        series: vec![(
            "switches".to_owned(),
            thresholds.iter().map(at).collect(),
        )],
    }
}

fn switches(series: &JoinedSeries) -> Table {
    let mut table = Table::new(
        &format!("switches-{}", series.id),
        &format!("Switches by threshold: {}", series.title),
        "All thresholds from 1 on, in ranges within which ADCA moves its base at the same checkpoints, counted from 1; the maximum number of files to restore a \
         checkpoint, and the total volume of all checkpoints.",
        vec![
            Column::plain("from", "threshold from"),
            Column::plain("below", "to less than"),
            Column::plain("switches", "switches"),
            Column::plain("at", "at t"),
            Column::plain("files", "maximum files"),
            Column::of("stored", "stored, total", "bytes"),
        ],
    );
    table.folded = series.ranges.len() > MAX_SHOWN;
    for range in &series.ranges {
        table.rows.push(vec![
            Cell::text(format!("{:.4}", range.from)),
            Cell::text(
                range
                    .below
                    .map_or_else(|| "∞".to_owned(), |b| format!("{b:.4}")),
            ),
            Cell::count(range.switches.len()),
            Cell::text(list(&range.switches)),
            Cell::number(f64::from(range.files)),
            Cell::number(range.bytes as f64),
        ]);
    }
    table
}

fn volume_table(series: &JoinedSeries) -> Table {
    let mut columns = vec![
        Column::plain("t", "t"),
        Column::of("at", "requested after", "s"),
    ];
    let names = ["differential", "incremental", "adca", "adca_once"];
    columns.extend(
        series
            .volumes
            .iter()
            .zip(names)
            .map(|((name, _), id)| Column::of(id, name, "bytes")),
    );
    let mut table = Table::new(
        &format!("volumes-{}", series.id),
        &format!("Volumes: {}", series.title),
        "Blocks that each method stores of a checkpoint, uncompressed; seconds since the program began to compute.",
        columns,
    );
    table.folded = true;
    for (t, at_s) in series.at_s.iter().enumerate() {
        let mut row = vec![Cell::count(t + 1), Cell::number(*at_s)];
        let of = series.volumes.iter().map(|(_, volumes)| volumes.get(t));
        row.extend(of.map(|v| Cell::number(v.map(|v| *v as f64))));
        table.rows.push(row);
    }
    table
}

fn files_table(series: &JoinedSeries) -> Table {
    let mut table = Table::new(
        &format!("files-{}", series.id),
        &format!("Stored files: {}", series.title),
        "A method alone (codec none), and with packets of its modified blocks compressed (PaComp): lengths of all files, when they \
         were stored, mean time to store a checkpoint after the first, which is stored in full, and to restore one. While the program runs it uses the cores, \
         too, so these times to store are not comparable with the others.",
        vec![
            Column::plain("method", "method"),
            Column::plain("codec", "codec"),
            Column::of("block", "block", "bytes"),
            Column::plain("files", "files"),
            Column::of("all", "all files", "bytes"),
            Column::of("of_none", "of uncompressed ones", "%"),
            Column::plain("when", "stored"),
            Column::of("store", "time to store one", "s"),
            Column::of("restore", "time to restore one", "s"),
        ],
    );
    for files in &series.files {
        let plain = series
            .files
            .iter()
            .find(|f| f.codec == "none" && f.method == files.method && f.block == files.block);
        table.rows.push(vec![
            Cell::text(files.method.clone()),
            Cell::text(files.codec.clone()),
            Cell::number(f64::from(files.block)),
            Cell::count(files.files),
            Cell::number(files.bytes),
            Cell::number(plain.map(|p| 100.0 * files.bytes / p.bytes)),
            Cell::text(if files.is_live {
                "while the program ran"
            } else {
                "after its end"
            }),
            Cell::number(files.store_s),
            Cell::number(files.restore_s),
        ]);
    }
    table
}
