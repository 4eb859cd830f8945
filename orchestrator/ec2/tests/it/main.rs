//! Tests of EC2 as a provider.

mod cloud;
