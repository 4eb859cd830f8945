//! Temporary directories for readers of files.

use camino::{Utf8Path, Utf8PathBuf};
use std::{cell::RefCell, fs, path::Path};

/// Directory in memory, used if possible, because readers sync their writes.
const MEMORY: &str = "/dev/shm";

struct Scratch {
    root: Option<tempfile::TempDir>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { root: None }) };
}

/// Calls `work` with an empty directory.
pub(super) fn with_dir(work: impl FnOnce(&Utf8Path)) {
    SCRATCH.with_borrow_mut(|scratch| {
        let root = scratch.root.get_or_insert_with(|| {
            let builder = || tempfile::Builder::new().prefix("cvc-fuzz-").to_owned();
            let in_memory = Path::new(MEMORY)
                .is_dir()
                .then(|| builder().tempdir_in(MEMORY).ok())
                .flatten();
            in_memory
                .or_else(|| builder().tempdir().ok())
                .expect("a directory")
        });
        let path = Utf8PathBuf::from_path_buf(root.path().join("d")).expect("UTF-8");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{path}: {error}"),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir(&path).expect("a directory");
        work(&path);
    });
}

/// Derives a number below `sides` from the bytes.
pub(super) fn side(data: &[u8], sides: u32) -> u32 {
    data.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    }) % sides
}
