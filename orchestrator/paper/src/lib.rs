//! Papers: their tables recomputed, and compared with what a campaign measures.

pub mod paper;
pub mod rerun;
