//! Traces that are made, for tests and benchmarks of pages.

use cvc_show::{PlotSink, Plots};
use cvc_trace::All;
use cvc_trace::document::{TraceDocument, TraceHead, document};
use cvc_trace::{Api, Event, FileId, Op, Process, ProcessId, Sink};
use cvc_trace::{findings, profile::Profiler};

/// An event of a write by POSIX.
pub fn write(process: u32, file: u32, start_ns: u64, offset: u64, bytes: u64) -> Event {
    Event {
        process: ProcessId(process),
        thread: 0,
        file: FileId(file),
        op: Op::Write,
        api: Api::Posix,
        offset: Some(offset),
        bytes,
        start_ns,
        duration_ns: 20_000,
        failed: false,
    }
}

/// Processes with ranks, on one node.
pub fn ranks(sink: &mut impl Sink, n: u32) {
    for rank in 0..n {
        let process = Process {
            rank: Some(rank),
            pid: Some(1000 + u64::from(rank)),
            host: Some("n1".into()),
            program: Some("/opt/app".into()),
        };
        sink.process(ProcessId(rank), &process).expect("kept");
    }
}

/// A program of 64 ranks: bursts of strided writes into shared files of 16 roles, and then reads; of `noise`, everything is anywhere at any time,
/// in ranges that nearly all bins of a plot are used for.
pub fn program(sink: &mut impl Sink, events: u64, noise: bool) {
    const RANKS: u64 = 64;
    const ROLES: u64 = 16;
    ranks(sink, RANKS as u32);
    for role in 0..ROLES {
        let letter = char::from(b'a' + role as u8);
        sink.file(
            FileId(role as u32),
            format!("/scratch/out-{letter}.dat").as_bytes(),
        )
        .expect("kept");
    }
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) % below
    };
    let bursts = 10;
    for i in 0..events {
        let rank = i % RANKS;
        let event = if noise {
            Event {
                op: if random(2) == 0 { Op::Read } else { Op::Write },
                ..write(
                    random(RANKS) as u32,
                    random(ROLES) as u32,
                    random(399 << 31),
                    random(119 << 29),
                    1 + random(1 << 20),
                )
            }
        } else {
            let burst = i * bursts / events;
            let within = (i - burst * events / bursts) / RANKS;
            let start_ns = burst * 60_000_000_000 + within * 1_000_000 + rank * 3_000;
            Event {
                op: if burst % 5 == 4 { Op::Read } else { Op::Write },
                ..write(
                    rank as u32,
                    (burst % ROLES) as u32,
                    start_ns,
                    (within * RANKS + rank) * 4096,
                    4096,
                )
            }
        };
        sink.event(&event).expect("kept");
    }
}

/// What is said of a trace and what is plotted of it.
pub fn gathered(fill: impl FnOnce(&mut All<'_>)) -> (TraceDocument, Plots) {
    let (mut profiler, mut plots) = (Profiler::default(), PlotSink::default());
    fill(&mut All(vec![&mut profiler, &mut plots]));
    let profile = profiler.finish();
    let found = findings::findings(
        &findings::facts_of_profile(&profile),
        findings::RequestedSettings::default(),
        &findings::Thresholds::default(),
    );
    let head = TraceHead {
        tracer: "darshan".into(),
        inputs: vec!["run.darshan".into()],
        format: Some("3.41".into()),
        command: Some("/opt/app --steps 10".into()),
        ranks: Some(64),
        began_unix_s: Some(1.7e9),
        partial: false,
    };
    (document(head, &profile, &found, None), plots.finish())
}
