//! Predictions of held-out points, as stored in the index and in `predictions.jsonl`.

use super::{
    Index,
    row::{FromRow, row},
};
use crate::error::AnalysisError;
use cvc_core::ids::PointId;
use cvc_core::plan::Split;
use cvc_core::point::Point;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Interval, LEVEL};
use rusqlite::{Connection, Row, Transaction, params};
use serde::{Deserialize, Serialize};

/// A line of `predictions.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum PredictionLine {
    /// The prediction of one quantity of a held-out point.
    Prediction(PredictionRow),
    /// A model that was considered.
    Candidate(CandidateRow),
    /// A problem that prevented predictions.
    Problem {
        /// The problem, as text.
        text: String,
    },
}

/// Why there is no prediction for a quantity of a held-out point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NoForecast {
    /// The reason, as text.
    pub why: String,
}

/// The prediction of one quantity of a held-out point, and the value that was measured. It is not a measured record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionRow {
    /// The held-out point.
    pub point: PointId,
    /// The quantity. Its name includes the unit of all values in this row.
    pub quantity: Quantity,
    /// The predicted value with its interval, or why there is none.
    #[serde(flatten, with = "written_answer")]
    pub answer: Result<Estimate, NoForecast>,
    /// Mean of the measured repeats.
    pub measured: f64,
    /// 100·|predicted − measured|/measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_pct: Option<f64>,
    /// Whether the interval contains the measured value; `None` if there is no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<bool>,
    /// The model; `None` if there is no prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// The points to which the model was fitted; empty if it needs none.
    pub training: Vec<PointId>,
}

/// A model by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelName {
    /// Short name, such as `dtapp-halo`.
    pub id: String,
    /// Title for display.
    pub title: String,
    /// What the model requires: `no-run`, `small-runs` or `published`.
    pub tier: String,
}

/// A model that was considered for a quantity of a program with an MPI library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateRow {
    /// What the model was fitted for: program, class and MPI library, if the model distinguishes them.
    pub of: String,
    /// The quantity.
    pub quantity: Quantity,
    /// The model.
    pub model: ModelName,
    /// Whether the model was chosen.
    pub chosen: bool,
    /// Mean leave-one-out error at the training points, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_one_out_pct: Option<f64>,
    /// Why the model was not fitted; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Format of an answer in `predictions.jsonl`: `"answer": "predicted"` with its numbers, or `"answer": "refused"` with the reason.
mod written_answer {
    use super::{Estimate, Interval, LEVEL, NoForecast};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "answer", rename_all = "kebab-case")]
    enum WrittenAnswer {
        Predicted {
            predicted: f64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            low: Option<f64>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            high: Option<f64>,
            level: f64,
        },
        Refused {
            why: String,
        },
    }

    pub fn serialize<S: Serializer>(
        answer: &Result<Estimate, NoForecast>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let written = match answer {
            Ok(Estimate { value, interval }) => WrittenAnswer::Predicted {
                predicted: *value,
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
                level: LEVEL,
            },
            Err(NoForecast { why }) => WrittenAnswer::Refused { why: why.clone() },
        };
        written.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Result<Estimate, NoForecast>, D::Error> {
        Ok(match WrittenAnswer::deserialize(from)? {
            WrittenAnswer::Predicted {
                predicted,
                low,
                high,
                level: _,
            } => Ok(Estimate {
                value: predicted,
                interval: low.zip(high).map(|(low, high)| Interval { low, high }),
            }),
            WrittenAnswer::Refused { why } => Err(NoForecast { why }),
        })
    }
}

/// A point, and whether `[predict]` uses it for training or holds it out.
#[derive(Clone, Debug)]
pub struct SplitPoint {
    pub id: PointId,
    pub point: Point,
    pub trains: bool,
}

row! {
    /// A limit set in `[predict]`, which the predictions should satisfy.
    pub struct PredictionBound {
        /// The quantity, or `coverage`.
        what: String,
        percent: f64,
    }
}

row! {
    /// A problem that prevented predictions.
    pub struct PredictionProblem {
        text: String,
    }
}

impl FromRow for SplitPoint {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: PointId::from_written(&r.get::<_, String>("id")?),
            point: Point::from_row(r)?,
            trains: r.get::<_, String>("role")? == "train",
        })
    }
}

impl ModelName {
    /// Reads the model from a row of `predictions` or `prediction_candidates`, if it has one.
    fn of(r: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let Some(id) = r.get("model")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            id,
            title: r.get("title")?,
            tier: r.get("tier")?,
        }))
    }
}

/// `None` if this version does not support the quantity of the row.
impl FromRow for Option<PredictionRow> {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        let Some(quantity) = Quantity::named(&r.get::<_, String>("quantity")?) else {
            return Ok(None);
        };
        let answer = match r.get::<_, Option<f64>>("predicted")? {
            Some(value) => {
                let ends = r
                    .get::<_, Option<f64>>("low")?
                    .zip(r.get::<_, Option<f64>>("high")?);
                Ok(Estimate {
                    value,
                    interval: ends.map(|(low, high)| Interval { low, high }),
                })
            }
            None => Err(NoForecast {
                why: r.get::<_, Option<String>>("refused")?.unwrap_or_default(),
            }),
        };
        Ok(Some(PredictionRow {
            point: PointId::from_written(&r.get::<_, String>("point")?),
            quantity,
            answer,
            measured: r.get("measured")?,
            error_pct: r.get("error_pct")?,
            covered: r.get("covered")?,
            model: ModelName::of(r)?,
            training: serde_json::from_str(&r.get::<_, String>("training")?).unwrap_or_default(),
        }))
    }
}

/// `None` if this version does not support the quantity of the row.
impl FromRow for Option<CandidateRow> {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        let Some(quantity) = Quantity::named(&r.get::<_, String>("quantity")?) else {
            return Ok(None);
        };
        let Some(model) = ModelName::of(r)? else {
            return Ok(None);
        };
        Ok(Some(CandidateRow {
            of: r.get("of")?,
            quantity,
            model,
            chosen: r.get("chosen")?,
            leave_one_out_pct: r.get("leave_one_out_pct")?,
            refused: r.get("refused")?,
        }))
    }
}

impl Index {
    /// Returns the training points and the held-out points, in the order of the plan; none if an earlier version without predictions wrote the
    /// index.
    pub fn split_points(&self) -> Result<Vec<SplitPoint>, AnalysisError> {
        let has_split = || {
            self.connection
                .prepare("SELECT 1 FROM sqlite_master WHERE name = 'prediction_points'")?
                .exists([])
        };
        if !has_split().map_err(self.failed())? {
            return Ok(Vec::new());
        }
        self.read("SELECT p.*, s.role FROM prediction_points s JOIN points p ON p.id = s.point ORDER BY p.seq", [])
    }

    /// Returns the limits on predictions, in the order of the campaign file.
    pub fn prediction_bounds(&self) -> Result<Vec<PredictionBound>, AnalysisError> {
        self.read(
            "SELECT what, percent FROM prediction_bounds ORDER BY rowid",
            [],
        )
    }

    /// Returns the predictions, in the order of the plan.
    pub fn predictions(&self) -> Result<Vec<PredictionRow>, AnalysisError> {
        Ok(self
            .read::<Option<_>>("SELECT * FROM predictions ORDER BY rowid", [])?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Returns the models that were considered.
    pub fn prediction_candidates(&self) -> Result<Vec<CandidateRow>, AnalysisError> {
        Ok(self
            .read::<Option<_>>("SELECT * FROM prediction_candidates ORDER BY rowid", [])?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Returns the problems that prevented predictions.
    pub fn prediction_problems(&self) -> Result<Vec<String>, AnalysisError> {
        let problems: Vec<PredictionProblem> =
            self.read("SELECT text FROM prediction_problems ORDER BY rowid", [])?;
        Ok(problems.into_iter().map(|problem| problem.text).collect())
    }

    /// Adds the division into training and held-out points, and the predictions, to an index that has none yet; closes the index.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_predictions(
        self,
        split: &Split,
        lines: &[PredictionLine],
    ) -> Result<(), AnalysisError> {
        let Self {
            connection,
            path,
            _temporary,
        } = self;
        // this connection is read-only
        drop(connection);
        let insert = || -> rusqlite::Result<()> {
            let mut connection = Connection::open(&path)?;
            connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
            let t = connection.transaction()?;
            insert_split(&t, split)?;
            for line in lines {
                insert_line(&t, line)?;
            }
            t.commit()
        };
        insert().map_err(|source| AnalysisError::Index {
            path: path.clone().into(),
            source,
        })
    }
}

fn insert_split(t: &Transaction<'_>, split: &Split) -> rusqlite::Result<()> {
    let mut insert = t.prepare("INSERT INTO prediction_points SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM points WHERE id = ?1)")?;
    for (role, points) in [("train", &split.train), ("held-out", &split.held_out)] {
        for point in points {
            insert.execute((point.as_str(), role))?;
        }
    }
    let mut insert = t.prepare("INSERT INTO prediction_bounds VALUES (?, ?)")?;
    for (quantity, percent) in &split.max_error_pct {
        insert.execute((quantity.name(), percent))?;
    }
    if let Some(percent) = split.min_coverage_pct {
        insert.execute(("coverage", percent))?;
    }
    Ok(())
}

fn insert_line(t: &Transaction<'_>, line: &PredictionLine) -> rusqlite::Result<()> {
    match line {
        PredictionLine::Prediction(p) => {
            let (estimate, refused) = (
                p.answer.as_ref().ok(),
                p.answer.as_ref().err().map(|no| &no.why),
            );
            let interval = estimate.and_then(|e| e.interval);
            let training = serde_json::to_string(&p.training).unwrap_or_default();
            t.prepare_cached("INSERT INTO predictions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?
                .execute(params![
                    p.point.as_str(),
                    p.quantity.name(),
                    p.measured,
                    estimate.map(|e| e.value),
                    interval.map(|i| i.low),
                    interval.map(|i| i.high),
                    estimate.map(|_| LEVEL),
                    p.error_pct,
                    p.covered,
                    p.model.as_ref().map(|m| &m.id),
                    p.model.as_ref().map(|m| &m.title),
                    p.model.as_ref().map(|m| &m.tier),
                    training,
                    refused,
                ])?;
        }
        PredictionLine::Candidate(c) => {
            t.prepare_cached("INSERT INTO prediction_candidates VALUES (?,?,?,?,?,?,?,?)")?
                .execute(params![
                    c.of,
                    c.quantity.name(),
                    c.model.id,
                    c.model.title,
                    c.model.tier,
                    c.chosen,
                    c.leave_one_out_pct,
                    c.refused,
                ])?;
        }
        PredictionLine::Problem { text } => {
            t.prepare_cached("INSERT INTO prediction_problems VALUES (?)")?
                .execute([text])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::PredictionLine;

    #[test]
    fn a_line_of_predictions_is_written_as_it_was_read() {
        let lines = [
            r#"{"line":"prediction","point":"p","quantity":"file_mib","answer":"predicted","predicted":2.0,"low":1.0,"high":3.0,"level":0.95,"measured":2.5,"error_pct":20.0,"covered":true,"model":{"id":"m","title":"a model","tier":"no-run"},"training":["t"]}"#,
            r#"{"line":"prediction","point":"p","quantity":"file_mib","answer":"predicted","predicted":2.0,"level":0.95,"measured":2.5,"training":[]}"#,
            r#"{"line":"prediction","point":"p","quantity":"file_mib","answer":"refused","why":"no data","measured":2.5,"training":[]}"#,
        ];
        for text in lines {
            let line: PredictionLine =
                serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(serde_json::to_string(&line).expect("json"), text);
        }
    }
}
