//! Gives damaged seeds to a reader, by proptest: in a process of its own, so that one that hangs, overflows its stack or takes too much memory
//! fails like one that panics; a failure is then shown with as few changes as it needs.

use crate::{
    mutate::mutated,
    seeds::{Seed, seeds},
    table::target,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngSeed, TestRunner, contextualize_config},
};
use std::{fmt, sync::Arc};

/// Inputs for each reader, the same each time; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` try others.
const INPUTS: u32 = 10_000;
/// Time after which an input counts as one that hangs: long, because the machine may be busy.
const HANG_MS: u32 = 120_000;
/// Memory of a process of tests: readers are given kilobytes.
const MAX_MEMORY_BYTES: u64 = 2 << 30;

/// What a reader gets; shown as a literal, to be put into a test.
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Seeds as they are, and with changes. Few changes keep the rest whole, so that they reach what is deep inside.
fn inputs(seeds: Vec<Seed>, words: &'static [&'static str]) -> impl Strategy<Value = Input> {
    let changes = prop_oneof![1 => Just(Vec::new()), 8 => vec(any::<u64>(), 1..2), 8 => vec(any::<u64>(), 2..8)];
    let seeds = Arc::new(seeds);
    (0..seeds.len(), changes).prop_map(move |(seed, changes)| Input(mutated(&seeds, seed, words, &changes)))
}

/// Tries a target. `test` is the path of the test, by which its process is started.
pub(crate) fn withstands(name: &str, test: &'static str) {
    let target = target(name).expect("a target of this name");
    // not where other tests run in the same process
    if std::env::args().any(|argument| argument == "--exact") {
        let (_, hard) = getrlimit(Resource::RLIMIT_AS).expect("a limit");
        setrlimit(Resource::RLIMIT_AS, MAX_MEMORY_BYTES.min(hard), hard).expect("a limit of memory");
    }
    let config = ProptestConfig {
        cases: INPUTS,
        rng_seed: RngSeed::Fixed(1),
        fork: true,
        timeout: HANG_MS,
        test_name: Some(test),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let check = |input: Input| {
        (target.check)(&input.0);
        Ok(())
    };
    let seeds = seeds(name).expect("seeds");
    if let Err(failure) = TestRunner::new(contextualize_config(config)).run(&inputs(seeds, target.words), check) {
        panic!("{name}: {failure}");
    }
}
