//! Coverage of the intervals that cvc prints: for repeats by simulation, and for predictions by leaving programs out.
//!
//! | file | contents |
//! | --- | --- |
//! | `repeats.rs` | samples with known true values, and how often claims about them are true |
//! | `trials.rs` | predictions of a program trained on few of its runs, with the measurements |
//! | `predictions.rs` | coverage of these predictions' intervals, by quantity, basis and distance |
//! | `shown.rs` | all results together |
//! | `page.rs`, `picture.rs` | the results as a page and as a picture |

pub mod command;
mod page;
mod picture;
mod predictions;
mod repeats;
mod shown;
mod trials;

use cvc_prediction::predict::{self, Observation};

pub use page::{claim_in_words, page};
pub use picture::picture;
pub use predictions::{ByProgram, Coverage, PredictionCoverage, leave_one_program_out};
pub use repeats::{Claim, Simulated, simulate, simulations};
pub use shown::{Calibrated, calibrate};
pub use trials::{Tried, errors_of, trials};

/// Tables of runs that are part of cvc: of programs with declared arrays, of programs that allocate memory, and of both with zones by owner.
const CARRIED: [(&str, &str); 3] = [
    (
        "nas-sizes.csv",
        include_str!("../../../../experiments/nas-sizes.csv"),
    ),
    (
        "allocated-sizes.csv",
        include_str!("../../../../experiments/allocated-sizes.csv"),
    ),
    (
        "owner-sizes.csv",
        include_str!("../../../../experiments/owner-sizes.csv"),
    ),
];

/// Returns the observations that are part of cvc.
pub fn carried() -> Vec<Observation> {
    CARRIED
        .into_iter()
        .flat_map(|(name, text)| {
            predict::parse(camino::Utf8Path::new(name), text).unwrap_or_default()
        })
        .collect()
}
