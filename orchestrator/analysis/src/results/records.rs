//! All records of a campaign in long form, for readers who want to compute for themselves.

use camino::Utf8PathBuf;
use cvc_index::{Index, LabelledRecord, error::AnalysisError};
use cvc_show::{LineWriter, LongRows, ShowError};
use std::collections::HashMap;

/// Where the records are, and the factors of their points. There may be more of them than memory holds, so they stay in the index until they
/// are written.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// Names of the factor columns.
    pub(crate) factors: Vec<String>,
    /// Levels of the factors for each point.
    pub(crate) points: Vec<Vec<String>>,
    /// The point of each run.
    pub(crate) point_of: HashMap<String, usize>,
    /// The index.
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

    /// Hands over the columns of text of each record, its value, and the levels of the factors.
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
