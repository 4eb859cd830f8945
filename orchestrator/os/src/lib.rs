//! What cvc asks of the operating system: files that appear whole, disks, processes, names. No asynchronous runtime.

pub mod atomic_file;
pub mod beneath;
pub mod disk;
pub mod measuring;
pub mod output_file;
pub mod proc;
pub mod regular;
pub mod space;
pub mod tree;

/// Name of this machine; `None` if it has none that is text.
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
}
