//! One controller for each campaign.

use super::error::StoreError;
use camino::Utf8Path;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
};

/// Held as long as this value lives; the kernel releases it when the process ends, however that happens.
#[derive(Debug)]
pub struct CampaignLock {
    _file: File,
}

impl CampaignLock {
    /// Takes the lock; the error names the holder.
    pub fn take(path: &Utf8Path) -> Result<Self, StoreError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(StoreError::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // naming the holder is a courtesy: the lock works without it
                let _ = file.read_to_string(&mut pid);
                let holder = if pid.trim().is_empty() { String::new() } else { format!(" (process {})", pid.trim()) };
                return Err(StoreError::Locked { path: path.into(), holder });
            }
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path)(e)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(StoreError::io("write", path))?;
        Ok(Self { _file: file })
    }
}
