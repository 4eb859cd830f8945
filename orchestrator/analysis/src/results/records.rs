//! All records of a campaign in long form, for readers who want to compute for themselves.

use camino::Utf8PathBuf;
use cvc_index::error::AnalysisError;
use cvc_index::{Index, LabelledRecord};
use std::collections::HashMap;

/// Where the records are, and the factors of their points. There may be more of them than memory holds, so they stay in the index until they
/// are written.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Names of the factor columns.
    pub(crate) factors: Vec<String>,
    /// Levels of the factors for each point.
    pub(crate) points: Vec<Vec<String>>,
    /// The point of each run.
    pub(crate) point_of: HashMap<String, usize>,
    /// The index; `None` where there are none.
    pub(crate) index: Option<Utf8PathBuf>,
}

impl Records {
    /// Names of all columns: what belongs to a record, its value, and the factors of its point.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        LabelledRecord::COLUMNS
            .into_iter()
            .chain(["value"])
            .chain(self.factors.iter().map(String::as_str))
    }

    /// Reads the records one after another: their columns of text, their values, and the levels of the factors.
    pub(crate) fn each(
        &self,
        mut each: impl FnMut(&[Option<&str>], Option<f64>, &[String]) -> Result<(), AnalysisError>,
    ) -> Result<(), AnalysisError> {
        let Some(index) = &self.index else {
            return Ok(());
        };
        Index::open_file(index.clone())?.each_record(|record| {
            let Some(&point) = record.text[0].and_then(|run| self.point_of.get(run)) else {
                return Ok(());
            };
            each(&record.text, record.value, &self.points[point])
        })
    }
}
