//! Carries out a plan: opens sites, submits their runs, and gives machines back. Also has the checks of `cvc doctor`, which examine sites beforehand.

pub mod doctor;
pub mod observe;
pub mod runner;
