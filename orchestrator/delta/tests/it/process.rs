//! A simulated process, whose memory changes between the images that are written of it.

use crate::common::{Kind, child, gzip, image, parent};
use cvc_image::{ReadOptions, read_image_with};
use std::{collections::BTreeMap, fs, os::unix::fs::FileExt, path::Path};

pub const PAGE: u64 = 4096;
/// Start address of the program's data.
pub const DATA: u64 = 0x5000_0001_0000;

/// Memory of a process: for each page a number that stands for its content, 0 for zeros.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub pages: BTreeMap<u64, u64>,
    pub vpid: i32,
}

impl Process {
    /// Creates a process with `pages` pages of different contents.
    pub fn new(vpid: i32, pages: u64) -> Self {
        let pages = (0..pages).map(|n| (DATA + n * PAGE, n + 1)).collect();
        Self { pages, vpid }
    }

    /// Writes its image in format 4 as DMTCP does: a region, with a run of data for each range of adjacent pages.
    pub fn write(&self, path: &Path, gzipped: bool) {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in self.pages.keys() {
            match runs.last_mut() {
                Some((start, bytes)) if *start + *bytes == *page => *bytes += PAGE,
                _ => runs.push((*page, PAGE)),
            }
        }
        let mut areas = Vec::new();
        for (start, bytes) in &runs {
            areas.push(parent(*start, *bytes, 3, ""));
            areas.push(child(*start, *bytes, 3, false));
        }
        let mut bytes = image(Kind::V4, &areas);
        // the header is stored twice
        for at in [48, 4096 + 48] {
            bytes[at..at + 4].copy_from_slice(&self.vpid.to_le_bytes());
        }
        // bytes that DMTCP never initialises differ between checkpoints
        let noise = (self.pages.values().sum::<u64>() % 251) as u8;
        fs::write(path, &bytes).unwrap();
        let read = read_image_with(path, ReadOptions { areas: true }).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        for area in &read.areas {
            file.write_all_at(&[noise; 64], area.file_offset + 4000)
                .unwrap();
            for offset in (0..area.data_bytes).step_by(PAGE as usize) {
                let page = content(self.pages[&(area.start + offset)]);
                file.write_all_at(&page, area.file_offset + PAGE + offset)
                    .unwrap();
            }
        }
        if gzipped {
            fs::write(path, gzip(&fs::read(path).unwrap())).unwrap();
        }
    }
}

/// Returns the content of a page, given its number.
pub fn content(number: u64) -> Vec<u8> {
    if number == 0 {
        return vec![0; PAGE as usize];
    }
    (0..PAGE / 8)
        .flat_map(|word| (number.wrapping_mul(0x9e37_79b9) ^ (word / 7)).to_le_bytes())
        .collect()
}

/// Returns the bytes of all files below a directory, by name.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            for (inner, bytes) in files(&path) {
                found.insert(format!("{name}/{inner}"), bytes);
            }
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}
