//! Answers requests.

use super::{
    conditions, copy,
    deltas::NodeDeltas,
    end::{self, Ended},
    error::SentinelError,
    facts, files, make, metadata, mounts, ranks, remove,
    request::{Answer, Request},
    series::NodeSeries,
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

/// A sentinel without its connection: it answers, and remembers what it guards.
#[derive(Debug, Default)]
pub struct Sentinel {
    /// By their markers.
    guarded: Mutex<BTreeMap<String, Guarded>>,
    /// What it has read of the checkpoints of runs, by their markers.
    series: Mutex<BTreeMap<String, Arc<Mutex<NodeSeries>>>>,
    /// What it has stored of them as deltas.
    deltas: Mutex<BTreeMap<String, Arc<Mutex<NodeDeltas>>>>,
}

/// What to end and remove when the connection closes.
#[derive(Debug)]
struct Guarded {
    dirs: Vec<PathBuf>,
    remove: Vec<PathBuf>,
}

impl Guarded {
    fn end(&self, marker: &str) -> Ended {
        let ended = end::end(marker, &self.dirs, GUARD_GRACE);
        // the agent is gone
        let _ = remove::remove(&self.remove, &[]);
        ended
    }
}

/// Nanoseconds since 1970.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Sentinel {
    /// Forgets the checkpoints of a run: their hashes are 16 bytes for each page.
    fn forget(&self, marker: &str) {
        self.series.lock().remove(marker);
    }

    /// Answers one request. It may take as long as reading terabytes, so call it on a thread of its own.
    ///
    /// # Errors
    /// What could not be done, with the path.
    pub fn answer(&self, request: &Request) -> Result<Answer, SentinelError> {
        match request {
            Request::Guard {
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
                Ok(Answer::Done)
            }
            Request::Unguard { marker } => {
                self.guarded.lock().remove(marker);
                self.deltas.lock().remove(marker);
                self.forget(marker);
                Ok(Answer::Done)
            }
            Request::End { marker, .. } => {
                // nothing is compared any more
                self.forget(marker);
                answer_alone(request)
            }
            Request::Series {
                marker,
                files,
                number,
            } => {
                let series = Arc::clone(self.series.lock().entry(marker.clone()).or_default());
                // other requests go on meanwhile: only those for this run wait
                series.lock().add(files, *number).map(Answer::Series)
            }
            Request::Deltas { marker, dir, work } => {
                mounts::absolute(dir)?;
                let deltas = Arc::clone(self.deltas.lock().entry(marker.clone()).or_default());
                let done = deltas.lock().work(dir, work);
                Ok(Answer::Deltas(done))
            }
            Request::SeriesEnd { marker } => {
                self.forget(marker);
                Ok(Answer::Done)
            }
            Request::Facts { .. }
            | Request::Conditions
            | Request::Clock
            | Request::Free { .. }
            | Request::Make { .. }
            | Request::Instance { .. }
            | Request::Notice { .. }
            | Request::Ranks { .. }
            | Request::Images { .. }
            | Request::Listing { .. }
            | Request::Globs { .. }
            | Request::Digest { .. }
            | Request::Remove { .. }
            | Request::Copy { .. }
            | Request::Part { .. }
            | Request::Read { .. } => answer_alone(request),
        }
    }

    /// Ends what is guarded, and stops guarding it.
    pub fn end_guarded(&self) -> Vec<Ended> {
        let guarded = std::mem::take(&mut *self.guarded.lock());
        // side by side, because each may need its grace period
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

/// Answers requests without state, which excludes [`Request::Guard`]: only a [`Sentinel`] can guard, and knows more than the first checkpoint of a series.
///
/// # Errors
/// What could not be done, with the path, in words.
pub fn answer(request: &Request) -> Result<Answer, String> {
    answer_alone(request).map_err(|e| e.to_string())
}

fn answer_alone(request: &Request) -> Result<Answer, SentinelError> {
    match request {
        Request::Facts { paths } => Ok(Answer::Facts(Box::new(facts::facts(paths)))),
        Request::Conditions => Ok(Answer::Conditions(Box::new(conditions::conditions()))),
        Request::Clock => Ok(Answer::Clock { at_ns: now_ns() }),
        Request::Free { paths } => paths
            .iter()
            .map(|p| mounts::space(p))
            .collect::<Result<_, _>>()
            .map(Answer::Free),
        Request::Make {
            remove,
            dirs,
            files,
        } => make::make(remove, dirs, files).map(|()| Answer::Done),
        Request::Instance { service } => {
            Ok(Answer::Instance(metadata::instance(service.as_deref())?))
        }
        Request::Notice { service } => Ok(Answer::Notice(metadata::notice(service.as_deref())?)),
        Request::Ranks { marker } => Ok(Answer::Ranks(ranks::ranks(marker))),
        Request::Guard { .. } | Request::Unguard { .. } => Err(SentinelError::Unguarded),
        Request::SeriesEnd { .. } => Ok(Answer::Done),
        Request::Series { files, number, .. } => NodeSeries::default()
            .add(files, *number)
            .map(Answer::Series),
        Request::Deltas { dir, work, .. } => {
            mounts::absolute(dir)?;
            Ok(Answer::Deltas(NodeDeltas::default().work(dir, work)))
        }
        Request::End {
            marker,
            dirs,
            grace_s,
        } => {
            end::check(marker, dirs)?;
            Ok(Answer::Ended(end::end(
                marker,
                dirs,
                Duration::from_secs_f64(if grace_s.is_finite() {
                    grace_s.clamp(0.0, 600.0)
                } else {
                    0.0
                }),
            )))
        }
        Request::Images { dir } => {
            mounts::absolute(dir)?;
            Ok(Answer::Images(Box::new(cvc_image::read_dir(dir)?)))
        }
        Request::Listing { dir, suffixes } => files::listing(dir, suffixes).map(Answer::Listing),
        Request::Globs { dir, patterns } => files::globs(dir, patterns).map(Answer::Globs),
        Request::Digest { files } => files
            .iter()
            .map(|f| files::digest(f))
            .collect::<Result<_, _>>()
            .map(Answer::Digest),
        Request::Remove { dirs, files } => remove::remove(dirs, files).map(|()| Answer::Done),
        Request::Copy { from, to } => copy::copy(from, to).map(|()| Answer::Done),
        Request::Part { path, offset } => files::part(path, *offset).map(Answer::Part),
        Request::Read { path, most_bytes } => files::tail(path, *most_bytes).map(Answer::Read),
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
            sentinel.answer(&Request::Series {
                marker: marker.clone(),
                files: CheckpointFiles::Dir(images.clone()),
                number,
            })
        };
        let of_other = Request::Unguard {
            marker: "another".into(),
        };
        let overs = [
            Request::Unguard {
                marker: marker.clone(),
            },
            Request::SeriesEnd {
                marker: marker.clone(),
            },
            Request::End {
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
            for part in ["knows 0 of them", "; hint: "] {
                assert!(lost.contains(part), "{over:?}: {lost}");
            }
        }
        assert_eq!(sentinel.series.lock().len(), 1, "that of the last question");
    }
}
