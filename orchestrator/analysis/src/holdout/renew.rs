//! Predictions of a campaign, in their file and in the index.

use super::{FILE, HeldOutAnswer, PredictionLine, derive};
use crate::error::AnalysisError;
use crate::index::Index;
use camino::Utf8Path;
use cvc_core::plan::Split;
use cvc_core::store::{StoreError, write_whole};
use rusqlite::{Connection, Transaction, params};
use std::{fs, io};

/// Rebuilds the index of a campaign's directory and opens it. If the plan divides its points into training and held-out ones, the predictions
/// are made anew, in the index and in `predictions.jsonl`.
///
/// # Errors
/// When the campaign's files cannot be read, or the index cannot be written.
pub fn rebuild_index(campaign: &Utf8Path) -> Result<Index, AnalysisError> {
    Index::rebuild(campaign, |index, plan| renew(campaign, index, plan.predict.as_ref()))
}

/// Makes the predictions from an index that has everything else, writes `predictions.jsonl`, and adds them to the index file. A campaign that
/// predicts nothing has no such file.
fn renew(campaign: &Utf8Path, index: Index, split: Option<&Split>) -> Result<(), AnalysisError> {
    let file = campaign.join(FILE);
    let Some(split) = split else {
        return match fs::remove_file(&file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &file)(e).into()),
            Ok(()) | Err(_) => Ok(()),
        };
    };
    let lines = derive(&index, split);
    let mut text = String::new();
    for line in &lines {
        // Our own types, whose numbers are finite.
        text.push_str(&serde_json::to_string(line).unwrap_or_default());
        text.push('\n');
    }
    write_whole(&file, text.as_bytes())?;
    let path = index.path.clone();
    drop(index);
    let insert = || -> rusqlite::Result<()> {
        let mut connection = Connection::open(&path)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let t = connection.transaction()?;
        points(&t, split)?;
        for line in &lines {
            insert_line(&t, line)?;
        }
        t.commit()
    };
    insert().map_err(|source| AnalysisError::Index { path: path.clone().into(), source })
}

fn points(t: &Transaction<'_>, split: &Split) -> rusqlite::Result<()> {
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
            let (predicted, low, high, level, refused) = match &p.answer {
                HeldOutAnswer::Predicted { predicted, low, high, level } => (Some(*predicted), *low, *high, Some(*level), None),
                HeldOutAnswer::Refused { why } => (None, None, None, None, Some(why.as_str())),
            };
            let training = serde_json::to_string(&p.training).unwrap_or_default();
            t.prepare_cached("INSERT INTO predictions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?.execute(params![
                p.point.as_str(),
                p.quantity.name(),
                p.measured,
                predicted,
                low,
                high,
                level,
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
            t.prepare_cached("INSERT INTO prediction_candidates VALUES (?,?,?,?,?,?,?,?)")?.execute(params![
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
            t.prepare_cached("INSERT INTO prediction_problems VALUES (?)")?.execute([text])?;
        }
    }
    Ok(())
}
