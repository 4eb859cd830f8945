//! Random numbers seeded with the data, so that the same values give the same result on every machine.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// Returns a generator whose seed is the digest of the data.
pub fn seeded<'a>(samples: impl IntoIterator<Item = &'a [f64]>) -> ChaCha8Rng {
    let mut digest = blake3::Hasher::new();
    for sample in samples {
        digest.update(&(sample.len() as u64).to_le_bytes());
        for value in sample {
            digest.update(&value.to_bits().to_le_bytes());
        }
    }
    ChaCha8Rng::from_seed(*digest.finalize().as_bytes())
}

/// Returns a random whole number below `end`. The chances of two numbers differ by less than one part in 2⁵⁰.
pub fn below(random: &mut ChaCha8Rng, end: usize) -> usize {
    ((u128::from(random.next_u64()) * end as u128) >> 64) as usize
}

/// Returns a standard normal number (Box and Muller 1958).
pub fn normal(random: &mut ChaCha8Rng) -> f64 {
    let uniform =
        |random: &mut ChaCha8Rng| ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

/// Random samples with a known true mean, for tests of coverage.
#[cfg(test)]
pub(super) mod samples {
    pub(in super::super) use super::normal;

    /// A distribution: its name, and the function that turns standard normal numbers into its values.
    pub type Nature = (&'static str, fn(f64) -> f64);

    /// Returns the share of `trials` random intervals or tests for which `holds` returns true.
    pub fn share(trials: u32, mut holds: impl FnMut() -> bool) -> f64 {
        f64::from((0..trials).map(|_| u32::from(holds())).sum::<u32>()) / f64::from(trials)
    }
}
