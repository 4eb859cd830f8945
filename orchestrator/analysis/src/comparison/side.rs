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
    /// What models say of points that nobody has measured.
    unmeasured: Arc<Vec<UnmeasuredPoint>>,
    /// Its points, as indices.
    points: Vec<usize>,
}

impl Side {
    /// All results of a campaign.
    ///
    /// # Errors
    /// When the index cannot be read.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sites that it has points of, in the order of the campaign.
    pub fn sites(&self) -> Vec<String> {
        let sites: IndexSet<&str> = self
            .points
            .iter()
            .map(|point| self.data.points[*point].level(FactorId::Site))
            .collect();
        sites.into_iter().map(str::to_owned).collect()
    }

    /// What of it ran on one site; `None` if it has no such site. It is called by `name`.
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

    /// What models say of a point that nobody has measured.
    pub(crate) fn unmeasured(&self, point: usize) -> Option<&UnmeasuredPoint> {
        let id = &self.point(point).id;
        self.unmeasured.iter().find(|said| said.point == *id)
    }

    /// Its points, as indices.
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
