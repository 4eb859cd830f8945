//! Parses calls as strace writes them: `name(arguments) = result <duration>`.

use memchr::{memchr2, memmem, memrchr};
use std::borrow::Cow;

/// The part of a line before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The task number, if the line has one.
    pub(crate) pid: Option<u64>,
    /// The time, if the line has one.
    pub(crate) time: Option<CallTime>,
    /// Offset in the line at which the text after the task number and the time begins, bytes.
    pub(crate) body: usize,
}

/// A time in a line, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTime {
    /// Since 1970 with `-ttt`; since the previous line with `-r`.
    Seconds(u64),
    /// Since midnight, with `-t` and `-tt`.
    OfDay(u64),
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b' ').count()
}

/// Parses a number of at most 19 digits; `None` for any other text.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || digits(text) != text.len() {
        return None;
    }
    Some(
        text.iter()
            .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')),
    )
}

/// Converts the digits of a fraction of a second to nanoseconds.
fn fraction_ns(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    let missing = u32::try_from(9 - text.len()).ok()?;
    Some(number(text)? * 10_u64.pow(missing))
}

/// Converts seconds with or without a fraction, such as `0.000123`, to nanoseconds.
pub(super) fn seconds_ns(text: &[u8]) -> Option<u64> {
    let whole = digits(text);
    let seconds = number(&text[..whole])?.checked_mul(1_000_000_000)?;
    match text[whole..].split_first() {
        None => Some(seconds),
        Some((b'.', fraction)) => seconds.checked_add(fraction_ns(fraction)?),
        Some(_) => None,
    }
}

fn time_of(token: &[u8]) -> Option<CallTime> {
    if token.len() >= 8 && token[2] == b':' && token[5] == b':' {
        let (hours, minutes) = (number(&token[..2])?, number(&token[3..5])?);
        let seconds = seconds_ns(&token[6..])?;
        return Some(CallTime::OfDay(
            (hours * 3600 + minutes * 60) * 1_000_000_000 + seconds,
        ));
    }
    match number(token) {
        // a whole number of seconds: no task number is this high
        Some(seconds) => (seconds > MAX_TASK)
            .then_some(seconds)?
            .checked_mul(1_000_000_000),
        None => seconds_ns(token),
    }
    .map(CallTime::Seconds)
}

/// Maximum task number on Linux.
const MAX_TASK: u64 = 1 << 22;

/// Returns the length of the annotations that begin at offset `begin`, including the spaces after them. strace writes them around a time: security
/// context (`--secontext`), time difference (`-r`), system call number (`-n`), address (`-i`).
fn annotations(line: &[u8], begin: usize) -> usize {
    let mut at = begin;
    loop {
        let end = match &line[at..] {
            [b'(', b'+', ..] => memchr::memchr(b')', &line[at..]),
            [b'[', ..] => memchr::memchr(b']', &line[at..]),
            _ => None,
        };
        match end {
            Some(end) if line.get(at + end + 1).is_none_or(|next| *next == b' ') => {
                at += end + 1;
                at += spaces(&line[at..]);
            }
            _ => return at - begin,
        }
    }
}

/// Parses task number and time at the beginning of a line.
pub(crate) fn prefix(line: &[u8]) -> Prefix {
    let mut at = spaces(line);
    let mut pid = None;
    if let Some(rest) = line[at..].strip_prefix(b"[pid ") {
        let skipped = spaces(rest);
        let length = digits(&rest[skipped..]);
        let end = skipped + length + comm(&rest[skipped + length..]);
        if rest.get(end) == Some(&b']') {
            pid = number(&rest[skipped..skipped + length]);
            at += b"[pid ".len() + end + 1;
            at += spaces(&line[at..]);
        }
    } else {
        let length = digits(&line[at..]);
        let end = at + length + comm(&line[at + length..]);
        if length > 0
            && line.get(end) == Some(&b' ')
            && number(&line[at..at + length]) <= Some(MAX_TASK)
        {
            pid = number(&line[at..at + length]);
            at = end;
            at += spaces(&line[at..]);
        }
    }
    at += annotations(line, at);
    let token = memchr::memchr(b' ', &line[at..]).map_or(line.len(), |end| at + end);
    let time = time_of(&line[at..token]);
    if time.is_some() {
        at = token + spaces(&line[token..]);
    }
    at += annotations(line, at);
    Prefix {
        pid,
        time,
        body: at,
    }
}

/// Returns the length of the process name that `-Y` appends to a task number.
fn comm(text: &[u8]) -> usize {
    match text.first() {
        Some(b'<') => memchr::memchr(b'>', text).map_or(0, |end| end + 1),
        _ => 0,
    }
}

/// Maximum number of arguments that are stored separately.
const MAX_ARGUMENTS: usize = 8;

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallArguments<'a> {
    items: [&'a [u8]; MAX_ARGUMENTS],
    /// The text after the closing parenthesis.
    pub(crate) rest: &'a [u8],
}

impl<'a> CallArguments<'a> {
    /// Splits the text after the opening parenthesis. Returns `None` if there is no closing one.
    pub(crate) fn split(text: &'a [u8]) -> Option<Self> {
        let (found, is_closed) = Self::scan(text);
        is_closed.then_some(found)
    }

    /// Splits arguments that other output interrupted before their closing parenthesis; `rest` is the text after the parenthesis.
    pub(crate) fn interrupted(text: &'a [u8], rest: &'a [u8]) -> Self {
        Self {
            rest,
            ..Self::scan(text).0
        }
    }

    /// Returns the arguments, and whether there is a closing parenthesis.
    fn scan(text: &'a [u8]) -> (Self, bool) {
        let mut items: [&[u8]; MAX_ARGUMENTS] = [&[]; MAX_ARGUMENTS];
        let (mut count, mut begin, mut depth, mut at) = (0, 0, 0_usize, 0);
        loop {
            let Some(&byte) = text.get(at) else {
                if let Some(item) = items.get_mut(count) {
                    *item = text.get(begin..).unwrap_or_default().trim_ascii();
                }
                return (Self { items, rest: b"" }, false);
            };
            match byte {
                b'"' => at = string_end(text, at).unwrap_or(text.len()),
                b'<' if at > 0 && is_named(text[at - 1]) && starts_name(text.get(at + 1)) => {
                    at = name_end(text, at).unwrap_or(text.len());
                }
                b'(' | b'[' | b'{' => {
                    depth += 1;
                    at += 1;
                }
                b')' | b']' | b'}' if depth > 0 => {
                    depth -= 1;
                    at += 1;
                }
                end @ (b',' | b')') if depth == 0 => {
                    if let Some(item) = items.get_mut(count) {
                        *item = text[begin..at].trim_ascii();
                    }
                    count += 1;
                    at += 1;
                    begin = at;
                    if end == b')' {
                        let rest = &text[at..];
                        return (Self { items, rest }, true);
                    }
                }
                _ => at += 1,
            }
        }
    }

    /// Returns an argument; empty if there is none with this index.
    pub(crate) fn get(&self, index: usize) -> &'a [u8] {
        self.items.get(index).copied().unwrap_or_default()
    }
}

/// Returns whether a `<` after this byte begins the name of a descriptor.
fn is_named(before: u8) -> bool {
    before.is_ascii_digit() || matches!(before, b'D' | b'/')
}

fn starts_name(first: Option<&u8>) -> bool {
    !matches!(first, None | Some(b'<' | b' ' | b'='))
}

/// Returns the end of the string that begins at `at`, after its closing quote and the dots of an abbreviation.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            at += 1;
            break;
        }
        at += 2;
    }
    Some(if text[at..].starts_with(b"...") {
        at + 3
    } else {
        at
    })
}

/// Returns the end of the descriptor name that begins with `<` at `at`, including the suffix of a deleted file.
///
/// In paths strace escapes `<` and `>` as `\74` and `\76`. But `-yy` adds device numbers in angle brackets after the path, and names of sockets
/// contain `->`.
fn name_end(text: &[u8], at: usize) -> Option<usize> {
    let name = text.get(at + 1..)?;
    let length = if name.first() == Some(&b'/') {
        let (mut depth, mut end) = (0_usize, 0);
        loop {
            end += memchr2(b'<', b'>', name.get(end..)?)?;
            match (name[end], depth) {
                (b'<', _) => depth += 1,
                (_, 0) => break end,
                _ => depth -= 1,
            }
            end += 1;
        }
    } else {
        let end = memchr::memchr(b'>', name)?;
        match memchr::memchr(b'[', &name[..end]) {
            Some(_) => memmem::find(name, b"]>").map_or(end, |end| end + 1),
            None => end,
        }
    };
    let end = at + 1 + length + 1;
    Some(match text[end..].starts_with(DELETED) {
        true => end + DELETED.len(),
        false => end,
    })
}

const DELETED: &[u8] = b"(deleted)";

/// Parses a descriptor in an argument or a result: its number and, with `-y`, its name in angle brackets.
pub(crate) fn descriptor(text: &[u8]) -> (Option<u32>, Option<&[u8]>) {
    let length = match text.strip_prefix(b"0x") {
        Some(hex) => {
            2 + hex
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count()
        }
        None => digits(text),
    };
    let fd = unsigned(&text[..length]).and_then(|fd| i32::try_from(fd).ok());
    (fd.map(i32::cast_unsigned), name_behind(text, length))
}

/// Returns the text after `AT_FDCWD`, which denotes the current directory and may also be shown as a number.
pub(crate) fn behind_cwd(text: &[u8]) -> Option<&[u8]> {
    [
        &b"-100 /* AT_FDCWD */"[..],
        b"AT_FDCWD",
        b"-100",
        b"0xffffff9c",
    ]
    .iter()
    .find_map(|word| text.strip_prefix(*word))
}

/// Returns the name that begins at offset `at`, including its angle brackets; `None` if there is none.
pub(crate) fn name_behind(text: &[u8], at: usize) -> Option<&[u8]> {
    if text.get(at) != Some(&b'<') {
        return None;
    }
    let end = name_end(text, at)?;
    Some(&text[at..end])
}

/// Returns the path, or the name of another object, from a descriptor's name in angle brackets.
pub(crate) fn path_of_name(name: &[u8]) -> Cow<'_, [u8]> {
    let inner = name.strip_suffix(DELETED).unwrap_or(name);
    let inner = inner.strip_prefix(b"<").unwrap_or(inner);
    let inner = inner.strip_suffix(b">").unwrap_or(inner);
    let inner = inner.strip_suffix(b" (deleted)").unwrap_or(inner);
    let inner = match memmem::find(inner, b"<char ").or_else(|| memmem::find(inner, b"<block ")) {
        Some(device) if inner.first() == Some(&b'/') => &inner[..device],
        _ => inner,
    };
    unescaped(inner)
}

/// Returns the bytes of a string argument. `None` if it is not a string, such as `NULL`. The three dots of an abbreviated string are kept.
pub(crate) fn string(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    // the string may be followed by its security context
    let text = &text[..text
        .first()
        .filter(|first| **first == b'"')
        .and_then(|_| string_end(text, 0))?];
    let inner = text.strip_prefix(b"\"")?;
    if let Some(inner) = inner.strip_suffix(b"\"") {
        return Some(unescaped(inner));
    }
    let mut bytes = unescaped(inner.strip_suffix(b"\"...")?).into_owned();
    bytes.extend_from_slice(b"...");
    Some(Cow::Owned(bytes))
}

/// Decodes the C escapes that strace writes.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let Some((&code, tail)) = behind.split_first().filter(|_| first == b'\\') else {
            bytes.push(first);
            rest = behind;
            continue;
        };
        let plain = match code {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'a' => 0x07,
            b'b' => 0x08,
            b'x' | b'0'..=b'7' => {
                let (base, skipped, most) = if code == b'x' { (16, 1, 2) } else { (8, 0, 3) };
                let digits = behind[skipped..]
                    .iter()
                    .take(most)
                    .map_while(|byte| char::from(*byte).to_digit(base))
                    .fold((0, 0), |(value, count), digit| {
                        (value * base + digit, count + 1)
                    });
                bytes.push(digits.0.to_le_bytes()[0]);
                rest = &behind[skipped + digits.1..];
                continue;
            }
            other => other,
        };
        bytes.push(plain);
        rest = tail;
    }
    Cow::Owned(bytes)
}

/// Parses a number as strace writes it: decimal with or without sign, or hexadecimal.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    if let Some(hex) = text.strip_prefix(b"0x") {
        let hex = std::str::from_utf8(hex).ok()?;
        return u64::from_str_radix(hex, 16).ok().map(u64::cast_signed);
    }
    match text.strip_prefix(b"-") {
        Some(positive) => i64::try_from(number(positive)?).ok().map(|value| -value),
        None => i64::try_from(number(text)?).ok(),
    }
}

/// Parses a non-negative number.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    integer(text).and_then(|value| u64::try_from(value).ok())
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallOutcome<'a> {
    /// The returned value; `None` if the call failed, was interrupted or did not return.
    pub(super) value: Option<i64>,
    /// The text after the value: the name of a descriptor, or flags.
    pub(super) text: &'a [u8],
    /// Duration, nanoseconds; `None` without `-T`.
    pub(super) duration_ns: Option<u64>,
}

/// Parses the text after the arguments. Returns `None` if it is not a result.
pub(super) fn outcome(rest: &[u8]) -> Option<CallOutcome<'_>> {
    let text = rest.trim_ascii().strip_prefix(b"=")?.trim_ascii_start();
    let (text, duration_ns) = match duration(text) {
        Some((text, duration_ns)) => (text, Some(duration_ns)),
        None => (text, None),
    };
    let length = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
        .count();
    let (number, behind) = text.split_at(length);
    let value = match number {
        // an address may have its highest bit set; a failed call returns -1 followed by the name of the error
        [b'0', b'x', ..] => Some(integer(number)?),
        [b'0'..=b'9', ..] => Some(integer(number)?),
        [b'-', ..] => {
            integer(number)?;
            None
        }
        [] if text.first() == Some(&b'?') => None,
        _ => return None,
    };
    Some(CallOutcome {
        value,
        text: behind,
        duration_ns,
    })
}

/// Returns the text before the duration at the end of a result, and the duration in nanoseconds.
fn duration(text: &[u8]) -> Option<(&[u8], u64)> {
    let inner = text.strip_suffix(b">")?;
    let begin = memrchr(b'<', inner)?;
    let token = &inner[begin + 1..];
    // unlike a duration, the name of a descriptor follows its number without a space
    let before = text[..begin].strip_suffix(b" ")?;
    memchr::memchr(b'.', token)?;
    Some((before.trim_ascii_end(), seconds_ns(token)?))
}

/// Flags that are evaluated, with their numbers on Linux (x86-64 and Arm), for `-X raw` and `-e raw`.
const FLAGS: [(&str, u64); 21] = [
    ("O_CREAT", 0o100),
    ("O_EXCL", 0o200),
    ("O_TRUNC", 0o1000),
    ("O_APPEND", 0o2000),
    ("O_CLOEXEC", 0o2_000_000),
    ("O_TMPFILE", 0o20_000_000),
    ("SOCK_CLOEXEC", 0o2_000_000),
    ("FD_CLOEXEC", 1),
    ("CLOSE_RANGE_UNSHARE", 2),
    ("CLOSE_RANGE_CLOEXEC", 4),
    ("CLONE_FS", 0x200),
    ("CLONE_FILES", 0x400),
    ("CLONE_THREAD", 0x1_0000),
    ("PROT_WRITE", 2),
    ("MAP_SHARED", 1),
    ("MAP_SHARED_VALIDATE", 3),
    ("RWF_APPEND", 0x10),
    ("RENAME_EXCHANGE", 2),
    ("FALLOC_FL_KEEP_SIZE", 1),
    ("FALLOC_FL_COLLAPSE_RANGE", 8),
    ("FALLOC_FL_INSERT_RANGE", 0x20),
];

/// Returns whether `flags` contains a flag: as one of the names joined by `|`, or as set bits of a number.
pub(crate) fn has_flag(flags: &[u8], flag: &str) -> bool {
    let has_word = flags
        .split(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'))
        .any(|word| word == flag.as_bytes());
    let value = || {
        let begin = memmem::find(flags, b"flags=").map_or(0, |at| at + b"flags=".len());
        let length = flags[begin..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        unsigned(&flags[begin..begin + length])
    };
    let bits = || {
        FLAGS
            .iter()
            .find(|(name, _)| *name == flag)
            .map(|(_, bits)| *bits)
    };
    has_word || matches!((value(), bits()), (Some(value), Some(bits)) if value & bits == bits)
}

/// Returns whether an argument is this constant, given by its name, its number or both.
pub(super) fn is_constant(text: &[u8], name: &str, number: i64) -> bool {
    let end = text
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(text.len());
    text == name.as_bytes() || integer(&text[..end]) == Some(number)
}

/// Returns the number after `key=` in a structure.
pub(super) fn field(text: &[u8], key: &str) -> Option<u64> {
    let begin = memmem::find(text, key.as_bytes())? + key.len();
    let length = digits(&text[begin..]);
    number(&text[begin..begin + length])
}

/// Returns the number in `[number]`; in `[number] => [number]` the first one.
pub(super) fn boxed(text: &[u8]) -> Option<u64> {
    let inner = text.strip_prefix(b"[")?;
    number(&inner[..digits(inner)])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_prefix_is_read() {
        let seconds = Some(CallTime::Seconds(1_795_255_706_705_940_000));
        for (line, pid, time, body) in [
            (
                "1795255706.705940 close(3) = 0",
                None,
                seconds,
                "close(3) = 0",
            ),
            (
                "7 1795255706.705940 close(3) = 0",
                Some(7),
                seconds,
                "close(3) = 0",
            ),
            (
                "7<a b> 1795255706.705940 close(3) = 0",
                Some(7),
                seconds,
                "close(3) = 0",
            ),
            ("[pid    7] 1795255706.705940 x()", Some(7), seconds, "x()"),
            (
                "1795255706.705940 [   3] close(3)",
                None,
                seconds,
                "close(3)",
            ),
            (
                "7 00:00:01.000002 x()",
                Some(7),
                Some(CallTime::OfDay(1_000_002_000)),
                "x()",
            ),
            (
                "23:59:59 x()",
                None,
                Some(CallTime::OfDay(86_399_000_000_000)),
                "x()",
            ),
            ("close(3) = 0", None, None, "close(3) = 0"),
            ("", None, None, ""),
        ] {
            let found = prefix(line.as_bytes());
            assert_eq!((found.pid, found.time), (pid, time), "{line}");
            assert_eq!(&line[found.body..], body, "{line}");
        }
    }

    #[test]
    fn commas_and_brackets_in_strings_and_names_do_not_split() {
        let text = br#"3</a, (b>, "x\", )"..., [{a, b}, c], 9<TCP:[1.2.3.4:5->6.7.8.9:10]>, 1</dev/x<char 1:3>>, 1<<4, 5</d>(deleted)) = 1"#;
        let split = CallArguments::split(text).unwrap();
        let items: Vec<_> = (0..8)
            .map(|i| String::from_utf8_lossy(split.get(i)).into_owned())
            .collect();
        assert_eq!(
            items,
            [
                "3</a, (b>",
                "\"x\\\", )\"...",
                "[{a, b}, c]",
                "9<TCP:[1.2.3.4:5->6.7.8.9:10]>",
                "1</dev/x<char 1:3>>",
                "1<<4",
                "5</d>(deleted)",
                ""
            ]
        );
        assert_eq!(split.rest, b" = 1");
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            string(br#""a\"\\\n\0\1012\x41\377""#).unwrap().as_ref(),
            b"a\"\\\n\0A2A\xff"
        );
        assert_eq!(string(b"\"ab\"...").unwrap().as_ref(), b"ab...");
        assert_eq!(string(b"NULL"), None);
        assert_eq!(path_of_name(b"</a\\76b>(deleted)").as_ref(), b"/a>b");
        assert_eq!(
            path_of_name(b"</dev/null<char 1:3>>").as_ref(),
            b"/dev/null"
        );
    }

    #[test]
    fn results_distinguish_success_from_failure() {
        let of = |text: &'static str| outcome(text.as_bytes()).unwrap();
        let done = of("    = 3</a = <1.5> <0.000123>");
        assert_eq!((done.value, done.duration_ns), (Some(3), Some(123_000)));
        assert_eq!(done.text, b"</a = <1.5>");
        assert_eq!(of(" = -1 EBADF (Bad file descriptor)").value, None);
        assert_eq!(of(" = ? ERESTARTSYS (To be restarted) <0.5>").value, None);
        assert_eq!(of(" = ?").value, None);
        assert_eq!(of(" = 0x10").value, Some(16));
        assert_eq!(of(" = 3</a/0.5>").duration_ns, None);
        assert_eq!(outcome(b" = "), None);
        assert_eq!(outcome(b" = 12x"), None);
    }
}
