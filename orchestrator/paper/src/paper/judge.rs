//! Judges every cell of a paper: the printed number, the one recomputed from the paper's own inputs, the one measured here, and the
//! verdict.

use super::{
    cell::{Attached, Cell, PrintedTable, row_name},
    definition::{Anomaly, Effect, Kind, Likely, TableDefinition, Tolerance},
    measured::{Agreement, CellKey, MeasuredHere, Measurements},
    modelled::Modelled,
    printed::{Digits, Printed, Recomputed},
    published::Paper,
    rules::{self, CellContext, NotRecomputable, Reads},
};
use cvc_show::Confidence;
use serde::Serialize;
use std::cell::RefCell;

/// The deviation of a number from print.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// The number minus print, in the unit of the column.
    pub by: f64,
    /// The same in percent of print; `None` for a printed 0.
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

/// `value` - `printed` without the digits that only rounding of binary fractions makes: 26.955468750000002132 - 26.95 is 0.00546875.
fn difference(value: f64, printed: f64) -> f64 {
    let by = value - printed;
    let largest = value.abs().max(printed.abs());
    if by == 0.0 || !by.is_finite() || largest == 0.0 {
        return by;
    }
    // the last of the fourteen digits that the larger number surely has
    let decimals = 13 - largest.log10().floor() as i32;
    match usize::try_from(decimals) {
        Ok(decimals) => format!("{by:.decimals$}").parse().unwrap_or(by),
        Err(_) => by,
    }
}

/// A number rounded to so many significant digits: what arithmetic adds behind them says nothing.
pub(super) fn significant_digits(value: f64, digits: usize) -> f64 {
    let behind = digits.saturating_sub(1);
    format!("{value:.behind$e}").parse().unwrap_or(value)
}

/// Misprints among the inputs that had to be corrected for a number to come out as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Corrected(pub Vec<String>);

/// The verdict on a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is printed.
    Empty,
    /// It says what its row is about.
    Label,
    /// The recomputed number, written with as many digits, is the printed one.
    Equal {
        /// Rounded, or cut off.
        digits: Digits,
        /// With these misprints of its inputs corrected.
        corrected: Corrected,
    },
    /// Equal too, but by a constant that was inferred from these very cells: it had to come out.
    Inferred {
        /// Rounded, or cut off.
        digits: Digits,
        /// The constant, or the choice.
        constant: String,
        /// With these misprints of its inputs corrected.
        corrected: Corrected,
    },
    /// Not to the last digit, but as near as can be expected.
    Within {
        /// Its tolerance, in the unit of the column.
        tolerance: f64,
        /// Why.
        because: String,
        /// With these misprints of its inputs corrected.
        corrected: Corrected,
    },
    /// Another number.
    Differs,
    /// The printed number is wrong.
    PrintedWrong {
        /// The anomaly that says so.
        anomaly: String,
        /// What was probably meant.
        likely: String,
        /// The number that was probably meant, if it is one.
        likely_value: Option<f64>,
        /// Why.
        why: String,
        /// How sure that is.
        confidence: Confidence,
    },
    /// Nothing that is printed determines it.
    Cannot {
        /// Why.
        because: String,
    },
}

/// A measurement of today beside print.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedMeasurement {
    /// The measurement.
    pub measured: MeasuredHere,
    /// Distance to print.
    pub deviation: Deviation,
    /// Whether that is within its tolerance.
    pub agreement: Agreement,
}

/// A cell with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedCell {
    /// In print.
    pub printed: Cell,
    /// Out of the paper's own inputs, with the misprints corrected that the verdict names.
    pub recomputed: Option<(Recomputed, Deviation)>,
    /// What another model says.
    pub modelled: Option<(Modelled, Deviation)>,
    /// Measured here.
    pub measured: Option<JudgedMeasurement>,
    /// What follows.
    pub verdict: Verdict,
    /// Names of the anomalies that a reader has to know.
    pub anomalies: Vec<String>,
}

/// A table with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedTable {
    /// What it is.
    pub definition: TableDefinition,
    /// Rows in the order of print.
    pub rows: Vec<Vec<JudgedCell>>,
    /// Names of the anomalies of the table as a whole.
    pub anomalies: Vec<String>,
    /// Numbers of cells by verdict.
    pub counts: Counts,
}

impl JudgedTable {
    /// Whether the table or one of its cells names an anomaly.
    pub fn mentions(&self, anomaly: &str) -> bool {
        let cells = self.rows.iter().flatten().flat_map(|c| &c.anomalies);
        self.anomalies.iter().chain(cells).any(|a| a == anomaly)
    }

    /// What names a row: the cells that say what it is about.
    pub fn row_name(&self, row: usize) -> String {
        self.rows.get(row).map_or_else(String::new, |cells| {
            row_name(&self.definition, cells.iter().map(|c| &c.printed))
        })
    }
}

/// Numbers of cells by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Cells that were judged: all with something in print but labels; labels that are wrong in print.
    pub judged: usize,
    /// Cells that say what a row is about.
    pub labels: usize,
    /// Equal to the printed digits.
    pub equal: usize,
    /// Equal to the printed digits by a constant that was inferred from them.
    pub inferred: usize,
    /// Within a tolerance.
    pub within: usize,
    /// Another number, without an anomaly that explains it.
    pub differs: usize,
    /// Wrong in print.
    pub wrong: usize,
    /// Not to be recomputed.
    pub cannot: usize,
    /// Measured here too.
    pub measured: usize,
    /// Measured here, and in agreement with print or what was meant.
    pub agree: usize,
    /// Measured here, and different for a known cause.
    pub explained: usize,
}

/// A paper with everything that is known of its cells.
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
    /// Where it was published.
    pub published: Option<String>,
    /// What a reader has to know.
    pub note: Option<String>,
    /// Tables.
    pub tables: Vec<JudgedTable>,
    /// All anomalies of the paper.
    pub anomalies: Vec<Anomaly>,
    /// Names of those of the text and the work as a whole.
    pub notes: Vec<String>,
}

/// Judges every cell of a paper, or of the tables that are named; of these alone, the anomalies are those of their cells.
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
            let counts = Counts::of(rows.iter().flatten());
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
    if let Verdict::Equal { corrected, .. }
    | Verdict::Inferred { corrected, .. }
    | Verdict::Within { corrected, .. } = &verdict
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
    /// The effect of the rounding of the printed inputs.
    rounding: f64,
    /// The constant that was inferred from the very cells.
    inferred: Option<&'static str>,
    corrected: Corrected,
}

fn verdict(
    paper: &Paper,
    table: &PrintedTable,
    place: (usize, usize, usize),
    printed: &Cell,
    attached: &[Attached],
) -> (Option<Recomputed>, Verdict) {
    let column = &table.definition.columns[place.2];
    if *printed == Cell::Empty {
        return (None, Verdict::Empty);
    }
    let wrong = printed_wrong(paper, attached);
    let without_rule = |because: NotRecomputable| match (&wrong, column.kind) {
        (Some(wrong), _) => wrong.clone(),
        (None, Kind::Label | Kind::Setting) => Verdict::Label,
        (None, Kind::Measured | Kind::Predicted | Kind::Derived) => Verdict::Cannot {
            because: because.to_string(),
        },
    };
    let Some((used, number)) = column.rule.as_ref().zip(printed.number()) else {
        let because = match column.kind {
            Kind::Label | Kind::Setting | Kind::Measured => NotRecomputable::Measurement,
            Kind::Predicted | Kind::Derived => {
                NotRecomputable::Other("the paper does not say how".to_owned())
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

/// Says that the cell is wrong in print, if an anomaly does.
fn printed_wrong(paper: &Paper, attached: &[Attached]) -> Option<Verdict> {
    let attached = attached.iter().find(|a| a.effect == Effect::Wrong)?;
    let anomaly = &paper.anomalies[attached.anomaly];
    let likely = match &attached.likely {
        Some(Likely::Text(text)) => text.clone(),
        Some(Likely::Number(number)) => number.to_string(),
        None => anomaly.likely.clone(),
    };
    let likely_value = attached.likely.as_ref().and_then(Likely::number);
    Some(Verdict::PrintedWrong {
        anomaly: anomaly.id.clone(),
        likely,
        likely_value,
        why: anomaly.why.clone(),
        confidence: anomaly.confidence,
    })
}

/// Compares print with what a rule gives, as printed and with misprints among the inputs corrected.
fn compare(
    number: &Printed,
    first: Trial,
    corrected: Option<Trial>,
    stated: Option<&Tolerance>,
) -> (Recomputed, Verdict) {
    let trials = || [Some(&first), corrected.as_ref()].into_iter().flatten();
    for trial in trials() {
        if let Some(digits) = number.equals(trial.value) {
            let corrected = trial.corrected.clone();
            let verdict = match trial.inferred {
                Some(constant) => Verdict::Inferred {
                    digits,
                    constant: constant.to_owned(),
                    corrected,
                },
                None => Verdict::Equal { digits, corrected },
            };
            return (trial.value, verdict);
        }
    }
    let unit = 10f64.powi(-(number.decimals() as i32));
    for trial in trials() {
        // what is cut off may be a whole unit of the last digit away, what is rounded a half
        let tolerance = trial.rounding
            + if trial.value.may_be_cut() {
                unit
            } else {
                unit / 2.0
            };
        if trial.rounding > 0.0
            && (trial.value.value() - number.value()).abs() <= tolerance * (1.0 + 1e-9)
        {
            let because = "its inputs are printed rounded".to_owned();
            return (
                trial.value,
                Verdict::Within {
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
            let verdict = Verdict::Within {
                tolerance: allowed,
                because: stated.because.clone(),
                corrected: first.corrected,
            };
            return (first.value, verdict);
        }
    }
    (first.value, Verdict::Differs)
}

/// Evaluates a rule, and once more for each input that is printed rounded, moved by half a unit of its last digit.
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

impl Counts {
    fn of<'a>(cells: impl Iterator<Item = &'a JudgedCell>) -> Self {
        let mut counts = Self::default();
        for cell in cells {
            match &cell.verdict {
                Verdict::Empty => continue,
                Verdict::Label => {
                    counts.labels += 1;
                    continue;
                }
                Verdict::Equal { .. } => counts.equal += 1,
                Verdict::Inferred { .. } => counts.inferred += 1,
                Verdict::Within { .. } => counts.within += 1,
                Verdict::Differs => counts.differs += 1,
                Verdict::PrintedWrong { .. } => counts.wrong += 1,
                Verdict::Cannot { .. } => counts.cannot += 1,
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

    /// These and others.
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
