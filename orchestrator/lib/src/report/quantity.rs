//! What quantities and factors are called for people, and in which order they stand.

use crate::record::names;

/// Quantities that cvc itself makes, in the order of tables, with headings. The names are those of the view `v_quantities`.
const KNOWN: [(&str, &str); 20] = [
    (names::WALL_S, "wall time"),
    (names::CKPT_LATENCY_S, "checkpoint latency"),
    (names::CKPT_COORDINATION_S, "coordination"),
    (names::CKPT_STORAGE_S, "storage"),
    (names::CKPT_STORED_BYTES, "stored"),
    (names::CKPT_FILES, "files"),
    (names::RESTART_S, "restart"),
    (names::RESTART_VERIFIED, "restart verified"),
    (names::AGGREGATORS_EFFECTIVE, "aggregators in effect"),
    (names::CB_BUFFER_EFFECTIVE, "collective buffer in effect"),
    (names::CKPT_BYTES, "checkpoint files"),
    ("ckpt_bytes_rank", "rank images"),
    ("ckpt_bytes_launcher", "launcher images"),
    ("ckpt_bytes_aux", "auxiliary files"),
    ("ckpt_bytes_application", "application's checkpoint"),
    ("ckpt_files_rank", "rank images, files"),
    ("ckpt_files_launcher", "launcher images, files"),
    ("ckpt_files_aux", "auxiliary files, number"),
    ("ckpt_files_application", "application's checkpoint, files"),
    ("image_bytes_per_rank", "image of a rank"),
];

/// The heading of a quantity; figures of merit keep their own names.
pub(super) fn heading(quantity: &str) -> String {
    if let Some((_, heading)) = KNOWN.iter().find(|(name, _)| *name == quantity) {
        return (*heading).to_owned();
    }
    if let Some(zone) = quantity.strip_prefix("zone_bytes_") {
        return format!("zone {}", zone.replace('_', ", "));
    }
    if quantity == "file_bytes_per_rank" {
        return "image file of a rank".to_owned();
    }
    quantity.to_owned()
}

/// Whether a quantity is a figure of merit of the application.
pub(super) fn is_merit(quantity: &str) -> bool {
    !quantity.starts_with("zone_bytes_") && quantity != "file_bytes_per_rank" && KNOWN.iter().all(|(name, _)| *name != quantity)
}

/// Wall time, then figures of merit, then the rest as known.
pub(super) fn order(quantity: &str) -> (usize, String) {
    let place = match KNOWN.iter().position(|(name, _)| *name == quantity) {
        Some(0) => 0,
        Some(at) => at + 1,
        None if is_merit(quantity) => 1,
        None => KNOWN.len() + 1,
    };
    (place, quantity.to_owned())
}

/// The heading of a factor.
pub(super) fn factor_heading(factor: &str) -> String {
    match factor {
        "app" => "application",
        "mpi" => "MPI",
        "cb_buffer" => "collective buffer",
        other => other,
    }
    .to_owned()
}

/// The name of a factor's column in data files, as in the index: free factors are told apart from everything else.
pub(super) fn factor_column(factor: &str) -> String {
    if crate::point::Point::FACTORS.contains(&factor) { factor.to_owned() } else { format!("user_{factor}") }
}

/// A level of a factor where the name of the factor is not beside it.
pub(super) fn level(factor: &str, level: &str) -> String {
    match factor {
        "aggregators" => format!("{level} aggregator{}", if level == "1" { "" } else { "s" }),
        "cb_buffer" => format!("{level} buffer"),
        "processes" => format!("{level} processes"),
        "compression" if level == "none" => "uncompressed".to_owned(),
        "checkpointer" if level == "none" => "no checkpoint".to_owned(),
        "site" | "app" | "class" | "mapping" | "mpi" | "checkpointer" | "compression" | "storage" => level.to_owned(),
        other => format!("{other} {level}"),
    }
}
