//! Tests of what is shown of traces.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

mod page;
mod page_made;
