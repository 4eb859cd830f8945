//! Inventories in INI, by the rules of Ansible's own reader.
//!
//! Complaints name the line, and say nothing of what stands there until the file shows that it is an inventory: a campaign file of somebody else may
//! name any file, and messages end up in logs and mails.

use super::{
    error::{Complaint, complain},
    groups::{ALL, Groups, UNGROUPED, Vars},
    ranges,
};
use crate::words::split_before_comment;

/// What the lines of a section are.
enum Section {
    Hosts(String),
    Vars(String),
    Children(String),
}

/// Reads an inventory.
pub(super) fn read(text: &str) -> Result<Groups, Complaint> {
    let mut groups = Groups::default();
    groups.group(ALL);
    groups.group(UNGROUPED);
    let mut section = Section::Hosts(UNGROUPED.to_owned());
    // references to groups that may be declared further down
    let mut vars: Vec<(String, usize, Vars)> = Vec::new();
    let mut children: Vec<(String, String, usize)> = Vec::new();
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, line) = (i + 1, line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some((name, kind)) = header(line) {
            section = match kind {
                None | Some("hosts") => {
                    groups.group(name);
                    Section::Hosts(name.to_owned())
                }
                Some("children") => {
                    groups.group(name);
                    Section::Children(name.to_owned())
                }
                Some("vars") => {
                    vars.push((name.to_owned(), number, Vars::new()));
                    Section::Vars(name.to_owned())
                }
                Some(kind) => {
                    return complain(
                        number,
                        format!(
                            "unknown kind of section [{name}:{kind}]: expected `vars`, `children` or none"
                        ),
                    );
                }
            };
            continue;
        }
        if line.starts_with('[') && line.ends_with(']') {
            return complain(
                number,
                "not a section: write [GROUP], [GROUP:vars] or [GROUP:children], without spaces",
            );
        }
        match &section {
            Section::Hosts(group) => host(&mut groups, &group.clone(), line, number)?,
            Section::Vars(group) => {
                let Some((key, value)) = line.split_once('=') else {
                    return complain(number, "not a variable: write KEY=VALUE");
                };
                let pair = (key.trim().to_owned(), (literal(value.trim()), number));
                vars.push((group.clone(), number, Vars::from_iter([pair])));
            }
            Section::Children(group) => {
                let name = line.split('#').next().unwrap_or(line).trim();
                if name.is_empty()
                    || name.contains([':', ']'])
                    || name.contains(char::is_whitespace)
                {
                    return complain(number, "not a valid group name");
                }
                children.push((group.clone(), name.to_owned(), number));
            }
        }
    }
    for (parent, child, line) in children {
        if !groups.has(&child) {
            return complain(
                line,
                format!("unknown group `{child}` below `{parent}`: the file has no [{child}]"),
            );
        }
        groups.nest(&parent, &child, line)?;
    }
    for (group, line, vars) in vars {
        if !groups.has(&group) {
            return complain(
                line,
                format!("variables of the unknown group `{group}`: the file has no [{group}]"),
            );
        }
        let group = groups.group(&group);
        if let Some((priority, line)) = vars.get("ansible_group_priority") {
            group.priority = priority.parse().or_else(|_| {
                complain(
                    *line,
                    format!("the priority `{priority}` is not a whole number"),
                )
            })?;
        }
        group.vars.extend(vars);
    }
    Ok(groups)
}

/// `[name]` or `[name:kind]`, with a comment perhaps.
fn header(line: &str) -> Option<(&str, Option<&str>)> {
    let (inside, after) = line.strip_prefix('[')?.split_once(']')?;
    let after = after.trim_start();
    let (name, kind) = inside
        .split_once(':')
        .map_or((inside, None), |(name, kind)| (name, Some(kind)));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_sound = !name.is_empty()
        && !name.contains(char::is_whitespace)
        && kind.is_none_or(|k| !k.is_empty() && k.chars().all(is_word))
        && (after.is_empty() || after.starts_with('#'));
    is_sound.then_some((name, kind))
}

fn host(groups: &mut Groups, group: &str, line: &str, number: usize) -> Result<(), Complaint> {
    let words =
        split_before_comment(line).or_else(|problem| complain(number, problem.to_string()))?;
    let Some((pattern, rest)) = words.split_first() else {
        return Ok(());
    };
    let named = ranges::expand(pattern).or_else(|problem| complain(number, problem.to_string()))?;
    let mut vars = Vars::new();
    for (i, word) in rest.iter().enumerate() {
        let Some((key, value)) = word.split_once('=') else {
            let problem = format!(
                "word {} is not a variable of the host: write KEY=VALUE, in quotes where there are blanks",
                i + 2
            );
            return complain(number, problem);
        };
        vars.insert(key.to_owned(), (literal(value), number));
    }
    groups.add(group, named, &vars, number)
}

/// A value: a literal of Python where it is one, else the text as it is.
fn literal(value: &str) -> String {
    let before = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    if let Some(quote @ ('\'' | '"')) = value.chars().next() {
        let mut text = String::new();
        let mut chars = value[1..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c @ ('\\' | '\'' | '"'))) => text.push(c),
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.extend(['\\', other]),
                    None => return value.to_owned(),
                },
                c if c == quote => {
                    return if before(&value[i + 2..]) {
                        text
                    } else {
                        value.to_owned()
                    };
                }
                c => text.push(c),
            }
        }
        return value.to_owned();
    }
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, rest) = value.split_at(digits);
    let is_number =
        !number.is_empty() && (!number.starts_with('0') || number.bytes().all(|b| b == b'0'));
    if is_number && before(rest) {
        number
            .parse::<u128>()
            .map_or_else(|_| number.to_owned(), |n| n.to_string())
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_literals_as_python_has_them() {
        assert_eq!(
            split_before_comment(r#"n1 a='b c' d="e \"f\"" g=h\ i # j"#),
            Ok(["n1", "a=b c", "d=e \"f\"", "g=h i"]
                .map(str::to_owned)
                .to_vec())
        );
        assert_eq!(split_before_comment("n1#x y"), Ok(vec!["n1".to_owned()]));
        assert!(split_before_comment("n1 a='b").is_err() && split_before_comment("n1 \\").is_err());
        for (value, text) in [
            ("22 # x", "22"),
            ("'a b' # x", "a b"),
            ("022", "022"),
            ("a # x", "a # x"),
            ("'a' b", "'a' b"),
            (r"'it\'s'", "it's"),
            ("", ""),
        ] {
            assert_eq!(literal(value), text, "{value}");
        }
    }
}
