//! Records bytes over time, in a fixed number of steps that widen as the trace grows.

/// Maximum number of steps.
const STEPS: usize = 1024;

/// Initial width of a step, nanoseconds.
const FIRST_NS: u64 = 1000;

/// Bytes over time.
#[derive(Clone, Debug)]
pub struct Rates {
    bytes: Vec<f64>,
    step_ns: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            bytes: vec![0.0; STEPS],
            step_ns: FIRST_NS,
        }
    }
}

impl Rates {
    /// Adds bytes, distributed evenly between two times in nanoseconds since the start of the trace.
    pub fn add(&mut self, start_ns: u64, end_ns: u64, bytes: u64) {
        let end_ns = end_ns.max(start_ns.saturating_add(1));
        while end_ns / self.step_ns >= STEPS as u64 {
            self.widen();
        }
        let (first, last) = (start_ns / self.step_ns, (end_ns - 1) / self.step_ns);
        if first == last {
            self.bytes[first as usize] += bytes as f64;
            return;
        }
        let per_ns = bytes as f64 / (end_ns - start_ns) as f64;
        for step in first..=last {
            let from = (step * self.step_ns).max(start_ns);
            let until = (step + 1).saturating_mul(self.step_ns).min(end_ns);
            self.bytes[step as usize] += per_ns * (until - from) as f64;
        }
    }

    fn widen(&mut self) {
        for i in 0..STEPS / 2 {
            self.bytes[i] = self.bytes[2 * i] + self.bytes[2 * i + 1];
        }
        self.bytes[STEPS / 2..].fill(0.0);
        self.step_ns = self.step_ns.saturating_mul(2);
    }

    /// Returns the width of a step, nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Returns the bytes in each step, from the start of the trace to the last step with any bytes.
    pub fn bytes(&self) -> &[f64] {
        let used = self.bytes.iter().rposition(|b| *b > 0.0);
        &self.bytes[..used.map_or(0, |last| last + 1)]
    }

    /// Returns the highest rate in a step, bytes per second.
    pub fn peak(&self) -> f64 {
        self.bytes.iter().copied().fold(0.0, f64::max) / (self.step_ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_where_they_were_as_steps_widen() {
        let mut rates = Rates::default();
        rates.add(0, 1000, 100);
        rates.add(500_000, 1_500_000, 1000);
        rates.add(3_000_000_000, 3_000_000_001, 7);
        let total: f64 = rates.bytes().iter().sum();
        assert!((total - 1107.0).abs() < 1e-6, "{total}");
        let step = (3_000_000_000 / rates.step_ns()) as usize;
        assert_eq!(rates.bytes().len(), step + 1);
        assert!((rates.bytes()[step] - 7.0).abs() < 1e-9);
    }

    #[test]
    fn times_at_the_end_of_numbers_do_not_overflow() {
        let mut rates = Rates::default();
        rates.add(0, u64::MAX, 1000);
        assert!((rates.bytes().iter().sum::<f64>() - 1000.0).abs() < 1.0);
    }

    #[test]
    fn what_moves_evenly_has_one_rate() {
        let mut rates = Rates::default();
        rates.add(0, 1_000_000, 1_000_000);
        assert!((rates.peak() - 1e9).abs() < 1.0, "{}", rates.peak());
    }
}
