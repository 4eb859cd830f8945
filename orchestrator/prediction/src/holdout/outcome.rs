//! Reads predictions from the index.

use cvc_core::ids::PointId;

use cvc_core::plan::Split;

use cvc_core::point::Point;

use cvc_core::quantity::Quantity;
use cvc_index::error::AnalysisError;
use cvc_index::{CandidateRow, Index, PredictionRow};
use indexmap::IndexMap;

/// The results of `[predict]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HoldoutResult {
    /// The points in the index by training and held-out half, with the bounds.
    pub split: Split,
    /// The held-out points with their factors.
    pub held_out: IndexMap<PointId, Point>,
    /// Predictions of held-out points, in the order of the plan.
    pub judged: Vec<PredictionRow>,
    /// Every model that was considered.
    pub candidates: Vec<CandidateRow>,
    /// The reasons for missing predictions.
    pub problems: Vec<String>,
}

impl HoldoutResult {
    /// Reads the result from an index. Returns `None` if the campaign has no `[predict]`, or if the index was made by a version without
    /// predictions.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn read(index: &Index) -> Result<Option<Self>, AnalysisError> {
        let points = index.split_points()?;
        if points.is_empty() {
            return Ok(None);
        }
        let mut all = Self {
            candidates: index.prediction_candidates()?,
            problems: index.prediction_problems()?,
            ..Self::default()
        };
        for point in points {
            if point.trains {
                all.split.train.push(point.id);
            } else {
                all.split.held_out.push(point.id.clone());
                all.held_out.insert(point.id, point.point);
            }
        }
        for bound in index.prediction_bounds()? {
            match Quantity::named(&bound.what) {
                Some(quantity) => {
                    all.split.max_error_pct.insert(quantity, bound.percent);
                }
                None => all.split.min_coverage_pct = Some(bound.percent),
            }
        }
        all.judged = index.predictions()?;
        all.judged
            .retain(|row| all.held_out.contains_key(&row.point));
        Ok(Some(all))
    }

    /// Returns the predictions of a quantity.
    pub fn of(&self, of: Quantity) -> impl Iterator<Item = &PredictionRow> {
        self.judged.iter().filter(move |row| row.quantity == of)
    }
}
