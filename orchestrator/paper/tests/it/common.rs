//! What tests share.

use cvc_paper::paper::{Paper, load};
use std::path::Path;

/// The thesis of the repository.
pub fn thesis() -> Paper {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/papers/thesis");
    load(&folder).unwrap_or_else(|e| panic!("{e}"))
}
