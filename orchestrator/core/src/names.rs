//! Decides which names may become parts of commands. Names with a special meaning for a shell, ssh or a mount are refused when they are read.

/// Returns whether ssh can interpret a text only as a host name, an address or a login name, not as an option or a command for a shell.
pub fn is_host_or_login(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
}

/// Returns whether a shell can export a variable of this name.
fn is_variable(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the problem with an environment variable that scripts would export, and a hint; `None` if it is valid.
pub fn wrong_variable(name: &str, value: &str) -> Option<(String, &'static str)> {
    let hint = "write a name of letters, digits and `_` that does not begin with a digit, and a value without a zero byte";
    (!is_variable(name) || value.contains('\0'))
        .then(|| (format!("`{name}` cannot be an environment variable"), hint))
}

/// System directories, which a disk mounted there would hide.
const OF_SYSTEM: [&str; 13] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin",
    "sys",
];

/// Directories over which no disk may be mounted; mounting below them is allowed.
const KEPT: [&str; 5] = ["home", "opt", "tmp", "usr", "var"];

/// Returns whether a disk can be mounted at a path: an absolute path with plain names, outside of system directories.
pub fn is_mount_point(path: &str) -> bool {
    let Some(names) = path.strip_prefix('/') else {
        return false;
    };
    let names = names.strip_suffix('/').unwrap_or(names);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_plain =
        |name: &str| !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(fits);
    let mut parts = names.split('/');
    let first = parts.next().unwrap_or_default();
    let second = parts.next();
    let hides = OF_SYSTEM.contains(&first)
        || second.is_none() && KEPT.contains(&first)
        || matches!(
            (first, second),
            ("usr", Some(_)) | ("var", Some("lib" | "run" | "log"))
        );
    names.split('/').all(is_plain) && !hides
}

#[cfg(test)]
mod tests {
    use super::{is_host_or_login, is_mount_point, is_variable};

    #[test]
    fn names_that_a_shell_or_ssh_takes_for_something_else_are_refused() {
        assert!(
            ["n1", "n1.example.org", "10.0.0.1", "fe80::1", "a_b-c"]
                .iter()
                .all(|name| is_host_or_login(name))
        );
        assert!(
            ![
                "",
                "-oProxyCommand=sh",
                "x;touch y",
                "a b",
                "a\nb",
                "$(id)",
                "'",
                "\"",
                "é"
            ]
            .iter()
            .any(|name| is_host_or_login(name))
        );
        assert!(
            ["A", "_x9", "OMP_NUM_THREADS"]
                .iter()
                .all(|name| is_variable(name))
        );
        assert!(
            !["", "9A", "X; touch y", "A-B", "A.B", "A=B", "Ä", "A\nB"]
                .iter()
                .any(|name| is_variable(name))
        );
    }

    #[test]
    fn disks_are_mounted_where_they_hide_nothing() {
        assert!(
            [
                "/scratch",
                "/mnt/nvme-1",
                "/data_2",
                "/home/data",
                "/var/scratch",
                "/opt/x",
                "/more/data/"
            ]
            .iter()
            .all(|path| is_mount_point(path))
        );
        let refused = [
            "/",
            "",
            "scratch",
            "/etc",
            "/etc/x",
            "/a/../etc",
            "/a/./b",
            "/a//b",
            "/a;\"$(id)\"",
            "/a b",
            "/usr/local",
            "/home",
            "/a\n",
        ];
        assert!(!refused.iter().any(|path| is_mount_point(path)));
    }
}
