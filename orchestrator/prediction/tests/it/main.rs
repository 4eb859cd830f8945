//! Tests of predictions.

mod common;
mod delta;
mod gzip;
mod images;
mod predict;
mod shapes;
mod sizes;
mod space;
