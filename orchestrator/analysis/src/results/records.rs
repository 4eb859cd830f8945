//! All records of a campaign in long form (one per row), for further computation.

use camino::Utf8PathBuf;
use cvc_index::{Index, LabelledRecord, error::AnalysisError};
use cvc_show::{LineWriter, LongRows, ShowError};
use std::collections::HashMap;

/// Where the records are, and the factors of their points. The records may not fit in memory, so they stay in the index until they are written.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// Names of the factor columns.
    pub(crate) factors: Vec<String>,
    /// For each point, the levels of the factors.
    pub(crate) points: Vec<Vec<String>>,
    /// Index of each run's point.
    pub(crate) point_of: HashMap<String, usize>,
    /// Path of the index.
    pub(crate) index: Utf8PathBuf,
}

impl LongRows for Records {
    fn name(&self) -> &str {
        "records"
    }

    fn columns(&self) -> Vec<String> {
        let fixed = LabelledRecord::COLUMNS.into_iter().chain(["value"]);
        let fixed = fixed.map(str::to_owned);
        fixed.chain(self.factors.iter().cloned()).collect()
    }

    /// Calls `line` for each record, with its text columns, its value, and the levels of the factors.
    fn each(&self, line: LineWriter<'_>) -> Result<(), ShowError> {
        let each = |record: LabelledRecord<'_>| {
            let Some(&point) = record.text[0].and_then(|run| self.point_of.get(run)) else {
                return Ok(());
            };
            let own = record.text.iter().map(|t| t.unwrap_or_default().to_owned());
            let value = record.value.map(|v| v.to_string()).unwrap_or_default();
            let levels = self.points[point].iter().cloned();
            Ok(line(&mut own.chain([value]).chain(levels))?)
        };
        let index = Index::open_file(self.index.clone());
        index
            .and_then(|index| index.each_record(each))
            .map_err(|error| match error {
                AnalysisError::Store(error) => error.into(),
                error => ShowError::Rows(error.into()),
            })
    }
}
