//! Writes logs for which there is no real run: other versions, byte orders and compressions.

use bzip2::write::BzEncoder;
use flate2::write::ZlibEncoder;
use std::io::Write;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    Little,
    Big,
}

/// Bytes of a region, written in one of the two byte orders.
pub(super) struct Out {
    pub(super) order: Order,
    pub(super) bytes: Vec<u8>,
}

impl Out {
    pub(super) fn new(order: Order) -> Self {
        let bytes = Vec::new();
        Self { order, bytes }
    }

    pub(super) fn word(&mut self, word: u64) {
        self.bytes.extend(match self.order {
            Order::Little => word.to_le_bytes(),
            Order::Big => word.to_be_bytes(),
        });
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|&word| self.word(word));
    }

    pub(super) fn half(&mut self, half: u32) {
        self.bytes.extend(match self.order {
            Order::Little => half.to_le_bytes(),
            Order::Big => half.to_be_bytes(),
        });
    }

    pub(super) fn float(&mut self, float: f64) {
        self.word(float.to_bits());
    }

    /// Writes text into a field of `bytes` bytes.
    pub(super) fn text(&mut self, text: &[u8], bytes: usize) {
        let end = self.bytes.len() + bytes;
        self.bytes.extend(text);
        assert!(self.bytes.len() <= end);
        self.bytes.resize(end, 0);
    }
}

#[derive(Clone)]
pub(super) struct WrittenModule {
    /// Index of the module in the header.
    pub(super) place: usize,
    pub(super) version: u32,
    /// The data that each rank wrote, as separate streams.
    pub(super) streams: Vec<Vec<u8>>,
}

/// A log before compression.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) version: &'static str,
    pub(super) order: Order,
    /// Compression as in the header: 0 zlib, 1 bzip2, 2 none.
    pub(super) compression: u8,
    pub(super) partial: u64,
    pub(super) job: Vec<u8>,
    pub(super) names: Vec<u8>,
    pub(super) modules: Vec<WrittenModule>,
}

impl Written {
    fn compress(&self, bytes: &[u8]) -> Vec<u8> {
        match self.compression {
            0 => {
                let mut zlib = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                zlib.write_all(bytes).unwrap();
                zlib.finish().unwrap()
            }
            1 => {
                let mut bzip2 = BzEncoder::new(Vec::new(), bzip2::Compression::default());
                bzip2.write_all(bytes).unwrap();
                bzip2.finish().unwrap()
            }
            _ => bytes.to_vec(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let wide = self.version == "3.41";
        let (places, head_bytes) = if wide { (64, 1328) } else { (16, 360) };
        let mut body = Vec::<u8>::new();
        let mut put = |bytes: &[u8]| {
            let at = head_bytes + body.len() as u64;
            body.extend(bytes);
            [at, bytes.len() as u64]
        };
        put(&self.compress(&self.job));
        let names = put(&self.compress(&self.names));
        let (mut maps, mut versions) = (vec![[0; 2]; places], vec![0; places]);
        for module in &self.modules {
            let streams: Vec<u8> = module
                .streams
                .iter()
                .flat_map(|bytes| self.compress(bytes))
                .collect();
            maps[module.place] = put(&streams);
            versions[module.place] = module.version;
        }
        let mut out = Out::new(self.order);
        out.text(self.version.as_bytes(), 8);
        out.word(6_567_223);
        out.text(&[self.compression], if wide { 8 } else { 4 });
        if wide {
            out.word(self.partial);
        } else {
            out.half(u32::try_from(self.partial).unwrap());
        }
        out.words(&names);
        maps.iter().for_each(|map| out.words(map));
        versions.into_iter().for_each(|version| out.half(version));
        assert_eq!(out.bytes.len() as u64, head_bytes);
        out.bytes.extend(body);
        out.bytes
    }
}

/// Returns the record of the job, of version 3.41 (`wide`) or older.
pub(super) fn job(order: Order, wide: bool, end: u64, text: &[u8]) -> Vec<u8> {
    let mut out = Out::new(order);
    out.word(1000);
    out.word(1_600_000_000);
    if wide {
        out.word(250_000_000);
    }
    out.word(end);
    if wide {
        out.word(750_000_000);
    }
    out.words(&[4, 4711]);
    out.text(b"lib_ver=3.x\nh=romio_no_indep_rw=true;cb_nodes=4\n", 1024);
    out.text(text, 4096 - out.bytes.len());
    out.bytes
}

/// Returns a DXT record. With `threads`, segments contain a thread number.
pub(super) fn dxt(
    out: &mut Out,
    [id, rank]: [u64; 2],
    writes: &[(u64, u64)],
    reads: &[(u64, u64)],
    threads: bool,
) {
    out.words(&[id, rank, 0]);
    out.text(b"node-7.cluster", 64);
    out.words(&[writes.len() as u64, reads.len() as u64]);
    for (number, &(offset, length)) in writes.iter().chain(reads).enumerate() {
        let start = 0.5 + 0.25 * number as f64;
        out.words(&[offset, length]);
        out.float(start);
        out.float(start + 0.125);
        if threads {
            out.word(140_000_000_000_000 + 64 * (number as u64 % 3));
        }
    }
}
