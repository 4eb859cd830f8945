//! Fetches and reads traces. A tracer writes on the node of the traced process.

use super::{long_work::long_work, prepare::Prepared};
use crate::{
    crew::CrewError,
    run::{Findings, LATER, RunError, RunFailure, fetch},
    tracer::{self, Places, Totals},
};
use camino::Utf8PathBuf;
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::Cause;

/// Fetches the tracer's files on the other nodes to the same path on this machine. A file that already exists here is not replaced.
pub(super) async fn fetch_traces(prepared: &Prepared) -> Result<(), RunFailure> {
    let used = &prepared.run.used;
    if used.storage != StorageKind::NodeLocal {
        return Ok(());
    }
    let tracer = tracer::tracer(prepared.tracer);
    let traces = tracer
        .trace()
        .map(str::to_owned)
        .into_iter()
        .chain(tracer.restart_trace());
    let patterns: Vec<String> = traces
        .flat_map(|trace| [format!("{trace}/*"), trace])
        .collect();
    if patterns.is_empty() {
        return Ok(());
    }
    for node in used.others() {
        let lost = |error: CrewError| {
            RunFailure::new(
                Cause::NodeLost,
                format!("the trace of {node} cannot be fetched: {error}"),
            )
        };
        let found = used
            .crew
            .globs(&[node], prepared.run.work.as_std_path(), &patterns, LATER)
            .await;
        for file in crate::crew::whole(found)
            .map_err(lost)?
            .into_iter()
            .flat_map(|(_, files)| files)
        {
            let Ok(here) = Utf8PathBuf::from_path_buf(file.path.clone()) else {
                continue;
            };
            if here.starts_with(&prepared.run.work) && !here.exists() {
                fetch(used, node, &file, &here).await?;
            }
        }
    }
    Ok(())
}

/// Reads the records of the run's tracer, if it has one. Also returns the reason if a part could not be read.
pub(super) async fn read_traces(
    prepared: &Prepared,
) -> Result<(Findings, Option<String>), RunError> {
    let mut findings = Findings::new(prepared.run.id.clone());
    let tracer = tracer::tracer(prepared.tracer);
    let Some(trace) = tracer
        .trace()
        .map(|trace| prepared.run.work.join(trace))
        .filter(|trace| !prepared.run.used.has_lost_files() && trace.exists())
    else {
        return Ok((findings, None));
    };
    let restart = tracer
        .restart_trace()
        .map(|name| prepared.run.work.join(name));
    let restart =
        restart.filter(|trace| tracer::files_of(trace).is_ok_and(|files| !files.is_empty()));
    let (work, tmp) = (prepared.run.work.clone(), prepared.run.tmp.clone());
    // launchers get paths as cvc writes them, but traces contain them with links resolved
    let dir = prepared.run.dir.canonicalize_utf8();
    let dir = dir.unwrap_or_else(|_| prepared.run.dir.clone());
    long_work(move || {
        let places = Places {
            work: &work,
            dir: &dir,
            tmp: &tmp,
        };
        let mut totals = Totals::new(places);
        let read = tracer.read(&trace, &mut totals, &mut findings);
        let again = restart.map_or(Ok(()), |trace| {
            tracer.read_restart(&trace, &totals, &mut findings)
        });
        let unread = read.and(again).err().map(|error| error.to_string());
        (findings, unread)
    })
    .await
}
