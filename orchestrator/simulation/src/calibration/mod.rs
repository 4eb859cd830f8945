//! How often the intervals that cvc prints hold: shown by simulation for repeats, and for predictions by leaving programs out.
//!
//! | file | what |
//! | --- | --- |
//! | `repeats.rs` | samples of a known truth, and how often what is said of them comes true |
//! | `trials.rs` | predictions of one program that are trained on few of its runs, beside what was measured |
//! | `predictions.rs` | how many of their intervals held, by quantity, basis and reach |
//! | `shown.rs` | everything together |
//! | `page.rs`, `picture.rs` | the same for people: a page, and a picture |

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

/// The runs that cvc carries: of programs with declared arrays, of some that allocate theirs, and of both with zones by owner.
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

/// The observations that cvc carries.
pub fn carried() -> Vec<Observation> {
    CARRIED
        .into_iter()
        .flat_map(|(name, text)| {
            predict::parse(camino::Utf8Path::new(name), text).unwrap_or_default()
        })
        .collect()
}
