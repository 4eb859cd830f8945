//! Traces: what a tracer writes lies where the traced process ran. It is brought here, and read.

use super::{prepare::Prepared, unhurried::unhurried};
use crate::{
    crew::CrewError,
    run::{Findings, LATER, RunError, RunFailure},
    tracer::{self, Places},
};
use camino::Utf8PathBuf;
use cvc_core::campaign::StorageKind;
use cvc_core::outcome::Cause;
use cvc_core::store::StoreError;
use cvc_probe::sentinel::FileFound;
use std::{fs, io::Write};

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
                fetch(prepared, node, &file, &here).await?;
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

async fn fetch(
    prepared: &Prepared,
    node: &str,
    file: &FileFound,
    here: &Utf8PathBuf,
) -> Result<(), RunFailure> {
    let unwritten = |error: std::io::Error| {
        let error = StoreError::io("write", here)(error);
        RunFailure::new(
            if error.is_full_disk() {
                Cause::DiskFull
            } else {
                Cause::Store
            },
            error.to_string(),
        )
    };
    let unread = |why: String| {
        RunFailure::new(
            Cause::NodeLost,
            format!("the trace {here} of {node} cannot be fetched: {why}"),
        )
    };
    let mut copy = fs::File::create(here).map_err(unwritten)?;
    let mut offset = 0;
    while offset < file.bytes {
        let parts = prepared
            .run
            .used
            .crew
            .part(&[node], &file.path, offset, LATER)
            .await;
        let parts = crate::crew::whole(parts).map_err(|e| unread(e.to_string()))?;
        let bytes = parts
            .first()
            .map_or(Ok(Vec::new()), |(_, part)| part.bytes())
            .map_err(unread)?;
        if bytes.is_empty() {
            return Err(unread(format!(
                "it has {offset} bytes, not the {} that were listed",
                file.bytes
            )));
        }
        copy.write_all(&bytes).map_err(unwritten)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}
