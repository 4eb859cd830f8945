//! One side of a comparison.

use crate::results::{data::Data, rows::PointRow};
use cvc_core::point::FactorId;
use cvc_index::{Index, error::AnalysisError};
use cvc_prediction::predict::{UnmeasuredPoint, unmeasured};
use indexmap::IndexSet;
use std::sync::Arc;

/// The results of a campaign, or of one of its sites.
#[derive(Clone)]
pub struct Side {
    name: String,
    data: Arc<Data>,
    /// Predictions of models for points without measurements.
    unmeasured: Arc<Vec<UnmeasuredPoint>>,
    /// Indices of the side's points.
    points: Vec<usize>,
}

impl Side {
    /// Returns all results of a campaign.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn of_campaign(name: impl Into<String>, index: &Index) -> Result<Self, AnalysisError> {
        let data = Data::read(index)?;
        Ok(Self {
            name: name.into(),
            points: (0..data.points.len()).collect(),
            data: Arc::new(data),
            // without models there are only measured points
            unmeasured: Arc::new(unmeasured(index).unwrap_or_default()),
        })
    }

    /// Returns the name of the side.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sites of the side's points, in the order of the campaign.
    pub fn sites(&self) -> Vec<String> {
        let sites: IndexSet<&str> = self
            .points
            .iter()
            .map(|point| self.data.points[*point].level(FactorId::Site))
            .collect();
        sites.into_iter().map(str::to_owned).collect()
    }

    /// Returns the part of this side that ran on one site, as a side called `name`; `None` if no point ran on this site.
    pub fn of_site(&self, site: &str, name: impl Into<String>) -> Option<Self> {
        let points: Vec<usize> = self
            .points
            .iter()
            .copied()
            .filter(|point| self.data.points[*point].level(FactorId::Site) == site)
            .collect();
        (!points.is_empty()).then(|| Self {
            name: name.into(),
            data: Arc::clone(&self.data),
            unmeasured: Arc::clone(&self.unmeasured),
            points,
        })
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    pub(crate) fn point(&self, point: usize) -> &PointRow {
        &self.data.points[point]
    }

    /// Returns the prediction of models for a point without measurements.
    pub(crate) fn unmeasured(&self, point: usize) -> Option<&UnmeasuredPoint> {
        let id = &self.point(point).id;
        self.unmeasured.iter().find(|said| said.point == *id)
    }

    /// Returns the indices of the side's points.
    pub(crate) fn points(&self) -> &[usize] {
        &self.points
    }
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side")
            .field("name", &self.name)
            .field("points", &self.points.len())
            .finish_non_exhaustive()
    }
}
