//! Tests of the models against the committed data: every vector, every score, the figures by which the models are judged, and runs of today's
//! versions.

mod asked;
mod data;
mod dmtcp4;
mod scores;
mod targets;
mod vectors;
