//! How much may change between two checkpoints, as a function of their distance.

use serde::Serialize;

/// What the later of two checkpoints has that the earlier one does not. Every pair of checkpoints of a run is one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangedPair {
    /// Number of the earlier checkpoint.
    pub from: u32,
    /// Number of the later one.
    pub to: u32,
    /// Seconds between the two.
    pub distance_s: f64,
    /// MiB of blocks that changed.
    pub changed_mib: f64,
    /// MiB of the later checkpoint.
    pub full_mib: f64,
}

/// Which parts of D(τ) = S·(1 − e^(−τ/T)) + r·τ the data tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeForm {
    /// S: the same at every distance. T is far below the shortest one.
    Constant,
    /// r·τ: T is far above the longest distance.
    Proportional,
    /// S + r·τ.
    Line,
    /// S·(1 − e^(−τ/T)).
    Saturating,
    /// All of it.
    Complete,
}

impl VolumeForm {
    /// The simplest first.
    pub(super) const ALL: [Self; 5] = [
        Self::Constant,
        Self::Proportional,
        Self::Line,
        Self::Saturating,
        Self::Complete,
    ];

    /// Its formula.
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

    /// Number of parameters.
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

/// D(τ) = S·(1 − e^(−τ/T)) + r·τ, never more than a whole checkpoint. S: pages that a program writes again and again, T: how soon it comes back
/// to them, r: what it writes once and leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VolumeCurve {
    /// S, MiB.
    pub repeated_mib: f64,
    /// T, seconds; 0 where every distance is long against it.
    pub time_s: f64,
    /// r, MiB each second.
    pub rate_mib_s: f64,
    /// A whole checkpoint, MiB: more cannot change.
    pub full_mib: f64,
}

impl VolumeCurve {
    /// MiB that change within a distance in seconds.
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
