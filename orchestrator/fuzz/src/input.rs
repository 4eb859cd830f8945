//! Inputs by number.

use crate::{mutate::mutated, seeds::Seed, table::Target};

/// Spreads numbers that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Input number `number` of run `run`. The first ones are the seeds as they are.
#[must_use]
pub fn input(target: &Target, seeds: &[Seed], run: u64, number: u64) -> Vec<u8> {
    if let Some(seed) = usize::try_from(number).ok().and_then(|number| seeds.get(number)) {
        return seed.bytes.clone();
    }
    let mut random = fastrand::Rng::with_seed(run.wrapping_mul(SPREAD) ^ number.wrapping_mul(SPREAD).rotate_left(31));
    mutated(seeds, target.words, &mut random)
}
