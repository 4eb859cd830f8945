//! Finds the programs that a shell script calls, by a rough parse of its text.

use std::collections::BTreeSet;

/// Builtins of the shell.
const BUILTINS: &[&str] = &[
    ".", ":", "[", "[[", "]]", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "echo", "eval", "exit", "export",
    "false", "fg", "getopts", "hash", "jobs", "kill", "let", "local", "mapfile", "printf", "pwd", "read", "readonly", "return", "set",
    "shift", "shopt", "source", "test", "times", "trap", "true", "type", "ulimit", "umask", "unset", "wait",
];

/// Reserved words before a command.
const OPENING: &[&str] = &["if", "then", "else", "elif", "while", "until", "do", "!", "time", "{"];

/// Reserved words that are not followed by a command.
const CLOSING: &[&str] = &["fi", "done", "esac", "}"];

/// Programs that run the program after their options.
const WRAPPERS: &[&str] =
    &["sudo", "env", "timeout", "exec", "nohup", "setsid", "nice", "xargs", "ionice", "stdbuf", "chroot", "strace", "unshare"];

/// A call of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Name of the program, without its directory.
    pub program: String,
    /// Line of the script, counted from 0.
    pub line: usize,
}

/// A token of a script.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word, without its quotes.
    Word { text: String, quoted: bool },
    /// `;`, `&`, `|`, `(`, `)`, a line break, or a pair of them.
    Operator(String),
    /// A redirection; a file name follows.
    Redirection,
}

/// Returns the programs that a script calls, each once.
pub fn calls(script: &str) -> BTreeSet<Call> {
    let lexer = Lexer::read(script);
    let mut calls = BTreeSet::new();
    let functions = functions(&lexer.tokens);
    commands(&lexer.tokens, &functions, &mut calls);
    for (line, inner) in &lexer.inner {
        let below = self::calls(inner).into_iter().filter(|c| !functions.contains(&c.program));
        calls.extend(below.map(|c| Call { line: c.line + line, ..c }));
    }
    calls
}

/// Returns the functions that a script defines, for scripts that source it.
pub fn defined(script: &str) -> BTreeSet<String> {
    functions(&Lexer::read(script).tokens)
}

/// Returns the names of functions among tokens.
fn functions(tokens: &[(usize, Token)]) -> BTreeSet<String> {
    tokens
        .windows(3)
        .filter_map(|w| match (&w[0].1, &w[1].1, &w[2].1) {
            (Token::Word { text, .. }, Token::Operator(open), Token::Operator(close)) if open == "(" && close == ")" => Some(text.clone()),
            _ => None,
        })
        .collect()
}

fn commands(tokens: &[(usize, Token)], functions: &BTreeSet<String>, calls: &mut BTreeSet<Call>) {
    /// The role of the next word.
    #[derive(PartialEq)]
    enum Place {
        Command,
        Wrapped,
        Argument,
        /// Between `case` and `in`.
        Header,
        /// A pattern of `case`, up to its parenthesis.
        Pattern,
        /// The file of a redirection or the argument of an option.
        File,
    }
    let (mut place, mut resume, mut cases) = (Place::Command, Place::Command, 0);
    for (line, token) in tokens {
        match token {
            Token::Redirection => {
                resume = std::mem::replace(&mut place, Place::File);
                if resume == Place::File {
                    resume = Place::Argument;
                }
            }
            Token::Operator(operator) => match operator.as_str() {
                ";;" => place = Place::Pattern,
                ")" if place == Place::Pattern => place = Place::Command,
                "(" | "|" | "\n" if place == Place::Pattern => {}
                _ => place = Place::Command,
            },
            Token::Word { text, quoted } => match place {
                Place::File => place = std::mem::replace(&mut resume, Place::Argument),
                Place::Argument => {}
                Place::Pattern => {
                    if text == "esac" {
                        cases -= 1;
                        place = Place::Argument;
                    }
                }
                Place::Header => {
                    if text == "in" && cases > 0 {
                        place = Place::Pattern;
                    }
                }
                Place::Command | Place::Wrapped => {
                    // `env -u NAME`, `sudo -u USER`
                    if place == Place::Wrapped && text == "-u" {
                        (place, resume) = (Place::File, Place::Wrapped);
                        continue;
                    }
                    let skipped = place == Place::Wrapped
                        && (text.starts_with('-') || text.starts_with(|c: char| c.is_ascii_digit()) || text.starts_with('+'));
                    if skipped || is_assignment(text) {
                        continue;
                    }
                    if !quoted && place == Place::Command {
                        if OPENING.contains(&text.as_str()) {
                            continue;
                        }
                        if CLOSING.contains(&text.as_str()) {
                            if text == "esac" {
                                cases -= 1;
                            }
                            place = Place::Argument;
                            continue;
                        }
                        if text == "for" || text == "function" || text == "select" {
                            place = Place::Argument;
                            continue;
                        }
                        if text == "case" {
                            cases += 1;
                            place = Place::Header;
                            continue;
                        }
                    }
                    let name = text.rsplit('/').next().unwrap_or(text);
                    if is_name(name)
                        && !text.contains('$')
                        && !functions.contains(text)
                        && !BUILTINS.contains(&text.as_str())
                        && text != "exec"
                    {
                        calls.insert(Call { program: name.to_owned(), line: *line });
                    }
                    place = if WRAPPERS.contains(&name) { Place::Wrapped } else { Place::Argument };
                }
            },
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split(['=', '+', '[']).next().unwrap_or_default();
    word.contains('=') && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Tells whether a word can be the literal name of a program.
fn is_name(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
}

struct Lexer {
    text: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<(usize, Token)>,
    /// Command substitutions inside words, with their first lines.
    inner: Vec<(usize, String)>,
}

impl Lexer {
    fn read(script: &str) -> Self {
        let mut lexer = Self { text: script.chars().collect(), at: 0, line: 0, tokens: Vec::new(), inner: Vec::new() };
        lexer.run();
        lexer
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn push(&mut self, line: usize, token: Token) {
        self.tokens.push((line, token));
    }

    fn run(&mut self) {
        let mut heredocs: Vec<String> = Vec::new();
        while let Some(c) = self.peek(0) {
            let line = self.line;
            match c {
                ' ' | '\t' | '\r' => _ = self.next(),
                '\\' if self.peek(1) == Some('\n') => {
                    self.next();
                    self.next();
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                '\n' => {
                    self.next();
                    self.push(line, Token::Operator("\n".into()));
                    for end in std::mem::take(&mut heredocs) {
                        self.skip_heredoc(&end);
                    }
                }
                '<' if self.peek(1) == Some('<') && self.peek(2) != Some('<') => {
                    self.at += 2;
                    while matches!(self.peek(0), Some('-' | ' ')) {
                        self.next();
                    }
                    heredocs.push(self.word().0);
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    let inner = self.until_closing(')');
                    self.inner.push((line, inner));
                    self.push(line, Token::Word { text: "$".into(), quoted: true });
                }
                '<' | '>' => {
                    while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
                        self.next();
                    }
                    self.push(line, Token::Redirection);
                }
                '&' if self.peek(1) == Some('>') => {
                    self.at += 2;
                    self.push(line, Token::Redirection);
                }
                '(' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.until_closing(')');
                    self.next();
                    self.push(line, Token::Word { text: "$".into(), quoted: true });
                }
                ';' | '&' | '|' | '(' | ')' => {
                    self.next();
                    let mut operator = String::from(c);
                    if self.peek(0) == Some(c) && c != '(' && c != ')' {
                        self.next();
                        operator.push(c);
                    }
                    self.push(line, Token::Operator(operator));
                }
                _ => {
                    let (text, quoted) = self.word();
                    // a number before a redirection is part of it
                    let descriptor = matches!(self.peek(0), Some('<' | '>')) && text.chars().all(|c| c.is_ascii_digit());
                    if !descriptor {
                        self.push(line, Token::Word { text, quoted });
                    }
                }
            }
        }
    }

    fn skip_heredoc(&mut self, end: &str) {
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c != '\n' {
                text.push(c);
                continue;
            }
            if text.trim_start_matches('\t') == end {
                return;
            }
            text.clear();
        }
    }

    /// Reads a word, with `$` in place of each substitution.
    fn word(&mut self) -> (String, bool) {
        let (mut text, mut quoted) = (String::new(), false);
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' if text.ends_with('=') => {
                    // an array
                    self.next();
                    let inner = self.until_closing(')');
                    self.substitutions(&inner);
                }
                '(' => break,
                '\'' => {
                    quoted = true;
                    self.next();
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        text.push(c);
                    }
                }
                '"' => {
                    quoted = true;
                    self.next();
                    while let Some(c) = self.peek(0).filter(|c| *c != '"') {
                        if c == '$' || c == '`' {
                            self.substitution(&mut text);
                        } else {
                            self.next();
                            text.push(if c == '\\' { self.next().unwrap_or(c) } else { c });
                        }
                    }
                    self.next();
                }
                '$' | '`' => self.substitution(&mut text),
                '\\' => {
                    self.next();
                    text.extend(self.next().filter(|c| *c != '\n'));
                }
                _ => {
                    self.next();
                    text.push(c);
                }
            }
        }
        (text, quoted)
    }

    /// Reads a substitution.
    fn substitution(&mut self, text: &mut String) {
        text.push('$');
        let line = self.line;
        let first = self.next();
        match (first, self.peek(0), self.peek(1)) {
            (Some('`'), _, _) => {
                let inner = self.until_closing('`');
                self.inner.push((line, inner));
            }
            (_, Some('('), Some('(')) => {
                self.at += 2;
                let inner = self.until_closing(')');
                self.next();
                self.substitutions(&inner);
            }
            (_, Some('('), _) => {
                self.next();
                let inner = self.until_closing(')');
                self.inner.push((line, inner));
            }
            (_, Some('{'), _) => {
                self.next();
                let inner = self.until_closing('}');
                self.substitutions(&inner);
            }
            _ => {
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.next();
                }
            }
        }
    }

    /// Collects the command substitutions of other text.
    fn substitutions(&mut self, text: &str) {
        let mut lexer = Lexer { text: text.chars().collect(), at: 0, line: self.line, tokens: Vec::new(), inner: Vec::new() };
        lexer.run();
        self.inner.append(&mut lexer.inner);
    }

    /// Reads up to and including the matching closing character.
    fn until_closing(&mut self, closing: char) -> String {
        let opening = match closing {
            ')' => '(',
            '}' => '{',
            _ => '\0',
        };
        let (mut depth, mut text) = (0, String::new());
        while let Some(c) = self.next() {
            if c == closing && depth == 0 {
                break;
            }
            depth += i32::from(c == opening) - i32::from(c == closing);
            text.push(c);
            match c {
                '\\' => text.extend(self.next()),
                '\'' if closing != '}' => {
                    while let Some(c) = self.next() {
                        text.push(c);
                        if c == '\'' {
                            break;
                        }
                    }
                }
                '"' => {
                    while let Some(c) = self.next() {
                        text.push(c);
                        if c == '\\' {
                            text.extend(self.next());
                        } else if c == '"' {
                            break;
                        }
                    }
                }
                _ => {}
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(script: &str) -> Vec<String> {
        let programs: BTreeSet<String> = calls(script).into_iter().map(|c| c.program).collect();
        programs.into_iter().collect()
    }

    #[test]
    fn commands_are_found_in_every_position() {
        assert_eq!(programs("a1 x; b1 && c1 || d1 | e1 & f1\ng1"), ["a1", "b1", "c1", "d1", "e1", "f1", "g1"]);
        assert_eq!(
            programs("if aa; then bb; elif ! cc; else dd; fi; while ee; do ff; done; { gg; }; (hh)"),
            ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"]
        );
        assert_eq!(programs("for x in one two; do aa; done\ncase $x in one | two) bb ;; *) cc ;; esac; dd"), ["aa", "bb", "cc", "dd"]);
        assert_eq!(
            programs("x=$(aa \"$(bb)\") y=`cc` dd \"${e:-$(ee)}\" <(ff)\nlist=(no $(gg) no)"),
            ["aa", "bb", "cc", "dd", "ee", "ff", "gg"]
        );
    }

    #[test]
    fn arguments_quotes_and_comments_are_not_commands() {
        let script = "# no1\nf() { aa; }\nf no2\necho no3 >no4 2>&1 </dev/null 'no5; no6' \"no7; no8\"\n$no9 no10\n\"$dir/no11\" && no12=1 bb\n\
            cat <<END\nno13; no14\nEND\n[ -e no15 ] && (( no16 > 1 )) || cd no17";
        assert_eq!(programs(script), ["aa", "bb", "cat"]);
        assert_eq!(defined(script), BTreeSet::from(["f".to_owned()]));
    }

    #[test]
    fn programs_run_by_other_programs_are_found() {
        assert_eq!(
            programs("sudo -n aa x\ntimeout -k 1 30 bb\nenv -u X A=1 B=2 cc\nexec dd\nsetsid nohup ee"),
            ["aa", "bb", "cc", "dd", "ee", "env", "nohup", "setsid", "sudo", "timeout"]
        );
    }

    #[test]
    fn lines_are_counted_inside_substitutions() {
        let lines: Vec<(String, usize)> =
            calls("aa\nbb \\\n  x\nv=$(cc\ndd)\n/usr/sbin/ee").into_iter().map(|c| (c.program, c.line)).collect();
        let expected = [("aa", 0), ("bb", 1), ("cc", 3), ("dd", 4), ("ee", 5)].map(|(program, line)| (program.to_owned(), line));
        assert_eq!(lines, expected);
    }
}
