//! Comparison of two sides: sites of one campaign, or campaigns. Points that are equal in all factors are compared quantity by quantity, each with a
//! verdict. Values that must be equal are tested for equality.
//!
//! | file | contents |
//! | --- | --- |
//! | `side.rs` | one side: the results of a campaign, or of one of its sites |
//! | `matching.rs` | pairs of equal points of both sides |
//! | `environment.rs` | differences in the environment of the programs |
//! | `quantities.rs` | the quantities, and how each is compared |
//! | `row.rs` | one quantity of one pair of points, with its verdict |
//! | `over_points.rs` | a quantity over all points |
//! | `answers.rs` | answers about a cluster and a cloud, in sentences |
//! | `side_comparison.rs` | the results of a comparison |
//! | `compare.rs` | compares two sides |
//! | `page.rs` | the comparison as a report |

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
pub use side_comparison::{NotCompared, SCHEMA, SideComparison, SideScaling};
