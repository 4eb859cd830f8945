//! From consecutive checkpoints to the method that stores them, and how often to take one.
//!
//! | file | what |
//! | --- | --- |
//! | `pairs.rs` | where pairs of checkpoints come from: a table, or what was found between states |
//! | `campaign.rs` | pairs of a campaign's series, by zone too, and what its records say of codecs |
//! | `packing.rs` | what a codec makes of blocks, from stored files |
//! | `answer.rs` | each method at its best interval, with ranges |

mod answer;
mod campaign;
mod packing;
mod pairs;

pub use answer::{DeltaAnswer, DeltaQuestion, Evidence, MethodAnswer, ZoneAnswer, answer};
pub use campaign::{CampaignSeries, ZonePairs, packed_of, series_of};
pub use packing::{CodecAnswer, Packed, PackedState};
pub use pairs::{pairs_from_csv, pairs_of, parse_pairs};
