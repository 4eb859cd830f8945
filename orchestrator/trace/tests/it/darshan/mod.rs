//! Logs of Darshan, compared with the output of Darshan's tools, and with the logs generated here.

mod damage;
mod events;
mod fixtures;
mod made;
mod memory;
mod remade;
mod summary;
mod text;
mod write;

use flate2::read::GzDecoder;
use std::{fs, io::Read, path::PathBuf};

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/darshan")).join(name)
}

fn log_bytes(name: &str) -> Vec<u8> {
    fs::read(data(&format!("{name}.darshan"))).unwrap()
}

/// Returns the output of one of Darshan's tools.
fn printed(name: &str) -> String {
    let mut text = String::new();
    let file = fs::File::open(data(&format!("{name}.txt.gz"))).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}
