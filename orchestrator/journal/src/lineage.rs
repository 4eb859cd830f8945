//! Lineage: the name of a campaign on heads, in queues, and in clouds.

use cvc_core::ids::{IllegalName, check_id, digest_prefix};

use camino::Utf8Path;
use cvc_core::paths;
use serde::{Deserialize, Serialize};
use std::{
    fmt::{self, Write},
    fs::File,
    io::{self, Read},
};

/// The identity of a campaign: a random number, generated once and written into the first entry of its journal. It stays with the campaign's
/// directory, whatever the names of the directory and the machine are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Lineage(String);

impl TryFrom<String> for Lineage {
    type Error = IllegalName;

    fn try_from(text: String) -> Result<Self, IllegalName> {
        check_id("a lineage", &text)?;
        Ok(Self(text))
    }
}

impl Lineage {
    /// Creates a lineage of 64 random bits.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut text = String::new();
        for byte in bytes {
            // writing to a text cannot fail
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// Returns the name by which versions without lineages identified a campaign: a digest of the machine's name and the directory.
    pub fn of_place(directory: &Utf8Path) -> Self {
        let machine = paths::host_name().unwrap_or_default();
        Self(digest_prefix(
            format!("{machine}:{directory}").as_bytes(),
            8,
        ))
    }

    /// Creates a lineage from its text.
    pub fn from_written(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the lineage as text, in hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Lineage;

    #[test]
    fn no_two_campaigns_have_the_same() {
        let (one, other) = (
            Lineage::random().expect("random"),
            Lineage::random().expect("random"),
        );
        assert_ne!(one, other);
        assert!(
            one.as_str().len() == 16 && one.as_str().bytes().all(|b| b.is_ascii_hexdigit()),
            "{one}"
        );
    }
}
