//! Results of a campaign and what is said of them: reports, and tests of how often equal things are called different.

pub mod aa_test;
pub mod advice;
pub mod comparison;
pub mod report;
pub mod results;
