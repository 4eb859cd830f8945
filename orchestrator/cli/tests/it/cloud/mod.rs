//! Campaigns on EC2 instances: launched, set up, used and given back. The instances are nodes of a lab, and the cloud is moto's, with what it
//! lacks laid before it by the test kit.

mod both;
mod deadline;
mod failing_writes;
mod faults;
mod fleets;
mod kept;
mod killed;
mod money;
pub mod on_cloud;
mod reclaim;
mod secrets;
mod sweep;
mod whole;
