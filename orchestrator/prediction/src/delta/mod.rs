//! From consecutive checkpoints to the method that stores them, and how often to take one.
//!
//! | file | what |
//! | --- | --- |
//! | `pairs.rs` | where pairs of checkpoints come from: a table, or what was found between states |
//! | `answer.rs` | each method at its best interval, with ranges |

mod answer;
mod pairs;

pub use answer::{DeltaAnswer, DeltaQuestion, MethodAnswer, answer};
pub use pairs::{pairs_from_csv, pairs_of, parse_pairs};
