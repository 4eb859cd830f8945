//! Traces: what a tracer writes lies where the traced process ran. It is brought here, and read.

use super::{prepare::Prepared, unhurried::unhurried};
use crate::{
    crew::CrewError,
    run::{Findings, LATER, RunError, RunFailure, fetch},
    tracer::{self, Places},
};
use camino::Utf8PathBuf;
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::Cause;

/// Brings what the run's tracer wrote on the other nodes to the same place here. A file that is here already stays as it is.
pub(super) async fn fetch_traces(prepared: &Prepared) -> Result<(), RunFailure> {
    let used = &prepared.run.used;
    let Some(trace) = tracer::tracer(prepared.tracer)
        .trace()
        .filter(|_| used.storage == StorageKind::NodeLocal)
    else {
        return Ok(());
    };
    let patterns = [trace.to_owned(), format!("{trace}/*")];
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

/// Reads what the run's tracer recorded; nothing where it recorded nothing. With it comes why not all of it could be read.
pub(super) async fn read_traces(
    prepared: &Prepared,
) -> Result<(Findings, Option<String>), RunError> {
    let mut findings = Findings::new(prepared.run.id.clone());
    let tracer = tracer::tracer(prepared.tracer);
    let Some(trace) = tracer
        .trace()
        .map(|trace| prepared.run.work.join(trace))
        .filter(|trace| trace.exists())
    else {
        return Ok((findings, None));
    };
    let (work, tmp) = (prepared.run.work.clone(), prepared.run.tmp.clone());
    // launchers have what they write there from cvc, and traces name it as the system does
    let dir = prepared.run.dir.canonicalize_utf8();
    let dir = dir.unwrap_or_else(|_| prepared.run.dir.clone());
    unhurried(move || {
        let places = Places {
            work: &work,
            dir: &dir,
            tmp: &tmp,
        };
        let unread = tracer
            .read(&trace, places, &mut findings)
            .err()
            .map(|error| error.to_string());
        (findings, unread)
    })
    .await
}
