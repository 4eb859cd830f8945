//! Layouts of checkpoints on a file system: operations, time, load of the metadata server and files of each layout, and the recommended layout.

mod answer;
mod forecast;
mod operations;
mod question;
mod sentence;
#[cfg(test)]
mod tests;

pub use answer::{DmtcpForecast, KindOperations, LayoutAnswer, LayoutForecast, UnknownLayout};
pub use forecast::layout_answer;
pub use operations::{OperationSource, OperationTable, parse_operations};
pub use question::LayoutQuestion;
