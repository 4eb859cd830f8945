//! Comparison of two sides: sites of one campaign, or campaigns. Points that are equal in all factors are compared quantity by quantity, and
//! each comparison ends in a verdict; what must be equal is compared as equality.
//!
//! | file | what |
//! | --- | --- |
//! | `side.rs` | one side: the results of a campaign, or of one of its sites |
//! | `matching.rs` | which points of the sides are equal |
//! | `environment.rs` | what differs around the programs |
//! | `quantities.rs` | what is compared, and how |
//! | `row.rs` | one quantity of one pair of points, with its verdict |
//! | `over_points.rs` | a quantity over all points |
//! | `answers.rs` | the questions of who compares a cluster with a cloud, answered in sentences |
//! | `side_comparison.rs` | what a comparison found |
//! | `compare.rs` | compares two sides |
//! | `page.rs` | the same as a report |

mod answers;
mod compare;
mod environment;
mod matching;
mod over_points;
mod page;
mod quantities;
mod row;
mod side;
mod side_comparison;

pub use compare::compare_sides;
pub use environment::EnvironmentDifference;
pub use matching::Unmatched;
pub use over_points::QuantityOverPoints;
pub use page::comparison_report;
pub use row::{ComparedRow, Outcome, SideValue};
pub use side::Side;
pub use side_comparison::{SCHEMA, SideComparison};
