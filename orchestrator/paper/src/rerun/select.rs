//! Selects the runs of a table row, and their images.

use super::definition::{FromCell, RowValue};
use crate::paper::CellValues;
use indexmap::IndexMap;
use regex::Regex;

/// The text of each cell of a table row, by column.
pub type RowCells = IndexMap<String, String>;

/// The reason why nothing was measured for a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    /// The table does not have a column that the definition names.
    #[error("the table has no column `{0}`")]
    NoColumn(String),
    /// No campaign has this value.
    #[error("no campaign runs `{0}`")]
    NoCampaign(String),
    /// The definition names images of an unknown kind.
    #[error(
        "unknown images `{0}`: write ranks, largest N, but-largest N (or aggregators for N), launcher NAME, or whole"
    )]
    NoImages(String),
    /// The cell is not a number.
    #[error("`{0}` is not a number")]
    NotANumber(String),
}

/// Returns whether a row has the requested values.
pub fn matches(rows: &IndexMap<String, CellValues>, row: &RowCells) -> bool {
    rows.iter()
        .all(|(column, wanted)| row.get(column).is_some_and(|cell| wanted.has(cell)))
}

/// Returns a value for a row, or the reason why there is none.
pub fn resolve(wanted: &RowValue, row: &RowCells) -> Result<String, RowProblem> {
    match wanted {
        RowValue::Number(number) => Ok(number.to_string()),
        RowValue::Text(text) => {
            let mut filled = text.clone();
            for (column, cell) in row {
                filled = filled.replace(&format!("{{{column}}}"), cell);
            }
            match filled.split_once('{') {
                None => Ok(filled),
                Some((_, rest)) => Err(RowProblem::NoColumn(
                    rest.split('}').next().unwrap_or_default().to_owned(),
                )),
            }
        }
        RowValue::Cell(from) => from_cell(from, row),
    }
}

fn from_cell(from: &FromCell, row: &RowCells) -> Result<String, RowProblem> {
    let cell = row
        .get(&from.column)
        .ok_or_else(|| RowProblem::NoColumn(from.column.clone()))?;
    let part = match &from.pattern {
        None => cell.clone(),
        Some(pattern) => Regex::new(pattern)
            .ok()
            .and_then(|r| r.captures(cell)?.get(1).map(|m| m.as_str().to_owned()))
            .ok_or_else(|| RowProblem::NoCampaign(cell.clone()))?,
    };
    if from.values.is_empty() {
        return Ok(part);
    }
    from.values
        .get(&part)
        .cloned()
        .ok_or(RowProblem::NoCampaign(part))
}

/// Returns the factors of the points for a row, in the form that the index uses.
pub fn factors(
    point: &IndexMap<String, RowValue>,
    row: &RowCells,
) -> Result<IndexMap<String, String>, RowProblem> {
    point
        .iter()
        .map(|(factor, wanted)| {
            let value = resolve(wanted, row)?;
            // papers print mappings with spaces, and sometimes in lower case
            let value = if factor == "mapping" {
                value
                    .replace(char::is_whitespace, "")
                    .replace('n', "N")
                    .replace('p', "P")
            } else {
                value
            };
            Ok((factor.clone(), value))
        })
        .collect()
}

/// Selection of images of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Images {
    /// The images of all ranks.
    Ranks,
    /// This number of the largest rank images; `None` for as many as the point has aggregators.
    Largest(Option<usize>),
    /// All rank images except this number of the largest ones; `None` for as many as the point has aggregators.
    ButLargest(Option<usize>),
    /// Images of launchers whose program name begins with this text.
    Launcher(String),
    /// No image: records of the run or of the checkpoint as a whole.
    Whole,
}

impl std::str::FromStr for Images {
    type Err = RowProblem;

    fn from_str(text: &str) -> Result<Self, RowProblem> {
        let bad = || RowProblem::NoImages(text.to_owned());
        let count = |word: &str| match word {
            "aggregators" => Ok(None),
            number => number.parse().map(Some).map_err(|_| bad()),
        };
        match text.split_once(' ') {
            None if text == "ranks" => Ok(Self::Ranks),
            None if text == "whole" => Ok(Self::Whole),
            Some(("largest", n)) => Ok(Self::Largest(count(n)?)),
            Some(("but-largest", n)) => Ok(Self::ButLargest(count(n)?)),
            Some(("launcher", name)) if !name.is_empty() => Ok(Self::Launcher(name.to_owned())),
            Some(_) | None => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> RowCells {
        cells
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn values_come_out_of_cells_and_what_is_not_listed_has_none() {
        let row = row(&[("app", "SP.B.25"), ("mapping_printed", "6n x 4p + 1N x 1P")]);
        let from = |pattern: &str, values: &[(&str, &str)]| {
            RowValue::Cell(FromCell {
                column: "app".into(),
                pattern: Some(pattern.into()),
                values: values
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect(),
            })
        };
        assert_eq!(resolve(&from(r"\.(\d+)$", &[]), &row), Ok("25".into()));
        assert_eq!(
            resolve(&from(r"^(\w+)\.", &[("SP", "npb-sp")]), &row),
            Ok("npb-sp".into())
        );
        assert!(
            resolve(&from(r"^(\w+)\.", &[("LU", "npb-lu")]), &row)
                .is_err_and(|e| e.to_string().contains("`SP`"))
        );
        assert_eq!(
            resolve(&RowValue::Text("1Nx{app}P".into()), &row),
            Ok("1NxSP.B.25P".into())
        );
        assert!(
            resolve(&RowValue::Text("{nodes}".into()), &row)
                .is_err_and(|e| e.to_string().contains("`nodes`"))
        );
        let point = IndexMap::from([(
            "mapping".to_owned(),
            RowValue::Text("{mapping_printed}".into()),
        )]);
        assert_eq!(
            factors(&point, &row).expect("a mapping")["mapping"],
            "6Nx4P+1Nx1P"
        );
    }

    #[test]
    fn images_are_named_by_words() {
        assert_eq!("ranks".parse(), Ok(Images::Ranks));
        assert_eq!("largest 2".parse(), Ok(Images::Largest(Some(2))));
        assert_eq!(
            "but-largest aggregators".parse(),
            Ok(Images::ButLargest(None))
        );
        assert_eq!(
            "launcher mpiexec".parse(),
            Ok(Images::Launcher("mpiexec".into()))
        );
        assert!(
            "largest".parse::<Images>().is_err()
                && "largest x".parse::<Images>().is_err()
                && "".parse::<Images>().is_err()
        );
    }
}
