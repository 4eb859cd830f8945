//! The models against the committed data: every vector, every score, the figures that the models are judged by, and runs of today's versions.

mod asked;
mod data;
mod dmtcp4;
mod scores;
mod targets;
mod vectors;
