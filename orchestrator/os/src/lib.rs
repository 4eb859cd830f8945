//! Operating system services for cvc: atomic files, disks, processes, names. No asynchronous runtime.

pub mod atomic_file;
pub mod beneath;
pub mod disk;
pub mod measuring;
pub mod output_file;
pub mod proc;
pub mod regular;
pub mod space;
pub mod tree;

/// Returns the name of this machine; `None` if the system has no name, or a name that is not UTF-8.
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
}
