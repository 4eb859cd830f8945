//! Tests of what tests stand on: the lab and the cloud.

mod cloud;
mod dependencies;
mod lab;
mod table;
