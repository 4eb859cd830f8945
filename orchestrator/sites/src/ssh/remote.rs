//! Command lines for a remote shell, and the interpretation of exit codes and of programs' messages about files.
//!
//! All commands run in the C locale: their messages are parsed here, and the machine may be set to another language.

use cvc_engine::render::shell_quote;
use std::{collections::BTreeMap, io::ErrorKind, time::Duration};

/// Message that only a script on the remote machine prints, for a missing program.
pub(super) const NO_PROGRAM: &str = "cvc: no such program";
/// Exit codes of cvc's own scripts; the programs that they call do not use these codes.
const CODES: [(i32, ErrorKind); 7] = [
    (NOT_FOUND, ErrorKind::NotFound),
    (DENIED, ErrorKind::PermissionDenied),
    (FULL, ErrorKind::StorageFull),
    (READ_ONLY, ErrorKind::ReadOnlyFilesystem),
    (NOT_A_DIRECTORY, ErrorKind::NotADirectory),
    (IS_A_DIRECTORY, ErrorKind::IsADirectory),
    (UNEXPLAINED, ErrorKind::Other),
];
const NOT_FOUND: i32 = 81;
const DENIED: i32 = 82;
const FULL: i32 = 83;
const READ_ONLY: i32 = 84;
const NOT_A_DIRECTORY: i32 = 85;
const IS_A_DIRECTORY: i32 = 86;
const UNEXPLAINED: i32 = 87;
/// Time between TERM and KILL for a remote program.
const KILL_AFTER_S: u64 = 2;

/// Returns the command line that runs a program in the environment of the login and with these variables, and ends it at the time limit.
pub(super) fn program(
    argv: &[String],
    env: &BTreeMap<String, String>,
    limit: Option<Duration>,
) -> String {
    let words: Vec<String> = argv.iter().map(|a| shell_quote(a)).collect();
    let mut script = format!("set -- {}; ", words.join(" "));
    // find timeout(1) before PATH changes; without it, only this side limits the time
    if let Some(limit) = limit {
        let limit_s = limit.as_secs_f64().ceil().max(1.0);
        script += &format!("t=$(command -v timeout) && t=\"$t -k {KILL_AFTER_S} {limit_s}\"; ");
    }
    for (name, value) in env {
        script += &format!("export {name}={}; ", shell_quote(value));
    }
    script +=
        &format!("command -v \"$1\" >/dev/null 2>&1 || {{ echo '{NO_PROGRAM}' >&2; exit 127; }}; ");
    script += if limit.is_some() {
        "exec $t \"$@\""
    } else {
        "exec \"$@\""
    };
    shell(&script)
}

/// Returns the command line that runs a script in the POSIX shell and the C locale, whatever the login shell is.
pub(super) fn shell(script: &str) -> String {
    format!("exec env LC_ALL=C sh -c {}", shell_quote(script))
}

/// Defines the shell function `why PATH`, which exits with the code for the reason why a path cannot be read. A file counts as missing only if its
/// directory can be listed and does not contain it, because a file system that fails for a moment also shows no files.
fn why() -> String {
    format!(
        "why() {{ p=$1; [ -d \"$p\" ] && exit {IS_A_DIRECTORY}; [ -e \"$p\" ] && {{ [ -r \"$p\" ] && exit {UNEXPLAINED}; exit {DENIED}; }}; \
         d=$(dirname \"$p\"); while [ ! -e \"$d\" ] && [ \"$d\" != \"$p\" ]; do p=$d; d=$(dirname \"$p\"); done; \
         [ -d \"$d\" ] || exit {NOT_A_DIRECTORY}; [ -x \"$d\" ] || exit {DENIED}; [ -h \"$p\" ] && exit {NOT_FOUND}; \
         for e in \"$d\"/* \"$d\"/.*; do [ \"${{e##*/}}\" = \"${{p##*/}}\" ] && exit {UNEXPLAINED}; done; exit {NOT_FOUND}; }}; "
    )
}

/// Returns a script that writes a file to standard output.
pub(super) fn give(from: &str) -> String {
    shell(&format!(
        "{}f={}; cat <\"$f\" && exit 0; why \"$f\"",
        why(),
        shell_quote(from)
    ))
}

/// Returns a script that writes a directory to standard output as an archive, without the files that match the patterns.
pub(super) fn give_tree(from: &str, exclude: &[&str]) -> String {
    let exclude: String = exclude
        .iter()
        .map(|pattern| format!(" {}", shell_quote(&format!("--exclude=./{pattern}"))))
        .collect();
    let missing =
        format!("[ -d \"$d\" ] || {{ [ -e \"$d\" ] && exit {NOT_A_DIRECTORY}; why \"$d\"; }}");
    shell(&format!(
        "{}d={}; {missing}; exec tar -C \"$d\"{exclude} -cf - .",
        why(),
        shell_quote(from)
    ))
}

/// Returns a script that stores `bytes` bytes of standard input in a file atomically, synced if the machine can sync a single file.
pub(super) fn take(to: &str, bytes: u64, mode: Option<u32>) -> String {
    let mode = mode
        .map(|m| format!("chmod {:o} \"$t\" && ", m & 0o7777))
        .unwrap_or_default();
    // the shell cannot test these two conditions: compare the program's message, which is English in the C locale, and print it too
    let report = format!(
        "report() {{ printf '%s\\n' \"$1\" >&2; case $1 in *'No space left'*|*'quota exceeded'*) exit {FULL};; *'Read-only file system'*) exit {READ_ONLY};; esac; }}; "
    );
    let directory = format!(
        "[ -d \"$d\" ] || {{ [ -e \"$d\" ] && exit {NOT_A_DIRECTORY}; why \"$f\"; }}; [ -w \"$d\" ] || exit {DENIED}; exit 1"
    );
    shell(&format!(
        "{}{report}f={}; d=$(dirname \"$f\"); t=; t=$(mktemp \"$d/.cvc-XXXXXXXX\" 2>&1) || {{ report \"$t\"; {directory}; }}; \
         trap 'rm -f \"$t\"' EXIT; trap 'exit 1' HUP INT TERM PIPE; \
         m=$({{ cat >\"$t\"; }} 2>&1) || {{ report \"$m\"; exit 1; }}; n=$(wc -c <\"$t\"); \
         [ \"$n\" -eq {bytes} ] || {{ echo \"got $n bytes of {bytes}\" >&2; exit 1; }}; \
         {}{mode}{{ sync \"$t\" 2>/dev/null || :; }} && m=$(mv -f \"$t\" \"$f\" 2>&1) || {{ report \"$m\"; exit 1; }}",
        why(),
        shell_quote(to),
        if mode.is_empty() {
            "chmod $(printf %o $((0666 & ~0$(umask)))) \"$t\" && "
        } else {
            ""
        },
    ))
}

/// Returns the kind of an error from the exit code of a cvc script, or else from the program's message, which is English in the C locale.
pub(super) fn kind(code: Option<i32>, message: &str) -> ErrorKind {
    const KINDS: [(&str, ErrorKind); 7] = [
        ("No such file", ErrorKind::NotFound),
        ("Permission denied", ErrorKind::PermissionDenied),
        ("No space left", ErrorKind::StorageFull),
        ("quota exceeded", ErrorKind::StorageFull),
        ("Read-only file system", ErrorKind::ReadOnlyFilesystem),
        ("Not a directory", ErrorKind::NotADirectory),
        ("Is a directory", ErrorKind::IsADirectory),
    ];
    if let Some((_, kind)) = CODES.iter().find(|(own, _)| code == Some(*own)) {
        return *kind;
    }
    KINDS
        .iter()
        .find(|(phrase, _)| message.contains(phrase))
        .map_or(ErrorKind::Other, |(_, kind)| *kind)
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
        // a command line that fails does not read its input
        let _ = child.stdin.take().expect("input").write_all(input);
        child.wait_with_output().expect("ends")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// The login shell passes every argument and variable of the line on unchanged.
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
        assert_eq!(
            path.metadata().expect("a file").permissions().mode() & 0o7777,
            0o750
        );
        let torn = run(&take(to, 9, None), b"torn");
        assert!(
            !torn.status.success()
                && String::from_utf8_lossy(&torn.stderr).contains("got 4 bytes of 9"),
            "{torn:?}"
        );
        assert_eq!(std::fs::read(&path).expect("a file"), b"whole");
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "nothing is left beside it"
        );
        let nowhere = run(&take("/nonexistent/x", 1, None), b"x");
        assert_eq!(kind(nowhere.status.code(), ""), ErrorKind::NotFound);
    }

    /// Returns a directory of programs that print their messages about files in Portuguese.
    fn in_portuguese(line: &str, input: &[u8]) -> std::process::Output {
        // this machine needs no Portuguese locale: these programs ignore the locale
        const SAYS: [(&str, &str); 3] = [
            ("cat", "Arquivo ou diretório inexistente"),
            ("mktemp", "Permissão negada"),
            ("tar", "Não existe"),
        ];
        let dir = tempfile::tempdir().expect("a directory");
        for (name, says) in SAYS {
            use std::os::unix::fs::PermissionsExt;
            let program = dir.path().join(name);
            let text = format!(
                "#!/bin/sh\n/bin/{name} \"$@\" 2>/dev/null && exit 0\necho '{name}: {says}' >&2\nexit 1\n"
            );
            std::fs::write(&program, text).expect("writes");
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
                .expect("changes");
        }
        run(
            &format!("PATH={}:$PATH; export PATH; {line}", dir.path().display()),
            input,
        )
    }

    #[test]
    fn problems_with_files_are_detected_in_any_locale() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
        let (file, odd) = (at("file"), at("odd '*' [x]"));
        std::fs::write(&file, "content").expect("writes");
        std::fs::write(&odd, "odd").expect("writes");
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).expect("a link");
        let of = |line: &str| in_portuguese(line, b"x").status.code();
        assert_eq!(in_portuguese(&give(&file), b"").stdout, b"content");
        assert_eq!(in_portuguese(&give(&odd), b"").stdout, b"odd");
        for missing in [
            at("missing"),
            at("no/such/directory"),
            at("dangling"),
            "/missing".to_owned(),
            at("odd '*' [y]"),
        ] {
            assert_eq!(
                kind(of(&give(&missing)), "Arquivo ou diretório inexistente"),
                ErrorKind::NotFound,
                "{missing}"
            );
        }
        assert_eq!(of(&give(&at(""))), Some(IS_A_DIRECTORY));
        assert_eq!(of(&give(&at("file/x"))), Some(NOT_A_DIRECTORY));
        assert_eq!(
            of(&take(&at("no/such/directory"), 1, None)),
            Some(NOT_FOUND)
        );
        assert_eq!(of(&take(&at("file/x"), 1, None)), Some(NOT_A_DIRECTORY));
        assert_eq!(of(&take(&at("new"), 1, None)), Some(0));
        assert_eq!(of(&give_tree(&at("missing"), &[])), Some(NOT_FOUND));
        assert_eq!(of(&give_tree(&file, &[])), Some(NOT_A_DIRECTORY));
        assert_eq!(of(&give_tree(&at(""), &["odd*"])), Some(0));
        if !nix::unistd::geteuid().is_root() {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o0)).expect("changes");
            assert_eq!(of(&give(&file)), Some(DENIED));
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500))
                .expect("changes");
            assert_eq!(of(&take(&at("more"), 1, None)), Some(DENIED));
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700))
                .expect("changes");
        }
    }

    #[test]
    fn a_full_disk_is_distinguished_from_other_failures() {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("file");
        // the script's temporary file is the device that is always full
        let full = dir.path().join("mktemp");
        std::fs::write(&full, "#!/bin/sh\nln -s /dev/full \"$(dirname \"$0\")/link\" && echo \"$(dirname \"$0\")/link\"\n")
            .expect("writes");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(0o755)).expect("changes");
        let line = take(to.to_str().expect("text"), 1, None);
        let out = run(
            &format!(
                "PATH={}:$PATH; export PATH; LANGUAGE=pt_BR LANG=C.UTF-8; export LANGUAGE LANG; {line}",
                dir.path().display()
            ),
            b"x",
        );
        assert_eq!(out.status.code(), Some(FULL), "{out:?}");
        assert_eq!(kind(Some(FULL), "anything"), ErrorKind::StorageFull);
        assert!(
            String::from_utf8_lossy(&out.stderr).contains("No space left"),
            "{out:?}"
        );
    }

    #[test]
    fn programs_run_in_the_c_locale_in_any_environment() {
        let line = program(
            &["printenv".into(), "LC_ALL".into()],
            &BTreeMap::new(),
            None,
        );
        assert_eq!(
            run(
                &format!("LC_ALL=pt_BR.UTF-8; LANGUAGE=pt_BR; export LC_ALL LANGUAGE; {line}"),
                b""
            )
            .stdout,
            b"C\n"
        );
        let other = program(
            &["printenv".into(), "LC_ALL".into()],
            &BTreeMap::from([("LC_ALL".into(), "C.UTF-8".into())]),
            None,
        );
        assert_eq!(run(&other, b"").stdout, b"C.UTF-8\n");
    }

    #[test]
    fn a_missing_program_is_distinguished_from_a_failing_one() {
        let of = |argv: &[&str]| {
            run(
                &program(
                    &argv.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(),
                    &BTreeMap::new(),
                    None,
                ),
                b"",
            )
        };
        let missing = of(&["no-such-program-anywhere"]);
        assert!(
            missing.status.code() == Some(127)
                && String::from_utf8_lossy(&missing.stderr).contains(NO_PROGRAM),
            "{missing:?}"
        );
        let inner = of(&["sh", "-c", "exit 127"]);
        assert!(
            inner.status.code() == Some(127) && inner.stderr.is_empty(),
            "{inner:?}"
        );
    }
}
