//! The volume that changes between two checkpoints, as a function of the time between them: the formula and its simpler forms.

use serde::Serialize;

/// Data of a checkpoint that an earlier checkpoint does not contain. Every two checkpoints of a run form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangedPair {
    /// Number of the earlier checkpoint.
    pub from: u32,
    /// Number of the later checkpoint.
    pub to: u32,
    /// Seconds between the two.
    pub distance_s: f64,
    /// MiB of blocks that changed.
    pub changed_mib: f64,
    /// MiB of the later checkpoint.
    pub full_mib: f64,
}

/// The parts of D(τ) = S·(1 − e^(−τ/T)) + r·τ that the data separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeForm {
    /// S: the same at every distance, because T is far below the shortest distance.
    Constant,
    /// r·τ, because T is far above the longest distance.
    Proportional,
    /// S + r·τ.
    Line,
    /// S·(1 − e^(−τ/T)).
    Saturating,
    /// The whole formula.
    Complete,
}

impl VolumeForm {
    /// All forms, the simplest first.
    pub(super) const ALL: [Self; 5] = [
        Self::Constant,
        Self::Proportional,
        Self::Line,
        Self::Saturating,
        Self::Complete,
    ];

    /// Returns the formula as text.
    #[must_use]
    pub fn formula(self) -> &'static str {
        match self {
            Self::Constant => "S",
            Self::Proportional => "r·τ",
            Self::Line => "S + r·τ",
            Self::Saturating => "S·(1 − e^(−τ/T))",
            Self::Complete => "S·(1 − e^(−τ/T)) + r·τ",
        }
    }

    /// Returns the number of parameters.
    pub(super) fn parameters(self) -> usize {
        match self {
            Self::Constant | Self::Proportional => 1,
            Self::Line | Self::Saturating => 2,
            Self::Complete => 3,
        }
    }

    pub(super) fn has_time(self) -> bool {
        matches!(self, Self::Saturating | Self::Complete)
    }
}

/// D(τ) = S·(1 − e^(−τ/T)) + r·τ, limited to the size of a checkpoint. S is the size of pages that a program rewrites repeatedly, T the time scale
/// on which it rewrites them, and r the rate of data that it writes only once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VolumeCurve {
    /// S, MiB.
    pub repeated_mib: f64,
    /// T, seconds; 0 if all distances are much longer than T.
    pub time_s: f64,
    /// r, MiB per second.
    pub rate_mib_s: f64,
    /// Size of a full checkpoint, MiB; the changed volume is limited to it.
    pub full_mib: f64,
}

impl VolumeCurve {
    /// Returns the MiB that change within a distance in seconds.
    #[must_use]
    pub fn at(&self, distance_s: f64) -> f64 {
        self.uncapped(distance_s).min(self.full_mib)
    }

    pub(super) fn uncapped(&self, distance_s: f64) -> f64 {
        let part = if self.time_s > 0.0 {
            -(-distance_s / self.time_s).exp_m1()
        } else if distance_s > 0.0 {
            1.0
        } else {
            0.0
        };
        self.repeated_mib * part + self.rate_mib_s * distance_s
    }
}
