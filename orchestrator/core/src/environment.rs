//! Environment variables that other programs must not get.

use std::ffi::OsString;

/// What names of variables with secrets contain.
const PARTS: [&str; 7] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "ACCESS_KEY",
    "API_KEY",
    "JWT",
];

/// Whether a variable of this name may hold a secret.
pub fn may_hold_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // whole words: `MONKEY` is none, and `ANSIBLE_HOST_KEY_CHECKING` and `SSH_KEY_FILE` say no key
    let is_key = name == "KEY" || name.ends_with("_KEY");
    name.starts_with("AWS_") || is_key || PARTS.iter().any(|part| name.contains(part))
}

/// Names of the variables of this process that programs must not get which it starts: those that may hold a secret. Files are left, as in
/// `ANSIBLE_VAULT_PASSWORD_FILE`: who may read one can do so anyway; but of a cloud nothing is.
pub fn secret_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| is_kept_back(&name.to_string_lossy()))
}

fn is_kept_back(name: &str) -> bool {
    may_hold_secret(name) && (name.starts_with("AWS_") || !name.ends_with("_FILE"))
}

#[cfg(test)]
mod tests {
    use super::is_kept_back;

    #[test]
    fn names_tell_which_variables_hold_secrets() {
        let secret = [
            "AWS_PROFILE",
            "AWS_CONFIG_FILE",
            "GITHUB_TOKEN",
            "db_password",
            "DEPLOY_KEY",
            "X_SECRET_1",
            "API_KEY_2",
        ];
        let open = [
            "PATH",
            "MONKEY",
            "ANSIBLE_HOST_KEY_CHECKING",
            "ANSIBLE_VAULT_PASSWORD_FILE",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
        ];
        assert!(secret.iter().all(|name| is_kept_back(name)));
        assert!(!open.iter().any(|name| is_kept_back(name)));
    }
}
