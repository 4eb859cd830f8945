//! Papers: their tables recomputed, and compared with the measurements of campaigns.

pub mod paper;
pub mod rerun;
