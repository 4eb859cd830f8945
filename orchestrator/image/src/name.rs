//! Names in images, as byte strings.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, sync::Arc};

/// A path or other name in an image. The kernel does not guarantee UTF-8, so the original bytes are kept. The listing prints them unchanged; JSON
/// and messages show invalid bytes as U+FFFD. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Creates a name from a fixed-size field: the bytes before the first NUL, or the whole field.
    #[must_use]
    pub fn from_field(field: &[u8]) -> Self {
        Self(Arc::from(until_nul(field)))
    }

    /// Returns the bytes, without NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether the name is empty, as that of anonymous memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the bytes before the first NUL of `field`.
pub(super) fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(&self.0))
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Arc::from(
            String::deserialize(deserializer)?.into_bytes(),
        )))
    }
}
