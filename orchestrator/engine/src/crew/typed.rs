//! Requests with typed answers.

use super::{Crew, CrewError};
use cvc_image::CheckpointDir;
use cvc_probe::sentinel::{
    Answer, CheckpointFiles, Conditions, DeltaDone, DeltaProblem, DeltaWork, Digested, Ended,
    Facts, FileFound, InstanceFacts, ListingFound, NewFile, Notice, Part, RankProcess, Request,
    SeriesState, Space, Tail,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The offset of a node's clock from this machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// The node's clock minus this machine's, seconds.
    pub offset_s: f64,
    /// Half of the round trip of the request, which is the uncertainty of the offset, seconds.
    pub uncertainty_s: f64,
}

/// All answers, or the first error.
///
/// # Errors
/// That of the first host that has one.
pub fn whole<T>(
    answers: Vec<(String, Result<T, CrewError>)>,
) -> Result<Vec<(String, T)>, CrewError> {
    answers
        .into_iter()
        .map(|(host, answer)| answer.map(|a| (host, a)))
        .collect()
}

type Answers<T> = Vec<(String, Result<T, CrewError>)>;

fn unexpected(host: &str, request: &'static str, answer: &Answer) -> CrewError {
    CrewError::Unexpected {
        host: host.to_owned(),
        request,
        answer: answer.name(),
    }
}

/// Defines a method that sends the same request to several nodes.
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
        /// Asks for the nodes' facts, and the file systems of these paths.
        facts(paths: &[PathBuf]) -> Facts,
        Request::Facts { paths: paths.to_vec() },
        Answer::Facts(facts) => *facts
    );
    ask_all!(
        /// Asks for what may disturb measurements there.
        conditions() -> Conditions,
        Request::Conditions,
        Answer::Conditions(conditions) => *conditions
    );
    ask_all!(
        /// Asks for the free space at these paths.
        free(paths: &[PathBuf]) -> Vec<Space>,
        Request::Free { paths: paths.to_vec() },
        Answer::Free(spaces) => spaces
    );
    ask_all!(
        /// Asks for their cloud instances. The metadata service is at its usual address if none is given.
        instances(service: Option<&str>) -> InstanceFacts,
        Request::Instance { service: service.map(str::to_owned) },
        Answer::Instance(facts) => facts
    );
    ask_all!(
        /// Asks whether the cloud is about to reclaim them.
        notices(service: Option<&str>) -> Option<Notice>,
        Request::Notice { service: service.map(str::to_owned) },
        Answer::Notice(notice) => notice
    );
    ask_all!(
        /// Removes, makes directories, writes files: see [`Request::Make`].
        make(remove: &[PathBuf], dirs: &[(PathBuf, u32)], files: &[NewFile]) -> (),
        Request::Make { remove: remove.to_vec(), dirs: dirs.to_vec(), files: files.to_vec() },
        Answer::Done => ()
    );
    ask_all!(
        /// Asks for the placement of a run's ranks.
        ranks(marker: &str) -> Vec<RankProcess>,
        Request::Ranks { marker: marker.to_owned() },
        Answer::Ranks(ranks) => ranks
    );
    ask_all!(
        /// Guards a run from now on: when the connection closes, it is ended there and these directories of its own are removed.
        guard(marker: &str, dirs: &[PathBuf], remove: &[PathBuf]) -> (),
        Request::Guard { marker: marker.to_owned(), dirs: dirs.to_vec(), remove: remove.to_vec() },
        Answer::Done => ()
    );
    ask_all!(
        /// Stops guarding a run.
        unguard(marker: &str) -> (),
        Request::Unguard { marker: marker.to_owned() },
        Answer::Done => ()
    );
    ask_all!(
        /// Ends everything of a run: see [`Request::End`]. The limit must be longer than the grace period.
        end(marker: &str, dirs: &[PathBuf], grace_s: f64) -> Ended,
        Request::End { marker: marker.to_owned(), dirs: dirs.to_vec(), grace_s },
        Answer::Ended(ended) => ended
    );
    ask_all!(
        /// Forgets the checkpoints of a run that were compared.
        series_end(marker: &str) -> (),
        Request::SeriesEnd { marker: marker.to_owned() },
        Answer::Done => ()
    );
    ask_all!(
        /// Reads checkpoint images in place.
        images(dir: &Path) -> CheckpointDir,
        Request::Images { dir: dir.to_owned() },
        Answer::Images(dir) => *dir
    );
    ask_all!(
        /// Lists a directory.
        listing(dir: &Path, suffixes: &[String]) -> ListingFound,
        Request::Listing { dir: dir.to_owned(), suffixes: suffixes.to_vec() },
        Answer::Listing(listing) => listing
    );
    ask_all!(
        /// Finds the files that match patterns below a directory.
        globs(dir: &Path, patterns: &[String]) -> Vec<FileFound>,
        Request::Globs { dir: dir.to_owned(), patterns: patterns.to_vec() },
        Answer::Globs(files) => files
    );
    ask_all!(
        /// Asks for lengths and digests of files.
        digest(files: &[PathBuf]) -> Vec<Digested>,
        Request::Digest { files: files.to_vec() },
        Answer::Digest(digests) => digests
    );
    ask_all!(
        /// Removes directories and files.
        remove(dirs: &[PathBuf], files: &[PathBuf]) -> (),
        Request::Remove { dirs: dirs.to_vec(), files: files.to_vec() },
        Answer::Done => ()
    );
    ask_all!(
        /// Copies a directory.
        copy(from: &Path, to: PathBuf) -> (),
        Request::Copy { from: from.to_owned(), to: to.clone() },
        Answer::Done => ()
    );
    ask_all!(
        /// Reads a part of a file, of 4 MiB at most.
        part(path: &Path, offset: u64) -> Part,
        Request::Part { path: path.to_owned(), offset },
        Answer::Part(part) => part
    );
    ask_all!(
        /// Reads the end of a file.
        tail(path: &Path, most_bytes: u64) -> Tail,
        Request::Read { path: path.to_owned(), most_bytes },
        Answer::Read(tail) => tail
    );

    /// Compares a checkpoint, of which each of these nodes has files, with those of the run that lay there before.
    pub async fn series(
        &self,
        marker: &str,
        parts: Vec<(String, CheckpointFiles)>,
        number: u32,
        limit: Duration,
    ) -> Answers<SeriesState> {
        let request = |(node, files)| {
            let marker = marker.to_owned();
            let request = Request::Series {
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
                Answer::Series(state) => Ok(state),
                other => Err(other),
            },
        )
        .await
    }

    /// Works with the deltas of a run in a directory, side by side on several nodes.
    pub async fn deltas(
        &self,
        marker: &str,
        dir: &Path,
        works: Vec<(String, DeltaWork)>,
        limit: Duration,
    ) -> Answers<Result<DeltaDone, DeltaProblem>> {
        let request = |(node, work)| {
            let (marker, dir) = (marker.to_owned(), dir.to_owned());
            (node, Request::Deltas { marker, dir, work })
        };
        self.ask_typed(
            works.into_iter().map(request).collect(),
            limit,
            |answer| match answer {
                Answer::Deltas(done) => Ok(done),
                other => Err(other),
            },
        )
        .await
    }

    /// Asks each of several nodes its own question.
    async fn ask_typed<T>(
        &self,
        questions: Vec<(String, Request)>,
        limit: Duration,
        take: impl Fn(Answer) -> Result<T, Answer>,
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

    /// Measures the offset of a node's clock from this machine's.
    ///
    /// # Errors
    /// As of [`Crew::ask`].
    pub async fn skew(&self, name: &str, limit: Duration) -> Result<Skew, CrewError> {
        let (before, begin) = (SystemTime::now(), Instant::now());
        let answer = self.ask(name, Request::Clock, limit).await?;
        let took_s = begin.elapsed().as_secs_f64();
        let Answer::Clock { at_ns } = answer else {
            return Err(unexpected(name, Request::Clock.name(), &answer));
        };
        let before_s = before
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        // doubles hold seconds of this century to a quarter of a microsecond
        Ok(Skew {
            offset_s: at_ns as f64 * 1e-9 - (before_s + took_s / 2.0),
            uncertainty_s: took_s / 2.0,
        })
    }
}
