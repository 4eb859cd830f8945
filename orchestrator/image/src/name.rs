//! Names in images: bytes, as the kernel gives them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, sync::Arc};

/// A path or other name as it stands in an image. The kernel does not promise UTF-8, so the bytes are kept (the listing
/// prints them unchanged); JSON and messages show what is not UTF-8 as U+FFFD. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// The text of a fixed-size field: everything before the first NUL, or all of it.
    #[must_use]
    pub fn from_field(field: &[u8]) -> Self {
        Self(Arc::from(until_nul(field)))
    }

    /// The bytes, without NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Is this the empty name of anonymous memory?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What stands before the first NUL of `field`.
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
