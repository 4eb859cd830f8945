//! The index: an SQLite file with the journal, the plan and the records of a campaign. It contains only derived data and can be rebuilt at any
//! time.
//!
//! Only this crate depends on the schema:
//!
//! | file | contents |
//! | --- | --- |
//! | `schema.sql`, `quantities.rs`, `indexes.sql`, `fill.rs`, `load.rs` | the tables, and how they are filled from the files of a campaign |
//! | `factors.rs` | the columns of factors |
//! | `rows.rs` | points and runs, read back |
//! | `measurements.rs` | records, quantities, facts, costs, read back |
//! | `soundness.rs` | detects records that are missing, damaged or changed |
//! | `flat.rs` | tables for export: their columns, described, and their rows as text |
//! | `predictions.rs` | predictions of held-out points, written and read back |
//!
//! Each statement has a function, and its rows have a type whose fields are read by column name (`row.rs`).

pub mod csv;
pub mod error;
pub mod factors;
mod fill;
mod flat;
mod load;
mod measurements;
mod predictions;
mod quantities;
mod row;
mod rows;
mod soundness;
mod words;

pub use fill::SCHEMA;
pub use flat::{FlatColumn, FlatTable, FlatType};
pub use measurements::{
    ImageRecord, ImageSize, IndexedAttempt, IndexedLease, IndexedSeriesState, LabelledRecord,
    LauncherImages, PointSummary, RecordSource, RunValue, SeriesChange, SeriesStored, SeriesVolume,
    SeriesZoneVolume, ZoneSize,
};
pub use predictions::{CandidateRow, ModelName, NoForecast, PredictionLine, PredictionRow};
pub use quantities::statement as quantity_statement;
pub use rows::{IndexedBaseline, IndexedDecision, IndexedExclusion, IndexedPoint, IndexedRun};
pub use soundness::{UnsoundRecords, describe_unsound, unsound_records};
pub use words::{IndexedResult, RecordsState, RunOutcome};

use crate::error::AnalysisError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::plan::Plan;
use cvc_core::point::{Excluded, ExcludedBy};
use cvc_core::store::{StoreError, abandoned, own_prefix, regular, remove_abandoned};
use cvc_journal::CampaignState;
use row::FromRow;
use rusqlite::{Connection, OpenFlags, Params};
use std::{fs, io, path::Path, time::Duration};

/// File name of the index in a campaign's directory.
pub const FILE: &str = "index.sqlite";

/// Prefix of the file names of temporary indexes.
const TEMPORARY_PREFIX: &str = "cvc-index";
/// A temporary index of this age is no longer in use.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// An index opened for reading.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    path: Utf8PathBuf,
    /// The temporary file, if the index is one; deleted when this value is dropped.
    _temporary: Option<tempfile::TempPath>,
}

impl Index {
    /// Rebuilds the index of a campaign's directory and opens it. The file is renamed when it is complete, so readers see either the old index or
    /// the new one. If the directory is not writable, the index is in a [temporary file](Self::in_temporary_file).
    ///
    /// Before the rename, `complete` may add data that are derived from the rest of the index, such as predictions
    /// ([`cvc_prediction::holdout::rebuild_index`]).
    ///
    /// Missing or damaged records are not an error: the run is marked, and reports mention it.
    pub fn rebuild(
        campaign: &Utf8Path,
        complete: impl FnOnce(Self, &Plan) -> Result<(), AnalysisError>,
    ) -> Result<Self, AnalysisError> {
        remove_abandoned(campaign, "index");
        let make = || {
            tempfile::Builder::new()
                .prefix(&own_prefix("index")?)
                .suffix(".sqlite")
                .tempfile_in(campaign)
        };
        let made = make();
        let temporary = match made.map_err(StoreError::io("create a file in", campaign)) {
            Err(error) if error.is_read_only() => {
                return Self::in_temporary_file_with(campaign, complete);
            }
            made => made?,
        };
        fill_with(campaign, temporary.path(), complete)?;
        let path = campaign.join(FILE);
        temporary
            .persist(&path)
            .map_err(|e| StoreError::io("write", &path)(e.error))?;
        // A temporary file is readable by its owner only; the index gets the permissions that the directory allows.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
                .map_err(StoreError::io("set the permissions of", &path))?;
        }
        Self::open(campaign)
    }

    /// Builds the index of a campaign's directory in a temporary file, which is deleted when the returned value is dropped. The directory is only
    /// read, so it may be an archive. The index has no predictions.
    pub fn in_temporary_file(campaign: &Utf8Path) -> Result<Self, AnalysisError> {
        Self::in_temporary_file_with(campaign, |_, _| Ok(()))
    }

    /// Builds an index as [`Self::in_temporary_file`] does, and completes it with `complete`.
    fn in_temporary_file_with(
        campaign: &Utf8Path,
        complete: impl FnOnce(Self, &Plan) -> Result<(), AnalysisError>,
    ) -> Result<Self, AnalysisError> {
        let anywhere = Utf8PathBuf::from(std::env::temp_dir().to_string_lossy().into_owned());
        // Removes files that killed commands left. Processes in other containers may use this directory unseen, so recent files are kept.
        let is_old = |path: &Utf8PathBuf| {
            let modified = path.metadata().and_then(|found| found.modified());
            let age = modified.ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > ABANDONED_AFTER)
        };
        for left in abandoned(&anywhere, TEMPORARY_PREFIX)
            .iter()
            .filter(|path| is_old(path))
        {
            let _ = fs::remove_file(left);
        }
        let temporary = own_prefix(TEMPORARY_PREFIX)
            .and_then(|prefix| {
                let mut builder = tempfile::Builder::new();
                builder
                    .prefix(&prefix)
                    .suffix(".sqlite")
                    .tempfile_in(&anywhere)
            })
            .map_err(StoreError::io("create a file in", &anywhere))?
            .into_temp_path();
        fill_with(campaign, &temporary, complete)?;
        let index = Self::open_file(Utf8PathBuf::from(temporary.to_string_lossy().into_owned()))?;
        Ok(Self {
            _temporary: Some(temporary),
            ..index
        })
    }

    /// Opens the existing index of a campaign's directory.
    pub fn open(campaign: &Utf8Path) -> Result<Self, AnalysisError> {
        Self::open_file(campaign.join(FILE))
    }

    /// Opens an existing index.
    pub fn open_file(path: Utf8PathBuf) -> Result<Self, AnalysisError> {
        if !path.exists() {
            return Err(StoreError::io("read", &path)(io::ErrorKind::NotFound.into()).into());
        }
        let failed = |source| AnalysisError::Index {
            path: path.clone().into(),
            source,
        };
        let connection =
            Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        let found: u32 = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed)?;
        if found > SCHEMA {
            return Err(StoreError::newer(&path, found, SCHEMA).into());
        }
        Ok(Self {
            connection,
            path,
            _temporary: None,
        })
    }

    /// Returns the connection, which is read-only.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads all rows of a statement.
    fn read<T: FromRow>(&self, sql: &str, params: impl Params) -> Result<Vec<T>, AnalysisError> {
        let rows = || {
            self.connection
                .prepare_cached(sql)?
                .query_map(params, T::from_row)?
                .collect::<rusqlite::Result<Vec<T>>>()
        };
        rows().map_err(self.failed())
    }

    /// Calls `each` for each row of a statement, because all rows may not fit into memory.
    fn each<T: FromRow>(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(T),
    ) -> Result<(), AnalysisError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                each(T::from_row(row)?);
            }
            Ok(())
        };
        read().map_err(self.failed())
    }

    /// Returns the path of the index.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns a function for `map_err` that adds the path of the index to an error of SQLite.
    fn failed(&self) -> impl Fn(rusqlite::Error) -> AnalysisError + Copy + '_ {
        |source| AnalysisError::Index {
            path: self.path.clone().into(),
            source,
        }
    }
}

/// Fills a new index from a campaign's directory, and completes it with `complete`.
fn fill_with(
    campaign: &Utf8Path,
    file: &Path,
    complete: impl FnOnce(Index, &Plan) -> Result<(), AnalysisError>,
) -> Result<(), AnalysisError> {
    let plan: Plan = load::json(&campaign.join("plan.json"))?;
    let file_of_campaign = campaign.join("campaign.toml");
    if regular::is_other(file_of_campaign.as_std_path()) {
        regular::open(file_of_campaign.as_std_path())
            .map_err(StoreError::io("read", &file_of_campaign))?;
    }
    let journal = campaign.join("journal.jsonl");
    // Without a journal, the campaign was planned but never run.
    let state = if journal.exists() {
        CampaignState::read(&journal)?
    } else {
        CampaignState::default()
    };
    let plan = without_skipped(plan, &state);
    fill::fill(file, campaign, &plan, &state).map_err(|source| AnalysisError::Index {
        path: file.to_owned(),
        source,
    })?;
    complete(
        Index::open_file(Utf8PathBuf::from(file.to_string_lossy().into_owned()))?,
        &plan,
    )
}

/// Returns the plan without runs that are not needed for their points, unless they were attempted. Points that were skipped, because required
/// software is missing, become excluded points, unless a run of them was attempted.
fn without_skipped(plan: Plan, state: &CampaignState) -> Plan {
    let skipped = state.never_tried(&plan.runs);
    let (mut points, mut excluded) = (Vec::new(), plan.excluded);
    for planned in plan.points {
        match skipped.get(&planned.id) {
            Some(reason) => excluded.push(Excluded {
                point: planned.point,
                by: ExcludedBy::Missing,
                reason: (*reason).to_owned().into(),
            }),
            None => points.push(planned),
        }
    }
    // a run that is not needed for its point is not part of the campaign
    let is_needed = |r: &cvc_core::plan::PlannedRun| {
        !state.decided.contains_key(&r.point) || state.run(&r.id).is_some()
    };
    let runs = plan
        .runs
        .into_iter()
        .filter(|r| !skipped.contains_key(&r.point) && is_needed(r))
        .collect();
    Plan {
        points,
        runs,
        excluded,
        ..plan
    }
}
