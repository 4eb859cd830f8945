//! What all pages share: style, script, Content-Security-Policy, and code in texts.

use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

/// Style of all pages.
const STYLE: &str = include_str!("../../../../templates/page/page.css");
/// Script of all pages: filters tables and copies them.
const SCRIPT: &str = include_str!("../../../../templates/page/page.js");

/// Style, script and policy of a page, for its template.
pub(crate) struct PageHead {
    pub style: String,
    pub script: String,
    /// The Content-Security-Policy. It allows only the page's own script and loads nothing, so that injected markup has no effect.
    pub policy: String,
}

impl PageHead {
    /// Returns the style and script of all pages with those of one kind of page added, and the policy for them.
    pub fn with(style: &str, script: &str) -> Self {
        // add the line feeds that the templates write, because the policy contains hashes
        let (style, script) = (
            format!("\n{STYLE}{style}\n"),
            format!("\n{SCRIPT}{script}\n"),
        );
        let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
        // style attributes of drawings and marks cannot be covered by hashes, so inline styles are allowed
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'",
            hash(&script),
            hash(&style)
        );
        Self {
            style,
            script,
            policy,
        }
    }
}

/// Marks the parts between backticks as code; `escape` converts text to markup.
pub(crate) fn with_code(text: &str, escape: fn(&str) -> String) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let of = |(at, part): (usize, &&str)| match (at % 2, escape(part)) {
        (1, part) => format!("<code>{part}</code>"),
        (_, part) => part,
    };
    parts.iter().enumerate().map(of).collect()
}
