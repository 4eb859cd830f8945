//! The minimum and the maximum of several values.

/// The minimum and the maximum over several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankSpread {
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    /// Number of processes.
    pub processes: usize,
}

impl RankSpread {
    /// Returns the spread with one more value.
    pub(crate) fn with(spread: Option<Self>, value: f64) -> Self {
        let (least, most, processes) = spread.map_or((value, value, 0), |known| {
            (known.least, known.most, known.processes)
        });
        Self {
            least: least.min(value),
            most: most.max(value),
            processes: processes + 1,
        }
    }

    /// Returns the spread of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let with = |spread, value| Some(Self::with(spread, value));
        values.into_iter().fold(None, with)
    }
}
