//! Tests of the test kit itself: the lab, the cloud, and tables; and of the workspace's dependencies.

mod cloud;
mod dependencies;
mod lab;
mod table;
