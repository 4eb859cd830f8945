//! The least and the greatest of several.

/// The least and the greatest of several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Of the process with the least.
    pub least: f64,
    /// Of the process with the most.
    pub most: f64,
    /// Of how many processes.
    pub processes: usize,
}

impl Spread {
    /// A spread, with one more value.
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

    /// The spread of these values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let with = |spread, value| Some(Self::with(spread, value));
        values.into_iter().fold(None, with)
    }
}
