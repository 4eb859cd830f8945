//! Tests of campaigns on EC2 instances: launched, set up, used and released. The instances are nodes of a lab, and the cloud is moto's EC2; the test
//! kit adds what moto lacks.

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
