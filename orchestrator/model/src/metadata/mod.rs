//! Metadata operations of a file system that stores checkpoints: counts by layout, their time, and the layout with the fewest operations.
//!
//! | for | module |
//! | --- | --- |
//! | operations as a function of clients, checkpoints and metadata servers, fitted to counts | [`law`] |
//! | published and measured laws of file systems | [`known`] |
//! | the layout with the fewest operations, by number of clients or checkpoints | [`crossing`] |
//! | stripes that several processes share | [`stripes`] |
//! | time of a checkpoint as a function of clients and checkpoints, fitted to runs | [`time_law`] |
//! | time, load of the metadata server, number of files | [`cost`] |
//! | DMTCP's images | [`dmtcp`] |

pub mod cost;
pub mod crossing;
pub mod dmtcp;
pub mod known;
pub mod law;
pub mod stripes;
pub mod time_law;

mod delegation;
mod layout;
mod rational;

pub use delegation::delegation_operations;
pub use layout::{Layout, MetadataSetting};
