//! Command lines for a remote shell, and the meaning of its programs' messages about files.

use cvc_engine::render::shell_quote;
use std::{collections::BTreeMap, io::ErrorKind, time::Duration};

/// Message that the remote side, and only it, prints for a missing program.
pub(super) const NO_PROGRAM: &str = "cvc: no such program";
/// Time between TERM and KILL for a remote program.
const KILL_AFTER_S: u64 = 2;

/// The command line that runs a program in the login's environment and these variables, and ends it when the time is up.
pub(super) fn program(argv: &[String], env: &BTreeMap<String, String>, limit: Option<Duration>) -> String {
    let words: Vec<String> = argv.iter().map(|a| shell_quote(a)).collect();
    let mut script = format!("set -- {}; ", words.join(" "));
    // before PATH changes; without timeout(1), only this side limits the time
    if let Some(limit) = limit {
        let limit_s = limit.as_secs_f64().ceil().max(1.0);
        script += &format!("t=$(command -v timeout) && t=\"$t -k {KILL_AFTER_S} {limit_s}\"; ");
    }
    for (name, value) in env {
        script += &format!("export {name}={}; ", shell_quote(value));
    }
    script += &format!("command -v \"$1\" >/dev/null 2>&1 || {{ echo '{NO_PROGRAM}' >&2; exit 127; }}; ");
    script += if limit.is_some() { "exec $t \"$@\"" } else { "exec \"$@\"" };
    shell(&script)
}

/// The command line that runs a script in the POSIX shell, whatever the login shell is.
pub(super) fn shell(script: &str) -> String {
    format!("exec sh -c {}", shell_quote(script))
}

/// A script that stores a file of a given size from standard input atomically, and synced where that is possible for one file.
pub(super) fn take(to: &str, bytes: u64, mode: Option<u32>) -> String {
    let mode = mode.map(|m| format!("chmod {:o} \"$t\" && ", m & 0o7777)).unwrap_or_default();
    shell(&format!(
        "f={}; d=$(dirname \"$f\") && t=$(mktemp \"$d/.cvc-XXXXXXXX\") || exit 1; trap 'rm -f \"$t\"' EXIT; trap 'exit 1' HUP INT TERM PIPE; \
         cat >\"$t\" || exit 1; n=$(wc -c <\"$t\"); [ \"$n\" -eq {bytes} ] || {{ echo \"got $n bytes of {bytes}\" >&2; exit 1; }}; \
         {}{mode}{{ sync \"$t\" 2>/dev/null || :; }} && mv -f \"$t\" \"$f\"",
        shell_quote(to),
        if mode.is_empty() { "chmod $(printf %o $((0666 & ~0$(umask)))) \"$t\" && " } else { "" },
    ))
}

/// The kind of an error that a program reported in English.
pub(super) fn kind(message: &str) -> ErrorKind {
    const KINDS: [(&str, ErrorKind); 6] = [
        ("No such file", ErrorKind::NotFound),
        ("Permission denied", ErrorKind::PermissionDenied),
        ("No space left", ErrorKind::StorageFull),
        ("Read-only file system", ErrorKind::ReadOnlyFilesystem),
        ("Not a directory", ErrorKind::NotADirectory),
        ("Is a directory", ErrorKind::IsADirectory),
    ];
    KINDS.iter().find(|(phrase, _)| message.contains(phrase)).map_or(ErrorKind::Other, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn run(line: &str, input: &[u8]) -> std::process::Output {
        use std::io::Write;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        child.stdin.take().expect("input").write_all(input).expect("writes");
        child.wait_with_output().expect("ends")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// What a login shell does with the line must leave every argument and variable as it was.
        #[test]
        fn arguments_arrive_as_they_were(args in proptest::collection::vec("[^\0]{0,12}", 0..4), value in "[^\0]{0,12}") {
            let mut argv = vec!["printf".to_owned(), "%s\\0".to_owned()];
            argv.extend(args.iter().cloned());
            let env = BTreeMap::from([("CVC_X".to_owned(), value.clone())]);
            let out = run(&program(&argv, &env, Some(Duration::from_secs(5))), b"");
            let expected: String = if args.is_empty() { "\0".into() } else { args.iter().map(|a| format!("{a}\0")).collect() };
            prop_assert_eq!(String::from_utf8_lossy(&out.stdout), expected);
            let shown = run(&program(&["printenv".into(), "CVC_X".into()], &env, None), b"");
            prop_assert_eq!(String::from_utf8_lossy(&shown.stdout), format!("{value}\n"));
        }
    }

    #[test]
    fn a_file_is_taken_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("odd 'name'\n;");
        let to = path.to_str().expect("text");
        assert!(run(&take(to, 5, Some(0o750)), b"whole").status.success());
        assert_eq!(std::fs::read(&path).expect("a file"), b"whole");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o7777, 0o750);
        let torn = run(&take(to, 9, None), b"torn");
        assert!(!torn.status.success() && String::from_utf8_lossy(&torn.stderr).contains("got 4 bytes of 9"), "{torn:?}");
        assert_eq!(std::fs::read(&path).expect("a file"), b"whole");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing is left beside it");
        let nowhere = run(&take("/nonexistent/x", 1, None), b"x");
        assert_eq!(kind(&String::from_utf8_lossy(&nowhere.stderr)), ErrorKind::NotFound);
    }

    #[test]
    fn a_missing_program_is_distinguished_from_a_failing_one() {
        let of = |argv: &[&str]| run(&program(&argv.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(), &BTreeMap::new(), None), b"");
        let missing = of(&["no-such-program-anywhere"]);
        assert!(missing.status.code() == Some(127) && String::from_utf8_lossy(&missing.stderr).contains(NO_PROGRAM), "{missing:?}");
        let inner = of(&["sh", "-c", "exit 127"]);
        assert!(inner.status.code() == Some(127) && inner.stderr.is_empty(), "{inner:?}");
    }
}
