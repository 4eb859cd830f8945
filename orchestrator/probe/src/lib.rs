//! Reads checkpoint images.
