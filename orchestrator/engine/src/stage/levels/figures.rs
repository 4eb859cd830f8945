//! Measurements of checkpoints that nodes keep, and their records.

use crate::run::Findings;
use cvc_core::record::{Source, Unit, names};
use cvc_core::units::MIB;

/// Measurements of a complete checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeptFigures {
    pub ckpt: u64,
    pub local_s: f64,
    pub redundancy_s: f64,
    /// Time until the checkpoint's manifest was on all nodes, seconds.
    pub safe_s: f64,
    pub kept_bytes: u64,
    pub sent_bytes: u64,
}

impl KeptFigures {
    pub fn record(&self, way: &str, to: &mut Findings) {
        let labels = [("ckpt", self.ckpt.to_string()), ("way", way.to_owned())];
        let clock = Source::Clock;
        to.seconds(names::LEVEL_SAFE_S, self.safe_s, clock, &labels);
        to.seconds(names::LEVEL_LOCAL_S, self.local_s, clock, &labels);
        let kept = self.kept_bytes as f64;
        to.bytes(names::LEVEL_KEPT_BYTES, kept, Source::FileSize, &labels);
        if self.sent_bytes == 0 {
            return;
        }
        let sent = self.sent_bytes as f64;
        to.seconds(names::LEVEL_REDUNDANCY_S, self.redundancy_s, clock, &labels);
        to.bytes(names::LEVEL_SENT_BYTES, sent, clock, &labels);
        let rate = sent / MIB / self.redundancy_s;
        let (name, unit) = (names::LEVEL_SENT_MIB_S, Unit::MibPerSecond);
        to.record(name, rate, unit, clock, None, &labels);
    }
}

/// Measurements of a flush.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FlushFigures {
    pub ckpt: u64,
    pub behind: bool,
    pub seconds: f64,
    pub bytes: u64,
}

impl FlushFigures {
    pub fn record(&self, to: &mut Findings) {
        let flush = if self.behind { "behind" } else { "waits" };
        let labels = [("ckpt", self.ckpt.to_string()), ("flush", flush.to_owned())];
        to.seconds(names::LEVEL_FLUSH_S, self.seconds, Source::Clock, &labels);
        let bytes = self.bytes as f64;
        to.bytes(names::LEVEL_FLUSHED_BYTES, bytes, Source::FileSize, &labels);
    }
}

/// Measurements of restoring a checkpoint's files for a restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RestoreFigures {
    pub ckpt: u64,
    /// Source of the files.
    pub from: &'static str,
    /// Number of nodes that had lost their files.
    pub lost: usize,
    pub restore_s: f64,
    pub rebuild_s: f64,
    pub rebuilt_bytes: u64,
}

impl RestoreFigures {
    pub fn record(&self, to: &mut Findings) {
        let clock = Source::Clock;
        let from = [
            ("from", self.from.to_owned()),
            ("lost", self.lost.to_string()),
        ];
        let ckpt = self.ckpt as f64;
        to.count(names::LEVEL_RESTARTED_CKPT, ckpt, clock, &from);
        let [from, lost] = from;
        let labels = [("ckpt", self.ckpt.to_string()), from, lost];
        to.seconds(names::LEVEL_RESTORE_S, self.restore_s, clock, &labels);
        if self.rebuilt_bytes > 0 {
            let bytes = self.rebuilt_bytes as f64;
            to.seconds(names::LEVEL_REBUILD_S, self.rebuild_s, clock, &labels);
            to.bytes(names::LEVEL_REBUILT_BYTES, bytes, clock, &labels);
        }
    }
}
