//! Results of a campaign, reports about the results, and tests of how often reports claim a difference between equal things.

pub mod aa_test;
pub mod advice;
pub mod comparison;
pub mod report;
pub mod results;
