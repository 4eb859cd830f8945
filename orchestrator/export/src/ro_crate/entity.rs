//! How entities are named and referred to.

use serde_json::{Value, json};

/// A reference to an entity.
pub(super) fn to(id: &str) -> Value {
    json!({ "@id": id })
}

/// A name as a part of an identifier: what has a meaning in addresses is written by its bytes.
pub(super) fn fragment(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
