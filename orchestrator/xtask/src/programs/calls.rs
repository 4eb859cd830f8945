//! Finds the programs that a Rust file calls: in `Command::new` and similar functions, argument vectors, and shell scripts in string literals.

use super::shell;
use std::collections::BTreeMap;
use syn::{
    Expr, ExprLit, Lit, LitStr, Token,
    punctuated::Punctuated,
    visit::{self, Visit},
};

/// A program that a file calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Line of the file.
    pub line: usize,
    /// Name of the program.
    pub program: String,
}

/// Functions whose first argument names a program.
const NAMES_A_PROGRAM: &[&str] = &["on_path", "tool", "installed"];

/// Functions that take an array of programs.
const NAMES_PROGRAMS: &[&str] = &["absent", "launcher"];

/// Functions that take an argument vector.
const TAKES_ARGUMENTS: &[&str] = &["words", "argv"];

/// Methods that take an argument vector.
const RUNS_ARGUMENTS: &[&str] = &["exec", "run", "output", "say", "ask"];

/// Functions and methods whose last argument is a shell script.
const TAKES_A_SCRIPT: &[&str] = &["shell", "ssh"];

/// Programs whose `-c` is not a shell's.
const OTHER_SHELLS: &[&str] = &["python", "python3", "ssh", "sacct", "head", "stat", "cut", "cc", "gcc", "mpicc"];

/// Returns the programs that a file calls.
pub fn calls(text: &str) -> Result<Vec<Call>, String> {
    let file = syn::parse_file(text).map_err(|e| format!("{}: {e}", e.span().start().line))?;
    let mut strings = Strings::default();
    strings.visit_file(&file);
    let mut visitor = Visitor { strings, calls: Vec::new() };
    visitor.visit_file(&file);
    visitor.calls.sort();
    visitor.calls.dedup();
    Ok(visitor.calls)
}

/// A string literal, possibly a format string.
#[derive(Clone)]
struct Text {
    literal: LitStr,
    format: bool,
}

/// String literals by the names of their constants and variables.
#[derive(Default)]
struct Strings {
    named: BTreeMap<String, Vec<Text>>,
}

impl Strings {
    fn name(&mut self, name: &syn::Ident, value: &Expr) {
        if let Some(text) = literal(value) {
            self.named.entry(name.to_string()).or_default().push(text);
        }
    }
}

impl<'ast> Visit<'ast> for Strings {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.name(&item.ident, &item.expr);
        visit::visit_item_const(self, item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init) {
            self.name(&name.ident, &init.expr);
        }
        visit::visit_local(self, local);
    }
}

/// Returns the string literal of an expression, through references, conversions and `format!`.
fn literal(expression: &Expr) -> Option<Text> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Some(Text { literal: literal.clone(), format: false }),
        Expr::Reference(inner) => literal(&inner.expr),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::MethodCall(call) if call.args.is_empty() => literal(&call.receiver),
        Expr::Call(call) if call.args.len() == 1 && path_ends(&call.func, &["from"]) => literal(call.args.first()?),
        Expr::Macro(call) if call.mac.path.is_ident("format") => {
            let arguments = call.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?;
            Some(Text { format: true, ..literal(arguments.first()?)? })
        }
        _ => None,
    }
}

fn path_ends(function: &Expr, names: &[&str]) -> bool {
    matches!(function, Expr::Path(path) if path.path.segments.last().is_some_and(|s| names.iter().any(|n| s.ident == n)))
}

/// Returns the elements of an array or `vec!`, through references and conversions.
fn elements(expression: &Expr) -> Option<Vec<Expr>> {
    match expression {
        Expr::Array(array) => Some(array.elems.iter().cloned().collect()),
        Expr::Reference(inner) => elements(&inner.expr),
        Expr::MethodCall(call) => elements(&call.receiver),
        Expr::Macro(call) if call.mac.path.is_ident("vec") => {
            Some(call.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?.into_iter().collect())
        }
        _ => None,
    }
}

/// The meaning of an array of strings.
#[derive(Clone, Copy)]
enum Array {
    /// A program and its arguments.
    Vector,
    /// Arguments without a program, or other strings.
    Arguments,
    /// A program and its arguments if the second element is an option.
    Unknown,
}

struct Visitor {
    strings: Strings,
    calls: Vec<Call>,
}

impl Visitor {
    fn program(&mut self, literal: &LitStr) {
        let name = literal.value();
        let name = name.rsplit('/').next().unwrap_or_default();
        if name.len() > 1
            && !name.ends_with(".toml")
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
        {
            self.calls.push(Call { line: literal.span().start().line, program: name.to_owned() });
        }
    }

    /// Visits an argument of a call, which may be an array.
    fn argument(&mut self, argument: &Expr, kind: Array) {
        let array = match argument {
            Expr::Reference(inner) => &inner.expr,
            other => other,
        };
        if let Expr::Array(array) = array {
            self.arguments(&array.elems.iter().cloned().collect::<Vec<_>>(), kind);
            array.elems.iter().for_each(|element| self.visit_expr(element));
        } else {
            self.visit_expr(argument);
        }
    }

    fn programs(&mut self, expression: &Expr) {
        for element in elements(expression).unwrap_or_default() {
            if let Some(text) = literal(&element) {
                self.program(&text.literal);
            }
        }
    }

    /// Collects the calls of a shell script, given as a literal or by its name.
    fn script(&mut self, expression: &Expr) {
        let named = || match expression {
            Expr::Path(path) => path.path.get_ident().and_then(|name| self.strings.named.get(&name.to_string())).cloned(),
            Expr::Reference(inner) => match &*inner.expr {
                Expr::Path(path) => path.path.get_ident().and_then(|name| self.strings.named.get(&name.to_string())).cloned(),
                _ => None,
            },
            _ => None,
        };
        for text in literal(expression).map(|t| vec![t]).or_else(named).unwrap_or_default() {
            self.script_text(&text);
        }
    }

    fn script_text(&mut self, text: &Text) {
        let value = text.literal.value();
        let script = if text.format { without_placeholders(&value) } else { value };
        // it is in another language
        if script.contains("import ") {
            return;
        }
        let first = text.literal.span().start().line;
        // a literal may continue a line of the script with a backslash; then the reported line is only approximate
        for call in shell::calls(&script) {
            self.calls.push(Call { line: first + call.line, program: call.program });
        }
    }

    /// Collects the calls of an array: its first element if it is an argument vector, and the script after `-c`.
    fn arguments(&mut self, elements: &[Expr], kind: Array) {
        let texts: Vec<Option<Text>> = elements.iter().map(literal).collect();
        let value = |at: usize| texts.get(at).and_then(Option::as_ref).map(|t| t.literal.value());
        let is_vector = match kind {
            Array::Vector => true,
            Array::Unknown => value(1).is_some_and(|v| v.starts_with('-') && v.len() > 1),
            Array::Arguments => false,
        };
        if let (true, Some(Some(first))) = (is_vector, texts.first()) {
            self.program(&first.literal);
        }
        for at in 0..elements.len() {
            let before = at.checked_sub(1).and_then(value).unwrap_or_default();
            let is_shell = matches!(value(at).as_deref(), Some("-c" | "-lc" | "-euc" | "-ec"))
                && !OTHER_SHELLS.contains(&before.as_str())
                && !value(at + 1).is_some_and(|v| v.starts_with('-'));
            if let (true, Some(script)) = (is_shell, elements.get(at + 1)) {
                self.script(script);
            }
        }
    }
}

/// Replaces the placeholders of a format string by `$x`.
fn without_placeholders(format: &str) -> String {
    let (mut text, mut rest) = (String::new(), format.chars().peekable());
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.peek() == Some(&c) => {
                rest.next();
                text.push(c);
            }
            '{' => {
                while rest.next().is_some_and(|c| c != '}') {}
                text.push_str("$x");
            }
            _ => text.push(c),
        }
    }
    text
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let names: Vec<String> = match &*call.func {
            Expr::Path(function) => function.path.segments.iter().map(|s| s.ident.to_string()).collect(),
            _ => Vec::new(),
        };
        let last = names.last().map(String::as_str).unwrap_or_default();
        let starts = last == "new" && names.iter().rev().nth(1).is_some_and(|before| before == "Command");
        let first = call.args.first();
        if let (true, Some(text)) = (starts || NAMES_A_PROGRAM.contains(&last), first.and_then(literal)) {
            self.program(&text.literal);
        }
        if let (true, Some(first)) = (NAMES_A_PROGRAM.contains(&last) || NAMES_PROGRAMS.contains(&last), first) {
            self.programs(first);
        }
        if let (true, Some(script)) = (TAKES_A_SCRIPT.contains(&last), call.args.last()) {
            self.script(script);
        }
        self.visit_expr(&call.func);
        let kind = if TAKES_ARGUMENTS.contains(&last) { Array::Vector } else { Array::Arguments };
        call.args.iter().for_each(|argument| self.argument(argument, kind));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if let Some(script) = call.args.last() {
            let after_c = || {
                let Expr::MethodCall(before) = &*call.receiver else { return false };
                before.method == "arg" && before.args.first().and_then(literal).is_some_and(|t| t.literal.value() == "-c")
            };
            if TAKES_A_SCRIPT.contains(&method.as_str()) || method == "arg" && after_c() {
                self.script(script);
            }
        }
        self.visit_expr(&call.receiver);
        let kind = if RUNS_ARGUMENTS.contains(&method.as_str()) { Array::Vector } else { Array::Arguments };
        call.args.iter().for_each(|argument| self.argument(argument, kind));
    }

    fn visit_expr_array(&mut self, array: &'ast syn::ExprArray) {
        let elements: Vec<Expr> = array.elems.iter().cloned().collect();
        self.arguments(&elements, Array::Unknown);
        // arrays inside an array are not argument vectors
        array.elems.iter().for_each(|element| self.argument(element, Array::Arguments));
    }

    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        let value = literal.value();
        let first = value.lines().next().unwrap_or_default();
        if first.starts_with("#!") && first.ends_with("sh") {
            self.script_text(&Text { literal: literal.clone(), format: value.contains("{{") || value.contains("{}") });
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // arguments of macros that are expressions: format!, vec!, assert! and the like
        if let Ok(arguments) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            if call.path.is_ident("vec") {
                let elements: Vec<Expr> = arguments.iter().cloned().collect();
                self.arguments(&elements, Array::Unknown);
            }
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(body: &str) -> Vec<(usize, String)> {
        calls(&format!("fn f() {{\n{body}\n}}")).expect("Rust").into_iter().map(|c| (c.line, c.program)).collect()
    }

    fn names(body: &str) -> Vec<String> {
        programs(body).into_iter().map(|(_, program)| program).collect()
    }

    #[test]
    fn named_programs_are_found() {
        assert_eq!(
            names("Command::new(\"aa\").arg(\"bb\"); tokio::process::Command::new(\"/usr/bin/cc\"); Command::new(program);"),
            ["aa", "cc"]
        );
        assert_eq!(names("on_path(\"aa\"); absent(&[\"bb\", \"cc\"]); assert!(on_path(\"dd\").is_some());"), ["aa", "bb", "cc", "dd"]);
    }

    #[test]
    fn argument_vectors_are_distinguished_from_other_arrays() {
        let body = "node.exec(&[\"aa\", \"x\"]); words(&[\"bb\"]); let v = [\"cc\", \"-x\"].map(str::to_owned); let w = vec![\"dd\".into(), \"--long\".into()];\n\
            let no = [\"app\", \"class\"]; let plain = &[\"min\".into()];";
        assert_eq!(names(body), ["aa", "bb", "cc", "dd"]);
    }

    #[test]
    fn scripts_are_found_in_literals_formats_and_constants() {
        assert_eq!(programs("node.shell(\"aa x\nbb\");"), [(2, "aa".to_owned()), (3, "bb".to_owned())]);
        assert_eq!(names("lab.ssh(\"ada@n1\", \"sudo aa\"); ssh(&lab, key, \"bb\");"), ["aa", "bb", "sudo"]);
        assert_eq!(names("node.shell(&format!(\"aa {name} $(bb {{}} {0:?}); {program} x\"));"), ["aa", "bb"]);
        assert_eq!(names("const S: &str = \"aa; bb\"; host.exec(&[\"sh\", \"-c\", S]); let no = \"cc\";"), ["aa", "bb", "sh"]);
        assert_eq!(
            names("let script = format!(\"aa {x}\"); c.args([\"-c\", &script]); Command::new(\"bash\").arg(\"-c\").arg(\"bb\");"),
            ["aa", "bash", "bb"]
        );
        assert_eq!(names("fs::write(p, \"#!/bin/sh\\nexec aa\\n\"); let v = [\"bb\", \"-c\", \"import cc\"];"), ["bb", "aa"]);
    }
}
