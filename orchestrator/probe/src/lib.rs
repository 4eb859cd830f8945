//! Work that is done close to the data. Checkpoint images can have hundreds of gigabytes, so they are read next to their storage, and only
//! their area tables are sent; the processes of a run are supervised by a process on their own machine. No asynchronous runtime.

pub mod sentinel;
pub mod shepherd;
