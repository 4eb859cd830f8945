//! One newtype for each kind of identifier.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt};

/// Number of hexadecimal digits of a [`short_digest`]: 64 bits, enough for every campaign that fits on a disk.
pub(crate) const DIGITS: usize = 16;

/// The first 16 hexadecimal digits of the BLAKE3 digest of these bytes.
pub fn short_digest(bytes: &[u8]) -> String {
    digest_prefix(bytes, DIGITS)
}

/// The first hexadecimal digits of the BLAKE3 digest of these bytes, at most 64: for names with a limit on their length. What was named by so many
/// digits once is found by as many only.
pub fn digest_prefix(bytes: &[u8], digits: usize) -> String {
    hex_prefix(&blake3::hash(bytes), digits)
}

/// The first hexadecimal digits of a digest, at most 64.
pub fn hex_prefix(digest: &blake3::Hash, digits: usize) -> String {
    let mut hex = digest.to_hex().to_string();
    hex.truncate(digits);
    hex
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The digest of these canonical bytes.
            pub fn of(canonical: &[u8]) -> Self {
                Self(short_digest(canonical))
            }

            /// Wraps an identifier that was written before.
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

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        // for look-ups in maps and sets: equality, order and hash are those of the text
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<&String> for $name {
            fn from(text: &String) -> Self {
                Self(text.clone())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                self.0 == *other
            }
        }
    };
}

name! {
    /// Name of a site, as in `[sites.NAME]` of the campaign file.
    SiteName
}
name! {
    /// Name of a node of a site.
    NodeName
}
name! {
    /// Name of a lease: that of a scheduler's job, or the client token of a launch.
    LeaseId
}
name! {
    /// Name of a fleet: the instances of one site of one campaign directory.
    FleetId
}
name! {
    /// A cloud's identifier of an instance, as in `i-0123456789abcdef0`.
    InstanceId
}
name! {
    /// A scheduler's identifier of a job, as in `4711` or `4711_3`.
    JobId
}

/// JSON with sorted keys and without spaces: equal values give equal text.
pub fn canonical_json<T: Serialize>(value: &T) -> String {
    // Our types have text keys and no failing serializers; a number that JSON cannot hold becomes null.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_plain_text_in_json_and_are_found_by_text() {
        let nodes: BTreeSet<NodeName> = ["n2", "n1"].map(NodeName::from).into();
        assert_eq!(serde_json::to_string(&nodes).expect("json"), r#"["n1","n2"]"#);
        assert!(nodes.contains("n1") && !nodes.contains("n3"));
        assert_eq!(format!("{:>4}|", NodeName::from("n1")), "  n1|");
    }

    #[test]
    fn a_short_digest_has_sixteen_digits() {
        assert_eq!(short_digest(b"cvc").len(), 16);
        assert_eq!(RunId::of(b"cvc").as_str(), short_digest(b"cvc"));
        assert_eq!(digest_prefix(b"cvc", 8), short_digest(b"cvc")[..8]);
        assert_eq!(digest_prefix(b"cvc", 65), blake3::hash(b"cvc").to_hex().as_str());
    }
}
