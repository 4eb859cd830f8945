//! Requests to sentinels, with typed answers.

use super::{Crew, CrewError};
use cvc_image::CheckpointDir;
use cvc_probe::sentinel::{
    CheckpointFiles, Conditions, CounterText, DeltaDone, DeltaProblem, DeltaWork, Digested,
    EndedProcesses, FileFound, FilePart, InstanceFacts, LevelDone, LevelProblem, LevelWork,
    ListingFound, MetadataNotice, MountSpace, NewFile, NodeFacts, RankProcess, SentinelAnswer,
    SentinelRequest, SeriesState, ServersFound, ServersOf, Tail,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The offset of a node's clock relative to this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// The node's clock minus this machine's clock, seconds.
    pub offset_s: f64,
    /// Uncertainty of the offset: half of the request's round-trip time, seconds.
    pub uncertainty_s: f64,
}

/// Returns all answers, or the first error.
///
/// # Errors
/// The first error in the order of the answers.
pub fn whole<T>(
    answers: Vec<(String, Result<T, CrewError>)>,
) -> Result<Vec<(String, T)>, CrewError> {
    answers
        .into_iter()
        .map(|(host, answer)| answer.map(|a| (host, a)))
        .collect()
}

type Answers<T> = Vec<(String, Result<T, CrewError>)>;

fn unexpected(host: &str, request: &'static str, answer: &SentinelAnswer) -> CrewError {
    CrewError::Unexpected {
        host: host.to_owned(),
        request,
        answer: answer.name(),
    }
}

/// Defines a method that sends the same request to several nodes concurrently.
macro_rules! ask_all {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty, $request:expr, $pattern:pat => $value:expr) => {
        $(#[$doc])*
        pub async fn $name(&self, names: &[&str], $($arg: $type,)* limit: Duration) -> Answers<$answer> {
            let request = $request;
            let asked = request.name();
            let answers = self.ask_all(names, request, limit).await;
            answers
                .into_iter()
                .map(|(host, answer)| {
                    let answer = answer.and_then(|answer| match answer {
                        $pattern => Ok($value),
                        other => Err(unexpected(&host, asked, &other)),
                    });
                    (host, answer)
                })
                .collect()
        }
    };
}

impl Crew {
    ask_all!(
        /// Requests facts about the nodes, and about the file systems of these paths.
        facts(paths: &[PathBuf]) -> NodeFacts,
        SentinelRequest::Facts { paths: paths.to_vec() },
        SentinelAnswer::Facts(facts) => *facts
    );
    ask_all!(
        /// Sends a signal to the ranks of a run. Returns the ranks.
        signal(marker: &str, signal: i32) -> Vec<RankProcess>,
        SentinelRequest::Signal { marker: marker.to_owned(), signal },
        SentinelAnswer::Ranks(ranks) => ranks
    );
    ask_all!(
        /// Writes a part of a file at this offset, bytes.
        write(path: &Path, offset: u64, part: &FilePart) -> (),
        SentinelRequest::Write { path: path.to_owned(), offset, part: part.clone() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Queries possible disturbances of measurements.
        conditions() -> Conditions,
        SentinelRequest::Conditions,
        SentinelAnswer::Conditions(conditions) => *conditions
    );
    ask_all!(
        /// Reads the counters of the client of the file system at this path.
        counters(path: &Path) -> CounterText,
        SentinelRequest::Counters { path: path.to_owned() },
        SentinelAnswer::Counters(text) => text
    );
    ask_all!(
        /// Queries which servers of a file system are running, from the nodes that can list them.
        servers(of: &ServersOf) -> ServersFound,
        SentinelRequest::Servers { servers: of.clone() },
        SentinelAnswer::Servers(found) => found
    );
    ask_all!(
        /// Requests the free space at these paths.
        free(paths: &[PathBuf]) -> Vec<MountSpace>,
        SentinelRequest::Free { paths: paths.to_vec() },
        SentinelAnswer::Free(spaces) => spaces
    );
    ask_all!(
        /// Requests the nodes' cloud instances. `service` is the address of the metadata service; `None` for its usual address.
        instances(service: Option<&str>) -> InstanceFacts,
        SentinelRequest::Instance { service: service.map(str::to_owned) },
        SentinelAnswer::Instance(facts) => facts
    );
    ask_all!(
        /// Asks whether the cloud is about to reclaim the nodes.
        notices(service: Option<&str>) -> Option<MetadataNotice>,
        SentinelRequest::Notice { service: service.map(str::to_owned) },
        SentinelAnswer::Notice(notice) => notice
    );
    ask_all!(
        /// Removes paths, creates directories and writes files; see [`SentinelRequest::Make`].
        make(remove: &[PathBuf], dirs: &[(PathBuf, u32)], files: &[NewFile]) -> (),
        SentinelRequest::Make { remove: remove.to_vec(), dirs: dirs.to_vec(), files: files.to_vec() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Lists the ranks of a run on the nodes.
        ranks(marker: &str) -> Vec<RankProcess>,
        SentinelRequest::Ranks { marker: marker.to_owned() },
        SentinelAnswer::Ranks(ranks) => ranks
    );
    ask_all!(
        /// Starts to guard a run: when the connection closes, the sentinel ends the run's processes on its node and removes the directories in
        /// `remove`.
        guard(marker: &str, dirs: &[PathBuf], remove: &[PathBuf]) -> (),
        SentinelRequest::Guard { marker: marker.to_owned(), dirs: dirs.to_vec(), remove: remove.to_vec() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Stops guarding a run.
        unguard(marker: &str) -> (),
        SentinelRequest::Unguard { marker: marker.to_owned() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Ends all processes of a run; see [`SentinelRequest::End`]. The limit of the request must be longer than the grace period.
        end(marker: &str, dirs: &[PathBuf], grace_s: f64) -> EndedProcesses,
        SentinelRequest::End { marker: marker.to_owned(), dirs: dirs.to_vec(), grace_s },
        SentinelAnswer::Ended(ended) => ended
    );
    ask_all!(
        /// Removes the data about a run's compared checkpoints.
        series_end(marker: &str) -> (),
        SentinelRequest::SeriesEnd { marker: marker.to_owned() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Reads checkpoint images in place.
        images(dir: &Path) -> CheckpointDir,
        SentinelRequest::Images { dir: dir.to_owned() },
        SentinelAnswer::Images(dir) => *dir
    );
    ask_all!(
        /// Lists a directory.
        listing(dir: &Path, suffixes: &[String]) -> ListingFound,
        SentinelRequest::Listing { dir: dir.to_owned(), suffixes: suffixes.to_vec() },
        SentinelAnswer::Listing(listing) => listing
    );
    ask_all!(
        /// Finds the files that match patterns below a directory.
        globs(dir: &Path, patterns: &[String]) -> Vec<FileFound>,
        SentinelRequest::Globs { dir: dir.to_owned(), patterns: patterns.to_vec() },
        SentinelAnswer::Globs(files) => files
    );
    ask_all!(
        /// Requests lengths and digests of files.
        digest(files: &[PathBuf]) -> Vec<Digested>,
        SentinelRequest::Digest { files: files.to_vec() },
        SentinelAnswer::Digest(digests) => digests
    );
    ask_all!(
        /// Removes directories and files.
        remove(dirs: &[PathBuf], files: &[PathBuf]) -> (),
        SentinelRequest::Remove { dirs: dirs.to_vec(), files: files.to_vec() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Copies a directory.
        copy(from: &Path, to: PathBuf) -> (),
        SentinelRequest::Copy { from: from.to_owned(), to: to.clone() },
        SentinelAnswer::Done => ()
    );
    ask_all!(
        /// Reads a part of a file, at most 4 MiB.
        part(path: &Path, offset: u64) -> FilePart,
        SentinelRequest::Part { path: path.to_owned(), offset },
        SentinelAnswer::Part(part) => part
    );
    ask_all!(
        /// Reads the end of a file, at most `most_bytes` bytes.
        tail(path: &Path, most_bytes: u64) -> Tail,
        SentinelRequest::Read { path: path.to_owned(), most_bytes },
        SentinelAnswer::Read(tail) => tail
    );

    /// Compares a checkpoint, of which each of these nodes has files, with the run's previous checkpoints.
    pub async fn series(
        &self,
        marker: &str,
        parts: Vec<(String, CheckpointFiles)>,
        number: u32,
        limit: Duration,
    ) -> Answers<SeriesState> {
        let request = |(node, files)| {
            let marker = marker.to_owned();
            let request = SentinelRequest::Series {
                marker,
                files,
                number,
            };
            (node, request)
        };
        self.ask_typed(
            parts.into_iter().map(request).collect(),
            limit,
            |answer| match answer {
                SentinelAnswer::Series(state) => Ok(state),
                other => Err(other),
            },
        )
        .await
    }

    /// Carries out work on the deltas of a run in a directory, concurrently on several nodes.
    pub async fn deltas(
        &self,
        marker: &str,
        dir: &Path,
        works: Vec<(String, DeltaWork)>,
        limit: Duration,
    ) -> Answers<Result<DeltaDone, DeltaProblem>> {
        let request = |(node, work)| {
            let (marker, dir) = (marker.to_owned(), dir.to_owned());
            (node, SentinelRequest::Deltas { marker, dir, work })
        };
        self.ask_typed(
            works.into_iter().map(request).collect(),
            limit,
            |answer| match answer {
                SentinelAnswer::Deltas(done) => Ok(done),
                other => Err(other),
            },
        )
        .await
    }

    /// Carries out work on the checkpoints of a run that nodes keep in a directory, concurrently on several nodes.
    pub async fn levels(
        &self,
        marker: &str,
        dir: &Path,
        works: Vec<(String, LevelWork)>,
        limit: Duration,
    ) -> Answers<Result<LevelDone, LevelProblem>> {
        let request = |(node, work)| {
            let (marker, dir) = (marker.to_owned(), dir.to_owned());
            (node, SentinelRequest::Levels { marker, dir, work })
        };
        self.ask_typed(
            works.into_iter().map(request).collect(),
            limit,
            |answer| match answer {
                SentinelAnswer::Levels(done) => Ok(done),
                other => Err(other),
            },
        )
        .await
    }

    /// Sends different requests to several nodes concurrently: pairs of a node's name and its request. `take` extracts the expected answer.
    async fn ask_typed<T>(
        &self,
        questions: Vec<(String, SentinelRequest)>,
        limit: Duration,
        take: impl Fn(SentinelAnswer) -> Result<T, SentinelAnswer>,
    ) -> Answers<T> {
        let asked = questions
            .first()
            .map_or("nothing", |(_, request)| request.name());
        let answers = self.ask_each(questions, limit).await;
        answers
            .into_iter()
            .map(|(host, answer)| {
                let answer = answer.and_then(|answer| {
                    take(answer).map_err(|other| unexpected(&host, asked, &other))
                });
                (host, answer)
            })
            .collect()
    }

    /// Measures the offset of a node's clock relative to this machine's clock.
    ///
    /// # Errors
    /// See [`Crew::ask`].
    pub async fn skew(&self, name: &str, limit: Duration) -> Result<Skew, CrewError> {
        let (before, begin) = (SystemTime::now(), Instant::now());
        let answer = self.ask(name, SentinelRequest::Clock, limit).await?;
        let took_s = begin.elapsed().as_secs_f64();
        let SentinelAnswer::Clock { at_ns } = answer else {
            return Err(unexpected(name, SentinelRequest::Clock.name(), &answer));
        };
        let before_s = before
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        // a double represents current times to a quarter of a microsecond
        Ok(Skew {
            offset_s: at_ns as f64 * 1e-9 - (before_s + took_s / 2.0),
            uncertainty_s: took_s / 2.0,
        })
    }
}
