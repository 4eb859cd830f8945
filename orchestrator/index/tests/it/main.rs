//! Tests the index with campaigns that the tests create: what it contains of the plan, the journal and the files of runs.

mod costs;
mod directory;
mod exclusions;
mod made;
mod predicted;
mod quantities;
mod runs;
mod series;
mod soundness;
mod tables;
