//! Damaged and truncated logs.

use super::{
    data,
    fixtures::same,
    log_bytes,
    made::{newest, uncompressed},
    printed,
    text::{Text, read, squeeze},
    write::Order,
};
use cvc_trace::{DarshanLog, TraceError};
use flate2::read::GzDecoder;
use std::{
    fs,
    io::{Cursor, Read},
};

/// Returns a small log with every kind of record.
fn small() -> Vec<u8> {
    newest(Order::Little, 0).bytes()
}

/// Returns the lines of segments and of the heads before them, in the form common to both versions of the tool.
fn segments(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with(" X_") || line.starts_with("# DXT, "))
        .filter(|line| !line.contains("number of threads"));
    lines
        .map(|line| squeeze(&line.replace(" N/A", "")))
        .collect()
}

/// Checks that this reader reads at least what Darshan's tools print of a damaged log, in the same order.
#[track_caller]
fn has_what_is_printed(name: &str) -> Text {
    let text = read(&log_bytes(name)).unwrap();
    let theirs = printed(&format!("{name}.parser"));
    let lines = theirs
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    same(&text.counters, &lines.collect::<Vec<_>>());
    let theirs = segments(&printed(&format!("{name}.dxt")));
    let ours: Vec<_> = text.dxt.iter().map(|line| squeeze(line)).collect();
    assert!(ours.len() >= theirs.len());
    same(&ours[..theirs.len()], &theirs);
    text
}

#[test]
fn a_module_that_cannot_be_inflated_gives_what_stands_before_the_damage() {
    let text = has_what_is_printed("corrupt-dxt-mpiio-module");
    assert_eq!(text.missing.len(), 1);
    assert_eq!(text.missing[0].part, "module DXT_MPIIO");
    let problem = &text.missing[0].problem;
    assert!(
        problem.starts_with("after 2 whole records, it cannot be inflated"),
        "{problem}"
    );
}

#[test]
fn a_log_that_is_cut_off_gives_what_it_still_has() {
    let text = has_what_is_printed("truncated-copy");
    let missing = text.missing.iter();
    let told: Vec<_> = missing
        .map(|of| (of.part.as_str(), of.problem.as_str()))
        .collect();
    let [dxt, heatmap] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(dxt.0, "module DXT_MPIIO");
    assert!(dxt.1.contains("the file ends"), "{}", dxt.1);
    assert_eq!(heatmap.0, "module HEATMAP");
    // the readable part of an incomplete record is passed on
    let whole = read(&log_bytes("mpich-btioS-simple-np4")).unwrap();
    same(&text.dxt, &whole.dxt[..text.dxt.len()]);
    let theirs = segments(&printed("truncated-copy.dxt"));
    assert!(text.dxt.len() > theirs.len() + 100);
}

#[test]
fn the_log_of_a_killed_process_has_its_counters_and_is_said_to_be_unfinished() {
    let mut log = Vec::new();
    let file = fs::File::open(data("killed-3.5.0-mmap.darshan.gz")).unwrap();
    GzDecoder::new(file).read_to_end(&mut log).unwrap();
    let text = read(&log).unwrap();
    let theirs = printed("killed-3.5.0-mmap.parser");
    let lines = theirs
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    same(&text.counters, &lines.collect::<Vec<_>>());
    let parts: Vec<_> = text.missing.iter().map(|of| of.part.as_str()).collect();
    assert_eq!(parts, ["log"]);
    let job = text.job.unwrap();
    assert_eq!(
        (job.end, job.command.as_slice()),
        (None, b"./w kill ".as_slice())
    );
}

#[test]
fn a_log_with_threads_has_what_is_printed() {
    let text = has_what_is_printed("threads-3.5.0");
    assert_eq!(text.missing, []);
    let segments = text.dxt.iter().filter(|line| line.starts_with(" X_"));
    assert_eq!(segments.count(), 24);
}

#[test]
fn an_empty_header_is_said_to_come_from_a_killed_run() {
    let error = read(&log_bytes("killed-while-writing")).err().unwrap();
    assert!(matches!(error, TraceError::NotATrace { .. }));
    let message = error.to_string();
    assert!(
        message.contains("killed while Darshan wrote the log"),
        "{message}"
    );
}

#[test]
fn what_is_no_log_is_refused() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "does not begin with a version"),
        (b"3.41", "ends after 4 bytes"),
        (b"#!/bin/sh\nexit 0\n", "does not begin with a version"),
        (b"2.06\0\0\0\0", "Darshan 2.06 wrote it"),
        (b"3.99\0\0\0\0", "version 3.99 of the format is unknown"),
        (&[0; 8], "does not begin with a version"),
    ];
    for (bytes, problem) in cases {
        let error = read(bytes).err().unwrap().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let mut log = small();
    log[8] ^= 1;
    assert!(
        read(&log)
            .err()
            .unwrap()
            .to_string()
            .contains("magic number")
    );
    log[8] ^= 1;
    log[16] = 9;
    assert!(
        read(&log)
            .err()
            .unwrap()
            .to_string()
            .contains("compression method 9")
    );
}

/// Checks that everything in `shorter` is also in `longer`, where the last record of bins or stripes may continue.
fn holds(longer: &Text, shorter: &Text) {
    assert!(longer.counters.len() >= shorter.counters.len());
    assert!(longer.dxt.starts_with(&shorter.dxt));
    assert!(shorter.job.is_none() || longer.job.is_some());
    assert!(longer.sums.len() >= shorter.sums.len());
    let tables = ["HEATMAP", "LUSTRE"];
    let fixed = |text: &Text| -> Vec<String> {
        let lines = text.counters.iter();
        lines
            .filter(|line| !tables.iter().any(|start| line.starts_with(start)))
            .cloned()
            .collect()
    };
    assert!(fixed(longer).starts_with(&fixed(shorter)));
}

#[track_caller]
fn every_prefix_gives_as_much_as_a_shorter_one(log: &[u8]) {
    let mut last = Text::default();
    let mut opened = 0;
    for end in 0..=log.len() {
        let Ok(text) = read(&log[..end]) else {
            assert_eq!(opened, 0, "{end}");
            continue;
        };
        opened += 1;
        holds(&text, &last);
        last = text;
    }
    assert!(opened > 500);
    let whole = read(log).unwrap();
    assert_eq!((last.counters, last.dxt), (whole.counters, whole.dxt));
}

#[test]
fn a_log_of_a_run_cut_off_at_any_byte_gives_as_much_as_a_shorter_one() {
    every_prefix_gives_as_much_as_a_shorter_one(&log_bytes("mpich-btioS-full-np4"));
}

#[test]
fn an_uncompressed_log_cut_off_at_any_byte_gives_as_much_as_a_shorter_one() {
    every_prefix_gives_as_much_as_a_shorter_one(&uncompressed(Order::Big).bytes());
}

#[test]
fn any_changed_byte_is_withstood() {
    for (compression, bits) in [(0, 0xff), (2, 0x80), (2, 0xff)] {
        let mut log = uncompressed(Order::Little);
        log.compression = compression;
        let mut bytes = log.bytes();
        for place in 0..bytes.len() {
            bytes[place] ^= bits;
            // with or without an error, reading returns
            _ = DarshanLog::from_source(Cursor::new(&bytes), "log".as_ref())
                .map(|log| log.read(&mut Nothing));
            bytes[place] ^= bits;
        }
    }
}

struct Nothing;

impl cvc_trace::DarshanVisitor for Nothing {}
