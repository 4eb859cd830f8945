//! The results of a campaign, read from its index once: points with the values and summaries of their counted runs, quantities, facts, and pairs of
//! points that differ in one factor. Reports and comparisons are built from these results.
//!
//! | file | contents |
//! | --- | --- |
//! | `data.rs` | all data read from the index |
//! | `rows.rs` | a point, a run, an excluded combination |
//! | `quantity.rs` | order, headings and better directions of quantities and factors |
//! | `counterpart.rs` | pairs of points that differ in one factor, and their repeats |
//! | `consistency.rs` | differences between runs of a point that should be equal |
//! | `records.rs` | all records in long form |

mod consistency;
pub(crate) mod counterpart;
pub(crate) mod data;
pub(crate) mod quantity;
mod records;
pub(crate) mod rows;
pub(crate) mod scaling;
