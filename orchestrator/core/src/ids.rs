//! One newtype for each kind of identifier.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Hexadecimal digits kept of a BLAKE3 digest: 64 bits, enough for every campaign that fits on a disk.
const DIGITS: usize = 16;

fn digest(canonical: &[u8]) -> String {
    blake3::hash(canonical).to_hex()[..DIGITS].to_owned()
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The identifier of these canonical bytes.
            pub fn of(canonical: &[u8]) -> Self {
                Self(digest(canonical))
            }

            /// Takes an identifier that was written before.
            pub fn from_written(text: &str) -> Self {
                Self(text.to_owned())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A point and a repeat number with everything that affects the result: the digest of every resolved input.
    RunId
}
id! {
    /// One combination of factor values, digested as [`RunId`] is, without the repeat.
    PointId
}

/// JSON with sorted keys and without spaces: equal values give equal text.
pub fn canonical_json<T: Serialize>(value: &T) -> String {
    // Our types have text keys and no failing serializers; a number that JSON cannot hold becomes null.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    value.sort_all_objects();
    value.to_string()
}
