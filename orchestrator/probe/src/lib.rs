//! Work that is done close to the data. Checkpoint images can have hundreds of gigabytes, so a machine with access to their storage reads them, and
//! sends only the tables of their memory areas. The processes of a run are supervised by a process on their own machine. The crate uses no
//! asynchronous runtime.

pub mod bandwidth;
pub mod sentinel;
pub mod shepherd;
