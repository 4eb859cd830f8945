//! Identifiers of entities, and references to them.

use serde_json::{Value, json};

/// Returns a reference to an entity.
pub(super) fn to(id: &str) -> Value {
    json!({ "@id": id })
}

/// Encodes a name for an identifier: characters with a special meaning in URLs are percent-encoded.
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
