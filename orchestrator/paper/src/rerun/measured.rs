//! Reads series of checkpoints from the indexes of campaigns.

use cvc_core::record::names;
use cvc_delta::Matrix;
use cvc_index::{Index, SeriesStored, error::AnalysisError};
use indexmap::IndexMap;

/// The checkpoints of a run, and the differences between any two of them.
#[derive(Clone, Debug)]
pub struct MeasuredSeries {
    /// Name of the campaign.
    pub campaign: String,
    /// Factors of its point, as text.
    pub factors: IndexMap<String, String>,
    /// Identifier of the run.
    pub run: String,
    /// The differences.
    pub matrix: Matrix,
    /// Lengths of stored files, and times to store and to restore them, if recorded: means over the runs of the point.
    pub files: [Vec<SeriesStored>; 3],
}

/// Reads the series of a campaign: one for each run whose checkpoints were all compared with each other.
pub(super) fn read(
    index: &Index,
    campaign: &str,
    points: &[(String, IndexMap<String, String>)],
) -> Result<Vec<MeasuredSeries>, AnalysisError> {
    let (states, changes) = (index.series_states()?, index.series_changes()?);
    let stored = [
        names::SERIES_FILE_BYTES,
        names::SERIES_STORE_S,
        names::SERIES_RESTORE_S,
    ];
    let stored = stored.map(|name| index.series_stored(name));
    let [bytes, store_s, restore_s] = stored;
    let stored = [bytes?, store_s?, restore_s?];
    let mut runs: Vec<(&str, &str)> = Vec::new();
    for state in &states {
        if runs.last().is_none_or(|(run, _)| *run != state.run) {
            runs.push((&state.run, &state.point));
        }
    }
    let mut all = Vec::new();
    for (run, point) in runs {
        let Some((_, factors)) = points.iter().find(|(id, _)| id == point) else {
            continue;
        };
        let own: Vec<_> = states.iter().filter(|s| s.run == run).collect();
        let is_counted = (1..).zip(&own).all(|(number, s)| s.ckpt == number);
        let changed = |newer: u32, older: u32| {
            let found = changes
                .iter()
                .find(|c| c.run == run && c.zone.is_none() && c.ckpt == newer && c.since == older);
            found.map(|c| c.bytes as u64)
        };
        let rows: Option<Vec<Vec<u64>>> = own
            .iter()
            .map(|s| (1..s.ckpt).map(|older| changed(s.ckpt, older)).collect())
            .collect();
        let Some(rows) = rows.filter(|_| is_counted) else {
            continue;
        };
        all.push(MeasuredSeries {
            campaign: campaign.to_owned(),
            factors: factors.clone(),
            run: run.to_owned(),
            matrix: Matrix::new(
                own.iter().map(|s| s.at_s).collect(),
                own.iter().map(|s| s.bytes as u64).collect(),
                rows,
            ),
            files: stored.each_ref().map(|records| {
                let of_point = records.iter().filter(|r| r.point == point);
                of_point.cloned().collect()
            }),
        });
    }
    Ok(all)
}
