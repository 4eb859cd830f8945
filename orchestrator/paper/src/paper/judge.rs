//! Judges every cell of a paper: compares the printed number with the number recomputed from the paper's own inputs and with the number measured
//! here, and gives a verdict.

use super::{
    cell::{Attached, Cell, PrintedTable, row_name},
    claims::{self, ClaimOutcome},
    definition::{Anomaly, Effect, FigureDefinition, Kind, Likely, TableDefinition, Tolerance},
    measured::{Agreement, CellKey, MeasuredHere, Measurements},
    modelled::Modelled,
    printed::{Digits, Printed, Recomputed},
    published::Paper,
    rules::{self, CellContext, NotRecomputable, Reads},
};
use cvc_core::units::counted;
use cvc_show::Confidence;
use serde::Serialize;
use std::{cell::RefCell, fmt};

/// The deviation of a number from the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// The number minus the printed one, in the unit of the column.
    pub by: f64,
    /// The deviation in percent of the printed number; `None` if that is 0.
    pub pct: Option<f64>,
}

impl Deviation {
    fn between(value: f64, printed: &Printed) -> Self {
        let by = difference(value, printed.value());
        Self {
            by,
            pct: (printed.value() != 0.0)
                .then(|| significant_digits(100.0 * by / printed.value().abs(), 12)),
        }
    }
}

/// Returns `value` - `printed` without the rounding errors of binary fractions: 26.955468750000002132 - 26.95 is 0.00546875.
fn difference(value: f64, printed: f64) -> f64 {
    let by = value - printed;
    let largest = value.abs().max(printed.abs());
    if by == 0.0 || !by.is_finite() || largest == 0.0 {
        return by;
    }
    // the last of the larger number's fourteen reliable digits
    let decimals = 13 - largest.log10().floor() as i32;
    match usize::try_from(decimals) {
        Ok(decimals) => format!("{by:.decimals$}").parse().unwrap_or(by),
        Err(_) => by,
    }
}

/// Rounds a number to this many significant digits.
pub(super) fn significant_digits(value: f64, digits: usize) -> f64 {
    let behind = digits.saturating_sub(1);
    format!("{value:.behind$e}").parse().unwrap_or(value)
}

/// Misprints in the inputs that had to be corrected to obtain the printed number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Corrected(pub Vec<String>);

/// The verdict on a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum CellVerdict {
    /// The cell is empty.
    Empty,
    /// The cell names the subject of its row.
    Label,
    /// The recomputed number equals the printed one in all printed digits.
    Equal {
        /// Whether the printed number is rounded or truncated.
        digits: Digits,
        /// Misprints in the inputs that had to be corrected.
        corrected: Corrected,
    },
    /// The recomputed number equals the printed one, but depends on a constant that was inferred from these same cells, so that equality proves
    /// nothing.
    Inferred {
        /// Whether the printed number is rounded or truncated.
        digits: Digits,
        /// The constant or choice that was inferred.
        constant: String,
        /// Misprints in the inputs that had to be corrected.
        corrected: Corrected,
    },
    /// The recomputed number differs from the printed one by no more than a tolerance.
    Within {
        /// The tolerance, in the unit of the column.
        tolerance: f64,
        /// The reason for the tolerance.
        because: String,
        /// Misprints in the inputs that had to be corrected.
        corrected: Corrected,
    },
    /// The recomputed number differs from the printed one.
    Differs,
    /// The printed number is wrong.
    PrintedWrong {
        /// Name of the anomaly that marks the cell as wrong.
        anomaly: String,
        /// The probable value.
        likely: String,
        /// The probable value as a number, if it is one.
        likely_value: Option<f64>,
        /// The reason why the printed number is wrong.
        why: String,
        /// The confidence that the printed number is wrong.
        confidence: Confidence,
    },
    /// The cell cannot be recomputed from other printed numbers.
    Cannot {
        /// The reason why the cell cannot be recomputed.
        because: String,
    },
}

/// A measurement made here, compared with the printed number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedMeasurement {
    /// The measurement.
    pub measured: MeasuredHere,
    /// Deviation from the printed number.
    pub deviation: Deviation,
    /// Whether the deviation is within the tolerance.
    pub agreement: Agreement,
}

/// A cell with everything it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedCell {
    /// The printed cell.
    pub printed: Cell,
    /// The number recomputed from the paper's own inputs, with its deviation. Misprints in the inputs are corrected if the verdict names them.
    pub recomputed: Option<(Recomputed, Deviation)>,
    /// The value of a model other than the paper's, with its deviation.
    pub modelled: Option<(Modelled, Deviation)>,
    /// The measurement made here.
    pub measured: Option<JudgedMeasurement>,
    /// The verdict.
    pub verdict: CellVerdict,
    /// Names of the anomalies at this cell.
    pub anomalies: Vec<String>,
}

/// A table with its judged cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedTable {
    /// Definition of the table.
    pub definition: TableDefinition,
    /// Rows in the order of the printed table.
    pub rows: Vec<Vec<JudgedCell>>,
    /// Names of the anomalies of the whole table.
    pub anomalies: Vec<String>,
    /// Number of cells by verdict.
    pub counts: CellCounts,
}

/// A guess at why cells of a table differ from print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbableFault {
    /// How many cells differ, and by how much.
    pub difference: String,
    /// The probable fault with its reason.
    pub because: &'static str,
}

impl fmt::Display for ProbableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.difference, self.because)
    }
}

impl JudgedTable {
    /// Returns whether the table or one of its cells has this anomaly.
    pub fn mentions(&self, anomaly: &str) -> bool {
        let cells = self.rows.iter().flatten().flat_map(|c| &c.anomalies);
        self.anomalies.iter().chain(cells).any(|a| a == anomaly)
    }

    /// Returns how many cells differ, by how much, and the probable fault; `None` if no cell differs.
    ///
    /// A wrong formula or constant in cvc affects many cells in the same direction. A misprint affects a single cell among cells that agree.
    pub fn probable_fault(&self) -> Option<ProbableFault> {
        let (n, checkable) = (self.counts.differs, self.counts.checkable());
        if n == 0 {
            return None;
        }
        let differ: Vec<f64> = self
            .rows
            .iter()
            .flatten()
            .filter(|cell| cell.verdict == CellVerdict::Differs)
            .filter_map(|cell| cell.recomputed?.1.pct)
            .collect();
        let low = differ.iter().copied().fold(f64::MAX, f64::min);
        let high = differ.iter().copied().fold(f64::MIN, f64::max);
        let range = match differ.as_slice() {
            [] => String::new(),
            [one] => format!(" by {one:+.1} %"),
            _ => format!(" by {low:+.1} to {high:+.1} %"),
        };
        let same_side = low > 0.0 || high < 0.0;
        let because = if 2 * n >= checkable && same_side {
            "probably our constants or formula: most cells differ in the same direction"
        } else if 4 * n <= checkable {
            "probably print: the other cells of the table agree"
        } else {
            "probably our reading of the table: many cells differ, but not in the same direction"
        };
        Some(ProbableFault {
            difference: match n {
                1 => format!("1 of {checkable} cells differs{range}"),
                n => format!("{n} of {checkable} cells differ{range}"),
            },
            because,
        })
    }

    /// Returns the name of a row, composed of its label cells.
    pub fn row_name(&self, row: usize) -> String {
        self.rows.get(row).map_or_else(String::new, |cells| {
            row_name(&self.definition, cells.iter().map(|c| &c.printed))
        })
    }
}

/// Number of cells by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CellCounts {
    /// Judged cells: all except empty cells and labels. Labels with a misprint are judged too.
    pub judged: usize,
    /// Cells that name the subject of a row.
    pub labels: usize,
    /// Cells equal to the printed digits.
    pub equal: usize,
    /// Cells equal to the printed digits by a constant that was inferred from them.
    pub inferred: usize,
    /// Cells within a tolerance.
    pub within: usize,
    /// Cells with a different number, without an anomaly that explains it.
    pub differs: usize,
    /// Cells that are wrong in print.
    pub wrong: usize,
    /// Cells that cannot be recomputed.
    pub cannot: usize,
    /// Cells that were also measured here.
    pub measured: usize,
    /// Cells whose measurement agrees with the printed or the probable value.
    pub agree: usize,
    /// Cells whose measurement differs for a known reason.
    pub explained: usize,
}

/// A paper with its judged cells and claims.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduction {
    /// Name of the paper's folder.
    pub paper: String,
    /// Title.
    pub title: String,
    /// Authors.
    pub authors: Vec<String>,
    /// Year.
    pub year: Option<u32>,
    /// Place of publication.
    pub published: Option<String>,
    /// A note for readers.
    pub note: Option<String>,
    /// Tables.
    pub tables: Vec<JudgedTable>,
    /// All anomalies of the paper.
    pub anomalies: Vec<Anomaly>,
    /// Names of the anomalies of the text and of the work as a whole.
    pub notes: Vec<String>,
    /// The judged claims of the paper; empty if only some tables are judged.
    pub claims: Vec<ClaimOutcome>,
    /// The figures of the judged tables.
    pub figures: Vec<FigureDefinition>,
}

/// Judges every cell in the tables `only` of a paper, or in all tables if `only` is empty. For selected tables, the result has only the anomalies of
/// these tables, and no claims.
pub fn judge(paper: &Paper, only: &[&str], measured: &Measurements) -> Reproduction {
    let names = |indices: &[usize]| {
        indices
            .iter()
            .map(|i| paper.anomalies[*i].id.clone())
            .collect::<Vec<_>>()
    };
    let tables: Vec<JudgedTable> = (0..paper.tables.len())
        .filter(|t| only.is_empty() || only.contains(&paper.tables[*t].definition.id.as_str()))
        .map(|t| {
            let table = &paper.tables[t];
            let rows: Vec<Vec<JudgedCell>> = (0..table.cells.len())
                .map(|row| {
                    (0..table.definition.columns.len())
                        .map(|column| cell(paper, (t, row, column), measured))
                        .collect()
                })
                .collect();
            let counts = CellCounts::of(rows.iter().flatten());
            JudgedTable {
                definition: table.definition.clone(),
                rows,
                anomalies: names(&table.notes),
                counts,
            }
        })
        .collect();
    let mut anomalies = paper.anomalies.clone();
    let mut notes = names(&paper.notes);
    if !only.is_empty() {
        anomalies.retain(|a| tables.iter().any(|t| t.mentions(&a.id)));
        notes.clear();
    }
    Reproduction {
        paper: paper.id.clone(),
        title: paper.title.clone(),
        authors: paper.authors.clone(),
        year: paper.year,
        published: paper.published.clone(),
        note: paper.note.clone(),
        tables,
        anomalies,
        notes,
        figures: paper.figures.clone(),
        claims: if only.is_empty() {
            claims::evaluate(paper, |_| None)
        } else {
            Vec::new()
        },
    }
}

fn cell(paper: &Paper, place: (usize, usize, usize), measurements: &Measurements) -> JudgedCell {
    let (t, row, column) = place;
    let table = &paper.tables[t];
    let printed = table.cells[row][column].clone();
    let attached = &table.attached[row][column];
    let mut anomalies: Vec<String> = attached
        .iter()
        .map(|a| paper.anomalies[a.anomaly].id.clone())
        .collect();
    let (recomputed, verdict) = verdict(paper, table, place, &printed, attached);
    if let CellVerdict::Equal { corrected, .. }
    | CellVerdict::Inferred { corrected, .. }
    | CellVerdict::Within { corrected, .. } = &verdict
    {
        anomalies.extend(
            corrected
                .0
                .iter()
                .filter(|a| {
                    !attached
                        .iter()
                        .any(|b| paper.anomalies[b.anomaly].id == **a)
                })
                .cloned(),
        );
    }
    let number = printed.number();
    let modelled = number.and_then(|p| {
        let used = table.definition.columns[column].model.as_ref()?;
        let reads = RefCell::new(Reads::default());
        let message = rules::model(used.name())?
            .cell(&CellContext::new(paper, place, used.of(), &reads))
            .ok()?;
        let deviation = Deviation::between(message.estimate.value, p);
        message
            .estimate
            .value
            .is_finite()
            .then_some((message, deviation))
    });
    let key = CellKey::new(
        &table.definition.id,
        row,
        &table.definition.columns[column].id,
    );
    let likely = table
        .misprint(row, &key.column)
        .and_then(|m| m.likely?.number());
    let measured = number
        .zip(measurements.get(&key))
        .map(|(p, m)| measurement(p, m, likely));
    let recomputed = recomputed
        .zip(number)
        .map(|(r, p)| (r, Deviation::between(r.value(), p)));
    JudgedCell {
        printed,
        recomputed,
        modelled,
        measured,
        verdict,
        anomalies,
    }
}

fn measurement(
    printed: &Printed,
    measured: &MeasuredHere,
    likely: Option<f64>,
) -> JudgedMeasurement {
    let agreement = measured.agreement(printed.value(), likely);
    JudgedMeasurement {
        measured: measured.clone(),
        deviation: Deviation::between(measured.value, printed),
        agreement,
    }
}

/// One evaluation of a rule.
struct Trial {
    value: Recomputed,
    /// Maximum effect of the rounding of printed inputs.
    rounding: f64,
    /// A constant that was inferred from the recomputed cells themselves.
    inferred: Option<&'static str>,
    corrected: Corrected,
}

fn verdict(
    paper: &Paper,
    table: &PrintedTable,
    place: (usize, usize, usize),
    printed: &Cell,
    attached: &[Attached],
) -> (Option<Recomputed>, CellVerdict) {
    let column = &table.definition.columns[place.2];
    if *printed == Cell::Empty {
        return (None, CellVerdict::Empty);
    }
    let wrong = printed_wrong(paper, attached);
    let without_rule = |because: NotRecomputable| match (&wrong, column.kind) {
        (Some(wrong), _) => wrong.clone(),
        (None, Kind::Label | Kind::Setting) => CellVerdict::Label,
        (None, Kind::Measured | Kind::Predicted | Kind::Derived) => CellVerdict::Cannot {
            because: because.to_string(),
        },
    };
    let Some((used, number)) = column.rule.as_ref().zip(printed.number()) else {
        let because = match column.kind {
            Kind::Label | Kind::Setting | Kind::Measured => NotRecomputable::Measurement,
            Kind::Predicted | Kind::Derived => {
                NotRecomputable::Other("the paper does not explain its computation".to_owned())
            }
        };
        return (None, without_rule(because));
    };
    let first = match evaluate(paper, place, used, false) {
        Ok(trial) => trial,
        Err(because) => return (None, without_rule(because)),
    };
    if let Some(wrong) = wrong {
        return (Some(first.value), wrong);
    }
    let corrected = evaluate(paper, place, used, true)
        .ok()
        .filter(|t| !t.corrected.0.is_empty());
    let (value, verdict) = compare(number, first, corrected, column.tolerance.as_ref());
    (Some(value), verdict)
}

/// Returns the verdict for a misprint if an anomaly marks the cell as wrong.
fn printed_wrong(paper: &Paper, attached: &[Attached]) -> Option<CellVerdict> {
    let attached = attached.iter().find(|a| a.effect == Effect::Wrong)?;
    let anomaly = &paper.anomalies[attached.anomaly];
    let likely = match &attached.likely {
        Some(Likely::Text(text)) => text.clone(),
        Some(Likely::Number(number)) => number.to_string(),
        None => anomaly.likely.clone(),
    };
    let likely_value = attached.likely.as_ref().and_then(Likely::number);
    Some(CellVerdict::PrintedWrong {
        anomaly: anomaly.id.clone(),
        likely,
        likely_value,
        why: anomaly.why.clone(),
        confidence: anomaly.confidence,
    })
}

/// Compares a printed number with the result of a rule, both with the printed inputs and with misprints in the inputs corrected.
fn compare(
    number: &Printed,
    first: Trial,
    corrected: Option<Trial>,
    stated: Option<&Tolerance>,
) -> (Recomputed, CellVerdict) {
    let trials = || [Some(&first), corrected.as_ref()].into_iter().flatten();
    for trial in trials() {
        if let Some(digits) = number.equals(trial.value) {
            let corrected = trial.corrected.clone();
            let verdict = match trial.inferred {
                Some(constant) => CellVerdict::Inferred {
                    digits,
                    constant: constant.to_owned(),
                    corrected,
                },
                None => CellVerdict::Equal { digits, corrected },
            };
            return (trial.value, verdict);
        }
    }
    let unit = 10f64.powi(-(number.decimals() as i32));
    for trial in trials() {
        // a truncated number may differ by a whole unit of the last digit, a rounded number by half a unit
        let tolerance = trial.rounding
            + if trial.value.may_be_cut() {
                unit
            } else {
                unit / 2.0
            };
        if trial.rounding > 0.0
            && (trial.value.value() - number.value()).abs() <= tolerance * (1.0 + 1e-9)
        {
            let because = "its inputs are rounded in print".to_owned();
            return (
                trial.value,
                CellVerdict::Within {
                    tolerance,
                    because,
                    corrected: trial.corrected.clone(),
                },
            );
        }
    }
    if let Some(stated) = stated {
        let allowed = stated
            .by
            .unwrap_or(0.0)
            .max(stated.pct.unwrap_or(0.0) / 100.0 * number.value().abs());
        if (first.value.value() - number.value()).abs() <= allowed {
            let verdict = CellVerdict::Within {
                tolerance: allowed,
                because: stated.because.clone(),
                corrected: first.corrected,
            };
            return (first.value, verdict);
        }
    }
    (first.value, CellVerdict::Differs)
}

/// Evaluates a rule. To find the effect of rounding, evaluates it again for each rounded input, with half a unit of the input's last digit added and
/// then subtracted.
fn evaluate(
    paper: &Paper,
    place: (usize, usize, usize),
    used: &super::definition::RuleUse,
    corrected: bool,
) -> Result<Trial, NotRecomputable> {
    let Some(rule) = rules::rule(used.name()) else {
        return Err(NotRecomputable::Other(format!(
            "unknown rule `{}`",
            used.name()
        )));
    };
    let column = &paper.tables[place.0].definition.columns[place.2];
    let run = |shift| {
        let reads = RefCell::new(Reads {
            corrected,
            shift,
            ..Reads::default()
        });
        let value = rule.cell(&CellContext::new(paper, place, used.of(), &reads));
        (
            value.map(|v| if column.cut { v.perhaps_cut() } else { v }),
            reads.into_inner(),
        )
    };
    let (value, reads) = run(None);
    let value = value?;
    if !value.value().is_finite() {
        return Err(NotRecomputable::Other(
            "the formula gives no number for these inputs".to_owned(),
        ));
    }
    let rounding = reads
        .inputs
        .iter()
        .filter_map(|(input, half)| {
            let moved = |by: f64| {
                run(Some((*input, by)))
                    .0
                    .ok()
                    .map(|m| (m.value() - value.value()).abs())
            };
            let (up, down) = (moved(*half), moved(-*half));
            up.into_iter().chain(down).reduce(f64::max)
        })
        .filter(|d| d.is_finite())
        .sum();
    let corrected = Corrected(
        reads
            .used
            .iter()
            .map(|i| paper.anomalies[*i].id.clone())
            .collect(),
    );
    Ok(Trial {
        value,
        rounding,
        inferred: reads.inferred,
        corrected,
    })
}

impl CellCounts {
    fn of<'a>(cells: impl Iterator<Item = &'a JudgedCell>) -> Self {
        let mut counts = Self::default();
        for cell in cells {
            match &cell.verdict {
                CellVerdict::Empty => continue,
                CellVerdict::Label => {
                    counts.labels += 1;
                    continue;
                }
                CellVerdict::Equal { .. } => counts.equal += 1,
                CellVerdict::Inferred { .. } => counts.inferred += 1,
                CellVerdict::Within { .. } => counts.within += 1,
                CellVerdict::Differs => counts.differs += 1,
                CellVerdict::PrintedWrong { .. } => counts.wrong += 1,
                CellVerdict::Cannot { .. } => counts.cannot += 1,
            }
            counts.judged += 1;
            counts.measured += usize::from(cell.measured.is_some());
            let Some(m) = &cell.measured else { continue };
            match m.agreement {
                Agreement::WithPrint | Agreement::WithLikely => counts.agree += 1,
                Agreement::Explained => counts.explained += 1,
                Agreement::Differs => {}
            }
        }
        counts
    }

    /// Returns the number of cells that can be recomputed.
    pub fn checkable(&self) -> usize {
        self.judged - self.cannot
    }

    /// Returns a text with the number of cells that can be checked by recomputing them.
    pub fn checked(&self) -> String {
        format!(
            "{} of {} can be checked ({} are measurements or inputs)",
            self.checkable(),
            counted(self.judged, "cell"),
            self.cannot
        )
    }

    /// Returns a text with the number of recomputed cells by verdict. The numbers add up to [`Self::checkable`].
    pub fn outcomes(&self) -> String {
        let misprints = match self.wrong {
            1 => "misprint",
            _ => "misprints",
        };
        [
            (self.equal, "equal"),
            (self.inferred, "fitted"),
            (self.within, "within"),
            (self.differs, "differ"),
            (self.wrong, misprints),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect::<Vec<_>>()
        .join(", ")
    }

    /// Returns the sums of two tallies, verdict by verdict.
    pub fn plus(self, other: Self) -> Self {
        Self {
            judged: self.judged + other.judged,
            labels: self.labels + other.labels,
            equal: self.equal + other.equal,
            inferred: self.inferred + other.inferred,
            within: self.within + other.within,
            differs: self.differs + other.differs,
            wrong: self.wrong + other.wrong,
            cannot: self.cannot + other.cannot,
            measured: self.measured + other.measured,
            agree: self.agree + other.agree,
            explained: self.explained + other.explained,
        }
    }
}
