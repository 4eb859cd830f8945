//! Reads pairs of checkpoints from a table, or computes them from a comparison of states.

use crate::predict::PredictError;
use camino::Utf8Path;
use cvc_core::source::SourceText;
use cvc_core::units::counted;
use cvc_delta::Matrix;
use cvc_index::csv;
use cvc_model::delta::ChangedPair;
use std::collections::BTreeSet;

/// Columns that a table of pairs must have; others are ignored.
const COLUMNS: [&str; 5] = ["from", "to", "distance_s", "changed_bytes", "bytes"];
const MIB: f64 = (1u64 << 20) as f64;

/// Reads a table of pairs from a file in the format of `cvc delta compare --csv`: numbers of the earlier and the later checkpoint, seconds between
/// them, bytes of changed blocks, bytes of the later checkpoint.
///
/// # Errors
/// The first problem, with line, column and hint.
pub fn pairs_from_csv(path: &Utf8Path) -> Result<Vec<ChangedPair>, PredictError> {
    let text = std::fs::read_to_string(path).map_err(|e| PredictError::Unreadable {
        path: path.to_owned(),
        message: e.to_string(),
        hint: "give the table that `cvc delta compare --csv` prints, or directories of checkpoints"
            .into(),
    })?;
    parse_pairs(path, &text)
}

/// Parses the text of a table of pairs.
///
/// # Errors
/// The first problem, with line, column and hint.
pub fn parse_pairs(path: &Utf8Path, text: &str) -> Result<Vec<ChangedPair>, PredictError> {
    let wrong = |line: usize, message: String, hint: &str| PredictError::Csv {
        path: path.to_owned(),
        line,
        message,
        hint: hint.to_owned(),
    };
    let source = SourceText {
        path: path.into(),
        text: text.into(),
    };
    let records = csv::records(&source, Some(b'#')).map_err(|e| {
        let line = e.position().map_or(1, |(line, _)| line);
        wrong(line, e.message, &e.hint.unwrap_or_default())
    })?;
    let needs = "a table of pairs has the columns from,to,distance_s,changed_bytes,bytes";
    let (header, records) = records
        .split_first()
        .ok_or_else(|| wrong(1, "the table is empty".into(), needs))?;
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = header
            .fields
            .iter()
            .position(|f| f.text.trim() == name)
            .ok_or_else(|| {
                wrong(
                    header.line,
                    format!("the column `{name}` is missing"),
                    needs,
                )
            })?;
    }
    let decimal =
        csv::Decimal::of_rows(records, || places.into_iter()).map_err(|(line, text)| {
            wrong(
                line,
                format!("`{text}` may be a thousand or a fraction"),
                "write numbers with a decimal point, without separators of thousands",
            )
        })?;
    let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
    for record in records {
        let row = PairRow {
            path,
            record,
            places: &places,
            decimal,
        };
        if record.fields.len() != header.fields.len() {
            let (found, needed) = (record.fields.len(), header.fields.len());
            return Err(row.wrong(
                format!("expected {needed} fields as in the header, found {found}"),
                "write one line for each pair of checkpoints",
            ));
        }
        let pair = row.pair()?;
        let (from, to) = (pair.from, pair.to);
        if !seen.insert((from, to)) {
            return Err(row.wrong(
                format!("the pair {from},{to} occurs twice"),
                "give the pairs of one run and one block size",
            ));
        }
        pairs.push(pair);
    }
    if pairs.is_empty() {
        return Err(wrong(
            header.line,
            "the table has no pair".into(),
            "a pair needs two checkpoints of a run: take at least two",
        ));
    }
    Ok(pairs)
}

/// A line of a table of pairs.
struct PairRow<'a> {
    path: &'a Utf8Path,
    record: &'a csv::CsvRecord,
    places: &'a [usize; COLUMNS.len()],
    decimal: csv::Decimal,
}

impl PairRow<'_> {
    fn wrong(&self, message: String, hint: &str) -> PredictError {
        PredictError::Csv {
            path: self.path.to_owned(),
            line: self.record.line,
            message,
            hint: hint.to_owned(),
        }
    }

    fn text(&self, column: usize) -> &str {
        self.record.fields[self.places[column]].text.trim()
    }

    fn wrong_in(&self, column: usize, is_not: &str, hint: &str) -> PredictError {
        let (name, text) = (COLUMNS[column], self.text(column));
        self.wrong(format!("column `{name}`: `{text}` is {is_not}"), hint)
    }

    fn state(&self, column: usize) -> Result<u32, PredictError> {
        self.text(column).parse::<u32>().map_err(|_| {
            let hint = "number the checkpoints in the order in which they were taken";
            self.wrong_in(column, "no number of a checkpoint", hint)
        })
    }

    fn amount(&self, column: usize, is_positive: bool) -> Result<f64, PredictError> {
        let value = self.decimal.number(self.text(column));
        value
            .filter(|v| v.is_finite() && (*v > 0.0 || !is_positive && *v == 0.0))
            .ok_or_else(|| {
                let is_not = if is_positive {
                    "not a number above 0"
                } else {
                    "not a number of 0 or more"
                };
                self.wrong_in(column, is_not, "leave out pairs that were not measured")
            })
    }

    fn pair(&self) -> Result<ChangedPair, PredictError> {
        let (from, to) = (self.state(0)?, self.state(1)?);
        if from >= to {
            return Err(self.wrong(
                format!("checkpoint {to} is compared with {from}, which is not older"),
                "`from` is the older checkpoint of a pair, `to` the newer one",
            ));
        }
        let pair = ChangedPair {
            from,
            to,
            distance_s: self.amount(2, true)?,
            changed_mib: self.amount(3, false)? / MIB,
            full_mib: self.amount(4, true)? / MIB,
        };
        if pair.changed_mib > pair.full_mib {
            return Err(self.wrong(
                format!("{} of {} bytes changed", self.text(3), self.text(4)),
                "`bytes` is the size of the newer checkpoint, of which `changed_bytes` are a part",
            ));
        }
        Ok(pair)
    }
}

/// Returns all pairs of compared states, with the seconds between them.
///
/// # Errors
/// There are fewer than two states, or a state was not taken later than the one named before it.
pub fn pairs_of(states: &Matrix) -> Result<Vec<ChangedPair>, PredictError> {
    if states.len() < 2 {
        return Err(PredictError::Model {
            message: format!(
                "{}: changes between checkpoints need two checkpoints of a run",
                counted(states.len(), "state")
            ),
            hint: "name the directories of consecutive checkpoints, the oldest first".into(),
        });
    }
    for (i, taken) in states.taken_s.windows(2).enumerate() {
        let behind_s = taken[0] - taken[1];
        if behind_s.is_nan() || behind_s >= 0.0 {
            let how = if behind_s == 0.0 {
                "at the same time as".to_owned()
            } else {
                format!("{behind_s:.1} s before")
            };
            return Err(PredictError::Model {
                message: format!("state {} was taken {how} state {}", i + 2, i + 1),
                hint: "name the oldest first; copies keep their times with `cp -p`".into(),
            });
        }
    }
    let mut pairs = Vec::new();
    for to in 1..states.len() {
        for from in 0..to {
            pairs.push(ChangedPair {
                from: from as u32,
                to: to as u32,
                distance_s: states.taken_s[to] - states.taken_s[from],
                changed_mib: states.changed(to, from) as f64 / MIB,
                full_mib: states.bytes[to] as f64 / MIB,
            });
        }
    }
    Ok(pairs)
}
