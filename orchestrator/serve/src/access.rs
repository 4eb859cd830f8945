//! Access control: only browsers on this machine that have the token, and only if they use the machine's own name, so that pages of other sites
//! cannot read the campaign through the browser.

use std::{fmt, fs::File, io::Read};

/// A secret of 128 bits; each server has a new one.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token from the system's random numbers.
    ///
    /// # Errors
    /// The system returns no random numbers.
    pub fn new() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// Returns the token as text, for the address of the page.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares a text with the token in constant time.
    fn is(&self, text: &str) -> bool {
        let differs = self
            .0
            .bytes()
            .zip(text.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        text.len() == self.0.len() && differs == 0
    }

    /// Returns the header with which a browser stores the token as a cookie for a path. Browsers send cookies to all ports of a machine. Therefore
    /// the cookie's name contains the port. The path, which only this server's readers know, keeps the token from servers of other users on this
    /// machine.
    pub(crate) fn cookie(&self, port: u16, path: &str) -> String {
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path={path}",
            cookie_name(port),
            self.0
        )
    }

    /// Returns whether a `Cookie` header contains the token.
    pub(crate) fn is_in_cookies(&self, header: &str, port: u16) -> bool {
        header
            .split(';')
            .filter_map(|part| part.trim().split_once('='))
            .any(|(name, value)| name == cookie_name(port) && self.is(value))
    }

    /// Returns whether the query of an address contains the token: `token=…`.
    pub(crate) fn is_in_query(&self, query: &str) -> bool {
        query
            .split('&')
            .filter_map(|part| part.split_once('='))
            .any(|(name, value)| name == "token" && self.is(value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn cookie_name(port: u16) -> String {
    format!("cvc-{port}")
}

/// Returns whether a `Host` header names this server. Another name may come from a site that tries to read through the user's browser.
pub(crate) fn is_own_host(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|name| host == format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::new().expect("random numbers");
        let text = token.text().to_owned();
        assert_eq!(text.len(), 32);
        assert!(token.is_in_cookies(&format!("a=b; cvc-80={text}"), 80));
        assert!(!token.is_in_cookies(&format!("cvc-81={text}"), 80));
        assert!(token.is_in_query(&format!("x=1&token={text}")));
        for wrong in [
            &text[1..],
            "",
            &text.replace(&text[..1], "g"),
            &format!("{text}0"),
        ] {
            assert!(
                !token.is_in_cookies(&format!("cvc-80={wrong}"), 80),
                "{wrong}"
            );
            assert!(!token.is_in_query(&format!("token={wrong}")), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(&text));
        assert_ne!(text, Token::new().expect("random numbers").text());
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        assert!(is_own_host("127.0.0.1:80", 80) && is_own_host("localhost:80", 80));
        for host in [
            "evil.example:80",
            "127.0.0.1:81",
            "127.0.0.1",
            "localhost.evil.example:80",
            "",
        ] {
            assert!(!is_own_host(host, 80), "{host}");
        }
    }
}
