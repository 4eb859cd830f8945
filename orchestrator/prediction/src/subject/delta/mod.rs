//! Chooses the method that stores a series of checkpoints, and the interval between them.
//!
//! | file | contents |
//! | --- | --- |
//! | `pairs.rs` | pairs of checkpoints from a table, or from a comparison of states |
//! | `campaign.rs` | pairs of a campaign's series, in total and by zone, and its records of codecs |
//! | `packing.rs` | the effect of a codec on blocks, from stored files |
//! | `answer.rs` | the best interval of each method, with expected times at the ends of the volume's interval |

mod answer;
mod campaign;
mod packing;
mod pairs;

pub use answer::{DeltaAnswer, DeltaQuestion, Evidence, MethodAnswer, ZoneAnswer, answer};
pub use campaign::{CampaignSeries, ZonePairs, packed_of, series_of};
pub use packing::{CodecAnswer, Packed, PackedState};
pub use pairs::{pairs_from_csv, pairs_of, parse_pairs};
