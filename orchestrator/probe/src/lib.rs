//! Work that is done close to the data. Checkpoint images can have hundreds of gigabytes, so they are read next to their storage, and only
//! their area tables are sent; the processes of a run are supervised by a process on their own machine. No asynchronous runtime.

pub mod atomic_file;
pub mod disk;
pub mod image;
pub mod measuring;
pub mod proc;
pub mod sentinel;
pub mod shepherd;
pub mod tree;
pub mod visible;

/// Name of this machine; `None` if it has none that is text.
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok())
}
