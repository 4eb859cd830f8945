//! Tests of predictions.

mod calibration;
mod common;
mod gzip;
mod predict;
mod space;
