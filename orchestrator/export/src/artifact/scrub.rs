//! Removes secrets and names from texts.

use super::{
    names::{ArtifactNames, NameKind, is_generic},
    patterns::{
        ARN_ACCOUNT, AUTHORIZATION, BEARER, CLOUD_ID, HOME, IPV4, IPV4_DASHED, IPV6, MAC,
        NODE_LIST, OPTION, PRIVATE_KEY, QUOTED_ACCOUNT, TOKEN, URL_PASSWORD, USER_AT_HOST,
        WITHHELD, is_secret, matches, pairs,
    },
};
use aho_corasick::AhoCorasick;
use cvc_core::nodelist;
use regex::Regex;
use std::{
    borrow::Cow,
    collections::HashMap,
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

/// Replaces all names in [`ArtifactNames`], and everything that looks like an address.
pub(super) struct Scrubber {
    names: ArtifactNames,
    /// Whether names are kept, so that only secrets are removed.
    keeps_names: bool,
    known: Option<AhoCorasick>,
    /// Replacement words, in the order of the patterns in `known`.
    words: Vec<String>,
    /// Matches names that differ from those of known hosts only in the number at the end.
    like_hosts: Option<Regex>,
    /// Cache of cleaned short texts; most of them occur often.
    cleaned: HashMap<String, String>,
}

/// Maximum number of cached texts; the next constant is their maximum length, bytes.
const MAX_CLEANED: usize = 100_000;
const MAX_SHORT: usize = 64;

impl Scrubber {
    pub(super) fn new(names: ArtifactNames, keeps_names: bool) -> Self {
        let (texts, words): (Vec<String>, Vec<String>) = names.known().into_iter().unzip();
        let known = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(&texts)
            .ok();
        let like_hosts = names.host_prefixes().map(|prefixes| {
            let any = prefixes
                .iter()
                .map(|prefix| regex::escape(prefix))
                .collect::<Vec<_>>()
                .join("|");
            Regex::new(&format!(r"(?i)\b(?:{any})\d+\b")).ok()
        });
        Self {
            names,
            keeps_names,
            known,
            words,
            like_hosts: like_hosts.flatten(),
            cleaned: HashMap::new(),
        }
    }

    /// Returns the text without secrets and names.
    pub(super) fn clean<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let text = self.without_secrets(text);
        if self.keeps_names {
            return text;
        }
        let mut spans = Vec::new();
        self.known_names(&text, &mut spans);
        self.addresses(&text, &mut spans);
        self.names_in_context(&text, &mut spans);
        replaced(text, spans)
    }

    /// Cleans a text as [`Self::clean`] does, with a cache for texts that may recur.
    pub(super) fn clean_again(&mut self, text: &str) -> String {
        if let Some(clean) = self.cleaned.get(text) {
            return clean.clone();
        }
        let clean = self.clean(text).into_owned();
        if text.len() <= MAX_SHORT && self.cleaned.len() < MAX_CLEANED {
            self.cleaned.insert(text.to_owned(), clean.clone());
        }
        clean
    }

    /// Removes secrets. Unlike [`cvc_core::log::redact`], keeps JSON and TOML valid.
    fn without_secrets<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut spans = Vec::new();
        let withheld = |range: Range<usize>| (range, WITHHELD.to_owned());
        for secret in self.names.secrets() {
            let found = text.match_indices(secret);
            spans.extend(found.map(|(at, secret)| withheld(at..at + secret.len())));
        }
        for pattern in [&PRIVATE_KEY, &TOKEN] {
            spans.extend(matches(pattern, text).filter_map(|m| Some(withheld(m.get(0)?.range()))));
        }
        for pattern in [&URL_PASSWORD, &OPTION, &AUTHORIZATION, &BEARER] {
            spans.extend(matches(pattern, text).filter_map(|m| Some(withheld(m.get(1)?.range()))));
        }
        for (name, value) in pairs(text) {
            if is_secret(name.as_str()) {
                spans.push(withheld(inside_quotes(value.as_str(), value.start())));
            }
        }
        replaced(Cow::Borrowed(text), spans)
    }

    fn known_names(&mut self, text: &str, spans: &mut Vec<(Range<usize>, String)>) {
        for found in self
            .known
            .iter()
            .flat_map(|k| k.find_overlapping_iter(text))
        {
            if is_whole(text, &found.range())
                && let Some(word) = self.words.get(found.pattern().as_usize())
            {
                spans.push((found.range(), word.clone()));
            }
        }
        let like: Vec<Range<usize>> = self
            .like_hosts
            .iter()
            .flat_map(|like| like.find_iter(text))
            .map(|found| found.range())
            .collect();
        for range in like {
            let word = self.names.word(NameKind::Host, &text[range.clone()]);
            spans.push((range, word));
        }
        for list in matches(&NODE_LIST, text) {
            let Some(list) = list.get(0) else { continue };
            let Ok(nodes) = nodelist::expand(list.as_str()) else {
                continue;
            };
            if nodes.iter().any(|node| self.names.has_host(node)) {
                let words: Vec<String> = nodes
                    .iter()
                    .map(|node| self.names.word(NameKind::Host, node))
                    .collect();
                spans.push((list.range(), nodelist::compress(&words)));
            }
        }
    }

    fn addresses(&mut self, text: &str, spans: &mut Vec<(Range<usize>, String)>) {
        for (pattern, kind) in [
            (&IPV4, NameKind::Address),
            (&IPV4_DASHED, NameKind::Host),
            (&IPV6, NameKind::Address),
            (&MAC, NameKind::Card),
            (&CLOUD_ID, NameKind::CloudId),
        ] {
            for found in matches(pattern, text) {
                let Some(found) = found.get(0) else { continue };
                let is_one = match kind {
                    NameKind::Address => is_address(text, &found.range()),
                    _ => true,
                };
                if is_one {
                    let word = self.names.word(kind, found.as_str());
                    spans.push((found.range(), word));
                }
            }
        }
        for pattern in [&ARN_ACCOUNT, &QUOTED_ACCOUNT] {
            for found in matches(pattern, text) {
                if let Some(account) = found.get(1) {
                    let word = self.names.word(NameKind::Account, account.as_str());
                    spans.push((account.range(), word));
                }
            }
        }
    }

    /// Adds the ranges of names at places where nothing but a name can occur: the user in the path of a home directory, user and host in `user@host`.
    /// There, names are replaced even if they are also words of cvc's files.
    fn names_in_context(&mut self, text: &str, spans: &mut Vec<(Range<usize>, String)>) {
        for found in matches(&HOME, text) {
            if let Some(user) = found.get(1).filter(|user| !is_generic(user.as_str())) {
                spans.push((user.range(), self.names.word(NameKind::User, user.as_str())));
            }
        }
        for found in matches(&USER_AT_HOST, text) {
            for (at, kind) in [(1, NameKind::User), (2, NameKind::Host)] {
                if let Some(name) = found.get(at)
                    && self.names.is_in_context(kind, name.as_str())
                {
                    spans.push((name.range(), self.names.word(kind, name.as_str())));
                }
            }
        }
    }
}

/// Returns the range of a value without its quotes.
fn inside_quotes(value: &str, start: usize) -> Range<usize> {
    for quote in ["\"\"\"", "'''", "\\\"", "\"", "'"] {
        let inner = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            let from = start + quote.len();
            return from..from + inner.len();
        }
    }
    start..start + value.len()
}

/// Returns whether a match is a whole word. In JSON, `\nada` is a line feed followed by the name `ada`.
fn is_whole(text: &str, range: &Range<usize>) -> bool {
    let is_part = |c: char| c.is_alphanumeric();
    let mut before = text[..range.start].chars().rev();
    let begins = match (before.next(), before.next()) {
        (Some('n' | 't' | 'r' | 'b' | 'f'), Some('\\')) => true,
        (Some(c), _) => !is_part(c),
        (None, _) => true,
    };
    begins && !text[range.end..].chars().next().is_some_and(is_part)
}

/// Returns whether the text is a complete IP address and not one that identifies no machine, such as a loopback address or a netmask.
fn is_address(text: &str, range: &Range<usize>) -> bool {
    let found = &text[range.clone()];
    if let Ok(address) = found.parse::<Ipv4Addr>() {
        let after = &text.as_bytes()[range.end..];
        let goes_on = after.first() == Some(&b'.') && after.get(1).is_some_and(u8::is_ascii_digit);
        return !goes_on
            && !text[..range.start].ends_with('.')
            && !address.is_loopback()
            && !address.is_unspecified()
            && address.octets()[0] != 255;
    }
    found
        .parse::<Ipv6Addr>()
        .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
        && !text[..range.start].ends_with(|c: char| c.is_alphanumeric() || c == ':')
        && !text[range.end..].starts_with(|c: char| c.is_alphanumeric() || c == ':')
}

/// Replaces the text at these ranges. Of overlapping ranges, the one that begins first is replaced; if several do, the longest.
fn replaced(text: Cow<'_, str>, mut spans: Vec<(Range<usize>, String)>) -> Cow<'_, str> {
    if spans.is_empty() {
        return text;
    }
    spans.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, word) in spans {
        if range.start < at {
            continue;
        }
        out.push_str(&text[at..range.start]);
        out.push_str(&word);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::names::NameFinder;

    fn scrubber(texts: &[&str]) -> Scrubber {
        let mut finder = NameFinder::default();
        for text in texts {
            finder.json(&serde_json::from_str(text).expect("JSON"));
        }
        Scrubber::new(finder.found(), false)
    }

    #[test]
    fn a_host_has_the_same_word_everywhere_and_words_that_contain_it_stay() {
        let mut s = scrubber(&[r#"{"hosts": ["gros-7.nancy.uni.edu"], "user": "ada"}"#]);
        assert_eq!(
            s.clean(
                r"on gros-7, GROS-7.nancy.uni.edu:22 x.nancy.uni.edu \nada adapts /scratch/ada_1"
            ),
            r"on host-1, host-1:22 x.domain-1 \nuser-1 adapts /scratch/user-1_1"
        );
    }

    #[test]
    fn lists_of_nodes_and_hosts_with_other_numbers_are_replaced() {
        let mut s = scrubber(&[r#"{"nodes": {"set": 1, "names": "gros[1-3]"}}"#]);
        assert_eq!(
            s.clean("gros[1-3] gros2 gros17"),
            "host-[1-3] host-2 host-4"
        );
    }

    #[test]
    fn addresses_are_replaced_and_versions_times_and_loopback_stay() {
        let mut s = scrubber(&[]);
        assert_eq!(
            s.clean("10.1.2.3 v4.1.2.3 4.1.4 127.0.0.1 fe80::1:2 ::1 12:30:45 aa:bb:cc:dd:ee:ff 10.1.2.3 i-0123456789abcdef0"),
            "ip-1 v4.1.2.3 4.1.4 127.0.0.1 ip-2 ::1 12:30:45 mac-1 ip-1 cloud-id-1"
        );
    }

    #[test]
    fn secrets_are_withheld_however_they_are_written() {
        let mut s = scrubber(&[]);
        for (text, clean) in [
            ("API_TOKEN=abc def", "API_TOKEN=withheld def"),
            (
                r#"db_password = "a\"b" # x"#,
                r#"db_password = "withheld" # x"#,
            ),
            (
                r#"{"AWS_SECRET":"abc","x":1}"#,
                r#"{"AWS_SECRET":"withheld","x":1}"#,
            ),
            (
                r#""{\"MY_KEY\":\"abc\",\"x\":1}""#,
                r#""{\"MY_KEY\":\"withheld\",\"x\":1}""#,
            ),
            ("https://ada:pw12@h/x", "https://ada:withheld@h/x"),
            ("ssh --password abc n1", "ssh --password withheld n1"),
            (
                "curl -H 'X-Auth-Token: abc'",
                "curl -H 'X-Auth-Token: withheld'",
            ),
            (r"TOKEN='\''a/b;c'\'' true", "TOKEN='withheld' true"),
            (
                r#"{"authorization":"Basic abc"}"#,
                r#"{"authorization":"withheld"}"#,
            ),
            ("AKIAABCDEFGHIJKLMNOP", "withheld"),
            ("error: token=abc12, done", "error: token=withheld, done"),
            (
                "detail = \"exit code: 3 password: x1\"",
                "detail = \"exit code: 3 password: withheld\"",
            ),
            (
                "sent Bearer longsecret7 there",
                "sent Bearer withheld there",
            ),
            ("| password | x1 |", "| password | withheld |"),
            (
                "hf_abcdefgh12 glpat-abcdefgh12 xoxb-12-abcdef",
                "withheld withheld withheld",
            ),
            ("eyJhbGciOiJ9.eyJzdWIi.c2ln", "withheld"),
            ("key = \"ckpt\"", "key = \"ckpt\""),
        ] {
            assert_eq!(s.without_secrets(text), clean);
        }
        let text = "-----BEGIN RSA PRIVATE KEY-----\nabc";
        assert_eq!(s.clean(text), "withheld");
    }

    #[test]
    fn a_secret_is_withheld_elsewhere_too_and_a_region_is_not() {
        let mut s =
            scrubber(&[r#"{"env": {"DB_PASSWORD": "hunter2hunter2", "AWS_REGION": "us-east-1"}}"#]);
        assert_eq!(
            s.clean("hunter2hunter2 in us-east-1, AWS_REGION=us-east-1"),
            "withheld in us-east-1, AWS_REGION=withheld"
        );
    }

    #[test]
    fn names_have_letters_of_any_script() {
        let mut s = scrubber(&[r#"{"user": "josé"}"#]);
        assert_eq!(
            s.clean("/home/josé/x JOSÉ, josé@maschine-ü josés"),
            "/home/user-1/x user-1, user-1@maschine-ü josés"
        );
    }

    #[test]
    fn names_that_are_words_of_the_formats_are_replaced_where_only_a_name_can_be_meant() {
        let mut s = scrubber(&[r#"{"user": "run", "host": "max"}"#]);
        assert_eq!(
            s.clean(r#"{"run":"max_usd","at":"run@max:/home/run"}"#),
            r#"{"run":"max_usd","at":"user-1@host-1:/home/user-1"}"#
        );
    }
}
