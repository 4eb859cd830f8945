//! Flows: a node reads sources from its own disk and from other nodes, combines them by XOR, and writes the result to its disk or sends it to another
//! node. A copy has one source; parity and rebuilt files have several. Memory is limited to one block for each source.

use super::{
    dirs::make_new_dir,
    error::LevelError,
    stream::{StreamPort, StreamReader, StreamTarget, StreamWriter},
    table::{FileTable, TableContent, TableWriter, content_path},
};
use cvc_delta::parity::xor_into;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Number of bytes moved at once.
const BLOCK: usize = 1 << 20;

/// A part of a checkpoint's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptPart {
    /// The node's own files.
    Own,
    /// A copy of the files of another node.
    Of(String),
    /// The node's parity for its group.
    Parity,
}

impl KeptPart {
    /// Returns the directory of the part in a checkpoint's directory.
    pub(super) fn dir(&self, checkpoint: &Path) -> PathBuf {
        checkpoint.join(match self {
            Self::Own => "own".to_owned(),
            Self::Of(node) => format!("of-{node}"),
            Self::Parity => "parity".to_owned(),
        })
    }
}

/// A section of a kept part. Bytes beyond the end of the part are zeros.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The kept part.
    pub of: KeptPart,
    /// Offset in the part, bytes.
    pub offset: u64,
    /// Length of the section, bytes.
    pub bytes: u64,
}

/// A source of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSource {
    /// Sections on this node's disk, read one after another.
    Here(Vec<Piece>),
    /// A stream from another node, received at the port of this name.
    Stream(String),
}

/// The target of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowTarget {
    /// A stream to another node.
    Stream(StreamTarget),
    /// Files on this node.
    Files {
        /// The kept part to which the files belong.
        part: KeptPart,
        /// Table of the files.
        table: FileTable,
    },
    /// The parity of this node.
    Parity,
}

/// A transfer from sources to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The sources, which are combined by XOR.
    pub from: Vec<FlowSource>,
    /// The target.
    pub to: FlowTarget,
    /// Length of the target and of each source, bytes.
    pub bytes: u64,
}

/// Carries out flows concurrently in a checkpoint's directory. Returns the number of bytes sent to other nodes.
pub(super) fn carry_out(
    checkpoint: &Path,
    flows: &[Flow],
    ports: &mut HashMap<String, StreamPort>,
    limit: Duration,
) -> Result<u64, LevelError> {
    let until = Instant::now() + limit;
    let mut works = Vec::new();
    for flow in flows {
        let mut taken = HashMap::new();
        for source in &flow.from {
            if let FlowSource::Stream(name) = source {
                let port = ports.remove(name);
                let port = port.ok_or_else(|| LevelError::NotListening(name.clone()))?;
                taken.insert(name.clone(), port);
            }
        }
        works.push((flow, taken));
    }
    std::thread::scope(|scope| {
        let all: Vec<_> = works
            .into_iter()
            .map(|(flow, ports)| scope.spawn(move || carry(checkpoint, flow, ports, until)))
            .collect();
        let mut sent = Ok(0);
        for one in all {
            let one = one
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent = sent.and_then(|sum| Ok(sum + one?));
        }
        sent
    })
}

/// Carries out one flow, and returns the number of bytes sent to other nodes.
fn carry(
    checkpoint: &Path,
    flow: &Flow,
    mut ports: HashMap<String, StreamPort>,
    until: Instant,
) -> Result<u64, LevelError> {
    let begin = Instant::now();
    let late = || LevelError::Late((until - begin).as_secs_f64().round());
    // open the target first, because other nodes wait for its data
    let mut target = Target::open(checkpoint, &flow.to)?;
    let mut sources = Vec::new();
    for source in &flow.from {
        sources.push(match source {
            FlowSource::Here(pieces) => Source::here(checkpoint, pieces)?,
            FlowSource::Stream(name) => {
                let port = ports.remove(name);
                let port = port.ok_or_else(|| LevelError::NotListening(name.clone()))?;
                Source::Stream(Box::new(
                    port.accept(until.saturating_duration_since(Instant::now()))?,
                ))
            }
        });
    }
    let (mut sum, mut other) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut done = 0;
    while done < flow.bytes {
        let take = usize::try_from(flow.bytes - done).map_or(BLOCK, |left| left.min(BLOCK));
        let (sum, other) = (&mut sum[..take], &mut other[..take]);
        let mut all = sources.iter_mut();
        match all.next() {
            Some(first) => first.read(sum)?,
            None => sum.fill(0),
        }
        for source in all {
            source.read(other)?;
            xor_into(sum, other);
        }
        target.write(sum)?;
        done += take as u64;
        if Instant::now() > until {
            return Err(late());
        }
    }
    for source in sources {
        if let Source::Stream(stream) = source {
            stream.finish()?;
        }
    }
    let is_sent = matches!(target, Target::Stream(_));
    target.finish()?;
    Ok(if is_sent { flow.bytes } else { 0 })
}

enum Source {
    Here(PieceReader),
    Stream(Box<StreamReader>),
}

impl Source {
    fn here(checkpoint: &Path, pieces: &[Piece]) -> Result<Self, LevelError> {
        let mut contents = Vec::new();
        for piece in pieces {
            let dir = piece.of.dir(checkpoint);
            let content = match &piece.of {
                KeptPart::Parity => {
                    let path = content_path(&dir, 0);
                    let found = fs::metadata(&path).map_err(LevelError::io(&path, "read"))?;
                    TableContent::new(vec![(path, found.len())])
                }
                KeptPart::Own | KeptPart::Of(_) => {
                    TableContent::of_table(&dir, &FileTable::read(&dir)?)
                }
            };
            contents.push((piece.clone(), content));
        }
        contents.reverse();
        Ok(Self::Here(PieceReader {
            left: contents,
            done: 0,
        }))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), LevelError> {
        match self {
            Self::Here(pieces) => pieces.read(buffer),
            Self::Stream(stream) => stream.read(buffer),
        }
    }
}

/// Reads sections one after another, then zeros.
struct PieceReader {
    /// Remaining sections in reverse order; the current one is last.
    left: Vec<(Piece, TableContent)>,
    /// Bytes read of the current section.
    done: u64,
}

impl PieceReader {
    fn read(&mut self, mut buffer: &mut [u8]) -> Result<(), LevelError> {
        while !buffer.is_empty() {
            let Some((piece, content)) = self.left.last_mut() else {
                buffer.fill(0);
                return Ok(());
            };
            let left = piece.bytes - self.done;
            if left == 0 {
                self.left.pop();
                self.done = 0;
                continue;
            }
            let take = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, rest) = buffer.split_at_mut(take);
            content.read_at(piece.offset + self.done, now)?;
            self.done += take as u64;
            buffer = rest;
        }
        Ok(())
    }
}

enum Target {
    Stream(StreamWriter),
    Files(TableWriter),
    Parity { file: File, path: PathBuf },
}

impl Target {
    fn open(checkpoint: &Path, to: &FlowTarget) -> Result<Self, LevelError> {
        Ok(match to {
            FlowTarget::Stream(target) => Self::Stream(StreamWriter::open(target)?),
            FlowTarget::Files { part, table } => {
                Self::Files(TableWriter::new(&part.dir(checkpoint), table.clone())?)
            }
            FlowTarget::Parity => {
                let dir = KeptPart::Parity.dir(checkpoint);
                make_new_dir(&dir)?;
                let path = content_path(&dir, 0);
                let unfinished = path.with_extension("part");
                let file =
                    File::create_new(&unfinished).map_err(LevelError::io(&unfinished, "make"))?;
                Self::Parity { file, path }
            }
        })
    }

    fn write(&mut self, data: &[u8]) -> Result<(), LevelError> {
        match self {
            Self::Stream(stream) => stream.write(data),
            Self::Files(files) => files.write(data),
            Self::Parity { file, path } => {
                file.write_all(data).map_err(LevelError::io(path, "write"))
            }
        }
    }

    fn finish(self) -> Result<(), LevelError> {
        match self {
            Self::Stream(stream) => stream.finish(),
            Self::Files(files) => files.finish(),
            Self::Parity { file, path } => {
                file.sync_data().map_err(LevelError::io(&path, "sync"))?;
                let from = path.with_extension("part");
                fs::rename(&from, &path).map_err(LevelError::io(&from, "rename"))
            }
        }
    }
}
