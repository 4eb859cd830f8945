//! What has to be done where the data lie: checkpoint images can be hundreds of gigabytes, so they are read next to their storage and only
//! their area tables travel; and the processes of a run are watched by one of their own machine. No asynchronous runtime, no network.

pub mod image;
pub mod proc;
pub mod sentinel;
pub mod shepherd;
