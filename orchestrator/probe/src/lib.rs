//! Reads what runs leave behind, where it lies: checkpoint images can be hundreds of gigabytes, so they are read next to
//! their storage and only their area tables travel. No asynchronous runtime, no network.

pub mod image;
