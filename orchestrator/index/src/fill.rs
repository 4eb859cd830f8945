//! Fills the tables of the index.

use super::{
    factors,
    load::{self, RunRecords},
    words::{self, IndexedResult, RecordsState, RunOutcome},
};
use camino::Utf8Path;
use cvc_core::ids::PointId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::Repeat;
use cvc_core::record::{Record, names};
use cvc_journal::spending;
use cvc_journal::{Attempt, CampaignState, RunHistory, RunState};
use cvc_model::stats::{CommonScatter, Interval, Scale, Summary, block_means};
use rusqlite::{Connection, Transaction, params, params_from_iter, types::Value};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::Path,
    sync::mpsc::{self, Receiver},
};

/// Version of the schema of the index.
pub const SCHEMA: u32 = 13;

/// Number of runs whose quantities are computed by one statement, which is faster than one run at a time.
const BATCH: i64 = 128;

/// Maximum number of columns in the view of all run values; SQLite's limit is 2000.
const MAX_QUANTITIES: usize = 1000;

/// Fills a new index from the plan, the journal and the files of runs.
pub(super) fn fill(
    file: &Path,
    campaign: &Utf8Path,
    plan: &Plan,
    state: &CampaignState,
) -> rusqlite::Result<()> {
    let mut connection = Connection::open(file)?;
    // The file is temporary and can be rebuilt, so it need not survive a crash.
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;",
    )?;
    let t = connection.transaction()?;
    t.execute_batch(&words::with_words(&factors::with_columns(include_str!(
        "schema.sql"
    ))))?;
    meta(&t, campaign, plan, state)?;
    points(&t, plan)?;
    let apps: HashMap<&PointId, &str> = plan
        .points
        .iter()
        .map(|p| (&p.id, p.point.app.as_str()))
        .collect();
    let (mut seq, mut before) = (0i64, 0i64);
    in_order(
        &plan.runs,
        |run| RunFiles::read(campaign, state, run),
        |run, files| {
            seq += 1;
            insert_run(&t, state, seq, run, &files)?;
            if seq % BATCH == 0 {
                before = quantities(&t, before)?;
            }
            match (&files.figures, apps.get(&run.point)) {
                (Ok(declared), Some(app)) => figures(&t, app, declared),
                (Err(why), _) => damaged(&t, run, "run.json", &why.to_string()),
                (Ok(_), None) => Ok(()),
            }
        },
    )?;
    quantities(&t, before)?;
    leave_out_resumed(&t)?;
    t.execute_batch(include_str!("indexes.sql"))?;
    t.execute_batch(include_str!("baselines.sql"))?;
    leases(&t, state)?;
    transfers(&t, state)?;
    decisions(&t, plan, state)?;
    summaries(&t, state)?;
    run_values(&t, plan)?;
    t.pragma_update(None, "user_version", SCHEMA)?;
    t.commit()
}

/// Adds the points for which the journal records that no further run is needed.
fn decisions(t: &Transaction<'_>, plan: &Plan, state: &CampaignState) -> rusqlite::Result<()> {
    let mut insert = t.prepare("INSERT OR IGNORE INTO decisions VALUES (?,?,?,?)")?;
    for planned in &plan.points {
        if let Some(decision) = state.decided.get(&planned.id) {
            insert.execute(params![
                planned.id.as_str(),
                decision.repeats,
                decision.is_narrow,
                decision.reason
            ])?;
        }
    }
    Ok(())
}

/// Adds the leases of cloud instances, with their costs so far.
fn leases(t: &Transaction<'_>, state: &CampaignState) -> rusqlite::Result<()> {
    let Some((_, last)) = state.span else {
        return Ok(());
    };
    let mut insert = t.prepare("INSERT INTO leases VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
    for (seq, lease) in (1i64..).zip(&state.leases) {
        let (Some(order), Some(spent)) = (&lease.order, spending::lease_cost(lease, last)) else {
            continue;
        };
        insert.execute(params![
            seq,
            lease.name.as_str(),
            lease.site.as_str(),
            order.region,
            order.instance_type,
            order.spot,
            spent.instances,
            lease.intended.to_string(),
            lease.ended.map(|at| at.to_string()),
            spent.instance_s,
            order.usd_per_hour,
            spent.is_known().then_some(spent.usd),
            order
                .rate
                .as_ref()
                .map(cvc_journal::price::NodeRate::source),
        ])?;
    }
    Ok(())
}

/// Adds the transfers from clouds.
fn transfers(t: &Transaction<'_>, state: &CampaignState) -> rusqlite::Result<()> {
    let mut insert = t.prepare("INSERT INTO transfers VALUES (?,?,?)")?;
    for (site, fetched) in &state.fetched {
        insert.execute(params![
            site.as_str(),
            i64::try_from(fetched.bytes).unwrap_or(i64::MAX),
            fetched.usd
        ])?;
    }
    Ok(())
}

fn meta(
    t: &Transaction<'_>,
    campaign: &Utf8Path,
    plan: &Plan,
    state: &CampaignState,
) -> rusqlite::Result<()> {
    let planned: HashSet<_> = plan.runs.iter().map(|r| &r.id).collect();
    let strangers = state
        .runs
        .keys()
        .filter(|run| !planned.contains(run))
        .count();
    let mut cvc = state.cvc.clone();
    cvc.dedup();
    let mut rows = vec![
        ("schema", SCHEMA.to_string()),
        ("campaign", plan.campaign.clone()),
        (
            "title",
            load::title(&campaign.join("campaign.toml")).unwrap_or_else(|| plan.campaign.clone()),
        ),
        ("seed", plan.seed.to_string()),
        ("cvc", cvc.join(", ")),
        ("sessions", state.sessions.to_string()),
        (
            "blocks",
            plan.runs
                .iter()
                .find_map(|run| run.block)
                .map_or_else(String::new, |block| block.of.many().to_owned()),
        ),
        ("interruptions", state.interruptions.to_string()),
        ("completed", state.completed.to_string()),
        ("runs_not_in_plan", strangers.to_string()),
    ];
    if let Some((first, last)) = state.span {
        rows.push(("first_entry", first.to_string()));
        rows.push(("last_entry", last.to_string()));
    }
    if let Some(plan) = &state.plan {
        rows.push(("plan", plan.clone()));
    }
    let mut insert = t.prepare("INSERT INTO meta VALUES (?, ?)")?;
    for (key, value) in rows {
        insert.execute((key, value))?;
    }
    Ok(())
}

fn points(t: &Transaction<'_>, plan: &Plan) -> rusqlite::Result<()> {
    let marks = vec!["?"; factors::columns().count() + 4].join(",");
    let mut insert = t.prepare(&format!("INSERT OR IGNORE INTO points VALUES ({marks})"))?;
    for (seq, planned) in (1i64..).zip(&plan.points) {
        let row = [Value::from(planned.id.as_str().to_owned()), seq.into()]
            .into_iter()
            .chain(factors::values(&planned.point));
        insert.execute(params_from_iter(row.chain([Value::from(planned.baseline)])))?;
    }
    let mut insert = t.prepare(&format!("INSERT INTO excluded VALUES ({marks})"))?;
    for (seq, excluded) in (1i64..).zip(&plan.excluded) {
        let reason = [
            word(&excluded.by).into(),
            excluded.reason.to_string().into(),
        ];
        insert.execute(params_from_iter(
            [Value::from(seq)]
                .into_iter()
                .chain(factors::values(&excluded.point))
                .chain(reason),
        ))?;
    }
    Ok(())
}

/// Data about a run from the journal and its files.
struct RunFiles {
    outcome: RunOutcome,
    /// Directory of the run, relative to the campaign's directory.
    dir: Option<String>,
    records_state: (RecordsState, Option<String>),
    records: Vec<Record>,
    facts: Option<load::RunFacts>,
    figures: io::Result<Vec<load::DeclaredFigure>>,
}

impl RunFiles {
    fn read(campaign: &Utf8Path, state: &CampaignState, run: &PlannedRun) -> Self {
        let history = state.runs.get(&run.id).map(|h| &h.state);
        let (outcome, dir) = match history {
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) => (RunOutcome::Succeeded, Some(format!("runs/{}", run.id))),
            Some(RunState::Finished {
                attempt,
                outcome: Outcome::Failed { .. },
                ..
            }) => (
                RunOutcome::Failed,
                Some(format!("runs/{}.failed-{attempt}", run.id)),
            ),
            Some(RunState::Open { .. }) => (
                RunOutcome::Running,
                Some(format!("runs/{}.partial", run.id)),
            ),
            Some(RunState::Abandoned { .. }) | None if state.quarantined.contains(&run.point) => {
                (RunOutcome::Quarantined, None)
            }
            Some(RunState::Abandoned { .. }) | None => (RunOutcome::Pending, None),
        };
        let at = |name: &str| dir.as_ref().map(|dir| campaign.join(dir).join(name));
        let (records_state, records, figures) = match history {
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                records: written,
                ..
            }) => {
                let read = at("records.jsonl").map(|path| run_records(&path, written.as_deref()));
                let (records_state, records) =
                    read.unwrap_or(((RecordsState::None, None), Vec::new()));
                let figures = at("run.json").map(|path| load::figures(&path));
                (
                    records_state,
                    records,
                    figures.unwrap_or_else(|| Ok(Vec::new())),
                )
            }
            Some(
                RunState::Finished { .. } | RunState::Open { .. } | RunState::Abandoned { .. },
            )
            | None => ((RecordsState::None, None), Vec::new(), Ok(Vec::new())),
        };
        Self {
            outcome,
            facts: at("facts.json").map(|path| load::facts(&path)),
            dir,
            records_state,
            records,
            figures,
        }
    }
}

/// Calls `read` for each item on several threads, and passes on the results in the order of the items.
fn in_order<T: Sync, R: Send>(
    items: &[T],
    read: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(&T, R) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    const WAITING: usize = 64;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    let read = &read;
    std::thread::scope(|scope| {
        let channels: Vec<Receiver<R>> = (0..threads)
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(WAITING);
                scope.spawn(move || {
                    let own = items.iter().skip(first).step_by(threads);
                    // sending fails after the receiver has stopped with an error
                    own.map(read).try_for_each(|found| sender.send(found))
                });
                receiver
            })
            .collect();
        for (item, channel) in items.iter().zip(channels.iter().cycle()) {
            // a disconnected channel means that its thread panicked; the scope then panics, too
            let Ok(found) = channel.recv() else { break };
            each(item, found)?;
        }
        Ok(())
    })
}

fn insert_run(
    t: &Transaction<'_>,
    state: &CampaignState,
    seq: i64,
    run: &PlannedRun,
    files: &RunFiles,
) -> rusqlite::Result<()> {
    let history = state.runs.get(&run.id);
    let all: &[Attempt] = history.map_or(&[], |h| &h.attempts);
    let last = all
        .iter()
        .rev()
        .find(|a| a.outcome.is_some())
        .or(all.last());
    let RunFiles {
        outcome,
        dir,
        records_state,
        ..
    } = files;
    let failure = history
        .filter(|_| *outcome == RunOutcome::Failed)
        .and_then(RunHistory::failure);
    let (kind, repeat) = match run.repeat {
        Repeat::Warmup(n) => ("warmup", n),
        Repeat::Measured(n) => ("measured", n),
    };
    let tried = all.iter().filter(|a| a.outcome.is_some()).count() as i64;
    t.prepare_cached("INSERT OR IGNORE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?
        .execute(params![
            run.id.as_str(),
            seq,
            run.point.as_str(),
            kind,
            repeat,
            outcome,
            tried,
            failure.map(|f| word(&f.0)),
            failure.map(|f| f.1),
            last.and_then(|a| a.started).map(|at| at.to_string()),
            last.and_then(|a| a.ended).map(|at| at.to_string()),
            dir,
            records_state.0,
            records_state.1,
            run.block.map(|block| block.number),
        ])?;
    attempts(t, run, all)?;
    insert_records(t, run, &files.records)?;
    insert_facts(t, run, files.facts.as_ref())
}

/// Reads the records of a successful run. `written` is their digest in the journal. Returns the state of the records, a detail if they are missing,
/// damaged or changed, and the records.
pub(super) fn run_records(
    path: &Utf8Path,
    written: Option<&str>,
) -> ((RecordsState, Option<String>), Vec<Record>) {
    match load::records(path) {
        RunRecords::Missing => (
            (
                RecordsState::Missing,
                Some("records.jsonl is missing".to_owned()),
            ),
            Vec::new(),
        ),
        RunRecords::Damaged(why) => ((RecordsState::Damaged, Some(why)), Vec::new()),
        RunRecords::Read { records, digest } => match written {
            Some(written) if !written.is_empty() && !digest.starts_with(written) => {
                let why = "records.jsonl does not match its digest in the journal: it has been reanalysed or edited".to_owned();
                ((RecordsState::Changed, Some(why)), records)
            }
            Some(_) | None => ((RecordsState::Ok, None), records),
        },
    }
}

fn insert_facts(
    t: &Transaction<'_>,
    run: &PlannedRun,
    facts: Option<&load::RunFacts>,
) -> rusqlite::Result<()> {
    let mut insert = t.prepare_cached("INSERT OR REPLACE INTO facts VALUES (?,?,?)")?;
    match facts {
        Some(Ok(Some(facts))) => {
            for (key, value) in facts {
                insert.execute((run.id.as_str(), key, value))?;
            }
        }
        Some(Err(why)) => damaged(t, run, "facts.json", &why.to_string())?,
        Some(Ok(None)) | None => {}
    }
    Ok(())
}

/// Records why a file of a run yields no facts.
fn damaged(t: &Transaction<'_>, run: &PlannedRun, file: &str, why: &str) -> rusqlite::Result<()> {
    t.prepare_cached("INSERT OR REPLACE INTO facts VALUES (?,?,?)")?
        .execute((run.id.as_str(), file, format!("damaged: {why}")))
        .map(drop)
}

/// Adds figures of merit. If the descriptor of an application changed between runs, that of the last run is used.
fn figures(
    t: &Transaction<'_>,
    app: &str,
    figures: &[load::DeclaredFigure],
) -> rusqlite::Result<()> {
    let mut insert = t.prepare_cached("INSERT OR REPLACE INTO figures VALUES (?,?,?,?)")?;
    for figure in figures {
        insert.execute((app, &figure.name, word(&figure.unit), word(&figure.better)))?;
    }
    Ok(())
}

fn attempts(t: &Transaction<'_>, run: &PlannedRun, all: &[Attempt]) -> rusqlite::Result<()> {
    let mut insert = t.prepare_cached("INSERT INTO attempts VALUES (?,?,?,?,?,?,?)")?;
    for a in all {
        let (result, cause, detail) = match &a.outcome {
            Some(Outcome::Succeeded) => (IndexedResult::Succeeded, None, None),
            Some(Outcome::Failed { cause, detail }) => (
                IndexedResult::Failed,
                Some(word(cause)),
                Some(detail.as_str()),
            ),
            None if a.abandoned => (IndexedResult::Abandoned, None, None),
            None => (IndexedResult::Running, None, None),
        };
        let time = |at: Option<jiff::Timestamp>| at.map(|at| at.to_string());
        insert.execute(params![
            run.id.as_str(),
            a.number,
            time(a.started),
            time(a.ended),
            result,
            cause,
            detail
        ])?;
    }
    Ok(())
}

fn insert_records(
    t: &Transaction<'_>,
    run: &PlannedRun,
    records: &[Record],
) -> rusqlite::Result<()> {
    let mut insert =
        t.prepare_cached("INSERT INTO records VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
    for r in records {
        let label = |name: &str| r.labels.get(name).map(String::as_str);
        insert.execute(params![
            run.id.as_str(),
            r.name,
            r.value,
            word(&r.unit),
            word(&r.source),
            r.artefact,
            label("ckpt"),
            label("rank"),
            label("role"),
            label("image"),
            label("zone"),
            label("kind"),
            label("rule"),
            json_text(&r.labels),
        ])?;
    }
    Ok(())
}

/// Adds the quantities of the runs whose records come after row `before`. Returns the last row processed.
fn quantities(t: &Transaction<'_>, before: i64) -> rusqlite::Result<i64> {
    t.prepare_cached(&crate::quantities::statement())?
        .execute([before])?;
    t.prepare_cached("SELECT coalesce(max(rowid), 0) FROM records")?
        .query_row([], |row| row.get(0))
}

/// Excludes times, rates and costs of runs that continued from a checkpoint: they span several attempts and include repeated computation. The
/// records of these runs remain.
fn leave_out_resumed(t: &Transaction<'_>) -> rusqlite::Result<()> {
    t.execute(
        "DELETE FROM quantities WHERE unit IN ('s', 'USD', 'MiB/s', 'Mop/s') AND quantity <> ?1
         AND run IN (SELECT run FROM records WHERE name = ?2)",
        (names::NOTICE_CKPT_S, names::RESUMED_FROM),
    )?;
    Ok(())
}

/// The repeats of a quantity at a point.
#[derive(Default)]
struct Repeats {
    unit: String,
    site: String,
    /// The value of each repeat, after the block for which the repeat is planned.
    values: Vec<(u32, f64)>,
}

impl Repeats {
    fn independent(&self) -> Vec<f64> {
        let means = block_means(&self.values);
        if means.len() > 1 {
            means
        } else {
            self.values.iter().map(|(_, value)| *value).collect()
        }
    }
}

fn summaries(t: &Transaction<'_>, state: &CampaignState) -> rusqlite::Result<()> {
    let stopped: HashSet<&str> = state.decided.keys().map(PointId::as_str).collect();
    let mut groups: BTreeMap<(String, String), Repeats> = BTreeMap::new();
    let mut query = t.prepare(
        "SELECT r.point, q.quantity, q.unit, coalesce(r.block, 0), q.value, p.site
         FROM quantities q JOIN runs r ON r.id = q.run JOIN points p ON p.id = r.point
         WHERE r.kind = 'measured' AND r.state = 'succeeded' ORDER BY q.rowid",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let group = groups.entry((row.get(0)?, row.get(1)?)).or_default();
        group.unit = row.get(2)?;
        group.values.push((row.get(3)?, row.get(4)?));
        group.site = row.get(5)?;
    }
    // points whose repeats stopped early because the values agreed underestimate the scatter, so they are not used for other points
    let mut lending: HashMap<(String, String), Vec<Vec<f64>>> = HashMap::new();
    for ((point, quantity), group) in &groups {
        if !stopped.contains(point.as_str()) {
            let of_site = lending.entry((group.site.clone(), quantity.clone()));
            of_site.or_default().push(group.independent());
        }
    }
    let common: HashMap<(String, String), CommonScatter> = lending
        .into_iter()
        .filter_map(|(key, points)| {
            let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
            Some((key, CommonScatter::of(&points)?))
        })
        .collect();
    let mut insert =
        t.prepare("INSERT INTO summaries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
    for ((point, quantity), group) in groups {
        let is_stopped = stopped.contains(point.as_str());
        let summary = if is_stopped {
            let values = group.values.iter().map(|(_, value)| *value);
            Summary::of_stopped(&values.collect::<Vec<_>>())
        } else {
            Summary::of_blocks(&group.values)
        };
        let Some(mut s) = summary else { continue };
        let (independent, unit, key) = (group.independent(), group.unit, (group.site, quantity));
        if let Some(common) = common.get(&key).filter(|_| !is_stopped) {
            s.pool(&independent, common);
        }
        let ends = |interval: Option<Interval>| interval.map(|i| (i.low, i.high)).unzip();
        let ((low, high), (median_low, median_high)) = (ends(s.interval), ends(s.median_interval));
        insert.execute(params![
            point,
            key.1,
            unit,
            s.n as i64,
            s.mean,
            s.median,
            s.sd,
            s.min,
            s.max,
            low,
            high,
            s.interval_of.map(Scale::name),
            s.values_needed.map(|n| n as i64),
            median_low,
            median_high,
            s.variation.map(|v| v.cv),
            s.variation.map(|v| v.low),
            s.variation.and_then(|v| v.high),
            s.mild as i64,
            s.severe as i64
        ])?;
    }
    Ok(())
}

/// Creates the view with a row for each run and a column for each quantity; the columns depend on the records of the campaign.
fn run_values(t: &Transaction<'_>, plan: &Plan) -> rusqlite::Result<()> {
    let of_run = [
        "run", "point", "kind", "repeat", "state", "attempts", "cause", "started", "ended",
    ];
    let mut used: HashSet<String> = of_run
        .into_iter()
        .chain(factors::columns())
        .map(str::to_owned)
        .collect();
    let mut columns = String::new();
    let mut users: Vec<&str> = plan
        .points
        .iter()
        .flat_map(|p| p.point.user.keys().map(String::as_str))
        .collect();
    users.sort_unstable();
    users.dedup();
    for name in users.into_iter().take(MAX_QUANTITIES / 2) {
        // A quoted JSON path can contain any key without quotation marks.
        let path = format!("$.\"{}\"", name.replace('"', ""));
        let column = unique(&format!("user_{name}"), &mut used);
        columns.push_str(&format!(
            ", json_extract(p.user, {}) AS {}",
            literal(&path),
            identifier(&column)
        ));
    }
    let mut query = t.prepare("SELECT DISTINCT quantity FROM v_quantities ORDER BY quantity")?;
    let quantities = query
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for quantity in quantities.iter().take(MAX_QUANTITIES) {
        let column = unique(quantity, &mut used);
        columns.push_str(&format!(
            ", max(CASE WHEN q.quantity = {} THEN q.value END) AS {}",
            literal(quantity),
            identifier(&column)
        ));
    }
    t.execute_batch(&format!(
        "CREATE VIEW v_run_values AS SELECT r.id AS run, r.point, r.kind, r.repeat, r.state, r.attempts, r.cause, r.started, r.ended,
         {}
         {columns}
         FROM runs r JOIN points p ON p.id = r.point LEFT JOIN v_quantities q ON q.run = r.id GROUP BY r.id ORDER BY r.seq;",
        factors::in_points().join(", ")
    ))
}

/// Returns a column name that is not in use, compared without case as in SQLite.
fn unique(name: &str, used: &mut HashSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 2;
    while !used.insert(candidate.to_ascii_lowercase()) {
        candidate = format!("{name}_{number}");
        number += 1;
    }
    candidate
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('\0', "").replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

/// Returns the word that represents a unit variant in files.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

fn json_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned())
}
