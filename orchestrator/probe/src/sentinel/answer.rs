//! Carries out requests and returns their answers.

use super::{
    conditions, copy,
    deltas::NodeDeltas,
    end::{self, EndedProcesses},
    error::SentinelError,
    facts, files,
    levels::{self, NodeLevels},
    make, metadata, mounts, ranks, remove,
    request::{SentinelAnswer, SentinelRequest},
    series::NodeSeries,
    storage,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Delay between TERM and KILL of guarded runs.
const GUARD_GRACE: Duration = Duration::from_millis(1500);

/// A sentinel without its connection: answers requests, and records the runs that it guards.
#[derive(Debug, Default)]
pub struct Sentinel {
    /// Guarded runs, by their markers.
    guarded: Mutex<BTreeMap<String, Guarded>>,
    /// Series of each run's checkpoints, by the run's marker.
    series: Mutex<BTreeMap<String, Arc<Mutex<NodeSeries>>>>,
    /// Stored deltas of each run's checkpoints, by the run's marker.
    deltas: Mutex<BTreeMap<String, Arc<Mutex<NodeDeltas>>>>,
    /// Kept checkpoints of each run, with copies or parity of other nodes, by the run's marker.
    levels: Mutex<BTreeMap<String, Arc<Mutex<NodeLevels>>>>,
}

/// A guarded run: its processes to end and its files to remove when the connection closes.
#[derive(Debug)]
struct Guarded {
    dirs: Vec<PathBuf>,
    remove: Vec<PathBuf>,
}

impl Guarded {
    fn end(&self, marker: &str) -> EndedProcesses {
        let ended = end::end(marker, &self.dirs, GUARD_GRACE);
        // there is nobody to report an error to: the agent has disconnected
        let _ = remove::remove(&self.remove, &[]);
        ended
    }
}

/// Returns the current time, nanoseconds since 1970.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Sentinel {
    /// Discards the page hashes of a run's checkpoints, 16 bytes for each page.
    fn forget(&self, marker: &str) {
        self.series.lock().remove(marker);
    }

    /// Answers one request. Some requests read terabytes, so call this function on a separate thread.
    ///
    /// # Errors
    /// The action that failed, with the path.
    pub fn answer(&self, request: &SentinelRequest) -> Result<SentinelAnswer, SentinelError> {
        match request {
            SentinelRequest::Guard {
                marker,
                dirs,
                remove,
            } => {
                end::check(marker, dirs)?;
                remove::all_removable(remove)?;
                let guarded = Guarded {
                    dirs: dirs.clone(),
                    remove: remove.clone(),
                };
                self.guarded.lock().insert(marker.clone(), guarded);
                Ok(SentinelAnswer::Done)
            }
            SentinelRequest::Unguard { marker } => {
                self.guarded.lock().remove(marker);
                self.deltas.lock().remove(marker);
                self.levels.lock().remove(marker);
                self.forget(marker);
                Ok(SentinelAnswer::Done)
            }
            SentinelRequest::End { marker, .. } => {
                // the comparison of this run's checkpoints ends
                self.forget(marker);
                answer(request)
            }
            SentinelRequest::Series {
                marker,
                files,
                number,
            } => {
                let series = Arc::clone(self.series.lock().entry(marker.clone()).or_default());
                // only requests for the same run wait for this lock
                series
                    .lock()
                    .add(files, *number)
                    .map(SentinelAnswer::Series)
            }
            SentinelRequest::Deltas { marker, dir, work } => {
                mounts::absolute(dir)?;
                let deltas = Arc::clone(self.deltas.lock().entry(marker.clone()).or_default());
                let done = deltas.lock().work(dir, work);
                Ok(SentinelAnswer::Deltas(done))
            }
            SentinelRequest::Levels { marker, dir, work } => {
                mounts::absolute(dir)?;
                if levels::can_run_concurrently(work) {
                    return Ok(SentinelAnswer::Levels(
                        NodeLevels::default().work(dir, work),
                    ));
                }
                let levels = Arc::clone(self.levels.lock().entry(marker.clone()).or_default());
                let done = levels.lock().work(dir, work);
                Ok(SentinelAnswer::Levels(done))
            }
            SentinelRequest::SeriesEnd { marker } => {
                self.forget(marker);
                Ok(SentinelAnswer::Done)
            }
            SentinelRequest::Facts { .. }
            | SentinelRequest::Conditions
            | SentinelRequest::Clock
            | SentinelRequest::Free { .. }
            | SentinelRequest::Make { .. }
            | SentinelRequest::Instance { .. }
            | SentinelRequest::Notice { .. }
            | SentinelRequest::Ranks { .. }
            | SentinelRequest::Signal { .. }
            | SentinelRequest::Images { .. }
            | SentinelRequest::Listing { .. }
            | SentinelRequest::Globs { .. }
            | SentinelRequest::Digest { .. }
            | SentinelRequest::Remove { .. }
            | SentinelRequest::Copy { .. }
            | SentinelRequest::Part { .. }
            | SentinelRequest::Write { .. }
            | SentinelRequest::Read { .. }
            | SentinelRequest::Counters { .. }
            | SentinelRequest::Servers { .. } => answer(request),
        }
    }

    /// Ends all guarded runs, and stops guarding them.
    pub fn end_guarded(&self) -> Vec<EndedProcesses> {
        let guarded = std::mem::take(&mut *self.guarded.lock());
        // concurrently, because each run may need its grace period
        std::thread::scope(|scope| {
            let ending: Vec<_> = guarded
                .iter()
                .map(|(marker, guarded)| scope.spawn(move || guarded.end(marker)))
                .collect();
            ending
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .collect()
        })
    }
}

/// Answers a request that needs no state of earlier requests. Fails for [`SentinelRequest::Guard`], and for all checkpoints of a series but the
/// first: they need a [`Sentinel`].
///
/// # Errors
/// The action that failed, with the path.
pub fn answer(request: &SentinelRequest) -> Result<SentinelAnswer, SentinelError> {
    match request {
        SentinelRequest::Facts { paths } => {
            Ok(SentinelAnswer::Facts(Box::new(facts::facts(paths))))
        }
        SentinelRequest::Conditions => Ok(SentinelAnswer::Conditions(Box::new(
            conditions::conditions(),
        ))),
        SentinelRequest::Clock => Ok(SentinelAnswer::Clock { at_ns: now_ns() }),
        SentinelRequest::Free { paths } => paths
            .iter()
            .map(|p| mounts::space(p))
            .collect::<Result<_, _>>()
            .map(SentinelAnswer::Free),
        SentinelRequest::Make {
            remove,
            dirs,
            files,
        } => make::make(remove, dirs, files).map(|()| SentinelAnswer::Done),
        SentinelRequest::Instance { service } => Ok(SentinelAnswer::Instance(metadata::instance(
            service.as_deref(),
        )?)),
        SentinelRequest::Notice { service } => Ok(SentinelAnswer::Notice(metadata::notice(
            service.as_deref(),
        )?)),
        SentinelRequest::Ranks { marker } => Ok(SentinelAnswer::Ranks(ranks::ranks(marker))),
        SentinelRequest::Signal { marker, signal } => {
            end::check(marker, &[])?;
            ranks::signal(marker, *signal).map(SentinelAnswer::Ranks)
        }
        SentinelRequest::Guard { .. } | SentinelRequest::Unguard { .. } => {
            Err(SentinelError::Unguarded)
        }
        SentinelRequest::SeriesEnd { .. } => Ok(SentinelAnswer::Done),
        SentinelRequest::Series { files, number, .. } => NodeSeries::default()
            .add(files, *number)
            .map(SentinelAnswer::Series),
        SentinelRequest::Deltas { dir, work, .. } => {
            mounts::absolute(dir)?;
            Ok(SentinelAnswer::Deltas(
                NodeDeltas::default().work(dir, work),
            ))
        }
        SentinelRequest::Levels { dir, work, .. } => {
            mounts::absolute(dir)?;
            Ok(SentinelAnswer::Levels(
                NodeLevels::default().work(dir, work),
            ))
        }
        SentinelRequest::End {
            marker,
            dirs,
            grace_s,
        } => {
            end::check(marker, dirs)?;
            Ok(SentinelAnswer::Ended(end::end(
                marker,
                dirs,
                Duration::from_secs_f64(if grace_s.is_finite() {
                    grace_s.clamp(0.0, 600.0)
                } else {
                    0.0
                }),
            )))
        }
        SentinelRequest::Images { dir } => {
            mounts::absolute(dir)?;
            Ok(SentinelAnswer::Images(Box::new(cvc_image::read_dir(dir)?)))
        }
        SentinelRequest::Listing { dir, suffixes } => {
            files::listing(dir, suffixes).map(SentinelAnswer::Listing)
        }
        SentinelRequest::Globs { dir, patterns } => {
            files::globs(dir, patterns).map(SentinelAnswer::Globs)
        }
        SentinelRequest::Digest { files } => files
            .iter()
            .map(|f| files::digest(f))
            .collect::<Result<_, _>>()
            .map(SentinelAnswer::Digest),
        SentinelRequest::Remove { dirs, files } => {
            remove::remove(dirs, files).map(|()| SentinelAnswer::Done)
        }
        SentinelRequest::Copy { from, to } => copy::copy(from, to).map(|()| SentinelAnswer::Done),
        SentinelRequest::Part { path, offset } => {
            files::part(path, *offset).map(SentinelAnswer::Part)
        }
        SentinelRequest::Write { path, offset, part } => {
            mounts::absolute(path)?;
            make::write_part(path, *offset, part).map(|()| SentinelAnswer::Done)
        }
        SentinelRequest::Read { path, most_bytes } => {
            files::tail(path, *most_bytes).map(SentinelAnswer::Read)
        }
        SentinelRequest::Counters { path } => storage::counters(path).map(SentinelAnswer::Counters),
        SentinelRequest::Servers { servers } => {
            Ok(SentinelAnswer::Servers(storage::servers(servers)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentinel::CheckpointFiles;

    #[test]
    fn the_hashes_of_a_run_that_was_ended_or_is_over_are_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let images = dir.path().join("images");
        std::fs::create_dir(&images).expect("makes");
        std::fs::write(images.join("state"), [1; 8192]).expect("writes");
        let sentinel = Sentinel::default();
        let marker = format!("no-run-{}", std::process::id());
        let add = |number| {
            sentinel.answer(&SentinelRequest::Series {
                marker: marker.clone(),
                files: CheckpointFiles::Dir(images.clone()),
                number,
            })
        };
        let of_other = SentinelRequest::Unguard {
            marker: "another".into(),
        };
        let overs = [
            SentinelRequest::Unguard {
                marker: marker.clone(),
            },
            SentinelRequest::SeriesEnd {
                marker: marker.clone(),
            },
            SentinelRequest::End {
                marker: marker.clone(),
                dirs: vec![images.clone()],
                grace_s: 0.0,
            },
        ];
        for over in overs {
            add(1).expect("the first");
            sentinel.answer(&of_other).expect("another one");
            add(2).expect("the second");
            sentinel.answer(&over).expect("done");
            let lost = add(3).expect_err("forgotten").to_string();
            for part in ["has read only 0 of them", "; hint: "] {
                assert!(lost.contains(part), "{over:?}: {lost}");
            }
        }
        assert_eq!(sentinel.series.lock().len(), 1, "that of the last question");
    }
}
