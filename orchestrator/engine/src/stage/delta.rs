//! Stores the checkpoints of a series as deltas: with the first configured method while the program runs, with all others after its end.

use super::checkpoint_stage::{Hold, NodePart, Stage, Taken, lost};
use crate::{
    crew::{self, CrewError},
    run::{AllocatedNodes, AttemptReporter, Findings, LATER, RunFailure, fetch},
};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{DeltaSettings, DeltaWay},
    outcome::Cause,
    record::{Source, Unit, names},
};
use cvc_delta_rules::BlockSize;
use cvc_probe::sentinel::{CheckpointFiles, DeltaDone, DeltaOptions, DeltaWork, StoredFigures};
use std::sync::atomic::{AtomicBool, Ordering};

/// Subdirectory of a run's directory for a series that is kept.
const KEPT: &str = "deltas";

/// A method of storing the series (delta method, codec, block size), with its measurements.
#[derive(Debug)]
struct Way {
    way: DeltaWay,
    states: Vec<StoredFigures>,
    /// Restore time of each state that was restored, from the first, seconds. A state is the content of one checkpoint.
    restores_s: Vec<f64>,
    /// Peak memory of a process that stored or restored states, bytes; `None` if the kernel does not report it.
    memory_bytes: Option<u64>,
}

/// The series of a run's checkpoints, on the nodes that have them.
pub(super) struct Delta<'r> {
    used: &'r AllocatedNodes,
    /// Directory of the series during the run.
    at: Utf8PathBuf,
    /// Directory of the run, where a kept series is stored.
    dir: &'r Utf8Path,
    keep: bool,
    /// Nodes that have checkpoints of the run.
    nodes: Vec<String>,
    /// Configured methods. The first is carried out while the program runs.
    ways: Vec<Way>,
    /// Size of the state that the run is restarted from, bytes.
    restarted_bytes: Option<u64>,
}

impl<'r> Delta<'r> {
    /// Creates an empty series for a run.
    pub fn new(
        used: &'r AllocatedNodes,
        at: Utf8PathBuf,
        dir: &'r Utf8Path,
        settings: &DeltaSettings,
    ) -> Self {
        let of = |way| Way {
            way,
            states: Vec::new(),
            restores_s: Vec::new(),
            memory_bytes: None,
        };
        Self {
            used,
            at,
            dir,
            keep: settings.keep,
            nodes: Vec::new(),
            ways: settings.ways().map(of).collect(),
            restarted_bytes: None,
        }
    }

    /// Sends requests to nodes concurrently. `cause` is the cause of a failure, and `what` names the failed work in its message.
    async fn work(
        &self,
        works: Vec<(String, DeltaWork)>,
        cause: Cause,
        what: &str,
    ) -> Result<Vec<DeltaDone>, RunFailure> {
        let used = self.used;
        let several = works.len() > 1;
        let answers = used
            .crew
            .deltas(&used.marker, self.at.as_std_path(), works, LATER)
            .await;
        let mut all = Vec::new();
        for (node, done) in crew::whole(answers).map_err(|error| not_done(what, &error))? {
            all.push(done.map_err(|problem| {
                let on = if several {
                    format!(" on {node}")
                } else {
                    String::new()
                };
                let cause = if problem.is_full {
                    Cause::DiskFull
                } else {
                    cause
                };
                RunFailure::new(cause, format!("{what}{on}: {}", problem.why))
            })?);
        }
        Ok(all)
    }

    /// Sends the same request to all nodes that have checkpoints of the run.
    async fn everywhere(
        &self,
        work: DeltaWork,
        cause: Cause,
        what: &str,
    ) -> Result<Vec<DeltaDone>, RunFailure> {
        let nodes = self.nodes.iter();
        let works = nodes.map(|node| (node.clone(), work.clone())).collect();
        self.work(works, cause, what).await
    }

    /// Stores the measurements that nodes made while the program ran.
    fn note_live(&mut self, done: &[DeltaDone]) {
        if let Some(live) = self.ways.first_mut() {
            live.states = add_up(done.iter().map(|d| d.live.as_slice()));
        }
    }

    fn note_memory(&mut self, way: usize, done: &[DeltaDone]) {
        if let Some(way) = self.ways.get_mut(way) {
            // if one node does not report its memory, the maximum is unknown
            let peaks: Option<Vec<u64>> = done.iter().map(|d| d.memory_bytes).collect();
            way.memory_bytes = way
                .memory_bytes
                .max(peaks.and_then(|p| p.into_iter().max()));
        }
    }

    /// Returns the `n`th method as display text.
    fn title(&self, n: usize) -> String {
        self.ways.get(n).map_or_else(String::new, |way| {
            let DeltaWay {
                method,
                codec,
                block,
            } = way.way;
            format!(
                "deltas: {}, {}, blocks of {block}",
                method.as_str(),
                codec.as_str()
            )
        })
    }

    /// Stores the series with the `n`th method, from the states that the first method stored, and restores each state.
    async fn evaluate_way(&mut self, n: usize, stop: &AtomicBool) -> Result<(), RunFailure> {
        let what = format!("{} cannot be made", self.title(n));
        let states = self.ways.first().map_or(0, |live| live.states.len());
        let states = 1..=u32::try_from(states).unwrap_or(u32::MAX);
        let Some(way) = self.ways.get(n).map(|way| way.way) else {
            return Ok(());
        };
        let (again, options) = (n > 0, to_options(way, &what)?);
        for state in states.clone().filter(|_| again) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let work = DeltaWork::Again { state, options };
            let done = self.everywhere(work, Cause::Checkpoint, &what).await?;
            self.note_memory(n, &done);
            let stored = add_up(done.iter().map(|d| d.again.as_slice()));
            self.ways[n].states.extend(stored);
        }
        for state in states {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let work = DeltaWork::Try { state, again };
            let done = self.everywhere(work, Cause::Checkpoint, &what).await?;
            self.note_memory(n, &done);
            let slowest = done.iter().map(|d| d.restore_s).fold(0.0, f64::max);
            self.ways[n].restores_s.push(slowest);
        }
        Ok(())
    }

    /// Copies the other nodes' series to their final place on this machine, before those nodes remove them.
    async fn fetch(&self) -> Result<(), RunFailure> {
        let used = self.used;
        let nodes = self.nodes.iter().map(String::as_str);
        for node in nodes.filter(|n| *n != used.head.name) {
            let kept = self.kept(node);
            std::fs::create_dir_all(&kept)
                .map_err(|error| RunFailure::new(Cause::Store, format!("{kept}: {error}")))?;
            let patterns = ["series/*".to_owned()];
            let found = used
                .crew
                .globs(&[node], self.at.as_std_path(), &patterns, LATER)
                .await;
            for (_, files) in crew::whole(found).map_err(|error| lost(&error))? {
                for file in files {
                    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
                    fetch(used, node, &file, &kept.join(&*name)).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns the final directory of a node's series. The path includes the node's name if there are several nodes.
    fn kept(&self, node: &str) -> Utf8PathBuf {
        let kept = self.dir.join(KEPT);
        if self.nodes.len() > 1 {
            kept.join(node)
        } else {
            kept
        }
    }
}

#[async_trait]
impl Stage for Delta<'_> {
    /// Copies a checkpoint's files if the program writes its checkpoints itself, because such a program does not wait until the checkpoint is stored.
    async fn hold(&mut self, taken: &mut Taken) -> Result<Hold, RunFailure> {
        let of_program = |part: &NodePart| matches!(part.files, CheckpointFiles::Own { .. });
        if !taken.parts.iter().all(of_program) {
            return Ok(Hold::Open);
        }
        let parts = taken.parts.iter().cloned();
        let copies = parts.map(|part| (part.node, DeltaWork::Copy(part.files)));
        let what = format!("checkpoint {} cannot be copied", taken.number);
        let done = self
            .work(copies.collect(), Cause::Checkpoint, &what)
            .await?;
        for (part, done) in taken.parts.iter_mut().zip(done) {
            if let Some(copied) = done.copied {
                part.files = copied;
            }
        }
        Ok(Hold::Held)
    }

    async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure> {
        let number = taken.number;
        let what = format!("checkpoint {number} cannot be stored as a delta");
        let Some(way) = self.ways.first().map(|way| way.way) else {
            return Ok(());
        };
        let options = to_options(way, &what)?;
        let store = |part: &NodePart| {
            let work = DeltaWork::Store {
                number,
                from: part.files.clone(),
                options,
                content_bytes: part.content_bytes,
            };
            (part.node.clone(), work)
        };
        let works = taken.parts.iter().map(store).collect();
        let nodes: Vec<String> = taken.parts.iter().map(|part| part.node.clone()).collect();
        if !self.nodes.is_empty() && self.nodes != nodes {
            let (now, before) = (nodes.join(", "), self.nodes.join(", "));
            let why = format!("{what}: its files are on {now}, the previous ones on {before}");
            return Err(RunFailure::new(Cause::Checkpoint, why));
        }
        self.nodes = nodes;
        let done = self.work(works, Cause::Checkpoint, &what).await?;
        self.note_live(&done);
        self.note_memory(0, &done);
        Ok(())
    }

    async fn before_restart(&mut self) -> Result<Option<u64>, RunFailure> {
        let state = self.ways.first().map_or(0, |live| live.states.len());
        let what = format!("state {state}, restored from its deltas, cannot be restarted");
        if state == 0 {
            let why = "no checkpoint is stored as a delta, from which the run could be restarted";
            return Err(RunFailure::new(Cause::Restart, why));
        }
        let done = self
            .everywhere(DeltaWork::Replace, Cause::Restart, &what)
            .await?;
        self.restarted_bytes = Some(done.iter().map(|d| d.same_bytes).sum());
        Ok(None)
    }

    async fn evaluate(
        &mut self,
        reporter: &AttemptReporter,
        stop: &AtomicBool,
    ) -> Result<(), RunFailure> {
        for way in 0..self.ways.len() {
            reporter.stage(&self.title(way));
            self.evaluate_way(way, stop).await?;
        }
        Ok(())
    }

    /// Waits for work that nodes have begun, and adds its results. A node that does not answer has stopped working.
    async fn settle(&mut self) {
        let settled = self.everywhere(DeltaWork::Settle, Cause::Checkpoint, "");
        if let Ok(done) = settled.await {
            self.note_live(&done);
        }
    }

    async fn finish(&mut self) -> Result<(), RunFailure> {
        self.settle().await;
        let keeps = self.keep && self.ways.first().is_some_and(|w| !w.states.is_empty());
        let fetched = if keeps { self.fetch().await } else { Ok(()) };
        let used = self.used;
        let finish = |node: &str| {
            let here = keeps && node == used.head.name;
            let kept = here.then(|| self.kept(node).into());
            (node.to_owned(), DeltaWork::Finish(kept))
        };
        let works = used.places().into_iter().map(finish).collect();
        let finished = self
            .work(works, Cause::Store, "the deltas of the series")
            .await;
        fetched.and(finished.map(drop))
    }

    fn measure(&self, _: u64, to: &mut Findings) {
        let (clock, image) = (Source::Clock, Source::Image);
        for (n, way) in self.ways.iter().enumerate() {
            let mut labels = vec![
                ("method", way.way.method.as_str().to_owned()),
                ("codec", way.way.codec.as_str().to_owned()),
                ("block", way.way.block.0.to_string()),
            ];
            if n == 0 {
                // the program used the cores at the same time, so these times are comparable with no others
                labels.push(("live", "true".to_owned()));
            }
            let mut record = |name, value, unit, source, ckpt: Option<u64>| {
                let ckpt = ckpt.map(|ckpt| ("ckpt", ckpt.to_string()));
                let labels: Vec<_> = ckpt.into_iter().chain(labels.iter().cloned()).collect();
                to.record(name, value, unit, source, None, &labels);
            };
            if let Some(bytes) = way.memory_bytes.filter(|_| !way.states.is_empty()) {
                let (name, kernel) = (names::SERIES_MEMORY_BYTES, Source::Kernel);
                record(name, bytes as f64, Unit::Bytes, kernel, None);
            }
            for (t, state) in way.states.iter().enumerate() {
                let (ckpt, bytes) = (Some(state.ckpt), state.file_bytes as f64);
                record(names::SERIES_FILE_BYTES, bytes, Unit::Bytes, image, ckpt);
                let (name, store_s) = (names::SERIES_STORE_S, state.store_s);
                record(name, store_s, Unit::Seconds, clock, ckpt);
                if let Some(restore_s) = way.restores_s.get(t) {
                    let name = names::SERIES_RESTORE_S;
                    record(name, *restore_s, Unit::Seconds, clock, ckpt);
                }
            }
        }
        if let (Some(bytes), Some(live)) = (self.restarted_bytes, self.ways.first()) {
            let last = live.states.last().map_or(0, |last| last.ckpt);
            let labels = [
                ("ckpt", last.to_string()),
                ("method", live.way.method.as_str().to_owned()),
                ("codec", live.way.codec.as_str().to_owned()),
                ("block", live.way.block.0.to_string()),
            ];
            let name = names::SERIES_RESTARTED_BYTES;
            to.bytes(name, bytes as f64, image, &labels);
        }
    }
}

/// Converts a method to the options that a node needs to store states.
fn to_options(way: DeltaWay, what: &str) -> Result<DeltaOptions, RunFailure> {
    let block = BlockSize::new(way.block.0)
        .map_err(|rule| RunFailure::new(Cause::Checkpoint, format!("{what}: {rule}")))?;
    Ok(DeltaOptions {
        method: super::compare::method(way.method),
        codec: way.codec,
        block,
    })
}

/// Combines the figures of states of which the nodes stored parts concurrently: sums the bytes, and takes the longest time. States that some node did
/// not store are excluded.
fn add_up<'a>(nodes: impl Iterator<Item = &'a [StoredFigures]>) -> Vec<StoredFigures> {
    nodes
        .map(<[StoredFigures]>::to_vec)
        .reduce(|mut all, node| {
            all.truncate(node.len());
            for (sum, own) in all.iter_mut().zip(&node) {
                sum.file_bytes += own.file_bytes;
                sum.store_s = sum.store_s.max(own.store_s);
            }
            all
        })
        .unwrap_or_default()
}

/// Returns why a node did not carry out its work.
fn not_done(what: &str, error: &CrewError) -> RunFailure {
    let mut failure = lost(error);
    failure.detail = format!("{what}: {}", failure.detail);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run::{Node, Nodes},
        transport::Transport,
    };
    use cvc_core::{
        campaign::{SCRATCH, StorageKind},
        ids::RunId,
        units::ByteSize,
    };
    use cvc_delta::Series;
    use cvc_delta_rules::{Codec, MethodName};
    use std::time::Duration;

    /// Real checkpoints of a small program with two ranks.
    const RELAX: &str = "../delta/tests/fixtures/relax";

    /// Returns the nodes of a run on this machine alone, in a directory.
    fn here(marker: &str) -> AllocatedNodes {
        let Nodes { crew, head, .. } = Nodes::here();
        let ranks: Vec<Node> = vec![head.clone()];
        AllocatedNodes {
            crew,
            head,
            ranks,
            transport: Transport::Local,
            storage: StorageKind::NodeLocal,
            marker: marker.to_owned(),
            dirs: Vec::new(),
            file_system: None,
        }
    }

    fn settings(methods: &[MethodName]) -> DeltaSettings {
        DeltaSettings {
            methods: methods.to_vec(),
            codecs: vec![Codec::Lz4],
            blocks: vec![ByteSize(4 << 10)],
            keep: true,
        }
    }

    /// Returns one of the checkpoints, with its files.
    fn taken(number: u64) -> Taken {
        let part = NodePart {
            node: "localhost".into(),
            files: CheckpointFiles::Dir(format!("{RELAX}/{number}").into()),
            content_bytes: 0,
            also: Vec::new(),
        };
        Taken {
            number,
            at_s: 0.0,
            parts: vec![part],
        }
    }

    fn values(delta: &Delta<'_>, name: &str) -> Vec<(String, f64)> {
        let mut findings = Findings::new(RunId::of(b"r"));
        delta.measure(0, &mut findings);
        let of = findings.records.iter().filter(|r| r.name == name);
        of.map(|r| {
            let label = |key: &str| r.labels.get(key).cloned().unwrap_or_default();
            (format!("{} {}", label("ckpt"), label("method")), r.value)
        })
        .collect()
    }

    #[tokio::test]
    async fn a_dropped_store_still_ends_and_is_counted() {
        let root = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(root.path()).expect("UTF-8");
        let (work, dir) = (root.join("work"), root.join("run"));
        for made in [&work, &dir] {
            std::fs::create_dir(made).expect("makes");
        }
        let (used, settings) = (here("dropped"), settings(&[MethodName::Incremental]));
        let mut delta = Delta::new(&used, work.join(SCRATCH), &dir, &settings);
        delta.after(&taken(1)).await.expect("stored");
        let second = taken(2);
        let limit = Duration::from_millis(1);
        let dropped = tokio::time::timeout(limit, delta.after(&second)).await;
        assert!(dropped.is_err(), "nothing is stored as fast as that");
        delta.finish().await.expect("kept");
        assert_eq!(values(&delta, names::SERIES_FILE_BYTES).len(), 2);
        let kept = Series::open(dir.join(KEPT).as_std_path()).expect("a series");
        assert_eq!(kept.states().len(), 2);
        assert!(!work.join(SCRATCH).exists());
    }

    #[tokio::test]
    async fn all_ways_are_measured_unless_they_are_stopped() {
        let root = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(root.path()).expect("UTF-8");
        let (used, settings) = (
            here("ways"),
            settings(&[MethodName::Incremental, MethodName::Full]),
        );
        let mut delta = Delta::new(&used, root.join(SCRATCH), root, &settings);
        let reporter = AttemptReporter {
            run: RunId::of(b"r"),
            to: tokio::sync::mpsc::unbounded_channel().0,
        };
        for number in 1..=3 {
            delta.after(&taken(number)).await.expect("stored");
        }
        let stopped = AtomicBool::new(true);
        delta.evaluate(&reporter, &stopped).await.expect("it ends");
        assert!(values(&delta, names::SERIES_RESTORE_S).is_empty());
        let go_on = AtomicBool::new(false);
        delta.evaluate(&reporter, &go_on).await.expect("made");
        let expected: Vec<String> = ["incremental", "full"]
            .iter()
            .flat_map(|method| (1..=3).map(move |ckpt| format!("{ckpt} {method}")))
            .collect();
        for name in [
            names::SERIES_FILE_BYTES,
            names::SERIES_STORE_S,
            names::SERIES_RESTORE_S,
        ] {
            let (labels, found): (Vec<String>, Vec<f64>) = values(&delta, name).into_iter().unzip();
            assert_eq!(labels, expected, "{name}");
            assert!(found.iter().all(|value| *value > 0.0), "{name}: {found:?}");
        }
    }

    #[test]
    fn parts_of_nodes_are_added_and_times_are_those_of_the_slowest() {
        let of = |ckpt, file_bytes, store_s| StoredFigures {
            ckpt,
            file_bytes,
            store_s,
        };
        let (a, b) = (
            [of(1, 100, 0.5), of(2, 10, 0.25), of(4, 10, 0.25)],
            [of(1, 200, 0.25), of(2, 20, 0.5)],
        );
        let both = add_up([a.as_slice(), b.as_slice()].into_iter());
        // the lost node has not stored the third state
        assert_eq!(both, [of(1, 300, 0.5), of(2, 30, 0.5)]);
        assert_eq!(add_up(std::iter::once(a.as_slice())), a);
        assert_eq!(add_up(std::iter::empty()), []);
    }
}
