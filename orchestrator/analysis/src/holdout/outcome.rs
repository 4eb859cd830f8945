//! Predictions as the index has them.

use super::{ConsideredModel, HeldOutAnswer, HeldOutPrediction, ModelName};
use crate::error::AnalysisError;
use crate::index::Index;
use cvc_core::ids::PointId;
use cvc_core::plan::Split;
use indexmap::IndexMap;
use rusqlite::{Connection, Row};

/// Where a point stands among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointPlace {
    /// The program.
    pub app: String,
    /// Its workload.
    pub class: String,
    /// The MPI library.
    pub mpi: String,
}

/// A prediction with the place of its point.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedPrediction {
    /// Of the held-out point.
    pub place: PointPlace,
    /// What was predicted and measured.
    pub prediction: HeldOutPrediction,
}

/// What came of `[predict]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HoldoutResult {
    /// The points that the index has, and the bounds.
    pub split: Split,
    /// The held-out points.
    pub held_out: IndexMap<PointId, PointPlace>,
    /// In the order of the plan.
    pub judged: Vec<PlacedPrediction>,
    /// Every model that was considered.
    pub candidates: Vec<ConsideredModel>,
    /// Why there is no prediction where one was asked for.
    pub problems: Vec<String>,
}

impl HoldoutResult {
    /// Reads what an index has; `None` if its campaign predicts nothing, or the index is older than predictions.
    pub fn read(index: &Index) -> Result<Option<Self>, AnalysisError> {
        query(index.connection()).map_err(index.failed())
    }
}

fn query(db: &Connection) -> rusqlite::Result<Option<HoldoutResult>> {
    if !db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'prediction_points'")?.exists([])? {
        return Ok(None);
    }
    let mut outcome = HoldoutResult::default();
    let mut query = db
        .prepare("SELECT r.point, r.role, p.app, p.class, p.mpi FROM prediction_points r JOIN points p ON p.id = r.point ORDER BY p.seq")?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        let point = PointId::from_written(&r.get::<_, String>(0)?);
        if r.get::<_, String>(1)? == "train" {
            outcome.split.train.push(point);
        } else {
            outcome.split.held_out.push(point.clone());
            outcome.held_out.insert(point, PointPlace { app: r.get(2)?, class: r.get(3)?, mpi: r.get(4)? });
        }
    }
    let mut query = db.prepare("SELECT what, percent FROM prediction_bounds ORDER BY rowid")?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        let (what, percent): (String, f64) = (r.get(0)?, r.get(1)?);
        match cvc_core::quantity::named(&what) {
            Some(quantity) => {
                outcome.split.max_error_pct.insert(quantity, percent);
            }
            None => outcome.split.min_coverage_pct = Some(percent),
        }
    }
    if outcome.split.train.is_empty() && outcome.split.held_out.is_empty() {
        return Ok(None);
    }
    let mut query = db.prepare("SELECT * FROM predictions ORDER BY rowid")?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        let Some(prediction) = prediction(r)? else { continue };
        if let Some(place) = outcome.held_out.get(&prediction.point) {
            outcome.judged.push(PlacedPrediction { place: place.clone(), prediction });
        }
    }
    let mut query = db.prepare("SELECT * FROM prediction_candidates ORDER BY rowid")?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        let Some(quantity) = cvc_core::quantity::named(&r.get::<_, String>("quantity")?) else { continue };
        let Some(model) = model(r)? else { continue };
        outcome.candidates.push(ConsideredModel {
            of: r.get("of")?,
            quantity,
            model,
            chosen: r.get("chosen")?,
            leave_one_out_pct: r.get("leave_one_out_pct")?,
            refused: r.get("refused")?,
        });
    }
    let problems =
        db.prepare("SELECT text FROM prediction_problems ORDER BY rowid")?.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?;
    outcome.problems = problems;
    Ok(Some(outcome))
}

fn model(r: &Row<'_>) -> rusqlite::Result<Option<ModelName>> {
    let Some(id) = r.get("model")? else { return Ok(None) };
    Ok(Some(ModelName { id, title: r.get("title")?, tier: r.get("tier")? }))
}

/// A row of `predictions`; `None` if it is of a quantity that this version does not know.
fn prediction(r: &Row<'_>) -> rusqlite::Result<Option<HeldOutPrediction>> {
    let Some(quantity) = cvc_core::quantity::named(&r.get::<_, String>("quantity")?) else { return Ok(None) };
    let answer = match r.get::<_, Option<f64>>("predicted")? {
        Some(predicted) => HeldOutAnswer::Predicted { predicted, low: r.get("low")?, high: r.get("high")?, level: r.get("level")? },
        None => HeldOutAnswer::Refused { why: r.get::<_, Option<String>>("refused")?.unwrap_or_default() },
    };
    Ok(Some(HeldOutPrediction {
        point: PointId::from_written(&r.get::<_, String>("point")?),
        quantity,
        answer,
        measured: r.get("measured")?,
        error_pct: r.get("error_pct")?,
        covered: r.get("covered")?,
        model: model(r)?,
        training: serde_json::from_str(&r.get::<_, String>("training")?).unwrap_or_default(),
    }))
}
