//! Identifiers, each kind with its own type.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt};

/// Maximum length of a name that is read from a file, bytes: that of a file name, minus room for a suffix.
const MAX_NAME_BYTES: usize = 200;

/// Number of hexadecimal digits of a [`short_digest`]: 64 bits, enough to distinguish the runs of every campaign that fits on a disk.
pub(crate) const DIGITS: usize = 16;

/// Returns the first 16 hexadecimal digits of the BLAKE3 digest of these bytes.
pub fn short_digest(bytes: &[u8]) -> String {
    digest_prefix(bytes, DIGITS)
}

/// Returns the first `digits` hexadecimal digits of the BLAKE3 digest of these bytes, at most 64, for names with a limited length. A later search for
/// the name must use the same number of digits.
pub fn digest_prefix(bytes: &[u8], digits: usize) -> String {
    hex_prefix(&blake3::hash(bytes), digits)
}

/// Returns the first `digits` hexadecimal digits of a digest, at most 64.
pub fn hex_prefix(digest: &blake3::Hash, digits: usize) -> String {
    let mut hex = digest.to_hex().to_string();
    hex.truncate(digits);
    hex
}

/// The error that a name is invalid: it could be mistaken for a path, an option or two words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid name of {kind}: expected {expected}")]
pub struct IllegalName {
    kind: &'static str,
    text: String,
    expected: &'static str,
}

impl IllegalName {
    fn new(kind: &'static str, text: &str, expected: &'static str) -> Self {
        // escaped, because the text may come from somebody else's file
        let text = text
            .chars()
            .take(MAX_NAME_BYTES)
            .flat_map(char::escape_debug)
            .collect();
        Self {
            kind,
            text,
            expected,
        }
    }
}

/// Returns whether a text can be a component of a path, with any suffix, and is not mistaken for an option of a command. It is short and not empty,
/// has no slashes, blanks or control characters, and begins with neither `.` nor `-`.
pub fn is_path_part(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && !text.contains(|c: char| c == '/' || c == '\\' || c.is_whitespace() || c.is_control())
}

/// Returns the path directly below `directory` for an object whose name comes from another machine or file. If the name is not a valid component of a
/// path, the path has its digest instead, so that no name leads out of the directory. All such paths are made by this function.
pub fn below(directory: &Utf8Path, name: &str) -> Utf8PathBuf {
    if is_path_part(name) {
        directory.join(name)
    } else {
        directory.join(format!("{}.illegal", short_digest(name.as_bytes())))
    }
}

/// Returns whether a text may be an identifier: a digest, or what earlier versions and tests used instead. It has only letters, digits, `-` and `_`.
pub fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Checks an identifier that was read from a file.
///
/// # Errors
/// The text is not an identifier.
pub fn check_id(kind: &'static str, text: &str) -> Result<(), IllegalName> {
    if is_id(text) {
        Ok(())
    } else {
        Err(IllegalName::new(
            kind,
            text,
            "1 to 64 letters, digits, `-` or `_`",
        ))
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl TryFrom<String> for $name {
            type Error = IllegalName;

            fn try_from(text: String) -> Result<Self, IllegalName> {
                check_id($kind, &text)?;
                Ok(Self(text))
            }
        }

        impl $name {
            /// Returns the digest of these canonical bytes.
            pub fn of(canonical: &[u8]) -> Self {
                Self(short_digest(canonical))
            }

            /// Creates an identifier from its text. The caller must know that the text has a valid form.
            pub fn from_written(text: &str) -> Self {
                Self(text.to_owned())
            }

            /// Returns the identifier as text.
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
    RunId, "a run"
}
id! {
    /// One combination of factor values, digested as [`RunId`] is, without the repeat.
    PointId, "a point"
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::read(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        impl $name {
            /// Creates a name from text in a file.
            ///
            /// # Errors
            /// The text could be interpreted as something other than a name.
            pub fn read(text: String) -> Result<Self, IllegalName> {
                let expected = "one part of a path, without `/` and blanks, that begins with neither `.` nor `-`";
                if is_path_part(&text) { Ok(Self(text)) } else { Err(IllegalName::new($kind, &text, expected)) }
            }

            /// Returns the name as text.
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

        // for look-ups in maps and sets, equality, order and hash are those of the text
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
    SiteName, "a site"
}
name! {
    /// Name of a node of a site.
    NodeName, "a node"
}
name! {
    /// Name of a lease: that of a scheduler's job, or the client token of a launch.
    LeaseId, "a lease"
}
name! {
    /// Name of a fleet: the instances of one site of one campaign directory.
    FleetId, "a fleet"
}
name! {
    /// A cloud's identifier of an instance, as in `i-0123456789abcdef0`.
    InstanceId, "an instance"
}
name! {
    /// A scheduler's identifier of a job, as in `4711` or `4711_3`.
    JobId, "a job"
}

/// Returns JSON with sorted keys and without spaces, so that equal values have equal text.
pub fn canonical_json<T: Serialize>(value: &T) -> String {
    // these types have text keys, and their serializers cannot fail; a number that JSON cannot express becomes null
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
        assert_eq!(
            serde_json::to_string(&nodes).expect("json"),
            r#"["n1","n2"]"#
        );
        assert!(nodes.contains("n1") && !nodes.contains("n3"));
        assert_eq!(format!("{:>4}|", NodeName::from("n1")), "  n1|");
    }

    #[test]
    fn names_that_are_read_are_parts_of_paths_and_nothing_else() {
        for text in [
            "/elsewhere/precious",
            "../..",
            "..",
            ".",
            "",
            "a/b",
            "a\\b",
            "a b",
            "a\nb",
            "\u{1b}[2J",
            "-rf",
            ".ssh",
            &"a".repeat(300),
        ] {
            let json = serde_json::to_string(text).expect("JSON");
            serde_json::from_str::<RunId>(&json).expect_err(text);
            serde_json::from_str::<PointId>(&json).expect_err(text);
            serde_json::from_str::<SiteName>(&json).expect_err(text);
            serde_json::from_str::<NodeName>(&json).expect_err(text);
            serde_json::from_str::<LeaseId>(&json).expect_err(text);
            serde_json::from_str::<JobId>(&json).expect_err(text);
            assert!(!is_path_part(text) && !is_id(text), "{text:?}");
            let path = below(Utf8Path::new("/campaigns/runs"), text);
            assert_eq!(
                path.parent(),
                Some(Utf8Path::new("/campaigns/runs")),
                "{text:?}"
            );
            assert!(
                path.file_name().is_some_and(|name| !name.starts_with('.')),
                "{path}"
            );
        }
        let error = serde_json::from_str::<RunId>(r#""../../x""#)
            .expect_err("climbs")
            .to_string();
        assert!(
            error.starts_with("`../../x` is not a valid name of a run: expected 1 to 64 letters"),
            "{error}"
        );
        assert!(
            !serde_json::from_str::<NodeName>(r#""n1\u001b""#)
                .expect_err("escape")
                .to_string()
                .contains('\u{1b}')
        );
        assert_eq!(
            below(Utf8Path::new("runs"), "58d821967d31cbe3"),
            "runs/58d821967d31cbe3"
        );
        for text in ["58d821967d31cbe3", "run-1"] {
            serde_json::from_str::<RunId>(&format!("\"{text}\"")).expect(text);
        }
        for text in [
            "n1",
            "Node-7.cluster.example",
            "ip-10-0-0-1.ec2.internal",
            "4711_[1-3]",
            "i-0a1",
        ] {
            serde_json::from_str::<NodeName>(&format!("\"{text}\"")).expect(text);
        }
    }

    #[test]
    fn a_short_digest_has_sixteen_digits() {
        assert_eq!(short_digest(b"cvc").len(), 16);
        assert_eq!(RunId::of(b"cvc").as_str(), short_digest(b"cvc"));
        assert_eq!(digest_prefix(b"cvc", 8), short_digest(b"cvc")[..8]);
        assert_eq!(
            digest_prefix(b"cvc", 65),
            blake3::hash(b"cvc").to_hex().as_str()
        );
    }
}
