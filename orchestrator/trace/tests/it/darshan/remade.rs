//! Rewrites logs of real runs with another byte order and compression.

use super::{
    log_bytes,
    text::read,
    write::{Order, Out, Written, WrittenModule},
};
use flate2::bufread::ZlibDecoder;
use std::io::Read;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().unwrap())
}

fn inflate(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        ZlibDecoder::new(&mut bytes).read_to_end(&mut out).unwrap();
    }
    out
}

/// Decodes a log (zlib, version 3.41, little-endian) and returns it in another byte order and compression, optionally with threads in DXT.
fn take_apart(log: &[u8], order: Order, compression: u8, threads: bool) -> Written {
    let part = |at: usize| {
        let (offset, bytes) = (word(&log[at..]) as usize, word(&log[at + 8..]) as usize);
        inflate(&log[offset..offset + bytes])
    };
    let words = |bytes: &[u8]| {
        let mut out = Out::new(order);
        bytes
            .chunks_exact(8)
            .for_each(|bytes| out.word(word(bytes)));
        out.bytes
    };
    let job = inflate(&log[1328..word(&log[32..]) as usize]);
    let mut job_again = words(&job[..56]);
    job_again.extend(&job[56..]);
    let mut names = Out::new(order);
    let all = part(32);
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        let end = 8 + rest[8..].iter().position(|&byte| byte == 0).unwrap();
        names.word(word(rest));
        names.text(&rest[8..end], end - 7);
        rest = &rest[end + 1..];
    }
    let mut modules = Vec::new();
    for place in 0..64 {
        let bytes = part(48 + place * 16);
        if bytes.is_empty() {
            continue;
        }
        let version = u32::from_le_bytes(*log[1072 + place * 4..].first_chunk().unwrap());
        let is_dxt = [10, 11].contains(&place);
        let (version, bytes) = match is_dxt {
            true => (
                version + u32::from(threads),
                dxt_again(&bytes, order, threads),
            ),
            false => (version, words(&bytes)),
        };
        // an arbitrary position: a record may begin in one stream and end in the next
        let (first, second) = bytes.split_at(bytes.len() / 3);
        let streams = vec![first.to_vec(), second.to_vec()];
        modules.push(WrittenModule {
            place,
            version,
            streams,
        });
    }
    Written {
        version: "3.41",
        order,
        compression,
        partial: 0,
        job: job_again,
        names: names.bytes,
        modules,
    }
}

fn dxt_again(mut bytes: &[u8], order: Order, threads: bool) -> Vec<u8> {
    let mut out = Out::new(order);
    while !bytes.is_empty() {
        bytes[..24]
            .chunks_exact(8)
            .for_each(|bytes| out.word(word(bytes)));
        out.text(&bytes[24..88], 64);
        let counts = [word(&bytes[88..]), word(&bytes[96..])];
        out.words(&counts);
        bytes = &bytes[104..];
        for number in 0..counts[0] + counts[1] {
            bytes[..32]
                .chunks_exact(8)
                .for_each(|bytes| out.word(word(bytes)));
            if threads {
                out.word(7 + number % 2);
            }
            bytes = &bytes[32..];
        }
    }
    out.bytes
}

#[track_caller]
fn is_the_same(order: Order, compression: u8) {
    for name in [
        "mpich-btioS-full-np4",
        "ompi-ompio-btioW-full-np9",
        "mpich-btioS-simple-np4",
    ] {
        let log = log_bytes(name);
        let expected = read(&log).unwrap();
        let again = read(&take_apart(&log, order, compression, false).bytes()).unwrap();
        assert!(!expected.dxt.is_empty());
        assert_eq!(
            again.job.map(|job| (job.command, job.mounts, job.start)),
            expected.job.map(|job| (job.command, job.mounts, job.start))
        );
        assert_eq!(again.counters, expected.counters);
        assert_eq!(again.dxt, expected.dxt);
        let unfinished = usize::from(compression == 2);
        assert_eq!(again.missing.len(), unfinished, "{:?}", again.missing);
    }
}

#[test]
fn a_log_that_is_compressed_with_bzip2_is_the_same() {
    is_the_same(Order::Little, 1);
}

#[test]
fn a_log_that_is_not_compressed_is_the_same() {
    is_the_same(Order::Little, 2);
}

#[test]
fn a_log_in_the_other_byte_order_is_the_same() {
    is_the_same(Order::Big, 0);
    is_the_same(Order::Big, 1);
}

#[test]
fn threads_stand_at_the_end_of_every_segment() {
    for order in [Order::Little, Order::Big] {
        let log = log_bytes("mpich-btioS-full-np4");
        let expected = read(&log).unwrap().dxt;
        let again = read(&take_apart(&log, order, 0, true).bytes()).unwrap().dxt;
        assert_eq!(again.len(), expected.len());
        let mut number = 0;
        for (again, expected) in again.iter().zip(&expected) {
            if expected.starts_with('#') {
                number = 0;
                assert_eq!(again, expected);
            } else {
                assert_eq!(*again, format!("{expected}      {}", 7 + number % 2));
                number += 1;
            }
        }
    }
}
