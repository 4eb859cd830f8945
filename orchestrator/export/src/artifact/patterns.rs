//! Regular expressions for secrets, names and addresses.

use cvc_core::environment::may_hold_secret;
use regex::{Captures, Match, Regex};
use std::sync::LazyLock;

/// Text that replaces a secret.
pub(super) const WITHHELD: &str = "withheld";

/// Defines a pattern; a test compiles all of them.
macro_rules! pattern {
    ($name:ident, $text:expr) => {
        pub(super) static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

// a name and a value, as in shells, TOML, JSON (also inside a JSON string), and tables of Markdown and TeX
pattern!(
    PAIR,
    r#"([\p{L}_][\p{L}\p{N}_-]*)\\?["']?(?:[ \t]*[=:][ \t]*|[ \t]+[|&][ \t]+)('\\''.*?'\\''|"""(?s:.*?)"""|'''(?s:.*?)'''|\\"(?:.*?)\\"|"(?:[^"\\]|\\.)*"|'[^'\n]*'|[^\s,;"'\\}\])<>]+)"#
);
// --token value
pattern!(
    OPTION,
    r#"(?i)--[a-z0-9-]*(?:secret|token|password|passwd|access-?key|api-?key)[ \t]+([^\s"'\\;,&]+)"#
);
// Authorization: Bearer value
pattern!(
    AUTHORIZATION,
    r#"(?i)\bauthorization\\*["']?\s*[=:]\s*\\*["']?([^\n"'\\]+)"#
);
// Bearer value
pattern!(BEARER, r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/=-]+)");
pattern!(
    PRIVATE_KEY,
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"
);
pattern!(
    TOKEN,
    concat!(
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_[A-Za-z0-9_]{20,}\b",
        // Hugging Face, GitLab, Slack, JSON Web Tokens
        r"|\bhf_[A-Za-z0-9]{8,}\b|\bglpat-[A-Za-z0-9_-]{8,}|\bxox[a-z]-[A-Za-z0-9-]{8,}",
        r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    )
);
pattern!(URL_PASSWORD, r"://[^/\s:@\x22]+:([^/\s@\x22]+)@");
pattern!(IPV4, r"\b(?:\d{1,3}\.){3}\d{1,3}\b");
// as in names of cloud instances
pattern!(
    IPV4_DASHED,
    r"\b(?:ip|ec2)-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b"
);
pattern!(IPV6, r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}");
pattern!(MAC, r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}\b");
pattern!(
    CLOUD_ID,
    r"\b(?:i|r|sg|subnet|vpc|vol|eni|igw|rtb|lt|sir|pg|eipalloc|eipassoc)-[0-9a-f]{8,17}\b"
);
pattern!(
    ARN_ACCOUNT,
    r"\barn:[a-z-]+:[a-z0-9-]*:[a-z0-9-]*:(\d{12})\b"
);
pattern!(QUOTED_ACCOUNT, r#"["'](\d{12})\\?["']"#);
pattern!(
    HOME,
    r"/(?:home|homes|Users|users)/([\p{L}\p{N}][\p{L}\p{M}\p{N}._-]*)"
);
pattern!(
    USER_AT_HOST,
    r"([\p{L}\p{N}][\p{L}\p{M}\p{N}._+-]*)@(\p{L}[\p{L}\p{M}\p{N}.-]*[\p{L}\p{N}]|\p{L})"
);
pattern!(
    NODE_LIST,
    r"[A-Za-z][A-Za-z0-9._-]*\[[0-9,-]+\][A-Za-z0-9._-]*"
);

// words that occur in texts with relevant pairs; a record contains a hundred irrelevant pairs
pattern!(
    RELEVANT,
    r"(?i)secret|token|passw|_key|api_?key|access|jwt|aws_|\bkey\b|\buser|\bhost|\blogname"
);

/// Returns the pairs of a name and a value in a text; none if the text contains no word that indicates a secret, a user or a host. Values of names
/// that are not secret are searched for further pairs.
pub(super) fn pairs(text: &str) -> Vec<(Match<'_>, Match<'_>)> {
    let is_relevant = RELEVANT
        .as_ref()
        .is_none_or(|relevant| relevant.is_match(text));
    let (Some(pattern), true) = (PAIR.as_ref(), is_relevant) else {
        return Vec::new();
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(pair) = pattern.captures_at(text, at) {
        let (Some(name), Some(value)) = (pair.get(1), pair.get(2)) else {
            break;
        };
        // in `a: token=b`, the value of the first pair contains a pair
        at = if is_secret(name.as_str()) {
            value.end()
        } else {
            value.start()
        };
        found.push((name, value));
    }
    found
}

/// Returns all matches of a pattern.
pub(super) fn matches<'t>(
    pattern: &'static LazyLock<Option<Regex>>,
    text: &'t str,
) -> impl Iterator<Item = Captures<'t>> {
    pattern
        .as_ref()
        .into_iter()
        .flat_map(move |pattern| pattern.captures_iter(text))
}

/// Returns whether the value of a variable with this name is withheld. A column named `key` in a table is not secret.
pub(super) fn is_secret(name: &str) -> bool {
    name != "key" && may_hold_secret(name)
}

/// Variables that are not passed to programs, because their names look like those of secrets. Their values are not secret, and are kept elsewhere.
const PUBLIC: [&str; 6] = [
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
];

/// Returns whether the value of a variable with this name is withheld everywhere.
pub(super) fn is_secret_everywhere(name: &str) -> bool {
    is_secret(name) && !PUBLIC.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for pattern in [
            &PAIR,
            &RELEVANT,
            &OPTION,
            &AUTHORIZATION,
            &BEARER,
            &PRIVATE_KEY,
            &TOKEN,
            &URL_PASSWORD,
            &IPV4,
            &IPV4_DASHED,
            &IPV6,
            &MAC,
            &CLOUD_ID,
            &ARN_ACCOUNT,
            &QUOTED_ACCOUNT,
            &HOME,
            &USER_AT_HOST,
            &NODE_LIST,
        ] {
            assert!(pattern.is_some());
        }
    }
}
