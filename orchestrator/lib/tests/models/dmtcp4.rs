//! Runs of today's versions.
