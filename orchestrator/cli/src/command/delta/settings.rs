//! Methods of deltas with their settings: from options, and described in words.

use cvc_core::units::{counted, size};
use cvc_delta::{Codec, Method, SeriesOptions, Threshold, Transform};

/// Default maximum number of files per restore of [`Method::Bounded`].
pub const FILES: u32 = 4;

/// Describes a method with its settings.
pub fn named(method: Method) -> String {
    let limit = |threshold: Threshold| match threshold {
        Threshold::Ratio(ratio) if ratio.is_infinite() => "threshold infinite".to_owned(),
        Threshold::Ratio(ratio) => format!("threshold {ratio}"),
        Threshold::Bytes(bytes) => format!("threshold {}", size(bytes as f64)),
    };
    match method {
        Method::Adca { threshold } => format!("adca, {}", limit(threshold)),
        Method::Bounded { threshold, files } => {
            format!("bounded, {}, at most {files} files", limit(threshold))
        }
        Method::Full | Method::Incremental | Method::Differential => method.as_str().to_owned(),
    }
}

/// Describes how a series stores its states.
pub fn described(options: &SeriesOptions) -> String {
    let by = options.addressing.as_str();
    let block = size(options.block_bytes.bytes() as f64);
    let transform = match options.transform {
        Transform::None => String::new(),
        Transform::Shuffle => ", shuffled".to_owned(),
        Transform::Xor => ", as XOR".to_owned(),
    };
    let packets = match (options.codec, options.packet_blocks) {
        (Codec::None, _) => "not compressed".to_owned(),
        (codec, 0) => format!("{} as one stream", codec.as_str()),
        (codec, blocks) => format!(
            "{} in packets of {}",
            codec.as_str(),
            counted(blocks, "block")
        ),
    };
    format!(
        "{}; blocks of {block} by {by}{transform}, {packets}",
        named(options.method)
    )
}

/// Formats how many times smaller the first number is than the second.
pub fn times_less(less: u64, more: u64) -> String {
    if less == 0 {
        return "-".to_owned();
    }
    let times = more as f64 / less as f64;
    if times >= 100.0 {
        format!("{times:.0}")
    } else {
        format!("{times:.1}")
    }
}
