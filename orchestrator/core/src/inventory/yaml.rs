//! Inventories in YAML (and JSON, which is YAML too).

use super::{
    error::{Complaint, complain},
    groups::{ALL, Groups, UNGROUPED, Vars},
    ranges,
};
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use saphyr_parser::{Event, Parser};

/// Maximum depth of nested groups.
const MAX_DEPTH: usize = 64;
/// Maximum depth of nested mappings and lists, of which a group has two and a host four. Values are read by functions that call themselves.
const MAX_NESTING: usize = 2 * MAX_DEPTH + 16;

/// Reads an inventory.
pub(super) fn read(text: &str) -> Result<Groups, Complaint> {
    check_nesting(text)?;
    let documents = MarkedYaml::load_from_str(text).or_else(|error| {
        complain(
            error.marker().line(),
            format!("cannot parse YAML: {}", error.info()),
        )
    })?;
    let mut groups = Groups::default();
    groups.group(ALL);
    groups.group(UNGROUPED);
    let Some(top) = documents.first() else {
        return complain(1, "it is empty");
    };
    for (name, value, line) in table(top, "the inventory")? {
        if name == "_meta" || name == "plugin" {
            return complain(
                line,
                format!("`{name}` is for Ansible's plugins, not for a file of groups"),
            );
        }
        group(&mut groups, &name, value, 0)?;
    }
    Ok(groups)
}

/// Refuses what would end the stack. What cannot be parsed is told by who reads it.
fn check_nesting(text: &str) -> Result<(), Complaint> {
    let mut depth = 0usize;
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return complain(
                span.start.line(),
                format!("values are nested more than {MAX_NESTING} levels deep"),
            );
        }
    }
    Ok(())
}

fn group(
    groups: &mut Groups,
    name: &str,
    value: &MarkedYaml<'_>,
    depth: usize,
) -> Result<(), Complaint> {
    if depth > MAX_DEPTH {
        return complain(
            line_of(value),
            format!("groups are nested more than {MAX_DEPTH} levels deep"),
        );
    }
    groups.group(name);
    for (key, value, line) in table(value, &format!("the group `{name}`"))? {
        match key.as_str() {
            "hosts" => {
                for (pattern, value, line) in table(value, &format!("`hosts` of `{name}`"))? {
                    let named = ranges::expand(&pattern)
                        .or_else(|problem| complain(line, problem.to_string()))?;
                    let vars = vars(value, &format!("the host `{pattern}`"))?;
                    groups.add(name, named, &vars, line)?;
                }
            }
            "vars" => {
                let vars = vars(value, &format!("`vars` of `{name}`"))?;
                let group = groups.group(name);
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
            "children" => {
                for (child, value, line) in table(value, &format!("`children` of `{name}`"))? {
                    groups.nest(name, &child, line)?;
                    group(groups, &child, value, depth + 1)?;
                }
            }
            other => {
                return complain(
                    line,
                    format!(
                        "unknown key `{other}` of the group `{name}`: expected `hosts`, `vars` or `children`"
                    ),
                );
            }
        }
    }
    Ok(())
}

fn vars(value: &MarkedYaml<'_>, what: &str) -> Result<Vars, Complaint> {
    let mut vars = Vars::new();
    for (key, value, line) in table(value, what)? {
        // structured values are for playbooks
        if let Some(text) = scalar(value) {
            vars.insert(key, (text, line));
        }
    }
    Ok(vars)
}

/// A mapping, in order; nothing is an empty one.
fn table<'a, 'b>(
    value: &'a MarkedYaml<'b>,
    what: &str,
) -> Result<Vec<(String, &'a MarkedYaml<'b>, usize)>, Complaint> {
    match &value.data {
        YamlData::Mapping(mapping) => mapping
            .iter()
            .map(|(key, value)| match scalar(key) {
                Some(name) => Ok((name, value, line_of(key))),
                None => complain(line_of(key), format!("{what} has a key that is not text")),
            })
            .collect(),
        YamlData::Value(Scalar::Null) => Ok(Vec::new()),
        _ => complain(
            line_of(value),
            format!("{what} is not a mapping: write `NAME:` on lines of their own"),
        ),
    }
}

fn scalar(value: &MarkedYaml<'_>) -> Option<String> {
    match &value.data {
        YamlData::Value(Scalar::String(text)) => Some(text.to_string()),
        YamlData::Value(Scalar::Integer(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::Boolean(truth)) => Some(truth.to_string()),
        YamlData::Tagged(_, inner) => scalar(inner),
        _ => None,
    }
}

fn line_of(value: &MarkedYaml<'_>) -> usize {
    value.span.start.line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_nested_too_deep_are_refused() {
        let lines = |line: &dyn Fn(usize) -> String| (0..5000).map(line).collect::<String>();
        for text in [
            "- ".repeat(20_000),
            "[".repeat(20_000),
            "{a: ".repeat(20_000),
            lines(&|i| format!("{}a:\n", " ".repeat(i))),
        ] {
            let problem = read(&text).expect_err("too deep").problem;
            assert!(
                problem.contains("nested more than") || problem.contains("cannot parse"),
                "{problem}"
            );
        }
    }
}
