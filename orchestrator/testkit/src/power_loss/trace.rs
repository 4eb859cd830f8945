//! Parses strace's output about a program's file operations.

use std::{
    collections::HashMap,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// System calls that change or sync files. The list includes calls that this module cannot replay, so that it notices them.
const CALLS: &str = "?open,openat,?creat,?mkdir,mkdirat,?rmdir,?unlink,unlinkat,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,\
                     ?mknod,mknodat,write,pwrite64,writev,?pwritev,?pwritev2,truncate,ftruncate,fallocate,copy_file_range,sendfile,?chmod,\
                     fchmod,fchmodat,fsync,fdatasync,sync_file_range,syncfs,sync";

/// Returns the arguments with which strace records these calls of a program and all its children in a file.
pub(super) fn arguments(to: &Path) -> Vec<String> {
    // -xx: prints strings completely as hexadecimal bytes, so that they contain no comma or quote
    let fixed = [
        "-f",
        "-qq",
        "-y",
        "-xx",
        "-s",
        "100000000",
        "--seccomp-bpf",
        "-e",
        "signal=none",
    ];
    let mut all: Vec<String> = fixed.map(str::to_owned).into();
    all.extend([
        "-e".into(),
        format!("trace={CALLS}"),
        "-o".into(),
        to.display().to_string(),
    ]);
    all
}

/// A system call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub name: String,
    /// The arguments of the call, followed by its result.
    pub args: Vec<Arg>,
    /// Number of calls that had ended when this call began.
    pub began_after: usize,
}

/// An argument of a call: its text, and its parsed value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arg {
    pub text: String,
    /// Bytes of a string, or the path of a file descriptor; `None` for any other argument.
    pub bytes: Option<Vec<u8>>,
    /// Whether the file of a descriptor was deleted.
    pub is_deleted: bool,
}

impl Arg {
    fn of(text: &str) -> Self {
        let quoted = |open: char, close: &str| -> Option<(Vec<u8>, bool)> {
            let (_, rest) = text.split_once(open)?;
            let (inner, rest) = rest.split_once(close)?;
            assert!(
                !rest.starts_with("..."),
                "strace has shortened a string: {text}"
            );
            Some((unescape(inner)?, rest.contains("(deleted)")))
        };
        let found = if text.starts_with('"') {
            quoted('"', "\"")
        } else {
            quoted('<', ">")
        };
        let (bytes, is_deleted) = found.map_or((None, false), |(bytes, is_deleted)| {
            (Some(bytes), is_deleted)
        });
        Self {
            text: text.to_owned(),
            bytes,
            is_deleted,
        }
    }

    pub fn path(&self) -> PathBuf {
        let bytes = self
            .bytes
            .clone()
            .unwrap_or_else(|| panic!("no path: {}", self.text));
        PathBuf::from(std::ffi::OsString::from_vec(bytes))
    }

    pub fn has(&self, flag: &str) -> bool {
        self.text.split('|').any(|f| f == flag)
    }

    pub fn number(&self) -> u64 {
        self.text
            .parse()
            .unwrap_or_else(|_| panic!("no number: {}", self.text))
    }

    /// Parses a file mode, as in `0100644` or `S_IFIFO|0644`.
    pub fn mode(&self) -> u32 {
        let octal = self.text.rsplit('|').next().unwrap_or_default();
        u32::from_str_radix(octal, 8).unwrap_or_else(|_| panic!("no mode: {}", self.text)) & 0o7777
    }

    /// Returns all bytes of an I/O vector, as in `[{iov_base="\x61", iov_len=1}, ...]`.
    pub fn vector(&self) -> Vec<u8> {
        let bases = self.text.split("iov_base=\"").skip(1);
        bases
            .flat_map(|part| {
                part.split_once('"')
                    .and_then(|(hex, _)| unescape(hex))
                    .unwrap_or_else(|| panic!("no vector: {part}"))
            })
            .collect()
    }
}

/// Decodes `\x61\x62` to bytes; returns `None` for other text.
fn unescape(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.strip_prefix("\\x")?
        .split("\\x")
        .map(|hex| u8::from_str_radix(hex, 16).ok())
        .collect()
}

/// Splits arguments at the commas outside brackets.
fn split(args: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, byte) in args.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(args[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(args[begin..].trim());
    parts
}

/// Parses strace's output. Returns the calls that succeeded, in the order in which they ended.
pub(super) fn read(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    // unfinished call of each process, with the number of calls that had ended when it began
    let mut begun: HashMap<&str, (&str, usize)> = HashMap::new();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, (first.trim_end(), calls.len()));
            continue;
        }
        let (whole, began_after) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, second) = resumed
                    .split_once(" resumed>")
                    .unwrap_or_else(|| panic!("no end of a call: {line}"));
                let (first, after) = begun
                    .remove(pid)
                    .unwrap_or_else(|| panic!("a call that never began: {line}"));
                (format!("{first}{second}"), after)
            }
            None => (rest.to_owned(), calls.len()),
        };
        let Some((name, rest)) = whole.split_once('(') else {
            continue;
        };
        let Some((args, result)) = rest.rsplit_once(" = ") else {
            continue;
        };
        // skip failed calls, which changed nothing, and calls interrupted by a kill, whose effect is unknown
        if result.starts_with('-') || result.starts_with('?') {
            continue;
        }
        let args = args
            .trim_end()
            .strip_suffix(')')
            .unwrap_or_else(|| panic!("no end of the arguments: {line}"));
        let mut args: Vec<Arg> = split(args).into_iter().map(Arg::of).collect();
        args.push(Arg::of(result.split(" (").next().unwrap_or(result)));
        calls.push(Call {
            name: name.to_owned(),
            args,
            began_after,
        });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_joined_and_failed_ones_are_omitted() {
        let text = "1 openat(AT_FDCWD<\\x2f\\x61>, \"\\x62\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3<\\x2f\\x61\\x2f\\x62>\n\
                    2 fsync(4<\\x2f\\x61> <unfinished ...>\n\
                    1 write(3<\\x2f\\x61\\x2f\\x62>, \"\\x2c\\x0a\", 2) = 2\n\
                    1 unlink(\"\\x2f\\x63\") = -1 ENOENT (No such file or directory)\n\
                    2 <... fsync resumed>) = 0\n\
                    1 writev(3<\\x2f\\x62>(deleted), [{iov_base=\"\\x61\", iov_len=1}, {iov_base=\"\", iov_len=0}], 2) = 1\n\
                    1 +++ exited with 0 +++\n";
        let calls = read(text);
        let names: Vec<_> = calls
            .iter()
            .map(|c| (c.name.as_str(), c.began_after))
            .collect();
        assert_eq!(
            names,
            [("openat", 0), ("write", 1), ("fsync", 1), ("writev", 3)]
        );
        let open = &calls[0].args;
        assert_eq!(
            (open[1].path(), open[3].mode(), open[4].path()),
            ("b".into(), 0o666, "/a/b".into())
        );
        assert!(open[2].has("O_CREAT") && !open[2].has("O_TRUNC"));
        assert_eq!(
            (calls[1].args[1].bytes.as_deref(), calls[1].args[2].number()),
            (Some(b",\n".as_slice()), 2)
        );
        assert_eq!(
            (calls[3].args[0].is_deleted, calls[3].args[1].vector()),
            (true, b"a".to_vec())
        );
    }
}
