//! What a campaign is called everywhere: on heads, in queues, in clouds.

use cvc_core::ids::{IllegalName, check_id, digest_prefix};

use camino::Utf8Path;
use cvc_core::paths;
use serde::{Deserialize, Serialize};
use std::{
    fmt::{self, Write},
    fs::File,
    io::{self, Read},
};

/// The identity of a campaign: random, made once, and written into the first record of its journal. It moves with the campaign's directory,
/// whatever that or the machine is called.
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
    /// A new one of 64 random bits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut text = String::new();
        for byte in bytes {
            // text can always be written to
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// By what versions without lineages called a campaign: a digest of the machine's name and the directory.
    pub fn of_place(directory: &Utf8Path) -> Self {
        let machine = paths::host_name().unwrap_or_default();
        Self(digest_prefix(
            format!("{machine}:{directory}").as_bytes(),
            8,
        ))
    }

    /// Wraps one that was written before.
    pub fn from_written(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As text: hexadecimal digits.
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
