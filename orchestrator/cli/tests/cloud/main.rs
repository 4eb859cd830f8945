//! Campaigns on EC2 instances: launched, set up, used and given back. The instances are nodes of a lab, and the cloud is moto's, with what it
//! lacks laid before it by the test kit.
#![cfg(feature = "ec2")]

mod both;
#[path = "../common/mod.rs"]
mod common;
mod deadline;
mod faults;
mod kept;
mod killed;
mod money;
mod on_cloud;
mod reclaim;
mod secrets;
#[path = "../cluster_faults/steps.rs"]
#[allow(dead_code, clippy::allow_attributes, reason = "a part of it is used")]
mod steps;
mod sweep;
mod whole;
